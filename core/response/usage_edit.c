/* The editor of usage (coordinator/usage.h): writes prefill's cached count into decode's blocks, and drops the usage frame
 * that was asked for on the client's behalf. An event that is not touched passes as it came; one that is not whole yet is
 * held, and so is, where the frame is dropped, the event that ends the last choice (last_event.h); a JSON answer is held to its
 * end, head and all, so that its new length can be told. Past the limit everything held goes out and nothing is looked at any
 * more. */
#include "response/usage_writer.h"

#include "response/last_event.h"

#include <stdlib.h>

struct editor {
    bool writes_cached;
    uint64_t cached;
    bool drops;
    struct last_event last; /* keeps nothing unless it drops */
    enum answer_form form;
    coord_sse *sse;
    bool midway; /* some of the stream was skipped before there was a parser */
    struct buffer body;
    coord_head *held; /* of a JSON answer */
    bool blind;
};

static void edit_head(coord_writer *writer, coord_head *head)
{
    struct editor *self = coord_writer_state(writer);

    self->form = usage_form(head);
    self->body.limit = usage_limit(coord_writer_request(writer));
    if (self->form == FORM_OTHER || (self->form == FORM_JSON && !self->writes_cached))
        coord_writer_skip(writer);
    else if (self->form == FORM_JSON)
        self->held = head;
    else
        coord_writer_pass_head(writer, head);
}

/* The event with its data replaced, in pieces: what stands around the data keeps its bytes. */
static void pass_edited(coord_writer *writer, const coord_sse_event *event, coord_slice data)
{
    const char *begin = event->raw.data, *end = begin + event->raw.size;

    coord_writer_pass(writer, (coord_slice){begin, (size_t)(event->data_raw.data - begin)});
    coord_writer_pass(writer, data);
    begin = event->data_raw.data + event->data_raw.size;
    coord_writer_pass(writer, (coord_slice){begin, (size_t)(end - begin)});
}

static void pass_event(struct editor *self, coord_writer *writer, const coord_sse_event *event)
{
    int32_t api = coord_request_api(coord_writer_request(writer));
    bool maybe = event->has_data && coord_usage_maybe(event->data);
    bool dropped = maybe && self->drops && coord_usage_is_frame(event->data);
    char *edited = NULL;
    size_t size = 0;

    if (!event->has_data && last_event_append(&self->last, event->raw))
        return;
    last_event_pass(&self->last, dropped ? event->data : (coord_slice){NULL, 0});
    if (dropped)
        return;
    if (maybe && self->writes_cached && event->data_raw.size > 0 &&
        coord_usage_edit_cached(api, event->data_raw, self->cached, &edited, &size) == COORD_OK)
        pass_edited(writer, event, (coord_slice){edited, size});
    else if (!last_event_keep(&self->last, writer, event))
        coord_writer_pass(writer, event->raw);
    free(edited);
}

/* Whatever the parser still holds goes out as it is. */
static void give_up(struct editor *self, coord_writer *writer, coord_slice unfed)
{
    self->blind = true;
    last_event_pass(&self->last, (coord_slice){NULL, 0});
    if (self->sse)
        coord_writer_pass(writer, coord_sse_rest(self->sse));
    coord_sse_free(self->sse);
    self->sse = NULL;
    coord_writer_pass(writer, unfed);
}

static void edit_events(struct editor *self, coord_writer *writer, coord_slice bytes)
{
    coord_sse_event event = {.size = sizeof event};
    coord_status status;

    if (!last_event_kept(&self->last) && !last_event_maybe(&self->last, bytes) && usage_can_skip(self->sse, bytes)) {
        self->midway = true;
        coord_writer_pass(writer, bytes);
        return;
    }
    if (!self->sse)
        self->sse = events_parser_new(usage_limit(coord_writer_request(writer)), self->midway);
    if (!self->sse) {
        give_up(self, writer, bytes);
        return;
    }
    status = coord_sse_feed(self->sse, bytes);
    if (status == COORD_NO_MEMORY) {
        give_up(self, writer, bytes);
        return;
    }
    while ((status = coord_sse_next(self->sse, &event)) == COORD_OK)
        pass_event(self, writer, &event);
    if (status != COORD_END)
        give_up(self, writer, (coord_slice){0});
}

static void edit_data(coord_writer *writer, coord_slice bytes)
{
    struct editor *self = coord_writer_state(writer);

    if (self->blind) {
        coord_writer_pass(writer, bytes);
    } else if (self->form == FORM_EVENTS) {
        edit_events(self, writer, bytes);
    } else if (!buffer_append_slice(&self->body, bytes)) {
        self->blind = true;
        coord_writer_pass_head(writer, self->held);
        coord_writer_pass(writer, buffer_slice(&self->body));
        buffer_release(&self->body);
        coord_writer_pass(writer, bytes);
    }
}

static void end_json(struct editor *self, coord_writer *writer)
{
    coord_slice body = buffer_slice(&self->body);
    char *edited = NULL;
    size_t size = 0;

    if (coord_usage_edit_cached(coord_request_api(coord_writer_request(writer)), body, self->cached, &edited, &size) ==
        COORD_OK)
        body = (coord_slice){edited, size};
    coord_head_set_length(self->held, body.size);
    coord_writer_pass_head(writer, self->held);
    coord_writer_pass(writer, body);
    free(edited);
}

static void edit_end(coord_writer *writer)
{
    struct editor *self = coord_writer_state(writer);
    coord_sse_event event = {.size = sizeof event};
    coord_status status = COORD_END;

    if (self->form == FORM_JSON && !self->blind)
        end_json(self, writer);
    while (self->sse && (status = coord_sse_last(self->sse, &event)) == COORD_OK)
        pass_event(self, writer, &event);
    if (status != COORD_END) /* memory is short: nothing is lost for that */
        give_up(self, writer, (coord_slice){0});
    last_event_pass(&self->last, (coord_slice){NULL, 0});
    coord_writer_pass_end(writer);
}

/* A whole event is the client's, whatever became of the worker after it; also one that waits for a LF behind its last CR. */
static void edit_abort(coord_writer *writer)
{
    struct editor *self = coord_writer_state(writer);
    coord_sse_event event = {.size = sizeof event};

    while (self->sse && coord_sse_at_boundary(self->sse) && coord_sse_last(self->sse, &event) == COORD_OK)
        pass_event(self, writer, &event);
    last_event_pass(&self->last, (coord_slice){NULL, 0});
}

static void edit_free(coord_writer *writer)
{
    struct editor *self = coord_writer_state(writer);

    coord_sse_free(self->sse);
    buffer_release(&self->body);
    last_event_release(&self->last);
}

static const coord_writer_type EDITOR = {
    .size = sizeof EDITOR,
    .flags = COORD_WRITER_READS_BODY | COORD_WRITER_REWRITES,
    .name = "usage-editor",
    .head = edit_head,
    .data = edit_data,
    .end = edit_end,
    .abort = edit_abort,
    .free = edit_free,
};

coord_status coord_usage_edit(coord_request *request, const uint64_t *cached, bool drop_frame)
{
    struct editor *self;

    if (!cached && !drop_frame)
        return COORD_OK;
    self = coord_request_alloc(request, sizeof *self);
    if (!self)
        return COORD_NO_MEMORY;
    self->writes_cached = cached != NULL;
    self->cached = cached ? *cached : 0;
    self->drops = drop_frame;
    if (drop_frame)
        last_event_begin(&self->last, request);
    return coord_request_wrap(request, &EDITOR, self);
}
