/* See chain.h. A writer's calls go through step(): observers are shown the bytes and the chain goes on by itself; rewriters
 * decide by coord_writer_pass_*. */
#include "response/chain.h"

#include "runtime/running.h"
#include "telemetry/log.h"

#include <assert.h>
#include <strings.h>

enum { WRITER_MAGIC = 0x57524954 };

struct coord_writer {
    unsigned magic;
    coord_writer_type type; /* a copy: members that an older plugin does not know are NULL */
    void *state;
    struct chain *chain;
    struct running owner; /* whose step wrapped it, and for which request */
    struct coord_writer *inner;
    struct coord_writer *all_next;
    bool saw_head;
    bool passed_head;
    bool skipped; /* takes no part any more */
    bool over;    /* saw end or abort */
    bool broken;  /* abort: what it still holds may leave it, nothing else */
    bool ended;   /* it passed an end, an abort or finished: nothing more leaves it */
};

static void head_into(struct chain *chain, struct coord_writer *writer, struct coord_head *head);
static void data_into(struct chain *chain, struct coord_writer *writer, coord_slice bytes);
static void end_into(struct chain *chain, struct coord_writer *writer);
static void abort_into(struct chain *chain, struct coord_writer *writer);

static bool rewrites(const struct coord_writer *writer) { return (writer->type.flags & COORD_WRITER_REWRITES) != 0; }

/* Calls of a writer's functions, each under its owner's name. */

static void call(struct coord_writer *writer, void (*function)(coord_writer *writer))
{
    struct guest guest = running_enter(writer->owner);

    function(writer);
    running_leave(guest);
}

static void call_head(struct coord_writer *writer, struct coord_head *head)
{
    struct guest guest = running_enter(writer->owner);

    writer->type.head(writer, head);
    running_leave(guest);
}

static void call_data(struct coord_writer *writer, coord_slice bytes)
{
    struct guest guest = running_enter(writer->owner);

    writer->type.data(writer, bytes);
    running_leave(guest);
}

void chain_init(struct chain *chain, coord_request *request, struct arena *arena, const struct chain_sink *sink,
                void *context)
{
    *chain = (struct chain){.request = request, .arena = arena, .sink = sink, .context = context};
}

coord_status chain_wrap(struct chain *chain, const coord_writer_type *type, void *state)
{
    struct coord_writer *writer;

    if (chain->head_entered || chain->over)
        return COORD_STATE;
    writer = arena_alloc(chain->arena, sizeof *writer);
    if (!writer)
        return COORD_NO_MEMORY;
    writer->magic = WRITER_MAGIC;
    memcpy(&writer->type, type, type->size < sizeof writer->type ? type->size : sizeof writer->type);
    writer->state = state;
    writer->chain = chain;
    writer->owner = running_now();
    writer->inner = chain->outer;
    writer->all_next = chain->writers;
    chain->outer = writer;
    chain->writers = writer;
    chain->reads_body |= (type->flags & COORD_WRITER_READS_BODY) != 0;
    if (chain->watch)
        chain->watch->wrapped(chain->watch->context, chain->request, writer, &writer->type);
    return COORD_OK;
}

struct coord_writer *chain_mark(const struct chain *chain) { return chain->writers; }

void chain_unwrap(struct chain *chain, struct coord_writer *mark)
{
    assert(!chain->head_entered);
    while (chain->writers != mark) {
        struct coord_writer *writer = chain->writers;

        chain->writers = writer->all_next;
        chain->outer = writer->inner;
        if (writer->type.free)
            call(writer, writer->type.free);
        writer->magic = 0;
    }
    chain->reads_body = false;
    for (const struct coord_writer *writer = chain->writers; writer; writer = writer->all_next)
        chain->reads_body |= (writer->type.flags & COORD_WRITER_READS_BODY) != 0;
}

bool chain_writer_skipped(const coord_writer *writer) { return writer->skipped; }

bool chain_reads_body(const struct chain *chain) { return chain->reads_body; }

bool head_has_type(const struct coord_head *head, const char *type)
{
    const struct header *field = headers_first(&head->headers, HEADER_CONTENT_TYPE);
    size_t size = strlen(type);

    if (!field || field->value.size < size || strncasecmp(field->value.data, type, size) != 0)
        return false;
    return field->value.size == size || strchr("; \t,", field->value.data[size]) != NULL;
}

