/*
 * The HTTP client's requests on the wire, asserted to the byte: head, methods, what is left out, and bodies given in pieces.
 */
#include "upstream_peer.h"
#include "upstream_probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void a_small_post_goes_out_as_given_and_in_one_piece(void **state)
{
    struct peer *peer = peer_start(serve_one_connection, NULL);
    struct upstream *upstream = open_peer(*state, peer);
    const struct header fields[] = {{COORD_SLICE("Content-Type"), COORD_SLICE("application/json")},
                                    {COORD_SLICE("X-Empty"), COORD_SLICE("")},
                                    {COORD_SLICE("x-Two"), COORD_SLICE("a\tb \xc3\xa9")},
                                    {COORD_SLICE("X-Blank"), COORD_SLICE("  ")},
                                    {COORD_SLICE("x-two"), COORD_SLICE("c;d:e")}};
    const coord_slice pieces[] = {COORD_SLICE("{\"a\":"), COORD_SLICE(""), COORD_SLICE("1}")};
    struct leg_request request = {.method = COORD_SLICE("POST"),
                                  .target = COORD_SLICE("/v1/a/../b//c?d=%20&e=\xc3\xa9#"),
                                  .headers = fields,
                                  .header_count = 5,
                                  .pieces = pieces,
                                  .piece_count = 3,
                                  .body_size = 7,
                                  .has_body = true};
    struct probe probe = {0};

    probe_start(&probe, *state, upstream, &request);
    finish(&probe);
    assert_int_equal(probe.result.outcome, LEG_COMPLETE);
    assert_true(probe.result.head_seen && !probe.result.close_delimited && probe.result.connect_ns > 0);
    assert_int_equal(probe.status, 200);
    assert_int_equal(probe.length, 2);
    assert_false(probe.reused);
    assert_fields(&probe, "Content-Length=2;");
    assert_body(&probe, "ok");
    close_client(state);
    assert_wire(peer,
                "POST /v1/a/../b//c?d=%%20&e=\xc3\xa9# HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
                "Content-Type: application/json\r\nX-Empty:\r\nx-Two: a\tb \xc3\xa9\r\nX-Blank:\r\nx-two: c;d:e\r\n"
                "Content-Length: 7\r\n\r\n{\"a\":1}");
    probe_clear(&probe);
    peer_free(peer);
}

static void a_small_request_is_one_segment(void **state)
{
    struct peer *peer = peer_start(answer_and_close, OK_ANSWER);
    struct upstream *upstream = open_peer(*state, peer);
    const coord_slice pieces[] = {COORD_SLICE("{\"a\":"), COORD_SLICE("1}")};
    struct leg_request request = {.method = COORD_SLICE("POST"),
                                  .target = COORD_SLICE("/"),
                                  .pieces = pieces,
                                  .piece_count = 2,
                                  .body_size = 7,
                                  .has_body = true};
    struct probe probe = {0};

    probe_start(&probe, *state, upstream, &request);
    finish(&probe);
    peer_join(peer);
    assert_int_equal(peer->receives, 1);
    probe_clear(&probe);
    peer_free(peer);
}

static void nothing_is_added_to_a_get(void **state)
{
    struct peer *peer = peer_start(serve_one_connection, NULL);
    struct upstream *upstream = open_peer(*state, peer);
    struct leg_request request = get("/p");
    struct probe probe = {0};

    probe_start(&probe, *state, upstream, &request);
    finish(&probe);
    close_client(state);
    assert_wire(peer, "GET /p HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n");
    probe_clear(&probe);
    peer_free(peer);
}

