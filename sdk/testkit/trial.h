/*
 * What the searches for faults share: a kit with the trial's rules, its request asked under an id, and when that is over. A search
 * says what it found with kit_trial_fault, and returns what that returns.
 */
#ifndef TESTKIT_TRIAL_H
#define TESTKIT_TRIAL_H

#include "kit.h"

/* The trial as far as it is known to us, whatever its `size`. */
struct trial {
    coord_kit_options options;
    const coord_kit_rule *rules;
    size_t rule_count;
    const coord_kit_request *request;
};
struct trial kit_trial_of(const coord_kit_trial *given);

/* NULL: it did not start, and coord_kit_problem says why. `first` (may be NULL) is a rule before the others. */
coord_kit *kit_trial_start(const struct trial *trial, const coord_kit_rule *first);
coord_kit *kit_trial_start_told(const struct trial *trial,
                                void (*slot_told)(void *context, const coord_slot_type *type, void *value, bool set),
                                void *slot_context);

/* Asks, under an id that is put into `id`. NULL: the coordinator does not take it. */
enum { TRIAL_ID = 32 };
coord_kit_client *kit_trial_send(coord_kit *kit, const struct trial *trial, char id[TRIAL_ID]);
/* True once the request is over, so that nothing of it is left; false when that took longer. */
bool kit_trial_over(coord_kit *kit, const char *id, int64_t ns);
/* Asks and waits for the end of it. False: there was neither an answer nor an end. */
bool kit_trial_ask(coord_kit *kit, const struct trial *trial, int32_t *status);

/* Keeps and prints a fault's text, and returns it. */
const char *kit_trial_fault(const char *format, ...) COORD_PRINTF(1, 2);
/* As kit_trial_fault: the trial itself does not work. */
const char *kit_trial_does_not_work(const char *what);

#endif
