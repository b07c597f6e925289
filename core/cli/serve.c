/* `coordinator serve`: runs until SIGTERM or SIGINT, then drains; SIGHUP loads the configuration anew. */
#include "cli/serve_reload.h"
#include "telemetry/log.h"

#include <curl/curl.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* Signals are read from descriptors by the main thread; every other thread has them blocked from its start. */
static bool take_signals(struct serving *serving)
{
    sigset_t ending, reloads, all;

    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&ending);
    sigaddset(&ending, SIGTERM);
    sigaddset(&ending, SIGINT);
    sigemptyset(&reloads);
    sigaddset(&reloads, SIGHUP);
    sigorset(&all, &ending, &reloads);
    if (pthread_sigmask(SIG_BLOCK, &all, NULL) != 0)
        return false;
    serving->ending = signalfd(-1, &ending, SFD_CLOEXEC);
    serving->reloads = signalfd(-1, &reloads, SFD_CLOEXEC);
    return serving->ending >= 0 && serving->reloads >= 0;
}

static void take_signal(int signals)
{
    struct signalfd_siginfo info;

    while (read(signals, &info, sizeof info) < 0 && errno == EINTR)
        ;
}

static void print_complaints(const struct loaded *loaded, size_t from)
{
    coord_slice text = buffer_slice(&loaded->complaints.text);

    if (text.size > from)
        fprintf(stderr, "%.*s", COORD_FMT(((coord_slice){text.data + from, text.size - from})));
}

/* Until a signal ends it. Signals that come while a reload runs make one more afterwards, however many they are. */
static void serve(struct serving *serving)
{
    struct pollfd fds[] = {{.fd = serving->ending, .events = POLLIN},
                           {.fd = serving->reloads, .events = POLLIN},
                           {.fd = serving->service.news, .events = POLLIN}};

    while (!fds[0].revents) {
        if (poll(fds, 3, -1) < 0)
            fds[0].revents = fds[1].revents = fds[2].revents = 0;
        if (fds[2].revents)
            service_tend(&serving->service);
        if (fds[0].revents || !fds[1].revents)
            continue;
        take_signal(serving->reloads);
        serve_reload(serving);
    }
    take_signal(serving->ending);
}

/* Whoever waits for a reload, or asks for one from now on, need not wait longer. */
static void refuse_reloads(struct serving *serving)
{
    struct reload_answer answer = {.number = serving->reloaded + 1, .state = RELOAD_ENDING};

    reload_answer_write(&serving->pid_file, &answer);
}

static int serve_and_drain(struct serving *serving)
{
    bool whole;

    serve(serving);
    refuse_reloads(serving);
    whole = service_drain(&serving->service, serving->ending);
    log_flush();
    if (serving->service.hurried) {
        pid_file_drop(&serving->pid_file);
        _exit(1);
    }
    service_release(&serving->service);
    return whole ? 0 : 1;
}

static bool prepare(struct serving *serving, struct loaded *loaded, struct buffer *reason)
{
    const char *path = serving->arguments->pid_file;

    if (path && !pid_file_take(&serving->pid_file, path, reason))
        return false;
    return fixed_keys_keep(&serving->fixed, loaded->generation->settings) || buffer_explain(reason, "memory is short");
}

static void log_failure(const struct buffer *reason)
{
    coord_logf(NULL, COORD_LOG_ERROR, "the coordinator does not start: %.*s", COORD_FMT(buffer_slice(reason)));
    log_flush();
}

static int run(struct serving *serving, struct loaded *loaded)
{
    struct buffer reason = {.limit = 4096};
    size_t said = loaded->complaints.text.size; /* printed already */
    struct generation *generation = loaded->generation;
    int code = 1;

    if (!prepare(serving, loaded, &reason)) {
        log_failure(&reason);
    } else if (!generation_start(generation, &loaded->complaints)) {
        print_complaints(loaded, said);
    } else {
        generation_take_registry(generation, &loaded->registry);
        loaded->generation = NULL;
        if (service_start(&serving->service, generation, &reason) == COORD_OK) {
            code = serve_and_drain(serving);
        } else {
            log_failure(&reason);
            service_release(&serving->service);
        }
    }
    pid_file_drop(&serving->pid_file);
    fixed_keys_release(&serving->fixed);
    buffer_release(&reason);
    return code;
}

int cli_serve(const struct arguments *arguments)
{
    struct serving serving = {.arguments = arguments, .pid_file.fd = -1, .ending = -1, .reloads = -1};
    struct loaded loaded;
    int code;

    if (!arguments->config)
        return cli_lacks("serve", "--config FILE");
    if (arguments->rest_count > 0)
        return cli_misused("serve");
    if (!take_signals(&serving)) {
        fprintf(stderr, "coordinator: signals cannot be waited for: %s\n", strerror(errno));
        return 1;
    }
    curl_global_init(CURL_GLOBAL_DEFAULT);
    load_all(&loaded, arguments);
    print_complaints(&loaded, 0);
    code = loaded.generation ? run(&serving, &loaded) : 1;
    load_release(&loaded);
    curl_global_cleanup();
    close(serving.ending);
    close(serving.reloads);
    return code;
}
