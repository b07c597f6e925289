/* The test kit itself: what it shows is what travelled, and what does not come is said in time. */
#include <coordinator/testkit.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <unistd.h>

static const char DECODE[] = "pipeline: {steps: [{type: decode}]}\n";
static const char CHAT[] = "/v1/chat/completions";
static const char BODY[] = "{\"model\":\"m\", \"messages\":[]}";

static coord_kit *start(const char *yaml)
{
    coord_kit *kit = coord_kit_start(&(coord_kit_options){.size = sizeof(coord_kit_options), .yaml = yaml});

    if (!kit)
        fail_msg("%s", coord_kit_problem());
    return kit;
}

static void a_leg_and_its_answer_are_kept_byte_for_byte(void **state)
{
    coord_kit *kit = start(DECODE);
    const coord_kit_message *answer, *leg;

    (void)state;
    coord_kit_on(kit, &(coord_kit_rule){.phase = "decode",
                                        .body = COORD_SLICE("{\"ok\": true}"),
                                        .headers = (const char *const[]){"X-Worker", "w1", NULL}});
    answer = coord_kit_post(kit, "/v1/chat/completions?a=b", BODY);
    assert_non_null(answer);
    assert_int_equal(answer->status, 200);
    assert_true(answer->whole);
    assert_true(coord_slice_is(answer->body, "{\"ok\": true}"));
    assert_true(coord_kit_header_is(answer, "x-worker", "w1"));
    assert_true(coord_kit_header_is(answer, "content-length", "12"));
    leg = coord_kit_leg(kit, "decode", 0);
    assert_non_null(leg);
    assert_string_equal(leg->upstream, "gateway");
    assert_true(coord_slice_is(leg->method, "POST"));
    assert_true(coord_slice_is(leg->target, "/v1/chat/completions?a=b"));
    assert_memory_equal(leg->body.data, BODY, sizeof BODY - 2); /* the connector adds a member behind the last */
    assert_int_equal(coord_kit_leg_count(kit, NULL), 1);
    assert_int_equal(coord_kit_leg_count(kit, "prefill"), 0);
    assert_true(coord_kit_stop(kit));
}

