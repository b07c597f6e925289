/*
 * What a program has used: CPU time and memory of a process and its children, as the kernel books them.
 *
 * CPU time is user and system time of all threads, read from each process's CPU clock: the same books as
 * /proc/PID/stat, in nanoseconds instead of ticks of 10 ms. Memory is the proportional set size (PSS).
 * What is asked of one process alone comes from its status files.
 */
#ifndef BENCH_ACCOUNT_H
#define BENCH_ACCOUNT_H

#include <stdint.h>
#include <sys/types.h>

/* Nanoseconds used so far by `pid` and its children; -1 if it is gone. */
int64_t account_cpu_ns(pid_t pid);
/* Bytes that `pid` and its children hold now; -1 if that cannot be read. */
int64_t account_memory(pid_t pid);
/* Of `pid` alone, bytes: what is resident now, and the most that ever was; -1 if that cannot be read. */
int64_t account_resident(pid_t pid);
int64_t account_peak(pid_t pid);
/* How often the threads of `pid` have gone to sleep so far, each time to be woken; -1 if that cannot be read. */
int64_t account_sleeps(pid_t pid);

#endif
