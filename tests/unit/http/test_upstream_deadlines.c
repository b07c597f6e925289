/*
 * The HTTP client's deadlines, each with its outcome, and connections that do not come about.
 */
#include "upstream_peer.h"
#include "upstream_probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static void answer_after_the_upload(struct peer *peer)
{
    if (!peer_accept(peer) || !peer_request(peer))
        return;
    peer_send(peer, OK_ANSWER);
}

static void each_deadline_has_an_outcome_of_its_own(void **state)
{
    static const struct {
        const char *name;
        script_fn *script;
        const char *text;
        int head_ms, idle_ms, total_ms;
        enum leg_outcome outcome;
        const char *detail;
    } rows[] = {
        {"no head", say_nothing, NULL, 40, 5000, 5000, LEG_HEAD_TIMEOUT, "no head of an answer within 0.04 s"},
        {"an interim head is no head", answer_and_await_eof, "HTTP/1.1 100 Continue\r\n\r\n", 40, 20, 5000,
         LEG_HEAD_TIMEOUT, "no head of an answer within 0.04 s"},
        {"a gap", answer_and_await_eof, ENDLESS, 5000, 40, 5000, LEG_IDLE_TIMEOUT,
         "nothing more of the answer within 0.04 s"},
        {"no first byte", answer_and_await_eof, "HTTP/1.1 200 OK\r\n\r\n", 5000, 40, 5000, LEG_IDLE_TIMEOUT,
         "nothing more of the answer within 0.04 s"},
        {"in all, before the head", say_nothing, NULL, 5000, 5000, 40, LEG_TOTAL_TIMEOUT,
         "the answer was not complete within 0.04 s"},
        {"in all, in mid-stream", answer_and_await_eof, ENDLESS, 5000, 5000, 40, LEG_TOTAL_TIMEOUT,
         "the answer was not complete within 0.04 s"},
    };

    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        struct world *world = *state;
        struct peer *peer = peer_start(rows[r].script, rows[r].text);
        struct upstream *upstream = open_peer(world, peer);
        struct leg_request request = get("/");
        struct probe probe = {0};
        int64_t begun = now_ns();

        print_message("  %s\n", rows[r].name);
        request.head_timeout_ns = rows[r].head_ms * MS;
        request.idle_timeout_ns = rows[r].idle_ms * MS;
        request.total_timeout_ns = rows[r].total_ms * MS;
        probe_start(&probe, world, upstream, &request);
        finish(&probe);
        assert_int_equal(probe.result.outcome, rows[r].outcome);
        assert_string_equal(probe.detail, rows[r].detail);
        assert_in_range(probe.ended_ns - begun, 39 * MS, 1000 * MS);
        peer_join(peer);
        assert_true(peer->eof_ns > 0); /* it saw the end */
        upstream_close(upstream);
        probe_clear(&probe);
        peer_free(peer);
    }
}

