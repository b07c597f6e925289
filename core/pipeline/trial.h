/*
 * A step on trial: its time limit, and what has to be undone when it fails and the pipeline goes on as if it had not run
 * (decision 74).
 *
 * Invariant: nothing of this applies once the answer's own bytes went to the client. Thread: [fiber] of the request.
 */
#ifndef PIPELINE_TRIAL_H
#define PIPELINE_TRIAL_H

#include "pipeline/request.h"

struct trial {
    bool kept; /* a copy was kept: the step's on_error is continue */
    coord_document *body;
    struct json_text *token_text;
    coord_slice token_ids, kv_params, peer_topology;
    uint64_t token_count;
    bool has_token_ids, has_kv_params;
    coord_usage prefill_usage;
    struct headers relayed;
    struct coord_writer *mark;
};

/* Before the step: arms its time limit and keeps what it may change. */
void trial_begin(struct trial *trial, struct coord_request *request, const struct step *step);

/*
 * After the step. When its time was over it has failed with a 504. True: it failed, everything that it did is undone, and the pipeline goes on.
 */
bool trial_end(struct trial *trial, struct coord_request *request, const struct step *step, bool failed);

#endif
