/*
 * Cross-origin requests of browsers (decision 58): off unless server.cors_origins lists origins ("*": any).
 *
 * Thread: [reactor].
 */
#ifndef PIPELINE_CORS_H
#define PIPELINE_CORS_H

#include "config/settings.h"
#include "http/headers.h"

/* Adds what the browser asks for to an answer's fields, if the client's Origin is allowed. False: memory is short. */
bool cors_allow(struct headers *to, const struct headers *client, const struct settings *settings);

/* True when this is a preflight of an allowed origin; `to` then has the fields of its 204. */
bool cors_preflight(struct headers *to, coord_slice method, const struct headers *client,
                    const struct settings *settings);

#endif
