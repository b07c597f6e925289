/*
 * Prompt-token parity: prefill runs on the ids that render made, while decode may render the prompt itself. When the two
 * disagree nothing fails; the count that decode reports is the only trace. Shared by every step that sends a decode leg.
 *
 * Sources: PRs 3751 and 3889 of llm-d-router, decisions 34, 50–52. Nothing of it changes what the client gets, but for the
 * cached-token count that prefill knows better.
 */
#ifndef COMMON_PARITY_H
#define COMMON_PARITY_H

#include "common/leg_rows.h"

#include <coordinator/metric.h>
#include <coordinator/plugin.h>
#include <coordinator/usage.h>

enum parity_mode { PARITY_OFF = 0, PARITY_WARN, PARITY_ERROR };
extern const char *const PARITY_MODES[];

/* The row for a step's param table. */
#define PARITY_PARAM                                                                                                   \
    {COORD_PARAM(                                                                                                      \
         ENUM, "prompt_token_parity",                                                                                  \
         "Whether the prompt tokens that decode reports are compared with those that were rendered: off, warn (log "   \
         "and count) or "                                                                                              \
         "error (count as a step error, too; the client never notices). The answer is looked through for usage."),     \
     .fallback = "warn", .choices = PARITY_MODES, .needs = COORD_THING_TOKEN_IDS}

struct parity {
    enum parity_mode mode;
    const char *step; /* the step's id */
    coord_metric *mismatches, *step_errors;
};

/* Reads the param; what it makes lives as long as the step and is freed by parity_destroy. [load] */
coord_status parity_create(struct parity *parity, const coord_config *config, coord_error *error);
void parity_destroy(struct parity *parity);

/* What is done for one leg; request lifetime. */
struct parity_plan;

/*
 * Decides for this leg and, where usage has to be asked for, splices stream_options into `leg` (a clone: the request's body stays as it is).
 * NULL: the request has failed. [fiber]
 */
struct parity_plan *parity_prepare(const struct parity *parity, coord_request *request, const struct leg_row *row,
                                   coord_document *leg);

/* Wraps the writers that the plan needs, before the answer's head. COORD_OK or COORD_FAIL. [fiber] */
coord_status parity_wrap(struct parity_plan *plan);

#endif
