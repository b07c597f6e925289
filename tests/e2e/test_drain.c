/* SIGTERM: what was accepted is answered, what streams ends well, and nothing waits for ever. */
#include "harness.h"

#include <signal.h>

enum { STREAMS = 20 };

static void stream_for_a_second(struct stage *stage)
{
    stage_stream_head(stage);
    for (int i = 0; i < 10 && !stage->bad; i++) {
        stage_chunk(stage, "data: {\"a\":1}\n\n", 15);
        pause_ms(100);
    }
    stage_chunk(stage, "data: [DONE]\n\n", 14);
    stage_last_chunk(stage);
}

static void stream_for_ever(struct stage *stage)
{
    stage_stream_head(stage);
    while (!stage->bad) {
        stage_chunk(stage, "data: {\"a\":1}\n\n", 15);
        stage_wait_closed(stage, 50);
    }
}

static struct client *begin_stream(void)
{
    struct client *client = client_open(deployed.port);

    client_post(client, CHAT_PATH, "", span_of(STREAM));
    assert_true(client_read_head(client, PATIENCE_MS));
    assert_int_equal(client->answer.status, 200);
    return client;
}

static int status_of(uint16_t port, const char *path)
{
    struct client *client = client_open_small(port, 0);
    int status;

    if (client->ended)
        return 0;
    client_say(client, "GET %s HTTP/1.1\r\nHost: c\r\n\r\n", path);
    client_read(client, 2000);
    status = client->answer.status;
    client_close(client);
    return status;
}

static void streams_finish_and_nothing_accepted_is_lost(void **state)
{
    struct client *streams[STREAMS], *fresh[STREAMS], *silent, *idle;

    (void)state;
    deploy(&(struct plan){
        .no_sim = true,
        .server = "  drain_delay: 500ms",
        .gateway_port = scripted_port(scripted_start(&(struct scripted_options){.decode = stream_for_a_second}))});
    for (size_t i = 0; i < STREAMS; i++)
        streams[i] = begin_stream();
    idle = fetch("GET", "/healthz", "", NULL);
    silent = client_open(deployed.port); /* says nothing: must not hold the drain up */
    process_signal(&deployed.coordinator, SIGTERM);
    UNTIL_WITHIN(status_of(deployed.port, "/readyz") == 503, 400);
    assert_int_equal(status_of(deployed.metrics_port, "/readyz"), 503);
    assert_int_equal(status_of(deployed.metrics_port, "/healthz"), 200);
    assert_int_equal(status_of(deployed.port, "/healthz"), 200);
    for (size_t i = 0; i < STREAMS; i++) {
        fresh[i] = client_open(deployed.port);
        client_post(fresh[i], CHAT_PATH, "", span_of(CHAT));
    }
    for (size_t i = 0; i < STREAMS; i++) {
        assert_true(client_read(fresh[i], PATIENCE_MS));
        assert_int_equal(fresh[i]->answer.status, 200);
        assert_string_equal(answer_header(fresh[i], "connection"), "close");
        assert_true(client_read_body(streams[i], SIZE_MAX, PATIENCE_MS));
        assert_true(streams[i]->answer.whole);
        assert_contains(streams[i]->answer.body.data, "[DONE]");
        assert_lacks(streams[i]->answer.body.data, "error");
    }
    assert_true(process_wait(&deployed.coordinator, 5000));
    assert_int_equal(deployed.coordinator.code, 0);
    assert_contains(process_log(&deployed.coordinator), " drained cut=0 seconds=");
    assert_true(client_wait_closed(idle, 1000));
    assert_true(client_wait_closed(silent, 1000));
}

static void connections_made_right_before_the_signal_are_answered(void **state)
{
    enum { ROUNDS = 8, EACH = 40 };

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        struct client *clients[EACH];
        size_t answered = 0;

        deploy(&(struct plan){.sim_flags = (const char *const[]){"--event-interval", "3", NULL}});
        for (int i = 0; i < EACH; i++) {
            clients[i] = client_open(deployed.port);
            client_post(clients[i], CHAT_PATH, "", span_of(i % 2 ? STREAM : CHAT));
        }
        process_signal(&deployed.coordinator, SIGTERM);
        for (int i = 0; i < EACH; i++)
            answered += client_read(clients[i], PATIENCE_MS) && clients[i]->answer.status == 200;
        assert_int_equal(answered, EACH);
        assert_true(process_wait(&deployed.coordinator, 5000));
        assert_int_equal(deployed.coordinator.code, 0);
        assert_int_equal(harness_end(NULL), 0);
    }
}

static void a_second_signal_ends_at_once(void **state)
{
    struct client *client;

    (void)state;
    deploy(&(struct plan){.no_sim = true,
                          /* its threads are left behind on purpose */
                          .environment = (const char *const[]){"TSAN_OPTIONS=report_thread_leaks=0", NULL},
                          .gateway_port =
                              scripted_port(scripted_start(&(struct scripted_options){.decode = stream_for_ever}))});
    client = begin_stream();
    deployed.unclean = true;
    process_signal(&deployed.coordinator, SIGTERM);
    UNTIL(strstr(process_log(&deployed.coordinator), "draining"));
    assert_false(process_wait(&deployed.coordinator, 300));
    process_signal(&deployed.coordinator, SIGTERM);
    if (!process_wait(&deployed.coordinator, sanitized() ? 3000 : 300))
        fail_msg("it did not end at once: %s", process_log(&deployed.coordinator));
    assert_int_equal(deployed.coordinator.code, 1);
    assert_true(client_wait_closed(client, 1000));
}

