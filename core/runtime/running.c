/* See running.h. */
#include "runtime/running.h"

#include "runtime/of_thread.h"
#include "runtime/reactor.h"

#include <stdatomic.h>
#include <stddef.h>
#include <time.h>

static OF_THREAD struct running running;
static OF_THREAD struct reactor_activity *seen_in;

/* Not inlined, and not for the compiler to reason about: a thread's variable must not be kept over a switch of fibers. */
__attribute__((noinline)) struct running running_now(void)
{
    __asm__ volatile("");
    return running;
}

__attribute__((noinline)) struct running running_set(struct running now)
{
    struct running before;

    __asm__ volatile("");
    before = running;
    running = now;
    if (seen_in)
        atomic_store_explicit(&seen_in->owner, now.owner, memory_order_relaxed);
    return before;
}

static int64_t coarse_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

struct guest running_enter(struct running visitor) { return (struct guest){running_set(visitor), coarse_now()}; }

/* A visitor's own visitors have left before: what they took is not its own. */
__attribute__((noinline)) void running_leave(struct guest guest)
{
    int64_t held = coarse_now() - guest.began_ns;

    if (seen_in && held > 0 && held > 2 * seen_in->visit_ns) {
        seen_in->visit_ns = held;
        seen_in->visitor = running.owner;
    }
    running_set(guest.before);
}

__attribute__((noinline)) void running_on(struct reactor_activity *activity)
{
    __asm__ volatile("");
    seen_in = activity;
}
