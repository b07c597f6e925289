/* See cors.h. */
#include "pipeline/cors.h"

static const coord_slice ORIGIN = COORD_SLICE("Origin");

static const struct header *allowed_origin(const struct headers *client, const struct settings *settings)
{
    const struct header *origin = settings->server.cors_origin_count > 0 ? headers_find(client, ORIGIN) : NULL;

    for (size_t i = 0; origin && i < settings->server.cors_origin_count; i++)
        if (coord_slice_is(settings->server.cors_origins[i], "*") ||
            coord_slice_equal(settings->server.cors_origins[i], origin->value))
            return origin;
    return NULL;
}

static bool add(struct headers *to, const char *name, const char *value)
{
    return headers_add_borrowed(to, coord_slice_of(name), coord_slice_of(value));
}

bool cors_allow(struct headers *to, const struct headers *client, const struct settings *settings)
{
    const struct header *origin = allowed_origin(client, settings);

    return !origin || (headers_add(to, (coord_slice)COORD_SLICE("Access-Control-Allow-Origin"), origin->value) &&
                       add(to, "Vary", "Origin") && add(to, "Access-Control-Expose-Headers", "x-request-id"));
}

bool cors_preflight(struct headers *to, coord_slice method, const struct headers *client,
                    const struct settings *settings)
{
    const struct header *asked = headers_find(client, (coord_slice)COORD_SLICE("Access-Control-Request-Headers"));

    if (!coord_slice_is(method, "OPTIONS") || !allowed_origin(client, settings) ||
        !headers_find(client, (coord_slice)COORD_SLICE("Access-Control-Request-Method")))
        return false;
    return cors_allow(to, client, settings) && add(to, "Access-Control-Allow-Methods", "GET, POST, OPTIONS") &&
           (!asked || headers_add(to, (coord_slice)COORD_SLICE("Access-Control-Allow-Headers"), asked->value)) &&
           add(to, "Access-Control-Max-Age", "86400");
}
