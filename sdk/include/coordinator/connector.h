/*
 * Connectors: how KV cache (and encoder output) gets from one worker to the next. A step that sends prefill or decode legs
 * asks its connector to prepare them.
 *
 * Each entry point gets the leg's own document (a clone, edits are seen by that leg alone) and its call (for headers), and may
 * park. Any may be NULL: nothing to do. Statuses as for `execute` of a step: COORD_OK, or negative after coord_fail.
 */
#ifndef COORDINATOR_CONNECTOR_H
#define COORDINATOR_CONNECTOR_H

#include <coordinator/call.h>
#include <coordinator/param.h>

COORD_BEGIN_DECLS

enum { COORD_CONNECTOR_KV = 1, COORD_CONNECTOR_EC = 2 };
enum {
    COORD_CONNECTOR_CONCURRENT = 1 << 0,   /* prefill and decode are in flight together (reserve first) */
    COORD_CONNECTOR_NO_KV_PARAMS = 1 << 1, /* it sends no kv_transfer_params: token ids are not carried there */
    COORD_CONNECTOR_READS_ANSWER =
        1 << 2 /* decode needs what prefill's answer says: its lack counts in kv_transfer_missing_total */
};

/* What a plugin says of one connector. */
typedef struct coord_connector_type {
    uint32_t size;  /* sizeof(coord_connector_type) */
    uint32_t flags; /* COORD_CONNECTOR_CONCURRENT … */
    int32_t kind;   /* COORD_CONNECTOR_KV or COORD_CONNECTOR_EC */
    uint32_t reserved;
    const char *name; /* as in YAML's kv_connector / ec_connector */
    const char *help;
    const coord_param *params; /* as coord_step_type; they are set on the step that uses the connector */
    uint32_t param_count;
    uint32_t param_size;
    coord_status (*create)(const coord_config *config, void **state, coord_error *error); /* [load] */
    void (*destroy)(void *state);
    /* Puts the handshake into the prefill leg. `params_at`: JSON Pointer of the object's place ("/kv_transfer_params"). [fiber] */
    coord_status (*prepare_prefill)(void *state, coord_request *request, coord_document *body, const char *params_at,
                                    coord_call *call);
    /* Reads prefill's answer (a 200): `answer` is its document, for the time of this call. Keeps what decode needs by coord_request_set_kv_params. */
    coord_status (*read_prefill)(void *state, coord_request *request, coord_document *answer, coord_call *call);
    /* Puts what decode needs into its leg. */
    coord_status (*prepare_decode)(void *state, coord_request *request, coord_document *body, const char *params_at,
                                   coord_call *call);
    /* For prefill that has run when decode will not: lets the worker free what it holds. Nobody calls it in ABI 1.0. */
    void (*abort)(void *state, coord_request *request);
} coord_connector_type;

/* An instance, made for the step that is being created; the core owns it as long as the step. */
typedef struct coord_connector coord_connector;

/*
 * The connector named by the STRING param `param` of the step (inherited, defaulted), created from the step's own values.
 * `param` is "kv_connector" for COORD_CONNECTOR_KV and "ec_connector" for COORD_CONNECTOR_EC: under these names a step
 * declares it, because the connector's own params are read with the step's. COORD_OK, COORD_FAIL with `error` set (an unknown
 * name is reported where it stands, with the nearest one that is loaded). [load]
 */
COORD_API coord_status coord_connector_open(const coord_config *config, const char *param, int32_t kind,
                                            coord_connector **connector, coord_error *error);

/* What its type says. Never NULL. */
COORD_API uint32_t coord_connector_flags(const coord_connector *connector);
COORD_API const char *coord_connector_name(const coord_connector *connector);

/* Call the entry points; COORD_OK where the type has none. [fiber] */
COORD_API coord_status coord_connector_prepare_prefill(coord_connector *connector, coord_request *request,
                                                       coord_document *body, const char *params_at,
                                                       coord_call *call) COORD_MUST_CHECK;
COORD_API coord_status coord_connector_read_prefill(coord_connector *connector, coord_request *request,
                                                    coord_document *answer, coord_call *call) COORD_MUST_CHECK;
COORD_API coord_status coord_connector_prepare_decode(coord_connector *connector, coord_request *request,
                                                      coord_document *body, const char *params_at,
                                                      coord_call *call) COORD_MUST_CHECK;

COORD_END_DECLS
#endif
