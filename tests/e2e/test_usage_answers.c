/*
 * What usage may change of an answer, and what it must not: prefill's cached count, probes that are served or put off, lengths,
 * fields and times. Numbers such as P30 are those of docs/usage-requirements.md.
 */
#include "usage_worker.h"

#define PROBING "    - type: conditional-decode\n    - type: prefill\n    - type: decode\n"
#define PROBING_IN(mode)                                                                                               \
    "    - type: conditional-decode\n      params: {prompt_token_parity: " mode                                        \
    "}\n    - type: prefill\n    - type: decode\n      params: {prompt_token_parity: \"off\"}\n"
#define PROBES(result) "conditional_decode_probes_total{result=\"" result "\"}"
#define PROBE_ERRORS "step_errors_total{step=\"conditional-decode\",error_code=\"prompt_token_mismatch\"}"

static struct usage_worker worker;

static struct scripted *begin(unsigned reported)
{
    worker = (struct usage_worker){.reported = reported};
    return usage_worker_start(&worker);
}

static void deploy_with(struct scripted *scripted, const char *rest)
{
    deploy(&(struct plan){
        .no_sim = true, .gateway_port = scripted_port(scripted), .steps = rendered_steps(scripted, rest)});
}

static struct client *ask(const struct usage_kind *kind) { return fetch("POST", kind->path, "", kind->body); }

/* ---- Prefill's cached count: P23, P24, X2, X3, B01, B12, decisions 34, 52 ---- */

#define CHAT_PREFILL                                                                                                   \
    "{\"id\":\"p\",\"choices\":[],\"usage\":{\"prompt_tokens\":4,\"prompt_tokens_details\":{\"cached_tokens\":2}},"    \
    "\"kv_transfer_params\":{\"a\":1}}"
#define RESPONSES_PREFILL                                                                                              \
    "{\"id\":\"p\",\"usage\":{\"input_tokens\":4,\"input_tokens_details\":{\"cached_tokens\":2}},\"kv_transfer_"       \
    "params\":{\"a\":1}}"
#define MESSAGES_PREFILL                                                                                               \
    "{\"id\":\"p\",\"usage\":{\"input_tokens\":2,\"cache_read_input_tokens\":2},\"kv_transfer_params\":{\"a\":1}}"

