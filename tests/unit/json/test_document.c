/* Unit test of the document: what is not edited keeps its bytes, and every edit reads as the table says. */
#include "json/members.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#define ROWS(table) (sizeof(table) / sizeof *(table))

static coord_document *parse(const char *text)
{
    size_t offset = 0;
    const char *reason = NULL;
    coord_document *document = coord_document_parse_new(coord_slice_of(text), &offset, &reason);

    if (!document)
        fail_msg("%s at %zu of %s", reason, offset, text);
    return document;
}

static void assert_slice(coord_slice slice, const char *want)
{
    if (!coord_slice_is(slice, want))
        fail_msg("'%.*s' is not '%s'", COORD_FMT(slice), want);
}

/* The text, as one piece and as pieces, and that it is valid JSON. */
static void assert_reads(coord_document *document, const char *want)
{
    coord_slice text;
    coord_slice pieces[64];
    bool edited[64];
    char joined[4096];
    size_t size = 0;
    size_t count;
    coord_document *again;

    assert_int_equal(coord_document_text(document, &text), COORD_OK);
    assert_slice(text, want);
    assert_int_equal(coord_document_size(document), strlen(want));
    count = coord_document_pieces(document, pieces, edited, ROWS(pieces));
    assert_true(count <= ROWS(pieces));
    for (size_t i = 0; i < count; i++) {
        memcpy(joined + size, pieces[i].data, pieces[i].size);
        size += pieces[i].size;
    }
    assert_slice((coord_slice){joined, size}, want);
    again = parse(want);
    coord_document_free(again);
}

enum verb { SET = 1, INSERT, REMOVE, REMOVE_ALL };

struct edit {
    enum verb verb;
    const char *pointer;
    const char *value; /* REMOVE_ALL: the name */
    size_t index;
};

static coord_status apply(coord_document *document, const struct edit *edit)
{
    switch (edit->verb) {
    case SET:
        return coord_document_set(document, edit->pointer, coord_slice_of(edit->value));
    case INSERT:
        return coord_document_insert(document, edit->pointer, edit->index, coord_slice_of(edit->value));
    case REMOVE:
        return coord_document_remove(document, edit->pointer);
    default:
        return coord_document_remove_all(document, edit->pointer, coord_slice_of(edit->value), NULL);
    }
}

