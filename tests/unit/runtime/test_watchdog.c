/* Unit test of watchdog.c: who is reported, once an episode, and what an idle process pays. */
#include "runtime/fiber.h"
#include "runtime/watchdog.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#define MS INT64_C(1000000)
#define LIMIT (400 * MS) /* longer than a busy machine leaves a thread lying */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned begun, ended;
    unsigned reactor;
    char label[32];
    int64_t held_ns, full_ns;
} reports = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void report(void *context, unsigned reactor, const struct owner *owner, int64_t held_ns, bool ended)
{
    assert_ptr_equal(context, &reports);
    pthread_mutex_lock(&reports.lock);
    reports.reactor = reactor;
    strncpy(reports.label, owner ? owner->step : "(none)", sizeof reports.label - 1);
    if (ended) {
        reports.ended++;
        reports.full_ns = held_ns;
    } else {
        reports.begun++;
        reports.held_ns = held_ns;
    }
    pthread_cond_broadcast(&reports.changed);
    pthread_mutex_unlock(&reports.lock);
}

/* Waits, at most ten seconds, until `*count` has reached `want`. */
static void wait_for(const unsigned *count, unsigned want)
{
    struct timespec until;
    int result = 0;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 10;
    pthread_mutex_lock(&reports.lock);
    while (*count < want && result == 0)
        result = pthread_cond_timedwait(&reports.changed, &reports.lock, &until);
    pthread_mutex_unlock(&reports.lock);
    assert_int_equal(result, 0);
}

static void hold(int64_t ns)
{
    struct timespec wait = {.tv_nsec = (long)ns};

    nanosleep(&wait, NULL);
}

static void *run(void *argument)
{
    reactor_run(argument);
    return NULL;
}

static struct reactor *reactors[2];
static struct fiber_pool *pool;
static pthread_t threads[2];
static struct watchdog *watchdog;

static int start(void **state)
{
    (void)state;
    reports.begun = reports.ended = 0;
    for (unsigned i = 0; i < 2; i++) {
        reactors[i] = reactor_new(i);
        if (!reactors[i])
            return -1;
    }
    pool = fiber_pool_new(reactors[1], 0);
    for (unsigned i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, run, reactors[i]) != 0)
            return -1;
    watchdog = watchdog_new(reactors, 2, LIMIT, report, &reports);
    return pool && watchdog ? 0 : -1;
}

static int finish(void **state)
{
    (void)state;
    watchdog_free(watchdog);
    for (unsigned i = 0; i < 2; i++) {
        reactor_stop(reactors[i]);
        pthread_join(threads[i], NULL);
    }
    fiber_pool_free(pool);
    for (unsigned i = 0; i < 2; i++)
        reactor_free(reactors[i]);
    return 0;
}

static const struct owner slow = {"slow step", "slow.so"}, quick = {"quick step", "quick.so"};

static void blocks(void *argument)
{
    fiber_set_owner(fiber_current(), &slow);
    hold(*(int64_t *)argument);
    fiber_set_owner(fiber_current(), &quick); /* must not be blamed */
    hold(MS);
}

static int64_t how_long;

static void spawn_blocking(struct task *task)
{
    (void)task;
    assert_non_null(fiber_spawn(pool, blocks, &how_long));
}

static void a_step_that_blocks_is_reported_by_name_once_and_again_when_it_ends(void **state)
{
    struct task task = {.run = spawn_blocking};

    (void)state;
    how_long = 900 * MS;
    for (unsigned round = 1; round <= 2; round++) {
        reactor_post(reactors[1], &task);
        wait_for(&reports.ended, round);
        assert_int_equal(reports.begun, round);
        assert_int_equal(reports.ended, round);
        assert_int_equal(reports.reactor, 1);
        assert_string_equal(reports.label, "slow step");
        assert_true(reports.held_ns >= LIMIT);
        assert_true(reports.full_ns >= 900 * MS);
    }
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void waits_for_gate(struct task *task)
{
    (void)task;
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
}

static void a_callback_that_hangs_is_reported_while_it_hangs(void **state)
{
    struct task task = {.run = waits_for_gate};

    (void)state;
    pthread_mutex_lock(&gate);
    reactor_post(reactors[0], &task);
    wait_for(&reports.begun, 1);
    assert_int_equal(reports.ended, 0);
    assert_int_equal(reports.reactor, 0);
    assert_string_equal(reports.label, "(none)");
    pthread_mutex_unlock(&gate);
    wait_for(&reports.ended, 1);
    assert_true(reports.full_ns >= reports.held_ns);
    assert_int_equal(reports.begun, 1);
}

static unsigned ran;

static void holds_briefly(struct task *task)
{
    hold(MS / 5);
    if (++ran < 4000)
        reactor_defer(reactor_current(), task);
    else
        reactor_stop(reactor_current());
}

static void a_busy_reactor_that_nobody_holds_is_not_reported(void **state)
{
    struct task task = {.run = holds_briefly};

    (void)state;
    ran = 0;
    reactor_post(reactors[0], &task);
    pthread_join(threads[0], NULL); /* 800 ms of work and more, in turns of 16 tasks */
    assert_int_equal(pthread_create(&threads[0], NULL, run, reactors[0]), 0);
    pthread_mutex_lock(&reports.lock);
    assert_int_equal(reports.begun, 0);
    pthread_mutex_unlock(&reports.lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_step_that_blocks_is_reported_by_name_once_and_again_when_it_ends, start,
                                        finish),
        cmocka_unit_test_setup_teardown(a_callback_that_hangs_is_reported_while_it_hangs, start, finish),
        cmocka_unit_test_setup_teardown(a_busy_reactor_that_nobody_holds_is_not_reported, start, finish),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
