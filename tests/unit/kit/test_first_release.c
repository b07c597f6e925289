/* A plugin that was built by the headers of the first release is loaded and runs: its params, its step, its writer and its slot. */
#include <coordinator/testkit.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const char *const files[] = {COORD_TEST_PLUGINS "/first-release.so", NULL};

static coord_kit *start(const char *yaml)
{
    return coord_kit_start(
        &(coord_kit_options){.size = sizeof(coord_kit_options), .yaml = yaml, .plugin_files = files});
}

static void it_is_loaded_and_runs(void **state)
{
    coord_kit *kit =
        start("pipeline: {steps: [{type: first, params: {greeting: \"hi \", copies: 2}}, {type: decode}]}");
    const coord_kit_message *answer;

    (void)state;
    if (!kit)
        fail_msg("%s", coord_kit_problem());
    coord_kit_on(kit, &(coord_kit_rule){.body = COORD_SLICE("{\"a\": 1}")});
    answer = coord_kit_post(kit, "/v1/chat/completions", "{\"model\":\"m\"}");
    assert_non_null(answer);
    assert_int_equal(answer->status, 200);
    assert_true(coord_slice_is(answer->body, "hi hi {\"a\": 1}"));
    assert_true(coord_kit_logged(kit, "first of the first release was here"));
    assert_true(coord_kit_logged(kit, "outcome="));
    assert_int_equal(coord_kit_slots_gone(kit, "first-greeter"), 1);
    answer = coord_kit_post(kit, "/v1/chat/completions", "{}");
    assert_int_equal(answer->status, 400);
    assert_non_null(memmem(answer->body.data, answer->body.size, "a model is wanted", 17));
    assert_true(coord_kit_stop(kit));
}

static void its_params_are_checked_by_its_own_table(void **state)
{
    (void)state;
    assert_null(start("pipeline: {steps: [{type: first, params: {copies: 10}}, {type: decode}]}"));
    assert_non_null(strstr(coord_kit_problem(), "copies"));
    assert_null(start("pipeline: {steps: [{type: first, params: {greetin: x}}, {type: decode}]}"));
    assert_non_null(strstr(coord_kit_problem(), "greeting"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_loaded_and_runs),
        cmocka_unit_test(its_params_are_checked_by_its_own_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
