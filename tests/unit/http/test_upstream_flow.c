/*
 * Legs under way: pausing, resuming and cancelling at any time, and what an owner may do in an event.
 */
#include "upstream_peer.h"
#include "upstream_probe.h"

#include <stdio.h>
#include <stdlib.h>

/* Pausing */

/* Sends a head and then `size` bytes of pattern in chunks of odd sizes. */
static void stream_pattern(struct peer *peer)
{
    char *data = pattern_new(peer->size), head[32];
    size_t at = 0, part = 1;

    if (peer_accept(peer) && peer_request(peer)) {
        peer_send(peer, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        for (; at < peer->size; at += part, part = part * 7 % 30011 + 1) {
            if (part > peer->size - at)
                part = peer->size - at;
            snprintf(head, sizeof head, "%zx\r\n", part);
            peer_send(peer, head);
            peer_send_bytes(peer, data + at, part);
            peer_send(peer, "\r\n");
        }
        peer_send(peer, "0\r\n\r\n");
    }
    free(data);
}

static struct peer *peer_streaming(size_t size)
{
    struct peer *peer = peer_new(stream_pattern);

    peer->size = size;
    peer_begin(peer);
    return peer;
}

static void pause_sometimes(struct probe *probe)
{
    if (probe->datas % 3 == 0)
        leg_pause(probe->leg);
    if (probe->datas % 6 == 0)
        leg_resume(probe->leg);
    if (probe->datas % 12 == 0)
        leg_pause(probe->leg);
}

static void pausing_and_resuming_at_any_time_loses_and_repeats_nothing(void **state)
{
    enum { SIZE = 3000000 };
    char *want = pattern_new(SIZE);
    struct peer *peer = peer_streaming(SIZE);
    struct upstream *upstream = open_peer(*state, peer);
    struct leg_request request = get("/");
    struct probe probe = {.on_head = pause_sometimes, .on_data = pause_sometimes};
    unsigned seed = 3;

    probe_start(&probe, *state, upstream, &request);
    for (int64_t end = now_ns() + PATIENCE_MS * MS; !probe.ends;) {
        assert_true(now_ns() < end);
        turn(*state, 0);
        seed = seed * 1103515245 + 12345;
        if (!probe.ends && (seed >> 16) % 3 == 0)
            leg_pause(probe.leg);
        if (!probe.ends && (seed >> 16) % 4 > 0)
            probe_resume(&probe);
    }
    assert_int_equal(probe.result.outcome, LEG_COMPLETE);
    assert_int_equal(probe.body.size, SIZE);
    assert_memory_equal(probe.body.data, want, SIZE);
    assert_in_range(probe.largest, 1, 65536);
    free(want);
    probe_clear(&probe);
    peer_free(peer);
}

static void pause_now(struct probe *probe) { leg_pause(probe->leg); }

static void a_paused_leg_holds_its_peer_back_and_uses_no_time(void **state)
{
    enum { SIZE = 30000000 };
    struct world *world = *state;
    struct peer *peer = peer_streaming(SIZE);
    struct upstream *upstream = open_peer(world, peer);
    struct leg_request request = get("/");
    struct probe probe = {.on_data = pause_now};
    unsigned turns;
    size_t held;

    request.idle_timeout_ns = 1000 * MS; /* does not count meanwhile */
    probe_start(&probe, world, upstream, &request);
    TURN_UNTIL(world, probe.datas);
    turn_for(world, 20);
    held = probe.body.size;
    assert_in_range(held, 1, 65536);
    turns = world->turns;
    turn_for(world, 1100);
    assert_in_range(world->turns - turns, 1, 10);
    assert_int_equal(probe.body.size, held);
    assert_int_equal(probe.ends, 0);
    probe.on_data = NULL;
    probe_resume(&probe);
    finish(&probe);
    assert_int_equal(probe.result.outcome, LEG_COMPLETE);
    assert_int_equal(probe.body.size, SIZE);
    probe_clear(&probe);
    peer_free(peer);
}

static void a_leg_paused_in_its_head_gets_no_data(void **state)
{
    struct world *world = *state;
    struct peer *peer = peer_start(serve_one_connection, NULL);
    struct upstream *upstream = open_peer(world, peer);
    struct leg_request request = get("/");
    struct probe probe = {.on_head = pause_now}, early = {0};

    probe_start(&probe, world, upstream, &request);
    TURN_UNTIL(world, probe.heads);
    turn_for(world, 20);
    assert_int_equal(probe.datas + probe.ends, 0);
    probe_resume(&probe);
    finish(&probe);
    assert_body(&probe, "ok");
    probe_start(&early, world, upstream, &request);
    leg_pause(early.leg); /* before anything was sent */
    TURN_UNTIL(world, early.heads);
    turn_for(world, 20);
    assert_int_equal(early.datas + early.ends, 0);
    probe_resume(&early);
    finish(&early);
    assert_body(&early, "ok");
    close_client(state);
    probe_clear(&probe);
    probe_clear(&early);
    peer_free(peer);
}

/* Waits to be told, then answers with `text`. */
static void answer_when_told(struct peer *peer)
{
    if (!peer_accept(peer) || !peer_request(peer))
        return;
    peer->stage = 1;
    peer_await_stage(peer, 2);
    peer_send(peer, peer->text);
}

static void a_leg_paused_while_it_waits_gets_its_head_and_no_data(void **state)
{
    struct world *world = *state;
    struct peer *peer = peer_start(answer_when_told, "HTTP/1.1 200 OK\r\nA: 1\r\nB: 2\r\nContent-Length: 2\r\n\r\nok");
    struct upstream *upstream = open_peer(world, peer);
    struct leg_request request = get("/");
    struct probe probe = {0};

    probe_start(&probe, world, upstream, &request);
    TURN_UNTIL(world, peer->stage == 1);
    leg_pause(probe.leg);
    turn(world, 0);
    peer->stage = 2;
    TURN_UNTIL(world, probe.heads);
    turn_for(world, 20);
    assert_int_equal(probe.datas + probe.ends, 0);
    probe_resume(&probe);
    finish(&probe);
    assert_int_equal(probe.result.outcome, LEG_COMPLETE);
    assert_fields(&probe, "A=1;B=2;Content-Length=2;");
    assert_body(&probe, "ok");
    probe_clear(&probe);
    peer_free(peer);
}

static void a_peer_that_ends_during_a_pause_is_noticed_on_resuming_without_a_spin(void **state)
{
    static const enum leg_outcome outcomes[] = {LEG_COMPLETE, LEG_BROKEN};
    static const char *const answers[] = {"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd",
                                          "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabcd"};

    for (size_t r = 0; r < 2; r++) {
        struct world *world = *state;
        struct peer *peer = peer_start(r ? reset_after_the_text : answer_and_close, answers[r]);
        struct upstream *upstream = open_peer(world, peer);
        struct leg_request request = get("/");
        struct probe probe = {.on_head = pause_now};
        unsigned turns;

        probe_start(&probe, world, upstream, &request);
        TURN_UNTIL(world, probe.heads);
        peer->stage = 1;
        peer_join(peer);
        turns = world->turns;
        turn_for(world, 50);
        assert_in_range(world->turns - turns, 0, 10);
        probe_resume(&probe);
        finish(&probe);
        assert_int_equal(probe.result.outcome, outcomes[r]);
        assert_body(&probe, "abcd");
        probe_clear(&probe);
        peer_free(peer);
    }
}

/* Cancelling, and what else an owner may do in an event */

static void cancel_now(struct probe *probe) { probe_cancel(probe); }

static void cancel_other(struct probe *probe)
{
    if (probe->other->memory)
        probe_cancel(probe->other);
}

static void a_cancelled_leg_is_silent_and_its_peer_sees_the_end_at_once(void **state)
{
    static const struct {
        const char *name, *answer;
        int heads;
    } rows[] = {
        {"before the head", "", 0}, {"in mid-head", "HTTP/1.1 200 OK\r\nX: ", 0}, {"in mid-stream", ENDLESS, 1}};

    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        for (int paused = 0; paused < 2; paused++) {
            struct world *world = *state;
            struct peer *peer = peer_start(answer_and_await_eof, rows[r].answer);
            struct upstream *upstream = open_peer(world, peer);
            struct leg_request request = get("/");
            struct probe probe = {0};
            int64_t cancelled;

            print_message("  %s%s\n", rows[r].name, paused ? ", paused" : "");
            probe_start(&probe, world, upstream, &request);
            TURN_UNTIL(world, peer->stage == 1 && probe.datas == rows[r].heads);
            if (paused)
                leg_pause(probe.leg);
            turn_for(world, 5);
            cancelled = now_ns();
            probe_cancel(&probe);
            peer_join(peer); /* with no turn of ours */
            assert_in_range(peer->eof_ns - cancelled, 0, 1000 * MS);
            assert_int_equal(client_legs(world->client), 0);
            assert_int_equal(client_connections(world->client), 0);
            turn_for(world, 5);
            probe_clear(&probe);
            peer_free(peer);
        }
    }
}

