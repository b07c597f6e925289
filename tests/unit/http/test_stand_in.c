/*
 * The transport without a wire (http/stand_in.h): the same events in the same order, the same bytes as on a wire, and nothing that
 * leaves the process.
 */
#include "http/stand_in.h"

#include "upstream_peer.h"
#include "upstream_probe.h"

/* What the next legs are answered with, and what they were. */
static struct {
    const char *head, *body; /* head NULL: refused */
    struct buffer sent;
    const struct upstream *upstream;
    void *owner;
} script;

static bool answer(void *context, const struct stand_in_leg *leg, struct stand_in_answer *given)
{
    assert_ptr_equal(context, &script);
    buffer_clear(&script.sent, SIZE_MAX);
    assert_true(buffer_append_slice(&script.sent, leg->head));
    for (size_t i = 0; i < leg->piece_count; i++)
        assert_true(buffer_append_slice(&script.sent, leg->pieces[i]));
    assert_true(buffer_append(&script.sent, "", 1));
    script.upstream = leg->upstream;
    script.owner = leg->owner;
    if (!script.head)
        return false;
    assert_true(buffer_append_text(&given->head, script.head) && buffer_append_text(&given->body, script.body));
    return true;
}

static int start(void **state)
{
    int started = world_start(state);
    struct world *world = *state;

    client_stand_in(world->client, answer, &script);
    return started;
}

static int stop(void **state)
{
    buffer_release(&script.sent);
    return world_stop(state);
}

static struct upstream *open_url(struct world *world, const char *url)
{
    const char *reason = NULL;
    struct upstream_options options = {.url = coord_slice_of(url),
                                       .max_idle_connections = 1,
                                       .idle_age_ns = 4000 * MS,
                                       .connect_timeout_ns = 1000 * MS,
                                       .ca_file = COORD_SLICE("/nowhere/ca.pem")};
    struct upstream *upstream = upstream_open(world->client, &options, &reason);

    if (!upstream)
        fail_msg("%s: %s", url, reason);
    return upstream;
}

static const struct leg_request POST = {.method = COORD_SLICE("POST"),
                                        .target = COORD_SLICE("/v1/x?y"),
                                        .headers = (const struct header[]){{COORD_SLICE("A"), COORD_SLICE("1")},
                                                                           {COORD_SLICE("Host"), COORD_SLICE("no")},
                                                                           {COORD_SLICE("b"), COORD_SLICE(" ")}},
                                        .header_count = 3,
                                        .pieces = (const coord_slice[]){COORD_SLICE("{\"a\""), COORD_SLICE(":1}")},
                                        .piece_count = 2,
                                        .body_size = 7,
                                        .has_body = true};

static void a_leg_is_shown_as_it_would_go_out_and_answered(void **state)
{
    static const struct {
        const char *url, *host, *transport;
    } rows[] = {
        {"http://a-name.invalid", "a-name.invalid", "direct"},
        {"http://a-name.invalid:80/p", "a-name.invalid", "direct"},
        {"http://a-name.invalid:443", "a-name.invalid:443", "direct"},
        {"https://a-name.invalid", "a-name.invalid", "libcurl"},
        {"https://a-name.invalid:443", "a-name.invalid", "libcurl"},
        {"https://a-name.invalid:80", "a-name.invalid:80", "libcurl"},
        {"http://[::1]:8000", "[::1]:8000", "direct"},
    };

    script.head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n";
    script.body = "hello";
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct upstream *upstream = open_url(*state, rows[i].url);
        struct probe probe = {0};
        struct buffer wanted = {0};

        probe_start(&probe, *state, upstream, &POST);
        finish(&probe);
        assert_int_equal(probe.result.outcome, LEG_COMPLETE);
        assert_true(probe.result.head_seen && !probe.result.close_delimited);
        assert_int_equal(probe.status, 200);
        assert_int_equal(probe.length, 5);
        assert_fields(&probe, "Content-Type=text/plain;Content-Length=5;");
        assert_body(&probe, "hello");
        assert_true(buffer_printf(
            &wanted, "POST /v1/x?y HTTP/1.1\r\nHost: %s\r\nA: 1\r\nb:\r\nContent-Length: 7\r\n\r\n{\"a\":1}",
            rows[i].host));
        assert_string_equal(script.sent.data, wanted.data);
        assert_ptr_equal(script.upstream, upstream);
        assert_ptr_equal(script.owner, &probe);
        assert_string_equal(upstream_transport_name(upstream), rows[i].transport);
        buffer_release(&wanted);
        probe_clear(&probe);
        upstream_close(upstream);
    }
}

