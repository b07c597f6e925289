/*
 * See rehearsal.h: the witness. Whatever it is told it copies with its secrets hidden, under the lock; where memory is short it says so
 * in the end instead of leaving something out.
 */
#include "pipeline/rehearsal.h"

#include "json/splices.h"
#include "pipeline/call.h"
#include "pipeline/why.h"
#include "telemetry/log.h"

#include <stdlib.h>

static bool enter(struct rehearsal *rehearsal)
{
    pthread_mutex_lock(&rehearsal->lock);
    if (!rehearsal->over)
        return true;
    pthread_mutex_unlock(&rehearsal->lock);
    return false;
}

static void leave(struct rehearsal *rehearsal) { pthread_mutex_unlock(&rehearsal->lock); }

static void *alloc(struct rehearsal *rehearsal, size_t size)
{
    void *memory = arena_alloc(&rehearsal->arena, size);

    rehearsal->short_of_memory |= !memory;
    return memory;
}

static coord_slice copy(struct rehearsal *rehearsal, coord_slice text)
{
    coord_slice kept = arena_copy(&rehearsal->arena, text);

    rehearsal->short_of_memory |= !kept.data;
    return kept;
}

static coord_slice hidden(struct rehearsal *rehearsal, coord_slice text)
{
    struct buffer shown = {0};
    coord_slice kept = {0};

    if (secrets_hide(&rehearsal->secrets, text, &shown))
        kept = copy(rehearsal, buffer_slice(&shown));
    else
        rehearsal->short_of_memory = true;
    buffer_release(&shown);
    return kept;
}

static void add_field(struct rehearsal *rehearsal, struct headers *headers, coord_slice name, coord_slice value,
                      bool as_is)
{
    static const coord_slice credential = COORD_SLICE("[secret]");

    if (log_is_credential(name))
        value = credential;
    else if (!as_is)
        value = hidden(rehearsal, value);
    if (!headers_add(headers, name, value))
        rehearsal->short_of_memory = true;
}

void rehearsal_copy_fields(struct rehearsal *rehearsal, struct headers *to, const struct headers *from)
{
    headers_init(to, &rehearsal->arena);
    for (size_t i = 0; i < from->count; i++)
        add_field(rehearsal, to, from->list[i].name, from->list[i].value, false);
}

/* ---- Pipelines and steps ---- */

static void begin_pipeline(struct rehearsal *rehearsal, const struct pipeline *pipeline)
{
    rehearsal->steps = alloc(rehearsal, (pipeline->step_count + 1) * sizeof *rehearsal->steps);
    if (!rehearsal->steps)
        return;
    rehearsal->pipeline = pipeline;
    for (size_t i = 0; i < pipeline->step_count; i++) {
        rehearsal->steps[i].step = &pipeline->steps[i];
        rehearsal->steps[i].legs_end = &rehearsal->steps[i].legs;
    }
}

static struct rehearsed_step *step_of(const struct rehearsal *rehearsal, const struct step *step)
{
    const struct pipeline *pipeline = rehearsal->pipeline;

    if (!step || !pipeline || step < pipeline->steps || step >= pipeline->steps + pipeline->step_count)
        return NULL;
    return &rehearsal->steps[step - pipeline->steps];
}

static void tried(void *context, const struct coord_request *request, const struct pipeline *pipeline, const char *key)
{
    struct rehearsal *rehearsal = context;
    struct rehearsed_try *entry;

    if (!enter(rehearsal))
        return;
    if (!key) {
        begin_pipeline(rehearsal, pipeline);
    } else if ((entry = alloc(rehearsal, sizeof *entry))) {
        entry->name = pipeline->settings->name;
        entry->why = why_not(&rehearsal->arena, "match", &pipeline->settings->match, key, request);
        *rehearsal->tries_end = entry;
        rehearsal->tries_end = &entry->next;
    }
    leave(rehearsal);
}

static void skipped(void *context, const struct coord_request *request, const struct step *step, const char *key)
{
    struct rehearsal *rehearsal = context;
    struct rehearsed_step *seen;

    if (!enter(rehearsal))
        return;
    seen = step_of(rehearsal, step);
    if (seen)
        seen->why = why_not(&rehearsal->arena, "when", &step->entry->when, key, request);
    leave(rehearsal);
}

static void began(void *context, const struct step *step)
{
    struct rehearsal *rehearsal = context;
    struct rehearsed_step *seen;

    if (!enter(rehearsal))
        return;
    rehearsal->running = step;
    seen = step_of(rehearsal, step);
    if (seen)
        seen->ran = true;
    leave(rehearsal);
}

