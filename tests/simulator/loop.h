/*
 * The event loop: one thread, epoll (level-triggered) and a heap of timers.
 *
 * Invariant: callbacks run only from loop_run, one at a time. Whoever owns a watch or a timer removes it before freeing
 * it; memory that a callback of the same turn may still point at is given to loop_bury and freed after the turn.
 */
#ifndef SIM_LOOP_H
#define SIM_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct watch {
    void (*ready)(struct watch *watch, uint32_t events); /* EPOLL* bits */
    int fd;                                              /* -1: not watched */
    uint32_t interest;
};

struct timer {
    void (*fire)(struct timer *timer); /* disarmed by then: may be armed again */
    int64_t at;                        /* loop_now() time, nanoseconds */
    size_t place;                      /* index in the heap + 1; 0: not armed */
};

struct grave {
    struct grave *next;
    void (*release)(struct grave *grave);
};

void loop_init(void);
void loop_fini(void);
/* Runs until loop_stop, SIGTERM or SIGINT. */
void loop_run(void);
void loop_stop(void);

/* CLOCK_MONOTONIC in nanoseconds, read once a turn. */
int64_t loop_now(void);

void watch_add(struct watch *watch, uint32_t interest);
void watch_change(struct watch *watch, uint32_t interest); /* no system call when nothing changes */
void watch_remove(struct watch *watch);

/* Due at the earliest on the next turn, so a timer that arms itself never starves the sockets. */
void timer_arm(struct timer *timer, int64_t at);
void timer_disarm(struct timer *timer);

void loop_bury(struct grave *grave);

#endif
