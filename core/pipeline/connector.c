/* The public side of connectors while requests run (coordinator/connector.h). */
#include "pipeline/request.h"

uint32_t coord_connector_flags(const coord_connector *connector) { return connector->kind->type.flags; }

const char *coord_connector_name(const coord_connector *connector) { return connector->kind->type.name; }

coord_status coord_connector_prepare_prefill(coord_connector *connector, coord_request *request, coord_document *body,
                                             const char *params_at, coord_call *call)
{
    const coord_connector_type *type = &connector->kind->type;

    return type->prepare_prefill ? type->prepare_prefill(connector->state, request, body, params_at, call) : COORD_OK;
}

coord_status coord_connector_read_prefill(coord_connector *connector, coord_request *request, coord_document *answer,
                                          coord_call *call)
{
    const coord_connector_type *type = &connector->kind->type;

    return type->read_prefill ? type->read_prefill(connector->state, request, answer, call) : COORD_OK;
}

coord_status coord_connector_prepare_decode(coord_connector *connector, coord_request *request, coord_document *body,
                                            const char *params_at, coord_call *call)
{
    const coord_connector_type *type = &connector->kind->type;

    return type->prepare_decode ? type->prepare_decode(connector->state, request, body, params_at, call) : COORD_OK;
}
