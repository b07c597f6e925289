/*
 * Unit test of scanner.c and walker.c: what is JSON and what is not, with place and reason, and that the walkers find the same
 * spans. test_scanner_portable.c runs the same tests on the plain-word code.
 */
#include "json/scanner.h"

#include <coordinator/document.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#define ROWS(table) (sizeof(table) / sizeof *(table))

/* A copy with nothing behind it, so that a checker sees any read past the end. */
static char *exact(const char *data, size_t size)
{
    char *copy = malloc(size ? size : 1);

    assert_non_null(copy);
    memcpy(copy, data, size);
    return copy;
}

static bool is_json(coord_slice text, struct json_error *error)
{
    char *copy = exact(text.data ? text.data : "", text.size);
    bool valid = json_validate((coord_slice){copy, text.size}, error, NULL, NULL);

    free(copy);
    return valid;
}

static void what_rfc_8259_allows_is_json(void **state)
{
    static const struct {
        const char *name;
        coord_slice text;
    } rows[] = {
        {"null", COORD_SLICE("null")},
        {"true with space around", COORD_SLICE(" \t\r\ntrue \t\r\n")},
        {"false", COORD_SLICE("false")},
        {"a digit", COORD_SLICE("0")},
        {"minus zero", COORD_SLICE("-0")},
        {"a number with everything", COORD_SLICE("-12.50E+07")},
        {"a small exponent", COORD_SLICE("0e-0")},
        {"an exponent beyond any range", COORD_SLICE("1E400")},
        {"a number longer than a block", COORD_SLICE("1234567890123456789012345678901234567890")},
        {"an empty string", COORD_SLICE("\"\"")},
        {"every escape", COORD_SLICE("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00Ff\"")},
        {"lone surrogate escapes", COORD_SLICE("\"\\ud800 \\udfff\"")},
        {"NUL as an escape", COORD_SLICE("{\"a\\u0000x\":1}")},
        {"DEL", COORD_SLICE("\"\x7f\"")},
        {"two, three and four bytes of UTF-8",
         COORD_SLICE("\"\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf"
                     "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\"")},
        {"a BOM inside a string", COORD_SLICE("\"\xef\xbb\xbf\"")},
        {"an empty array", COORD_SLICE("[ ]")},
        {"an empty object", COORD_SLICE("{\n}")},
        {"integers with and without spaces", COORD_SLICE("[1,2, 3 ,4,  5,\n6]")},
        {"integers, then something else", COORD_SLICE("[1,2,-3,4.5,6e7,\"8\",[9],10]")},
        {"members", COORD_SLICE("{\"a\" : [ {} , [] ] , \"b\":{\"c\":null}}")},
        {"duplicate names", COORD_SLICE("{\"a\":1,\"a\":2}")},
    };

    (void)state;
    for (size_t r = 0; r < ROWS(rows); r++) {
        struct json_error error = {0};

        print_message("  %s\n", rows[r].name);
        if (!is_json(rows[r].text, &error))
            fail_msg("%s at %zu", error.reason, error.offset);
    }
}

