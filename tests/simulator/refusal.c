/* Refusals; see refusal.h. Wordings: vLLM 0.32.0 on the wire, W8 and transcripts. */
#include "refusal.h"

#include <stdarg.h>
#include <stdio.h>

bool refuse(struct refusal *refusal, int status, const char *type, const char *param, const char *format, ...)
{
    char message[512];
    va_list list;
    va_start(list, format);
    vsnprintf(message, sizeof message, format, list);
    va_end(list);
    *refusal = (struct refusal){.status = status, .type = type};
    snprintf(refusal->param, sizeof refusal->param, "%s", param);
    buf_text(&refusal->message, message);
    return false;
}

static size_t count_items(struct text raw)
{
    struct json_walk walk = json_walk(raw);
    struct text key, value;
    size_t count = 0;
    while (json_next(&walk, &key, &value))
        count++;
    return count;
}

/* A JSON value as the engine shows it, a string in every case: long text is cut, of containers only the size is told. */
static void add_shown(struct buf *out, struct text raw)
{
    static const char cut[] = "...[truncated]";
    enum { SHOWN = 200 };
    struct buf plain = {0};
    char kind = json_kind(raw);
    if (kind == '{' || kind == '[')
        buf_printf(&plain, "<%s of %zu items>", kind == '{' ? "dict" : "list", count_items(raw));
    else if (kind == '"')
        json_string(raw, &plain);
    else if (kind == 't' || kind == 'f')
        buf_text(&plain, kind == 't' ? "True" : "False");
    else if (kind == 'n')
        buf_text(&plain, "None");
    else
        buf_add(&plain, raw.at, raw.len);
    buf_text(out, "'");
    buf_add(out, plain.data, plain.len < SHOWN ? plain.len : SHOWN);
    if (plain.len > SHOWN)
        buf_text(out, cut);
    buf_text(out, "'");
    buf_free(&plain);
}

static void begin_body_refusal(struct refusal *refusal, const char *place)
{
    *refusal = (struct refusal){.status = 400, .type = "Bad Request", .of_body = true};
    snprintf(refusal->param, sizeof refusal->param, "%s", place);
}

bool refuse_member(struct refusal *refusal, const char *place, const char *kind, const char *says, struct text input)
{
    begin_body_refusal(refusal, place);
    buf_printf(&refusal->message, "1 validation error:\n  {'type': '%s', 'loc': '%s', 'msg': '%s', 'input': ", kind,
               place, says);
    add_shown(&refusal->message, input);
    buf_text(&refusal->message, "}");
    return false;
}

bool refuse_missing(struct refusal *refusal, const char *place, struct text object)
{
    return refuse_member(refusal, place, "missing", "Field required", object);
}

bool refuse_dictionary(struct refusal *refusal, const char *place, struct text input)
{
    return refuse_member(refusal, place, "model_attributes_type",
                         "Input should be a valid dictionary or object to extract fields from", input);
}

bool refuse_json(struct refusal *refusal, size_t at)
{
    char place[64];
    snprintf(place, sizeof place, "body.%zu", at);
    begin_body_refusal(refusal, place);
    buf_printf(
        &refusal->message,
        "1 validation error:\n  {'type': 'json_invalid', 'loc': '%s', 'msg': 'JSON decode error', 'input': '<dict of 0 "
        "items>', "
        "'ctx': {'error': 'Expecting value'}}",
        place);
    return false;
}
