/*
 * The front: what happens to an exchange before it is a request. Routes, request ids, probes, and the refusals that the
 * server makes itself; inference paths become requests, every other path is passed through.
 *
 * Thread: [reactor].
 */
#ifndef PIPELINE_FRONT_H
#define PIPELINE_FRONT_H

#include "pipeline/request.h"

struct passthrough;
struct models;

/* What the front knows of an exchange; in the exchange's arena. */
struct visit {
    struct worker *worker;
    struct generation *generation; /* when it began */
    bool held;                     /* the generation, until the exchange is done */
    struct exchange *exchange;
    const struct api *api; /* api_none() where no API is called */
    coord_slice id;
    coord_slice path, query; /* cleaned; raw */
    struct coord_request *request;
    struct passthrough *passthrough;
    struct models *models;
};

/* Makes the visit of an exchange whose head has come, for the present call. NULL: memory is short. */
struct visit *front_visit(struct worker *worker, struct exchange *exchange);
/* The same for as long as the exchange lives; NULL: it was aborted. */
struct visit *front_begin(struct worker *worker, struct exchange *exchange);

/* Answers with a JSON error of ours, a 503 with Retry-After. `allow`: value of an Allow field, or NULL. */
void front_answer_error(struct visit *visit, int32_t status, const char *code, const char *allow, const char *message);

/* The fields of a leg that passes the client's request on to a gateway. */
bool passthrough_headers(struct headers *to, const struct visit *visit, const struct gateway_settings *gateway);
/* Forwards an exchange that is no API of ours to the gateway, both ways streamed (decision 8). */
void passthrough_start(struct visit *visit);
size_t passthrough_upload(struct passthrough *passthrough, coord_slice piece, bool last);
void passthrough_drained(struct passthrough *passthrough);
void passthrough_stop(struct passthrough *passthrough); /* the client is gone or the exchange is over */

/* True when it answered: /healthz and /readyz, for any listener. */
bool status_answer(struct visit *visit);

#endif