static void what_is_not_json_is_refused_with_place_and_reason(void **state)
{
    static const struct {
        const char *name;
        coord_slice text;
        size_t offset;
        const char *reason;
    } rows[] = {
        {"nothing", COORD_SLICE(""), 0, "there is no JSON value"},
        {"only space", COORD_SLICE("   "), 3, "there is no JSON value"},
        {"a BOM", COORD_SLICE("\xef\xbb\xbf{}"), 0, "byte order mark before the JSON text"},
        {"more behind", COORD_SLICE("{\"a\":1}}"), 7, "there is more after the JSON value"},
        {"a word behind", COORD_SLICE("{\"a\":1} x"), 8, "there is more after the JSON value"},
        {"two values", COORD_SLICE("{\"a\":1}{\"b\":2}"), 7, "there is more after the JSON value"},
        {"NUL behind", COORD_SLICE("1\0"), 1, "there is more after the JSON value"},
        {"a comma before }", COORD_SLICE("{\"a\":1,}"), 7, "a member name in double quotes should stand here"},
        {"a comma before ]", COORD_SLICE("[1,]"), 3, "a bracket closes where a value should stand"},
        {"a comma first", COORD_SLICE("[,1]"), 1, "this is not the beginning of a JSON value"},
        {"two commas", COORD_SLICE("[1,,2]"), 3, "this is not the beginning of a JSON value"},
        {"no comma", COORD_SLICE("[1 2]"), 3, "a ',' or ']' should stand here"},
        {"no comma between members", COORD_SLICE("{\"a\":1 \"b\":2}"), 7, "a ',' or '}' should stand here"},
        {"the wrong bracket", COORD_SLICE("[1}"), 2, "a ',' or ']' should stand here"},
        {"the other wrong bracket", COORD_SLICE("{\"a\":1]"), 6, "a ',' or '}' should stand here"},
        {"no colon", COORD_SLICE("{\"a\" 1}"), 5, "a ':' should follow the member name"},
        {"no value", COORD_SLICE("{\"a\":}"), 5, "a bracket closes where a value should stand"},
        {"a name without quotes", COORD_SLICE("{a:1}"), 1, "a member name in double quotes should stand here"},
        {"single quotes", COORD_SLICE("['a']"), 1, "a string must stand in double quotes"},
        {"a comment", COORD_SLICE("/*c*/{}"), 0, "JSON has no comments"},
        {"NaN", COORD_SLICE("{\"t\":NaN}"), 5, "NaN is not JSON"},
        {"Infinity", COORD_SLICE("[Infinity]"), 1, "Infinity is not JSON"},
        {"-Infinity", COORD_SLICE("[-Infinity]"), 2, "a number needs a digit here"},
        {"True", COORD_SLICE("True"), 0, "true, false and null are written in small letters"},
        {"a word", COORD_SLICE("nul1"), 0, "unknown word; JSON has true, false and null"},
        {"a longer word", COORD_SLICE("nulls"), 4, "there is more after the JSON value"},
        {"half a word", COORD_SLICE("[tru"), 4, "the text ends inside a value"},
        {"a leading zero", COORD_SLICE("{\"a\":01}"), 5, "a number does not begin with 0 and more digits"},
        {"a leading zero among integers", COORD_SLICE("[1,02]"), 3, "a number does not begin with 0 and more digits"},
        {"a leading zero behind a minus", COORD_SLICE("-00"), 1, "a number does not begin with 0 and more digits"},
        {"a plus", COORD_SLICE("+1"), 0, "a number does not begin with '+'"},
        {"a point first", COORD_SLICE(".5"), 0, "a number needs a digit before '.'"},
        {"a point last", COORD_SLICE("[1.]"), 3, "a number needs a digit here"},
        {"an exponent without digits", COORD_SLICE("[1e+]"), 4, "a number needs a digit here"},
        {"a minus alone", COORD_SLICE("-"), 1, "the text ends inside a number"},
        {"two points", COORD_SLICE("[1.2.3]"), 4, "a ',' or ']' should stand here"},
        {"an open object", COORD_SLICE("{\"a\":1"), 6, "the text ends inside an object"},
        {"an open object behind a comma", COORD_SLICE("{\"a\":1,"), 7, "the text ends inside an object"},
        {"an open object behind a name", COORD_SLICE("{\"a\""), 4, "the text ends inside an object"},
        {"an open array", COORD_SLICE("[1"), 2, "the text ends inside an array"},
        {"an open array behind a comma", COORD_SLICE("[1,"), 3, "the text ends where a value should stand"},
        {"an open string", COORD_SLICE("[\"abc"), 5, "the text ends inside a string"},
        {"an open escape", COORD_SLICE("\"\\"), 2, "the text ends inside a string"},
        {"an open \\u", COORD_SLICE("\"\\u12"), 5, "the text ends inside a string"},
        {"an unknown escape", COORD_SLICE("\"ab\\x\""), 3, "unknown escape in a string"},
        {"NUL behind a backslash", COORD_SLICE("\"\\\0\""), 1, "unknown escape in a string"},
        {"\\u without digits", COORD_SLICE("\"\\u12g4\""), 1, "\\u needs four hexadecimal digits"},
        {"a line feed in a string", COORD_SLICE("{\"a\":\"x\ny\"}"), 7, "control character in a string"},
        {"NUL in a string", COORD_SLICE("\"\0\""), 1, "control character in a string"},
        {"a control character in a name", COORD_SLICE("{\"\x1f\":1}"), 2, "control character in a string"},
        {"FF", COORD_SLICE("{\"a\":\"\xff\"}"), 6, "invalid UTF-8 in a string"},
        {"a continuation byte first", COORD_SLICE("\"\x80\""), 1, "invalid UTF-8 in a string"},
        {"overlong, two bytes", COORD_SLICE("\"\xc1\xbf\""), 1, "invalid UTF-8 in a string"},
        {"overlong, three bytes", COORD_SLICE("\"\xe0\x9f\xbf\""), 1, "invalid UTF-8 in a string"},
        {"overlong, four bytes", COORD_SLICE("\"\xf0\x8f\xbf\xbf\""), 1, "invalid UTF-8 in a string"},
        {"a surrogate", COORD_SLICE("\"\xed\xa0\x80\""), 1, "invalid UTF-8 in a string"},
        {"above U+10FFFF", COORD_SLICE("\"\xf4\x90\x80\x80\""), 1, "invalid UTF-8 in a string"},
        {"F5", COORD_SLICE("\"\xf5\x80\x80\x80\""), 1, "invalid UTF-8 in a string"},
        {"cut short by a quote", COORD_SLICE("\"\xe4\xbd\""), 1, "invalid UTF-8 in a string"},
        {"cut short by the end", COORD_SLICE("\"\xf0\x9f\x98"), 1, "invalid UTF-8 in a string"},
        {"behind ASCII and valid UTF-8", COORD_SLICE("\"0123456789abcdef\xc3\xa9\xc3\""), 19,
         "invalid UTF-8 in a string"},
        {"a no-break space", COORD_SLICE("\xc2\xa0{}"), 0, "this is not the beginning of a JSON value"},
        {"a form feed as space", COORD_SLICE("\f{}"), 0, "this is not the beginning of a JSON value"},
    };

    (void)state;
    for (size_t r = 0; r < ROWS(rows); r++) {
        struct json_error error = {0};

        print_message("  %s\n", rows[r].name);
        assert_false(is_json(rows[r].text, &error));
        assert_string_equal(error.reason, rows[r].reason);
        assert_int_equal(error.offset, rows[r].offset);
        assert_false(error.memory);
        assert_false(is_json(rows[r].text, NULL));
    }
}

