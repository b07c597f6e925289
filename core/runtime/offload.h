/*
 * A small thread pool for work that must block (files, a database client, heavy CPU), shared by all reactors.
 *
 * Threads start on first use, up to the bound, and block all signals. A finished job is posted to its reactor.
 * Ownership: the caller owns `struct offload_job` until `done` ran. Thread: submit [reactor]; run on a pool thread.
 */
#ifndef RUNTIME_OFFLOAD_H
#define RUNTIME_OFFLOAD_H

#include "runtime/reactor.h"

struct offload;

struct offload_job;
typedef void offload_run_fn(struct offload_job *job);
struct offload_job {
    offload_run_fn *run;  /* on a pool thread */
    offload_run_fn *done; /* on the reactor's thread, once, also when the pool stops before it ran (`ran` is false) */
    bool ran;
    struct reactor *reactor;
    struct task task; /* the pool's */
    struct offload_job *next;
};

struct offload *offload_new(unsigned threads, unsigned queue_limit);
/* Refuses new jobs, waits for running ones, posts the rest as not run. NULL is allowed. [load] */
void offload_free(struct offload *offload);
/* False when the queue is full or no thread could be started. */
bool offload_submit(struct offload *offload, struct reactor *reactor, struct offload_job *job)
    __attribute__((warn_unused_result));
/* A job that has not started is taken back (true, `done` will not run); false: it runs or ran, `done` comes. [reactor] */
bool offload_cancel(struct offload *offload, struct offload_job *job);

#endif
