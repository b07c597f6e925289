/*
 * The KV connector `kv-shared-storage`: prefill and decode find each other's KV cache in storage that they share, by the
 * prompt; the legs carry two flags and nothing else. So does the Go coordinator.
 */
#include <coordinator/plugin.h>

static coord_status prepare_prefill(void *state, coord_request *request, coord_document *body, const char *params_at,
                                    coord_call *call)
{
    static const coord_slice flags = COORD_SLICE("{\"do_remote_decode\":true,\"do_remote_prefill\":false}");

    (void)state;
    (void)call;
    return coord_fail_member(request, coord_document_set(body, params_at, flags), params_at, NULL);
}

static coord_status prepare_decode(void *state, coord_request *request, coord_document *body, const char *params_at,
                                   coord_call *call)
{
    static const coord_slice flags = COORD_SLICE("{\"do_remote_decode\":false,\"do_remote_prefill\":true}");

    (void)state;
    (void)call;
    return coord_fail_member(request, coord_document_set(body, params_at, flags), params_at, NULL);
}

static const coord_connector_type KV_SHARED_STORAGE = {
    .size = sizeof KV_SHARED_STORAGE,
    .kind = COORD_CONNECTOR_KV,
    .name = "kv-shared-storage",
    .help = "Prefill and decode share storage for the KV cache.",
    .prepare_prefill = prepare_prefill,
    .prepare_decode = prepare_decode,
};

COORD_PLUGIN(.name = "kv-shared-storage", .version = "0.1.0", .licence = "Apache-2.0",
             .connectors = (const coord_connector_type *const[]){&KV_SHARED_STORAGE, NULL})