static void edits_keep_all_other_bytes(void **state)
{
    static const struct {
        const char *name;
        const char *text;
        struct edit edits[5];
        const char *want;
    } rows[] = {
        {"no edit", " { \"a\" : 1 , \"a\":2 }\n", {{0}}, " { \"a\" : 1 , \"a\":2 }\n"},
        {"a value is replaced in its place", "{\"a\" : 1 ,\"b\":2}", {{SET, "/a", "true"}}, "{\"a\" : true ,\"b\":2}"},
        {"white space around a new value is left out", "{\"a\":1}", {{SET, "/a", " [ 2 ]\n"}}, "{\"a\":[ 2 ]}"},
        {"a member is added behind the last", "{ \"a\":1 }", {{SET, "/b", "2"}}, "{ \"a\":1,\"b\":2 }"},
        {"a member is added to an empty object", "{ }", {{SET, "/b", "2"}}, "{\"b\":2 }"},
        {"two members are added", "{}", {{SET, "/a", "1"}, {SET, "/b", "2"}}, "{\"a\":1,\"b\":2}"},
        {"an added member is replaced", "{}", {{SET, "/a", "1"}, {SET, "/a", "[]"}}, "{\"a\":[]}"},
        {"an added member is removed", "{}", {{SET, "/a", "1"}, {REMOVE, "/a", 0}}, "{}"},
        {"the first is removed", "{ \"a\":1 , \"b\":2 }", {{REMOVE, "/a", 0}}, "{ \"b\":2 }"},
        {"the last is removed", "{ \"a\":1 , \"b\":2 }", {{REMOVE, "/b", 0}}, "{ \"a\":1 }"},
        {"one in the middle is removed", "{\"a\":1,  \"b\":2 ,\"c\":3}", {{REMOVE, "/b", 0}}, "{\"a\":1,  \"c\":3}"},
        {"all are removed", "{ \"a\":1, \"b\":2 }", {{REMOVE, "/a", 0}, {REMOVE, "/b", 0}}, "{  }"},
        {"the first is removed and one is added",
         "{\"a\":1, \"b\":2}",
         {{REMOVE, "/a", 0}, {SET, "/c", "3"}},
         "{\"b\":2,\"c\":3}"},
        {"the last is removed and one is added",
         "{\"a\":1, \"b\":2 }",
         {{REMOVE, "/b", 0}, {SET, "/c", "3"}},
         "{\"a\":1,\"c\":3 }"},
        {"all are removed and one is added", "{\"a\":1}", {{REMOVE, "/a", 0}, {SET, "/c", "3"}}, "{\"c\":3}"},
        {"what is not there is removed", "{\"a\":1}", {{REMOVE, "/b", 0}, {REMOVE, "/a/b/c", 0}}, "{\"a\":1}"},
        {"every one of a name is removed",
         "{\"a\":1,\"b\":2,\"\\u0061\":3,\"c\":4,\"a\":5}",
         {{REMOVE_ALL, "", "a"}},
         "{\"b\":2,\"c\":4}"},
        {"every one of a name is removed after edits",
         "{\"a\":1,\"b\":2,\"c\":3,\"a\":5}",
         {{SET, "/c", "0"}, {SET, "/d", "6"}, {REMOVE_ALL, "", "a"}, {REMOVE_ALL, "", "c"}},
         "{\"b\":2,\"d\":6}"},
        {"a deep value is replaced", "{\"a\":[{\"b\": 1 }, 2]}", {{SET, "/a/0/b", "9"}}, "{\"a\":[{\"b\": 9 }, 2]}"},
        {"inside a replaced value",
         "{\"a\":1}",
         {{SET, "/a", "{ \"x\": [1, 2] }"}, {SET, "/a/x/1", "3"}, {REMOVE, "/a/x/0", 0}},
         "{\"a\":{ \"x\": [3] }}"},
        {"inside an added value", "{}", {{SET, "/a", "[]"}, {SET, "/a/-", "1"}, {SET, "/a/1", "2"}}, "{\"a\":[1,2]}"},
        {"before the first element", "[ 1, 2 ]", {{INSERT, "", "0", 0}}, "[ 0,1, 2 ]"},
        {"between two elements", "[ 1, 2 ]", {{INSERT, "", "0", 1}}, "[ 1,0, 2 ]"},
        {"behind the last element", "[ 1, 2 ]", {{INSERT, "", "0", 2}}, "[ 1, 2,0 ]"},
        {"two before the same element", "[1, 2]", {{INSERT, "", "8", 1}, {INSERT, "", "9", 2}}, "[1,8,9, 2]"},
        {"inserted, then the ones around it removed",
         "[1, 2]",
         {{INSERT, "", "8", 1}, {REMOVE, "/0", 0}, {REMOVE, "/1", 0}},
         "[8]"},
        {"into an empty array", "[\n]", {{INSERT, "", "1", 0}}, "[1\n]"},
        {"the whole value keeps the space around it", " 1 ", {{SET, "", "{}"}, {SET, "/a", "2"}}, " {\"a\":2} "},
        {"a name with a slash and a tilde",
         "{\"a/b\":1}",
         {{SET, "/a~1b", "2"}, {SET, "/c~0d", "3"}},
         "{\"a/b\":2,\"c~d\":3}"},
        {"a name that needs escapes", "{}", {{SET, "/\"\n", "1"}}, "{\"\\\"\\n\":1}"},
        {"an empty name", "{\"\":1}", {{SET, "/", "2"}}, "{\"\":2}"},
        {"a name written with escapes", "{\"mod\\u0065l\":1}", {{SET, "/model", "2"}}, "{\"mod\\u0065l\":2}"},
        {"duplicates elsewhere stay", "{\"a\":1,\"a\":2,\"b\":3}", {{SET, "/b", "4"}}, "{\"a\":1,\"a\":2,\"b\":4}"},
    };

    (void)state;
    for (size_t r = 0; r < ROWS(rows); r++) {
        coord_document *document = parse(rows[r].text);
        coord_document *clone;

        print_message("  %s\n", rows[r].name);
        for (size_t e = 0; e < ROWS(rows[r].edits) && rows[r].edits[e].verb; e++)
            assert_int_equal(apply(document, &rows[r].edits[e]), COORD_OK);
        assert_reads(document, rows[r].want);
        clone = coord_document_clone_new(document);
        coord_document_free(document);
        assert_reads(clone, rows[r].want);
        coord_document_free(clone);
    }
}

static void an_edit_that_cannot_be_made_says_why_and_changes_nothing(void **state)
{
    static const char text[] = "{\"a\":{\"b\":[1]},\"r\":1,\"r\":{\"x\":2},\"n\":5}";
    static const struct {
        const char *name;
        struct edit edit;
        coord_status want;
    } rows[] = {
        {"no container above", {SET, "/x/y", "1"}, COORD_ABSENT},
        {"a number above", {SET, "/n/y", "1"}, COORD_MISTYPED},
        {"a repeated member", {SET, "/r", "1"}, COORD_REPEATED},
        {"through a repeated member", {SET, "/r/x", "1"}, COORD_REPEATED},
        {"removing a repeated member", {REMOVE, "/r", 0}, COORD_REPEATED},
        {"not JSON", {SET, "/n", "{"}, COORD_INVALID},
        {"no value at all", {SET, "/n", ""}, COORD_INVALID},
        {"two values", {SET, "/n", "1 2"}, COORD_INVALID},
        {"no slash in front", {SET, "n", "1"}, COORD_INVALID},
        {"a tilde alone", {SET, "/~", "1"}, COORD_INVALID},
        {"a tilde with something else", {REMOVE, "/~2", 0}, COORD_INVALID},
        {"a name as index", {SET, "/a/b/x", "1"}, COORD_INVALID},
        {"an index with a leading zero", {SET, "/a/b/00", "1"}, COORD_INVALID},
        {"an index behind the end", {SET, "/a/b/2", "1"}, COORD_ABSENT},
        {"inserting behind the end", {INSERT, "/a/b", "1", 2}, COORD_ABSENT},
        {"inserting into an object", {INSERT, "/a", "1", 0}, COORD_MISTYPED},
        {"inserting nothing", {INSERT, "/a/b", "", 0}, COORD_INVALID},
        {"a name that is not UTF-8", {SET, "/\xff", "1"}, COORD_INVALID},
        {"removing the whole", {REMOVE, "", 0}, COORD_INVALID},
    };
    coord_document *document = parse(text);

    (void)state;
    for (size_t r = 0; r < ROWS(rows); r++) {
        print_message("  %s\n", rows[r].name);
        assert_int_equal(apply(document, &rows[r].edit), rows[r].want);
        assert_reads(document, text);
    }
    coord_document_free(document);
}

