/*
 * See reactor.h. Three things here are less obvious than they look.
 *
 * A batch of ready descriptors is delivered one by one, and a callback may remove a watch whose event is still to come: the
 * rest of the batch is searched then, so that a freed watch is never called. The mailbox is a stack that producers push to
 * without a lock; only who finds it empty writes the eventfd, and the loop takes it whole and turns it round. Stopping
 * from another thread is a large number added to that eventfd: one system call, so that the reactor may be freed by its
 * thread as soon as it has seen it.
 */
#include "reactor.h"

#include "runtime/clock.h"
#include "runtime/of_thread.h"

#include <assert.h>
#include <errno.h>
#include <linux/time_types.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    BATCH_SIZE = 128, /* ready descriptors taken from the kernel at once */
    ROUNDS = 16,      /* of tasks and hooks before descriptors are looked at again */
    NS_PER_MS = 1000000,
    NS_PER_S = 1000000000,
    MAGIC = 0x52454143
};

static const uint64_t STOP = UINT64_C(1) << 32; /* added to the eventfd; a post adds 1 */

struct reactor {
    unsigned magic;
    unsigned index;
    int epoll_fd;
    bool coarse;    /* the kernel has no epoll_pwait2: waits are rounded up to milliseconds */
    bool in_turn;   /* turns do not nest */
    bool work_left; /* the last turn ended by its bound: the next one does not wait */
    bool stopping;
    bool mail; /* the eventfd was ready in this batch */
    int64_t now_ns;
    int64_t ahead_ns; /* of the clock: see reactor_advance */
    struct timer_set timers;

    struct task *tasks; /* first in, first out */
    struct task **tasks_end;
    size_t round_left; /* how many of `tasks`, from its head, belong to the running round */

    struct hook *hooks;
    struct hook *next_hook; /* the one that runs after the running one */

    struct epoll_event batch[BATCH_SIZE];
    int batch_next, batch_count; /* batch[batch_next … batch_count) is still to be delivered */

    struct reactor_activity activity;
    struct watch mailbox_watch;
    _Atomic(struct task *) mailbox; /* last posted first */
};

static OF_THREAD struct reactor *running;

static void check(const struct reactor *reactor) { assert(reactor && reactor->magic == MAGIC); }

/* Life */

static void mailbox_ready(struct watch *watch, uint32_t events);

static bool open_mailbox(struct reactor *reactor)
{
    int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);

    if (fd < 0)
        return false;
    reactor->mailbox_watch.ready = mailbox_ready;
    if (reactor_watch(reactor, &reactor->mailbox_watch, fd, EPOLLIN))
        return true;
    close(fd);
    return false;
}

struct reactor *reactor_new(unsigned index)
{
    struct reactor *reactor = calloc(1, sizeof *reactor);
    int saved;

    if (!reactor)
        return NULL;
    reactor->magic = MAGIC;
    reactor->index = index;
    reactor->now_ns = clock_ns();
    reactor->tasks_end = &reactor->tasks;
    reactor->work_left = true; /* hooks run once before the first wait */
    reactor->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (reactor->epoll_fd >= 0 && open_mailbox(reactor))
        return reactor;
    saved = errno;
    if (reactor->epoll_fd >= 0)
        close(reactor->epoll_fd);
    free(reactor);
    errno = saved;
    return NULL;
}

void reactor_free(struct reactor *reactor)
{
    if (!reactor)
        return;
    check(reactor);
    assert(!reactor->in_turn && !reactor->hooks && reactor->timers.count == 0);
    timer_set_release(&reactor->timers);
    close(reactor->mailbox_watch.fd);
    close(reactor->epoll_fd);
    reactor->magic = 0;
    free(reactor);
}

unsigned reactor_index(const struct reactor *reactor) { return reactor->index; }

/* Not inlined: a fiber must not keep the address of a thread's variable over a switch. */
__attribute__((noinline)) struct reactor *reactor_current(void) { return running; }

struct reactor_activity *reactor_activity(struct reactor *reactor) { return &reactor->activity; }

/* Time */

int64_t reactor_now(const struct reactor *reactor) { return reactor->now_ns; }

int64_t reactor_now_fresh(struct reactor *reactor) { return reactor->now_ns = clock_ns() + reactor->ahead_ns; }

