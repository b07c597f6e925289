/* Every path that is no API of ours goes to the gateway as it is, streamed both ways. */
#include "harness.h"

#include <poll.h>
#include <stdatomic.h>
#include <strings.h>
#include <sys/socket.h>

static void every_method_target_and_body_passes(void **state)
{
    static const struct {
        const char *method, *target, *body;
    } rows[] = {
        {"GET", "/v1/models?x=%2F1&y", NULL},
        {"POST", "/tokenize", "\x01\x7f raw {"},
        {"PUT", "/a/b;c=1", "x"},
        {"PATCH", "/a", "{}"},
        {"DELETE", "/a/1", NULL},
        {"OPTIONS", "/a", NULL},
        {"PROPFIND", "/a", NULL},
        {"POST", "/empty", ""},
    };
    struct scripted *worker = scripted_start(&(struct scripted_options){0});

    (void)state;
    deploy(&(struct plan){.no_sim = true, .gateway_port = scripted_port(worker)});
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct received *got;

        assert_int_equal(fetch(rows[i].method, rows[i].target, "X-A: 1\r\nX-A: 2\r\n", rows[i].body)->answer.status,
                         200);
        got = scripted_find(worker, NULL, i);
        assert_string_equal(got->method, rows[i].method);
        assert_string_equal(got->target, rows[i].target);
        assert_string_equal(got->body.data, rows[i].body ? rows[i].body : "");
        assert_non_null(strstr(got->head, "1\r\n"));
        assert_non_null(strcasestr(got->head, "x-a: 1\r\nx-a: 2\r\n"));
    }
}

static void the_log_has_the_path_as_it_was_sent(void **state)
{
    struct scripted *worker = scripted_start(&(struct scripted_options){0});

    (void)state;
    deploy(&(struct plan){.no_sim = true, .gateway_port = scripted_port(worker)});
    assert_int_equal(fetch("GET", "/a//b/../c/?key=not-this", "", NULL)->answer.status, 200);
    UNTIL(strstr(process_log(&deployed.coordinator), "passthrough"));
    assert_contains(process_log(&deployed.coordinator), "path=/a//b/../c/ ");
    assert_lacks(process_log(&deployed.coordinator), "not-this");
}

static void hop_by_hop_fields_stay_behind(void **state)
{
    static const char *const gone[] = {"x-hop", "keep-alive", "te", "proxy-authorization", "upgrade-insecure"};
    struct scripted *worker = scripted_start(&(struct scripted_options){0});
    const char *head;

    (void)state;
    deploy(&(struct plan){.no_sim = true, .gateway_port = scripted_port(worker)});
    assert_int_equal(fetch("GET", "/x",
                           "Connection: X-Hop, keep-alive\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nTE: "
                           "trailers\r\nProxy-Authorization: a\r\nX-Stays: 1\r\n"
                           "X-LLM-D-EPP-Profile: prefill\r\nTrailer: X\r\n",
                           NULL)
                         ->answer.status,
                     200);
    head = scripted_find(worker, NULL, 0)->head;
    for (size_t i = 0; i < 4; i++)
        assert_null(header_in(head, gone[i], NULL));
    assert_string_equal(header_in(head, "x-stays", NULL), "1");
    assert_string_equal(header_in(head, "x-llm-d-epp-profile", NULL), "decode");
}

