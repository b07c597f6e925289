/*
 * See output.h.
 *
 * A pipe on standard error is shared with whoever started us, so it must not be made non-blocking for all: it is opened
 * again through /proc, which gives a description of our own. Where that is refused, every line goes through the backlog.
 * Only the writer takes from the backlog, so it may read what it was shown without holding the lock.
 */
#include "telemetry/output.h"

#include "telemetry/families.h"
#include "telemetry/gather.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { BACKLOG = 1024 * 1024, FLUSH_SECONDS = 2 };

enum kind { UNKNOWN, DIRECT, PIPE, SOCKET, QUEUED };

static _Atomic enum kind kind;
static int own_pipe = -1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER, drained = PTHREAD_COND_INITIALIZER;
static atomic_uint_fast64_t dropped;
static void *_Atomic sink_context;
static void (*_Atomic sink)(void *context, coord_slice line);

static struct {
    char *data; /* BACKLOG bytes, a ring */
    size_t begin, size;
    bool writer; /* runs; only it says that it does not any more */
    bool stop;   /* the writer shall end when nothing is left, and is joined by who said so */
    pthread_t thread;
} backlog;

void output_set_sink(void (*to)(void *context, coord_slice line), void *context)
{
    atomic_store(&sink_context, context);
    atomic_store(&sink, to);
}

uint64_t output_dropped(void) { return atomic_load_explicit(&dropped, memory_order_relaxed); }

static void drop(size_t lines)
{
    atomic_fetch_add_explicit(&dropped, lines, memory_order_relaxed);
    coord_metric_add(families()->log_lines_dropped_total, (double)lines, NULL);
}

/* ---- The writer ---- */

/* Writes some of it, for as long as it takes; 0: it cannot be written. */
static size_t write_some(const char *data, size_t size)
{
    for (;;) {
        ssize_t written = write(STDERR_FILENO, data, size);

        if (written > 0)
            return (size_t)written;
        if (written < 0 && errno == EAGAIN)
            poll(&(struct pollfd){.fd = STDERR_FILENO, .events = POLLOUT}, 1, -1);
        else if (written == 0 || errno != EINTR)
            return 0;
    }
}

static size_t count_lines(const char *data, size_t size)
{
    size_t lines = 0;

    for (size_t i = 0; i < size; i++)
        lines += data[i] == '\n';
    return lines;
}

