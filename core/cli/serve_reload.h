/*
 * `coordinator serve`, and how it takes over a configuration that has changed (decision 77).
 *
 * The main thread loads and checks the new one beside the old one, and only when all of it is right the workers
 * take it. Whatever goes wrong: the old one serves on. Thread: main thread.
 */
#ifndef CLI_SERVE_RELOAD_H
#define CLI_SERVE_RELOAD_H

#include "cli/load.h"
#include "cli/pid_file.h"
#include "pipeline/changes.h"
#include "pipeline/worker.h"

struct serving {
    const struct arguments *arguments;
    struct service service;
    struct pid_file pid_file;
    struct fixed_keys fixed;
    int ending;        /* readable: SIGTERM or SIGINT */
    int reloads;       /* readable: SIGHUP */
    unsigned reloaded; /* how often, well or not */
};

/* Loads the configuration anew and puts it in the place of the old one. Tells what came of it: log, metrics, pid file. */
void serve_reload(struct serving *serving);

#endif
