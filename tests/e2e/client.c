/* A client on a raw socket, with or without TLS; see harness.h. */
#include "harness.h"
#include "private.h"

#include <arpa/inet.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

static struct client *clients;
static bool no_body_next;

struct tls {
    gnutls_session_t session;
    gnutls_certificate_credentials_t credentials;
};

struct client *client_open_small(uint16_t port, int receive_buffer)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    struct client *client = calloc(1, sizeof *client);
    int one = 1;

    assert_non_null(client);
    client->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(client->fd >= 0);
    client->next = clients;
    clients = client;
    if (receive_buffer > 0)
        assert_int_equal(setsockopt(client->fd, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer), 0);
    setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(client->fd, (struct sockaddr *)&address, sizeof address) != 0)
        client->ended = client->reset = true;
    return client;
}

struct client *client_open(uint16_t port)
{
    struct client *client = client_open_small(port, 0);

    if (client->ended)
        fail_msg("nothing accepts on port %u: %s", port, strerror(errno));
    return client;
}

static void take_fingerprint(gnutls_session_t session, char fingerprint[65])
{
    unsigned count = 0;
    const gnutls_datum_t *certificates = gnutls_certificate_get_peers(session, &count);
    unsigned char digest[32];
    size_t size = sizeof digest;

    assert_true(count > 0);
    assert_int_equal(gnutls_fingerprint(GNUTLS_DIG_SHA256, &certificates[0], digest, &size), 0);
    for (size_t i = 0; i < sizeof digest; i++)
        snprintf(fingerprint + 2 * i, 3, "%02x", digest[i]);
}

struct client *client_open_tls(uint16_t port, char fingerprint[65])
{
    struct client *client = client_open(port);
    struct tls *tls = calloc(1, sizeof *tls);
    int result;

    assert_non_null(tls);
    client->tls = tls;
    assert_int_equal(gnutls_certificate_allocate_credentials(&tls->credentials), 0);
    assert_int_equal(gnutls_init(&tls->session, GNUTLS_CLIENT | GNUTLS_NO_SIGNAL), 0);
    gnutls_set_default_priority(tls->session);
    gnutls_credentials_set(tls->session, GNUTLS_CRD_CERTIFICATE, tls->credentials);
    gnutls_transport_set_int(tls->session, client->fd);
    gnutls_handshake_set_timeout(tls->session, PATIENCE_MS);
    do
        result = gnutls_handshake(tls->session);
    while (result < 0 && !gnutls_error_is_fatal(result));
    if (result < 0)
        fail_msg("no TLS handshake: %s", gnutls_strerror(result));
    if (fingerprint)
        take_fingerprint(tls->session, fingerprint);
    return client;
}

