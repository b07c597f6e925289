/* The step against the test kit: a whole coordinator in this process, between a scripted worker and a scripted client. */
#undef NDEBUG
#include <coordinator/testkit.h>

#include <assert.h>
#include <stdio.h>

extern const coord_plugin_descriptor coord_plugin; /* of my-step.c */

static const char yaml[] = "pipeline:\n"
                           "  steps:\n"
                           "    - {type: my-step, params: {model: mine, words: \"Good \\\"day\\\"!\"}}\n"
                           "    - {type: decode}\n";

static const coord_plugin_descriptor *const plugins[] = {&coord_plugin, NULL};

static coord_kit *start(const char *configuration)
{
    return coord_kit_start(
        &(coord_kit_options){.size = sizeof(coord_kit_options), .yaml = configuration, .plugins = plugins});
}

static coord_kit *started(void)
{
    coord_kit *kit = start(yaml);

    if (!kit)
        fprintf(stderr, "%s", coord_kit_problem());
    assert(kit);
    return kit;
}

static void its_model_is_answered_and_no_worker_is_asked(void)
{
    coord_kit *kit = started();
    const coord_kit_message *answer =
        coord_kit_post(kit, "/v1/chat/completions", "{\"model\":\"mine\",\"messages\":[]}");

    assert(answer && answer->whole && answer->status == 200);
    assert(coord_kit_header_is(answer, "content-type", "application/json"));
    assert(coord_slice_is(answer->body,
                          "{\"object\":\"chat.completion\",\"model\":\"mine\",\"choices\":[{\"index\":0,\"message\":{"
                          "\"role\":\"assistant\",\"content\":\"Good \\\"day\\\"!\"},\"finish_reason\":\"stop\"}]}"));
    assert(coord_kit_leg_count(kit, NULL) == 0);
    assert(coord_kit_stop(kit));
}

static void a_stream_of_its_model_is_refused(void)
{
    coord_kit *kit = started();
    const coord_kit_message *answer =
        coord_kit_post(kit, "/v1/chat/completions", "{\"model\":\"mine\",\"stream\":true}");

    assert(answer && answer->status == 400);
    assert(coord_kit_leg_count(kit, NULL) == 0);
    assert(coord_kit_stop(kit));
}

static void other_models_go_on_to_the_worker_as_they_came(void)
{
    static const char body[] = "{\"messages\": [],  \"model\": \"other\"}";
    coord_kit *kit = started();
    const coord_kit_message *answer, *leg;

    coord_kit_on(kit, &(coord_kit_rule){.phase = "decode", .body = COORD_SLICE("{\"choices\":[]}")});
    answer = coord_kit_post(kit, "/v1/chat/completions", body);
    assert(answer && answer->status == 200 && coord_slice_is(answer->body, "{\"choices\":[]}"));
    leg = coord_kit_leg(kit, "decode", 0);
    assert(leg && leg->body.size > sizeof body - 2 &&
           memcmp(leg->body.data, body, sizeof body - 2) == 0); /* decode adds behind */
    assert(coord_kit_stop(kit));
}

static void words_that_are_too_long_are_an_error_at_the_start(void)
{
    static char configuration[1024];

    snprintf(configuration, sizeof configuration,
             "pipeline: {steps: [{type: my-step, params: {words: %0600d}}, {type: decode}]}", 7);
    assert(!start(configuration));
    assert(strstr(coord_kit_problem(), "too long"));
}

/* Leaks, a step that blocks or does not notice that the client has left, each allocation that fails. */
static void no_fault_is_found(void)
{
    static const coord_kit_options options = {.size = sizeof options, .yaml = yaml, .plugins = plugins};
    static const coord_kit_request request = {.target = "/v1/chat/completions",
                                              .body = COORD_SLICE("{\"model\":\"mine\",\"messages\":[]}")};

    assert(!coord_kit_find_fault(
        &(coord_kit_trial){.size = sizeof(coord_kit_trial), .options = &options, .request = &request}));
}

int main(void)
{
    its_model_is_answered_and_no_worker_is_asked();
    a_stream_of_its_model_is_refused();
    other_models_go_on_to_the_worker_as_they_came();
    words_that_are_too_long_are_an_error_at_the_start();
    no_fault_is_found();
    printf("my-step: 5 tests passed\n");
    return 0;
}
