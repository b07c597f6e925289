/*
 * The HTTP client's streamed uploads: framing, holding back, breaking off, and an answer that comes before the end.
 */
#include "upstream_peer.h"
#include "upstream_probe.h"

#include <stdlib.h>
#include <string.h>

/* Gives "ab" a call, has nothing every second time, and ends after six letters. */
static size_t upload_haltingly(struct probe *probe, char *room, size_t size)
{
    if (probe->uploads % 2 == 0)
        return 0;
    if (probe->uploads > 6)
        return LEG_UPLOAD_END;
    assert_true(size >= 2);
    memcpy(room, "ab", 2);
    return 2;
}

static void finish_uploading(struct probe *probe)
{
    for (int64_t end = now_ns() + PATIENCE_MS * MS; !probe->ends; turn(probe->world, 2)) {
        assert_true(now_ns() < end);
        probe->inside = true;
        leg_upload_more(probe->leg);
        probe->inside = false;
    }
}

static void a_streamed_upload_is_chunked_or_has_the_declared_length(void **state)
{
    static const struct {
        int64_t length;
        const char *wire;
    } rows[] = {
        {-1,
         "PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n2\r\nab\r\n2\r\nab\r\n0\r\n\r\n"},
        {6, "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\nababab"},
        {0, "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"},
    };

    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        struct peer *peer = peer_start(serve_one_connection, NULL);
        struct upstream *upstream = open_peer(*state, peer);
        struct leg_request request = get("/");
        struct probe probe = {.on_upload = upload_haltingly};

        request.method = (coord_slice)COORD_SLICE("PUT");
        request.host = (coord_slice)COORD_SLICE("h");
        request.streamed = request.has_body = true;
        request.stream_length = rows[r].length;
        probe_start(&probe, *state, upstream, &request);
        turn_for(*state, 20);
        if (rows[r].length)
            assert_int_equal(probe.uploads, 2); /* held, not asked again and again */
        finish_uploading(&probe);
        assert_int_equal(probe.result.outcome, LEG_COMPLETE);
        close_client(state);
        assert_wire(peer, rows[r].wire);
        probe_clear(&probe);
        peer_free(peer);
    }
}

enum { UPLOAD_SIZE = 2000000 };
static const char *upload_pattern;

/* Parts of odd sizes, now and then none. */
static size_t upload_much(struct probe *probe, char *room, size_t size)
{
    size_t part = (size_t)probe->uploads * 7919 % 20011 + 1, left = UPLOAD_SIZE - probe->uploaded;

    if (probe->uploads % 5 == 0)
        return 0;
    if (left == 0)
        return LEG_UPLOAD_END;
    part = part < size ? part : size;
    part = part < left ? part : left;
    memcpy(room, upload_pattern + probe->uploaded, part);
    probe->uploaded += part;
    return part;
}

/* The data of the chunks in `wire`, put together at its beginning. */
static size_t unchunk(char *wire, size_t size)
{
    size_t filled = 0;

    for (char *at = wire, *end; at < wire + size;) {
        size_t part = strtoul(at, &end, 16);

        assert_memory_equal(end, "\r\n", 2);
        if (part == 0) {
            assert_int_equal(end + 4 - wire, size);
            break;
        }
        memmove(wire + filled, end + 2, part);
        filled += part;
        at = end + 2 + part + 2;
        assert_memory_equal(at - 2, "\r\n", 2);
    }
    return filled;
}

static void a_large_streamed_upload_arrives_whole_and_no_faster_than_it_is_read(void **state)
{
    char *data = pattern_new(UPLOAD_SIZE), *body;

    upload_pattern = data;
    for (int declared = 0; declared < 2; declared++) {
        struct peer *peer = peer_start(serve_one_connection, NULL);
        struct upstream *upstream = open_peer(*state, peer);
        struct leg_request request = get("/");
        struct probe probe = {.on_upload = upload_much};
        size_t size;

        request.method = (coord_slice)COORD_SLICE("PUT");
        request.streamed = request.has_body = true;
        request.stream_length = declared ? UPLOAD_SIZE : -1;
        probe_start(&probe, *state, upstream, &request);
        finish_uploading(&probe);
        assert_int_equal(probe.result.outcome, LEG_COMPLETE);
        close_client(state);
        peer_join(peer);
        peer->log[peer->logged] = 0;
        body = strstr(peer->log, "\r\n\r\n") + 4;
        size = peer->logged - (size_t)(body - peer->log);
        if (!declared)
            size = unchunk(body, size);
        assert_int_equal(size, UPLOAD_SIZE);
        assert_memory_equal(body, data, UPLOAD_SIZE);
        probe_clear(&probe);
        peer_free(peer);
    }
    free(data);
}

