/*
 * See upstream.h and upstream_private.h. Nothing here knows how bytes travel.
 *
 * Whatever the contract forbids to happen inside a call (events from leg_start or leg_resume) goes through the client's queue,
 * which one task of the reactor works off. An attempt has one timer for all its deadlines. It is not moved when a deadline
 * moves away: it comes too early then, looks, and is armed again, so that data costs no heap operation.
 */
#include "upstream_private.h"

#include <arpa/inet.h>
#include <assert.h>
#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

static const int64_t NEVER = INT64_MAX;

struct leg {
    struct attempt *attempt; /* NULL: over */
    void *owner;
};

/* The queue */

void client_flush_soon(struct client *client) { reactor_defer(client->reactor, &client->task); }

static void enqueue(struct attempt *attempt, unsigned todo)
{
    struct client *client = attempt->upstream->client;

    if (!attempt->todo) {
        attempt->next = NULL;
        *client->queue_end = attempt;
        client->queue_end = &attempt->next;
        client->queued++;
    }
    attempt->todo |= todo;
    client_flush_soon(client);
}

static void dequeue(struct attempt *attempt)
{
    struct client *client = attempt->upstream->client;
    struct attempt **link = &client->queue;

    if (!attempt->todo)
        return;
    while (*link != attempt)
        link = &(*link)->next;
    *link = attempt->next;
    if (client->queue_end == &attempt->next)
        client->queue_end = link;
    client->queued--;
    attempt->todo = 0;
}

static void work_on(struct attempt *attempt, unsigned todo)
{
    const struct transport *transport = attempt->upstream->transport;

    if (todo & TODO_FAIL)
        attempt_over(attempt, attempt->failure, attempt->refusal);
    else if ((todo & TODO_BEGIN) && !transport->begin(attempt))
        attempt_over(attempt, LEG_INTERNAL, "out of memory");
    else if (todo & TODO_FLOW)
        transport->flow(attempt);
}

/* What is queued meanwhile waits for the next round: one leg cannot starve the reactor. */
static void run_queue(struct task *task)
{
    struct client *client = OWNER_OF(task, struct client, task);

    for (size_t left = client->queued; left > 0 && client->queue; left--) {
        struct attempt *attempt = client->queue;
        unsigned todo = attempt->todo;

        dequeue(attempt);
        work_on(attempt, todo);
    }
    curl_transport.flush(client);
}

/* Clients */

struct client *client_new(struct reactor *reactor, struct resolver *resolver)
{
    struct client *client = calloc(1, sizeof *client);

    if (!client)
        return NULL;
    client->reactor = reactor;
    client->resolver = resolver;
    client->queue_end = &client->queue;
    client->task.run = run_queue;
    if (!direct_transport.open(client))
        goto no_direct;
    if (curl_transport.open(client))
        return client;
    direct_transport.close(client);
no_direct:
    free(client);
    return NULL;
}

static void free_upstream(struct upstream *upstream);

void client_free(struct client *client)
{
    if (!client)
        return;
    assert(client->legs == 0);
    while (client->upstreams)
        free_upstream(client->upstreams);
    curl_transport.close(client);
    direct_transport.close(client);
    reactor_undefer(client->reactor, &client->task);
    free(client);
}

size_t client_legs(const struct client *client) { return client->legs; }

size_t client_connections(const struct client *client)
{
    return curl_transport.connections(client) + direct_transport.connections(client);
}

/* Upstreams */

/* Keeps a NUL-terminated copy that does not move; NULL when memory is short or the slice is empty. */
static char *keep(struct upstream *upstream, coord_slice text)
{
    char *copy = upstream->text.data + upstream->text.size;

    assert(upstream->text.size + text.size < upstream->text.capacity); /* reserved by keep_strings */
    if (text.size > 0)
        memcpy(copy, text.data, text.size);
    copy[text.size] = 0;
    upstream->text.size += text.size + 1;
    return copy;
}

static char *keep_path(struct upstream *upstream, coord_slice *path)
{
    char *copy;

    if (path->size == 0)
        return NULL;
    copy = keep(upstream, *path);
    path->data = copy;
    return copy;
}

