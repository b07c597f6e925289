/* Unit test of fiber.c and crash.c: parking and waking, what survives a switch, the pool, and what a crash says. */
#include "runtime/fiber.h"
#include "runtime/fiber_checkers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdalign.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static struct reactor *reactor;
static struct fiber_pool *pool;

static int start(void **state)
{
    (void)state;
    reactor = reactor_new(0);
    pool = fiber_pool_new(reactor, 256 * 1024);
    return reactor && pool ? 0 : -1;
}

static int finish(void **state)
{
    (void)state;
    fiber_pool_free(pool);
    reactor_free(reactor);
    return 0;
}

static void turn(void) { reactor_turn(reactor, 0); }

static void spawn(fiber_fn *function, void *argument) { assert_non_null(fiber_spawn(pool, function, argument)); }

struct probe {
    struct fiber *fiber;
    unsigned steps;
};

static void three_steps(void *argument)
{
    struct probe *probe = argument;

    probe->fiber = fiber_current();
    for (int i = 0; i < 3; i++) {
        probe->steps++;
        fiber_park();
        assert_ptr_equal(fiber_current(), probe->fiber);
    }
}

static void a_fiber_goes_on_where_it_parked_and_only_when_woken(void **state)
{
    struct probe probe = {0};

    (void)state;
    spawn(three_steps, &probe);
    assert_int_equal(probe.steps, 0); /* starts from a task */
    for (unsigned i = 1; i <= 3; i++) {
        turn();
        turn();
        assert_int_equal(probe.steps, i);
        assert_null(fiber_current());
        assert_int_equal(fiber_pool_live(pool), 1);
        fiber_wake(probe.fiber);
        assert_int_equal(probe.steps, i); /* never inside the call that wakes */
    }
    turn();
    assert_int_equal(fiber_pool_live(pool), 0);
    assert_int_equal(fiber_pool_idle(pool), 1);
}

static void wakes_itself(void *argument)
{
    struct probe *probe = argument;

    fiber_wake(fiber_current());
    fiber_park(); /* at once */
    probe->steps = 1;
    fiber_park();
    probe->steps = 2;
}

static void a_wake_before_the_park_is_remembered(void **state)
{
    struct probe probe = {0};

    (void)state;
    probe.fiber = fiber_spawn(pool, wakes_itself, &probe);
    assert_non_null(probe.fiber);
    turn();
    assert_int_equal(probe.steps, 1);
    fiber_wake(probe.fiber);
    turn();
    assert_int_equal(probe.steps, 2);
}

static void a_wake_while_runnable_is_remembered_for_the_next_park(void **state)
{
    struct probe probe = {0};

    (void)state;
    spawn(three_steps, &probe);
    turn();
    fiber_wake(probe.fiber);
    fiber_wake(probe.fiber);
    turn();
    assert_int_equal(probe.steps, 3);
    fiber_wake(probe.fiber);
    turn();
    assert_int_equal(fiber_pool_live(pool), 0);
}

/* The floating-point modes of the processor: rounding up or to nearest, for SSE and x87. The same always where we keep none. */
static void set_modes(bool up)
{
#if defined(__x86_64__)
    unsigned mxcsr = up ? 0x5f80 : 0x1f80;
    unsigned short x87 = up ? 0x0b7f : 0x037f;

    __asm__ volatile("ldmxcsr %0\n\tfldcw %1" : : "m"(mxcsr), "m"(x87));
#else
    (void)up;
#endif
}

static bool modes_are(bool up)
{
#if defined(__x86_64__)
    unsigned mxcsr = 0;
    unsigned short x87 = 0;

    __asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(mxcsr), "=m"(x87));
    return (mxcsr & 0x6000) == (up ? 0x4000 : 0) && (x87 & 0x0c00) == (up ? 0x0800 : 0);
#else
    (void)up;
    return true;
#endif
}

