/*
 * See upstream_curl.h. One transfer of libcurl is one attempt.
 *
 * A handle is configured once for its upstream and then only told what differs: target, body, size, header list. What the
 * library would do of its own accord is taken from it: it looks up no names (the addresses are given), follows nothing, adds
 * no fields, waits for no 100, knows no proxies, and does not send again what may have been received (its second request for
 * a leg is refused).
 */
#include "upstream_curl.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    KEPT_BYTES = 16 * 1024, /* of each buffer of an idle handle */
    KEPT_HANDLES = 256,
    BACKSTOP_MS = 20 /* the library's connect timeout comes at least this much after ours */
};

struct curl_upstream {
    struct carrier *free;
    size_t free_count;
    CURLSH *kept; /* its connections, which close with it; the library has no other way to close idle ones */
};

static struct carrier *carrier_of(struct attempt *attempt) { return OWNER_OF(attempt, struct carrier, attempt); }

static struct curl_client *curl_of(const struct client *client) { return client->curl; }

/* Callbacks */

/* An answer that refuses the rest of the upload ends the leg, but not for the library (7.88) as long as the upload waits. */
static void let_go_of_upload(struct carrier *carrier)
{
    if (!carrier->upload_held || carrier->attempt.head.status < 300)
        return;
    carrier->upload_more = true;
    attempt_flow_soon(&carrier->attempt);
}

static size_t on_header(char *data, size_t size, size_t count, void *user)
{
    struct carrier *carrier = user;

    (void)size; /* always 1 */
    curl_client_moved(carrier->curl);
    if (!attempt_head_line(&carrier->attempt, (coord_slice){data, count}))
        return 0;
    if (carrier->attempt.head.complete)
        let_go_of_upload(carrier);
    return count;
}

static size_t on_data(char *data, size_t size, size_t count, void *user)
{
    struct carrier *carrier = user;

    (void)size;
    if (carrier->attempt.leg && carrier->attempt.paused) {
        carrier->receive_held = true;
        return CURL_WRITEFUNC_PAUSE; /* it comes again */
    }
    curl_client_moved(carrier->curl);
    return attempt_data(&carrier->attempt, (coord_slice){data, count}) ? count : CURL_WRITEFUNC_ERROR;
}

static size_t read_pieces(struct carrier *carrier, char *room, size_t size)
{
    const struct leg_request *request = &carrier->attempt.request;
    size_t filled = 0;

    while (filled < size && carrier->piece < request->piece_count) {
        coord_slice piece = request->pieces[carrier->piece];
        size_t part = piece.size - carrier->offset;

        if (part > size - filled)
            part = size - filled;
        if (part > 0)
            memcpy(room + filled, piece.data + carrier->offset, part);
        filled += part;
        carrier->offset += part;
        if (carrier->offset == piece.size) {
            carrier->piece++;
            carrier->offset = 0;
        }
    }
    return filled;
}

static size_t break_upload(struct carrier *carrier)
{
    carrier->upload_broken = true;
    return CURL_READFUNC_ABORT;
}

static size_t read_stream(struct carrier *carrier, char *room, size_t size)
{
    struct attempt *attempt = &carrier->attempt;
    int64_t declared = attempt->request.stream_length;
    size_t filled;

    if (declared >= 0 && (uint64_t)(declared - carrier->uploaded) < size)
        size = (size_t)(declared - carrier->uploaded);
    if (size == 0)
        return 0;
    carrier->upload_more = false;
    filled = attempt->events.upload(attempt->leg, room, size);
    if (!attempt->leg || filled == LEG_UPLOAD_ABORT || filled == LEG_UPLOAD_TORN)
        return break_upload(carrier);
    if (filled == LEG_UPLOAD_END)
        return declared >= 0 ? break_upload(carrier) : 0;
    assert(filled <= size);
    if (filled == 0) {
        carrier->upload_held = true;
        return CURL_READFUNC_PAUSE;
    }
    carrier->uploaded += (int64_t)filled;
    return filled;
}

static size_t on_upload(char *room, size_t size, size_t count, void *user)
{
    struct carrier *carrier = user;
    size_t filled;

    if (!carrier->attempt.leg)
        return CURL_READFUNC_ABORT;
    filled = carrier->attempt.request.streamed ? read_stream(carrier, room, size * count)
                                               : read_pieces(carrier, room, size * count);
    if (filled != CURL_READFUNC_PAUSE)
        curl_client_moved(carrier->curl);
    if (carrier->attempt.leg)
        attempt_uploading(&carrier->attempt, filled == CURL_READFUNC_PAUSE);
    return filled;
}