static bool keep_strings(struct upstream *upstream)
{
    struct upstream_options *options = &upstream->options;
    size_t size = 6 * options->url.size + options->ca_file.size + options->client_cert_file.size +
                  options->client_key_file.size + 128;

    if (!buffer_reserve(&upstream->text, size))
        return false;
    options->url.data = keep(upstream, options->url);
    upstream->ca_file = keep_path(upstream, &options->ca_file);
    upstream->client_cert_file = keep_path(upstream, &options->client_cert_file);
    upstream->client_key_file = keep_path(upstream, &options->client_key_file);
    return true;
}

static bool is_literal(const char *host)
{
    struct in6_addr address;

    return host[0] == '[' || inet_pton(AF_INET, host, &address) == 1;
}

/* Anything that a Host field or an address list could not carry as it is. */
static bool plain_text(coord_slice text)
{
    for (size_t i = 0; i < text.size; i++)
        if ((unsigned char)text.data[i] <= 0x20 || (unsigned char)text.data[i] >= 0x7f)
            return false;
    return text.size > 0;
}

static bool has_part(CURLU *url, CURLUPart part)
{
    char *text = NULL;
    bool there = curl_url_get(url, part, &text, 0) == CURLUE_OK;

    curl_free(text);
    return there;
}

static const char *take_host(struct upstream *upstream, CURLU *url)
{
    char *host = NULL, *port = NULL;
    const char *problem = "out of memory";

    if (curl_url_get(url, CURLUPART_HOST, &host, 0) || curl_url_get(url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT))
        goto out;
    upstream->port = atoi(port);
    problem = "the URL's port is 0";
    if (upstream->port <= 0)
        goto out;
    problem = "the URL's host name is too long";
    if (strlen(host) > 253)
        goto out;
    upstream->host = keep(upstream, is_literal(host) ? (coord_slice){NULL, 0} : coord_slice_of(host));
    upstream->host_port = upstream->text.data + upstream->text.size;
    upstream->text.size += (size_t)sprintf(upstream->host_port, "%s:%d", host, upstream->port) + 1;
    problem = NULL;
out:
    curl_free(host);
    curl_free(port);
    return problem;
}

/* http://[authority][/prefix]: both are kept as they are written. */
static const char *take_authority(struct upstream *upstream)
{
    coord_slice url = upstream->options.url;
    size_t start = upstream->secure ? strlen("https://") : strlen("http://");
    size_t end = start;

    while (end < url.size && url.data[end] != '/')
        end++;
    upstream->authority = (coord_slice){url.data + start, end - start};
    upstream->prefix = (coord_slice){url.data + end, url.size - end};
    while (upstream->prefix.size > 0 && upstream->prefix.data[upstream->prefix.size - 1] == '/')
        upstream->prefix.size--;
    upstream->origin = upstream->text.data + upstream->text.size;
    upstream->text.size += (size_t)sprintf(upstream->origin, "%.*s/", (int)end, url.data) + 1;
    return end > start ? NULL : "the URL has no host";
}

static const char *parse_url(struct upstream *upstream)
{
    coord_slice text = upstream->options.url;
    CURLU *url;
    const char *problem = "not an http:// or https:// URL";

    upstream->secure = text.size > 8 && strncasecmp(text.data, "https://", 8) == 0;
    if (!plain_text(text) || (!upstream->secure && (text.size <= 7 || strncasecmp(text.data, "http://", 7) != 0)))
        return problem;
    url = curl_url();
    if (!url)
        return "out of memory";
    problem = "not a valid URL";
    if (curl_url_set(url, CURLUPART_URL, text.data, 0))
        goto out;
    problem = "the URL must not hold credentials";
    if (has_part(url, CURLUPART_USER) || has_part(url, CURLUPART_PASSWORD))
        goto out;
    problem = "the URL must not have a query or fragment";
    if (memchr(text.data, '?', text.size) || memchr(text.data, '#', text.size))
        goto out;
    problem = take_host(upstream, url);
    if (!problem)
        problem = take_authority(upstream);
out:
    curl_url_cleanup(url);
    return problem;
}

static const char *check_files(struct client *client, const struct upstream *upstream)
{
    const char *const files[] = {upstream->ca_file, upstream->client_cert_file, upstream->client_key_file};

    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (!files[i] || access(files[i], R_OK) == 0)
            continue;
        snprintf(client->reason, sizeof client->reason, "cannot read %s: %s", files[i], strerror(errno));
        return client->reason;
    }
    return NULL;
}

