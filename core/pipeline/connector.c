/* The public side of connectors while requests run (coordinator/connector.h). While its code runs, a connector goes by its own plugin. */
#include "pipeline/request.h"

uint32_t coord_connector_flags(const coord_connector *connector) { return connector->kind->type.flags; }

static const struct owner *enter(coord_request *request, const coord_connector *connector)
{
    const struct owner *before = fiber_running(request->fiber).owner;

    fiber_set_owner(request->fiber, connector->owner);
    return before;
}

static coord_status leave(coord_request *request, const struct owner *before, coord_status status)
{
    fiber_set_owner(request->fiber, before);
    return status;
}

const char *coord_connector_name(const coord_connector *connector) { return connector->kind->type.name; }

coord_status coord_connector_prepare_prefill(coord_connector *connector, coord_request *request, coord_document *body,
                                             const char *params_at, coord_call *call)
{
    const coord_connector_type *type = &connector->kind->type;
    const struct owner *before;

    if (!type->prepare_prefill)
        return COORD_OK;
    before = enter(request, connector);
    return leave(request, before, type->prepare_prefill(connector->state, request, body, params_at, call));
}

coord_status coord_connector_read_prefill(coord_connector *connector, coord_request *request, coord_document *answer,
                                          coord_call *call)
{
    const coord_connector_type *type = &connector->kind->type;
    const struct owner *before;

    if (!type->read_prefill)
        return COORD_OK;
    before = enter(request, connector);
    return leave(request, before, type->read_prefill(connector->state, request, answer, call));
}

coord_status coord_connector_prepare_decode(coord_connector *connector, coord_request *request, coord_document *body,
                                            const char *params_at, coord_call *call)
{
    const coord_connector_type *type = &connector->kind->type;
    const struct owner *before;

    if (!type->prepare_decode)
        return COORD_OK;
    before = enter(request, connector);
    return leave(request, before, type->prepare_decode(connector->state, request, body, params_at, call));
}
