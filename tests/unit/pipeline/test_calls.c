/* What the setters of a call keep, and when it is too late for them; through the test kit, so through the public ABI. */
#include <coordinator/answer.h>
#include <coordinator/call.h>
#include <coordinator/testkit.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdatomic.h>
#include <stdio.h>

static const char CHAT[] = "/v1/chat/completions";

static atomic_int wrong; /* statuses that were not as they should be */

static void expect(coord_status status, coord_status wanted)
{
    if (status != wanted)
        atomic_fetch_add(&wrong, 1);
}

static coord_status done(coord_request *request)
{
    return coord_answer(request, 200, "text/plain", coord_slice_of("done"), NULL);
}

/* ---- Acts of the step ---- */

static coord_status set_late(coord_request *request, coord_call *call)
{
    expect(coord_call_set_text(call, coord_slice_of("early"), "text/plain"), COORD_OK);
    expect(coord_call_set_timeout(call, -1), COORD_INVALID);
    expect(coord_call_set_limit(call, 0), COORD_INVALID);
    expect(coord_call_run(call), COORD_OK);
    expect(coord_call_set_method(call, "GET"), COORD_STATE);
    expect(coord_call_set_path(call, coord_slice_of("/late")), COORD_STATE);
    expect(coord_call_set_header(call, "x-late", coord_slice_of("1")), COORD_STATE);
    expect(coord_call_remove_header(call, "x-late"), COORD_STATE);
    expect(coord_call_set_body(call, coord_request_body(request)), COORD_STATE);
    expect(coord_call_set_text(call, coord_slice_of("late"), "text/plain"), COORD_STATE);
    expect(coord_call_set_timeout(call, 1), COORD_STATE);
    expect(coord_call_set_limit(call, 1), COORD_STATE);
    expect(coord_call_keep_query(call), COORD_STATE);
    expect(coord_call_allow_repeat(call), COORD_STATE);
    expect(coord_call_keep_failure(call), COORD_STATE);
    expect(coord_call_capture_headers(call), COORD_STATE);
    return done(request);
}

static coord_status set_meanwhile(coord_request *request, coord_call *call)
{
    coord_slice piece;

    expect(coord_call_set_body(call, coord_request_body(request)), COORD_OK);
    expect(coord_call_head(call), COORD_OK);
    expect(coord_call_set_limit(call, 1), COORD_STATE);
    expect(coord_call_keep_failure(call), COORD_STATE);
    while (coord_call_read(call, &piece) == COORD_OK)
        ;
    return COORD_FAIL; /* the cut answer has failed the request, as no failure was to be kept */
}

static coord_status replace_body(coord_request *request, coord_call *call)
{
    expect(coord_call_set_body(call, coord_request_body(request)), COORD_OK);
    expect(coord_call_set_text(call, coord_slice_of("a text"), "text/plain"), COORD_OK);
    expect(coord_call_run(call), COORD_OK);
    return done(request);
}

static coord_status two_queries(coord_request *request, coord_call *call)
{
    expect(coord_call_set_path(call, coord_slice_of("/own?mine=1")), COORD_OK);
    expect(coord_call_keep_query(call), COORD_OK);
    expect(coord_call_run(call), COORD_OK);
    return done(request);
}

static coord_status cancel_first(coord_request *request, coord_call *call)
{
    coord_call_cancel(call);
    expect(coord_call_run(call), COORD_STATE);
    expect(coord_call_head(call), COORD_STATE);
    expect(coord_calls_run(&call, 1, 1), COORD_STATE);
    return done(request);
}

static const struct {
    const char *name;
    coord_status (*act)(coord_request *request, coord_call *call);
} ACTS[] = {
    {"set_late", set_late},       {"set_meanwhile", set_meanwhile}, {"replace_body", replace_body},
    {"two_queries", two_queries}, {"cancel_first", cancel_first},
};

