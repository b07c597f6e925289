/*
 * A step's own calls: many at once, peeked answers, failures that are kept, setters, and calls in the background.
 */
#include "behaviour_step.h"

#include <coordinator/answer.h>
#include <coordinator/background.h>
#include <coordinator/call.h>
#include <coordinator/testkit.h>
#include <coordinator/wait.h>

#include <stdio.h>
#include <stdlib.h>

static atomic_int background_ran, background_released;

/* ---- Acts ---- */

static coord_call *other_call(struct act_state *state, coord_request *request, const char *path)
{
    coord_call *call = coord_call_upstream_new(request, "other", state->other, false);

    if (call &&
        (coord_call_set_method(call, "GET") != COORD_OK || coord_call_set_path(call, coord_slice_of(path)) != COORD_OK))
        return NULL;
    return call;
}

static coord_status many_calls(struct act_state *state, coord_request *request)
{
    coord_call *calls[6];
    coord_status status;

    for (int i = 0; i < 6; i++) {
        char path[16];

        snprintf(path, sizeof path, "/part/%d", i);
        calls[i] = other_call(state, request, path);
        if (!calls[i])
            return COORD_FAIL;
    }
    status = coord_calls_run(calls, 6, 2);
    if (status != COORD_OK)
        return status;
    for (int i = 0; i < 6; i++)
        if (coord_call_status(calls[i]) != 200 || !coord_slice_is(coord_call_body(calls[i]), "part"))
            return coord_fail(request, 500, NULL, "call %d has %d", i, coord_call_status(calls[i]));
    return answer(request, "all");
}

static coord_call *peek(coord_request *request)
{
    coord_call *call = coord_call_gateway_new(request, "decode", COORD_PHASE_DECODE);

    return call && coord_call_set_body(call, coord_request_body(request)) == COORD_OK &&
                   coord_call_head(call) == COORD_OK
               ? call
               : NULL;
}

static coord_status head_then_discard(struct act_state *state, coord_request *request)
{
    coord_call *call = peek(request);
    coord_slice value = {0};

    (void)state;
    if (!call || coord_call_header(call, "X-Worker", &value) != COORD_OK || coord_call_discard(call) != COORD_OK)
        return COORD_FAIL;
    atomic_store(&last_status, coord_call_status(call));
    return coord_call_read(call, &value) == COORD_STATE && coord_call_relay(call) == COORD_STATE ? COORD_NEXT
                                                                                                 : COORD_FAIL;
}

static coord_status head_then_read(struct act_state *state, coord_request *request)
{
    coord_call *call = peek(request);
    coord_status status;
    coord_slice piece;

    (void)state;
    if (!call || coord_answer_begin(request, 200, "text/plain", NULL) != COORD_OK)
        return COORD_FAIL;
    while ((status = coord_call_read(call, &piece)) == COORD_OK)
        if (coord_answer_write(request, piece) != COORD_OK)
            return COORD_CANCELLED;
    return status == COORD_END ? coord_answer_end(request) : status;
}

/* Is busy with each piece while the next ones come. */
static coord_status head_then_read_slowly(struct act_state *state, coord_request *request)
{
    coord_call *call = peek(request);
    coord_status status;
    coord_slice piece;

    (void)state;
    if (!call || coord_answer_begin(request, 200, "text/plain", NULL) != COORD_OK)
        return COORD_FAIL;
    while ((status = coord_call_read(call, &piece)) == COORD_OK)
        if (coord_sleep(request, 50 * MS) != COORD_OK || coord_answer_write(request, piece) != COORD_OK)
            return COORD_CANCELLED;
    return status == COORD_END ? coord_answer_end(request) : status;
}

static coord_status head_then_relay(struct act_state *state, coord_request *request)
{
    coord_call *call = peek(request);

    (void)state;
    return call ? coord_call_relay(call) : COORD_FAIL;
}

/* Goes on as if it had not been told that the client is gone. */
static coord_status head_then_relay_stubbornly(struct act_state *state, coord_request *request)
{
    coord_call *call = peek(request);

    (void)state;
    atomic_store(&in_act, 1);
    if (!call || coord_sleep(request, 3600 * 1000 * MS) != COORD_CANCELLED)
        return COORD_FAIL;
    atomic_store(&last_status, coord_call_relay(call));
    return COORD_DONE;
}

