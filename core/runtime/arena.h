/*
 * Memory with one lifetime: many small allocations, freed in one go.
 *
 * Invariant: what the arena gave out stays where it is until arena_reset or arena_release. Allocations of 64 KiB and more
 * are separate. A reset arena keeps its first block, unless that is lent. Small blocks are those of blocks.h.
 * Thread: whoever owns it.
 */
#ifndef RUNTIME_ARENA_H
#define RUNTIME_ARENA_H

#include <coordinator/base.h>

struct arena_block;

/* A zeroed arena is empty and ready. */
struct arena {
    struct arena_block *first; /* kept over arena_reset */
    struct arena_block *last;  /* where small allocations come from */
    struct arena_block *large;
    struct arena_block *lent; /* the next block, while that is in memory of somebody else's */
    size_t used;              /* bytes handed out since the last reset */
    bool lasting;             /* memory was lent to it */
};

/* `size` bytes aligned for any object, zeroed. NULL when memory is short. */
void *arena_alloc(struct arena *arena, size_t size) __attribute__((warn_unused_result, malloc));

/* A copy followed by a NUL that does not count. {NULL, 0} when memory is short. */
coord_slice arena_copy(struct arena *arena, coord_slice slice) __attribute__((warn_unused_result));

/* Formatted text as a NUL-terminated string; NULL when memory is short. */
char *arena_printf(struct arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3), warn_unused_result));

/*
 * Has the next small allocations come from memory that lies there anyway: `size` bytes, aligned as by malloc, which stay
 * until the arena is reset or released. One piece at a time; less than 288 bytes are left alone. Whoever lends wants to save:
 * what is needed beyond comes in smaller blocks, too.
 */
void arena_lend(struct arena *arena, void *memory, size_t size);

/* Takes everything back but keeps the first block for the next user. */
void arena_reset(struct arena *arena);

/* Takes everything back and keeps nothing. */
void arena_release(struct arena *arena);

/* For tests: from now on an allocation is refused when that says so; NULL: none is. [any thread] */
void arena_set_refusal(bool (*refuses)(void));

#endif