static size_t upload_abort(struct probe *probe, char *room, size_t size)
{
    (void)room;
    (void)size;
    return probe->uploads == 1 ? 0 : LEG_UPLOAD_ABORT;
}

static size_t upload_end_early(struct probe *probe, char *room, size_t size)
{
    (void)room;
    (void)size;
    return probe->uploads == 1 ? 0 : LEG_UPLOAD_END;
}

static void a_broken_off_upload_ends_the_leg_and_the_connection(void **state)
{
    static size_t (*const rows[])(struct probe *, char *, size_t) = {upload_abort, upload_end_early};

    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        struct peer *peer = peer_start(say_nothing, NULL);
        struct upstream *upstream = open_peer(*state, peer);
        struct leg_request request = get("/");
        struct probe probe = {.on_upload = rows[r]};

        request.method = (coord_slice)COORD_SLICE("PUT");
        request.streamed = request.has_body = true;
        request.stream_length = 100;
        probe_start(&probe, *state, upstream, &request);
        finish_uploading(&probe);
        assert_int_equal(probe.result.outcome, LEG_INTERNAL);
        assert_string_equal(probe.detail, "the upload was broken off");
        peer_join(peer); /* it saw the end */
        assert_true(peer->eof_ns > 0);
        probe_clear(&probe);
        peer_free(peer);
    }
}

static size_t upload_cancelling(struct probe *probe, char *room, size_t size)
{
    (void)room;
    (void)size;
    probe_cancel(probe);
    return 0;
}

static void a_leg_may_be_cancelled_from_its_upload(void **state)
{
    struct peer *peer = peer_start(say_nothing, NULL);
    struct upstream *upstream = open_peer(*state, peer);
    struct leg_request request = get("/");
    struct probe probe = {.on_upload = upload_cancelling};

    request.method = (coord_slice)COORD_SLICE("PUT");
    request.streamed = request.has_body = true;
    request.stream_length = -1;
    probe_start(&probe, *state, upstream, &request);
    TURN_UNTIL((struct world *)*state, peer->eof_ns);
    assert_int_equal(probe.uploads, 1);
    assert_int_equal(client_legs(((struct world *)*state)->client), 0);
    probe_clear(&probe);
    peer_free(peer);
}

static bool await_text(struct peer *peer, const char *text)
{
    if (!peer_accept(peer))
        return false;
    do {
        if (!peer_receive(peer))
            return false;
        peer->log[peer->logged] = 0;
    } while (!strstr(peer->log, text));
    return true;
}

/* Answers when a little of the body has come. */
static void answer_early(struct peer *peer)
{
    if (!await_text(peer, "\r\n\r\nab"))
        return;
    peer_await_stage(peer, 1);
    peer_send(peer, peer->text);
    peer_await_stage(peer, 2); /* without reading on */
    peer_await_eof(peer);
}

static void an_early_answer_to_an_unfinished_upload_is_an_answer(void **state)
{
    static const char *const rows[] = {"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno",
                                       "HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno"};

    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        for (int streamed = 0; streamed < 2; streamed++) {
            struct peer *peer = peer_start(answer_early, rows[r]);
            struct upstream *upstream = open_peer(*state, peer);
            char *data = pattern_new(20 << 20);
            coord_slice piece = {data, 20 << 20};
            struct leg_request request = {.method = COORD_SLICE("POST"),
                                          .target = COORD_SLICE("/"),
                                          .pieces = &piece,
                                          .piece_count = 1,
                                          .body_size = 20 << 20,
                                          .has_body = true};
            struct probe probe = {.on_upload = upload_haltingly};

            if (streamed) {
                request = get("/");
                request.method = (coord_slice)COORD_SLICE("PUT");
                request.streamed = request.has_body = true;
                request.stream_length = 1000;
            }
            memcpy(data, "ab", 2);
            probe_start(&probe, *state, upstream, &request);
            turn_for(*state, 20); /* the upload has come to a halt, one way or the other */
            peer->stage = 1;
            finish(&probe);
            peer->stage = 2;
            assert_int_equal(probe.status, 413);
            assert_false(probe.sent); /* its pieces may still be read */
            assert_body(&probe, "no");
            assert_int_equal(probe.result.outcome, LEG_COMPLETE);
            peer_join(peer); /* it saw the end: the connection is not kept */
            upstream_close(upstream);
            probe_clear(&probe);
            peer_free(peer);
            free(data);
        }
    }
}

