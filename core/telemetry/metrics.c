/*
 * See metrics.h: the registry, and how a series is moved.
 *
 * A series has a cell in the shard of every thread that moves it. A cell is written by its thread alone, with relaxed
 * atomics, and read by whoever renders; it holds a sum (a double's bits) and, of a histogram, a count a bucket. Cells come
 * from blocks of whole cache lines that belong to one shard, so threads never write the same line. The lock is taken to
 * declare, to make a series, by a thread that sees a series for the first time, by one that ends, and to read one series.
 */
#include "telemetry/registry.h"
#include "telemetry/utf8.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/random.h>

enum {
    MAGIC = 0x6d657472,
    DEFAULT_MAX_SERIES = 1000,
    MAX_TABLE = 1024,
    CACHE_LINE = 64,
    BLOCK_SIZE = 4096,
    FIRST_CELLS = 64
};

const double metric_latency_buckets[35] = {.005, .025, .05, .1,  .2,  .4,  .6,  .8,   1,    1.25, 1.5, 2,
                                           3,    4,    5,   6,   8,   10,  15,  20,   30,   45,   60,  120,
                                           180,  240,  300, 360, 480, 600, 900, 1200, 1800, 2700, 3600};
const double metric_size_buckets[25] = {64,        128,       256,       512,       1024,     2048,     4096,
                                        8192,      16384,     32768,     65536,     131072,   262144,   524288,
                                        1048576,   2097152,   4194304,   8388608,   16777216, 33554432, 67108864,
                                        134217728, 268435456, 536870912, 1073741824};
const double metric_token_buckets[19] = {1,    8,    16,    32,    64,    128,    256,    512,    1024,   2048,
                                         4096, 8192, 16384, 32768, 65536, 131072, 262144, 524288, 1048576};
const double metric_count_buckets[10] = {0, 1, 2, 4, 8, 16, 32, 64, 128, 256};

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
static uint64_t hash_seed;
static struct shard *shards;
static size_t next_index;
static _Atomic(coord_metric *) newest_family;

/* Found without a call even inside a shared library. */
static _Thread_local struct shard *own_shard __attribute__((tls_model("initial-exec")));

static void end_of_thread(void *shard);

static void prepare(void)
{
    have_key = pthread_key_create(&shard_key, end_of_thread) == 0;
    if (getrandom(&hash_seed, sizeof hash_seed, GRND_NONBLOCK) < 0)
        hash_seed = (uint64_t)(uintptr_t)&hash_seed;
}

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

static size_t count_words(const coord_metric *metric)
{
    return metric->kind == COORD_METRIC_HISTOGRAM ? metric->bucket_count + 1 : 0;
}

/* ---- Families ---- */

