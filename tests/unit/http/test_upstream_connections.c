/*
 * Connections that the HTTP client keeps: when one is used again, when it is closed, and that no request is sent twice.
 */
#include "upstream_peer.h"
#include "upstream_probe.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Answers the first request; reads the second and then ends the connection as `text` says; answers what comes on others. */
static void die_on_the_second_request(struct peer *peer)
{
    if (!peer_accept(peer) || !peer_request(peer))
        return;
    peer_send(peer, OK_ANSWER);
    if (!peer_request(peer))
        return;
    if (peer->text)
        peer_reset(peer);
    while (readable(peer->listener, 100) && peer_accept(peer))
        while (peer_request(peer))
            peer_send(peer, OK_ANSWER);
}

static void a_request_is_never_sent_twice(void **state)
{
    static const struct {
        const char *name, *how;
        size_t body;
    } rows[] = {{"closed", NULL, 0},
                {"reset", "reset", 0},
                {"closed, with a body", NULL, 1000},
                {"closed, with a large body", NULL, 200000}};

    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        struct peer *peer = peer_start(die_on_the_second_request, rows[r].how);
        struct upstream *upstream = open_peer(*state, peer);
        char *data = pattern_new(rows[r].body);
        coord_slice piece = {data, rows[r].body};
        struct leg_request request = {.method = COORD_SLICE("POST"),
                                      .target = COORD_SLICE("/"),
                                      .pieces = &piece,
                                      .piece_count = rows[r].body > 0,
                                      .body_size = rows[r].body,
                                      .has_body = true};
        struct probe first = {0}, second = {0};
        size_t once;

        print_message("  %s\n", rows[r].name);
        probe_start(&first, *state, upstream, &request);
        finish(&first);
        assert_int_equal(first.result.outcome, LEG_COMPLETE);
        once = peer->logged; /* it waits for the next */
        if (r == 0 && !rows[r].how)
            peer->text = NULL;
        probe_start(&second, *state, upstream, &request);
        finish(&second);
        assert_int_equal(second.result.outcome, LEG_NO_ANSWER);
        assert_int_equal(second.heads, 0);
        assert_true(second.detail[0]);
        peer_join(peer);
        assert_int_equal(peer->logged, 2 * once);
        upstream_close(upstream);
        probe_clear(&first);
        probe_clear(&second);
        peer_free(peer);
        free(data);
    }
}

static void a_fresh_leg_uses_no_kept_connection(void **state)
{
    struct peer *peer = peer_start(serve_many, NULL);
    struct upstream *upstream = open_peer(*state, peer);

    run_leg(*state, upstream, false, false);
    run_leg(*state, upstream, false, true);
    run_leg(*state, upstream, true, false);
    run_leg(*state, upstream, false, true);
    assert_int_equal(peer->connections, 2);
    stop_peer(peer);
}

static void a_connection_that_was_idle_for_too_long_is_not_used_again(void **state)
{
    struct world *world = *state;
    struct peer *peer = peer_start(serve_many, NULL);
    char url[64];
    const char *reason;
    struct upstream_options options = {.transport = transport, .max_idle_connections = 8, .idle_age_ns = 1000 * MS};
    struct upstream *upstream;

    snprintf(url, sizeof url, "http://127.0.0.1:%d", peer->port);
    options.url = coord_slice_of(url);
    upstream = upstream_open(world->client, &options, &reason);
    run_leg(world, upstream, false, false);
    turn_for(world, 1100);
    if (transport == UPSTREAM_DIRECT)
        assert_int_equal(client_connections(world->client), 0); /* … and closed when its time is over */
    run_leg(world, upstream, false, false);
    options.max_idle_connections = 0; /* none is kept at all */
    upstream = upstream_open(world->client, &options, &reason);
    turn_for(world, 1100);
    run_leg(world, upstream, false, false);
    run_leg(world, upstream, false, false);
    stop_peer(peer);
}

static void answer_then_close_idle(struct peer *peer)
{
    if (!peer_accept(peer) || !peer_request(peer))
        return;
    peer_send(peer, OK_ANSWER);
    peer_await_stage(peer, 1);
    close(peer->fd);
    peer->fd = -1;
    peer->stage = 2;
    if (peer_accept(peer) && peer_request(peer))
        peer_send(peer, OK_ANSWER);
}

static void a_kept_connection_that_the_peer_closes_neither_spins_nor_fails_the_next_leg(void **state)
{
    struct world *world = *state;
    struct peer *peer = peer_start(answer_then_close_idle, NULL);
    struct upstream *upstream = open_peer(world, peer);
    unsigned turns;

    run_leg(world, upstream, false, false);
    peer->stage = 1;
    TURN_UNTIL(world, peer->stage == 2);
    turns = world->turns;
    turn_for(world, 50);
    assert_in_range(world->turns - turns, 1, 10);
    run_leg(world, upstream, false, false);
    peer_free(peer);
}

