/* Unit test of sse.c: events as WHATWG reads them, the same for every way in which the bytes come, and no byte lost. */
#include <coordinator/sse.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

/* The events of a stream, written down: `type|data|has_data|one line` each on a line, and all raw bytes. */
struct record {
    char events[4096], raw[4096];
    size_t events_size, raw_size;
    coord_status end;
};

static void write_down(struct record *record, const coord_sse_event *event)
{
    char *to = record->events + record->events_size;

    memcpy(record->raw + record->raw_size, event->raw.data, event->raw.size);
    record->raw_size += event->raw.size;
    record->events_size += (size_t)sprintf(to, "%.*s|%.*s|%u|%d|%zu\n", COORD_FMT(event->type), COORD_FMT(event->data),
                                           event->has_data, event->data_raw.data != NULL, event->raw.size);
    if (event->data_raw.data) {
        assert_true(coord_slice_equal(event->data_raw, event->data));
        assert_true(event->data_raw.data >= event->raw.data);
        assert_true(event->data_raw.data + event->data_raw.size <= event->raw.data + event->raw.size);
    }
}

static void drain(coord_sse *sse, struct record *record, coord_status (*next)(coord_sse *sse, coord_sse_event *event))
{
    coord_sse_event event = {.size = sizeof event};
    coord_status status;

    while ((status = next(sse, &event)) == COORD_OK)
        write_down(record, &event);
    record->end = status;
}

/* Parses `stream` cut at the places where `cuts` is true. */
static void parse(struct record *record, coord_slice stream, const bool *cuts, size_t limit)
{
    coord_sse *sse = coord_sse_new(limit);
    size_t from = 0;

    assert_non_null(sse);
    record->events_size = record->raw_size = 0;
    record->end = COORD_END;
    for (size_t at = 1; at <= stream.size; at++) {
        char *piece;

        if (at < stream.size && !cuts[at])
            continue;
        piece = malloc(at - from); /* its own memory, which is gone when the event is read */
        assert_non_null(piece);
        memcpy(piece, stream.data + from, at - from);
        if (coord_sse_feed(sse, (coord_slice){piece, at - from}) != COORD_OK)
            assert_int_equal(record->end, COORD_LIMIT);
        free(piece);
        from = at;
        drain(sse, record, coord_sse_next);
    }
    if (record->end == COORD_END)
        drain(sse, record, coord_sse_last);
    record->events[record->events_size] = '\0';
    coord_sse_free(sse);
}

static void assert_same(const struct record *a, const struct record *b)
{
    assert_int_equal(a->end, b->end);
    assert_string_equal(a->events, b->events);
    assert_int_equal(a->raw_size, b->raw_size);
    assert_memory_equal(a->raw, b->raw, a->raw_size);
}

#define G(end)                                                                                                         \
    "data: {\"id\":\"c\",\"choices\":[{\"delta\":{\"content\":\"\xC3\xA9\xF0\x9F\x98\x80\"}}]}" end end                \
    "data: {\"id\":\"c\",\"choices\":[],\"usage\":{\"prompt_tokens\":3}}" end end "data: [DONE]" end end

