/* The client's side of HTTP: what is refused and how, framing, request ids, connections that go on. */
#include "harness.h"

#include <strings.h>

static void assert_refusal(const struct client *client, const char *name, int status, const char *part)
{
    if (client->answer.status != status)
        fail_msg("%s: status %d, not %d: %s", name, client->answer.status, status,
                 client->answer.body.data ? client->answer.body.data : "");
    if (!client->answer.whole)
        fail_msg("%s: the answer is not whole", name);
    assert_string_equal(answer_header(client, "content-type"), "application/json");
    if (!answer_header(client, "x-request-id"))
        fail_msg("%s: no x-request-id", name);
    assert_contains(client->answer.body.data, "\"error\":{");
    assert_contains(client->answer.body.data, part);
}

static void what_is_refused_is_refused_in_json(void **state)
{
    static const struct {
        const char *name, *method, *target, *fields, *body;
        int status;
        const char *part;
    } rows[] = {
        {"GET on an API", "GET", CHAT_PATH, "", NULL, 405, "method_not_allowed"},
        {"DELETE on an API", "DELETE", "/v1/completions", "", NULL, 405, "method_not_allowed"},
        {"OPTIONS without CORS", "OPTIONS", CHAT_PATH, "Access-Control-Request-Headers: authorization\r\n", NULL, 405,
         "method_not_allowed"},
        {"POST on a probe", "POST", "/healthz", "", "{}", 405, "method_not_allowed"},
        {"compressed body", "POST", CHAT_PATH, "Content-Encoding: gzip\r\n", "{}", 415, "unsupported_media_type"},
        {"no JSON", "POST", CHAT_PATH, "", "nonsense", 400, "invalid_json"},
        {"empty body", "POST", CHAT_PATH, "", "", 400, "invalid_json"},
        {"array", "POST", CHAT_PATH, "", "[]", 400, "invalid"},
        {"repeated model", "POST", CHAT_PATH, "", "{\"model\":\"a\",\"mod\\u0065l\":\"b\"}", 400, "model"},
        {"extra_args twice", "POST", "/inference/v1/generate", "",
         "{\"token_ids\":[1],\"sampling_params\":{\"extra_args\":{},\"extra\\u005fargs\":{\"kv_transfer_params\":{}}}}",
         400, "/sampling_params/extra_args"},
        {"vllm_xargs twice", "POST", CHAT_PATH, "",
         "{\"vllm_xargs\":{},\"vllm\\u005fxargs\":{\"kv_transfer_params\":{}}}", 400, "/vllm_xargs"},
        {"stream as number", "POST", CHAT_PATH, "", "{\"str\\u0065am\":1}", 400, "stream"},
        {"stream as text", "POST", CHAT_PATH, "", "{\"stream\":\"true\"}", 400, "stream"},
        {"GET on completions", "GET", "/v1/completions", "", NULL, 405, "invalid_request_error"},
        {"prompt_logprobs before prefill", "POST", CHAT_PATH, "",
         "{\"model\":\"m\",\"messages\":[],\"prompt_logprobs\":1}", 400, "prompt_logprobs"},
        {"a method that is none", "GE(T", "/v1/models", "", NULL, 400, "invalid_request"},
        {"an upgrade", "GET", "/ws", "Connection: Upgrade\r\nUpgrade: websocket\r\n", NULL, 501, "not_implemented"},
    };

    (void)state;
    deploy(&(struct plan){0});
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct client *client = fetch(rows[i].method, rows[i].target, rows[i].fields, rows[i].body);

        assert_refusal(client, rows[i].name, rows[i].status, rows[i].part);
        if (rows[i].status == 405)
            assert_non_null(answer_header(client, "allow"));
        client_close(client);
    }
    assert_int_equal(sim_count("requests.render"), 1); /* of prompt_logprobs, which prefill refuses before its leg */
    assert_int_equal(sim_count("requests.prefill") + sim_count("requests.decode"), 0);
}

