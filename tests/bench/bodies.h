/*
 * The bodies of a case: what the client sends, and for each leg what goes to the worker and what it answers.
 *
 * The legs' requests are what a coordinator sends: the client's body with the caps of a one-token leg and the transfer
 * parameters spliced in. They are sent through nginx hop by hop, so that both sides move the same bytes.
 */
#ifndef BENCH_BODIES_H
#define BENCH_BODIES_H

#include <stdbool.h>
#include <stddef.h>

enum leg { RENDER, PREFILL, DECODE, LEGS };

/* The leg's name: its phase, and the file of its answer without `.json`. */
extern const char *const leg_names[LEGS];

struct text {
    char *bytes; /* NUL-terminated; malloc */
    size_t length;
};

struct shape {
    size_t prompt;   /* bytes of text in the user's message */
    size_t image;    /* bytes of base64 of an inline image; 0: none */
    size_t tokens;   /* ids that render answers */
    size_t stream;   /* events of a stream; 0: no stream */
    bool client_ids; /* a completion whose prompt are as many ids, from the client */
};

struct bodies {
    const char *path; /* that the client calls */
    struct text client;
    struct text sent[LEGS], answered[LEGS];
};

void bodies_make(struct bodies *bodies, const struct shape *shape);
void bodies_release(struct bodies *bodies);
/* Writes the answers into `folder` as render.json, prefill.json and decode.json, and the client's body as client.json. */
bool bodies_write(const struct bodies *bodies, const char *folder);

#endif