static void every_method_goes_through_one_connection(void **state)
{
    static const struct {
        const char *name, *method, *body;
        bool has_body;
        const char *wire;
    } rows[] = {
        {"a GET", "GET", "", false, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"},
        {"a POST", "POST", "ab", true, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab"},
        {"a HEAD has no body, whatever its answer declares", "HEAD", "", false, "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n"},
        {"a POST of nothing", "POST", "", true, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"},
        {"a POST without a body", "POST", "", false, "POST / HTTP/1.1\r\nHost: h\r\n\r\n"},
        {"a GET with a body", "GET", "x", true, "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx"},
        {"another HEAD", "HEAD", "", false, "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n"},
        {"a DELETE", "DELETE", "", false, "DELETE / HTTP/1.1\r\nHost: h\r\n\r\n"},
        {"a PUT", "PUT", "abc", true, "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc"},
        {"an OPTIONS", "OPTIONS", "", false, "OPTIONS / HTTP/1.1\r\nHost: h\r\n\r\n"},
        {"a method of nobody's", "BREW", "", false, "BREW / HTTP/1.1\r\nHost: h\r\n\r\n"},
    };
    enum { ROWS = sizeof rows / sizeof *rows };
    struct peer *peer = peer_start(serve_one_connection, NULL);
    struct upstream *upstream = open_peer(*state, peer);
    struct buffer want = {0};

    for (size_t r = 0; r < ROWS; r++) {
        coord_slice piece = coord_slice_of(rows[r].body);
        struct leg_request request = {.method = coord_slice_of(rows[r].method),
                                      .target = COORD_SLICE("/"),
                                      .host = COORD_SLICE("h"),
                                      .pieces = &piece,
                                      .piece_count = piece.size > 0,
                                      .body_size = piece.size,
                                      .has_body = rows[r].has_body};
        struct probe probe = {0};

        print_message("  %s\n", rows[r].name);
        probe_start(&probe, *state, upstream, &request);
        finish(&probe);
        assert_int_equal(probe.result.outcome, LEG_COMPLETE);
        assert_int_equal(probe.reused, r > 0);
        assert_int_equal(probe.result.connect_ns == 0, r > 0);
        assert_true(buffer_append_text(&want, rows[r].wire));
        probe_clear(&probe);
    }
    close_client(state);
    peer_join(peer);
    assert_int_equal(peer->connections, 1);
    assert_int_equal(peer->logged, want.size);
    assert_memory_equal(peer->log, want.data, want.size);
    buffer_release(&want);
    peer_free(peer);
}

static void fields_that_would_break_the_request_are_left_out(void **state)
{
    struct peer *peer = peer_start(serve_one_connection, NULL);
    struct upstream *upstream = open_peer(*state, peer);
    const struct header fields[] = {{COORD_SLICE("X-A"), COORD_SLICE("a\r\nX-Evil: 1")},
                                    {COORD_SLICE("X B"), COORD_SLICE("b")},
                                    {COORD_SLICE("X-C:"), COORD_SLICE("c")},
                                    {COORD_SLICE(""), COORD_SLICE("d")},
                                    {COORD_SLICE("X-E"), COORD_SLICE("e\0e")},
                                    {COORD_SLICE("Host"), COORD_SLICE("evil")},
                                    {COORD_SLICE("content-length"), COORD_SLICE("77")},
                                    {COORD_SLICE("Transfer-Encoding"), COORD_SLICE("chunked")},
                                    {COORD_SLICE("Connection"), COORD_SLICE("close")},
                                    {COORD_SLICE("Expect"), COORD_SLICE("100-continue")},
                                    {COORD_SLICE("Accept"), COORD_SLICE("text/event-stream")},
                                    {COORD_SLICE("User-Agent"), COORD_SLICE("u")}};
    struct leg_request request = get("/");
    struct probe probe = {0};

    request.headers = fields;
    request.header_count = sizeof fields / sizeof *fields;
    request.host = (coord_slice)COORD_SLICE("h:1");
    probe_start(&probe, *state, upstream, &request);
    finish(&probe);
    close_client(state);
    assert_wire(peer, "GET / HTTP/1.1\r\nHost: h:1\r\nAccept: text/event-stream\r\nUser-Agent: u\r\n\r\n");
    probe_clear(&probe);
    peer_free(peer);
}

static void an_invalid_target_or_method_ends_the_leg_without_a_request(void **state)
{
    static const char *const rows[][2] = {
        {"GET", ""}, {"GET", "/a b"}, {"GET", "/a\r\nX: y"}, {"GE T", "/"}, {"", "/"}};
    struct upstream *upstream = open_named(*state, "127.0.0.1", 1);

    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        struct leg_request request = get(rows[r][1]);
        struct probe probe = {0};

        request.method = coord_slice_of(rows[r][0]);
        probe_start(&probe, *state, upstream, &request);
        finish(&probe);
        assert_int_equal(probe.result.outcome, LEG_INTERNAL);
        probe_clear(&probe);
    }
}

static void large_bodies_arrive_whole_from_their_pieces(void **state)
{
    static const size_t sizes[] = {65535, 65536, 65537, 300000, 3 << 20};

    for (size_t r = 0; r < sizeof sizes / sizeof *sizes; r++) {
        struct peer *peer = peer_start(serve_one_connection, NULL);
        struct upstream *upstream = open_peer(*state, peer);
        char *data = pattern_new(sizes[r]), head[128];
        const coord_slice pieces[] = {
            {data, 1}, {data + 1, sizes[r] / 2}, {NULL, 0}, {data + 1 + sizes[r] / 2, sizes[r] - 1 - sizes[r] / 2}};
        struct leg_request request = {.method = COORD_SLICE("POST"),
                                      .target = COORD_SLICE("/"),
                                      .host = COORD_SLICE("h"),
                                      .pieces = pieces,
                                      .piece_count = 4,
                                      .body_size = sizes[r],
                                      .has_body = true};
        struct probe probe = {0};
        size_t head_size =
            (size_t)snprintf(head, sizeof head, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %zu\r\n\r\n", sizes[r]);

        probe_start(&probe, *state, upstream, &request);
        finish(&probe);
        assert_int_equal(probe.result.outcome, LEG_COMPLETE);
        close_client(state);
        peer_join(peer);
        assert_int_equal(peer->logged, head_size + sizes[r]);
        assert_memory_equal(peer->log, head, head_size);
        assert_memory_equal(peer->log + head_size, data, sizes[r]);
        probe_clear(&probe);
        peer_free(peer);
        free(data);
    }
}

static void a_body_of_many_pieces_arrives_whole(void **state)
{
    enum { PIECES = 300 };
    char *data = pattern_new(1 << 20), head[128];
    coord_slice pieces[PIECES];
    size_t at = 0;

    for (size_t i = 0; i < PIECES; i++) {
        pieces[i] = (coord_slice){data + at, i % 7 == 0 ? 0 : i % 50 == 1 ? 100000 : i};
        at += pieces[i].size;
    }
    for (size_t count = 63; count <= PIECES; count += count < 65 ? 1 : 47) {
        struct peer *peer = peer_start(serve_one_connection, NULL);
        struct upstream *upstream = open_peer(*state, peer);
        struct leg_request request = {.method = COORD_SLICE("POST"),
                                      .target = COORD_SLICE("/"),
                                      .host = COORD_SLICE("h"),
                                      .pieces = pieces,
                                      .piece_count = count,
                                      .has_body = true};
        struct probe probe = {0};
        size_t head_size;

        for (size_t i = 0; i < count; i++)
            request.body_size += pieces[i].size;
        head_size = (size_t)snprintf(head, sizeof head, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %zu\r\n\r\n",
                                     request.body_size);
        probe_start(&probe, *state, upstream, &request);
        finish(&probe);
        assert_int_equal(probe.result.outcome, LEG_COMPLETE);
        close_client(state);
        peer_join(peer);
        assert_int_equal(peer->logged, head_size + request.body_size);
        assert_memory_equal(peer->log, head, head_size);
        assert_memory_equal(peer->log + head_size, data, request.body_size);
        probe_clear(&probe);
        peer_free(peer);
    }
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UPSTREAM_TEST(a_small_post_goes_out_as_given_and_in_one_piece),
        UPSTREAM_TEST(a_small_request_is_one_segment),
        UPSTREAM_TEST(nothing_is_added_to_a_get),
        UPSTREAM_TEST(every_method_goes_through_one_connection),
        UPSTREAM_TEST(fields_that_would_break_the_request_are_left_out),
        UPSTREAM_TEST(an_invalid_target_or_method_ends_the_leg_without_a_request),
        UPSTREAM_TEST(large_bodies_arrive_whole_from_their_pieces),
        UPSTREAM_TEST(a_body_of_many_pieces_arrives_whole),
    };
    int failed = cmocka_run_group_tests_name("direct", tests, over_direct, NULL);

    return failed + cmocka_run_group_tests_name("libcurl", tests, over_libcurl, NULL);
}
