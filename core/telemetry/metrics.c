/*
 * See metrics.h: how a series is moved and read. Which there are is registry.c.
 *
 * A series has a cell in the shard of every thread that moves it. A cell is written by its thread alone, with relaxed
 * atomics, and read by whoever renders; it holds a sum (a double's bits) and, of a histogram, a count a bucket. Cells come
 * from blocks of whole cache lines that belong to one shard, so threads never write the same line. The lock is taken by a
 * thread that moves a series for the first time, by one that ends, and to read a series.
 */
#include "telemetry/registry.h"

#include "runtime/of_thread.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

enum { CACHE_LINE = 64, BLOCK_SIZE = 4096, FIRST_CELLS = 64 };

typedef _Atomic uint64_t cell_word; /* [0]: the sum's bits; [1 …]: counts of a histogram's buckets, +Inf last */

struct block {
    struct block *next;
};

struct shard {
    struct shard *next;
    struct shard **link;
    cell_word **cells; /* by a series' index; NULL: never moved here. Written by the shard's thread, under the lock. */
    size_t cell_count;
    struct block *blocks;
    char *free_at; /* rest of the newest block */
    size_t free_size;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t shard_key; /* only for its destructor */
static bool have_key;
static struct shard *shards;

static OF_THREAD struct shard *own_shard;

static double double_of(uint64_t bits)
{
    double value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t bits_of(double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static void end_of_thread(void *shard);

static void make_key(void) { have_key = pthread_key_create(&shard_key, end_of_thread) == 0; }

/* ---- Cells ---- */

static struct shard *shard_new(void)
{
    struct shard *shard = calloc(1, sizeof *shard);

    if (!shard)
        return NULL;
    pthread_once(&once, make_key);
    if (!have_key || pthread_setspecific(shard_key, shard) != 0) {
        free(shard);
        return NULL;
    }
    shard->link = &shards;
    shard->next = shards;
    if (shards)
        shards->link = &shard->next;
    shards = shard;
    return shard;
}

static bool place_for(struct shard *shard, size_t index)
{
    size_t count = shard->cell_count ? shard->cell_count : FIRST_CELLS;
    cell_word **cells;

    if (index < shard->cell_count)
        return true;
    while (count <= index)
        count *= 2;
    cells = realloc(shard->cells, count * sizeof *cells);
    if (!cells)
        return false;
    memset(cells + shard->cell_count, 0, (count - shard->cell_count) * sizeof *cells);
    shard->cells = cells;
    shard->cell_count = count;
    return true;
}

static cell_word *cell_new(struct shard *shard, size_t words)
{
    size_t size = words * sizeof(cell_word);
    cell_word *cell;

    if (size > shard->free_size) {
        struct block *block = aligned_alloc(CACHE_LINE, BLOCK_SIZE);

        if (!block)
            return NULL;
        memset(block, 0, BLOCK_SIZE);
        block->next = shard->blocks;
        shard->blocks = block;
        shard->free_at = (char *)block + sizeof *block;
        shard->free_size = BLOCK_SIZE - sizeof *block;
    }
    cell = (cell_word *)(void *)shard->free_at;
    shard->free_at += size;
    shard->free_size -= size;
    return cell;
}
_Static_assert((METRIC_MAX_BUCKETS + 2) * sizeof(cell_word) + sizeof(struct block) <= BLOCK_SIZE,
               "any cell fits a block");

/* The first time that this thread moves the series. */
static cell_word *cell_make(struct metric_series *series)
{
    cell_word *cell = NULL;

    pthread_mutex_lock(&lock);
    if (!own_shard)
        own_shard = shard_new();
    if (own_shard && place_for(own_shard, series->index)) {
        cell = cell_new(own_shard, 1 + registry_counts(series->metric));
        own_shard->cells[series->index] = cell;
    }
    if (cell)
        atomic_store_explicit(&series->moved, true, memory_order_relaxed);
    pthread_mutex_unlock(&lock);
    return cell;
}

static inline cell_word *cell_of(struct metric_series *series)
{
    struct shard *shard = own_shard;

    if (shard && series->index < shard->cell_count && shard->cells[series->index])
        return shard->cells[series->index];
    return cell_make(series);
}

/* By one writer, so a load and a store do. */
static inline void add_to_sum(cell_word *word, double value)
{
    double sum = double_of(atomic_load_explicit(word, memory_order_relaxed)) + value;

    atomic_store_explicit(word, bits_of(sum), memory_order_relaxed);
}

static inline void add_one(cell_word *word)
{
    atomic_store_explicit(word, atomic_load_explicit(word, memory_order_relaxed) + 1, memory_order_relaxed);
}

/* The first bucket whose bound is not below `value`; bucket_count: none, +Inf. */
static inline size_t bucket_of(const coord_metric *metric, double value)
{
    const double *base = metric->buckets;
    size_t left = metric->bucket_count;

    while (left > 1) {
        size_t half = left / 2;

        base += base[half - 1] < value ? half : 0;
        left -= half;
    }
    return (size_t)(base - metric->buckets) + (*base < value);
}

void metric_series_add(struct metric_series *series, double value)
{
    cell_word *cell;

    if (!series || !isfinite(value) || (value < 0 && series->metric->kind == COORD_METRIC_COUNTER))
        return;
    cell = cell_of(series);
    if (!cell)
        return;
    add_to_sum(&cell[0], value);
    if (series->metric->kind == COORD_METRIC_HISTOGRAM)
        add_one(&cell[1 + bucket_of(series->metric, value)]);
}

void metric_handle_find(struct metric_handle *handle, coord_metric *metric, const coord_slice *labels)
{
    atomic_store_explicit(&handle->series, metric_series_of(metric, labels), memory_order_release);
}

void coord_metric_add(coord_metric *metric, double value, const coord_slice *labels)
{
    metric_series_add(metric_series_of(metric, labels), value);
}

/* ---- Reading, and threads that end ---- */

/* Under the lock. */
static void add_cell(const struct shard *shard, const struct metric_series *series, double *sum, uint64_t *counts)
{
    cell_word *cell = series->index < shard->cell_count ? shard->cells[series->index] : NULL;

    if (!cell)
        return;
    *sum += double_of(atomic_load_explicit(&cell[0], memory_order_relaxed));
    for (size_t i = 0; i < registry_counts(series->metric); i++)
        counts[i] += atomic_load_explicit(&cell[1 + i], memory_order_relaxed);
}

void registry_read(struct metric_series *series, double *sum, uint64_t counts[METRIC_MAX_BUCKETS + 1])
{
    pthread_mutex_lock(&lock);
    *sum = series->retired_sum;
    for (size_t i = 0; i < registry_counts(series->metric); i++)
        counts[i] = series->retired_counts[i];
    for (const struct shard *shard = shards; shard; shard = shard->next)
        add_cell(shard, series, sum, counts);
    pthread_mutex_unlock(&lock);
}

/* What the thread moved stays with the series; its cells go. A later destructor of the thread may begin a new shard. */
static void end_of_thread(void *argument)
{
    struct shard *shard = argument;

    pthread_mutex_lock(&lock);
    for (coord_metric *metric = registry_families(); metric; metric = metric->older)
        for (struct metric_series *series = atomic_load_explicit(&metric->newest, memory_order_acquire); series;
             series = series->older)
            add_cell(shard, series, &series->retired_sum, series->retired_counts);
    *shard->link = shard->next;
    if (shard->next)
        shard->next->link = shard->link;
    pthread_mutex_unlock(&lock);

    own_shard = NULL;
    for (struct block *block = shard->blocks, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    free(shard->cells);
    free(shard);
}
