/*
 * See watchdog.h. Two sources of truth for each reactor: what runs at this moment (a callback that hangs is reported while it
 * hangs), and the longest that ended since the last look (nothing is missed, however seldom we look). So an idle process is
 * looked at once a second, and one that works every half limit.
 */
#include "watchdog.h"

#include "runtime/clock.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)

/* What has been said about one reactor. */
struct episode {
    int64_t since_ns; /* of the one that was reported and has not ended, else 0 */
    const struct owner *owner;
};

struct watchdog {
    struct reactor **reactors;
    unsigned count;
    int64_t limit_ns;
    watchdog_report_fn *report;
    void *context;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t stopped;
    bool stopping;
    struct episode episodes[];
};

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

static void ended(struct watchdog *watchdog, unsigned index, const struct owner *owner, int64_t held_ns)
{
    struct episode *episode = &watchdog->episodes[index];

    if (!episode->since_ns)
        watchdog->report(watchdog->context, index, owner, held_ns, false);
    watchdog->report(watchdog->context, index, owner, held_ns, true);
    *episode = (struct episode){0};
}

/* Returns whether the reactor was at work. */
static bool look(struct watchdog *watchdog, unsigned index)
{
    struct reactor_activity *activity = reactor_activity(watchdog->reactors[index]);
    struct episode *episode = &watchdog->episodes[index];
    /* In this order: a callback leaves its length before the next one shows up. */
    int64_t since = atomic_load_explicit(&activity->since_ns, memory_order_acquire);
    const struct owner *owner = atomic_load_explicit(&activity->owner, memory_order_relaxed);
    int64_t longest = atomic_exchange_explicit(&activity->longest_ns, 0, memory_order_acq_rel);
    int64_t now = clock_ns();

    if (longest >= watchdog->limit_ns) {
        ended(watchdog, index, atomic_load_explicit(&activity->longest_owner, memory_order_relaxed), longest);
        return true;
    }
    if (episode->since_ns && since != episode->since_ns)
        ended(watchdog, index, episode->owner, now - episode->since_ns);
    if (!since)
        return false;
    if (!episode->since_ns && now - since >= watchdog->limit_ns &&
        since == atomic_load_explicit(&activity->since_ns, memory_order_acquire)) {
        *episode = (struct episode){since, owner};
        watchdog->report(watchdog->context, index, owner, now - since, false);
    }
    return true;
}

/* With the lock held. Waits, no longer than `wait_ns`, for the end. */
static void wait_for_stop(struct watchdog *watchdog, int64_t wait_ns)
{
    int64_t until = clock_ns() + wait_ns;
    struct timespec at = {.tv_sec = until / NS_PER_S, .tv_nsec = until % NS_PER_S};
    int result = 0;

    while (!watchdog->stopping && result == 0)
        result = pthread_cond_timedwait(&watchdog->stopped, &watchdog->lock, &at);
}

static void *watch(void *argument)
{
    struct watchdog *watchdog = argument;

    pthread_mutex_lock(&watchdog->lock);
    while (!watchdog->stopping) {
        int64_t wait = NS_PER_S;

        pthread_mutex_unlock(&watchdog->lock);
        for (unsigned i = 0; i < watchdog->count; i++)
            if (look(watchdog, i))
                wait = larger(watchdog->limit_ns / 2, 10 * NS_PER_MS);
        pthread_mutex_lock(&watchdog->lock);
        wait_for_stop(watchdog, wait < NS_PER_S ? wait : NS_PER_S);
    }
    pthread_mutex_unlock(&watchdog->lock);
    return NULL;
}

static bool start_thread(struct watchdog *watchdog)
{
    sigset_t all, before;
    int result;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    result = pthread_create(&watchdog->thread, NULL, watch, watchdog);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (result == 0)
        pthread_setname_np(watchdog->thread, "watchdog");
    return result == 0;
}

static void release(struct watchdog *watchdog)
{
    pthread_cond_destroy(&watchdog->stopped);
    pthread_mutex_destroy(&watchdog->lock);
    free(watchdog);
}

struct watchdog *watchdog_new(struct reactor **reactors, unsigned count, int64_t limit_ns, watchdog_report_fn *report,
                              void *context)
{
    struct watchdog *watchdog = calloc(1, sizeof *watchdog + count * sizeof *watchdog->episodes);
    pthread_condattr_t monotonic;

    if (!watchdog)
        return NULL;
    watchdog->reactors = reactors;
    watchdog->count = count;
    watchdog->limit_ns = larger(limit_ns, NS_PER_MS);
    watchdog->report = report;
    watchdog->context = context;
    pthread_mutex_init(&watchdog->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&watchdog->stopped, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (start_thread(watchdog))
        return watchdog;
    release(watchdog);
    return NULL;
}

void watchdog_free(struct watchdog *watchdog)
{
    if (!watchdog)
        return;
    pthread_mutex_lock(&watchdog->lock);
    watchdog->stopping = true;
    pthread_cond_signal(&watchdog->stopped);
    pthread_mutex_unlock(&watchdog->lock);
    pthread_join(watchdog->thread, NULL);
    release(watchdog);
}
