/*
 * The registry: families as they are declared, and their series as they are first named.
 *
 * Declaring a family and making a series take the lock; finding one never does, because what is in a table or a list stays
 * as it is. Moving and reading series is metrics.c.
 */
#include "telemetry/registry.h"

#include "telemetry/utf8.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/random.h>

enum { MAGIC = 0x6d657472, DEFAULT_MAX_SERIES = 1000, MODELS_MAX_SERIES = 32768, MAX_TABLE = 1024 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint64_t hash_seed; /* label values come from clients: they must not choose where they collide */
static size_t next_index;
static _Atomic(coord_metric *) newest_family;

static void choose_seed(void)
{
    if (getrandom(&hash_seed, sizeof hash_seed, GRND_NONBLOCK) < 0)
        hash_seed = (uint64_t)(uintptr_t)&hash_seed;
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

/* Values of model_name are limited already; its other labels are of the few that a step knows. */
static uint32_t default_max_series(const coord_metric_type *type)
{
    for (size_t i = 0; i < label_count(type); i++)
        if (strcmp(type->labels[i], "model_name") == 0)
            return MODELS_MAX_SERIES;
    return DEFAULT_MAX_SERIES;
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
            : default_max_series(type);
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

    pthread_once(&once, choose_seed);
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
    size_t counts = registry_counts(metric) * sizeof(uint64_t), size = sizeof(struct metric_series) + counts;
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
