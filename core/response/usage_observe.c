/* The observer of usage (coordinator/usage.h): looks on the side, from events as they pass or from a bounded copy of a JSON
 * body that is read at its end. */
#include "response/usage_writer.h"

#include "runtime/buffer.h"

struct observer {
    coord_usage_seen *seen;
    void *argument;
    coord_usage usage;
    enum answer_form form;
    coord_sse *sse;     /* FORM_EVENTS; made when it is needed */
    bool midway;        /* some of the stream was skipped before */
    struct buffer body; /* FORM_JSON */
    bool blind;         /* over the limit, or memory is short: it looks no more */
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

static void observe_data(coord_writer *writer, coord_slice bytes)
{
    struct observer *self = coord_writer_state(writer);

    if (self->blind)
        return;
    if (self->form == FORM_EVENTS)
        observe_events(self, writer, bytes);
    else if (self->form == FORM_JSON && !buffer_append_slice(&self->body, bytes))
        close_eyes(self);
}

static void tell(struct observer *self, coord_writer *writer)
{
    if (self->seen)
        self->seen(coord_writer_request(writer), &self->usage, self->argument);
    self->seen = NULL;
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

    if (self->form == FORM_JSON && !self->blind)
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
    tell(self, writer);
}

static void observe_free(coord_writer *writer)
{
    struct observer *self = coord_writer_state(writer);

    tell(self, writer); /* a compressed answer was not shown to it */
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
    self->usage.size = sizeof self->usage;
    return coord_request_wrap(request, &OBSERVER, self);
}
