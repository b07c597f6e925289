/*
 * One client request on its way through the pipeline.
 *
 * Everything here is [fiber] (inside `execute` or a connector's entry point) unless tagged otherwise; slices live as long as
 * the request unless said otherwise.
 */
#ifndef COORDINATOR_REQUEST_H
#define COORDINATOR_REQUEST_H

#include <coordinator/document.h>

COORD_BEGIN_DECLS

typedef struct coord_request coord_request; /* a request on its way */

/* The API that the client called. More may be added; treat an unknown one as "not mine". */
enum {
    COORD_API_CHAT_COMPLETIONS = 1, /* /v1/chat/completions */
    COORD_API_COMPLETIONS = 2,      /* /v1/completions */
    COORD_API_RESPONSES = 3,        /* /v1/responses */
    COORD_API_MESSAGES = 4,         /* /v1/messages */
    COORD_API_GENERATE = 5          /* /inference/v1/generate */
};

COORD_API coord_slice coord_request_id(const coord_request *request);    /* [any callback of the request] */
COORD_API coord_slice coord_request_model(const coord_request *request); /* empty when absent or not a string */
COORD_API bool coord_request_stream(const coord_request *request);       /* the client asked for an event stream */
COORD_API int32_t coord_request_api(const coord_request *request);       /* COORD_API_… */
COORD_API coord_slice coord_request_path(const coord_request *request);  /* cleaned, without the query */
COORD_API coord_slice coord_request_query(const coord_request *request); /* without '?' */

/* The model as a metric label: at most 1,000 distinct ones a process, then "other"; "unknown" when absent. Lives as long as the process. */
COORD_API coord_slice coord_request_model_label(const coord_request *request);

/* The API as the core's metrics and log lines call it: "chat_completions", …, "vllm_generate". Lives as long as the process. */
COORD_API coord_slice coord_request_api_label(const coord_request *request);

/* The client's header: first value of that name (case does not matter). COORD_OK or COORD_ABSENT. */
COORD_API coord_status coord_request_header(const coord_request *request, const char *name,
                                            coord_slice *value) COORD_MUST_CHECK;
/* All of the client's headers in order: COORD_OK, or COORD_END at `index` past the last. */
COORD_API coord_status coord_request_header_at(const coord_request *request, size_t index, coord_slice *name,
                                               coord_slice *value);

/*
 * The body that the legs to come start from; NULL for background work. A step that changes what all later legs see edits it; a step that changes only
 * its own leg clones it first.
 */
COORD_API coord_document *coord_request_body(coord_request *request);
/* The body exactly as received. */
COORD_API coord_slice coord_request_received(const coord_request *request);

/* Token ids of the prompt as JSON text (an array) and `*count`, how many: COORD_OK, or COORD_ABSENT before a step has set them. */
COORD_API coord_status coord_request_token_ids(const coord_request *request, coord_slice *json, uint64_t *count);
/*
 * Sets them, in place of earlier ones. `json` is an array of integers 0 … 2^53, else COORD_INVALID. It is borrowed during the call
 * only: the ids are copied, or share the memory of the body or of the answer that they are a part of. COORD_NO_MEMORY.
 */
COORD_API coord_status coord_request_set_token_ids(coord_request *request, coord_slice json) COORD_MUST_CHECK;
/*
 * Puts them into `document` at `pointer`, as coord_document_set does with their text, without a copy of it: all legs share the
 * same bytes. COORD_STATE before a step has set them; else as coord_document_set.
 */
COORD_API coord_status coord_request_put_token_ids(coord_request *request, coord_document *document,
                                                   const char *pointer) COORD_MUST_CHECK;

/* What decode needs of prefill's answer, as JSON text (an object): COORD_OK or COORD_ABSENT. */
COORD_API coord_status coord_request_kv_params(const coord_request *request, coord_slice *json);
/* Sets it (copied, not looked at: what puts it into a leg's body checks it); an empty slice removes it. COORD_OK, COORD_NO_MEMORY. */
COORD_API coord_status coord_request_set_kv_params(coord_request *request, coord_slice json) COORD_MUST_CHECK;

/*
 * Slots: a step's own state on a request. The key is the address of a coord_slot_type; `destroy` (may be NULL) is called
 * once when the request ends or the slot is replaced, on the reactor's thread.
 */
typedef struct coord_slot_type {
    uint32_t size; /* sizeof(coord_slot_type) */
    uint32_t reserved;
    const char *name; /* for diagnostics */
    void (*destroy)(void *value);
} coord_slot_type;
COORD_API void *coord_request_slot(const coord_request *request,
                                   const coord_slot_type *type); /* NULL: not set. [any callback of the request] */
/* COORD_OK; COORD_NO_MEMORY: `value_take` is still the caller's. */
COORD_API coord_status coord_request_set_slot(coord_request *request, const coord_slot_type *type,
                                              void *value_take) COORD_MUST_CHECK;

/* Zeroed memory of request lifetime; NULL when memory is short. [any callback of the request] */
COORD_API void *coord_request_alloc(coord_request *request, size_t size);
/* A copy of request lifetime, followed by a NUL that does not count; {NULL, 0} when memory is short. */
COORD_API coord_slice coord_request_copy(coord_request *request, coord_slice slice);

/* What thread_start of the running step made on this reactor; NULL without one, and for background work. */
COORD_API void *coord_request_local(const coord_request *request);

/* Nanoseconds until the running step's deadline; INT64_MAX without one; 0 or less: it has passed. */
COORD_API int64_t coord_request_time_left(const coord_request *request);

/* COORD_OK, or COORD_CANCELLED once the client is gone, the step's time is over or the process stops. Never parks. */
COORD_API coord_status coord_request_check(const coord_request *request);

/*
 * Fails the request: the client gets a JSON error in the shape of the API that it called (if nothing was sent yet). First
 * call wins. Always returns COORD_FAIL, so that a step says `return coord_fail(…)`.
 * `status`: 400 … 599; anything else is a 500. `code`: short machine-readable word, NULL: the usual one for the status.
 * A message of more than 1 KiB is cut.
 */
COORD_API coord_status coord_fail(coord_request *request, int32_t status, const char *code, const char *format, ...)
    COORD_PRINTF(4, 5);

/* The same with everything settable. Unset members take what belongs to the status. */
typedef struct coord_failure {
    uint32_t size; /* sizeof(coord_failure) */
    int32_t status;
    const char *code;
    const char *type;
    const char *message;
    const char *param;          /* JSON Pointer of the member at fault, NULL: null */
    const char *const *headers; /* name, value, …, NULL; or NULL. Those that may not stand in a head are left out */
    const char *cause;          /* for the log only */
} coord_failure;
COORD_API coord_status coord_fail_with(coord_request *request, const coord_failure *failure);

/*
 * Turns a document's status about the client's body into the client's error (400 that names the pointer), or a 500 when
 * memory is short. Returns COORD_FAIL; COORD_OK passes through.
 */
COORD_API coord_status coord_fail_member(coord_request *request, coord_status status, const char *pointer,
                                         const char *wanted);

COORD_END_DECLS
#endif
