/* Unit test of trace.c: which traceparents are believed, and what a leg is given. */
#include "telemetry/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>

#define TRACE "0af7651916cd43dd8448eb211c80319c"
#define PARENT "b7ad6b7169203331"

static void a_traceparent_is_believed_only_when_well_formed(void **state)
{
    static const struct {
        const char *name, *value;
        bool valid;
        const char *flags;
    } rows[] = {
        {"version 00, sampled", "00-" TRACE "-" PARENT "-01", true, "01"},
        {"not sampled", "00-" TRACE "-" PARENT "-00", true, "00"},
        {"random flag of level 2", "00-" TRACE "-" PARENT "-03", true, "03"},
        {"flags of no defined meaning are cleared", "00-" TRACE "-" PARENT "-fd", true, "01"},
        {"a later version of the same length", "01-" TRACE "-" PARENT "-01", true, "01"},
        {"a later version with more parts", "cc-" TRACE "-" PARENT "-01-what-the-future", true, "01"},
        {"a later version with a tail that is no part", "cc-" TRACE "-" PARENT "-01.what", false, ""},
        {"version 00 with more parts", "00-" TRACE "-" PARENT "-01-x", false, ""},
        {"version ff", "ff-" TRACE "-" PARENT "-01", false, ""},
        {"empty", "", false, ""},
        {"one character short", "00-" TRACE "-" PARENT "-0", false, ""},
        {"upper case", "00-0AF7651916CD43DD8448EB211C80319C-" PARENT "-01", false, ""},
        {"trace id of zeros", "00-00000000000000000000000000000000-" PARENT "-01", false, ""},
        {"parent id of zeros", "00-" TRACE "-0000000000000000-01", false, ""},
        {"a letter that is no digit", "00-" TRACE "-b7ad6b716920333g-01", false, ""},
        {"other separators", "00_" TRACE "-" PARENT "-01", false, ""},
        {"two values joined", "00-" TRACE "-" PARENT "-01,00-" TRACE "-" PARENT "-01", false, ""},
    };

    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        struct trace_context context = trace_parse(coord_slice_of(rows[r].value));

        print_message("  %s\n", rows[r].name);
        assert_int_equal(context.valid, rows[r].valid);
        assert_string_equal(context.flags, rows[r].flags);
        assert_string_equal(context.trace_id, rows[r].valid ? TRACE : "");
        assert_string_equal(context.parent_id, rows[r].valid ? PARENT : "");
    }
    assert_false(trace_parse((coord_slice){0}).valid);
}

static void every_leg_has_the_clients_trace_and_a_parent_of_its_own(void **state)
{
    struct trace_context client = trace_parse(coord_slice_of("01-" TRACE "-" PARENT "-01"));
    char first[56], second[56];
    struct trace_context leg;

    (void)state;
    trace_format_child(&client, first);
    trace_format_child(&client, second);
    assert_int_equal(strlen(first), 55);
    assert_memory_equal(first, "00-" TRACE "-", 36);
    assert_string_equal(first + 52, "-01");
    leg = trace_parse(coord_slice_of(first));
    assert_true(leg.valid);
    assert_string_not_equal(leg.parent_id, PARENT);
    assert_string_not_equal(first, second);
}

static void a_leg_of_an_invalid_context_gets_none(void **state)
{
    struct trace_context none = trace_parse(coord_slice_of("nonsense"));
    char out[56] = "x";

    (void)state;
    trace_format_child(&none, out);
    assert_string_equal(out, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_traceparent_is_believed_only_when_well_formed),
        cmocka_unit_test(every_leg_has_the_clients_trace_and_a_parent_of_its_own),
        cmocka_unit_test(a_leg_of_an_invalid_context_gets_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
