/* Unit test of reactor.c: the order inside a turn, what callbacks may do to one another, posts from other threads, and idleness. */
#include "runtime/reactor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { MS = 1000000 };

struct fixture {
    struct reactor *reactor;
    char order[64];
    size_t count;
};

static struct fixture fixture;

static void note(char letter)
{
    if (fixture.count < sizeof fixture.order - 1)
        fixture.order[fixture.count++] = letter;
}

static int start(void **state)
{
    (void)state;
    fixture = (struct fixture){.reactor = reactor_new(3)};
    return fixture.reactor ? 0 : -1;
}

static int finish(void **state)
{
    (void)state;
    reactor_free(fixture.reactor);
    return 0;
}

static int64_t clock_ns(clockid_t id)
{
    struct timespec now;

    clock_gettime(id, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* An eventfd under watch, readable from the start, which notes its letter when called. */
struct probe {
    struct watch watch;
    char letter;
    struct probe *victim; /* removed (and its descriptor closed) when this one is called */
    bool stays_readable;
};

static void probe_close(struct probe *probe)
{
    if (!probe->watch.added)
        return;
    reactor_unwatch(fixture.reactor, &probe->watch);
    close(probe->watch.fd);
}

static void probe_ready(struct watch *watch, uint32_t events)
{
    struct probe *probe = (struct probe *)watch;
    uint64_t value;

    assert_true(events & EPOLLIN);
    note(probe->letter);
    if (!probe->stays_readable)
        assert_int_equal(read(watch->fd, &value, sizeof value), sizeof value);
    if (probe->victim)
        probe_close(probe->victim);
}

static void probe_open(struct probe *probe, char letter)
{
    *probe = (struct probe){.watch.ready = probe_ready, .letter = letter};
    assert_true(reactor_watch(fixture.reactor, &probe->watch, eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC), EPOLLIN));
}

/* A task that notes its letter. */
struct letter_task {
    struct task task;
    char letter;
    struct task *queues; /* deferred when this one runs */
    struct task *takes_out;
};

static void letter_run(struct task *task)
{
    struct letter_task *self = (struct letter_task *)task;

    note(self->letter);
    if (self->queues)
        reactor_defer(fixture.reactor, self->queues);
    if (self->takes_out)
        reactor_undefer(fixture.reactor, self->takes_out);
}

static void timer_noted(struct timer *timer)
{
    (void)timer;
    note('t');
}

static unsigned hook_progress;

static bool hook_noted(struct hook *hook)
{
    (void)hook;
    note('h');
    return hook_progress > 0 && hook_progress--;
}

static void a_turn_runs_descriptors_posts_timers_tasks_and_hooks_in_that_order(void **state)
{
    struct letter_task task = {{.run = letter_run}, 'k', NULL, NULL};
    struct letter_task post = {{.run = letter_run}, 'p', NULL, NULL};
    struct timer timer = {.due = timer_noted};
    struct hook hook = {.run = hook_noted};
    struct probe probe;

    (void)state;
    hook_progress = 0;
    reactor_post(fixture.reactor, &post.task);
    reactor_defer(fixture.reactor, &task.task);
    reactor_arm(fixture.reactor, &timer, 0);
    reactor_hook(fixture.reactor, &hook);
    probe_open(&probe, 'w');
    reactor_turn(fixture.reactor, -1);
    assert_string_equal(fixture.order, "wptkh");
    probe_close(&probe);
    reactor_unhook(fixture.reactor, &hook);
}

static void a_watch_removed_by_an_earlier_callback_of_the_batch_is_not_called(void **state)
{
    struct probe probes[6];

    (void)state;
    for (size_t i = 0; i < 6; i++)
        probe_open(&probes[i], (char)('a' + i));
    for (size_t i = 0; i < 6; i++)
        probes[i].victim = &probes[i ^ 1]; /* whoever comes first closes its neighbour */
    reactor_turn(fixture.reactor, 0);
    assert_int_equal(fixture.count, 3);
    for (size_t i = 0; i < 6; i++)
        probe_close(&probes[i]);
}

static void a_watch_may_remove_itself(void **state)
{
    struct probe probe;

    (void)state;
    probe_open(&probe, 'a');
    probe.victim = &probe;
    probe.stays_readable = true;
    reactor_turn(fixture.reactor, 0);
    reactor_turn(fixture.reactor, 0);
    assert_string_equal(fixture.order, "a");
    assert_false(probe.watch.added);
}

static void quieten(struct watch *watch, uint32_t events)
{
    (void)events;
    note('q');
    assert_true(reactor_rewatch(fixture.reactor, &((struct probe *)watch)->victim->watch, 0));
}

static void events_that_a_callback_switched_off_are_not_delivered_to_another(void **state)
{
    struct probe a, b;

    (void)state;
    probe_open(&a, 'a');
    probe_open(&b, 'b');
    a.victim = &b;
    b.victim = &a;
    a.watch.ready = b.watch.ready = quieten;
    reactor_turn(fixture.reactor, 0);
    assert_string_equal(fixture.order, "q");
    probe_close(&a);
    probe_close(&b);
}

static void a_level_triggered_watch_is_called_in_every_turn(void **state)
{
    struct probe probe;

    (void)state;
    probe_open(&probe, 'a');
    probe.stays_readable = true;
    for (int i = 0; i < 3; i++)
        reactor_turn(fixture.reactor, -1);
    assert_string_equal(fixture.order, "aaa");
    probe_close(&probe);
}

static void a_descriptor_that_epoll_refuses_is_reported(void **state)
{
    struct probe probe = {.watch.ready = probe_ready};

    (void)state;
    assert_false(reactor_watch(fixture.reactor, &probe.watch, -1, EPOLLIN));
    assert_false(probe.watch.added);
}

static void tasks_run_once_however_often_they_are_queued(void **state)
{
    struct letter_task a = {{.run = letter_run}, 'a', NULL, NULL};

    (void)state;
    reactor_defer(fixture.reactor, &a.task);
    reactor_defer(fixture.reactor, &a.task);
    reactor_turn(fixture.reactor, 0);
    assert_string_equal(fixture.order, "a");
}

static void tasks_queued_by_tasks_run_in_the_same_turn(void **state)
{
    struct letter_task c = {{.run = letter_run}, 'c', NULL, NULL};
    struct letter_task b = {{.run = letter_run}, 'b', &c.task, NULL};
    struct letter_task a = {{.run = letter_run}, 'a', &b.task, NULL};

    (void)state;
    reactor_defer(fixture.reactor, &a.task);
    reactor_turn(fixture.reactor, 0);
    assert_string_equal(fixture.order, "abc");
}

static void a_task_that_queues_itself_does_not_starve_descriptors(void **state)
{
    struct letter_task a = {{.run = letter_run}, 'a', NULL, NULL};
    struct probe probe;

    (void)state;
    a.queues = &a.task;
    reactor_defer(fixture.reactor, &a.task);
    reactor_turn(fixture.reactor, -1);
    assert_true(fixture.count <= 16);
    fixture = (struct fixture){.reactor = fixture.reactor};
    probe_open(&probe, 'w');
    reactor_turn(fixture.reactor, -1); /* does not wait: work is left */
    assert_int_equal(fixture.order[0], 'w');
    assert_int_equal(fixture.order[1], 'a');
    probe_close(&probe);
    reactor_undefer(fixture.reactor, &a.task);
}

static void a_task_taken_out_by_another_does_not_run(void **state)
{
    static const struct {
        const char *name, *want;
        size_t taken; /* by task 1 of a, b, c, d */
    } rows[] = {
        {"the next one", "abd", 2},
        {"the last one", "abc", 3},
        {"one that has run", "abcd", 0},
    };

    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        struct letter_task tasks[4];

        fixture = (struct fixture){.reactor = fixture.reactor};
        for (size_t i = 0; i < 4; i++) {
            tasks[i] = (struct letter_task){{.run = letter_run}, (char)('a' + i), NULL, NULL};
            reactor_defer(fixture.reactor, &tasks[i].task);
        }
        tasks[1].takes_out = &tasks[rows[r].taken].task;
        print_message("  %s\n", rows[r].name);
        reactor_turn(fixture.reactor, 0);
        assert_string_equal(fixture.order, rows[r].want);
        reactor_turn(fixture.reactor, 0);
        assert_string_equal(fixture.order, rows[r].want);
    }
}

