/*
 * Prompt-token parity from outside. Numbers such as P9 are those of docs/usage-requirements.md. The scenario is that of the
 * change that brought the check to the Go coordinator: every kind of request against a renderer that agrees with decode, and
 * against one that does not.
 */
#include "usage_worker.h"

#include <unistd.h>

#define ERROR_MODE "    - type: prefill\n    - type: decode\n      params: {prompt_token_parity: error}\n"
#define OFF_MODE "    - type: prefill\n    - type: decode\n      params: {prompt_token_parity: \"off\"}\n"
#define STEP_ERRORS "step_errors_total{step=\"decode\",error_code=\"prompt_token_mismatch\"}"

static struct usage_worker worker;

static struct scripted *begin(unsigned reported)
{
    worker = (struct usage_worker){.reported = reported};
    return usage_worker_start(&worker);
}

static void deploy_with(struct scripted *scripted, const char *rest)
{
    deploy(&(struct plan){.no_sim = true,
                          .gateway_port = scripted_port(scripted),
                          .steps = rest ? rendered_steps(scripted, rest)
                                        : rendered_steps(scripted, "    - type: prefill\n    - type: decode\n")});
}

static struct client *ask(const struct usage_kind *kind) { return fetch("POST", kind->path, "", kind->body); }

/* P2, P6, P7, P8, P11, P22, P26, P28; X1, X8, X14 */
static void when_the_counts_agree_no_series_appears(void **state)
{
    static const char *const modes[] = {
        NULL, "    - type: prefill\n    - type: decode\n      params: {prompt_token_parity: warn}\n", ERROR_MODE};

    (void)state;
    for (size_t m = 0; m < 3; m++) {
        deploy_with(begin(RENDERED), modes[m]);
        for (const struct usage_kind *kind = USAGE_KINDS; kind->name; kind++) {
            print_message("  %s\n", kind->name);
            assert_answer(ask(kind), kind, RENDERED);
        }
        assert_true(metric_sum("prompt_token_mismatch_total") == 0);
        for (const struct usage_kind *kind = USAGE_KINDS; kind->name; kind++)
            assert_true(mismatches(kind) == -1);
        assert_true(metric(STEP_ERRORS) == -1);
        assert_int_equal(mismatch_lines(), 0);
        harness_end(NULL);
    }
}

/* P1, P9, P10, P11, P15, P16, P19, P20, P21, P38, P41, P42, P46; X4 */
static void a_drift_is_counted_and_logged_once_and_changes_nothing(void **state)
{
    (void)state;
    deploy_with(begin(DRIFTED), NULL);
    for (const struct usage_kind *kind = USAGE_KINDS; kind->name; kind++) {
        double before = mismatches(kind);
        size_t lines = mismatch_lines();

        print_message("  %s\n", kind->name);
        assert_answer(ask(kind), kind, DRIFTED);
        assert_true(mismatches(kind) == (before < 0 ? 0 : before) + 1);
        UNTIL(mismatch_lines() > lines);
        assert_int_equal(mismatch_lines(), lines + 1);
    }
    assert_true(metric_sum("prompt_token_mismatch_total") == 12);
    assert_true(metric_sum("request_error_total") == 0);
    assert_true(metric_sum("step_errors_total") == 0);
    assert_contains(process_log(&deployed.coordinator), "expected=4");
    assert_contains(process_log(&deployed.coordinator), "reported=9");
}

/* P11, P12, P13 */
static void error_mode_adds_a_step_error_and_answers_all_the_same(void **state)
{
    double count = 0;

    (void)state;
    deploy_with(begin(DRIFTED), ERROR_MODE);
    for (const struct usage_kind *kind = USAGE_KINDS; kind->name; kind++) {
        print_message("  %s\n", kind->name);
        assert_answer(ask(kind), kind, DRIFTED);
        assert_true(metric(STEP_ERRORS) == ++count);
    }
    assert_true(metric_sum("prompt_token_mismatch_total") == count);
    UNTIL(metric("request_total{model_name=\"m\"}") == count);
    assert_true(metric_sum("request_error_total") == 0);
}

