/* Unit test of TLS serving: names, handshakes, reloads, answers past the library, and two reactors with one identity. */
#include "server_fixture.h"

#include "http/tls.h"

#include <fcntl.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <pthread.h>
#include <sys/stat.h>

static struct tls_identity *identity;
static char directory[] = "/tmp/test_tls_XXXXXX";

/* Certificates */

static void write_file(const char *name, const gnutls_datum_t *data)
{
    char path[128], temporary[128];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", directory, name);
    snprintf(temporary, sizeof temporary, "%s/new", directory);
    file = fopen(temporary, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(data->data, 1, data->size, file), data->size);
    fclose(file);
    assert_int_equal(rename(temporary, path), 0);
}

/* A certificate for `name`, and its key. */
static void write_pair(const char *name, bool key_too)
{
    gnutls_x509_crt_t certificate;
    gnutls_x509_privkey_t key;
    gnutls_datum_t out;

    gnutls_x509_crt_init(&certificate);
    gnutls_x509_privkey_init(&key);
    assert_int_equal(
        gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0), 0);
    gnutls_x509_crt_set_version(certificate, 3);
    gnutls_x509_crt_set_key(certificate, key);
    gnutls_x509_crt_set_serial(certificate, "\x01", 1);
    gnutls_x509_crt_set_dn_by_oid(certificate, GNUTLS_OID_X520_COMMON_NAME, 0, name, (unsigned)strlen(name));
    gnutls_x509_crt_set_activation_time(certificate, time(NULL) - 60);
    gnutls_x509_crt_set_expiration_time(certificate, time(NULL) + 3600);
    assert_int_equal(gnutls_x509_crt_sign2(certificate, certificate, key, GNUTLS_DIG_SHA256, 0), 0);
    assert_int_equal(gnutls_x509_crt_export2(certificate, GNUTLS_X509_FMT_PEM, &out), 0);
    write_file("tls.crt", &out);
    gnutls_free(out.data);
    assert_int_equal(gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &out), 0);
    if (key_too)
        write_file("tls.key", &out);
    gnutls_free(out.data);
    gnutls_x509_privkey_deinit(key);
    gnutls_x509_crt_deinit(certificate);
}

/* Clients */

struct secure {
    struct client *client;
    gnutls_session_t session;
    gnutls_certificate_credentials_t credentials;
};

static int handshake(struct secure *secure, const char *priorities)
{
    int64_t deadline = now_ns() + PATIENCE;
    int result;

    secure->client = client_new();
    gnutls_init(&secure->session, GNUTLS_CLIENT | GNUTLS_NONBLOCK);
    assert_int_equal(gnutls_priority_set_direct(secure->session, priorities, NULL), 0);
    gnutls_certificate_allocate_credentials(&secure->credentials);
    gnutls_credentials_set(secure->session, GNUTLS_CRD_CERTIFICATE, secure->credentials);
    gnutls_transport_set_int(secure->session, secure->client->fd);
    fcntl(secure->client->fd, F_SETFL, O_NONBLOCK);
    while ((result = gnutls_handshake(secure->session)) < 0 && !gnutls_error_is_fatal(result)) {
        assert_true(now_ns() < deadline);
        turn();
    }
    return result;
}

static void secure_free(struct secure *secure)
{
    gnutls_deinit(secure->session);
    gnutls_certificate_free_credentials(secure->credentials);
    client_free(secure->client);
}

static bool secure_send(struct secure *secure, const char *data, size_t size)
{
    int64_t deadline = now_ns() + PATIENCE;

    while (size > 0) {
        ssize_t sent = gnutls_record_send(secure->session, data, size);

        assert_true(now_ns() < deadline);
        if (sent < 0 && gnutls_error_is_fatal((int)sent))
            return false;
        if (sent < 0)
            turn();
        data += sent > 0 ? sent : 0;
        size -= sent > 0 ? (size_t)sent : 0;
    }
    return true;
}

static bool secure_has(struct secure *secure, const char *text)
{
    struct client *client = secure->client;
    ssize_t got = gnutls_record_recv(secure->session, client->data + client->size, CLIENT_ROOM - client->size);

    if (got > 0)
        client->size += (size_t)got;
    client->ended = client->ended || got == 0;
    client->reset = client->reset || (got < 0 && gnutls_error_is_fatal((int)got));
    return memmem(client->data, client->size, text, strlen(text)) != NULL;
}

