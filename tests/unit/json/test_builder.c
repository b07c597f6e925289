/* Unit test of the builder: commas and colons are its business, and the first misuse sticks. */
#include <coordinator/document.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>

#define ROWS(table) (sizeof(table) / sizeof *(table))

/*
 * Builds what `script` says, a letter a call: { object, [ array, ) close, k key "k", s string, i integer, n number, t true,
 * 0 null, r raw.
 */
static void build(coord_json *json, const char *script)
{
    for (; *script; script++) {
        switch (*script) {
        case '{':
            coord_json_object(json);
            break;
        case '[':
            coord_json_array(json);
            break;
        case ')':
            coord_json_close(json);
            break;
        case 'k':
            coord_json_key(json, "k\"");
            break;
        case 's':
            coord_json_string(json, (coord_slice)COORD_SLICE("s\n"));
            break;
        case 'i':
            coord_json_int(json, -7);
            break;
        case 'n':
            coord_json_number(json, 0.1);
            break;
        case 't':
            coord_json_bool(json, true);
            break;
        case '0':
            coord_json_null(json);
            break;
        default:
            coord_json_raw(json, (coord_slice)COORD_SLICE("{ }"));
            break;
        }
    }
}

static void calls_make_json_with_its_commas(void **state)
{
    static const struct {
        const char *name;
        const char *script;
        const char *want; /* NULL: refused */
    } rows[] = {
        {"a scalar", "i", "-7"},
        {"an empty object", "{)", "{}"},
        {"an empty array", "[)", "[]"},
        {"members", "{kskik0)", "{\"k\\\"\":\"s\\n\",\"k\\\"\":-7,\"k\\\"\":null}"},
        {"elements", "[itrn[)[))", "[-7,true,{ },0.1,[],[]]"},
        {"nested", "{k[{kt){))ki)", "{\"k\\\"\":[{\"k\\\"\":true},{}],\"k\\\"\":-7}"},
        {"nothing", "", NULL},
        {"something open", "[i", NULL},
        {"a key without its value", "{k)", NULL},
        {"a value without a key", "{i)", NULL},
        {"a key in an array", "[ki)", NULL},
        {"a key at the top", "k", NULL},
        {"two keys", "{kki)", NULL},
        {"two values", "ii", NULL},
        {"a value behind a closed one", "{){)", NULL},
        {"closing nothing", ")", NULL},
        {"closing too often", "[))", NULL},
    };

    (void)state;
    for (size_t r = 0; r < ROWS(rows); r++) {
        coord_json *json = coord_json_new();
        coord_slice text = {NULL, 0};

        print_message("  %s\n", rows[r].name);
        build(json, rows[r].script);
        assert_int_equal(coord_json_end(json, &text), rows[r].want ? COORD_OK : COORD_STATE);
        if (rows[r].want && !coord_slice_is(text, rows[r].want))
            fail_msg("%.*s", COORD_FMT(text));
        coord_json_free(json);
    }
}

static void numbers_have_the_fewest_digits_that_read_back_the_same(void **state)
{
    static const struct {
        const char *name;
        double value;
        const char *want;
    } rows[] = {
        {"zero", 0, "0"},
        {"minus zero", -0.0, "-0"},
        {"a whole number", 100, "100"},
        {"a negative one", -3, "-3"},
        {"2^53", 9007199254740992.0, "9007199254740992"},
        {"a tenth", 0.1, "0.1"},
        {"a sum that is no tenth", 0.1 + 0.2, "0.30000000000000004"},
        {"a half", 2.5, "2.5"},
        {"large", 1e300, "1e+300"},
        {"the smallest", 5e-324, "5e-324"},
        {"not a number", NAN, "null"},
        {"infinite", -INFINITY, "null"},
    };

    (void)state;
    for (size_t r = 0; r < ROWS(rows); r++) {
        coord_json *json = coord_json_new();
        coord_slice text;

        print_message("  %s\n", rows[r].name);
        coord_json_number(json, rows[r].value);
        assert_int_equal(coord_json_end(json, &text), COORD_OK);
        if (!coord_slice_is(text, rows[r].want))
            fail_msg("%.*s", COORD_FMT(text));
        coord_json_free(json);
    }
}

static void a_locale_with_a_decimal_comma_changes_nothing(void **state)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8"};
    const char *set = NULL;
    coord_json *json = coord_json_new();
    coord_slice text;

    (void)state;
    for (size_t i = 0; i < ROWS(names) && !set; i++)
        set = setlocale(LC_NUMERIC, names[i]);
    coord_json_number(json, 0.25);
    setlocale(LC_NUMERIC, "C");
    assert_int_equal(coord_json_end(json, &text), COORD_OK);
    assert_true(coord_slice_is(text, "0.25"));
    coord_json_free(json);
    if (!set)
        print_message("  no such locale here\n");
}

static void strings_are_escaped_as_json_demands_and_no_more(void **state)
{
    static const struct {
        const char *name;
        coord_slice text;
        const char *want;
    } rows[] = {
        {"plain", COORD_SLICE("a/b"), "\"a/b\""},
        {"empty", {NULL, 0}, "\"\""},
        {"quote and backslash", COORD_SLICE("\"\\"), "\"\\\"\\\\\""},
        {"control characters", COORD_SLICE("\b\f\n\r\t\x01\x1f"), "\"\\b\\f\\n\\r\\t\\u0001\\u001f\""},
        {"NUL", COORD_SLICE("a\0b"), "\"a\\u0000b\""},
        {"DEL and beyond ASCII", COORD_SLICE("\x7f\xc3\xa9\xf0\x9f\x98\x80"), "\"\x7f\xc3\xa9\xf0\x9f\x98\x80\""},
        {"invalid UTF-8", COORD_SLICE("a\xff\xc3"), "\"a\xef\xbf\xbd\xef\xbf\xbd\""},
        {"a surrogate in UTF-8", COORD_SLICE("\xed\xa0\x80"), "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
    };

    (void)state;
    for (size_t r = 0; r < ROWS(rows); r++) {
        coord_json *json = coord_json_new();
        coord_slice text;

        print_message("  %s\n", rows[r].name);
        coord_json_string(json, rows[r].text);
        assert_int_equal(coord_json_end(json, &text), COORD_OK);
        if (!coord_slice_is(text, rows[r].want))
            fail_msg("%.*s", COORD_FMT(text));
        coord_json_free(json);
    }
}

static void nesting_beyond_512_levels_is_refused(void **state)
{
    (void)state;
    for (int depth = 512; depth <= 513; depth++) {
        coord_json *json = coord_json_new();
        coord_slice text;

        for (int i = 0; i < depth; i++)
            coord_json_array(json);
        for (int i = 0; i < depth; i++)
            coord_json_close(json);
        assert_int_equal(coord_json_end(json, &text), depth == 512 ? COORD_OK : COORD_STATE);
        coord_json_free(json);
    }
}

static void without_a_builder_every_call_is_harmless(void **state)
{
    coord_slice text;

    (void)state;
    build(NULL, "{k[sint0r))");
    assert_int_equal(coord_json_end(NULL, &text), COORD_NO_MEMORY);
    coord_json_free(NULL);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_make_json_with_its_commas),
        cmocka_unit_test(numbers_have_the_fewest_digits_that_read_back_the_same),
        cmocka_unit_test(a_locale_with_a_decimal_comma_changes_nothing),
        cmocka_unit_test(strings_are_escaped_as_json_demands_and_no_more),
        cmocka_unit_test(nesting_beyond_512_levels_is_refused),
        cmocka_unit_test(without_a_builder_every_call_is_harmless),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