static void model_and_stream_are_read_however_they_are_spelled(void **state)
{
#define MESSAGES "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
    static const struct {
        const char *name, *body, *logged;
    } rows[] = {
        {"plain", "{\"model\":\"m-1\"," MESSAGES ",\"stream\":true}", " model=m-1 stream=true "},
        {"escaped value", "{\"model\":\"m\\u002d2\"," MESSAGES ",\"stream\" : false }", " model=m-2 stream=false "},
        {"escaped names", "{\"mod\\u0065l\" : \"m-3\" ," MESSAGES ",\"\\u0073tream\":true}", " model=m-3 stream=true "},
        {"null", "{\"model\":\"m-4\"," MESSAGES ",\"stream\":null}", " model=m-4 stream=false "},
        {"absent", "{" MESSAGES ",\"model\":\"m-5\"}", " model=m-5 stream=false "},
    };
#undef MESSAGES

    (void)state;
    deploy(&(struct plan){.steps = "    - type: decode\n"});
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        print_message("  %s\n", rows[i].name);
        assert_int_equal(fetch("POST", CHAT_PATH, "", rows[i].body)->answer.status, 200);
        UNTIL(strstr(process_log(&deployed.coordinator), rows[i].logged));
    }
}

static void bodies_are_bounded_whatever_their_framing(void **state)
{
    enum { LIMIT = 1 << 20 };
    struct text body = {0};
    struct client *client;

    (void)state;
    deploy(&(struct plan){.server = "  max_request_body_size: 1"});
    text_printf(&body, "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]");
    while (body.size < LIMIT - 1)
        text_add(&body, " ", 1);
    text_add(&body, "}", 1);
    client = client_open(deployed.port);
    client_post(client, CHAT_PATH, "", text_span(&body));
    assert_true(client_read(client, PATIENCE_MS));
    assert_int_equal(client->answer.status, 200); /* exactly the limit */

    client = client_open(deployed.port);
    client_say(client, "POST " CHAT_PATH " HTTP/1.1\r\nHost: c\r\nContent-Length: %d\r\n\r\n", LIMIT + 1);
    assert_true(client_read(client, PATIENCE_MS)); /* before anything of the body was sent */
    assert_refusal(client, "known length", 413, "request_too_large");

    client = client_open(deployed.port);
    client_say(client, "POST " CHAT_PATH " HTTP/1.1\r\nHost: c\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n",
               LIMIT + 1);
    assert_true(client_read(client, PATIENCE_MS));
    assert_refusal(client, "known length, asked for", 413, "request_too_large");

    client = client_open(deployed.port);
    client_say(client, "POST " CHAT_PATH " HTTP/1.1\r\nHost: c\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n", LIMIT + 1);
    client_send(client, body.data, body.size);
    client_send(client, " \r\n", 3);
    assert_true(client_read(client, PATIENCE_MS));
    assert_refusal(client, "chunked", 413, "request_too_large");
    assert_true(client_wait_closed(client, 5000));
    text_free(&body);
}