static void values_are_found_and_told_apart(void **state)
{
    static const char text[] =
        "{\"s\":\"a\\u00e9\\n\",\"t\":true,\"f\":false,\"n\":null,\"i\":9007199254740992,\"o\":{\"x\":[1,{\"y\":2}]},"
        "\"d\":1,\"\\u0064\":2,\"e\":\"\\ud800\"}";
    static const struct {
        const char *name;
        const char *pointer;
        int32_t type;
        coord_status status;
        const char *json;
    } rows[] = {
        {"a string", "/s", COORD_JSON_STRING, COORD_OK, "\"a\\u00e9\\n\""},
        {"true", "/t", COORD_JSON_BOOL, COORD_OK, "true"},
        {"null", "/n", COORD_JSON_NULL, COORD_OK, "null"},
        {"a number", "/i", COORD_JSON_NUMBER, COORD_OK, "9007199254740992"},
        {"an object", "/o", COORD_JSON_OBJECT, COORD_OK, "{\"x\":[1,{\"y\":2}]}"},
        {"an array", "/o/x", COORD_JSON_ARRAY, COORD_OK, "[1,{\"y\":2}]"},
        {"inside an element", "/o/x/1/y", COORD_JSON_NUMBER, COORD_OK, "2"},
        {"repeated, once with an escape", "/d", COORD_JSON_ABSENT, COORD_REPEATED, NULL},
        {"absent", "/x", COORD_JSON_ABSENT, COORD_ABSENT, NULL},
        {"behind the end", "/o/x/2", COORD_JSON_ABSENT, COORD_ABSENT, NULL},
        {"the end itself", "/o/x/-", COORD_JSON_ABSENT, COORD_ABSENT, NULL},
        {"below a scalar", "/t/x", COORD_JSON_ABSENT, COORD_ABSENT, NULL},
        {"no pointer", "t", COORD_JSON_ABSENT, COORD_INVALID, NULL},
        {"the whole", "", COORD_JSON_OBJECT, COORD_OK, text},
    };
    coord_document *document = parse(text);

    (void)state;
    for (size_t r = 0; r < ROWS(rows); r++) {
        coord_slice json = {NULL, 0};

        print_message("  %s\n", rows[r].name);
        assert_int_equal(coord_document_type(document, rows[r].pointer), rows[r].type);
        assert_int_equal(coord_document_get(document, rows[r].pointer, &json), rows[r].status);
        if (rows[r].json)
            assert_slice(json, rows[r].json);
    }
    coord_document_free(document);
}

static void strings_come_unescaped(void **state)
{
    coord_document *document =
        parse("{\"s\":\"a\\u00e9\\n\",\"p\":\"x\",\"e\":\"\\ud800\",\"w\":\"\\ud83d\\ude00\",\"n\":1,\"z\":\"\"}");
    coord_slice text;
    coord_slice again;

    (void)state;
    assert_int_equal(coord_document_get_string(document, "/w", &text), COORD_OK);
    assert_slice(text, "\xf0\x9f\x98\x80");
    assert_int_equal(coord_document_get_string(document, "/s", &text), COORD_OK);
    assert_slice(text, "a\xc3\xa9\n");
    assert_int_equal(coord_document_get_string(document, "/e", &again), COORD_OK);
    assert_slice(again, "\xef\xbf\xbd");
    assert_slice(text, "a\xc3\xa9\n");
    assert_int_equal(coord_document_get_string(document, "/s", &again), COORD_OK);
    assert_ptr_equal(text.data, again.data);
    assert_int_equal(coord_document_get_string(document, "/p", &text), COORD_OK);
    assert_slice(text, "x");
    assert_int_equal(coord_document_get_string(document, "/z", &text), COORD_OK);
    assert_slice(text, "");
    assert_int_equal(coord_document_get_string(document, "/n", &text), COORD_MISTYPED);
    coord_document_free(document);
}

static void a_count_is_digits_up_to_2_to_the_53(void **state)
{
    static const struct {
        const char *name;
        const char *text;
        coord_status status;
        uint64_t value;
    } rows[] = {
        {"zero", "0", COORD_OK, 0},
        {"2^53", "9007199254740992", COORD_OK, UINT64_C(9007199254740992)},
        {"2^53 + 1", "9007199254740993", COORD_MISTYPED, 0},
        {"17 digits", "10000000000000000", COORD_MISTYPED, 0},
        {"minus zero", "-0", COORD_MISTYPED, 0},
        {"a fraction", "1.0", COORD_MISTYPED, 0},
        {"an exponent", "1e0", COORD_MISTYPED, 0},
        {"a string", "\"1\"", COORD_MISTYPED, 0},
        {"2^64", "18446744073709551616", COORD_MISTYPED, 0},
    };

    (void)state;
    for (size_t r = 0; r < ROWS(rows); r++) {
        coord_document *document = parse(rows[r].text);
        uint64_t value = 0;

        print_message("  %s\n", rows[r].name);
        assert_int_equal(coord_document_get_count(document, "", &value), rows[r].status);
        assert_int_equal(value, rows[r].value);
        coord_document_free(document);
    }
}

