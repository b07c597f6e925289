/* The event loop; see loop.h. */
#include "loop.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS_A_TURN = 512 };

static struct {
    int epoll;
    bool stop;
    int64_t now;
    struct timer **heap; /* heap[0] is due first */
    size_t count;
    size_t cap;
    struct grave *graves;
    struct watch signals;
    bool no_pwait2; /* the kernel has milliseconds only */
} loop = {.epoll = -1};

static void die(const char *what)
{
    perror(what);
    exit(2);
}

static void read_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    loop.now = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void on_signal(struct watch *watch, uint32_t events)
{
    (void)watch;
    (void)events;
    loop.stop = true;
}

void loop_init(void)
{
    loop.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (loop.epoll < 0)
        die("worker-sim: epoll_create1");
    signal(SIGPIPE, SIG_IGN);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    loop.signals = (struct watch){.ready = on_signal, .fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)};
    if (loop.signals.fd < 0)
        die("worker-sim: signalfd");
    watch_add(&loop.signals, EPOLLIN);
    read_clock();
}

void loop_fini(void)
{
    close(loop.signals.fd);
    close(loop.epoll);
    free(loop.heap);
    loop.heap = NULL;
}

void loop_stop(void) { loop.stop = true; }

int64_t loop_now(void) { return loop.now; }

void watch_add(struct watch *watch, uint32_t interest)
{
    struct epoll_event event = {.events = interest, .data.ptr = watch};
    watch->interest = interest;
    if (epoll_ctl(loop.epoll, EPOLL_CTL_ADD, watch->fd, &event) < 0)
        die("worker-sim: epoll_ctl");
}

void watch_change(struct watch *watch, uint32_t interest)
{
    if (watch->fd < 0 || watch->interest == interest)
        return;
    struct epoll_event event = {.events = interest, .data.ptr = watch};
    watch->interest = interest;
    if (epoll_ctl(loop.epoll, EPOLL_CTL_MOD, watch->fd, &event) < 0)
        die("worker-sim: epoll_ctl");
}

void watch_remove(struct watch *watch)
{
    if (watch->fd >= 0)
        epoll_ctl(loop.epoll, EPOLL_CTL_DEL, watch->fd, NULL);
}

static void put(size_t index, struct timer *timer)
{
    loop.heap[index] = timer;
    timer->place = index + 1;
}

static void sift(size_t index)
{
    struct timer *timer = loop.heap[index];
    while (index > 0 && loop.heap[(index - 1) / 2]->at > timer->at) {
        put(index, loop.heap[(index - 1) / 2]);
        index = (index - 1) / 2;
    }
    for (;;) {
        size_t child = 2 * index + 1;
        if (child >= loop.count)
            break;
        if (child + 1 < loop.count && loop.heap[child + 1]->at < loop.heap[child]->at)
            child++;
        if (loop.heap[child]->at >= timer->at)
            break;
        put(index, loop.heap[child]);
        index = child;
    }
    put(index, timer);
}

void timer_arm(struct timer *timer, int64_t at)
{
    timer->at = at > loop.now ? at : loop.now + 1;
    if (!timer->place) {
        if (loop.count == loop.cap) {
            loop.cap = loop.cap ? 2 * loop.cap : 64;
            loop.heap = realloc(loop.heap, loop.cap * sizeof *loop.heap);
            if (!loop.heap)
                abort();
        }
        put(loop.count++, timer);
    }
    sift(timer->place - 1);
}

void timer_disarm(struct timer *timer)
{
    if (!timer->place)
        return;
    size_t index = timer->place - 1;
    timer->place = 0;
    struct timer *last = loop.heap[--loop.count];
    if (last == timer)
        return;
    put(index, last);
    sift(index);
}

void loop_bury(struct grave *grave)
{
    grave->next = loop.graves;
    loop.graves = grave;
}

static void empty_graves(void)
{
    while (loop.graves) {
        struct grave *grave = loop.graves;
        loop.graves = grave->next;
        grave->release(grave);
    }
}

static int wait_events(struct epoll_event *events)
{
    int64_t wait = loop.count ? loop.heap[0]->at - loop.now : -1;
    if (loop.count && wait < 0)
        wait = 0;
    if (!loop.no_pwait2) {
        struct timespec span = {.tv_sec = wait / 1000000000, .tv_nsec = wait % 1000000000};
        int count = epoll_pwait2(loop.epoll, events, EVENTS_A_TURN, wait < 0 ? NULL : &span, NULL);
        if (count >= 0 || (errno != ENOSYS && errno != EPERM))
            return count;
        loop.no_pwait2 = true;
    }
    int64_t millis = (wait + 999999) / 1000000;
    return epoll_wait(loop.epoll, events, EVENTS_A_TURN, wait < 0 ? -1 : millis > 60000 ? 60000 : (int)millis);
}

void loop_run(void)
{
    static struct epoll_event events[EVENTS_A_TURN];
    while (!loop.stop) {
        int count = wait_events(events);
        if (count < 0 && errno != EINTR)
            die("worker-sim: epoll_wait");
        read_clock();
        for (int i = 0; i < count; i++) {
            struct watch *watch = events[i].data.ptr;
            if (watch->fd >= 0) /* an earlier callback of this turn may have closed it */
                watch->ready(watch, events[i].events);
        }
        while (loop.count && loop.heap[0]->at <= loop.now) {
            struct timer *timer = loop.heap[0];
            timer_disarm(timer);
            timer->fire(timer);
        }
        empty_graves();
    }
    empty_graves();
}