static const char *choose_transport(struct upstream *upstream)
{
    enum upstream_transport wanted = upstream->options.transport;

    if (upstream->secure && wanted == UPSTREAM_DIRECT)
        return "the direct transport speaks no TLS: an https URL needs libcurl";
    upstream->transport = upstream->secure || wanted == UPSTREAM_CURL ? &curl_transport : &direct_transport;
    return NULL;
}

static bool same_options(const struct upstream_options *a, const struct upstream_options *b)
{
    return a->transport == b->transport && coord_slice_equal(a->url, b->url) &&
           a->max_idle_connections == b->max_idle_connections && a->idle_age_ns == b->idle_age_ns &&
           a->connect_timeout_ns == b->connect_timeout_ns && coord_slice_equal(a->ca_file, b->ca_file) &&
           coord_slice_equal(a->client_cert_file, b->client_cert_file) &&
           coord_slice_equal(a->client_key_file, b->client_key_file) &&
           a->insecure_skip_verify == b->insecure_skip_verify;
}

static struct upstream *shared_upstream(struct client *client, const struct upstream_options *options)
{
    for (struct upstream *upstream = client->upstreams; upstream; upstream = upstream->next)
        if (same_options(&upstream->options, options))
            return upstream;
    return NULL;
}

struct upstream *upstream_open(struct client *client, const struct upstream_options *options, const char **reason)
{
    struct upstream *upstream = shared_upstream(client, options);

    if (upstream) {
        upstream->references++;
        return upstream;
    }
    *reason = "out of memory";
    upstream = calloc(1, sizeof *upstream);
    if (!upstream)
        return NULL;
    upstream->client = client;
    upstream->options = *options;
    upstream->references = 1;
    if (!keep_strings(upstream))
        goto failed;
    *reason = parse_url(upstream);
    if (!*reason)
        *reason = check_files(client, upstream);
    if (!*reason)
        *reason = choose_transport(upstream);
    if (*reason)
        goto failed;
    *reason = "out of memory";
    upstream->next = client->upstreams;
    client->upstreams = upstream;
    if (upstream->transport->open_upstream(upstream)) {
        *reason = NULL;
        return upstream;
    }
    client->upstreams = upstream->next;
failed:
    buffer_release(&upstream->text);
    free(upstream);
    return NULL;
}

static void free_upstream(struct upstream *upstream)
{
    struct upstream **link = &upstream->client->upstreams;

    assert(upstream->attempts == 0);
    while (*link != upstream)
        link = &(*link)->next;
    *link = upstream->next;
    upstream->transport->close_upstream(upstream);
    buffer_release(&upstream->text);
    free(upstream);
}

void upstream_close(struct upstream *upstream)
{
    if (!upstream)
        return;
    assert(upstream->references > 0);
    upstream->references--;
    if (upstream->references == 0 && upstream->attempts == 0)
        free_upstream(upstream);
}

coord_slice upstream_prefix(const struct upstream *upstream) { return upstream->prefix; }

coord_slice upstream_authority(const struct upstream *upstream) { return upstream->authority; }

/* Deadlines */

static int64_t after(int64_t now_ns, int64_t delay_ns)
{
    return delay_ns <= 0 || delay_ns > NEVER - now_ns ? NEVER : now_ns + delay_ns;
}

static void arm(struct attempt *attempt, int64_t now_ns)
{
    int64_t due = attempt->deadline_ns < attempt->total_deadline_ns ? attempt->deadline_ns : attempt->total_deadline_ns;

    if (due == NEVER || (timer_armed(&attempt->timer) && attempt->timer.deadline_ns <= due))
        return;
    reactor_arm(attempt->upstream->client->reactor, &attempt->timer, due > now_ns ? due - now_ns : 0);
}

static void set_deadline(struct attempt *attempt, int64_t now_ns, int64_t delay_ns)
{
    attempt->deadline_ns = after(now_ns, delay_ns);
    arm(attempt, now_ns);
}

/* Each address but the last gets half of the time that is left. */
static void begin_connect(struct attempt *attempt)
{
    int64_t now = reactor_now_fresh(attempt->upstream->client->reactor);
    bool more = attempt->tried + 1 < attempt->upstream->addresses.count;

    attempt->phase = PHASE_CONNECT;
    attempt->deadline_ns = attempt->connect_deadline_ns;
    if (more && attempt->deadline_ns != NEVER)
        attempt->deadline_ns -= (attempt->deadline_ns - now) / 2;
    arm(attempt, now);
}

