/* Unit test of the HTTP server: answers, their framing on the wire, and output that is bounded. */
#include "server_fixture.h"

static void a_whole_answer_arrives_in_one_piece(void **state)
{
    struct client *client = client_new();

    (void)state;
    fixture.head = head_answers;
    client_send(client, GET("/"));
    UNTIL(client_read(client));
    assert_memory_equal(client->data, "HTTP/1.1 200 OK\r\n", 17);
    assert_true(client_has(client, "Content-Length: 5\r\n"));
    assert_true(client_has(client, "Date: "));
    assert_true(client_has(client, "\r\n\r\nhello"));
    assert_string_equal(fixture.log, "head done");
    assert_int_equal(fixture.completes, 1);
    client_free(client);
}

static void the_head_is_readable(struct exchange *exchange)
{
    const struct headers *headers = exchange_headers(exchange);

    assert_true(coord_slice_is(exchange_method(exchange), "GET"));
    assert_true(coord_slice_is(exchange_target(exchange), "//x%00y/../z?a=%41&b"));
    assert_true(coord_slice_is(exchange_peer(exchange), "127.0.0.1"));
    assert_int_equal(headers->count, 4);
    assert_true(coord_slice_is(headers->list[1].name, "x-A"));
    assert_true(coord_slice_is(headers->list[1].value, "1"));
    assert_true(coord_slice_is(headers->list[2].value, "2, 3"));
    assert_int_equal(headers->list[3].value.size, 0);
    assert_false(exchange_is_http10(exchange));
    assert_int_equal(exchange_declared_length(exchange), 0);
    answer_text(exchange, 200, "hello");
}

static void the_application_sees_the_head_as_it_was_sent(void **state)
{
    (void)state;
    fixture.head = the_head_is_readable;
    client_free(
        client_ask("GET //x%00y/../z?a=%41&b HTTP/1.1\r\nHost: h\r\nx-A: 1\r\nX-a:  2, 3 \r\nEmpty:\r\n\r\n", "hello"));
}

static void requests_of_one_connection_are_answered_in_order(void **state)
{
    struct client *client;
    char *second;

    (void)state;
    fixture.head = head_answers;
    client = client_ask(GET("/1") GET("/2") GET("/3"), "hello");
    UNTIL(fixture.dones == 3);
    client_read(client);
    second = strstr(client->data, "hello");
    second = strstr(second + 1, "hello");
    assert_non_null(second);
    assert_non_null(strstr(second + 1, "hello"));
    assert_int_equal(connections(), 1);
    client_free(client);
    UNTIL(connections() == 0);
}

static void head_answers_fields(struct exchange *exchange)
{
    static const char *const fields[][2] = {
        {"X-B", "1"},         {"X-A", "2"},  {"X-B", "3"},
        {"X-Empty", ""},      {"x-C", "a"},  {"Content-Length", "77"},
        {"Connection", "x"},  {"X-B", "4"},  {"Transfer-Encoding", "chunked"},
        {"Keep-Alive", "9"},  {"X-D", "\t"}, {"Date", "Thu, 01 Jan 1970 00:00:00 GMT"},
        {"X-E", "\xc3\xa9 ;"}};
    struct headers headers;

    headers_init(&headers, &fixture.arena);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        assert_true(headers_add(&headers, coord_slice_of(fields[i][0]), coord_slice_of(fields[i][1])));
    assert_int_equal(exchange_answer(exchange, 200, &headers, coord_slice_of("hello")), COORD_OK);
}

/* Position of `text`, which must be there once. */
static size_t place(struct client *client, const char *text)
{
    char *at = strstr(client->data, text);

    if (!at || strstr(at + 1, text))
        fail_msg("\"%s\" is not there once in:\n%s", text, client->data);
    return (size_t)(at - client->data);
}

static void header_fields_go_out_in_order_without_framing_fields(void **state)
{
    struct client *client;

    (void)state;
    fixture.head = head_answers_fields;
    client = client_ask(GET("/"), "hello");
    assert_true(place(client, "X-B: 1\r\n") < place(client, "X-A: 2\r\n"));
    assert_true(place(client, "X-A: 2\r\n") < place(client, "X-B: 3\r\n"));
    assert_true(place(client, "X-B: 3\r\n") < place(client, "x-C: a\r\n"));
    assert_true(place(client, "x-C: a\r\n") < place(client, "X-B: 4\r\n"));
    assert_true(place(client, "X-B: 4\r\n") < place(client, "X-E: \xc3\xa9 ;\r\n"));
    place(client, "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n");
    place(client, "Date:");
    place(client, "Content-Length: 5\r\n");
    assert_null(strstr(client->data, "Content-Length: 77"));
    assert_null(strstr(client->data, "X-Empty"));
    assert_null(strstr(client->data, "Transfer-Encoding"));
    assert_null(strstr(client->data, "Keep-Alive"));
    assert_null(strstr(client->data, "Connection"));
    client_free(client);
}

