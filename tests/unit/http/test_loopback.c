/* One request over loopback and its whole answer (http/loopback.h). */
#include "http/loopback.h"

#include "upstream_peer.h"

#include <unistd.h>

static const char REQUEST[] = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

static const struct loopback_limits PATIENT = {PATIENCE_MS * MS, 1 << 20}, HASTY = {50 * MS, 1 << 20};

static void what_came_is_taken_apart(void **state)
{
    static const struct {
        const char *name, *text;
        int32_t status;
        const char *body;
        bool whole;
    } rows[] = {
        {"by length", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, "ok", true},
        {"in chunks", "HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", 404,
         "abcde", true},
        {"to the end", "HTTP/1.1 200 OK\r\n\r\nall of it", 200, "all of it", true},
        {"cut by length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok", 200, "ok", false},
        {"cut in chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", 200, "ab", false},
        {"cut in the head", "HTTP/1.1 200 OK\r\nContent-Le", 0, "", false},
        {"no body", "HTTP/1.1 204 No Content\r\n\r\n", 204, "", true},
        {"after an interim one", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, "x",
         true},
        {"nothing", "", 0, "", false},
        {"no HTTP", "nonsense\r\n\r\n", 0, "", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct peer *peer = peer_start(answer_and_close, rows[i].text);
        struct loopback_answer answer;
        struct arena arena = {0};

        print_message("  %s\n", rows[i].name);
        assert_int_equal(loopback_run((uint16_t)peer->port, coord_slice_of(REQUEST), &PATIENT, &arena, &answer),
                         LOOPBACK_DONE);
        assert_int_equal(answer.status, rows[i].status);
        assert_true(coord_slice_is(buffer_slice(&answer.body), rows[i].body));
        assert_int_equal(answer.whole, rows[i].whole);
        peer_join(peer);
        assert_int_equal(peer->logged, sizeof REQUEST - 1);
        loopback_release(&answer);
        arena_release(&arena);
        peer_free(peer);
    }
}

static void the_fields_are_kept_in_their_order(void **state)
{
    struct peer *peer = peer_start(answer_and_close, "HTTP/1.1 200 OK\r\nA: 1\r\nContent-Length: 0\r\na: 2\r\n\r\n");
    struct loopback_answer answer;
    struct arena arena = {0};

    (void)state;
    assert_int_equal(loopback_run((uint16_t)peer->port, coord_slice_of(REQUEST), &PATIENT, &arena, &answer),
                     LOOPBACK_DONE);
    assert_int_equal(answer.headers.count, 3);
    assert_true(coord_slice_is(answer.headers.list[0].name, "A") && coord_slice_is(answer.headers.list[2].value, "2"));
    loopback_release(&answer);
    arena_release(&arena);
    peer_free(peer);
}

static void an_answer_that_does_not_come_is_waited_for_no_longer_than_asked(void **state)
{
    struct peer *peer = peer_start(say_nothing, NULL);
    struct loopback_answer answer;
    struct arena arena = {0};
    int64_t began = now_ns();

    (void)state;
    assert_int_equal(loopback_run((uint16_t)peer->port, coord_slice_of(REQUEST), &HASTY, &arena, &answer),
                     LOOPBACK_TIMEOUT);
    assert_in_range(now_ns() - began, 50 * MS, PATIENCE_MS * MS);
    assert_int_equal(answer.status, 0);
    loopback_release(&answer);
    arena_release(&arena);
    peer_free(peer);
}

static void an_answer_is_read_up_to_a_limit(void **state)
{
    static const char text[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

    (void)state;
    for (int less = 0; less < 2; less++) {
        struct peer *peer = peer_start(answer_and_close, text);
        struct loopback_limits limits = {PATIENCE_MS * MS, sizeof text - 1 - (size_t)less};
        struct loopback_answer answer;
        struct arena arena = {0};

        assert_int_equal(loopback_run((uint16_t)peer->port, coord_slice_of(REQUEST), &limits, &arena, &answer),
                         less ? LOOPBACK_TOO_LONG : LOOPBACK_DONE);
        loopback_release(&answer);
        arena_release(&arena);
        peer_free(peer);
    }
}

static void a_port_that_nobody_has_is_told(void **state)
{
    int listener = listen_on("127.0.0.1", 0, 1), port = port_of(listener);
    struct loopback_answer answer;
    struct arena arena = {0};

    (void)state;
    close(listener);
    assert_int_equal(loopback_run((uint16_t)port, coord_slice_of(REQUEST), &HASTY, &arena, &answer), LOOPBACK_BROKEN);
    arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_came_is_taken_apart),
        cmocka_unit_test(the_fields_are_kept_in_their_order),
        cmocka_unit_test(an_answer_that_does_not_come_is_waited_for_no_longer_than_asked),
        cmocka_unit_test(an_answer_is_read_up_to_a_limit),
        cmocka_unit_test(a_port_that_nobody_has_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
