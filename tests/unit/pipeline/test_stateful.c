/* Members of a Responses request that need state, through the test kit: which are refused, and how (decision 7). */
#include <coordinator/testkit.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static coord_kit *kit;

static int setup(void **state)
{
    (void)state;
    kit = coord_kit_start(
        &(coord_kit_options){.size = sizeof(coord_kit_options), .yaml = "pipeline: {steps: [{type: decode}]}\n"});
    if (!kit)
        fail_msg("%s", coord_kit_problem());
    coord_kit_on(kit, &(coord_kit_rule){.phase = "decode", .body = COORD_SLICE("{\"ok\":true}")});
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return coord_kit_stop(kit) ? 0 : -1;
}

static const struct {
    const char *name, *body;
    const char *param; /* NULL: it passes */
    const char *says;
} rows[] = {
    {"nothing of the kind", "{\"model\":\"m\",\"input\":\"hi\"}", NULL, NULL},
    {"previous_response_id", "{\"input\":\"hi\",\"previous_response_id\":\"r\"}", "/previous_response_id",
     "previous_response_id"},
    {"previous_response_id, empty", "{\"input\":\"hi\",\"previous_response_id\":\"\"}", "/previous_response_id",
     "previous_response_id"},
    {"previous_response_id null", "{\"input\":\"hi\",\"previous_response_id\":null}", NULL, NULL},
    {"conversation", "{\"input\":\"hi\",\"conversation\":{\"id\":\"c\"}}", "/conversation", "conversation"},
    {"conversation null", "{\"input\":\"hi\",\"conversation\":null}", NULL, NULL},
    {"background", "{\"input\":\"hi\",\"background\":true}", "/background", "background"},
    {"background, not a boolean", "{\"input\":\"hi\",\"background\":\"false\"}", "/background", "background"},
    {"background false", "{\"input\":\"hi\",\"background\":false}", NULL, NULL},
    {"background null", "{\"input\":\"hi\",\"background\":null}", NULL, NULL},
    {"store is the worker's", "{\"input\":\"hi\",\"store\":true}", NULL, NULL},
    {"input null", "{\"input\":null}", NULL, NULL},
    {"no input", "{\"model\":\"m\"}", NULL, NULL},
    {"input a number", "{\"input\":3}", "/input", "input"},
    {"input an object", "{\"input\":{\"a\":1}}", "/input", "input"},
    {"an image by file_id",
     "{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_image\",\"file_id\":\"f\"}]}]}", "/input",
     "file_id"},
    {"a file by file_id",
     "{\"input\":[{\"content\":[{\"type\":\"input_text\",\"text\":\"a\"},{\"file_id\":\"f\",\"type\":\"input_file\"}]}]"
     "}",
     "/input", "file_id"},
    {"a screenshot, deep",
     "{\"input\":[{\"type\":\"computer_call_output\",\"output\":{\"type\":\"computer_screenshot\",\"file_id\":\"f\"}}]"
     "}",
     "/input", "file_id"},
    {"escaped names", "{\"input\":[{\"t\\u0079pe\":\"input\\u005ffile\",\"file_\\u0069d\":\"file_id\"}]}", "/input",
     "file_id"},
    {"file_id null", "{\"input\":[{\"type\":\"input_image\",\"file_id\":null,\"image_url\":\"data:,\"}]}", NULL, NULL},
    {"file_id of another type", "{\"input\":[{\"type\":\"file_citation\",\"file_id\":\"f\"}]}", NULL, NULL},
    {"file_id in a text",
     "{\"input\":[{\"type\":\"input_file\",\"file_data\":\"{\\\"type\\\":\\\"input_file\\\",\\\"file_id\\\":\\\"f\\\"}"
     "\"}]}",
     NULL, NULL},
    {"type in one object and file_id in another", "{\"input\":[{\"type\":\"input_file\",\"x\":{\"file_id\":\"f\"}}]}",
     NULL, NULL},
    {"file_id outside of input", "{\"input\":\"hi\",\"metadata\":{\"type\":\"input_file\",\"file_id\":\"f\"}}", NULL,
     NULL},
};

static void what_needs_state_is_refused_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t legs = coord_kit_leg_count(kit, NULL);
        const coord_kit_message *got = coord_kit_post(kit, "/v1/responses", rows[i].body);
        char part[96];

        print_message("  %s\n", rows[i].name);
        assert_non_null(got);
        assert_int_equal(got->status, rows[i].param ? 400 : 200);
        assert_int_equal(coord_kit_leg_count(kit, NULL) - legs, rows[i].param ? 0 : 1);
        if (!rows[i].param)
            continue;
        snprintf(part, sizeof part, "\"param\":\"%s\"", rows[i].param);
        assert_non_null(memmem(got->body.data, got->body.size, part, strlen(part)));
        assert_non_null(memmem(got->body.data, got->body.size, rows[i].says, strlen(rows[i].says)));
        assert_non_null(memmem(got->body.data, got->body.size, "invalid_request_error", 21));
    }
}

static void other_apis_may_say_such_names(void **state)
{
    (void)state;
    assert_int_equal(
        coord_kit_post(
            kit, "/v1/chat/completions",
            "{\"messages\":[],\"previous_response_id\":\"r\",\"conversation\":1,\"background\":true,\"input\":3}")
            ->status,
        200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_needs_state_is_refused_by_name, setup, teardown),
        cmocka_unit_test_setup_teardown(other_apis_may_say_such_names, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