static bool is_encoded(const struct coord_head *head)
{
    const struct header *field = headers_first(&head->headers, HEADER_CONTENT_ENCODING);

    return field && field->value.size > 0 && !header_name_is(field->value, "identity");
}

/* The head is about to reach the client: if anyone on its way may change the body, its length and digests are not true any more. */
static void leave_head(struct chain *chain, struct coord_head *head)
{
    static const char *const digests[] = {"content-md5", "digest", "content-digest", "repr-digest", "etag"};
    bool changed = false;

    for (const struct coord_writer *writer = chain->writers; writer; writer = writer->all_next)
        changed |= rewrites(writer) && !writer->skipped;
    if (changed) {
        head->length = head->promised;
        for (size_t i = 0; i < sizeof digests / sizeof *digests; i++)
            headers_remove(&head->headers, coord_slice_of(digests[i]));
    }
    if (chain->watch)
        chain->watch->head(chain->watch->context, NULL, head);
    chain->sink->head(chain->context, head);
}

static void head_into(struct chain *chain, struct coord_writer *writer, struct coord_head *head)
{
    if (!writer) {
        leave_head(chain, head);
        return;
    }
    writer->saw_head = true;
    if ((writer->type.flags & COORD_WRITER_READS_BODY) && is_encoded(head)) {
        coord_logf(chain->request, COORD_LOG_DEBUG, "writer %s skipped: the answer is compressed", writer->type.name);
        writer->skipped = true;
    }
    if (chain->watch && !writer->skipped)
        chain->watch->head(chain->watch->context, writer, head);
    if (rewrites(writer) && !writer->skipped)
        head->promised = -1;
    if (writer->skipped || !writer->type.head) {
        writer->passed_head = true;
        head_into(chain, writer->inner, head);
        return;
    }
    head->changeable = rewrites(writer);
    call_head(writer, head);
    head->changeable = false;
    if (!writer->passed_head && (!rewrites(writer) || writer->skipped)) {
        writer->passed_head = true;
        head_into(chain, writer->inner, head);
    }
}

static void watch_data(const struct chain *chain, const struct coord_writer *writer, coord_slice bytes)
{
    if (chain->watch && (!writer || (!writer->skipped && !writer->ended)))
        chain->watch->data(chain->watch->context, writer, bytes);
}

static void data_into(struct chain *chain, struct coord_writer *writer, coord_slice bytes)
{
    while (writer && (writer->skipped || writer->ended || !rewrites(writer) || !writer->type.data)) {
        if (writer->ended)
            return;
        watch_data(chain, writer, bytes);
        if (!writer->skipped && writer->type.data)
            call_data(writer, bytes);
        writer = writer->inner;
    }
    if (!writer && chain->over)
        return;
    watch_data(chain, writer, bytes);
    if (writer)
        call_data(writer, bytes);
    else
        chain->sink->data(chain->context, bytes);
}

static void end_into(struct chain *chain, struct coord_writer *writer)
{
    for (; writer; writer = writer->inner) {
        if (writer->over)
            continue;
        writer->over = true;
        if (!writer->skipped && writer->type.end) {
            call(writer, writer->type.end);
            if (rewrites(writer)) {
                if (!writer->ended)
                    coord_writer_pass_end(writer);
                return;
            }
        }
        if (!writer->passed_head) {
            abort_into(chain, writer->inner);
            return;
        }
    }
    if (!chain->over) {
        chain->over = true;
        chain->sink->end(chain->context);
    }
}

static void abort_into(struct chain *chain, struct coord_writer *writer)
{
    for (; writer; writer = writer->inner) {
        if (writer->over)
            continue;
        writer->over = true;
        writer->broken = true;
        if (!writer->skipped && writer->type.abort)
            call(writer, writer->type.abort);
        writer->ended = true;
    }
    if (!chain->over) {
        chain->over = true;
        chain->sink->abort(chain->context);
    }
}

/* The end of what `writer` passed: those further in who got no head from it have no answer to end. */
static void leave_end(struct coord_writer *writer)
{
    if (writer->passed_head)
        end_into(writer->chain, writer->inner);
    else
        abort_into(writer->chain, writer->inner);
}

void chain_head(struct chain *chain, struct coord_head *head)
{
    assert(!chain->head_entered);
    chain->head_entered = true;
    head_into(chain, chain->outer, head);
}

void chain_data(struct chain *chain, coord_slice bytes)
{
    if (!chain->over && !chain->finishing && bytes.size > 0)
        data_into(chain, chain->outer, bytes);
}

