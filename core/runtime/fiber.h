/*
 * Fibers: stackful coroutines, so that a step is straight-line blocking C while nothing blocks.
 *
 * A fiber runs on its reactor's thread for life. It gives the thread back by fiber_park; fiber_wake makes it runnable again,
 * and it goes on from a reactor task, never inside the callback that woke it. Stacks come from a pool per reactor, mmaped
 * above a 1 MiB guard, recycled last-in first-out.
 * Invariant: a fiber is in exactly one of: running, runnable (queued task), parked, finished (stack back in the pool, unless it
 * is held).
 * Switching: assembly on x86-64 and aarch64, ucontext elsewhere (or -DCOORD_UCONTEXT); annotated for AddressSanitizer and
 * ThreadSanitizer fiber switching and registered with valgrind.
 * Thread: [reactor].
 */
#ifndef RUNTIME_FIBER_H
#define RUNTIME_FIBER_H

#include "runtime/reactor.h"

enum {
    FIBER_GUARD_SIZE = 1 << 20,
    /* Of a stack's highest page: a fiber that waits for an answer needs less than the rest (but for ucontext). */
    FIBER_ROOM = 2688
};

struct fiber;
struct fiber_pool;

typedef void fiber_fn(void *argument);

/*
 * `stack_size` is rounded up to pages, at least 64 KiB (sanitizer builds: at least 512 KiB); the room and the fiber's own struct,
 * some 3 KiB (with ucontext 7), are taken out of it. NULL: memory is short.
 */
struct fiber_pool *fiber_pool_new(struct reactor *reactor, size_t stack_size);

/* No fiber of it lives any more. NULL is allowed. */
void fiber_pool_free(struct fiber_pool *pool);

/* Starts a fiber: it runs `function(argument)` from a task of this turn and ends when that returns. NULL: memory or mappings are short. */
struct fiber *fiber_spawn(struct fiber_pool *pool, fiber_fn *function, void *argument)
    __attribute__((warn_unused_result));

/*
 * Keeps the fiber's stack when its function has returned, too, until fiber_release: it counts as live so long. Returns the room
 * above the stack, FIBER_ROOM bytes with anything in them, aligned as by malloc, for whoever spawned the fiber: a page is there
 * whole even when the stack needs a part. The fiber has not ended, and nobody holds it.
 */
void *fiber_hold(struct fiber *fiber) __attribute__((warn_unused_result));

/* Ends the hold; nobody reads the room any more. A running fiber may release itself, and goes on. */
void fiber_release(struct fiber *fiber);

/* The running fiber, NULL outside of one. */
struct fiber *fiber_current(void);

/* Gives the thread back until fiber_wake. Called on a fiber only. A wake that came before the park is not lost: it then returns at once. */
void fiber_park(void);

/*
 * Gives back what the running fiber's stack has touched and does not hold now, in whole pages: for one that is about to be
 * parked for long, since what it did before may have gone deep. Costs a system call, and a page fault when it goes deep again.
 */
void fiber_shed_stack(void);

/* Makes a parked fiber runnable; remembered if it is running or runnable. Same thread. */
void fiber_wake(struct fiber *fiber);

/*
 * Whose code it runs from now on: what the watchdog and a crash line name (running.h). NULL: nobody's in particular. For the
 * running fiber it reads the reactor's clock, so that reactor_now is fresh behind it.
 */
void fiber_set_owner(struct fiber *fiber, const struct owner *owner);

/* The request's id, for the same, clock included; borrowed until changed. */
void fiber_set_subject(struct fiber *fiber, const char *subject);

/* Whose code a fiber runs, parked or not. */
struct running fiber_running(const struct fiber *fiber);

/* Number of live fibers, and stacks kept, of a pool. */
size_t fiber_pool_live(const struct fiber_pool *pool);
size_t fiber_pool_idle(const struct fiber_pool *pool);

/*
 * Installs handlers for SIGSEGV, SIGBUS, SIGABRT, SIGILL and SIGFPE on an alternate stack (per thread: fiber_crash_thread),
 * which write one line (async-signal-safe) naming the step that runs (running.h), its plugin and its request, say `step "X" of plugin F
 * overflowed its 256 KiB stack: raise runtime.fiber_stack` when the fault address lies in the running fiber's guard or its stack pointer
 * below its stack, then let the previous action have its turn: the default one, or a sanitizer's report. Later calls of the install do nothing.
 */
void fiber_crash_install(void);
/* `function` (NULL: none) is called in a crash before that line is written: it must be async-signal-safe. One at a time. [any thread] */
void fiber_crash_first(void (*function)(void));
bool fiber_crash_thread(void) __attribute__((warn_unused_result)); /* sigaltstack for this thread */
void fiber_crash_thread_end(void);

#endif