static void a_stream_comes_in_events_and_waits_while_it_is_paused(void **state)
{
    struct upstream *upstream = open_url(*state, "http://h");
    struct probe probe = {0};

    script.head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n";
    script.body = "data: 1\n\ndata: 2\n\ndata: 3";
    probe_start(&probe, *state, upstream, &POST);
    leg_pause(probe.leg);
    turn_for(*state, 20);
    assert_int_equal(probe.heads + probe.datas + probe.ends, 0);
    probe_resume(&probe);
    finish(&probe);
    assert_int_equal(probe.datas, 3);
    assert_int_equal(probe.result.outcome, LEG_COMPLETE);
    assert_body(&probe, "data: 1\n\ndata: 2\n\ndata: 3");
    probe_clear(&probe);
    upstream_close(upstream);
}

static void pause_it(struct probe *probe) { leg_pause(probe->leg); }

static void a_pause_inside_of_an_event_holds_the_rest(void **state)
{
    struct upstream *upstream = open_url(*state, "http://h");
    struct probe probe = {.on_data = pause_it};

    script.head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n";
    script.body = "1\n\n2\n\n";
    probe_start(&probe, *state, upstream, &POST);
    turn_for(*state, 20);
    assert_int_equal(probe.datas, 1);
    assert_int_equal(probe.ends, 0);
    probe_resume(&probe);
    finish(&probe); /* all of it was there: the end may come in spite of the second pause */
    assert_int_equal(probe.datas, 2);
    assert_body(&probe, "1\n\n2\n\n");
    probe_clear(&probe);
    upstream_close(upstream);
}

static void cancel_it(struct probe *probe) { probe_cancel(probe); }

static void a_leg_may_be_cancelled_at_any_point(void **state)
{
    struct upstream *upstream = open_url(*state, "http://h");

    script.head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n";
    script.body = "1\n\n2\n\n";
    for (int when = 0; when < 3; when++) {
        struct probe probe = {.on_head = when == 1 ? cancel_it : NULL, .on_data = when == 2 ? cancel_it : NULL};

        probe_start(&probe, *state, upstream, &POST);
        if (when == 0)
            probe_cancel(&probe);
        turn_for(*state, 10);
        assert_int_equal(probe.heads, when > 0);
        assert_int_equal(probe.datas, when == 2);
        assert_int_equal(probe.ends, 0);
        probe_clear(&probe);
    }
    upstream_close(upstream);
}

static void what_is_no_answer_ends_the_leg_as_on_a_wire(void **state)
{
    static const struct {
        const char *head;
        enum leg_outcome outcome;
    } rows[] = {
        {NULL, LEG_REFUSED},
        {"nonsense\r\n", LEG_BROKEN},
        {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n", LEG_BROKEN},
    };
    struct upstream *upstream = open_url(*state, "http://h");

    script.body = "";
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct probe probe = {0};

        script.head = rows[i].head;
        probe_start(&probe, *state, upstream, &POST);
        finish(&probe);
        assert_int_equal(probe.result.outcome, rows[i].outcome);
        assert_int_equal(probe.heads, 0);
        probe_clear(&probe);
    }
    upstream_close(upstream);
}

static void a_head_that_allows_no_body_has_none(void **state)
{
    struct upstream *upstream = open_url(*state, "http://h");
    struct probe probe = {0};

    script.head = "HTTP/1.1 204 No Content\r\n";
    script.body = "ignored";
    probe_start(&probe, *state, upstream, &POST);
    finish(&probe);
    assert_int_equal(probe.result.outcome, LEG_COMPLETE);
    assert_int_equal(probe.datas, 0);
    probe_clear(&probe);
    upstream_close(upstream);
}

int main(void)
{
#define STAND_IN_TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)
    const struct CMUnitTest tests[] = {
        STAND_IN_TEST(a_leg_is_shown_as_it_would_go_out_and_answered),
        STAND_IN_TEST(a_stream_comes_in_events_and_waits_while_it_is_paused),
        STAND_IN_TEST(a_pause_inside_of_an_event_holds_the_rest),
        STAND_IN_TEST(a_leg_may_be_cancelled_at_any_point),
        STAND_IN_TEST(what_is_no_answer_ends_the_leg_as_on_a_wire),
        STAND_IN_TEST(a_head_that_allows_no_body_has_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