static void a_leg_that_was_only_started_can_be_cancelled(void **state)
{
    struct world *world = *state;
    struct upstream *upstream = open_named(world, "127.0.0.1", 1);
    struct leg_request request = get("/");
    struct probe probe = {0}, other = {0};

    probe_start(&probe, world, upstream, &request);
    probe_start(&other, world, upstream, &request);
    probe_cancel(&probe);
    upstream_close(upstream); /* it lives as long as its legs */
    finish(&other);
    assert_int_equal(other.result.outcome, LEG_REFUSED);
    probe_clear(&probe);
    probe_clear(&other);
}

static void a_leg_may_be_cancelled_in_its_own_events(void **state)
{
    for (int in_data = 0; in_data < 2; in_data++) {
        struct world *world = *state;
        struct peer *peer = peer_start(answer_and_await_eof, ENDLESS);
        struct upstream *upstream = open_peer(world, peer);
        struct leg_request request = get("/");
        struct probe probe = {0};

        *(in_data ? &probe.on_data : &probe.on_head) = cancel_now;
        probe_start(&probe, world, upstream, &request);
        TURN_UNTIL(world, peer->eof_ns);
        assert_int_equal(probe.datas, in_data);
        assert_int_equal(client_connections(world->client), 0);
        upstream_close(upstream);
        probe_clear(&probe);
        peer_free(peer);
    }
}

