/* See findings.h. A row for each line that a kind of case has. */
#include "findings.h"

typedef double value_fn(struct bench *bench, enum target target, enum metric metric);

enum { STREAM_KIB = 28, DELAY_US = 150, RESIDENT_MIB = 15, WAKES_A_SECOND = 1, FIRST_MS = 100 };

struct row {
    const char *what;
    enum metric metric;
    value_fn *value;
    bool is_the_case; /* the case has the bound and what it is on */
    double bound;     /* else: on the coordinator's own value, where it is promised */
};

static const struct row load_rows[] = {{"CPU a request", CPU, measure_median, true, 0},
                                       {"latency p50 under load", P50, measure_median, false, 0}};
static const struct row alone_rows[] = {{"latency p50, nothing else to do", P50, measure_median, true, 0},
                                        {"latency p99, nothing else to do", P99, measure_median, false, 0},
                                        {"CPU a request", CPU, measure_median, false, 0}};
static const struct row stream_rows[] = {
    {"CPU an event", CPU, measure_median, true, 0},
    {"memory a stream, reused connections", MEMORY, measure_median, false, STREAM_KIB},
    {"added delay of an event, p50", P50, measure_added, false, 0},
    {"added delay of an event, p99", P99, measure_added, false, DELAY_US}};
static const struct row peak_rows[] = {{"peak over idle, times the body", PEAK_TIMES, measure_median, true, 0}};
static const struct row idle_rows[] = {
    {"start to /readyz", READY, measure_median, false, 0},
    {"start to the first answer of a worker", FIRST, measure_median, false, FIRST_MS},
    {"resident", RESIDENT, measure_median, false, RESIDENT_MIB},
    {"wake-ups", WAKES, measure_median, false, WAKES_A_SECOND}};

#define ROWS(rows) rows, sizeof rows / sizeof *rows

static const struct row *rows_of(const struct bench_case *a_case, size_t *count)
{
    static const struct {
        const struct row *rows;
        size_t count;
    } all[] = {[LOAD] = {ROWS(load_rows)},
               [STREAMS] = {ROWS(stream_rows)},
               [IDLE] = {ROWS(idle_rows)},
               [PEAK] = {ROWS(peak_rows)}};

    if (a_case->kind == LOAD && a_case->connections == 1) {
        *count = sizeof alone_rows / sizeof *alone_rows;
        return alone_rows;
    }
    *count = all[a_case->kind].count;
    return all[a_case->kind].rows;
}

static const char *beside(const struct bench_case *a_case)
{
    static const char *const names[] = {[BESIDE_ALL_HOPS] = "nginx, a hop for each leg",
                                        [BESIDE_ONE_HOP] = "nginx, one hop",
                                        [BESIDE_PLAIN] = "the same without",
                                        [BESIDE_NOTHING] = "nothing"};

    return a_case->kind == STREAMS && a_case->beside == BESIDE_ALL_HOPS ? "nginx" : names[a_case->beside];
}

size_t findings_of(struct bench *bench, const struct bench_case *a_case, struct finding findings[FINDINGS_A_CASE])
{
    enum target base = measure_base(a_case);
    size_t count;
    const struct row *rows = rows_of(a_case, &count);
    bool promised = a_case->promised || a_case->kind == IDLE;

    for (size_t i = 0; i < count; i++) {
        const struct row *row = &rows[i];

        findings[i] = (struct finding){.title = a_case->title,
                                       .what = row->what,
                                       .unit = metrics[row->metric].unit,
                                       .base_name = beside(a_case),
                                       .base = base == NOTHING ? -1 : row->value(bench, base, row->metric),
                                       .coordinator = row->value(bench, COORDINATOR, row->metric),
                                       .curl = row->value(bench, CURL, row->metric),
                                       .bound = promised ? row->bound : 0,
                                       .bound_on = VALUE};
        if (row->is_the_case) {
            findings[i].bound = a_case->bound;
            findings[i].bound_on = a_case->kind == PEAK ? VALUE : a_case->bound_on;
            findings[i].each = a_case->each;
            findings[i].is_plotted = base == NGINX;
        }
        if (row->metric == CPU && a_case->beside != BESIDE_PLAIN && a_case->connections != 1) {
            findings[i].carried = a_case->kind == STREAMS ? "events" : "requests";
            findings[i].prompt_tokens =
                a_case->kind == LOAD && a_case->beside == BESIDE_ALL_HOPS ? (double)a_case->shape.tokens : 0;
        }
    }
    return count;
}
