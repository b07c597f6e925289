/* Unit test of place.h: a place is put together whole, or there is none. */
#include "../../../plugins/common/place.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void a_place_is_the_objects_and_the_members(void **state)
{
    static const struct {
        const char *name, *above, *member, *wanted;
    } rows[] = {
        {"of the root", "", "/a", "/a"},
        {"of an object", "/kv_transfer_params", "/do_remote_decode", "/kv_transfer_params/do_remote_decode"},
        {"further down", "/a/b", "/c", "/a/b/c"},
    };
    char at[PLACE_SIZE];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        print_message("  %s\n", rows[i].name);
        assert_ptr_equal(place_of_member(at, rows[i].above, rows[i].member), at);
        assert_string_equal(at, rows[i].wanted);
    }
}

static void what_has_no_room_is_no_place(void **state)
{
    char above[PLACE_SIZE], at[PLACE_SIZE];

    (void)state;
    for (size_t size = PLACE_SIZE - 5; size < PLACE_SIZE; size++) {
        const char *place;

        memset(above, 'x', size);
        above[0] = '/';
        above[size] = '\0';
        memset(at, '!', sizeof at);
        place = place_of_member(at, above, "/m");
        if (size + 2 < PLACE_SIZE) {
            assert_ptr_equal(place, at);
            assert_int_equal(strlen(at), size + 2);
        } else {
            assert_null(place);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_place_is_the_objects_and_the_members),
        cmocka_unit_test(what_has_no_room_is_no_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