/* Registers, floating-point modes and the stack's own bytes survive while others run. */
static void computes(void *argument)
{
    struct probe *probe = argument;
    unsigned char bytes[4096];
    double a = probe->steps, b = a * 3, c = a / 7, d = a + 0.25;
    unsigned long e = probe->steps * 7UL, f = e + 1, g = e ^ 5, h = e << 3;

    probe->fiber = fiber_current();
    memset(bytes, (int)probe->steps, sizeof bytes);
    set_modes(probe->steps % 2);
    for (int i = 0; i < 50; i++) {
        fiber_park();
        a += 1, b += 1, c += 1, d += 1, e++, f++, g++, h++;
        assert_true(modes_are(probe->steps % 2));
        for (size_t j = 0; j < sizeof bytes; j += 511)
            assert_int_equal(bytes[j], (unsigned char)probe->steps);
    }
    assert_true(a == probe->steps + 50.0 && d == probe->steps + 50.25 && b >= a && c > 50 - 1);
    assert_true(e == probe->steps * 7UL + 50 && f == e + 1 && g >= 50 && h >= 50);
    probe->fiber = NULL;
}

static void registers_modes_and_stacks_survive_while_many_run(void **state)
{
    enum { FIBERS = 200 };
    static struct probe probes[FIBERS];

    (void)state;
    for (unsigned i = 0; i < FIBERS; i++) {
        probes[i].steps = i;
        spawn(computes, &probes[i]);
    }
    turn();
    for (int round = 0; round < 50; round++) {
        for (unsigned i = 0; i < FIBERS; i++)
            fiber_wake(probes[(i * 7) % FIBERS].fiber);
        turn();
        assert_true(modes_are(false));
    }
    assert_int_equal(fiber_pool_live(pool), 0);
}

static void returns(void *argument) { (*(unsigned *)argument)++; }

static void stacks_are_recycled_and_surplus_ones_given_back(void **state)
{
    enum { BURST = 300 };
    unsigned done = 0;

    (void)state;
    for (int i = 0; i < 10; i++) {
        spawn(returns, &done);
        turn();
        assert_int_equal(fiber_pool_idle(pool), 1);
    }
    for (int i = 0; i < BURST; i++)
        spawn(returns, &done);
    assert_int_equal(fiber_pool_live(pool), BURST);
    turn();
    assert_int_equal(done, BURST + 10);
    assert_int_equal(fiber_pool_idle(pool), BURST / 2);
}

/* Leaves without unwinding its frames: what a checker poisoned on the stack must not bother the next user. */
static __attribute__((noinline)) void deep(unsigned levels, unsigned *sum)
{
    volatile char room[512];

    room[levels % sizeof room] = (char)levels;
    if (levels > 0)
        deep(levels - 1, sum);
    *sum += (unsigned)room[levels % sizeof room] + 1;
    if (levels == 0)
        fiber_park();
}

static void goes_deep(void *argument) { deep(60, argument); }

static void a_recycled_stack_is_clean(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        unsigned sum = 0;
        struct fiber *fiber = fiber_spawn(pool, goes_deep, &sum);

        assert_non_null(fiber);
        turn();
        fiber_wake(fiber);
        turn();
        assert_true(sum > 60);
    }
}

/* Fills the room, as its user would, and sees after everything that the fiber did that nothing of it has changed. */
static void a_held_fiber_keeps_its_stack_and_the_room_above_it(void **state)
{
    (void)state;
    for (int round = 0; round < 3; round++) {
        unsigned sum = 0;
        struct fiber *fiber = fiber_spawn(pool, goes_deep, &sum);
        unsigned char *room;

        assert_non_null(fiber);
        room = fiber_hold(fiber);
        assert_int_equal((uintptr_t)room % alignof(max_align_t), 0);
        for (size_t i = 0; i < FIBER_ROOM; i++)
            room[i] = (unsigned char)(i + 1);
        turn();
        fiber_wake(fiber);
        turn();
        assert_true(sum > 60); /* it has ended */
        assert_int_equal(fiber_pool_live(pool), 1);
        assert_int_equal(fiber_pool_idle(pool), 0); /* from the second round on it is the recycled one */
        for (size_t i = 0; i < FIBER_ROOM; i++)
            assert_int_equal(room[i], (unsigned char)(i + 1));
        fiber_release(fiber);
        assert_int_equal(fiber_pool_live(pool), 0);
        assert_int_equal(fiber_pool_idle(pool), 1);
    }
}

static void releases_itself(void *argument)
{
    struct probe *probe = argument;

    fiber_release(fiber_current());
    probe->steps = 1;
    fiber_park();
    probe->steps = 2;
}

