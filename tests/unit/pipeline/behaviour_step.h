/*
 * What the tests of a step's behaviour share: one step type, `act`, whose act is named by the request's X-Act, in front of
 * decode in a coordinator of the test kit, so through the public ABI only. Each program has its own acts, good ones and such as
 * a step must not do. Acts run on the coordinator's threads and leave what the test looks at in atomics.
 */
#ifndef BEHAVIOUR_STEP_H
#define BEHAVIOUR_STEP_H

#include <coordinator/testkit.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdatomic.h>

static const int64_t MS = COORD_KIT_MS;

struct act_state {
    coord_upstream *other; /* an upstream of the step's own, "other" in the kit */
};

struct act {
    const char *name;
    coord_status (*act)(struct act_state *state, coord_request *request);
};

/* The program's; a row without a name ends them. */
extern const struct act acts[];

/* Left by acts: a status (12345: none yet), that it is under way, how many of the act's objects were destroyed. */
extern atomic_int last_status, in_act, destroyed;

/* The coordinator under test, from kit_setup to kit_teardown; these are for each test, and kit_setup resets what acts leave. */
extern coord_kit *kit;
int kit_setup(void **state);
int kit_teardown(void **state);

/* For acts. */
void pause_ns(int64_t ns);
/* 200, text/plain. */
coord_status answer(coord_request *request, const char *text);

/* For tests. A request that asks for an act; the client is the kit's. */
coord_kit_client *send_act(const char *name, bool reads_little);
/* The same, read to its end; the answer is valid until the kit ends. */
const coord_kit_message *perform(const char *name);
void assert_holds(const coord_kit_message *message, const char *text);
/* A whole answer of this status and body. */
void assert_body(const coord_kit_message *message, int32_t status, const char *text);
/* Waits, as long as the kit does, and fails if it does not come. */
void wait_value(atomic_int *value, int wanted);

#endif
