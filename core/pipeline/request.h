/*
 * The inside of coord_request: one client request from its body's last byte to its answer's.
 *
 * Invariants: it lives and dies on one reactor. It has a fiber while the executor runs and an exchange while the client is
 * there (or its answer is still going out); when both are gone it is finished, exactly once. `cancelled` is set once and never
 * cleared; what is parked notices when it is woken.
 * Everything that hangs on it lives in its arena, except the body document, slots and what writers hold.
 * Thread: [reactor].
 */
#ifndef PIPELINE_REQUEST_H
#define PIPELINE_REQUEST_H

#include "http/server.h"
#include "pipeline/api.h"
#include "pipeline/generation.h"
#include "pipeline/sequence.h"
#include "pipeline/stream_watch.h"
#include "response/chain.h"
#include "runtime/fiber.h"
#include "telemetry/trace.h"

#include <coordinator/usage.h>

struct worker;
struct coord_call;

enum { REQUEST_MAGIC = 0x52455155, MESSAGE_LIMIT = 1024 };

/* Why it failed: the label of request_error_total and step_errors_total. */
enum error_class {
    ERROR_NONE = 0,
    ERROR_BAD_REQUEST,
    ERROR_UPSTREAM_4XX,
    ERROR_UPSTREAM_5XX,
    ERROR_UPSTREAM_TRANSPORT,
    ERROR_CANCELLED,
    ERROR_INTERNAL,
};
const char *error_class_name(enum error_class class);

struct failure {
    enum error_class class; /* ERROR_NONE: none */
    int32_t status;
    const char *code, *type, *param; /* NULL: the usual */
    coord_slice message;
    coord_slice body;       /* a worker's JSON error, passed on as it is; empty: ours */
    struct headers headers; /* Retry-After, WWW-Authenticate, … */
    const char *cause;      /* for the log */
};

enum cancel_reason { CANCEL_NONE = 0, CANCEL_CLIENT_GONE, CANCEL_CLIENT_SLOW, CANCEL_STOPPING };

struct step_record {
    const struct step *step;
    int64_t began_ns, ended_ns; /* ended 0: it runs */
};

struct leg_record {
    struct leg_record *next;
    const char *name;
    int64_t began_ns, head_ns, ended_ns; /* 0: not yet */
    int32_t status;
    const char *problem; /* NULL: none */
};

/* The last bytes of a stream. */
struct tail {
    char bytes[24];
    size_t size;
};
void tail_note(struct tail *tail, coord_slice bytes);
/* Nothing came yet, or the last line was blank: an event may follow. */
bool tail_at_boundary(const struct tail *tail);

struct slot {
    struct slot *next;
    const coord_slot_type *type;
    void *value;
    const struct owner *owner; /* whose step set it */
};

struct token_text {
    struct token_text *next;
    struct json_text *text;
};

struct detached {
    struct detached *next;
    void (*function)(coord_request *background, void *argument);
    void (*release)(void *argument);
    void *argument;
    const struct owner *owner; /* whose step left it */
};

struct coord_request {
    unsigned magic;
    struct worker *worker;
    struct generation *generation;
    const struct pipeline *pipeline; /* NULL until the body has told which */
    struct exchange *exchange;       /* NULL once done, or for background work */
    struct fiber *fiber;             /* NULL once the executor has returned */
    struct fiber *lender;            /* the same one to the very end, of a stream: held for its room. NULL: none */
    struct arena arena;
    struct coord_request *next, *previous; /* the worker's live ones */

    const struct api *api;
    coord_slice id;
    coord_slice path, query, peer;
    coord_slice model;
    struct metric_model *model_metrics; /* of this model */
    coord_slice model_label;            /* its label there */
    bool stream;
    struct headers headers;        /* the client's; shared with the exchange, so never changed */
    coord_slice received;          /* the body as received */
    struct buffer received_memory; /* while no document has taken it over */
    coord_document *body;
    struct trace_context trace;
    coord_slice tracestate;
    char decision_id[37];

    struct token_text *token_texts; /* all that were set, the last first: their bytes live as long as the request */
    coord_slice token_ids;          /* the bytes of `token_text` */
    struct json_text *token_text;   /* one of the list */
    uint64_t token_count;
    bool has_token_ids;
    coord_document *rendered; /* the body as it was when token ids were made from it; NULL: they were not */
    size_t rendered_edits;    /* of the body when it was last compared */
    coord_usage prefill_usage, decode_usage; /* `said` 0: nothing noted */
    coord_slice kv_params;
    bool has_kv_params;
    coord_slice peer_topology;
    struct headers relayed; /* captured response headers (forward_response_headers) */
    struct headers base;    /* client headers that every gateway leg carries; made on first use */
    bool base_made;
    struct slot *slots;
    struct coord_call *calls; /* all, for freeing */

    struct failure failure;
    enum cancel_reason cancelled;
    bool expired;        /* the running step's time is over, and nothing has gone to the client */
    int64_t deadline_ns; /* of the running step; 0: none */
    struct timer step_timer;
    bool waiting_for_drain; /* the fiber is parked until output has drained */

