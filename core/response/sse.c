/*
 * See <coordinator/sse.h>: the parser of server-sent events and their emitter.
 *
 * The bytes that were fed stand in one buffer; `begin` is where the event in progress begins, `line` where its next line does.
 * Every byte is looked at once for a line feed and once for a carriage return, by memchr, also when events are fed in pieces:
 * how far was searched is kept. Places in the event are offsets from its beginning, because feeding may move the bytes.
 * Dropping what was given out costs nothing when nothing is left, which is the usual case; else the rest is moved only when it
 * is smaller than what is dropped.
 */
#include <coordinator/sse.h>

#include "runtime/buffer.h"

#include <assert.h>
#include <stdlib.h>

enum { MAGIC = 0x73736521, FIRST_CAPACITY = 512, KEPT_CAPACITY = 4096 };

static const char bom[3] = {'\xEF', '\xBB', '\xBF'};

/* Where the next `byte` at or after the line in progress is. */
struct finder {
    char byte;
    bool found;
    size_t at; /* found: there it is; else: before this there is none */
};

struct part {
    size_t at, size; /* from the event's beginning */
};

struct coord_sse {
    uint32_t magic;
    size_t limit; /* SIZE_MAX: none */
    char *data;
    size_t begin, line, size, capacity;
    struct finder lf, cr;
    bool passed_limit; /* for good */
    bool started;      /* the stream's first line is over, a BOM can come no more */

    /* The event in progress */
    struct part type, data_line; /* data_line: the first of them */
    size_t data_lines;
    struct buffer joined; /* all of them, when there are several */
};

coord_sse *coord_sse_new(size_t limit)
{
    coord_sse *sse = calloc(1, sizeof *sse);

    if (!sse)
        return NULL;
    sse->magic = MAGIC;
    sse->limit = limit ? limit : SIZE_MAX;
    sse->lf.byte = '\n';
    sse->cr.byte = '\r';
    return sse;
}

void coord_sse_free(coord_sse *sse)
{
    if (!sse)
        return;
    assert(sse->magic == MAGIC);
    sse->magic = 0;
    buffer_release(&sse->joined);
    free(sse->data);
    free(sse);
}

/* ---- The bytes ---- */

static void move_finder(struct finder *finder, size_t by)
{
    if (finder->at >= by) {
        finder->at -= by;
        return;
    }
    finder->at = 0;
    finder->found = false;
}

/* Forgets what was given out. */
static void drop_given(coord_sse *sse)
{
    size_t by = sse->begin, left = sse->size - by;

    if (left > 0)
        memmove(sse->data, sse->data + by, left);
    sse->begin = 0;
    sse->line -= by;
    sse->size = left;
    move_finder(&sse->lf, by);
    move_finder(&sse->cr, by);
}

static bool make_room(coord_sse *sse, size_t more)
{
    size_t capacity, need;
    char *data;

    if (sse->begin == sse->size || (sse->capacity - sse->size < more && sse->begin >= sse->size - sse->begin))
        drop_given(sse);
    if (sse->size == 0 && sse->capacity > KEPT_CAPACITY && more <= KEPT_CAPACITY) { /* a big event is over */
        free(sse->data);
        sse->data = NULL;
        sse->capacity = 0;
    }
    if (more <= sse->capacity - sse->size)
        return true;
    if (more > SIZE_MAX / 2 - sse->size)
        return false;
    need = sse->size + more;
    for (capacity = sse->capacity ? sse->capacity : FIRST_CAPACITY; capacity < need;)
        capacity *= 2;
    data = realloc(sse->data, capacity);
    if (!data)
        return false;
    sse->data = data;
    sse->capacity = capacity;
    return true;
}

coord_status coord_sse_feed(coord_sse *sse, coord_slice piece)
{
    assert(sse->magic == MAGIC);
    if (sse->passed_limit)
        return COORD_LIMIT;
    if (piece.size == 0)
        return COORD_OK;
    if (!make_room(sse, piece.size))
        return COORD_NO_MEMORY;
    memcpy(sse->data + sse->size, piece.data, piece.size);
    sse->size += piece.size;
    return COORD_OK;
}

/* ---- Lines ---- */