static bool is_name(const char *name)
{
    if (!name || !*name || (*name >= '0' && *name <= '9'))
        return false;
    for (const char *at = name; *at; at++)
        if (!((*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || (*at >= '0' && *at <= '9') || *at == '_'))
            return false;
    return true;
}

/* The size of a name without the _total of a counter: what OpenMetrics calls the family, and so must be unique. */
static size_t base_size(const char *name)
{
    static const char total[] = "_total";
    size_t size = strlen(name), end = sizeof total - 1;

    return size > end && strcmp(name + size - end, total) == 0 ? size - end : size;
}

static bool ends_in_total(const char *name) { return base_size(name) < strlen(name); }

static bool labels_well_formed(const coord_metric_type *type)
{
    size_t count = 0;

    if (!type->labels)
        return true;
    for (; type->labels[count]; count++) {
        const char *label = type->labels[count];

        if (count == COORD_METRIC_MAX_LABELS || !is_name(label) || strncmp(label, "__", 2) == 0)
            return false;
        if (type->kind == COORD_METRIC_HISTOGRAM && strcmp(label, "le") == 0)
            return false;
        for (size_t other = 0; other < count; other++)
            if (strcmp(type->labels[other], label) == 0)
                return false;
    }
    return true;
}

static bool buckets_well_formed(const coord_metric_type *type)
{
    if (type->kind != COORD_METRIC_HISTOGRAM)
        return true;
    if (!type->buckets || type->bucket_count == 0 || type->bucket_count > METRIC_MAX_BUCKETS)
        return false;
    for (uint32_t b = 0; b < type->bucket_count; b++)
        if (!isfinite(type->buckets[b]) || (b > 0 && type->buckets[b] <= type->buckets[b - 1]))
            return false;
    return true;
}

static bool well_formed(const coord_metric_type *type)
{
    if (type->kind < COORD_METRIC_COUNTER || type->kind > COORD_METRIC_HISTOGRAM || !is_name(type->name))
        return false;
    if ((type->kind == COORD_METRIC_COUNTER) != ends_in_total(type->name))
        return false;
    return labels_well_formed(type) && buckets_well_formed(type);
}

static size_t label_count(const coord_metric_type *type)
{
    size_t count = 0;

    while (type->labels && type->labels[count])
        count++;
    return count;
}

static bool same_shape(const coord_metric *metric, const coord_metric_type *type)
{
    if (metric->kind != type->kind || metric->label_count != label_count(type))
        return false;
    for (size_t i = 0; i < metric->label_count; i++)
        if (strcmp(metric->labels[i], type->labels[i]) != 0)
            return false;
    if (type->kind != COORD_METRIC_HISTOGRAM)
        return true;
    return metric->bucket_count == type->bucket_count &&
           memcmp(metric->buckets, type->buckets, type->bucket_count * sizeof *type->buckets) == 0;
}

static coord_metric *family_of_base(const char *name)
{
    coord_metric *metric = registry_families();

    for (; metric; metric = metric->older) {
        const char *known = metric->name + strlen(METRIC_PREFIX);

        if (base_size(known) == base_size(name) && memcmp(known, name, base_size(name)) == 0)
            return metric;
    }
    return NULL;
}

static void family_free(coord_metric *metric)
{
    if (!metric)
        return;
    for (size_t i = 0; i < COORD_METRIC_MAX_LABELS; i++)
        free(metric->labels[i]);
    free(metric->name);
    free(metric->help);
    free(metric->buckets);
    free(metric->table);
    free(metric);
}

static size_t table_size(const coord_metric *metric)
{
    size_t size = 1;

    while (metric->label_count > 0 && size < metric->max_series && size < MAX_TABLE)
        size *= 2;
    return size;
}

static bool copy_name(coord_metric *metric, const char *name)
{
    size_t prefix = strlen(METRIC_PREFIX), size = strlen(name);

    metric->name = malloc(prefix + size + 1);
    if (!metric->name)
        return false;
    memcpy(metric->name, METRIC_PREFIX, prefix);
    memcpy(metric->name + prefix, name, size + 1);
    return true;
}

static bool copy_shape(coord_metric *metric, const coord_metric_type *type)
{
    metric->help = strdup(type->help ? type->help : "");
    if (!copy_name(metric, type->name) || !metric->help)
        return false;
    for (; metric->label_count < label_count(type); metric->label_count++) {
        metric->labels[metric->label_count] = strdup(type->labels[metric->label_count]);
        if (!metric->labels[metric->label_count])
            return false;
    }
    if (type->kind != COORD_METRIC_HISTOGRAM)
        return true;
    metric->buckets = malloc(type->bucket_count * sizeof *metric->buckets);
    if (!metric->buckets)
        return false;
    memcpy(metric->buckets, type->buckets, type->bucket_count * sizeof *metric->buckets);
    metric->bucket_count = type->bucket_count;
    return true;
}

static coord_metric *family_new(const coord_metric_type *type)
{
    coord_metric *metric = calloc(1, sizeof *metric);
    size_t size;

    if (!metric)
        return NULL;
    metric->magic = MAGIC;
    metric->kind = type->kind;
    metric->max_series =
        type->size >= offsetof(coord_metric_type, max_series) + sizeof type->max_series && type->max_series > 0
            ? type->max_series
            : DEFAULT_MAX_SERIES;
    if (!copy_shape(metric, type))
        goto failed;
    size = table_size(metric);
    metric->table = calloc(size, sizeof *metric->table);
    if (!metric->table)
        goto failed;
    metric->table_mask = size - 1;
    return metric;
failed:
    family_free(metric);
    return NULL;
}

static struct metric_series *series_make(coord_metric *metric, const coord_slice *labels);

coord_metric *coord_metric_declare(const coord_metric_type *type)
{
    coord_metric *metric;

    pthread_once(&once, prepare);
    if (!type || type->size < offsetof(coord_metric_type, max_series) || !well_formed(type))
        return NULL;
    pthread_mutex_lock(&lock);
    metric = family_of_base(type->name);
    if (metric) {
        if (!same_shape(metric, type))
            metric = NULL;
        goto out;
    }
    metric = family_new(type);
    if (!metric)
        goto out;
    if (metric->label_count == 0) { /* its one series is there from the start */
        struct metric_series *series = series_make(metric, NULL);

        if (!series) {
            family_free(metric);
            metric = NULL;
            goto out;
        }
        atomic_store_explicit(&series->moved, true, memory_order_relaxed);
    }
    metric->older = atomic_load_explicit(&newest_family, memory_order_relaxed);
    atomic_store_explicit(&newest_family, metric, memory_order_release);
out:
    pthread_mutex_unlock(&lock);
    return metric;
}

coord_metric *registry_families(void) { return atomic_load_explicit(&newest_family, memory_order_acquire); }

/* ---- Series ---- */

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 32;
}

