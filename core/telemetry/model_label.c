/*
 * The model_name label (metrics.h): a set of at most 1,000 values that clients chose.
 *
 * The set is an open table of atomic pointers that is never more than half full; values are only added, under a lock, and
 * looked up without one. A value once admitted stays, or running gauges would not come back to zero.
 */
#include "telemetry/metrics.h"
#include "telemetry/utf8.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { MAX_MODELS = 1000, TABLE = 2048, MAX_SIZE = 256 };

struct model {
    uint64_t hash;
    struct metric_model metrics;
    char name[];
};

static _Atomic(struct model *) table[TABLE];
static atomic_uint count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t hash_of(coord_slice name)
{
    uint64_t hash = 0xcbf29ce484222325u;

    for (size_t i = 0; i < name.size; i++)
        hash = (hash ^ (unsigned char)name.data[i]) * 0x100000001b3u;
    return hash ^ hash >> 32;
}

/* The place of `name`, or the empty one where it would go. */
static _Atomic(struct model *) *place_of(uint64_t hash, coord_slice name, struct model **found)
{
    for (size_t at = hash % TABLE;; at = (at + 1) % TABLE) {
        struct model *model = atomic_load_explicit(&table[at], memory_order_acquire);

        *found = model;
        if (!model || (model->hash == hash && coord_slice_equal(model->metrics.label, name)))
            return &table[at];
    }
}

static struct model *model_new(uint64_t hash, coord_slice name)
{
    struct model *model = calloc(1, sizeof *model + name.size);

    if (!model)
        return NULL;
    model->hash = hash;
    memcpy(model->name, name.data, name.size);
    model->metrics.label = (coord_slice){model->name, name.size};
    return model;
}

static struct model *admit(uint64_t hash, coord_slice name)
{
    _Atomic(struct model *) *place;
    struct model *model;

    pthread_mutex_lock(&lock);
    place = place_of(hash, name, &model);
    if (!model && atomic_load_explicit(&count, memory_order_relaxed) < MAX_MODELS) {
        model = model_new(hash, name);
        if (model) {
            atomic_store_explicit(place, model, memory_order_release);
            atomic_fetch_add_explicit(&count, 1, memory_order_relaxed);
        }
    }
    pthread_mutex_unlock(&lock);
    return model;
}

struct metric_model *metrics_model(coord_slice name)
{
    static struct metric_model unknown = {.label = COORD_SLICE("unknown")}, other = {.label = COORD_SLICE("other")};
    struct model *model;
    uint64_t hash;

    if (name.size == 0)
        return &unknown;
    if (name.size > MAX_SIZE)
        return &other;
    hash = hash_of(name);
    place_of(hash, name, &model);
    if (!model && atomic_load_explicit(&count, memory_order_relaxed) < MAX_MODELS && utf8_valid(name) &&
        !memchr(name.data, '\0', name.size))
        model = admit(hash, name);
    return model ? &model->metrics : &other;
}

coord_slice metrics_model_label(coord_slice name) { return metrics_model(name)->label; }