static bool find(const coord_sse *sse, struct finder *finder, size_t end)
{
    const char *hit;
    size_t from = finder->at > sse->line ? finder->at : sse->line;

    if (finder->found && finder->at >= sse->line)
        return finder->at < end;
    finder->found = false;
    if (from < end) {
        hit = memchr(sse->data + from, finder->byte, end - from);
        finder->found = hit != NULL;
        finder->at = hit ? (size_t)(hit - sse->data) : end;
    }
    return finder->found;
}

/*
 * Where the line in progress ends and what follows its end; false: not yet. A CR that is the last byte may be half a line
 * end, unless the stream is `over`.
 */
static bool find_line(coord_sse *sse, bool over, size_t *end, size_t *next)
{
    bool lf = find(sse, &sse->lf, sse->size);
    bool cr = find(sse, &sse->cr, lf ? sse->lf.at : sse->size);

    if (!cr) {
        *end = sse->lf.at;
        *next = *end + 1;
        return lf;
    }
    *end = sse->cr.at;
    *next = *end + 1;
    if (*next == sse->size)
        return over;
    *next += sse->data[*next] == '\n';
    return true;
}

/* The value of the field called `name`, if the line is one. */
static bool field_value(const char *line, size_t size, const char *name, size_t name_size, struct part *value)
{
    size_t at = name_size;

    if (size < name_size || memcmp(line, name, name_size) != 0 || (size > name_size && line[name_size] != ':'))
        return false;
    if (at < size)
        at++; /* the colon */
    if (at < size && line[at] == ' ')
        at++;
    *value = (struct part){at, size - at};
    return true;
}

/* Joins a further data line to those before it. */
static bool join_data(coord_sse *sse, struct part value)
{
    const char *event = sse->data + sse->begin;
    size_t first = sse->data_lines == 1 ? sse->data_line.size : 0;

    if (!buffer_reserve(&sse->joined, first + 1 + value.size))
        return false;
    return buffer_append(&sse->joined, event + sse->data_line.at, first) && buffer_append(&sse->joined, "\n", 1) &&
           buffer_append(&sse->joined, event + value.at, value.size);
}

static bool take_data(coord_sse *sse, struct part value)
{
    if (sse->data_lines == 0)
        sse->data_line = value;
    else if (!join_data(sse, value))
        return false;
    sse->data_lines++;
    return true;
}

/* Reads a line that is not blank; false when memory is short. */
static bool take_line(coord_sse *sse, size_t at, size_t size)
{
    const char *line = sse->data + at;
    struct part value;

    if (field_value(line, size, "data", 4, &value)) {
        value.at += at - sse->begin;
        return take_data(sse, value);
    }
    if (field_value(line, size, "event", 5, &value)) {
        value.at += at - sse->begin;
        sse->type = value;
    }
    return true;
}

/* How much of the line to leave out because it is the mark at the beginning of the stream. */
static size_t mark_size(const coord_sse *sse, size_t line_size)
{
    if (sse->started || line_size < sizeof bom || memcmp(sse->data + sse->line, bom, sizeof bom) != 0)
        return 0;
    return sizeof bom;
}

/* ---- Events ---- */

/* Of a part of the event in progress. */
static coord_slice slice_of(const coord_sse *sse, struct part part)
{
    return (coord_slice){sse->data + sse->begin + part.at, part.size};
}

/* Gives out the event that ends before `end` and begins the next one there. */
static void give(coord_sse *sse, size_t end, coord_sse_event *event)
{
    coord_sse_event full = {.size = event->size};

    full.raw = (coord_slice){sse->data + sse->begin, end - sse->begin};
    full.has_data = sse->data_lines > 0;
    if (sse->type.size > 0)
        full.type = slice_of(sse, sse->type);
    if (sse->data_lines == 1)
        full.data = full.data_raw = slice_of(sse, sse->data_line);
    else if (sse->data_lines > 1)
        full.data = buffer_slice(&sse->joined);
    memcpy(event, &full, event->size < sizeof full ? event->size : sizeof full);

    sse->begin = sse->line = end;
    sse->type = sse->data_line = (struct part){0};
    sse->data_lines = 0;
}

static coord_status limit_passed(coord_sse *sse)
{
    sse->passed_limit = true;
    return COORD_LIMIT;
}