/* Called before a request is sent, and again when the library means to repeat it on another connection. */
static int on_request(void *user, char *remote, char *local, int remote_port, int local_port)
{
    struct carrier *carrier = user;

    (void)remote;
    (void)local;
    (void)remote_port;
    (void)local_port;
    if (!carrier->attempt.leg)
        return CURL_PREREQFUNC_ABORT;
    if (carrier->attempt.connected) {
        carrier->resent = true;
        return CURL_PREREQFUNC_ABORT;
    }
    attempt_connected(&carrier->attempt, !carrier->opened);
    return CURL_PREREQFUNC_OK;
}

/* Configuring */

/* The library uses a connection whose idle time in whole seconds is at most the number given: 3 means below 4 s. */
static long idle_seconds(int64_t idle_age_ns) { return (long)(idle_age_ns / 1000000000) - 1; }

static long connect_timeout_ms(int64_t timeout_ns)
{
    int64_t ms = timeout_ns / 1000000;

    ms += ms / 16 + BACKSTOP_MS; /* little more: the first of several addresses gets half of it */

    return timeout_ns <= 0 || ms > INT_MAX ? INT_MAX : (long)ms;
}

static bool never_reused(const struct upstream_options *options)
{
    long seconds = idle_seconds(options->idle_age_ns);

    /* Later versions take 0 for "no limit". */
    return options->max_idle_connections == 0 || seconds < 0 || (seconds == 0 && LIBCURL_VERSION_NUM >= 0x080000);
}

static void configure_connections(CURL *easy, const struct upstream *upstream)
{
    const struct upstream_options *options = &upstream->options;

    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, connect_timeout_ms(options->connect_timeout_ns));
    curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
    if (never_reused(options))
        curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 1L);
    else
        curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN, idle_seconds(options->idle_age_ns));
}

static void configure_tls(CURL *easy, const struct upstream *upstream)
{
    if (!upstream->secure)
        return;
    if (upstream->ca_file)
        curl_easy_setopt(easy, CURLOPT_CAINFO, upstream->ca_file);
    if (upstream->client_cert_file)
        curl_easy_setopt(easy, CURLOPT_SSLCERT, upstream->client_cert_file);
    if (upstream->client_key_file)
        curl_easy_setopt(easy, CURLOPT_SSLKEY, upstream->client_key_file);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, upstream->options.insecure_skip_verify ? 0L : 1L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, upstream->options.insecure_skip_verify ? 0L : 2L);
}

/* The first ones are those that can fail. An empty proxy still has the library look for exceptions to it. */
static bool configure(struct carrier *carrier, const struct upstream *upstream)
{
    const struct curl_upstream *pool = upstream->transport_state;
    CURL *easy = carrier->easy;

    if (curl_easy_setopt(easy, CURLOPT_SHARE, pool->kept) || curl_easy_setopt(easy, CURLOPT_URL, upstream->origin) ||
        curl_easy_setopt(easy, CURLOPT_PROXY, "") || curl_easy_setopt(easy, CURLOPT_NOPROXY, "*"))
        return false;
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, carrier);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, carrier->error);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, carrier);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, carrier);
    curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_upload);
    curl_easy_setopt(easy, CURLOPT_READDATA, carrier);
    curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, on_request);
    curl_easy_setopt(easy, CURLOPT_PREREQDATA, carrier);
    configure_connections(easy, upstream);
    configure_tls(easy, upstream);
    curl_client_configure(carrier->curl, easy, carrier);
    return true;
}

static void carrier_free(struct carrier *carrier)
{
    curl_easy_cleanup(carrier->easy);
    answer_head_release(&carrier->attempt.head);
    buffer_release(&carrier->address);
    buffer_release(&carrier->method);
    buffer_release(&carrier->target);
    buffer_release(&carrier->text);
    buffer_release(&carrier->body);
    free(carrier->fields);
    free(carrier);
}

static struct carrier *carrier_new(struct upstream *upstream)
{
    struct carrier *carrier = calloc(1, sizeof *carrier);

