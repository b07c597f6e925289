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

/* A JSON value as Python shows it, as far as that matters: strings in single quotes, long values cut. */
static void add_shown(struct buf *out, struct text raw)
{
    enum { SHOWN = 120 };
    if (json_kind(raw) == '"') {
        buf_text(out, "'");
        struct buf plain = {0};
        json_string(raw, &plain);
        buf_add(out, plain.data, plain.len < SHOWN ? plain.len : SHOWN);
        buf_free(&plain);
        buf_text(out, "'");
    } else {
        buf_add(out, raw.at, raw.len < SHOWN ? raw.len : SHOWN);
    }
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
    buf_printf(&refusal->message,
               "1 validation error:\n  {'type': 'json_invalid', 'loc': '%s', 'msg': 'JSON decode error', 'input': {}, "
               "'ctx': {'error': 'Expecting value'}}",
               place);
    return false;
}
