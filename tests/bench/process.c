/* See process.h. */
#include "process.h"

#include "load.h"
#include "samples.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const int64_t ready_within_ns = 10000000000, stop_within_ns = 5000000000;
enum { LOOK_AGAIN_MS = 5, KEPT_OF_LOG = 1 << 20, READ_AT_ONCE = 1 << 16 };

/* Reads whatever comes until the program has ended; the file gets what one cares to look at. */
static void drain(int from, const char *log)
{
    static char bytes[READ_AT_ONCE];
    int file = open(log, O_WRONLY | O_CREAT | O_APPEND, 0644);
    size_t kept = 0;
    ssize_t got;

    while ((got = read(from, bytes, sizeof bytes)) > 0)
        if (kept < KEPT_OF_LOG && write(file, bytes, (size_t)got) == got)
            kept += (size_t)got;
}

/* The end of a pipe to write to, read by a process that is nobody's child; -1: none. */
static int log_pipe(const char *log)
{
    int ends[2];
    pid_t between;

    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    between = fork();
    if (between == 0) {
        close(ends[1]);
        if (fork() == 0)
            drain(ends[0], log);
        _exit(0);
    }
    close(ends[0]);
    if (between > 0)
        waitpid(between, NULL, 0);
    return ends[1];
}

pid_t process_start(char *const argv[], const char *log)
{
    int output = log_pipe(log);
    pid_t pid = output < 0 ? -1 : fork();

    if (pid != 0 && output >= 0)
        close(output);
    if (pid != 0)
        return pid < 0 ? 0 : pid;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
    execvp(argv[0], argv);
    fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

bool process_answers(uint16_t port, const char *path)
{
    char text[512];
    int descriptor = load_connect(port), length;
    struct pollfd poll_it = {.fd = descriptor, .events = POLLIN};
    bool ready = false;

    if (descriptor < 0)
        return false;
    if (!path) {
        close(descriptor);
        return true;
    }
    length = snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", path);
    if (send(descriptor, text, (size_t)length, MSG_NOSIGNAL) == length && poll(&poll_it, 1, 1000) == 1) {
        ssize_t got = recv(descriptor, text, sizeof text - 1, 0);

        ready = got > 12 && strncmp(text + 9, "200", 3) == 0;
    }
    close(descriptor);
    return ready;
}

bool process_ready(pid_t pid, uint16_t port, const char *path)
{
    int64_t until = now_ns() + ready_within_ns;

    while (pid > 0 && now_ns() < until) {
        if (process_answers(port, path))
            return true;
        if (waitpid(pid, NULL, WNOHANG) != 0)
            return false;
        poll(NULL, 0, LOOK_AGAIN_MS);
    }
    return false;
}

void process_stop(pid_t pid)
{
    int64_t until = now_ns() + stop_within_ns;

    if (pid <= 0)
        return;
    kill(pid, SIGTERM);
    while (waitpid(pid, NULL, WNOHANG) == 0) {
        if (now_ns() > until) {
            kill(pid, SIGKILL);
            until = INT64_MAX;
        }
        poll(NULL, 0, LOOK_AGAIN_MS);
    }
}

uint16_t process_free_port(void)
{
    static uint16_t next;

    if (next == 0)
        next = (uint16_t)(12000 + getpid() % 10000);
    for (int tries = 0; tries < 1000; tries++) {
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(++next)};
        int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        bool is_free;

        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        is_free = bind(descriptor, (struct sockaddr *)&address, sizeof address) == 0;
        close(descriptor);
        if (is_free)
            return next;
    }
    return 0;
}
