/* The connector against the test kit: what prefill and decode workers are told. */
#undef NDEBUG
#include <coordinator/testkit.h>

#include <assert.h>
#include <stdio.h>

extern const coord_plugin_descriptor coord_plugin; /* of my-step.c */

static const char yaml[] = "pipeline:\n"
                           "  kv_connector: my-step\n"
                           "  steps:\n"
                           "    - {type: prefill, params: {pool: east}}\n"
                           "    - {type: decode, params: {pool: east}}\n";

static coord_kit *started(void)
{
    coord_kit *kit =
        coord_kit_start(&(coord_kit_options){.size = sizeof(coord_kit_options),
                                             .yaml = yaml,
                                             .plugins = (const coord_plugin_descriptor *const[]){&coord_plugin, NULL}});

    if (!kit)
        fprintf(stderr, "%s", coord_kit_problem());
    assert(kit);
    return kit;
}

/* Sends a request and checks what the worker of a phase is told. */
static void assert_told(coord_kit *kit, const char *phase, const char *wanted)
{
    coord_document *body = coord_document_parse_new(coord_kit_leg(kit, phase, 0)->body, NULL, NULL);
    coord_slice params;

    assert(body && coord_document_get(body, "/kv_transfer_params", &params) == COORD_OK);
    if (!coord_slice_is(params, wanted))
        fprintf(stderr, "%s is told: %.*s\n", phase, COORD_FMT(params));
    assert(coord_slice_is(params, wanted));
    coord_document_free(body);
}

static void decode_gets_what_prefill_answered(void)
{
    coord_kit *kit = started();
    const coord_kit_message *answer;

    coord_kit_on(kit, &(coord_kit_rule){.phase = "prefill",
                                        .body = COORD_SLICE("{\"kv_transfer_params\":{\"remote_block_ids\":[7, "
                                                            "12345678901234567890]}}")});
    coord_kit_on(kit, &(coord_kit_rule){.phase = "decode", .body = COORD_SLICE("{\"choices\":[]}")});
    answer = coord_kit_post(kit, "/v1/chat/completions", "{\"model\":\"m\",\"messages\":[]}");
    assert(answer && answer->status == 200 && coord_slice_is(answer->body, "{\"choices\":[]}"));
    assert_told(kit, "prefill", "{\"do_remote_decode\":true,\"do_remote_prefill\":false,\"pool\":\"east\"}");
    assert_told(kit, "decode",
                "{\"remote_block_ids\":[7, 12345678901234567890],\"do_remote_decode\":false,\"do_remote_prefill\":"
                "true,\"pool\":\"east\"}");
    assert(coord_kit_stop(kit));
}

static void without_params_decode_computes_the_prompt(void)
{
    coord_kit *kit = started();
    const coord_kit_message *answer;

    coord_kit_on(kit, &(coord_kit_rule){.phase = "prefill", .body = COORD_SLICE("{}")});
    coord_kit_on(kit, &(coord_kit_rule){.phase = "decode", .body = COORD_SLICE("{\"choices\":[]}")});
    answer = coord_kit_post(kit, "/v1/chat/completions", "{\"model\":\"m\",\"messages\":[]}");
    assert(answer && answer->status == 200);
    assert_told(kit, "decode", "{\"do_remote_decode\":false,\"do_remote_prefill\":false,\"pool\":\"east\"}");
    assert(coord_kit_stop(kit));
}

int main(void)
{
    decode_gets_what_prefill_answered();
    without_params_decode_computes_the_prompt();
    printf("my-step: 2 tests passed\n");
    return 0;
}
