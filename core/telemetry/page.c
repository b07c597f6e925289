/*
 * The /metrics page (metrics.h): Prometheus text 0.0.4 or OpenMetrics 1.0.
 *
 * The page is the same for the same state: families sorted by name, series by label values. A histogram's count is the sum of
 * the bucket counts that stand above it, so that it holds together while other threads move.
 */
#include "telemetry/registry.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

/* ---- Numbers ---- */

enum { MAX_DIGITS = 17, NUMBER_SIZE = 40, EXPONENT_FROM = 6, EXPONENT_BELOW = -4 };

struct decimal {
    bool negative;
    char digits[MAX_DIGITS]; /* first one before the point, no zeros at the end */
    int count;
    int exponent;
};

/* The fewest digits that read back as `value`, which is finite and not 0. */
static struct decimal shortest(double value)
{
    struct decimal decimal = {.negative = value < 0};
    char text[NUMBER_SIZE];
    const char *at = text;

    for (int precision = MAX_DIGITS - 3; precision < MAX_DIGITS; precision++) {
        snprintf(text, sizeof text, "%.*e", precision, fabs(value));
        if (strtod(text, NULL) == fabs(value))
            break;
    }
    for (; *at && *at != 'e'; at++)
        if (*at >= '0' && *at <= '9' && decimal.count < MAX_DIGITS) /* whatever the locale's point is */
            decimal.digits[decimal.count++] = *at;
    decimal.exponent = *at ? (int)strtol(at + 1, NULL, 10) : 0;
    while (decimal.count > 1 && decimal.digits[decimal.count - 1] == '0')
        decimal.count--;
    return decimal;
}

/* D.DDDe+XX */
static size_t put_exponent(const struct decimal *decimal, char *out)
{
    size_t size = 0;

    out[size++] = decimal->digits[0];
    if (decimal->count > 1) {
        out[size++] = '.';
        memcpy(out + size, decimal->digits + 1, (size_t)decimal->count - 1);
        size += (size_t)decimal->count - 1;
    }
    return size + (size_t)snprintf(out + size, NUMBER_SIZE - size, "e%c%02d", decimal->exponent < 0 ? '-' : '+',
                                   abs(decimal->exponent));
}

static size_t put_plain(const struct decimal *decimal, char *out)
{
    size_t size = 0;
    int at = 0;

    if (decimal->exponent < 0) {
        out[size++] = '0';
        out[size++] = '.';
        for (int i = -1; i > decimal->exponent; i--)
            out[size++] = '0';
    }
    for (; at < decimal->count; at++) {
        if (decimal->exponent >= 0 && at == decimal->exponent + 1)
            out[size++] = '.';
        out[size++] = decimal->digits[at];
    }
    for (; at <= decimal->exponent; at++)
        out[size++] = '0';
    return size;
}

/* As Go's strconv.FormatFloat(value, 'g', -1, 64). */
static size_t format_number(double value, char out[NUMBER_SIZE])
{
    struct decimal decimal;
    size_t size = 0;

    if (value == 0) {
        out[0] = '0';
        return 1;
    }
    decimal = shortest(value);
    if (decimal.negative)
        out[size++] = '-';
    if (decimal.exponent < EXPONENT_BELOW || decimal.exponent >= EXPONENT_FROM)
        return size + put_exponent(&decimal, out + size);
    return size + put_plain(&decimal, out + size);
}

static bool put_integer(struct buffer *page, uint64_t value)
{
    char text[20];
    size_t at = sizeof text;

    do
        text[--at] = (char)('0' + value % 10);
    while (value /= 10);
    return buffer_append(page, text + at, sizeof text - at);
}

bool page_number(struct buffer *page, double value)
{
    static const double exact = 9007199254740992.0; /* 2^53: whole numbers up to here are exact */
    char text[NUMBER_SIZE];

    if (isnan(value))
        return buffer_append_text(page, "NaN");
    if (isinf(value))
        return buffer_append_text(page, value > 0 ? "+Inf" : "-Inf");
    if (value == floor(value) && fabs(value) <= exact)
        return (value >= 0 || buffer_append_text(page, "-")) && put_integer(page, (uint64_t)fabs(value));
    return buffer_append(page, text, format_number(value, text));
}

/* An `le` value, as Go's client writes it: in OpenMetrics always with a point or an exponent. */
static void format_bound(double bound, bool openmetrics, char out[NUMBER_SIZE])
{
    size_t size = format_number(bound, out);

    if (openmetrics && !memchr(out, '.', size) && !memchr(out, 'e', size)) {
        out[size++] = '.';
        out[size++] = '0';
    }
    out[size] = '\0';
}

/* ---- Lines ---- */

/* Escapes \ and line feeds, and double quotes where they would end something. */
static bool put_escaped(struct buffer *page, coord_slice text, bool quotes)
{
    size_t from = 0;

    for (size_t i = 0; i < text.size; i++) {
        const char *escape = text.data[i] == '\\'            ? "\\\\"
                             : text.data[i] == '\n'          ? "\\n"
                             : quotes && text.data[i] == '"' ? "\\\""
                                                             : NULL;

        if (!escape)
            continue;
        if (!buffer_append(page, text.data + from, i - from) || !buffer_append_text(page, escape))
            return false;
        from = i + 1;
    }
    return from == text.size || buffer_append(page, text.data + from, text.size - from);
}