/* `depth` times `open`, and as often `close`. */
static char *nested(size_t depth, const char *open, const char *close)
{
    char *text = calloc(depth, strlen(open) + strlen(close) + 1);

    assert_non_null(text);
    for (size_t i = 0; i < depth; i++)
        memcpy(text + i * strlen(open), open, strlen(open));
    for (size_t i = 0; i < depth; i++)
        memcpy(text + depth * strlen(open) + i * strlen(close), close, strlen(close) + 1);
    return text;
}

static void nesting_ends_at_512_levels(void **state)
{
    static const struct {
        const char *name;
        size_t depth;
        const char *open;
        const char *close;
        bool valid;
    } rows[] = {
        {"33 arrays", 33, "[", "]", true},           {"512 arrays", 512, "[", "]", true},
        {"513 arrays", 513, "[", "]", false},        {"511 objects, one array", 511, "{\"a\":", "}", true},
        {"512 objects", 512, "{\"a\":", "}", false}, {"100 000 arrays", 100000, "[", "]", false},
    };

    (void)state;
    for (size_t r = 0; r < ROWS(rows); r++) {
        char *text = nested(rows[r].depth, rows[r].open, rows[r].close);
        struct json_error error = {0};

        if (*rows[r].open == '{') { /* the innermost needs a value */
            char *whole = malloc(strlen(text) + 3);
            size_t half = rows[r].depth * strlen(rows[r].open);

            assert_non_null(whole);
            sprintf(whole, "%.*s[]%s", (int)half, text, text + half);
            free(text);
            text = whole;
        }
        print_message("  %s\n", rows[r].name);
        assert_int_equal(json_validate(coord_slice_of(text), &error, NULL, NULL), rows[r].valid);
        if (!rows[r].valid)
            assert_string_equal(error.reason, "nested too deeply");
        else
            assert_int_equal(json_skip_value(coord_slice_of(text), 0), strlen(text));
        assert_int_equal(json_validate_within(coord_slice_of(text), 33, NULL, NULL, NULL), rows[r].depth == 33);
        free(text);
    }
}

