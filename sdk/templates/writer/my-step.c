/*
 * The step `my-step`: wraps a writer around the answer, which counts the events of a stream and says how many in a comment
 * before `[DONE]`. Every other byte stays, and an answer that is no stream is left alone.
 *
 * The step runs on the request's fiber, before any answer; the writer's functions run on the reactor, for each piece that a
 * worker sends: they must not block.
 */
#include <coordinator/plugin.h>
#include <coordinator/response.h>
#include <coordinator/sse.h>

#include <stdio.h>
#include <stdlib.h>

enum { EVENT_LIMIT = 1 << 20, LABEL_ROOM = 64 }; /* larger events pass as they are, and all that follows */

/* Of the step's instance. */
struct my_step_state {
    char label[LABEL_ROOM];
};

/* Of one answer. */
struct my_step_stream {
    const struct my_step_state *step;
    coord_sse *events; /* NULL: given up, everything passes */
    unsigned count;
};

static const coord_param params[] = {
    {COORD_PARAM(STRING, "label", "What the comment begins with."), .fallback = "my-step"},
};

/* One whole event, to be passed on as it came, changed, or not at all. */
static void pass_event(struct my_step_stream *stream, coord_writer *writer, const coord_sse_event *event)
{
    char comment[LABEL_ROOM + 32];
    int size;

    if (coord_sse_is_done(event)) {
        size = snprintf(comment, sizeof comment, ": %s: %u events\n\n", stream->step->label, stream->count);
        coord_writer_pass(writer, (coord_slice){comment, (size_t)size});
    } else if (event->has_data) {
        stream->count++;
    }
    coord_writer_pass(writer, event->raw);
}

static void my_step_head(coord_writer *writer, coord_head *head)
{
    if (coord_head_is_event_stream(head))
        coord_writer_pass_head(writer, head);
    else
        coord_writer_skip(writer);
}

/* What cannot be looked into any more passes as it came. */
static void give_up(struct my_step_stream *stream, coord_writer *writer)
{
    coord_writer_pass(writer, coord_sse_rest(stream->events));
    coord_sse_free(stream->events);
    stream->events = NULL;
}

/* Pieces begin and end anywhere; the parser makes events of them. */
static void my_step_data(coord_writer *writer, coord_slice bytes)
{
    struct my_step_stream *stream = coord_writer_state(writer);
    coord_sse_event event = {.size = sizeof event};
    coord_status status;

    if (stream->events && coord_sse_feed(stream->events, bytes) == COORD_OK) {
        while ((status = coord_sse_next(stream->events, &event)) == COORD_OK)
            pass_event(stream, writer, &event);
        if (status != COORD_END) /* an event above the limit, or memory is short */
            give_up(stream, writer);
        return;
    }
    if (stream->events)
        give_up(stream, writer);
    coord_writer_pass(writer, bytes);
}

/* Nothing may be held back at the end. */
static void my_step_end(coord_writer *writer)
{
    struct my_step_stream *stream = coord_writer_state(writer);
    coord_sse_event event = {.size = sizeof event};

    while (stream->events && coord_sse_last(stream->events, &event) == COORD_OK)
        pass_event(stream, writer, &event);
    coord_writer_pass_end(writer);
}

static void my_step_free(coord_writer *writer)
{
    struct my_step_stream *stream = coord_writer_state(writer);

    coord_sse_free(stream->events);
}

static const coord_writer_type my_step_writer = {
    .size = sizeof my_step_writer,
    .flags = COORD_WRITER_REWRITES | COORD_WRITER_READS_BODY,
    .name = "my-step",
    .head = my_step_head,
    .data = my_step_data,
    .end = my_step_end,
    .free = my_step_free,
};

/* The config lives until `create` returns, so its texts are copied. */
static coord_status my_step_create(const coord_config *config, void **state, coord_error *error)
{
    struct my_step_state *self = calloc(1, sizeof *self);
    coord_slice label = {0};

    if (!self || coord_config_string(config, "label", &label) != COORD_OK || label.size >= sizeof self->label ||
        memchr(label.data, '\n', label.size) || memchr(label.data, '\r', label.size)) {
        free(self);
        return coord_error_set(error, "label is longer than %d bytes or has several lines, or memory is short",
                               LABEL_ROOM - 1);
    }
    memcpy(self->label, label.data, label.size);
    *state = self;
    return COORD_OK;
}

static coord_status my_step_execute(void *state, coord_request *request)
{
    struct my_step_stream *stream = coord_request_alloc(request, sizeof *stream);
    coord_status status = COORD_NO_MEMORY;

    if (!stream)
        return status;
    stream->step = state;
    stream->events = coord_sse_new(EVENT_LIMIT);
    if (stream->events)
        status =
            coord_request_wrap(request, &my_step_writer, stream); /* from here on `free` is the writer's business */
    if (status != COORD_OK)
        coord_sse_free(stream->events);
    return status; /* COORD_OK is COORD_NEXT */
}

static const coord_step_type my_step_type = {
    .size = sizeof my_step_type,
    .name = "my-step",
    .help = "Says in a comment how many events a stream had.",
    COORD_STEP_PARAMS(params),
    .create = my_step_create,
    .execute = my_step_execute,
    .destroy = free,
};

static const coord_step_type *const steps[] = {&my_step_type, NULL};

COORD_PLUGIN(.name = "my-step", .version = "0.1.0", .licence = "Apache-2.0", .steps = steps)