static void ambiguous_framing_is_a_400_and_closed(void **state)
{
#define POST "POST " CHAT_PATH " HTTP/1.1\r\n"
#define CHUNKED_BODY "\r\n2\r\n{}\r\n0\r\n\r\n"
    static const struct {
        const char *name, *request;
        bool ours; /* the answer is; otherwise the library answers or closes */
    } rows[] = {
        {"length and coding", POST "Host: c\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n" CHUNKED_BODY, true},
        {"two lengths", POST "Host: c\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", true},
        {"two equal lengths", POST "Host: c\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}", true},
        {"another coding before chunked", POST "Host: c\r\nTransfer-Encoding: gzip, chunked\r\n" CHUNKED_BODY, true},
        {"another coding", POST "Host: c\r\nTransfer-Encoding: identity\r\n" CHUNKED_BODY, true},
        {"two codings", POST "Host: c\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n" CHUNKED_BODY,
         true},
        {"two hosts", POST "Host: c\r\nHost: d\r\nContent-Length: 2\r\n\r\n{}", true},
        {"no host", POST "Content-Length: 2\r\n\r\n{}", true},
        {"a blank in a name", POST "Host: c\r\nA B: 1\r\nContent-Length: 2\r\n\r\n{}", true},
        {"a blank before the colon", POST "Host: c\r\nContent-Length : 2\r\n\r\n{}", true},
        {"a folded value", POST "Host: c\r\nA: 1\r\n B\r\nContent-Length: 2\r\n\r\n{}", true},
        {"a folded value after a tab", POST "Host: c\r\nA: 1\r\n\tB: 2\r\nContent-Length: 2\r\n\r\n{}", true},
        {"a folded line that makes a length", POST "Host: c\r\nContent-Lengt: 2\r\n h\r\n\r\n{}", true},
        {"a value on the next line", POST "Host: c\r\nA:\r\n 1\r\nContent-Length: 2\r\n\r\n{}", true},
        {"a folded line at the end", POST "Host: c\r\nContent-Length: 2\r\nA: 1\r\n B\r\n C\r\n\r\n{}", true},
        {"a negative length", POST "Host: c\r\nContent-Length: -2\r\n\r\n{}", false},
        {"a length in hex", POST "Host: c\r\nContent-Length: 0x2\r\n\r\n{}", false},
        {"a huge length", POST "Host: c\r\nContent-Length: 99999999999999999999999\r\n\r\n{}", false},
        {"a bad chunk size", POST "Host: c\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n", false},
        {"a garbage request line", "nonsense\r\nHost: c\r\n\r\n", false},
    };

    (void)state;
    deploy(&(struct plan){0});
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct client *client = client_open(deployed.port);
        bool whole;

        client_say(client, "%s", rows[i].request);
        whole = client_read(client, 5000);
        if (rows[i].ours)
            assert_refusal(client, rows[i].name, 400, "invalid_request");
        else if (whole && client->answer.status != 400 && client->answer.status != 413)
            fail_msg("%s: status %d", rows[i].name, client->answer.status);
        if (!client_wait_closed(client, 5000))
            fail_msg("%s: not closed", rows[i].name);
        client_close(client);
    }
    assert_int_equal(sim_count("requests.render") + sim_count("requests.prefill") + sim_count("requests.decode") +
                         sim_count("requests.other"),
                     0);
    assert_int_equal(fetch("POST", CHAT_PATH, "", CHAT)->answer.status, 200);
    assert_int_equal(fetch("POST", CHAT_PATH, "A:\r\nB: \t \r\nC:1\r\nD: \t  1 \t\r\n", CHAT)->answer.status, 200);
}

static void hostile_request_ids_are_replaced(void **state)
{
    struct text long_id = {0};
    char fields[12000];

    (void)state;
    deploy(&(struct plan){0});
    while (long_id.size < 6000)
        text_add(&long_id, "abcdefgh", 8);
    const char *const ids[] = {"",
                               "a b",
                               "a_b",
                               "../../x",
                               "a.b",
                               "\xc3\xa9",
                               "a;b",
                               long_id.data,
                               "{\"a\":1}",
                               "a\x01"
                               "b"};

    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        struct client *client;
        const char *id, *leg;
        size_t copies;

        sim_reset();
        snprintf(fields, sizeof fields, "X-Request-Id: %s\r\n", ids[i]);
        client = fetch("POST", CHAT_PATH, fields, CHAT);
        assert_int_equal(client->answer.status, 200);
        id = strdup(header_in(client->answer.head, "x-request-id", &copies));
        assert_int_equal(copies, 1);
        assert_string_not_equal(id, ids[i]);
        assert_int_equal(strspn(id, "0123456789abcdef-"), 36);
        leg = header_in(transcript_find("decode", i)->headers, "x-request-id", &copies);
        assert_int_equal(copies, 1);
        assert_string_equal(leg, id);
        free((void *)(uintptr_t)id);
        client_close(client);
    }
    snprintf(fields, sizeof fields, "X-Request-Id: one\r\nX-Request-Id: two\r\n");
    assert_string_not_equal(answer_header(fetch("POST", CHAT_PATH, fields, CHAT), "x-request-id"), "one");
    snprintf(fields, sizeof fields, "X-Request-Id: Abc-123\r\n");
    assert_string_equal(answer_header(fetch("POST", CHAT_PATH, fields, CHAT), "x-request-id"), "Abc-123");
    assert_string_equal(answer_header(fetch("POST", CHAT_PATH, fields, "nonsense"), "x-request-id"), "Abc-123");
    assert_string_equal(answer_header(fetch("GET", CHAT_PATH, fields, NULL), "x-request-id"), "Abc-123");
    assert_string_equal(answer_header(fetch("GET", "/v1/models", fields, NULL), "x-request-id"), "Abc-123");
    assert_lacks(process_log(&deployed.coordinator), "abcdefghabcdefgh");
    text_free(&long_id);
}