static uint64_t hash_slice(uint64_t hash, coord_slice text)
{
    size_t at = 0;
    uint64_t word;

    for (; text.size - at >= sizeof word; at += sizeof word) {
        memcpy(&word, text.data + at, sizeof word);
        hash = mix(hash, word);
    }
    word = text.size;
    for (; at < text.size; at++)
        word = word << 8 | (unsigned char)text.data[at];
    return mix(hash, word);
}

static uint64_t hash_labels(const coord_slice *labels, size_t count)
{
    uint64_t hash = hash_seed;

    for (size_t i = 0; i < count; i++)
        hash = hash_slice(hash, labels[i]);
    return hash;
}

static bool same_labels(const struct metric_series *series, const coord_slice *labels, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!coord_slice_equal(series->labels[i], labels[i]))
            return false;
    return true;
}

static struct metric_series *series_find(const coord_metric *metric, uint64_t hash, const coord_slice *labels)
{
    struct metric_series *series =
        atomic_load_explicit(&metric->table[hash & metric->table_mask], memory_order_acquire);

    while (series && !(series->hash == hash && same_labels(series, labels, metric->label_count)))
        series = series->chained;
    return series;
}

/* One allocation: the series, its counts, the copy of its labels. */
static struct metric_series *series_new(coord_metric *metric, const coord_slice *labels)
{
    size_t counts = count_words(metric) * sizeof(uint64_t), size = sizeof(struct metric_series) + counts;
    struct metric_series *series;
    char *text;

    for (size_t i = 0; i < metric->label_count; i++)
        size += labels[i].size;
    series = calloc(1, size);
    if (!series)
        return NULL;
    series->retired_counts = (uint64_t *)(void *)(series + 1);
    text = (char *)(series + 1) + counts;
    for (size_t i = 0; i < metric->label_count; i++) {
        if (labels[i].size > 0)
            memcpy(text, labels[i].data, labels[i].size);
        series->labels[i] = (coord_slice){text, labels[i].size};
        text += labels[i].size;
    }
    series->metric = metric;
    return series;
}

/* Makes a series that is not there; under the lock. */
static struct metric_series *series_make(coord_metric *metric, const coord_slice *labels)
{
    struct metric_series *series = series_new(metric, labels);
    _Atomic(struct metric_series *) *place;

    if (!series)
        return NULL;
    series->hash = hash_labels(labels, metric->label_count);
    series->index = next_index++;
    place = &metric->table[series->hash & metric->table_mask];
    series->chained = atomic_load_explicit(place, memory_order_relaxed);
    series->older = atomic_load_explicit(&metric->newest, memory_order_relaxed);
    atomic_store_explicit(place, series, memory_order_release);
    atomic_store_explicit(&metric->newest, series, memory_order_release);
    return series;
}