static void what_does_not_finish_in_time_is_cut_with_an_error_event(void **state)
{
    struct client *stream, *whole;
    int64_t began;

    (void)state;
    deploy(&(struct plan){.no_sim = true,
                          .server = "  shutdown_timeout: 700ms",
                          .gateway_port =
                              scripted_port(scripted_start(&(struct scripted_options){.decode = stream_for_ever}))});
    stream = begin_stream();
    whole = client_open(deployed.port);
    client_say(whole, "POST " CHAT_PATH " HTTP/1.1\r\nHost: c\r\nContent-Length: 100\r\n\r\n{");
    pause_ms(50);
    deployed.unclean = true;
    began = now_ms();
    process_signal(&deployed.coordinator, SIGTERM);
    assert_true(client_read_body(stream, SIZE_MAX, PATIENCE_MS));
    assert_in_range(now_ms() - began, 650, 1200 + promptly_ms());
    assert_contains(stream->answer.body.data, "data: {\"error\":{");
    assert_lacks(stream->answer.body.data, "[DONE]");
    assert_true(process_wait(&deployed.coordinator, 5000));
    assert_int_equal(deployed.coordinator.code, 1);
    assert_contains(process_log(&deployed.coordinator), " drained cut=2 seconds=");
    assert_true(client_wait_closed(whole, 1000));
}

/* Two reactors end at different times: the time is one for all. */
static void the_shutdown_timeout_is_one_for_all_reactors(void **state)
{
    struct client *streams[STREAMS];
    int64_t began;

    (void)state;
    deploy(&(struct plan){.no_sim = true,
                          .server = "  shutdown_timeout: 1500ms",
                          .runtime = "  reactors: 4",
                          .gateway_port =
                              scripted_port(scripted_start(&(struct scripted_options){.decode = stream_for_ever}))});
    for (size_t i = 0; i < STREAMS; i++)
        streams[i] = begin_stream();
    deployed.unclean = true;
    began = now_ms();
    process_signal(&deployed.coordinator, SIGTERM);
    pause_ms(1000);
    for (size_t i = 1; i < STREAMS; i++)
        client_close(streams[i]); /* three reactors (most likely) end late */
    assert_true(client_read_body(streams[0], SIZE_MAX, PATIENCE_MS));
    assert_in_range(now_ms() - began, 1400, 1900 + promptly_ms());
}

static void a_client_in_the_middle_of_its_upload_is_waited_for(void **state)
{
    struct client *client;

    (void)state;
    deploy(&(struct plan){0});
    client = client_open(deployed.port);
    client_say(client, "POST " CHAT_PATH " HTTP/1.1\r\nHost: c\r\nContent-Length: %zu\r\n\r\n%.10s", strlen(CHAT),
               CHAT);
    UNTIL(process_descriptors(&deployed.coordinator) > 0);
    pause_ms(50);
    process_signal(&deployed.coordinator, SIGTERM);
    UNTIL(strstr(process_log(&deployed.coordinator), "draining"));
    pause_ms(100);
    client_say(client, "%s", CHAT + 10);
    assert_true(client_read(client, PATIENCE_MS));
    assert_int_equal(client->answer.status, 200);
    assert_string_equal(answer_header(client, "connection"), "close");
    assert_true(process_wait(&deployed.coordinator, 5000));
    assert_int_equal(deployed.coordinator.code, 0);
}

static void stream_until_the_gate_opens(struct stage *stage)
{
    stage_stream_head(stage);
    stage_chunk(stage, "data: {\"a\":1}\n\n", 15);
    stage_wait_gate(stage, PATIENCE_MS);
    stage_chunk(stage, "data: [DONE]\n\n", 14);
    stage_last_chunk(stage);
}

/* Whichever reactor has it: the others have nothing to do any more. */
static void probes_and_metrics_are_answered_until_the_last_request_is_over(void **state)
{
    static const char *const reactors[] = {"  reactors: 1", "  reactors: 2", "  reactors: 4", "  reactors: 8"};

    (void)state;
    for (size_t i = 0; i < sizeof reactors / sizeof *reactors; i++) {
        struct scripted *worker = scripted_start(&(struct scripted_options){.decode = stream_until_the_gate_opens});
        struct client *stream;

        deploy(&(struct plan){.no_sim = true, .runtime = reactors[i], .gateway_port = scripted_port(worker)});
        stream = begin_stream();
        process_signal(&deployed.coordinator, SIGTERM);
        UNTIL(status_of(deployed.port, "/healthz") == 0);
        for (int look = 0; look < 6; look++) {
            pause_ms(50);
            assert_int_equal(status_of(deployed.metrics_port, "/readyz"), 503);
            assert_int_equal(status_of(deployed.metrics_port, "/metrics"), 200);
        }
        scripted_open_gate(worker);
        assert_true(client_read_body(stream, SIZE_MAX, PATIENCE_MS));
        assert_contains(stream->answer.body.data, "[DONE]");
        assert_true(process_wait(&deployed.coordinator, 5000));
        assert_int_equal(deployed.coordinator.code, 0);
        assert_int_equal(harness_end(NULL), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(streams_finish_and_nothing_accepted_is_lost),
        TEST(connections_made_right_before_the_signal_are_answered),
        TEST(a_second_signal_ends_at_once),
        TEST(what_does_not_finish_in_time_is_cut_with_an_error_event),
        TEST(the_shutdown_timeout_is_one_for_all_reactors),
        TEST(a_client_in_the_middle_of_its_upload_is_waited_for),
        TEST(probes_and_metrics_are_answered_until_the_last_request_is_over),
    };

    return harness_run(tests);
}
