/* The arithmetic of the benchmark: percentiles, bends of curves, lists of names, and the books of a process. */
#include "account.h"
#include "bend.h"
#include "cases.h"
#include "samples.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static void median_and_percentiles_are_those_of_the_sorted_set(void **state)
{
    struct samples samples = {0};

    (void)state;
    assert_true(samples_median(&samples) == 0 && samples_percentile(&samples, 99) == 0);
    for (int i = 0; i < 2000; i++)
        samples_add(&samples, (double)(i * 7 % 2000));
    assert_true(samples_median(&samples) == 999.5);
    assert_true(samples_percentile(&samples, 50) == 1000 && samples_percentile(&samples, 99) == 1980);
    assert_true(samples_percentile(&samples, 100) == 1999);
    samples_release(&samples);
}

static void a_bend_is_what_the_points_before_did_not_foretell(void **state)
{
    static const struct {
        const char *name;
        double x[5], y[5];
        size_t count;
        bool is_flat;
        double bend;
    } rows[] = {
        {"a line with a base", {1, 10, 100, 1000}, {71, 80, 170, 1070}, 4, false, 1},
        {"twice the slope at the end", {1, 10, 100, 1000}, {1, 10, 100, 1900}, 4, false, 1.9},
        {"noise at the beginning is none of it", {1, 10, 100, 1000}, {50, 10, 100, 1000}, 4, false, 1},
        {"flat", {100, 1000, 10000}, {20, 20, 20}, 3, true, 1},
        {"a cliff, beside the middle", {100, 300, 1000, 3000, 10000}, {20, 20, 20, 25, 30}, 5, true, 1.5},
        {"cheaper at the end", {1, 2}, {20, 15}, 2, true, 0.75},
        {"too few for a line", {1, 2}, {1, 2}, 2, false, -1},
        {"one for flat", {1}, {1}, 1, true, -1},
        {"none", {0}, {0}, 0, true, -1},
        {"the last one not measured", {1, 2, 3}, {1, 2, -1}, 3, false, -1},
        {"an earlier one not measured", {1, 2, 3}, {1, -1, 3}, 3, false, -1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double bend = bend_of(rows[i].x, rows[i].y, rows[i].count, rows[i].is_flat);

        if (bend < rows[i].bend - 1e-9 || bend > rows[i].bend + 1e-9)
            fail_msg("%s: %g, not %g", rows[i].name, bend, rows[i].bend);
    }
}

static void a_name_is_picked_as_a_whole(void **state)
{
    (void)state;
    assert_true(is_picked(NULL, "idle"));
    assert_true(is_picked("idle", "idle") && is_picked("a,idle", "idle") && is_picked("idle,a", "idle"));
    assert_false(is_picked("", "idle") || is_picked("idles", "idle") || is_picked("a,idl", "idle"));
    assert_false(is_picked("streams-2", "streams"));
    assert_true(is_picked("streams-2,streams", "streams"));
}

static void every_case_and_series_can_be_told_from_the_others(void **state)
{
    (void)state;
    for (size_t i = 0; i < case_count; i++)
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(cases[i].name, cases[j].name);
    for (size_t i = 0; i < series_count; i++)
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(all_series[i].name, all_series[j].name);
}

static void the_peak_outlives_what_was_resident(void **state)
{
    enum { BIG = 32 << 20, SLACK = 4 << 20 };
    int64_t before = account_resident(getpid()), after;
    char *bytes = mmap(NULL, BIG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)state;
    assert_ptr_not_equal(bytes, MAP_FAILED);
    memset(bytes, 1, BIG);
    assert_int_equal(bytes[BIG / 2], 1);
    assert_true(account_resident(getpid()) >= before + BIG - SLACK);
    munmap(bytes, BIG);
    after = account_resident(getpid());
    assert_true(after <= before + BIG / 2);
    assert_true(account_peak(getpid()) >= before + BIG - SLACK);
}

static void each_sleep_counts(void **state)
{
    enum { SLEEPS = 5 };
    struct timespec nap = {.tv_nsec = 1000000};
    int64_t before = account_sleeps(getpid());

    (void)state;
    for (int i = 0; i < SLEEPS; i++)
        nanosleep(&nap, NULL);
    assert_true(account_sleeps(getpid()) >= before + SLEEPS);
    assert_int_equal(account_sleeps(0), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(median_and_percentiles_are_those_of_the_sorted_set),
        cmocka_unit_test(a_bend_is_what_the_points_before_did_not_foretell),
        cmocka_unit_test(a_name_is_picked_as_a_whole),
        cmocka_unit_test(every_case_and_series_can_be_told_from_the_others),
        cmocka_unit_test(the_peak_outlives_what_was_resident),
        cmocka_unit_test(each_sleep_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
