/*
 * See upstream.h and upstream_private.h. Nothing here knows how bytes travel.
 *
 * Whatever the contract forbids to happen inside a call (events from leg_start or leg_resume) goes through the client's queue,
 * which one task of the reactor works off. An attempt has one timer for all its deadlines. It is not moved when a deadline
 * moves away: it comes too early then, looks, and is armed again, so that data costs no heap operation.
 */
#include "upstream_private.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

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

void client_free(struct client *client)
{
    if (!client)
        return;
    assert(client->legs == 0);
    while (client->upstreams)
        upstream_free(client->upstreams);
    curl_transport.close(client);
    direct_transport.close(client);
    reactor_undefer(client->reactor, &client->task);
    arena_release(&client->fields);
    free(client);
}

size_t client_legs(const struct client *client) { return client->legs; }

size_t client_connections(const struct client *client)
{
    return curl_transport.connections(client) + direct_transport.connections(client);
}

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
    client->detail[0] = 0;
    if (detail && *detail)
        snprintf(client->detail, sizeof client->detail, "%s", detail);
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

void attempt_flow_soon(struct attempt *attempt) { enqueue(attempt, TODO_FLOW); }

void upstream_returned(struct upstream *upstream)
{
    upstream->attempts--;
    if (upstream->references == 0 && upstream->attempts == 0)
        upstream_free(upstream);
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

/* Most heads come in one piece, so that one piece of memory goes from leg to leg. */
static void take_memory(struct attempt *attempt)
{
    struct client *client = attempt->upstream->client;

    if (attempt->head.arena.first)
        return;
    attempt->head.arena = client->fields;
    client->fields = (struct arena){0};
}

static void return_memory(struct attempt *attempt)
{
    struct client *client = attempt->upstream->client;

    if (!client->fields.first) {
        arena_reset(&attempt->head.arena);
        client->fields = attempt->head.arena;
        attempt->head.arena = (struct arena){0};
    }
    answer_head_release(&attempt->head);
}

static void head_complete(struct attempt *attempt)
{
    const struct transport *transport = attempt->upstream->transport;
    struct leg_head head = {.status = attempt->head.status,
                            .headers = attempt->head.headers,
                            .length = answer_head_length(&attempt->head),
                            .reused = attempt->reused,
                            .sent = transport->sent && transport->sent(attempt)};

    attempt->phase = PHASE_BODY;
    set_deadline(attempt, now_of(attempt), attempt->paused ? 0 : attempt->request.idle_timeout_ns);
    attempt->events.head(attempt->leg, &head);
    if (attempt->leg)
        return_memory(attempt); /* a stream may last: nobody needs its head again */
}

bool attempt_head_line(struct attempt *attempt, coord_slice line)
{
    if (!attempt->leg)
        return false;
    if (!attempt->head.began)
        take_memory(attempt);
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

/* Fields that the core writes itself, or not at all. */
static const bool OURS[HEADER_KINDS] = {
    [HEADER_HOST] = true,
    [HEADER_EXPECT] = true,
    [HEADER_CONNECTION] = true,
    [HEADER_CONTENT_LENGTH] = true,
    [HEADER_TRANSFER_ENCODING] = true,
};

bool request_field_goes_out(const struct header *field)
{
    struct header told = *field;

    if (!told.checked && told.kind == HEADER_OTHER)
        told.kind = header_kind_of(told.name);
    return !OURS[told.kind] && header_field_valid(&told);
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
