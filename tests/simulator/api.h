/*
 * The APIs: one row each, telling paths, limits, how the prompt is read and how answers are worded; and the reading of
 * a request body against a row, refusing what the engine refuses.
 */
#ifndef SIM_API_H
#define SIM_API_H

#include "prompt.h"
#include "shape.h"

struct api {
    const char *path;
    const char *render_path; /* NULL: not rendered */
    bool render_list;        /* the render answer is an array of one */
    const char *render_more; /* in its sampling_params, after skip_clone */
    const char *limits[2];   /* members that cap the output, first wins */
    const char *sampling;    /* the object where limits, min_tokens and ignore_eos stand; NULL: the body */
    bool takes_min_tokens;   /* where not, it is an unknown member like any other */
    bool takes_ignore_end;
    bool takes_stream_options;
    bool options_need_stream; /* without `stream` they are refused, not ignored */
    prompt_reader *prompt;
    void (*error)(struct buf *out, struct text message, const char *type, const char *param, int code);
    const struct shape *shape;
};

/* The row of a path; *render tells which of the two paths it was. NULL if there is none. */
const struct api *api_find(struct text path, bool *render);

/* False if the request is refused; the refusal is then filled and must be released by buf_free(&refusal->message). */
bool api_read(const struct api *api, const struct api_setting *setting, struct text body, struct ask *ask,
              struct refusal *refusal);

#endif
