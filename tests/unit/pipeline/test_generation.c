/* Building a pipeline from a configuration: what is wrong is said with its position, and what was made is unmade once. */
#include "pipeline/generation.h"

#include <coordinator/call.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- A plugin ---- */

static struct {
    int created, destroyed, started, stopped, connectors_created, connectors_destroyed;
    char words[8][32]; /* what each created step was given */
    char connector[32], region[32];
    uint32_t timeout_upstreams;
} seen;

struct made {
    coord_connector *kv;
    coord_upstream *upstream;
};

static const coord_param STEP_PARAMS[] = {
    {COORD_PARAM(STRING, "words", "Words."), .fallback = "none"},
    {COORD_PARAM(STRING, "kv_connector", "A connector."), .fallback = "kv-plain", .inherits = "kv_connector"},
    {COORD_PARAM(STRING, "named_by", "The param that it says names its connector."), .fallback = "kv_connector"},
    {COORD_PARAM(URL, "address", "An upstream.")},
    {COORD_PARAM(BOOL, "fail", "Whether create fails."), .fallback = "false"},
    {COORD_PARAM(BOOL, "fail_start", "Whether start fails."), .fallback = "false"},
};

static void copy(char *out, size_t room, coord_slice text)
{
    size_t size = text.size < room - 1 ? text.size : room - 1;

    memcpy(out, text.data, size);
    out[size] = '\0';
}

static coord_status step_create(const coord_config *config, void **state, coord_error *error)
{
    struct made *made = calloc(1, sizeof *made);
    coord_slice words = {0}, named_by = {0};
    bool wanted = false;
    coord_status opened;

    assert_non_null(made);
    assert_int_equal(coord_config_string(config, "words", &words), COORD_OK);
    copy(seen.words[seen.created++ % 8], sizeof seen.words[0], words);
    assert_int_equal(coord_config_string(config, "named_by", &named_by), COORD_OK);
    if (coord_connector_open(config, named_by.data, COORD_CONNECTOR_KV, &made->kv, error) != COORD_OK)
        goto fail;
    copy(seen.connector, sizeof seen.connector, coord_slice_of(coord_connector_name(made->kv)));
    opened = coord_upstream_open(config, "address", NULL, &made->upstream, error);
    if (opened != COORD_OK && opened != COORD_ABSENT)
        goto fail;
    assert_int_equal(coord_config_bool(config, "fail", &wanted), COORD_OK);
    if (wanted && coord_config_is_set(config, "words")) {
        coord_error_set(error, "words are too many");
        goto fail;
    }
    if (wanted)
        goto fail;
    assert_int_equal(coord_config_bool(config, "fail_start", &wanted), COORD_OK);
    made->upstream = wanted ? (coord_upstream *)made : made->upstream; /* read by start */
    *state = made;
    return COORD_OK;
fail:
    free(made);
    return COORD_FAIL;
}

static void step_destroy(void *state)
{
    assert_non_null(state); /* never for one that was not created */
    seen.destroyed++;
    free(state);
}

static coord_status step_start(void *state, coord_error *error)
{
    struct made *made = state;

    if ((void *)made->upstream == (void *)made)
        return coord_error_set(error, "the engine is cold");
    seen.started++;
    return COORD_OK;
}

static void step_stop(void *state)
{
    assert_non_null(state);
    seen.stopped++;
}

static coord_status step_execute(void *state, coord_request *request)
{
    (void)state, (void)request;
    return COORD_NEXT;
}

static const coord_step_type STEP = {
    .size = sizeof STEP,
    .name = "speak",
    .help = "Speaks.",
    COORD_STEP_PARAMS(STEP_PARAMS),
    .create = step_create,
    .execute = step_execute,
    .destroy = step_destroy,
    .start = step_start,
    .stop = step_stop,
};

static coord_status closing_create(const coord_config *config, void **state, coord_error *error)
{
    (void)config, (void)error;
    *state = NULL;
    return COORD_OK;
}

static const coord_step_type CLOSING = {
    .size = sizeof CLOSING,
    .name = "closing",
    .help = "Answers.",
    .provides = (const char *const[]){COORD_THING_ANSWER, NULL},
    .create = closing_create,
    .execute = step_execute,
};