static int64_t now_of(const struct attempt *attempt) { return reactor_now(attempt->upstream->client->reactor); }

static void time_out(struct attempt *attempt, enum leg_outcome outcome, const char *what, int64_t limit_ns)
{
    char detail[128];

    snprintf(detail, sizeof detail, "%s within %g s", what, (double)limit_ns / 1e9);
    attempt_over(attempt, outcome, detail);
}

static void phase_over(struct attempt *attempt)
{
    const struct leg_request *request = &attempt->request;
    int64_t connect_ns = attempt->upstream->options.connect_timeout_ns;

    switch (attempt->phase) {
    case PHASE_NAME:
        time_out(attempt, LEG_CONNECT_TIMEOUT, "the name lookup did not end", connect_ns);
        return;
    case PHASE_CONNECT:
        if (attempt_unreachable(attempt)) {
            attempt->upstream->transport->reconnect(attempt);
            return;
        }
        time_out(attempt, LEG_CONNECT_TIMEOUT, "no connection", connect_ns);
        return;
    case PHASE_HEAD:
        time_out(attempt, LEG_HEAD_TIMEOUT, "no head of an answer", request->head_timeout_ns);
        return;
    case PHASE_BODY:
        time_out(attempt, LEG_IDLE_TIMEOUT, "nothing more of the answer", request->idle_timeout_ns);
        return;
    }
}

static void timer_due(struct timer *timer)
{
    struct attempt *attempt = OWNER_OF(timer, struct attempt, timer);
    int64_t now = now_of(attempt);

    if (attempt->total_deadline_ns <= now)
        time_out(attempt, LEG_TOTAL_TIMEOUT, "the answer was not complete", attempt->request.total_timeout_ns);
    else if (attempt->deadline_ns <= now)
        phase_over(attempt);
    else
        arm(attempt, now);
}

/* The end */

/* From here on nobody listens, and nothing of ours will touch the attempt but the transport. */
static void detach(struct attempt *attempt)
{
    struct client *client = attempt->upstream->client;

    attempt->leg->attempt = NULL;
    attempt->leg = NULL;
    client->legs--;
    reactor_disarm(client->reactor, &attempt->timer);
    if (attempt->lookup.entry)
        resolver_cancel(client->resolver, &attempt->lookup);
    dequeue(attempt);
}

void attempt_over(struct attempt *attempt, enum leg_outcome outcome, const char *detail)
{
    const struct upstream *upstream = attempt->upstream;
    struct client *client = upstream->client;
    struct leg *leg = attempt->leg;
    void (*end)(struct leg *, const struct leg_result *) = attempt->events.end;
    struct leg_result result = {.outcome = outcome,
                                .detail = client->detail,
                                .head_seen = attempt->head.complete,
                                .connect_ns = attempt->connect_ns};

    result.close_delimited = result.head_seen && answer_head_close_delimited(&attempt->head, attempt->to_head);
    snprintf(client->detail, sizeof client->detail, "%s", detail ? detail : "");
    detach(attempt);
    upstream->transport->give_back(attempt, outcome == LEG_COMPLETE);
    end(leg, &result);
}

void attempt_over_soon(struct attempt *attempt, enum leg_outcome outcome, const char *detail)
{
    attempt->failure = outcome;
    attempt->refusal = detail;
    enqueue(attempt, TODO_FAIL);
}

void upstream_returned(struct upstream *upstream)
{
    upstream->attempts--;
    if (upstream->references == 0 && upstream->attempts == 0)
        free_upstream(upstream);
}

/* Addresses */

bool same_address(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    const struct sockaddr_in *a4 = (const struct sockaddr_in *)a, *b4 = (const struct sockaddr_in *)b;
    const struct sockaddr_in6 *a6 = (const struct sockaddr_in6 *)a, *b6 = (const struct sockaddr_in6 *)b;

    if (a->ss_family != b->ss_family)
        return false;
    if (a->ss_family == AF_INET)
        return a4->sin_addr.s_addr == b4->sin_addr.s_addr;
    return memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof a6->sin6_addr) == 0 && a6->sin6_scope_id == b6->sin6_scope_id;
}

