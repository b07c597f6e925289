/*
 * Starting and stopping the programs of a benchmark. What was started ends with its process_stop, or with this program
 * (PR_SET_PDEATHSIG).
 */
#ifndef BENCH_PROCESS_H
#define BENCH_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Starts argv[0] (looked up in PATH and the sbin folders). What it prints goes into a pipe, as under systemd or in a container; somebody
   reads all of it, and the first MiB is appended to `log`. 0 when that fails. */
pid_t process_start(char *const argv[], const char *log);
/* Waits until 127.0.0.1:port accepts and, if `path` is given, answers a GET of it with 200; false after ten seconds or when the process has ended. */
bool process_ready(pid_t pid, uint16_t port, const char *path);
/* Does it answer a GET of `path` with 200 now? `path` NULL: does it accept? */
bool process_answers(uint16_t port, const char *path);
/* SIGTERM, and SIGKILL after five seconds. */
void process_stop(pid_t pid);
/* A port on 127.0.0.1 that nobody listens on, below the range from which the system takes source ports; 0: none. */
uint16_t process_free_port(void);

#endif
