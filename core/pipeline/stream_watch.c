/* See stream_watch.h. */
#include "pipeline/stream_watch.h"

#include "response/chain.h"
#include "response/events.h"

#include <coordinator/document.h>

#include <stdio.h>

static bool is_text(coord_document *document, const char *pointer, const char *text)
{
    coord_slice value;

    return coord_document_get_string(document, pointer, &value) == COORD_OK && coord_slice_is(value, text);
}

/* Where the error stands in an event's data, NULL: it tells of none. */
static const char *error_in(coord_document *document, coord_slice type)
{
    int32_t top = coord_document_type(document, "/error");

    if (top == COORD_JSON_OBJECT || top == COORD_JSON_STRING) /* OpenAI's and Anthropic's shape */
        return "/error";
    if (coord_slice_is(type, "error") ||
        is_text(document, "/type", "error")) /* Responses, before there is a response */
        return "";
    return is_text(document, "/type", "response.failed") ? "/response/error" : NULL;
}

static void look(struct stream_watch *watch, const coord_sse_event *event)
{
    coord_document *document = event->has_data ? coord_document_parse_new(event->data, NULL, NULL) : NULL;
    const char *place = document ? error_in(document, event->type) : NULL;
    uint64_t code = 0;
    char at[32];

    if (place) {
        snprintf(at, sizeof at, "%s/code", place);
        watch->status = 500;
        if (coord_document_get_count(document, at, &code) == COORD_OK && code >= 400 && code <= 599)
            watch->status = (int32_t)code;
    }
    coord_document_free(document);
}

static void stop(struct stream_watch *watch)
{
    watch->on = false;
    coord_sse_free(watch->sse);
    watch->sse = NULL;
}

void stream_watch_begin(struct stream_watch *watch, int32_t status, const struct headers *headers, size_t limit)
{
    const struct coord_head head = {.status = status, .headers = *headers};
    const struct header *encoding = headers_find(headers, (coord_slice)COORD_SLICE("content-encoding"));

    *watch = (struct stream_watch){.limit = limit};
    watch->on = status >= 200 && status < 300 && head_has_type(&head, "text/event-stream") &&
                (!encoding || header_name_is(encoding->value, "identity"));
}

void stream_watch_feed(struct stream_watch *watch, coord_slice bytes)
{
    coord_sse_event event = {.size = sizeof event};
    coord_status status = COORD_END;

    if (!watch->on)
        return;
    if (events_can_skip(watch->sse, bytes, "error")) {
        watch->midway = true;
        return;
    }
    if (!watch->sse)
        watch->sse = events_parser_new(watch->limit, watch->midway);
    if (!watch->sse || coord_sse_feed(watch->sse, bytes) != COORD_OK) {
        stop(watch);
        return;
    }
    while (watch->status == 0 && (status = coord_sse_next(watch->sse, &event)) == COORD_OK)
        if (memmem(event.raw.data, event.raw.size, "error", 5))
            look(watch, &event);
    if (watch->status != 0 || status != COORD_END)
        stop(watch);
}

void stream_watch_end(struct stream_watch *watch)
{
    coord_sse_event event = {.size = sizeof event};

    while (watch->on && watch->sse && watch->status == 0 && coord_sse_last(watch->sse, &event) == COORD_OK)
        look(watch, &event);
    stop(watch);
}

void stream_watch_release(struct stream_watch *watch) { stop(watch); }
