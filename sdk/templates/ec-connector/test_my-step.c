/* The connector against the test kit: what prefill workers are told, and that decode workers are not. */
#undef NDEBUG
#include <coordinator/testkit.h>

#include <assert.h>
#include <stdio.h>

extern const coord_plugin_descriptor coord_plugin; /* of my-step.c */

static coord_kit *start(const char *pool)
{
    static char yaml[512];

    snprintf(yaml, sizeof yaml,
             "pipeline:\n  ec_connector: my-step\n  steps:\n    - {type: prefill, params: {pool: %s}}\n    - {type: "
             "decode}\n",
             pool);
    return coord_kit_start(
        &(coord_kit_options){.size = sizeof(coord_kit_options),
                             .yaml = yaml,
                             .plugins = (const coord_plugin_descriptor *const[]){&coord_plugin, NULL}});
}

static void prefill_is_told_the_pool_and_decode_is_not(void)
{
    coord_kit *kit = start("east");
    coord_document *body;
    coord_slice params;

    if (!kit)
        fprintf(stderr, "%s", coord_kit_problem());
    assert(kit);
    coord_kit_on(kit, &(coord_kit_rule){.body = COORD_SLICE("{}")});
    assert(coord_kit_post(kit, "/v1/chat/completions", "{\"model\":\"m\",\"messages\":[]}")->status == 200);
    body = coord_document_parse_new(coord_kit_leg(kit, "prefill", 0)->body, NULL, NULL);
    assert(body && coord_document_get(body, "/ec_transfer_params", &params) == COORD_OK);
    assert(coord_slice_is(params, "{\"pool\":\"east\"}"));
    coord_document_free(body);
    body = coord_document_parse_new(coord_kit_leg(kit, "decode", 0)->body, NULL, NULL);
    assert(body && coord_document_type(body, "/ec_transfer_params") == COORD_JSON_ABSENT);
    coord_document_free(body);
    assert(coord_kit_stop(kit));
}

static void a_pool_that_is_too_long_is_an_error_at_the_start(void)
{
    assert(!start("a-name-that-is-much-longer-than-what-anybody-would-call-a-pool-of-encoders"));
    assert(strstr(coord_kit_problem(), "longer than 63 bytes"));
}

int main(void)
{
    prefill_is_told_the_pool_and_decode_is_not();
    a_pool_that_is_too_long_is_an_error_at_the_start();
    printf("my-step: 2 tests passed\n");
    return 0;
}
