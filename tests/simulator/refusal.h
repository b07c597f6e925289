/* How the engine refuses a request: its words, the status, and which part of it speaks. */
#ifndef SIM_REFUSAL_H
#define SIM_REFUSAL_H

#include "json.h"

/* The message is the refusal's own: buf_free(&refusal->message). */
struct refusal {
    int status;
    const char *type;
    char param[64]; /* empty: null */
    bool of_body;   /* by the model of the body, before any API's own code: worded alike on every path */
    struct buf message;
};

/* Each fills *refusal and returns false. */

bool refuse(struct refusal *refusal, int status, const char *type, const char *param, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* A member that the body's model does not take; `input` is the value shown. */
bool refuse_member(struct refusal *refusal, const char *place, const char *kind, const char *says, struct text input);
bool refuse_missing(struct refusal *refusal, const char *place, struct text object);
bool refuse_dictionary(struct refusal *refusal, const char *place, struct text input);
/* A body that is no JSON from byte `at` on. */
bool refuse_json(struct refusal *refusal, size_t at);

#endif
