/*
 * What is measured: the cases that something was promised of, and series of cases that show how a cost grows.
 */
#ifndef BENCH_CASES_H
#define BENCH_CASES_H

#include "bodies.h"
#include "report.h"

#include <stdint.h>

struct bench_case {
    const char *name, *title;
    const char *steps;       /* of the coordinator's pipeline, YAML */
    const char *plain_steps; /* it is compared with the coordinator that has these; NULL: with nginx */
    struct shape shape;
    uint64_t requests; /* counted in a round */
    size_t streams;    /* not 0: a case of streams */
    int64_t interval_us;
    int reactors; /* of the coordinator; 0: 1 */
    double bound; /* of CPU */
    enum bound_on bound_on;
    int each;
    bool alone; /* compared with nothing */
};

extern const struct bench_case cases[];
extern const size_t case_count;

/* One leg: nginx is compared with as it is, else with its three hops. */
bool case_has_one_leg(const struct bench_case *a_case);

enum { MAX_POINTS = 8 };

/* How the cost grows with one thing. */
struct series {
    const char *name, *title, *axis;
    bool alone;
    size_t points[MAX_POINTS]; /* until 0 */
    /* Fills the case for one point; what it points to lives until the next call. */
    void (*make)(struct bench_case *a_case, size_t point);
};

extern const struct series all_series[];
extern const size_t series_count;

#endif
