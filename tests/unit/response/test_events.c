/* Unit test of events.c: which pieces of an event stream need no parser. */
#include "response/events.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

/* Bytes that end where memory ends, so that a sanitizer sees who reads on. */
static coord_slice copy_of(const char *bytes, size_t size)
{
    char *copy = malloc(size ? size : 1);

    assert_non_null(copy);
    memcpy(copy, bytes, size);
    return (coord_slice){copy, size};
}

static void a_word_is_found_wherever_it_stands(void **state)
{
    static const char *const words[] = {"usage", "error", "aa", "a rather long word, longer than a block of bytes"};

    (void)state;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t length = strlen(words[i]);

        for (size_t size = 0; size <= 120; size++)
            for (size_t at = 0; at + length <= size; at++) {
                char text[128];
                coord_slice piece;

                memset(text, '.', sizeof text);
                memcpy(text + at, words[i], length);
                piece = copy_of(text, size);
                assert_true(events_hold(piece, words[i]));
                piece.size = at + length - 1;
                assert_false(events_hold(piece, words[i]));
                free((void *)(uintptr_t)piece.data);
            }
    }
}

/* Beginnings, ends and near misses of the word at every distance: the same answer as from memmem. */
static void what_is_like_the_word_is_not_taken_for_it(void **state)
{
    unsigned seed = 7, held = 0;

    (void)state;
    for (unsigned round = 0; round < 20000; round++) {
        char text[90];
        size_t size = 1 + round % sizeof text;
        bool holds;
        coord_slice piece;

        for (size_t i = 0; i < size; i++) {
            seed = seed * 1103515245 + 12345;
            text[i] = "eror"[seed >> 16 & 3];
        }
        piece = copy_of(text, size);
        holds = memmem(text, size, "error", 5) != NULL;
        held += holds;
        assert_int_equal(events_hold(piece, "error"), holds);
        free((void *)(uintptr_t)piece.data);
    }
    assert_in_range(held, 100, 19900);
}

static void only_whole_events_without_the_word_are_skipped(void **state)
{
    static const struct {
        const char *name;
        const char *piece;
        bool skip;
    } rows[] = {
        {"whole event", "data: {\"choices\":[]}\n\n", true},
        {"two of them", "data: 1\n\ndata: 2\n\n", true},
        {"with CR and LF", "data: {\"choices\":[]}\r\n\r\n", true},
        {"cut in its line", "data: {\"choices\":", false},
        {"cut before the blank line", "data: {\"choices\":[]}\n", false},
        {"lone CRs", "data: 1\r\r", false},
        {"the word", "data: {\"usage\":null}\n\n", false},
        {"the word in a small one", "usage\n\n", false},
        {"nothing", "", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        print_message("  %s\n", rows[i].name);
        assert_int_equal(events_can_skip(NULL, coord_slice_of(rows[i].piece), "usage"), rows[i].skip);
    }
}

static void nothing_is_skipped_in_the_middle_of_an_event(void **state)
{
    coord_slice whole = COORD_SLICE("data: 1\n\n");
    coord_sse *sse = events_parser_new(0, false);
    coord_sse_event event = {.size = sizeof event};

    (void)state;
    assert_non_null(sse);
    assert_true(events_can_skip(sse, whole, "usage"));
    assert_int_equal(coord_sse_feed(sse, (coord_slice)COORD_SLICE("data: ")), COORD_OK);
    assert_int_equal(coord_sse_next(sse, &event), COORD_END);
    assert_false(events_can_skip(sse, whole, "usage"));
    assert_int_equal(coord_sse_feed(sse, (coord_slice)COORD_SLICE("0\n\n")), COORD_OK);
    assert_int_equal(coord_sse_next(sse, &event), COORD_OK);
    assert_int_equal(coord_sse_next(sse, &event), COORD_END);
    assert_true(events_can_skip(sse, whole, "usage"));
    coord_sse_free(sse);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_word_is_found_wherever_it_stands),
        cmocka_unit_test(what_is_like_the_word_is_not_taken_for_it),
        cmocka_unit_test(only_whole_events_without_the_word_are_skipped),
        cmocka_unit_test(nothing_is_skipped_in_the_middle_of_an_event),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