/* An address that took connections stays the preferred one as long as the name has it. */
static void learn_addresses(struct upstream *upstream, const struct resolved *answer)
{
    size_t preferred = 0;

    if (upstream->addresses.count > 0 && upstream->addresses.generation == answer->generation)
        return;
    if (upstream->addresses.count > 0)
        for (size_t i = 0; i < answer->count; i++)
            if (same_address(&answer->addresses[i], &upstream->addresses.addresses[upstream->preferred]))
                preferred = i;
    upstream->addresses = *answer;
    upstream->preferred = preferred;
}

const struct sockaddr_storage *attempt_address(const struct attempt *attempt)
{
    const struct resolved *known = &attempt->upstream->addresses;

    return known->count > 0 ? &known->addresses[attempt->address % known->count] : NULL;
}

bool attempt_unreachable(struct attempt *attempt)
{
    if (attempt->tried + 1 >= attempt->upstream->addresses.count)
        return false;
    attempt->tried++;
    attempt->address++;
    begin_connect(attempt);
    return true;
}

/* What transports report */

void attempt_connected(struct attempt *attempt, bool reused)
{
    struct reactor *reactor = attempt->upstream->client->reactor;
    int64_t now = reused ? reactor_now(reactor) : reactor_now_fresh(reactor);

    if (attempt->tried > 0)
        attempt->upstream->preferred = attempt->address % attempt->upstream->addresses.count;
    attempt->connected = true;
    attempt->reused = reused;
    attempt->connect_ns = reused ? 0 : now - attempt->started_ns;
    attempt->phase = PHASE_HEAD;
    set_deadline(attempt, now, attempt->request.head_timeout_ns);
}

void attempt_uploading(struct attempt *attempt, bool waiting)
{
    if (attempt->phase == PHASE_HEAD)
        set_deadline(attempt, now_of(attempt), waiting ? 0 : attempt->request.head_timeout_ns);
}

static void head_complete(struct attempt *attempt)
{
    struct leg_head head = {.status = attempt->head.status,
                            .headers = attempt->head.headers,
                            .length = answer_head_length(&attempt->head),
                            .reused = attempt->reused};

    attempt->phase = PHASE_BODY;
    set_deadline(attempt, now_of(attempt), attempt->paused ? 0 : attempt->request.idle_timeout_ns);
    attempt->events.head(attempt->leg, &head);
}

bool attempt_head_line(struct attempt *attempt, coord_slice line)
{
    if (!attempt->leg)
        return false;
    switch (answer_head_line(&attempt->head, line, &attempt->refusal)) {
    case ANSWER_MORE:
        return true;
    case ANSWER_REFUSED:
        return false;
    case ANSWER_COMPLETE:
        break;
    }
    head_complete(attempt);
    return attempt->leg != NULL;
}

bool attempt_data(struct attempt *attempt, coord_slice bytes)
{
    if (!attempt->leg)
        return false;
    if (attempt->deadline_ns != NEVER) /* later than it was: no arming; the clock anew, since one turn may read a lot */
        attempt->deadline_ns =
            after(reactor_now_fresh(attempt->upstream->client->reactor), attempt->request.idle_timeout_ns);
    attempt->events.data(attempt->leg, bytes);
    return attempt->leg != NULL;
}

/* Legs */

size_t leg_size(void) { return sizeof(struct leg); }

void *leg_owner(const struct leg *leg) { return leg->owner; }

static void name_known(struct attempt *attempt, const struct resolved *answer)
{
    learn_addresses(attempt->upstream, answer);
    attempt->address = attempt->upstream->preferred;
    begin_connect(attempt);
    enqueue(attempt, TODO_BEGIN);
}

static void lookup_done(struct lookup *lookup, const struct resolved *answer)
{
    struct attempt *attempt = OWNER_OF(lookup, struct attempt, lookup);

    if (answer->count > 0)
        name_known(attempt, answer);
    else
        attempt_over(attempt, LEG_UNRESOLVED, answer->reason);
}