static void a_bool_is_true_or_false(void **state)
{
    coord_document *document = parse("[true,false,null,\"true\",1]");
    bool value = false;

    (void)state;
    assert_int_equal(coord_document_get_bool(document, "/0", &value), COORD_OK);
    assert_true(value);
    assert_int_equal(coord_document_get_bool(document, "/1", &value), COORD_OK);
    assert_false(value);
    assert_int_equal(coord_document_get_bool(document, "/2", &value), COORD_MISTYPED);
    assert_int_equal(coord_document_get_bool(document, "/3", &value), COORD_MISTYPED);
    assert_int_equal(coord_document_get_bool(document, "/4", &value), COORD_MISTYPED);
    assert_int_equal(coord_document_get_bool(document, "/5", &value), COORD_ABSENT);
    coord_document_free(document);
}

static void strings_and_integers_are_written_as_json(void **state)
{
    coord_document *document = parse("{}");
    static const char text[] = "q\"b\\c\x01/\xc3\xa9\x7f";

    (void)state;
    assert_int_equal(coord_document_set_string(document, "/s", (coord_slice)COORD_SLICE(text)), COORD_OK);
    assert_int_equal(coord_document_set_int(document, "/i", INT64_MIN), COORD_OK);
    assert_int_equal(coord_document_set_string(document, "/bad", coord_slice_of("\xff")), COORD_INVALID);
    assert_int_equal(coord_document_set_string(document, "/empty", (coord_slice){NULL, 0}), COORD_OK);
    assert_reads(document, "{\"s\":\"q\\\"b\\\\c\\u0001/\xc3\xa9\x7f\",\"i\":-9223372036854775808,\"empty\":\"\"}");
    coord_document_free(document);
}

static void walk(coord_document *document, const char *pointer, const char *want)
{
    char seen[512] = "";
    size_t used = 0;
    size_t cursor = 0;
    size_t count = 0;
    coord_slice key;
    coord_slice json;

    while (coord_document_next(document, pointer, &cursor, &key, &json) == COORD_OK) {
        used += (size_t)snprintf(seen + used, sizeof seen - used, "%.*s=%.*s;", COORD_FMT(key), COORD_FMT(json));
        count++;
    }
    assert_int_equal(coord_document_next(document, pointer, &cursor, NULL, &json), COORD_END);
    assert_string_equal(seen, want);
    assert_int_equal(coord_document_count(document, pointer), count);
}

static void walking_gives_members_in_order_edits_included(void **state)
{
    coord_document *document = parse("{\"a\":1,\"b\\n\":[1, 2,3],\"a\":{}, \"c\":{\"d\":1,\"e\":[ ]}}");
    size_t cursor = 0;
    coord_slice json;

    (void)state;
    walk(document, "", "a=1;b\n=[1, 2,3];a={};c={\"d\":1,\"e\":[ ]};");
    walk(document, "/b\n", "=1;=2;=3;");
    walk(document, "/c", "d=1;e=[ ];");
    walk(document, "/c/e", "");
    assert_int_equal(coord_document_insert(document, "/b\n", 1, coord_slice_of("9")), COORD_OK);
    assert_int_equal(coord_document_remove(document, "/c/d"), COORD_OK);
    assert_int_equal(coord_document_set(document, "/n~1", coord_slice_of("0")), COORD_OK);
    walk(document, "", "a=1;b\n=[1,9, 2,3];a={};c={\"e\":[ ]};n/=0;");
    walk(document, "/b\n", "=1;=9;=2;=3;");
    walk(document, "/c", "e=[ ];");
    assert_int_equal(coord_document_next(document, "/a", &cursor, NULL, &json), COORD_REPEATED);
    assert_int_equal(coord_document_next(document, "/x", &cursor, NULL, &json), COORD_ABSENT);
    assert_int_equal(coord_document_next(document, "/n~1", &cursor, NULL, &json), COORD_MISTYPED);
    assert_int_equal(coord_document_count(document, "/n~1"), 0);
    coord_document_free(document);
}

static void elements_may_be_edited_while_walking_the_array(void **state)
{
    coord_document *document = parse("{\"m\":[{\"u\":1}, {\"u\":2}, {\"u\":3}]}");
    size_t cursor = 0;
    coord_slice json;

    (void)state;
    while (coord_document_next(document, "/m", &cursor, NULL, &json) == COORD_OK) {
        char pointer[16];

        snprintf(pointer, sizeof pointer, "/m/%zu/u", cursor - 1);
        assert_int_equal(coord_document_set(document, pointer, coord_slice_of("[]")), COORD_OK);
    }
    assert_int_equal(cursor, 3);
    assert_reads(document, "{\"m\":[{\"u\":[]}, {\"u\":[]}, {\"u\":[]}]}");
    coord_document_free(document);
}