static void ended(void *context, const struct step *step, coord_status status, coord_slice message, bool undone)
{
    struct rehearsal *rehearsal = context;
    struct rehearsed_step *seen;

    if (!enter(rehearsal))
        return;
    rehearsal->running = NULL;
    seen = step_of(rehearsal, step);
    if (seen) {
        seen->ended = true;
        seen->status = status;
        seen->undone = undone;
        if (message.size > 0)
            seen->why = hidden(rehearsal, message).data;
    }
    leave(rehearsal);
}

/* ---- Legs ---- */

static coord_slice cut(coord_slice *rest, const char *at, size_t skip)
{
    coord_slice part = {rest->data, (size_t)(at - rest->data)};

    rest->data = at + skip;
    rest->size -= part.size + skip;
    return part;
}

/* The head is ours: one line a field, each ending with CRLF, and a blank one. */
static void note_head(struct rehearsal *rehearsal, struct rehearsed_leg *seen, coord_slice head, bool to_gateway)
{
    coord_slice line = cut(&head, memchr(head.data, '\r', head.size), 2);

    seen->method = copy(rehearsal, cut(&line, memchr(line.data, ' ', line.size), 1));
    seen->target = hidden(rehearsal, cut(&line, memrchr(line.data, ' ', line.size), 1));
    headers_init(&seen->headers, &rehearsal->arena);
    while (head.size > 2) {
        coord_slice value = cut(&head, memchr(head.data, '\r', head.size), 2);
        coord_slice name = cut(&value, memchr(value.data, ':', value.size), 1);

        if (value.size > 0 && value.data[0] == ' ')
            value = (coord_slice){value.data + 1, value.size - 1};
        add_field(rehearsal, &seen->headers, name, value, to_gateway && header_name_is(name, "host"));
    }
}

struct noting {
    struct rehearsal *rehearsal;
    struct rehearsed_leg *leg;
};

static void note_splice(void *context, coord_slice pointer)
{
    struct noting *noting = context;
    struct rehearsed_leg *leg = noting->leg;

    if (leg->spliced_count == leg->spliced_room) {
        size_t room = 2 * leg->spliced_room + 8;
        coord_slice *list = alloc(noting->rehearsal, room * sizeof *list);

        if (!list)
            return;
        if (leg->spliced_count > 0)
            memcpy(list, leg->spliced, leg->spliced_count * sizeof *list);
        leg->spliced = list;
        leg->spliced_room = room;
    }
    leg->spliced[leg->spliced_count++] = copy(noting->rehearsal, pointer);
}

/* What is the client's stays as it is, to the byte; the rest may hold what nobody shall see. */
static void note_body(struct rehearsal *rehearsal, struct rehearsed_leg *seen, const struct stand_in_leg *leg,
                      const struct coord_call *call)
{
    const coord_document *received = call->request->body;
    bool clients = call->out->document && received && document_shares_text(call->out->document, received);
    bool *edited = alloc(rehearsal, (leg->piece_count + 1) * sizeof *edited);
    coord_slice *pieces = alloc(rehearsal, (leg->piece_count + 1) * sizeof *pieces);
    struct noting noting = {rehearsal, seen};

    seen->pieces = alloc(rehearsal, (leg->piece_count + 1) * sizeof *seen->pieces);
    if (!edited || !pieces || !seen->pieces)
        return;
    if (clients)
        coord_document_pieces(call->out->document, pieces, edited, leg->piece_count);
    for (size_t i = 0; i < leg->piece_count; i++) {
        bool spliced = !clients || edited[i];

        seen->pieces[i].spliced = spliced;
        seen->pieces[i].text = spliced ? hidden(rehearsal, leg->pieces[i]) : copy(rehearsal, leg->pieces[i]);
    }
    seen->piece_count = leg->piece_count;
    if (!clients && leg->piece_count > 0)
        note_splice(&noting, (coord_slice){0});
    else if (clients && !document_splices(call->out->document, received, note_splice, &noting))
        rehearsal->short_of_memory = true;
}

static struct rehearsed_leg *add_leg(struct rehearsal *rehearsal, const struct coord_call *call)
{
    struct rehearsed_step *step = step_of(rehearsal, call->request->step);
    struct rehearsed_leg ***end = step ? &step->legs_end : &rehearsal->background_end;
    struct rehearsed_leg *seen = alloc(rehearsal, sizeof *seen);

    if (!seen)
        return NULL;
    **end = seen;
    *end = &seen->next;
    return seen;
}

