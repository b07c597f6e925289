/* The observer of usage (coordinator/usage.h): looks on the side, from events as they pass, or at a JSON body: most come in one
 * piece, which is read as it passes; of others a bounded copy is read at their end. */
#include "response/usage_writer.h"

#include "json/scanner.h"
#include "runtime/buffer.h"

struct observer {
    coord_usage_seen *seen;
    void *argument;
    coord_usage usage;
    enum answer_form form;
    coord_sse *sse;     /* FORM_EVENTS; made when it is needed */
    bool midway;        /* some of the stream was skipped before */
    bool whole;         /* FORM_JSON: the first piece was a whole text, and is read */
    struct buffer body; /* FORM_JSON, otherwise */
    bool blind;         /* over the limit, or memory is short, or not JSON: it looks no more */
};

enum answer_form usage_form(const coord_head *head)
{
    int32_t status = coord_head_status(head);

    if (status < 200 || status >= 300 || status == 204)
        return FORM_OTHER;
    if (coord_head_is_event_stream(head))
        return FORM_EVENTS;
    return coord_head_is_json(head) ? FORM_JSON : FORM_OTHER;
}

bool usage_can_skip(const coord_sse *sse, coord_slice piece) { return events_can_skip(sse, piece, "usage"); }

static void observe_head(coord_writer *writer, coord_head *head)
{
    struct observer *self = coord_writer_state(writer);

    self->form = usage_form(head);
    self->body.limit = usage_limit(coord_writer_request(writer));
}

static void look(struct observer *self, coord_writer *writer, const coord_sse_event *event)
{
    if (event->has_data && coord_usage_maybe(event->data))
        (void)coord_usage_read(coord_request_api(coord_writer_request(writer)), event->data, &self->usage);
}

/* What it held is let go: the answer may go on for long. */
static void close_eyes(struct observer *self)
{
    self->blind = true;
    coord_sse_free(self->sse);
    self->sse = NULL;
    buffer_release(&self->body);
}

static void observe_events(struct observer *self, coord_writer *writer, coord_slice bytes)
{
    coord_sse_event event = {.size = sizeof event};

    if (usage_can_skip(self->sse, bytes)) {
        self->midway = true;
        return;
    }
    if (!self->sse)
        self->sse = events_parser_new(usage_limit(coord_writer_request(writer)), self->midway);
    if (!self->sse || coord_sse_feed(self->sse, bytes) != COORD_OK) {
        close_eyes(self);
        return;
    }
    while (coord_sse_next(self->sse, &event) == COORD_OK)
        look(self, writer, &event);
}

static void forget(struct observer *self) { self->usage = (coord_usage){.size = sizeof self->usage}; }

/* A body may be whole where it ends like one. */
static bool ends_like_a_body(coord_slice bytes)
{
    while (bytes.size > 0 && json_is_space((unsigned char)bytes.data[bytes.size - 1]))
        bytes.size--;
    return bytes.size > 0 && bytes.data[bytes.size - 1] == '}';
}

static bool read_whole(struct observer *self, coord_writer *writer, coord_slice bytes)
{
    return self->body.size == 0 && bytes.size <= self->body.limit && ends_like_a_body(bytes) &&
           coord_usage_read(coord_request_api(coord_writer_request(writer)), bytes, &self->usage) != COORD_INVALID;
}

static void observe_body(struct observer *self, coord_writer *writer, coord_slice bytes)
{
    if (self->whole && json_skip_space(bytes, 0) < bytes.size) { /* so what has come is not one JSON text */
        forget(self);
        close_eyes(self);
    } else if (!self->whole) {
        self->whole = read_whole(self, writer, bytes);
        if (!self->whole && !buffer_append_slice(&self->body, bytes))
            close_eyes(self);
    }
}

static void observe_data(coord_writer *writer, coord_slice bytes)
{
    struct observer *self = coord_writer_state(writer);

    if (self->blind)
        return;
    if (self->form == FORM_EVENTS)
        observe_events(self, writer, bytes);
    else if (self->form == FORM_JSON)
        observe_body(self, writer, bytes);
}

static void tell(struct observer *self, coord_writer *writer)
{
    if (self->seen)
        self->seen(coord_writer_request(writer), &self->usage, self->argument);
    self->seen = NULL;
}

/* A JSON body that breaks off says nothing, even where a whole text has come. */
static void tell_broken(struct observer *self, coord_writer *writer)
{
    if (self->whole)
        forget(self);
    tell(self, writer);
}

static void look_at_rest(struct observer *self, coord_writer *writer)
{
    coord_sse_event event = {.size = sizeof event};

    while (self->sse && coord_sse_last(self->sse, &event) == COORD_OK)
        look(self, writer, &event);
}

static void observe_end(coord_writer *writer)
{
    struct observer *self = coord_writer_state(writer);

    if (self->form == FORM_JSON && !self->blind && !self->whole)
        (void)coord_usage_read(coord_request_api(coord_writer_request(writer)), buffer_slice(&self->body),
                               &self->usage);
    look_at_rest(self, writer);
    tell(self, writer);
}

/* An event that is not whole says nothing; a whole one may still wait for a LF behind its last CR. */
static void observe_abort(coord_writer *writer)
{
    struct observer *self = coord_writer_state(writer);

    if (self->sse && coord_sse_at_boundary(self->sse))
        look_at_rest(self, writer);
    tell_broken(self, writer);
}

static void observe_free(coord_writer *writer)
{
    struct observer *self = coord_writer_state(writer);

    tell_broken(self, writer); /* a compressed answer was not shown to it */
    coord_sse_free(self->sse);
    buffer_release(&self->body);
}

static const coord_writer_type OBSERVER = {
    .size = sizeof OBSERVER,
    .flags = COORD_WRITER_READS_BODY,
    .name = "usage-observer",
    .head = observe_head,
    .data = observe_data,
    .end = observe_end,
    .abort = observe_abort,
    .free = observe_free,
};

coord_status coord_usage_observe(coord_request *request, coord_usage_seen *seen, void *argument)
{
    struct observer *self = coord_request_alloc(request, sizeof *self);

    if (!self)
        return COORD_NO_MEMORY;
    self->seen = seen;
    self->argument = argument;
    forget(self);
    return coord_request_wrap(request, &OBSERVER, self);
}
