/* A client that goes away stops the work that is done for it; one that does not read stops nothing else. */
#include "harness.h"

#include <strings.h>

/* The client's own field says which leg hangs; it travels to every leg. */
static bool hangs(struct stage *stage)
{
    char field[64];

    snprintf(field, sizeof field, "\r\nX-Hang: %s\r\n", stage->request->phase);
    return strcasestr(stage->request->head, field) != NULL;
}

static void hang_or_answer(struct stage *stage)
{
    if (!hangs(stage)) {
        stage_default(stage);
        return;
    }
    if (strcasestr(stage->request->head, "\r\nX-Middle: ")) {
        stage_stream_head(stage);
        stage_chunk(stage, "data: {\"a\":1}\n\n", 15);
    }
    stage_wait_closed(stage, PATIENCE_MS);
    stage->hang_up = true;
}

static struct scripted *start_hanging(void)
{
    struct scripted *worker = scripted_start(&(struct scripted_options){
        .render = hang_or_answer, .prefill = hang_or_answer, .decode = hang_or_answer, .other = hang_or_answer});

    deploy(&(struct plan){.no_sim = true, .gateway_port = scripted_port(worker), .runtime = "  reactors: 1"});
    return worker;
}

struct leaving {
    const char *name, *phase, *fields, *path, *body;
};
static const struct leaving LEAVINGS[] = {
    {"in render, stream", "render", "X-Hang: render\r\n", CHAT_PATH, STREAM},
    {"in render", "render", "X-Hang: render\r\n", CHAT_PATH, CHAT},
    {"in prefill, stream", "prefill", "X-Hang: prefill\r\n", CHAT_PATH, STREAM},
    {"in prefill", "prefill", "X-Hang: prefill\r\n", CHAT_PATH, CHAT},
    {"before decode's headers", "decode", "X-Hang: decode\r\n", CHAT_PATH, STREAM},
    {"while decode works on a whole answer", "decode", "X-Hang: decode\r\n", CHAT_PATH, CHAT},
    {"in the middle of a stream whose worker is silent", "decode", "X-Hang: decode\r\nX-Middle: 1\r\n", CHAT_PATH,
     STREAM},
    {"in passthrough", "other", "X-Hang: other\r\n", "/tokenize", CHAT},
    {"in the middle of a passed-through stream", "other", "X-Hang: other\r\nX-Middle: 1\r\n", "/tokenize", CHAT},
};

static void leave(struct scripted *worker, const struct leaving *row, bool reset, size_t before)
{
    struct client *client = client_open(deployed.port);
    const struct received *leg;
    int64_t left_at, closed_at;

    client_post(client, row->path, row->fields, span_of(row->body));
    UNTIL((leg = scripted_find(worker, row->phase, before)) != NULL);
    if (strstr(row->fields, "Middle")) {
        assert_true(client_read_head(client, PATIENCE_MS));
        assert_true(client_read_body(client, 15, PATIENCE_MS));
    }
    left_at = now_ms();
    (reset ? client_reset : client_close)(client);
    UNTIL((closed_at = scripted_closed_ms(worker, leg)) != 0);
    if (closed_at - left_at > promptly_ms())
        fail_msg("%s, %s: the worker's connection was closed after %lld ms", row->name, reset ? "RST" : "FIN",
                 (long long)(closed_at - left_at));
}

static void a_client_that_leaves_stops_its_leg_at_once_in_every_phase(void **state)
{
    struct scripted *worker = start_hanging();
    size_t descriptors, requests = 0;

    (void)state;
    client_close(fetch("POST", CHAT_PATH, "", CHAT));
    descriptors = settled_descriptors();
    for (size_t i = 0; i < sizeof LEAVINGS / sizeof *LEAVINGS; i++)
        for (int reset = 0; reset < 2; reset++) {
            struct client *next;

            leave(worker, &LEAVINGS[i], reset, scripted_count(worker, LEAVINGS[i].phase));
            requests += LEAVINGS[i].path[1] == 'v';
            UNTIL(process_descriptors(&deployed.coordinator) <= descriptors);
            next = fetch("POST", CHAT_PATH, "", STREAM);
            assert_int_equal(next->answer.status, 200);
            client_close(next);
            requests++;
        }
    UNTIL(metric("request_total{model_name=\"m\"}") == (double)requests + 1);
    assert_true(metric("request_running{model_name=\"m\"}") == 0);
    assert_true(metric("request_error_total{model_name=\"m\",error_code=\"internal\"}") == 14);
    assert_contains(process_log(&deployed.coordinator), "outcome=client_gone");
}

