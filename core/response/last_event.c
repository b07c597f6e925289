/* See last_event.h. */
#include "response/last_event.h"

#include "json/scanner.h"
#include "response/usage_writer.h"

#include <coordinator/document.h>

#define MEMBER "system_fingerprint"
#define REASON "finish_reason"

/* The value of `name` in the object at `at`, empty: it is not there. The text was validated. */
static coord_slice find(coord_slice text, size_t at, const char *name)
{
    struct json_member member;
    size_t cursor = 0;

    while (json_type_at(text, at) == COORD_JSON_OBJECT && json_next_member(text, at, &cursor, &member))
        if (json_key_is(json_slice(text, member.key), coord_slice_of(name)))
            return json_slice(text, member.value);
    return (coord_slice){NULL, 0};
}

/* ---- How many choices ---- */

/* A list of token ids is one prompt, a list of texts or of such lists is many. */
static uint64_t prompts_of(coord_document *body)
{
    int32_t first = coord_document_type(body, "/prompt/0");

    return first == COORD_JSON_STRING || first == COORD_JSON_ARRAY ? coord_document_count(body, "/prompt") : 1;
}

void last_event_begin(struct last_event *last, coord_request *request)
{
    int32_t api = coord_request_api(request);
    coord_document *body = coord_request_body(request);

    if (!body || (api != COORD_API_CHAT_COMPLETIONS && api != COORD_API_COMPLETIONS))
        return;
    last->raw.limit = usage_limit(request);
    if (coord_document_get_count(body, "/n", &last->choices) != COORD_OK)
        last->choices = 1;
    if (api == COORD_API_COMPLETIONS)
        last->choices *= prompts_of(body);
}

/* How many choices the event ends: those with a reason. */
static uint64_t ends_of(coord_slice data)
{
    coord_slice choices = find(data, json_skip_space(data, 0), "choices");
    struct json_member choice;
    size_t cursor = 0;
    uint64_t ends = 0;

    if (json_type_at(choices, 0) != COORD_JSON_ARRAY)
        return 0;
    while (json_next_member(choices, 0, &cursor, &choice)) {
        coord_slice reason = find(choices, choice.value.begin, REASON);

        ends += json_type_at(reason, 0) == COORD_JSON_STRING;
    }
    return ends;
}

/* True when the member whose name ends at `at` has a text. */
static bool has_text(coord_slice piece, size_t at)
{
    at = json_skip_space(piece, at);
    if (at >= piece.size || piece.data[at] != ':')
        return false;
    at = json_skip_space(piece, at + 1);
    return at < piece.size && piece.data[at] == '"';
}

bool last_event_maybe(const struct last_event *last, coord_slice piece)
{
    static const char name[] = "\"" REASON "\"";
    const char *end = piece.data + piece.size, *found;

    if (last->choices == 0)
        return false;
    for (const char *at = piece.data; at < end; at = found + 1) {
        found = memmem(at, (size_t)(end - at), name, sizeof name - 1);
        if (!found)
            return false;
        if (has_text(piece, (size_t)(found - piece.data) + sizeof name - 1))
            return true;
    }
    return false;
}

/* ---- Keeping ---- */

static void waited_enough(struct timer *timer)
{
    struct last_event *last = (struct last_event *)((char *)timer - offsetof(struct last_event, timer));

    last_event_pass(last, (coord_slice){NULL, 0});
}

static bool keep(struct last_event *last, const coord_sse_event *event)
{
    struct reactor *reactor = reactor_current();

    if (!buffer_append_slice(&last->raw, event->raw)) /* it passes at once, then */
        return false;
    last->data_end = (size_t)(event->data_raw.data + event->data_raw.size - event->raw.data);
    last->timer.due = waited_enough;
    if (reactor)
        reactor_arm(reactor, &last->timer, LAST_EVENT_WAIT_NS);
    return true;
}

bool last_event_keep(struct last_event *last, coord_writer *writer, const coord_sse_event *event)
{
    coord_slice data = event->data_raw;
    uint64_t ends;

    if (data.size == 0 || !last_event_maybe(last, data) || !json_validate(data, NULL, NULL, NULL))
        return false;
    ends = ends_of(data);
    last->ended += ends;
    if (ends == 0 || last->ended != last->choices || find(data, json_skip_space(data, 0), MEMBER).size > 0)
        return false;
    last->writer = writer;
    return keep(last, event);
}

bool last_event_append(struct last_event *last, coord_slice raw)
{
    return last_event_kept(last) && buffer_append_slice(&last->raw, raw);
}

/* ---- Passing it on ---- */

/* Where the object that ends with the data closes. */
static size_t closing_brace(const struct last_event *last)
{
    size_t at = last->data_end - 1;

    while (json_is_space((unsigned char)last->raw.data[at]))
        at--;
    return at;
}

static void pass_with(struct last_event *last, coord_slice value)
{
    coord_slice raw = buffer_slice(&last->raw);
    size_t brace = closing_brace(last);

    coord_writer_pass(last->writer, (coord_slice){raw.data, brace});
    coord_writer_pass(last->writer, (coord_slice)COORD_SLICE(",\"" MEMBER "\":"));
    coord_writer_pass(last->writer, value);
    coord_writer_pass(last->writer, (coord_slice){raw.data + brace, raw.size - brace});
}

void last_event_pass(struct last_event *last, coord_slice frame)
{
    coord_slice value = {NULL, 0};

    if (!last_event_kept(last))
        return;
    if (timer_armed(&last->timer))
        reactor_disarm(reactor_current(), &last->timer);
    if (frame.size > 0)
        value = find(frame, json_skip_space(frame, 0), MEMBER);
    if (value.size > 0)
        pass_with(last, value);
    else
        coord_writer_pass(last->writer, buffer_slice(&last->raw));
    buffer_release(&last->raw);
}

void last_event_release(struct last_event *last)
{
    if (timer_armed(&last->timer))
        reactor_disarm(reactor_current(), &last->timer);
    buffer_release(&last->raw);
}
