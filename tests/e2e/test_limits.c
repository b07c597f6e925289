/* What is short: requests, bytes, descriptors, names. And what is not used: the CPU of an idle process. */
#include "harness.h"

#include <arpa/inet.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static void hang(struct stage *stage)
{
    if (stage_wait_gate(stage, PATIENCE_MS))
        stage_default(stage);
}

static void too_many_requests_are_a_503_and_room_comes_back(void **state)
{
    struct scripted *worker = scripted_start(&(struct scripted_options){.decode = hang});
    struct client *running[3], *refused;

    (void)state;
    deploy(
        &(struct plan){.no_sim = true, .gateway_port = scripted_port(worker), .server = "  max_inflight_requests: 3"});
    for (size_t i = 0; i < 3; i++) {
        running[i] = client_open(deployed.port);
        client_post(running[i], CHAT_PATH, "", span_of(CHAT));
        UNTIL(scripted_count(worker, "decode") == i + 1);
    }
    refused = fetch("POST", CHAT_PATH, "", CHAT);
    assert_int_equal(refused->answer.status, 503);
    assert_non_null(answer_header(refused, "retry-after"));
    assert_contains(refused->answer.body.data, "overloaded");
    assert_int_equal(scripted_count(worker, "render"), 3);
    assert_int_equal(fetch("GET", "/healthz", "", NULL)->answer.status, 200);
    client_close(running[0]); /* one leaves: its place is free */
    UNTIL(scripted_open(worker) < 7);
    scripted_open_gate(worker);
    UNTIL(fetch("POST", CHAT_PATH, "", CHAT)->answer.status == 200);
    assert_true(client_read(running[1], PATIENCE_MS));
    assert_int_equal(running[1]->answer.status, 200);
    assert_int_equal(fetch("POST", CHAT_PATH, "", CHAT)->answer.status, 200);
}

/* True when a large body is not refused at once. */
static bool takes_large_body(void)
{
    struct client *client = client_open(deployed.port);
    bool refused;

    client_say(client, "POST " CHAT_PATH " HTTP/1.1\r\nHost: c\r\nContent-Length: 900000\r\n\r\n");
    refused = client_read_head(client, 200);
    client_close(client);
    return !refused;
}

static void too_many_bytes_are_a_503_before_they_are_read(void **state)
{
    struct client *first, *second;
    char part[1000];

    (void)state;
    memset(part, ' ', sizeof part);
    deploy(&(struct plan){.server = "  max_inflight_bytes: 1MiB"});
    first = client_open(deployed.port);
    client_say(first, "POST " CHAT_PATH " HTTP/1.1\r\nHost: c\r\nContent-Length: 900000\r\n\r\n");
    client_send(first, part, sizeof part);
    pause_ms(100);
    second = client_open(deployed.port);
    client_say(second, "POST " CHAT_PATH " HTTP/1.1\r\nHost: c\r\nContent-Length: 900000\r\n\r\n");
    assert_true(client_read(second, PATIENCE_MS));
    assert_int_equal(second->answer.status, 503);
    assert_non_null(answer_header(second, "retry-after"));
    assert_int_equal(fetch("POST", CHAT_PATH, "", CHAT)->answer.status, 200);
    client_close(first);
    UNTIL(takes_large_body());
}

static void an_idle_process_uses_no_cpu(void **state)
{
    int64_t before;

    (void)state;
    deploy(&(struct plan){.sim_flags = (const char *const[]){"--event-interval", "1", NULL}});
    for (int i = 0; i < 10; i++)
        client_close(fetch("POST", CHAT_PATH, "", STREAM));
    (void)client_open(deployed.port); /* one that says nothing, one between requests */
    (void)fetch("GET", "/healthz", "", NULL);
    pause_ms(500);
    before = process_cpu_ms(&deployed.coordinator);
    pause_ms(3000);
    assert_in_range(process_cpu_ms(&deployed.coordinator) - before, 0, sanitized() ? 60 : 10);
}

/* A body may hold hundreds of thousands of them, and the thread that reads it has others to serve. */
static void many_engine_owned_members_cost_one_pass(void **state)
{
    enum { MEMBERS = 30000 };
    static const char *const OPEN[] = {"", "\"vllm_xargs\":{", "\"sampling_params\":{\"extra_args\":{"};
    static const char *const CLOSE[] = {"", "}", "}}"};
    const struct recorded *leg;
    struct text body = {0};
    int64_t before;

    (void)state;
    deploy(&(struct plan){.steps = "    - type: decode\n"});
    for (size_t place = 0; place < sizeof OPEN / sizeof *OPEN; place++) {
        text_clear(&body);
        text_printf(&body, "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],%s\"a\":0",
                    OPEN[place]);
        for (int i = 0; i < MEMBERS; i++)
            text_printf(&body, ",\"bootstrap_%d\":%d%s", i, i, i % 2 ? "" : ",\"x\":1");
        text_printf(&body, "%s}", CLOSE[place]);
        before = process_cpu_ms(&deployed.coordinator);
        assert_int_equal(fetch("POST", CHAT_PATH, "", body.data)->answer.status, 200);
        assert_in_range(process_cpu_ms(&deployed.coordinator) - before, 0, sanitized() ? 5000 : 1000);
        leg = transcript_find("decode", place);
        assert_non_null(leg);
        assert_int_equal(text_count(&leg->body, "bootstrap_"), 0);
        assert_int_equal(text_count(&leg->body, ",\"x\":1"), MEMBERS / 2);
    }
    text_free(&body);
}