static void pause_then_cancel(struct probe *probe)
{
    if (probe->datas == 1)
        leg_pause(probe->leg);
    else
        probe_cancel(probe);
}

/* A writer may end the answer in the midst of a piece, and others go on reading that piece. */
static void bytes_that_a_pause_kept_outlive_a_cancel_in_their_own_event(void **state)
{
    enum { SIZE = 20000 };
    struct world *world = *state;
    char *data = pattern_new(SIZE), *answer = malloc(SIZE + 100);
    struct leg_request request = get("/");
    struct probe probe = {.on_data = pause_then_cancel};
    struct peer *peer;

    snprintf(answer, SIZE + 100, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n%x\r\n%s\r\n", SIZE,
             data);
    peer = peer_start(answer_and_await_eof, answer);
    probe_start(&probe, world, open_peer(world, peer), &request);
    TURN_UNTIL(world, probe.datas);
    turn_for(world, 20);
    assert_int_equal(probe.datas, 1);
    probe_resume(&probe);
    TURN_UNTIL(world, !probe.memory);
    TURN_UNTIL(world, peer->eof_ns);
    assert_int_equal(client_connections(world->client), 0);
    probe_clear(&probe);
    peer_free(peer);
    free(answer);
    free(data);
}

static void a_leg_may_be_cancelled_in_the_events_of_another(void **state)
{
    struct world *world = *state;

    for (int when = 0; when < 3; when++) {
        struct peer *victim = peer_start(answer_and_await_eof, ENDLESS),
                    *killer = peer_start(answer_and_close, OK_ANSWER);
        struct upstream *upstreams[2] = {open_peer(world, victim), open_peer(world, killer)};
        struct leg_request request = get("/");
        struct probe probes[2] = {{0}, {0}};

        probes[1].other = &probes[0];
        *(when == 0 ? &probes[1].on_head : when == 1 ? &probes[1].on_data : &probes[1].on_end) = cancel_other;
        for (size_t i = 0; i < 2; i++)
            probe_start(&probes[i], world, upstreams[i], &request);
        finish(&probes[1]);
        assert_int_equal(probes[1].result.outcome, LEG_COMPLETE);
        assert_null(probes[0].memory);
        TURN_UNTIL(world, victim->eof_ns);
        probe_clear(&probes[0]);
        probe_clear(&probes[1]);
        peer_free(victim);
        peer_free(killer);
    }
}