static void note_leg(struct rehearsal *rehearsal, const struct stand_in_leg *leg, const struct coord_call *call)
{
    struct rehearsed_leg *seen = add_leg(rehearsal, call);
    char *to;

    if (!seen)
        return;
    to = arena_printf(&rehearsal->arena, "%s://%.*s", upstream_is_secure(leg->upstream) ? "https" : "http",
                      COORD_FMT(upstream_authority(leg->upstream)));
    rehearsal->short_of_memory |= !to;
    seen->name = call->name;
    seen->to = call->gateway ? coord_slice_of(to) : hidden(rehearsal, coord_slice_of(to));
    seen->transport = upstream_transport_name(leg->upstream);
    note_head(rehearsal, seen, leg->head, call->gateway);
    note_body(rehearsal, seen, leg, call);
}

static struct rehearsed_leg *last_leg(const struct rehearsal *rehearsal, const struct coord_call *call)
{
    const struct rehearsed_step *step = step_of(rehearsal, call->request->step);
    struct rehearsed_leg *leg = step ? step->legs : rehearsal->background;

    while (leg && leg->next)
        leg = leg->next;
    return leg;
}

static bool answer(void *context, const struct stand_in_leg *leg, struct stand_in_answer *given)
{
    struct rehearsal *rehearsal = context;
    const struct coord_call *call = leg->owner;
    const struct given_answer *from;
    bool answered;

    if (!enter(rehearsal))
        return false;
    note_leg(rehearsal, leg, call);
    answered = stand_in_answer(&rehearsal->answers, call, given, &from);
    if (answered && !rehearsal->short_of_memory) {
        struct rehearsed_leg *seen = last_leg(rehearsal, call);

        if (from)
            seen->at = from->at;
        seen->answered = (int32_t)strtol(given->head.data + sizeof "HTTP/1.1", NULL, 10);
    }
    leave(rehearsal);
    return answered;
}

/* ---- Writers ---- */

static void wrapped(void *context, coord_request *request, const coord_writer *writer, const coord_writer_type *type)
{
    struct rehearsal *rehearsal = context;
    struct rehearsed_writer *seen;

    if (!enter(rehearsal))
        return;
    seen = alloc(rehearsal, sizeof *seen);
    if (seen) {
        seen->writer = writer;
        seen->name = copy(rehearsal, coord_slice_of(type->name ? type->name : "unnamed"));
        seen->step = request->step ? request->step->id : "";
        seen->rewrites = (type->flags & COORD_WRITER_REWRITES) != 0;
        seen->reads_body = (type->flags & COORD_WRITER_READS_BODY) != 0;
        seen->inner = rehearsal->outermost;
        rehearsal->outermost = seen;
    }
    leave(rehearsal);
}

static struct rehearsed_writer *writer_of(const struct rehearsal *rehearsal, const coord_writer *writer)
{
    struct rehearsed_writer *seen = rehearsal->outermost;

    while (seen->writer != writer)
        seen = seen->inner;
    return seen;
}

static void head_reached(void *context, const coord_writer *to, const struct coord_head *head)
{
    struct rehearsal *rehearsal = context;
    struct rehearsed_writer *seen;

    if (!enter(rehearsal))
        return;
    seen = writer_of(rehearsal, to);
    seen->reached = true;
    seen->status = head->status;
    rehearsal_copy_fields(rehearsal, &seen->headers, &head->headers);
    if (!to)
        for (struct rehearsed_writer *other = rehearsal->outermost; other->writer; other = other->inner)
            other->skipped = other->reached && chain_writer_skipped(other->writer);
    leave(rehearsal);
}

static void data_reached(void *context, const coord_writer *to, coord_slice bytes)
{
    struct rehearsal *rehearsal = context;

    if (!enter(rehearsal))
        return;
    if (!buffer_append_slice(&writer_of(rehearsal, to)->body, bytes))
        rehearsal->short_of_memory = true;
    leave(rehearsal);
}

void rehearsal_witness(struct rehearsal *rehearsal)
{
    rehearsal->tries_end = &rehearsal->tries;
    rehearsal->background_end = &rehearsal->background;
    rehearsal->outermost = &rehearsal->client;
    rehearsal->witness = (struct witness){
        .context = rehearsal,
        .answer = answer,
        .tried = tried,
        .skipped = skipped,
        .began = began,
        .ended = ended,
        .writers = {.context = rehearsal, .wrapped = wrapped, .head = head_reached, .data = data_reached},
    };
}
