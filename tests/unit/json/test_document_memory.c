/*
 * Unit test of the document and the builder when memory is short: every allocation fails in turn, and nothing changes, leaks or
 * breaks. The program brings its own malloc and realloc, which fail on demand and otherwise go to the next ones.
 */
#include "json/members.h"
#include "runtime/blocks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define ROWS(table) (sizeof(table) / sizeof *(table))

static long left = -1; /* allocations until one fails; -1: none does */

/* A checker that is linked into the program has no next malloc that its free would know; gcc's libasan has. */
#if defined(__clang__)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define ONE_MALLOC
#endif
#elif defined(__SANITIZE_THREAD__)
#define ONE_MALLOC
#endif

#ifndef ONE_MALLOC
static bool fails(void)
{
    if (left < 0)
        return false;
    return left-- == 0;
}

void *malloc(size_t size)
{
    static void *(*next)(size_t);

    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "malloc");
    return fails() ? NULL : next(size);
}

void *realloc(void *memory, size_t size)
{
    static void *(*next)(void *, size_t);

    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "realloc");
    return fails() ? NULL : next(memory, size);
}
#endif

/* False under checkers that bring a malloc of their own, valgrind among them. */
static bool can_fail(void)
{
    coord_json *probe;
    bool failed;

    left = 0;
    probe = coord_json_new(); /* a bare malloc is optimised away */
    left = -1;
    failed = !probe;
    coord_json_free(probe);
    return failed;
}

static const char text[] = "{\"a\":{\"b\":[1,2,{\"c\":\"x\\n\"}]},\"d\":1,\"d\":2,\"e\\u0041\":[]}";

static coord_status set(coord_document *document)
{
    return coord_document_set(document, "/a/b/2/x~0", coord_slice_of("{\"y\":[1]}"));
}

static coord_status set_string(coord_document *document)
{
    return coord_document_set_string(document, "/a/b/1", coord_slice_of("\"\n"));
}

static coord_status set_flat(coord_document *document)
{
    struct json_text *ids = json_text_piece_new(coord_slice_of("[7,8]"));
    coord_status status = ids ? document_set_flat(document, "/a/b/2/c", ids) : COORD_NO_MEMORY;

    json_text_unref(ids);
    return status;
}

static coord_status insert(coord_document *document)
{
    return coord_document_insert(document, "/a/b", 1, coord_slice_of("true"));
}

static coord_status take_away(coord_document *document) { return coord_document_remove(document, "/a/b/1"); }

static coord_status take_all(coord_document *document)
{
    return coord_document_remove_all(document, "", coord_slice_of("d"), NULL);
}

static bool is_a_or_d(void *context, coord_slice name)
{
    (void)context;
    return coord_slice_is(name, "a") || coord_slice_is(name, "d") || coord_slice_is(name, "eB");
}

static coord_status take_some(coord_document *document) { return document_remove_where(document, "", is_a_or_d, NULL); }

static coord_status replace(coord_document *document)
{
    return coord_document_set(document, "", coord_slice_of("{\"z\":1}"));
}

static void an_edit_without_memory_changes_nothing(void **state)
{
    static const struct {
        const char *name;
        coord_status (*edit)(coord_document *document);
        const char *want;
    } rows[] = {
        {"set", set, "{\"a\":{\"b\":[1,2,{\"c\":\"x\\n\",\"x~\":{\"y\":[1]}}]},\"d\":1,\"d\":2,\"e\\u0041\":[]}"},
        {"set a string", set_string,
         "{\"a\":{\"b\":[1,\"\\\"\\n\",{\"c\":\"x\\n\"}]},\"d\":1,\"d\":2,\"e\\u0041\":[]}"},
        {"set a shared text", set_flat, "{\"a\":{\"b\":[1,2,{\"c\":[7,8]}]},\"d\":1,\"d\":2,\"e\\u0041\":[]}"},
        {"insert", insert, "{\"a\":{\"b\":[1,true,2,{\"c\":\"x\\n\"}]},\"d\":1,\"d\":2,\"e\\u0041\":[]}"},
        {"remove", take_away, "{\"a\":{\"b\":[1,{\"c\":\"x\\n\"}]},\"d\":1,\"d\":2,\"e\\u0041\":[]}"},
        {"remove all", take_all, "{\"a\":{\"b\":[1,2,{\"c\":\"x\\n\"}]},\"e\\u0041\":[]}"},
        {"remove some", take_some, "{\"e\\u0041\":[]}"},
        {"the whole", replace, "{\"z\":1}"},
    };

    (void)state;
    for (size_t r = 0; r < ROWS(rows); r++) {
        long refused = 0;

        print_message("  %s\n", rows[r].name);
        for (long allocations = 0;; allocations++) {
            coord_document *document = coord_document_parse_new(coord_slice_of(text), NULL, NULL);
            coord_status status;
            coord_slice json;
            bool enough;

            assert_non_null(document);
            left = allocations;
            status = rows[r].edit(document);
            enough = left >= 0;
            left = -1;
            assert_true(status == COORD_OK || status == COORD_NO_MEMORY);
            assert_int_equal(coord_document_text(document, &json), COORD_OK);
            assert_true(coord_slice_is(json, status == COORD_OK ? rows[r].want : text));
            coord_document_free(document);
            assert_true(allocations < 100);
            refused += status != COORD_OK;
            if (enough)
                break;
        }
        assert_int_equal(refused > 0, can_fail());
    }
}