static coord_status relay_twice(struct act_state *state, coord_request *request)
{
    coord_call *first = peek(request), *second = peek(request);

    (void)state;
    if (!first || !second || coord_call_relay(first) != COORD_DONE)
        return COORD_FAIL;
    atomic_store(&last_status, coord_call_relay(second));
    return COORD_DONE;
}

static coord_status keep_failure(struct act_state *state, coord_request *request)
{
    coord_call *call = other_call(state, request, "/dead");

    if (!call || coord_call_keep_failure(call) != COORD_OK || coord_call_run(call) != COORD_OK)
        return COORD_FAIL;
    return coord_call_status(call) == 0 && coord_call_body(call).size == 0 ? COORD_NEXT : COORD_FAIL;
}

static coord_status forget_answer(struct act_state *state, coord_request *request)
{
    coord_call *call = other_call(state, request, "/read");
    coord_slice type;

    if (!call || coord_call_run(call) != COORD_OK || !coord_call_document(call))
        return COORD_FAIL;
    coord_call_forget_answer(call);
    coord_call_forget_answer(call);
    if (coord_call_document(call) || coord_call_body(call).size != 0 || coord_call_status(call) != 200 ||
        coord_call_header(call, "content-type", &type) != COORD_OK)
        return coord_fail(request, 500, NULL, "something is left, or too little");
    return answer(request, "forgotten");
}

static coord_status forget_refusal(struct act_state *state, coord_request *request)
{
    coord_call *call = other_call(state, request, "/read");
    coord_status status = call && coord_call_run(call) == COORD_OK ? coord_call_require_ok(call) : COORD_OK;

    if (status == COORD_OK)
        return coord_fail(request, 500, NULL, "it was to be refused");
    coord_call_forget_answer(call);
    return status;
}

static coord_status share_ids(struct act_state *state, coord_request *request)
{
    coord_document *body = coord_request_body(request), *leg = coord_document_clone_new(body);
    coord_slice first = {0}, second = {0};
    bool good;

    (void)state;
    good = leg && coord_request_put_token_ids(request, leg, "/ids") == COORD_STATE &&
           coord_request_set_token_ids(request, coord_slice_of("[7, 8] ")) == COORD_OK &&
           coord_request_put_token_ids(request, leg, "/ids") == COORD_OK &&
           coord_request_put_token_ids(request, leg, "/absent/ids") == COORD_ABSENT &&
           coord_request_put_token_ids(request, body, "/ids") == COORD_OK &&
           coord_request_set_token_ids(request, coord_slice_of("[9]")) == COORD_OK &&
           coord_document_get(leg, "/ids", &first) == COORD_OK &&
           coord_document_get(body, "/ids", &second) == COORD_OK && first.data == second.data &&
           coord_slice_is(first, "[7, 8]");
    coord_document_free(leg);
    return good ? answer(request, "shared") : coord_fail(request, 500, NULL, "the ids are not shared");
}

/* Ids of an answer: what becomes of its memory must not matter to them. */
static coord_status keep_ids(struct act_state *state, coord_request *request)
{
    coord_call *call = other_call(state, request, "/ids");
    coord_slice said, kept;
    uint64_t count;
    char text[4096];

    if (!call || coord_call_run(call) != COORD_OK || !coord_call_document(call) ||
        coord_document_get(coord_call_document(call), "/ids", &said) != COORD_OK ||
        coord_request_set_token_ids(request, said) != COORD_OK ||
        coord_request_token_ids(request, &kept, &count) != COORD_OK)
        return COORD_FAIL;
    atomic_store(&last_status, kept.data == said.data);
    coord_call_forget_answer(call);
    if (coord_request_token_ids(request, &kept, &count) != COORD_OK || kept.size >= sizeof text ||
        coord_request_put_token_ids(request, coord_request_body(request), "/ids") != COORD_OK)
        return COORD_FAIL;
    memcpy(text, kept.data, kept.size);
    text[kept.size] = '\0';
    return answer(request, text);
}