static const struct cached_row {
    const char *name;
    size_t kind; /* of USAGE_KINDS */
    const char *prefill, *said, *wanted;
    bool drifts;
} CACHED[] = {
    {"replaced, not added", 0, CHAT_PREFILL,
     "{\"z\":1,\"x\":-0.10,\"usage\":{\"prompt_tokens\":4,\"prompt_tokens_details\":{\"cached_tokens\":4},\"total_"
     "tokens\":5},\"b\":\"\\u00e9\"}",
     "{\"z\":1,\"x\":-0.10,\"usage\":{\"prompt_tokens\":4,\"prompt_tokens_details\":{\"cached_tokens\":2},\"total_"
     "tokens\":5},\"b\":\"\\u00e9\"}",
     false},
    {"inserted", 4, CHAT_PREFILL, "{\"usage\":{\"prompt_tokens\":4}}",
     "{\"usage\":{\"prompt_tokens\":4,\"prompt_tokens_details\":{\"cached_tokens\":2}}}", false},
    {"with a drift", 0, CHAT_PREFILL, "{\"usage\":{\"prompt_tokens\":9}}",
     "{\"usage\":{\"prompt_tokens\":9,\"prompt_tokens_details\":{\"cached_tokens\":2}}}", true},
    {"none reported: left alone", 0,
     "{\"id\":\"p\",\"usage\":{\"prompt_tokens\":4,\"prompt_tokens_details\":null},\"kv_transfer_params\":{\"a\":1}}",
     "{\"usage\":{\"prompt_tokens\":4,\"prompt_tokens_details\":{\"cached_tokens\":4}}}", NULL, false},
    {"zero is reported", 0,
     "{\"usage\":{\"prompt_tokens_details\":{\"cached_tokens\":0}},\"kv_transfer_params\":{\"a\":1}}",
     "{\"usage\":{\"prompt_tokens\":4,\"prompt_tokens_details\":{\"cached_tokens\":4}}}",
     "{\"usage\":{\"prompt_tokens\":4,\"prompt_tokens_details\":{\"cached_tokens\":0}}}", false},
    {"nonsense is none", 0,
     "{\"usage\":{\"prompt_tokens_details\":{\"cached_tokens\":-2}},\"kv_transfer_params\":{\"a\":1}}",
     "{\"usage\":{\"prompt_tokens\":4}}", NULL, false},
    {"right already", 0, CHAT_PREFILL,
     "{\"usage\":{\"prompt_tokens\":4,\"prompt_tokens_details\":{\"cached_tokens\":2}}}", NULL, false},
    {"no usage", 0, CHAT_PREFILL, "{\"id\":\"d\"}", NULL, false},
    {"not JSON", 0, CHAT_PREFILL, "{\"usage\":{\"prompt_tokens\":4}", NULL, false},
    {"responses", 6, RESPONSES_PREFILL,
     "{\"usage\":{\"input_tokens\":4,\"input_tokens_details\":{\"cached_tokens\":4}}}",
     "{\"usage\":{\"input_tokens\":4,\"input_tokens_details\":{\"cached_tokens\":2}}}", false},
    {"messages: the sum stays (X3)", 8, MESSAGES_PREFILL,
     "{\"usage\":{\"input_tokens\":0,\"cache_read_input_tokens\":4}}",
     "{\"usage\":{\"input_tokens\":2,\"cache_read_input_tokens\":2}}", false},
    {"messages: clamped, parity sees the worker's numbers (X3)", 8,
     "{\"usage\":{\"input_tokens\":0,\"cache_read_input_tokens\":99},\"kv_transfer_params\":{\"a\":1}}",
     "{\"usage\":{\"input_tokens\":4,\"cache_read_input_tokens\":0}}",
     "{\"usage\":{\"input_tokens\":0,\"cache_read_input_tokens\":99}}", false},
};

static void prefills_cached_count_is_what_the_client_is_told(void **state)
{
    double counted = 0;

    (void)state;
    deploy_with(begin(RENDERED), "    - type: prefill\n    - type: decode\n");
    for (size_t i = 0; i < sizeof CACHED / sizeof *CACHED; i++) {
        const struct cached_row *row = &CACHED[i];
        char raw[1024];
        struct client *client;

        print_message("  %s\n", row->name);
        snprintf(raw, sizeof raw,
                 "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nETag: \"x\"\r\nContent-Length: %zu\r\n\r\n%s",
                 strlen(row->said), row->said);
        worker.raw = raw;
        worker.prefill = row->prefill;
        client = ask(&USAGE_KINDS[row->kind]);
        assert_int_equal(client->answer.status, 200);
        assert_true(client->answer.whole);
        assert_same_bytes(text_span(&client->answer.body), span_of(row->wanted ? row->wanted : row->said));
        if (row->wanted) {
            assert_null(answer_header(client, "etag"));
            assert_true(client->answer.length < 0 || (size_t)client->answer.length == strlen(row->wanted));
        }
        counted += row->drifts;
        assert_true(metric_sum("prompt_token_mismatch_total") == counted);
    }
    worker.raw = NULL;
}

