/* Unit test of path.c. */
#include "http/path.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void assert_text(coord_slice slice, const char *text)
{
    if (!coord_slice_is(slice, text))
        fail_msg("\"%.*s\" is not \"%s\"", COORD_FMT(slice), text);
}

static void a_target_is_split_into_path_and_query(void **state)
{
    static const struct {
        const char *target, *path, *query;
    } rows[] = {
        {"/", "/", ""},
        {"", "", ""},
        {"*", "*", ""},
        {"/a?b=c", "/a", "b=c"},
        {"/a?", "/a", ""},
        {"/a?b?c", "/a", "b?c"},
        {"/a#f?b", "/a", ""},
        {"/a?b#f", "/a", "b"},
        {"http://host/a?b", "/a", "b"},
        {"http://host:80", "", ""},
        {"http://host?b", "", "b"},
        {"HTTPS://[::1]:80/a", "/a", ""},
        {"/http://x/y", "/http://x/y", ""},
        {"/a://b?c", "/a://b", "c"},
        {"host:443", "host:443", ""},
        {"//a/b", "//a/b", ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        coord_slice query;

        assert_text(path_of_target(coord_slice_of(rows[i].target), &query), rows[i].path);
        assert_text(query, rows[i].query);
        assert_text(path_of_target(coord_slice_of(rows[i].target), NULL), rows[i].path);
    }
}

static void a_path_is_cleaned_for_matching(void **state)
{
    static const struct {
        const char *path, *clean;
    } rows[] = {
        {"", "/"},
        {"/", "/"},
        {"//", "/"},
        {"/.", "/"},
        {"/..", "/"},
        {"/../..", "/"},
        {"/v1/chat", "/v1/chat"},
        {"/v1/chat/", "/v1/chat"},
        {"//v1///chat//", "/v1/chat"},
        {"/v1/./chat/.", "/v1/chat"},
        {"/v1/x/../chat", "/v1/chat"},
        {"/x/../../v1/chat/..", "/v1"},
        {"/.../..a/a..", "/.../..a/a.."},
        {"v1/chat", "/v1/chat"},
        {"/v1%2Fchat/%2e%2e", "/v1%2Fchat/%2e%2e"},
        {"/a/b/../../c", "/c"},
    };
    struct arena arena = {0};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        coord_slice clean = path_clean(&arena, coord_slice_of(rows[i].path));

        assert_text(clean, rows[i].clean);
        assert_text(path_clean(&arena, clean), rows[i].clean);
    }
    arena_release(&arena);
}

static void only_visible_bytes_may_stand_in_a_target(void **state)
{
    (void)state;
    assert_false(path_target_valid(coord_slice_of("")));
    for (int c = 0; c < 256; c++) {
        char target[2] = {'/', (char)c};

        assert_int_equal(path_target_valid((coord_slice){target, 2}), (c >= 0x21 && c <= 0x7e) || c >= 0x80);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_target_is_split_into_path_and_query),
        cmocka_unit_test(a_path_is_cleaned_for_matching),
        cmocka_unit_test(only_visible_bytes_may_stand_in_a_target),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
