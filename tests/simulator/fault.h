/*
 * What shall go wrong with one answer. A spec is a comma list of `name` or `name=value`; README.md tells each.
 *
 * Values are added onto a struct that already holds others, so flags come first and the request's own header wins.
 * A struct owns the texts in it: fault_init, then any number of fault_add, then fault_free.
 */
#ifndef SIM_FAULT_H
#define SIM_FAULT_H

#include "traits.h"

enum { SPLITS_AT_MOST = 16 };

struct fault {
    int64_t delay; /* nanoseconds, as all times here; -1: not set */
    int64_t first_token_delay;
    int64_t event_interval;
    int64_t close_idle;
    int64_t status; /* numbers: -1 when not set */
    int64_t retry_after;
    int64_t silence_after; /* offsets count bytes of the body as sent, without chunk framing */
    int64_t reset_after;
    int64_t fin_after;
    int64_t split;
    int64_t huge_event;
    int64_t error_event_after;
    int64_t blob;
    int64_t tokens;
    int64_t cached;        /* tokens that the answer calls cached */
    int64_t created_cache; /* and newly cached */
    struct traits traits;
    uint64_t split_at[SPLITS_AT_MOST]; /* rising */
    size_t split_count;
    struct buf status_body; /* without has_body: the engine's error shape */
    struct buf headers;     /* lines `name: value\r\n` to add to the answer */
    bool has_body;
    bool silence;
    bool refuse_body;
    bool crlf;
    bool no_final_blank;
    bool gzip;
    bool no_length;
    bool usage_null;
};

void fault_init(struct fault *fault);
void fault_free(struct fault *fault);
/* False if the spec is malformed; *bad is then the item that is. */
bool fault_add(struct fault *fault, struct text spec, struct text *bad);
/* Milliseconds with an optional fraction -> nanoseconds; false if it is no such number. */
bool fault_time(struct text millis, int64_t *nanos);

#endif
