/* Unit test of the HTTP server: request bodies read whole and streamed, their bounds, and answers before their end. */
#include "server_fixture.h"

#include <microhttpd.h>

static void answer_with_size(struct exchange *exchange)
{
    char text[64];

    snprintf(text, sizeof text, "got %zu %llu.", exchange_body(exchange).size,
             (unsigned long long)exchange_received(exchange));
    answer_text(exchange, 200, text);
}

static char *pattern(size_t size)
{
    char *body = malloc(size + 1);

    assert_non_null(body);
    for (size_t i = 0; i < size; i++)
        body[i] = (char)('a' + i % 23);
    body[size] = '\0';
    return body;
}

static bool send_chunked(struct client *client, const char *body, size_t size, size_t chunk)
{
    char head[32];

    for (size_t at = 0; at < size; at += chunk) {
        size_t piece = size - at < chunk ? size - at : chunk;

        snprintf(head, sizeof head, "%zx\r\n", piece);
        if (!client_send_bytes(client, head, strlen(head)) || !client_send_bytes(client, body + at, piece) ||
            !client_send_bytes(client, "\r\n", 2))
            return false;
    }
    return client_send_bytes(client, "0\r\n\r\n", 5);
}

static void check_pattern(struct exchange *exchange)
{
    coord_slice body = exchange_body(exchange);

    for (size_t i = 0; i < body.size; i++)
        assert_true(body.data[i] == (char)('a' + i % 23));
    answer_with_size(exchange);
}