    if (!carrier)
        return NULL;
    carrier->curl = curl_of(upstream->client);
    carrier->easy = curl_easy_init();
    if (carrier->easy && configure(carrier, upstream))
        return carrier;
    carrier_free(carrier);
    return NULL;
}

/* The pool */

static struct attempt *take(struct upstream *upstream)
{
    struct curl_upstream *pool = upstream->transport_state;
    struct carrier *carrier = pool->free;

    if (!carrier) {
        carrier = carrier_new(upstream);
        return carrier ? &carrier->attempt : NULL;
    }
    pool->free = carrier->next;
    pool->free_count--;
    carrier->opened = carrier->resent = false;
    carrier->receive_held = carrier->upload_held = carrier->upload_more = carrier->upload_broken = false;
    carrier->piece = carrier->offset = 0;
    carrier->uploaded = 0;
    carrier->error[0] = 0;
    return &carrier->attempt;
}

void carrier_removed(struct carrier *carrier)
{
    struct upstream *upstream = carrier->attempt.upstream;
    struct curl_upstream *pool = upstream->transport_state;

    if (pool->free_count == KEPT_HANDLES) {
        carrier_free(carrier);
    } else {
        buffer_clear(&carrier->body, KEPT_BYTES);
        buffer_clear(&carrier->text, KEPT_BYTES);
        carrier->next = pool->free;
        pool->free = carrier;
        pool->free_count++;
    }
    upstream_returned(upstream);
}

static void give_back(struct attempt *attempt, bool ended)
{
    (void)ended; /* the library knows whether its connection can be kept */
    curl_client_remove(carrier_of(attempt));
}

/* The beginning */

static bool begin(struct attempt *attempt)
{
    struct carrier *carrier = carrier_of(attempt);
    bool fresh = attempt->request.fresh || never_reused(&attempt->upstream->options);

    if (!carrier_set_request(carrier) || !carrier_set_address(carrier))
        return false;
    curl_easy_setopt(carrier->easy, CURLOPT_FRESH_CONNECT, fresh ? 1L : 0L);
    return curl_client_add(carrier);
}

/* Nothing was sent yet. */
static void reconnect(struct attempt *attempt)
{
    struct carrier *carrier = carrier_of(attempt);

    curl_client_take_out(carrier);
    carrier->opened = false;
    carrier->error[0] = 0;
    if (!carrier_set_address(carrier) || !curl_client_add(carrier))
        attempt_over(attempt, LEG_INTERNAL, "out of memory");
}

/* Flow */

/*
 * A head is not held back: the library would join its lines. A leg that is paused before its head is held by on_data.
 */
static void flow(struct attempt *attempt)
{
    struct carrier *carrier = carrier_of(attempt);
    bool hold_receive = attempt->paused && attempt->head.complete;
    bool hold_upload = carrier->upload_held && !carrier->upload_more;
    CURLcode code;

    if (!carrier->added || !attempt->connected)
        return;
    if (carrier->receive_held == hold_receive && carrier->upload_held == hold_upload)
        return;
    carrier->receive_held = hold_receive;
    carrier->upload_held = hold_upload;
    curl_client_moved(carrier->curl);
    curl_client_enter(carrier->curl);
    code = curl_easy_pause(carrier->easy, (hold_receive ? CURLPAUSE_RECV : 0) | (hold_upload ? CURLPAUSE_SEND : 0));
    if (code != CURLE_OK && attempt->leg)
        attempt_over_soon(attempt, LEG_INTERNAL, "the transfer could not be paused or resumed");
    curl_client_leave(carrier->curl);
}

static void upload_more(struct attempt *attempt) { carrier_of(attempt)->upload_more = true; }

/* The result */

static bool tls_failed(CURLcode code)
{
    switch (code) {
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CRL_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_ENGINE_NOTFOUND:
    case CURLE_SSL_ENGINE_SETFAILED:
    case CURLE_SSL_ENGINE_INITFAILED:
    case CURLE_SSL_PINNEDPUBKEYNOTMATCH:
    case CURLE_SSL_INVALIDCERTSTATUS:
    case CURLE_SSL_CLIENTCERT:
    case CURLE_USE_SSL_FAILED:
        return true;
    default:
        return false;
    }
}

