/*
 * The memory that steps take. While it is watched, the calls of malloc and its kin by the test's program, by plugin files and by the
 * coordinator's library go through here (their import tables are changed, nothing else is), so that it works with every checker.
 * A block is a step's when the step's own code asked for it. Threads: watch and unwatch [the test's, without a kit]; the rest any.
 */
#ifndef TESTKIT_MEMORY_H
#define TESTKIT_MEMORY_H

#include "pipeline/kit_host.h"

#include <coordinator/testkit.h>

/* `options` tells whose steps count. False: this system's import tables cannot be changed. */
bool kit_memory_watch(const coord_kit_options *options);
void kit_memory_unwatch(void);

/* What the kit itself does on a step's behalf is not the step's. */
void kit_memory_mute(bool on);

/* A step of the plugins of these options. */
bool kit_memory_is_ours(const coord_kit_options *options, const struct coord_kit_running *who);

struct memory_total {
    size_t blocks, bytes;
    struct coord_kit_running first; /* of the oldest of them */
    const void *caller;             /* the code that asked for it */
};
/* What is kept of what was taken for requests, or of all but that. */
struct memory_total kit_memory_kept(bool for_requests);
/* A step took it and has it. */
bool kit_memory_holds(const void *block, struct coord_kit_running *who);

/* The allocation number `n` from now (from 1) in the name of a step fails; 0: none does. */
void kit_memory_fail(unsigned long n);
/* It has (in a process that was forked since, too): who asked. False: there were fewer. */
bool kit_memory_failed(struct coord_kit_running *who, const void **caller);

/* "function of FILE" or "FILE+0x1234" for `caller`; until the next call. */
const char *kit_memory_place(const void *caller);

#endif
