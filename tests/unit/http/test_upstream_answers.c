/*
 * What the HTTP client makes of an answer: its framing, what is not one, its size, and how a connection's end counts.
 */
#include "upstream_peer.h"
#include "upstream_probe.h"

#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void an_answer_ends_as_its_framing_says(void **state)
{
    static const struct {
        const char *name, *answer;
        enum leg_outcome outcome;
        int status;
        bool close_delimited;
        int64_t length;
        const char *fields, *body, *detail, *library_detail; /* …: what newer versions of libcurl say first */
    } rows[] = {
        {"a declared length", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nX: 1\r\nx:  2 \r\n\r\nabc", LEG_COMPLETE, 200,
         false, 3, "Content-Length=3;X=1;x=2;", "abc", ""},
        {"chunks, with trailers that are dropped",
         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\nX-T: "
         "1\r\nContent-Length: 99\r\n\r\n",
         LEG_COMPLETE, 200, false, -1, "Transfer-Encoding=chunked;Trailer=X-T;", "abc", ""},
        {"neither: its own end mark decides", "HTTP/1.1 200 OK\r\nX: 1\r\n\r\nabc", LEG_COMPLETE, 200, true, -1, "X=1;",
         "abc", ""},
        {"neither, HTTP/1.0", "HTTP/1.0 200 OK\r\n\r\nabc", LEG_COMPLETE, 200, true, -1, "", "abc", ""},
        {"a length, HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc", LEG_COMPLETE, 200, false, 3,
         "Content-Length=3;", "abc", ""},
        {"no content", "HTTP/1.1 204 No Content\r\nX:\r\n\r\n", LEG_COMPLETE, 204, false, -1, "X=;", "", ""},
        {"not modified", "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", LEG_COMPLETE, 304, false, 9,
         "Content-Length=9;", "", ""},
        {"a redirect is an answer", "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 1\r\n\r\nx",
         LEG_COMPLETE, 302, false, 1, "Location=http://127.0.0.1:1/;Content-Length=1;", "x", ""},
        {"no reason phrase", "HTTP/1.1 503\r\nContent-Length: 0\r\n\r\n", LEG_COMPLETE, 503, false, 0,
         "Content-Length=0;", "", ""},
        {"interim heads are dropped",
         "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: l\r\nContent-Length: 7\r\n\r\nHTTP/1.1 200 "
         "OK\r\nContent-Length: 1\r\n\r\nx",
         LEG_COMPLETE, 200, false, 1, "Content-Length=1;", "x", ""},
        {"bare line feeds", "HTTP/1.1 200 OK\nContent-Length: 1\n\nx", LEG_BROKEN, 0, false, 0, NULL, "",
         "the answer has a header line that does not end with CR and LF"},
        {"a compressed body is passed on as it is",
         "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc", LEG_COMPLETE, 200, false, 3,
         "Content-Encoding=gzip;Content-Length=3;", "abc", ""},
        {"short of its length", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", LEG_BROKEN, 200, false, 9,
         "Content-Length=9;", "abc", NULL},
        {"no last chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", LEG_BROKEN, 200, false,
         -1, "Transfer-Encoding=chunked;", "abc", NULL},
        {"a bad chunk head", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nxyz\r\n", LEG_BROKEN,
         200, false, -1, "Transfer-Encoding=chunked;", "abc", NULL},
        {"the head is cut", "HTTP/1.1 200 OK\r\nContent-Le", LEG_BROKEN, 0, false, 0, NULL, "", NULL},
        {"only an interim head", "HTTP/1.1 100 Continue\r\n\r\n", LEG_BROKEN, 0, false, 0, NULL, "", NULL},
        {"not HTTP", "SSH-2.0-OpenSSH_9.2\r\n", LEG_BROKEN, 0, false, 0, NULL, "", NULL},
        {"a folded line", "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n", LEG_BROKEN, 0, false, 0, NULL,
         "", "the answer has a folded header line"},
        {"a space before the colon", "HTTP/1.1 200 OK\r\nX : a\r\nContent-Length: 0\r\n\r\n", LEG_BROKEN, 0, false, 0,
         NULL, "", "the answer has an invalid header line"},
        {"lengths that differ", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", LEG_BROKEN, 0,
         false, 0, NULL, "", "the answer has more than one Content-Length"},
        {"the same length twice", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nab", LEG_BROKEN, 0,
         false, 0, NULL, "", "the answer has more than one Content-Length"},
        {"a length and chunks",
         "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", LEG_BROKEN,
         0, false, 0, NULL, "", "the answer has both a Transfer-Encoding and a Content-Length"},
        {"a coding that nobody asked for", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
         LEG_BROKEN, 0, false, 0, NULL, "", "the answer has a Transfer-Encoding other than chunked",
         "Unsolicited Transfer-Encoding (gzip) found"},
        {"protocols are not switched", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", LEG_BROKEN, 0, false,
         0, NULL, "", "the upstream switched protocols unasked"},
        {"nothing", "", LEG_NO_ANSWER, 0, false, 0, NULL, "", NULL},
    };

    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        struct peer *peer = peer_start(answer_and_close, rows[r].answer);
        struct upstream *upstream = open_peer(*state, peer);
        struct leg_request request = get("/");
        struct probe probe = {0};

        print_message("  %s\n", rows[r].name);
        probe_start(&probe, *state, upstream, &request);
        finish(&probe);
        assert_int_equal(probe.result.outcome, rows[r].outcome);
        assert_int_equal(probe.heads, rows[r].status > 0);
        assert_int_equal(probe.result.head_seen, rows[r].status > 0);
        assert_int_equal(probe.status, rows[r].status);
        assert_int_equal(probe.result.close_delimited, rows[r].close_delimited);
        assert_body(&probe, rows[r].body);
        if (rows[r].fields) {
            assert_int_equal(probe.length, rows[r].length);
            assert_fields(&probe, rows[r].fields);
        }
        if (!rows[r].detail)
            assert_true(probe.detail[0]);
        else if (transport == UPSTREAM_DIRECT || !rows[r].library_detail ||
                 strcmp(probe.detail, rows[r].library_detail) != 0)
            assert_string_equal(probe.detail, rows[r].detail);
        upstream_close(upstream);
        probe_clear(&probe);
        peer_free(peer);
    }
}