static ssize_t put(struct client *client, const void *data, size_t size)
{
    struct tls *tls = client->tls;
    ssize_t put;

    if (!tls)
        return send(client->fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    put = gnutls_record_send(tls->session, data, size);
    if (put >= 0)
        return put;
    errno = gnutls_error_is_fatal((int)put) ? EPIPE : EAGAIN;
    return -1;
}

size_t client_try_send(struct client *client, const void *data, size_t size)
{
    ssize_t sent = put(client, data, size);

    return sent > 0 ? (size_t)sent : 0;
}

bool client_send(struct client *client, const void *data, size_t size)
{
    int64_t deadline = now_ms() + PATIENCE_MS;
    const char *at = data;

    while (size > 0 && now_ms() < deadline) {
        ssize_t sent = put(client, at, size);
        struct pollfd fd = {.fd = client->fd, .events = POLLOUT};

        if (sent > 0) {
            at += sent;
            size -= (size_t)sent;
        } else if (errno == EAGAIN || errno == EINTR) {
            poll(&fd, 1, 100);
        } else {
            return false;
        }
    }
    return size == 0;
}

void client_say(struct client *client, const char *format, ...)
{
    struct text text = {0};
    va_list list;

    va_start(list, format);
    text_vprintf(&text, format, list);
    va_end(list);
    client_send(client, text.data, text.size);
    text_free(&text);
}

/* Takes what is there within `ms` into client->in. False: nothing came. */
static bool fill(struct client *client, int64_t ms)
{
    struct pollfd fd = {.fd = client->fd, .events = POLLIN};
    struct tls *tls = client->tls;
    static _Thread_local char block[65536];
    ssize_t got;

    if (client->ended || client->fd < 0)
        return false;
    if ((!tls || gnutls_record_check_pending(tls->session) == 0) && poll(&fd, 1, ms < 0 ? 0 : (int)ms) <= 0)
        return false;
    got = tls ? gnutls_record_recv(tls->session, block, sizeof block)
              : recv(client->fd, block, sizeof block, MSG_DONTWAIT);
    if (got > 0) {
        text_add(&client->in, block, (size_t)got);
        return true;
    }
    if (tls ? got < 0 && !gnutls_error_is_fatal((int)got) : got < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    client->ended = true;
    client->reset = got < 0;
    return false;
}

static void take(struct client *client, size_t size)
{
    memmove(client->in.data, client->in.data + size, client->in.size - size);
    client->in.size -= size;
    client->in.data[client->in.size] = '\0';
}

static void forget_answer(struct client *client)
{
    free(client->answer.head);
    free(client->answer.arrivals);
    text_free(&client->answer.body);
    client->answer = (struct answer){.length = -1};
}

static void note_framing(struct answer *answer, bool no_body)
{
    const char *length = header_in(answer->head, "content-length", NULL), *coding;

    if (length)
        answer->length = strtoll(length, NULL, 10);
    coding = header_in(answer->head, "transfer-encoding", NULL);
    answer->chunked = coding && strcasecmp(coding, "chunked") == 0;
    if (no_body || answer->status == 204 || answer->status == 304 || (answer->length == 0 && !answer->chunked))
        answer->whole = true;
}

bool client_read_head(struct client *client, int64_t ms)
{
    int64_t deadline = now_ms() + ms;
    char *end;

    forget_answer(client);
    for (;;) {
        end = client->in.data ? memmem(client->in.data, client->in.size, "\r\n\r\n", 4) : NULL;
        if (end) {
            size_t size = (size_t)(end - client->in.data) + 4;

            client->answer.head = strndup(client->in.data, size);
            take(client, size);
            if (sscanf(client->answer.head, "HTTP/1.%*d %d", &client->answer.status) != 1)
                return false;
            if (client->answer.status != 100)
                break;
            free(client->answer.head);
            client->answer.head = NULL;
        } else if (!fill(client, deadline - now_ms()) && (client->ended || now_ms() >= deadline)) {
            client->answer.closed = client->ended;
            client->answer.reset = client->reset;
            return false;
        }
    }
    client->answer.head_ms = now_ms();
    note_framing(&client->answer, no_body_next);
    no_body_next = false;
    return true;
}

static void arrive(struct client *client, const char *data, size_t size)
{
    struct answer *answer = &client->answer;

    text_add(&answer->body, data, size);
    if (!answer->arrivals)
        answer->arrivals = calloc(MAX_ARRIVALS, sizeof *answer->arrivals);
    if (answer->arrivals && answer->arrival_count < MAX_ARRIVALS)
        answer->arrivals[answer->arrival_count++] = (struct arrival){now_ms(), size};
}

/* Decodes whole chunks of what has come; at the last one the answer is whole. */
static void take_chunks(struct client *client)
{
    size_t at = 0;

    while (!client->answer.whole) {
        char *line = memmem(client->in.data + at, client->in.size - at, "\r\n", 2);
        size_t size, from;

        if (!line)
            break;
        size = strtoul(client->in.data + at, NULL, 16);
        from = (size_t)(line - client->in.data) + 2;
        if (client->in.size < from + size + 2)
            break;
        if (size == 0)
            client->answer.whole = true;
        else
            arrive(client, client->in.data + from, size);
        at = from + size + 2;
    }
    if (at > 0)
        take(client, at);
}

static void take_body(struct client *client)
{
    struct answer *answer = &client->answer;
    size_t size = client->in.size;

    if (!client->in.data)
        return;
    if (answer->chunked) {
        take_chunks(client);
        return;
    }
    if (answer->length >= 0 && size > (size_t)answer->length - answer->body.size)
        size = (size_t)answer->length - answer->body.size;
    if (size > 0) {
        arrive(client, client->in.data, size);
        take(client, size);
    }
    if (answer->length >= 0 && answer->body.size == (size_t)answer->length)
        answer->whole = true;
}

bool client_read_body(struct client *client, size_t wanted, int64_t ms)
{
    int64_t deadline = now_ms() + ms;
    struct answer *answer = &client->answer;

    if (!answer->body.data)
        text_clear(&answer->body);
    for (;;) {
        if (!answer->whole)
            take_body(client);
        if (answer->whole || answer->body.size >= wanted)
            break;
        if (!fill(client, deadline - now_ms()) && (client->ended || now_ms() >= deadline)) {
            if (client->ended && !client->reset && !answer->chunked && answer->length < 0)
                answer->whole = true;
            break;
        }
    }
    answer->closed = client->ended;
    answer->reset = client->reset;
    answer->end_ms = now_ms();
    return answer->whole || answer->body.size >= wanted;
}

bool client_read(struct client *client, int64_t ms)
{
    int64_t deadline = now_ms() + ms;

    return client_read_head(client, ms) && client_read_body(client, SIZE_MAX, deadline - now_ms()) &&
           client->answer.whole;
}

void client_expect_no_body(struct client *client)
{
    (void)client;
    no_body_next = true;
}

bool client_wait_closed(struct client *client, int64_t ms)
{
    int64_t deadline = now_ms() + ms;

    while (!client->ended && now_ms() < deadline) {
        fill(client, deadline - now_ms());
        client->in.size = 0;
    }
    return client->ended;
}

static void release_tls(struct client *client)
{
    struct tls *tls = client->tls;

    if (!tls)
        return;
    gnutls_deinit(tls->session);
    gnutls_certificate_free_credentials(tls->credentials);
    free(tls);
    client->tls = NULL;
}

void client_close(struct client *client)
{
    release_tls(client);
    if (client->fd >= 0)
        close(client->fd);
    client->fd = -1;
    client->ended = true;
}

void client_reset(struct client *client)
{
    struct linger now = {1, 0};

    setsockopt(client->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    client_close(client);
}

void client_half_close(struct client *client) { shutdown(client->fd, SHUT_WR); }

void clients_end(void)
{
    while (clients) {
        struct client *client = clients;

        clients = client->next;
        client_close(client);
        forget_answer(client);
        text_free(&client->in);
        free(client);
    }
}

const char *answer_header(const struct client *client, const char *name)
{
    return header_in(client->answer.head, name, NULL);
}

void client_post(struct client *client, const char *target, const char *extra_fields, struct span body)
{
    client_say(client, "POST %s HTTP/1.1\r\nHost: c\r\nContent-Type: application/json\r\n%sContent-Length: %zu\r\n\r\n",
               target, extra_fields, body.size);
    client_send(client, body.data, body.size);
}

struct client *fetch_port(uint16_t port, const char *method, const char *target, const char *fields, const char *body)
{
    struct client *client = client_open(port);

    client_say(client, "%s %s HTTP/1.1\r\nHost: c\r\n%s", method, target, fields);
    if (body)
        client_say(client, "Content-Type: application/json\r\nContent-Length: %zu\r\n", strlen(body));
    client_say(client, "\r\n");
    if (body)
        client_send(client, body, strlen(body));
    if (strcmp(method, "HEAD") == 0)
        client_expect_no_body(client);
    client_read(client, PATIENCE_MS);
    return client;
}

struct client *fetch(const char *method, const char *target, const char *fields, const char *body)
{
    return fetch_port(deployed.port, method, target, fields, body);
}