/* P4 */
static void off_looks_at_nothing_and_asks_for_nothing(void **state)
{
    struct scripted *scripted = begin(DRIFTED);
    size_t n = 0;

    (void)state;
    deploy_with(scripted, OFF_MODE);
    for (const struct usage_kind *kind = USAGE_KINDS; kind->name; kind++, n++) {
        struct client *client = fetch("POST", kind->path, "Accept-Encoding: gzip, x\r\n", kind->body);
        const struct received *leg = scripted_find(scripted, "decode", n);

        print_message("  %s\n", kind->name);
        assert_answer(client, kind, DRIFTED);
        assert_non_null(strcasestr(leg->head, "accept-encoding: gzip, x\r\n"));
        assert_same_bytes(json_member(text_span(&leg->body), "stream_options"),
                          json_member(span_of(kind->body), "stream_options"));
    }
    assert_true(metric_sum("prompt_token_mismatch_total") == 0);
    assert_int_equal(mismatch_lines(), 0);
}

/* P5, decision 59 */
static void without_rendered_ids_nothing_is_checked_and_nothing_asked_for(void **state)
{
    static const char empty[] = "{\"model\":\"m\",\"prompt\":[],\"stream\":true}";
    struct scripted *scripted = begin(DRIFTED);
    size_t n = 0;

    (void)state;
    deploy(&(struct plan){
        .no_sim = true, .gateway_port = scripted_port(scripted), .steps = "    - type: prefill\n    - type: decode\n"});
    for (const struct usage_kind *kind = USAGE_KINDS; kind->name; kind++, n++) {
        print_message("  %s\n", kind->name);
        assert_answer(ask(kind), kind, DRIFTED);
        assert_same_bytes(json_member(text_span(&scripted_find(scripted, "decode", n)->body), "stream_options"),
                          json_member(span_of(kind->body), "stream_options"));
    }
    assert_true(metric_sum("prompt_token_mismatch_total") == 0);
    harness_end(NULL);
    scripted = begin(DRIFTED);
    deploy_with(scripted, NULL);
    assert_int_equal(fetch("POST", "/v1/completions", "", empty)->answer.status, 200);
    assert_int_equal(json_member(text_span(&scripted_find(scripted, "decode", 0)->body), "stream_options").size, 0);
    assert_int_equal(scripted_count(scripted, "render"), 0);
    assert_true(metric_sum("prompt_token_mismatch_total") == 0);
}

/* ---- What a pipeline may say: P1, P3, P31, P43, X18; check-time rules instead of X19 ---- */

static int check(const char *steps, struct text *output)
{
    struct text yaml = {0};
    char path[64];
    int code;

    snprintf(path, sizeof path, "/tmp/e2e-parity-%d.yaml", (int)getpid());
    text_printf(&yaml, "gateway:\n  address: http://127.0.0.1:1\npipeline:\n  steps:\n%s", steps);
    file_write(path, yaml.data);
    code = run_program((const char *const[]){coordinator_program(), "check", "--config", path, NULL},
                       (const char *const[]){NULL}, output);
    remove(path);
    text_free(&yaml);
    return code;
}

static void a_mode_is_one_of_three_and_needs_a_step_that_renders(void **state)
{
#define RENDER "    - type: render\n      params: {address: \"http://127.0.0.1:1\"}\n"
    static const struct {
        const char *name, *steps;
        int code;
        const char *says;
    } rows[] = {
        {"default", RENDER "    - type: decode\n", 0, NULL},
        {"off", RENDER "    - type: decode\n      params: {prompt_token_parity: \"off\"}\n", 0, NULL},
        {"warn", RENDER "    - type: decode\n      params: {prompt_token_parity: warn}\n", 0, NULL},
        {"error", RENDER "    - type: decode\n      params: {prompt_token_parity: error}\n", 0, NULL},
        {"an unknown word", RENDER "    - type: decode\n      params: {prompt_token_parity: strict}\n", 2,
         "prompt_token_parity"},
        {"upper case", RENDER "    - type: decode\n      params: {prompt_token_parity: Warn}\n", 2,
         "prompt_token_parity"},
        {"of a probe",
         RENDER "    - type: conditional-decode\n      params: {prompt_token_parity: strict}\n    - type: decode\n", 2,
         "prompt_token_parity"},
        {"of a probe, known",
         RENDER "    - type: conditional-decode\n      params: {prompt_token_parity: error}\n    - type: decode\n", 0,
         NULL},
        {"default, nothing renders", "    - type: decode\n", 0, NULL},
        {"warn, nothing renders", "    - type: decode\n      params: {prompt_token_parity: warn}\n", 0, "render"},
        {"error, nothing renders", "    - type: decode\n      params: {prompt_token_parity: error}\n", 2, "render"},
        {"error, rendered too late",
         "    - type: conditional-decode\n      params: {prompt_token_parity: error}\n" RENDER "    - type: decode\n",
         2, "render"},
    };
    struct text output = {0};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        print_message("  %s\n", rows[i].name);
        text_clear(&output);
        if (check(rows[i].steps, &output) != rows[i].code)
            fail_msg("not %d: %s", rows[i].code, output.data);
        if (rows[i].says) {
            assert_contains(output.data, "prompt_token_parity");
            assert_contains(output.data, rows[i].says);
        } else {
            assert_lacks(output.data, "prompt_token_parity");
        }
    }
    text_free(&output);
}

