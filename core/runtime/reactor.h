/*
 * One reactor: an epoll loop on one thread that owns descriptors, timers, runnable tasks and a mailbox.
 *
 * A turn: wait → ready descriptors → posts from other threads → due timers → tasks (fibers run here) → turn-end hooks (the
 * HTTP server and client flush there), until no task is left; then wait again, no longer than the next timer allows.
 * Invariant: callbacks of watches, timers, posts, tasks and hooks run on the reactor's thread, one at a time, never nested.
 * Ownership: the caller owns watch, task, hook and timer structs; the reactor points at them while they are registered.
 * Thread: [reactor] throughout, but for reactor_post and reactor_stop, which are [any thread].
 */
#ifndef RUNTIME_REACTOR_H
#define RUNTIME_REACTOR_H

#include "runtime/running.h"
#include "runtime/timer.h"

#include <coordinator/base.h>

struct reactor;

/* A descriptor in the epoll set, level-triggered unless EPOLLET is among `events`. */
struct watch;
typedef void watch_ready_fn(struct watch *watch,
                            uint32_t events); /* may change, remove or free any watch, this one too */
struct watch {
    watch_ready_fn *ready;
    int fd;
    uint32_t events; /* EPOLL…; valid while added */
    bool added;
};

/* Something to run later in this turn or the next one. A task that is queued already is not queued again. */
struct task;
typedef void task_fn(struct task *task);
struct task {
    task_fn *run;
    struct task *next;
    bool queued;
};

/* Runs at the end of every turn, in order of adding. Returns true when it made progress that others may have to see (another round of hooks and tasks follows before the wait). */
struct hook;
typedef bool hook_fn(struct hook *hook);
struct hook {
    hook_fn *run;
    struct hook *next;
};

/* Creates reactor `index` (from 0). NULL with errno set when descriptors or memory are short. */
struct reactor *reactor_new(unsigned index);

/* All watches, hooks and timers have been removed by their owners. NULL is allowed. */
void reactor_free(struct reactor *reactor);

/* Runs until reactor_stop, on the calling thread. */
void reactor_run(struct reactor *reactor);

/* One turn that waits at most `wait_ns` (-1: as long as the next timer allows); for tests and for driving a loop by hand at
 * shutdown. Never from inside a callback. */
void reactor_turn(struct reactor *reactor, int64_t wait_ns);

/* Makes reactor_run return after the current turn. [any thread] */
void reactor_stop(struct reactor *reactor);

unsigned reactor_index(const struct reactor *reactor);

/* The reactor that runs on this thread, or NULL. */
struct reactor *reactor_current(void);

/* CLOCK_MONOTONIC in nanoseconds, read once a turn (and again after a long callback by reactor_now_fresh). */
int64_t reactor_now(const struct reactor *reactor);
int64_t reactor_now_fresh(struct reactor *reactor);

/* Lets that much time pass for it at once, timers included: for tests. Only the watchdog sees the real time. */
void reactor_advance(struct reactor *reactor, int64_t ns);

/* False with errno set when epoll refuses. */
bool reactor_watch(struct reactor *reactor, struct watch *watch, int fd, uint32_t events)
    __attribute__((warn_unused_result));
bool reactor_rewatch(struct reactor *reactor, struct watch *watch, uint32_t events) __attribute__((warn_unused_result));
/* Does nothing if it is not added. The descriptor is still open when this is called. */
void reactor_unwatch(struct reactor *reactor, struct watch *watch);

/* As timer_arm with a delay from now; memory shortage aborts (a timeout that never fires is worse). */
void reactor_arm(struct reactor *reactor, struct timer *timer, int64_t delay_ns);
void reactor_disarm(struct reactor *reactor, struct timer *timer);

/* Queues a task for this turn (or the next, when called while the loop waits). */
void reactor_defer(struct reactor *reactor, struct task *task);
/* Takes a queued task out again. */
void reactor_undefer(struct reactor *reactor, struct task *task);

/* Hands `task` to the reactor's thread, where it is run once; the caller must not touch it until then. [any thread] */
void reactor_post(struct reactor *reactor, struct task *task);

void reactor_hook(struct reactor *reactor, struct hook *hook);
void reactor_unhook(struct reactor *reactor, struct hook *hook);

/*
 * What the watchdog looks at: when that which runs now began (0: the loop waits), whose it is and for which request, and the longest that
 * has ended since it last looked, so that it misses nothing between two looks. The subject is a copy, as another thread cannot
 * know how long a request lives; it belongs to `since_ns` when that is the same before and after reading it.
 */
enum { ACTIVITY_SUBJECT = 128 / sizeof(uint64_t) };
struct reactor_activity {
    _Atomic int64_t since_ns;
    _Atomic(const struct owner *) owner;
    _Atomic uint64_t subject[ACTIVITY_SUBJECT]; /* a NUL-terminated text, cut at its room */
    _Atomic int64_t longest_ns;                 /* the watchdog sets it to 0 */
    _Atomic(const struct owner *) longest_owner;
    const struct owner *visitor; /* [reactor] whose visit (running.h) since `since_ns` was the longest … */
    int64_t visit_ns;            /* … and how long: to blame when it was most of the time */
};
struct reactor_activity *reactor_activity(struct reactor *reactor);

/* What runs on the thread from now on is another's: whoever has done a long stretch before has it alone. Reads the clock. */
void reactor_begin_activity(struct reactor *reactor, struct running who);
/* The same, for the same subject. */
void reactor_change_owner(struct reactor *reactor, const struct owner *owner);

/*
 * Who holds the reactor at this moment, for another thread: false when it waits or moves on. `subject` has room for sizeof(uint64_t) *
 * ACTIVITY_SUBJECT bytes, is empty without a request, and `*owner` is NULL where it is nobody's. [any thread]
 */
bool reactor_holder(struct reactor *reactor, const struct owner **owner, char *subject);

#endif