static size_t upload_torn(struct probe *probe, char *room, size_t size)
{
    assert_true(size >= 2);
    if (probe->uploads == 1)
        memcpy(room, "ab", 2);
    return probe->uploads == 1 ? 2 : probe->heads ? LEG_UPLOAD_TORN : 0;
}

/* Has the end of its answer wait until the upload is torn. */
static void answer_by_halves(struct peer *peer)
{
    if (!await_text(peer, "ab"))
        return;
    peer_send(peer, peer->text);
    peer_await_stage(peer, 1);
    peer_send(peer, "cd");
    peer_await_eof(peer);
}

static void a_torn_upload_ends_without_its_end_and_the_answer_goes_on(void **state)
{
    static const struct {
        const char *name, *answer;
        int64_t length; /* of the upload */
        enum leg_outcome over_libcurl;
    } rows[] = {
        {"a refusal of chunks", "HTTP/1.1 413 X\r\nContent-Length: 4\r\n\r\nab", -1, LEG_COMPLETE},
        {"a refusal of a length", "HTTP/1.1 413 X\r\nContent-Length: 4\r\n\r\nab", 9, LEG_COMPLETE},
        {"an answer to chunks", "HTTP/1.1 200 X\r\nContent-Length: 4\r\n\r\nab", -1, LEG_INTERNAL},
        {"an answer to a length", "HTTP/1.1 200 X\r\nContent-Length: 4\r\n\r\nab", 9, LEG_INTERNAL},
    };

    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        enum leg_outcome outcome = transport == UPSTREAM_CURL ? rows[r].over_libcurl : LEG_COMPLETE;
        struct peer *peer = peer_start(answer_by_halves, rows[r].answer);
        struct upstream *upstream = open_peer(*state, peer);
        struct leg_request request = {.method = COORD_SLICE("PUT"), .target = COORD_SLICE("/"), .streamed = true};
        struct probe probe = {.on_upload = upload_torn};

        print_message("  %s\n", rows[r].name);
        request.stream_length = rows[r].length;
        probe_start(&probe, *state, upstream, &request);
        TURN_UNTIL((struct world *)*state, probe.heads);
        if (!probe.ends) /* libcurl may have asked once more by itself */
            leg_upload_more(probe.leg);
        turn_for(*state, 20);
        peer->stage = 1;
        finish(&probe);
        assert_int_equal(probe.result.outcome, outcome);
        if (outcome == LEG_COMPLETE)
            assert_body(&probe, "abcd");
        peer_join(peer);
        peer->log[peer->logged] = 0;
        assert_null(strstr(peer->log, "0\r\n\r\n"));
        upstream_close(upstream);
        probe_clear(&probe);
        peer_free(peer);
    }
}

/* Over direct only: libcurl does not tell. */
static void the_head_tells_that_the_body_is_out(void **state)
{
    struct peer *peer = peer_start(serve_one_connection, NULL);
    struct upstream *upstream = open_peer(*state, peer);
    coord_slice pieces[] = {COORD_SLICE("a"), COORD_SLICE("b")};
    struct leg_request request = get("/");
    struct probe probe = {0};

    request.method = (coord_slice)COORD_SLICE("PUT");
    request.has_body = true;
    request.pieces = pieces;
    request.piece_count = request.body_size = 2;
    probe_start(&probe, *state, upstream, &request);
    finish(&probe);
    assert_int_equal(probe.result.outcome, LEG_COMPLETE);
    assert_true(probe.sent);
    close_client(state);
    probe_clear(&probe);
    peer_free(peer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UPSTREAM_TEST(a_large_streamed_upload_arrives_whole_and_no_faster_than_it_is_read),
        UPSTREAM_TEST(a_streamed_upload_is_chunked_or_has_the_declared_length),
        UPSTREAM_TEST(a_broken_off_upload_ends_the_leg_and_the_connection),
        UPSTREAM_TEST(a_leg_may_be_cancelled_from_its_upload),
        UPSTREAM_TEST(an_early_answer_to_an_unfinished_upload_is_an_answer),
        UPSTREAM_TEST(a_torn_upload_ends_without_its_end_and_the_answer_goes_on),
    };
    const struct CMUnitTest direct_tests[] = {UPSTREAM_TEST(the_head_tells_that_the_body_is_out)};
    int failed = cmocka_run_group_tests_name("direct", tests, over_direct, NULL);

    failed += cmocka_run_group_tests_name("direct alone", direct_tests, over_direct, NULL);
    return failed + cmocka_run_group_tests_name("libcurl", tests, over_libcurl, NULL);
}