/* ---- Asking for usage ---- */

/* P14–P18, P29, P39; B07; X5: stream_options are raw text with us in any case */
static void usage_is_asked_for_where_that_changes_nothing_else(void **state)
{
    static const struct {
        const char *options; /* NULL: absent */
        const char *sent;    /* NULL: as it came */
        bool frame, checked; /* the client gets the frame; a drift is counted */
    } rows[] = {
        {NULL, "{\"include_usage\":true}", false, true},
        {"null", "{\"include_usage\":true}", false, true},
        {"{}", "{\"include_usage\":true}", false, true},
        {"{\"include_usage\":false}", "{\"include_usage\":true}", false, true},
        {"{\"include_usage\":null}", "{\"include_usage\":true}", false, true},
        {"{ \"x\":[1, 2],\"y\":1e3 }", "{ \"x\":[1, 2],\"y\":1e3,\"include_usage\":true }", false, true},
        {"{\"a\":1,\"include_usage\" : false,\"b\":2}", "{\"a\":1,\"include_usage\" : true,\"b\":2}", false, true},
        {"{\"continuous_usage_stats\":false}", "{\"continuous_usage_stats\":false,\"include_usage\":true}", false,
         true},
        {"{\"include_usage\":true}", NULL, true, true},
        {"{\"include_usage\":true,\"continuous_usage_stats\":true}", NULL, true, true},
        {"{\"continuous_usage_stats\":true}", NULL, false, false},
        {"{\"include_usage\":false,\"continuous_usage_stats\":true}", NULL, false, false},
        {"{\"include_usage\":\"true\"}", NULL, false, false},
        {"{\"include_usage\":1}", NULL, false, false},
        {"{\"continuous_usage_stats\":1}", NULL, false, false},
        {"{\"include_usage\":true,\"continuous_usage_stats\":\"yes\"}", NULL, true, false},
        {"\"x\"", NULL, false, false},
        {"3", NULL, false, false},
        {"[{\"include_usage\":true}]", NULL, false, false},
        {"true", NULL, false, false},
    };
    struct scripted *scripted = begin(DRIFTED);
    double counted = 0;
    size_t n = 0;

    (void)state;
    deploy_with(scripted, NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t k = 1; k < 6; k += 4, n++) { /* chat and completions */
            const struct usage_kind *kind = &USAGE_KINDS[k];
            struct usage_kind row = *kind;
            struct client *client;
            char body[512];

            print_message("  %s: %s\n", kind->name, rows[i].options ? rows[i].options : "absent");
            snprintf(body, sizeof body, "%.*s%s%s}", (int)strlen(kind->body) - 1, kind->body,
                     rows[i].options ? ",\"stream_options\":" : "", rows[i].options ? rows[i].options : "");
            client = fetch("POST", kind->path, "", body);
            row.asked = rows[i].frame;
            assert_answer(client, &row, DRIFTED);
            assert_same_bytes(json_member(text_span(&scripted_find(scripted, "decode", n)->body), "stream_options"),
                              span_of(rows[i].sent ? rows[i].sent : rows[i].options));
            counted += rows[i].checked;
            assert_true(metric_sum("prompt_token_mismatch_total") == counted);
            assert_int_equal(
                json_member(text_span(&scripted_find(scripted, "prefill", n)->body), "stream_options").size, 0);
        }
}

