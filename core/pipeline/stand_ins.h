/*
 * What legs are answered with in a dry run: answers that a file gives, else a minimal one in the shape that the leg asks for.
 *
 * Thread: load and check [load]; answer [reactor].
 */
#ifndef PIPELINE_STAND_INS_H
#define PIPELINE_STAND_INS_H

#include "config/tree.h"
#include "http/headers.h"
#include "http/stand_in.h"
#include "pipeline/generation.h"

struct coord_call;

/* One `{leg, status, headers, body}` of the file. */
struct given_answer {
    struct position at;
    coord_slice leg; /* id or type of the step that sends the leg */
    int32_t status;
    struct headers headers;
    coord_slice body;
    bool used;
};

/* Zeroed is none. Everything lives in the arena. */
struct given_answers {
    struct given_answer *list;
    size_t count;
};

/* Reads the list in `path`; what is wrong goes to `complaints`. Nothing in it is substituted. */
void given_answers_load(struct given_answers *answers, struct arena *arena, const char *path,
                        struct complaints *complaints);

/* Complains of answers for steps that no pipeline has. */
void given_answers_check(const struct given_answers *answers, const struct generation *generation,
                         struct complaints *complaints);

/*
 * Answers a leg: with the next of the file's answers for it (the last one again, once all were used), else with the usual one.
 * `*given` tells which, NULL: the usual one. False when memory is short.
 */
bool stand_in_answer(struct given_answers *answers, const struct coord_call *call, struct stand_in_answer *out,
                     const struct given_answer **given) COORD_MUST_CHECK;

#endif