/* OpenMetrics names a counter's family without the _total of its samples. */
static coord_slice family_name(const char *name, int32_t kind, bool openmetrics)
{
    coord_slice family = coord_slice_of(name);

    if (openmetrics && kind == COORD_METRIC_COUNTER)
        family.size -= strlen("_total");
    return family;
}

bool page_head(struct buffer *page, const char *name, const char *help, int32_t kind, bool openmetrics)
{
    static const char *const types[] = {[COORD_METRIC_COUNTER] = " counter\n",
                                        [COORD_METRIC_GAUGE] = " gauge\n",
                                        [COORD_METRIC_HISTOGRAM] = " histogram\n"};
    coord_slice family = family_name(name, kind, openmetrics);

    return buffer_append_text(page, "# HELP ") && buffer_append_slice(page, family) && buffer_append_text(page, " ") &&
           put_escaped(page, coord_slice_of(help), openmetrics) && buffer_append_text(page, "\n# TYPE ") &&
           buffer_append_slice(page, family) && buffer_append_text(page, types[kind]);
}

/* name="value",name="value" */
static bool put_labels(struct buffer *out, const struct metric_series *series)
{
    const coord_metric *metric = series->metric;

    for (size_t i = 0; i < metric->label_count; i++)
        if (!buffer_append_text(out, i > 0 ? "," : "") || !buffer_append_text(out, metric->labels[i]) ||
            !buffer_append_text(out, "=\"") || !put_escaped(out, series->labels[i], true) ||
            !buffer_append_text(out, "\""))
            return false;
    return true;
}

/* The `le` values of a family, written once for all its series. */
struct bounds {
    char text[METRIC_MAX_BUCKETS + 1][NUMBER_SIZE];
};

static void format_bounds(struct bounds *bounds, const coord_metric *metric, bool openmetrics)
{
    for (size_t b = 0; b < metric->bucket_count; b++)
        format_bound(metric->buckets[b], openmetrics, bounds->text[b]);
    memcpy(bounds->text[metric->bucket_count], "+Inf", sizeof "+Inf");
}

/* Name and labels of a sample, up to its value. */
static bool put_sample(struct buffer *page, const coord_metric *metric, const char *suffix, coord_slice labels)
{
    if (!buffer_append_text(page, metric->name) || !buffer_append_text(page, suffix))
        return false;
    if (labels.size > 0 &&
        !(buffer_append_text(page, "{") && buffer_append_slice(page, labels) && buffer_append_text(page, "}")))
        return false;
    return buffer_append_text(page, " ");
}

static bool put_bucket(struct buffer *page, const coord_metric *metric, coord_slice labels, const char *bound)
{
    return buffer_append_text(page, metric->name) && buffer_append_text(page, "_bucket{") &&
           buffer_append_slice(page, labels) && buffer_append_text(page, labels.size > 0 ? ",le=\"" : "le=\"") &&
           buffer_append_text(page, bound) && buffer_append_text(page, "\"} ");
}

static bool put_histogram(struct buffer *page, struct metric_series *series, coord_slice labels,
                          const struct bounds *bounds)
{
    uint64_t counts[METRIC_MAX_BUCKETS + 1], total = 0;
    const coord_metric *metric = series->metric;
    double sum;

    registry_read(series, &sum, counts);
    for (size_t b = 0; b <= metric->bucket_count; b++) {
        total += counts[b];
        if (!put_bucket(page, metric, labels, bounds->text[b]) || !put_integer(page, total) ||
            !buffer_append_text(page, "\n"))
            return false;
    }
    return put_sample(page, metric, "_sum", labels) && page_number(page, sum) && buffer_append_text(page, "\n") &&
           put_sample(page, metric, "_count", labels) && put_integer(page, total) && buffer_append_text(page, "\n");
}

static bool put_value(struct buffer *page, struct metric_series *series, coord_slice labels)
{
    uint64_t counts[METRIC_MAX_BUCKETS + 1];
    double sum;

    registry_read(series, &sum, counts);
    return put_sample(page, series->metric, "", labels) && page_number(page, sum) && buffer_append_text(page, "\n");
}

/* ---- Order ---- */

static int by_name(const void *a, const void *b)
{
    const coord_metric *const *left = a, *const *right = b;

    return strcmp((*left)->name, (*right)->name);
}

