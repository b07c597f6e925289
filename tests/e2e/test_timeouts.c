/* The timeouts of decision 60: each one alone, with the others far away. */
#include "harness.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

static void be_silent(struct stage *stage)
{
    stage_wait_closed(stage, PATIENCE_MS);
    stage->hang_up = true;
}

static void stop_after_an_event(struct stage *stage)
{
    stage_stream_head(stage);
    stage_chunk(stage, "data: {\"a\":1}\n\n", 15);
    be_silent(stage);
}

static void stop_inside_an_event(struct stage *stage)
{
    stage_stream_head(stage);
    stage_chunk(stage, "data: {\"a\":1}\n\ndata: {\"b", 24);
    be_silent(stage);
}

static void stop_inside_json(struct stage *stage)
{
    stage_say(stage, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"a\":1");
    be_silent(stage);
}

static void stream_for_ever(struct stage *stage)
{
    stage_stream_head(stage);
    while (!stage->bad) {
        stage_chunk(stage, "data: {\"a\":1}\n\n", 15);
        stage_wait_closed(stage, 50);
    }
}

enum ending { ERROR_JSON, ERROR_EVENT, ABORT };

struct upstream_row {
    const char *name;
    const char *gateway; /* YAML */
    const char *phase;
    script *play;
    const char *body;
    enum ending ending;
};

static const struct upstream_row ROWS[] = {
    {"prefill's head", "  timeout: 500ms", "prefill", be_silent, CHAT, ERROR_JSON},
    {"a stream's head", "  timeout: 500ms", "decode", be_silent, STREAM, ERROR_JSON},
    {"a whole answer's head", "  response_timeout: 500ms", "decode", be_silent, CHAT, ERROR_JSON},
    {"a gap in a stream", "  idle_timeout: 500ms", "decode", stop_after_an_event, STREAM, ERROR_EVENT},
    {"a gap in an event", "  idle_timeout: 500ms", "decode", stop_inside_an_event, STREAM, ABORT},
    {"a gap in a whole answer", "  idle_timeout: 500ms", "decode", stop_inside_json, CHAT, ABORT},
    {"a gap in prefill's answer", "  idle_timeout: 500ms", "prefill", stop_inside_json, CHAT, ERROR_JSON},
    {"the total of a healthy stream", "  total_timeout: 500ms", "decode", stream_for_ever, STREAM, ERROR_EVENT},
    {"the total of prefill", "  total_timeout: 500ms", "prefill", be_silent, CHAT, ERROR_JSON},
};

static void assert_error(const struct client *client, int status, const char *part)
{
    if (client->answer.status != status)
        fail_msg("status %d, not %d: %s", client->answer.status, status,
                 client->answer.body.data ? client->answer.body.data : "");
    assert_true(client->answer.whole);
    assert_string_equal(answer_header(client, "content-type"), "application/json");
    assert_non_null(answer_header(client, "x-request-id"));
    assert_contains(client->answer.body.data, "\"error\":{");
    assert_contains(client->answer.body.data, part);
}

static void assert_ending(const struct upstream_row *row, const struct client *client)
{
    switch (row->ending) {
    case ERROR_JSON:
        assert_error(client, 504, "upstream_timeout");
        break;
    case ERROR_EVENT:
        assert_int_equal(client->answer.status, 200);
        assert_true(client->answer.whole);
        assert_contains(client->answer.body.data, "data: {\"a\":1}\n\n");
        assert_contains(client->answer.body.data, "data: {\"error\":{");
        assert_contains(client->answer.body.data, "timeout");
        assert_lacks(client->answer.body.data, "[DONE]");
        break;
    case ABORT:
        assert_int_equal(client->answer.status, 200);
        assert_false(client->answer.whole);
        assert_lacks(client->answer.body.data, "error");
        break;
    }
}

