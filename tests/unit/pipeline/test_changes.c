/* What is told of two configurations: names of what came, went and changed, and of what waits for a restart. */
#include "pipeline/changes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static coord_status go_on(void *state, coord_request *request)
{
    (void)state;
    (void)request;
    return COORD_NEXT;
}

static const coord_param PARAMS[] = {
    {COORD_PARAM(STRING, "words", "Words."), .fallback = "none"},
    {COORD_PARAM(SECRET, "key", "A key."), .fallback = "none"},
    {COORD_PARAM(DURATION, "age", "An age."), .fallback = "1s", .maximum = INT64_MAX},
    {COORD_PARAM(NUMBER, "part", "A part."), .fallback = "0.5", .flags = COORD_PARAM_NO_LIMITS},
    {COORD_PARAM(STRING_LIST, "names", "Names."), .fallback = "[]"},
    {COORD_PARAM(STRING_MAP, "map", "A map."), .fallback = "{}"},
    {COORD_PARAM(STRING, "kv_connector", "A connector."), .fallback = "kv-a", .inherits = "kv_connector"},
};
static const coord_param CONNECTOR_PARAMS[] = {{COORD_PARAM(STRING, "region", "A region."), .fallback = "here"}};

static coord_status create(const coord_config *config, void **state, coord_error *error)
{
    coord_connector *connector;

    *state = NULL;
    return coord_connector_open(config, "kv_connector", COORD_CONNECTOR_KV, &connector, error);
}

static const coord_step_type SPEAK = {.size = sizeof SPEAK,
                                      .name = "speak",
                                      .help = "Speaks.",
                                      COORD_STEP_PARAMS(PARAMS),
                                      .create = create,
                                      .execute = go_on};
static const coord_step_type CLOSING = {.size = sizeof CLOSING,
                                        .name = "closing",
                                        .help = "Answers.",
                                        .provides = (const char *const[]){COORD_THING_ANSWER, NULL},
                                        .execute = go_on};
static const coord_connector_type KV_A = {.size = sizeof KV_A,
                                          .kind = COORD_CONNECTOR_KV,
                                          .name = "kv-a",
                                          .help = "One.",
                                          COORD_STEP_PARAMS(CONNECTOR_PARAMS)};
static const coord_plugin_descriptor PLUGIN = {.size = sizeof PLUGIN,
                                               .magic = COORD_PLUGIN_MAGIC,
                                               .abi_major = COORD_ABI_MAJOR,
                                               .name = "words",
                                               .steps = (const coord_step_type *const[]){&SPEAK, &CLOSING, NULL},
                                               .connectors = (const coord_connector_type *const[]){&KV_A, NULL}};
static const coord_plugin_descriptor OTHER = {
    .size = sizeof OTHER, .magic = COORD_PLUGIN_MAGIC, .abi_major = COORD_ABI_MAJOR, .name = "other"};

static struct generation *build(const char *yaml, const coord_plugin_descriptor *more)
{
    char *environment[] = {"KEY=hush", NULL};
    struct settings_input input = {.path = "f.yaml", .environment = environment};
    struct complaints complaints = {0};
    struct registry registry;
    struct buffer reason = {0};
    struct arena arena = {0};
    struct generation *generation;
    struct settings *settings = settings_parse(&arena, coord_slice_of(yaml), &input, &complaints);

    assert_non_null(settings);
    registry_init(&registry);
    assert_int_equal(registry_add(&registry, "", &PLUGIN, &reason), COORD_OK);
    if (more)
        assert_int_equal(registry_add(&registry, "", more, &reason), COORD_OK);
    generation = generation_build(&arena, settings, &registry, &complaints);
    if (!generation || complaints.errors > 0)
        fail_msg("%s: %.*s", yaml, COORD_FMT(buffer_slice(&complaints.text)));
    complaints_release(&complaints);
    generation_take_registry(generation, &registry);
    return generation;
}

static void assert_list(const char *name, const char *which, const struct buffer *names, const char *wanted)
{
    if (!coord_slice_is(buffer_slice(names), wanted))
        fail_msg("%s: %s: \"%.*s\", not \"%s\"", name, which, COORD_FMT(buffer_slice(names)), wanted);
}