static void common_name(struct secure *secure, char *name, size_t size)
{
    unsigned count;
    const gnutls_datum_t *peers = gnutls_certificate_get_peers(secure->session, &count);
    gnutls_x509_crt_t certificate;

    assert_non_null(peers);
    gnutls_x509_crt_init(&certificate);
    assert_int_equal(gnutls_x509_crt_import(certificate, &peers[0], GNUTLS_X509_FMT_DER), 0);
    name[0] = '\0';
    gnutls_x509_crt_get_dn_by_oid(certificate, GNUTLS_OID_X520_COMMON_NAME, 0, 0, name, &size);
    gnutls_x509_crt_deinit(certificate);
}

static void serve(const struct tls_options *options)
{
    struct buffer reason = {0};

    assert_int_equal(tls_identity_new(options, &identity, &reason), COORD_OK);
    fixture.options.tls = identity;
    restart_server();
}

static int finish_tls(void **state)
{
    stop_server();
    tls_identity_free(identity);
    identity = NULL;
    return finish(state);
}

/* Tests */

static void names_are_checked(void **state)
{
    const coord_slice good[] = {
        COORD_SLICE("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"), COORD_SLICE("TLS_AES_128_GCM_SHA256"),
        COORD_SLICE("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305"), COORD_SLICE("TLS_RSA_WITH_RC4_128_SHA")};
    const coord_slice bad[] = {COORD_SLICE("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"), COORD_SLICE("TLS_NONE")};
    struct buffer reason = {0};

    (void)state;
    assert_int_equal(tls_check_names(&(struct tls_options){.suites = good, .suite_count = 4}, &reason), COORD_OK);
    assert_int_equal(tls_check_names(&(struct tls_options){.min_version = COORD_SLICE("VersionTLS10")}, &reason),
                     COORD_OK);
    assert_int_equal(reason.size, 0);
    assert_int_equal(tls_check_names(&(struct tls_options){.suites = bad, .suite_count = 2}, &reason), COORD_INVALID);
    assert_non_null(memmem(reason.data, reason.size, "TLS_NONE", 8));
    buffer_clear(&reason, 0);
    assert_int_equal(tls_check_names(&(struct tls_options){.min_version = COORD_SLICE("TLS1.2")}, &reason),
                     COORD_INVALID);
    assert_non_null(memmem(reason.data, reason.size, "TLS1.2", 6));
    buffer_release(&reason);
}

static void files_that_do_not_load_are_named(void **state)
{
    const struct tls_options options = {.directory = coord_slice_of(directory)};
    struct buffer reason = {0};
    struct tls_identity *none;

    (void)state;
    assert_int_equal(tls_identity_new(&(struct tls_options){.directory = COORD_SLICE("/nowhere")}, &none, &reason),
                     COORD_FAIL);
    assert_non_null(memmem(reason.data, reason.size, "/nowhere/tls.crt", 16));
    buffer_clear(&reason, 0);
    write_pair("one", true);
    write_pair("two", false);
    assert_int_equal(tls_identity_new(&options, &none, &reason), COORD_FAIL);
    assert_non_null(memmem(reason.data, reason.size, "tls.key: it is not the key", 26));
    assert_null(none);
    buffer_release(&reason);
}

static void a_self_signed_certificate_serves(void **state)
{
    struct secure secure;

    (void)state;
    serve(&(struct tls_options){0});
    fixture.head = head_answers;
    assert_int_equal(handshake(&secure, "NORMAL"), 0);
    for (int i = 0; i < 3; i++) {
        assert_true(secure_send(&secure, GET("/"), strlen(GET("/"))));
        UNTIL(secure_has(&secure, "\r\n\r\nhello"));
        client_forget(secure.client);
    }
    secure_free(&secure);
    UNTIL(connections() == 0);
}

static void streams_bodies_and_departures_work_as_without_tls(void **state)
{
    struct secure secure;

    (void)state;
    serve(&(struct tls_options){0});
    fixture.head = head_begins;
    assert_int_equal(handshake(&secure, "NORMAL"), 0);
    assert_true(secure_send(&secure, GET("/"), strlen(GET("/"))));
    UNTIL(secure_has(&secure, "\r\n\r\n"));
    write_text(fixture.kept[0], "event");
    UNTIL(secure_has(&secure, "5\r\nevent\r\n"));
    close(secure.client->fd);
    secure.client->fd = -1;
    UNTIL(fixture.gones == 1);
    UNTIL(connections() == 0);
    secure_free(&secure);
}