static void bodies_of_every_size_arrive(void **state)
{
    static const size_t sizes[] = {0, 1, 2, 100, 8191, 8192, 16383, 16384, 16385, 100000, 1 << 20};

    (void)state;
    fixture.head = head_reads;
    fixture.body = check_pattern;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int chunked = 0; chunked < 2; chunked++) {
            struct client *client = client_new();
            char *body = pattern(sizes[i]);
            char head[128], want[64];

            snprintf(head, sizeof head, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %zu\r\n\r\n", sizes[i]);
            if (chunked) {
                client_send(client, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
                assert_true(send_chunked(client, body, sizes[i], 7777));
            } else {
                client_send(client, head);
                assert_true(client_send_bytes(client, body, sizes[i]));
            }
            snprintf(want, sizeof want, "got %zu %zu.", sizes[i], sizes[i]);
            UNTIL(client_has(client, want));
            client_forget(client);
            client_send(client, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc");
            UNTIL(client_has(client, "got 3 3."));
            client_free(client);
            free(body);
        }
    assert_int_equal(fixture.refusals, 0);
}

static struct buffer taken;

static void take_body(struct exchange *exchange)
{
    taken = exchange_take_body(exchange);
    assert_int_equal(exchange_body(exchange).size, 0);
    answer_text(exchange, 200, "hello");
}

static void a_body_may_be_taken_over(void **state)
{
    (void)state;
    fixture.head = head_reads;
    fixture.body = take_body;
    client_free(client_ask("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nabcde", "hello"));
    assert_true(coord_slice_is(buffer_slice(&taken), "abcde"));
    buffer_release(&taken);
}

static void one_byte_too_many_is_a_413_with_a_body(void **state)
{
    char *body = pattern((1 << 20) + 1);

    (void)state;
    fixture.head = head_reads;
    fixture.body = answer_with_size;
    for (int chunked = 0; chunked < 2; chunked++) {
        struct client *client = client_new();

        if (chunked) {
            client_send(client, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
            assert_true(send_chunked(client, body, (1 << 20) + 1, 5000));
        } else {
            client_send(client, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1048577\r\n\r\n");
            assert_true(client_send_bytes(client, body, (1 << 20) + 1)); /* all of it: nobody resets us meanwhile */
        }
        UNTIL(client_over(client));
        assert_true(client->ended);
        assert_memory_equal(client->data, "HTTP/1.1 413 ", 13);
        assert_true(client_has(client, "Connection: close\r\n"));
        assert_true(client_has(client, "the request's body is too large\"}"));
        assert_int_equal(fixture.refusal, EXCHANGE_BODY_TOO_LARGE);
        UNTIL(connections() == 0);
        client_free(client);
    }
    assert_int_equal(fixture.bodies, 0);
    assert_int_equal(fixture.completes, 2);
    free(body);
}

static void an_endless_chunked_body_does_not_keep_its_connection(void **state)
{
    struct client *client = client_new();
    char *body = pattern(100000);
    int64_t began = now_ns();

    (void)state;
    fixture.head = head_reads;
    client_send(client, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
    while (send(client->fd, "186a0\r\n", 7, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0 || errno == EAGAIN) {
        if (!client_send_bytes(client, body, 100000) || now_ns() - began > PATIENCE)
            break;
        turn();
        client_read(client);
    }
    assert_true(now_ns() - began < PATIENCE);
    UNTIL(connections() == 0);
    client_free(client);
    free(body);
}

static void expect_gets_100_or_the_refusal_never_both(void **state)
{
    struct client *client = client_new();

    (void)state;
    fixture.head = head_reads;
    fixture.body = answer_with_size;
    client_send(client, "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    UNTIL(client_has(client, "HTTP/1.1 100 Continue\r\n\r\n"));
    client_send(client, "abc");
    UNTIL(client_has(client, "got 3 3."));
    client_free(client);

    client = client_new();
    client_send(client, "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 9999999\r\n\r\n");
    UNTIL(client_over(client));
    assert_memory_equal(client->data, "HTTP/1.1 413 ", 13);
    assert_true(client_has(client, "the request's body is too large\"}"));
    client_free(client);
}

static void head_refuses(struct exchange *exchange) { answer_text(exchange, 403, "forbidden"); }

static void an_answer_before_the_body_reaches_a_client_that_sends_on(void **state)
{
    struct client *client = client_new();
    char *body = pattern(900000);

    (void)state;
    fixture.head = head_refuses;
    client_send(client, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 900000\r\n\r\n");
    assert_true(client_send_bytes(client, body, 400000));
    UNTIL(client_has(client, "forbidden"));
    assert_true(client_send_bytes(client, body, 500000));
    UNTIL(client_over(client));
    assert_true(client->ended);
    UNTIL(fixture.dones == 1);
    assert_string_equal(fixture.log, "head done");
    UNTIL(connections() == 0);
    client_free(client);
    free(body);
}

/* Streams */

static struct buffer uploaded;
static size_t room;
static bool ended;

static size_t take_some(struct exchange *exchange, coord_slice piece, bool last)
{
    size_t size = piece.size < room ? piece.size : room;

    assert_false(ended);
    assert_true(buffer_append(&uploaded, piece.data, size));
    room -= size;
    ended = last;
    if (last)
        answer_text(exchange, 200, "all");
    return size;
}

static void a_streamed_body_comes_only_as_fast_as_it_is_taken(void **state)
{
    struct client *client = client_new();
    char *body = pattern(100000);

    (void)state;
    uploaded = (struct buffer){0};
    ended = false;
    room = 0;
    fixture.head = head_streams;
    fixture.upload = take_some;
    client_send(client, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n");
    client_send_bytes(client, body, 100000);
    for (int i = 0; i < 50; i++)
        turn();
    assert_int_equal(uploaded.size, 0);
    while (!ended) {
        size_t before = uploaded.size;
        int64_t deadline = now_ns() + PATIENCE;

        room = 10 + uploaded.size % 3000;
        exchange_upload_more(fixture.kept[0]);
        while (uploaded.size == before && !ended) {
            assert_true(now_ns() < deadline);
            turn();
        }
    }
    UNTIL(client_has(client, "\r\n\r\nall"));
    assert_int_equal(uploaded.size, 100000);
    assert_memory_equal(uploaded.data, body, 100000);
    assert_null(strstr(fixture.log, "gone"));
    client_free(client);
    free(body);
    buffer_release(&uploaded);
}

static void chunks_and_empty_bodies_are_streamed_too(void **state)
{
    struct client *client = client_new();
    char *body = pattern(50000);

    (void)state;
    uploaded = (struct buffer){0};
    ended = false;
    room = SIZE_MAX / 2;
    fixture.head = head_streams;
    fixture.upload = take_some;
    client_send(client, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
    send_chunked(client, body, 50000, 1234);
    UNTIL(client_has(client, "\r\n\r\nall"));
    assert_int_equal(uploaded.size, 50000);
    assert_memory_equal(uploaded.data, body, 50000);
    buffer_clear(&uploaded, 0);
    ended = false;
    client_forget(client);
    client_send(client, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n");
    UNTIL(client_has(client, "\r\n\r\nall"));
    assert_int_equal(uploaded.size, 0);
    client_free(client);
    free(body);
}

static size_t answer_early(struct exchange *exchange, coord_slice piece, bool last)
{
    (void)piece;
    if (!last && !exchange_answered(exchange))
        answer_text(exchange, 422, "early");
    return 0;
}

static void an_early_answer_to_a_stream_is_sent_while_it_runs(void **state)
{
    struct client *client = client_new();

    (void)state;
    fixture.head = head_streams;
    fixture.upload = answer_early;
    client_send(client, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\npart of it");
    UNTIL(client_has(client, "early"));
    UNTIL(client_over(client)); /* before the rest was sent: its write side is shut */
    assert_true(client->ended);
    assert_memory_equal(client->data, "HTTP/1.1 422 ", 13);
    assert_true(client_has(client, "Content-Length: 5\r\n"));
    UNTIL(fixture.dones == 1);
    assert_int_equal(fixture.completes, 1);
    client_free(client);
    UNTIL(connections() == 0);
}

static size_t take_nothing(struct exchange *exchange, coord_slice piece, bool last)
{
    (void)exchange;
    (void)piece;
    (void)last;
    return 0;
}

static void so_is_one_while_it_is_held_back(void **state)
{
    struct client *client = client_new();

    (void)state;
    fixture.head = head_streams;
    fixture.upload = take_nothing;
    client_send(client, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\npart of it");
    for (int i = 0; i < 20; i++)
        turn();
    answer_text(fixture.kept[0], 422, "early");
    UNTIL(client_over(client));
    assert_true(client_has(client, "early"));
    client_free(client);
    UNTIL(connections() == 0);
}

static void head_answers_large(struct exchange *exchange)
{
    char *body = pattern(200000);

    answer_text(exchange, 200, body);
    free(body);
}

static void a_large_early_answer_waits_for_the_end_of_the_upload(void **state)
{
    struct client *client = client_new();
    char *body = pattern(300000);

    (void)state;
    fixture.head = head_answers_large;
    client_send(client, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 300000\r\n\r\n");
    for (int i = 0; i < 20; i++)
        turn();
    client_read(client);
    assert_int_equal(client->size, 0);
    assert_true(client_send_bytes(client, body, 300000));
    UNTIL(client_has(client, "Content-Length: 200000\r\n"));
    UNTIL(fixture.completes == 1);
    client_free(client);
    free(body);
}

/* Budgets */

static void requests_over_the_budget_are_refused_and_it_is_given_back(void **state)
{
    static struct server_budget budget;
    struct client *first, *second;

    (void)state;
    budget = (struct server_budget){.max_requests = 1};
    fixture.options.budget = &budget;
    restart_server();
    fixture.head = head_holds;
    first = client_new();
    client_send(first, GET("/"));
    UNTIL(fixture.heads == 1);
    second = client_ask(GET("/"), "in flight\"}");
    assert_memory_equal(second->data, "HTTP/1.1 503 ", 13);
    assert_true(client_has(second, "Retry-After: 1\r\n"));
    client_free(second);
    fixture.head = head_answers; /* what is answered at once was never in flight */
    client_free(client_ask(GET("/"), "hello"));
    answer_text(fixture.kept[0], 200, "hello");
    UNTIL(client_has(first, "hello"));
    UNTIL(budget.requests == 0);
    client_free(first);
}

static void bytes_over_the_budget_are_refused_before_they_come_where_possible(void **state)
{
    static struct server_budget budget;
    struct client *first, *second, *third;
    char *body = pattern(2000);

    (void)state;
    budget = (struct server_budget){.max_bytes = 1000};
    fixture.options.budget = &budget;
    restart_server();
    fixture.head = head_reads;
    first = client_new();
    client_send(first, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 900\r\n\r\n");
    UNTIL(fixture.heads == 1);
    assert_int_equal(budget.bytes, 900);
    second = client_ask("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 101\r\n\r\n", "in flight\"}");
    assert_memory_equal(second->data, "HTTP/1.1 503 ", 13);
    client_free(second);
    third = client_new();
    client_send(third, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
    send_chunked(third, body, 2000, 50);
    UNTIL(client_has(third, "in flight\"}"));
    assert_memory_equal(third->data, "HTTP/1.1 503 ", 13);
    client_free(third);
    client_free(first);
    UNTIL(budget.bytes == 0);
    free(body);
}

/* Framing */

static void ambiguous_requests_get_a_json_400_and_a_close(void **state)
{
    static const struct {
        const char *name, *head;
        enum { REFUSED_BY_US, REFUSED_BEFORE, UNDERSTOOD } since_1_0; /* with libmicrohttpd 1.0, by a page of its own */
    } rows[] = {
        {"length and coding", "Host: h\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n"},
        {"two lengths", "Host: h\r\nContent-Length: 2\r\nContent-Length: 3\r\n"},
        {"two equal lengths", "Host: h\r\nContent-Length: 2\r\nContent-Length: 2\r\n"},
        {"another coding", "Host: h\r\nTransfer-Encoding: gzip, chunked\r\n", REFUSED_BEFORE},
        {"a coding that looks like it", "Host: h\r\nTransfer-Encoding: xchunked\r\n", REFUSED_BEFORE},
        {"a blank after the coding", "Host: h\r\nTransfer-Encoding: chunked \r\n", UNDERSTOOD},
        {"two codings", "Host: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"},
        {"two hosts", "Host: h\r\nHost: d\r\nContent-Length: 2\r\n"},
        {"no host", "Content-Length: 2\r\n"},
        {"a name that is no token", "Host: h\r\nA(b: 1\r\nContent-Length: 2\r\n"},
    };

    (void)state;
    fixture.head = head_reads;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct client *client;
        unsigned refused = fixture.refusals;

        if (rows[i].since_1_0 == UNDERSTOOD && MHD_VERSION >= 0x01000000)
            continue;
        print_message("  %s\n", rows[i].name);
        client = client_new();
        client_send(client, "POST / HTTP/1.1\r\n");
        client_send(client, rows[i].head);
        client_send(client, "\r\n2\r\n{}\r\n0\r\n\r\n");
        UNTIL(client_over(client));
        assert_true(client->ended);
        assert_memory_equal(client->data, "HTTP/1.1 400 ", 13);
        assert_true(client_has(client, "Connection: close\r\n"));
        if (rows[i].since_1_0 != REFUSED_BEFORE || fixture.refusals > refused) {
            assert_true(client_has(client, "application/json"));
            assert_int_equal(fixture.refusal, EXCHANGE_BAD_FRAMING);
        }
        client_free(client);
        UNTIL(connections() == 0);
    }
    assert_int_equal(fixture.heads, 0);
    assert_int_equal(fixture.dones, 0);
}

static void broken_chunks_end_the_exchange(void **state)
{
    struct client *client = client_new();

    (void)state;
    fixture.head = head_reads;
    client_send(client, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n");
    UNTIL(client_over(client));
    UNTIL(fixture.dones == 1);
    assert_string_equal(fixture.log, "head gone undone");
    client_free(client);
    UNTIL(connections() == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(bodies_of_every_size_arrive, start, finish),
        cmocka_unit_test_setup_teardown(a_body_may_be_taken_over, start, finish),
        cmocka_unit_test_setup_teardown(one_byte_too_many_is_a_413_with_a_body, start, finish),
        cmocka_unit_test_setup_teardown(an_endless_chunked_body_does_not_keep_its_connection, start, finish),
        cmocka_unit_test_setup_teardown(expect_gets_100_or_the_refusal_never_both, start, finish),
        cmocka_unit_test_setup_teardown(an_answer_before_the_body_reaches_a_client_that_sends_on, start, finish),
        cmocka_unit_test_setup_teardown(a_streamed_body_comes_only_as_fast_as_it_is_taken, start, finish),
        cmocka_unit_test_setup_teardown(chunks_and_empty_bodies_are_streamed_too, start, finish),
        cmocka_unit_test_setup_teardown(an_early_answer_to_a_stream_is_sent_while_it_runs, start, finish),
        cmocka_unit_test_setup_teardown(so_is_one_while_it_is_held_back, start, finish),
        cmocka_unit_test_setup_teardown(a_large_early_answer_waits_for_the_end_of_the_upload, start, finish),
        cmocka_unit_test_setup_teardown(requests_over_the_budget_are_refused_and_it_is_given_back, start, finish),
        cmocka_unit_test_setup_teardown(bytes_over_the_budget_are_refused_before_they_come_where_possible, start,
                                        finish),
        cmocka_unit_test_setup_teardown(ambiguous_requests_get_a_json_400_and_a_close, start, finish),
        cmocka_unit_test_setup_teardown(broken_chunks_end_the_exchange, start, finish),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