static void a_hook_that_made_progress_runs_again_and_one_that_always_does_is_bounded(void **state)
{
    struct hook hook = {.run = hook_noted};

    (void)state;
    reactor_hook(fixture.reactor, &hook);
    hook_progress = 2;
    reactor_turn(fixture.reactor, 0);
    assert_string_equal(fixture.order, "hhh");
    fixture = (struct fixture){.reactor = fixture.reactor};
    hook_progress = 1000;
    reactor_turn(fixture.reactor, 0);
    assert_true(fixture.count <= 17);
    reactor_unhook(fixture.reactor, &hook);
}

static struct hook other_hook;

static bool hook_removes_next(struct hook *hook)
{
    note('r');
    reactor_unhook(fixture.reactor, &other_hook);
    reactor_unhook(fixture.reactor, hook);
    return false;
}

static void a_hook_may_remove_itself_and_the_next(void **state)
{
    struct hook first = {.run = hook_removes_next}, last = {.run = hook_noted};

    (void)state;
    hook_progress = 0;
    other_hook = (struct hook){.run = hook_noted};
    reactor_hook(fixture.reactor, &first);
    reactor_hook(fixture.reactor, &other_hook);
    reactor_hook(fixture.reactor, &last);
    reactor_turn(fixture.reactor, 0);
    assert_string_equal(fixture.order, "rh");
    reactor_unhook(fixture.reactor, &last);
}