static coord_status setters(struct act_state *state, coord_request *request)
{
    coord_call *call = other_call(state, request, "/set?q=1");
    static const char big[] = "0123456789";

    if (!call || coord_call_set_path(call, coord_slice_of("no-slash")) != COORD_INVALID ||
        coord_call_set_path(call, coord_slice_of("/a b")) != COORD_INVALID ||
        coord_call_set_header(call, "X A", coord_slice_of("v")) != COORD_INVALID ||
        coord_call_set_header(call, "X-A", coord_slice_of("v\nw")) != COORD_INVALID ||
        coord_call_set_method(call, "G ET") != COORD_INVALID ||
        coord_call_set_header(call, "X-A", coord_slice_of("v")) != COORD_OK ||
        coord_call_set_text(call, coord_slice_of(big), "text/plain") != COORD_OK ||
        coord_call_set_limit(call, 4) != COORD_OK)
        return coord_fail(request, 500, NULL, "a setter");
    atomic_store(&last_status, coord_call_run(call));
    if (coord_call_set_path(call, coord_slice_of("/late")) != COORD_STATE || coord_call_run(call) != COORD_STATE)
        return coord_fail(request, 500, NULL, "a setter, late");
    return COORD_FAIL;
}

static coord_status set_owned_headers(struct act_state *state, coord_request *request)
{
    static const char *const NAMES[] = {"Content-Length", "Transfer-Encoding", "Connection",
                                        "Host",           "X-Request-Id",      "Traceparent"};
    coord_call *call = other_call(state, request, "/owned");
    int refused = 0;

    for (size_t i = 0; call && i < sizeof NAMES / sizeof *NAMES; i++)
        refused += coord_call_set_header(call, NAMES[i], coord_slice_of("5")) == COORD_INVALID;
    atomic_store(&last_status, refused);
    return call && coord_call_set_text(call, coord_slice_of("body"), "text/plain") == COORD_OK &&
                   coord_call_run(call) == COORD_OK
               ? answer(request, "sent")
               : COORD_FAIL;
}

static void in_background(coord_request *background, void *argument)
{
    struct act_state *state = argument;
    coord_call *call = other_call(state, background, "/audit"), *probe = other_call(state, background, "/");

    if (call && coord_call_run(call) == COORD_OK && coord_request_model(background).size == 1 &&
        coord_sleep(background, MS) == COORD_OK && answer(background, "to nobody") == COORD_STATE && probe &&
        coord_call_proxy(probe) == COORD_STATE)
        atomic_fetch_add(&background_ran, 1);
    if (coord_background(background, in_background, NULL, NULL) == COORD_OK)
        abort(); /* not from there */
}

static void release_background(void *argument)
{
    (void)argument;
    atomic_fetch_add(&background_released, 1);
}

static coord_status work_later(struct act_state *state, coord_request *request)
{
    if (coord_background(request, in_background, state, release_background) != COORD_OK)
        return COORD_FAIL;
    return answer(request, "audited");
}

static coord_status work_later_and_fail(struct act_state *state, coord_request *request)
{
    return coord_background(request, in_background, state, release_background) == COORD_OK
               ? coord_fail(request, 400, NULL, "no")
               : COORD_FAIL;
}

const struct act acts[] = {
    {"many_calls", many_calls},
    {"head_then_discard", head_then_discard},
    {"head_then_read", head_then_read},
    {"head_then_read_slowly", head_then_read_slowly},
    {"head_then_relay", head_then_relay},
    {"head_then_relay_stubbornly", head_then_relay_stubbornly},
    {"relay_twice", relay_twice},
    {"keep_failure", keep_failure},
    {"forget_answer", forget_answer},
    {"forget_refusal", forget_refusal},
    {"share_ids", share_ids},
    {"keep_ids", keep_ids},
    {"setters", setters},
    {"set_owned_headers", set_owned_headers},
    {"work_later", work_later},
    {"work_later_and_fail", work_later_and_fail},
    {NULL, NULL},
};

/* ---- Calls ---- */

