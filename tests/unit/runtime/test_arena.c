/* Unit test of arena.c: what it gives out stays, is aligned and zeroed, and goes back in one go. */
#include "runtime/arena.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

static void allocations_are_aligned_zeroed_and_stay_where_they_are(void **state)
{
    enum { COUNT = 2000 };
    static unsigned char *given[COUNT];
    static size_t sizes[COUNT];
    struct arena arena = {0};

    (void)state;
    srand(2);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < COUNT; i++) {
            sizes[i] = (size_t)rand() % (i % 100 == 0 ? 200000 : 300);
            given[i] = arena_alloc(&arena, sizes[i]);
            assert_non_null(given[i]);
            assert_int_equal((uintptr_t)given[i] % alignof(max_align_t), 0);
            for (size_t j = 0; j < sizes[i]; j++)
                assert_int_equal(given[i][j], 0);
            memset(given[i], (int)(i % 255) + 1, sizes[i]);
        }
        for (size_t i = 0; i < COUNT; i++)
            for (size_t j = 0; j < sizes[i]; j += 7)
                assert_int_equal(given[i][j], i % 255 + 1);
        arena_reset(&arena); /* the next round finds its memory zeroed again */
    }
    arena_release(&arena);
}

static void a_reset_arena_keeps_its_first_block_for_the_next_user(void **state)
{
    struct arena arena = {0};
    void *first;

    (void)state;
    first = arena_alloc(&arena, 100);
    for (int i = 0; i < 1000; i++)
        assert_non_null(arena_alloc(&arena, 100));
    assert_non_null(arena_alloc(&arena, 1 << 20));
    arena_reset(&arena);
    assert_int_equal(arena.used, 0);
    assert_ptr_equal(arena_alloc(&arena, 100), first);
    arena_release(&arena);
    assert_null(arena.first);
    arena_release(&arena); /* empty and ready, so this is allowed too */
}

static bool lies_in(const void *memory, size_t size, const char *data)
{
    uintptr_t begin = (uintptr_t)memory, at = (uintptr_t)data;

    return at >= begin && at < begin + size;
}

static void lent_memory_is_the_next_block_and_stays_its_owners(void **state)
{
    static const struct {
        const char *name;
        size_t lent, asked;
        bool used;
    } rows[] = {
        {"room for it", 2048, 1000, true},
        {"too little is left alone", 287, 8, false},
        {"too little for what is asked", 512, 1000, false},
        {"large allocations are separate", 2048, 1 << 17, false},
    };
    alignas(max_align_t) char memory[2048];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct arena arena = {0};
        char *data, *last;

        print_message("  %s\n", rows[i].name);
        memset(memory, 'x', sizeof memory);
        assert_false(lies_in(memory, sizeof memory, arena_alloc(&arena, 700)));
        arena_lend(&arena, memory, rows[i].lent);
        data = arena_alloc(&arena, rows[i].asked);
        assert_non_null(data);
        assert_int_equal(lies_in(memory, sizeof memory, data), rows[i].used);
        assert_int_equal((uintptr_t)data % alignof(max_align_t), 0);
        for (size_t j = 0; j < rows[i].asked; j++)
            assert_int_equal(data[j], 0);
        memset(data, 'y', rows[i].asked);
        do /* until it is full: then a block of its own follows */
            last = arena_alloc(&arena, 96);
        while (lies_in(memory, sizeof memory, last));
        assert_non_null(last);
        for (size_t j = rows[i].lent; j < sizeof memory; j++)
            assert_int_equal(memory[j], 'x');
        arena_release(&arena); /* a checker would tell if it were freed */
        memset(memory, 'z', sizeof memory);
    }
}

static void after_a_reset_nothing_is_lent(void **state)
{
    alignas(max_align_t) char memory[2048];

    (void)state;
    for (int i = 0; i < 4; i++) {
        bool first = i % 2,
             used = i / 2; /* the lent block is the first one, or it is not; it was used, or it was not */
        struct arena arena = {0};

        if (!first)
            assert_non_null(arena_alloc(&arena, 700));
        arena_lend(&arena, memory, sizeof memory);
        if (used)
            assert_true(lies_in(memory, sizeof memory, arena_alloc(&arena, 100)));
        arena_reset(&arena);
        for (int j = 0; j < 30; j++)
            assert_false(lies_in(memory, sizeof memory, arena_alloc(&arena, 100)));
        arena_release(&arena);
    }
}

