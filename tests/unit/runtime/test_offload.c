/* Unit test of offload.c: where jobs run and end, the bounds, cancelling, and the end of the pool. */
#include "runtime/offload.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

static struct reactor *reactor;
static struct offload *offload;
static pthread_t main_thread;

struct probe {
    struct offload_job job;
    sem_t *started; /* raised when it runs, unless NULL */
    sem_t *gate;    /* waited for while it runs, unless NULL */
    bool elsewhere; /* it ran on another thread than the reactor's */
    bool signals_blocked;
    unsigned done;
};

static unsigned finished;

static void run(struct offload_job *job)
{
    struct probe *probe = (struct probe *)job;
    sigset_t mask;

    probe->elsewhere = !pthread_equal(pthread_self(), main_thread);
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    probe->signals_blocked = sigismember(&mask, SIGTERM) && sigismember(&mask, SIGHUP) && !sigismember(&mask, SIGSEGV);
    if (probe->started)
        sem_post(probe->started);
    if (probe->gate)
        sem_wait(probe->gate);
}

static void done(struct offload_job *job)
{
    struct probe *probe = (struct probe *)job;

    assert_true(pthread_equal(pthread_self(), main_thread));
    assert_ptr_equal(reactor_current(), reactor);
    probe->done++;
    finished++;
}

static struct probe probe_of(sem_t *started, sem_t *gate)
{
    return (struct probe){.job.run = run, .job.done = done, .started = started, .gate = gate};
}

static bool submit(struct probe *probe) { return offload_submit(offload, reactor, &probe->job); }

static void turn_until(unsigned count)
{
    while (finished < count)
        reactor_turn(reactor, -1);
}

static int start(void **state)
{
    (void)state;
    main_thread = pthread_self();
    finished = 0;
    reactor = reactor_new(0);
    offload = offload_new(2, 3);
    return reactor && offload ? 0 : -1;
}

static int finish(void **state)
{
    (void)state;
    offload_free(offload);
    reactor_free(reactor);
    return 0;
}

static void a_job_runs_elsewhere_and_ends_on_its_reactor(void **state)
{
    struct probe probe = probe_of(NULL, NULL);

    (void)state;
    assert_true(submit(&probe));
    turn_until(1);
    assert_true(probe.job.ran);
    assert_true(probe.elsewhere);
    assert_true(probe.signals_blocked);
    assert_int_equal(probe.done, 1);
}

static void jobs_run_beside_one_another_up_to_the_bound_and_the_queue_is_bounded_too(void **state)
{
    struct probe probes[6];
    sem_t started, gate;

    (void)state;
    sem_init(&started, 0, 0);
    sem_init(&gate, 0, 0);
    for (size_t i = 0; i < 2; i++) {
        probes[i] = probe_of(&started, &gate);
        assert_true(submit(&probes[i]));
    }
    sem_wait(&started); /* both run at the same time */
    sem_wait(&started);
    for (size_t i = 2; i < 5; i++) {
        probes[i] = probe_of(&started, &gate);
        assert_true(submit(&probes[i]));
    }
    probes[5] = probe_of(&started, &gate);
    assert_false(submit(&probes[5]));
    for (size_t i = 0; i < 5; i++)
        sem_post(&gate);
    turn_until(5);
    assert_int_equal(probes[5].done, 0);
    sem_destroy(&gate);
    sem_destroy(&started);
}

static void a_waiting_job_can_be_taken_back_and_a_running_one_cannot(void **state)
{
    struct probe running[2], waiting[3];
    sem_t started, gate;

    (void)state;
    sem_init(&started, 0, 0);
    sem_init(&gate, 0, 0);
    for (size_t i = 0; i < 2; i++) {
        running[i] = probe_of(&started, &gate);
        assert_true(submit(&running[i]));
        sem_wait(&started);
    }
    for (size_t i = 0; i < 3; i++) {
        waiting[i] = probe_of(NULL, NULL);
        assert_true(submit(&waiting[i]));
    }
    assert_false(offload_cancel(offload, &running[0].job));
    assert_true(offload_cancel(offload, &waiting[2].job)); /* the last: what is queued next must still be found */
    assert_true(offload_cancel(offload, &waiting[0].job));
    assert_false(offload_cancel(offload, &waiting[0].job));
    assert_true(submit(&waiting[2]));
    sem_post(&gate);
    sem_post(&gate);
    turn_until(4);
    assert_false(offload_cancel(offload, &waiting[1].job));
    assert_int_equal(waiting[0].done, 0);
    assert_int_equal(waiting[1].done + waiting[2].done, 2);
    sem_destroy(&gate);
    sem_destroy(&started);
}

static void a_pool_that_ends_waits_for_what_runs_and_posts_the_rest_as_not_run(void **state)
{
    struct probe running[2], waiting[3];
    sem_t started, gate;

    (void)state;
    sem_init(&started, 0, 0);
    sem_init(&gate, 0, 0);
    for (size_t i = 0; i < 2; i++) {
        running[i] = probe_of(&started, NULL);
        waiting[i] = probe_of(NULL, NULL);
    }
    waiting[2] = probe_of(NULL, NULL);
    running[0].gate = running[1].gate = &gate;
    for (size_t i = 0; i < 2; i++) {
        assert_true(submit(&running[i]));
        sem_wait(&started);
    }
    for (size_t i = 0; i < 3; i++)
        assert_true(submit(&waiting[i]));
    sem_post(&gate);
    sem_post(&gate);
    offload_free(offload);
    offload = NULL;
    turn_until(5);
    for (size_t i = 0; i < 2; i++)
        assert_true(running[i].job.ran);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(waiting[i].done, 1);
    assert_false(waiting[2].job.ran && !waiting[0].job.ran); /* first in, first out */
    sem_destroy(&gate);
    sem_destroy(&started);
}

static void a_pool_without_threads_takes_nothing(void **state)
{
    struct offload *none = offload_new(0, 10);
    struct probe probe = probe_of(NULL, NULL);

    (void)state;
    assert_non_null(none);
    assert_false(offload_submit(none, reactor, &probe.job));
    offload_free(none);
    offload_free(NULL);
}

/* One job after another, each submitted when the last has ended. */
static void submits_again(struct offload_job *job)
{
    if (++finished < 2000)
        assert_true(offload_submit(offload, reactor, job));
}

static void a_job_may_be_submitted_again_when_it_is_done(void **state)
{
    struct probe probe = probe_of(NULL, NULL);

    (void)state;
    probe.job.done = submits_again;
    assert_true(submit(&probe));
    turn_until(2000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_job_runs_elsewhere_and_ends_on_its_reactor, start, finish),
        cmocka_unit_test_setup_teardown(jobs_run_beside_one_another_up_to_the_bound_and_the_queue_is_bounded_too, start,
                                        finish),
        cmocka_unit_test_setup_teardown(a_waiting_job_can_be_taken_back_and_a_running_one_cannot, start, finish),
        cmocka_unit_test_setup_teardown(a_pool_that_ends_waits_for_what_runs_and_posts_the_rest_as_not_run, start,
                                        finish),
        cmocka_unit_test_setup_teardown(a_pool_without_threads_takes_nothing, start, finish),
        cmocka_unit_test_setup_teardown(a_job_may_be_submitted_again_when_it_is_done, start, finish),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
