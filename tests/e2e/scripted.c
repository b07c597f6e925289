/* A worker whose every byte is the test's: a thread that accepts, a thread a connection; see harness.h. */
#include "harness.h"
#include "private.h"

#include <arpa/inet.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_WORKERS = 8, SLICE_MS = 2 };

struct connection {
    struct connection *next;
    struct scripted *worker;
    pthread_t thread;
    unsigned number;
    int fd;
    gnutls_session_t tls;
    struct text in;
};

struct scripted {
    struct scripted_options options;
    int fd;
    uint16_t port;
    pthread_t thread;
    bool accepting;
    pthread_mutex_t lock; /* for all below */
    bool stop, gate;
    struct connection *connections;
    unsigned connection_count;
    size_t open;
    struct received *first, **last;
    gnutls_certificate_credentials_t credentials;
};

static struct scripted *workers[MAX_WORKERS];
static size_t worker_count;

const char KV_PARAMS[] =
    "{\"do_remote_prefill\":true,\"do_remote_decode\":false,\"remote_engine_id\":\"e-1\",\"z\":1,"
    "\"a\":18446744073709551617,\"remote_block_ids\":[[1,2],[9007199254740993]],\"remote_host\":\"10.0.0.9\","
    "\"remote_port\":5600,\"f\":0.10,\"s\":\"\\u00e9\\/\"}";

static bool stopped(struct scripted *worker)
{
    bool stop;

    pthread_mutex_lock(&worker->lock);
    stop = worker->stop;
    pthread_mutex_unlock(&worker->lock);
    return stop;
}

/* ---- Bytes ---- */