/* Standard error, into a file until the second call, which gives what was written. */
static const char *capture_errors(bool begin)
{
    static char said[4096];
    static FILE *file;
    static int before;

    fflush(stderr);
    if (begin) {
        file = tmpfile();
        before = dup(STDERR_FILENO);
        assert_true(file && before >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
        return NULL;
    }
    dup2(before, STDERR_FILENO);
    close(before);
    rewind(file);
    said[fread(said, 1, sizeof said - 1, file)] = '\0';
    fclose(file);
    return said;
}

static void a_leg_that_does_not_come_is_told_with_those_that_did(void **state)
{
    coord_kit *kit =
        coord_kit_start(&(coord_kit_options){.size = sizeof(coord_kit_options),
                                             .yaml = "pipeline: {steps: [{type: prefill}, {type: decode}]}\n",
                                             .patience_ns = INT64_C(3000000000)}); /* what does come has time, too */

    (void)state;
    assert_non_null(kit);
    capture_errors(true);
    assert_null(coord_kit_leg(kit, "tier", 0));
    assert_non_null(
        strstr(capture_errors(false), "testkit: after 3000 ms there is no leg tier number 0; legs so far: none\n"));
    coord_kit_on(kit, &(coord_kit_rule){.body = COORD_SLICE("{}")});
    coord_kit_post(kit, CHAT, BODY);
    coord_kit_post(kit, CHAT, BODY);
    capture_errors(true);
    assert_null(coord_kit_leg(kit, NULL, 4));
    assert_non_null(strstr(capture_errors(false), "there is no leg number 4; legs so far: upstream gateway phase "
                                                  "prefill (2), upstream gateway phase decode (2)\n"));
    assert_true(coord_kit_stop(kit));
}

static void a_request_without_a_rule_is_501(void **state)
{
    coord_kit *kit = start(DECODE);

    (void)state;
    assert_int_equal(coord_kit_post(kit, CHAT, BODY)->status, 501);
    assert_true(coord_kit_stop(kit));
}

static void the_first_rule_that_matches_decides_until_it_is_used_up(void **state)
{
    coord_kit *kit = start(DECODE);

    (void)state;
    coord_kit_on(kit, &(coord_kit_rule){.path = "/v1/completions", .status = 418});
    coord_kit_on(kit, &(coord_kit_rule){.header = "x-want", .value = "409", .status = 409});
    coord_kit_on(kit, &(coord_kit_rule){.times = 1, .status = 429});
    coord_kit_on(kit, &(coord_kit_rule){0});
    assert_int_equal(coord_kit_post(kit, "/v1/completions", BODY)->status, 418);
    assert_int_equal(coord_kit_post(kit, CHAT, BODY)->status, 429);
    assert_int_equal(coord_kit_post(kit, CHAT, BODY)->status, 200);
    assert_int_equal(coord_kit_ask(kit, &(coord_kit_request){.target = CHAT,
                                                             .body = coord_slice_of(BODY),
                                                             .headers = (const char *const[]){"X-Want", "409", NULL}})
                         ->status,
                     409);
    assert_true(coord_kit_stop(kit));
}

static void a_stream_comes_in_pieces_that_gates_hold_back(void **state)
{
    static const coord_kit_piece pieces[] = {{.bytes = COORD_SLICE("data: 1\n\n")},
                                             {.bytes = COORD_SLICE("data: 2\n\n"), .gate = "go"},
                                             {.bytes = COORD_SLICE("data: [DONE]\n\n"), .delay_ns = COORD_KIT_MS}};
    coord_kit *kit = start(DECODE);
    coord_kit_client *client;

    (void)state;
    coord_kit_on(kit, &(coord_kit_rule){.pieces = pieces,
                                        .piece_count = 3,
                                        .headers = (const char *const[]){"Content-Type", "text/event-stream", NULL}});
    client = coord_kit_send(
        kit, &(coord_kit_request){.target = CHAT, .body = COORD_SLICE("{\"model\":\"m\",\"stream\":true}")});
    assert_true(coord_kit_read(client, 9));
    assert_true(coord_slice_is(coord_kit_answer(client)->body, "data: 1\n\n"));
    assert_false(coord_kit_answer(client)->whole);
    coord_kit_open(kit, "go");
    assert_true(coord_kit_read(client, COORD_KIT_ALL));
    assert_true(coord_slice_is(coord_kit_answer(client)->body, "data: 1\n\ndata: 2\n\ndata: [DONE]\n\n"));
    assert_true(coord_kit_stop(kit));
}

static void a_cut_answer_is_not_whole(void **state)
{
    coord_kit *kit = start(DECODE);
    coord_kit_client *client;

    (void)state;
    coord_kit_on(kit, &(coord_kit_rule){.body = COORD_SLICE("half"), .ending = COORD_KIT_CUT});
    client = coord_kit_send(kit, &(coord_kit_request){.target = CHAT, .body = coord_slice_of(BODY)});
    assert_false(coord_kit_read(client, COORD_KIT_ALL));
    assert_int_equal(coord_kit_answer(client)->status, 200);
    assert_false(coord_kit_answer(client)->whole);
    assert_true(coord_kit_stop(kit));
}

static void an_upstream_that_says_nothing_before_its_head_is_cut_or_silent(void **state)
{
    coord_kit *kit = start("pipeline: {steps: [{type: decode}]}\ngateway: {address: \"http://gateway.kit/base\", "
                           "response_timeout: 1s}\n");

    (void)state;
    coord_kit_on(kit, &(coord_kit_rule){.times = 1, .status = COORD_KIT_NO_HEAD, .ending = COORD_KIT_CUT});
    coord_kit_on(kit, &(coord_kit_rule){.status = COORD_KIT_NO_HEAD, .ending = COORD_KIT_SILENT});
    assert_int_equal(coord_kit_post(kit, CHAT, BODY)->status, 502);
    assert_int_equal(coord_kit_post(kit, CHAT, BODY)->status, 504);
    assert_true(coord_slice_is(coord_kit_leg(kit, "gateway", 1)->target, "/base/v1/chat/completions"));
    assert_true(coord_kit_leg_left(kit, coord_kit_leg(kit, "decode", 1)));
    assert_true(coord_kit_stop(kit));
}

static void a_client_that_leaves_takes_the_leg_with_it(void **state)
{
    coord_kit *kit = start(DECODE);
    coord_kit_client *client;

    (void)state;
    coord_kit_on(kit, &(coord_kit_rule){.gate = "never"});
    client = coord_kit_send(kit, &(coord_kit_request){.target = CHAT, .body = coord_slice_of(BODY)});
    assert_non_null(coord_kit_leg(kit, NULL, 0));
    coord_kit_leave(client);
    assert_true(coord_kit_leg_left(kit, coord_kit_leg(kit, NULL, 0)));
    assert_true(coord_kit_logged(kit, "outcome=client_gone"));
    assert_true(coord_kit_stop(kit));
}

static void the_log_and_the_metrics_are_there(void **state)
{
    coord_kit *kit = start(DECODE);
    const coord_slice model = COORD_SLICE("kit-model");
    double before = coord_kit_metric("request_total", &model);
    bool found = false;

    (void)state;
    coord_kit_on(kit, &(coord_kit_rule){0});
    coord_kit_post(kit, CHAT, "{\"model\":\"kit-model\"}");
    assert_true(coord_kit_logged(kit, "model=kit-model"));
    assert_true(coord_kit_metric("request_total", &model) == before + 1);
    assert_non_null(strstr(coord_kit_moved(kit), "request_total{model_name=\"kit-model\"} 1\n"));
    assert_null(strstr(coord_kit_moved(kit), "process_"));
    assert_non_null(strstr(coord_kit_moved(kit), "request_duration_seconds_count{model_name=\"kit-model\"} 1\n"));
    assert_null(strstr(coord_kit_moved(kit), "_bucket"));
    assert_null(strstr(coord_kit_moved(kit), "request_error_total"));
    for (size_t i = 0; coord_kit_log_line(kit, i).data; i++)
        found |= strstr(coord_kit_log_line(kit, i).data, "started") != NULL;
    assert_true(found);
    assert_true(coord_kit_stop(kit));
}

static void a_log_line_of_a_request_has_its_id(void **state)
{
    coord_kit *kit = start(DECODE);

    (void)state;
    coord_kit_on(kit, &(coord_kit_rule){0});
    coord_kit_ask(kit,
                  &(coord_kit_request){.target = CHAT,
                                       .body = coord_slice_of(BODY),
                                       .headers = (const char *const[]){"x-request-id", "id-of-the-client", NULL}});
    assert_true(coord_kit_logged(kit, "id-of-the-client"));
    assert_true(coord_kit_stop(kit));
}

static void what_does_not_come_is_said_in_time(void **state)
{
    coord_kit *kit = coord_kit_start(
        &(coord_kit_options){.size = sizeof(coord_kit_options), .yaml = DECODE, .patience_ns = 20 * COORD_KIT_MS});

    (void)state;
    assert_non_null(kit);
    assert_null(coord_kit_leg(kit, "decode", 0));
    assert_false(coord_kit_logged(kit, "nobody says this"));
    assert_true(coord_kit_stop(kit));
}

static void what_is_wrong_with_the_yaml_is_told(void **state)
{
    (void)state;
    assert_null(coord_kit_start(
        &(coord_kit_options){.size = sizeof(coord_kit_options), .yaml = "pipeline: {steps: [{type: decoed}]}"}));
    assert_non_null(strstr(coord_kit_problem(), "testkit.yaml:1:"));
    assert_non_null(strstr(coord_kit_problem(), "did you mean \"decode\""));
    assert_true(coord_kit_stop(NULL));
}

static void an_environment_variable_is_the_kits_own(void **state)
{
    coord_kit *kit = coord_kit_start(&(coord_kit_options){.size = sizeof(coord_kit_options),
                                                          .yaml = "pipeline: {steps: [{type: \"${STEP}\"}]}",
                                                          .environment = (const char *const[]){"STEP=decode", NULL}});

    (void)state;
    assert_non_null(kit);
    assert_true(coord_kit_stop(kit));
}

/* Ten minutes of the coordinator's, a moment of ours. */
static void a_timeout_of_minutes_is_over_at_once_when_its_time_is_let_pass(void **state)
{
    coord_kit *kit = start("pipeline: {steps: [{type: decode}]}\n"
                           "gateway: {address: \"http://gateway.kit\", response_timeout: 10m}\n");
    coord_kit_client *client;

    (void)state;
    coord_kit_on(kit, &(coord_kit_rule){.status = COORD_KIT_NO_HEAD, .ending = COORD_KIT_SILENT});
    client = coord_kit_send(kit, &(coord_kit_request){.target = CHAT, .body = coord_slice_of(BODY)});
    assert_non_null(coord_kit_leg(kit, "decode", 0));
    coord_kit_advance(kit, INT64_C(540000) * COORD_KIT_MS);
    assert_false(coord_kit_answer(client)->whole);
    assert_int_equal(coord_kit_answer(client)->status, 0);
    coord_kit_advance(kit, INT64_C(61000) * COORD_KIT_MS);
    assert_true(coord_kit_read(client, COORD_KIT_ALL));
    assert_int_equal(coord_kit_answer(client)->status, 504);
    assert_true(coord_kit_stop(kit));
}

static void slots_are_counted_as_they_come_and_go(void **state)
{
    static const char *const files[] = {COORD_TEST_PLUGINS "/broken-grows.so", NULL};
    coord_kit *kit = coord_kit_start(&(coord_kit_options){
        .size = sizeof(coord_kit_options),
        .yaml = "pipeline: {steps: [{type: hello, params: {policy: \"http://policy.kit\"}}, {type: decode}]}",
        .plugin_files = files});
    coord_kit_client *client;

    (void)state;
    assert_non_null(kit);
    coord_kit_on(kit, &(coord_kit_rule){.upstream = "policy", .gate = "go"});
    coord_kit_on(kit, &(coord_kit_rule){0});
    assert_int_equal(coord_kit_slots_set(kit, "model"), 0);
    client = coord_kit_send(kit, &(coord_kit_request){.target = CHAT, .body = coord_slice_of(BODY)});
    assert_non_null(coord_kit_leg(kit, "policy", 0));
    assert_int_equal(coord_kit_slots_set(kit, "model"), 1);
    assert_int_equal(coord_kit_slots_gone(kit, "model"), 0);
    coord_kit_open(kit, "go");
    assert_true(coord_kit_read(client, COORD_KIT_ALL));
    assert_true(coord_kit_logged(kit, "outcome="));
    assert_int_equal(coord_kit_slots_gone(kit, "model"), 1);
    assert_true(coord_kit_stop(kit));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_leg_that_does_not_come_is_told_with_those_that_did),
        cmocka_unit_test(a_leg_and_its_answer_are_kept_byte_for_byte),
        cmocka_unit_test(a_request_without_a_rule_is_501),
        cmocka_unit_test(the_first_rule_that_matches_decides_until_it_is_used_up),
        cmocka_unit_test(a_stream_comes_in_pieces_that_gates_hold_back),
        cmocka_unit_test(a_cut_answer_is_not_whole),
        cmocka_unit_test(an_upstream_that_says_nothing_before_its_head_is_cut_or_silent),
        cmocka_unit_test(a_client_that_leaves_takes_the_leg_with_it),
        cmocka_unit_test(the_log_and_the_metrics_are_there),
        cmocka_unit_test(a_log_line_of_a_request_has_its_id),
        cmocka_unit_test(what_does_not_come_is_said_in_time),
        cmocka_unit_test(what_is_wrong_with_the_yaml_is_told),
        cmocka_unit_test(an_environment_variable_is_the_kits_own),
        cmocka_unit_test(a_timeout_of_minutes_is_over_at_once_when_its_time_is_let_pass),
        cmocka_unit_test(slots_are_counted_as_they_come_and_go),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
