/* The step against the test kit: what the worker gets of the client's body and of the operator's members. */
#undef NDEBUG
#include <coordinator/testkit.h>

#include <assert.h>
#include <stdio.h>

extern const coord_plugin_descriptor coord_plugin; /* of request_defaults.cc */

/* What the step `decode` adds at the end. */
#define ADDED ",\"kv_transfer_params\":{\"do_remote_decode\":false,\"do_remote_prefill\":true}"

static coord_kit *try_start(const char *params)
{
    char yaml[512];

    snprintf(yaml, sizeof yaml, "pipeline: {steps: [{type: request-defaults, params: {%s}}, {type: decode}]}", params);
    return coord_kit_start(
        &(coord_kit_options){.size = sizeof(coord_kit_options),
                             .yaml = yaml,
                             .plugins = (const coord_plugin_descriptor *const[]){&coord_plugin, NULL}});
}

static coord_kit *start(void)
{
    coord_kit *kit = try_start("defaults: '{\"temperature\": 0.20, \"x/y~\":[ 1 ]}', forced: '{\"priority\":1e1}'");

    if (!kit)
        fprintf(stderr, "%s", coord_kit_problem());
    assert(kit);
    coord_kit_on(kit, &(coord_kit_rule){.phase = "decode", .body = COORD_SLICE("{}")});
    return kit;
}

static void what_is_missing_is_added_and_what_is_forced_replaced(void)
{
    static const struct {
        const char *body, *wanted;
    } rows[] = {
        {"{ \"model\":\"m\"}", "{ \"model\":\"m\",\"temperature\":0.20,\"x/y~\":[ 1 ],\"priority\":1e1" ADDED "}"},
        {"{\"temperature\" : null, \"priority\":\"\\u0031\", \"x/y~\":2}",
         "{\"temperature\" : null, \"priority\":1e1, \"x/y~\":2" ADDED "}"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        coord_kit *kit = start();

        assert(coord_kit_post(kit, "/v1/chat/completions", rows[i].body)->status == 200);
        assert(coord_slice_is(coord_kit_leg(kit, "decode", 0)->body, rows[i].wanted));
        assert(coord_kit_stop(kit));
    }
}

static void a_member_that_stands_there_twice_is_the_clients_mistake(void)
{
    coord_kit *kit = start();

    assert(coord_kit_post(kit, "/v1/chat/completions", "{\"priority\":1,\"priority\":2}")->status == 400);
    assert(coord_kit_post(kit, "/v1/chat/completions", "{\"temperature\":1,\"temperature\":2}")->status == 400);
    assert(coord_kit_leg_count(kit, NULL) == 0);
    assert(coord_kit_stop(kit));
}

static void params_that_are_no_objects_are_told_at_the_start(void)
{
    static const struct {
        const char *params, *problem;
    } rows[] = {{"defaults: '[1]'", "defaults is not a JSON object"}, {"forced: '{'", "forced is not a JSON object"}};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert(!try_start(rows[i].params) && strstr(coord_kit_problem(), rows[i].problem));
}

int main(void)
{
    what_is_missing_is_added_and_what_is_forced_replaced();
    a_member_that_stands_there_twice_is_the_clients_mistake();
    params_that_are_no_objects_are_told_at_the_start();
    printf("request-defaults: 3 tests passed\n");
    return 0;
}