void reactor_arm(struct reactor *reactor, struct timer *timer, int64_t delay_ns)
{
    int64_t now = reactor_now_fresh(reactor); /* a delay that counts from a stale clock would be too short */
    int64_t deadline = delay_ns > INT64_MAX - now ? INT64_MAX : now + delay_ns;

    check(reactor);
    if (timer_arm(&reactor->timers, timer, deadline))
        return;
    fputs("out of memory: a timeout could not be set\n", stderr);
    abort();
}

void reactor_disarm(struct reactor *reactor, struct timer *timer) { timer_disarm(&reactor->timers, timer); }

/* Descriptors */

static bool control(struct reactor *reactor, int operation, struct watch *watch, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};

    return epoll_ctl(reactor->epoll_fd, operation, watch->fd, &event) == 0;
}

bool reactor_watch(struct reactor *reactor, struct watch *watch, int fd, uint32_t events)
{
    check(reactor);
    assert(!watch->added && watch->ready);
    watch->fd = fd;
    watch->events = events;
    watch->added = control(reactor, EPOLL_CTL_ADD, watch, events);
    return watch->added;
}

bool reactor_rewatch(struct reactor *reactor, struct watch *watch, uint32_t events)
{
    assert(watch->added);
    if (!control(reactor, EPOLL_CTL_MOD, watch, events))
        return false;
    watch->events = events;
    return true;
}

void reactor_unwatch(struct reactor *reactor, struct watch *watch)
{
    if (!watch->added)
        return;
    control(reactor, EPOLL_CTL_DEL, watch, 0);
    watch->added = false;
    for (int i = reactor->batch_next; i < reactor->batch_count; i++)
        if (reactor->batch[i].data.ptr == watch)
            reactor->batch[i].data.ptr = NULL;
}

static void deliver_batch(struct reactor *reactor)
{
    while (reactor->batch_next < reactor->batch_count) {
        struct epoll_event *event = &reactor->batch[reactor->batch_next++];
        struct watch *watch = event->data.ptr;
        uint32_t events;

        if (!watch)
            continue;
        events = event->events & (watch->events | EPOLLERR | EPOLLHUP); /* an earlier callback may have changed them */
        if (events)
            watch->ready(watch, events);
    }
    reactor->batch_next = reactor->batch_count = 0;
}

/* Posts */

static void ring(struct reactor *reactor, uint64_t value)
{
    ssize_t written;

    do
        written = write(reactor->mailbox_watch.fd, &value, sizeof value);
    while (written < 0 && errno == EINTR);
    assert(written == sizeof value);
}

void reactor_post(struct reactor *reactor, struct task *task)
{
    struct task *head = atomic_load_explicit(&reactor->mailbox, memory_order_relaxed);

    do
        task->next = head;
    while (!atomic_compare_exchange_weak_explicit(&reactor->mailbox, &head, task, memory_order_release,
                                                  memory_order_relaxed));
    if (!head)
        ring(reactor, 1);
}

void reactor_stop(struct reactor *reactor)
{
    if (reactor_current() == reactor)
        reactor->stopping = true;
    else
        ring(reactor, STOP);
}

/* The posts run after all descriptors of the batch. */
static void mailbox_ready(struct watch *watch, uint32_t events)
{
    struct reactor *reactor = (struct reactor *)((char *)watch - offsetof(struct reactor, mailbox_watch));
    uint64_t value = 0;

    (void)events;
    if (read(watch->fd, &value, sizeof value) != sizeof value)
        return;
    reactor->mail = true;
    if (value >= STOP)
        reactor->stopping = true;
}

static struct task *reversed(struct task *task)
{
    struct task *first = NULL;

    while (task) {
        struct task *next = task->next;

        task->next = first;
        first = task;
        task = next;
    }
    return first;
}

static void run_posts(struct reactor *reactor)
{
    struct task *task;

    if (!reactor->mail)
        return;
    reactor->mail = false;
    task = reversed(atomic_exchange_explicit(&reactor->mailbox, NULL, memory_order_acquire));
    while (task) {
        struct task *next = task->next;

        task->next = NULL;
        task->run(task); /* may free it or post it again */
        task = next;
    }
}

/* Tasks and hooks */

void reactor_defer(struct reactor *reactor, struct task *task)
{
    check(reactor);
    if (task->queued)
        return;
    task->queued = true;
    task->next = NULL;
    *reactor->tasks_end = task;
    reactor->tasks_end = &task->next;
}

void reactor_undefer(struct reactor *reactor, struct task *task)
{
    struct task **link = &reactor->tasks;
    size_t place = 0;

    if (!task->queued)
        return;
    for (; *link && *link != task; link = &(*link)->next)
        place++;
    assert(*link); /* queued in another reactor? */
    *link = task->next;
    if (reactor->tasks_end == &task->next)
        reactor->tasks_end = link;
    if (place < reactor->round_left)
        reactor->round_left--;
    task->queued = false;
}

