/*
 * See offload.h. One lock guards the queue and the counts; jobs run, and are posted, outside of it. A thread is started
 * when there are more waiting jobs than waiting threads.
 */
#include "offload.h"

#include "runtime/fiber.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

struct offload {
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct offload_job *queue; /* first in, first out */
    struct offload_job **queue_end;
    unsigned queued, queue_limit;
    unsigned started, idle, limit; /* threads */
    bool stopping;
    pthread_t threads[];
};

/* The job's task, on the reactor's thread. */
static void finish(struct task *task)
{
    struct offload_job *job = (struct offload_job *)((char *)task - offsetof(struct offload_job, task));

    job->done(job);
}

static struct offload_job *pop(struct offload *offload)
{
    struct offload_job *job = offload->queue;

    offload->queue = job->next;
    if (!offload->queue)
        offload->queue_end = &offload->queue;
    offload->queued--;
    return job;
}

/* Waits for a job. NULL: the pool stops. */
static struct offload_job *next_job(struct offload *offload)
{
    struct offload_job *job = NULL;

    pthread_mutex_lock(&offload->lock);
    offload->idle++;
    while (!offload->queue && !offload->stopping)
        pthread_cond_wait(&offload->work, &offload->lock);
    offload->idle--;
    if (!offload->stopping)
        job = pop(offload);
    pthread_mutex_unlock(&offload->lock);
    return job;
}

static void *work(void *argument)
{
    struct offload *offload = argument;
    struct offload_job *job;
    bool crashes_are_told = fiber_crash_thread(); /* all but an overflow of the stack are in any case */

    while ((job = next_job(offload)) != NULL) {
        job->run(job);
        job->ran = true;
        reactor_post(job->reactor, &job->task); /* the owner's from here on */
    }
    if (crashes_are_told)
        fiber_crash_thread_end();
    return NULL;
}

/* Signals are for the threads that expect them; a crash is everybody's. */
static bool start_thread(struct offload *offload)
{
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE};
    sigset_t blocked, before;
    int result;

    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++)
        sigdelset(&blocked, crashes[i]);
    pthread_sigmask(SIG_BLOCK, &blocked, &before);
    result = pthread_create(&offload->threads[offload->started], NULL, work, offload);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (result != 0)
        return false;
    pthread_setname_np(offload->threads[offload->started], "offload");
    offload->started++;
    return true;
}

struct offload *offload_new(unsigned threads, unsigned queue_limit)
{
    struct offload *offload = calloc(1, sizeof *offload + threads * sizeof *offload->threads);

    if (!offload)
        return NULL;
    pthread_mutex_init(&offload->lock, NULL);
    pthread_cond_init(&offload->work, NULL);
    offload->queue_end = &offload->queue;
    offload->queue_limit = queue_limit;
    offload->limit = threads;
    return offload;
}

void offload_free(struct offload *offload)
{
    if (!offload)
        return;
    pthread_mutex_lock(&offload->lock);
    offload->stopping = true;
    pthread_cond_broadcast(&offload->work);
    pthread_mutex_unlock(&offload->lock);
    for (unsigned i = 0; i < offload->started; i++)
        pthread_join(offload->threads[i], NULL);
    while (offload->queue) {
        struct offload_job *job = pop(offload);

        reactor_post(job->reactor, &job->task);
    }
    pthread_cond_destroy(&offload->work);
    pthread_mutex_destroy(&offload->lock);
    free(offload);
}

/* With the lock held: is there, or will there be, a thread for one more job? */
static bool has_room(struct offload *offload)
{
    if (offload->stopping || offload->queued >= offload->queue_limit)
        return false;
    if (offload->queued >= offload->idle && offload->started < offload->limit)
        start_thread(offload);
    return offload->started > 0;
}

bool offload_submit(struct offload *offload, struct reactor *reactor, struct offload_job *job)
{
    bool room;

    assert(job->run && job->done);
    job->ran = false;
    job->reactor = reactor;
    job->task = (struct task){.run = finish};
    job->next = NULL;
    pthread_mutex_lock(&offload->lock);
    room = has_room(offload);
    if (room) {
        *offload->queue_end = job;
        offload->queue_end = &job->next;
        offload->queued++;
        pthread_cond_signal(&offload->work);
    }
    pthread_mutex_unlock(&offload->lock);
    return room;
}

/* With the lock held. */
static bool take_out(struct offload *offload, struct offload_job *job)
{
    struct offload_job **link = &offload->queue;

    while (*link && *link != job)
        link = &(*link)->next;
    if (!*link)
        return false;
    *link = job->next;
    if (offload->queue_end == &job->next)
        offload->queue_end = link;
    offload->queued--;
    return true;
}

bool offload_cancel(struct offload *offload, struct offload_job *job)
{
    bool taken;

    pthread_mutex_lock(&offload->lock);
    taken = take_out(offload, job);
    pthread_mutex_unlock(&offload->lock);
    return taken;
}