/* P19 */
static void apis_whose_streams_hold_usage_are_not_asked_for_it(void **state)
{
    static const char *const bodies[][2] = {
        {"/v1/responses", "{\"model\":\"m\",\"input\":\"hi\",\"stream\":true}"},
        {"/v1/messages", "{\"model\":\"m\",\"max_tokens\":3,\"messages\":[],\"stream\":true}"},
        {"/inference/v1/generate",
         "{\"model\":\"m\",\"token_ids\":[1,2],\"sampling_params\":{\"max_tokens\":3},\"stream\":true}"},
    };
    struct scripted *scripted = begin(RENDERED);

    (void)state;
    deploy_with(scripted, NULL);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(fetch("POST", bodies[i][0], "", bodies[i][1])->answer.status, 200);
        assert_int_equal(json_member(text_span(&scripted_find(scripted, "decode", i)->body), "stream_options").size, 0);
    }
}

/* Also without stream: the answer holds usage, and stream_options would be a 400. */
static void an_answer_that_is_no_stream_is_not_asked_for_usage(void **state)
{
    struct scripted *scripted = begin(RENDERED);

    (void)state;
    deploy_with(scripted, NULL);
    assert_answer(ask(&USAGE_KINDS[0]), &USAGE_KINDS[0], RENDERED);
    assert_int_equal(json_member(text_span(&scripted_find(scripted, "decode", 0)->body), "stream_options").size, 0);
}

/* ---- Answers that say little, nothing, or nonsense ---- */

#define HEAD(type) "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: " type "\r\n\r\n"
#define OK_EVENT "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"ok\"}}]}\n\n"
#define DONE_EVENT "data: [DONE]\n\n"

/* P10, P20, P26–P28, P40, P42; X6, X7, X9, X10, X24; B05, B06, B08; decision 50 */
static void what_an_answer_says_decides_what_is_counted(void **state)
{
    enum { CHAT_S = 1, RESPONSES_S = 7, MESSAGES_S = 9, CHAT_J = 0, MESSAGES_J = 8 };
    static const struct {
        const char *name;
        size_t kind;
        const char *type, *body;
        unsigned counted;
        bool drops_last; /* of two pieces that `body` has, the one behind \x01 is not passed on */
    } rows[] = {
        {"no usage (P40)", CHAT_J, "application/json", "{\"id\":\"d\",\"choices\":[]}", 0, false},
        {"usage null", CHAT_J, "application/json", "{\"id\":\"d\",\"usage\":null}", 0, false},
        {"a string", CHAT_J, "application/json", "{\"usage\":{\"prompt_tokens\":\"9\"}}", 0, false},
        {"negative", CHAT_J, "application/json", "{\"usage\":{\"prompt_tokens\":-9}}", 0, false},
        {"a fraction", CHAT_J, "application/json", "{\"usage\":{\"prompt_tokens\":9.0}}", 0, false},
        {"above 2^53", CHAT_J, "application/json", "{\"usage\":{\"prompt_tokens\":9007199254740993}}", 0, false},
        {"zero is a count", CHAT_J, "application/json", "{\"usage\":{\"prompt_tokens\":0}}", 1, false},
        {"JSON that is cut", CHAT_J, "application/json", "{\"usage\":{\"prompt_tokens\":9}", 0, false},
        {"neither JSON nor events", CHAT_J, "text/plain", "{\"usage\":{\"prompt_tokens\":9}}", 0, false},
        {"prompt_tokens before the others (P27)", CHAT_J, "application/json",
         "{\"usage\":{\"prompt_tokens\":4,\"input_tokens\":9,\"cache_read_input_tokens\":9}}", 0, false},
        {"messages without input (P26)", MESSAGES_J, "application/json",
         "{\"usage\":{\"cache_read_input_tokens\":9,\"output_tokens\":1}}", 0, false},
        {"messages, the whole in input (P28)", MESSAGES_J, "application/json",
         "{\"usage\":{\"input_tokens\":4,\"output_tokens\":1}}", 0, false},
        {"messages, the sum (P26)", MESSAGES_J, "application/json",
         "{\"usage\":{\"input_tokens\":1,\"cache_read_input_tokens\":3}}", 0, false},
        {"a stream that ignores the question (X6)", CHAT_S, "text/event-stream", OK_EVENT DONE_EVENT, 0, false},
        {"two frames, the second is right (B05)", CHAT_S, "text/event-stream",
         "data: {\"choices\":[{\"index\":0}],\"usage\":{\"prompt_tokens\":9}}\n\ndata: "
         "{\"choices\":[{\"index\":0}],\"usage\":{\"prompt_tokens\":4}}\n\n" DONE_EVENT,
         0, false},
        {"two frames, both drift: once (P10)", CHAT_S, "text/event-stream",
         "data: {\"choices\":[{\"index\":0}],\"usage\":{\"prompt_tokens\":8}}\n\ndata: "
         "{\"choices\":[{\"index\":0}],\"usage\":{\"prompt_tokens\":9}}\n\n" DONE_EVENT,
         1, false},
        {"usage null in each event (B06)", CHAT_S, "text/event-stream",
         "data: {\"choices\":[{\"index\":0}],\"usage\":null}\n\n" DONE_EVENT, 0, false},
        {"responses, incomplete (B08)", RESPONSES_S, "text/event-stream",
         "event: response.incomplete\ndata: "
         "{\"response\":{\"status\":\"incomplete\",\"usage\":{\"input_tokens\":9}}}\n\n",
         1, false},
        {"responses, failed without usage (B08)", RESPONSES_S, "text/event-stream",
         "event: response.failed\ndata: {\"response\":{\"status\":\"failed\",\"usage\":null}}\n\n", 0, false},
        {"messages: zero first, right later (X9)", MESSAGES_S, "text/event-stream",
         "event: message_start\ndata: {\"message\":{\"usage\":{\"input_tokens\":0}}}\n\nevent: message_delta\ndata: "
         "{\"usage\":{\"input_tokens\":4}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
         0, false},
        {"messages: only output later (X10)", MESSAGES_S, "text/event-stream",
         "event: message_start\ndata: {\"message\":{\"usage\":{\"input_tokens\":4}}}\n\nevent: message_delta\ndata: "
         "{\"usage\":{\"output_tokens\":9}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
         0, false},
        {"CRLF (X22)", CHAT_S, "text/event-stream",
         "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9}}\r\n\r\n\x01"
         "data: [DONE]\r\n\r\n",
         1, true},
        {"a stream without a last blank line", CHAT_S, "text/event-stream",
         "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9}}\n\n\x01"
         "data: [DONE]",
         1, true},
    };
    double counted = 0;

    (void)state;
    deploy_with(begin(RENDERED), NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *mark = strchr(rows[i].body, '\x01');
        struct text raw = {0};
        struct client *client;

        print_message("  %s\n", rows[i].name);
        text_printf(&raw, "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %zu\r\n\r\n%.*s%s", rows[i].type,
                    strlen(rows[i].body) - (mark != NULL), (int)(mark ? mark - rows[i].body : 0), rows[i].body,
                    mark ? mark + 1 : rows[i].body);
        worker.raw = raw.data;
        client = ask(&USAGE_KINDS[rows[i].kind]);
        assert_int_equal(client->answer.status, 200);
        assert_true(client->answer.whole);
        assert_same_bytes(text_span(&client->answer.body), span_of(rows[i].drops_last ? mark + 1 : rows[i].body));
        counted += rows[i].counted;
        assert_true(metric_sum("prompt_token_mismatch_total") == counted);
        worker.raw = NULL;
        text_free(&raw);
    }
}