static const struct {
    const char *name;
    coord_slice stream;
    const char *want; /* NULL: only that all splits agree */
} streams[] = {
    {"nothing", {"", 0}, ""},
    {"one event", COORD_SLICE("data: a\n\n"), "|a|1|1|9\n"},
    {"golden, LF", COORD_SLICE(G("\n")), NULL},
    {"golden, CRLF", COORD_SLICE(G("\r\n")), NULL},
    {"golden, CR", COORD_SLICE(G("\r")), NULL},
    {"mixed line ends", COORD_SLICE("data: 1\r\n\r\ndata: 2\n\ndata: 3\r\rdata: 4\n\r\ndata: 5\r\n\rdata: 6\r\n\n"),
     "|1|1|1|11\n|2|1|1|9\n|3|1|1|9\n|4|1|1|10\n|5|1|1|10\n|6|1|1|10\n"},
    {"no space", COORD_SLICE("data:{\"x\":1}\n\n"), "|{\"x\":1}|1|1|14\n"},
    {"two spaces", COORD_SLICE("data:  x\n\n"), "| x|1|1|10\n"},
    {"no colon", COORD_SLICE("data\n\n"), "||1|1|6\n"},
    {"a colon and nothing", COORD_SLICE("data:\n\n"), "||1|1|7\n"},
    {"a colon, a space and nothing", COORD_SLICE("data: \n\n"), "||1|1|8\n"},
    {"type", COORD_SLICE("event:error\ndata:{}\n\n"), "error|{}|1|1|21\n"},
    {"the last type counts", COORD_SLICE("event: a\nevent: b\ndata: x\n\n"), "b|x|1|1|27\n"},
    {"a type does not reach the next event", COORD_SLICE("event: a\n\ndata: x\n\n"), "a||0|0|10\n|x|1|1|9\n"},
    {"id and retry", COORD_SLICE("id: 7\nretry: 100\ndata: {}\n\n"), "|{}|1|1|27\n"},
    {"names are case-sensitive and whole", COORD_SLICE("Data: 1\ndatax: 2\n data: 3\ndat: 4\nevents: 5\n\n"),
     "||0|0|44\n"},
    {"mark at the beginning",
     COORD_SLICE("\xEF\xBB\xBF"
                 "data: x\n\n"),
     "|x|1|1|12\n"},
    {"mark and a blank line", COORD_SLICE("\xEF\xBB\xBF\ndata: x\n\n"), "||0|0|4\n|x|1|1|9\n"},
    {"only a mark", COORD_SLICE("\xEF\xBB\xBF"), "||0|0|3\n"},
    {"two marks",
     COORD_SLICE("\xEF\xBB\xBF\xEF\xBB\xBF"
                 "data: x\n\n"),
     "||0|0|15\n"},
    {"a mark further on",
     COORD_SLICE("data: x\n\n\xEF\xBB\xBF"
                 "data: y\n\n"),
     "|x|1|1|9\n||0|0|12\n"},
    {"comments", COORD_SLICE(": ping\n\ndata: a\n: c\n\n:\n\n"), "||0|0|8\n|a|1|1|13\n||0|0|3\n"},
    {"several data lines", COORD_SLICE("data: a\ndata:\ndata: b\n\ndata: {\"a\":1}\ndata: {\"b\":2}\n\n"),
     "|a\n\nb|1|0|23\n|{\"a\":1}\n{\"b\":2}|1|0|29\n"},
    {"two empty data lines", COORD_SLICE("data\ndata\n\n"), "|\n|1|0|11\n"},
    {"blank lines in a row", COORD_SLICE("\n\r\n\rdata: a\n\n\n"), "||0|0|1\n||0|0|2\n||0|0|1\n|a|1|1|9\n||0|0|1\n"},
    {"no blank line at the end", COORD_SLICE("data: a\n\ndata: b\n"), "|a|1|1|9\n|b|1|1|8\n"},
    {"no line end at the end", COORD_SLICE("event: x\ndata: b"), "x|b|1|1|16\n"},
    {"CR at the end", COORD_SLICE("data: a\r\r"), "|a|1|1|9\n"},
    {"half a CRLF at the end", COORD_SLICE("data: a\r\n\r"), "|a|1|1|10\n"},
    {"NUL bytes", COORD_SLICE("data: \0x\n\n"), NULL},
};

static void streams_are_read_as_the_standard_says_however_they_are_split(void **state)
{
    static struct record whole, split;
    static bool cuts[1024];

    (void)state;
    for (size_t s = 0; s < sizeof streams / sizeof *streams; s++) {
        coord_slice stream = streams[s].stream;

        print_message("  %s\n", streams[s].name);
        memset(cuts, false, sizeof cuts);
        parse(&whole, stream, cuts, 0);
        if (streams[s].want)
            assert_string_equal(whole.events, streams[s].want);
        assert_int_equal(whole.raw_size, stream.size);
        assert_memory_equal(whole.raw, stream.data, stream.size);

        for (size_t first = 1; first < stream.size; first++)
            for (size_t second = first; second < stream.size; second++) {
                cuts[first] = cuts[second] = true;
                parse(&split, stream, cuts, 0);
                assert_same(&whole, &split);
                cuts[first] = cuts[second] = false;
            }
        memset(cuts, true, sizeof cuts);
        parse(&split, stream, cuts, 0);
        assert_same(&whole, &split);
    }
}

static void short_streams_are_the_same_in_all_splits_and_with_any_limit(void **state)
{
    static const char letters[] = "d\r\n:";
    static struct record whole, split;
    char text[5];

    (void)state;
    for (int n = 0; n < 1 << 10; n++) { /* every text of five of the letters */
        coord_slice stream = {text, sizeof text};

        for (size_t i = 0; i < sizeof text; i++)
            text[i] = letters[n >> 2 * i & 3];
        for (size_t limit = 0; limit < 5; limit++) {
            bool cuts[5] = {false};

            parse(&whole, stream, cuts, limit);
            for (unsigned mask = 1; mask < 1 << 4; mask++) {
                for (size_t i = 1; i < 5; i++)
                    cuts[i] = mask >> (i - 1) & 1;
                parse(&split, stream, cuts, limit);
                assert_same(&whole, &split);
            }
        }
    }
}

static coord_sse *fed(const char *text, size_t limit)
{
    coord_sse *sse = coord_sse_new(limit);

    assert_non_null(sse);
    assert_int_equal(coord_sse_feed(sse, coord_slice_of(text)), COORD_OK);
    return sse;
}

