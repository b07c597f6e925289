/*
 * The builder of coordinator/document.h: a buffer, and a bit a level that says whether an object or an array is open.
 *
 * Invariant: while `status` is COORD_OK, the buffer holds the beginning of one valid JSON value. The first misuse or failed
 * allocation sticks and nothing is written after it. Thread: whoever owns it.
 */
#include <coordinator/document.h>

#include "json/quote.h"
#include "json/scanner.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct coord_json {
    struct buffer buffer;
    uint64_t objects[JSON_MAX_DEPTH / 64]; /* bit d: level d is an object */
    size_t depth;
    bool first;  /* nothing stands in the innermost container yet */
    bool keyed;  /* a key was written and waits for its value */
    bool opened; /* the value was begun */
    coord_status status;
};

static const double exact_integers = 9007199254740992.0; /* 2^53 */

coord_json *coord_json_new(void)
{
    coord_json *json = malloc(sizeof *json);

    if (json)
        *json = (coord_json){.status = COORD_OK};
    return json;
}

void coord_json_free(coord_json *json)
{
    if (!json)
        return;
    buffer_release(&json->buffer);
    free(json);
}

static bool usable(const coord_json *json) { return json && json->status == COORD_OK; }

static void check(coord_json *json, bool written)
{
    if (!written)
        json->status = COORD_NO_MEMORY;
}

static bool in_object(const coord_json *json)
{
    return json->depth > 0 && (json->objects[(json->depth - 1) / 64] >> (json->depth - 1) % 64 & 1);
}

/* A value is about to be written: is it due here, and does it need a comma? */
static bool begin_value(coord_json *json)
{
    if (!usable(json))
        return false;
    if (in_object(json) ? !json->keyed : json->depth == 0 && json->opened) {
        json->status = COORD_STATE;
        return false;
    }
    if (json->depth > 0 && !in_object(json) && !json->first)
        check(json, buffer_append(&json->buffer, ",", 1));
    json->first = false;
    json->keyed = false;
    json->opened = true;
    return usable(json);
}

static void write_text(coord_json *json, const char *text)
{
    if (begin_value(json))
        check(json, buffer_append_text(&json->buffer, text));
}

static void open_container(coord_json *json, bool object)
{
    uint64_t bit;

    if (!begin_value(json))
        return;
    if (json->depth == JSON_MAX_DEPTH) {
        json->status = COORD_STATE;
        return;
    }
    bit = UINT64_C(1) << json->depth % 64;
    if (object)
        json->objects[json->depth / 64] |= bit;
    else
        json->objects[json->depth / 64] &= ~bit;
    json->depth++;
    json->first = true;
    check(json, buffer_append(&json->buffer, object ? "{" : "[", 1));
}

void coord_json_object(coord_json *json) { open_container(json, true); }

void coord_json_array(coord_json *json) { open_container(json, false); }

void coord_json_close(coord_json *json)
{
    if (!usable(json))
        return;
    if (json->depth == 0 || json->keyed) {
        json->status = COORD_STATE;
        return;
    }
    check(json, buffer_append(&json->buffer, in_object(json) ? "}" : "]", 1));
    json->depth--;
    json->first = false;
}

void coord_json_key(coord_json *json, const char *name)
{
    if (!usable(json))
        return;
    if (!name || !in_object(json) || json->keyed) {
        json->status = COORD_STATE;
        return;
    }
    if (!json->first)
        check(json, buffer_append(&json->buffer, ",", 1));
    if (usable(json))
        check(json, json_append_quoted(&json->buffer, coord_slice_of(name)) && buffer_append(&json->buffer, ":", 1));
    json->first = false;
    json->keyed = true;
}

void coord_json_string(coord_json *json, coord_slice text)
{
    if (begin_value(json))
        check(json, json_append_quoted(&json->buffer, text));
}

void coord_json_int(coord_json *json, int64_t value)
{
    if (begin_value(json))
        check(json, buffer_printf(&json->buffer, "%lld", (long long)value));
}

/* Whole numbers as such; otherwise the fewest digits that read back the same. A locale's decimal comma becomes a point. */
static void print_number(char *out, size_t size, double value)
{
    int precision = 1;

    if (fabs(value) <= exact_integers && (double)(int64_t)value == value) {
        snprintf(out, size, "%.0f", value);
        return;
    }
    do
        snprintf(out, size, "%.*g", precision, value);
    while (precision++ < 17 && strtod(out, NULL) != value);
    for (; *out; out++)
        if (!strchr("0123456789+-e", *out))
            *out = '.';
}

void coord_json_number(coord_json *json, double value)
{
    char text[40];

    if (!isfinite(value)) {
        coord_json_null(json);
        return;
    }
    print_number(text, sizeof text, value);
    write_text(json, text);
}

void coord_json_bool(coord_json *json, bool value) { write_text(json, value ? "true" : "false"); }

void coord_json_null(coord_json *json) { write_text(json, "null"); }

void coord_json_raw(coord_json *json, coord_slice value)
{
    if (usable(json) && value.size == 0) {
        json->status = COORD_STATE;
        return;
    }
    if (begin_value(json))
        check(json, buffer_append_slice(&json->buffer, value));
}

coord_status coord_json_end(coord_json *json, coord_slice *text)
{
    if (!json)
        return COORD_NO_MEMORY;
    if (json->status != COORD_OK)
        return json->status;
    if (json->depth > 0 || !json->opened)
        return COORD_STATE;
    *text = buffer_slice(&json->buffer);
    return COORD_OK;
}
