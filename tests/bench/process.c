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
enum { LOOK_AGAIN_MS = 5 };

pid_t process_start(char *const argv[], const char *log)
{
    pid_t pid = fork();
    int output;

    if (pid < 0)
        return 0;
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    output = open(log, O_WRONLY | O_CREAT | O_APPEND, 0644);
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
