/*
 * See log.h: how an entry becomes a line. Where the line goes is output.c.
 *
 * A line is put together in a buffer of the thread's, of fixed size: no allocation, no printf. A line that is longer is cut
 * in a value, which then ends in a mark; the fields behind it are left out, the end of the line never.
 */
#include "telemetry/log.h"

#include "telemetry/gather.h"
#include "telemetry/line.h"
#include "telemetry/output.h"

#include <stdatomic.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

enum {
    LINE_SIZE = 16 * 1024, /* of thread-local memory, which small stacks have to hold too */
    END_SIZE = 32,         /* kept to close what was begun: a mark, a quote, a brace, the line feed */
    ID_SIZE = 384,         /* kept for the request's id, which ends a text line */
    SENTENCE_SIZE = 2048   /* of coord_logf */
};

static _Atomic int32_t shown_level = COORD_LOG_INFO;
static _Atomic enum log_format line_format = LOG_TEXT;
static coord_slice (*_Atomic request_id)(const struct coord_request *request);

static _Thread_local char line_buffer[LINE_SIZE];

void log_configure(int32_t level, enum log_format format)
{
    atomic_store_explicit(&shown_level, level, memory_order_relaxed);
    atomic_store_explicit(&line_format, format, memory_order_relaxed);
    output_look();
}

void log_set_request_id(coord_slice (*id_of)(const struct coord_request *request))
{
    atomic_store_explicit(&request_id, id_of, memory_order_release);
}

void log_set_sink(void (*sink)(void *context, coord_slice line), void *context) { output_set_sink(sink, context); }

uint64_t log_dropped(void) { return output_dropped(); }

void log_flush(void) { output_flush(); }

void log_gather(void) { gather_begin(); }

void log_send(void) { gather_send(); }

void log_gather_end(void) { gather_end(); }

bool coord_log_enabled(int32_t level) { return level <= atomic_load_explicit(&shown_level, memory_order_relaxed); }

/* ---- Time ---- */

static void put_digits(char *out, int value, int count)
{
    while (count-- > 0) {
        out[count] = (char)('0' + value % 10);
        value /= 10;
    }
}

/* 2026-11-29T19:15:00.123Z; all but the milliseconds is kept from the thread's last line of the same second. */
static void put_time(struct line *line)
{
    static _Thread_local char text[] = "0000-00-00T00:00:00.000Z";
    static _Thread_local time_t second = -1;
    struct timespec now;
    struct tm parts;

    clock_gettime(CLOCK_REALTIME, &now);
    if (now.tv_sec != second && gmtime_r(&now.tv_sec, &parts)) {
        put_digits(text, parts.tm_year + 1900, 4);
        put_digits(text + 5, parts.tm_mon + 1, 2);
        put_digits(text + 8, parts.tm_mday, 2);
        put_digits(text + 11, parts.tm_hour, 2);
        put_digits(text + 14, parts.tm_min, 2);
        put_digits(text + 17, parts.tm_sec, 2);
        second = now.tv_sec;
    }
    put_digits(text + 20, (int)(now.tv_nsec / 1000000), 3);
    line_put(line, text, sizeof text - 1);
}

/* ---- Fields ---- */

static const coord_slice redacted = COORD_SLICE("[REDACTED]");
static const char cut_mark[] = "...[truncated]";

/* The put_… below that return bool: false when what they put does not stand on the line whole, or as a text that was cut. */
static bool put_quoted(struct line *line, coord_slice text, enum line_escape escape)
{
    line_byte(line, '"');
    if (line->full)
        return false;
    line_escaped(line, text, escape);
    if (line->full)
        line_close(line, cut_mark);
    line_close(line, "\"");
    return true;
}

#define BIT(byte) (UINT64_C(1) << (byte) % 64)

/* Printable ASCII without the space, quotes, the equals sign and backslashes. */
static bool bare_byte(char byte)
{
    static const uint64_t bare[4] = {~UINT64_C(0) << '!' & ~(BIT('"') | BIT('=')), ~(BIT('\\') | BIT(0x7F))};
    unsigned char at = (unsigned char)byte;

    return bare[at / 64] >> at % 64 & 1;
}

static bool is_bare(coord_slice text)
{
    size_t at = 0;

    while (text.size - at >= 8 && line_plain_8(text.data + at, '!', '='))
        at += 8;
    for (; at < text.size; at++)
        if (!bare_byte(text.data[at]))
            return false;
    return text.size > 0;
}

static bool put_text(struct line *line, coord_slice text, enum log_format format)
{
    if (format == LOG_JSON)
        return put_quoted(line, text, LINE_JSON);
    if (text.size > line_left(line) || !is_bare(text))
        return put_quoted(line, text, LINE_TEXT);
    line_put(line, text.data, text.size);
    return !line->full;
}

static bool put_value(struct line *line, const coord_field *field, enum log_format format)
{
    if (field->type == COORD_FIELD_TEXT)
        return put_text(line, field->text, format);
    if (field->type == COORD_FIELD_INT)
        line_signed(line, field->number);
    else if (field->type == COORD_FIELD_BOOL)
        line_text(line, field->number ? "true" : "false");
    else if (field->type == COORD_FIELD_SECONDS)
        line_seconds(line, field->number);
    else
        line_text(line, "null");
    return !line->full;
}

/* Names are constants, yet a line must not break on a wrong one. */
static void put_text_name(struct line *line, coord_slice name)
{
    if (is_bare(name)) {
        line_put(line, name.data, name.size);
        return;
    }
    for (size_t i = 0; i < name.size; i++)
        line_byte(line, bare_byte(name.data[i]) ? name.data[i] : '_');
}

