/* See blocks.h. Sizes are rounded up to steps; one list a step. */
#include "blocks.h"

#include "runtime/fiber_checkers.h"
#include "runtime/of_thread.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { STEP = 32, STEPS = 32, KEPT_BYTES = 32 * 1024 /* of each size */ };

struct free_block {
    struct free_block *next;
};

struct kept {
    struct free_block *first[STEPS];
    unsigned count[STEPS];
    bool told; /* the thread's end frees them */
};

static OF_THREAD struct kept kept;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t end_key; /* only for its destructor */
static bool have_key;

static void end_of_thread(void *argument)
{
    struct kept *own = argument;

    for (size_t i = 0; i < STEPS; i++)
        while (own->first[i]) {
            struct free_block *next = own->first[i]->next;

            free(own->first[i]);
            own->first[i] = next;
        }
    *own = (struct kept){0};
}

static void make_key(void) { have_key = pthread_key_create(&end_key, end_of_thread) == 0; }

static bool tell(void)
{
    pthread_once(&once, make_key);
    return kept.told = have_key && pthread_setspecific(end_key, &kept) == 0;
}

/* Of the list; STEPS and more: there is none. */
static inline size_t place_of(size_t size) { return (size - (size > 0)) / STEP; }

static bool (*_Atomic refusal)(void);

void block_set_refusal(bool (*refuses)(void)) { atomic_store(&refusal, refuses); }

static inline bool refused(void)
{
    bool (*refuses)(void) = atomic_load_explicit(&refusal, memory_order_relaxed);

    return refuses && refuses();
}

void *block_take(size_t size)
{
    size_t place = place_of(size);
    struct free_block *block;

    if (refused())
        return NULL;
    if (FIBER_ASAN || place >= STEPS)
        return malloc(size);
    block = kept.first[place];
    if (!block)
        return malloc((place + 1) * STEP);
    kept.first[place] = block->next;
    kept.count[place]--;
    return block;
}

void block_give(void *block, size_t size)
{
    size_t place = place_of(size);
    struct free_block *free_block = block;

    if (!block)
        return;
    if (FIBER_ASAN || place >= STEPS || kept.count[place] >= KEPT_BYTES / STEP / (place + 1) ||
        (!kept.told && !tell())) {
        free(block);
        return;
    }
    free_block->next = kept.first[place];
    kept.first[place] = free_block;
    kept.count[place]++;
}

void *block_enlarge(void *block, size_t size, size_t used, size_t more)
{
    void *larger;

    if (FIBER_ASAN || (block && place_of(size) >= STEPS))
        return refused() ? NULL : realloc(block, more);
    larger = block_take(more);
    if (!larger)
        return NULL;
    if (used > 0)
        memcpy(larger, block, used);
    block_give(block, size);
    return larger;
}
