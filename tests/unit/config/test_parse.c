/* Unit test of config/parse.c: what durations, sizes, integers and URLs may look like. */
#include "config/values.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <regex.h>

#define ROWS(rows) (sizeof(rows) / sizeof *(rows))

static bool fits(const char *pattern, const char *text)
{
    regex_t expression;
    bool matches;

    assert_int_equal(regcomp(&expression, pattern, REG_EXTENDED | REG_NOSUB), 0);
    matches = regexec(&expression, text, 0, NULL, 0) == 0;
    regfree(&expression);
    return matches;
}

/* No pattern tells what is too large. */
static bool is_too_large(const char *name) { return strstr(name, "overflow") || strncmp(name, "one l", 5) == 0; }

static void durations_are_read_as_go_reads_them(void **state)
{
    static const struct {
        const char *name, *text;
        bool good;
        int64_t want;
    } rows[] = {
        {"seconds", "30s", true, 30000000000},
        {"several units", "1h2m3.5s", true, 3723500000000},
        {"milliseconds", "100ms", true, 100000000},
        {"microseconds in ASCII", "1us", true, 1000},
        {"microseconds with the micro sign", "1\xc2\xb5s", true, 1000},
        {"microseconds with a mu", "1\xce\xbcs", true, 1000},
        {"nanoseconds", "7ns", true, 7},
        {"half a minute", "0.5m", true, 30000000000},
        {"a fraction of an hour", "1.25h", true, 4500000000000},
        {"a fraction without a whole", ".5s", true, 500000000},
        {"a point without a fraction", "5.s", true, 5000000000},
        {"more digits than a nanosecond has", "0.1234567891234s", true, 123456789},
        {"a part of a nanosecond is dropped", "1.9ns", true, 1},
        {"zero needs no unit", "0", true, 0},
        {"negative", "-1m30s", true, -90000000000},
        {"a plus", "+1s", true, 1000000000},
        {"the longest", "9223372036854775807ns", true, INT64_MAX},
        {"one longer", "9223372036854775808ns", false, 0},
        {"overflow by unit", "2562048h", false, 0},
        {"overflow by sum", "2562047h60m", false, 0},
        {"overflow of digits", "99999999999999999999s", false, 0},
        {"no unit", "30", false, 0},
        {"no unit at the end", "1m30", false, 0},
        {"unknown unit", "1d", false, 0},
        {"unit alone", "s", false, 0},
        {"point alone", ".s", false, 0},
        {"two points", "1.2.3s", false, 0},
        {"sign alone", "-", false, 0},
        {"sign inside", "1m-3s", false, 0},
        {"space", "1 s", false, 0},
        {"empty", "", false, 0},
    };

    (void)state;
    for (size_t r = 0; r < ROWS(rows); r++) {
        int64_t got = 0;

        print_message("  %s\n", rows[r].name);
        assert_int_equal(parse_duration(coord_slice_of(rows[r].text), &got), rows[r].good);
        assert_int_equal(fits(duration_pattern, rows[r].text), rows[r].good || is_too_large(rows[r].name));
        assert_int_equal(got, rows[r].good ? rows[r].want : 0);
    }
}

static void sizes_are_bytes_or_have_a_unit(void **state)
{
    static const struct {
        const char *name, *text;
        bool good;
        uint64_t want;
    } rows[] = {
        {"plain bytes", "4096", true, 4096},
        {"bytes with their unit", "7B", true, 7},
        {"KiB", "64KiB", true, 65536},
        {"MiB", "16MiB", true, 16777216},
        {"GiB", "1GiB", true, 1073741824},
        {"KB is a thousand", "1KB", true, 1000},
        {"MB is a million", "2MB", true, 2000000},
        {"GB is a billion", "3GB", true, 3000000000},
        {"the largest", "18446744073709551615", true, UINT64_MAX},
        {"one larger", "18446744073709551616", false, 0},
        {"overflow by unit", "17179869184GiB", false, 0},
        {"negative", "-1", false, 0},
        {"a plus", "+1", false, 0},
        {"fraction", "1.5MiB", false, 0},
        {"wrong case", "1mib", false, 0},
        {"short unit", "1K", false, 0},
        {"space", "1 KiB", false, 0},
        {"unit alone", "KiB", false, 0},
        {"empty", "", false, 0},
    };

    (void)state;
    for (size_t r = 0; r < ROWS(rows); r++) {
        uint64_t got = 0;

        print_message("  %s\n", rows[r].name);
        assert_int_equal(parse_size(coord_slice_of(rows[r].text), &got), rows[r].good);
        assert_int_equal(fits(size_pattern, rows[r].text), rows[r].good || is_too_large(rows[r].name));
        assert_true(!rows[r].good || got == rows[r].want);
    }
}