static void a_boundary_is_known_before_and_after_the_events_are_taken(void **state)
{
    static const struct {
        const char *text;
        bool boundary;
    } rows[] = {
        {"", true},
        {"d", false},
        {"data: a\n", false},
        {"data: a\n\n", true},
        {"data: a\r\r", true},
        {"data: a\r\n", false},
        {"data: a\r\n\r\n", true},
        {"data: a\r\n\r", true},
        {"\n", true},
        {"\xEF\xBB\xBF", false},
        {"\xEF\xBB\xBF\n", true},
        {"data: a\n\nx\xEF\xBB\xBF\n", false},
        {"\r", true},
        {"data: a\n\r", true},
        {"data: a\n\ndata: b\n\n", true},
    };

    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        coord_sse *sse = fed(rows[r].text, 0);
        struct record record = {.end = COORD_OK};

        assert_int_equal(coord_sse_at_boundary(sse), rows[r].boundary);
        drain(sse, &record, coord_sse_next);
        assert_int_equal(coord_sse_at_boundary(sse), rows[r].boundary);
        coord_sse_free(sse);
    }
}

static void an_event_that_ends_with_cr_waits_for_what_follows(void **state)
{
    coord_sse_event event = {.size = sizeof event};
    coord_sse *sse = fed("data: a\r\n\r", 0);

    (void)state;
    assert_int_equal(coord_sse_next(sse, &event), COORD_END);
    assert_true(coord_sse_at_boundary(sse));
    assert_int_equal(coord_sse_feed(sse, coord_slice_of("\n")), COORD_OK);
    assert_int_equal(coord_sse_next(sse, &event), COORD_OK);
    assert_true(coord_slice_is(event.raw, "data: a\r\n\r\n"));
    assert_int_equal(coord_sse_next(sse, &event), COORD_END);
    coord_sse_free(sse);
}

static void an_event_beyond_the_limit_ends_it_for_good_and_loses_no_byte(void **state)
{
    coord_sse_event event = {.size = sizeof event};
    coord_sse *sse = fed("data: 1\n\ndata: 22\n\n", 9);

    (void)state;
    assert_int_equal(coord_sse_next(sse, &event), COORD_OK);
    assert_int_equal(coord_sse_next(sse, &event), COORD_LIMIT);
    assert_int_equal(coord_sse_next(sse, &event), COORD_LIMIT);
    assert_int_equal(coord_sse_last(sse, &event), COORD_LIMIT);
    assert_int_equal(coord_sse_feed(sse, coord_slice_of("x")), COORD_LIMIT);
    assert_true(coord_slice_is(coord_sse_rest(sse), "data: 22\n\n"));
    coord_sse_free(sse);
}

static void the_rest_is_what_was_not_given_out(void **state)
{
    coord_sse_event event = {.size = sizeof event};
    coord_sse *sse = fed("data: 1\n\ndata: 2", 0);

    (void)state;
    assert_int_equal(coord_sse_next(sse, &event), COORD_OK);
    assert_int_equal(coord_sse_next(sse, &event), COORD_END);
    assert_true(coord_slice_is(coord_sse_rest(sse), "data: 2"));
    assert_false(coord_sse_at_boundary(sse));
    assert_int_equal(coord_sse_last(sse, &event), COORD_OK);
    assert_true(coord_slice_is(event.data, "2"));
    assert_int_equal(coord_sse_rest(sse).size, 0);
    assert_int_equal(coord_sse_last(sse, &event), COORD_END);
    coord_sse_free(sse);
    coord_sse_free(NULL);
}

static void a_caller_with_a_shorter_struct_gets_what_it_knows(void **state)
{
    coord_sse_event event;
    coord_sse *sse = fed("data: [DONE]\n\n", 0);

    (void)state;
    memset(&event, 0x55, sizeof event);
    event.size = offsetof(coord_sse_event, data);
    assert_int_equal(coord_sse_next(sse, &event), COORD_OK);
    assert_int_equal(event.size, offsetof(coord_sse_event, data));
    assert_int_equal(event.raw.size, 14);
    assert_int_equal(event.data.size, (size_t)0x5555555555555555);
    assert_false(coord_sse_is_done(&event)); /* it has no data to look at */
    coord_sse_free(sse);
}