static void one_connection_carries_many_requests(void **state)
{
    struct client *client;

    (void)state;
    deploy(&(struct plan){0});
    client = client_open(deployed.port);
    for (int i = 0; i < 30; i++) {
        client_post(client, i % 3 ? CHAT_PATH : "/v1/completions", "",
                    span_of(i % 3 == 0 ? "{\"model\":\"m\",\"prompt\":\"x\"}"
                            : i % 2    ? STREAM
                                       : CHAT));
        assert_true(client_read(client, PATIENCE_MS));
        assert_int_equal(client->answer.status, 200);
    }
    client_post(client, CHAT_PATH, "", span_of("nonsense"));
    assert_true(client_read(client, PATIENCE_MS));
    assert_int_equal(client->answer.status, 400);
    client_post(client, CHAT_PATH, "", span_of(CHAT));
    assert_true(client_read(client, PATIENCE_MS));
    assert_int_equal(client->answer.status, 200); /* an error does not cost the connection */
}

static void pipelined_requests_are_answered_in_order(void **state)
{
    enum { COUNT = 10 };
    struct text all = {0};
    struct client *client;

    (void)state;
    deploy(&(struct plan){0});
    for (int i = 0; i < COUNT; i++)
        text_printf(
            &all, "POST " CHAT_PATH " HTTP/1.1\r\nHost: c\r\nX-Request-Id: number-%d\r\nContent-Length: %zu\r\n\r\n%s",
            i, strlen(i % 2 ? STREAM : CHAT), i % 2 ? STREAM : CHAT);
    client = client_open(deployed.port);
    client_send(client, all.data, all.size);
    for (int i = 0; i < COUNT; i++) {
        char id[32];

        snprintf(id, sizeof id, "number-%d", i);
        assert_true(client_read(client, PATIENCE_MS));
        assert_int_equal(client->answer.status, 200);
        assert_string_equal(answer_header(client, "x-request-id"), id);
    }
    text_free(&all);
}

