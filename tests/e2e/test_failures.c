/* Workers that fail: what the client is told, and that nothing is made up. */
#include "harness.h"

#include <strings.h>

static const char EVENT[] = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";

/* The request says how its decode ends. */
static bool wants(struct stage *stage, const char *what)
{
    char field[64];

    snprintf(field, sizeof field, "\r\nX-Play: %s\r\n", what);
    return strcasestr(stage->request->head, field) != NULL;
}

static void play_broken_decode(struct stage *stage)
{
    stage->hang_up = true;
    if (wants(stage, "json-cut")) {
        stage_say(stage,
                  "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{\"id\":\"d\"");
        return;
    }
    if (wants(stage, "json-chunked-cut")) {
        stage_say(stage, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n");
        stage_chunk(stage, "{\"id\":", 6);
        return;
    }
    if (wants(stage, "close-delimited") || wants(stage, "close-delimited-done")) {
        stage_say(stage, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n%s%s", EVENT,
                  wants(stage, "close-delimited-done") ? "data: [DONE]\n\n" : "");
        return;
    }
    stage_stream_head(stage);
    stage_chunk(stage, EVENT, strlen(EVENT));
    if (wants(stage, "fin-inside") || wants(stage, "rst-inside"))
        stage_chunk(stage, "data: {\"choi", 12);
    if (wants(stage, "bad-chunk"))
        stage_say(stage, "zz\r\nnonsense\r\n");
    if (wants(stage, "no-done"))
        stage_last_chunk(stage);
    if (wants(stage, "rst") || wants(stage, "rst-inside")) {
        pause_ms(30); /* for what was sent to be taken before the RST drops it */
        stage_reset(stage);
    }
}

/* A vLLM decode worker dies of it (docs/engine.md); worker-sim answers 500. */
static void decode_is_never_told_to_fetch_kv_from_nowhere(void **state)
{
    static const struct {
        const char *name, *steps, *kv;
    } rows[] = {
        {"no prefill step", "    - type: decode\n", "nixl"},
        {"a prefill that hands out nothing", NULL, "off"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct span params;

        print_message("  %s\n", rows[i].name);
        deploy(&(struct plan){.steps = rows[i].steps, .sim_flags = (const char *const[]){"--kv", rows[i].kv, NULL}});
        assert_int_equal(fetch("POST", CHAT_PATH, "", CHAT)->answer.status, 200);
        params = json_member(text_span(&transcript_find("decode", 0)->body), "kv_transfer_params");
        assert_true(span_is(json_member(params, "do_remote_prefill"), "false"));
        assert_true(span_is(json_member(params, "do_remote_decode"), "false"));
        assert_int_equal(harness_end(state), 0);
    }
}

/* The render path of Messages refuses in OpenAI's shape, which its clients cannot read. */
static void what_render_refuses_reaches_a_messages_client_in_its_own_shape(void **state)
{
    static const char body[] =
        "{\"model\":\"nope\",\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}";
    struct client *client;

    (void)state;
    deploy(&(struct plan){.sim_flags = (const char *const[]){"--model", "m", NULL}});
    client = fetch("POST", "/v1/messages", "", body);
    assert_int_equal(client->answer.status, 404);
    assert_string_equal(
        client->answer.body.data,
        "{\"type\":\"error\",\"error\":{\"type\":\"NotFoundError\",\"message\":\"The model `nope` does not "
        "exist. Valid aliases: m.\"}}");
    assert_int_equal(fetch("POST", CHAT_PATH, "", body)->answer.status, 404);
}

static void a_stream_that_breaks_off_never_looks_complete(void **state)
{
    static const struct {
        const char *play;
        bool whole, error;
        const char *body;
    } rows[] = {
        {"fin", true, true, STREAM},
        {"rst", true, true, STREAM},
        {"fin-inside", false, false, STREAM},
        {"rst-inside", false, false, STREAM},
        {"bad-chunk", true, true, STREAM},
        {"json-cut", false, false, CHAT},
        {"close-delimited", true, true, STREAM},
        {"json-chunked-cut", false, false, CHAT},
    };

    (void)state;
    deploy(&(struct plan){.no_sim = true,
                          .gateway_port =
                              scripted_port(scripted_start(&(struct scripted_options){.decode = play_broken_decode}))});
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char field[64];
        struct client *client;

        print_message("             %s\n", rows[i].play);
        snprintf(field, sizeof field, "X-Play: %s\r\n", rows[i].play);
        client = fetch("POST", CHAT_PATH, field, rows[i].body);
        assert_int_equal(client->answer.status, 200);
        assert_int_equal(client->answer.whole, rows[i].whole);
        assert_lacks(client->answer.body.data, "[DONE]");
        assert_int_equal(strstr(client->answer.body.data, "\"error\":{") != NULL, rows[i].error);
        if (rows[i].error) {
            assert_int_equal(strncmp(client->answer.body.data, EVENT, strlen(EVENT)), 0);
            assert_int_equal(strncmp(client->answer.body.data + strlen(EVENT), "data: {\"error\":{", 16), 0);
            assert_string_equal(client->answer.body.data + client->answer.body.size - 2, "\n\n");
        }
        client_close(client);
        assert_int_equal(fetch("GET", "/healthz", "", NULL)->answer.status, 200);
    }
    UNTIL(metric("request_error_total{model_name=\"m\",error_code=\"upstream_transport\"}") == 8);
    UNTIL(strstr(process_log(&deployed.coordinator), "outcome=broken"));
    assert_lacks(process_log(&deployed.coordinator), "outcome=client_gone"); /* also where we have cut the connection */
}

static void a_whole_close_delimited_stream_is_a_success(void **state)
{
    struct client *client;

    (void)state;
    deploy(&(struct plan){.no_sim = true,
                          .gateway_port =
                              scripted_port(scripted_start(&(struct scripted_options){.decode = play_broken_decode}))});
    client = fetch("POST", CHAT_PATH, "X-Play: close-delimited-done\r\n", STREAM);
    assert_true(client->answer.whole);
    assert_lacks(client->answer.body.data, "error");
    assert_contains(client->answer.body.data, "[DONE]");
    UNTIL(metric("request_total{model_name=\"m\"}") == 1);
    assert_true(metric_sum("request_error_total") == 0);
}

static void the_error_event_can_be_turned_off(void **state)
{
    struct client *client;

    (void)state;
    deploy(&(struct plan){.no_sim = true,
                          .response = "  stream_error_event: false",
                          .gateway_port =
                              scripted_port(scripted_start(&(struct scripted_options){.decode = play_broken_decode}))});
    client = fetch("POST", CHAT_PATH, "X-Play: fin\r\n", STREAM);
    assert_int_equal(client->answer.status, 200);
    assert_false(client->answer.whole);
    assert_same_bytes(text_span(&client->answer.body), span_of(EVENT));
}

static void play_status(struct stage *stage)
{
    char field[64], fields[256];
    const char *at;
    int status;

    snprintf(field, sizeof field, "\r\nX-Status-%s: ", stage->request->phase);
    at = strcasestr(stage->request->head, field);
    if (!at) {
        stage_default(stage);
        return;
    }
    status = atoi(at + strlen(field));
    snprintf(fields, sizeof fields, "Retry-After: 7\r\nWWW-Authenticate: Bearer realm=\"w\"\r\n%s",
             status == 302 ? "Location: /elsewhere\r\n" : "");
    stage_json(stage, status, fields, "{\"error\":{\"message\":\"from the worker\",\"type\":\"x\",\"code\":\"y\"}}");
}

static const struct {
    int worker, leg; /* what render and prefill make of it; decode passes it */
} STATUSES[] = {{400, 400}, {401, 401}, {403, 403}, {404, 404}, {408, 408}, {409, 409},
                {413, 413}, {422, 422}, {429, 429}, {499, 499}, {500, 502}, {501, 502},
                {502, 502}, {503, 503}, {504, 502}, {529, 502}, {302, 502}, {204, 502}};

static void assert_leg_status(const char *phase, size_t row)
{
    char field[64];
    struct client *client;
    int status = STATUSES[row].worker;

    snprintf(field, sizeof field, "X-Status-%s: %d\r\n", phase, status);
    client = fetch("POST", CHAT_PATH, field, CHAT);
    if (client->answer.status != STATUSES[row].leg)
        fail_msg("%s answered %d: the client got %d", phase, status, client->answer.status);
    assert_true(client->answer.whole);
    assert_contains(answer_header(client, "content-type"), "json");
    assert_contains(client->answer.body.data, "\"error\":{");
    assert_non_null(answer_header(client, "x-request-id"));
    if (status == 429 || status == 503)
        assert_string_equal(answer_header(client, "retry-after"), "7");
    if (status == 401)
        assert_string_equal(answer_header(client, "www-authenticate"), "Bearer realm=\"w\"");
    if (status >= 400 && status < 500)
        assert_contains(client->answer.body.data, "from the worker");
    else
        assert_contains(client->answer.body.data, phase);
    client_close(client);
}

static void statuses_of_render_and_prefill_are_mapped(void **state)
{
    struct scripted *worker = scripted_start(
        &(struct scripted_options){.render = play_status, .prefill = play_status, .decode = play_status});

    (void)state;
    deploy(&(struct plan){.no_sim = true, .gateway_port = scripted_port(worker)});
    for (size_t i = 0; i < sizeof STATUSES / sizeof *STATUSES; i++) {
        assert_leg_status("render", i);
        assert_leg_status("prefill", i);
    }
    assert_int_equal(scripted_count(worker, "decode"), 0);
    assert_int_equal(scripted_count(worker, "other"), 0); /* no redirect was followed */
}

static void decodes_own_answer_passes_whatever_its_status(void **state)
{
    struct scripted *worker = scripted_start(&(struct scripted_options){.decode = play_status});

    (void)state;
    deploy(&(struct plan){.no_sim = true, .gateway_port = scripted_port(worker)});
    for (size_t i = 0; i < sizeof STATUSES / sizeof *STATUSES; i++)
        for (int stream = 0; stream < 2; stream++) {
            char field[64];
            struct client *client;

            snprintf(field, sizeof field, "X-Status-decode: %d\r\n", STATUSES[i].worker);
            client = fetch("POST", CHAT_PATH, field, stream ? STREAM : CHAT);
            if (client->answer.status != STATUSES[i].worker && STATUSES[i].worker >= 400)
                fail_msg("decode answered %d: the client got %d", STATUSES[i].worker, client->answer.status);
            assert_true(client->answer.whole);
            if (STATUSES[i].worker >= 400) {
                assert_same_bytes(
                    text_span(&client->answer.body),
                    span_of("{\"error\":{\"message\":\"from the worker\",\"type\":\"x\",\"code\":\"y\"}}"));
                assert_string_equal(answer_header(client, "retry-after"), "7");
                assert_string_equal(answer_header(client, "www-authenticate"), "Bearer realm=\"w\"");
            }
            client_close(client);
        }
}

static void a_status_that_does_not_exist_is_a_broken_answer(void **state)
{
    static const char *const PHASES[] = {"render", "prefill", "decode"};
    static const int NONE[] = {600, 700, 999};
    struct scripted *worker = scripted_start(&(struct scripted_options){
        .render = play_status, .prefill = play_status, .decode = play_status, .other = play_status});

    (void)state;
    deploy(&(struct plan){.no_sim = true, .gateway_port = scripted_port(worker)});
    for (size_t i = 0; i < sizeof NONE / sizeof *NONE; i++) {
        char field[64];

        for (size_t phase = 0; phase < sizeof PHASES / sizeof *PHASES; phase++) {
            snprintf(field, sizeof field, "X-Status-%s: %d\r\n", PHASES[phase], NONE[i]);
            assert_int_equal(fetch("POST", CHAT_PATH, field, CHAT)->answer.status, 502);
            assert_int_equal(fetch("POST", CHAT_PATH, field, STREAM)->answer.status, 502);
        }
        snprintf(field, sizeof field, "X-Status-other: %d\r\n", NONE[i]);
        assert_int_equal(fetch("GET", "/v1/models", field, "")->answer.status, 502);
    }
    assert_int_equal(fetch("POST", CHAT_PATH, "", CHAT)->answer.status, 200);
}

/* Closes without an answer as often as the request says, counted by its own id's first legs. */
static void play_hang_up(struct stage *stage)
{
    char field[64];

    snprintf(field, sizeof field, "\r\nX-Drop: %s\r\n", stage->request->phase);
    if (!strcasestr(stage->request->head, field))
        stage_default(stage);
    else if (strcasestr(stage->request->head, "\r\nX-Once: ") &&
             !strcasestr(stage->request->head, "\r\nX-Request-Id: once\r\n"))
        stage_default(stage); /* the repeat has another id */
    else
        stage->hang_up = true;
}

static void a_leg_without_an_answer_is_repeated_once_and_decode_never(void **state)
{
    static const struct {
        const char *phase;
        bool once;
        int status;
        size_t legs;
    } rows[] = {{"render", true, 200, 2},
                {"prefill", true, 200, 2},
                {"render", false, 502, 2},
                {"prefill", false, 502, 2},
                {"decode", false, 502, 1}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct scripted *worker = scripted_start(
            &(struct scripted_options){.render = play_hang_up, .prefill = play_hang_up, .decode = play_hang_up});
        char fields[128];
        struct client *client;

        deploy(&(struct plan){.no_sim = true, .gateway_port = scripted_port(worker), .runtime = "  reactors: 1"});
        client_close(fetch("POST", CHAT_PATH, "", CHAT)); /* the next one's legs use kept connections */
        snprintf(fields, sizeof fields, "X-Request-Id: once\r\nX-Drop: %s\r\n%s", rows[i].phase,
                 rows[i].once ? "X-Once: 1\r\n" : "");
        client = fetch("POST", CHAT_PATH, fields, STREAM);
        assert_int_equal(client->answer.status, rows[i].status);
        assert_string_equal(answer_header(client, "x-request-id"), "once");
        assert_int_equal(scripted_count(worker, rows[i].phase), rows[i].legs + 1);
        if (rows[i].legs == 2) {
            const char *head = scripted_find(worker, rows[i].phase, 2)->head;
            const char *id = header_in(head, "x-request-id", NULL);

            assert_non_null(id);
            assert_string_not_equal(id, "once");
            assert_string_equal(header_in(head, "x-llm-d-parent-request-id", NULL), "once");
            assert_int_not_equal(scripted_find(worker, rows[i].phase, 2)->connection,
                                 scripted_find(worker, rows[i].phase, 1)->connection);
        }
        assert_int_equal(harness_end(NULL), 0);
    }
}

static void a_worker_that_refuses_connections_is_a_503(void **state)
{
    struct client *client;

    (void)state;
    deploy(&(struct plan){.no_sim = true, .gateway_port = free_port()});
    client = fetch("POST", CHAT_PATH, "", CHAT);
    assert_int_equal(client->answer.status, 503);
    assert_string_equal(answer_header(client, "retry-after"), "1");
    assert_contains(client->answer.body.data, "upstream_unavailable");
    client = fetch("GET", "/v1/models", "", NULL);
    assert_int_equal(client->answer.status, 503);
    assert_string_equal(answer_header(client, "retry-after"), "1");
}

static void play_text(struct stage *stage)
{
    const char *text = stage->context;

    stage_send(stage, text, strlen(text));
    stage->hang_up = true;
}

static void answers_that_are_no_http_or_no_json_are_a_502(void **state)
{
    static const struct {
        const char *name, *phase, *answer;
    } rows[] = {
        {"garbage from decode", "decode", "nonsense\r\n\r\n"},
        {"garbage from prefill", "prefill", "nonsense\r\n\r\n"},
        {"html from render", "render", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>"},
        {"html from prefill", "prefill",
         "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>"},
        {"no ids from render", "render",
         "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 16\r\n\r\n{\"token_ids\":[]}"},
        {"an event stream from prefill", "prefill",
         "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 15\r\n\r\ndata: {\"a\":1}\n\n"},
        {"compressed rubbish from prefill", "prefill",
         "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Type: application/json\r\nContent-Length: "
         "2\r\n\r\n\x1f\x8b"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct scripted_options options = {.context = (void *)(uintptr_t)rows[i].answer};
        struct client *client;

        print_message("             %s\n", rows[i].name);
        *(strcmp(rows[i].phase, "render") == 0    ? &options.render
          : strcmp(rows[i].phase, "prefill") == 0 ? &options.prefill
                                                  : &options.decode) = play_text;
        deploy(&(struct plan){.no_sim = true, .gateway_port = scripted_port(scripted_start(&options))});
        client = fetch("POST", CHAT_PATH, "", CHAT);
        assert_int_equal(client->answer.status, 502);
        assert_contains(client->answer.body.data, "\"error\":{");
        assert_contains(client->answer.body.data, rows[i].phase);
        assert_int_equal(harness_end(NULL), 0);
    }
}

static void a_worker_that_closes_idle_connections_is_no_502(void **state)
{
    (void)state;
    deploy(&(struct plan){.sim_flags = (const char *const[]){"--close-idle", "150", NULL}, .runtime = "  reactors: 1"});
    for (int i = 0; i < 30; i++) {
        struct client *client = fetch("POST", CHAT_PATH, "", CHAT);

        assert_int_equal(client->answer.status, 200);
        client_close(client);
        pause_ms(145 + i % 10);
    }
    assert_int_equal(sim_count("requests.decode"), 30); /* never sent twice */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(decode_is_never_told_to_fetch_kv_from_nowhere),
        TEST(what_render_refuses_reaches_a_messages_client_in_its_own_shape),
        TEST(a_stream_that_breaks_off_never_looks_complete),
        TEST(a_whole_close_delimited_stream_is_a_success),
        TEST(the_error_event_can_be_turned_off),
        TEST(statuses_of_render_and_prefill_are_mapped),
        TEST(decodes_own_answer_passes_whatever_its_status),
        TEST(a_status_that_does_not_exist_is_a_broken_answer),
        TEST(a_leg_without_an_answer_is_repeated_once_and_decode_never),
        TEST(a_worker_that_refuses_connections_is_a_503),
        TEST(answers_that_are_no_http_or_no_json_are_a_502),
        TEST(a_worker_that_closes_idle_connections_is_no_502),
    };

    return harness_run(tests);
}
