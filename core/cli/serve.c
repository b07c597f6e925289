/* `coordinator serve`: runs until SIGTERM or SIGINT, then drains. */
#include "cli/load.h"
#include "pipeline/worker.h"
#include "telemetry/log.h"

#include <curl/curl.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* Signals are read from a descriptor by the main thread; every other thread has them blocked from its start. */
static int take_signals(void)
{
    sigset_t set;

    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    if (pthread_sigmask(SIG_BLOCK, &set, NULL) != 0)
        return -1;
    return signalfd(-1, &set, SFD_CLOEXEC);
}

static bool wait_signal(int signals)
{
    struct signalfd_siginfo info;
    ssize_t got;

    do
        got = read(signals, &info, sizeof info);
    while (got < 0);
    return got == (ssize_t)sizeof info;
}

static bool write_pid(const char *path, struct buffer *reason)
{
    FILE *file = path ? fopen(path, "we") : NULL;
    bool written;

    if (!path)
        return true;
    written = file && fprintf(file, "%ld\n", (long)getpid()) > 0;
    if (file && fclose(file) != 0)
        written = false;
    if (!written &&
        !buffer_printf(reason, "the process id cannot be written to --pid-file %s: %s", path, strerror(errno)))
        reason->size = 0;
    return written;
}

static void print_complaints(const struct loaded *loaded, size_t from)
{
    coord_slice text = buffer_slice(&loaded->complaints.text);

    if (text.size > from)
        fprintf(stderr, "%.*s", COORD_FMT(((coord_slice){text.data + from, text.size - from})));
}

static int run(struct loaded *loaded, int signals, const char *pid_file)
{
    struct buffer reason = {.limit = 4096};
    size_t said = loaded->complaints.text.size; /* printed already */
    struct service service;
    bool whole;

    if (!generation_start(loaded->generation, &loaded->complaints)) {
        print_complaints(loaded, said);
        return 1;
    }
    if (service_start(&service, loaded->generation, &reason) != COORD_OK || !write_pid(pid_file, &reason)) {
        coord_logf(NULL, COORD_LOG_ERROR, "the coordinator does not start: %.*s", COORD_FMT(buffer_slice(&reason)));
        buffer_release(&reason);
        log_flush();
        loaded->generation = NULL;
        service_release(&service);
        return 1;
    }
    loaded->generation = NULL;
    wait_signal(signals);
    whole = service_drain(&service, signals);
    log_flush();
    if (service.hurried)
        _exit(1);
    service_release(&service);
    buffer_release(&reason);
    if (pid_file)
        unlink(pid_file);
    return whole ? 0 : 1;
}

int cli_serve(const struct arguments *arguments)
{
    struct loaded loaded;
    int signals, code;

    if (!arguments->config || arguments->rest_count > 0) {
        fprintf(stderr, "usage: coordinator serve --config FILE\n");
        return 2;
    }
    signals = take_signals();
    if (signals < 0) {
        fprintf(stderr, "coordinator: signals cannot be waited for: %s\n", strerror(errno));
        return 1;
    }
    curl_global_init(CURL_GLOBAL_DEFAULT);
    load_all(&loaded, arguments);
    print_complaints(&loaded, 0);
    code = loaded.generation ? run(&loaded, signals, arguments->pid_file) : 1;
    load_release(&loaded);
    curl_global_cleanup();
    close(signals);
    return code;
}
