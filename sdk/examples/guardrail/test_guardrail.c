/* The step against the test kit: a scripted moderation service, a scripted worker, and a client. */
#undef NDEBUG
#include <coordinator/testkit.h>

#include <assert.h>
#include <stdio.h>

extern const coord_plugin_descriptor coord_plugin; /* of guardrail.c */

#define PIPELINE(on_failure)                                                                                           \
    "pipeline:\n"                                                                                                      \
    "  steps:\n"                                                                                                       \
    "    - {type: guardrail, params: {service: \"http://moderation.kit\", timeout: 200ms, on_failure: " on_failure     \
    "}}\n"                                                                                                             \
    "    - {type: decode}\n"

static const char closed[] = PIPELINE("closed"), open[] = PIPELINE("open");
static const char chat[] = "/v1/chat/completions";
static const char asked[] = "{\"model\":\"m\",\"messages\":[ {\"content\":\"\\u0068i\"} ]}";

static coord_kit *start(const char *yaml, coord_kit_rule service)
{
    coord_kit *kit =
        coord_kit_start(&(coord_kit_options){.size = sizeof(coord_kit_options),
                                             .yaml = yaml,
                                             .plugins = (const coord_plugin_descriptor *const[]){&coord_plugin, NULL}});

    if (!kit)
        fprintf(stderr, "%s", coord_kit_problem());
    assert(kit);
    service.upstream = "moderation";
    service.path = "/v1/moderations";
    coord_kit_on(kit, &service);
    coord_kit_on(kit, &(coord_kit_rule){.phase = "decode", .body = COORD_SLICE("{\"choices\":[]}")});
    return kit;
}

static const coord_kit_rule passes = {.body = COORD_SLICE("{\"results\":[{\"flagged\":false}]}")};
static const coord_kit_rule flags = {.body = COORD_SLICE("{\"results\":[{\"flagged\":true}]}")};