static void *run_writer(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    for (;;) {
        size_t size, written;

        while (backlog.size == 0 && !backlog.stop)
            pthread_cond_wait(&filled, &lock);
        if (backlog.size == 0)
            break;
        size = BACKLOG - backlog.begin < backlog.size ? BACKLOG - backlog.begin : backlog.size;
        pthread_mutex_unlock(&lock);
        written = write_some(backlog.data + backlog.begin, size);
        if (written == 0) {
            drop(count_lines(backlog.data + backlog.begin, size));
            written = size;
        }
        pthread_mutex_lock(&lock);
        backlog.begin = (backlog.begin + written) % BACKLOG;
        backlog.size -= written;
        if (backlog.size == 0)
            pthread_cond_broadcast(&drained);
    }
    backlog.writer = false;
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* Under the lock. Signals are for the threads that expect them. */
static bool have_writer(void)
{
    sigset_t all, before;

    if (backlog.writer)
        return true;
    if (!backlog.data)
        backlog.data = malloc(BACKLOG);
    if (!backlog.data)
        return false;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    backlog.writer = pthread_create(&backlog.thread, NULL, run_writer, NULL) == 0;
    backlog.stop = false;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return backlog.writer;
}

/* Under the lock. `rest` is a line or the end of one. */
static void queue_line(coord_slice rest)
{
    size_t end, first;

    if (!have_writer() || rest.size > BACKLOG - backlog.size) {
        drop(1);
        return;
    }
    end = (backlog.begin + backlog.size) % BACKLOG;
    first = rest.size < BACKLOG - end ? rest.size : BACKLOG - end;
    memcpy(backlog.data + end, rest.data, first);
    memcpy(backlog.data, rest.data + first, rest.size - first);
    backlog.size += rest.size;
    pthread_cond_signal(&filled);
}

/* Under the lock. Lines, the first of which may be the end of one: each of them is taken or dropped whole. */
static void queue(coord_slice rest)
{
    while (rest.size > 0) {
        const char *end = memchr(rest.data, '\n', rest.size);
        size_t size = end ? (size_t)(end - rest.data) + 1 : rest.size;

        queue_line((coord_slice){rest.data, size});
        rest = (coord_slice){rest.data + size, rest.size - size};
    }
}

/* ---- Lines ---- */

static enum kind look(void)
{
    struct stat status;

    if (own_pipe >= 0)
        close(own_pipe);
    own_pipe = -1;
    if (fstat(STDERR_FILENO, &status) != 0 || S_ISREG(status.st_mode) || S_ISCHR(status.st_mode))
        return DIRECT;
    if (S_ISSOCK(status.st_mode))
        return SOCKET;
    if (S_ISFIFO(status.st_mode))
        own_pipe = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    return own_pipe >= 0 ? PIPE : QUEUED;
}

void output_look(void)
{
    pthread_mutex_lock(&lock);
    atomic_store(&kind, look());
    pthread_mutex_unlock(&lock);
}

static void write_directly(coord_slice lines)
{
    while (lines.size > 0) {
        ssize_t written = write(STDERR_FILENO, lines.data, lines.size);

        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            drop(count_lines(lines.data, lines.size));
            return;
        }
        lines = (coord_slice){lines.data + written, lines.size - (size_t)written};
    }
}

/* Under the lock. As much as it takes at once; -1 with errno. */
static ssize_t offer(enum kind to, coord_slice lines)
{
    if (to == SOCKET)
        return send(STDERR_FILENO, lines.data, lines.size, MSG_DONTWAIT | MSG_NOSIGNAL);
    return write(own_pipe, lines.data, lines.size);
}

static void write_or_queue(coord_slice lines)
{
    enum kind to;

    pthread_mutex_lock(&lock);
    to = atomic_load(&kind);
    if (backlog.size == 0 && (to == PIPE || to == SOCKET)) {
        ssize_t written;

        do
            written = offer(to, lines);
        while (written < 0 && errno == EINTR);
        if (written > 0)
            lines = (coord_slice){lines.data + written, lines.size - (size_t)written};
        else if (written < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
            drop(count_lines(lines.data, lines.size));
            lines.size = 0;
        }
    }
    queue(lines);
    pthread_mutex_unlock(&lock);
}

void output_lines(coord_slice lines)
{
    if (atomic_load_explicit(&kind, memory_order_relaxed) == UNKNOWN)
        output_look();
    if (atomic_load_explicit(&kind, memory_order_relaxed) == DIRECT)
        write_directly(lines);
    else
        write_or_queue(lines);
}

void output_line(coord_slice line, bool urgent)
{
    void (*to)(void *, coord_slice) = atomic_load_explicit(&sink, memory_order_acquire);

    if (to)
        to(atomic_load_explicit(&sink_context, memory_order_relaxed), line);
    else if (!gather_keep(line, urgent))
        output_lines(line);
}

void output_flush(void)
{
    struct timespec until;
    pthread_t thread;
    bool stopped = false;

    gather_send_all();
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += FLUSH_SECONDS;
    pthread_mutex_lock(&lock);
    while (backlog.size > 0)
        if (pthread_cond_clockwait(&drained, &lock, CLOCK_MONOTONIC, &until) != 0)
            break;
    if (backlog.size == 0 && backlog.writer && !backlog.stop) {
        stopped = backlog.stop = true;
        thread = backlog.thread;
        pthread_cond_signal(&filled);
    }
    pthread_mutex_unlock(&lock);
    if (stopped)
        pthread_join(thread, NULL);
}
