/* What the registry takes of a descriptor, and that it takes all of it or nothing. */
#include "pipeline/registry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static coord_status execute(void *state, coord_request *request)
{
    (void)state, (void)request;
    return COORD_NEXT;
}

static const coord_param ONE[] = {
    {COORD_PARAM(INT, "count", "How many."), .fallback = "1", .minimum = 0, .maximum = 9}};
static const coord_step_type ALPHA = {
    .size = sizeof ALPHA, .name = "alpha", .help = "A.", COORD_STEP_PARAMS(ONE), .execute = execute};
static const coord_step_type BETA = {.size = sizeof BETA, .name = "beta", .help = "B.", .execute = execute};
static const coord_step_type EMPTY = {.size = sizeof EMPTY, .name = "empty", .help = "E."};
static const coord_connector_type KV = {.size = sizeof KV, .kind = COORD_CONNECTOR_KV, .name = "same", .help = "K."};
static const coord_connector_type EC = {.size = sizeof EC, .kind = COORD_CONNECTOR_EC, .name = "same", .help = "E."};
static const coord_connector_type NEWER = {.size = sizeof NEWER, .kind = 77, .name = "newer", .help = "N."};
static const coord_connector_type SHORT = {.size = 16, .kind = COORD_CONNECTOR_KV, .name = "short", .help = "S."};

static struct registry registry;
static struct buffer reason;

static int setup(void **state)
{
    (void)state;
    registry_init(&registry);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    registry_release(&registry);
    buffer_release(&reason);
    return 0;
}

static coord_status add(const char *file, const char *name, const coord_step_type *const *steps,
                        const coord_connector_type *const *connectors)
{
    coord_plugin_descriptor descriptor = {.size = sizeof descriptor,
                                          .magic = COORD_PLUGIN_MAGIC,
                                          .abi_major = COORD_ABI_MAJOR,
                                          .name = name,
                                          .version = "1",
                                          .steps = steps,
                                          .connectors = connectors};

    buffer_clear(&reason, SIZE_MAX);
    return registry_add(&registry, file, &descriptor, &reason);
}

static void assert_reason(const char *wanted)
{
    if (!coord_slice_is(buffer_slice(&reason), wanted))
        fail_msg("%.*s", COORD_FMT(buffer_slice(&reason)));
}

#define STEPS(...)                                                                                                     \
    (const coord_step_type *const[]) { __VA_ARGS__, NULL }
#define CONNECTORS(...)                                                                                                \
    (const coord_connector_type *const[]) { __VA_ARGS__, NULL }

static void types_are_found_by_name_and_kind(void **state)
{
    (void)state;
    assert_int_equal(add("one.so", "one", STEPS(&ALPHA, &BETA), CONNECTORS(&KV, &EC)), COORD_OK);
    assert_string_equal(registry_step(&registry, coord_slice_of("alpha"))->type.help, "A.");
    assert_int_equal(registry_step(&registry, coord_slice_of("alpha"))->params.count, 1);
    assert_string_equal(registry_step(&registry, coord_slice_of("beta"))->plugin->file, "one.so");
    assert_null(registry_step(&registry, coord_slice_of("alph")));
    assert_null(registry_step(&registry, coord_slice_of("alphas")));
    assert_string_equal(registry_connector(&registry, COORD_CONNECTOR_KV, coord_slice_of("same"))->type.help, "K.");
    assert_string_equal(registry_connector(&registry, COORD_CONNECTOR_EC, coord_slice_of("same"))->type.help, "E.");
    assert_string_equal(registry_nearest_step(&registry, coord_slice_of("alhpa")), "alpha");
    assert_null(registry_nearest_step(&registry, coord_slice_of("quite-different")));
}

static void types_are_listed_in_the_order_of_their_declaration(void **state)
{
    (void)state;
    assert_int_equal(add("one.so", "one", STEPS(&ALPHA, &BETA), CONNECTORS(&KV, &EC)), COORD_OK);
    assert_string_equal(registry.steps->type.name, "alpha");
    assert_string_equal(registry.steps->next->type.name, "beta");
    assert_int_equal(registry.connectors->type.kind, COORD_CONNECTOR_KV);
}

