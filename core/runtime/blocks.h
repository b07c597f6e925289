/*
 * Small blocks of memory that come and go with each request.
 *
 * What is given back is kept for the thread's next ones of about the same size, up to a bound of each size, until the thread ends:
 * many requests side by side, each with some blocks that it has for a while, are what makes malloc join and split its free
 * blocks all the time. Not under AddressSanitizer, which then sees who still uses one.
 * Thread: any; a block may be given back on another one than it was taken on.
 */
#ifndef RUNTIME_BLOCKS_H
#define RUNTIME_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>

/* `size` bytes, with anything in them, aligned for any object. NULL: memory is short. */
void *block_take(size_t size) __attribute__((warn_unused_result, malloc));

/* Of the size that was taken. NULL is allowed. It is malloc's memory: free() does as well, and keeps nothing. */
void block_give(void *block, size_t size);

/* As realloc: another one of `more` bytes in place of one of `size`, of which the first `used` are taken along. NULL: memory is short, and it stays. */
void *block_enlarge(void *block, size_t size, size_t used, size_t more) __attribute__((warn_unused_result));

/* For tests: from now on a block is refused when that says so, whether one is kept or not; NULL: none is. */
void block_set_refusal(bool (*refuses)(void));

#endif
