/*
 * Each API as the tests of worker-sim ask it: a request without what only some tests add, and where its answers have
 * things. The table is constant; `client` has read its answer.
 */
#ifndef SIM_APIS_H
#define SIM_APIS_H

#include "sim_test.h"

struct api {
    const char *path;
    const char *body;   /* of a prompt that is the same on chat, Responses and Messages */
    const char *prompt; /* pointer to the prompt's tokens in a JSON answer; NULL: Messages, which splits them */
    const char *cached;
    bool template;
};

/* Chat, completions, Responses, Messages, generate. */
enum { API_COUNT = 5 };
extern const struct api APIS[API_COUNT];
#define EACH_API(api) (const struct api *api = APIS; api < APIS + API_COUNT; api++)

/* The prompt's tokens: of an answer, and of a usage object of Messages, which stands at `usage` in `json`. */
int64_t prompt_of(const struct api *api, const struct client *client);
int64_t messages_prompt(const char *json, const char *usage);

#endif
