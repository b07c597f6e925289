/*
 * What every public header shares: slices, statuses, thread tags.
 *
 * Thread tags in the comments of all headers:
 *   [fiber]       inside `execute` of a step (or a connector's entry point), on the request's fiber; such a call may park it
 *                 only where its comment says so
 *   [reactor]     inside a callback on the reactor's thread (writers); must not block and cannot park
 *   [load]        inside `create`, `start`, `stop`, `destroy`, all on the main thread: one at a time, and no request knows of the
 *                 instance. At a reload other instances of the step serve requests meanwhile: what they share needs a lock
 *   [any thread]  no restriction
 *
 * Ownership: every pointer is borrowed unless a name says `_new` (the caller frees it with the matching `_free`), `_take`
 * (the callee takes it over) or `_ref`. No pointer may be NULL, out-parameters included, unless the comment says so.
 * COORD_NO_MEMORY may come from whatever keeps something, also where a comment does not list it. "Request lifetime" means until
 * the request's answer has ended and its slots are freed.
 *
 * ABI: structs that cross the boundary begin with `size` and only ever grow at the end; each side reads min(size, what it
 * knows). Enumerations cross as int32_t. No exception and no longjmp may cross a call into or out of the core.
 */
#ifndef COORDINATOR_BASE_H
#define COORDINATOR_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Around declarations, for C++. */
#ifdef __cplusplus
#define COORD_BEGIN_DECLS extern "C" {
#define COORD_END_DECLS }
#else
#define COORD_BEGIN_DECLS
#define COORD_END_DECLS
#endif

/* In front of or behind a declaration: it is exported, its result must be looked at, its arguments are those of printf. */
#if defined(__GNUC__)
#define COORD_API __attribute__((visibility("default")))
#define COORD_MUST_CHECK __attribute__((warn_unused_result))
#define COORD_PRINTF(at, first) __attribute__((format(printf, at, first)))
#else
#define COORD_API
#define COORD_MUST_CHECK
#define COORD_PRINTF(at, first)
#endif

COORD_BEGIN_DECLS

/* Bytes that somebody else owns. Never NUL-terminated by contract; may hold NUL. {NULL, 0} is the empty slice. */
typedef struct coord_slice {
    const char *data;
    size_t size;
} coord_slice;

/* What a function or a step says. Negative: it did not do what was asked. */
typedef int32_t coord_status;
enum {
    COORD_OK = 0,
    COORD_NEXT = 0, /* from `execute`: go on with the next step */
    COORD_DONE = 1, /* from `execute`: the request is answered, later steps do not run */
    COORD_END = 2,  /* an iteration or a stream is over */
    COORD_FAIL =
        -1, /* it failed, and the request holds the reason (see coord_fail): return it from `execute` as it is */
    COORD_CANCELLED =
        -2, /* the client is gone, the step's time is over or the process is stopping: clean up and return it */
    COORD_ABSENT = -3,    /* no such member, header, param, slot */
    COORD_MISTYPED = -4,  /* it is there, but of another type or out of range */
    COORD_REPEATED = -5,  /* a JSON member stands there more than once: reading or writing it would be a guess */
    COORD_INVALID = -6,   /* an argument is not what the contract asks for (not JSON, a bad pointer, a bad header) */
    COORD_LIMIT = -7,     /* a configured bound was reached */
    COORD_NO_MEMORY = -8, /* memory is short; nothing was changed */
    COORD_STATE = -9      /* not now: the call contradicts what happened before (a second answer, a head after data) */
};

/* Why something at load time failed; filled by coord_error_set, printed by the core with file, line and column in front. */
typedef struct coord_error coord_error;

/* Sets the message of `error` (first one wins). `error` may be NULL. Returns COORD_FAIL, so that `return coord_error_set(…)` reads well. [load] */
COORD_API coord_status coord_error_set(coord_error *error, const char *format, ...) COORD_PRINTF(2, 3);

static inline coord_slice coord_slice_of(const char *text)
{
    coord_slice slice = {text, text ? strlen(text) : 0};

    return slice;
}

static inline bool coord_slice_equal(coord_slice a, coord_slice b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

static inline bool coord_slice_is(coord_slice slice, const char *text)
{
    return coord_slice_equal(slice, coord_slice_of(text));
}

/* A string literal as a slice initialiser: `coord_slice name = COORD_SLICE("model");` */
#define COORD_SLICE(literal) {literal, sizeof(literal) - 1}

/* For printf: printf("%.*s", COORD_FMT(slice)) */
#define COORD_FMT(slice) (int)((slice).size < 0x7fffffff ? (slice).size : 0x7fffffff), (slice).data ? (slice).data : ""

COORD_END_DECLS
#endif