static struct task *pop_task(struct reactor *reactor)
{
    struct task *task = reactor->tasks;

    reactor->tasks = task->next;
    if (!reactor->tasks)
        reactor->tasks_end = &reactor->tasks;
    task->next = NULL;
    task->queued = false;
    return task;
}

/* Runs what is queued now; what these tasks queue is for the next round. */
static void run_round(struct reactor *reactor)
{
    reactor->round_left = 0;
    for (struct task *task = reactor->tasks; task; task = task->next)
        reactor->round_left++;
    while (reactor->round_left > 0) {
        struct task *task = pop_task(reactor);

        reactor->round_left--;
        task->run(task); /* may free it */
    }
}

void reactor_hook(struct reactor *reactor, struct hook *hook)
{
    struct hook **link = &reactor->hooks;

    check(reactor);
    while (*link)
        link = &(*link)->next;
    hook->next = NULL;
    *link = hook;
}

void reactor_unhook(struct reactor *reactor, struct hook *hook)
{
    struct hook **link = &reactor->hooks;

    while (*link && *link != hook)
        link = &(*link)->next;
    if (!*link)
        return;
    *link = hook->next;
    if (reactor->next_hook == hook)
        reactor->next_hook = hook->next;
}

static bool run_hooks(struct reactor *reactor)
{
    bool progress = false;

    for (struct hook *hook = reactor->hooks; hook; hook = reactor->next_hook) {
        reactor->next_hook = hook->next;
        progress = hook->run(hook) || progress; /* may remove any hook, itself too */
    }
    reactor->next_hook = NULL;
    return progress;
}

/* The turn */

/* Leaves the longest stretch for the watchdog, which may not have looked in time. */
static void close_activity(struct reactor *reactor)
{
    struct reactor_activity *activity = &reactor->activity;
    int64_t since = atomic_load_explicit(&activity->since_ns, memory_order_relaxed);
    int64_t held = reactor_now_fresh(reactor) - reactor->ahead_ns - since;
    const struct owner *owner = atomic_load_explicit(&activity->owner, memory_order_relaxed);

    if (since == 0 || held < NS_PER_MS || held <= atomic_load_explicit(&activity->longest_ns, memory_order_relaxed))
        return;
    atomic_store_explicit(&activity->longest_owner, activity->visit_ns > held / 2 ? activity->visitor : owner,
                          memory_order_relaxed);
    atomic_store_explicit(&activity->longest_ns, held, memory_order_release);
}

static void copy_subject(struct reactor_activity *activity, const char *subject)
{
    size_t size = subject ? strnlen(subject, sizeof activity->subject - 1) : 0;

    for (size_t at = 0; at <= size; at += sizeof(uint64_t)) {
        uint64_t word = 0;

        if (at < size)
            memcpy(&word, subject + at, size - at < sizeof word ? size - at : sizeof word);
        atomic_store_explicit(&activity->subject[at / sizeof word], word, memory_order_relaxed);
    }
}

static void set_activity(struct reactor *reactor, int64_t since_ns, const struct owner *owner)
{
    struct reactor_activity *activity = &reactor->activity;

    atomic_store_explicit(&activity->owner, owner, memory_order_relaxed);
    activity->visitor = NULL;
    activity->visit_ns = 0;
    atomic_store_explicit(&activity->since_ns, since_ns, memory_order_release);
}

void reactor_begin_activity(struct reactor *reactor, struct running who)
{
    close_activity(reactor);
    copy_subject(&reactor->activity, who.subject);
    set_activity(reactor, reactor->now_ns - reactor->ahead_ns, who.owner);
}

void reactor_change_owner(struct reactor *reactor, const struct owner *owner)
{
    close_activity(reactor);
    set_activity(reactor, reactor->now_ns - reactor->ahead_ns, owner);
}

static void end_activity(struct reactor *reactor)
{
    close_activity(reactor);
    set_activity(reactor, 0, NULL);
}