static void a_prompt_that_passes_goes_on(void)
{
    static const struct {
        const char *target, *body, *question;
    } rows[] = {
        {"/v1/chat/completions", "{\"model\":\"m\",\"messages\":[ {\"content\":\"\\u0068i\"} ]}",
         "{\"model\":\"m\",\"input\":[ {\"content\":\"\\u0068i\"} ]}"},
        {"/v1/completions", "{\"model\":\"m\",\"prompt\":\"hi\"}", "{\"model\":\"m\",\"input\":\"hi\"}"},
        {"/v1/responses", "{\"model\":\"m\",\"instructions\":\"be kind\",\"input\":\"hi\"}",
         "{\"model\":\"m\",\"input\":\"hi\",\"instructions\":\"be kind\"}"},
        {"/v1/messages", "{\"model\":\"m\",\"max_tokens\":1,\"system\":\"be kind\",\"messages\":[]}",
         "{\"model\":\"m\",\"input\":[],\"instructions\":\"be kind\"}"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        coord_kit *kit = start(closed, passes);
        const coord_kit_message *answer = coord_kit_post(kit, rows[i].target, rows[i].body);

        assert(answer && answer->status == 200);
        assert(coord_slice_is(coord_kit_leg(kit, "moderation", 0)->body, rows[i].question));
        assert(coord_kit_stop(kit));
    }
}

static void a_flagged_prompt_is_a_400_in_the_apis_shape_and_reaches_no_worker(void)
{
    coord_kit *kit = start(closed, flags);
    const coord_kit_message *answer = coord_kit_post(kit, chat, asked);

    assert(answer && answer->status == 400);
    assert(coord_slice_is(answer->body, "{\"error\":{\"message\":\"the prompt was refused by content policy\",\"type\":"
                                        "\"invalid_request_error\",\"param\":null,\"code\":\"content_policy\"}}"));
    answer = coord_kit_post(kit, "/v1/messages", "{\"model\":\"m\",\"max_tokens\":1,\"messages\":[]}");
    assert(answer && answer->status == 400);
    assert(answer->body.size > 31 && memcmp(answer->body.data, "{\"type\":\"error\",\"error\":{\"type\":", 31) == 0);
    assert(coord_kit_leg_count(kit, "gateway") == 0);
    assert(coord_kit_stop(kit));
}

/* A list of prompts has a verdict each. */
static void one_prompt_of_many_that_is_flagged_suffices(void)
{
    coord_kit *kit =
        start(open, (coord_kit_rule){.body = COORD_SLICE("{\"results\":[{\"flagged\":false},{\"flagged\":true}]}")});
    const coord_kit_message *answer =
        coord_kit_post(kit, "/v1/completions", "{\"model\":\"m\",\"prompt\":[\"hi\",\"you\"]}");

    assert(answer && answer->status == 400);
    assert(coord_kit_leg_count(kit, "gateway") == 0);
    assert(coord_kit_stop(kit));
}

/* The service would be asked about one of them, or none, and the worker may read the other. */
static void what_stands_there_twice_is_refused(void)
{
    static const char *const rows[][2] = {
        {"/v1/messages", "{\"model\":\"m\",\"max_tokens\":1,\"system\":\"a\",\"system\":\"b\",\"messages\":[]}"},
        {"/v1/responses", "{\"model\":\"m\",\"instructions\":\"a\",\"instructions\":\"b\",\"input\":\"hi\"}"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        coord_kit *kit = start(open, passes);
        const coord_kit_message *answer = coord_kit_post(kit, rows[i][0], rows[i][1]);

        assert(answer && answer->status == 400);
        assert(coord_kit_leg_count(kit, "gateway") == 0);
        assert(coord_kit_stop(kit));
    }
}

/* A service that fails, in every way. */
static const coord_kit_rule failures[] = {
    {.status = 500},
    {.body = COORD_SLICE("not JSON")},
    {.body = COORD_SLICE("{\"results\":[]}")},
    {.body = COORD_SLICE("{\"results\":[{\"flagged\":\"no\"}]}")},
    {.body = COORD_SLICE("{\"results\":[{\"flagged\":false},{}]}")},
    {.status = COORD_KIT_NO_HEAD, .ending = COORD_KIT_CUT},
    {.status = COORD_KIT_NO_HEAD, .ending = COORD_KIT_SILENT},
};

static void a_service_that_fails_closed_is_a_503(void)
{
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) {
        coord_kit *kit = start(closed, failures[i]);
        const coord_kit_message *answer = coord_kit_post(kit, chat, asked);

        assert(answer && answer->status == 503);
        assert(coord_kit_leg_count(kit, "gateway") == 0);
        assert(coord_kit_stop(kit));
    }
}

static void a_service_that_fails_open_lets_the_request_go_and_is_counted(void)
{
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) {
        coord_kit *kit = start(open, failures[i]);
        double before = coord_kit_metric("guardrail_failed_open_total", NULL);
        const coord_kit_message *answer = coord_kit_post(kit, chat, asked);

        assert(answer && answer->status == 200);
        assert(coord_kit_metric("guardrail_failed_open_total", NULL) == before + 1);
        assert(coord_kit_stop(kit));
    }
}

static void a_client_that_leaves_ends_the_question(void)
{
    coord_kit *kit = start(closed, (coord_kit_rule){.gate = "never"});
    coord_kit_client *client = coord_kit_send(kit, &(coord_kit_request){.target = chat, .body = coord_slice_of(asked)});

    assert(client && coord_kit_leg(kit, "moderation", 0));
    coord_kit_leave(client);
    assert(coord_kit_leg_left(kit, coord_kit_leg(kit, "moderation", 0)));
    assert(coord_kit_stop(kit));
}

int main(void)
{
    a_prompt_that_passes_goes_on();
    a_flagged_prompt_is_a_400_in_the_apis_shape_and_reaches_no_worker();
    one_prompt_of_many_that_is_flagged_suffices();
    what_stands_there_twice_is_refused();
    a_service_that_fails_closed_is_a_503();
    a_service_that_fails_open_lets_the_request_go_and_is_counted();
    a_client_that_leaves_ends_the_question();
    printf("guardrail: 7 tests passed\n");
    return 0;
}
