/* The step against the test kit, from its .so: test_tenant_priority FILE */
#undef NDEBUG
#include <coordinator/testkit.h>

#include <assert.h>
#include <stdio.h>

/* What the step `decode` adds at the end. */
#define ADDED ",\"kv_transfer_params\":{\"do_remote_decode\":false,\"do_remote_prefill\":true}"

static const char *plugin;

static coord_kit *try_start(const char *tenants)
{
    char yaml[256];

    snprintf(yaml, sizeof yaml, "pipeline: {steps: [{type: tenant-priority, params: {tenants: {%s}}}, {type: decode}]}",
             tenants);
    return coord_kit_start(&(coord_kit_options){
        .size = sizeof(coord_kit_options), .yaml = yaml, .plugin_files = (const char *const[]){plugin, NULL}});
}

static coord_kit *start(void)
{
    coord_kit *kit = try_start("gold: \"-5\", silver: \"50\"");

    if (!kit)
        fprintf(stderr, "%s", coord_kit_problem());
    assert(kit);
    coord_kit_on(kit, &(coord_kit_rule){.phase = "decode", .body = COORD_SLICE("{}")});
    return kit;
}

static void the_tenants_priority_is_spliced_in(void)
{
    static const struct {
        const char *tenant, *body, *wanted;
    } rows[] = {
        {"gold", "{ \"model\":\"m\" }", "{ \"model\":\"m\",\"priority\":-5" ADDED " }"},
        {"silver", "{\"priority\" : 1, \"x\":1.0}", "{\"priority\" : 50, \"x\":1.0" ADDED "}"},
        {"lead", "{}", "{\"priority\":100" ADDED "}"},
        {NULL, "{\"priority\":null}", "{\"priority\":100" ADDED "}"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *const headers[] = {rows[i].tenant ? "X-Tenant" : NULL, rows[i].tenant, NULL};
        coord_kit *kit = start();
        const coord_kit_message *answer = coord_kit_ask(
            kit, &(coord_kit_request){
                     .target = "/v1/chat/completions", .headers = headers, .body = coord_slice_of(rows[i].body)});

        assert(answer && answer->status == 200);
        assert(coord_slice_is(coord_kit_leg(kit, "decode", 0)->body, rows[i].wanted));
        assert(coord_kit_stop(kit));
    }
}

static void a_priority_that_stands_there_twice_is_the_clients_mistake(void)
{
    coord_kit *kit = start();
    const coord_kit_message *answer = coord_kit_post(kit, "/v1/chat/completions", "{\"priority\":1,\"priority\":2}");

    assert(answer && answer->status == 400 && strstr(answer->body.data, "\"param\":\"/priority\""));
    assert(coord_kit_stop(kit));
}

static void a_priority_that_is_no_number_is_told_at_the_start(void)
{
    assert(!try_start("gold: first"));
    assert(strstr(coord_kit_problem(), "tenants: gold has no whole number but \"first\""));
}

int main(int count, char **arguments)
{
    assert(count == 2);
    plugin = arguments[1];
    the_tenants_priority_is_spliced_in();
    a_priority_that_stands_there_twice_is_the_clients_mistake();
    a_priority_that_is_no_number_is_told_at_the_start();
    printf("tenant-priority: 3 tests passed\n");
    return 0;
}