    struct chain chain;
    bool answer_begun; /* a head went to the exchange */
    bool early;        /* it was the heartbeat's: the answer's own head is still to come */
    struct timer heartbeat;
    bool answer_over;          /* ended or aborted */
    bool answer_events;        /* it is an event stream */
    struct tail answer_tail;   /* what the client got last */
    struct tail worker_tail;   /* what the worker sent last, before any writer */
    struct stream_watch watch; /* whether it told of an error inside of a 200 stream */
    int32_t answer_status;
    bool answer_aborted;         /* it broke off while the client was there */
    struct coord_call *relaying; /* the call whose answer goes to the client; paused and resumed with it */
    void (*drained)(struct coord_request *request);
    int64_t first_byte_ns, last_data_ns;
    struct metric_series *gaps; /* inter_token_latency_seconds of this model and API, once the first event went out */
    struct sequence *sequence;  /* of a stream of Responses; NULL: nothing of it has gone out */

    const struct step *step; /* the one that runs, NULL outside */
    struct step_record *steps_ran;
    size_t steps_ran_count;
    struct leg_record *legs, **legs_end;
    bool sent_prefill, sent_encode, sent_decode; /* legs sent, by phase: the path taken */

    int64_t began_ns;  /* head of the request */
    int64_t parsed_ns; /* its body was whole and indexed */
    int64_t ended_ns;
    bool background;
    bool complete; /* the exchange was handed out whole */
    uint64_t bytes_in, bytes_out;
    struct detached *detached;
};

enum { PATHS_TAKEN = 3, API_PLACES = COORD_API_GENERATE + 1 };

/* What each place of a metric_model is for. */
enum model_handle {
    MODEL_RUNNING,
    MODEL_TOTAL,
    MODEL_DURATION,
    MODEL_SIZE,
    MODEL_INPUT_TOKENS,
    MODEL_PATH,                                     /* by the path taken (decision 49) */
    MODEL_OUTPUT_TOKENS = MODEL_PATH + PATHS_TAKEN, /* by COORD_API_… */
    MODEL_CACHED_TOKENS = MODEL_OUTPUT_TOKENS + API_PLACES,
    MODEL_HANDLES = MODEL_CACHED_TOKENS + API_PLACES
};
_Static_assert((int)MODEL_HANDLES <= (int)METRIC_MODEL_HANDLES, "each has a place");

/* Makes a request for an exchange whose head has come; it holds the generation. NULL when memory is short. */
struct coord_request *request_new(struct worker *worker, struct generation *generation, struct exchange *exchange,
                                  const struct api *api, coord_slice id);

/*
 * The body is whole: takes it over, validates it and reads model and stream; removes engine-owned members. False: the request has failed (request->failure
 * says why) and is to be answered without running a step.
 */
bool request_open(struct coord_request *request);

/* Starts `function(request)` on a fiber, which ends by request_fiber_done. False: no fiber to be had. */
bool request_spawn(struct coord_request *request, void (*function)(void *request));

/* Starts the executor on a fiber. False: no fiber to be had (the request has failed with a 503). */
bool request_run(struct coord_request *request);

/* Answers with request->failure, if nothing was answered yet. */
void request_answer_failure(struct coord_request *request);

/* The client has gone, or the process stops. Wakes what is parked. */
void request_cancel(struct coord_request *request, enum cancel_reason reason);

/* True when whatever is parked gives up: the client is gone, the process stops, or the step's time is over. */
static inline bool request_stopped(const struct coord_request *request)
{
    return request->cancelled || request->expired;
}

/* True when it is too late for a head (the first answer wins), or nobody is there to get one. */
static inline bool request_answered(const struct coord_request *request)
{
    return request->background || request->chain.head_entered || (request->answer_begun && !request->early) ||
           request->answer_over;
}

/* The exchange is over: its pointer is not valid any more. */
void request_exchange_done(struct coord_request *request, bool complete);

/* The executor has returned. */
void request_fiber_done(struct coord_request *request);

/* Output has drained to the low mark. */
void request_drained(struct coord_request *request);

/* Moves the number of requests of its model that run. */
void request_count_running(const struct coord_request *request, double change);

/* Destroys what steps have hung on it, when the request ends. */
void request_release_slots(struct coord_request *request);

/* Gives the texts of token ids back, when the request ends. */
void request_release_tokens(struct coord_request *request);

/* Parks the request's fiber until it is woken. */
void request_park(struct coord_request *request);
void request_wake(struct coord_request *request);

/* Fails it; the first failure wins. Of the message MESSAGE_LIMIT bytes are kept. Always COORD_FAIL. */
coord_status request_fail(struct coord_request *request, enum error_class class, int32_t status, const char *code,
                          const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Tells of every slot that is set (`set`) or goes, on the reactor's thread: for the test kit. NULL: nobody. */
void request_watch_slots(void (*told)(void *context, const coord_slot_type *type, void *value, bool set),
                         void *context);

struct leg_record *request_leg(struct coord_request *request, const char *name);

/* A request without client for background work of another, which is ending. NULL: memory is short, or too much of it runs. */
struct coord_request *request_background(struct coord_request *of);

#endif