static void a_timer_is_not_early_and_the_loop_sleeps_until_it_is_due(void **state)
{
    struct timer timer = {.due = timer_noted};
    int64_t began = clock_ns(CLOCK_MONOTONIC), used = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    int turns = 0;

    (void)state;
    reactor_arm(fixture.reactor, &timer, 30 * MS + 300000);
    for (; fixture.count == 0; turns++)
        reactor_turn(fixture.reactor, -1);
    assert_true(clock_ns(CLOCK_MONOTONIC) - began >= 30 * MS + 300000);
    assert_true(turns <= 4);
    assert_true(clock_ns(CLOCK_THREAD_CPUTIME_ID) - used < 25 * MS);
}

static void a_turn_waits_no_longer_than_it_was_told(void **state)
{
    struct timer timer = {.due = timer_noted};

    (void)state;
    reactor_arm(fixture.reactor, &timer, 3600LL * 1000 * MS);
    reactor_turn(fixture.reactor, 0);
    reactor_turn(fixture.reactor, 5 * MS);
    assert_int_equal(fixture.count, 0);
    reactor_disarm(fixture.reactor, &timer);
}

static void a_timer_armed_for_ever_does_not_overflow(void **state)
{
    struct timer timer = {.due = timer_noted};

    (void)state;
    reactor_arm(fixture.reactor, &timer, INT64_MAX);
    assert_true(timer.deadline_ns == INT64_MAX);
    reactor_turn(fixture.reactor, 0);
    reactor_disarm(fixture.reactor, &timer);
}

/* Posts: PRODUCERS threads, each with its own tasks, posted in order. */
enum { PRODUCERS = 4, POSTS = 2000 };

struct numbered {
    struct task task;
    unsigned producer, number;
};

static struct numbered numbered[PRODUCERS][POSTS];
static unsigned next_number[PRODUCERS];
static unsigned total;

static void numbered_run(struct task *task)
{
    struct numbered *self = (struct numbered *)task;

    assert_int_equal(next_number[self->producer]++, self->number);
    if (++total == PRODUCERS * POSTS)
        reactor_stop(fixture.reactor);
}

static void *produce(void *argument)
{
    unsigned producer = *(unsigned *)argument;

    for (unsigned i = 0; i < POSTS; i++) {
        numbered[producer][i] = (struct numbered){{.run = numbered_run}, producer, i};
        reactor_post(fixture.reactor, &numbered[producer][i].task);
    }
    return NULL;
}

static void posts_of_several_threads_all_run_in_the_order_of_each_thread(void **state)
{
    pthread_t threads[PRODUCERS];
    unsigned producers[PRODUCERS];

    (void)state;
    total = 0;
    for (unsigned i = 0; i < PRODUCERS; i++) {
        next_number[i] = 0;
        producers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, produce, &producers[i]), 0);
    }
    reactor_run(fixture.reactor);
    assert_int_equal(total, PRODUCERS * POSTS);
    for (unsigned i = 0; i < PRODUCERS; i++)
        pthread_join(threads[i], NULL);
}