static void start_other(struct probe *probe)
{
    struct leg_request request = get("/other");

    if (!probe->other->world)
        probe_start(probe->other, probe->world, probe->upstream, &request);
}

static void a_leg_may_be_started_in_the_events_of_another(void **state)
{
    struct world *world = *state;
    struct peer *peer = peer_start(serve_many, NULL);
    struct upstream *upstream = open_peer(world, peer);

    for (int when = 0; when < 3; when++) {
        struct leg_request request = get("/");
        struct probe probe = {0}, other = {0};

        probe.other = &other;
        *(when == 0 ? &probe.on_head : when == 1 ? &probe.on_data : &probe.on_end) = start_other;
        probe_start(&probe, world, upstream, &request);
        finish(&probe);
        finish(&other);
        assert_int_equal(other.result.outcome, LEG_COMPLETE);
        if (when == 2)
            assert_true(other.reused);
        probe_clear(&probe);
        probe_clear(&other);
    }
    stop_peer(peer);
}

static void many_legs_are_cancelled_and_ended_at_random_without_harm(void **state)
{
    enum { LEGS = 8, ROUNDS = 40 };
    struct world *world = *state;
    struct peer *peer = peer_start(serve_many, NULL);
    struct upstream *upstream = open_peer(world, peer);
    unsigned seed = 11;

    for (int round = 0; round < ROUNDS; round++) {
        struct leg_request request = get("/");
        struct probe probes[LEGS] = {0};

        for (size_t i = 0; i < LEGS; i++) {
            probe_start(&probes[i], world, upstream, &request);
            probes[i].other = &probes[(i * 5 + 1) % (LEGS)];
            seed = seed * 1103515245 + 12345;
            if ((seed >> 16) % 5 == 0)
                probes[i].on_data = cancel_other;
            if ((seed >> 16) % 7 == 0)
                probes[i].on_head = cancel_now;
        }
        TURN_UNTIL(world, client_legs(world->client) == 0);
        turn(world, 0);
        for (size_t i = 0; i < LEGS; i++)
            probe_clear(&probes[i]);
    }
    stop_peer(peer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UPSTREAM_TEST(pausing_and_resuming_at_any_time_loses_and_repeats_nothing),
        UPSTREAM_TEST(a_paused_leg_holds_its_peer_back_and_uses_no_time),
        UPSTREAM_TEST(a_leg_paused_in_its_head_gets_no_data),
        UPSTREAM_TEST(a_leg_paused_while_it_waits_gets_its_head_and_no_data),
        UPSTREAM_TEST(a_peer_that_ends_during_a_pause_is_noticed_on_resuming_without_a_spin),
        UPSTREAM_TEST(a_cancelled_leg_is_silent_and_its_peer_sees_the_end_at_once),
        UPSTREAM_TEST(a_leg_that_was_only_started_can_be_cancelled),
        UPSTREAM_TEST(a_leg_may_be_cancelled_in_its_own_events),
        UPSTREAM_TEST(bytes_that_a_pause_kept_outlive_a_cancel_in_their_own_event),
        UPSTREAM_TEST(a_leg_may_be_cancelled_in_the_events_of_another),
        UPSTREAM_TEST(a_leg_may_be_started_in_the_events_of_another),
        UPSTREAM_TEST(many_legs_are_cancelled_and_ended_at_random_without_harm),
    };
    int failed = cmocka_run_group_tests_name("direct", tests, over_direct, NULL);

    return failed + cmocka_run_group_tests_name("libcurl", tests, over_libcurl, NULL);
}
