/*
 * The parts of the step `render`: asking the tier, ids that the client gave itself, and the local checks of generate.
 */
#ifndef RENDER_RENDER_H
#define RENDER_RENDER_H

#include "common/leg_rows.h"

#include <coordinator/metric.h>

struct render {
    coord_upstream *tier;
    int64_t max_tokens, max_placeholder_tokens; /* 0: no limit */
    bool forward_authorization;
    coord_metric *bodies;
};

/* A prompt of so many tokens is not too long. COORD_OK or COORD_FAIL (400). */
coord_status render_check_length(const struct render *self, coord_request *request, uint64_t tokens);

/*
 * The client's own ids and media features of a generate request: everything is checked before a worker sees it, because the engine's schema accepts
 * geometry that its code cannot stand. COORD_NEXT or COORD_FAIL (400).
 */
coord_status render_generate(const struct render *self, coord_request *request);

#endif