static void *run_reactor(void *argument)
{
    reactor_run(argument);
    reactor_free(argument);
    return NULL;
}

static void a_reactor_stopped_from_another_thread_may_be_freed_by_its_own_at_once(void **state)
{
    (void)state;
    for (int i = 0; i < 200; i++) {
        struct reactor *reactor = reactor_new(0);
        pthread_t thread;

        assert_non_null(reactor);
        assert_int_equal(pthread_create(&thread, NULL, run_reactor, reactor), 0);
        reactor_stop(reactor);
        pthread_join(thread, NULL);
    }
}

static struct reactor *seen;

static void remember_reactor(struct task *task)
{
    (void)task;
    seen = reactor_current();
    assert_true(atomic_load(&reactor_activity(fixture.reactor)->since_ns) > 0);
}

static void the_running_reactor_is_known_inside_callbacks_only(void **state)
{
    struct task task = {.run = remember_reactor};

    (void)state;
    reactor_defer(fixture.reactor, &task);
    assert_null(reactor_current());
    reactor_turn(fixture.reactor, 0);
    assert_ptr_equal(seen, fixture.reactor);
    assert_null(reactor_current());
    assert_true(atomic_load(&reactor_activity(fixture.reactor)->since_ns) == 0);
    assert_int_equal(reactor_index(fixture.reactor), 3);
}

static void *stop_later(void *argument)
{
    struct timespec wait = {.tv_nsec = 300 * MS};

    nanosleep(&wait, NULL);
    reactor_stop(argument);
    return NULL;
}

static void an_idle_loop_never_wakes(void **state)
{
    struct rusage before, after;
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, stop_later, fixture.reactor), 0);
    getrusage(RUSAGE_THREAD, &before);
    reactor_run(fixture.reactor);
    getrusage(RUSAGE_THREAD, &after);
    pthread_join(thread, NULL);
    assert_true(after.ru_nvcsw - before.ru_nvcsw <= 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_turn_runs_descriptors_posts_timers_tasks_and_hooks_in_that_order, start,
                                        finish),
        cmocka_unit_test_setup_teardown(a_watch_removed_by_an_earlier_callback_of_the_batch_is_not_called, start,
                                        finish),
        cmocka_unit_test_setup_teardown(a_watch_may_remove_itself, start, finish),
        cmocka_unit_test_setup_teardown(events_that_a_callback_switched_off_are_not_delivered_to_another, start,
                                        finish),
        cmocka_unit_test_setup_teardown(a_level_triggered_watch_is_called_in_every_turn, start, finish),
        cmocka_unit_test_setup_teardown(a_descriptor_that_epoll_refuses_is_reported, start, finish),
        cmocka_unit_test_setup_teardown(tasks_run_once_however_often_they_are_queued, start, finish),
        cmocka_unit_test_setup_teardown(tasks_queued_by_tasks_run_in_the_same_turn, start, finish),
        cmocka_unit_test_setup_teardown(a_task_that_queues_itself_does_not_starve_descriptors, start, finish),
        cmocka_unit_test_setup_teardown(a_task_taken_out_by_another_does_not_run, start, finish),
        cmocka_unit_test_setup_teardown(a_hook_that_made_progress_runs_again_and_one_that_always_does_is_bounded, start,
                                        finish),
        cmocka_unit_test_setup_teardown(a_hook_may_remove_itself_and_the_next, start, finish),
        cmocka_unit_test_setup_teardown(a_timer_is_not_early_and_the_loop_sleeps_until_it_is_due, start, finish),
        cmocka_unit_test_setup_teardown(a_turn_waits_no_longer_than_it_was_told, start, finish),
        cmocka_unit_test_setup_teardown(a_timer_armed_for_ever_does_not_overflow, start, finish),
        cmocka_unit_test_setup_teardown(posts_of_several_threads_all_run_in_the_order_of_each_thread, start, finish),
        cmocka_unit_test_setup_teardown(a_reactor_stopped_from_another_thread_may_be_freed_by_its_own_at_once, start,
                                        finish),
        cmocka_unit_test_setup_teardown(the_running_reactor_is_known_inside_callbacks_only, start, finish),
        cmocka_unit_test_setup_teardown(an_idle_loop_never_wakes, start, finish),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
