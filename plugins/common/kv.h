/*
 * The KV connector of a step that runs prefill and decode one after the other. Thread: [load].
 */
#ifndef COMMON_KV_H
#define COMMON_KV_H

#include <coordinator/connector.h>

/* The row of such a step's param table. */
#define KV_CONNECTOR_PARAM                                                                                             \
    {COORD_PARAM(STRING, "kv_connector", "How the KV cache gets from prefill to decode."),                             \
     .fallback = "kv-shared-storage", .inherits = "kv_connector"}

/* Opens the connector that the param names. COORD_OK, or COORD_FAIL with `error` set: also for one that needs both legs at once. */
coord_status kv_open_sequential(const coord_config *config, coord_connector **kv, coord_error *error);

#endif
