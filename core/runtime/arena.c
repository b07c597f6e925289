/* See arena.h. Blocks are chained; a block's data follows its header. */
#include "arena.h"

#include <stdarg.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * Small blocks: what a stream leaves unused of its last one, it keeps for long. With its head a block is the largest size that
 * glibc's malloc keeps at hand for a thread.
 */
enum { BLOCK_SIZE = 992, LARGE_SIZE = 65536 };

struct arena_block {
    struct arena_block *next;
    size_t size; /* of data */
    size_t used;
    alignas(max_align_t) char data[];
};

static size_t aligned(size_t size) { return (size + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1); }

static struct arena_block *block_new(size_t size)
{
    struct arena_block *block = malloc(sizeof *block + size);

    if (!block)
        return NULL;
    block->next = NULL;
    block->size = size;
    block->used = 0;
    return block;
}

static void *take(struct arena_block *block, size_t size)
{
    void *data = block->data + block->used;

    block->used += size;
    memset(data, 0, size);
    return data;
}

static void *take_large(struct arena *arena, size_t size)
{
    struct arena_block *block = block_new(size);

    if (!block)
        return NULL;
    block->next = arena->large;
    arena->large = block;
    return take(block, size);
}

static bool (*_Atomic refusal)(void);

void arena_set_refusal(bool (*refuses)(void)) { atomic_store(&refusal, refuses); }

void *arena_alloc(struct arena *arena, size_t size)
{
    struct arena_block *block = arena->last;
    bool (*refuses)(void) = atomic_load_explicit(&refusal, memory_order_relaxed);

    if (size > PTRDIFF_MAX - LARGE_SIZE || (refuses && refuses()))
        return NULL;
    size = aligned(size ? size : 1);
    arena->used += size;
    if (size >= LARGE_SIZE)
        return take_large(arena, size);
    if (!block || block->size - block->used < size) {
        block = block_new(size > BLOCK_SIZE / 2 ? 2 * size : BLOCK_SIZE);
        if (!block)
            return NULL;
        if (arena->last)
            arena->last->next = block;
        else
            arena->first = block;
        arena->last = block;
    }
    return take(block, size);
}

coord_slice arena_copy(struct arena *arena, coord_slice slice)
{
    char *data = arena_alloc(arena, slice.size + 1);

    if (!data)
        return (coord_slice){0};
    if (slice.size > 0)
        memcpy(data, slice.data, slice.size);
    return (coord_slice){data, slice.size};
}

char *arena_printf(struct arena *arena, const char *format, ...)
{
    va_list arguments;
    char *text;
    int size;

    va_start(arguments, format);
    size = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    text = size < 0 ? NULL : arena_alloc(arena, (size_t)size + 1);
    if (!text)
        return NULL;
    va_start(arguments, format);
    vsnprintf(text, (size_t)size + 1, format, arguments);
    va_end(arguments);
    return text;
}

static void free_chain(struct arena_block *block)
{
    while (block) {
        struct arena_block *next = block->next;

        free(block);
        block = next;
    }
}

void arena_reset(struct arena *arena)
{
    free_chain(arena->large);
    arena->large = NULL;
    arena->used = 0;
    if (!arena->first)
        return;
    free_chain(arena->first->next);
    arena->first->next = NULL;
    arena->first->used = 0;
    arena->last = arena->first;
}

void arena_release(struct arena *arena)
{
    free_chain(arena->large);
    free_chain(arena->first);
    *arena = (struct arena){0};
}