static void many_calls_run_so_many_at_a_time(void **state)
{
    coord_kit_client *client;

    (void)state;
    coord_kit_on(kit, &(coord_kit_rule){.upstream = "other", .gate = "parts", .body = COORD_SLICE("part")});
    client = send_act("many_calls", false);
    assert_non_null(coord_kit_leg(kit, "other", 1));
    pause_ns(30 * MS);
    assert_int_equal(coord_kit_leg_count(kit, "other"), 2);
    coord_kit_open(kit, "parts");
    assert_true(coord_kit_read(client, COORD_KIT_ALL));
    assert_body(coord_kit_answer(client), 200, "all");
    assert_int_equal(coord_kit_leg_count(kit, "other"), 6);
    assert_int_equal(coord_kit_leg(kit, "other", 0)->body.size, 0);
}

static void the_first_call_that_fails_cancels_the_rest(void **state)
{
    const coord_kit_message *slow = NULL;
    coord_kit_client *client;

    (void)state;
    coord_kit_on(kit, &(coord_kit_rule){.path = "/part/0", .gate = "never"});
    coord_kit_on(kit, &(coord_kit_rule){.path = "/part/1", .body = COORD_SLICE("part")});
    coord_kit_on(kit, &(coord_kit_rule){.path = "/part/2",
                                        .gate = "all are there",
                                        .status = 422,
                                        .body = COORD_SLICE("{\"error\":{\"message\":\"part 2\"}}")});
    client = send_act("many_calls", false);
    for (size_t i = 0; i < 3; i++) {
        const coord_kit_message *leg = coord_kit_leg(kit, "other", i);

        assert_non_null(leg);
        if (coord_slice_is(leg->target, "/part/0"))
            slow = leg;
    }
    assert_non_null(slow);
    coord_kit_open(kit, "all are there");
    assert_true(coord_kit_read(client, COORD_KIT_ALL));
    assert_body(coord_kit_answer(client), 422, "{\"error\":{\"message\":\"part 2\"}}");
    assert_true(coord_kit_leg_left(kit, slow));
    assert_int_equal(coord_kit_leg_count(kit, "other"), 3);
}

static void a_peeked_answer_is_discarded_read_or_relayed(void **state)
{
    static const coord_kit_piece pieces[] = {{.bytes = COORD_SLICE("one ")},
                                             {.bytes = COORD_SLICE("two"), .delay_ns = 5 * COORD_KIT_MS}};
    static const char *const headers[] = {"X-Worker", "w", NULL};

    (void)state;
    coord_kit_on(kit,
                 &(coord_kit_rule){.times = 1, .status = 412, .headers = headers, .body = COORD_SLICE("not here")});
    coord_kit_on(kit, &(coord_kit_rule){.times = 1, .body = COORD_SLICE("then decode")});
    coord_kit_on(kit, &(coord_kit_rule){.headers = headers, .pieces = pieces, .piece_count = 2});
    assert_body(perform("head_then_discard"), 200, "then decode");
    assert_int_equal(atomic_load(&last_status), 412);
    assert_body(perform("head_then_read"), 200, "one two");
    assert_body(perform("head_then_relay"), 200, "one two");
    assert_true(coord_kit_header_is(perform("head_then_relay"), "x-worker", "w"));
}

/* The rest of a discarded answer is nobody's concern: the request goes on at once, and the leg ends with it at the latest. */
static void a_discarded_answer_that_does_not_end_holds_nothing_up(void **state)
{
    static const coord_kit_piece pieces[] = {{.bytes = COORD_SLICE("a bit")},
                                             {.bytes = COORD_SLICE("more"), .gate = "never"}};
    static const char *const headers[] = {"X-Worker", "w", NULL};
    const coord_kit_message *probe;

    (void)state;
    coord_kit_on(kit,
                 &(coord_kit_rule){.times = 1, .status = 412, .headers = headers, .pieces = pieces, .piece_count = 2});
    coord_kit_on(kit, &(coord_kit_rule){.body = COORD_SLICE("then decode")});
    assert_body(perform("head_then_discard"), 200, "then decode");
    probe = coord_kit_leg(kit, NULL, 0);
    assert_non_null(probe);
    assert_true(coord_kit_leg_left(kit, probe));
}

