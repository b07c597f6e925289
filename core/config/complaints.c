/*
 * What is wrong with a configuration, as lines for people; and the nearest name, for "did you mean". See tree.h.
 *
 * Invariant: one complaint is one line of `text`, whatever bytes the file held. Thread: [load].
 */
#include "config/tree.h"

#include <stdio.h>
#include <strings.h>

enum { SHOWN_MAX = 100, LINE_MAX_BYTES = 1024, WORD_MAX = 63 };

static void add_line(struct buffer *text, coord_slice head, char *line)
{
    for (char *c = line; *c; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    }
    /* A line that memory is too short for is lost; the counter, which decides, is not. */
    if (buffer_reserve(text, head.size + strlen(line) + 1)) {
        bool added =
            buffer_append_slice(text, head) && buffer_append_text(text, line) && buffer_append_text(text, "\n");
        (void)added;
    }
}

void complain(struct complaints *complaints, enum complaint_level level, struct position at, const char *format, ...)
{
    char head[LINE_MAX_BYTES], line[LINE_MAX_BYTES];
    const char *file = at.file ? at.file : "configuration";
    const char *mark = level == COMPLAINT_WARNING ? "warning: " : "";
    unsigned before = complaints->errors + complaints->warnings;
    va_list arguments;

    *(level == COMPLAINT_ERROR ? &complaints->errors : &complaints->warnings) += 1;
    if (before > SHOWN_MAX)
        return;
    if (before == SHOWN_MAX) {
        char more[] = "there is more; the rest is not shown";

        add_line(&complaints->text, (coord_slice){0}, more);
        return;
    }
    if (at.line > 0)
        snprintf(head, sizeof head, "%.512s:%u:%u: %s", file, at.line, at.column, mark);
    else
        snprintf(head, sizeof head, "%.512s: %s", file, mark);
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    add_line(&complaints->text, coord_slice_of(head), line);
}

void complaints_release(struct complaints *complaints)
{
    buffer_release(&complaints->text);
    complaints->errors = 0;
    complaints->warnings = 0;
}

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Optimal string alignment: insert, delete, replace, swap neighbours. Both are at most WORD_MAX long. */
static size_t edit_distance(coord_slice a, coord_slice b)
{
    size_t rows[3][WORD_MAX + 1];
    size_t *before = rows[0], *last = rows[1], *row = rows[2];

    for (size_t j = 0; j <= b.size; j++)
        last[j] = j;
    for (size_t i = 1; i <= a.size; i++) {
        size_t *spare = before;

        row[0] = i;
        for (size_t j = 1; j <= b.size; j++) {
            char x = lower(a.data[i - 1]), y = lower(b.data[j - 1]);

            row[j] = least(least(last[j], row[j - 1]) + 1, last[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == lower(b.data[j - 2]) && y == lower(a.data[i - 2]))
                row[j] = least(row[j], before[j - 2] + 1);
        }
        before = last;
        last = row;
        row = spare;
    }
    return last[b.size];
}

const char *nearest_name(coord_slice word, const char *const *names, size_t count)
{
    const char *nearest = NULL;
    size_t allowed = 1 + word.size / 4, best = allowed + 1;

    if (word.size == 0 || word.size > WORD_MAX)
        return NULL;
    for (size_t n = 0; n < count; n++) {
        coord_slice name = coord_slice_of(names[n]);
        size_t distance;

        if (name.size == 0 || name.size > WORD_MAX || name.size > word.size + allowed ||
            word.size > name.size + allowed)
            continue;
        distance = edit_distance(word, name);
        if (distance < best && distance < name.size) {
            best = distance;
            nearest = names[n];
        }
    }
    return nearest;
}
