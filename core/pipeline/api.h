/*
 * What differs per API that the core serves: one row each. The steps' own differences (render path, caps, …) are in
 * plugins/common.
 *
 * Thread: any; constant.
 */
#ifndef PIPELINE_API_H
#define PIPELINE_API_H

#include "runtime/buffer.h"

#include <coordinator/request.h>

enum error_shape { SHAPE_OPENAI = 1, SHAPE_ANTHROPIC, SHAPE_RESPONSES /* as OpenAI but for streams */ };

struct api {
    int32_t id;        /* COORD_API_… */
    const char *path;  /* matched after cleaning */
    const char *name;  /* label in log and metrics: chat_completions, …; lives as long as the process */
    const char *route; /* label of orchestration_overhead_seconds */
    enum error_shape shape;
    const char *done;          /* how a whole stream's last event is recognised in its bytes; NULL: not at all */
    const char *const *prompt; /* JSON Pointers of the members from which the prompt is made, NULL-terminated */
};

/* The row for a cleaned path, NULL: none of ours. */
const struct api *api_for_path(coord_slice path);
/* A row that stands for "no API" (404, 405 on other paths): OpenAI-shaped errors. */
const struct api *api_none(void);

/* What the client is told. */
struct api_error {
    int32_t status;
    const char *code; /* NULL: the usual one of the status */
    const char *type; /* NULL: likewise */
    coord_slice message;
    const char *param; /* JSON Pointer or NULL */
    coord_slice request_id;
    coord_slice response_id; /* streams of Responses: the response's id, or empty; and the next sequence number */
    int64_t sequence;
};

/* Appends the JSON body of an error in the API's shape. */
bool api_error_body(const struct api *api, const struct api_error *error, struct buffer *out)
    __attribute__((warn_unused_result));
/* Appends it as the event that ends a stream (decision 53). */
bool api_error_event(const struct api *api, const struct api_error *error, struct buffer *out)
    __attribute__((warn_unused_result));
/* The usual code of a status. */
const char *api_error_code(int32_t status);

/*
 * The members of a request body that the core or the shipped steps read or write: a repeat of one is a 400 (decision 21).
 * Engine-owned ones are removed on arrival (decision 31).
 */
struct guarded_member {
    coord_slice name;
    bool prefix; /* any member that begins with it */
    bool engine_owned;
};
const struct guarded_member *guarded_member_find(coord_slice name);

#endif