static void what_comes_while_a_step_works_on_a_piece_is_the_next_piece(void **state)
{
    static char large[40000];
    static coord_kit_piece pieces[] = {{.bytes = COORD_SLICE("one ")},
                                       {.bytes = COORD_SLICE("two "), .delay_ns = 5 * COORD_KIT_MS},
                                       {.bytes = COORD_SLICE("three "), .delay_ns = 5 * COORD_KIT_MS},
                                       {.bytes = {large, sizeof large}, .delay_ns = 5 * COORD_KIT_MS},
                                       {.bytes = {large, sizeof large}, .delay_ns = 100 * COORD_KIT_MS},
                                       {.bytes = COORD_SLICE(" end"), .delay_ns = 5 * COORD_KIT_MS}};
    const coord_kit_message *got;

    (void)state;
    memset(large, 'x', sizeof large);
    coord_kit_on(kit, &(coord_kit_rule){.pieces = pieces, .piece_count = sizeof pieces / sizeof *pieces});
    got = perform("head_then_read_slowly");
    assert_non_null(got);
    assert_true(got->whole);
    assert_int_equal(got->body.size, 14 + 2 * sizeof large + 4);
    assert_memory_equal(got->body.data, "one two three x", 15);
    assert_memory_equal(got->body.data + got->body.size - 5, "x end", 5);
}

static void a_relay_after_the_client_has_left_says_so(void **state)
{
    static const coord_kit_piece pieces[] = {{.bytes = COORD_SLICE("one ")},
                                             {.bytes = COORD_SLICE("two"), .gate = "never"}};
    coord_kit_client *client;

    (void)state;
    coord_kit_on(kit, &(coord_kit_rule){.pieces = pieces, .piece_count = 2});
    client = send_act("head_then_relay_stubbornly", false);
    wait_value(&in_act, 1);
    coord_kit_leave(client);
    wait_value(&last_status, COORD_CANCELLED);
    assert_true(coord_kit_logged(kit, "outcome=client_gone"));
}

static void a_second_relay_says_that_there_is_an_answer(void **state)
{
    (void)state;
    coord_kit_on(kit, &(coord_kit_rule){.body = COORD_SLICE("whole")});
    assert_body(perform("relay_twice"), 200, "whole");
    wait_value(&last_status, COORD_STATE);
}

static void a_kept_failure_lets_the_pipeline_go_on(void **state)
{
    (void)state;
    coord_kit_on(kit, &(coord_kit_rule){.upstream = "other", .status = COORD_KIT_NO_HEAD, .ending = COORD_KIT_CUT});
    coord_kit_on(kit, &(coord_kit_rule){.body = COORD_SLICE("decoded")});
    assert_body(perform("keep_failure"), 200, "decoded");
}

static void an_answer_that_was_read_may_be_forgotten_but_not_a_refusal(void **state)
{
    static const char refusal[] = "{\"error\":{\"message\":\"not like this\"}}";

    (void)state;
    coord_kit_on(kit, &(coord_kit_rule){.upstream = "other", .times = 1, .body = COORD_SLICE("{\"a\":[1,2,3]}")});
    coord_kit_on(kit, &(coord_kit_rule){.upstream = "other", .status = 422, .body = {refusal, sizeof refusal - 1}});
    assert_body(perform("forget_answer"), 200, "forgotten");
    assert_body(perform("forget_refusal"), 422, refusal);
}

static void legs_share_the_bytes_of_token_ids(void **state)
{
    (void)state;
    assert_body(perform("share_ids"), 200, "shared");
}

enum { MANY_IDS = 300, BEHIND_IDS = 4000 };

/* "[1000, 1001, …]" */
static size_t write_ids(char *into, size_t room)
{
    size_t size = 0;

    for (int i = 0; i < MANY_IDS; i++)
        size += (size_t)snprintf(into + size, room - size, "%s%d", i ? ", " : "[", 1000 + i);
    return size + (size_t)snprintf(into + size, room - size, "]");
}