static void play_asked(struct stage *stage)
{
    const char *target = stage->request->target;

    if (strcmp(target, "/204") == 0)
        stage_say(stage, "HTTP/1.1 204 No Content\r\nX-A: 1\r\n\r\n");
    else if (strcmp(target, "/304") == 0)
        stage_say(stage, "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n");
    else if (strcmp(target, "/head") == 0)
        stage_say(stage, "HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n");
    else if (strcmp(target, "/head-chunked") == 0)
        stage_say(stage, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    else if (strcmp(target, "/302") == 0)
        stage_say(stage, "HTTP/1.1 302 Found\r\nLocation: http://elsewhere/\r\nContent-Length: 0\r\n\r\n");
    else if (strcmp(target, "/100") == 0)
        stage_say(stage, "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    else if (strcmp(target, "/hop") == 0)
        stage_say(
            stage,
            "HTTP/1.1 200 OK\r\nConnection: X-Hop\r\nX-Hop: 1\r\nX-Request-Id: worker\r\nContent-Length: 2\r\n\r\nok");
    else if (strcmp(target, "/gzip") == 0)
        stage_say(stage, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd");
    else
        stage_default(stage);
}

static void answers_without_a_body_keep_the_connection_in_step(void **state)
{
    static const struct {
        const char *method, *target;
        int status;
    } rows[] = {{"GET", "/204", 204}, {"GET", "/304", 304}, {"HEAD", "/head", 200}, {"HEAD", "/head-chunked", 200},
                {"GET", "/302", 302}, {"GET", "/100", 200}, {"GET", "/hop", 200},   {"GET", "/gzip", 200}};
    struct client *client;

    (void)state;
    deploy(
        &(struct plan){.no_sim = true,
                       .gateway_port = scripted_port(scripted_start(&(struct scripted_options){.other = play_asked}))});
    client = client_open(deployed.port);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        client_say(client, "%s %s HTTP/1.1\r\nHost: c\r\nX-Request-Id: mine\r\nAccept-Encoding: gzip\r\n\r\n",
                   rows[i].method, rows[i].target);
        if (rows[i].method[0] == 'H')
            client_expect_no_body(client);
        if (!client_read(client, PATIENCE_MS))
            fail_msg("%s %s: not whole: %s", rows[i].method, rows[i].target,
                     client->answer.head ? client->answer.head : "nothing");
        assert_int_equal(client->answer.status, rows[i].status);
        assert_string_equal(answer_header(client, "x-request-id"), "mine");
        assert_null(answer_header(client, "x-hop"));
        if (rows[i].status == 302)
            assert_string_equal(answer_header(client, "location"), "http://elsewhere/");
        if (strcmp(rows[i].target, "/gzip") == 0) {
            assert_string_equal(answer_header(client, "content-encoding"), "gzip");
            assert_same_bytes(text_span(&client->answer.body), span_of("abcd"));
        }
        if (strcmp(rows[i].target, "/head") == 0)
            assert_int_equal(client->answer.length, 1234);
        if (answer_header(client, "connection")) { /* the library closes after some, and must say so */
            assert_true(client_wait_closed(client, 5000));
            client = client_open(deployed.port);
        }
    }
}

enum { UPLOAD = 8 << 20 };

static char upload_byte(size_t at) { return (char)('a' + at * 7 % 26 + at / 65536 % 3); }

static void read_slowly(struct stage *stage)
{
    stage_wait_gate(stage, PATIENCE_MS);
    stage_read_body(stage, SIZE_MAX);
    stage_json(stage, 200, "", "{}");
}

static void an_upload_is_streamed_and_held_back_by_a_slow_worker(void **state)
{
    struct scripted *worker = scripted_start(&(struct scripted_options){.other = read_slowly, .before_body = true});
    const struct received *got;
    char *body = malloc(UPLOAD);
    struct client *client;
    size_t sent = 0, rss, more = 1;

    (void)state;
    for (size_t i = 0; i < UPLOAD; i++)
        body[i] = upload_byte(i);
    deploy(&(struct plan){.no_sim = true, .gateway_port = scripted_port(worker)});
    client = client_open(deployed.port);
    rss = process_rss_kib(&deployed.coordinator);
    client_say(client, "POST /upload HTTP/1.1\r\nHost: c\r\nContent-Length: %d\r\n\r\n", UPLOAD);
    client_send(client, body, 1000);
    sent = 1000;
    UNTIL((got = scripted_find(worker, "other", 0)) != NULL); /* the head is there before the body has ended */
    for (int idle = 0; sent < UPLOAD && idle < 50;) {
        more = client_try_send(client, body + sent, UPLOAD - sent);
        sent += more;
        idle = more ? 0 : idle + 1;
        pause_ms(2);
    }
    assert_true(process_rss_kib(&deployed.coordinator) < rss + 4096);
    scripted_open_gate(worker);
    assert_true(client_send(client, body + sent, UPLOAD - sent));
    assert_true(client_read(client, PATIENCE_MS));
    assert_int_equal(client->answer.status, 200);
    assert_same_bytes(text_span(&got->body), ((struct span){body, UPLOAD}));
    free(body);
}

static void a_chunked_upload_arrives_whole(void **state)
{
    struct scripted *worker = scripted_start(&(struct scripted_options){0});
    struct text body = {0}, wire = {0};
    struct client *client;

    (void)state;
    deploy(&(struct plan){.no_sim = true, .gateway_port = scripted_port(worker)});
    for (size_t i = 1; i < 600; i++) {
        text_printf(&wire, "%zx\r\n", i);
        for (size_t j = 0; j < i; j++) {
            char byte = upload_byte(body.size);

            text_add(&body, &byte, 1);
            text_add(&wire, &byte, 1);
        }
        text_add(&wire, "\r\n", 2);
    }
    text_add(&wire, "0\r\n\r\n", 5);
    client = client_open(deployed.port);
    client_say(client, "PUT /upload HTTP/1.1\r\nHost: c\r\nTransfer-Encoding: chunked\r\n\r\n");
    client_send(client, wire.data, wire.size);
    assert_true(client_read(client, PATIENCE_MS));
    assert_int_equal(client->answer.status, 200);
    assert_same_bytes(text_span(&scripted_find(worker, "other", 0)->body), text_span(&body));
    text_free(&body);
    text_free(&wire);
}

static char early_body[300000];

static void answer_early(struct stage *stage)
{
    size_t size = strcmp(stage->request->target, "/large") == 0 ? sizeof early_body : 30;

    stage_say(stage, "HTTP/1.1 413 Too Large\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\n\r\n", size);
    stage_send(stage, early_body, size);
    if (strcmp(stage->request->target, "/large") == 0)
        stage_read_body(stage, SIZE_MAX);
    stage->hang_up = true;
}

static void an_early_answer_to_an_upload_reaches_the_client(void **state)
{
    struct scripted *worker;
    struct client *client;
    char *body = calloc(1, UPLOAD);

    (void)state;
    assert_non_null(body);
    memset(early_body, 'e', sizeof early_body);
    worker = scripted_start(&(struct scripted_options){.other = answer_early, .before_body = true});
    deploy(&(struct plan){.no_sim = true, .gateway_port = scripted_port(worker)});
    client = client_open(deployed.port);
    client_say(client, "POST /small HTTP/1.1\r\nHost: c\r\nContent-Length: %d\r\n\r\nabc", UPLOAD);
    assert_true(client_read(client, PATIENCE_MS)); /* while the upload stands still */
    assert_int_equal(client->answer.status, 413);
    assert_same_bytes(text_span(&client->answer.body), ((struct span){early_body, 30}));
    client = client_open(deployed.port);
    client_say(client, "POST /large HTTP/1.1\r\nHost: c\r\nContent-Length: %d\r\n\r\n", UPLOAD);
    assert_true(client_send(client, body, UPLOAD));
    assert_true(client_read(client, PATIENCE_MS));
    assert_int_equal(client->answer.status, 413);
    assert_same_bytes(text_span(&client->answer.body), ((struct span){early_body, sizeof early_body}));
    free(body);
}

static char taken[2 * UPLOAD];
static atomic_int torn_uploads; /* that were ended as if they were whole */

/* It reads on when all of its answer is out. */
static void answer_large_and_read(struct stage *stage)
{
    struct pollfd waited = {.fd = stage->fd, .events = POLLIN};
    size_t size = 0;
    ssize_t got;

    stage_say(stage, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", sizeof early_body);
    stage_send(stage, early_body, sizeof early_body);
    while (size < sizeof taken && poll(&waited, 1, 500) == 1 &&
           (got = recv(stage->fd, taken + size, sizeof taken - size, 0)) > 0)
        size += (size_t)got;
    torn_uploads += size >= 5 && size < UPLOAD && memcmp(taken + size - 5, "0\r\n\r\n", 5) == 0;
    stage->hang_up = true;
}

/* What of the upload has no place while such an answer waits is thrown away: the worker must not take the rest for the whole. */
static void an_upload_that_a_large_early_answer_has_torn_is_not_ended(void **state)
{
    static const char *const framings[] = {"Transfer-Encoding: chunked", "Content-Length: 8388608"};

    (void)state;
    for (size_t f = 0; f < 2; f++) {
        struct scripted *worker =
            scripted_start(&(struct scripted_options){.other = answer_large_and_read, .before_body = true});
        char *body = calloc(1, UPLOAD);
        struct client *client;

        assert_non_null(body);
        memset(early_body, 'e', sizeof early_body);
        torn_uploads = 0;
        deploy(&(struct plan){.no_sim = true, .gateway_port = scripted_port(worker)});
        client = client_open(deployed.port);
        client_say(client, "POST /x HTTP/1.1\r\nHost: c\r\n%s\r\n\r\n%s", framings[f], f == 0 ? "800000\r\n" : "");
        assert_true(client_send(client, body, UPLOAD / 2));
        pause_ms(50); /* meanwhile the answer comes */
        assert_true(client_send(client, body + UPLOAD / 2, UPLOAD / 2));
        if (f == 0)
            client_say(client, "\r\n0\r\n\r\n");
        assert_true(client_read(client, PATIENCE_MS)); /* over libcurl the answer is given up */
        if (client->answer.status == 200)
            assert_same_bytes(text_span(&client->answer.body), ((struct span){early_body, sizeof early_body}));
        else
            assert_int_equal(client->answer.status, 500);
        assert_int_equal(torn_uploads, 0);
        free(body);
    }
}

/* A worker that says 200 at once and reads on: its answer tells what it got. */
static void head_first(struct stage *stage)
{
    stage_say(stage, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    stage_chunk(stage, "begun ", 6);
    if (stage_read_body(stage, SIZE_MAX))
        stage_chunk(stage, "ended", 5);
    stage_last_chunk(stage);
}

static void a_worker_may_begin_its_answer_before_it_has_the_whole_upload(void **state)
{
    struct scripted *worker = scripted_start(&(struct scripted_options){.other = head_first, .before_body = true});
    struct client *client;
    char *body = malloc(UPLOAD);

    (void)state;
    for (size_t i = 0; i < UPLOAD; i++)
        body[i] = upload_byte(i);
    deploy(&(struct plan){.no_sim = true, .gateway_port = scripted_port(worker)});
    client = client_open(deployed.port);
    client_say(client, "POST /x HTTP/1.1\r\nHost: c\r\nContent-Length: %d\r\n\r\n", UPLOAD);
    client_send(client, body, 1000);
    UNTIL(scripted_find(worker, "other", 0) != NULL);
    pause_ms(50);
    assert_true(client_send(client, body + 1000, UPLOAD - 1000));
    assert_true(client_read(client, PATIENCE_MS));
    assert_same_bytes(text_span(&client->answer.body), span_of("begun ended"));
    assert_same_bytes(text_span(&scripted_find(worker, "other", 0)->body), ((struct span){body, UPLOAD}));
    free(body);
}

static void cut_in_the_middle(struct stage *stage)
{
    stage_say(stage, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc");
    stage->hang_up = true;
}

static void a_broken_answer_is_cut_for_the_client_too(void **state)
{
    struct client *client;

    (void)state;
    deploy(&(struct plan){.no_sim = true,
                          .gateway_port =
                              scripted_port(scripted_start(&(struct scripted_options){.other = cut_in_the_middle}))});
    client = fetch("GET", "/x", "", NULL);
    assert_int_equal(client->answer.status, 200);
    assert_false(client->answer.whole);
    assert_true(client->answer.closed);
    assert_int_equal(fetch("GET", "/healthz", "", NULL)->answer.status, 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_method_target_and_body_passes),
        TEST(the_log_has_the_path_as_it_was_sent),
        TEST(hop_by_hop_fields_stay_behind),
        TEST(answers_without_a_body_keep_the_connection_in_step),
        TEST(an_upload_is_streamed_and_held_back_by_a_slow_worker),
        TEST(a_chunked_upload_arrives_whole),
        TEST(an_early_answer_to_an_upload_reaches_the_client),
        TEST(an_upload_that_a_large_early_answer_has_torn_is_not_ended),
        TEST(a_worker_may_begin_its_answer_before_it_has_the_whole_upload),
        TEST(a_broken_answer_is_cut_for_the_client_too),
    };

    return harness_run(tests);
}