static void head_answers_passing_memory(struct exchange *exchange)
{
    char value[] = "first or last", body[] = "hello";
    struct headers headers;

    headers_init(&headers, &fixture.arena);
    assert_true(headers_add_borrowed(&headers, coord_slice_of("X-A"), (coord_slice){value, 5}));
    assert_int_equal(exchange_answer(exchange, 200, &headers, coord_slice_of(body)), COORD_OK);
    memset(value, 'v', sizeof value);
    memset(body, 'b', sizeof body);
    headers.list[0].name = coord_slice_of("X-B");
}

static void a_whole_answer_is_copied(void **state)
{
    struct client *client;

    (void)state;
    fixture.head = head_answers_passing_memory;
    client = client_ask(GET("/"), "hello");
    place(client, "X-A: first\r\n");
    client_free(client);
}

static void head_204(struct exchange *exchange) { answer_text(exchange, 204, ""); }

static void head_304(struct exchange *exchange) { answer_text(exchange, 304, ""); }

static void head_known(struct exchange *exchange)
{
    begin_text(exchange, 5);
    exchange_end(exchange);
}

static void head_unknown(struct exchange *exchange)
{
    begin_text(exchange, -1);
    write_text(exchange, "hello");
    exchange_end(exchange);
}

static void an_answer_without_a_body_leaves_the_connection_in_step(void **state)
{
    static const struct {
        const char *name, *request;
        void (*head)(struct exchange *exchange);
        const char *has, *has_not;
        bool closes;
    } rows[] = {
        {"HEAD, whole", "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n", head_answers, "Content-Length: 5\r\n", "hello", false},
        {"HEAD, known length", "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n", head_known, "Content-Length: 5\r\n", "hello",
         false},
        {"HEAD, unknown length", "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n", head_unknown, "\r\n\r\n", "chunked", true},
        {"204", GET("/"), head_204, " 204 ", "Transfer-Encoding", false},
        {"204 has no length", GET("/"), head_204, " 204 ", "Content-Length", false},
        {"304", GET("/"), head_304, " 304 ", "Transfer-Encoding", true},
        {"304 tells no wrong length", GET("/"), head_304, " 304 ", "Content-Length", true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct client *client;
        unsigned dones = fixture.dones;

        print_message("  %s\n", rows[i].name);
        fixture.head = rows[i].head;
        client = client_ask(rows[i].request, rows[i].has);
        UNTIL(fixture.dones == dones + 1);
        assert_int_equal(fixture.completes, fixture.dones);
        if (strstr(client->data, rows[i].has_not))
            fail_msg("%s", client->data);
        assert_string_equal(strstr(client->data, "\r\n\r\n"), "\r\n\r\n");
        if (rows[i].closes) {
            UNTIL(client_over(client));
        } else {
            client_forget(client);
            fixture.head = head_answers;
            client_send(client, GET("/"));
            UNTIL(client_has(client, "hello"));
            assert_memory_equal(client->data, "HTTP/1.1 200", 12);
        }
        client_free(client);
    }
}

static void head_begins_and_ends(struct exchange *exchange)
{
    begin_text(exchange, 10);
    write_text(exchange, "hello");
    write_text(exchange, "world");
    exchange_end(exchange);
}

static void an_answer_that_is_complete_in_its_turn_is_one_piece(void **state)
{
    struct client *client = client_new();

    (void)state;
    fixture.head = head_begins_and_ends;
    client_send(client, GET("/"));
    UNTIL(client_read(client));
    assert_true(client_has(client, "Content-Length: 10\r\n"));
    assert_true(client_has(client, "\r\n\r\nhelloworld"));
    client_free(client);
}

static void run_begin_later(struct task *task)
{
    (void)task;
    head_begins_and_ends(fixture.kept[0]);
}

static void so_is_one_that_is_given_later(void **state)
{
    struct client *client = client_new();
    struct task task = {.run = run_begin_later};

    (void)state;
    fixture.head = head_holds;
    client_send(client, GET("/"));
    UNTIL(fixture.heads == 1);
    reactor_defer(fixture.reactor, &task);
    UNTIL(client_read(client));
    assert_true(client_has(client, "\r\n\r\nhelloworld"));
    client_free(client);
}

static void a_stream_sends_its_head_at_once_and_each_event_as_a_chunk(void **state)
{
    struct client *client = client_new();
    int64_t began;

    (void)state;
    fixture.head = head_begins;
    client_send(client, GET("/"));
    began = now_ns();
    UNTIL(client_has(client, "\r\n\r\n"));
    assert_true(now_ns() - began < 150 * MS); /* a corked socket would hold it for 200 */
    assert_true(client_has(client, "Transfer-Encoding: chunked\r\n"));
    for (int i = 0; i < 3; i++) {
        client_forget(client);
        write_text(fixture.kept[0], "data: x\n\n");
        UNTIL(client_has(client, "\n\n\r\n"));
        assert_string_equal(client->data, "9\r\ndata: x\n\n\r\n");
    }
    client_forget(client);
    write_text(fixture.kept[0], "y");
    exchange_end(fixture.kept[0]);
    UNTIL(client_has(client, "0\r\n\r\n"));
    assert_string_equal(client->data, "1\r\ny\r\n0\r\n\r\n");
    UNTIL(fixture.dones == 1);
    assert_string_equal(fixture.log, "head done");
    fixture.head = head_answers;
    client_send(client, GET("/"));
    UNTIL(client_has(client, "hello"));
    client_free(client);
}

static void known_length_is_kept_while_streaming(void **state)
{
    struct client *client;

    (void)state;
    fixture.head = head_holds;
    client = client_new();
    client_send(client, GET("/"));
    UNTIL(fixture.heads == 1);
    begin_text(fixture.kept[0], 8);
    write_text(fixture.kept[0], "1234");
    UNTIL(client_has(client, "\r\n\r\n1234"));
    assert_true(client_has(client, "Content-Length: 8\r\n"));
    write_text(fixture.kept[0], "5678 and more than was announced");
    UNTIL(client_has(client, "12345678"));
    for (int i = 0; i < 20; i++)
        turn();
    assert_int_equal(fixture.dones, 0); /* it has not said that this is the end */
    assert_true(coord_slice_is(exchange_headers(fixture.kept[0])->list[0].value, "h"));
    fixture.head = head_answers;
    client_send(client, GET("/")); /* the connection is free already */
    UNTIL(client_has(client, "hello"));
    assert_null(strstr(client->data, "and more"));
    exchange_end(fixture.kept[0]);
    UNTIL(fixture.dones == 2);
    assert_int_equal(fixture.completes, 2);
    client_free(client);
}

static void http10_gets_a_body_that_ends_with_the_connection(void **state)
{
    struct client *client;

    (void)state;
    fixture.head = head_begins;
    client = client_ask("GET / HTTP/1.0\r\n\r\n", "\r\n\r\n");
    assert_true(exchange_is_http10(fixture.kept[0]));
    write_text(fixture.kept[0], "one");
    UNTIL(client_has(client, "\r\n\r\none"));
    write_text(fixture.kept[0], "two");
    exchange_end(fixture.kept[0]);
    UNTIL(client_over(client));
    assert_true(client->ended && !client->reset);
    assert_true(client_has(client, "\r\n\r\nonetwo"));
    assert_false(client_has(client, "chunked"));
    client_free(client);
}

static void a_truncated_answer_never_ends_cleanly(void **state)
{
    static const struct {
        const char *name, *version;
        int64_t length;
        const char *written; /* before the end */
        bool ends, begun;
        const char *body;
    } rows[] = {
        {"abort before anything", "1.1", 0, NULL, false, false, NULL},
        {"abort after the head", "1.1", -1, NULL, false, true, ""},
        {"abort of chunks", "1.1", -1, "abc", false, true, "3\r\nabc\r\n"},
        {"abort of known length", "1.1", 9, "abc", false, true, "abc"},
        {"short of known length", "1.1", 9, "abc", true, true, "abc"},
        {"abort of 1.0", "1.0", -1, "abc", false, true, NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct client *client = client_new();
        char request[64];
        unsigned dones = fixture.dones;

        print_message("  %s\n", rows[i].name);
        fixture.head = head_holds;
        snprintf(request, sizeof request, "GET / HTTP/%s\r\nHost: h\r\n\r\n", rows[i].version);
        client_send(client, request);
        UNTIL(fixture.kept_count == 1);
        if (rows[i].begun)
            begin_text(fixture.kept[0], rows[i].length);
        if (rows[i].written)
            write_text(fixture.kept[0], rows[i].written);
        if (i % 2)
            turn(); /* with and without the answer being under way */
        if (rows[i].ends)
            exchange_end(fixture.kept[0]);
        else
            exchange_abort(fixture.kept[0]);
        UNTIL(client_over(client));
        UNTIL(fixture.dones == dones + 1);
        assert_int_equal(fixture.completes, 0);
        assert_int_equal(fixture.gones, 0);
        if (!rows[i].begun)
            assert_int_equal(client->size, 0);
        if (rows[i].body)
            assert_string_equal(strstr(client->data, "\r\n\r\n") + 4, rows[i].body);
        if (strcmp(rows[i].version, "1.0") == 0)
            assert_true(client->reset);
        UNTIL(connections() == 0);
        client_free(client);
    }
}

static void second_answers_are_refused(struct exchange *exchange)
{
    struct headers headers = text_headers();

    assert_int_equal(exchange_write(exchange, coord_slice_of("x")), 0);
    answer_text(exchange, 200, "hello");
    assert_true(exchange_answered(exchange));
    assert_int_equal(exchange_answer(exchange, 200, &headers, coord_slice_of("again")), COORD_STATE);
    assert_int_equal(exchange_begin(exchange, 200, &headers, -1), COORD_STATE);
    assert_int_equal(exchange_write(exchange, coord_slice_of("x")), 0);
    exchange_end(exchange);
    exchange_end(exchange);
}

static void a_second_answer_is_refused(void **state)
{
    struct client *client;

    (void)state;
    fixture.head = second_answers_are_refused;
    client = client_ask(GET("/"), "hello");
    UNTIL(fixture.dones == 1);
    assert_int_equal(fixture.completes, 1);
    assert_null(strstr(client->data, "again"));
    client_free(client);
}

/* Output */

enum { BLOCK = 10000 };

static char block[BLOCK];
static size_t blocks_left;

static void fill(struct exchange *exchange)
{
    while (blocks_left > 0) {
        blocks_left--;
        if (exchange_write(exchange, (coord_slice){block, BLOCK}) >= fixture.options.output_high)
            return;
    }
    exchange_end(exchange);
}

static void head_fills(struct exchange *exchange)
{
    begin_text(exchange, -1);
    fill(exchange);
    exchange_hold(exchange);
}

/* Reads chunks whose bytes go on in the pattern, over whatever pieces. */
struct chunks {
    enum { CHUNK_SIZE, CHUNK_DATA, CHUNK_END, CHUNK_OVER } state;
    size_t left;
    uint64_t received;
};

static char pattern_at(uint64_t place) { return (char)(place % BLOCK % 251); }

static void read_chunks(struct chunks *chunks, const char *data, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        char c = data[i];

        if (chunks->state == CHUNK_OVER) {
            assert_true(c == '\r' || c == '\n');
        } else if (chunks->state == CHUNK_DATA) {
            assert_true(c == pattern_at(chunks->received));
            chunks->received++;
            if (--chunks->left == 0)
                chunks->state = CHUNK_END;
        } else if (chunks->state == CHUNK_SIZE && c == '\n') {
            chunks->state = chunks->left > 0 ? CHUNK_DATA : CHUNK_OVER;
        } else if (chunks->state == CHUNK_SIZE && c != '\r') {
            assert_non_null(strchr("0123456789abcdefABCDEF", c));
            chunks->left = 16 * chunks->left + (size_t)(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
        } else if (chunks->state == CHUNK_END && c == '\n') {
            chunks->state = CHUNK_SIZE;
        }
    }
}

static void a_slow_reader_bounds_what_is_queued(void **state)
{
    struct client *client = client_new();
    struct chunks chunks = {0};
    size_t last = 0;
    char *body;
    int64_t deadline = now_ns() + 20 * PATIENCE;

    (void)state;
    for (int i = 0; i < BLOCK; i++)
        block[i] = pattern_at((uint64_t)i);
    blocks_left = 3000; /* 30 MB: more than the system buffers */
    fixture.head = head_fills;
    fixture.drained = fill;
    client_send(client, GET("/"));
    for (int still = 0; still < 200; still++) { /* until nothing moves any more */
        turn();
        if (blocks_left != last)
            still = 0;
        last = blocks_left;
    }
    assert_true(blocks_left > 0);
    assert_true(exchange_queued(fixture.kept[0]) < fixture.options.output_high + BLOCK);
    UNTIL(client_has(client, "\r\n\r\n"));
    body = strstr(client->data, "\r\n\r\n") + 4;
    read_chunks(&chunks, body, client->size - (size_t)(body - client->data));
    for (client_forget(client); chunks.state != CHUNK_OVER; client_forget(client)) {
        assert_true(now_ns() < deadline);
        turn();
        client_read(client);
        read_chunks(&chunks, client->data, client->size);
    }
    assert_int_equal(chunks.received, UINT64_C(3000) * BLOCK);
    UNTIL(fixture.dones == 1);
    assert_int_equal(fixture.completes, 1);
    assert_true(fixture.drains > 0);
    client_free(client);
}

/* Who paused its source until then would wait for ever. */
static void draining_is_told_even_when_all_bytes_are_out(void **state)
{
    struct client *client = client_new();
    char *body = malloc(100001);

    (void)state;
    memset(body, 'b', 100000);
    body[100000] = '\0';
    fixture.head = head_holds;
    client_send(client, GET("/"));
    UNTIL(fixture.heads == 1);
    begin_text(fixture.kept[0], 100000);
    assert_true(write_text(fixture.kept[0], body) >= fixture.options.output_high);
    UNTIL(client_has(client, "bbb") && client->size > 100000);
    UNTIL(fixture.drains == 1);
    exchange_end(fixture.kept[0]);
    UNTIL(fixture.completes == 1);
    client_free(client);
    free(body);
}

static size_t body_size;

static void head_large(struct exchange *exchange)
{
    char *body = malloc(body_size);

    memset(body, 'z', body_size);
    assert_int_equal(exchange_answer(exchange, 200, NULL, (coord_slice){body, body_size}), COORD_OK);
    free(body);
}

static void a_large_whole_answer_arrives_whole(void **state)
{
    struct client *client;

    (void)state;
    body_size = 900000;
    fixture.head = head_large;
    client = client_ask(GET("/"), "\r\n\r\n");
    UNTIL(client_over(client) ||
          client->size >= body_size + (size_t)(strstr(client->data, "\r\n\r\n") + 4 - client->data));
    UNTIL(fixture.completes == 1);
    client_free(client);
}

/* Heads */

static size_t head_size;
static bool head_streams_body;
static coord_status head_status;

static void head_with_large_head(struct exchange *exchange)
{
    struct headers headers = text_headers();
    char *value = malloc(head_size + 1);

    memset(value, 'v', head_size);
    value[head_size] = '\0';
    assert_true(headers_add(&headers, coord_slice_of("X-Large"), (coord_slice){value, head_size}));
    free(value);
    if (!head_streams_body) {
        head_status = exchange_answer(exchange, 200, &headers, coord_slice_of("hello"));
        return;
    }
    head_status = exchange_begin(exchange, 200, &headers, -1);
    exchange_write(exchange, coord_slice_of("hello"));
    exchange_end(exchange);
}

enum { HEAD_BODY = 50000 };

static size_t large_head_request(char *request, size_t room, int fields, bool body)
{
    size_t size = (size_t)snprintf(request, room, "POST /?a&b&c HTTP/1.1\r\nHost: h\r\nCookie: a=b; c=d; e=f\r\n");

    for (int i = 0; i < fields; i++)
        size += (size_t)snprintf(request + size, room - size, "X-Field-Number-%d: some value\r\n", i);
    size += (size_t)snprintf(request + size, room - size, "Content-Length: %d\r\n\r\n", body ? HEAD_BODY : 0);
    if (body)
        memset(request + size, 'b', HEAD_BODY);
    return body ? size + HEAD_BODY : size;
}

static void a_head_that_does_not_fit_is_a_502_never_an_empty_close(void **state)
{
    static char request[HEAD_BODY + 8192];
    size_t largest = 0;

    (void)state;
    fixture.head = head_reads;
    fixture.body = head_with_large_head;
    for (int how = 0; how < 8; how++)
        for (head_size = 1000; head_size < 20000; head_size += 500) {
            struct client *client = client_new();
            size_t size = large_head_request(request, sizeof request, how & 1 ? 90 : 0, how & 2);

            head_streams_body = how & 4;
            head_status = 99;
            assert_true(client_send_bytes(client, request, size));
            UNTIL(client_has(client, head_status == COORD_LIMIT ? "fit" : "hello") || client_over(client));
            if (head_status == COORD_OK) {
                if (!client_has(client, "hello"))
                    fail_msg("how %d, size %zu: got %zu bytes", how, head_size, client->size);
                if (how == 0)
                    largest = head_size;
            } else {
                assert_int_equal(head_status, COORD_LIMIT);
                assert_true(client_has(client, "HTTP/1.1 502 "));
                assert_int_equal(fixture.refusal, EXCHANGE_HEAD_TOO_LARGE);
            }
            client_free(client);
        }
    print_message("  largest value that went out: %zu of %zu\n", largest, fixture.options.connection_memory);
    assert_true(largest > fixture.options.connection_memory / 2);
}

/* Work */

static void an_idle_server_causes_no_wake_ups(void **state)
{
    struct client *client, *stream;
    int64_t began;

    (void)state;
    fixture.options.read_timeout_ns = 60000 * MS;
    fixture.options.write_timeout_ns = 60000 * MS;
    restart_server();
    fixture.head = head_answers;
    client = client_ask(GET("/"), "hello");
    fixture.head = head_begins;
    stream = client_ask(GET("/"), "\r\n\r\n");
    for (int i = 0; i < 20; i++)
        turn();
    began = now_ns();
    reactor_turn(fixture.reactor, 300 * MS);
    assert_true(now_ns() - began >= 299 * MS);
    client_free(client);
    client_free(stream);
}

static void many_connections_at_once_are_all_served(void **state)
{
    enum { CLIENTS = 200 };
    struct client *clients[CLIENTS];

    (void)state;
    fixture.head = head_begins;
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = client_new();
    for (int i = 0; i < CLIENTS; i++)
        client_send(clients[i], GET("/"));
    UNTIL(fixture.heads == CLIENTS);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < CLIENTS; i++)
            write_text(fixture.kept[i], "event");
        turn();
    }
    for (int i = 0; i < CLIENTS; i++)
        exchange_end(fixture.kept[i]);
    for (int i = 0; i < CLIENTS; i++) {
        UNTIL(client_has(clients[i], "\r\n0\r\n\r\n"));
        client_free(clients[i]);
    }
    UNTIL(fixture.completes == CLIENTS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_whole_answer_arrives_in_one_piece, start, finish),
        cmocka_unit_test_setup_teardown(the_application_sees_the_head_as_it_was_sent, start, finish),
        cmocka_unit_test_setup_teardown(requests_of_one_connection_are_answered_in_order, start, finish),
        cmocka_unit_test_setup_teardown(header_fields_go_out_in_order_without_framing_fields, start, finish),
        cmocka_unit_test_setup_teardown(a_whole_answer_is_copied, start, finish),
        cmocka_unit_test_setup_teardown(an_answer_without_a_body_leaves_the_connection_in_step, start, finish),
        cmocka_unit_test_setup_teardown(an_answer_that_is_complete_in_its_turn_is_one_piece, start, finish),
        cmocka_unit_test_setup_teardown(so_is_one_that_is_given_later, start, finish),
        cmocka_unit_test_setup_teardown(a_stream_sends_its_head_at_once_and_each_event_as_a_chunk, start, finish),
        cmocka_unit_test_setup_teardown(known_length_is_kept_while_streaming, start, finish),
        cmocka_unit_test_setup_teardown(http10_gets_a_body_that_ends_with_the_connection, start, finish),
        cmocka_unit_test_setup_teardown(a_truncated_answer_never_ends_cleanly, start, finish),
        cmocka_unit_test_setup_teardown(a_second_answer_is_refused, start, finish),
        cmocka_unit_test_setup_teardown(a_slow_reader_bounds_what_is_queued, start, finish),
        cmocka_unit_test_setup_teardown(draining_is_told_even_when_all_bytes_are_out, start, finish),
        cmocka_unit_test_setup_teardown(a_large_whole_answer_arrives_whole, start, finish),
        cmocka_unit_test_setup_teardown(a_head_that_does_not_fit_is_a_502_never_an_empty_close, start, finish),
        cmocka_unit_test_setup_teardown(an_idle_server_causes_no_wake_ups, start, finish),
        cmocka_unit_test_setup_teardown(many_connections_at_once_are_all_served, start, finish),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