/* Everything that a step of the fast code looks at: a special byte at each distance from the beginning and from the end. */
static void a_bad_byte_is_found_wherever_it_stands(void **state)
{
    static const char bad[] = {'\x01', '\x1f', '\xff', '\x80', '\0'};

    (void)state;
    for (size_t size = 1; size < 70; size++) {
        char text[80];

        text[0] = '"';
        for (size_t at = 0; at < size; at++) {
            memset(text + 1, 'x', size);
            text[1 + size] = '"';
            for (size_t b = 0; b < sizeof bad; b++) {
                struct json_error error = {0};

                text[1 + at] = bad[b];
                assert_false(is_json((coord_slice){text, size + 2}, &error));
                assert_int_equal(error.offset, 1 + at);
            }
            text[1 + at] = '\x7f';
            assert_true(is_json((coord_slice){text, size + 2}, NULL));
            text[1 + at] = '"';
            if (at + 1 < size)
                assert_false(is_json((coord_slice){text, size + 2}, NULL));
        }
    }
}

static void a_character_of_any_length_may_stand_anywhere(void **state)
{
    static const char *const characters[] = {"\xc3\xa9", "\xe4\xbd\xa0", "\xf0\x9f\x98\x80", "\\n", "\\\"", "\\u00e9"};

    (void)state;
    for (size_t c = 0; c < ROWS(characters); c++) {
        for (size_t before = 0; before < 40; before++) {
            char text[120];
            int size = sprintf(text, "\"%.*s%s%.*s\"", (int)before, "0123456789012345678901234567890123456789",
                               characters[c], (int)(39 - before), "0123456789012345678901234567890123456789");
            char *copy = exact(text, (size_t)size);

            assert_true(json_validate((coord_slice){copy, (size_t)size}, NULL, NULL, NULL));
            assert_int_equal(json_skip_value((coord_slice){copy, (size_t)size}, 0), size);
            free(copy);
        }
    }
}

static void every_sequence_of_utf8_is_judged_as_the_rfc_does(void **state)
{
    (void)state;
    for (unsigned code = 0x80; code < 0x220000; code = code < 0x11000 ? code + 1 : code + 0x101) {
        unsigned char text[6] = {'"'};
        size_t size = 0;

        if (code < 0x800) {
            text[++size] = (unsigned char)(0xc0 | code >> 6);
        } else if (code < 0x10000) {
            text[++size] = (unsigned char)(0xe0 | code >> 12);
            text[++size] = (unsigned char)(0x80 | (code >> 6 & 0x3f));
        } else if (code < 0x200000) {
            text[++size] = (unsigned char)(0xf0 | code >> 18);
            text[++size] = (unsigned char)(0x80 | (code >> 12 & 0x3f));
            text[++size] = (unsigned char)(0x80 | (code >> 6 & 0x3f));
        } else {
            break;
        }
        text[++size] = (unsigned char)(0x80 | (code & 0x3f));
        text[++size] = '"';
        assert_int_equal(json_validate((coord_slice){(const char *)text, size + 1}, NULL, NULL, NULL),
                         (code < 0xd800 || code > 0xdfff) && code < 0x110000);
    }
}

struct seen {
    char text[256];
    size_t size;
    const char *json;
    size_t stop_after; /* 0: never */
};

static bool see(void *context, const struct json_member *member)
{
    struct seen *seen = context;

    seen->size += (size_t)sprintf(seen->text + seen->size, "%.*s=%.*s;", (int)(member->key.end - member->key.begin),
                                  seen->json + member->key.begin, (int)(member->value.end - member->value.begin),
                                  seen->json + member->value.begin);
    return seen->stop_after == 0 || --seen->stop_after > 0;
}

