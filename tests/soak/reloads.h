/*
 * Reloads under load: the coordinator changes between two configurations whose workers tell themselves apart, with broken files
 * in between, each as soon as the one before is through and its time has come.
 */
#ifndef SOAK_RELOADS_H
#define SOAK_RELOADS_H

#include "harness.h"

enum { SIDES = 2 };
/* Stands in every answer of that side's worker, and in no answer of the other's. */
extern const char *const reload_marks[SIDES];

/* Starts the coordinator on side 0, with two workers of its own. */
void reloads_deploy(long reactors);
/* From now on `count` reloads that succeed, over `ms`; broken files in between are not counted. */
void reloads_begin(long count, int64_t ms);
/* One look; never waits. */
void reloads_turn(void);
/* All are through. */
bool reloads_over(void);
/* How many have been asked for, and how many are in use everywhere. A request gets one of those in between; its side is that modulo SIDES. */
long reloads_asked(void);
long reloads_applied(void);
/* What does not add up, as a sentence; NULL: all does. */
const char *reloads_problem(void);
/* A member of the books of both workers, added up. */
int64_t reloads_count(const char *member);
/* One line of what was done. */
const char *reloads_summary(void);

#endif
