/*
 * What each way of not getting an answer means to the client (decision 66).
 */
#ifndef PIPELINE_OUTCOME_H
#define PIPELINE_OUTCOME_H

#include "http/upstream.h"

/* The client's status; 0 for LEG_COMPLETE. */
int32_t leg_outcome_status(enum leg_outcome outcome);
/* What happened, to go on after "NAME: ". */
const char *leg_outcome_words(enum leg_outcome outcome);

#endif