static void each_timeout_of_a_worker_fires_by_itself(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        const struct upstream_row *row = &ROWS[i];
        struct scripted_options options = {0};
        struct scripted *worker;
        struct client *client;
        int64_t began;

        print_message("             %s\n", row->name);
        *(strcmp(row->phase, "render") == 0    ? &options.render
          : strcmp(row->phase, "prefill") == 0 ? &options.prefill
                                               : &options.decode) = row->play;
        worker = scripted_start(&options);
        deploy(&(struct plan){.no_sim = true, .gateway_port = scripted_port(worker), .gateway = row->gateway});
        began = now_ms();
        client = fetch("POST", CHAT_PATH, "", row->body);
        assert_in_range(now_ms() - began, 450, 1000 + 2 * promptly_ms());
        assert_ending(row, client);
        UNTIL(scripted_closed_ms(worker, scripted_find(worker, row->phase, 0)) != 0);
        assert_int_equal(scripted_count(worker, row->phase), 1); /* a timeout is never repeated */
        assert_int_equal(harness_end(NULL), 0);
    }
}

static void render_has_a_timeout_of_its_own(void **state)
{
    struct scripted *worker = scripted_start(&(struct scripted_options){.render = be_silent});
    char steps[256];
    int64_t began;

    (void)state;
    snprintf(
        steps, sizeof steps,
        "    - type: render\n      params: {address: \"http://127.0.0.1:%u\", timeout: 500ms}\n    - type: decode\n",
        scripted_port(worker));
    deploy(&(struct plan){.no_sim = true, .gateway_port = scripted_port(worker), .steps = steps});
    began = now_ms();
    assert_error(fetch("POST", CHAT_PATH, "", CHAT), 504, "upstream_timeout");
    assert_in_range(now_ms() - began, 450, 1000 + 2 * promptly_ms());
    assert_int_equal(scripted_count(worker, "render"), 1);
}

static void start_late(struct stage *stage)
{
    pause_ms(1200);
    stage_default(stage);
}

static void a_whole_answer_may_take_longer_than_a_streams_head(void **state)
{
    (void)state;
    deploy(
        &(struct plan){.no_sim = true,
                       .gateway_port = scripted_port(scripted_start(&(struct scripted_options){.decode = start_late})),
                       .gateway = "  timeout: 400ms"});
    assert_int_equal(fetch("POST", CHAT_PATH, "", CHAT)->answer.status, 200);
    assert_int_equal(fetch("POST", CHAT_PATH, "", STREAM)->answer.status, 504);
}

static void stream_slowly(struct stage *stage)
{
    stage_stream_head(stage);
    for (int i = 0; i < 15; i++) {
        stage_chunk(stage, "data: {\"a\":1}\n\n", 15);
        pause_ms(100);
    }
    stage_chunk(stage, "data: [DONE]\n\n", 14);
    stage_last_chunk(stage);
}

static void a_healthy_stream_outlives_all_timeouts(void **state)
{
    struct client *client;

    (void)state;
    deploy(&(struct plan){
        .no_sim = true,
        .gateway_port = scripted_port(scripted_start(&(struct scripted_options){.decode = stream_slowly})),
        .gateway = "  timeout: 600ms\n  response_timeout: 600ms\n  idle_timeout: 600ms\n  connect_timeout: 600ms",
        .server = "  read_timeout: 600ms\n  write_timeout: 600ms"});
    client = fetch("POST", CHAT_PATH, "", STREAM);
    assert_true(client->answer.whole);
    assert_contains(client->answer.body.data, "[DONE]");
    assert_lacks(client->answer.body.data, "error");
}

/* Connections that fill the queue of a listener that never accepts; then connecting takes for ever. */
static void fill_backlog(uint16_t port, int *fds, size_t count)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};

    for (size_t i = 0; i < count; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        connect(fds[i], (struct sockaddr *)&address, sizeof address);
    }
    pause_ms(50);
}

static void connecting_has_a_timeout_of_its_own(void **state)
{
    struct scripted *blackhole = scripted_start(&(struct scripted_options){.no_accept = true, .backlog = 0});
    struct client *client;
    int64_t began;
    int fds[4];

    (void)state;
    fill_backlog(scripted_port(blackhole), fds, 4);
    deploy(&(struct plan){
        .no_sim = true, .gateway_port = scripted_port(blackhole), .gateway = "  connect_timeout: 500ms"});
    began = now_ms();
    client = fetch("POST", CHAT_PATH, "", CHAT);
    assert_in_range(now_ms() - began, 450, 1000 + 2 * promptly_ms());
    assert_error(client, 504, "upstream_timeout");
    began = now_ms();
    client = fetch("GET", "/v1/models", "", NULL);
    assert_in_range(now_ms() - began, 450, 1000 + 2 * promptly_ms());
    assert_error(client, 504, "upstream_timeout");
    for (size_t i = 0; i < 4; i++)
        close(fds[i]);
}