static void members_of_the_top_level_are_noted_while_validating(void **state)
{
    static const struct {
        const char *name;
        const char *text;
        const char *want;
    } rows[] = {
        {"an object", " { \"a\" : 1 , \"b\":{\"c\":[2]} ,\"a\":\"x\"}", "\"a\"=1;\"b\"={\"c\":[2]};\"a\"=\"x\";"},
        {"an array", "[1,2, [3,4] ,{\"a\":5}]", "=1;=2;=[3,4];={\"a\":5};"},
        {"nothing in it", "{}", ""},
        {"a scalar", "1", ""},
    };

    (void)state;
    for (size_t r = 0; r < ROWS(rows); r++) {
        struct seen seen = {.json = rows[r].text};
        struct seen walked = {.json = rows[r].text};
        coord_slice text = coord_slice_of(rows[r].text);
        struct json_member member;
        size_t container = json_skip_space(text, 0);
        size_t cursor = 0;

        print_message("  %s\n", rows[r].name);
        assert_true(json_validate(text, NULL, see, &seen));
        assert_string_equal(seen.text, rows[r].want);
        if (json_type_at(text, container) < COORD_JSON_ARRAY)
            continue;
        while (json_next_member(text, container, &cursor, &member))
            see(&walked, &member);
        assert_string_equal(walked.text, rows[r].want);
    }
}

static void a_note_that_fails_stops_with_memory_is_short(void **state)
{
    struct seen seen = {.json = "{\"a\":1,\"b\":2,\"c\":3}", .stop_after = 2};
    struct json_error error = {0};

    (void)state;
    assert_false(json_validate(coord_slice_of(seen.json), &error, see, &seen));
    assert_string_equal(error.reason, "memory is short");
    assert_true(error.memory);
    assert_string_equal(seen.text, "\"a\"=1;\"b\"=2;");
}

static void a_value_is_skipped_to_its_end_and_counted(void **state)
{
    static const struct {
        const char *name;
        const char *value;
        const char *behind;
        size_t count;
    } rows[] = {
        {"a number before a comma", "12", ",3]", 0},
        {"a number before a bracket", "-1.5e3", "]", 0},
        {"a number before space", "1", " ]", 0},
        {"a word", "true", ",1]", 0},
        {"a string with quotes and brackets", "\"a\\\"]}\\\\\"", ",1]", 0},
        {"an array of strings", "[\"]\",\"[\\\"\",\"{,\"]", ",1]", 3},
        {"an empty object", "{ }", ",1]", 0},
        {"an object", "{\"a,\":[1,2],\"b\":{\"c\":3,\"d\":4}}", ",1]", 2},
        {"nested arrays longer than a block", "[[1,2],[3,[4,5,[6,7,[8,9,[10,11]]]]],12]", ",1]", 3},
        {"integers", "[1,22,333,4444,55555,666666,7777777,88888888,9]", ",1]", 9},
    };

    (void)state;
    for (size_t r = 0; r < ROWS(rows); r++) {
        char whole[128];
        size_t size = (size_t)sprintf(whole, "[%s%s", rows[r].value, rows[r].behind);
        char *copy = exact(whole, size);
        coord_slice text = {copy, size};

        print_message("  %s\n", rows[r].name);
        assert_true(json_validate(text, NULL, NULL, NULL));
        assert_int_equal(json_skip_value(text, 1), 1 + strlen(rows[r].value));
        assert_int_equal(json_skip_value(text, 0), size);
        if (json_type_at(text, 1) >= COORD_JSON_ARRAY)
            assert_int_equal(json_count_members(text, 1), rows[r].count);
        free(copy);
    }
}

