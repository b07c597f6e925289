/* Unit test of blocks.c: what is given back serves the thread's next ones, up to a bound, and nothing mixes up. */
#include "runtime/blocks.h"
#include "runtime/fiber_checkers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void what_is_given_back_serves_the_next_of_about_its_size(void **state)
{
    static const struct {
        const char *name;
        size_t given, taken;
        bool same;
    } rows[] = {
        {"the same size", 448, 448, true},
        {"a little more", 449, 480, true},
        {"a little less", 480, 449, true},
        {"more than there is", 448, 449, false},
        {"the least", 1, 32, true},
        {"the largest that are kept", 1024, 993, true},
        {"larger ones are malloc's", 1025, 200, false},
    };

    (void)state;
    if (FIBER_ASAN)
        print_message("  skipped: under AddressSanitizer nothing is kept\n");
    for (size_t i = 0; !FIBER_ASAN && i < sizeof rows / sizeof *rows; i++) {
        void *given = block_take(rows[i].given), *taken;
        uintptr_t place = (uintptr_t)given;

        print_message("  %s\n", rows[i].name);
        assert_non_null(given);
        block_give(given, rows[i].given);
        taken = block_take(rows[i].taken);
        assert_int_equal((uintptr_t)taken == place, rows[i].same);
        block_give(taken, rows[i].taken);
    }
}

/* Each is filled to its last byte, so that a checker sees one that is too small, and the test one that is given out twice. */
static void many_of_all_sizes_do_not_mix(void **state)
{
    enum { COUNT = 3000, ROUNDS = 5 };
    static struct {
        unsigned char *data;
        size_t size;
    } blocks[COUNT];
    unsigned char filled[1200];

    (void)state;
    srand(7);
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < COUNT; i++) {
            if (blocks[i].data && rand() % 2)
                continue;
            block_give(blocks[i].data, blocks[i].size);
            blocks[i].size = (size_t)rand() % sizeof filled;
            blocks[i].data = block_take(blocks[i].size);
            assert_true(blocks[i].data || blocks[i].size == 0);
            assert_int_equal((uintptr_t)blocks[i].data % alignof(max_align_t), 0);
            memset(blocks[i].data, (int)(i % 251), blocks[i].size);
        }
        for (size_t i = 0; i < COUNT; i++) {
            memset(filled, (int)(i % 251), sizeof filled);
            assert_true(blocks[i].size == 0 || memcmp(blocks[i].data, filled, blocks[i].size) == 0);
        }
    }
    for (size_t i = 0; i < COUNT; i++)
        block_give(blocks[i].data, blocks[i].size);
    block_give(NULL, 100);
}

static void a_block_is_enlarged_with_what_it_holds(void **state)
{
    static const size_t sizes[] = {1, 10, 64, 65, 1000, 1024, 1025, 5000, 100000};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    unsigned char *data = NULL;

    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        size_t before = i > 0 ? sizes[i - 1] : 0;

        data = block_enlarge(data, before, before, sizes[i]);
        assert_non_null(data);
        for (size_t j = 0; j < before; j++)
            assert_int_equal(data[j], 'a' + j % 26);
        for (size_t j = before; j < sizes[i]; j++)
            data[j] = (unsigned char)('a' + j % 26);
    }
    free(data); /* it is malloc's */
    free(block_take(100));
}

static void *takes_and_gives(void *theirs)
{
    for (int round = 0; round < 100; round++) {
        void *own[20];

        for (size_t i = 0; i < 20; i++)
            assert_non_null(own[i] = block_take(50 * i + 1));
        for (size_t i = 0; i < 20; i++)
            block_give(own[i], 50 * i + 1);
    }
    block_give(theirs, 300); /* kept here, and freed with this thread */
    return NULL;
}

static void threads_keep_their_own(void **state)
{
    pthread_t threads[3];

    (void)state;
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, takes_and_gives, block_take(300)), 0);
    for (size_t i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_given_back_serves_the_next_of_about_its_size),
        cmocka_unit_test(many_of_all_sizes_do_not_mix),
        cmocka_unit_test(a_block_is_enlarged_with_what_it_holds),
        cmocka_unit_test(threads_keep_their_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