static void a_fiber_may_release_itself_and_goes_on(void **state)
{
    struct probe probe = {0};

    (void)state;
    probe.fiber = fiber_spawn(pool, releases_itself, &probe);
    assert_non_null(probe.fiber);
    assert_non_null(fiber_hold(probe.fiber));
    turn();
    assert_int_equal(probe.steps, 1);
    assert_int_equal(fiber_pool_live(pool), 1);
    fiber_wake(probe.fiber);
    turn();
    assert_int_equal(probe.steps, 2);
    assert_int_equal(fiber_pool_live(pool), 0);
    assert_int_equal(fiber_pool_idle(pool), 1);
}

/* Whether the page is in memory that lies `depth` bytes below here. */
static __attribute__((noinline)) bool touched(size_t depth)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t place = ((uintptr_t)__builtin_frame_address(0) - depth) / page * page;
    unsigned char resident = 0;

    assert_int_equal(mincore((void *)place, page, &resident), 0); // NOLINT(performance-no-int-to-ptr)
    return resident & 1;
}

enum { DEEP = 150 * 1024 };

static __attribute__((noinline)) void touch_down_to(size_t left)
{
    volatile char block[8 * 1024];

    for (size_t i = 0; i < sizeof block; i += 1024)
        block[i] = 1;
    if (left > sizeof block)
        touch_down_to(left - sizeof block);
    block[0] = 2; /* not the last thing: every call has a frame of its own */
}

struct shedding {
    struct fiber *fiber;
    bool before, after;
    unsigned kept;
};

static void sheds(void *argument)
{
    struct shedding *shedding = argument;
    volatile unsigned kept = 17;

    shedding->fiber = fiber_current();
    touch_down_to(DEEP);
    shedding->before = touched(DEEP - 16 * 1024);
    fiber_shed_stack();
    shedding->after = touched(DEEP - 16 * 1024);
    fiber_park();
    touch_down_to(DEEP);
    shedding->kept = kept;
}

static void a_stack_that_is_shed_keeps_what_the_fiber_holds_and_nothing_below(void **state)
{
    struct shedding shedding = {.after = true};

    (void)state;
    spawn(sheds, &shedding);
    turn();
    assert_true(shedding.before);
    assert_false(shedding.after);
    fiber_wake(shedding.fiber);
    turn();
    assert_int_equal(shedding.kept, 17);
}

static void spawns_another(void *argument)
{
    spawn(returns, argument);
    spawn(returns, argument);
}

static void a_fiber_may_spawn_others(void **state)
{
    unsigned done = 0;

    (void)state;
    spawn(spawns_another, &done);
    turn();
    assert_int_equal(done, 2);
}

static const struct owner render = {"render", "render.so"}, decode = {"decode", "/p/decode.so"};

static void looks_at_activity(void *argument)
{
    char subject[ACTIVITY_SUBJECT * sizeof(uint64_t)];
    const struct owner *holder;
    struct reactor_activity *activity = reactor_activity(reactor);
    int64_t since = atomic_load(&activity->since_ns);

    (void)argument;
    assert_null(atomic_load(&activity->owner));
    fiber_set_subject(fiber_current(), "the-id-of-a-request");
    fiber_set_owner(fiber_current(), &render);
    assert_ptr_equal(atomic_load(&activity->owner), &render);
    assert_true(reactor_holder(reactor, &holder, subject));
    assert_ptr_equal(holder, &render);
    assert_string_equal(subject, "the-id-of-a-request");
    assert_true(atomic_load(&activity->since_ns) >= since);
    fiber_park();
    assert_ptr_equal(atomic_load(&activity->owner), &render);
}

/* The executor takes a step's times from it. */
static void changes_hands(void *argument)
{
    enum { NS = 1000000 };
    struct fiber *fiber = fiber_current();
    int64_t before = reactor_now(reactor);

    (void)argument;
    nanosleep(&(struct timespec){.tv_nsec = NS}, NULL);
    fiber_set_owner(fiber, &render);
    assert_true(reactor_now(reactor) >= before + NS);
    before = reactor_now(reactor);
    nanosleep(&(struct timespec){.tv_nsec = NS}, NULL);
    fiber_set_subject(fiber, "the-id-of-a-request");
    assert_true(reactor_now(reactor) >= before + NS);
}

static void the_clock_is_fresh_once_a_fiber_runs_for_another(void **state)
{
    (void)state;
    spawn(changes_hands, NULL);
    turn();
}

