/* Which of the client's fields a leg carries, and which of an answer's the client gets. */
#include "pipeline/leg_headers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct arena arena;
static struct settings settings;
static struct generation generation;
static struct gateway_settings gateway;
static const struct gateway_settings *const gateways[] = {&gateway};
static struct pipeline_settings pipeline_settings;
static struct pipeline pipeline;
static struct coord_request request;
static struct headers out;

static const coord_slice PHASES[] = {COORD_SLICE("x-llm-d-epp-profile"), COORD_SLICE("x-other-phase")};
static const coord_slice FORWARDED[] = {COORD_SLICE("x-llm-d-disagg-revision")};

static int setup(void **state)
{
    (void)state;
    gateway.phase_headers = PHASES;
    gateway.phase_header_count = 2;
    settings.gateways = gateways;
    settings.gateway_count = 1;
    pipeline_settings.gateway = &gateway;
    pipeline_settings.forward_response_headers = FORWARDED;
    pipeline_settings.forward_response_header_count = 1;
    pipeline.settings = &pipeline_settings;
    generation.settings = &settings;
    request = (struct coord_request){.generation = &generation, .pipeline = &pipeline, .id = COORD_SLICE("the-id")};
    headers_init(&request.headers, &request.arena);
    headers_init(&out, &arena);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    arena_release(&request.arena);
    arena_release(&arena);
    return 0;
}

static void give(const char *name, const char *value)
{
    assert_true(headers_add(&request.headers, coord_slice_of(name), coord_slice_of(value)));
}

static const char *value_of(const struct headers *headers, const char *name)
{
    const struct header *field = headers_find(headers, coord_slice_of(name));

    return field ? arena_printf(&arena, "%.*s", COORD_FMT(field->value)) : NULL;
}

static const char *const ALL[] = {
    "Host",
    "Content-Length",
    "Transfer-Encoding",
    "Trailer",
    "Expect",
    "Content-Type",
    "Accept-Encoding",
    "Prefer",
    "Cookie",
    "Authorization",
    "Proxy-Authorization",
    "X-Request-Id",
    "X-LLM-D-Parent-Request-Id",
    "Traceparent",
    "Tracestate",
    "X-LLM-D-Revision-Decision-Id",
    "X-LLM-D-Pin-Host-Port",
    "X-Prefill-Pin-Host-Port",
    "X-Peer-Topology",
    "X-LLM-D-EPP-Profile",
    "X-Other-Phase",
    "X-LLM-D-Disagg-Revision",
    "Connection",
    "Keep-Alive",
    "TE",
    "Upgrade",
    "Proxy-Connection",
    "X-Named-By-Connection",
    "User-Agent",
    "X-Tenant",
    "Accept",
    "X-Api-Key",
    "Baggage",
};

static void give_all(void)
{
    for (size_t i = 0; i < sizeof ALL / sizeof *ALL; i++)
        give(ALL[i], strcmp(ALL[i], "Connection") == 0 ? "X-Named-By-Connection" : "v");
}

static void assert_names(const struct headers *headers, const char *const *wanted)
{
    size_t i = 0;

    for (; wanted[i]; i++)
        if (i >= headers->count || !header_name_is(headers->list[i].name, wanted[i]))
            fail_msg("%zu: %s instead of %s", i,
                     i < headers->count ? arena_printf(&arena, "%.*s", COORD_FMT(headers->list[i].name)) : "nothing",
                     wanted[i]);
    if (i != headers->count)
        fail_msg("one more: %.*s", COORD_FMT(headers->list[i].name));
}

static void a_pipeline_leg_carries_what_is_the_clients_own(void **state)
{
    (void)state;
    give_all();
    assert_true(leg_headers_base(&request));
    assert_names(&request.base, (const char *const[]){"Authorization", "User-Agent", "X-Tenant", "Accept", "X-Api-Key",
                                                      "Baggage", NULL});
    headers_remove(&request.headers, coord_slice_of("x-tenant"));
    assert_true(leg_headers_base(&request)); /* made once */
    assert_int_equal(request.base.count, 6);
}

static void a_client_cannot_set_a_phase_or_a_relayed_field(void **state)
{
    (void)state;
    give("x-llm-D-epp-PROFILE", "decode");
    give("X-OTHER-PHASE", "decode");
    give("x-llm-d-disagg-revision", "r1");
    assert_true(leg_headers_base(&request));
    assert_int_equal(request.base.count, 0);
}