/* X7: the worker's own 400, with nothing dropped; the step error is the upstream's alone. */
static void an_error_in_place_of_a_stream_is_passed_on(void **state)
{
    static const char error[] = "{\"choices\":[],\"usage\":{\"prompt_tokens\":9},\"error\":{\"message\":\"no\"}}";
    char raw[512];
    struct client *client;

    (void)state;
    deploy_with(begin(DRIFTED), ERROR_MODE);
    snprintf(raw, sizeof raw, "HTTP/1.1 400 Bad\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
             strlen(error), error);
    worker.raw = raw;
    client = ask(&USAGE_KINDS[1]);
    assert_int_equal(client->answer.status, 400);
    assert_same_bytes(text_span(&client->answer.body), span_of(error));
    assert_int_equal(client->answer.length, strlen(error));
    UNTIL(metric("step_errors_total{step=\"decode\",error_code=\"upstream_4xx\"}") == 1);
    assert_true(metric(STEP_ERRORS) == -1);
    assert_true(metric_sum("prompt_token_mismatch_total") == 0);
}

/* X16, B11: identity is asked for; what is compressed all the same passes as it is. */
static void a_compressed_answer_passes_unread(void **state)
{
    static const char body[] = "\x1f\x8b\x08 not really";
    struct scripted *scripted = begin(DRIFTED);
    char raw[512];
    struct client *client;

    (void)state;
    deploy_with(scripted, NULL);
    snprintf(raw, sizeof raw,
             "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nETag: "
             "\"x\"\r\nContent-Length: %zu\r\n\r\n%s",
             strlen(body), body);
    worker.raw = raw;
    client = fetch("POST", CHAT_PATH, "Accept-Encoding: gzip\r\n", CHAT);
    assert_non_null(strcasestr(scripted_find(scripted, "decode", 0)->head, "\r\naccept-encoding: identity\r\n"));
    assert_same_bytes(text_span(&client->answer.body), span_of(body));
    assert_int_equal(client->answer.length, strlen(body));
    assert_string_equal(answer_header(client, "content-encoding"), "gzip");
    assert_string_equal(answer_header(client, "etag"), "\"x\"");
    assert_true(metric_sum("prompt_token_mismatch_total") == 0);
}