static void answer_then_say_more(struct peer *peer)
{
    if (!peer_accept(peer) || !peer_request(peer))
        return;
    peer_send(peer, OK_ANSWER);
    peer_await_stage(peer, 1);
    peer_send(peer, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil");
    peer->stage = 2;
    if (peer_accept(peer) && peer_request(peer))
        peer_send(peer, OK_ANSWER);
}

/* Ours only: libcurl (7.88) takes such bytes for the next answer. */
static void a_kept_connection_on_which_the_peer_speaks_unasked_is_not_used_again(void **state)
{
    struct world *world = *state;
    struct peer *peer;
    struct upstream *upstream;
    struct leg_request request = get("/");
    struct probe probe = {0};

    if (transport != UPSTREAM_DIRECT) {
        print_message("SKIP: libcurl (7.88) takes such bytes for the next answer\n");
        skip();
    }
    peer = peer_start(answer_then_say_more, NULL);
    upstream = open_peer(world, peer);
    run_leg(world, upstream, false, false);
    peer->stage = 1;
    TURN_UNTIL(world, peer->stage == 2 && client_connections(world->client) == 0); /* noticed at once */
    probe_start(&probe, world, upstream, &request);
    finish(&probe);
    assert_false(probe.reused);
    assert_body(&probe, "ok");
    probe_clear(&probe);
    peer_free(peer);
}

static int open_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;

    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

static void freeing_the_client_closes_its_kept_connections(void **state)
{
    struct world *world = *state;
    struct peer *peer = peer_start(serve_many, NULL);
    struct upstream *upstream = open_peer(world, peer);
    struct leg_request request = get("/");
    struct probe probes[5] = {0};
    int before;

    client_free(world->client);
    before = open_descriptors();
    world->client = client_new(world->reactor, world->resolver);
    upstream = open_peer(world, peer);
    for (size_t i = 0; i < 5; i++)
        probe_start(&probes[i], world, upstream, &request);
    assert_int_equal(client_legs(world->client), 5);
    for (size_t i = 0; i < 5; i++)
        finish(&probes[i]);
    assert_int_equal(client_connections(world->client), 5);
    stop_peer(peer);
    client_free(world->client);
    assert_true(open_descriptors() <= before);
    world->client = NULL;
    for (size_t i = 0; i < 5; i++)
        probe_clear(&probes[i]);
    world->client = client_new(world->reactor, world->resolver);
}

static void idle_connections_are_kept_up_to_the_limit_while_more_are_busy(void **state)
{
    struct world *world = *state;
    struct peer *peer = peer_start(serve_many, NULL);
    struct upstream *upstream = open_peer(world, peer);
    struct leg_request request = get("/");
    struct probe probes[20] = {0};

    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < 20; i++)
            probe_start(&probes[i], world, upstream, &request);
        for (size_t i = 0; i < 20; i++)
            finish(&probes[i]);
        for (size_t i = 0; i < 20; i++)
            probe_clear(&probes[i]);
        assert_in_range(client_connections(world->client), 8, 10);
    }
    stop_peer(peer);
}

/* As a reload does with a gateway that is no longer named. */
static void a_closed_upstream_takes_its_idle_connections_along_and_no_others(void **state)
{
    struct world *world = *state;
    struct peer *closed = peer_start(serve_one_connection, NULL), *other = peer_start(serve_one_connection, NULL);
    struct upstream *upstreams[2] = {open_peer(world, closed), open_peer(world, other)};

    run_leg(world, upstreams[0], false, false);
    run_leg(world, upstreams[1], false, false);
    assert_int_equal(client_connections(world->client), 2);
    upstream_close(upstreams[0]);
    TURN_UNTIL(world, closed->eof_ns);
    assert_int_equal(client_connections(world->client), 1);
    run_leg(world, upstreams[1], false, true);
    upstream_close(upstreams[1]);
    close_client(state);
    peer_free(closed);
    peer_free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UPSTREAM_TEST(a_closed_upstream_takes_its_idle_connections_along_and_no_others),
        UPSTREAM_TEST(a_request_is_never_sent_twice),
        UPSTREAM_TEST(a_fresh_leg_uses_no_kept_connection),
        UPSTREAM_TEST(a_connection_that_was_idle_for_too_long_is_not_used_again),
        UPSTREAM_TEST(a_kept_connection_that_the_peer_closes_neither_spins_nor_fails_the_next_leg),
        UPSTREAM_TEST(a_kept_connection_on_which_the_peer_speaks_unasked_is_not_used_again),
        UPSTREAM_TEST(freeing_the_client_closes_its_kept_connections),
        UPSTREAM_TEST(idle_connections_are_kept_up_to_the_limit_while_more_are_busy),
    };
    int failed = cmocka_run_group_tests_name("direct", tests, over_direct, NULL);

    return failed + cmocka_run_group_tests_name("libcurl", tests, over_libcurl, NULL);
}
