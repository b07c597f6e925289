/* Request ids: the client's when it may be used, else a fresh one. */
#include "pipeline/ids.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>

static struct arena arena;

static bool is_uuid(coord_slice id)
{
    if (id.size != ID_SIZE)
        return false;
    for (size_t i = 0; i < ID_SIZE; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        char at = id.data[i];

        if (dash ? at != '-' : !((at >= '0' && at <= '9') || (at >= 'a' && at <= 'f')))
            return false;
    }
    return id.data[14] == '4' && strchr("89ab", id.data[19]) != NULL;
}

static coord_slice id_with(const char *const *values, size_t *rejected)
{
    struct headers headers;

    headers_init(&headers, &arena);
    for (; *values; values++)
        assert_true(headers_add(&headers, coord_slice_of("X-Request-ID"), coord_slice_of(*values)));
    return id_of_request(&headers, &arena, rejected);
}

static int compare(const void *a, const void *b) { return memcmp(a, b, ID_SIZE + 1); }

static void *make_ids(void *argument)
{
    char(*ids)[ID_SIZE + 1] = argument;

    for (size_t i = 0; i < 2000; i++)
        id_fresh(ids[i]);
    return NULL;
}

static void fresh_ids_are_uuids_and_never_repeat(void **state)
{
    static char ids[4000][ID_SIZE + 1];
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, make_ids, ids), 0);
    make_ids(ids + 2000);
    pthread_join(thread, NULL);
    qsort(ids, 4000, sizeof ids[0], compare);
    for (size_t i = 0; i < 4000; i++) {
        assert_true(is_uuid(coord_slice_of(ids[i])));
        assert_true(i == 0 || strcmp(ids[i], ids[i - 1]) != 0);
    }
}

static void a_clients_id_is_kept_when_it_may_be_used(void **state)
{
    static char longest[129];
    const char *const kept[] = {"a", "ABC-123", "0", "-", longest};
    size_t rejected = 99;

    (void)state;
    memset(longest, 'x', 128);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        assert_true(coord_slice_is(id_with((const char *const[]){kept[i], NULL}, &rejected), kept[i]));
        assert_int_equal(rejected, 0);
    }
}

/* An exchange whose answer is out goes on without its connection, and the library's memory with it. */
static void a_clients_id_outlives_the_head_that_it_came_in(void **state)
{
    char head[] = "client-id";
    struct headers headers;
    coord_slice id;

    (void)state;
    headers_init(&headers, &arena);
    assert_true(headers_add_borrowed(&headers, coord_slice_of("x-request-id"), coord_slice_of(head)));
    id = id_of_request(&headers, &arena, NULL);
    memset(head, '?', sizeof head - 1);
    assert_true(coord_slice_is(id, "client-id"));
}

static void an_id_that_may_not_be_used_is_replaced_and_its_size_told(void **state)
{
    static char longer[130];
    const char *const refused[] = {"", "a b", "a_b", "a.b", "../etc", "a\tb", "ä", "<script>", longer};
    size_t rejected;

    (void)state;
    memset(longer, 'x', 129);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_true(is_uuid(id_with((const char *const[]){refused[i], NULL}, &rejected)));
        assert_int_equal(rejected, strlen(refused[i]));
    }
    assert_true(is_uuid(id_with((const char *const[]){"one", "two", NULL}, &rejected)));
    assert_int_equal(rejected, 3);
    assert_true(is_uuid(id_with((const char *const[]){NULL}, &rejected)));
    assert_int_equal(rejected, 0);
    assert_true(is_uuid(id_with((const char *const[]){"a b", NULL}, NULL)));
}

static int release(void **state)
{
    (void)state;
    arena_release(&arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fresh_ids_are_uuids_and_never_repeat),
        cmocka_unit_test(a_clients_id_is_kept_when_it_may_be_used),
        cmocka_unit_test(a_clients_id_outlives_the_head_that_it_came_in),
        cmocka_unit_test(an_id_that_may_not_be_used_is_replaced_and_its_size_told),
    };

    return cmocka_run_group_tests(tests, NULL, release);
}