static int compare_text(coord_slice a, coord_slice b)
{
    size_t size = a.size < b.size ? a.size : b.size;
    int order = size > 0 ? memcmp(a.data, b.data, size) : 0;

    return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

static int by_labels(const void *a, const void *b)
{
    const struct metric_series *const *left = a, *const *right = b;
    int order = 0;

    for (size_t i = 0; i < (*left)->metric->label_count && order == 0; i++)
        order = compare_text((*left)->labels[i], (*right)->labels[i]);
    return order;
}

/* Series that were moved, sorted, in an array for free(); false when memory is short. */
static bool sorted_series(const coord_metric *metric, struct metric_series ***sorted, size_t *count)
{
    struct metric_series *newest = atomic_load_explicit(&metric->newest, memory_order_acquire);
    size_t all = 0;

    for (struct metric_series *series = newest; series; series = series->older)
        all++;
    *count = 0;
    *sorted = malloc((all + 1) * sizeof **sorted);
    if (!*sorted)
        return false;
    for (struct metric_series *series = newest; series; series = series->older)
        if (atomic_load_explicit(&series->moved, memory_order_relaxed))
            (*sorted)[(*count)++] = series;
    qsort(*sorted, *count, sizeof **sorted, by_labels);
    return true;
}

static bool put_family(struct buffer *page, struct buffer *labels, const coord_metric *metric, bool openmetrics)
{
    struct metric_series **sorted;
    struct bounds bounds;
    size_t count;
    bool done = sorted_series(metric, &sorted, &count);

    format_bounds(&bounds, metric, openmetrics);
    if (done && count > 0)
        done = page_head(page, metric->name, metric->help, metric->kind, openmetrics);
    for (size_t i = 0; i < count && done; i++) {
        labels->size = 0;
        done = put_labels(labels, sorted[i]) &&
               (metric->kind == COORD_METRIC_HISTOGRAM ? put_histogram(page, sorted[i], buffer_slice(labels), &bounds)
                                                       : put_value(page, sorted[i], buffer_slice(labels)));
    }
    free(sorted);
    return done;
}

bool metrics_render(struct buffer *page, bool openmetrics)
{
    coord_metric *newest = registry_families(), **sorted;
    struct buffer labels = {0};
    size_t count = 0;
    bool done = true;

    for (coord_metric *metric = newest; metric; metric = metric->older)
        count++;
    sorted = malloc((count + 1) * sizeof *sorted);
    if (!sorted)
        return false;
    count = 0;
    for (coord_metric *metric = newest; metric; metric = metric->older)
        sorted[count++] = metric;
    qsort(sorted, count, sizeof *sorted, by_name);
    for (size_t i = 0; i < count && done; i++)
        done = put_family(page, &labels, sorted[i], openmetrics);
    free(sorted);
    buffer_release(&labels);
    return done && process_render(page, openmetrics) && (!openmetrics || buffer_append_text(page, "# EOF\n"));
}

/* ---- Which of the two ---- */

const char *metrics_content_type(bool openmetrics)
{
    return openmetrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                       : "text/plain; version=0.0.4; charset=utf-8";
}

static coord_slice trimmed(coord_slice text)
{
    while (text.size > 0 && (text.data[0] == ' ' || text.data[0] == '\t'))
        text = (coord_slice){text.data + 1, text.size - 1};
    while (text.size > 0 && (text.data[text.size - 1] == ' ' || text.data[text.size - 1] == '\t'))
        text.size--;
    return text;
}

/* What stands before the next `mark`; `rest` goes on behind it. */
static coord_slice next_part(coord_slice *rest, char mark)
{
    const char *end = rest->size > 0 ? memchr(rest->data, mark, rest->size) : NULL;
    coord_slice part = {rest->data, end ? (size_t)(end - rest->data) : rest->size};

    rest->size -= end ? part.size + 1 : part.size;
    rest->data = end ? end + 1 : NULL;
    return trimmed(part);
}

static bool is_token(coord_slice text, const char *token)
{
    return text.size == strlen(token) && strncasecmp(text.data, token, text.size) == 0;
}

/* A weight of RFC 9110 12.4.2 in thousandths; 0 for what is none. */
static int weight_of(coord_slice text)
{
    int weight = 0, unit = 1000;

    for (size_t i = 0; i < text.size && i < 5; i++) {
        if (i == 1 && text.data[i] == '.')
            continue;
        if (text.data[i] < '0' || text.data[i] > '9')
            return 0;
        weight += unit * (text.data[i] - '0');
        unit /= 10;
    }
    return weight < 1000 ? weight : 1000;
}

struct media_range {
    coord_slice type, version; /* empty: any */
    int weight;
};

static struct media_range next_range(coord_slice *accept)
{
    coord_slice parameters = next_part(accept, ',');
    struct media_range range = {.type = next_part(&parameters, ';'), .weight = 1000};

    while (parameters.size > 0) {
        coord_slice value = next_part(&parameters, ';'), name = next_part(&value, '=');

        if (is_token(name, "q"))
            range.weight = weight_of(trimmed(value));
        else if (is_token(name, "version"))
            range.version = trimmed(value);
    }
    return range;
}

bool metrics_wants_openmetrics(coord_slice accept)
{
    int openmetrics = 0, text = 0;

    while (accept.size > 0) {
        struct media_range range = next_range(&accept);

        if (is_token(range.type, "text/plain") && range.weight > text)
            text = range.weight;
        else if (is_token(range.type, "application/openmetrics-text") && range.weight > openmetrics &&
                 (range.version.size == 0 || is_token(range.version, "1.0.0")))
            openmetrics = range.weight;
    }
    return openmetrics > 0 && openmetrics >= text;
}