static const coord_param REGION_PARAMS[] = {
    {COORD_PARAM(STRING, "region", "A region."), .flags = COORD_PARAM_REQUIRED}};

static coord_status connector_create(const coord_config *config, void **state, coord_error *error)
{
    coord_slice region = {0};

    (void)error;
    seen.connectors_created++;
    if (coord_config_string(config, "region", &region) == COORD_OK)
        copy(seen.region, sizeof seen.region, region);
    *state = NULL;
    return COORD_OK;
}

static void connector_destroy(void *state)
{
    (void)state;
    seen.connectors_destroyed++;
}

static const coord_connector_type PLAIN = {.size = sizeof PLAIN,
                                           .kind = COORD_CONNECTOR_KV,
                                           .name = "kv-plain",
                                           .help = "Plain.",
                                           .create = connector_create,
                                           .destroy = connector_destroy};
static const coord_connector_type REGIONAL = {.size = sizeof REGIONAL,
                                              .kind = COORD_CONNECTOR_KV,
                                              .name = "kv-regional",
                                              .help = "Regional.",
                                              .params = REGION_PARAMS,
                                              .param_count = 1,
                                              .param_size = sizeof(coord_param),
                                              .create = connector_create,
                                              .destroy = connector_destroy};
static const coord_connector_type ENCODER = {
    .size = sizeof ENCODER, .kind = COORD_CONNECTOR_EC, .name = "ec-plain", .help = "For encoders."};

static const coord_plugin_descriptor PLUGIN = {
    .size = sizeof PLUGIN,
    .magic = COORD_PLUGIN_MAGIC,
    .abi_major = COORD_ABI_MAJOR,
    .name = "speak",
    .steps = (const coord_step_type *const[]){&STEP, &CLOSING, NULL},
    .connectors = (const coord_connector_type *const[]){&PLAIN, &REGIONAL, &ENCODER, NULL}};

/* ---- What the tests share ---- */

static struct registry registry;
static struct complaints complaints;

static int setup(void **state)
{
    struct buffer reason = {0};

    (void)state;
    memset(&seen, 0, sizeof seen);
    registry_init(&registry);
    assert_int_equal(registry_add(&registry, "", &PLUGIN, &reason), COORD_OK);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    registry_release(&registry);
    complaints_release(&complaints);
    complaints = (struct complaints){0};
    return 0;
}

static struct generation *build_text(const char *yaml)
{
    char *environment[] = {NULL};
    struct settings_input input = {.path = "f.yaml", .environment = environment};
    struct arena arena = {0};
    struct settings *settings = settings_parse(&arena, coord_slice_of(yaml), &input, &complaints);

    assert_non_null(settings);
    return generation_build(&arena, settings, &registry, &complaints);
}

#define GATEWAY "gateway: {address: \"http://gateway:80\"}\n"

/* `pipeline`, a mapping whose last key is `steps`, with the step that every pipeline ends with. */
static struct generation *build(const char *pipeline)
{
    static char yaml[4096];

    snprintf(yaml, sizeof yaml, GATEWAY "pipeline:\n%s  - {type: closing}\n", pipeline);
    return build_text(yaml);
}

static void assert_said(const char *wanted)
{
    assert_true(buffer_append(&complaints.text, "", 1));
    complaints.text.size--;
    if (!strstr(complaints.text.data, wanted))
        fail_msg("\"%s\" is not in: %s", wanted, complaints.text.data);
}

static void assert_balanced(void)
{
    assert_int_equal(seen.connectors_created, seen.connectors_destroyed);
    assert_int_equal(seen.started, seen.stopped);
}

/* ---- Tests ---- */

static void instances_of_one_type_have_values_of_their_own(void **state)
{
    struct generation *generation = build("  steps:\n  - {type: speak, id: a, params: {words: one}}\n  - {type: speak, "
                                          "id: b, params: {words: two}}\n  - {type: speak, id: c}\n");

    (void)state;
    assert_non_null(generation);
    assert_int_equal(generation->step_count, 4);
    assert_string_equal(seen.words[0], "one");
    assert_string_equal(seen.words[1], "two");
    assert_string_equal(seen.words[2], "none");
    assert_string_equal(generation->steps[1].id, "b");
    assert_true(generation->steps[0].state != generation->steps[1].state);
    assert_true(generation_start(generation, &complaints));
    generation_free(generation);
    assert_int_equal(seen.destroyed, 3);
    assert_int_equal(seen.started, 3);
    assert_balanced();
}

