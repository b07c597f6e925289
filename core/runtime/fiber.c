/*
 * See fiber.h. A fiber and its stack are one object that is recycled as a whole: a guard, the stack, the struct, the room. All
 * switches go between a fiber and its reactor's thread, never from fiber to fiber: `go_on` is the way in and `leave` the only way
 * out.
 */
#include "fiber_private.h"

#include "fiber_checkers.h"
#include "runtime/of_thread.h"

#include <assert.h>
#include <stdalign.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    MAGIC = 0x46494252,
    STACK_MINIMUM = FIBER_ASAN || FIBER_TSAN ? 512 * 1024 : 64 * 1024,
    OWN_SIZE = (sizeof(struct fiber) + alignof(max_align_t) - 1) / alignof(max_align_t) * alignof(max_align_t),
    IDLE_MINIMUM = 64,                                       /* stacks that are always worth keeping */
    SHED_MARGIN = FIBER_ASAN || FIBER_TSAN ? 64 * 1024 : 256 /* for the calls that shed */
};

struct fiber_pool {
    struct reactor *reactor;
    size_t stack_size;
    size_t live, idle;
    size_t peak; /* most fibers ever alive at once */
    struct fiber *idle_first;
    struct fiber_context thread_context; /* the reactor's own stack, while a fiber runs */
    const void *thread_stack;            /* its bounds, for AddressSanitizer */
    size_t thread_stack_size;
    void *checker_thread;
};

_Static_assert(FIBER_ROOM % alignof(max_align_t) == 0, "the struct below it is aligned");

static OF_THREAD struct fiber *current;

/*
 * Not inlined, and not for the compiler to reason about: the address of a thread's variable must not be kept over a switch,
 * and neither must its value.
 */
__attribute__((noinline)) struct fiber *fiber_current(void)
{
    __asm__ volatile("");
    return current;
}

static __attribute__((noinline)) void set_current(struct fiber *fiber)
{
    __asm__ volatile("");
    current = fiber;
}

static size_t usable(const struct fiber *fiber) { return (size_t)((const char *)fiber - fiber->stack); }

static void *room_of(struct fiber *fiber) { return (char *)fiber + OWN_SIZE; }

static void check(const struct fiber *fiber) { assert(fiber && fiber->magic == MAGIC); }

/* Stacks */

static struct fiber *fiber_new(struct fiber_pool *pool)
{
    size_t size = FIBER_GUARD_SIZE + pool->stack_size;
    char *mapping = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    struct fiber *fiber;

    if (mapping == MAP_FAILED)
        return NULL;
    if (mprotect(mapping + FIBER_GUARD_SIZE, pool->stack_size, PROT_READ | PROT_WRITE) != 0) {
        munmap(mapping, size);
        return NULL;
    }
    fiber = (struct fiber *)(mapping + size - FIBER_ROOM - OWN_SIZE);
    *fiber = (struct fiber){.magic = MAGIC,
                            .pool = pool,
                            .mapping = mapping,
                            .stack = mapping + FIBER_GUARD_SIZE,
                            .stack_size = pool->stack_size};
    fiber->checker_stack = checker_stack_mapped(fiber->stack, usable(fiber));
    checker_room_taken(room_of(fiber), FIBER_ROOM);
    return fiber;
}

static void fiber_free(struct fiber *fiber)
{
    checker_stack_unmapped(fiber->checker_stack);
    checker_room_given(room_of(fiber), FIBER_ROOM); /* what is mapped there next is not the room */
    munmap(fiber->mapping, FIBER_GUARD_SIZE + fiber->stack_size);
}

static struct fiber *take_idle(struct fiber_pool *pool)
{
    struct fiber *fiber = pool->idle_first;

    if (!fiber)
        return fiber_new(pool);
    pool->idle_first = fiber->next_idle;
    pool->idle--;
    return fiber;
}

static void give_back(struct fiber *fiber)
{
    struct fiber_pool *pool = fiber->pool;
    size_t keep = pool->peak / 2 > IDLE_MINIMUM ? pool->peak / 2 : IDLE_MINIMUM;

    assert(!fiber->held);
    pool->live--;
    checker_room_taken(room_of(fiber), FIBER_ROOM);
    checker_fiber_free(fiber->checker_thread);
    checker_stack_recycled(fiber->stack, usable(fiber));
    if (pool->idle >= keep) {
        fiber_free(fiber);
        return;
    }
    fiber->next_idle = pool->idle_first;
    pool->idle_first = fiber;
    pool->idle++;
}

/* The pool */

struct fiber_pool *fiber_pool_new(struct reactor *reactor, size_t stack_size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct fiber_pool *pool;

    if (stack_size > SIZE_MAX / 2)
        return NULL;
    pool = calloc(1, sizeof *pool);
    if (!pool)
        return NULL;
    pool->reactor = reactor;
    pool->stack_size = stack_size < STACK_MINIMUM ? STACK_MINIMUM : stack_size;
    pool->stack_size = (pool->stack_size + page - 1) / page * page;
    return pool;
}

