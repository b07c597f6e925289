/* Unit test of buffer.c: growth, the cap, and who owns the memory. */
#include "runtime/buffer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static void appending_grows_and_keeps_every_byte(void **state)
{
    struct buffer buffer = {0};

    (void)state;
    for (unsigned i = 0; i < 100000; i++) {
        unsigned char byte = (unsigned char)(i * 31);

        assert_true(buffer_append(&buffer, &byte, 1));
        assert_true(buffer.capacity >= 255);
    }
    assert_int_equal(buffer.size, 100000);
    assert_true(buffer.capacity <= 2 * buffer.size);
    for (unsigned i = 0; i < 100000; i++)
        assert_int_equal((unsigned char)buffer.data[i], (unsigned char)(i * 31));
    buffer_release(&buffer);
    assert_null(buffer.data);
}

static void the_cap_is_exact_and_a_refused_append_changes_nothing(void **state)
{
    static const struct {
        const char *name;
        size_t limit, first, second;
        bool fits;
    } rows[] = {
        {"up to the limit", 1000, 400, 600, true},
        {"one past the limit", 1000, 400, 601, false},
        {"at the limit nothing more fits", 1000, 1000, 1, false},
        {"nothing always fits", 1000, 1000, 0, true},
        {"a limit below the first capacity", 10, 4, 6, true},
        {"one past such a limit", 10, 4, 7, false},
        {"no limit", 0, 1000, 100000, true},
    };
    static char bytes[100000];

    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        struct buffer buffer = {.limit = rows[r].limit};

        print_message("  %s\n", rows[r].name);
        assert_true(buffer_append(&buffer, bytes, rows[r].first));
        assert_int_equal(buffer_append(&buffer, bytes, rows[r].second), rows[r].fits);
        assert_int_equal(buffer.size, rows[r].first + (rows[r].fits ? rows[r].second : 0));
        if (rows[r].limit)
            assert_true(buffer.capacity <= rows[r].limit);
        buffer_release(&buffer);
    }
}

static void sizes_that_overflow_are_refused(void **state)
{
    struct buffer buffer = {0};

    (void)state;
    assert_true(buffer_append_text(&buffer, "x"));
    assert_false(buffer_reserve(&buffer, SIZE_MAX));
    assert_false(buffer_reserve(&buffer, SIZE_MAX - 1));
    assert_int_equal(buffer.size, 1);
    buffer_release(&buffer);
}

static void text_slices_and_formats_are_appended(void **state)
{
    struct buffer buffer = {0};
    coord_slice slice = COORD_SLICE("b\0c");

    (void)state;
    assert_true(buffer_append_text(&buffer, "a"));
    assert_true(buffer_append_slice(&buffer, slice));
    assert_true(buffer_append_slice(&buffer, (coord_slice){0}));
    assert_true(buffer_printf(&buffer, "%d-%s", 42, "d"));
    assert_true(coord_slice_equal(buffer_slice(&buffer), (coord_slice)COORD_SLICE("ab\0c42-d")));
    buffer_release(&buffer);
}

static void formatted_text_that_fits_exactly_is_within_the_cap(void **state)
{
    struct buffer buffer = {.limit = 5};

    (void)state;
    assert_true(buffer_printf(&buffer, "%s", "12345"));
    assert_int_equal(buffer.size, 5);
    assert_memory_equal(buffer.data, "12345", 5);
    assert_false(buffer_printf(&buffer, "%s", "6"));
    assert_true(buffer_printf(&buffer, "%s", ""));
    assert_int_equal(buffer.size, 5);
    buffer_release(&buffer);
}

static void dropping_moves_the_rest_to_the_front(void **state)
{
    struct buffer buffer = {0};

    (void)state;
    assert_true(buffer_append_text(&buffer, "headtail"));
    buffer_drop(&buffer, 4);
    assert_true(coord_slice_is(buffer_slice(&buffer), "tail"));
    buffer_drop(&buffer, 4);
    buffer_drop(&buffer, 0);
    assert_int_equal(buffer.size, 0);
    buffer_release(&buffer);
}

static void clearing_keeps_small_memory_and_frees_large(void **state)
{
    struct buffer buffer = {0};

    (void)state;
    assert_true(buffer_reserve(&buffer, 100));
    buffer_clear(&buffer, 4096);
    assert_non_null(buffer.data);
    assert_true(buffer_reserve(&buffer, 100000));
    buffer_clear(&buffer, 4096);
    assert_null(buffer.data);
    assert_int_equal(buffer.capacity, 0);
}

static void taking_hands_the_memory_over(void **state)
{
    struct buffer buffer = {.limit = 100};
    size_t size = 1;
    char *data;

    (void)state;
    assert_null(buffer_take(&buffer, &size));
    assert_int_equal(size, 0);
    assert_true(buffer_append_text(&buffer, "mine"));
    data = buffer_take(&buffer, &size);
    assert_int_equal(size, 4);
    assert_memory_equal(data, "mine", 4);
    free(data);
    assert_int_equal(buffer.limit, 100); /* the empty buffer may be used again, under the same cap */
    assert_true(buffer_append_text(&buffer, "again"));
    buffer_release(&buffer);
}

static void a_message_takes_the_place_of_another_and_is_whole_or_not_there(void **state)
{
    struct buffer reason = {.limit = 8};

    (void)state;
    assert_false(buffer_explain(&reason, "%d short", 1));
    assert_memory_equal(reason.data, "1 short", 7);
    assert_false(buffer_explain(&reason, "no"));
    assert_int_equal(reason.size, 2);
    assert_memory_equal(reason.data, "no", 2);
    assert_false(buffer_explain(&reason, "%s", "longer than that"));
    assert_int_equal(reason.size, 0);
    buffer_release(&reason);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appending_grows_and_keeps_every_byte),
        cmocka_unit_test(the_cap_is_exact_and_a_refused_append_changes_nothing),
        cmocka_unit_test(sizes_that_overflow_are_refused),
        cmocka_unit_test(text_slices_and_formats_are_appended),
        cmocka_unit_test(formatted_text_that_fits_exactly_is_within_the_cap),
        cmocka_unit_test(dropping_moves_the_rest_to_the_front),
        cmocka_unit_test(clearing_keeps_small_memory_and_frees_large),
        cmocka_unit_test(taking_hands_the_memory_over),
        cmocka_unit_test(a_message_takes_the_place_of_another_and_is_whole_or_not_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
