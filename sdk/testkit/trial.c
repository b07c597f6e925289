/* See trial.h. */
#include "trial.h"

#include <stdarg.h>
#include <stdio.h>

enum { MAX_HEADERS = 64 };

static char said[4096];

const char *kit_trial_fault(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(said, sizeof said, format, arguments);
    va_end(arguments);
    fprintf(stderr, "testkit: %s\n", said);
    return said;
}

const char *kit_trial_does_not_work(const char *what)
{
    return kit_trial_fault("the trial does not work: %s%s%s", what, coord_kit_problem()[0] ? ": " : "",
                           coord_kit_problem());
}

struct trial kit_trial_of(const coord_kit_trial *given)
{
    struct trial trial = {.rules = given->rules, .rule_count = given->rule_count, .request = given->request};

    memcpy(&trial.options, given->options,
           given->options->size < sizeof trial.options ? given->options->size : sizeof trial.options);
    trial.options.size = sizeof trial.options;
    return trial;
}

static coord_kit *with_rules(coord_kit *kit, const struct trial *trial, const coord_kit_rule *first)
{
    static const coord_kit_rule any = {0};

    if (!kit)
        return NULL;
    if (first)
        coord_kit_on(kit, first);
    for (size_t i = 0; i < trial->rule_count; i++)
        coord_kit_on(kit, &trial->rules[i]);
    if (trial->rule_count == 0)
        coord_kit_on(kit, &any);
    return kit;
}

coord_kit *kit_trial_start(const struct trial *trial, const coord_kit_rule *first)
{
    return with_rules(coord_kit_start(&trial->options), trial, first);
}

coord_kit *kit_trial_start_told(const struct trial *trial,
                                void (*slot_told)(void *context, const coord_slot_type *type, void *value, bool set),
                                void *slot_context)
{
    return with_rules(kit_start_told(&trial->options, slot_told, slot_context), trial, NULL);
}

coord_kit_client *kit_trial_send(coord_kit *kit, const struct trial *trial, char id[TRIAL_ID])
{
    static unsigned number;
    const char *headers[MAX_HEADERS + 3];
    coord_kit_request request = *trial->request;
    size_t count = 0;

    for (const char *const *field = request.headers; field && field[0] && field[1] && count < MAX_HEADERS; field += 2) {
        headers[count++] = field[0];
        headers[count++] = field[1];
    }
    snprintf(id, TRIAL_ID, "trial-%u-", ++number);
    headers[count++] = "x-request-id";
    headers[count++] = id;
    headers[count] = NULL;
    request.headers = headers;
    return coord_kit_send(kit, &request);
}

struct end {
    coord_kit *kit;
    const char *id;
};

/* The coordinator writes one line with the outcome when nothing of a request is left. */
static bool has_ended(void *argument)
{
    const struct end *end = argument;
    bool found = false;

    pthread_mutex_lock(&end->kit->lock);
    for (const struct line *line = end->kit->lines; line && !found; line = line->next)
        found = strstr(line->text, "outcome") && strstr(line->text, end->id);
    pthread_mutex_unlock(&end->kit->lock);
    return found;
}

bool kit_trial_over(coord_kit *kit, const char *id, int64_t ns)
{
    struct end end = {kit, id};
    int64_t patience = kit->patience_ns;
    bool over;

    kit->patience_ns = ns;
    over = coord_kit_wait(kit, has_ended, &end);
    kit->patience_ns = patience;
    return over;
}

bool kit_trial_ask(coord_kit *kit, const struct trial *trial, int32_t *status)
{
    char id[TRIAL_ID];
    coord_kit_client *client = kit_trial_send(kit, trial, id);
    bool ended;

    if (!client)
        return false;
    ended = coord_kit_read(client, COORD_KIT_ALL) || client->wire.broken;
    *status = coord_kit_answer(client)->status;
    coord_kit_leave(client);
    return ended && kit_trial_over(kit, id, kit->patience_ns);
}
