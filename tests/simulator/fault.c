/* Fault specs; see fault.h. */
#include "fault.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { FLAG, NUMBER, TIME, STATUS, SPLIT_AT, HEADER };

#define AT(member) offsetof(struct fault, member)
static const struct item {
    const char *name;
    enum kind kind;
    size_t at;
} items[] = {
    {"delay", TIME, AT(delay)},
    {"first-token-delay", TIME, AT(first_token_delay)},
    {"event-interval", TIME, AT(event_interval)},
    {"close-idle", TIME, AT(close_idle)},
    {"status", STATUS, AT(status)},
    {"silence-after", NUMBER, AT(silence_after)},
    {"reset-after", NUMBER, AT(reset_after)},
    {"fin-after", NUMBER, AT(fin_after)},
    {"split", NUMBER, AT(split)},
    {"huge-event", NUMBER, AT(huge_event)},
    {"error-event-after", NUMBER, AT(error_event_after)},
    {"blob", NUMBER, AT(blob)},
    {"tokens", NUMBER, AT(tokens)},
    {"split-at", SPLIT_AT, 0},
    {"header", HEADER, 0},
    {"silence", FLAG, AT(silence)},
    {"refuse-body", FLAG, AT(refuse_body)},
    {"crlf", FLAG, AT(crlf)},
    {"no-final-blank", FLAG, AT(no_final_blank)},
    {"gzip", FLAG, AT(gzip)},
    {"no-length", FLAG, AT(no_length)},
    {"usage-null", FLAG, AT(usage_null)},
    {"cached", NUMBER, AT(cached)},
    {"created-cache", NUMBER, AT(created_cache)},
    {"force-include-usage", FLAG, AT(traits.force_usage)},
    {"force-continuous-usage", FLAG, AT(traits.force_continuous)},
    {"usage-null-chunks", FLAG, AT(traits.null_chunks)},
    {"no-usage", FLAG, AT(traits.no_usage)},
    {"early-zero-usage", FLAG, AT(traits.early_zero)},
    {"no-cache-details", FLAG, AT(traits.no_details)},
};
#undef AT

void fault_init(struct fault *fault)
{
    *fault = (struct fault){0};
    for (size_t i = 0; i < sizeof items / sizeof *items; i++)
        if (items[i].kind == NUMBER || items[i].kind == TIME || items[i].kind == STATUS)
            *(int64_t *)((char *)fault + items[i].at) = -1;
    fault->retry_after = -1;
}

void fault_free(struct fault *fault)
{
    buf_free(&fault->status_body);
    buf_free(&fault->headers);
}

bool fault_time(struct text millis, int64_t *nanos)
{
    char copy[32], *end;
    if (!millis.len || millis.len >= sizeof copy)
        return false;
    memcpy(copy, millis.at, millis.len);
    copy[millis.len] = 0;
    double value = strtod(copy, &end);
    if (*end || !(value >= 0 && value < 1e9))
        return false;
    *nanos = (int64_t)(value * 1e6);
    return true;
}

static bool read_number(struct text value, int64_t *number)
{
    uint64_t whole;
    if (!text_uint(value, &whole) || whole > INT64_MAX)
        return false;
    *number = (int64_t)whole;
    return true;
}

static struct text cut(struct text *rest, char at)
{
    const char *stop = memchr(rest->at, at, rest->len);
    struct text piece = {rest->at, stop ? (size_t)(stop - rest->at) : rest->len};
    size_t used = piece.len + (stop != NULL);
    rest->at += used;
    rest->len -= used;
    return piece;
}

/* %2C and the like, so that a short body may hold commas and semicolons. */
static bool add_percent_decoded(struct text coded, struct buf *out)
{
    for (size_t i = 0; i < coded.len; i++) {
        char c = coded.at[i];
        if (c == '%') {
            char digits[3] = {0}, *end;
            if (i + 2 >= coded.len)
                return false;
            memcpy(digits, coded.at + i + 1, 2);
            c = (char)strtoul(digits, &end, 16);
            if (*end)
                return false;
            i += 2;
        }
        buf_add(out, &c, 1);
    }
    return true;
}

static bool add_file(struct text name, struct buf *out)
{
    char path[4096];
    if (!name.len || name.len >= sizeof path)
        return false;
    memcpy(path, name.at, name.len);
    path[name.len] = 0;
    FILE *file = fopen(path, "rb");
    if (!file)
        return false;
    for (size_t got = 1; got;) {
        got = fread(buf_room(out, 65536), 1, 65536, file);
        out->len += got;
    }
    fclose(file);
    return true;
}

/* N[;short body or @file][;retry-after=S] */
static bool read_status(struct fault *fault, struct text value)
{
    if (!read_number(cut(&value, ';'), &fault->status) || fault->status < 200 || fault->status > 599)
        return false;
    while (value.len) {
        struct text piece = cut(&value, ';');
        if (piece.len > 12 && memcmp(piece.at, "retry-after=", 12) == 0) {
            if (!read_number((struct text){piece.at + 12, piece.len - 12}, &fault->retry_after))
                return false;
            continue;
        }
        buf_free(&fault->status_body);
        fault->has_body = true;
        bool file = piece.len && piece.at[0] == '@';
        struct text name = {piece.at + 1, piece.len - 1};
        if (file ? !add_file(name, &fault->status_body) : !add_percent_decoded(piece, &fault->status_body))
            return false;
    }
    return true;
}

static bool read_split_at(struct fault *fault, struct text value)
{
    uint64_t at;
    if (fault->split_count == SPLITS_AT_MOST || !text_uint(value, &at))
        return false;
    size_t place = fault->split_count++;
    for (; place > 0 && fault->split_at[place - 1] > at; place--)
        fault->split_at[place] = fault->split_at[place - 1];
    fault->split_at[place] = at;
    return true;
}

/* name:value */
static bool read_header(struct fault *fault, struct text value)
{
    struct text name = cut(&value, ':');
    if (!name.len)
        return false;
    buf_add(&fault->headers, name.at, name.len);
    buf_text(&fault->headers, ": ");
    bool good = add_percent_decoded(value, &fault->headers);
    buf_text(&fault->headers, "\r\n");
    return good;
}

static bool read_item(struct fault *fault, struct text name, struct text value)
{
    for (size_t i = 0; i < sizeof items / sizeof *items; i++) {
        const struct item *item = &items[i];
        void *member = (char *)fault + item->at;
        if (!text_is(name, item->name))
            continue;
        switch (item->kind) {
        case FLAG:
            *(bool *)member = !text_is(value, "0");
            return true;
        case NUMBER:
            return read_number(value, member);
        case TIME:
            return fault_time(value, member);
        case STATUS:
            return read_status(fault, value);
        case SPLIT_AT:
            return read_split_at(fault, value);
        case HEADER:
            return read_header(fault, value);
        }
    }
    return false;
}

bool fault_add(struct fault *fault, struct text spec, struct text *bad)
{
    while (spec.len) {
        struct text item = text_trim(cut(&spec, ',')), value = item;
        if (!item.len)
            continue;
        struct text name = text_trim(cut(&value, '='));
        *bad = item;
        if (!read_item(fault, name, text_trim(value)))
            return false;
    }
    return true;
}