static void a_client_that_leaves_during_its_upload_leaves_nothing_behind(void **state)
{
    struct scripted *worker = start_hanging();
    size_t descriptors;

    (void)state;
    client_close(fetch("POST", CHAT_PATH, "", CHAT));
    descriptors = settled_descriptors();
    for (int i = 0; i < 40; i++) {
        struct client *client = client_open(deployed.port);

        if (i % 4 < 2)
            client_say(client, "POST " CHAT_PATH " HTTP/1.1\r\nHost: c\r\nContent-Length: 1000\r\n\r\n{\"model\":");
        else
            client_say(client, "POST " CHAT_PATH
                               " HTTP/1.1\r\nHost: c\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"mod\r\n4\r\n");
        UNTIL(process_descriptors(&deployed.coordinator) > descriptors);
        (i % 2 ? client_reset : client_close)(client);
        UNTIL(process_descriptors(&deployed.coordinator) <= descriptors);
    }
    assert_int_equal(scripted_count(worker, NULL), 3);
    assert_int_equal(fetch("POST", CHAT_PATH, "", CHAT)->answer.status, 200);
}

static void a_half_closed_client_is_kept_when_configured(void **state)
{
    struct client *client;

    (void)state;
    deploy(&(struct plan){.server = "  half_close: keep",
                          .sim_flags = (const char *const[]){"--delay", "decode=200", NULL}});
    client = client_open(deployed.port);
    client_post(client, CHAT_PATH, "", span_of(STREAM));
    client_half_close(client);
    assert_true(client_read(client, PATIENCE_MS));
    assert_int_equal(client->answer.status, 200);
    assert_contains(client->answer.body.data, "[DONE]");
}

enum { BLOBS = 1200, BLOB = 65000 };

/* Who shut its sending side before its request was whole will never make it whole. */
static void a_kept_half_closed_client_whose_request_is_not_whole_is_gone(void **state)
{
    enum { CLIENTS = 240, BODY = 200000 };
    static char body[BODY];
    int64_t began;

    (void)state;
    memset(body, 'x', sizeof body);
    deploy(&(struct plan){.server = "  half_close: keep\n  connection_memory: 8KiB\n  read_timeout: 60s",
                          .response = "  buffer_high: 4KiB\n  buffer_low: 1KiB"});
    for (size_t i = 0; i < CLIENTS; i++) {
        struct client *client = client_open(deployed.port);

        client_say(client, "POST /sim/echo HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", BODY);
        client_try_send(client, body, 1 + i * 7919 % (BODY - 1));
        client_close(client);
    }
    began = now_ms();
    UNTIL(sim_count("open_connections") <= 1); /* that of the books */
    assert_in_range(now_ms() - began, 0, 10000);
}

static void stream_blobs(struct stage *stage)
{
    static char blob[BLOB + 9];
    size_t *sent = stage->context;

    stage_stream_head(stage);
    memset(blob, 'x', sizeof blob);
    memcpy(blob, "data: ", 6);
    memcpy(blob + BLOB + 6, "\n\n", 2);
    for (int i = 0; i < BLOBS && !stage->bad; i++) {
        stage_chunk(stage, blob, BLOB + 8);
        __atomic_fetch_add(sent, BLOB + 8, __ATOMIC_SEQ_CST);
    }
    stage_chunk(stage, "data: [DONE]\n\n", 14);
    stage_last_chunk(stage);
}

static void a_client_that_does_not_read_pauses_its_worker_and_gets_every_byte_later(void **state)
{
    size_t sent = 0, rss, paused_at;
    struct client *client;
    int64_t until = now_ms() + (sanitized() ? 8000 : 20000), cpu;

    (void)state;
    deploy(&(struct plan){.no_sim = true,
                          .gateway_port = scripted_port(
                              scripted_start(&(struct scripted_options){.decode = stream_blobs, .context = &sent}))});
    client = client_open_small(deployed.port, 65536);
    client_post(client, CHAT_PATH, "", span_of(STREAM));
    pause_ms(1000); /* until the buffers are full */
    rss = process_rss_kib(&deployed.coordinator);
    paused_at = __atomic_load_n(&sent, __ATOMIC_SEQ_CST);
    assert_true(paused_at < 30000000);
    cpu = process_cpu_ms(&deployed.coordinator);
    while (now_ms() < until) {
        pause_ms(200);
        assert_true(process_rss_kib(&deployed.coordinator) < rss + 8192);
    }
    assert_true(process_cpu_ms(&deployed.coordinator) - cpu <= 100); /* it waits, it does not try */
    assert_true(__atomic_load_n(&sent, __ATOMIC_SEQ_CST) < paused_at + 5000000);
    assert_true(client_read(client, 30000));
    assert_int_equal(client->answer.body.size, (size_t)BLOBS * (BLOB + 8) + 14);
    assert_string_equal(client->answer.body.data + client->answer.body.size - 14, "data: [DONE]\n\n");
}

static void books_balance_after_many_requests_of_all_kinds(void **state)
{
    enum { ROUNDS = 40 };
    int64_t cancelled = 0;

    (void)state;
    deploy(&(struct plan){.sim_flags = (const char *const[]){"--event-interval", "2", NULL}});
    for (int i = 0; i < ROUNDS; i++) {
        struct client *client;

        client = fetch("POST", CHAT_PATH, "", i % 2 ? STREAM : CHAT);
        assert_int_equal(client->answer.status, 200);
        client_close(client);
        client = fetch("POST", "/v1/completions", "",
                       i % 2 ? "{\"model\":\"m\",\"prompt\":\"a b c\"}"
                             : "{\"model\":\"m\",\"prompt\":\"a b c\",\"stream\":true}");
        assert_int_equal(client->answer.status, 200);
        client_close(client);
        if (i % 4 == 0) {
            client = client_open(deployed.port);
            client_post(client, CHAT_PATH, "X-Sim-Fault-Decode: silence-after=20\r\n", span_of(STREAM));
            assert_true(client_read_head(client, PATIENCE_MS));
            client_close(client);
            cancelled++;
        }
    }
    UNTIL(sim_count("cancelled") == cancelled);
    assert_int_equal(sim_count("cancelled_in.decode"), cancelled);
    assert_int_equal(sim_count("hits"), 2 * ROUNDS + cancelled);
    assert_int_equal(sim_count("misses"), 0);
    assert_int_equal(sim_count("altered"), 0);
    assert_int_equal(sim_count("stranded"), 0);
    assert_int_equal(sim_count("bad_handshakes"), 0);
    assert_int_equal(sim_count("token_drift"), 0);
    assert_int_equal(sim_count("handed_out"), 2 * ROUNDS + cancelled);
    assert_int_equal(sim_count("requests.render"), 2 * ROUNDS + cancelled);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_client_that_leaves_stops_its_leg_at_once_in_every_phase),
        TEST(a_client_that_leaves_during_its_upload_leaves_nothing_behind),
        TEST(a_half_closed_client_is_kept_when_configured),
        TEST(a_kept_half_closed_client_whose_request_is_not_whole_is_gone),
        TEST(a_client_that_does_not_read_pauses_its_worker_and_gets_every_byte_later),
        TEST(books_balance_after_many_requests_of_all_kinds),
    };

    return harness_run(tests);
}
