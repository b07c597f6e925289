/* See direct.h. */
#include "direct.h"

#include <assert.h>
#include <stdlib.h>

enum {
    KEPT_ATTEMPTS = 128,
    KEPT_BYTES = 16 * 1024, /* of a free attempt's uploads */
    KEPT_REST = 4 * 1024
};

/* The pool */

static void free_attempt(struct direct_attempt *direct)
{
    answer_head_release(&direct->attempt.head);
    direct_reader_release(&direct->reader);
    buffer_release(&direct->rest);
    buffer_release(&direct->head);
    buffer_release(&direct->out);
    free(direct);
}

static struct attempt *take(struct upstream *upstream)
{
    struct direct_upstream *pool = upstream->transport_state;
    struct direct_attempt *direct = pool->free;

    if (!direct) {
        direct = calloc(1, sizeof *direct);
        return direct ? &direct->attempt : NULL;
    }
    pool->free = direct->next;
    pool->free_count--;
    direct->piece = direct->offset = direct->out_sent = 0;
    direct->uploaded = 0;
    direct->returned = direct->sending = direct->cut_short = false;
    direct->upload_held = direct->upload_more = direct->upload_over = false;
    direct->deaf = direct->answered = direct->peer_closed = direct->reusable = false;
    direct->detail = NULL;
    return &direct->attempt;
}

static void recycle(struct direct_attempt *direct)
{
    struct upstream *upstream = direct->attempt.upstream;
    struct direct_upstream *pool = upstream->transport_state;

    assert(!direct->connection);
    if (pool->free_count == KEPT_ATTEMPTS) {
        free_attempt(direct);
    } else {
        direct_forget_head(direct);
        buffer_clear(&direct->rest, KEPT_REST);
        buffer_clear(&direct->out, KEPT_BYTES);
        direct->next = pool->free;
        pool->free = direct;
        pool->free_count++;
    }
    upstream_returned(upstream);
}

static bool sent(const struct attempt *attempt)
{
    return !OWNER_OF(attempt, const struct direct_attempt, attempt)->sending;
}

static void give_back(struct attempt *attempt, bool ended)
{
    struct direct_attempt *direct = direct_of(attempt);
    struct direct_connection *connection = direct->connection;

    direct->connection = NULL;
    if (connection && ended && direct->reusable)
        direct_connection_keep(connection);
    else if (connection)
        direct_connection_close(connection);
    direct->returned = true;
    if (direct->inside == 0)
        recycle(direct);
}

/* Verdicts */

void direct_enter(struct direct_attempt *direct) { direct->inside++; }

void direct_leave(struct direct_attempt *direct)
{
    assert(direct->inside > 0);
    direct->inside--;
    if (direct->inside == 0 && direct->returned)
        recycle(direct);
}

void direct_finish(struct direct_attempt *direct, enum direct_verdict verdict)
{
    direct_leave(direct);
    if (verdict == DIRECT_OVER)
        attempt_over(&direct->attempt, direct->outcome, direct->detail);
}

enum direct_verdict direct_over(struct direct_attempt *direct, enum leg_outcome outcome, const char *detail)
{
    direct->outcome = outcome;
    direct->detail = detail;
    return DIRECT_OVER;
}

/* The table */

enum direct_verdict direct_start(struct direct_attempt *direct, bool reused)
{
    attempt_connected(&direct->attempt, reused);
    direct->sending = true;
    return direct_send(direct);
}

/* A streamed upload asks its owner for bytes, which must not happen in here. */
static enum direct_verdict start_on_kept(struct direct_attempt *direct)
{
    if (!direct->attempt.request.streamed)
        return direct_start(direct, true);
    attempt_connected(&direct->attempt, true);
    direct->sending = direct->upload_held = direct->upload_more = true;
    attempt_flow_soon(&direct->attempt);
    return DIRECT_GOING;
}

static bool begin(struct attempt *attempt)
{
    struct direct_attempt *direct = direct_of(attempt);
    enum direct_verdict verdict;

    direct_reader_begin(&direct->reader);
    if (!direct_build_head(direct))
        return false;
    if (!attempt->request.fresh && direct_connection_reuse(direct))
        verdict = start_on_kept(direct);
    else
        verdict = direct_connect(direct);
    if (verdict == DIRECT_OVER)
        attempt_over_soon(attempt, direct->outcome, direct->detail);
    return true;
}

static void reconnect(struct attempt *attempt)
{
    struct direct_attempt *direct = direct_of(attempt);
    struct direct_connection *connection = direct->connection;

    direct->connection = NULL;
    if (connection)
        direct_connection_close(connection);
    direct_enter(direct);
    direct_finish(direct, direct_connect(direct));
}

static enum direct_verdict go_on(struct direct_attempt *direct)
{
    enum direct_verdict verdict = DIRECT_GOING;

    if (!direct_held(direct)) {
        direct->deaf = false;
        verdict = direct_take_rest(direct);
    }
    if (verdict == DIRECT_GOING && direct->upload_held && direct->upload_more) {
        direct->upload_held = false;
        return direct_send(direct);
    }
    return verdict == DIRECT_GOING ? direct_watch(direct) : verdict;
}

static void flow(struct attempt *attempt)
{
    struct direct_attempt *direct = direct_of(attempt);

    if (!direct->connection || direct->connection->connecting)
        return;
    direct_enter(direct);
    direct_finish(direct, go_on(direct));
}

static void upload_more(struct attempt *attempt) { direct_of(attempt)->upload_more = true; }

static bool open_client(struct client *client)
{
    client->direct = calloc(1, sizeof *client->direct);
    if (client->direct)
        client->direct->client = client;
    return client->direct;
}

static void close_client(struct client *client)
{
    assert(client->direct->connections == 0);
    direct_connections_free(client->direct);
    buffer_release(&client->direct->head);
    free(client->direct);
}

static bool open_upstream(struct upstream *upstream)
{
    struct direct_upstream *pool = calloc(1, sizeof *pool);

    if (!pool)
        return false;
    pool->upstream = upstream;
    upstream->transport_state = pool;
    direct_pool_open(pool);
    return true;
}

static void close_upstream(struct upstream *upstream)
{
    struct direct_upstream *pool = upstream->transport_state;
    struct direct_attempt *direct;

    direct_pool_close(pool);
    while ((direct = pool->free)) {
        pool->free = direct->next;
        free_attempt(direct);
    }
    free(pool);
}

static size_t connections(const struct client *client) { return client->direct->connections; }

const struct transport direct_transport = {
    .open = open_client,
    .close = close_client,
    .open_upstream = open_upstream,
    .close_upstream = close_upstream,
    .take = take,
    .begin = begin,
    .reconnect = reconnect,
    .flow = flow,
    .upload_more = upload_more,
    .sent = sent,
    .give_back = give_back,
    .connections = connections,
};