static void a_request_may_come_byte_by_byte(void **state)
{
    struct text request = {0};
    struct client *client;

    (void)state;
    deploy(&(struct plan){0});
    text_printf(&request, "POST " CHAT_PATH " HTTP/1.1\r\nHost: c\r\nContent-Length: %zu\r\n\r\n%s", strlen(CHAT),
                CHAT);
    client = client_open(deployed.port);
    for (size_t i = 0; i < request.size; i++) {
        client_send(client, request.data + i, 1);
        pause_ms(1);
    }
    assert_true(client_read(client, PATIENCE_MS));
    assert_int_equal(client->answer.status, 200);
    text_clear(&request);
    text_printf(&request, "POST " CHAT_PATH " HTTP/1.1\r\nHost: c\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (size_t i = 0; CHAT[i]; i++)
        text_printf(&request, "1;x=y\r\n%c\r\n", CHAT[i]);
    text_printf(&request, "0\r\nX-Trailer: 1\r\n\r\n");
    client_send(client, request.data, request.size);
    assert_true(client_read(client, PATIENCE_MS));
    assert_int_equal(client->answer.status, 200);
    assert_same_bytes(text_span(&transcript_find("render", 0)->body), span_of(CHAT));
    assert_same_bytes(text_span(&transcript_find("render", 1)->body), span_of(CHAT));
    text_free(&request);
}

static void who_expects_100_continue_gets_it_at_once(void **state)
{
    struct client *client;
    int64_t began = now_ms();

    (void)state;
    deploy(&(struct plan){0});
    client = client_open(deployed.port);
    client_say(client, "POST " CHAT_PATH " HTTP/1.1\r\nHost: c\r\nExpect: 100-continue\r\nContent-Length: %zu\r\n\r\n",
               strlen(CHAT));
    began = now_ms();
    client_read_head(client, 50); /* the interim answer is skipped, the wait for more is not an error */
    UNTIL(now_ms() - began >= 0);
    client_send(client, CHAT, strlen(CHAT));
    assert_true(client_read(client, PATIENCE_MS));
    assert_int_equal(client->answer.status, 200);
    assert_null(header_in(transcript_find("decode", 0)->headers, "expect", NULL));
    assert_null(header_in(transcript_find("render", 0)->headers, "expect", NULL));
}

static void a_large_body_does_not_wait_for_a_workers_100(void **state)
{
    struct text body = {0};
    struct client *client;
    int64_t began;

    (void)state;
    deploy(&(struct plan){0});
    text_printf(&body, "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"x\":\"");
    while (body.size < 3 << 20)
        text_add(&body, "0123456789abcdef", 16);
    text_add(&body, "\"}", 2);
    client = client_open(deployed.port);
    began = now_ms();
    client_post(client, CHAT_PATH, "", text_span(&body));
    assert_true(client_read(client, PATIENCE_MS));
    assert_int_equal(client->answer.status, 200);
    assert_true(sanitized() || now_ms() - began < 900);
    assert_same_bytes(text_span(&transcript_find("render", 0)->body), text_span(&body));
    text_free(&body);
}

static void http_1_0_clients_get_answers_they_understand(void **state)
{
    struct client *client;

    (void)state;
    deploy(&(struct plan){0});
    client = client_open(deployed.port);
    client_say(client, "POST " CHAT_PATH " HTTP/1.0\r\nContent-Length: %zu\r\n\r\n%s", strlen(CHAT), CHAT);
    assert_true(client_read(client, PATIENCE_MS));
    assert_int_equal(client->answer.status, 200);
    assert_true(client->answer.length > 0);
    assert_true(client_wait_closed(client, 5000));
    client = client_open(deployed.port);
    client_say(client, "POST " CHAT_PATH " HTTP/1.0\r\nContent-Length: %zu\r\n\r\n%s", strlen(STREAM), STREAM);
    assert_true(client_read(client, PATIENCE_MS));
    assert_int_equal(client->answer.status, 200);
    assert_false(client->answer.chunked);
    assert_contains(client->answer.body.data, "data: [DONE]\n\n");
    client = client_open(deployed.port);
    client_say(client, "GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_true(client_read(client, PATIENCE_MS));
    assert_int_equal(client->answer.status, 200);
}

static void probes_answer_GET_and_HEAD_on_both_ports(void **state)
{
    static const char *const paths[] = {"/healthz", "/readyz"};

    (void)state;
    deploy(&(struct plan){0});
    for (size_t i = 0; i < 2; i++)
        for (int port = 0; port < 2; port++) {
            struct client *client = fetch_port(port ? deployed.metrics_port : deployed.port, "GET", paths[i], "", NULL);

            assert_int_equal(client->answer.status, 200);
            assert_same_bytes(text_span(&client->answer.body), span_of("ok"));
            client = fetch_port(port ? deployed.metrics_port : deployed.port, "HEAD", paths[i], "", NULL);
            assert_int_equal(client->answer.status, 200);
            client_say(client, "GET %s HTTP/1.1\r\nHost: c\r\n\r\n", paths[i]); /* in step still */
            assert_true(client_read(client, PATIENCE_MS));
            assert_int_equal(client->answer.status, 200);
        }
}

static void paths_of_apis_are_cleaned_and_others_kept(void **state)
{
    static const char *const apis[] = {CHAT_PATH "/", "//v1//chat/completions", "/v1/x/../chat/./completions"};
    static const char *const others[] = {"//a//b/../c/", "/v1/chat%2Fcompletions", "/V1/chat/completions",
                                         "/x?a=%2F&b=//&c"};

    (void)state;
    deploy(&(struct plan){0});
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(fetch("POST", apis[i], "", CHAT)->answer.status, 200);
        assert_string_equal(transcript_find("render", i)->target, CHAT_PATH "/render");
        assert_string_equal(transcript_find("decode", i)->target, CHAT_PATH);
    }
    assert_int_equal(fetch("POST", CHAT_PATH "?beta=true&x=%2F", "", CHAT)->answer.status, 200);
    assert_string_equal(transcript_find("render", 3)->target, CHAT_PATH "/render");
    assert_string_equal(transcript_find("prefill", 3)->target, CHAT_PATH);
    assert_string_equal(transcript_find("decode", 3)->target, CHAT_PATH "?beta=true&x=%2F");
    for (size_t i = 0; i < 4; i++) {
        client_close(fetch("GET", others[i], "", NULL));
        assert_non_null(transcript_target(others[i]));
    }
}

static void credentials_reach_only_whom_they_are_for(void **state)
{
    static const char fields[] = "Authorization: Bearer secret-1\r\nCookie: c=secret-2\r\nProxy-Authorization: "
                                 "secret-3\r\nX-Api-Key: secret-4\r\n";
    const struct recorded *leg;

    (void)state;
    deploy(&(struct plan){.top = "log_level: 5"});
    assert_int_equal(fetch("POST", CHAT_PATH, fields, CHAT)->answer.status, 200);
    assert_int_equal(
        fetch("POST", CHAT_PATH, fields, "{\"model\":\"m\",\"messages\":[],\"api_key\":\"secret-5\"}")->answer.status /
                100 >
            0,
        1);
    client_close(fetch("POST", "/v1/embeddings", fields, "{}"));
    leg = transcript_find("render", 0);
    assert_null(header_in(leg->headers, "authorization", NULL));
    assert_null(header_in(leg->headers, "cookie", NULL));
    leg = transcript_find("decode", 0);
    assert_string_equal(header_in(leg->headers, "authorization", NULL), "Bearer secret-1");
    assert_null(header_in(leg->headers, "cookie", NULL));
    assert_null(header_in(leg->headers, "proxy-authorization", NULL));
    leg = transcript_target("/v1/embeddings");
    assert_string_equal(header_in(leg->headers, "cookie", NULL), "c=secret-2");
    assert_null(header_in(leg->headers, "proxy-authorization", NULL));
    assert_lacks(process_log(&deployed.coordinator), "secret-");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_refused_is_refused_in_json),
        TEST(model_and_stream_are_read_however_they_are_spelled),
        TEST(bodies_are_bounded_whatever_their_framing),
        TEST(ambiguous_framing_is_a_400_and_closed),
        TEST(hostile_request_ids_are_replaced),
        TEST(one_connection_carries_many_requests),
        TEST(pipelined_requests_are_answered_in_order),
        TEST(a_request_may_come_byte_by_byte),
        TEST(who_expects_100_continue_gets_it_at_once),
        TEST(a_large_body_does_not_wait_for_a_workers_100),
        TEST(http_1_0_clients_get_answers_they_understand),
        TEST(probes_answer_GET_and_HEAD_on_both_ports),
        TEST(paths_of_apis_are_cleaned_and_others_kept),
        TEST(credentials_reach_only_whom_they_are_for),
    };

    return harness_run(tests);
}