static void *use_an_arena(void *unused)
{
    struct arena arena = {0};

    (void)unused;
    for (int i = 0; i < 1000; i++)
        assert_non_null(arena_alloc(&arena, 100));
    arena_release(&arena);
    return NULL;
}

static void what_one_arena_gives_back_another_of_the_thread_finds_zeroed(void **state)
{
    struct arena one = {0}, other = {0};
    pthread_t thread;
    char *data;

    (void)state;
    for (int i = 0; i < 1000; i++) {
        data = arena_alloc(&one, 100);
        assert_non_null(data);
        memset(data, 'x', 100);
    }
    assert_int_equal(pthread_create(&thread, NULL, use_an_arena, NULL), 0); /* its blocks are its own, and go with it */
    pthread_join(thread, NULL);
    arena_reset(&one);
    for (int i = 0; i < 1000; i++) {
        data = arena_alloc(&other, 100);
        assert_non_null(data);
        for (int j = 0; j < 100; j++)
            assert_int_equal(data[j], 0);
        memset(data, 'y', 100);
    }
    for (int i = 0; i < 1000; i++) {
        data = arena_alloc(&one, 10);
        assert_non_null(data);
        memset(data, 'z', 10);
    }
    arena_release(&one);
    arena_release(&other);
}

static void an_arena_whose_first_user_was_large_works_after_a_reset(void **state)
{
    struct arena arena = {0};

    (void)state;
    assert_non_null(arena_alloc(&arena, 1 << 17));
    arena_reset(&arena);
    assert_non_null(arena_alloc(&arena, 10));
    arena_release(&arena);
}

static void what_is_handed_out_is_counted(void **state)
{
    struct arena arena = {0};

    (void)state;
    assert_non_null(arena_alloc(&arena, 1));
    assert_non_null(arena_alloc(&arena, 100000));
    assert_true(arena.used >= 100001 && arena.used < 100100);
    arena_release(&arena);
}

static void absurd_sizes_are_refused(void **state)
{
    static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 15, SIZE_MAX / 2};
    struct arena arena = {0};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        assert_null(arena_alloc(&arena, sizes[i]));
    assert_non_null(arena_alloc(&arena, 8));
    arena_release(&arena);
}

static void copies_end_in_a_nul_that_does_not_count(void **state)
{
    struct arena arena = {0};
    coord_slice source = COORD_SLICE("a\0b"), copy;

    (void)state;
    copy = arena_copy(&arena, source);
    assert_true(coord_slice_equal(copy, source));
    assert_ptr_not_equal(copy.data, source.data);
    assert_int_equal(copy.data[copy.size], '\0');
    copy = arena_copy(&arena, (coord_slice){0});
    assert_int_equal(copy.size, 0);
    assert_non_null(copy.data);
    assert_int_equal(copy.data[0], '\0');
    arena_release(&arena);
}

static void text_is_formatted(void **state)
{
    struct arena arena = {0};

    (void)state;
    assert_string_equal(arena_printf(&arena, "%s-%d", "step", 7), "step-7");
    assert_string_equal(arena_printf(&arena, "%s", ""), "");
    assert_int_equal(strlen(arena_printf(&arena, "%070000d", 1)), 70000);
    arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocations_are_aligned_zeroed_and_stay_where_they_are),
        cmocka_unit_test(a_reset_arena_keeps_its_first_block_for_the_next_user),
        cmocka_unit_test(lent_memory_is_the_next_block_and_stays_its_owners),
        cmocka_unit_test(after_a_reset_nothing_is_lent),
        cmocka_unit_test(what_one_arena_gives_back_another_of_the_thread_finds_zeroed),
        cmocka_unit_test(an_arena_whose_first_user_was_large_works_after_a_reset),
        cmocka_unit_test(what_is_handed_out_is_counted),
        cmocka_unit_test(absurd_sizes_are_refused),
        cmocka_unit_test(copies_end_in_a_nul_that_does_not_count),
        cmocka_unit_test(text_is_formatted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
