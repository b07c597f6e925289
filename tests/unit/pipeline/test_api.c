/* Errors in the shape of each API, for each status (design decisions, "Answers of ours"), and the members that are guarded. */
#include "pipeline/api.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>

static struct buffer out;

static int release(void **state)
{
    (void)state;
    buffer_release(&out);
    return 0;
}

/* The row of an API of that shape; the two differ in nothing else here. */
static struct api shaped(enum error_shape shape)
{
    struct api api = *api_none();

    api.shape = shape;
    return api;
}

static const char *body_of(enum error_shape shape, const struct api_error *error, bool event)
{
    struct api api = shaped(shape);

    buffer_clear(&out, SIZE_MAX);
    assert_true(event ? api_error_event(&api, error, &out) : api_error_body(&api, error, &out));
    assert_true(buffer_append(&out, "", 1));
    return out.data;
}

static void each_status_has_type_and_code(void **state)
{
    static const struct {
        int32_t status;
        const char *openai, *code, *anthropic;
    } ROWS[] = {
        {400, "invalid_request_error", "invalid_value", "invalid_request_error"},
        {401, "authentication_error", "unauthorized", "authentication_error"},
        {403, "permission_error", "forbidden", "permission_error"},
        {404, "invalid_request_error", "not_found", "not_found_error"},
        {405, "invalid_request_error", "method_not_allowed", "invalid_request_error"},
        {408, "timeout_error", "request_timeout", "timeout_error"},
        {413, "invalid_request_error", "request_too_large", "request_too_large"},
        {415, "invalid_request_error", "unsupported_media_type", "invalid_request_error"},
        {418, "invalid_request_error", "invalid_value", "invalid_request_error"}, /* as its class */
        {422, "invalid_request_error", "invalid_value", "invalid_request_error"},
        {429, "rate_limit_error", "rate_limited", "rate_limit_error"},
        {499, "invalid_request_error", "invalid_value", "invalid_request_error"},
        {500, "server_error", "internal", "api_error"},
        {501, "server_error", "not_implemented", "api_error"},
        {502, "server_error", "upstream_error", "api_error"},
        {503, "server_error", "upstream_unavailable", "overloaded_error"},
        {504, "timeout_error", "upstream_timeout", "timeout_error"},
        {599, "server_error", "internal", "api_error"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        struct api_error error = {
            .status = ROWS[i].status, .message = COORD_SLICE("m"), .request_id = COORD_SLICE("id")};
        char wanted[256];

        snprintf(wanted, sizeof wanted,
                 "{\"error\":{\"message\":\"m\",\"type\":\"%s\",\"param\":null,\"code\":\"%s\"}}", ROWS[i].openai,
                 ROWS[i].code);
        assert_string_equal(body_of(SHAPE_OPENAI, &error, false), wanted);
        snprintf(wanted, sizeof wanted,
                 "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":\"m\"},\"request_id\":\"id\"}",
                 ROWS[i].anthropic);
        assert_string_equal(body_of(SHAPE_ANTHROPIC, &error, false), wanted);
        assert_string_equal(api_error_code(ROWS[i].status), ROWS[i].code);
    }
}

static void what_is_given_beats_what_belongs_to_the_status(void **state)
{
    struct api_error error = {.status = 400,
                              .code = "c",
                              .type = "t",
                              .message = COORD_SLICE("m"),
                              .param = "/a/0",
                              .request_id = COORD_SLICE("id")};

    (void)state;
    assert_string_equal(body_of(SHAPE_OPENAI, &error, false),
                        "{\"error\":{\"message\":\"m\",\"type\":\"t\",\"param\":\"/a/0\",\"code\":\"c\"}}");
    assert_string_equal(body_of(SHAPE_ANTHROPIC, &error, false),
                        "{\"type\":\"error\",\"error\":{\"type\":\"t\",\"message\":\"m\"},\"request_id\":\"id\"}");
}

static void a_message_is_escaped(void **state)
{
    struct api_error error = {
        .status = 400, .message = COORD_SLICE("a \"quote\", a \\, a\nline and \x01"), .request_id = COORD_SLICE("id")};

    (void)state;
    assert_non_null(strstr(body_of(SHAPE_OPENAI, &error, false), "a \\\"quote\\\", a \\\\, a\\nline and \\u0001"));
}

static void a_message_that_is_not_utf8_gives_json_all_the_same(void **state)
{
    struct api_error error = {.status = 400, .message = COORD_SLICE("bad \xff byte"), .request_id = COORD_SLICE("id")};
    const char *text = body_of(SHAPE_OPENAI, &error, false);

    (void)state;
    assert_null(strchr(text, '\xff'));
    assert_non_null(strstr(text, "\"code\":\"invalid_value\""));
}

static void an_error_ends_a_stream_as_one_event(void **state)
{
    struct api_error error = {.status = 502, .message = COORD_SLICE("two\nlines"), .request_id = COORD_SLICE("id")};

    (void)state;
    assert_string_equal(body_of(SHAPE_OPENAI, &error, true),
                        "data: "
                        "{\"error\":{\"message\":\"two\\nlines\",\"type\":\"server_error\",\"param\":null,\"code\":"
                        "\"upstream_error\"}}\n\n");
    assert_string_equal(body_of(SHAPE_ANTHROPIC, &error, true),
                        "event: error\ndata: "
                        "{\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"two\\nlines\"},\"request_"
                        "id\":\"id\"}\n\n");
}

static void a_body_that_does_not_fit_is_told(void **state)
{
    struct api_error error = {.status = 400, .message = COORD_SLICE("a message"), .request_id = COORD_SLICE("id")};
    struct buffer small = {.limit = 16};

    (void)state;
    assert_false(api_error_body(api_none(), &error, &small));
    buffer_release(&small);
}

static void paths_are_matched_whole(void **state)
{
    (void)state;
    assert_int_equal(api_for_path(coord_slice_of("/v1/chat/completions"))->id, COORD_API_CHAT_COMPLETIONS);
    assert_int_equal(api_for_path(coord_slice_of("/v1/completions"))->id, COORD_API_COMPLETIONS);
    assert_null(api_for_path(coord_slice_of("/v1/chat/completions/")));
    assert_null(api_for_path(coord_slice_of("/v1/chat/completion")));
    assert_null(api_for_path(coord_slice_of("/V1/completions")));
    assert_null(api_for_path(coord_slice_of("")));
    assert_int_equal(api_none()->id, 0);
}

static void engine_owned_and_repeatable_members_are_known_by_name(void **state)
{
    static const struct {
        const char *name;
        bool guarded, owned;
    } ROWS[] = {
        {"model", true, false},
        {"models", false, false},
        {"stream", true, false},
        {"stream_options", true, false},
        {"max_tokens", true, false},
        {"max_completion_tokens", true, false},
        {"min_tokens", true, false},
        {"kv_transfer_params", true, true},
        {"kv_transfer_params_", false, false},
        {"ec_transfer_params", true, true},
        {"bootstrap_room", true, true},
        {"bootstrap_", true, true},
        {"bootstrap", false, false},
        {"do_remote_decode", true, true},
        {"do_remote", false, false},
        {"n", true, false},
        {"", false, false},
        {"temperature", false, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        const struct guarded_member *member = guarded_member_find(coord_slice_of(ROWS[i].name));

        if ((member != NULL) != ROWS[i].guarded || (member && member->engine_owned != ROWS[i].owned))
            fail_msg("%s", ROWS[i].name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_status_has_type_and_code),
        cmocka_unit_test(what_is_given_beats_what_belongs_to_the_status),
        cmocka_unit_test(a_message_is_escaped),
        cmocka_unit_test(a_message_that_is_not_utf8_gives_json_all_the_same),
        cmocka_unit_test(an_error_ends_a_stream_as_one_event),
        cmocka_unit_test(a_body_that_does_not_fit_is_told),
        cmocka_unit_test(paths_are_matched_whole),
        cmocka_unit_test(engine_owned_and_repeatable_members_are_known_by_name),
    };

    return cmocka_run_group_tests(tests, NULL, release);
}
