/*
 * The APIs: one row each, telling paths, limits, how the prompt is read and how answers are worded; and the reading of
 * a request body against a row, refusing what the engine refuses.
 */
#ifndef SIM_API_H
#define SIM_API_H

#include "shape.h"
#include "template.h"

/* A refusal in the engine's words. The message is the refusal's own. */
struct refusal {
    int status;
    const char *type;
    char param[64]; /* empty: null */
    struct buf message;
};

/* What the reading of a request depends on. */
struct api_setting {
    const char *model; /* the only model served; NULL: any */
    enum template template;
    uint64_t max_model_len;
    struct buf *ids;   /* NULL, or where the prompt's ids go (see struct token_sink) */
    struct buf *media; /* NULL, or where media slots go */
};

/* What a request wants. The texts are raw JSON inside its body. */
struct ask {
    bool stream;
    bool include_usage;
    bool continuous_usage;
    bool ignore_end; /* ignore_eos: generate up to the cap */
    bool capped;
    uint64_t cap;
    uint64_t at_least; /* min_tokens */
    struct text model; /* .at NULL: absent */
    struct text kv;
    struct token_sink prompt;
};

struct api {
    const char *path;
    const char *render_path;
    bool render_list;      /* the render answer is an array of one */
    const char *limits[2]; /* members that cap the output, first wins */
    bool (*prompt)(const struct api_setting *setting, struct text body, struct ask *ask, struct refusal *refusal);
    void (*error)(struct buf *out, struct text message, const char *type, const char *param, int code);
    const struct shape *shape;
};

/* The row of a path; *render tells which of the two paths it was. NULL if there is none. */
const struct api *api_find(struct text path, bool *render);

/* False if the request is refused; the refusal is then filled and must be released by buf_free(&refusal->message). */
bool api_read(const struct api *api, const struct api_setting *setting, struct text body, struct ask *ask,
              struct refusal *refusal);

#endif