static void names_are_compared_unescaped(void **state)
{
    static const struct {
        const char *name;
        const char *key;
        coord_slice wanted;
        bool equal;
    } rows[] = {
        {"the same", "\"model\"", COORD_SLICE("model"), true},
        {"an escape", "\"mod\\u0065l\"", COORD_SLICE("model"), true},
        {"another case", "\"Model\"", COORD_SLICE("model"), false},
        {"shorter", "\"mode\"", COORD_SLICE("model"), false},
        {"longer", "\"models\"", COORD_SLICE("model"), false},
        {"empty", "\"\"", COORD_SLICE(""), true},
        {"NUL inside", "\"a\\u0000x\"", COORD_SLICE("a\0x"), true},
        {"cut at NUL", "\"a\\u0000x\"", COORD_SLICE("a"), false},
        {"a pair of surrogates", "\"\\ud83d\\ude00\"", COORD_SLICE("\xf0\x9f\x98\x80"), true},
        {"a lone surrogate", "\"\\ud83dx\"", COORD_SLICE("\xef\xbf\xbdx"), true},
        {"an escape longer than what is left", "\"a\\u4f60\"", COORD_SLICE("a\xe4"), false},
        {"a quote", "\"\\\"\"", COORD_SLICE("\""), true},
        {"an escape as first byte", "\"\\u006dodel\"", COORD_SLICE("model"), true},
        {"an escaped name written like its own escape", "\"\\\\n\"", COORD_SLICE("\\\\n"), false},
        {"backslash and letter", "\"\\\\n\"", COORD_SLICE("\\n"), true},
        {"an escape is not what it is written as", "\"\\n\"", COORD_SLICE("\\n"), false},
        {"empty against a name", "\"\"", COORD_SLICE("a"), false},
        {"a name against empty", "\"a\"", COORD_SLICE(""), false},
        {"an escape against empty", "\"\\n\"", COORD_SLICE(""), false},
    };

    (void)state;
    for (size_t r = 0; r < ROWS(rows); r++) {
        print_message("  %s\n", rows[r].name);
        assert_int_equal(json_key_is(coord_slice_of(rows[r].key), rows[r].wanted), rows[r].equal);
    }
}

static void strings_are_unescaped(void **state)
{
    static const struct {
        const char *name;
        const char *quoted;
        coord_slice want;
    } rows[] = {
        {"plain", "\"abc\"", COORD_SLICE("abc")},
        {"empty", "\"\"", COORD_SLICE("")},
        {"short escapes", "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", COORD_SLICE("\"\\/\b\f\n\r\t")},
        {"one to three bytes", "\"\\u0041\\u00e9\\u4F60\\u0000\"", COORD_SLICE("A\xc3\xa9\xe4\xbd\xa0\0")},
        {"a pair", "\"x\\uD83D\\uDE00y\"", COORD_SLICE("x\xf0\x9f\x98\x80y")},
        {"the last code point", "\"\\udbff\\udfff\"", COORD_SLICE("\xf4\x8f\xbf\xbf")},
        {"high alone at the end", "\"\\ud83d\"", COORD_SLICE("\xef\xbf\xbd")},
        {"high before another escape", "\"\\ud83d\\n\"", COORD_SLICE("\xef\xbf\xbd\n")},
        {"high before high and low", "\"\\ud83d\\ud83d\\ude00\"", COORD_SLICE("\xef\xbf\xbd\xf0\x9f\x98\x80")},
        {"low alone", "\"\\ude00x\"", COORD_SLICE("\xef\xbf\xbdx")},
    };

    (void)state;
    for (size_t r = 0; r < ROWS(rows); r++) {
        char out[64];
        size_t size = json_unescape(coord_slice_of(rows[r].quoted), out);

        print_message("  %s\n", rows[r].name);
        assert_true(size <= strlen(rows[r].quoted));
        assert_true(coord_slice_equal((coord_slice){out, size}, rows[r].want));
    }
}