static enum leg_outcome outcome_of(const struct carrier *carrier, CURLcode code)
{
    const struct attempt *attempt = &carrier->attempt;

    if (carrier->upload_broken)
        return LEG_INTERNAL;
    if (attempt->refusal || attempt->head.began)
        return code == CURLE_OK && attempt->head.complete ? LEG_COMPLETE : LEG_BROKEN;
    if (carrier->resent)
        return LEG_NO_ANSWER;
    if (tls_failed(code))
        return LEG_TLS;
    switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
        return LEG_UNRESOLVED;
    case CURLE_COULDNT_CONNECT:
        return LEG_REFUSED;
    case CURLE_OPERATION_TIMEDOUT:
        return LEG_CONNECT_TIMEOUT;
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_FAIL_REWIND: /* the library wanted to send a body again that it cannot read again */
        return attempt->connected ? LEG_NO_ANSWER : LEG_REFUSED;
    case CURLE_OUT_OF_MEMORY:
    case CURLE_FAILED_INIT:
    case CURLE_ABORTED_BY_CALLBACK:
    case CURLE_NOT_BUILT_IN:
        return LEG_INTERNAL;
    default:
        return attempt->connected ? LEG_BROKEN : LEG_INTERNAL;
    }
}

static const char *detail_of(const struct carrier *carrier, CURLcode code, enum leg_outcome outcome, char *room,
                             size_t size)
{
    const struct attempt *attempt = &carrier->attempt;
    const char *said = carrier->error[0] ? carrier->error : curl_easy_strerror(code);
    long error = 0;

    if (outcome == LEG_COMPLETE)
        return "";
    if (attempt->refusal)
        return attempt->refusal;
    if (outcome == LEG_NO_ANSWER && carrier->resent)
        return "the kept connection ended before an answer";
    if (carrier->upload_broken)
        return "the upload was broken off";
    if (outcome != LEG_REFUSED)
        return said;
    curl_easy_getinfo(carrier->easy, CURLINFO_OS_ERRNO, &error);
    snprintf(room, size, "%s: %s", attempt->upstream->host_port, error ? strerror((int)error) : said);
    return room;
}

void carrier_done(struct carrier *carrier, CURLcode code)
{
    enum leg_outcome outcome = outcome_of(carrier, code);
    char room[512];

    if (outcome == LEG_REFUSED && !carrier->attempt.connected && attempt_unreachable(&carrier->attempt)) {
        reconnect(&carrier->attempt);
        return;
    }
    attempt_over(&carrier->attempt, outcome, detail_of(carrier, code, outcome, room, sizeof room));
}

/* The table */

static bool open_client(struct client *client)
{
    client->curl = curl_client_new(client);
    return client->curl;
}

static void close_client(struct client *client) { curl_client_free(curl_of(client)); }

static bool open_upstream(struct upstream *upstream)
{
    struct curl_upstream *pool = calloc(1, sizeof *pool);

    if (!pool)
        return false;
    pool->kept = curl_share_init();
    if (!pool->kept || curl_share_setopt(pool->kept, CURLSHOPT_SHARE, CURL_LOCK_DATA_CONNECT) != CURLSHE_OK) {
        curl_share_cleanup(pool->kept);
        free(pool);
        return false;
    }
    upstream->transport_state = pool;
    curl_client_allow_idle(curl_of(upstream->client), (long)upstream->options.max_idle_connections);
    return true;
}

static void close_upstream(struct upstream *upstream)
{
    struct curl_upstream *pool = upstream->transport_state;
    struct carrier *carrier;

    while ((carrier = pool->free)) {
        pool->free = carrier->next;
        carrier_free(carrier);
    }
    curl_share_cleanup(pool->kept);
    free(pool);
    curl_client_allow_idle(curl_of(upstream->client), -(long)upstream->options.max_idle_connections);
}

static void flush(struct client *client) { curl_client_flush(curl_of(client)); }

static size_t connections(const struct client *client) { return curl_of(client)->connections; }

const struct transport curl_transport = {
    .open = open_client,
    .close = close_client,
    .open_upstream = open_upstream,
    .close_upstream = close_upstream,
    .take = take,
    .begin = begin,
    .reconnect = reconnect,
    .flow = flow,
    .upload_more = upload_more,
    .give_back = give_back,
    .flush = flush,
    .connections = connections,
};