static void walking_two_containers_in_turn_mixes_nothing_up(void **state)
{
    coord_document *document = parse("{\"a\":[1,2,3],\"b\":{\"x\":4,\"y\":5}}");
    static const char *const want[] = {"1", "4", "2", "5"};
    size_t cursors[2] = {0, 0};
    coord_slice json;

    (void)state;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(coord_document_next(document, i % 2 ? "/b" : "/a", &cursors[i % 2], NULL, &json), COORD_OK);
        assert_slice(json, want[i]);
    }
    assert_int_equal(coord_document_set(document, "/a", coord_slice_of("[7,8,9]")), COORD_OK);
    assert_int_equal(coord_document_next(document, "/a", &cursors[0], NULL, &json), COORD_OK);
    assert_slice(json, "9");
    coord_document_free(document);
}

static void clones_do_not_see_each_others_edits(void **state)
{
    coord_document *document = parse("{\"a\":{\"b\":1},\"c\":2}");
    coord_document *one;
    coord_document *two;

    (void)state;
    assert_int_equal(coord_document_set(document, "/a/x", coord_slice_of("{\"y\":3}")), COORD_OK);
    one = coord_document_clone_new(document);
    two = coord_document_clone_new(one);
    assert_int_equal(coord_document_set(one, "/a/x/y", coord_slice_of("4")), COORD_OK);
    assert_int_equal(coord_document_remove(two, "/a/b"), COORD_OK);
    assert_int_equal(coord_document_remove(document, "/c"), COORD_OK);
    assert_reads(document, "{\"a\":{\"b\":1,\"x\":{\"y\":3}}}");
    assert_reads(one, "{\"a\":{\"b\":1,\"x\":{\"y\":4}},\"c\":2}");
    assert_reads(two, "{\"a\":{\"x\":{\"y\":3}},\"c\":2}");
    coord_document_free(document);
    coord_document_free(one);
    assert_reads(two, "{\"a\":{\"x\":{\"y\":3}},\"c\":2}");
    coord_document_free(two);
}

static void untouched_text_is_one_piece_and_edits_are_marked(void **state)
{
    coord_document *document = parse(" {\"a\":1, \"b\":[1,2], \"c\":3} ");
    coord_slice pieces[8];
    bool edited[8];

    (void)state;
    assert_int_equal(coord_document_pieces(document, pieces, edited, 8), 1);
    assert_false(edited[0]);
    assert_int_equal(coord_document_set(document, "/b/1", coord_slice_of("77")), COORD_OK);
    assert_int_equal(coord_document_pieces(document, NULL, NULL, 0), 3);
    assert_int_equal(coord_document_pieces(document, pieces, edited, 2), 3);
    assert_slice(pieces[0], " {\"a\":1, \"b\":[1,");
    assert_slice(pieces[1], "77");
    assert_false(edited[0]);
    assert_true(edited[1]);
    coord_document_free(document);
}

static void a_failed_set_leaves_earlier_slices_valid(void **state)
{
    coord_document *document = parse("{\"a\":{\"b\":1},\"c\":2}");
    coord_slice json;

    (void)state;
    assert_int_equal(coord_document_set(document, "/a/d", coord_slice_of("2")), COORD_OK);
    assert_int_equal(coord_document_get(document, "/a", &json), COORD_OK);
    assert_int_equal(coord_document_set(document, "/a/d", coord_slice_of("}")), COORD_INVALID);
    assert_int_equal(coord_document_set(document, "/c", coord_slice_of("3")), COORD_OK);
    assert_slice(json, "{\"b\":1,\"d\":2}");
    coord_document_free(document);
}

static char *nested(size_t depth)
{
    char *text = malloc(2 * depth + 1);

    assert_non_null(text);
    memset(text, '[', depth);
    memset(text + depth, ']', depth);
    text[2 * depth] = '\0';
    return text;
}

static void edits_cannot_nest_deeper_than_parsing_allows(void **state)
{
    char *deepest = nested(512);
    char *inner = nested(511);
    coord_document *document = parse("{\"a\":1}");
    char pointer[2 * 511 + 8] = "/a";

    (void)state;
    assert_int_equal(coord_document_set(document, "/a", coord_slice_of(deepest)), COORD_INVALID);
    assert_int_equal(coord_document_set(document, "/a", coord_slice_of(inner)), COORD_OK);
    for (size_t i = 0; i < 510; i++)
        strcat(pointer, "/0");
    strcat(pointer, "/-");
    assert_int_equal(coord_document_set(document, pointer, coord_slice_of("[]")), COORD_INVALID);
    assert_int_equal(coord_document_set(document, pointer, coord_slice_of("5")), COORD_OK);
    pointer[strlen(pointer) - 1] = '0';
    assert_int_equal(coord_document_type(document, pointer), COORD_JSON_NUMBER);
    assert_int_equal(coord_document_remove(document, pointer), COORD_OK);
    coord_document_free(document);
    free(deepest);
    free(inner);
}

