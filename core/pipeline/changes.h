/*
 * What differs between the configuration that serves and the one that takes its place: names for the log, never values.
 *
 * Some keys a running process cannot change: sockets, threads, certificates' places. What it was started with is kept for its
 * life, so that every later configuration is told which of its keys wait for a restart. Thread: [load].
 */
#ifndef PIPELINE_CHANGES_H
#define PIPELINE_CHANGES_H

#include "pipeline/generation.h"

/* Names, separated by commas: "server.read_timeout, gateway fast: address, pipeline default: step render". Cut where there are very many. */
struct changes {
    struct buffer added, removed, changed;
};

/* Of keys, gateways, pipelines, steps and plugins; without the keys that wait for a restart. Adds to zeroed `changes`. */
void changes_find(struct changes *changes, const struct generation *old, const struct generation *new);
void changes_release(struct changes *changes);

/* The values of the keys that cannot change, as the process was started with them. A zeroed one is empty. */
struct fixed_keys {
    struct arena arena;
    struct value *values;
};

/* Copies them. False: memory is short. */
bool fixed_keys_keep(struct fixed_keys *fixed, const struct settings *settings);
/* Appends the names of those that `settings` has otherwise, separated by commas. */
void fixed_keys_compare(const struct fixed_keys *fixed, const struct settings *settings, struct buffer *names);
void fixed_keys_release(struct fixed_keys *fixed);

#endif
