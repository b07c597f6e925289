/*
 * What is measured: the cases that something was promised of, and series of cases that show how a cost grows.
 */
#ifndef BENCH_CASES_H
#define BENCH_CASES_H

#include "bodies.h"
#include "report.h"

#include <stdint.h>

/*
 * LOAD: requests over and over, CPU and latency. STREAMS: event streams side by side, CPU, memory and delay. IDLE: start, and
 * nothing to do. PEAK: one request at a time, the most memory that it took.
 */
enum case_kind { LOAD, STREAMS, IDLE, PEAK };

/* What the coordinator stands beside: nginx moving the bodies of all legs or the client's only; itself with `plain_steps`. */
enum beside { BESIDE_ALL_HOPS, BESIDE_ONE_HOP, BESIDE_PLAIN, BESIDE_NOTHING };

struct bench_case {
    const char *name, *title;
    enum case_kind kind;
    enum beside beside;
    const char *steps, *plain_steps; /* of the coordinator's pipeline, YAML */
    struct shape shape;
    uint64_t requests;  /* counted in a round */
    size_t connections; /* that send them; 0: 32 */
    size_t streams;
    int64_t interval_us; /* between the events of one stream */
    int reactors;        /* of the coordinator; 0: 1 */
    double bound;        /* of what its kind is about: CPU (of one connection: p50), peak */
    enum bound_on bound_on;
    int each;
    bool promised; /* of STREAMS: memory and delay, too */
};

extern const struct bench_case cases[];
extern const size_t case_count;

/* Does `name` stand in `list` (commas between)? NULL is a list of everything. */
bool is_picked(const char *list, const char *name);

enum { MAX_POINTS = 8 };

/* How the cost grows with one thing. */
struct series {
    const char *name, *title, *axis;
    bool is_flat; /* the cost of one unit should not move, as it is one of something else; else: be a straight line */
    size_t points[MAX_POINTS], count;
    /* Fills the case for one point; what it points to lives until the next call. */
    void (*make)(struct bench_case *a_case, size_t point);
    size_t (*most)(void); /* larger points become this one; NULL: none is too large */
};

extern const struct series all_series[];
extern const size_t series_count;

/* As many streams as a coordinator can have, two files each, of those that a process may open here. At most 10,000. */
size_t most_streams(void);

#endif