static void a_connector_is_set_inherited_or_the_default(void **state)
{
    static const struct {
        const char *pipeline, *name;
    } ROWS[] = {
        {"  kv_connector: kv-regional\n  steps:\n  - {type: speak, params: {kv_connector: kv-plain}}\n", "kv-plain"},
        {"  kv_connector: kv-plain\n  steps:\n  - {type: speak, params: {kv_connector: kv-regional, region: north}}\n",
         "kv-regional"},
        {"  kv_connector: kv-regional\n  steps:\n  - {type: speak, params: {region: north}}\n", "kv-regional"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        struct generation *generation = build(ROWS[i].pipeline);

        if (!generation)
            fail_msg("%.*s", COORD_FMT(buffer_slice(&complaints.text)));
        assert_string_equal(seen.connector, ROWS[i].name);
        generation_free(generation);
    }
    assert_string_equal(seen.region, "north");
    assert_balanced();
}

static void a_connectors_params_are_the_steps_and_checked_there(void **state)
{
    (void)state;
    assert_null(build("  kv_connector: kv-regional\n  steps:\n  - {type: speak, params: {words: x}}\n"));
    assert_said("f.yaml:5:");
    assert_said("region");
    assert_null(build("  kv_connector: kv-plain\n  steps:\n  - {type: speak, params: {region: north}}\n"));
    assert_said("region");
    assert_balanced();
}

static void an_unknown_connector_lists_those_that_are_loaded(void **state)
{
    (void)state;
    assert_null(build("  steps:\n  - {type: speak, params: {kv_connector: kv-other}}\n"));
    assert_said("step speak: unknown kv_connector \"kv-other\"; loaded are: kv-plain, kv-regional");
    assert_balanced();
}

static void a_param_of_another_name_names_no_connector(void **state)
{
    (void)state;
    assert_null(build("  steps:\n  - {type: speak, params: {named_by: words, words: kv-plain}}\n"));
    assert_said("words is no param that names a connector of kind 1; call it kv_connector or ec_connector");
    assert_null(build("  steps:\n  - {type: speak, params: {named_by: ec_connector}}\n"));
    assert_said("ec_connector is no param that names a connector of kind 1");
    assert_balanced();
}

static void an_unknown_connector_is_reported_where_its_name_stands(void **state)
{
    (void)state;
    assert_null(build("  kv_connector: kv-plian\n  steps:\n  - {type: speak}\n"));
    assert_said("f.yaml:3:17: step speak: unknown kv_connector \"kv-plian\": did you mean \"kv-plain\"?");
    assert_null(build("  steps:\n  - {type: speak, params: {kv_connector: kv-plian}}\n"));
    assert_said("f.yaml:4:42: step speak: unknown kv_connector \"kv-plian\"");
    assert_balanced();
}

static void a_connector_of_the_other_kind_is_unknown(void **state)
{
    (void)state;
    assert_null(build("  steps:\n  - {type: speak, params: {kv_connector: ec-plain}}\n"));
    assert_said("unknown kv_connector \"ec-plain\"");
}

static void every_complaint_comes_with_its_position(void **state)
{
    (void)state;
    assert_null(build(
        "  steps:\n  - {type: speek}\n  - {type: speak, id: a, params: {wrods: x}}\n  - {type: speak, id: b, params: "
        "{words: x, fail: true}}\n  - {type: speak, id: c, params: {fail: true}}\n  - {type: async-broker}\n"));
    assert_said("f.yaml:4:12: unknown step type \"speek\": did you mean \"speak\"?");
    assert_said("f.yaml:5:");
    assert_said("wrods");
    assert_said("f.yaml:6:5: step b: words are too many");
    assert_said("f.yaml:7:5: step c: create failed without saying why");
    assert_said("f.yaml:8:12: ");
    assert_said("docs/differences-from-llm-d.md");
    assert_int_equal(complaints.errors, 5);
    assert_balanced();
}

static void a_step_that_was_not_created_is_not_destroyed(void **state)
{
    (void)state;
    assert_null(build("  steps:\n  - {type: speak, id: good}\n  - {type: speak, id: bad, params: {fail: maybe}}\n  - "
                      "{type: speak, id: worse, params: {fail: true}}\n"));
    assert_int_equal(seen.created, 2);
    assert_int_equal(seen.destroyed, 1);
    assert_balanced();
}

static void an_empty_pipeline_and_a_missing_gateway_are_errors(void **state)
{
    (void)state;
    assert_null(build_text(GATEWAY "pipeline: {steps: []}\n"));
    assert_said("pipeline.steps: none is there");
    assert_null(build_text("pipeline:\n  steps:\n  - {type: speak}\n"));
    assert_said("gateway.address is missing");
    assert_balanced();
}

static void too_many_steps_are_an_error(void **state)
{
    struct buffer yaml = {0};

    (void)state;
    assert_true(buffer_append_text(&yaml, "  steps:\n"));
    for (int i = 0; i < MAX_STEPS; i++)
        assert_true(buffer_printf(&yaml, "  - {type: speak, id: s%d}\n", i));
    assert_true(buffer_append(&yaml, "", 1));
    assert_null(build(yaml.data));
    assert_said("pipeline.steps: 65 entries; at most 64 are allowed");
    assert_int_equal(seen.created, 0);
    buffer_release(&yaml);
}

static void an_upstream_of_a_steps_own_is_opened_once_for_each_instance(void **state)
{
    struct generation *generation = build(
        "  steps:\n  - {type: speak, id: a, params: {address: \"http://One:80/base/\"}}\n  - {type: speak, id: b}\n");

    (void)state;
    assert_non_null(generation);
    assert_int_equal(generation->upstream_count, 2); /* the gateway's and a's */
    assert_true(coord_slice_is(generation->upstreams->options.url, "http://one/base") ||
                coord_slice_is(generation->upstreams->options.url, "http://one:80/base"));
    assert_true(generation->upstreams->options.idle_age_ns < 4000000000);
    generation_free(generation);
}

static void a_start_that_fails_stops_those_that_started(void **state)
{
    struct generation *generation = build("  steps:\n  - {type: speak, id: a}\n  - {type: speak, id: b, params: "
                                          "{fail_start: true}}\n  - {type: speak, id: c}\n");

    (void)state;
    assert_non_null(generation);
    assert_false(generation_start(generation, &complaints));
    assert_said("step b: the engine is cold");
    assert_int_equal(seen.started, 1);
    assert_int_equal(seen.stopped, 1);
    generation_free(generation);
    assert_int_equal(seen.destroyed, 3);
    assert_balanced();
}

static void equal_texts_are_interned_as_one(void **state)
{
    const char *first = intern(coord_slice_of("some step"));

    (void)state;
    assert_string_equal(first, "some step");
    assert_ptr_equal(first, intern(coord_slice_of("some step")));
    assert_ptr_not_equal(first, intern(coord_slice_of("some other")));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(instances_of_one_type_have_values_of_their_own),
        TEST(a_connector_is_set_inherited_or_the_default),
        TEST(a_connectors_params_are_the_steps_and_checked_there),
        TEST(an_unknown_connector_lists_those_that_are_loaded),
        TEST(a_param_of_another_name_names_no_connector),
        TEST(an_unknown_connector_is_reported_where_its_name_stands),
        TEST(a_connector_of_the_other_kind_is_unknown),
        TEST(every_complaint_comes_with_its_position),
        TEST(a_step_that_was_not_created_is_not_destroyed),
        TEST(an_empty_pipeline_and_a_missing_gateway_are_errors),
        TEST(too_many_steps_are_an_error),
        TEST(an_upstream_of_a_steps_own_is_opened_once_for_each_instance),
        TEST(a_start_that_fails_stops_those_that_started),
        TEST(equal_texts_are_interned_as_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