static void without_descriptors_it_waits_without_spinning_and_recovers(void **state)
{
    enum { MANY = 60 };
    struct client *clients[MANY], *late;
    struct rlimit limit;
    size_t open;
    int64_t before;

    (void)state;
    deploy(&(struct plan){0});
    client_close(fetch("POST", CHAT_PATH, "", CHAT));
    open = settled_descriptors();
    limit = (struct rlimit){open + 20, open + 20};
    assert_int_equal(prlimit(deployed.coordinator.pid, RLIMIT_NOFILE, &limit, NULL), 0);
    for (size_t i = 0; i < MANY; i++)
        clients[i] = client_open(deployed.port);
    pause_ms(300);
    before = process_cpu_ms(&deployed.coordinator);
    pause_ms(1500);
    assert_true(process_cpu_ms(&deployed.coordinator) - before < (sanitized() ? 300 : 100));
    for (size_t i = 0; i < MANY - 1; i++)
        client_close(clients[i]);
    late = clients[MANY - 1]; /* waited in the queue all the time */
    client_post(late, CHAT_PATH, "", span_of(CHAT));
    assert_true(client_read(late, PATIENCE_MS));
    assert_int_equal(late->answer.status, 200);
    assert_int_equal(fetch("POST", CHAT_PATH, "", STREAM)->answer.status, 200);
}

static void without_a_descriptor_for_a_worker_the_client_is_told(void **state)
{
    struct client *clients[64];
    struct rlimit limit;
    size_t open, count = 0;

    (void)state;
    deploy(&(struct plan){.runtime = "  reactors: 1"});
    open = settled_descriptors();
    limit = (struct rlimit){open + 4, open + 4};
    assert_int_equal(prlimit(deployed.coordinator.pid, RLIMIT_NOFILE, &limit, NULL), 0);
    while (count < 12)
        clients[count++] = client_open(deployed.port);
    settled_descriptors();
    client_post(clients[0], CHAT_PATH, "", span_of(CHAT));
    assert_true(client_read(clients[0], PATIENCE_MS));
    assert_in_range(clients[0]->answer.status, 500, 504);
    assert_contains(clients[0]->answer.body.data, "\"error\":{");
    while (count > 1)
        client_close(clients[--count]);
    UNTIL(fetch("POST", CHAT_PATH, "", CHAT)->answer.status == 200);
}

static void a_resolver_that_never_answers_holds_nobody_else_up(void **state)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int silent = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    char runtime[128];
    struct client *waiting;
    size_t descriptors;
    int64_t began;

    (void)state;
    assert_int_equal(bind(silent, (struct sockaddr *)&address, size), 0);
    assert_int_equal(getsockname(silent, (struct sockaddr *)&address, &size), 0);
    snprintf(runtime, sizeof runtime, "  reactors: 1\n  name_servers: \"127.0.0.1:%u\"", ntohs(address.sin_port));
    deploy(&(struct plan){.gateway_url = "http://no-such-gateway.example:80",
                          .runtime = runtime,
                          .gateway = "  connect_timeout: 10s",
                          .steps = "    - type: decode\n"});
    waiting = client_open(deployed.port);
    descriptors = settled_descriptors();
    client_post(waiting, CHAT_PATH, "", span_of(CHAT));
    {
        char query[512];
        struct timeval patience = {10, 0};

        setsockopt(silent, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        assert_true(recv(silent, query, sizeof query, 0) > 0); /* it asked */
    }
    for (int i = 0; i < 20; i++) {
        began = now_ms();
        assert_int_equal(fetch("GET", "/healthz", "", NULL)->answer.status, 200);
        assert_true(now_ms() - began < promptly_ms());
    }
    began = now_ms();
    client_close(waiting);
    UNTIL(strstr(process_log(&deployed.coordinator), "outcome=client_gone"));
    assert_true(now_ms() - began < promptly_ms());
    (void)descriptors;
    close(silent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(too_many_requests_are_a_503_and_room_comes_back),
        TEST(too_many_bytes_are_a_503_before_they_are_read),
        TEST(an_idle_process_uses_no_cpu),
        TEST(many_engine_owned_members_cost_one_pass),
        TEST(without_descriptors_it_waits_without_spinning_and_recovers),
        TEST(without_a_descriptor_for_a_worker_the_client_is_told),
        TEST(a_resolver_that_never_answers_holds_nobody_else_up),
    };

    return harness_run(tests);
}
