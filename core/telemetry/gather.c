/*
 * See gather.h. A batch belongs to one thread, yet others may send it: whoever writes a line of its own, ends the process or
 * crashes. So it has a lock, which nobody else holds but then. Batches are never freed, only used again by another thread:
 * the handler of a crash walks through them whatever else happens.
 */
#include "telemetry/gather.h"

#include "runtime/fiber.h"
#include "runtime/of_thread.h"
#include "telemetry/output.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

enum { RESCUE_MS = 100 };

struct batch {
    struct batch *next; /* does not change */
    pthread_mutex_t lock;
    atomic_bool used;    /* by a thread */
    _Atomic size_t size; /* changes under the lock */
    char lines[PIPE_BUF];
};

static _Atomic(struct batch *) batches;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pid_t process;

static OF_THREAD struct batch *own;
static OF_THREAD struct batch *volatile locked; /* by this very thread, for the handler of its crash */

/* ---- Sending ---- */

static void lock(struct batch *batch)
{
    pthread_mutex_lock(&batch->lock);
    locked = batch;
}

static void unlock(struct batch *batch)
{
    locked = NULL;
    pthread_mutex_unlock(&batch->lock);
}

static size_t size_of(struct batch *batch) { return atomic_load_explicit(&batch->size, memory_order_acquire); }

static void set_size(struct batch *batch, size_t size)
{
    atomic_store_explicit(&batch->size, size, memory_order_release);
}

/* Under the lock. Empty only once all is written: whoever finds it so goes on without the lock. */
static void send_batch(struct batch *batch)
{
    size_t size = size_of(batch);

    if (size > 0)
        output_lines((coord_slice){batch->lines, size});
    set_size(batch, 0);
}

static void lock_and_send(struct batch *batch)
{
    if (size_of(batch) == 0)
        return;
    lock(batch);
    send_batch(batch);
    unlock(batch);
}

void gather_send(void)
{
    if (own)
        lock_and_send(own);
}

void gather_send_all(void)
{
    for (struct batch *batch = atomic_load_explicit(&batches, memory_order_acquire); batch; batch = batch->next)
        lock_and_send(batch);
}

bool gather_keep(coord_slice line, bool urgent)
{
    struct batch *batch = own;

    if (!batch || line.size > sizeof batch->lines) {
        gather_send_all();
        return false;
    }
    lock(batch);
    if (line.size > sizeof batch->lines - size_of(batch))
        send_batch(batch);
    memcpy(batch->lines + size_of(batch), line.data, line.size);
    set_size(batch, size_of(batch) + line.size);
    if (urgent)
        send_batch(batch);
    unlock(batch);
    return true;
}

/* ---- When the process ends ---- */

/*
 * In a signal's handler. Where this very thread has the lock, it goes no further: up to its size the batch is whole, and a part that
 * was just being sent leaves twice. Whoever else has it is writing and gives it back soon.
 */
static bool lock_soon(struct batch *batch)
{
    if (locked == batch)
        return true;
    for (int tries = 0; tries < RESCUE_MS; tries++) {
        if (pthread_mutex_trylock(&batch->lock) == 0)
            return true;
        poll(NULL, 0, 1);
    }
    return false;
}

static void rescue(void)
{
    for (struct batch *batch = atomic_load_explicit(&batches, memory_order_acquire); batch; batch = batch->next) {
        size_t sent = 0;

        if (size_of(batch) == 0 || !lock_soon(batch))
            continue;
        while (sent < size_of(batch)) {
            ssize_t written = write(STDERR_FILENO, batch->lines + sent, size_of(batch) - sent);

            if (written < 0 && errno != EINTR)
                break;
            sent += written > 0 ? (size_t)written : 0;
        }
        set_size(batch, 0);
        if (locked != batch)
            pthread_mutex_unlock(&batch->lock);
    }
}

/* Not in a child that a plugin has made: a thread that is not there may hold what flushing waits for. */
static void at_exit(void)
{
    if (getpid() == process)
        output_flush();
}

/* Its copies of the lines are not its own, and the threads that gather are not there: it writes at once. */
static void in_child(void)
{
    for (struct batch *batch = atomic_load_explicit(&batches, memory_order_acquire); batch; batch = batch->next)
        set_size(batch, 0);
    own = NULL;
}

static void prepare(void)
{
    process = getpid();
    fiber_crash_first(rescue);
    pthread_atfork(NULL, NULL, in_child);
    atexit(at_exit);
}

/* ---- Threads that gather ---- */

static struct batch *take_free(void)
{
    for (struct batch *batch = atomic_load_explicit(&batches, memory_order_acquire); batch; batch = batch->next)
        if (!atomic_exchange(&batch->used, true))
            return batch;
    return NULL;
}

static struct batch *make(void)
{
    struct batch *batch = malloc(sizeof *batch);

    if (!batch)
        return NULL;
    pthread_mutex_init(&batch->lock, NULL);
    atomic_init(&batch->used, true);
    atomic_init(&batch->size, 0);
    batch->next = atomic_load_explicit(&batches, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&batches, &batch->next, batch, memory_order_release,
                                                  memory_order_relaxed))
        ;
    return batch;
}

void gather_begin(void)
{
    pthread_once(&once, prepare);
    if (!own)
        own = take_free();
    if (!own)
        own = make();
}

void gather_end(void)
{
    if (!own)
        return;
    gather_send();
    atomic_store(&own->used, false);
    own = NULL;
}