/* The series of combinations that get none of their own. */
static struct metric_series *series_other(coord_metric *metric)
{
    struct metric_series *series = atomic_load_explicit(&metric->other, memory_order_acquire);
    coord_slice labels[COORD_METRIC_MAX_LABELS];

    if (series)
        return series;
    for (size_t i = 0; i < COORD_METRIC_MAX_LABELS; i++)
        labels[i] = (coord_slice)COORD_SLICE("other");
    pthread_mutex_lock(&lock);
    series = series_find(metric, hash_labels(labels, metric->label_count), labels);
    if (!series)
        series = series_make(metric, labels);
    if (series)
        atomic_store_explicit(&metric->other, series, memory_order_release);
    pthread_mutex_unlock(&lock);
    return series;
}

/* A label value that is not text would make the whole page unreadable. */
static bool labels_are_text(const coord_slice *labels, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (labels[i].size > 0 && (!utf8_valid(labels[i]) || memchr(labels[i].data, '\0', labels[i].size)))
            return false;
    return true;
}

struct metric_series *metric_series_of(coord_metric *metric, const coord_slice *labels)
{
    struct metric_series *series;
    uint64_t hash;

    if (!metric || (metric->label_count > 0 && !labels))
        return NULL;
    assert(metric->magic == MAGIC);
    hash = hash_labels(labels, metric->label_count);
    series = series_find(metric, hash, labels);
    if (series)
        return series;
    if (atomic_load_explicit(&metric->series_count, memory_order_relaxed) >= metric->max_series ||
        !labels_are_text(labels, metric->label_count))
        return series_other(metric);

    pthread_mutex_lock(&lock);
    series = series_find(metric, hash, labels);
    if (!series && atomic_load_explicit(&metric->series_count, memory_order_relaxed) < metric->max_series) {
        series = series_make(metric, labels);
        if (series)
            atomic_fetch_add_explicit(&metric->series_count, 1, memory_order_relaxed);
        pthread_mutex_unlock(&lock);
        return series;
    }
    pthread_mutex_unlock(&lock);
    return series ? series : series_other(metric);
}

/* ---- Cells ---- */

static struct shard *shard_new(void)
{
    struct shard *shard = calloc(1, sizeof *shard);

    if (!shard)
        return NULL;
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
        cell = cell_new(own_shard, 1 + count_words(series->metric));
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
    for (size_t i = 0; i < count_words(series->metric); i++)
        counts[i] += atomic_load_explicit(&cell[1 + i], memory_order_relaxed);
}

void registry_read(struct metric_series *series, double *sum, uint64_t counts[METRIC_MAX_BUCKETS + 1])
{
    pthread_mutex_lock(&lock);
    *sum = series->retired_sum;
    for (size_t i = 0; i < count_words(series->metric); i++)
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
        for (struct metric_series *series = atomic_load_explicit(&metric->newest, memory_order_relaxed); series;
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

double metric_value(const char *name, const coord_slice *labels)
{
    uint64_t counts[METRIC_MAX_BUCKETS + 1], total = 0;
    struct metric_series *series;
    coord_metric *metric;
    double sum;

    if (strncmp(name, METRIC_PREFIX, strlen(METRIC_PREFIX)) == 0)
        name += strlen(METRIC_PREFIX);
    metric = family_of_base(name);
    if (!metric || strcmp(metric->name + strlen(METRIC_PREFIX), name) != 0 || (metric->label_count > 0 && !labels))
        return 0;
    series = series_find(metric, hash_labels(labels, metric->label_count), labels);
    if (!series)
        return 0;
    registry_read(series, &sum, counts);
    if (metric->kind != COORD_METRIC_HISTOGRAM)
        return sum;
    for (size_t i = 0; i <= metric->bucket_count; i++)
        total += counts[i];
    return (double)total;
}