void chain_end(struct chain *chain)
{
    if (!chain->over && !chain->finishing)
        end_into(chain, chain->outer);
}

void chain_abort(struct chain *chain) { abort_into(chain, chain->outer); }

void chain_release(struct chain *chain)
{
    for (struct coord_writer *writer = chain->writers; writer; writer = writer->all_next) {
        if (!writer->over && !writer->skipped && writer->type.abort) {
            writer->over = true;
            writer->ended = true;
            call(writer, writer->type.abort);
        }
        writer->ended = true;
        if (writer->type.free)
            call(writer, writer->type.free);
        writer->magic = 0;
    }
    chain->writers = NULL;
    chain->outer = NULL;
}

/* The public side. */

void *coord_writer_state(const coord_writer *writer) { return writer->state; }

coord_request *coord_writer_request(const coord_writer *writer) { return writer->chain->request; }

int32_t coord_head_status(const coord_head *head) { return head->status; }

coord_status coord_head_header(const coord_head *head, const char *name, coord_slice *value)
{
    const struct header *field = headers_find(&head->headers, coord_slice_of(name));

    if (!field)
        return COORD_ABSENT;
    *value = field->value;
    return COORD_OK;
}

bool coord_head_is_event_stream(const coord_head *head) { return head_has_type(head, "text/event-stream"); }

bool coord_head_is_json(const coord_head *head) { return head_has_type(head, "application/json"); }

coord_status coord_head_set_status(coord_head *head, int32_t status)
{
    if (!head->changeable)
        return COORD_STATE;
    if (status < 200 || status > 599)
        return COORD_INVALID;
    head->status = status;
    return COORD_OK;
}

coord_status coord_head_set_header(coord_head *head, const char *name, coord_slice value)
{
    if (!head->changeable)
        return COORD_STATE;
    if (!header_name_valid(coord_slice_of(name)) || !header_value_valid(value))
        return COORD_INVALID;
    return headers_set(&head->headers, coord_slice_of(name), value) ? COORD_OK : COORD_NO_MEMORY;
}

coord_status coord_head_remove_header(coord_head *head, const char *name)
{
    if (!head->changeable)
        return COORD_STATE;
    headers_remove(&head->headers, coord_slice_of(name));
    return COORD_OK;
}

void coord_head_set_length(coord_head *head, uint64_t bytes)
{
    if (bytes <= INT64_MAX)
        head->promised = (int64_t)bytes;
}

void coord_writer_skip(coord_writer *writer)
{
    assert(writer->magic == WRITER_MAGIC);
    if (!writer->passed_head)
        writer->skipped = true;
}

/* What an observer passes is ignored: the chain passes everything on by itself. */
static bool may_pass(const coord_writer *writer)
{
    assert(writer->magic == WRITER_MAGIC);
    return rewrites(writer) && !writer->skipped && !writer->ended && !writer->chain->over;
}

void coord_writer_pass_head(coord_writer *writer, coord_head *head)
{
    if (!may_pass(writer) || writer->broken || writer->passed_head)
        return;
    writer->passed_head = true;
    head->changeable = false;
    head_into(writer->chain, writer->inner, head);
}

void coord_writer_pass(coord_writer *writer, coord_slice bytes)
{
    if (may_pass(writer) && writer->passed_head && bytes.size > 0)
        data_into(writer->chain, writer->inner, bytes);
}

void coord_writer_pass_end(coord_writer *writer)
{
    if (!may_pass(writer) || writer->broken)
        return;
    writer->ended = true;
    leave_end(writer);
}

void coord_writer_pass_abort(coord_writer *writer)
{
    struct chain *chain = writer->chain;

    if (!may_pass(writer) || writer->broken)
        return;
    writer->ended = writer->over = true;
    chain->finishing = true;
    chain_abort(chain);
    chain->sink->finished(chain->context);
}

/* Writers further out have seen part of the answer only: they get abort; those further in get end. */
void coord_writer_finish(coord_writer *writer)
{
    struct chain *chain = writer->chain;

    if (!may_pass(writer) || writer->broken)
        return;
    writer->ended = true;
    writer->over = true;
    chain->finishing = true;
    for (struct coord_writer *outer = chain->outer; outer != writer; outer = outer->inner) {
        if (!outer->over && !outer->skipped && outer->type.abort) {
            outer->over = outer->broken = true;
            call(outer, outer->type.abort);
        }
        outer->over = true;
        outer->ended = true;
    }
    leave_end(writer);
    chain->sink->finished(chain->context);
}
