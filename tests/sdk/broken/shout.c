/*
 * The example writer-shout, broken in one way, so that it is known that the test kit finds it. BREAK tells which:
 *   HOLDS   an event whose blank line is missing is never passed on
 *   SPLITS  it takes each piece that comes for whole events
 */
#include <coordinator/document.h>
#include <coordinator/plugin.h>
#include <coordinator/response.h>
#include <coordinator/sse.h>

#include <stdlib.h>

enum { HOLDS = 1, SPLITS };

enum { EVENT_LIMIT = 1 << 20 }; /* larger events pass as they are, and all that follows */

struct shout {
    coord_sse *sse; /* NULL: given up, everything passes */
};

static const char words_at[] = "/choices/0/delta/content";

/* The event's JSON with the words in capitals; NULL: there is nothing to change in it. The caller frees it. */
static coord_document *shout_new(coord_slice json)
{
    coord_document *document = coord_document_parse_new(json, NULL, NULL);
    coord_slice words;
    char *capitals = NULL;
    bool changed;

    if (!document || coord_document_get_string(document, words_at, &words) != COORD_OK ||
        !(capitals = malloc(words.size + 1)))
        goto nothing;
    for (size_t i = 0; i < words.size; i++)
        capitals[i] = (char)(words.data[i] >= 'a' && words.data[i] <= 'z' ? words.data[i] - 'a' + 'A' : words.data[i]);
    changed = coord_document_set_string(document, words_at, (coord_slice){capitals, words.size}) == COORD_OK;
    free(capitals);
    if (changed)
        return document;
nothing:
    coord_document_free(document);
    return NULL;
}

static void pass_event(coord_writer *writer, const coord_sse_event *event)
{
    coord_document *document =
        event->data_raw.size > 0 && !coord_sse_is_done(event) ? shout_new(event->data_raw) : NULL;
    const char *after = event->data_raw.data + event->data_raw.size;
    coord_slice json;

    if (document && coord_document_text(document, &json) == COORD_OK) {
        coord_writer_pass(writer, (coord_slice){event->raw.data, (size_t)(event->data_raw.data - event->raw.data)});
        coord_writer_pass(writer, json);
        coord_writer_pass(writer, (coord_slice){after, event->raw.size - (size_t)(after - event->raw.data)});
    } else {
        coord_writer_pass(writer, event->raw);
    }
    coord_document_free(document);
}

static void shout_head(coord_writer *writer, coord_head *head)
{
    if (coord_head_is_event_stream(head))
        coord_writer_pass_head(writer, head);
    else
        coord_writer_skip(writer);
}

/* What cannot be looked into any more passes as it came. */
static void give_up(struct shout *shout, coord_writer *writer)
{
    coord_writer_pass(writer, coord_sse_rest(shout->sse));
    coord_sse_free(shout->sse);
    shout->sse = NULL;
}

static void shout_data(coord_writer *writer, coord_slice bytes)
{
    struct shout *shout = coord_writer_state(writer);
    coord_sse_event event = {.size = sizeof event};
    coord_status status;

    if (BREAK == SPLITS && shout->sse) { /* as if each piece held whole events */
        coord_sse *sse = coord_sse_new(EVENT_LIMIT);

        coord_sse_free(shout->sse);
        shout->sse = sse;
    }
    if (shout->sse && coord_sse_feed(shout->sse, bytes) == COORD_OK) {
        while ((status = coord_sse_next(shout->sse, &event)) == COORD_OK)
            pass_event(writer, &event);
        if (BREAK == SPLITS)
            coord_writer_pass(writer, coord_sse_rest(shout->sse));
        if (status != COORD_END) /* an event above the limit, or memory is short */
            give_up(shout, writer);
        return;
    }
    if (shout->sse)
        give_up(shout, writer);
    coord_writer_pass(writer, bytes);
}

static void shout_end(coord_writer *writer)
{
    struct shout *shout = coord_writer_state(writer);
    coord_sse_event event = {.size = sizeof event};

    if (BREAK != HOLDS && shout->sse &&
        coord_sse_last(shout->sse, &event) == COORD_OK) /* an event whose blank line is missing */
        pass_event(writer, &event);
    coord_writer_pass_end(writer);
}

static void shout_free(coord_writer *writer)
{
    struct shout *shout = coord_writer_state(writer);

    coord_sse_free(shout->sse);
}

static const coord_writer_type shouter = {
    .size = sizeof shouter,
    .flags = COORD_WRITER_REWRITES | COORD_WRITER_READS_BODY,
    .name = "shout",
    .head = shout_head,
    .data = shout_data,
    .end = shout_end,
    .free = shout_free,
};

static coord_status shout_execute(void *state, coord_request *request)
{
    struct shout *shout = coord_request_alloc(request, sizeof *shout);
    coord_status status = COORD_NO_MEMORY;

    (void)state;
    if (shout)
        shout->sse = coord_sse_new(EVENT_LIMIT);
    if (shout && shout->sse)
        status = coord_request_wrap(request, &shouter, shout);
    if (status != COORD_OK && shout)
        coord_sse_free(shout->sse);
    return status;
}

static const coord_step_type shout_step = {
    .size = sizeof shout_step,
    .name = "shout",
    .help = "Puts the words of a streamed chat completion in capitals.",
    .execute = shout_execute,
};

static const coord_step_type *const steps[] = {&shout_step, NULL};

COORD_PLUGIN(.name = "shout", .version = "1.0", .licence = "Apache-2.0", .steps = steps)