/* In a stream, also with parity off: the two are independent. */
static void a_stream_is_told_prefills_count_in_every_event(void **state)
{
    static const char *const parts[] = {"data: {\"choices\":[{\"index\":0}],\"usage\":{\"prompt_tokens\":4",
                                        "}}\r\n\r\n", "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":4",
                                        "}}\r\n\r\ndata: [DONE]\r\n\r\n"};
    static const char told[] = ",\"prompt_tokens_details\":{\"cached_tokens\":2}";

    (void)state;
    for (int off = 0; off < 2; off++) {
        char raw[1024], wanted[1024];
        struct client *client;

        deploy_with(begin(RENDERED),
                    off ? "    - type: prefill\n    - type: decode\n      params: {prompt_token_parity: \"off\"}\n"
                        : "    - type: prefill\n    - type: decode\n");
        worker.prefill = CHAT_PREFILL;
        snprintf(raw, sizeof raw,
                 "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %zu\r\n\r\n%s%s%s%s",
                 strlen(parts[0]) + strlen(parts[1]) + strlen(parts[2]) + strlen(parts[3]), parts[0], parts[1],
                 parts[2], parts[3]);
        snprintf(wanted, sizeof wanted, "%s%s%s%s%s%s", parts[0], told, parts[1], parts[2], told, parts[3]);
        worker.raw = raw;
        client = ask(&USAGE_KINDS[2]);
        assert_same_bytes(text_span(&client->answer.body), span_of(wanted));
        worker.raw = NULL;
        harness_end(NULL);
    }
}

static void metrics_tell_what_clients_were_told(void **state)
{
    (void)state;
    deploy_with(begin(RENDERED), "    - type: prefill\n    - type: decode\n");
    worker.prefill = CHAT_PREFILL;
    assert_int_equal(ask(&USAGE_KINDS[0])->answer.status, 200); /* decode says nothing of a cache */
    UNTIL(metric("request_total{model_name=\"m\"}") == 1);
    assert_true(metric("response_cached_tokens_count{model_name=\"m\",api_type=\"chat_completions\"}") == 1);
    assert_true(metric("response_cached_tokens_sum{model_name=\"m\",api_type=\"chat_completions\"}") == 2);
    assert_true(metric("response_output_tokens_sum{model_name=\"m\",api_type=\"chat_completions\"}") == 2);
}

/* ---- Probes: P30–P35, P47, X12, X13, decision 35 ---- */

static void a_probe_that_is_served_is_checked_like_decode(void **state)
{
    double count = 0;

    (void)state;
    deploy_with(begin(DRIFTED), PROBING_IN("error"));
    for (const struct usage_kind *kind = USAGE_KINDS; kind->name; kind++) {
        double before = mismatches(kind);

        print_message("  %s\n", kind->name);
        assert_answer(ask(kind), kind, DRIFTED);
        assert_true(mismatches(kind) == (before < 0 ? 0 : before) + 1);
        assert_true(metric(PROBE_ERRORS) == ++count);
        assert_true(metric(PROBES("served")) == count);
        UNTIL(metric("execution_path_total{model_name=\"m\",path=\"decode-only\"}") == count);
    }
    assert_true(metric_sum("request_error_total") == 0);
}