bool reactor_holder(struct reactor *reactor, const struct owner **owner, char *subject)
{
    struct reactor_activity *activity = &reactor->activity;
    int64_t since = atomic_load_explicit(&activity->since_ns, memory_order_acquire);

    *owner = atomic_load_explicit(&activity->owner, memory_order_relaxed);
    for (size_t i = 0; i < ACTIVITY_SUBJECT; i++) {
        uint64_t word = atomic_load_explicit(&activity->subject[i], memory_order_relaxed);

        memcpy(subject + i * sizeof word, &word, sizeof word);
    }
    subject[sizeof activity->subject - 1] = '\0';
    return since != 0 && atomic_load_explicit(&activity->since_ns, memory_order_acquire) == since;
}

void reactor_advance(struct reactor *reactor, int64_t ns)
{
    reactor->ahead_ns += ns;
    reactor_now_fresh(reactor);
}

static int wait_precisely(struct reactor *reactor, int64_t wait_ns)
{
#ifdef SYS_epoll_pwait2
    struct __kernel_timespec wait = {.tv_sec = wait_ns / NS_PER_S, .tv_nsec = wait_ns % NS_PER_S};

    return (int)syscall(SYS_epoll_pwait2, reactor->epoll_fd, reactor->batch, BATCH_SIZE, &wait, NULL, (size_t)0);
#else
    (void)reactor;
    (void)wait_ns;
    errno = ENOSYS;
    return -1;
#endif
}

/* Up, never down: waking before a deadline would spin until it has come. */
static int milliseconds(int64_t wait_ns)
{
    if (wait_ns <= 0)
        return wait_ns < 0 ? -1 : 0;
    return wait_ns > (int64_t)INT32_MAX / 2 * NS_PER_MS ? INT32_MAX / 2 : (int)((wait_ns + NS_PER_MS - 1) / NS_PER_MS);
}

static int wait_for_events(struct reactor *reactor, int64_t wait_ns)
{
    if (wait_ns > 0 && !reactor->coarse) {
        int count = wait_precisely(reactor, wait_ns);

        if (count >= 0 || (errno != ENOSYS && errno != EPERM)) /* EPERM: how old container sandboxes say ENOSYS */
            return count;
        reactor->coarse = true;
    }
    return epoll_wait(reactor->epoll_fd, reactor->batch, BATCH_SIZE, milliseconds(wait_ns));
}

/* The clock was read when the last turn ended, or when the last timer was armed. */
static int64_t how_long(const struct reactor *reactor, int64_t wait_ns)
{
    int64_t next;

    if (wait_ns == 0 || reactor->tasks || reactor->work_left || reactor->stopping)
        return 0;
    if (reactor->timers.count == 0)
        return wait_ns;
    next = timer_next_ns(&reactor->timers, reactor->now_ns);
    return wait_ns < 0 || next < wait_ns ? next : wait_ns;
}

static void take_events(struct reactor *reactor, int64_t wait_ns)
{
    int count = wait_for_events(reactor, how_long(reactor, wait_ns));

    assert(count >= 0 || errno == EINTR);
    reactor->batch_next = 0;
    reactor->batch_count = count > 0 ? count : 0;
}

/* Tasks until none is left, then hooks; again while that made more, but not for ever. */
static void run_tasks_and_hooks(struct reactor *reactor)
{
    int rounds = ROUNDS;
    bool again;

    do {
        bool ran = reactor->tasks != NULL;

        while (reactor->tasks && rounds-- > 0)
            run_round(reactor);
        if (ran && reactor->hooks)
            reactor_begin_activity(reactor, (struct running){0}); /* what hooks do is not the last fiber's fault */
        again = run_hooks(reactor) || reactor->tasks;
    } while (again && rounds-- > 0);
    reactor->work_left = again;
}

static void turn(struct reactor *reactor, int64_t wait_ns)
{
    struct reactor *outer = running;

    check(reactor);
    assert(!reactor->in_turn);
    running = reactor;
    running_on(&reactor->activity);
    reactor->in_turn = true;
    take_events(reactor, wait_ns);
    reactor_begin_activity(reactor, (struct running){0});
    deliver_batch(reactor);
    run_posts(reactor);
    if (reactor->timers.count > 0)
        timer_run(&reactor->timers, reactor->now_ns);
    run_tasks_and_hooks(reactor);
    end_activity(reactor);
    reactor->in_turn = false;
    running = outer;
    running_on(outer ? &outer->activity : NULL);
}

void reactor_turn(struct reactor *reactor, int64_t wait_ns)
{
    reactor_now_fresh(reactor); /* time may have passed between turns */
    turn(reactor, wait_ns);
}

void reactor_run(struct reactor *reactor)
{
    reactor_now_fresh(reactor);
    do
        turn(reactor, -1);
    while (!reactor->stopping);
    reactor->stopping = false;
}