static void parsing_without_memory_says_so(void **state)
{
    (void)state;
    for (long allocations = 0;; allocations++) {
        const char *reason = NULL;
        coord_document *document;

        left = allocations;
        document = coord_document_parse_new(coord_slice_of(text), NULL, &reason);
        left = -1;
        if (document) {
            coord_document_free(document);
            break;
        }
        assert_string_equal(reason, "memory is short");
        assert_true(allocations < 100);
    }
}

static void what_cannot_be_taken_over_stays_the_callers(void **state)
{
    (void)state;
    for (long allocations = 0;; allocations++) {
        const char *reason = NULL;
        struct buffer taken = {0};
        coord_document *document;

        assert_true(buffer_append_text(&taken, text));
        left = allocations;
        document = document_adopt_new(&taken, NULL, &reason);
        left = -1;
        if (document) {
            coord_document_free(document);
            break;
        }
        assert_string_equal(reason, "memory is short");
        assert_true(coord_slice_is(buffer_slice(&taken), text));
        buffer_release(&taken);
        assert_true(allocations < 100);
    }
}

static void reading_and_cloning_without_memory_can_be_tried_again(void **state)
{
    coord_document *document = coord_document_parse_new(coord_slice_of(text), NULL, NULL);
    long allocations = 0;
    bool done = false;

    (void)state;
    assert_int_equal(set(document), COORD_OK);
    assert_int_equal(insert(document), COORD_OK);
    while (!done) {
        coord_document *again = coord_document_parse_new(coord_slice_of(text), NULL, NULL);
        coord_document *clone;
        coord_slice slice;
        coord_slice key;
        size_t cursor = 3;

        assert_int_equal(set(again), COORD_OK);
        left = allocations++;
        done = coord_document_get(again, "/a", &slice) == COORD_OK;
        done = coord_document_get_string(again, "/a/b/2/c", &slice) == COORD_OK && done;
        done = coord_document_type(again, "/a/b/2/x~0") == COORD_JSON_OBJECT && done;
        done = coord_document_next(again, "", &cursor, &key, &slice) == COORD_OK && done;
        done = coord_document_text(again, &slice) == COORD_OK && done;
        clone = coord_document_clone_new(again);
        left = -1;
        done = done && clone;
        coord_document_free(clone);
        assert_int_equal(coord_document_get_string(again, "/a/b/2/c", &slice), COORD_OK);
        assert_true(coord_slice_is(slice, "x\n"));
        coord_document_free(again);
        assert_true(allocations < 100);
    }
    coord_document_free(document);
}

static void a_builder_without_memory_ends_with_no_memory(void **state)
{
    coord_status status = COORD_NO_MEMORY;

    (void)state;
    for (long allocations = 0; status != COORD_OK; allocations++) {
        coord_json *json;
        coord_slice built;

        left = allocations;
        json = coord_json_new();
        coord_json_array(json);
        for (int i = 0; i < 100; i++)
            coord_json_string(json, coord_slice_of("0123456789"));
        coord_json_close(json);
        status = coord_json_end(json, &built);
        left = -1;
        assert_true(status == COORD_OK || status == COORD_NO_MEMORY);
        coord_json_free(json);
        assert_true(allocations < 100);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_edit_without_memory_changes_nothing),
        cmocka_unit_test(parsing_without_memory_says_so),
        cmocka_unit_test(what_cannot_be_taken_over_stays_the_callers),
        cmocka_unit_test(reading_and_cloning_without_memory_can_be_tried_again),
        cmocka_unit_test(a_builder_without_memory_ends_with_no_memory),
    };

#ifndef ONE_MALLOC
    block_set_refusal(fails); /* kept ones come without malloc */
#endif
    if (!can_fail())
        print_message("memory cannot be made short under this checker\n");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