static void a_second_provider_is_refused_by_both_files(void **state)
{
    (void)state;
    assert_int_equal(add("one.so", "one", STEPS(&ALPHA), NULL), COORD_OK);
    assert_int_equal(add("two.so", "two", STEPS(&BETA, &ALPHA), NULL), COORD_INVALID);
    assert_reason("two.so: step type \"alpha\" is already provided by one.so: take one of the two files out of "
                  "plugins.load, or remove it");
    assert_int_equal(add("", "three", STEPS(&ALPHA), NULL), COORD_INVALID);
    assert_reason("linked-in plugin: step type \"alpha\" is already provided by one.so: take one of the two files out "
                  "of plugins.load, or remove it");
    assert_int_equal(add("four.so", "four", NULL, CONNECTORS(&KV)), COORD_OK);
    assert_int_equal(add("five.so", "five", NULL, CONNECTORS(&EC, &KV)), COORD_INVALID);
    assert_reason("five.so: connector \"same\" is already provided by four.so: take one of the two files out of "
                  "plugins.load, or remove it");
}

static void a_plugin_is_taken_whole_or_not_at_all(void **state)
{
    (void)state;
    assert_int_equal(add("one.so", "one", STEPS(&ALPHA, &EMPTY), CONNECTORS(&KV)), COORD_INVALID);
    assert_reason("one.so: step type \"empty\" has no execute; every step needs one");
    assert_null(registry.plugins);
    assert_null(registry_step(&registry, coord_slice_of("alpha")));
    assert_int_equal(add("one.so", "one", STEPS(&ALPHA), CONNECTORS(&KV, &NEWER)), COORD_INVALID);
    assert_reason("one.so: connector \"newer\" is of kind 77, which this core does not know; it needs a newer core");
    assert_null(registry_step(&registry, coord_slice_of("alpha")));
    assert_int_equal(add("one.so", "one", STEPS(&ALPHA), CONNECTORS(&SHORT)), COORD_INVALID);
    assert_int_equal(add("one.so", "one", STEPS(&ALPHA), CONNECTORS(&KV)), COORD_OK);
}

static void one_plugin_may_not_bring_a_type_twice(void **state)
{
    (void)state;
    assert_int_equal(add("one.so", "one", STEPS(&ALPHA, &BETA, &ALPHA), NULL), COORD_INVALID);
    assert_reason("one.so: it brings step type \"alpha\" twice; remove one of the two");
    assert_int_equal(add("one.so", "one", NULL, CONNECTORS(&KV, &EC, &KV)), COORD_INVALID);
    assert_reason("one.so: it brings connector \"same\" twice; remove one of the two");
}

static void names_are_checked(void **state)
{
    static const char *const NAMES[] = {"", "A", "a_b", "1a", "-a", "a b", "ä"};
    coord_step_type type = ALPHA;

    (void)state;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        type.name = NAMES[i];
        assert_int_equal(add("one.so", "one", STEPS(&type), NULL), COORD_INVALID);
        assert_int_equal(add("one.so", NAMES[i], STEPS(&ALPHA), NULL), COORD_INVALID);
    }
    type.name = NULL;
    assert_int_equal(add("one.so", "one", STEPS(&type), NULL), COORD_INVALID);
    assert_int_equal(add("one.so", NULL, STEPS(&ALPHA), NULL), COORD_INVALID);
    assert_int_equal(add("one.so", "a-2", STEPS(&ALPHA), NULL), COORD_OK);
}

static void members_that_an_older_type_lacks_are_null(void **state)
{
    coord_step_type older = BETA;

    (void)state;
    older.size = offsetof(coord_step_type, destroy);
    older.destroy = (void (*)(void *))(uintptr_t)1; /* beyond its size: not read */
    older.start = (coord_status(*)(void *, coord_error *))(uintptr_t)1;
    assert_int_equal(add("one.so", "one", STEPS(&older), NULL), COORD_OK);
    assert_null(registry_step(&registry, coord_slice_of("beta"))->type.destroy);
    assert_null(registry_step(&registry, coord_slice_of("beta"))->type.start);
    older.size = offsetof(coord_step_type, execute);
    assert_int_equal(add("two.so", "two", STEPS(&older), NULL), COORD_INVALID);
}

static void a_plugin_without_types_is_a_plugin(void **state)
{
    (void)state;
    assert_int_equal(add("one.so", "one", NULL, NULL), COORD_OK);
    assert_string_equal(registry.plugins->name, "one");
    assert_string_equal(registry.plugins->licence, "");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(types_are_found_by_name_and_kind),           TEST(types_are_listed_in_the_order_of_their_declaration),
        TEST(a_second_provider_is_refused_by_both_files), TEST(a_plugin_is_taken_whole_or_not_at_all),
        TEST(one_plugin_may_not_bring_a_type_twice),      TEST(names_are_checked),
        TEST(members_that_an_older_type_lacks_are_null),  TEST(a_plugin_without_types_is_a_plugin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
