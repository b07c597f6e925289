/* Unit test of framing.c: each rule, and what is no violation. */
#include "http/framing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void each_rule_is_named(void **state)
{
    static const struct {
        const char *name;
        bool http10;
        const char *fields[4][2];
        const char *problem; /* a part of it; NULL: none */
        int64_t declared;
    } rows[] = {
        {"nothing but a host", false, {{"Host", "h"}}, NULL, 0},
        {"an empty host", false, {{"host", ""}}, NULL, 0},
        {"a length", false, {{"Host", "h"}, {"content-length", "12"}}, NULL, 12},
        {"zero", false, {{"Host", "h"}, {"Content-Length", "0"}}, NULL, 0},
        {"leading zeros", false, {{"Host", "h"}, {"Content-Length", "007"}}, NULL, 7},
        {"the largest", false, {{"Host", "h"}, {"Content-Length", "9223372036854775807"}}, NULL, INT64_MAX},
        {"chunks", false, {{"Host", "h"}, {"transfer-encoding", "Chunked"}}, NULL, -1},
        {"1.0 without a host", true, {{"A", "b"}}, NULL, 0},
        {"1.0 with a length", true, {{"Content-Length", "3"}}, NULL, 3},
        {"no host", false, {{"A", "b"}}, "Host is missing", 0},
        {"two hosts", false, {{"Host", "h"}, {"HOST", "h"}}, "Host is given more", 0},
        {"two hosts in 1.0", true, {{"Host", "h"}, {"HOST", "h"}}, "Host is given more", 0},
        {"two lengths", false, {{"Host", "h"}, {"Content-Length", "1"}, {"Content-Length", "1"}}, "Length is given", 0},
        {"length and coding",
         false,
         {{"Host", "h"}, {"Content-Length", "1"}, {"Transfer-Encoding", "chunked"}},
         "exclude",
         0},
        {"two codings",
         false,
         {{"Host", "h"}, {"Transfer-Encoding", "chunked"}, {"Transfer-Encoding", "chunked"}},
         "Encoding is given",
         0},
        {"another coding", false, {{"Host", "h"}, {"Transfer-Encoding", "gzip, chunked"}}, "not exactly", 0},
        {"identity", false, {{"Host", "h"}, {"Transfer-Encoding", "identity"}}, "not exactly", 0},
        {"an empty coding", false, {{"Host", "h"}, {"Transfer-Encoding", ""}}, "not exactly", 0},
        {"a blank behind", false, {{"Host", "h"}, {"Transfer-Encoding", "chunked "}}, "not exactly", 0},
        {"a coding in 1.0", true, {{"Transfer-Encoding", "chunked"}}, "HTTP/1.0", 0},
        {"no length", false, {{"Host", "h"}, {"Content-Length", ""}}, "not a number", 0},
        {"a sign", false, {{"Host", "h"}, {"Content-Length", "+1"}}, "not a number", 0},
        {"a list", false, {{"Host", "h"}, {"Content-Length", "1, 1"}}, "not a number", 0},
        {"hexadecimal", false, {{"Host", "h"}, {"Content-Length", "0x1"}}, "not a number", 0},
        {"too large", false, {{"Host", "h"}, {"Content-Length", "9223372036854775808"}}, "not a number", 0},
        {"far too large", false, {{"Host", "h"}, {"Content-Length", "99999999999999999999"}}, "not a number", 0},
        {"a blank in a name", false, {{"Host", "h"}, {"Content-Length ", "1"}}, "not a token", 0},
        {"an empty name", false, {{"Host", "h"}, {"", "1"}}, "not a token", 0},
        {"a folded line", false, {{"Host", "h"}, {" x", "1"}}, "not a token", 0},
    };
    struct arena arena = {0};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct headers headers;
        int64_t declared = 99;
        const char *problem;

        print_message("  %s\n", rows[i].name);
        headers_init(&headers, &arena);
        for (size_t f = 0; f < 4 && rows[i].fields[f][0]; f++)
            assert_true(
                headers_add(&headers, coord_slice_of(rows[i].fields[f][0]), coord_slice_of(rows[i].fields[f][1])));
        problem = framing_check(rows[i].http10, &headers, &declared);
        if (rows[i].problem) {
            assert_non_null(problem);
            assert_non_null(strstr(problem, rows[i].problem));
        } else {
            assert_null(problem);
            assert_int_equal(declared, rows[i].declared);
        }
    }
    arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rule_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