static void numbers_and_names_beyond_any_range_survive_an_edit_elsewhere(void **state)
{
    static const char text[] =
        "{\"seed\":9007199254740993,\"x\":[18446744073709551616,-9223372036854775809,-0,1E400,0.1,1.0,"
        "1234567890123456789012345678901234567890],\"a\\u0000x\":1,\"a\":2,\"zebra\":{},\"apple\":{}}";
    coord_document *document = parse(text);
    coord_document *same;

    (void)state;
    assert_int_equal(coord_document_set(document, "/stream", coord_slice_of("false")), COORD_OK);
    same = coord_document_clone_new(document);
    assert_int_equal(coord_document_remove(same, "/stream"), COORD_OK);
    assert_reads(same, text);
    coord_document_free(same);
    coord_document_free(document);
}

static void what_is_not_json_is_refused_with_place_and_reason(void **state)
{
    size_t offset = 0;
    const char *reason = NULL;

    (void)state;
    assert_null(coord_document_parse_new(coord_slice_of("{\"a\":1,}"), &offset, &reason));
    assert_int_equal(offset, 7);
    assert_non_null(reason);
    assert_null(coord_document_parse_new((coord_slice){NULL, 0}, NULL, NULL));
    coord_document_free(NULL);
}

static void every_member_of_a_large_object_and_array_is_found(void **state)
{
    enum { MANY = 3000 };
    char *text = malloc(MANY * 40);
    size_t size = 0;
    coord_document *document;
    char pointer[32];
    uint64_t value;

    (void)state;
    assert_non_null(text);
    size += (size_t)sprintf(text, "{\"list\":[0");
    for (int i = 1; i < MANY; i++)
        size += (size_t)sprintf(text + size, ", %d", i);
    text[size++] = ']';
    for (int i = 0; i < MANY; i++)
        size += (size_t)sprintf(text + size, ",\"k%d\":%d", i, i);
    memcpy(text + size, "}", 2);
    document = parse(text);
    for (int i = MANY - 1; i >= 0; i -= 7) {
        sprintf(pointer, "/k%d", i);
        assert_int_equal(coord_document_get_count(document, pointer, &value), COORD_OK);
        assert_int_equal(value, i);
        sprintf(pointer, "/list/%d", i);
        assert_int_equal(coord_document_get_count(document, pointer, &value), COORD_OK);
        assert_int_equal(value, i);
        assert_int_equal(coord_document_set(document, pointer, coord_slice_of("7")), COORD_OK);
    }
    assert_int_equal(coord_document_count(document, "/list"), MANY);
    assert_int_equal(coord_document_count(document, ""), MANY + 1);
    for (int i = 0; i < MANY; i++) {
        sprintf(pointer, "/list/%d", i);
        assert_int_equal(coord_document_get_count(document, pointer, &value), COORD_OK);
        assert_int_equal(value, (MANY - 1 - i) % 7 == 0 ? 7 : i);
    }
    coord_document_free(document);
    free(text);
}

static bool holds_x(void *context, coord_slice name)
{
    ++*(size_t *)context;
    return memchr(name.data, 'x', name.size) != NULL;
}

static void members_that_a_test_picks_go_in_one_pass(void **state)
{
    static const struct {
        const char *text, *pointer, *want;
        size_t asked;
        coord_status status;
    } rows[] = {
        {"{\"x\":1,\"a\":2 , \"x\":3,\"\\u0078\":4}", "", "{\"a\":2}", 4, COORD_OK},
        {"{\"x\":1}", "", "{}", 1, COORD_OK},
        {"{\"a\":1, \"b\" : 2}", "", "{\"a\":1, \"b\" : 2}", 2, COORD_OK},
        {"{\"o\":{\"a\":[1],\"ax\":{},\"b\":2}}", "/o", "{\"o\":{\"a\":[1],\"b\":2}}", 3, COORD_OK},
        {"{\"o\":[\"x\"]}", "/o", "{\"o\":[\"x\"]}", 0, COORD_OK},
        {"{\"o\":1}", "/p", "{\"o\":1}", 0, COORD_OK},
        {"{\"o\":{\"x\":1},\"o\":{\"x\":2}}", "/o", "{\"o\":{\"x\":1},\"o\":{\"x\":2}}", 0, COORD_REPEATED},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        coord_document *document = coord_document_parse_new(coord_slice_of(rows[i].text), NULL, NULL);
        coord_slice json;
        size_t asked = 0;

        print_message("  %s\n", rows[i].text);
        assert_int_equal(document_remove_where(document, rows[i].pointer, holds_x, &asked), rows[i].status);
        assert_int_equal(asked, rows[i].asked);
        assert_int_equal(coord_document_text(document, &json), COORD_OK);
        assert_true(coord_slice_is(json, rows[i].want));
        coord_document_free(document);
    }
}

/* Edited, added and untouched members are numbered in the order in which they read. */
static void picked_members_go_whether_edited_or_added(void **state)
{
    coord_document *document =
        coord_document_parse_new(coord_slice_of("{\"a\":1,\"x\":2,\"b\":3,\"x2\":4}"), NULL, NULL);
    coord_slice json;
    size_t asked = 0;

    (void)state;
    assert_int_equal(coord_document_set(document, "/x", coord_slice_of("5")), COORD_OK);
    assert_int_equal(coord_document_set(document, "/b", coord_slice_of("6")), COORD_OK);
    assert_int_equal(coord_document_set(document, "/x3", coord_slice_of("7")), COORD_OK);
    assert_int_equal(coord_document_set(document, "/c", coord_slice_of("8")), COORD_OK);
    assert_int_equal(document_remove_where(document, "", holds_x, &asked), COORD_OK);
    assert_int_equal(asked, 6);
    assert_int_equal(coord_document_text(document, &json), COORD_OK);
    assert_true(coord_slice_is(json, "{\"a\":1,\"b\":6,\"c\":8}"));
    coord_document_free(document);
}

