/* Token ids of a request: kept as the JSON text that render (or the client) gave, and counted (decision 32). */
#include "json/scanner.h"
#include "pipeline/request.h"

#include "telemetry/families.h"

coord_status coord_request_set_token_ids(coord_request *request, coord_slice json)
{
    uint64_t count;
    coord_slice copy;

    if (!json_count_ids(json, &count))
        return COORD_INVALID;
    copy = arena_copy(&request->arena, json);
    if (!copy.data)
        return COORD_NO_MEMORY;
    request->token_ids = copy;
    request->token_count = count;
    request->has_token_ids = true;
    return COORD_OK;
}
