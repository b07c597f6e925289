#include "behaviour_step.h"

#include <coordinator/answer.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

atomic_int last_status, in_act, destroyed;
coord_kit *kit;

/* ---- The step ---- */

static coord_status act_create(const coord_config *config, void **state, coord_error *error)
{
    struct act_state *self = calloc(1, sizeof *self);

    if (!self || coord_upstream_open(config, "other", NULL, &self->other, error) != COORD_OK) {
        free(self);
        return COORD_FAIL;
    }
    *state = self;
    return COORD_OK;
}

static coord_status act_execute(void *state, coord_request *request)
{
    coord_slice name;

    if (coord_request_header(request, "x-act", &name) != COORD_OK)
        return COORD_NEXT;
    for (const struct act *act = acts; act->name; act++)
        if (coord_slice_is(name, act->name))
            return act->act(state, request);
    return coord_fail(request, 500, NULL, "no such act");
}

static const coord_param PARAMS[] = {
    {COORD_PARAM(URL, "other", "An upstream of its own."), .flags = COORD_PARAM_REQUIRED}};

static const coord_step_type ACT = {
    .size = sizeof ACT,
    .name = "act",
    .help = "Does what the request says.",
    COORD_STEP_PARAMS(PARAMS),
    .create = act_create,
    .execute = act_execute,
    .destroy = free,
};

COORD_PLUGIN(.name = "act", .version = "1", .licence = "Apache-2.0",
             .steps = (const coord_step_type *const[]){&ACT, NULL})

/* ---- What tests and acts share ---- */

int kit_setup(void **state)
{
    (void)state;
    kit = coord_kit_start(&(coord_kit_options){
        .size = sizeof(coord_kit_options),
        .reactors = 2,
        .yaml = "log_level: 2\n"
                "runtime: {blocking_warning: 50ms}\n"
                "response: {buffer_high: 128KiB, buffer_low: 32KiB}\n"
                "pipeline: {steps: [{type: act, id: first, params: {other: \"http://other.kit\"}}, {type: decode}]}\n",
        .plugins = (const coord_plugin_descriptor *const[]){&coord_plugin, NULL}});
    if (!kit)
        fail_msg("%s", coord_kit_problem());
    atomic_store(&last_status, 12345);
    atomic_store(&destroyed, 0);
    atomic_store(&in_act, 0);
    return 0;
}

int kit_teardown(void **state)
{
    (void)state;
    return coord_kit_stop(kit) ? 0 : -1;
}

void pause_ns(int64_t ns)
{
    nanosleep(&(struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000}, NULL);
}

coord_status answer(coord_request *request, const char *text)
{
    return coord_answer(request, 200, "text/plain", coord_slice_of(text), NULL);
}

static const char CHAT[] = "/v1/chat/completions";

coord_kit_client *send_act(const char *name, bool reads_little)
{
    coord_kit_client *client =
        coord_kit_send(kit, &(coord_kit_request){.target = CHAT,
                                                 .body = COORD_SLICE("{\"model\":\"m\"}"),
                                                 .headers = (const char *const[]){"X-Act", name, NULL},
                                                 .reads_little = reads_little});

    assert_non_null(client);
    return client;
}

const coord_kit_message *perform(const char *name)
{
    coord_kit_client *client = send_act(name, false);

    coord_kit_read(client, COORD_KIT_ALL);
    coord_kit_leave(client);
    return coord_kit_answer(client);
}

void assert_holds(const coord_kit_message *message, const char *text)
{
    if (!message->body.data || !memmem(message->body.data, message->body.size, text, strlen(text)))
        fail_msg("\"%s\" is not in %.*s", text, COORD_FMT(message->body));
}

void assert_body(const coord_kit_message *message, int32_t status, const char *text)
{
    if (message->status != status || !message->whole || !coord_slice_is(message->body, text))
        fail_msg("%d whole=%d %.*s", message->status, message->whole, COORD_FMT(message->body));
}

static bool is_value(void *argument)
{
    atomic_int *const *pair = argument;

    return atomic_load(pair[0]) == atomic_load(pair[1]);
}

void wait_value(atomic_int *value, int wanted)
{
    atomic_int copy = wanted;

    if (!coord_kit_wait(kit, is_value, (atomic_int *[]){value, &copy}))
        fail_msg("%d instead of %d", atomic_load(value), wanted);
}