static void trickle(struct peer *peer)
{
    if (!peer_accept(peer) || !peer_request(peer))
        return;
    peer_send(peer, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n");
    for (int i = 0; i < 10; i++) {
        usleep(120000);
        peer_send(peer, "x");
    }
}

static void a_stream_that_moves_outlives_every_deadline_but_the_total(void **state)
{
    struct peer *peer = peer_start(trickle, NULL);
    struct upstream *upstream = open_peer(*state, peer);
    struct leg_request request = get("/");
    struct probe probe = {0};

    request.head_timeout_ns = request.idle_timeout_ns = 1000 * MS;
    probe_start(&probe, *state, upstream, &request);
    finish(&probe);
    assert_int_equal(probe.result.outcome, LEG_COMPLETE);
    assert_int_equal(probe.body.size, 10);
    probe_clear(&probe);
    peer_free(peer);
}

static size_t upload_one_letter(struct probe *probe, char *room, size_t size)
{
    (void)size;
    if (probe->uploads % 2 == 0)
        return 0;
    *room = 'a';
    return 1;
}

static void the_time_to_the_head_counts_from_the_end_of_the_upload(void **state)
{
    struct world *world = *state;
    struct peer *peer = peer_start(answer_after_the_upload, NULL);
    struct upstream *upstream = open_peer(world, peer);
    struct leg_request request = get("/");
    struct probe probe = {.on_upload = upload_one_letter};

    request.method = (coord_slice)COORD_SLICE("PUT");
    request.streamed = request.has_body = true;
    request.stream_length = 2;
    request.head_timeout_ns = 600 * MS;
    probe_start(&probe, world, upstream, &request);
    for (int i = 0; i < 2 && !probe.ends; i++) { /* each letter takes longer than the head may */
        turn_for(world, 650);
        if (!probe.ends)
            leg_upload_more(probe.leg);
    }
    finish(&probe);
    assert_int_equal(probe.result.outcome, LEG_COMPLETE);
    probe_clear(&probe);
    peer_free(peer);
}

/* A listener whose queue is full takes no connection and refuses none. */
static void a_connection_that_does_not_come_has_its_deadline(void **state)
{
    struct world *world = *state;
    int listener = listen_on("127.0.0.1", 0, 0), port = port_of(listener), fillers[8];
    struct sockaddr_in name = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char url[64];
    const char *reason;
    struct upstream_options options = {.transport = transport, .connect_timeout_ns = 1000 * MS};
    struct leg_request request = get("/");
    struct probe probe = {0}, cancelled = {0};
    struct upstream *upstream;

    for (size_t i = 0; i < 8; i++) {
        fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (connect(fillers[i], (struct sockaddr *)&name, sizeof name))
            assert_int_equal(errno, EINPROGRESS);
    }
    snprintf(url, sizeof url, "http://127.0.0.1:%d", port);
    options.url = coord_slice_of(url);
    upstream = upstream_open(world->client, &options, &reason);
    probe_start(&probe, world, upstream, &request);
    probe_start(&cancelled, world, upstream, &request);
    turn_for(world, 10);
    assert_int_equal(client_connections(world->client), 2);
    probe_cancel(&cancelled);
    assert_int_equal(client_connections(world->client), 1);
    finish(&probe);
    assert_int_equal(probe.result.outcome, LEG_CONNECT_TIMEOUT);
    assert_string_equal(probe.detail, "no connection within 1 s");
    assert_int_equal(client_connections(world->client), 0);
    for (size_t i = 0; i < 8; i++)
        close(fillers[i]);
    close(listener);
    probe_clear(&probe);
    probe_clear(&cancelled);
}

static void a_refused_connection_says_where(void **state)
{
    int listener = listen_on("127.0.0.1", 0, 1), port = port_of(listener);
    struct upstream *upstream = open_named(*state, "127.0.0.1", port);
    struct leg_request request = get("/");
    struct probe probe = {0};
    char want[64];

    close(listener);
    snprintf(want, sizeof want, "127.0.0.1:%d: Connection refused", port);
    probe_start(&probe, *state, upstream, &request);
    finish(&probe);
    assert_int_equal(probe.result.outcome, LEG_REFUSED);
    assert_string_equal(probe.detail, want);
    probe_clear(&probe);
}

static void proxies_of_the_environment_are_ignored(void **state)
{
    static const char *const names[] = {"http_proxy",  "HTTP_PROXY", "https_proxy",
                                        "HTTPS_PROXY", "all_proxy",  "ALL_PROXY"};
    struct peer *peer = peer_start(serve_one_connection, NULL);
    struct upstream *upstream = open_peer(*state, peer);

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        setenv(names[i], "http://127.0.0.1:1", 1);
    run_leg(*state, upstream, false, false);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    close_client(state);
    peer_free(peer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UPSTREAM_TEST(each_deadline_has_an_outcome_of_its_own),
        UPSTREAM_TEST(a_stream_that_moves_outlives_every_deadline_but_the_total),
        UPSTREAM_TEST(the_time_to_the_head_counts_from_the_end_of_the_upload),
        UPSTREAM_TEST(a_connection_that_does_not_come_has_its_deadline),
        UPSTREAM_TEST(a_refused_connection_says_where),
        UPSTREAM_TEST(proxies_of_the_environment_are_ignored),
    };
    int failed = cmocka_run_group_tests_name("direct", tests, over_direct, NULL);

    return failed + cmocka_run_group_tests_name("libcurl", tests, over_libcurl, NULL);
}
