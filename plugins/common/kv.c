/* See kv.h. */
#include "common/kv.h"

coord_status kv_open_sequential(const coord_config *config, coord_connector **kv, coord_error *error)
{
    coord_status status = coord_connector_open(config, "kv_connector", COORD_CONNECTOR_KV, kv, error);

    if (status != COORD_OK || !(coord_connector_flags(*kv) & COORD_CONNECTOR_CONCURRENT))
        return status;
    return coord_error_set(error,
                           "kv_connector %s needs prefill and decode in flight together: use the step prefill-decode",
                           coord_connector_name(*kv));
}
