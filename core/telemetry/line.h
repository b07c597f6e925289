/*
 * Writing into a fixed room: what the log's lines and the redacted bodies are put together with.
 *
 * Invariant: what does not fit into `room` is left out and `full` is set; nothing is put after that, so that a line never
 * has a hole. Only line_close goes on into the `tail` behind the room, to end what was begun. Thread: whoever owns it.
 */
#ifndef TELEMETRY_LINE_H
#define TELEMETRY_LINE_H

#include <coordinator/base.h>

#include <assert.h>

struct line {
    char *data; /* room + tail bytes */
    size_t size;
    size_t room;
    size_t tail;
    bool full;
};

/* Whether eight bytes are all ASCII from `lowest` on, and none is a quote, a backslash, DEL or `third`. */
static inline bool line_plain_8(const char *at, char lowest, char third)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), high = ones << 7;
    uint64_t word, quote, backslash, other;

    memcpy(&word, at, sizeof word);
    quote = word ^ ones * '"';
    backslash = word ^ ones * '\\';
    other = word ^ ones * (unsigned char)third;
    /* A byte that is lower than what is taken from it borrows, and one from 0x7F on carries, into its highest bit. */
    return (((word - ones * (unsigned char)lowest) | (quote - ones) | (backslash - ones) | (other - ones) |
             (word + ones) | word) &
            high) == 0;
}

static inline size_t line_left(const struct line *line)
{
    return !line->full && line->size < line->room ? line->room - line->size : 0;
}

/* Appends all of `data` or nothing. */
static inline void line_put(struct line *line, const char *data, size_t size)
{
    if (size > line_left(line)) {
        line->full = true;
        return;
    }
    memcpy(line->data + line->size, data, size);
    line->size += size;
}

static inline void line_text(struct line *line, const char *text) { line_put(line, text, strlen(text)); }

static inline void line_byte(struct line *line, char byte) { line_put(line, &byte, 1); }

/* Appends a closing mark, also to a full line. */
static inline void line_close(struct line *line, const char *mark)
{
    size_t size = strlen(mark);

    assert(line->size + size <= line->room + line->tail);
    memcpy(line->data + line->size, mark, size);
    line->size += size;
}

/* In decimal. */
void line_unsigned(struct line *line, uint64_t value);
void line_signed(struct line *line, int64_t value);
/* Nanoseconds as seconds, to the microsecond, without zeros at the end: 1.5, -0.000001, 0. */
void line_seconds(struct line *line, int64_t ns);

enum line_escape {
    LINE_JSON, /* inside a JSON string: bytes that are not UTF-8 become U+FFFD */
    LINE_TEXT, /* inside a quoted value: such bytes become \xNN */
    LINE_BARE  /* as LINE_TEXT, but quotes and backslashes stand as they are */
};

/*
 * Appends `text` so that it stays on one line and cannot steer a terminal: control characters (C0, DEL, C1, line and
 * paragraph separators, direction marks) are escaped. Cut between characters when the room ends.
 */
void line_escaped(struct line *line, coord_slice text, enum line_escape escape);

#endif