/* X23 */
static void an_event_of_two_megabytes_is_read_and_passes_at_once(void **state)
{
    struct text event = {0}, raw = {0};
    struct client *client;

    (void)state;
    deploy_with(begin(DRIFTED), NULL);
    text_printf(&event,
                "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"output\":\"");
    while (event.size < 2 << 20)
        text_printf(&event, "a long and boring text about usage, ");
    text_printf(&event, "\",\"usage\":{\"input_tokens\":9}}}\n\n");
    text_printf(&raw, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\nContent-Type: text/event-stream\r\n\r\n%s", event.size,
                event.data);
    worker.raw = raw.data;
    client = ask(&USAGE_KINDS[7]);
    assert_int_equal(client->answer.status, 200);
    assert_same_bytes(text_span(&client->answer.body), text_span(&event));
    assert_int_equal(client->answer.length, event.size);
    assert_true(metric_sum("prompt_token_mismatch_total") == 1);
    text_free(&event);
    text_free(&raw);
}

/* P38, X15 */
static void ids_that_are_forwarded_to_decode_are_said_so(void **state)
{
    struct usage_kind kind = USAGE_KINDS[0];
    struct scripted *scripted = begin(DRIFTED);

    (void)state;
    deploy_with(scripted, "    - type: prefill\n    - type: decode\n      params: {forward_token_ids: true}\n");
    kind.ids_forwarded = "true";
    assert_answer(ask(&kind), &kind, DRIFTED);
    assert_true(mismatches(&kind) == 1);
    assert_true(
        span_is(json_member(json_member(text_span(&scripted_find(scripted, "decode", 0)->body), "kv_transfer_params"),
                            "prompt_token_ids"),
                "[9,77,77,5]"));
}

/* ---- Clients that leave ---- */

static void play_until_left(struct stage *stage)
{
    static const char event[] = "data: {\"choices\":[{\"index\":0}],\"usage\":{\"prompt_tokens\":9}}\n\n";

    stage_stream_head(stage);
    for (int i = 0; i < 3; i++)
        stage_chunk(stage, event, sizeof event - 1);
    stage_wait_closed(stage, PATIENCE_MS);
}

/* X11 */
static void a_client_that_leaves_after_a_drift_is_counted_once(void **state)
{
    struct scripted *scripted = scripted_start(&(struct scripted_options){.decode = play_until_left});
    struct client *client;

    (void)state;
    deploy_with(scripted, NULL);
    client = client_open(deployed.port);
    client_post(client, CHAT_PATH, "", span_of(STREAM));
    assert_true(client_read_head(client, PATIENCE_MS));
    assert_true(client_read_body(client, 100, PATIENCE_MS));
    client_reset(client);
    UNTIL(metric_sum("prompt_token_mismatch_total") == 1);
    UNTIL(metric("request_running{model_name=\"m\"}") == 0);
    assert_true(metric_sum("prompt_token_mismatch_total") == 1);
    assert_int_equal(mismatch_lines(), 1);
}

/* ---- Labels ---- */

/* X17 */
static void model_names_beyond_a_thousand_share_a_label(void **state)
{
    struct client *client;
    struct text body = {0};

    (void)state;
    deploy_with(begin(DRIFTED), NULL);
    client = client_open(deployed.port);
    for (int i = 0; i < 1002; i++) {
        text_clear(&body);
        text_printf(&body, "{\"model\":\"model-%d\",\"prompt\":[1,2,3,4]}", i);
        client_post(client, "/v1/completions", "", text_span(&body));
        assert_true(client_read(client, PATIENCE_MS));
        assert_int_equal(client->answer.status, 200);
    }
    assert_true(
        metric(
            "prompt_token_mismatch_total{model_name=\"model-999\",api_type=\"completions\",ids_forwarded=\"true\"}") ==
        1);
    assert_true(
        metric(
            "prompt_token_mismatch_total{model_name=\"model-1000\",api_type=\"completions\",ids_forwarded=\"true\"}") ==
        -1);
    assert_true(
        metric("prompt_token_mismatch_total{model_name=\"other\",api_type=\"completions\",ids_forwarded=\"true\"}") ==
        2);
    text_free(&body);
}

