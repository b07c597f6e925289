/* Unit test of the HTTP server: clients that leave, stall or trickle, a server that drains or stops, and limits of the system. */
#include "server_fixture.h"

#include <fcntl.h>
#include <sys/resource.h>

static void settle(void)
{
    for (int i = 0; i < 20; i++)
        turn();
}

static void two_turns(void)
{
    turn();
    turn();
}

/* Clients that leave */

static void head_streams_and_waits(struct exchange *exchange) { exchange_stream_body(exchange); }

static size_t take_nothing(struct exchange *exchange, coord_slice piece, bool last)
{
    (void)exchange;
    (void)piece;
    (void)last;
    return 0;
}

static void head_begins_one_event(struct exchange *exchange)
{
    head_begins(exchange);
    write_text(exchange, "event");
}

/* More than the system takes. */
static void head_begins_a_flood(struct exchange *exchange)
{
    size_t size = 16 << 20;
    char *flood = malloc(size);

    memset(flood, 'f', size);
    head_begins(exchange);
    exchange_write(exchange, (coord_slice){flood, size});
    free(flood);
}

static void a_client_that_leaves_is_noticed_at_once_wherever_it_stands(void **state)
{
    static const struct {
        const char *name;
        void (*head)(struct exchange *exchange);
        const char *request;
    } rows[] = {
        {"waiting for an answer", head_holds, GET("/")},
        {"in the midst of its upload", head_reads, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nabc"},
        {"its upload held back", head_streams_and_waits, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nabc"},
        {"after the head of a stream", head_begins, GET("/")},
        {"after an event", head_begins_one_event, GET("/")},
        {"with output that it did not take", head_begins_a_flood, GET("/")},
        {"answering a body", head_reads, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc"},
    };

    (void)state;
    fixture.upload = take_nothing;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int how = 0; how < 3; how++) {
            struct client *client = client_new();

            print_message("  %s, %s\n", rows[i].name, how == 0 ? "FIN" : how == 1 ? "half-close" : "RST");
            fixture.head = rows[i].head;
            fixture.gones = fixture.dones = 0;
            client_send(client, rows[i].request);
            UNTIL(fixture.kept_count == 1);
            settle();
            assert_int_equal(fixture.gones, 0);
            if (how == 0) {
                close(client->fd);
                client->fd = -1;
            } else if (how == 1) {
                shutdown(client->fd, SHUT_WR);
            } else {
                client_reset(client);
            }
            two_turns();
            assert_int_equal(fixture.gones, 1);
            assert_int_equal(fixture.gone_reason, EXCHANGE_CLIENT_CLOSED);
            UNTIL(fixture.dones == 1);
            UNTIL(connections() == 0);
            client_free(client);
        }
    assert_int_equal(fixture.completes, 0);
}

static void a_half_closed_client_is_served_if_asked_for(void **state)
{
    struct client *client;

    (void)state;
    fixture.options.keep_half_closed = true;
    restart_server();
    fixture.head = head_holds;
    client = client_new();
    client_send(client, GET("/"));
    shutdown(client->fd, SHUT_WR);
    UNTIL(fixture.heads == 1);
    settle();
    assert_int_equal(fixture.gones, 0);
    answer_text(fixture.kept[0], 200, "hello");
    UNTIL(client_has(client, "hello"));
    UNTIL(client_over(client));
    assert_true(client->ended);
    client_free(client);
    UNTIL(connections() == 0);

    client = client_new();
    client_send(client, GET("/"));
    UNTIL(fixture.heads == 2);
    client_reset(client);
    UNTIL(fixture.gones == 1);
    client_free(client);
}

static void half_closing_after_a_request_that_is_answered_at_once_is_no_loss(void **state)
{
    struct client *client = client_new();

    (void)state;
    fixture.head = head_answers;
    client_send(client, GET("/") GET("/"));
    shutdown(client->fd, SHUT_WR);
    UNTIL(client_over(client));
    assert_true(client->ended);
    assert_non_null(strstr(client->data, "hello"));
    assert_int_equal(fixture.gones, 0);
    UNTIL(connections() == 0);
    client_free(client);
}

static void head_answers_the_first(struct exchange *exchange)
{
    if (fixture.heads == 1)
        answer_text(exchange, 200, "hello");
    else
        exchange_hold(exchange);
}

static void a_request_behind_which_the_client_left_is_not_worked_on(void **state)
{
    struct client *client = client_new();

    (void)state;
    fixture.head = head_answers_the_first;
    client_send(client, GET("/") GET("/") GET("/"));
    shutdown(client->fd, SHUT_WR);
    UNTIL(fixture.dones == 2);
    assert_string_equal(fixture.log, "head done head gone undone");
    UNTIL(client_over(client));
    UNTIL(connections() == 0);
    client_free(client);
}

static void half_a_head_and_a_fin_is_nothing(void **state)
{
    static const char *const texts[] = {"", "GE", "GET / HTTP/1.1\r\nHo", "GET / HTTP/1.1\r\nHost: h\r\n"};

    (void)state;
    fixture.head = head_answers;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct client *client = client_new();

        client_send(client, texts[i]);
        settle();
        shutdown(client->fd, SHUT_WR);
        UNTIL(connections() == 0);
        client_free(client);
    }
    assert_string_equal(fixture.log, "");
}

static struct {
    struct arena arena;
    struct headers headers;
    coord_slice target;
} kept;

static void head_is_taken_over(struct exchange *exchange)
{
    kept.target = exchange_target(exchange);
    assert_true(exchange_hand_over(exchange, &kept.arena, &kept.headers));
    assert_ptr_equal(exchange_headers(exchange)->list, kept.headers.list);
    exchange_hold(exchange);
}

static void a_head_that_was_taken_over_outlives_the_client(void **state)
{
    struct client *client = client_new();

    (void)state;
    fixture.head = head_is_taken_over;
    client_send(client, "GET /some/where HTTP/1.1\r\nHost: h\r\nX-Long: 1234567890\r\nEmpty:\r\n\r\n");
    UNTIL(fixture.heads == 1);
    client_free(client);
    UNTIL(fixture.dones == 1 && connections() == 0);
    fixture.head = head_answers;
    client_free(client_ask(GET("/other"), "hello"));
    assert_true(coord_slice_is(kept.target, "/some/where"));
    assert_int_equal(kept.headers.count, 3);
    assert_true(coord_slice_is(kept.headers.list[1].name, "X-Long"));
    assert_true(coord_slice_is(kept.headers.list[1].value, "1234567890"));
    assert_true(headers_add(&kept.headers, coord_slice_of("one"), coord_slice_of("more")));
    arena_release(&kept.arena);
}

static void nothing_is_done_for_who_is_gone(void **state)
{
    struct client *client = client_new();
    struct headers headers;
    struct exchange *exchange;

    (void)state;
    headers_init(&headers, &fixture.arena);
    fixture.head = head_holds;
    client_send(client, GET("/"));
    UNTIL(fixture.heads == 1);
    exchange = fixture.kept[0];
    client_free(client);
    while (fixture.gones == 0)
        turn();
    if (fixture.dones == 0) {
        assert_int_equal(exchange_begin(exchange, 200, &headers, -1), COORD_STATE);
        assert_int_equal(exchange_answer(exchange, 200, &headers, coord_slice_of("x")), COORD_STATE);
        assert_int_equal(exchange_write(exchange, coord_slice_of("x")), 0);
        exchange_end(exchange);
        exchange_abort(exchange);
    }
    UNTIL(fixture.dones == 1);
    assert_string_equal(fixture.log, "head gone undone");
}

/* Clients that stall */

static void trickle(const char *first, unsigned turns_between)
{
    struct client *client = client_new();
    int64_t began = now_ns();

    if (first[0])
        client_send(client, first);
    while (!client_over(client)) {
        for (unsigned i = 0; i < turns_between; i++)
            turn();
        if (first[0])
            send(client->fd, "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        assert_true(now_ns() - began < 2000 * MS);
    }
    assert_true(now_ns() - began >= 90 * MS);
    assert_int_equal(client->size, 0);
    client_free(client);
}

static void a_head_has_to_come_in_time(void **state)
{
    (void)state;
    fixture.options.read_timeout_ns = 100 * MS;
    restart_server();
    fixture.head = head_answers;
    trickle("", 5);
    trickle("G", 5);
    trickle("GET / HTTP/1.1\r\nHost: h\r\nX: ", 5);
    assert_string_equal(fixture.log, "");
}

static void an_idle_connection_is_closed(void **state)
{
    struct client *client;
    int64_t began;

    (void)state;
    fixture.options.read_timeout_ns = 100 * MS;
    restart_server();
    fixture.head = head_answers;
    client = client_ask(GET("/"), "hello");
    began = now_ns();
    UNTIL(client_over(client));
    assert_true(client->ended);
    assert_true(now_ns() - began > 80 * MS && now_ns() - began < 1000 * MS);
    client_free(client);
}

static void a_body_has_to_come_in_time_or_is_a_408(void **state)
{
    struct client *client;

    (void)state;
    fixture.options.read_timeout_ns = 100 * MS;
    restart_server();
    fixture.head = head_reads;
    client = client_new();
    client_send(client, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n");
    while (!client_over(client)) { /* byte by byte: it is not about inactivity */
        send(client->fd, "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        turn();
    }
    assert_true(client->ended);
    assert_memory_equal(client->data, "HTTP/1.1 408 ", 13);
    assert_true(client_has(client, "in time\"}"));
    assert_int_equal(fixture.refusal, EXCHANGE_BODY_TIMEOUT);
    UNTIL(fixture.dones == 1);
    assert_string_equal(fixture.log, "head done");
    client_free(client);
}

static void working_and_streaming_have_no_time_limit(void **state)
{
    struct client *client;
    int64_t began = now_ns();

    (void)state;
    fixture.options.read_timeout_ns = 30 * MS;
    fixture.options.write_timeout_ns = 30 * MS;
    restart_server();
    fixture.head = head_holds;
    client = client_new();
    client_send(client, GET("/"));
    while (now_ns() - began < 200 * MS)
        turn();
    begin_text(fixture.kept[0], -1);
    while (now_ns() - began < 400 * MS)
        turn();
    write_text(fixture.kept[0], "hello");
    while (now_ns() - began < 600 * MS)
        turn();
    exchange_end(fixture.kept[0]);
    UNTIL(client_has(client, "hello\r\n0\r\n\r\n"));
    assert_int_equal(fixture.gones, 0);
    client_free(client);
}

static void flood_answers(struct exchange *exchange)
{
    size_t size = 16 << 20;
    char *flood = malloc(size);

    memset(flood, 'f', size);
    assert_int_equal(exchange_answer(exchange, 200, NULL, (coord_slice){flood, size}), COORD_OK);
    free(flood);
}

static void a_client_that_takes_nothing_is_given_up(void **state)
{
    static void (*const heads[])(struct exchange *exchange) = {head_begins_a_flood, flood_answers};

    (void)state;
    fixture.options.write_timeout_ns = 200 * MS;
    restart_server();
    for (size_t i = 0; i < 2; i++) {
        struct client *client = client_new();
        int64_t began = now_ns();

        fixture.head = heads[i];
        fixture.gones = fixture.dones = 0;
        client_send(client, GET("/"));
        UNTIL(fixture.gones == 1);
        assert_int_equal(fixture.gone_reason, EXCHANGE_WRITE_TIMEOUT);
        assert_true(now_ns() - began >= 190 * MS);
        UNTIL(fixture.dones == 1);
        UNTIL(connections() == 0);
        client_free(client);
    }
    assert_int_equal(fixture.completes, 0);
}

static void times_and_half_closing_may_change_while_it_runs(void **state)
{
    struct server_options options = fixture.options;
    struct client *slow, *half;
    int64_t began;

    (void)state;
    options.write_timeout_ns = 200 * MS;
    options.keep_half_closed = true;
    server_adjust(fixture.server, &options);
    fixture.head = head_begins_a_flood;
    slow = client_new();
    began = now_ns();
    client_send(slow, GET("/"));
    UNTIL(fixture.gones == 1);
    assert_int_equal(fixture.gone_reason, EXCHANGE_WRITE_TIMEOUT);
    assert_true(now_ns() - began >= 190 * MS);
    client_free(slow);

    fixture.head = head_holds;
    half = client_new();
    client_send(half, GET("/"));
    shutdown(half->fd, SHUT_WR);
    UNTIL(fixture.heads == 2);
    settle();
    assert_int_equal(fixture.gones, 1);
    answer_text(fixture.kept[0], 200, "hello");
    UNTIL(client_has(half, "hello"));
    client_free(half);
    UNTIL(connections() == 0);
}

static void a_client_that_takes_little_is_kept(void **state)
{
    struct client *client;
    int64_t began = now_ns();
    int small = 131072;

    (void)state;
    fixture.options.write_timeout_ns = 200 * MS;
    restart_server();
    fixture.head = flood_answers;
    client = client_new();
    setsockopt(client->fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    client_send(client, GET("/"));
    while (now_ns() - began < 1000 * MS) {
        for (int i = 0; i < 10; i++)
            turn();
        client_read(client);
        client_forget(client);
    }
    assert_int_equal(fixture.gones, 0);
    client_free(client);
}

/* Servers that end */

static void draining_serves_what_is_queued_and_closes_what_is_idle(void **state)
{
    struct client *idle, *running, *queued, *announced;

    (void)state;
    fixture.head = head_answers;
    idle = client_ask(GET("/"), "hello");
    server_announce_close(fixture.server);
    announced = client_ask(GET("/"), "hello");
    assert_true(client_has(announced, "Connection: close\r\n"));
    UNTIL(client_over(announced));
    fixture.head = head_begins_one_event;
    running = client_ask(GET("/"), "event");
    queued = client_new();
    client_send(queued, GET("/"));
    server_close_listener(fixture.server);
    UNTIL(client_over(idle));
    assert_true(idle->ended);
    UNTIL(client_has(queued, "event"));
    assert_true(client_has(queued, "Connection: close\r\n"));
    settle();
    for (int i = 0; i < 2; i++)
        exchange_end(fixture.kept[i]);
    UNTIL(client_has(running, "0\r\n\r\n") && client_over(running));
    UNTIL(client_has(queued, "0\r\n\r\n") && client_over(queued));
    UNTIL(server_exchanges(fixture.server) == 0);
    assert_int_equal(fixture.gones, 0);
    client_free(idle);
    client_free(running);
    client_free(queued);
    client_free(announced);
}

static void stopping_cuts_everything(void **state)
{
    static const struct {
        void (*head)(struct exchange *exchange);
        const char *request;
    } rows[] = {
        {head_holds, GET("/")},
        {head_begins_one_event, GET("/")},
        {head_begins_a_flood, GET("/")},
        {head_reads, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nabc"},
        {head_streams_and_waits, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nabc"},
        {head_answers, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nabc"}, /* lingers */
        {head_answers, "GET / HTTP/1.1\r\nHos"},
        {head_answers, ""},
    };
    enum { ROWS = sizeof rows / sizeof *rows };
    struct client *clients[ROWS];

    (void)state;
    fixture.upload = take_nothing;
    for (int i = 0; i < ROWS; i++) {
        fixture.head = rows[i].head;
        clients[i] = client_new();
        client_send(clients[i], rows[i].request);
        settle();
    }
    assert_int_equal(server_exchanges(fixture.server), 5);
    server_abort_all(fixture.server);
    UNTIL(server_connections(fixture.server) == 0);
    assert_int_equal(server_exchanges(fixture.server), 0);
    assert_int_equal(fixture.gones, 5);
    assert_int_equal(fixture.gone_reason, EXCHANGE_SERVER_STOPPED);
    for (int i = 0; i < ROWS; i++)
        client_free(clients[i]);
}

/* Limits of the system */

static void running_out_of_descriptors_neither_spins_nor_deafens(void **state)
{
    struct rlimit usual, low;
    struct client *client;
    int next, turns = 0;
    int64_t began;

    (void)state;
    if (getenv("LD_PRELOAD") && strstr(getenv("LD_PRELOAD"), "vgpreload")) {
        print_message("SKIP: valgrind keeps the limit by closing what the system has accepted\n");
        skip();
    }
    fixture.head = head_answers;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &usual), 0);
    client = client_new();
    next = fcntl(0, F_DUPFD, 3);
    close(next);
    low = usual;
    low.rlim_cur = (rlim_t)next;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    client_send(client, GET("/"));
    for (began = now_ns(); now_ns() - began < 500 * MS; turns++)
        reactor_turn(fixture.reactor, 50 * MS);
    assert_true(turns < 40);
    assert_int_equal(connections(), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &usual), 0);
    UNTIL(client_has(client, "hello"));
    client_free(client);
}

static void above_the_connection_limit_clients_wait(void **state)
{
    struct client *first, *second;

    (void)state;
    fixture.options.connection_limit = 2; /* one is the decoy */
    restart_server();
    fixture.head = head_answers;
    first = client_ask(GET("/"), "hello");
    second = client_new();
    client_send(second, GET("/"));
    settle();
    client_read(second);
    assert_int_equal(second->size, 0);
    assert_false(second->ended || second->reset);
    client_free(first);
    UNTIL(client_has(second, "hello"));
    client_free(second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_client_that_leaves_is_noticed_at_once_wherever_it_stands, start, finish),
        cmocka_unit_test_setup_teardown(a_half_closed_client_is_served_if_asked_for, start, finish),
        cmocka_unit_test_setup_teardown(half_closing_after_a_request_that_is_answered_at_once_is_no_loss, start,
                                        finish),
        cmocka_unit_test_setup_teardown(a_request_behind_which_the_client_left_is_not_worked_on, start, finish),
        cmocka_unit_test_setup_teardown(half_a_head_and_a_fin_is_nothing, start, finish),
        cmocka_unit_test_setup_teardown(a_head_that_was_taken_over_outlives_the_client, start, finish),
        cmocka_unit_test_setup_teardown(nothing_is_done_for_who_is_gone, start, finish),
        cmocka_unit_test_setup_teardown(a_head_has_to_come_in_time, start, finish),
        cmocka_unit_test_setup_teardown(an_idle_connection_is_closed, start, finish),
        cmocka_unit_test_setup_teardown(a_body_has_to_come_in_time_or_is_a_408, start, finish),
        cmocka_unit_test_setup_teardown(working_and_streaming_have_no_time_limit, start, finish),
        cmocka_unit_test_setup_teardown(a_client_that_takes_nothing_is_given_up, start, finish),
        cmocka_unit_test_setup_teardown(times_and_half_closing_may_change_while_it_runs, start, finish),
        cmocka_unit_test_setup_teardown(a_client_that_takes_little_is_kept, start, finish),
        cmocka_unit_test_setup_teardown(draining_serves_what_is_queued_and_closes_what_is_idle, start, finish),
        cmocka_unit_test_setup_teardown(stopping_cuts_everything, start, finish),
        cmocka_unit_test_setup_teardown(running_out_of_descriptors_neither_spins_nor_deafens, start, finish),
        cmocka_unit_test_setup_teardown(above_the_connection_limit_clients_wait, start, finish),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