void stage_send(struct stage *stage, const void *data, size_t size)
{
    const char *at = data;

    while (size > 0 && !stage->bad) {
        struct pollfd fd = {.fd = stage->fd, .events = POLLOUT};
        ssize_t sent = stage->tls ? gnutls_record_send(stage->tls, at, size)
                                  : send(stage->fd, at, size, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (sent > 0) {
            at += sent;
            size -= (size_t)sent;
        } else if (stopped(stage->worker) ||
                   (stage->tls ? gnutls_error_is_fatal((int)sent) : errno != EAGAIN && errno != EINTR)) {
            stage->bad = true;
        } else {
            poll(&fd, 1, 20);
        }
    }
}

void stage_say(struct stage *stage, const char *format, ...)
{
    struct text text = {0};
    va_list list;

    va_start(list, format);
    text_vprintf(&text, format, list);
    va_end(list);
    stage_send(stage, text.data, text.size);
    text_free(&text);
}

void stage_chunk(struct stage *stage, const char *data, size_t size)
{
    struct text text = {0};

    text_printf(&text, "%zx\r\n", size);
    text_add(&text, data, size);
    text_add(&text, "\r\n", 2);
    stage_send(stage, text.data, text.size);
    text_free(&text);
}

void stage_last_chunk(struct stage *stage) { stage_say(stage, "0\r\n\r\n"); }

void stage_stream_head(struct stage *stage)
{
    stage_say(
        stage,
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n");
}

void stage_json(struct stage *stage, int status, const char *fields, const char *body)
{
    if (status == 204 || status == 304)
        stage_say(stage, "HTTP/1.1 %d X\r\n%s\r\n", status, fields);
    else
        stage_say(stage, "HTTP/1.1 %d X\r\nContent-Type: application/json\r\n%sContent-Length: %zu\r\n\r\n%s", status,
                  fields, strlen(body), body);
}

bool stage_wait_closed(struct stage *stage, int64_t ms)
{
    int64_t deadline = now_ms() + ms;
    char byte;

    while (!stopped(stage->worker) && now_ms() < deadline) {
        struct pollfd fd = {.fd = stage->fd, .events = POLLIN | POLLRDHUP};

        if (poll(&fd, 1, SLICE_MS) <= 0)
            continue;
        if ((fd.revents & (POLLRDHUP | POLLHUP | POLLERR)) || recv(stage->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0) {
            pthread_mutex_lock(&stage->worker->lock);
            stage->request->closed_ms = now_ms();
            pthread_mutex_unlock(&stage->worker->lock);
            stage->bad = stage->hang_up = true;
            return true;
        }
    }
    return false;
}

bool stage_wait_gate(struct stage *stage, int64_t ms)
{
    int64_t deadline = now_ms() + ms;
    bool open = false;

    while (!open && now_ms() < deadline && !stopped(stage->worker)) {
        pthread_mutex_lock(&stage->worker->lock);
        open = stage->worker->gate;
        pthread_mutex_unlock(&stage->worker->lock);
        if (!open)
            pause_ms(1);
    }
    return open;
}

void stage_reset(struct stage *stage)
{
    struct linger now = {1, 0};

    setsockopt(stage->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    stage->hang_up = stage->bad = true;
}

/* ---- Default answers ---- */

static void default_stream(struct stage *stage)
{
    static const char *const events[] = {
        "data: "
        "{\"id\":\"d\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"o\"},\"finish_"
        "reason\":null}]}\n\n",
        "data: {\"id\":\"d\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"k\"},\"finish_reason\":\"stop\"}]}\n\n",
        "data: [DONE]\n\n",
    };

    stage_stream_head(stage);
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        stage_chunk(stage, events[i], strlen(events[i]));
    stage_last_chunk(stage);
}

void stage_default(struct stage *stage)
{
    const struct received *request = stage->request;
    static const char rendered[] = "{\"token_ids\":[9,77,77,5],\"features\":null,\"request_id\":\"r-1\"}";
    char body[1024];

    if (strcmp(request->phase, "render") == 0) {
        snprintf(body, sizeof body, strncmp(request->target, "/v1/completions", 15) == 0 ? "[%s]" : "%s", rendered);
        stage_json(stage, 200, "", body);
    } else if (strcmp(request->phase, "prefill") == 0) {
        snprintf(body, sizeof body, "{\"id\":\"p\",\"choices\":[],\"kv_transfer_params\":%s}", KV_PARAMS);
        stage_json(stage, 200, "", body);
    } else if (strcmp(request->phase, "decode") == 0 &&
               span_is(json_member(text_span(&request->body), "stream"), "true")) {
        default_stream(stage);
    } else {
        stage_json(stage, 200, "",
                   "{\"id\":\"d\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"ok\"},"
                   "\"finish_reason\":\"stop\"}],"
                   "\"usage\":{\"prompt_tokens\":4,\"completion_tokens\":1,\"total_tokens\":5}}");
    }
}

/* ---- Connections ---- */

static bool fill(struct connection *connection)
{
    static _Thread_local char block[65536];
    ssize_t got;

    while (!stopped(connection->worker)) {
        struct pollfd fd = {.fd = connection->fd, .events = POLLIN};

        if ((!connection->tls || gnutls_record_check_pending(connection->tls) == 0) && poll(&fd, 1, 20) <= 0)
            continue;
        got = connection->tls ? gnutls_record_recv(connection->tls, block, sizeof block)
                              : recv(connection->fd, block, sizeof block, MSG_DONTWAIT);
        if (got > 0) {
            text_add(&connection->in, block, (size_t)got);
            return true;
        }
        if (connection->tls ? got < 0 && !gnutls_error_is_fatal((int)got)
                            : got < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        return false;
    }
    return false;
}

static void drop(struct text *text, size_t size)
{
    memmove(text->data, text->data + size, text->size - size);
    text->size -= size;
    text->data[text->size] = '\0';
}

static struct received *read_head(struct connection *connection)
{
    struct received *request;
    char *end, *space;

    while (!connection->in.data || !(end = memmem(connection->in.data, connection->in.size, "\r\n\r\n", 4)))
        if (!fill(connection))
            return NULL;
    request = calloc(1, sizeof *request);
    request->at_ms = now_ms();
    request->connection = connection->number;
    request->head = strndup(connection->in.data, (size_t)(end - connection->in.data) + 4);
    drop(&connection->in, (size_t)(end - connection->in.data) + 4);
    text_clear(&request->body);
    space = strchr(request->head, ' ');
    request->method = strndup(request->head, space ? (size_t)(space - request->head) : 0);
    request->target = space ? strndup(space + 1, strcspn(space + 1, " \r")) : strdup("");
    return request;
}

/* header_in has one buffer for the process: a copy of it for these threads. */
static bool find_field(const char *head, const char *name, char *value, size_t room)
{
    size_t size = strlen(name);

    for (const char *at = strstr(head, "\r\n"); at; at = strstr(at + 2, "\r\n"))
        if (strncasecmp(at + 2, name, size) == 0 && at[2 + size] == ':') {
            const char *from = at + 3 + size + strspn(at + 3 + size, " ");

            snprintf(value, room, "%.*s", (int)strcspn(from, "\r"), from);
            return true;
        }
    return false;
}

static void name_phase(struct received *request)
{
    char value[64] = "other";

    if (strstr(request->target, "/render"))
        snprintf(value, sizeof value, "render");
    else if (!find_field(request->head, "x-llm-d-epp-profile", value, sizeof value))
        snprintf(value, sizeof value, "other");
    if (strcmp(value, "decode") == 0 && !strstr(request->target, "/v1/chat/completions") &&
        !strstr(request->target, "/v1/completions") && !strstr(request->target, "/v1/responses") &&
        !strstr(request->target, "/v1/messages") && !strstr(request->target, "/inference/v1/generate"))
        snprintf(value, sizeof value, "other"); /* passthrough is marked as decode too */
    snprintf(request->phase, sizeof request->phase, "%.23s", value);
}

static bool read_chunks(struct connection *connection, struct received *request, size_t wanted)
{
    while (request->body.size < wanted) {
        char *line;
        size_t size, from;

        while (!connection->in.data || !(line = memmem(connection->in.data, connection->in.size, "\r\n", 2)))
            if (!fill(connection))
                return false;
        size = strtoul(connection->in.data, NULL, 16);
        from = (size_t)(line - connection->in.data) + 2;
        while (connection->in.size < from + size + 2)
            if (!fill(connection))
                return false;
        text_add(&request->body, connection->in.data + from, size);
        drop(&connection->in, from + size + 2);
        if (size == 0) {
            request->whole = true;
            break;
        }
    }
    return true;
}

static bool read_body(struct connection *connection, struct received *request, size_t wanted)
{
    char value[64];
    size_t length = 0;

    if (request->whole)
        return true;
    if (find_field(request->head, "transfer-encoding", value, sizeof value))
        return read_chunks(connection, request, wanted);
    if (find_field(request->head, "content-length", value, sizeof value))
        length = strtoul(value, NULL, 10);
    if (wanted > length)
        wanted = length;
    while (request->body.size < wanted) {
        size_t take =
            connection->in.size < length - request->body.size ? connection->in.size : length - request->body.size;

        if (take == 0) {
            if (!fill(connection))
                return false;
            continue;
        }
        text_add(&request->body, connection->in.data, take);
        drop(&connection->in, take);
    }
    request->whole = request->body.size == length;
    return true;
}

/* The connection of a stage is found by its number: stages are made on the connection's thread only. */
struct staged {
    struct stage stage; /* first */
    struct connection *connection;
};

bool stage_read_body(struct stage *stage, size_t wanted)
{
    return read_body(((struct staged *)stage)->connection, stage->request, wanted);
}

static void note_request(struct scripted *worker, struct received *request)
{
    pthread_mutex_lock(&worker->lock);
    *worker->last = request;
    worker->last = &request->next;
    pthread_mutex_unlock(&worker->lock);
}

static void run_script(struct staged *staged)
{
    const struct scripted_options *options = &staged->stage.worker->options;
    const char *phase = staged->stage.request->phase;
    script *run = strcmp(phase, "render") == 0    ? options->render
                  : strcmp(phase, "prefill") == 0 ? options->prefill
                  : strcmp(phase, "decode") == 0  ? options->decode
                                                  : options->other;

    if (options->before_body && !run)
        stage_read_body(&staged->stage, SIZE_MAX);
    (run ? run : stage_default)(&staged->stage);
}

static void serve(struct connection *connection)
{
    bool more = true;

    while (more) {
        struct received *request = read_head(connection);
        struct staged staged = {.connection = connection};

        if (!request)
            return;
        name_phase(request);
        if (!connection->worker->options.before_body && !read_body(connection, request, SIZE_MAX))
            more = false;
        note_request(connection->worker, request);
        staged.stage = (struct stage){connection->worker,
                                      request,
                                      connection->worker->options.context,
                                      connection->fd,
                                      connection->tls,
                                      false,
                                      false};
        if (more)
            run_script(&staged);
        more = more && !staged.stage.hang_up && !staged.stage.bad && !stopped(connection->worker);
    }
}

static void *connection_main(void *argument)
{
    struct connection *connection = argument;
    struct scripted *worker = connection->worker;
    int result = 0;

    if (worker->credentials) {
        gnutls_init(&connection->tls, GNUTLS_SERVER | GNUTLS_NO_SIGNAL);
        gnutls_set_default_priority(connection->tls);
        gnutls_credentials_set(connection->tls, GNUTLS_CRD_CERTIFICATE, worker->credentials);
        gnutls_transport_set_int(connection->tls, connection->fd);
        gnutls_handshake_set_timeout(connection->tls, PATIENCE_MS);
        do
            result = gnutls_handshake(connection->tls);
        while (result < 0 && !gnutls_error_is_fatal(result));
    }
    if (result == 0)
        serve(connection);
    if (connection->tls)
        gnutls_deinit(connection->tls);
    text_free(&connection->in);
    pthread_mutex_lock(&worker->lock);
    close(connection->fd);
    connection->fd = -1;
    worker->open--;
    pthread_mutex_unlock(&worker->lock);
    return NULL;
}

static void begin_connection(struct scripted *worker, int fd)
{
    struct connection *connection = calloc(1, sizeof *connection);
    pthread_attr_t attributes;
    int one = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    connection->worker = worker;
    connection->fd = fd;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 1 << 20);
    pthread_mutex_lock(&worker->lock);
    connection->number = worker->connection_count++;
    connection->next = worker->connections;
    worker->connections = connection;
    worker->open++;
    if (pthread_create(&connection->thread, &attributes, connection_main, connection) != 0)
        abort();
    pthread_mutex_unlock(&worker->lock);
    pthread_attr_destroy(&attributes);
}

static void *accept_main(void *argument)
{
    struct scripted *worker = argument;

    while (!stopped(worker)) {
        struct pollfd fd = {.fd = worker->fd, .events = POLLIN};
        int accepted;

        if (poll(&fd, 1, 20) <= 0)
            continue;
        accepted = accept4(worker->fd, NULL, NULL, SOCK_CLOEXEC);
        if (accepted >= 0)
            begin_connection(worker, accepted);
    }
    return NULL;
}

struct scripted *scripted_start(const struct scripted_options *options)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    struct scripted *worker = calloc(1, sizeof *worker);

    assert_non_null(worker);
    assert_true(worker_count < MAX_WORKERS);
    workers[worker_count++] = worker;
    worker->options = *options;
    worker->last = &worker->first;
    pthread_mutex_init(&worker->lock, NULL);
    if (options->certificate) {
        assert_int_equal(gnutls_certificate_allocate_credentials(&worker->credentials), 0);
        assert_true(gnutls_certificate_set_x509_key_file(worker->credentials, options->certificate, options->key,
                                                         GNUTLS_X509_FMT_PEM) >= 0);
    }
    worker->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(worker->fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(getsockname(worker->fd, (struct sockaddr *)&address, &size), 0);
    assert_int_equal(listen(worker->fd, options->no_accept ? options->backlog : 1024), 0);
    worker->port = ntohs(address.sin_port);
    worker->accepting = !options->no_accept;
    if (worker->accepting)
        assert_int_equal(pthread_create(&worker->thread, NULL, accept_main, worker), 0);
    return worker;
}

uint16_t scripted_port(const struct scripted *worker) { return worker->port; }

const struct received *scripted_find(struct scripted *worker, const char *phase, size_t n)
{
    const struct received *found = NULL;

    pthread_mutex_lock(&worker->lock);
    for (struct received *at = worker->first; at && !found; at = at->next)
        if ((!phase || strcmp(at->phase, phase) == 0) && n-- == 0)
            found = at;
    pthread_mutex_unlock(&worker->lock);
    return found;
}

size_t scripted_count(struct scripted *worker, const char *phase)
{
    size_t count = 0;

    while (scripted_find(worker, phase, count))
        count++;
    return count;
}

int64_t scripted_closed_ms(struct scripted *worker, const struct received *request)
{
    int64_t at;

    pthread_mutex_lock(&worker->lock);
    at = request->closed_ms;
    pthread_mutex_unlock(&worker->lock);
    return at;
}

size_t scripted_open(struct scripted *worker)
{
    size_t open;

    pthread_mutex_lock(&worker->lock);
    open = worker->open;
    pthread_mutex_unlock(&worker->lock);
    return open;
}

void scripted_open_gate(struct scripted *worker)
{
    pthread_mutex_lock(&worker->lock);
    worker->gate = true;
    pthread_mutex_unlock(&worker->lock);
}

void scripted_release(void)
{
    for (size_t i = 0; i < worker_count; i++) {
        pthread_mutex_lock(&workers[i]->lock);
        workers[i]->stop = workers[i]->gate = true;
        pthread_mutex_unlock(&workers[i]->lock);
    }
}

static void free_received(struct received *request)
{
    free(request->method);
    free(request->target);
    free(request->head);
    text_free(&request->body);
    free(request);
}

void scripted_end(void)
{
    scripted_release();
    while (worker_count > 0) {
        struct scripted *worker = workers[--worker_count];

        if (worker->accepting)
            pthread_join(worker->thread, NULL);
        while (worker->connections) {
            struct connection *connection = worker->connections;

            worker->connections = connection->next;
            pthread_join(connection->thread, NULL);
            free(connection);
        }
        while (worker->first) {
            struct received *request = worker->first;

            worker->first = request->next;
            free_received(request);
        }
        if (worker->credentials)
            gnutls_certificate_free_credentials(worker->credentials);
        close(worker->fd);
        pthread_mutex_destroy(&worker->lock);
        free(worker);
    }
}