static void the_watchdog_sees_the_label_of_the_running_fiber(void **state)
{
    struct fiber *fiber = fiber_spawn(pool, looks_at_activity, NULL);

    (void)state;
    assert_non_null(fiber);
    turn();
    assert_null(atomic_load(&reactor_activity(reactor)->owner));
    fiber_wake(fiber);
    turn();
    assert_int_equal(fiber_pool_live(pool), 0);
}

/* Two reactors, each with fibers, on threads of their own. */
static void *own_loop(void *argument)
{
    struct reactor *mine = reactor_new(1);
    struct fiber_pool *fibers = fiber_pool_new(mine, 0);
    struct probe probe = {0};

    (void)argument;
    if (!mine || !fibers || !fiber_crash_thread())
        return NULL;
    for (int i = 0; i < 100; i++) {
        if (!fiber_spawn(fibers, three_steps, &probe))
            return NULL;
        for (int wake = 0; wake < 3; wake++) {
            reactor_turn(mine, 0);
            fiber_wake(probe.fiber);
        }
        reactor_turn(mine, 0);
    }
    fiber_pool_free(fibers);
    reactor_free(mine);
    fiber_crash_thread_end();
    return (void *)(uintptr_t)probe.steps;
}

static void reactors_on_several_threads_have_fibers_of_their_own(void **state)
{
    pthread_t threads[4];

    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, own_loop, NULL), 0);
    for (int i = 0; i < 4; i++) {
        void *steps = NULL;

        pthread_join(threads[i], &steps);
        assert_int_equal((uintptr_t)steps, 300);
    }
}

static void a_pool_of_an_absurd_stack_size_spawns_nothing(void **state)
{
    struct fiber_pool *absurd = fiber_pool_new(reactor, SIZE_MAX / 4);

    (void)state;
    assert_non_null(absurd);
    assert_null(fiber_spawn(absurd, returns, NULL));
    assert_int_equal(fiber_pool_live(absurd), 0);
    fiber_pool_free(absurd);
    assert_null(fiber_pool_new(reactor, SIZE_MAX - 1));
}

/* Crashes happen in a child; the parent reads what it said. */

static char said[65536];

static void steps_over(void *argument)
{
    uintptr_t frame = (uintptr_t)__builtin_frame_address(0);

    (void)argument;
    /* What a frame with a 300 KiB array does when it touches only the array's far end (no stack clash protection). */
    *(volatile char *)(frame - *(size_t *)argument) = 1;
}

static __attribute__((noinline)) unsigned recurses(unsigned depth)
{
    volatile char room[2000];

    room[depth % sizeof room] = (char)depth;
    if (depth == UINT32_MAX)
        return 0;
    return recurses(depth + 1) + (unsigned)room[depth % sizeof room];
}

static void overflows(void *argument) { *(volatile unsigned *)argument = recurses(0); }

static volatile uintptr_t nowhere = 16;

static void dereferences(void *argument)
{
    (void)argument;
    *(volatile char *)nowhere = 1;
}

static void aborts(void *argument)
{
    (void)argument;
    abort();
}

static void raises(void *argument)
{
    (void)argument;
    raise(SIGSEGV);
}

static void child(fiber_fn *function, const struct owner *owner, const char *subject)
{
    size_t beyond = 256 * 1024 + 44 * 1024;
    struct fiber *fiber;

#if FIBER_ASAN || FIBER_TSAN
    beyond += 256 * 1024; /* the smallest stack of such a build is larger */
#endif
    fiber_crash_install();
    if (!fiber_crash_thread())
        _exit(0);
    if (!owner) {
        function(&beyond);
        _exit(0);
    }
    fiber = fiber_spawn(pool, function, &beyond);
    if (!fiber)
        _exit(0);
    fiber_set_owner(fiber, owner);
    fiber_set_subject(fiber, subject);
    turn();
    _exit(0);
}

