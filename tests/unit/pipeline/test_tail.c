/* Unit test of tail.c: does a stream stand at an event's end, judged by its last bytes, however they came? */
#include "pipeline/request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const struct {
    const char *text;
    bool at_boundary;
} rows[] = {
    {"", true},
    {"data: a\n\n", true},
    {"data: a\r\n\r\n", true},
    {"data: a\r\r", true},
    {"data: a\n\r\n", true},
    {"data: a\r\n\n", true},
    {"data: a\r\n\r", true}, /* a LF may still follow, and would belong to it */
    {"\n", true},
    {"\r\n", true},
    {": ping\n\n", true},
    {"data: a\n", false},
    {"data: a\r\n", false},
    {"data: a\r", false},
    {"data: a", false},
    {"data: a\n\ndata: b\n", false},
    {"data: a\n\nd", false},
    {"data: a\n\ndata: much longer than what is kept of it, which is not much\n\n", true},
    {"data: a\n\ndata: much longer than what is kept of it, which is not much\n", false},
};

static void the_last_bytes_tell_however_they_came(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        coord_slice text = coord_slice_of(rows[i].text);

        print_message("  %zu\n", i);
        for (size_t cut = 0; cut <= text.size; cut++) {
            struct tail tail = {.size = 0}, bytes = {.size = 0};

            tail_note(&tail, (coord_slice){text.data, cut});
            tail_note(&tail, (coord_slice){text.data + cut, text.size - cut});
            assert_int_equal(tail_at_boundary(&tail), rows[i].at_boundary);
            for (size_t at = 0; at < text.size; at++)
                tail_note(&bytes, (coord_slice){text.data + at, 1});
            assert_int_equal(bytes.size, tail.size);
            assert_memory_equal(bytes.bytes, tail.bytes, tail.size);
            assert_memory_equal(tail.bytes, text.data + text.size - tail.size, tail.size);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_last_bytes_tell_however_they_came)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
