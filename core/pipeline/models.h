/*
 * `GET /v1/models` where there are several gateways: their lists joined into one (decision 76).
 *
 * All are asked at once with what the client sent. The entries keep their bytes and the order of the gateways; of an id that comes
 * twice the first stays. A gateway that does not answer with such a list is left out, and the log says why.
 * Thread: [reactor].
 */
#ifndef PIPELINE_MODELS_H
#define PIPELINE_MODELS_H

#include "pipeline/front.h"

/* True when this exchange is such a request. */
bool models_wanted(const struct visit *visit);
/* Answers it, now or later. The exchange has no body. */
void models_start(struct visit *visit);
/* The client is gone or the exchange is over. */
void models_stop(struct models *models);

#endif
