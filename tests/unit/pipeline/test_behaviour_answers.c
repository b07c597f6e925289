/*
 * What becomes of a request when a step answers, answers wrongly or fails: one answer a request, its framing the core's.
 */
#include "behaviour_step.h"

#include <coordinator/answer.h>
#include <coordinator/call.h>
#include <coordinator/testkit.h>

#include <string.h>

/* ---- Acts ---- */

static coord_status say_done(struct act_state *state, coord_request *request)
{
    (void)state, (void)request;
    return COORD_DONE;
}

static coord_status answer_then_fail(struct act_state *state, coord_request *request)
{
    (void)state;
    answer(request, "first");
    return coord_fail(request, 503, NULL, "too late to fail");
}

static coord_status answer_then_error(struct act_state *state, coord_request *request)
{
    (void)state;
    answer(request, "first");
    return COORD_LIMIT;
}

static coord_status answer_twice(struct act_state *state, coord_request *request)
{
    (void)state;
    answer(request, "first");
    atomic_store(&last_status, answer(request, "second"));
    return COORD_DONE;
}

static coord_status answer_then_next(struct act_state *state, coord_request *request)
{
    (void)state;
    answer(request, "first");
    return COORD_NEXT;
}

static coord_status negative(struct act_state *state, coord_request *request)
{
    (void)state, (void)request;
    return COORD_MISTYPED;
}

static coord_status unknown(struct act_state *state, coord_request *request)
{
    (void)state, (void)request;
    return 77;
}

static coord_status cancelled_for_nothing(struct act_state *state, coord_request *request)
{
    (void)state, (void)request;
    return COORD_CANCELLED;
}

static coord_status begin_without_end(struct act_state *state, coord_request *request)
{
    (void)state;
    if (coord_answer_begin(request, 200, "text/plain", NULL) != COORD_OK ||
        coord_answer_write(request, coord_slice_of("some")) != COORD_OK)
        return COORD_FAIL;
    return COORD_DONE;
}

static coord_status begin_then_proxy(struct act_state *state, coord_request *request)
{
    coord_call *call = coord_call_gateway_new(request, "decode", COORD_PHASE_DECODE);

    (void)state;
    if (!call || coord_answer_begin(request, 200, "text/plain", NULL) != COORD_OK ||
        coord_answer_write(request, coord_slice_of("mine")) != COORD_OK)
        return COORD_FAIL;
    atomic_store(&last_status, coord_call_proxy(call));
    return coord_answer_end(request);
}

static coord_status fail_fully(struct act_state *state, coord_request *request)
{
    (void)state;
    return coord_fail_with(request,
                           &(coord_failure){.size = sizeof(coord_failure),
                                            .status = 429,
                                            .code = "quota",
                                            .type = "billing",
                                            .message = "no \"more\" today",
                                            .param = "/model",
                                            .headers = (const char *const[]){"Retry-After", "7", "Content-Length", "5",
                                                                             "X-Team", "a", NULL},
                                            .cause = "the quota service said no"});
}

static coord_status fail_at_length(struct act_state *state, coord_request *request)
{
    (void)state;
    return coord_fail(request, 400, NULL, "at length: %05000d", 7);
}

static coord_status fail_at_length_with_headers(struct act_state *state, coord_request *request)
{
    static char text[5000];

    (void)state;
    memset(text, 'y', sizeof text - 1);
    return coord_fail_with(request,
                           &(coord_failure){.size = sizeof(coord_failure),
                                            .status = 409,
                                            .message = text,
                                            .headers = (const char *const[]){"X Bad", "1", "X-Good", "2", NULL}});
}

static coord_status bad_headers(struct act_state *state, coord_request *request)
{
    (void)state;
    atomic_store(&last_status, coord_answer(request, 200, "text/plain", coord_slice_of("x"),
                                            (const char *const[]){"X-A", "b\r\nc", NULL}));
    return coord_answer(request, 200, "text/plain", coord_slice_of("good"),
                        (const char *const[]){"Content-Length", "1", "X-Request-Id", "mine", "X-A", "b", NULL});
}

const struct act acts[] = {
    {"say_done", say_done},
    {"answer_then_fail", answer_then_fail},
    {"answer_then_error", answer_then_error},
    {"answer_twice", answer_twice},
    {"answer_then_next", answer_then_next},
    {"negative", negative},
    {"unknown", unknown},
    {"cancelled_for_nothing", cancelled_for_nothing},
    {"begin_without_end", begin_without_end},
    {"begin_then_proxy", begin_then_proxy},
    {"fail_fully", fail_fully},
    {"fail_at_length", fail_at_length},
    {"fail_at_length_with_headers", fail_at_length_with_headers},
    {"bad_headers", bad_headers},
    {NULL, NULL},
};