/* A long list is not copied out of the answer; neither a short one nor one that is little of it keeps the answer alive. */
static void token_ids_outlive_the_answer_that_they_came_in(void **state)
{
    static char ids[8 * MANY_IDS];
    static char answers[3][sizeof ids + BEHIND_IDS + 64]; /* one each: the kit may still send the last one */
    const struct {
        const char *name, *ids;
        int behind, shared;
    } rows[] = {
        {"many, most of the answer", ids, 0, 1},
        {"many, little of the answer", ids, BEHIND_IDS, 0},
        {"few, most of the answer", "[1, 22,333,4444,55555,666666,7777777]", 0, 0},
    };

    (void)state;
    assert_true(write_ids(ids, sizeof ids) > 1024);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int size = snprintf(answers[i], sizeof answers[i], "{\"ids\":%s,\"features\":\"%0*d\"}", rows[i].ids,
                            rows[i].behind, 0);

        print_message("  %s\n", rows[i].name);
        coord_kit_on(kit, &(coord_kit_rule){.times = 1, .body = {answers[i], (size_t)size}});
        assert_body(perform("keep_ids"), 200, rows[i].ids);
        assert_int_equal(atomic_load(&last_status), rows[i].shared);
    }
}

static void setters_say_what_may_not_stand_there(void **state)
{
    const coord_kit_message *got, *leg;

    (void)state;
    coord_kit_on(kit, &(coord_kit_rule){.body = COORD_SLICE("too long an answer")});
    got = perform("setters");
    assert_int_equal(got->status, 502);
    assert_holds(got, "more than 4 bytes");
    assert_int_equal(atomic_load(&last_status), COORD_FAIL);
    leg = coord_kit_leg(kit, "other", 0);
    assert_true(coord_slice_is(leg->target, "/set?q=1"));
    assert_true(coord_slice_is(leg->body, "0123456789"));
    assert_true(coord_kit_header_is(leg, "x-a", "v"));
    assert_true(coord_kit_header_is(leg, "content-type", "text/plain"));
}

static void headers_that_frame_a_leg_are_the_cores(void **state)
{
    const coord_kit_message *leg;

    (void)state;
    coord_kit_on(kit, &(coord_kit_rule){0});
    assert_body(perform("set_owned_headers"), 200, "sent");
    assert_int_equal(atomic_load(&last_status), 6);
    leg = coord_kit_leg(kit, "other", 0);
    assert_true(coord_slice_is(leg->body, "body"));
    assert_true(coord_kit_header_is(leg, "content-length", "4"));
    assert_false(coord_kit_header_is(leg, "x-request-id", "5"));
    assert_false(coord_kit_header_is(leg, "host", "5"));
}

static void background_work_runs_after_the_answer_and_is_released(void **state)
{
    (void)state;
    coord_kit_on(kit, &(coord_kit_rule){.path = "/audit", .gate = "audit"});
    assert_body(perform("work_later"), 200, "audited");
    assert_int_equal(perform("work_later_and_fail")->status, 400);
    assert_int_equal(atomic_load(&background_ran), 0);
    coord_kit_open(kit, "audit");
    wait_value(&background_ran, 2);
    wait_value(&background_released, 2);
    assert_int_equal(coord_kit_leg_count(kit, "other"), 2);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, kit_setup, kit_teardown)
    const struct CMUnitTest tests[] = {
        TEST(many_calls_run_so_many_at_a_time),
        TEST(the_first_call_that_fails_cancels_the_rest),
        TEST(a_peeked_answer_is_discarded_read_or_relayed),
        TEST(a_discarded_answer_that_does_not_end_holds_nothing_up),
        TEST(what_comes_while_a_step_works_on_a_piece_is_the_next_piece),
        TEST(a_relay_after_the_client_has_left_says_so),
        TEST(a_second_relay_says_that_there_is_an_answer),
        TEST(a_kept_failure_lets_the_pipeline_go_on),
        TEST(an_answer_that_was_read_may_be_forgotten_but_not_a_refusal),
        TEST(legs_share_the_bytes_of_token_ids),
        TEST(token_ids_outlive_the_answer_that_they_came_in),
        TEST(setters_say_what_may_not_stand_there),
        TEST(headers_that_frame_a_leg_are_the_cores),
        TEST(background_work_runs_after_the_answer_and_is_released),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
