/* Heartbeats (response.heartbeat): the early 200 and what may come after it; through the test kit. */
#include <coordinator/answer.h>
#include <coordinator/call.h>
#include <coordinator/testkit.h>
#include <coordinator/wait.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>

static const char CHAT[] = "/v1/chat/completions";
static const char STREAM[] = "{\"model\":\"m\",\"stream\":true}";

/* Sleeps so long that a heartbeat comes first, then does what the request's x-act says. */
static coord_status execute(void *state, coord_request *request)
{
    coord_slice act = {0};
    coord_call *call = coord_call_gateway_new(request, "peek", COORD_PHASE_DECODE);

    (void)state;
    if (!call || coord_sleep(request, 60 * COORD_KIT_MS) != COORD_OK)
        return COORD_CANCELLED;
    if (coord_request_header(request, "x-act", &act) != COORD_OK)
        return COORD_NEXT;
    if (coord_slice_is(act, "fail"))
        return coord_fail(request, 429, NULL, "not today");
    if (coord_slice_is(act, "answer"))
        return coord_answer(request, 200, "text/event-stream", coord_slice_of("data: mine\n\n"), NULL);
    if (coord_call_set_body(call, coord_request_body(request)) != COORD_OK || coord_call_head(call) != COORD_OK)
        return COORD_FAIL;
    return coord_call_relay(call);
}

static const coord_step_type SLOW = {
    .size = sizeof SLOW, .name = "slow", .help = "Takes its time.", .execute = execute};

COORD_PLUGIN(.name = "slow", .version = "1", .licence = "Apache-2.0",
             .steps = (const coord_step_type *const[]){&SLOW, NULL})

static coord_kit *kit;

static int setup(void **state)
{
    (void)state;
    kit = coord_kit_start(
        &(coord_kit_options){.size = sizeof(coord_kit_options),
                             .yaml = "response: {heartbeat: 20ms}\npipeline: {steps: [{type: slow}, {type: decode}]}\n",
                             .plugins = (const coord_plugin_descriptor *const[]){&coord_plugin, NULL}});
    if (!kit)
        fail_msg("%s", coord_kit_problem());
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return coord_kit_stop(kit) ? 0 : -1;
}

static const coord_kit_message *ask(const char *act, const char *body)
{
    const coord_kit_message *answer =
        coord_kit_ask(kit, &(coord_kit_request){.target = CHAT,
                                                .body = coord_slice_of(body),
                                                .headers = act ? (const char *const[]){"X-Act", act, NULL} : NULL});

    assert_non_null(answer);
    assert_true(answer->whole);
    return answer;
}

static bool ends_with(coord_slice body, const char *end)
{
    size_t size = strlen(end);

    return body.size >= size && memcmp(body.data + body.size - size, end, size) == 0;
}

static void assert_stream(const coord_kit_message *answer, const char *end)
{
    static const char ping[] = ": ping\n";

    assert_int_equal(answer->status, 200);
    assert_true(coord_kit_header_is(answer, "content-type", "text/event-stream; charset=utf-8"));
    if (answer->body.size < sizeof ping || memcmp(answer->body.data, ping, sizeof ping - 1) != 0 ||
        !ends_with(answer->body, end))
        fail_msg("%.*s", COORD_FMT(answer->body));
}

static void on_stream(void)
{
    static const char *const headers[] = {"Content-Type", "text/event-stream", NULL};

    coord_kit_on(kit, &(coord_kit_rule){.headers = headers, .body = COORD_SLICE("data: 1\n\ndata: [DONE]\n\n")});
}

static void a_workers_stream_follows_the_heartbeats_of_an_earlier_step(void **state)
{
    (void)state;
    on_stream();
    assert_stream(ask(NULL, STREAM), ": ping\ndata: 1\n\ndata: [DONE]\n\n");
}

static void a_peeked_stream_follows_them_too(void **state)
{
    (void)state;
    on_stream();
    assert_stream(ask("relay", STREAM), ": ping\ndata: 1\n\ndata: [DONE]\n\n");
}

static void a_steps_own_stream_follows_them_too(void **state)
{
    (void)state;
    assert_stream(ask("answer", STREAM), ": ping\ndata: mine\n\n");
}

static void a_failure_behind_a_heartbeat_is_told_in_the_stream(void **state)
{
    const coord_kit_message *answer = ask("fail", STREAM);

    (void)state;
    assert_stream(answer, "\n\n");
    assert_non_null(memmem(answer->body.data, answer->body.size, "not today", 9));
}

static void a_worker_that_answers_no_stream_is_told_in_the_stream(void **state)
{
    const coord_kit_message *answer;

    (void)state;
    coord_kit_on(kit, &(coord_kit_rule){.status = 503, .body = COORD_SLICE("{\"error\":{}}")});
    answer = ask(NULL, STREAM);
    assert_stream(answer, "\n\n");
    assert_non_null(memmem(answer->body.data, answer->body.size, "HTTP 503", 8));
}

static void a_request_that_does_not_stream_gets_none(void **state)
{
    (void)state;
    coord_kit_on(kit, &(coord_kit_rule){.body = COORD_SLICE("{}")});
    assert_true(coord_slice_is(ask(NULL, "{\"model\":\"m\"}")->body, "{}"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_workers_stream_follows_the_heartbeats_of_an_earlier_step),
        TEST(a_peeked_stream_follows_them_too),
        TEST(a_steps_own_stream_follows_them_too),
        TEST(a_failure_behind_a_heartbeat_is_told_in_the_stream),
        TEST(a_worker_that_answers_no_stream_is_told_in_the_stream),
        TEST(a_request_that_does_not_stream_gets_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