static void a_refusal_during_the_upload_goes_through_the_session(void **state)
{
    struct secure secure;
    const char head[] = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
    size_t size = 200000;
    char *body = malloc(size);

    (void)state;
    memset(body, 'x', size);
    fixture.options.max_body = 1000000;
    serve(&(struct tls_options){0});
    fixture.head = head_reads;
    assert_int_equal(handshake(&secure, "NORMAL"), 0);
    assert_true(secure_send(&secure, head, strlen(head)));
    for (int i = 0; i < 6; i++)
        assert_true(secure_send(&secure, "30d40\r\n", 7) && secure_send(&secure, body, size) &&
                    secure_send(&secure, "\r\n", 2));
    UNTIL(secure_has(&secure, "too large\"}"));
    assert_memory_equal(secure.client->data, "HTTP/1.1 413 ", 13);
    secure_free(&secure);
    UNTIL(connections() == 0);
    free(body);
}

static unsigned reloads, problems;

static void reloaded(void *context, const char *problem)
{
    (void)context;
    if (problem)
        problems++;
    else
        reloads++;
}

static void assert_serves(const char *want)
{
    struct secure secure;
    char name[64];

    assert_int_equal(handshake(&secure, "NORMAL"), 0);
    common_name(&secure, name, sizeof name);
    assert_string_equal(name, want);
    secure_free(&secure);
}

static void new_handshakes_get_the_newest_pair_that_loads(void **state)
{
    const struct tls_options options = {
        .directory = coord_slice_of(directory), .look_ns = 20 * MS, .reloaded = reloaded};
    struct secure old;

    (void)state;
    write_pair("one", true);
    serve(&options);
    tls_identity_watch(identity, fixture.reactor);
    fixture.head = head_answers;
    assert_int_equal(handshake(&old, "NORMAL"), 0);
    assert_serves("one");
    write_pair("two", true);
    UNTIL(reloads == 1);
    assert_serves("two");
    write_pair("three", false); /* half of a pair */
    UNTIL(problems == 1);
    for (int i = 0; i < 100; i++)
        turn();
    assert_int_equal(problems, 1);
    assert_serves("two");
    write_pair("four", true);
    UNTIL(reloads == 2);
    assert_serves("four");
    assert_true(secure_send(&old, GET("/"), strlen(GET("/"))));
    UNTIL(secure_has(&old, "\r\n\r\nhello"));
    secure_free(&old);
    tls_identity_unwatch(identity);
}

static void versions_and_suites_are_kept_to(void **state)
{
    const coord_slice suites[] = {COORD_SLICE("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384")};
    static const struct {
        const char *name, *priorities;
        bool works;
    } rows[] = {
        {"1.3", "NORMAL:-VERS-ALL:+VERS-TLS1.3", true},
        {"1.2 with the suite", "NORMAL:-VERS-ALL:+VERS-TLS1.2:-CIPHER-ALL:+AES-256-GCM", true},
        {"1.2 with another", "NORMAL:-VERS-ALL:+VERS-TLS1.2:-CIPHER-ALL:+AES-128-GCM", false},
        {"1.1", "NORMAL:-VERS-ALL:+VERS-TLS1.1", false},
    };

    (void)state;
    serve(&(struct tls_options){.suites = suites, .suite_count = 1});
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct secure secure;

        print_message("  %s\n", rows[i].name);
        assert_int_equal(handshake(&secure, rows[i].priorities) == 0, rows[i].works);
        secure_free(&secure);
        UNTIL(connections() == 0);
    }
}

static void plain_http_on_the_port_is_dropped(void **state)
{
    struct client *client;

    (void)state;
    serve(&(struct tls_options){0});
    fixture.head = head_answers;
    client = client_new();
    client_send(client, GET("/"));
    UNTIL(client_over(client));
    client_free(client);
    UNTIL(connections() == 0);
}

/* Two reactors */

struct second {
    struct reactor *reactor;
    struct server *server;
    struct server_options options;
    struct exchange *held[64];
    size_t held_count;
    struct task task;
    struct task quit;
    bool quitting;
};

static void second_head(void *context, struct exchange *exchange)
{
    struct second *second = context;

    exchange_hold(exchange);
    second->held[second->held_count++] = exchange;
    reactor_defer(second->reactor, &second->task);
}

