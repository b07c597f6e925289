/* The step against the test kit: a scripted policy service, a scripted worker, and a client. */
#undef NDEBUG
#include <coordinator/testkit.h>

#include <assert.h>
#include <stdio.h>

extern const coord_plugin_descriptor coord_plugin; /* of hello.c */

static const char yaml[] = "pipeline:\n"
                           "  steps:\n"
                           "    - {type: hello, params: {policy: \"http://policy.kit\", signature: greetings}}\n"
                           "    - {type: decode}\n";

static const coord_plugin_descriptor *const plugins[] = {&coord_plugin, NULL};
static const coord_kit_options options = {.size = sizeof options, .yaml = yaml, .plugins = plugins};

static coord_kit *start(void)
{
    coord_kit *kit = coord_kit_start(&options);

    if (!kit)
        fprintf(stderr, "%s", coord_kit_problem());
    assert(kit);
    coord_kit_on(kit, &(coord_kit_rule){.upstream = "gateway", .body = COORD_SLICE("{\"choices\":[]}")});
    return kit;
}

static void an_allowed_model_goes_on_and_its_answer_is_signed(void)
{
    coord_kit *kit = start();
    const coord_kit_message *answer;

    coord_kit_on(kit, &(coord_kit_rule){.upstream = "policy", .header = "x-model", .value = "tiny"});
    answer = coord_kit_post(kit, "/v1/chat/completions", "{\"model\":\"tiny\",\"messages\":[]}");
    assert(answer && answer->status == 200 && answer->whole);
    assert(coord_slice_is(answer->body, "{\"choices\":[]}"));
    assert(coord_kit_header_is(answer, "x-hello", "greetings"));
    assert(coord_kit_header_is(answer, "content-length", "14"));
    assert(coord_slice_is(coord_kit_leg(kit, "policy", 0)->target, "/may-use"));
    assert(coord_kit_stop(kit));
}

static void another_model_is_refused_and_no_worker_is_asked(void)
{
    coord_kit *kit = start();
    const coord_kit_message *answer;

    coord_kit_on(kit, &(coord_kit_rule){.upstream = "policy", .status = 404});
    answer = coord_kit_post(kit, "/v1/chat/completions", "{\"model\":\"huge\"}");
    assert(answer && answer->status == 403);
    assert(coord_slice_is(answer->body,
                          "{\"error\":{\"message\":\"the model huge is not for you\",\"type\":\"permission_error\","
                          "\"param\":null,\"code\":\"model_not_allowed\"}}"));
    assert(coord_kit_leg_count(kit, "gateway") == 0);
    assert(coord_kit_stop(kit));
}

static void a_policy_service_that_is_away_is_a_502(void)
{
    coord_kit *kit = start();
    const coord_kit_message *answer;

    coord_kit_on(kit, &(coord_kit_rule){.upstream = "policy", .status = COORD_KIT_NO_HEAD, .ending = COORD_KIT_CUT});
    answer = coord_kit_post(kit, "/v1/chat/completions", "{\"model\":\"tiny\"}");
    assert(answer && answer->status == 502);
    assert(coord_kit_stop(kit));
}

static void a_client_that_leaves_ends_the_policy_call(void)
{
    coord_kit *kit = start();
    coord_kit_client *client;

    coord_kit_on(kit, &(coord_kit_rule){.upstream = "policy", .gate = "never"});
    client = coord_kit_send(
        kit, &(coord_kit_request){.target = "/v1/chat/completions", .body = COORD_SLICE("{\"model\":\"tiny\"}")});
    assert(client && coord_kit_leg(kit, "policy", 0));
    coord_kit_leave(client);
    assert(coord_kit_leg_left(kit, coord_kit_leg(kit, "policy", 0)));
    assert(coord_kit_stop(kit));
}

/* Leaks, a step that blocks or does not notice that the client has left, each allocation that fails. */
static void no_fault_is_found(void)
{
    static const coord_kit_rule healthy[] = {{.upstream = "policy"},
                                             {.upstream = "gateway", .body = COORD_SLICE("{\"choices\":[]}")}};
    static const coord_kit_request request = {.target = "/v1/chat/completions",
                                              .body = COORD_SLICE("{\"model\":\"tiny\"}")};

    assert(!coord_kit_find_fault(&(coord_kit_trial){
        .size = sizeof(coord_kit_trial), .options = &options, .rules = healthy, .rule_count = 2, .request = &request}));
}

int main(void)
{
    an_allowed_model_goes_on_and_its_answer_is_signed();
    another_model_is_refused_and_no_worker_is_asked();
    a_policy_service_that_is_away_is_a_502();
    a_client_that_leaves_ends_the_policy_call();
    no_fault_is_found();
    printf("hello: 5 tests passed\n");
    return 0;
}