/* A field called as one of the line's own gets a `_`. */
static bool is_reserved(coord_slice name)
{
    static const coord_slice reserved[] = {COORD_SLICE("ts"), COORD_SLICE("level"), COORD_SLICE("msg"),
                                           COORD_SLICE("request")};

    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        if (coord_slice_equal(name, reserved[i]))
            return true;
    return false;
}

static void put_json_name(struct line *line, coord_slice name)
{
    line_text(line, ",\"");
    line_escaped(line, name, LINE_JSON);
    line_text(line, is_reserved(name) ? "_\":" : "\":");
}

/* What a line says. */
struct entry {
    coord_slice id;
    int32_t level;
    coord_slice message;
    const coord_field *fields;
    size_t count;
    bool known; /* the fields' names: log_known */
};

static void put_name(struct line *line, coord_slice name, enum log_format format, bool known)
{
    if (format == LOG_JSON) {
        put_json_name(line, name);
        return;
    }
    line_byte(line, ' ');
    if (known)
        line_put(line, name.data, name.size);
    else
        put_text_name(line, name);
    line_byte(line, '=');
}

static void put_field(struct line *line, const coord_field *field, enum log_format format, bool known)
{
    size_t before = line->size;
    coord_slice name;
    bool whole;

    if (!field->name)
        return;
    name = coord_slice_of(field->name);
    put_name(line, name, format, known);
    whole = !known && log_is_credential(name) ? put_text(line, redacted, format) : put_value(line, field, format);
    if (!whole)
        line->size = before;
}

static void put_fields(struct line *line, const struct entry *entry, enum log_format format)
{
    for (size_t i = 0; i < entry->count && !line->full; i++)
        put_field(line, &entry->fields[i], format, entry->known);
}

/* ---- Lines ---- */

static coord_slice id_of(const struct coord_request *request)
{
    coord_slice (*find)(const struct coord_request *) = atomic_load_explicit(&request_id, memory_order_acquire);

    return request && find ? find(request) : (coord_slice){0};
}

static void put_text_line(struct line *line, const struct entry *entry)
{
    static const char *const levels[] = {" ERROR ", " WARN  ", " INFO  ", " INFO  ", " DEBUG ", " TRACE "};

    put_time(line);
    line_text(line, levels[entry->level]);
    line->room -= ID_SIZE;
    line_escaped(line, entry->message, LINE_BARE);
    put_fields(line, entry, LOG_TEXT);
    line->room += ID_SIZE;
    if (entry->id.size > 0) {
        line->full = false;
        line_text(line, " request=");
        put_text(line, entry->id, LOG_TEXT);
    }
    line_close(line, "\n");
}

static void put_json_line(struct line *line, const struct entry *entry)
{
    static const char *const levels[] = {"error", "warn", "info", "info", "debug", "trace"};

    line_text(line, "{\"ts\":\"");
    put_time(line);
    line_text(line, "\",\"level\":\"");
    line_text(line, levels[entry->level]);
    line_text(line, "\",\"msg\":");
    put_quoted(line, entry->message, LINE_JSON);
    if (entry->id.size > 0 && !line->full) {
        size_t before = line->size;

        line_text(line, ",\"request\":");
        if (!put_quoted(line, entry->id, LINE_JSON))
            line->size = before;
    }
    put_fields(line, entry, LOG_JSON);
    line_close(line, "}\n");
}

static void write_entry(struct entry entry)
{
    struct line line = {.data = line_buffer, .room = LINE_SIZE - END_SIZE, .tail = END_SIZE};

    if (entry.level < COORD_LOG_ERROR)
        entry.level = COORD_LOG_ERROR;
    else if (entry.level > COORD_LOG_TRACE)
        entry.level = COORD_LOG_TRACE;
    if (atomic_load_explicit(&line_format, memory_order_relaxed) == LOG_JSON)
        put_json_line(&line, &entry);
    else
        put_text_line(&line, &entry);
    output_line((coord_slice){line.data, line.size}, entry.level <= COORD_LOG_WARNING);
}

static void write_line(const struct coord_request *request, int32_t level, const char *message,
                       const coord_field *fields, size_t count, bool known)
{
    if (coord_log_enabled(level))
        write_entry((struct entry){.id = id_of(request),
                                   .level = level,
                                   .message = coord_slice_of(message),
                                   .fields = fields,
                                   .count = fields ? count : 0,
                                   .known = known});
}

void coord_log(const struct coord_request *request, int32_t level, const char *message, const coord_field *fields,
               size_t count)
{
    write_line(request, level, message, fields, count, false);
}

void log_known(const struct coord_request *request, int32_t level, const char *message, const coord_field *fields,
               size_t count)
{
    write_line(request, level, message, fields, count, true);
}

void coord_logf(const struct coord_request *request, int32_t level, const char *format, ...)
{
    char sentence[SENTENCE_SIZE];
    va_list arguments;
    int size;

    if (!coord_log_enabled(level))
        return;
    va_start(arguments, format);
    size = vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    if (size < 0)
        return;
    if ((size_t)size >= sizeof sentence) {
        size = (int)sizeof sentence - 1;
        memcpy(sentence + (size_t)size - (sizeof cut_mark - 1), cut_mark, sizeof cut_mark);
    }
    write_entry((struct entry){.id = id_of(request), .level = level, .message = {sentence, (size_t)size}});
}