static void compare(const char *name, const char *old_yaml, const char *new_yaml, const char *added,
                    const char *removed, const char *changed)
{
    struct generation *old = build(old_yaml, NULL), *new = build(new_yaml, NULL);
    struct changes changes = {0};

    changes_find(&changes, old, new);
    assert_list(name, "added", &changes.added, added);
    assert_list(name, "removed", &changes.removed, removed);
    assert_list(name, "changed", &changes.changed, changed);
    changes_release(&changes);
    generation_free(old);
    generation_free(new);
}

#define G "gateway: {address: 'http://g'}\n"
#define STEPS G "pipeline:\n  steps:\n"
#define END "  - {type: closing}\n"

static void what_differs_is_named(void **state)
{
    static const struct {
        const char *name, *old, *new, *added, *removed, *changed;
    } rows[] = {
        {"nothing", STEPS END, STEPS END, "", "", ""},
        {"another way to write the same", STEPS "  - {type: speak, params: {age: 1500ms, part: 0.50, names: a}}\n" END,
         STEPS "  - {type: speak, params: {age: 1.5s, part: 0.5, names: [\"a\"]}}\n" END, "", "", ""},
        {"a default that is written down", STEPS END, STEPS END "server: {read_timeout: 30s}\n", "", "", ""},
        {"keys of sections", STEPS END,
         STEPS END "log_level: 3\nserver: {read_timeout: 31s}\nresponse: {heartbeat: 9s}\n", "", "",
         "log_level, server.read_timeout, response.heartbeat"},
        {"a key that waits for a restart is not changed", STEPS END, STEPS END "server: {listen_addr: ':1'}\n", "", "",
         ""},
        {"a gateway's keys", STEPS END,
         "gateway: {address: 'http://h', phase_header: [a, b]}\npipeline:\n  steps:\n" END, "", "",
         "gateway default: address, gateway default: phase_header"},
        {"a gateway that comes", STEPS END, STEPS END "gateways: {fast: {address: 'http://f'}}\n", "gateway fast", "",
         ""},
        {"a gateway that goes", STEPS END "gateways: {fast: {address: 'http://f'}}\n", STEPS END, "", "gateway fast",
         ""},
        {"a step that comes", STEPS END, STEPS "  - {type: speak, id: s}\n" END, "pipeline default: step s", "", ""},
        {"a step that goes", STEPS "  - {type: speak, id: s}\n" END, STEPS END, "", "pipeline default: step s", ""},
        {"a step's keys", STEPS "  - {type: speak, id: s}\n" END,
         STEPS "  - {type: speak, id: s, timeout: 1s, on_error: continue, when: {stream: true}}\n" END, "", "",
         "pipeline default: step s: when, pipeline default: step s: timeout, pipeline default: step s: on_error"},
        {"a step's type", STEPS "  - {type: speak, id: s, when: {stream: true}}\n" END,
         STEPS "  - {type: closing, id: s, when: {stream: true}}\n" END, "", "", "pipeline default: step s: type"},
        {"params of every type", STEPS "  - {type: speak}\n" END,
         STEPS "  - {type: speak, params: {words: w, age: 2s, part: 1, names: [n], map: {a: b}}}\n" END, "", "",
         "pipeline default: step speak: words, pipeline default: step speak: age, pipeline default: step speak: part, "
         "pipeline default: step speak: names, pipeline default: step speak: map"},
        {"a map's key", STEPS "  - {type: speak, params: {map: {a: b}}}\n" END,
         STEPS "  - {type: speak, params: {map: {c: b}}}\n" END, "", "", "pipeline default: step speak: map"},
        {"a secret, by its name only", STEPS "  - {type: speak, params: {key: hush}}\n" END,
         STEPS "  - {type: speak, params: {key: hash}}\n" END, "", "", "pipeline default: step speak: key"},
        {"a secret that only comes another way", STEPS "  - {type: speak, params: {key: hush}}\n" END,
         STEPS "  - {type: speak, params: {key: \"${KEY}\"}}\n" END, "", "", ""},
        {"what its connector takes", STEPS "  - {type: speak, params: {region: a}}\n" END,
         STEPS "  - {type: speak, params: {region: b}}\n" END, "", "", "pipeline default: step speak: region"},
        {"what is inherited", G "pipeline:\n  steps:\n" END, G "pipeline:\n  dp_size: 2\n  steps:\n" END, "", "",
         "pipeline default: dp_size"},
        {"the order of steps", STEPS "  - {type: speak, id: a}\n  - {type: speak, id: b}\n" END,
         STEPS "  - {type: speak, id: b}\n  - {type: speak, id: a}\n" END, "", "", "pipeline default: order of steps"},
        {"pipelines",
         G "pipelines:\n- {name: a, match: {models: x}, steps: [{type: closing}]}\n- {name: b, steps: [{type: "
           "closing}]}\n",
         G "pipelines:\n- {name: a, match: {models: y}, steps: [{type: closing}]}\n- {name: c, steps: [{type: "
           "closing}]}\n",
         "pipeline c", "pipeline b", "pipeline a: match"},
        {"the order of pipelines",
         G "pipelines:\n- {name: a, match: {models: x}, steps: [{type: closing}]}\n- {name: b, match: {models: y}, "
           "steps: [{type: closing}]}\n",
         G "pipelines:\n- {name: b, match: {models: y}, steps: [{type: closing}]}\n- {name: a, match: {models: x}, "
           "steps: [{type: closing}]}\n",
         "", "", "order of pipelines"},
        {"a pipeline's gateway",
         "gateways: {l: {address: 'http://l'}, r: {address: 'http://r'}}\n"
         "pipelines:\n- {name: a, gateway: l, steps: [{type: closing}]}\n",
         "gateways: {l: {address: 'http://l'}, r: {address: 'http://r'}}\n"
         "pipelines:\n- {name: a, gateway: r, steps: [{type: closing}]}\n",
         "", "", "pipeline a: gateway"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        compare(rows[i].name, rows[i].old, rows[i].new, rows[i].added, rows[i].removed, rows[i].changed);
}

static void plugins_come_and_go(void **state)
{
    struct generation *with = build(STEPS END, &OTHER), *without = build(STEPS END, NULL);
    struct changes changes = {0};

    (void)state;
    changes_find(&changes, without, with);
    changes_find(&changes, with, without);
    assert_list("plugins", "added", &changes.added, "plugin other");
    assert_list("plugins", "removed", &changes.removed, "plugin other");
    changes_release(&changes);
    generation_free(with);
    generation_free(without);
}

static void very_many_names_are_cut(void **state)
{
    struct buffer yaml = {0};
    struct generation *old = build(STEPS END, NULL), *new;
    struct changes changes = {0};

    (void)state;
    assert_true(buffer_append_text(&yaml, STEPS END "gateways:\n"));
    for (int i = 0; i < 63; i++)
        assert_true(buffer_printf(&yaml, "  %0200d: {address: 'http://g'}\n", i));
    new = build(yaml.data, NULL);
    changes_find(&changes, old, new);
    assert_in_range(changes.added.size, 4096, 4096 + 600);
    assert_memory_equal(changes.added.data + changes.added.size - strlen(", …"), ", …", strlen(", …"));
    changes_release(&changes);
    buffer_release(&yaml);
    generation_free(old);
    generation_free(new);
}

static void what_waits_for_a_restart_is_compared_with_the_start(void **state)
{
    struct generation *first = build(STEPS END "server: {listen_addr: ':1', tls_cipher_suites: [a]}\n", NULL);
    struct generation *second =
        build(STEPS END "server: {listen_addr: ':2', tls_cipher_suites: [b]}\nruntime: {reactors: 3}\n", NULL);
    struct fixed_keys fixed = {0};
    struct buffer names = {0};

    (void)state;
    assert_true(fixed_keys_keep(&fixed, first->settings));
    fixed_keys_compare(&fixed, first->settings, &names);
    assert_int_equal(names.size, 0);
    generation_free(first); /* the start's configuration is gone by then */
    fixed_keys_compare(&fixed, second->settings, &names);
    assert_list("fixed", "names", &names, "server.listen_addr, server.tls_cipher_suites, runtime.reactors");
    buffer_release(&names);
    fixed_keys_release(&fixed);
    generation_free(second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_differs_is_named),
        cmocka_unit_test(plugins_come_and_go),
        cmocka_unit_test(very_many_names_are_cut),
        cmocka_unit_test(what_waits_for_a_restart_is_compared_with_the_start),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
