/*
 * Fuzz target: any bytes as the answer of an upstream. They are read at one go and again in pieces whose sizes come from the
 * input: verdict, head, body and what is left over must be the same. The first byte says whether the request was a HEAD, the
 * second one seeds the pieces.
 */
#include "http/direct_reader.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum verdict { UNFINISHED, WHOLE, BAD };

struct reading {
    struct direct_reader reader;
    struct answer_head head;
    bool to_head;
    enum verdict verdict;
    struct buffer body, fields; /* what came of it */
    size_t taken;
};

static void check(bool holds)
{
    if (!holds)
        abort();
}

static void note_head(struct reading *reading)
{
    const struct answer_head *head = &reading->head;

    check(buffer_printf(&reading->fields, "%d %lld %d %d;", (int)head->status, (long long)answer_head_length(head),
                        answer_head_keeps_connection(head), answer_head_close_delimited(head, reading->to_head)));
    for (size_t i = 0; i < head->headers.count; i++) {
        check(header_name_valid(head->headers.list[i].name) && header_value_valid(head->headers.list[i].value));
        check(buffer_append_slice(&reading->fields, head->headers.list[i].name));
        check(buffer_append(&reading->fields, "=", 1));
        check(buffer_append_slice(&reading->fields, head->headers.list[i].value));
        check(buffer_append(&reading->fields, ";", 1));
    }
}

static void take_line(struct reading *reading, coord_slice line)
{
    const char *reason = NULL;

    reading->head.borrowed = direct_reader_lent(&reading->reader);
    switch (answer_head_line(&reading->head, line, &reason)) {
    case ANSWER_MORE:
        return;
    case ANSWER_REFUSED:
        check(reason);
        reading->verdict = BAD;
        return;
    case ANSWER_COMPLETE:
        note_head(reading);
        direct_reader_head_over(&reading->reader, &reading->head, reading->to_head);
        return;
    }
}

static void feed(struct reading *reading, coord_slice bytes)
{
    size_t all = bytes.size;

    while (reading->verdict == UNFINISHED) {
        const char *reason = NULL;
        coord_slice piece;

        switch (direct_reader_next(&reading->reader, &bytes, &piece, &reason)) {
        case READING_MORE:
            check(bytes.size == 0 && (reading->head.complete || answer_head_own(&reading->head)));
            reading->taken += all;
            return;
        case READING_LINE:
            take_line(reading, piece);
            break;
        case READING_DATA:
            check(piece.size > 0 && buffer_append_slice(&reading->body, piece));
            break;
        case READING_WHOLE:
            check(direct_reader_whole(&reading->reader));
            reading->taken += all - bytes.size;
            reading->verdict = WHOLE;
            break;
        case READING_BAD:
            check(reason);
            reading->verdict = BAD;
            break;
        }
    }
}

static void begin(struct reading *reading, bool to_head)
{
    *reading = (struct reading){.to_head = to_head};
    answer_head_begin(&reading->head);
    direct_reader_begin(&reading->reader);
}

/* The connection ends there, too. */
static void end(struct reading *reading)
{
    const char *reason = NULL;

    if (reading->verdict == UNFINISHED && direct_reader_end(&reading->reader, &reason) == READING_BAD)
        check(reason);
}

static void release(struct reading *reading)
{
    direct_reader_release(&reading->reader);
    answer_head_release(&reading->head);
    buffer_release(&reading->body);
    buffer_release(&reading->fields);
}

/* Each piece in memory of its own, so that nothing may look beyond it or keep it. */
static void feed_copy(struct reading *reading, const char *data, size_t size)
{
    char *copy = malloc(size ? size : 1);

    check(copy);
    memcpy(copy, data, size);
    feed(reading, (coord_slice){copy, size});
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data + 2;
    struct reading whole, pieces;
    unsigned seed;

    if (size < 2)
        return 0;
    size -= 2;
    seed = data[1];
    begin(&whole, data[0] & 1);
    begin(&pieces, data[0] & 1);
    feed_copy(&whole, text, size);
    for (size_t at = 0; at < size && pieces.verdict == UNFINISHED;) {
        size_t part;

        seed = seed * 1103515245 + 12345;
        part = 1 + (seed >> 16) % (data[1] & 1 ? 3 : 40);
        if (part > size - at)
            part = size - at;
        feed_copy(&pieces, text + at, part);
        at += part;
    }
    end(&whole);
    end(&pieces);
    check(whole.verdict == pieces.verdict);
    check(coord_slice_equal(buffer_slice(&whole.fields), buffer_slice(&pieces.fields)));
    check(coord_slice_equal(buffer_slice(&whole.body), buffer_slice(&pieces.body)));
    check(whole.verdict != WHOLE || whole.taken == pieces.taken);
    release(&whole);
    release(&pieces);
    return 0;
}