static void only_arrays_of_ids_are_counted_as_such(void **state)
{
    static const struct {
        const char *name;
        const char *text;
        bool ids;
        uint64_t count;
    } rows[] = {
        {"none", "[ ]", true, 0},
        {"one", "[0]", true, 1},
        {"several with space", "[1 , 22,\n333]", true, 3},
        {"2^53", "[9007199254740992]", true, 1},
        {"2^53 + 1", "[9007199254740993]", false, 0},
        {"17 digits", "[1,10000000000000000]", false, 0},
        {"negative", "[1,-2]", false, 0},
        {"a fraction", "[1.0]", false, 0},
        {"an exponent", "[1e0]", false, 0},
        {"a string", "[1,\"2\"]", false, 0},
        {"nested", "[1,[2]]", false, 0},
        {"null", "[null]", false, 0},
        {"no array", "{\"a\":1}", false, 0},
        {"a number", "7", false, 0},
        {"space behind", "[1]\n ", true, 1},
        {"more behind", "[1] 2", false, 0},
        {"a comma at the end", "[1,]", false, 0},
        {"two commas", "[1,,2]", false, 0},
        {"no end", "[1", false, 0},
        {"no end behind a comma", "[1,", false, 0},
        {"nothing but a bracket", "[", false, 0},
        {"nothing", "", false, 0},
        {"a leading zero", "[01]", false, 0},
    };

    (void)state;
    for (size_t r = 0; r < ROWS(rows); r++) {
        uint64_t count = 0;

        print_message("  %s\n", rows[r].name);
        assert_int_equal(json_count_ids(coord_slice_of(rows[r].text), &count), rows[r].ids);
        assert_int_equal(count, rows[r].count);
    }
}

/* Writes an array of `count` ids whose lengths go round, with `odd` as element `place`. */
static coord_slice write_ids(char *out, unsigned count, const char *between, unsigned place, const char *odd)
{
    static const char digits[] = "123456789012345";
    char *at = out;

    *at++ = '[';
    for (unsigned i = 0; i < count; i++) {
        at += sprintf(at, "%s", i ? between : "");
        at += i == place ? sprintf(at, "%s", odd) : sprintf(at, "%.*s", (int)(1 + (i * 7 + count) % 15), digits);
    }
    *at++ = ']';
    return (coord_slice){out, (size_t)(at - out)};
}

static void an_odd_element_is_seen_wherever_it_stands_in_a_long_array(void **state)
{
    static const char *const betweens[] = {",", ", ", " ,", ",  "};
    static const struct {
        const char *odd;
        bool json, id;
    } rows[] = {{"0", true, true},
                {"9007199254740992", true, true},
                {"9007199254740993", true, false},
                {"12345678901234567", true, false},
                {"-1", true, false},
                {"1.5", true, false},
                {"[2]", true, false},
                {"\"3\"", true, false},
                {"007", false, false},
                {"00", false, false},
                {"", false, false},
                {"1 2", false, false},
                {" ", false, false},
                {"4x", false, false}};
    enum { MOST = 18 }; /* two windows and a rest */
    char text[MOST * 24], nested[MOST * 24 + 8];

    (void)state;
    for (size_t r = 0; r < ROWS(rows); r++)
        for (size_t b = 0; b < ROWS(betweens); b++)
            for (unsigned count = 2; count <= MOST; count++)
                for (unsigned place = 0; place < count; place++) {
                    coord_slice ids = write_ids(text, count, betweens[b], place, rows[r].odd);
                    uint64_t counted = 0;

                    sprintf(nested, "[[1],%.*s]", (int)ids.size, ids.data);
                    assert_int_equal(json_count_ids(ids, &counted), rows[r].id);
                    assert_int_equal(counted, rows[r].id ? count : 0);
                    assert_int_equal(json_validate(coord_slice_of(nested), NULL, NULL, NULL), rows[r].json);
                    if (rows[r].id)
                        assert_false(json_count_ids((coord_slice){ids.data, ids.size - 1}, &counted));
                }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_rfc_8259_allows_is_json),
        cmocka_unit_test(what_is_not_json_is_refused_with_place_and_reason),
        cmocka_unit_test(nesting_ends_at_512_levels),
        cmocka_unit_test(a_bad_byte_is_found_wherever_it_stands),
        cmocka_unit_test(a_character_of_any_length_may_stand_anywhere),
        cmocka_unit_test(every_sequence_of_utf8_is_judged_as_the_rfc_does),
        cmocka_unit_test(members_of_the_top_level_are_noted_while_validating),
        cmocka_unit_test(a_note_that_fails_stops_with_memory_is_short),
        cmocka_unit_test(a_value_is_skipped_to_its_end_and_counted),
        cmocka_unit_test(names_are_compared_unescaped),
        cmocka_unit_test(strings_are_unescaped),
        cmocka_unit_test(only_arrays_of_ids_are_counted_as_such),
        cmocka_unit_test(an_odd_element_is_seen_wherever_it_stands_in_a_long_array),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
