/*
 * What differs per API for the legs that our steps send: one row each.
 *
 * Sources: vLLM 0.32.0 on the wire (render paths, members), decisions 30, 32. Thread: any; constant.
 */
#ifndef COMMON_LEG_ROWS_H
#define COMMON_LEG_ROWS_H

#include <coordinator/call.h>

/* How a leg carries the prompt's token ids. */
enum ids_in {
    IDS_IN_KV_PARAMS = 1, /* kv_transfer_params.prompt_token_ids */
    IDS_IN_PROMPT,        /* prompt */
    IDS_IN_TOKEN_IDS      /* token_ids */
};

struct leg_row {
    int32_t api;
    const char *path;        /* of worker legs */
    const char *render_path; /* NULL: render makes no call */
    const char *prompt;      /* JSON Pointer of the member that holds the prompt */
    enum ids_in ids_in;
    bool usage_on_request;      /* its streams hold usage only when stream_options asks for it */
    const char *object;         /* the object that holds the caps; made if it is not there. NULL: the body */
    const char *const *caps;    /* set to 1 on a one-token leg */
    const char *const *ones;    /* set to 1 where present */
    const char *const *removed; /* removed */
    const char *const *falses;  /* set to false */
};

/* The row of an API, NULL: none of ours. */
const struct leg_row *leg_row_of(int32_t api);

/* The row of the generate format, which tokens-in legs use whatever the client called. */
const struct leg_row *leg_row_generate(void);

/*
 * Makes `body` (a clone for this leg) a one-token leg, as plain as possible: what shapes the prompt stays, what shapes the
 * output goes. COORD_OK, or COORD_FAIL with the request failed (a capped member that stands there twice, memory).
 */
coord_status leg_cap(coord_request *request, const struct leg_row *row, coord_document *body);

/*
 * Puts the request's token ids, if there are any, into the leg's body where its API has them. `params_at`: where the transfer
 * params stand; without an object there nothing is put into them. COORD_OK, or COORD_FAIL with the request failed.
 */
coord_status leg_add_token_ids(coord_request *request, const struct leg_row *row, coord_document *body,
                               const char *params_at);

#endif