static void integers_are_decimal_and_whole(void **state)
{
    static const struct {
        const char *name, *text;
        bool good;
        int64_t want;
    } rows[] = {
        {"zero", "0", true, 0},
        {"positive", "8192", true, 8192},
        {"negative", "-5", true, -5},
        {"a plus", "+5", true, 5},
        {"whole with a point", "8192.0", true, 8192},
        {"more zeros", "3.000", true, 3},
        {"the largest", "9223372036854775807", true, INT64_MAX},
        {"the smallest", "-9223372036854775808", true, INT64_MIN},
        {"one larger", "9223372036854775808", false, 0},
        {"one smaller", "-9223372036854775809", false, 0},
        {"fraction", "1.5", false, 0},
        {"point without digits", "1.", false, 0},
        {"point first", ".0", false, 0},
        {"exponent", "1e3", false, 0},
        {"hexadecimal", "0x10", false, 0},
        {"octal, or not", "010", false, 0},
        {"underscore", "1_000", false, 0},
        {"sign alone", "-", false, 0},
        {"space", " 1", false, 0},
        {"text behind", "12abc", false, 0},
        {"empty", "", false, 0},
    };

    (void)state;
    for (size_t r = 0; r < ROWS(rows); r++) {
        int64_t got = 0;

        print_message("  %s\n", rows[r].name);
        assert_int_equal(parse_integer(coord_slice_of(rows[r].text), &got), rows[r].good);
        assert_true(!rows[r].good || got == rows[r].want);
    }
}

/* What no pattern tells of a URL. */
static bool found_by_reading(const char *reason)
{
    return strcmp(reason, "is not a URL") == 0 || strcmp(reason, "escaped") == 0 || strcmp(reason, "control") == 0 ||
           strcmp(reason, "non-ASCII") == 0;
}

static void urls_are_normalised_or_refused_with_a_reason(void **state)
{
    static const struct {
        const char *name, *text, *want, *reason; /* want NULL: refused, and the reason contains `reason` */
    } rows[] = {
        {"as it is", "http://inference-gateway:80", "http://inference-gateway:80", NULL},
        {"https", "https://gw.example", "https://gw.example", NULL},
        {"a slash at the end is dropped", "http://gw/", "http://gw", NULL},
        {"several are dropped", "http://gw/v1//", "http://gw/v1", NULL},
        {"a path stays", "http://gw/a/B", "http://gw/a/B", NULL},
        {"scheme and host in lower case", "HTTP://Gateway.Example:8080/Path", "http://gateway.example:8080/Path", NULL},
        {"IPv6", "http://[::1]:8000", "http://[::1]:8000", NULL},
        {"a short IPv4 is written out", "http://127.1:9", "http://127.0.0.1:9", NULL},
        {"no scheme, with a port", "inference-gateway:80", NULL, "write http://"},
        {"no scheme", "gateway", NULL, "write http://"},
        {"one slash", "http:/gateway", NULL, "write http://"},
        {"another scheme", "ftp://gateway", NULL, "neither http"},
        {"a scheme that begins like ours", "httpx://gateway", NULL, "neither http"},
        {"a file", "file:///etc/passwd", NULL, "neither http"},
        {"no host", "http://", NULL, "no host"},
        {"a path without a host", "http:///v1", NULL, "no host"},
        {"a port without a host", "http://:80", NULL, "no host"},
        {"credentials", "http://user:word@gateway", NULL, "credentials"},
        {"empty credentials", "http://@gateway", NULL, "credentials"},
        {"a query", "http://gateway?x=1", NULL, "query"},
        {"an empty query", "http://gateway/?", NULL, "query"},
        {"a fragment", "http://gateway#x", NULL, "fragment"},
        {"a space", "http://gate way", NULL, "space"},
        {"a line end", "http://gateway\r\nX: y", NULL, "control"},
        {"a non-ASCII host", "http://gatew\xc3\xa4y", NULL, "non-ASCII"},
        {"an escape in the host", "http://g%61teway", NULL, "escaped"},
        {"port 0", "http://gateway:0", NULL, "is not a URL"},
        {"a port too large", "http://gateway:65536", NULL, "is not a URL"},
        {"a port that is a word", "http://gateway:http", NULL, "is not a URL"},
        {"a backslash", "http://gateway\\x", NULL, "is not a URL"},
        {"an open bracket", "http://[::1", NULL, "is not a URL"},
        {"empty", "", NULL, "write http://"},
    };

    (void)state;
    for (size_t r = 0; r < ROWS(rows); r++) {
        struct arena arena = {0};
        coord_slice normal = {0};
        const char *reason = "untouched";
        bool good = parse_url(&arena, coord_slice_of(rows[r].text), &normal, &reason);

        print_message("  %s\n", rows[r].name);
        assert_int_equal(good, rows[r].want != NULL);
        if (good || !rows[r].reason) {
            assert_string_equal(normal.data, rows[r].want);
            assert_true(fits(url_pattern, rows[r].text));
        } else {
            assert_non_null(strstr(reason, rows[r].reason));
            assert_true(!fits(url_pattern, rows[r].text) || found_by_reading(rows[r].reason));
        }
        arena_release(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations_are_read_as_go_reads_them),
        cmocka_unit_test(sizes_are_bytes_or_have_a_unit),
        cmocka_unit_test(integers_are_decimal_and_whole),
        cmocka_unit_test(urls_are_normalised_or_refused_with_a_reason),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