static coord_status execute(void *state, coord_request *request)
{
    coord_call *call = coord_call_gateway_new(request, "decode", COORD_PHASE_DECODE);
    coord_slice name;

    (void)state;
    if (!call || coord_request_header(request, "x-act", &name) != COORD_OK)
        return COORD_FAIL;
    for (size_t i = 0; i < sizeof ACTS / sizeof *ACTS; i++)
        if (coord_slice_is(name, ACTS[i].name))
            return ACTS[i].act(request, call);
    return COORD_FAIL;
}

static const coord_step_type CALLER = {.size = sizeof CALLER,
                                       .name = "caller",
                                       .help = "Calls as it is told.",
                                       .provides = (const char *const[]){COORD_THING_ANSWER, NULL},
                                       .execute = execute};

COORD_PLUGIN(.name = "caller", .version = "1", .licence = "Apache-2.0",
             .steps = (const coord_step_type *const[]){&CALLER, NULL})

/* ---- What the tests share ---- */

static coord_kit *kit;

static int setup(void **state)
{
    (void)state;
    kit =
        coord_kit_start(&(coord_kit_options){.size = sizeof(coord_kit_options),
                                             .yaml = "pipeline: {steps: [{type: caller}]}\n",
                                             .plugins = (const coord_plugin_descriptor *const[]){&coord_plugin, NULL}});
    if (!kit)
        fail_msg("%s", coord_kit_problem());
    atomic_store(&wrong, 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return coord_kit_stop(kit) ? 0 : -1;
}

static int32_t perform(const char *act, const char *query)
{
    char target[64];
    const coord_kit_message *answer;

    snprintf(target, sizeof target, "%s%s", CHAT, query);
    answer = coord_kit_ask(kit, &(coord_kit_request){.target = target,
                                                     .body = COORD_SLICE("{\"model\":\"m\"}"),
                                                     .headers = (const char *const[]){"X-Act", act, NULL}});
    assert_non_null(answer);
    return answer->status;
}

/* ---- The tests ---- */

static void a_setter_after_the_run_changes_nothing_and_says_so(void **state)
{
    (void)state;
    assert_int_equal(perform("set_late", ""), 200);
    assert_int_equal(atomic_load(&wrong), 0);
    assert_true(coord_slice_is(coord_kit_leg(kit, "decode", 0)->body, "early"));
}

static void a_setter_during_the_run_changes_nothing(void **state)
{
    static const coord_kit_piece pieces[] = {{.bytes = COORD_SLICE("one ")}};

    (void)state;
    coord_kit_on(kit, &(coord_kit_rule){.pieces = pieces, .piece_count = 1, .ending = COORD_KIT_CUT});
    assert_int_equal(perform("set_meanwhile", ""), 502);
    assert_int_equal(atomic_load(&wrong), 0);
}

static void a_text_takes_the_place_of_a_document(void **state)
{
    const coord_kit_message *leg;

    (void)state;
    assert_int_equal(perform("replace_body", ""), 200);
    assert_int_equal(atomic_load(&wrong), 0);
    leg = coord_kit_leg(kit, "decode", 0);
    assert_true(coord_slice_is(leg->body, "a text"));
    assert_true(coord_kit_header_is(leg, "content-type", "text/plain"));
}

static void the_clients_query_goes_on_from_the_steps(void **state)
{
    (void)state;
    assert_int_equal(perform("two_queries", "?beta=true"), 200);
    assert_int_equal(perform("two_queries", ""), 200);
    assert_int_equal(atomic_load(&wrong), 0);
    assert_true(coord_slice_is(coord_kit_leg(kit, "decode", 0)->target, "/own?mine=1&beta=true"));
    assert_true(coord_slice_is(coord_kit_leg(kit, "decode", 1)->target, "/own?mine=1"));
}

static void a_call_that_was_cancelled_does_not_begin(void **state)
{
    (void)state;
    assert_int_equal(perform("cancel_first", ""), 200);
    assert_int_equal(atomic_load(&wrong), 0);
    assert_int_equal(coord_kit_leg_count(kit, NULL), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_setter_after_the_run_changes_nothing_and_says_so),
        TEST(a_setter_during_the_run_changes_nothing),
        TEST(a_text_takes_the_place_of_a_document),
        TEST(the_clients_query_goes_on_from_the_steps),
        TEST(a_call_that_was_cancelled_does_not_begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
