/* See stand_in.h. An answer is delivered in the turn after the leg's start, or, where the owner pauses, as it resumes. */
#include "http/stand_in.h"

#include "upstream_private.h"

#include <assert.h>
#include <stdlib.h>

struct stand_in_attempt {
    struct attempt attempt;
    struct stand_in_answer answer;
    size_t head_read, sent; /* of the two buffers of the answer */
    bool answered;
    bool inside;   /* the owner may be running */
    bool returned; /* given back meanwhile */
};

static struct stand_in_attempt *self_of(struct attempt *attempt)
{
    return OWNER_OF(attempt, struct stand_in_attempt, attempt);
}

void client_stand_in(struct client *client, stand_in_fn *stand_in, void *context)
{
    assert(!client->upstreams);
    client->stand_in = stand_in;
    client->stand_in_context = context;
}

const char *upstream_transport_name(const struct upstream *upstream)
{
    return upstream->chosen == &curl_transport ? "libcurl" : "direct";
}

bool upstream_is_secure(const struct upstream *upstream) { return upstream->secure; }

static struct attempt *take(struct upstream *upstream)
{
    struct stand_in_attempt *self = calloc(1, sizeof *self);

    (void)upstream;
    return self ? &self->attempt : NULL;
}

static void free_attempt(struct stand_in_attempt *self)
{
    struct upstream *upstream = self->attempt.upstream;

    answer_head_release(&self->attempt.head);
    buffer_release(&self->answer.head);
    buffer_release(&self->answer.body);
    free(self);
    upstream_returned(upstream);
}

static void give_back(struct attempt *attempt, bool ended)
{
    struct stand_in_attempt *self = self_of(attempt);

    (void)ended;
    self->returned = true;
    if (!self->inside)
        free_attempt(self);
}

/* Line by line, and the blank one. False: refused, or nobody listens any more. */
static bool deliver_head(struct stand_in_attempt *self)
{
    coord_slice head = buffer_slice(&self->answer.head);
    static const coord_slice blank = COORD_SLICE("\r\n");

    while (self->head_read < head.size) {
        const char *line = head.data + self->head_read;
        const char *end = memchr(line, '\n', head.size - self->head_read);
        size_t size = end ? (size_t)(end - line) + 1 : head.size - self->head_read;

        self->head_read += size;
        if (!attempt_head_line(&self->attempt, (coord_slice){line, size}))
            return false;
    }
    return attempt_head_line(&self->attempt, blank);
}

/* Up to the end of an event, since workers send one a piece. */
static coord_slice next_piece(const struct stand_in_attempt *self)
{
    static const char blank[] = "\n\n";
    const char *from = self->answer.body.data + self->sent;
    size_t left = self->answer.body.size - self->sent;
    const char *end = memmem(from, left, blank, sizeof blank - 1);

    return (coord_slice){from, end ? (size_t)(end - from) + sizeof blank - 1 : left};
}

static bool deliver_body(struct stand_in_attempt *self)
{
    bool going = true;

    if (!answer_head_has_body(&self->attempt.head, self->attempt.to_head))
        self->sent = self->answer.body.size;
    while (going && !self->attempt.paused && self->sent < self->answer.body.size) {
        coord_slice piece = next_piece(self);

        self->sent += piece.size;
        going = attempt_data(&self->attempt, piece);
    }
    return going;
}

static void deliver(struct stand_in_attempt *self)
{
    bool going;

    self->inside = true;
    going = (self->attempt.head.complete || deliver_head(self)) && deliver_body(self);
    self->inside = false;
    if (self->returned)
        free_attempt(self);
    else if (!going)
        attempt_over(&self->attempt, LEG_BROKEN, self->attempt.refusal);
    else if (self->sent == self->answer.body.size)
        attempt_over(&self->attempt, LEG_COMPLETE, NULL);
}

static bool begin(struct attempt *attempt)
{
    struct stand_in_attempt *self = self_of(attempt);
    const struct client *client = attempt->upstream->client;
    struct buffer head = {0};
    struct stand_in_leg leg = {.owner = leg_owner(attempt->leg),
                               .upstream = attempt->upstream,
                               .pieces = attempt->request.pieces,
                               .piece_count = attempt_sends_body(attempt) ? attempt->request.piece_count : 0};

    if (attempt->request.streamed) {
        attempt_over_soon(attempt, LEG_INTERNAL, "a stand-in takes no streamed upload");
        return true;
    }
    if (!request_head_build(&head, attempt, upstream_host_field(attempt->upstream)))
        return false;
    leg.head = buffer_slice(&head);
    self->answered = client->stand_in(client->stand_in_context, &leg, &self->answer);
    buffer_release(&head);
    if (self->answered) {
        attempt_connected(attempt, false);
        attempt_flow_soon(attempt);
    } else {
        attempt_over_soon(attempt, LEG_REFUSED, "the stand-in takes no connection");
    }
    return true;
}

static void flow(struct attempt *attempt)
{
    if (self_of(attempt)->answered && !attempt->paused)
        deliver(self_of(attempt));
}

static void reconnect(struct attempt *attempt) { attempt_over(attempt, LEG_REFUSED, NULL); }
static void upload_more(struct attempt *attempt) { (void)attempt; }
static bool open_client(struct client *client) { return client; }
static void close_client(struct client *client) { (void)client; }
static bool open_upstream(struct upstream *upstream) { return upstream; }
static void close_upstream(struct upstream *upstream) { (void)upstream; }

static size_t connections(const struct client *client)
{
    (void)client;
    return 0;
}

const struct transport stand_in_transport = {
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
    .connections = connections,
};
