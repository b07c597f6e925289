/*
 * A decode worker whose answers are known to the byte, for the tests of usage: it says of every request that the prompt had
 * `reported` tokens, in the shape and the place of the request's API. The render tier of the scripted worker always makes
 * four tokens, so that 4 agrees and anything else is a drift.
 */
#ifndef E2E_USAGE_WORKER_H
#define E2E_USAGE_WORKER_H

#include "harness.h"

enum { RENDERED = 4, DRIFTED = 9 };

/* A kind of request; the list ends with a NULL name. */
struct usage_kind {
    const char *name, *path, *body;
    const char *api, *ids_forwarded; /* labels */
    bool stream;
    bool asked;   /* the client asked for the frame */
    bool dropped; /* we ask for it, and take it out again */
};
extern const struct usage_kind USAGE_KINDS[];

struct usage_worker {
    unsigned reported;
    /* What a probe (Prefer: if-available) gets: 0 it is served; below 0 the connection closes; else this status. */
    int probe;
    const char *prefill; /* its whole answer; NULL: the usual one */
    const char *raw;     /* decode's whole answer as bytes; NULL: made up */
};
/* Scripts for scripted_options; their context is a struct usage_worker. */
void usage_decode(struct stage *stage);
void usage_prefill(struct stage *stage);
/* A worker with both. */
struct scripted *usage_worker_start(struct usage_worker *worker);

/* What decode says: to a request for that path, stream or not, with the usage frame or not. */
void usage_answer(struct text *out, const char *path, bool stream, bool frame, unsigned reported);
/* Asserts that the client got what decode said, but for a frame that nobody but us asked for. */
void assert_answer(const struct client *client, const struct usage_kind *kind, unsigned reported);

/* The steps of a pipeline that renders on that worker. `rest`: further lines; valid until the next call. */
const char *rendered_steps(const struct scripted *worker, const char *rest);
/* Value of the mismatch counter for a kind; -1: there is no such series. */
double mismatches(const struct usage_kind *kind);
/* How many lines of the log speak of a mismatch. */
size_t mismatch_lines(void);

#endif