static void bytes_taken_over_stay_where_they_are_for_all_clones(void **state)
{
    static const char text[] = " {\"a\":[1, 2],\"b\":1.0} ";
    struct buffer taken = {0};
    const char *place;
    coord_document *document, *clone;
    coord_slice json;
    const char *reason = NULL;
    size_t offset = 0;

    (void)state;
    assert_true(buffer_append_text(&taken, text));
    place = taken.data;
    document = document_adopt_new(&taken, &offset, &reason);
    assert_non_null(document);
    assert_null(taken.data);
    clone = coord_document_clone_new(document);
    coord_document_free(document);
    assert_int_equal(coord_document_get(clone, "/b", &json), COORD_OK);
    assert_ptr_equal(json.data, place + (strstr(text, "1.0") - text));
    assert_int_equal(coord_document_set(clone, "/a", coord_slice_of("3")), COORD_OK);
    assert_int_equal(coord_document_text(clone, &json), COORD_OK);
    assert_true(coord_slice_is(json, " {\"a\":3,\"b\":1.0} "));
    coord_document_free(clone);

    assert_true(buffer_append_text(&taken, "{\"a\":1,}"));
    assert_null(document_adopt_new(&taken, &offset, &reason));
    assert_true(coord_slice_is(buffer_slice(&taken), "{\"a\":1,}"));
    assert_int_equal(offset, 7);
    assert_non_null(reason);
    buffer_release(&taken);
    assert_null(document_adopt_new(&taken, NULL, NULL));
}

/* As token ids are: set once, and the same bytes in every leg. */
static void one_text_may_stand_in_several_documents(void **state)
{
    struct json_text *ids = json_text_piece_new(coord_slice_of("[1,2]"));
    coord_document *document = coord_document_parse_new(coord_slice_of("{\"a\":null,\"n\":{}}"), NULL, NULL);
    coord_document *clone = coord_document_clone_new(document);
    coord_slice first, second;
    char deep[2 * 512 + 1] = "";

    (void)state;
    assert_int_equal(document_set_flat(document, "/a", ids), COORD_OK);
    assert_int_equal(document_set_flat(clone, "/n/ids", ids), COORD_OK);
    assert_int_equal(document_set_flat(clone, "/absent/ids", ids), COORD_ABSENT);
    assert_int_equal(document_set_flat(clone, "a", ids), COORD_INVALID);
    for (size_t i = 0; i < 512; i++)
        strcat(deep, "/a");
    assert_int_equal(document_set_flat(clone, deep, ids), COORD_INVALID);
    json_text_unref(ids);
    assert_int_equal(coord_document_get(document, "/a", &first), COORD_OK);
    assert_int_equal(coord_document_get(clone, "/n/ids", &second), COORD_OK);
    assert_ptr_equal(first.data, second.data);
    coord_document_free(document);
    assert_int_equal(coord_document_set(clone, "/n/ids/1", coord_slice_of("9")), COORD_OK);
    assert_int_equal(coord_document_text(clone, &first), COORD_OK);
    assert_true(coord_slice_is(first, "{\"a\":null,\"n\":{\"ids\":[1,9]}}"));
    coord_document_free(clone);
}

/* Clones share what was made of an edited value: neither an edit nor the end of one of them takes it from the other. */
static void a_slice_outlives_edits_elsewhere_and_clones(void **state)
{
    coord_document *document =
        coord_document_parse_new(coord_slice_of("{\"o\":{\"a\":1,\"b\":2},\"c\":3}"), NULL, NULL);
    coord_document *clone;
    coord_slice ours, theirs, json;

    (void)state;
    assert_int_equal(coord_document_set(document, "/o/a", coord_slice_of("[7]")), COORD_OK);
    assert_int_equal(coord_document_get(document, "/o", &ours), COORD_OK);
    clone = coord_document_clone_new(document);
    assert_int_equal(coord_document_get(clone, "/o", &theirs), COORD_OK);
    assert_int_equal(coord_document_set(document, "/c", coord_slice_of("4")), COORD_OK);
    coord_document_free(clone);
    assert_true(coord_slice_is(ours, "{\"a\":[7],\"b\":2}"));
    clone = coord_document_clone_new(document);
    assert_int_equal(coord_document_get(clone, "/o", &theirs), COORD_OK);
    assert_int_equal(coord_document_set(document, "/o/b", coord_slice_of("5")), COORD_OK);
    coord_document_free(document);
    assert_true(coord_slice_is(theirs, "{\"a\":[7],\"b\":2}"));
    assert_int_equal(coord_document_text(clone, &json), COORD_OK);
    assert_true(coord_slice_is(json, "{\"o\":{\"a\":[7],\"b\":2},\"c\":4}"));
    coord_document_free(clone);
}

