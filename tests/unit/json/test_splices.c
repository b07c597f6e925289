/* The places of a document's edits (json/splices.h). */
#include "json/splices.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <stdio.h>

struct told {
    char text[512];
    size_t size;
};

static void note(void *context, coord_slice pointer)
{
    struct told *told = context;

    told->size += (size_t)snprintf(told->text + told->size, sizeof told->text - told->size, "%s\"%.*s\"",
                                   told->size ? " " : "", COORD_FMT(pointer));
}

static coord_document *parse(const char *text)
{
    coord_document *document = coord_document_parse_new(coord_slice_of(text), NULL, NULL);

    assert_non_null(document);
    return document;
}

struct edit {
    char how; /* s: set, r: remove, i: insert before the element whose index `value` begins with, 0: none */
    const char *at, *value;
};

static void apply(coord_document *document, const struct edit *edit)
{
    switch (edit->how) {
    case 's':
        assert_int_equal(coord_document_set(document, edit->at, coord_slice_of(edit->value)), COORD_OK);
        break;
    case 'r':
        assert_int_equal(coord_document_remove(document, edit->at), COORD_OK);
        break;
    case 'i':
        assert_int_equal(
            coord_document_insert(document, edit->at, (size_t)(edit->value[0] - '0'), coord_slice_of(edit->value + 2)),
            COORD_OK);
        break;
    default:
        break;
    }
}