static coord_status next_event(coord_sse *sse, bool over, coord_sse_event *event)
{
    size_t end, next;

    assert(sse->magic == MAGIC);
    if (sse->passed_limit)
        return COORD_LIMIT;
    if (sse->data_lines == 0) /* what the event before had joined is not needed any more */
        buffer_clear(&sse->joined, KEPT_CAPACITY);
    while (find_line(sse, over, &end, &next)) {
        size_t mark = mark_size(sse, end - sse->line), at = sse->line + mark;

        if (next - sse->begin > sse->limit)
            return limit_passed(sse);
        if (at < end && !take_line(sse, at, end - at))
            return COORD_NO_MEMORY;
        sse->line = next;
        sse->started = true;
        if (at == end) {
            give(sse, next, event);
            return COORD_OK;
        }
    }
    return sse->size - sse->begin > sse->limit ? limit_passed(sse) : COORD_END;
}

coord_status coord_sse_next(coord_sse *sse, coord_sse_event *event) { return next_event(sse, false, event); }

coord_slice coord_sse_rest(const coord_sse *sse)
{
    assert(sse->magic == MAGIC);
    return (coord_slice){sse->size > sse->begin ? sse->data + sse->begin : NULL, sse->size - sse->begin};
}

coord_status coord_sse_last(coord_sse *sse, coord_sse_event *event)
{
    coord_status status = next_event(sse, true, event);
    size_t at;

    if (status != COORD_END || sse->begin == sse->size)
        return status;
    at = sse->line + mark_size(sse, sse->size - sse->line);
    if (at < sse->size && !take_line(sse, at, sse->size - at))
        return COORD_NO_MEMORY;
    sse->started = true;
    give(sse, sse->size, event);
    return COORD_OK;
}

/* Takes one line end off the end of `text`, if there is one. */
static bool chop_line_end(coord_slice *text)
{
    size_t size = text->size;

    if (size > 0 && text->data[size - 1] == '\n')
        text->size -= size > 1 && text->data[size - 2] == '\r' ? 2 : 1;
    else if (size > 0 && text->data[size - 1] == '\r')
        text->size -= 1;
    return text->size < size;
}

/* A blank line is a line end behind another one, or at the beginning of an event. */
bool coord_sse_at_boundary(const coord_sse *sse)
{
    coord_slice rest = coord_sse_rest(sse);

    if (rest.size == 0)
        return true;
    if (!chop_line_end(&rest))
        return false;
    if (rest.size == 0 || chop_line_end(&rest))
        return true;
    return !sse->started && rest.size == sizeof bom && memcmp(rest.data, bom, sizeof bom) == 0;
}

bool coord_sse_is_done(const coord_sse_event *event)
{
    return event->size >= offsetof(coord_sse_event, data) + sizeof event->data && event->has_data &&
           coord_slice_is(event->data, "[DONE]");
}

/* ---- The emitter ---- */

/* Takes the first line off `text`; false: that was the last one. */
static bool take_first_line(coord_slice *text, coord_slice *line)
{
    size_t size = 0, end;

    while (size < text->size && text->data[size] != '\n' && text->data[size] != '\r')
        size++;
    *line = (coord_slice){text->data, size};
    if (size == text->size)
        return false;
    end = size + 1;
    if (text->data[size] == '\r' && end < text->size && text->data[end] == '\n')
        end++;
    *text = (coord_slice){text->data + end, text->size - end};
    return true;
}

/* Writes while there is room, counts in any case. */
static void emit(char *out, size_t room, size_t *size, coord_slice text)
{
    if (text.size > 0 && *size <= room && text.size <= room - *size)
        memcpy(out + *size, text.data, text.size);
    *size += text.size;
}

static size_t write_event(coord_slice type, coord_slice data, char *out, size_t room)
{
    static const coord_slice event = COORD_SLICE("event: "), field = COORD_SLICE("data: "), feed = COORD_SLICE("\n");
    coord_slice line;
    size_t size = 0;
    bool more;

    if (type.size > 0) {
        take_first_line(&type, &line); /* more would be other fields */
        emit(out, room, &size, event);
        emit(out, room, &size, line);
        emit(out, room, &size, feed);
    }
    do {
        more = take_first_line(&data, &line);
        emit(out, room, &size, field);
        emit(out, room, &size, line);
        emit(out, room, &size, feed);
    } while (more);
    emit(out, room, &size, feed);
    return size;
}

size_t coord_sse_write(coord_slice type, coord_slice data, char *out, size_t room)
{
    size_t size = write_event(type, data, NULL, 0);

    if (size <= room)
        write_event(type, data, out, room);
    return size;
}