/* ---- Answers and failures ---- */

static void done_without_an_answer_is_a_500_that_names_the_step(void **state)
{
    const coord_kit_message *got = perform("say_done");

    (void)state;
    assert_int_equal(got->status, 500);
    assert_holds(got, "step first said that it had answered, but it had not");
    assert_int_equal(coord_kit_leg_count(kit, NULL), 0);
}

static void the_first_answer_wins_over_a_later_failure_which_is_logged(void **state)
{
    (void)state;
    assert_body(perform("answer_then_fail"), 200, "first");
    assert_true(coord_kit_logged(kit, "too late to fail"));
    assert_body(perform("answer_then_error"), 200, "first");
    assert_true(coord_kit_logged(kit, "step first failed without saying why"));
    assert_body(perform("answer_twice"), 200, "first");
    wait_value(&last_status, COORD_STATE);
}

static void an_answered_request_goes_no_further(void **state)
{
    (void)state;
    assert_body(perform("answer_then_next"), 200, "first");
    assert_true(coord_kit_logged(kit, "status=200"));
    assert_int_equal(coord_kit_leg_count(kit, NULL), 0);
}

static void a_negative_status_without_a_reason_is_a_500_that_names_the_step(void **state)
{
    (void)state;
    assert_int_equal(perform("negative")->status, 500);
    assert_true(coord_kit_logged(kit, "execute returned -4"));
    assert_holds(perform("negative"), "step first failed without saying why");
    assert_int_equal(perform("unknown")->status, 500);
    assert_true(coord_kit_logged(kit, "execute returned 77"));
    assert_int_equal(perform("cancelled_for_nothing")->status, 500);
    assert_int_equal(coord_kit_leg_count(kit, NULL), 0);
}

static void an_answer_that_is_not_ended_is_cut(void **state)
{
    const coord_kit_message *got = perform("begin_without_end");

    (void)state;
    assert_int_equal(got->status, 200);
    assert_true(coord_slice_is(got->body, "some"));
    assert_false(got->whole);
}

static void a_workers_answer_does_not_get_into_an_answer_that_has_begun(void **state)
{
    (void)state;
    coord_kit_on(kit, &(coord_kit_rule){.body = COORD_SLICE("the worker's")});
    assert_body(perform("begin_then_proxy"), 200, "mine");
    assert_int_equal(atomic_load(&last_status), COORD_STATE);
    assert_int_equal(coord_kit_leg_count(kit, NULL), 0);
}

static void a_failure_takes_code_type_param_and_headers(void **state)
{
    const coord_kit_message *got = perform("fail_fully");

    (void)state;
    assert_body(got, 429,
                "{\"error\":{\"message\":\"no \\\"more\\\" "
                "today\",\"type\":\"billing\",\"param\":\"/model\",\"code\":\"quota\"}}");
    assert_true(coord_kit_header_is(got, "retry-after", "7"));
    assert_true(coord_kit_header_is(got, "x-team", "a"));
    assert_true(coord_kit_logged(kit, "the quota service said no"));
}

static void a_long_message_is_cut_and_a_bad_header_left_out(void **state)
{
    const coord_kit_message *got = perform("fail_at_length");

    (void)state;
    assert_int_equal(got->status, 400);
    assert_holds(got, "at length: 0000");
    assert_true(got->body.size > 900);
    got = perform("fail_at_length_with_headers");
    assert_int_equal(got->status, 409);
    assert_holds(got, "yyyyyy");
    assert_true(coord_kit_header_is(got, "x-good", "2"));
}

static void headers_of_an_answer_cannot_break_its_framing(void **state)
{
    const coord_kit_message *got = perform("bad_headers");

    (void)state;
    assert_int_equal(atomic_load(&last_status), COORD_INVALID);
    assert_body(got, 200, "good");
    assert_true(coord_kit_header_is(got, "content-length", "4"));
    assert_true(coord_kit_header_is(got, "x-a", "b"));
    assert_false(coord_kit_header_is(got, "x-request-id", "mine"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, kit_setup, kit_teardown)
    const struct CMUnitTest tests[] = {
        TEST(done_without_an_answer_is_a_500_that_names_the_step),
        TEST(the_first_answer_wins_over_a_later_failure_which_is_logged),
        TEST(an_answered_request_goes_no_further),
        TEST(a_negative_status_without_a_reason_is_a_500_that_names_the_step),
        TEST(an_answer_that_is_not_ended_is_cut),
        TEST(a_workers_answer_does_not_get_into_an_answer_that_has_begun),
        TEST(a_failure_takes_code_type_param_and_headers),
        TEST(a_long_message_is_cut_and_a_bad_header_left_out),
        TEST(headers_of_an_answer_cannot_break_its_framing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
