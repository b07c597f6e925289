/* Unit test of what an end of ours goes on from in a stream of Responses: its numbers and its id, however the bytes are cut. */
#include "pipeline/sequence.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#define ROWS(table) (sizeof(table) / sizeof *(table))

static const struct {
    const char *name, *stream;
    int64_t last;
    const char *id;
} rows[] = {
    {"two events",
     "data: {\"type\":\"response.created\",\"sequence_number\":9,\"response\":{\"id\":\"resp_0123456789\"}}\n\n"
     "data: {\"type\":\"response.output_text.delta\",\"sequence_number\":10,\"delta\":\"x\"}\n\n",
     10, "resp_0123456789"},
    {"a space before the number", "data: {\"sequence_number\": 12345678}\n\n", 12345678, ""},
    {"text that looks like it",
     "data: {\"sequence_number\":3,\"delta\":\"\\\"sequence_number\\\":99,\\\"id\\\":\\\"resp_9\\\"\"}\n\n", 3, ""},
    {"the first id stays", "data: {\"id\":\"resp_1\",\"a\":{\"id\":\"resp_2\"}}\n\n", -1, "resp_1"},
    {"an id that is too long",
     "data: "
     "{\"id\":\"resp_0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567\"}\n\n",
     -1, ""},
    {"none", "data: {\"delta\":\"a\"}\n\n", -1, ""},
};

static void feed(struct sequence *sequence, const char *bytes, size_t size)
{
    sequence_note(sequence, (coord_slice){bytes, size});
}

static void check(const struct sequence *sequence, size_t row)
{
    assert_int_equal(sequence->last, rows[row].last);
    assert_string_equal(sequence->response_id, rows[row].id);
}

static void numbers_and_id_are_found_at_every_cut(void **state)
{
    (void)state;
    for (size_t row = 0; row < ROWS(rows); row++) {
        const char *stream = rows[row].stream;
        size_t size = strlen(stream);
        struct sequence sequence;

        print_message("  %s\n", rows[row].name);
        for (size_t cut = 0; cut <= size; cut++)
            for (size_t second = cut; second <= size; second++) {
                sequence_begin(&sequence);
                feed(&sequence, stream, cut);
                feed(&sequence, stream + cut, second - cut);
                feed(&sequence, stream + second, size - second);
                check(&sequence, row);
            }
        sequence_begin(&sequence);
        for (size_t at = 0; at < size; at++)
            feed(&sequence, stream + at, 1);
        check(&sequence, row);
    }
}

static void a_long_stream_before_and_behind_changes_nothing(void **state)
{
    static const char noise[1000];
    struct sequence sequence;

    (void)state;
    for (size_t row = 0; row < ROWS(rows); row++) {
        sequence_begin(&sequence);
        feed(&sequence, noise, sizeof noise);
        feed(&sequence, rows[row].stream, strlen(rows[row].stream));
        feed(&sequence, noise, sizeof noise);
        check(&sequence, row);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_and_id_are_found_at_every_cut),
        cmocka_unit_test(a_long_stream_before_and_behind_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