void fiber_pool_free(struct fiber_pool *pool)
{
    if (!pool)
        return;
    assert(pool->live == 0);
    while (pool->idle_first) {
        struct fiber *fiber = pool->idle_first;

        pool->idle_first = fiber->next_idle;
        fiber_free(fiber);
    }
    free(pool);
}

size_t fiber_pool_live(const struct fiber_pool *pool) { return pool->live; }

size_t fiber_pool_idle(const struct fiber_pool *pool) { return pool->idle; }

/* Switching */

/* On the fiber: back to the thread, for good if it has finished. */
static void leave(struct fiber *fiber)
{
    struct fiber_pool *pool = fiber->pool;
    void *kept = NULL;

    checker_leave(fiber->state == FIBER_FINISHED ? NULL : &kept, pool->thread_stack, pool->thread_stack_size,
                  pool->checker_thread);
    fiber_context_switch(&fiber->context, &pool->thread_context);
    checker_arrive(kept, &pool->thread_stack, &pool->thread_stack_size);
}

/* The first function on a fiber's stack. */
static void fiber_main(void *argument)
{
    struct fiber *fiber = argument;

    checker_arrive(NULL, &fiber->pool->thread_stack, &fiber->pool->thread_stack_size);
    fiber->function(fiber->argument);
    fiber->state = FIBER_FINISHED;
    leave(fiber);
    abort();
}

/* On the thread: the task of a runnable fiber. */
static void go_on(struct task *task)
{
    struct fiber *fiber = (struct fiber *)((char *)task - offsetof(struct fiber, task));
    struct fiber_pool *pool = fiber->pool;
    void *kept = NULL;

    check(fiber);
    assert(fiber->state == FIBER_RUNNABLE && !fiber_current());
    fiber->state = FIBER_RUNNING;
    reactor_begin_activity(pool->reactor, fiber->running); /* each fiber answers for its own time only */
    running_set(fiber->running);
    set_current(fiber);
    pool->checker_thread = checker_self();
    checker_leave(&kept, fiber->stack, usable(fiber), fiber->checker_thread);
    fiber_context_switch(&pool->thread_context, &fiber->context);
    checker_arrive(kept, NULL, NULL);
    set_current(NULL);
    running_set((struct running){0});
    if (fiber->state == FIBER_FINISHED && !fiber->held)
        give_back(fiber);
}

static void make_runnable(struct fiber *fiber)
{
    fiber->state = FIBER_RUNNABLE;
    reactor_defer(fiber->pool->reactor, &fiber->task);
}

struct fiber *fiber_spawn(struct fiber_pool *pool, fiber_fn *function, void *argument)
{
    struct fiber *fiber = take_idle(pool);

    if (!fiber)
        return NULL;
    if (++pool->live > pool->peak)
        pool->peak = pool->live;
    fiber->woken = false;
    fiber->function = function;
    fiber->argument = argument;
    fiber->running = (struct running){0};
    fiber->task = (struct task){.run = go_on};
    fiber->checker_thread = checker_fiber_new();
    fiber_context_make(&fiber->context, fiber->stack, usable(fiber), fiber_main, fiber);
    make_runnable(fiber);
    return fiber;
}

void *fiber_hold(struct fiber *fiber)
{
    check(fiber);
    assert(!fiber->held && fiber->state != FIBER_FINISHED);
    fiber->held = true;
    checker_room_given(room_of(fiber), FIBER_ROOM);
    return room_of(fiber);
}

void fiber_release(struct fiber *fiber)
{
    check(fiber);
    assert(fiber->held);
    fiber->held = false;
    if (fiber->state == FIBER_FINISHED)
        give_back(fiber);
}

void fiber_park(void)
{
    struct fiber *fiber = fiber_current();

    check(fiber);
    if (fiber->woken) {
        fiber->woken = false;
        return;
    }
    fiber->state = FIBER_PARKED;
    leave(fiber);
}

__attribute__((noinline)) void fiber_shed_stack(void)
{
    const struct fiber *fiber = fiber_current();
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t unused = (size_t)((char *)__builtin_frame_address(0) - fiber->stack);

    check(fiber);
    if (unused > SHED_MARGIN + page)
        madvise(fiber->stack, (unused - SHED_MARGIN) / page * page, MADV_DONTNEED);
}

void fiber_wake(struct fiber *fiber)
{
    check(fiber);
    assert(fiber->state != FIBER_FINISHED);
    if (fiber->state == FIBER_PARKED)
        make_runnable(fiber);
    else
        fiber->woken = true;
}

void fiber_set_owner(struct fiber *fiber, const struct owner *owner)
{
    check(fiber);
    fiber->running.owner = owner;
    if (fiber != fiber_current())
        return;
    reactor_change_owner(fiber->pool->reactor, owner);
    running_set(fiber->running);
}

void fiber_set_subject(struct fiber *fiber, const char *subject)
{
    check(fiber);
    fiber->running.subject = subject;
    if (fiber != fiber_current())
        return;
    reactor_begin_activity(fiber->pool->reactor, fiber->running);
    running_set(fiber->running);
}

struct running fiber_running(const struct fiber *fiber)
{
    check(fiber);
    return fiber->running;
}