static void every_edit_is_told_by_its_place(void **state)
{
    static const struct {
        const char *name, *text;
        struct edit edits[4];
        const char *told;
    } rows[] = {
        {"nothing", "{\"a\":1}", {{0}}, ""},
        {"a value replaced", "{\"a\":1, \"b\":2}", {{'s', "/b", "3"}}, "\"/b\""},
        {"the same bytes put in again are a splice", "{\"a\":1}", {{'s', "/a", "1"}}, "\"/a\""},
        {"a member added", "{\"a\":1}", {{'s', "/b", "3"}}, "\"/b\""},
        {"one added to nothing", "{}", {{'s', "/b", "3"}}, "\"/b\""},
        {"the first removed", "{\"a\":1,\"b\":2,\"c\":3}", {{'r', "/a", NULL}}, "\"/a\""},
        {"one in the middle removed", "{\"a\":1, \"b\" : 2 ,\"c\":3}", {{'r', "/b", NULL}}, "\"/b\""},
        {"the last removed", "{\"a\":1,\"b\":2,\"c\":3 }", {{'r', "/c", NULL}}, "\"/c\""},
        {"all removed", "{\"a\":1,\"b\":2}", {{'r', "/a", NULL}, {'r', "/b", NULL}}, "\"/a\" \"/b\""},
        {"removed and added again", "{\"a\":1,\"b\":2}", {{'r', "/a", NULL}, {'s', "/a", "2"}}, "\"/a\" \"/a\""},
        {"below",
         "{\"a\":{\"b\":{\"c\":1,\"d\":2}},\"e\":5}",
         {{'s', "/a/b/c", "2"}, {'r', "/a/b/d", NULL}},
         "\"/a/b/c\" \"/a/b/d\""},
        {"two branches in the order of the text",
         "{\"a\":{\"x\":1},\"b\":[{\"y\":1}]}",
         {{'s', "/b/0/y", "2"}, {'s', "/a/x", "2"}, {'s', "/c", "2"}},
         "\"/a/x\" \"/b/0/y\" \"/c\""},
        {"edited inside of what was put in", "{\"a\":1}", {{'s', "/a", "{\"b\":1}"}, {'s', "/a/b", "2"}}, "\"/a\""},
        {"edited inside of what was added", "{}", {{'s', "/a", "{\"b\":1}"}, {'r', "/a/b", NULL}}, "\"/a\""},
        {"taken back where it had been edited", "{\"a\":{\"b\":1}}", {{'s', "/a/b", "2"}, {'r', "/a", NULL}}, "\"/a\""},
        {"an element appended", "[1,2]", {{'s', "/-", "3"}}, "\"/2\""},
        {"an element put in front", "[1,2]", {{'i', "", "0 9"}}, "\"/0\""},
        {"elements behind one put in have moved", "[1,2]", {{'i', "", "0 9"}, {'s', "/2", "7"}}, "\"/0\" \"/2\""},
        {"a removed element has its old index", "[1,2,3]", {{'r', "/0", NULL}, {'s', "/1", "7"}}, "\"/0\" \"/1\""},
        {"names are escaped",
         "{\"a/b\":1,\"c~d\":2,\"\\u0065\":3}",
         {{'s', "/a~1b", "2"}, {'r', "/c~0d", NULL}, {'s', "/e", "4"}},
         "\"/a~1b\" \"/c~0d\" \"/e\""},
        {"the whole replaced", "{\"a\":1}", {{'s', "", "{}"}}, "\"\""},
        {"white space and repeats elsewhere stay", " {\"r\":1,\"r\":2, \"k\" :\t1.0 } ", {{'s', "/k", "2"}}, "\"/k\""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        coord_document *received = parse(rows[i].text), *document = coord_document_clone_new(received);
        struct told told = {{0}, 0};

        assert_non_null(document);
        for (size_t e = 0; e < 4; e++)
            apply(document, &rows[i].edits[e]);
        assert_true(document_splices(document, received, note, &told));
        if (strcmp(told.text, rows[i].told) != 0)
            fail_msg("%s: told %s, not %s", rows[i].name, told.text, rows[i].told);
        coord_document_free(document);
        coord_document_free(received);
    }
}

static void a_clone_tells_the_edits_of_what_it_was_made_from(void **state)
{
    coord_document *received = parse("{\"a\":{\"b\":1},\"c\":2}"), *first, *second;
    struct told told = {{0}, 0};

    (void)state;
    assert_int_equal(coord_document_remove(received, "/c"), COORD_OK);
    first = coord_document_clone_new(received);
    assert_int_equal(coord_document_set(first, "/a/b", coord_slice_of("2")), COORD_OK);
    second = coord_document_clone_new(first);
    coord_document_free(first);
    assert_true(document_splices(second, received, note, &told));
    assert_string_equal(told.text, "\"/a/b\" \"/c\"");
    coord_document_free(second);
    coord_document_free(received);
}

static void a_document_of_its_own_is_one_splice(void **state)
{
    coord_document *received = parse("{\"a\":1}"), *own = parse("{\"a\":1}");
    struct told told = {{0}, 0};

    (void)state;
    assert_int_equal(coord_document_set(own, "/a", coord_slice_of("2")), COORD_OK);
    assert_true(document_splices(own, received, note, &told));
    assert_string_equal(told.text, "\"\"");
    coord_document_free(own);
    coord_document_free(received);
}

static void depth_is_no_matter(void **state)
{
    enum { DEEP = 500 };
    char text[8 * DEEP] = "", at[2 * DEEP + 1] = "";
    coord_document *received, *document;
    struct told told = {{0}, 0};

    (void)state;
    for (int i = 0; i < DEEP; i++)
        strcat(text, "[");
    for (int i = 0; i < DEEP; i++)
        strcat(text, "]");
    for (int i = 0; i < 200; i++)
        strcat(at, "/0");
    received = parse(text);
    document = coord_document_clone_new(received);
    assert_int_equal(coord_document_set(document, at, coord_slice_of("1")), COORD_OK);
    assert_true(document_splices(document, received, note, &told));
    assert_int_equal(told.size, 402);
    coord_document_free(document);
    coord_document_free(received);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_edit_is_told_by_its_place),
        cmocka_unit_test(a_clone_tells_the_edits_of_what_it_was_made_from),
        cmocka_unit_test(a_document_of_its_own_is_one_splice),
        cmocka_unit_test(depth_is_no_matter),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