/* A kept connection needs no address, but the transport must have one for when there is none. */
static void find_addresses(struct attempt *attempt)
{
    struct upstream *upstream = attempt->upstream;
    struct resolved answer;

    if (upstream->host[0] == 0) {
        begin_connect(attempt);
        enqueue(attempt, TODO_BEGIN);
        return;
    }
    attempt->lookup.done = lookup_done;
    if (!resolver_start(upstream->client->resolver, coord_slice_of(upstream->host), &attempt->lookup, &answer))
        return;
    if (answer.count > 0)
        name_known(attempt, &answer);
    else
        attempt_over_soon(attempt, LEG_UNRESOLVED, answer.reason);
}

/* What a request sends */

static bool reserved_name(coord_slice name)
{
    switch (name.size) {
    case 4:
        return header_name_is(name, "host");
    case 6:
        return header_name_is(name, "expect");
    case 10:
        return header_name_is(name, "connection");
    case 14:
        return header_name_is(name, "content-length");
    case 17:
        return header_name_is(name, "transfer-encoding");
    default:
        return false;
    }
}

bool request_field_goes_out(const struct header *field)
{
    return !reserved_name(field->name) && header_name_valid(field->name) && header_value_valid(field->value);
}

bool request_value_blank(coord_slice value)
{
    for (size_t i = 0; i < value.size; i++)
        if (value.data[i] != ' ' && value.data[i] != '\t')
            return false;
    return true;
}

static bool valid_target(coord_slice target)
{
    for (size_t i = 0; i < target.size; i++)
        if ((unsigned char)target.data[i] <= 0x20 || target.data[i] == 0x7f)
            return false;
    return target.size > 0;
}

/* Everything but what the transport keeps. */
static void set_up(struct attempt *attempt, struct upstream *upstream, const struct leg_request *request,
                   const struct leg_events *events)
{
    int64_t now = reactor_now_fresh(upstream->client->reactor);

    attempt->upstream = upstream;
    attempt->events = *events;
    attempt->request = *request;
    attempt->lookup = (struct lookup){0};
    attempt->refusal = NULL;
    attempt->phase = PHASE_NAME;
    attempt->to_head = coord_slice_is(request->method, "HEAD");
    attempt->reused = attempt->connected = attempt->paused = false;
    attempt->connect_ns = 0;
    attempt->started_ns = now;
    attempt->timer.due = timer_due;
    attempt->address = attempt->tried = 0;
    attempt->total_deadline_ns = after(now, request->total_timeout_ns);
    attempt->connect_deadline_ns = after(now, upstream->options.connect_timeout_ns);
    answer_head_begin(&attempt->head);
    set_deadline(attempt, now, upstream->options.connect_timeout_ns);
}

struct leg *leg_start(void *memory, struct upstream *upstream, const struct leg_request *request,
                      const struct leg_events *events, void *owner)
{
    struct leg *leg = memory;
    struct attempt *attempt = upstream->transport->take(upstream);

    if (!attempt)
        return NULL;
    leg->attempt = attempt;
    leg->owner = owner;
    attempt->leg = leg;
    upstream->client->legs++;
    upstream->attempts++;
    set_up(attempt, upstream, request, events);
    if (!valid_target(request->target) || !header_name_valid(request->method))
        attempt_over_soon(attempt, LEG_INTERNAL, "the request's method or target is invalid");
    else
        find_addresses(attempt);
    return leg;
}

void leg_pause(struct leg *leg)
{
    struct attempt *attempt = leg->attempt;

    if (!attempt || attempt->paused)
        return;
    attempt->paused = true;
    if (attempt->phase == PHASE_BODY)
        attempt->deadline_ns = NEVER;
    enqueue(attempt, TODO_FLOW);
}

void leg_resume(struct leg *leg)
{
    struct attempt *attempt = leg->attempt;

    if (!attempt || !attempt->paused)
        return;
    attempt->paused = false;
    if (attempt->phase == PHASE_BODY)
        set_deadline(attempt, reactor_now_fresh(attempt->upstream->client->reactor), attempt->request.idle_timeout_ns);
    enqueue(attempt, TODO_FLOW);
}

void leg_upload_more(struct leg *leg)
{
    struct attempt *attempt = leg->attempt;

    if (!attempt)
        return;
    attempt->upstream->transport->upload_more(attempt);
    enqueue(attempt, TODO_FLOW);
}

void leg_cancel(struct leg *leg)
{
    struct attempt *attempt = leg->attempt;

    if (!attempt)
        return;
    detach(attempt);
    attempt->upstream->transport->give_back(attempt, false);
}
