/*
 * Step types: what a plugin adds to a pipeline.
 *
 * Life: create (once per pipeline entry) → start → [thread_start on each reactor] → execute, many at a time → [thread_stop] →
 * stop → destroy. What `create` made is used by all reactors at the same time: it is read-only afterwards but for what it
 * locks itself. State of one request hangs on the request (slots), state of one reactor comes from thread_start.
 * A `create` that fails needs no `destroy`. After `stop` no execute of that instance runs any more.
 */
#ifndef COORDINATOR_STEP_H
#define COORDINATOR_STEP_H

#include <coordinator/param.h>
#include <coordinator/request.h>

COORD_BEGIN_DECLS

/* Names of what steps need and provide; a plugin may add its own as "vendor.name". */
#define COORD_THING_TOKEN_IDS "token_ids"
#define COORD_THING_MEDIA_ENTRIES "media_entries"
#define COORD_THING_ENCODER_PARAMS "encoder_params"
#define COORD_THING_KV_PARAMS "kv_params"
#define COORD_THING_ANSWER "answer" /* the step always answers: later ones are unreachable */

typedef struct coord_step_type {
    uint32_t size;             /* sizeof(coord_step_type) */
    uint32_t flags;            /* 0 */
    const char *name;          /* as in YAML's `type:`; [a-z][a-z0-9-]* */
    const char *help;          /* one sentence */
    const coord_param *params; /* `param_count` rows of `param_size` bytes each */
    uint32_t param_count;
    uint32_t param_size;         /* sizeof(coord_param): a table of an older plugin has shorter rows */
    const char *const *needs;    /* NULL-terminated, or NULL */
    const char *const *provides; /* NULL-terminated, or NULL */

    /* Makes an instance. COORD_OK with `*state` set, or COORD_FAIL with `error` set. [load] */
    coord_status (*create)(const coord_config *config, void **state, coord_error *error);
    /*
     * Serves one request. COORD_NEXT, COORD_DONE (the answer is complete), or a negative status: COORD_FAIL after coord_fail,
     * COORD_CANCELLED after a parked call said so. Any other status is answered as a 500 that names the step. After an answer
     * no further step runs, whatever this one says. [fiber]
     */
    coord_status (*execute)(void *state, coord_request *request);
    /* Frees the instance. May be NULL. [load] */
    void (*destroy)(void *state);

    /* Optional: once a generation, before the first and after the last request. `start` may fail with `error` set. [load] */
    coord_status (*start)(void *state, coord_error *error);
    void (*stop)(void *state);
    /* Optional: on each reactor's thread; what thread_start puts in `*local` is given back by coord_request_local. [reactor] */
    coord_status (*thread_start)(void *state, void **local, coord_error *error);
    void (*thread_stop)(void *state, void *local);
} coord_step_type;

/* Fills the params part: `.size`, `.params` … of a type with a static table. */
#define COORD_STEP_PARAMS(table)                                                                                       \
    .params = (table), .param_count = (uint32_t)(sizeof(table) / sizeof *(table)),                                     \
    .param_size = (uint32_t)sizeof *(table)

COORD_END_DECLS
#endif
