/* The step against the test kit: what the worker gets is the client's body with another name in it. */
#undef NDEBUG
#include <coordinator/testkit.h>

#include <assert.h>
#include <stdio.h>

extern const coord_plugin_descriptor coord_plugin; /* of model_alias.c */

/* What the step `decode` adds at the end. */
#define ADDED ",\"kv_transfer_params\":{\"do_remote_decode\":false,\"do_remote_prefill\":true}"

static const char yaml[] =
    "pipeline:\n"
    "  steps:\n"
    "    - {type: model-alias, params: {models: {small: org/tiny-1b, \"b\\\"ig\": \"h\\\\uge\"}}}\n"
    "    - {type: decode}\n";

/* Sends `body` and holds what decode got against `wanted`. */
static void becomes(const char *body, const char *wanted)
{
    coord_kit *kit =
        coord_kit_start(&(coord_kit_options){.size = sizeof(coord_kit_options),
                                             .yaml = yaml,
                                             .plugins = (const coord_plugin_descriptor *const[]){&coord_plugin, NULL}});
    const coord_kit_message *answer;

    if (!kit)
        fprintf(stderr, "%s", coord_kit_problem());
    assert(kit);
    coord_kit_on(kit, &(coord_kit_rule){.phase = "decode", .body = COORD_SLICE("{}")});
    answer = coord_kit_post(kit, "/v1/chat/completions", body);
    assert(answer && answer->status == 200);
    assert(coord_slice_is(coord_kit_leg(kit, "decode", 0)->body, wanted));
    assert(coord_kit_stop(kit));
}

static void a_known_name_is_replaced_and_no_other_byte(void)
{
    becomes("{ \"messages\" : [{\"content\":\"\\u0068i small\"}],\r\n\t\"model\" :\"small\", \"top_p\":0.10, "
            "\"x\":{\"model\":\"small\"} }",
            "{ \"messages\" : [{\"content\":\"\\u0068i small\"}],\r\n\t\"model\" :\"org/tiny-1b\", \"top_p\":0.10, "
            "\"x\":{\"model\":\"small\"}" ADDED " }");
}

static void a_name_is_compared_and_written_as_text_not_as_json(void)
{
    becomes("{\"model\":\"sm\\u0061ll\"}", "{\"model\":\"org/tiny-1b\"" ADDED "}");
    becomes("{\"model\":\"b\\\"ig\"}", "{\"model\":\"h\\\\uge\"" ADDED "}");
}

static void any_other_body_goes_on_as_it_came(void)
{
    becomes("{\"model\": \"smaller\" }", "{\"model\": \"smaller\"" ADDED " }");
    becomes("{\"messages\":[]}", "{\"messages\":[]" ADDED "}");
}

int main(void)
{
    a_known_name_is_replaced_and_no_other_byte();
    a_name_is_compared_and_written_as_text_not_as_json();
    any_other_body_goes_on_as_it_came();
    printf("model-alias: 3 tests passed\n");
    return 0;
}