/* Returns the child's wait status. */
static int crash(fiber_fn *function, const struct owner *owner, const char *subject)
{
    int ends[2], status = 0;
    size_t size = 0;
    ssize_t got;
    pid_t pid;

    assert_int_equal(pipe(ends), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        for (size_t i = 0; i < 5; i++) /* cmocka's own handlers are not what is tested */
            signal((int[]){SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE}[i], SIG_DFL);
        child(function, owner, subject);
    }
    close(ends[1]);
    while ((got = read(ends[0], said + size, sizeof said - 1 - size)) > 0 || (got < 0 && errno == EINTR))
        size += got > 0 ? (size_t)got : 0;
    said[size] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void a_crash_says_which_step_and_dies_of_its_signal(void **state)
{
#if FIBER_ASAN || FIBER_TSAN
    const char *overflow =
        "step \"render\" of plugin render.so overflowed its 512 KiB stack: raise runtime.fiber_stack (request r-1)\n";
#else
    const char *overflow =
        "step \"render\" of plugin render.so overflowed its 256 KiB stack: raise runtime.fiber_stack (request r-1)\n";
#endif
    const struct {
        const char *name;
        const struct owner *owner;
        const char *subject;
        fiber_fn *function;
        const char *says;
        int signal;
    } rows[] = {
        {"a 300 KiB frame steps over the first pages of the guard", &render, "r-1", steps_over, overflow, SIGSEGV},
        {"endless recursion", &render, "r-1", overflows, overflow, SIGSEGV},
        {"a bad pointer", &decode, "r-2", dereferences,
         "crashed with SIGSEGV in step \"decode\" of plugin /p/decode.so (request r-2)\n", SIGSEGV},
        {"no request", &decode, NULL, dereferences, "crashed with SIGSEGV in step \"decode\" of plugin /p/decode.so\n",
         SIGSEGV},
        {"a request id that would forge a line", &decode, "a\nb", aborts,
         "crashed with SIGABRT in step \"decode\" of plugin /p/decode.so (request a?b)\n", SIGABRT},
        {"an abort", &decode, "r-3", aborts,
         "crashed with SIGABRT in step \"decode\" of plugin /p/decode.so (request r-3)\n", SIGABRT},
        {"a signal that was sent", &decode, "r-4", raises,
         "crashed with SIGSEGV in step \"decode\" of plugin /p/decode.so (request r-4)\n", SIGSEGV},
        {"outside of a fiber", NULL, NULL, dereferences, "crashed with SIGSEGV\n", SIGSEGV},
    };

    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        int status = crash(rows[r].function, rows[r].owner, rows[r].subject);

        print_message("  %s\n", rows[r].name);
        if (!strstr(said, rows[r].says))
            fail_msg("it said: %s", said);
#if FIBER_ASAN || FIBER_TSAN
        assert_int_not_equal(status, 0); /* the sanitizer reports too and ends the process its way */
#else
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), rows[r].signal);
#endif
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_fiber_goes_on_where_it_parked_and_only_when_woken, start, finish),
        cmocka_unit_test_setup_teardown(a_wake_before_the_park_is_remembered, start, finish),
        cmocka_unit_test_setup_teardown(a_wake_while_runnable_is_remembered_for_the_next_park, start, finish),
        cmocka_unit_test_setup_teardown(registers_modes_and_stacks_survive_while_many_run, start, finish),
        cmocka_unit_test_setup_teardown(stacks_are_recycled_and_surplus_ones_given_back, start, finish),
        cmocka_unit_test_setup_teardown(a_recycled_stack_is_clean, start, finish),
        cmocka_unit_test_setup_teardown(a_held_fiber_keeps_its_stack_and_the_room_above_it, start, finish),
        cmocka_unit_test_setup_teardown(a_fiber_may_release_itself_and_goes_on, start, finish),
        cmocka_unit_test_setup_teardown(a_stack_that_is_shed_keeps_what_the_fiber_holds_and_nothing_below, start,
                                        finish),
        cmocka_unit_test_setup_teardown(a_fiber_may_spawn_others, start, finish),
        cmocka_unit_test_setup_teardown(the_clock_is_fresh_once_a_fiber_runs_for_another, start, finish),
        cmocka_unit_test_setup_teardown(the_watchdog_sees_the_label_of_the_running_fiber, start, finish),
        cmocka_unit_test_setup_teardown(reactors_on_several_threads_have_fibers_of_their_own, start, finish),
        cmocka_unit_test_setup_teardown(a_pool_of_an_absurd_stack_size_spawns_nothing, start, finish),
        cmocka_unit_test_setup_teardown(a_crash_says_which_step_and_dies_of_its_signal, start, finish),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
