/*
 * Fuzzes sse.c: a stream in one piece and cut as the input says gives the same events and loses no byte; what was parsed
 * and written again parses as the same event. Input: a limit, a seed of the cuts, the stream.
 */
#include <coordinator/sse.h>

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            abort();                                                                                                   \
    } while (0)

struct reading {
    coord_sse *sse;
    size_t given; /* bytes */
    bool last;    /* the stream is over */
};

static coord_status next(struct reading *reading, coord_sse_event *event, coord_slice stream)
{
    coord_status status = reading->last ? coord_sse_last(reading->sse, event) : coord_sse_next(reading->sse, event);

    if (status != COORD_OK)
        return status;
    CHECK(event->raw.size > 0 && event->raw.size <= stream.size - reading->given);
    CHECK(memcmp(event->raw.data, stream.data + reading->given, event->raw.size) == 0);
    reading->given += event->raw.size;
    return COORD_OK;
}

/* The next event of a reading that has all of the stream. */
static void same_as_whole(struct reading *whole, const coord_sse_event *event, coord_slice stream)
{
    coord_sse_event other = {.size = sizeof other};
    coord_status status = next(whole, &other, stream);

    if (status == COORD_END) {
        whole->last = true;
        status = next(whole, &other, stream);
    }
    CHECK(status == COORD_OK && other.has_data == event->has_data && coord_slice_equal(other.raw, event->raw));
    CHECK(coord_slice_equal(other.type, event->type) && coord_slice_equal(other.data, event->data));
    CHECK(other.data_raw.size == event->data_raw.size);
}

static bool has(coord_slice text, char byte) { return text.size > 0 && memchr(text.data, byte, text.size) != NULL; }

static void reads_back(const coord_sse_event *event)
{
    size_t size = coord_sse_write(event->type, event->data, NULL, 0);
    coord_sse_event again = {.size = sizeof again};
    coord_sse *sse = coord_sse_new(0);
    char *text = malloc(size);

    CHECK(sse && text && !has(event->type, '\n') && !has(event->data, '\r'));
    CHECK(coord_sse_write(event->type, event->data, text, size) == size);
    CHECK(coord_sse_feed(sse, (coord_slice){text, size}) == COORD_OK);
    CHECK(coord_sse_next(sse, &again) == COORD_OK && again.raw.size == size);
    CHECK(coord_slice_equal(again.type, event->type) && coord_slice_equal(again.data, event->data));
    free(text);
    coord_sse_free(sse);
}

static void read_all(struct reading *split, struct reading *whole, coord_slice stream, unsigned seed)
{
    coord_sse_event event = {.size = sizeof event};
    coord_status status = COORD_END;

    for (size_t at = 0; at < stream.size && status == COORD_END;) {
        size_t piece = 1 + (seed = seed * 1103515245u + 12345u) / 65536u % 9;

        if (piece > stream.size - at)
            piece = stream.size - at;
        CHECK(coord_sse_feed(split->sse, (coord_slice){stream.data + at, piece}) == COORD_OK);
        at += piece;
        while ((status = next(split, &event, stream)) == COORD_OK) {
            same_as_whole(whole, &event, stream);
            reads_back(&event);
        }
        CHECK(coord_sse_rest(split->sse).size == at - split->given);
        CHECK(split->given < at || coord_sse_at_boundary(split->sse));
    }
    split->last = true;
    while ((status = next(split, &event, stream)) == COORD_OK)
        same_as_whole(whole, &event, stream);
    CHECK(status == COORD_LIMIT || split->given == stream.size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct reading whole = {0}, split = {0};
    coord_slice stream;

    if (size < 2)
        return 0;
    stream = (coord_slice){(const char *)data + 2, size - 2};
    whole.sse = coord_sse_new(data[0]);
    split.sse = coord_sse_new(data[0]);
    CHECK(whole.sse && split.sse);
    CHECK(coord_sse_feed(whole.sse, stream) == COORD_OK);
    read_all(&split, &whole, stream, data[1]);
    coord_sse_free(whole.sse);
    coord_sse_free(split.sse);
    return 0;
}