/* Names are told apart by their bytes unescaped, whether they stand in the text, in an edited member or in an added one. */
static void names_are_compared_unescaped_wherever_they_stand(void **state)
{
    coord_document *document = coord_document_parse_new(
        coord_slice_of("{\"a\\\\\":1,\"b\\u0063\":2,\"\\u00e9\":3,\"d\":4,\"\":5}"), NULL, NULL);
    static const struct {
        const char *pointer, *value;
    } rows[] = {{"/a\\", "1"}, {"/bc", "2"},    {"/\xc3\xa9", "3"}, {"/d", "4"},
                {"/", "5"},    {"/n\"\\", "6"}, {"/\xc3\xa8", "7"}};
    static const char *const others[] = {"/a\\\\", "/b\\u0063", "/\\u00e9", "/D", "/n\\\"\\\\", "/dd", "/a"};
    coord_slice json;

    (void)state;
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < ROWS(rows); i++) {
            if (round == 0 && i >= 5)
                continue;
            assert_int_equal(coord_document_get(document, rows[i].pointer, &json), COORD_OK);
            assert_true(coord_slice_is(json, rows[i].value));
        }
        for (size_t i = 0; i < ROWS(others); i++)
            assert_int_equal(coord_document_type(document, others[i]), COORD_JSON_ABSENT);
        for (size_t i = 0; i < ROWS(rows); i++)
            assert_int_equal(coord_document_set(document, rows[i].pointer, coord_slice_of(rows[i].value)), COORD_OK);
    }
    assert_int_equal(coord_document_text(document, &json), COORD_OK);
    assert_true(coord_slice_is(
        json, "{\"a\\\\\":1,\"b\\u0063\":2,\"\\u00e9\":3,\"d\":4,\"\":5,\"n\\\"\\\\\":6,\"\xc3\xa8\":7}"));
    coord_document_free(document);
}

/* An index of few members is kept otherwise than one of many, and an added value's begins behind its key. */
static void members_of_added_objects_are_found_few_or_many(void **state)
{
    static const int counts[] = {0, 1, 15, 16, 17, 200};

    (void)state;
    for (size_t c = 0; c < ROWS(counts); c++) {
        coord_document *document = coord_document_parse_new(coord_slice_of("{\"a\":{}}"), NULL, NULL);
        char value[8192] = " {", pointer[32];
        size_t size = 2;
        coord_slice json;
        uint64_t number;

        for (int i = 0; i < counts[c]; i++)
            size += (size_t)snprintf(value + size, sizeof value - size, "%s \"m%d\" : %d", i ? "," : "", i, i);
        snprintf(value + size, sizeof value - size, "} ");
        assert_int_equal(coord_document_set(document, "/new", coord_slice_of(value)), COORD_OK);
        assert_int_equal(coord_document_set(document, "/a", coord_slice_of(value)), COORD_OK);
        for (int i = 0; i < counts[c]; i++) {
            snprintf(pointer, sizeof pointer, "/new/m%d", i);
            assert_int_equal(coord_document_get_count(document, pointer, &number), COORD_OK);
            assert_int_equal(number, i);
            snprintf(pointer, sizeof pointer, "/a/m%d", i);
            assert_int_equal(coord_document_get_count(document, pointer, &number), COORD_OK);
            assert_int_equal(number, i);
        }
        assert_int_equal(coord_document_count(document, "/new"), counts[c]);
        assert_int_equal(coord_document_get(document, "/new", &json), COORD_OK);
        assert_int_equal(json.size, size);
        assert_memory_equal(json.data, value + 1, json.size);
        coord_document_free(document);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(edits_keep_all_other_bytes),
        cmocka_unit_test(an_edit_that_cannot_be_made_says_why_and_changes_nothing),
        cmocka_unit_test(values_are_found_and_told_apart),
        cmocka_unit_test(strings_come_unescaped),
        cmocka_unit_test(a_count_is_digits_up_to_2_to_the_53),
        cmocka_unit_test(a_bool_is_true_or_false),
        cmocka_unit_test(strings_and_integers_are_written_as_json),
        cmocka_unit_test(walking_gives_members_in_order_edits_included),
        cmocka_unit_test(elements_may_be_edited_while_walking_the_array),
        cmocka_unit_test(walking_two_containers_in_turn_mixes_nothing_up),
        cmocka_unit_test(clones_do_not_see_each_others_edits),
        cmocka_unit_test(untouched_text_is_one_piece_and_edits_are_marked),
        cmocka_unit_test(a_failed_set_leaves_earlier_slices_valid),
        cmocka_unit_test(edits_cannot_nest_deeper_than_parsing_allows),
        cmocka_unit_test(numbers_and_names_beyond_any_range_survive_an_edit_elsewhere),
        cmocka_unit_test(what_is_not_json_is_refused_with_place_and_reason),
        cmocka_unit_test(every_member_of_a_large_object_and_array_is_found),
        cmocka_unit_test(members_that_a_test_picks_go_in_one_pass),
        cmocka_unit_test(picked_members_go_whether_edited_or_added),
        cmocka_unit_test(bytes_taken_over_stay_where_they_are_for_all_clones),
        cmocka_unit_test(one_text_may_stand_in_several_documents),
        cmocka_unit_test(a_slice_outlives_edits_elsewhere_and_clones),
        cmocka_unit_test(names_are_compared_unescaped_wherever_they_stand),
        cmocka_unit_test(members_of_added_objects_are_found_few_or_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