/* ---- The simulator's real templates: P46 ---- */

static void two_templates_that_differ_are_noticed(void **state)
{
    static const char thinks_not[] = "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"chat_"
                                     "template_kwargs\":{\"enable_thinking\":false}}";
    static const char keys[] = "{\"model\":\"m\",\"tools\":[{\"zebra\":{\"b\":1,\"a\":2},\"apple\":1.0}],\"messages\":["
                               "{\"content\":\"caf\\u00e9\",\"role\":\"user\"}]}";

    (void)state;
    deploy(&(struct plan){0});
    for (int i = 0; i < 3; i++)
        assert_int_equal(fetch("POST", CHAT_PATH, "",
                               i == 0   ? thinks_not
                               : i == 1 ? keys
                                        : STREAM)
                             ->answer.status,
                         200);
    assert_true(metric_sum("prompt_token_mismatch_total") == 0);
    harness_end(NULL);
    deploy(&(struct plan){.sim_flags = (const char *const[]){"--render-template", "B", NULL}});
    assert_int_equal(fetch("POST", CHAT_PATH, "", thinks_not)->answer.status, 200);
    assert_true(metric_sum("prompt_token_mismatch_total") == 1);
    assert_true(
        metric("prompt_token_mismatch_total{model_name=\"m\",api_type=\"chat_completions\",ids_forwarded=\"false\"}") ==
        1);
}

/* worker-sim answers as the engine does, on every API, by a code of its own. */
static void every_api_of_a_deployment_that_renders_alike_agrees(void **state)
{
    (void)state;
    deploy(&(struct plan){0});
    for (const struct usage_kind *kind = USAGE_KINDS; kind->name; kind++) {
        struct client *client;

        if (strstr(kind->name, "image"))
            continue; /* decode would need its features */
        print_message("  %s\n", kind->name);
        client = fetch("POST", kind->path, "", kind->body);
        if (client->answer.status != 200)
            fail_msg("%d: %s", client->answer.status, client->answer.body.data);
        assert_true(client->answer.whole);
        if (kind->dropped)
            assert_lacks(client->answer.body.data, "\"usage\":{");
        else
            assert_contains(client->answer.body.data, "\"usage\":{");
        assert_true(metric_sum("prompt_token_mismatch_total") == 0);
    }
    UNTIL(metric("execution_path_total{model_name=\"m\",path=\"prefill-decode\"}") == 11);
    assert_true(metric("kv_transfer_missing_total{model_name=\"m\"}") == -1);
    assert_true(metric_sum("response_output_tokens_count") == 11);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(when_the_counts_agree_no_series_appears),
        TEST(a_drift_is_counted_and_logged_once_and_changes_nothing),
        TEST(error_mode_adds_a_step_error_and_answers_all_the_same),
        TEST(off_looks_at_nothing_and_asks_for_nothing),
        TEST(without_rendered_ids_nothing_is_checked_and_nothing_asked_for),
        TEST(a_mode_is_one_of_three_and_needs_a_step_that_renders),
        TEST(usage_is_asked_for_where_that_changes_nothing_else),
        TEST(apis_whose_streams_hold_usage_are_not_asked_for_it),
        TEST(an_answer_that_is_no_stream_is_not_asked_for_usage),
        TEST(what_an_answer_says_decides_what_is_counted),
        TEST(an_error_in_place_of_a_stream_is_passed_on),
        TEST(a_compressed_answer_passes_unread),
        TEST(an_event_of_two_megabytes_is_read_and_passes_at_once),
        TEST(ids_that_are_forwarded_to_decode_are_said_so),
        TEST(a_client_that_leaves_after_a_drift_is_counted_once),
        TEST(model_names_beyond_a_thousand_share_a_label),
        TEST(two_templates_that_differ_are_noticed),
        TEST(every_api_of_a_deployment_that_renders_alike_agrees),
    };

    return harness_run(tests);
}