/* The text byte by byte. */
static void answer_slowly(struct peer *peer)
{
    int on = 1;

    if (!peer_accept(peer) || !peer_request(peer))
        return;
    setsockopt(peer->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    for (size_t i = 0; i < peer->size; i++) {
        peer_send_bytes(peer, peer->text + i, 1);
        usleep(100);
    }
}

static void an_answer_is_the_same_in_any_pieces(void **state)
{
    struct peer *peer = peer_start(
        answer_slowly, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nA: b\r\nTransfer-Encoding: chunked\r\n\r\n"
                       "5\r\nhello\r\n1;x=y\r\n!\r\n0\r\nT: 1\r\n\r\n");
    struct upstream *upstream = open_peer(*state, peer);
    struct leg_request request = get("/");
    struct probe probe = {0};

    probe_start(&probe, *state, upstream, &request);
    finish(&probe);
    assert_int_equal(probe.result.outcome, LEG_COMPLETE);
    assert_fields(&probe, "A=b;Transfer-Encoding=chunked;");
    assert_body(&probe, "hello!");
    probe_clear(&probe);
    peer_free(peer);
}

static void a_head_is_refused_beyond_64_kib(void **state)
{
    for (int over = 0; over < 2; over++) {
        struct buffer answer = {0};
        size_t room = 65536 - strlen("HTTP/1.1 200 OK\r\n") - strlen("\r\n");

        assert_true(buffer_append_text(&answer, "HTTP/1.1 200 OK\r\n"));
        for (; room >= 2048; room -= 1024)
            assert_true(buffer_printf(&answer, "X: %01019d\r\n", 1));
        assert_true(buffer_printf(&answer, "Y: %0*d\r\n\r\n", (int)room - 5 + over, 1));
        assert_true(buffer_append(&answer, "", 1));
        assert_int_equal(answer.size - 1, 65536 + over);

        struct peer *peer = peer_start(answer_and_close, answer.data);
        struct upstream *upstream = open_peer(*state, peer);
        struct leg_request request = get("/");
        struct probe probe = {0};

        probe_start(&probe, *state, upstream, &request);
        finish(&probe);
        assert_int_equal(probe.result.outcome, over ? LEG_BROKEN : LEG_COMPLETE);
        if (over)
            assert_string_equal(probe.detail, "the head of the answer is larger than 64 KiB");
        probe_clear(&probe);
        peer_free(peer);
        buffer_release(&answer);
    }
}

static void a_reset_is_no_answer_before_the_first_byte_and_broken_after(void **state)
{
    static const char *const rows[] = {"", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab",
                                       "HTTP/1.1 200 OK\r\n\r\nab"};

    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        struct peer *peer = peer_start(reset_after_the_text, rows[r]);
        struct upstream *upstream = open_peer(*state, peer);
        struct leg_request request = get("/");
        struct probe probe = {0};

        probe_start(&probe, *state, upstream, &request);
        if (r > 0)
            TURN_UNTIL((struct world *)*state, probe.datas);
        peer->stage = 1;
        finish(&probe);
        assert_int_equal(probe.result.outcome, r == 0 ? LEG_NO_ANSWER : LEG_BROKEN);
        probe_clear(&probe);
        peer_free(peer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UPSTREAM_TEST(an_answer_ends_as_its_framing_says),
        UPSTREAM_TEST(an_answer_is_the_same_in_any_pieces),
        UPSTREAM_TEST(a_head_is_refused_beyond_64_kib),
        UPSTREAM_TEST(a_reset_is_no_answer_before_the_first_byte_and_broken_after),
    };
    int failed = cmocka_run_group_tests_name("direct", tests, over_direct, NULL);

    return failed + cmocka_run_group_tests_name("libcurl", tests, over_libcurl, NULL);
}
