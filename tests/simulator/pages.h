/* The answers that are no inference: models, health, the echo for passthrough, and the simulator's own books. */
#ifndef SIM_PAGES_H
#define SIM_PAGES_H

#include "http.h"
#include "options.h"

struct counts {
    uint64_t requests[PHASES];
    uint64_t cancelled; /* the peer left before the answer was whole */
    uint64_t cancelled_in[PHASES];
    uint64_t refused;  /* answered 4xx by validation */
    uint64_t active;   /* requests in hand; a gauge */
    uint64_t streamed; /* streams begun */
};

/* GET /v1/models */
void page_models(struct buf *out, const struct options *options);
/* /sim/echo */
void page_echo(struct buf *out, const struct http_request *request);
/* GET /sim/stats */
void page_stats(struct buf *out, const struct counts *counts, uint64_t open_connections);

#endif