static void a_served_probe_knows_the_same_modes(void **state)
{
    static const struct {
        const char *steps;
        unsigned reported;
        bool counted, error, asks;
    } rows[] = {
        {PROBING, RENDERED, false, false, true},
        {PROBING, DRIFTED, true, false, true},
        {PROBING_IN("warn"), DRIFTED, true, false, true},
        {PROBING_IN("error"), RENDERED, false, false, true},
        {PROBING_IN("\"off\""), DRIFTED, false, false, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct scripted *scripted = begin(rows[i].reported);

        deploy_with(scripted, rows[i].steps);
        assert_answer(ask(&USAGE_KINDS[1]), &USAGE_KINDS[1], rows[i].reported);
        assert_int_equal(json_member(text_span(&scripted_find(scripted, "decode", 0)->body), "stream_options").size > 0,
                         rows[i].asks);
        assert_true(metric_sum("prompt_token_mismatch_total") == rows[i].counted);
        assert_true(metric(PROBE_ERRORS) == (rows[i].error ? 1 : -1));
        assert_int_equal(scripted_count(scripted, "prefill"), 0);
        harness_end(NULL);
    }
}

/* P32, P35, X12: what the probe was asked is left nowhere. */
static void a_probe_that_is_put_off_leaves_no_trace(void **state)
{
    static const char body[] = "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"stream\":true,"
                               "\"stream_options\":{ \"x\" :[1, 2]}}";
    static const struct {
        const char *name;
        int probe;
        const char *counted;
    } rows[] = {
        {"412", 412, PROBES("deferred")}, {"503", 503, PROBES("error")}, {"no answer", -1, PROBES("transport_error")}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct scripted *scripted = begin(DRIFTED);
        const struct received *prefill, *decode;
        struct client *client;

        print_message("  %s\n", rows[i].name);
        deploy_with(scripted, "    - type: conditional-decode\n    - type: prefill\n    - type: decode\n      params: "
                              "{prompt_token_parity: \"off\"}\n");
        worker.probe = rows[i].probe;
        client = fetch("POST", CHAT_PATH, "", body);
        assert_int_equal(client->answer.status, 200);
        assert_null(answer_header(client, "retry-after"));
        assert_lacks(client->answer.body.data, "probe");
        assert_same_bytes(json_member(text_span(&scripted_find(scripted, "decode", 0)->body), "stream_options"),
                          span_of("{ \"x\" :[1, 2],\"include_usage\":true}"));
        prefill = scripted_find(scripted, "prefill", 0);
        decode = scripted_find(scripted, "decode", 1);
        assert_int_equal(json_member(text_span(&prefill->body), "stream_options").size, 0);
        assert_same_bytes(json_member(text_span(&decode->body), "stream_options"), span_of("{ \"x\" :[1, 2]}"));
        assert_true(memcmp(decode->body.data, body, strlen(body) - 1) == 0);
        assert_true(metric(rows[i].counted) == 1);
        assert_true(metric_sum("conditional_decode_probes_total") == 1);
        assert_true(metric_sum("prompt_token_mismatch_total") == 0);
        harness_end(NULL);
    }
}

static void a_request_whose_probe_was_put_off_counts_one_drift(void **state)
{
    (void)state;
    deploy_with(begin(DRIFTED), PROBING);
    worker.probe = 412;
    assert_answer(ask(&USAGE_KINDS[1]), &USAGE_KINDS[1], DRIFTED);
    assert_true(metric_sum("prompt_token_mismatch_total") == 1);
    UNTIL(metric("execution_path_total{model_name=\"m\",path=\"prefill-decode\"}") == 1);
}

static void a_probe_that_is_refused_is_the_clients_answer(void **state)
{
    struct scripted *scripted = begin(DRIFTED);
    struct client *client;

    (void)state;
    deploy_with(scripted, PROBING);
    worker.probe = 400;
    client = ask(&USAGE_KINDS[1]);
    assert_int_equal(client->answer.status, 400);
    assert_same_bytes(text_span(&client->answer.body), span_of("{\"error\":{\"message\":\"probe\"}}"));
    assert_true(metric(PROBES("error")) == 1);
    assert_int_equal(scripted_count(scripted, "decode"), 1);
    assert_true(metric_sum("prompt_token_mismatch_total") == 0);
}

/* ---- With nothing to change an answer is as without: P36, P37, P44, P48, X1 ---- */

static const char PLAIN[] =
    "{ \"id\":\"d\",\"choices\":[ ],\"usage\":{\"prompt_tokens\":4,\"completion_tokens\":1.0} }\n";

static void play_plain(struct stage *stage)
{
    stage_say(stage,
              "HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=utf-8\r\nETag: \"x\"\r\nDigest: "
              "d\r\nX-Worker: 7\r\nContent-Length: %zu\r\n\r\n",
              sizeof PLAIN - 1);
    stage_send(stage, PLAIN, 20);
    pause_ms(100);
    stage_send(stage, PLAIN + 20, sizeof PLAIN - 1 - 20);
}

/* The fields, without those that differ by request. */
static void fields_of(const struct client *client, struct text *fields)
{
    text_clear(fields);
    for (const char *at = client->answer.head, *end; (end = strstr(at, "\r\n")) != NULL && end != at; at = end + 2)
        if (strncasecmp(at, "date:", 5) != 0 && strncasecmp(at, "x-request-id:", 13) != 0)
            text_printf(fields, "%.*s\n", (int)(end - at), at);
}

static void a_whole_answer_is_the_same_with_and_without_the_check(void **state)
{
    struct text fields[2] = {{0}, {0}};

    (void)state;
    for (int off = 0; off < 2; off++) {
        struct scripted *scripted = scripted_start(&(struct scripted_options){.decode = play_plain});
        struct client *client;

        deploy_with(scripted, off ? "    - type: decode\n      params: {prompt_token_parity: \"off\"}\n"
                                  : "    - type: decode\n");
        client = fetch("POST", CHAT_PATH, "", CHAT);
        assert_same_bytes(text_span(&client->answer.body), span_of(PLAIN));
        assert_int_equal(client->answer.length, sizeof PLAIN - 1);
        assert_false(client->answer.chunked);
        assert_true(client->answer.arrival_count >= 2); /* what came first went out first */
        assert_true(
            client->answer.arrivals[client->answer.arrival_count - 1].at_ms - client->answer.arrivals[0].at_ms >= 50);
        assert_string_equal(answer_header(client, "etag"), "\"x\"");
        assert_string_equal(answer_header(client, "digest"), "d");
        fields_of(client, &fields[off]);
        harness_end(NULL);
    }
    assert_same_bytes(text_span(&fields[0]), text_span(&fields[1]));
    text_free(&fields[0]);
    text_free(&fields[1]);
}

/* Each event says when it was sent. The last but one holds usage; it stays, because the client asked. */
static void play_timed(struct stage *stage)
{
    stage_stream_head(stage);
    for (int i = 0; i < 4; i++) {
        char event[200];
        int size = snprintf(event, sizeof event, "data: {\"at\":%lld,\"choices\":[],\"usage\":%s}\n\n",
                            (long long)now_ms(), i == 2 ? "{\"prompt_tokens\":4}" : "null");

        stage_chunk(stage, event, (size_t)size - 1); /* the blank line comes with what follows */
        pause_ms(120);
        stage_chunk(stage, "\n", 1);
    }
    stage_chunk(stage, "data: [DONE]\n\n", 14);
    stage_last_chunk(stage);
}

static void an_observed_stream_is_held_back_nowhere(void **state)
{
    const char *at;

    (void)state;
    for (int off = 0; off < 2; off++) {
        struct scripted *scripted = scripted_start(&(struct scripted_options){.decode = play_timed});
        struct client *client;

        deploy_with(scripted, off ? "    - type: decode\n      params: {prompt_token_parity: \"off\"}\n"
                                  : "    - type: decode\n");
        client = fetch("POST", CHAT_PATH, "", USAGE_KINDS[2].body);
        assert_true(client->answer.whole);
        at = client->answer.body.data;
        for (size_t i = 0, events = 0; i < client->answer.arrival_count && events < 4; i++) {
            if (client->answer.arrivals[i].size < 20)
                continue;
            at = strstr(at, "\"at\":") + 5;
            assert_true(client->answer.arrivals[i].at_ms - strtoll(at, NULL, 10) < promptly_ms());
            events++;
        }
        assert_true(metric_sum("prompt_token_mismatch_total") == 0);
        harness_end(NULL);
    }
}

/* With a frame to drop, every other event still goes out when it is whole. */
static void play_with_frame(struct stage *stage)
{
    static const char last[] = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":4}}\n\ndata: [DONE]\n\n";

    stage_stream_head(stage);
    for (int i = 0; i < 3; i++) {
        char event[200];
        int size =
            snprintf(event, sizeof event, "data: {\"at\":%lld,\"choices\":[{\"index\":0}]}\n\n", (long long)now_ms());

        stage_chunk(stage, event, (size_t)size);
        pause_ms(120);
    }
    stage_chunk(stage, last, sizeof last - 1);
    stage_last_chunk(stage);
}

static void a_stream_whose_frame_is_dropped_is_held_back_nowhere_else(void **state)
{
    struct scripted *scripted = scripted_start(&(struct scripted_options){.decode = play_with_frame});
    struct client *client;
    const char *at;

    (void)state;
    deploy_with(scripted, "    - type: decode\n");
    client = fetch("POST", CHAT_PATH, "", STREAM);
    assert_true(client->answer.whole);
    assert_lacks(client->answer.body.data, "usage");
    assert_int_equal(text_count(&client->answer.body, "data: "), 4);
    at = client->answer.body.data;
    for (size_t i = 0; i < 3; i++) {
        at = strstr(at, "\"at\":") + 5;
        assert_true(client->answer.arrivals[i].at_ms - strtoll(at, NULL, 10) < promptly_ms());
    }
}

/* The engine tells its fingerprint on the last frame: with the frame that only we have asked for it moves to the event before. */
#define LAST_EVENT "data: {\"choices\":[{\"index\":0,\"finish_reason\":\"stop\"}]"
#define FINGERPRINT ",\"system_fingerprint\":\"vllm-1\""

enum ending { AT_ONCE, LATE, NEVER };

static void play_ending(struct stage *stage)
{
    static const char last[] = LAST_EVENT "}\n\n";
    static const char frame[] =
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":4}" FINGERPRINT "}\n\ndata: [DONE]\n\n";
    enum ending ending = *(enum ending *)stage->context;

    stage_stream_head(stage);
    stage_chunk(stage, last, sizeof last - 1);
    if (ending == NEVER) {
        stage_reset(stage);
        return;
    }
    if (ending == LATE)
        pause_ms(promptly_ms() + 300);
    stage_chunk(stage, frame, sizeof frame - 1);
    stage_last_chunk(stage);
}

static void what_stood_on_the_dropped_frame_stands_on_the_event_before(void **state)
{
    static const struct {
        enum ending ending;
        const char *wanted; /* what the answer begins with */
    } rows[] = {{AT_ONCE, LAST_EVENT FINGERPRINT "}\n\ndata: [DONE]\n\n"},
                {LATE, LAST_EVENT "}\n\ndata: [DONE]\n\n"},
                {NEVER, LAST_EVENT "}\n\ndata: {\"error\":"}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        enum ending ending = rows[i].ending;
        struct scripted *scripted =
            scripted_start(&(struct scripted_options){.decode = play_ending, .context = &ending});
        struct client *client;

        deploy_with(scripted, "    - type: decode\n");
        client = fetch("POST", CHAT_PATH, "", STREAM);
        assert_true(client->answer.whole);
        assert_int_equal(strncmp(client->answer.body.data, rows[i].wanted, strlen(rows[i].wanted)), 0);
        if (ending == LATE) /* it did not wait for long */
            assert_true(client->answer.arrivals[client->answer.arrival_count - 1].at_ms -
                            client->answer.arrivals[0].at_ms >=
                        200);
        harness_end(NULL);
    }
}

/* ---- Streams that break: decision 53 with writers in between ---- */

static void play_broken(struct stage *stage)
{
    static const char event[] = "data: {\"choices\":[{\"index\":0}],\"usage\":{\"prompt_tokens\":9}}\n\n";
    static const char half[] = "data: {\"choices\":[";

    stage_stream_head(stage);
    stage_chunk(stage, event, sizeof event - 1);
    if (stage->context)
        stage_chunk(stage, half, sizeof half - 1);
    pause_ms(20);
    stage_reset(stage);
}

/* C13, P10: what was seen before the break is compared; the client learns of the break. */
static void a_stream_that_breaks_is_compared_by_what_came(void **state)
{
    for (int middle = 0; middle < 2; middle++) {
        struct scripted *scripted =
            scripted_start(&(struct scripted_options){.decode = play_broken, .context = middle ? &worker : NULL});
        struct client *client;

        (void)state;
        deploy_with(scripted, "    - type: decode\n");
        client = fetch("POST", CHAT_PATH, "", STREAM);
        assert_int_equal(client->answer.status, 200);
        if (!middle) {
            assert_true(client->answer.whole);
            assert_contains(client->answer.body.data, "data: {\"error\":");
        } else {
            assert_false(client->answer.whole);
            assert_lacks(client->answer.body.data, "error");
        }
        assert_lacks(client->answer.body.data, "[DONE]");
        UNTIL(metric_sum("prompt_token_mismatch_total") == 1);
        harness_end(NULL);
    }
}

/* ---- The renderer and the worker see the same bytes: K1–K4, K6–K9 ---- */

static void render_gets_the_bytes_that_the_client_sent(void **state)
{
    static const struct {
        const char *name, *body, *render; /* NULL: the same */
        const char *counted;
    } rows[] = {
        {"as it came, white space and all (K1)",
         " { \"messages\" : [ {\"role\":\"user\",\"content\":\"\\u00e9\"} ],\"tools\":[{\"b\":1,\"a\":2}], "
         "\"model\":\"m\" , \"x\":1e0} ",
         NULL, "verbatim"},
        {"an alias (K8)", "{\"model\":\"m:lora-7\",\"messages\":[]}", NULL, "verbatim"},
        {"a model that is no string", "{\"model\":7,\"messages\":[]}", NULL, "verbatim"},
        {"no model", "{\"messages\":[]}", NULL, "verbatim"},
        {"what is the engines' own is taken out, and only that (K3, K9)",
         "{\"b\":1 , \"kv_transfer_params\":{\"x\":1},\"model\":\"m\",\"messages\":[ ],\"a\":2}",
         "{\"b\":1 ,\"model\":\"m\",\"messages\":[ ],\"a\":2}", "spliced"},
    };
    struct scripted *scripted = begin(RENDERED);

    (void)state;
    deploy_with(scripted, "    - type: prefill\n    - type: decode\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct text page = {0};
        char part[64];

        print_message("  %s\n", rows[i].name);
        assert_int_equal(fetch("POST", CHAT_PATH, "", rows[i].body)->answer.status, 200);
        if (!rows[i].render)
            assert_same_bytes(text_span(&scripted_find(scripted, "render", i)->body), span_of(rows[i].body));
        else
            assert_lacks(scripted_find(scripted, "render", i)->body.data, "kv_transfer_params");
        assert_same_bytes(json_member(text_span(&scripted_find(scripted, "decode", i)->body), "messages"),
                          json_member(span_of(rows[i].body), "messages"));
        snprintf(part, sizeof part, "body=\"%s\"}", rows[i].counted);
        metrics_read(&page);
        assert_contains(page.data, part);
        text_free(&page);
    }
    assert_true(metric("render_body_total{model_name=\"m\",body=\"verbatim\"}") == 1);
    assert_true(metric("render_body_total{model_name=\"m\",body=\"spliced\"}") == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(prefills_cached_count_is_what_the_client_is_told),
        TEST(a_stream_is_told_prefills_count_in_every_event),
        TEST(metrics_tell_what_clients_were_told),
        TEST(a_probe_that_is_served_is_checked_like_decode),
        TEST(a_served_probe_knows_the_same_modes),
        TEST(a_probe_that_is_put_off_leaves_no_trace),
        TEST(a_request_whose_probe_was_put_off_counts_one_drift),
        TEST(a_probe_that_is_refused_is_the_clients_answer),
        TEST(a_whole_answer_is_the_same_with_and_without_the_check),
        TEST(an_observed_stream_is_held_back_nowhere),
        TEST(a_stream_whose_frame_is_dropped_is_held_back_nowhere_else),
        TEST(what_stood_on_the_dropped_frame_stands_on_the_event_before),
        TEST(a_stream_that_breaks_is_compared_by_what_came),
        TEST(render_gets_the_bytes_that_the_client_sent),
    };

    return harness_run(tests);
}