static void repeated_fields_stay_in_order(void **state)
{
    (void)state;
    give("X-A", "1");
    give("X-B", "2");
    give("x-a", "3");
    assert_true(leg_headers_base(&request));
    assert_names(&request.base, (const char *const[]){"X-A", "X-B", "x-a", NULL});
    assert_true(coord_slice_is(request.base.list[2].value, "3"));
}

static void passthrough_carries_everything_but_what_is_ours(void **state)
{
    (void)state;
    give_all();
    assert_true(leg_headers_passthrough(&out, &request.headers, &settings));
    assert_names(&out, (const char *const[]){"Content-Type", "Accept-Encoding", "Prefer", "Cookie", "Authorization",
                                             "X-LLM-D-Disagg-Revision", "User-Agent", "X-Tenant", "Accept", "X-Api-Key",
                                             "Baggage", NULL});
}

static void a_leg_gets_ids_phase_and_trace(void **state)
{
    (void)state;
    strcpy(request.decision_id, "decision");
    request.trace = trace_parse(coord_slice_of("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"));
    request.tracestate = coord_slice_of("a=b");
    assert_true(leg_headers_owned(&out, &request, "decode", coord_slice_of("leg-id"), coord_slice_of("the-id")));
    assert_string_equal(value_of(&out, "x-llm-d-epp-profile"), "decode");
    assert_string_equal(value_of(&out, "x-other-phase"), "decode");
    assert_string_equal(value_of(&out, "x-request-id"), "leg-id");
    assert_string_equal(value_of(&out, "x-llm-d-parent-request-id"), "the-id");
    assert_string_equal(value_of(&out, "x-llm-d-revision-decision-id"), "decision");
    assert_memory_equal(value_of(&out, "traceparent"), "00-0af7651916cd43dd8448eb211c80319c-", 36);
    assert_null(strstr(value_of(&out, "traceparent"), "b7ad6b7169203331"));
    assert_string_equal(value_of(&out, "tracestate"), "a=b");
}

static void a_leg_without_phase_trace_or_parent_has_only_its_id(void **state)
{
    (void)state;
    assert_true(leg_headers_owned(&out, &request, NULL, coord_slice_of("the-id"), (coord_slice){0}));
    assert_names(&out, (const char *const[]){"x-request-id", NULL});
}

static void the_client_gets_an_answers_fields_without_those_that_are_ours(void **state)
{
    (void)state;
    give_all();
    assert_true(client_headers(&out, &request.headers, coord_slice_of("the-id")));
    assert_null(value_of(&out, "content-length"));
    assert_null(value_of(&out, "transfer-encoding"));
    assert_null(value_of(&out, "connection"));
    assert_null(value_of(&out, "keep-alive"));
    assert_null(value_of(&out, "x-named-by-connection"));
    assert_null(value_of(&out, "x-peer-topology"));
    assert_string_equal(value_of(&out, "content-type"), "v");
    assert_string_equal(value_of(&out, "x-request-id"), "the-id");
    assert_int_equal(headers_count(&out, coord_slice_of("x-request-id")), 1);
}

static void an_event_stream_is_not_to_be_buffered_unless_the_worker_says_otherwise(void **state)
{
    (void)state;
    give("Content-Type", "text/event-stream; charset=utf-8");
    give("Cache-Control", "no-store");
    assert_true(client_headers(&out, &request.headers, coord_slice_of("the-id")));
    assert_string_equal(value_of(&out, "cache-control"), "no-store");
    assert_int_equal(headers_count(&out, coord_slice_of("cache-control")), 1);
    assert_string_equal(value_of(&out, "x-accel-buffering"), "no");
}

static void credentials_are_known(void **state)
{
    (void)state;
    assert_true(leg_header_is_credential(coord_slice_of("Authorization")));
    assert_true(leg_header_is_credential(coord_slice_of("cookie")));
    assert_true(leg_header_is_credential(coord_slice_of("PROXY-AUTHORIZATION")));
    assert_false(leg_header_is_credential(coord_slice_of("accept")));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_pipeline_leg_carries_what_is_the_clients_own),
        TEST(a_client_cannot_set_a_phase_or_a_relayed_field),
        TEST(repeated_fields_stay_in_order),
        TEST(passthrough_carries_everything_but_what_is_ours),
        TEST(a_leg_gets_ids_phase_and_trace),
        TEST(a_leg_without_phase_trace_or_parent_has_only_its_id),
        TEST(the_client_gets_an_answers_fields_without_those_that_are_ours),
        TEST(an_event_stream_is_not_to_be_buffered_unless_the_worker_says_otherwise),
        TEST(credentials_are_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