static void second_answer(struct task *task)
{
    struct second *second = (struct second *)(void *)((char *)task - offsetof(struct second, task));

    while (second->held_count > 0)
        assert_int_equal(exchange_answer(second->held[--second->held_count], 200, NULL, coord_slice_of("hello")),
                         COORD_OK);
}

static void second_done(void *context, struct exchange *exchange, bool complete)
{
    struct second *second = context;

    (void)complete;
    for (size_t i = 0; i < second->held_count; i++)
        if (second->held[i] == exchange)
            second->held[i] = second->held[--second->held_count];
}

static void second_gone(void *context, struct exchange *exchange, enum exchange_gone reason)
{
    (void)context;
    (void)exchange;
    (void)reason;
}

static void second_quit(struct task *task)
{
    struct second *second = (struct second *)(void *)((char *)task - offsetof(struct second, quit));

    second->quitting = true;
    server_close_listener(second->server);
    server_abort_all(second->server);
}

static void *run_second(void *argument)
{
    struct second *second = argument;
    const struct server_app app = {second, second_head, NULL, NULL, NULL, second_gone, second_done, app_refuse};
    const char *reason;

    second->server = server_new(second->reactor, &second->options, &app, &reason);
    while (!second->quitting || server_exchanges(second->server) > 0)
        reactor_turn(second->reactor, -1);
    server_free(second->server);
    return NULL;
}

static void two_reactors_share_budget_and_identity(void **state)
{
    enum { REACTORS = 2, REQUESTS = 30 };
    static struct server_budget budget;
    static struct second seconds[REACTORS];
    const struct tls_options options = {
        .directory = coord_slice_of(directory), .look_ns = 5 * MS, .reloaded = reloaded};
    pthread_t threads[REACTORS];
    int fds[REACTORS];
    unsigned before;

    (void)state;
    write_pair("one", true);
    serve(&options);
    tls_identity_watch(identity, fixture.reactor);
    budget = (struct server_budget){.max_requests = 100};
    assert_int_equal(listen_open(coord_slice_of("127.0.0.1:0"), REACTORS, fds, NULL), COORD_OK);
    for (int i = 0; i < REACTORS; i++) {
        seconds[i] = (struct second){.reactor = reactor_new((unsigned)i + 1), .options = fixture.options};
        seconds[i].options.listen_fd = fds[i];
        seconds[i].options.budget = &budget;
        seconds[i].task.run = second_answer;
        seconds[i].quit.run = second_quit;
        assert_int_equal(pthread_create(&threads[i], NULL, run_second, &seconds[i]), 0);
    }
    fixture.port = listen_port(fds[0]);
    before = reloads;
    for (int i = 0; i < REQUESTS; i++) {
        struct secure secure;

        assert_int_equal(handshake(&secure, "NORMAL"), 0);
        assert_true(secure_send(&secure, GET("/"), strlen(GET("/"))));
        UNTIL(secure_has(&secure, "\r\n\r\nhello"));
        secure_free(&secure);
        if (i % 5 == 0)
            write_pair("another", true);
    }
    UNTIL(reloads > before);
    for (int i = 0; i < REACTORS; i++) {
        reactor_post(seconds[i].reactor, &seconds[i].quit);
        pthread_join(threads[i], NULL);
        reactor_free(seconds[i].reactor);
    }
    assert_int_equal(budget.requests, 0);
    tls_identity_unwatch(identity);
}

static int make_directory(void **state)
{
    (void)state;
    return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
    char path[128];

    (void)state;
    snprintf(path, sizeof path, "%s/tls.crt", directory);
    unlink(path);
    snprintf(path, sizeof path, "%s/tls.key", directory);
    unlink(path);
    return rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_checked),
        cmocka_unit_test(files_that_do_not_load_are_named),
        cmocka_unit_test_setup_teardown(a_self_signed_certificate_serves, start, finish_tls),
        cmocka_unit_test_setup_teardown(streams_bodies_and_departures_work_as_without_tls, start, finish_tls),
        cmocka_unit_test_setup_teardown(a_refusal_during_the_upload_goes_through_the_session, start, finish_tls),
        cmocka_unit_test_setup_teardown(new_handshakes_get_the_newest_pair_that_loads, start, finish_tls),
        cmocka_unit_test_setup_teardown(versions_and_suites_are_kept_to, start, finish_tls),
        cmocka_unit_test_setup_teardown(plain_http_on_the_port_is_dropped, start, finish_tls),
        cmocka_unit_test_setup_teardown(two_reactors_share_budget_and_identity, start, finish_tls),
    };

    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