static void only_an_event_whose_whole_data_says_so_is_done(void **state)
{
    static const struct {
        const char *text;
        bool done;
    } rows[] = {
        {"data: [DONE]\n\n", true},
        {"data:[DONE]\n\n", true},
        {"data: [DONE]\r\n\r\n", true},
        {"event: x\ndata: [DONE]\n\n", true},
        {"data: [DONE] \n\n", false},
        {"data:  [DONE]\n\n", false},
        {"data: [Done]\n\n", false},
        {": [DONE]\n\n", false},
        {"data: [DONE]\ndata:\n\n", false},
        {"data: {\"x\":\"[DONE]\"}\n\n", false},
        {"data\n\n", false},
    };
    coord_sse_event event = {.size = sizeof event};

    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        coord_sse *sse = fed(rows[r].text, 0);

        assert_int_equal(coord_sse_next(sse, &event), COORD_OK);
        assert_int_equal(coord_sse_is_done(&event), rows[r].done);
        coord_sse_free(sse);
    }
}

/* Events of all sizes, fed in pieces of all sizes: the buffer grows, moves and shrinks. */
static void long_streams_come_out_as_they_went_in(void **state)
{
    enum { EVENTS = 400 };
    coord_sse *sse = coord_sse_new(0);
    coord_sse_event event = {.size = sizeof event};
    size_t size = 0, room = 32 * 1024 * 1024, seen = 0, at = 0;
    char *stream = malloc(room);
    int events = 0;

    (void)state;
    assert_non_null(sse);
    assert_non_null(stream);
    srand(3);
    for (int i = 0; i < EVENTS; i++) {
        size_t data = (size_t)(i % 20 ? rand() % 300 : rand() % 300000);

        size += (size_t)sprintf(stream + size, "data: ");
        memset(stream + size, 'a' + i % 26, data);
        size += data;
        size += (size_t)sprintf(stream + size, i % 3 ? "\n\n" : i % 7 ? "\r\n\r\n" : "\ndata: x\n\n");
    }
    while (at < size) {
        size_t piece = (size_t)(rand() % 9 ? rand() % 700 : rand() % 70000) + 1;

        if (piece > size - at)
            piece = size - at;
        assert_int_equal(coord_sse_feed(sse, (coord_slice){stream + at, piece}), COORD_OK);
        at += piece;
        while (rand() % 4 && coord_sse_next(sse, &event) == COORD_OK) {
            assert_memory_equal(event.raw.data, stream + seen, event.raw.size);
            seen += event.raw.size;
            events++;
        }
    }
    while (coord_sse_last(sse, &event) == COORD_OK) {
        assert_memory_equal(event.raw.data, stream + seen, event.raw.size);
        seen += event.raw.size;
        events++;
    }
    assert_int_equal(events, EVENTS);
    assert_int_equal(seen, size);
    free(stream);
    coord_sse_free(sse);
}

static void events_are_written_so_that_they_read_back(void **state)
{
    static const struct {
        const char *name, *type, *data, *want;
    } rows[] = {
        {"data alone", "", "{}", "data: {}\n\n"},
        {"type and data", "error", "{}", "event: error\ndata: {}\n\n"},
        {"nothing", "", "", "data: \n\n"},
        {"several lines", "", "a\nb\r\nc\rd", "data: a\ndata: b\ndata: c\ndata: d\n\n"},
        {"a line end at the end", "", "a\n", "data: a\ndata: \n\n"},
        {"a space at the beginning stays", "", " a", "data:  a\n\n"},
        {"a type cannot bring a field", "x\ndata: y", "z", "event: x\ndata: z\n\n"},
    };
    char out[128];

    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        coord_slice type = coord_slice_of(rows[r].type), data = coord_slice_of(rows[r].data);
        size_t size = strlen(rows[r].want);

        print_message("  %s\n", rows[r].name);
        memset(out, '#', sizeof out);
        assert_int_equal(coord_sse_write(type, data, out, size - 1), size);
        assert_int_equal(out[0], '#');
        assert_int_equal(coord_sse_write(type, data, out, size), size);
        assert_memory_equal(out, rows[r].want, size);
        assert_int_equal(out[size], '#');
        assert_int_equal(coord_sse_write(type, data, NULL, 0), size);
    }
    assert_int_equal(coord_sse_write((coord_slice){0}, (coord_slice){0}, out, sizeof out), 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_are_read_as_the_standard_says_however_they_are_split),
        cmocka_unit_test(short_streams_are_the_same_in_all_splits_and_with_any_limit),
        cmocka_unit_test(a_boundary_is_known_before_and_after_the_events_are_taken),
        cmocka_unit_test(an_event_that_ends_with_cr_waits_for_what_follows),
        cmocka_unit_test(an_event_beyond_the_limit_ends_it_for_good_and_loses_no_byte),
        cmocka_unit_test(the_rest_is_what_was_not_given_out),
        cmocka_unit_test(a_caller_with_a_shorter_struct_gets_what_it_knows),
        cmocka_unit_test(only_an_event_whose_whole_data_says_so_is_done),
        cmocka_unit_test(long_streams_come_out_as_they_went_in),
        cmocka_unit_test(events_are_written_so_that_they_read_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