static void a_slow_head_is_closed_and_a_slow_body_is_a_408(void **state)
{
    struct client *client;
    int64_t began;

    (void)state;
    deploy(&(struct plan){.server = "  read_timeout: 1s"});
    began = now_ms();
    client = client_open(deployed.port);
    while (!client_wait_closed(client, 100) && now_ms() - began < 5000)
        client_say(client, now_ms() - began < 150 ? "GET /healthz HTTP/1.1\r\nHost: c\r\n" : "X-A: b\r\n");
    assert_in_range(now_ms() - began, 900, 1500 + promptly_ms());

    began = now_ms();
    client = client_open(deployed.port);
    client_say(client, "POST " CHAT_PATH " HTTP/1.1\r\nHost: c\r\nContent-Length: 1000\r\n\r\n{");
    while (!client_read_head(client, 100) && !client->ended && now_ms() - began < 5000)
        client_say(client, " ");
    assert_in_range(now_ms() - began, 900, 1500 + promptly_ms());
    assert_true(client_read_body(client, SIZE_MAX, PATIENCE_MS));
    assert_error(client, 408, "request_timeout");
    assert_true(client_wait_closed(client, 2000));

    client = client_open(deployed.port);
    client_say(client, "POST " CHAT_PATH " HTTP/1.1\r\nHost: c\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n");
    assert_true(client_read(client, 5000));
    assert_error(client, 408, "request_timeout");
    assert_int_equal(sim_count("requests.render"), 0);
}

static void an_idle_connection_is_not_kept_for_ever(void **state)
{
    struct client *client;

    (void)state;
    deploy(&(struct plan){.server = "  read_timeout: 1s"});
    client = fetch("GET", "/healthz", "", NULL);
    assert_int_equal(client->answer.status, 200);
    assert_true(client_wait_closed(client, 4000));
}

static void send_much(struct stage *stage)
{
    static char blob[65536];

    memset(blob, ':', sizeof blob);
    blob[sizeof blob - 1] = '\n';
    stage_stream_head(stage);
    for (int i = 0; i < 2000 && !stage->bad; i++)
        stage_chunk(stage, blob, sizeof blob);
    stage_wait_closed(stage, PATIENCE_MS);
}

static void a_client_that_takes_nothing_is_closed_after_the_write_timeout(void **state)
{
    struct scripted *worker = scripted_start(&(struct scripted_options){.decode = send_much});
    struct client *client;
    int64_t began;

    (void)state;
    deploy(&(struct plan){.no_sim = true, .gateway_port = scripted_port(worker), .server = "  write_timeout: 1s"});
    client = client_open_small(deployed.port, 65536);
    client_post(client, CHAT_PATH, "", span_of(STREAM));
    began = now_ms();
    UNTIL(scripted_find(worker, "decode", 0) != NULL);
    UNTIL(strstr(process_log(&deployed.coordinator), "outcome=client_slow"));
    assert_in_range(now_ms() - began, 900, sanitized() ? 10000 : 3500);
    UNTIL(scripted_open(worker) <= 2); /* decode's is closed; render's and prefill's may be kept */
    client_wait_closed(client, 5000);
    assert_true(client->ended);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_timeout_of_a_worker_fires_by_itself),
        TEST(render_has_a_timeout_of_its_own),
        TEST(a_whole_answer_may_take_longer_than_a_streams_head),
        TEST(a_healthy_stream_outlives_all_timeouts),
        TEST(connecting_has_a_timeout_of_its_own),
        TEST(a_slow_head_is_closed_and_a_slow_body_is_a_408),
        TEST(an_idle_connection_is_not_kept_for_ever),
        TEST(a_client_that_takes_nothing_is_closed_after_the_write_timeout),
    };

    return harness_run(tests);
}
