/* See arena.h. Blocks are chained; a block's data follows its header. */
#include "arena.h"

#include "runtime/blocks.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

/* Small blocks: what is left unused of the last one is kept as long as the arena. */
enum { BLOCK_SIZE = 736, LASTING_SIZE = 480, LARGE_SIZE = 65536, LENT_LEAST = 256 };

struct arena_block {
    struct arena_block *next;
    size_t size; /* of data; it and `used` are multiples of the alignment */
    size_t used;
    bool lent; /* the memory is somebody else's */
    alignas(max_align_t) char data[];
};

static struct arena_block *block_new(size_t size)
{
    struct arena_block *block = block_take(sizeof *block + size);

    if (!block)
        return NULL;
    *block = (struct arena_block){.size = size};
    return block;
}

static void block_free(struct arena_block *block)
{
    if (!block->lent)
        block_give(block, sizeof *block + block->size);
}

/* ---- Allocations ---- */

static size_t aligned(size_t size) { return (size + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1); }

static inline char *take(struct arena_block *block, size_t size)
{
    char *data = block->data + block->used;

    block->used += size;
    return data;
}

static struct arena_block *add_large(struct arena *arena, size_t size)
{
    struct arena_block *block = block_new(size);

    if (!block)
        return NULL;
    block->next = arena->large;
    arena->large = block;
    return block;
}

static struct arena_block *next_block(struct arena *arena, size_t size)
{
    struct arena_block *lent = arena->lent;
    size_t usual = arena->lasting ? LASTING_SIZE : BLOCK_SIZE;

    if (!lent || lent->size < size)
        return block_new(size > usual ? 2 * size : usual);
    arena->lent = NULL;
    return lent;
}

static struct arena_block *add_block(struct arena *arena, size_t size)
{
    struct arena_block *block = next_block(arena, size);

    if (!block)
        return NULL;
    if (arena->last)
        arena->last->next = block;
    else
        arena->first = block;
    arena->last = block;
    return block;
}

static bool (*_Atomic refusal)(void);

void arena_set_refusal(bool (*refuses)(void)) { atomic_store(&refusal, refuses); }

static __attribute__((noinline)) char *take_elsewhere(struct arena *arena, size_t size)
{
    bool (*refuses)(void) = atomic_load_explicit(&refusal, memory_order_relaxed);
    struct arena_block *block = arena->last;

    if (size > PTRDIFF_MAX - LARGE_SIZE || (refuses && refuses()))
        return NULL;
    size = aligned(size);
    if (!block || block->size - block->used < size)
        block = size >= LARGE_SIZE ? add_large(arena, size) : add_block(arena, size);
    if (!block)
        return NULL;
    arena->used += size;
    return take(block, size);
}

/* `size` bytes with anything in them. */
static inline char *take_bytes(struct arena *arena, size_t size)
{
    struct arena_block *block = arena->last;

    size += size == 0;
    if (!block || block->size - block->used < size || atomic_load_explicit(&refusal, memory_order_relaxed))
        return take_elsewhere(arena, size);
    size = aligned(size); /* as what is left is a multiple of it, there is room for that too */
    arena->used += size;
    return take(block, size);
}

void *arena_alloc(struct arena *arena, size_t size)
{
    char *data = take_bytes(arena, size);

    return data ? memset(data, 0, size) : NULL;
}

coord_slice arena_copy(struct arena *arena, coord_slice slice)
{
    char *data = take_bytes(arena, slice.size + 1);

    if (!data)
        return (coord_slice){0};
    if (slice.size > 0)
        memcpy(data, slice.data, slice.size);
    data[slice.size] = '\0';
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

        block_free(block);
        block = next;
    }
}

void arena_lend(struct arena *arena, void *memory, size_t size)
{
    struct arena_block *block = memory;

    if (size < sizeof *block + LENT_LEAST)
        return;
    *block = (struct arena_block){.size = (size - sizeof *block) & ~(alignof(max_align_t) - 1), .lent = true};
    arena->lent = block;
    arena->lasting = true;
}

void arena_reset(struct arena *arena)
{
    free_chain(arena->large);
    arena->large = arena->lent = NULL;
    arena->used = 0;
    arena->lasting = false;
    if (!arena->first || arena->first->lent) {
        free_chain(arena->first);
        arena->first = arena->last = NULL;
        return;
    }
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
