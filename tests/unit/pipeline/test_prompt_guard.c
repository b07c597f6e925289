/* The guard of the prompt, through the test kit: which edits after render are told of, and whose they are (K9). */
#include <coordinator/document.h>
#include <coordinator/testkit.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- A step that puts what the field `x-ID` says: POINTER or POINTER=JSON ---- */

struct editing {
    char field[32];
};

static coord_status editing_create(const coord_config *config, void **state, coord_error *error)
{
    struct editing *self = calloc(1, sizeof *self);

    if (!self)
        return coord_error_set(error, "memory is short");
    snprintf(self->field, sizeof self->field, "x-%.*s", COORD_FMT(coord_config_step_id(config)));
    *state = self;
    return COORD_OK;
}

static coord_status editing_execute(void *state, coord_request *request)
{
    struct editing *self = state;
    coord_slice text;
    char *pointer, *json;
    coord_status status;

    if (coord_request_header(request, self->field, &text) != COORD_OK)
        return COORD_NEXT;
    pointer = strndup(text.data, text.size);
    json = strchr(pointer, '=');
    if (json)
        *json++ = '\0';
    status = json ? coord_document_set(coord_request_body(request), pointer, coord_slice_of(json))
                  : coord_document_remove(coord_request_body(request), pointer);
    free(pointer);
    return status == COORD_OK ? COORD_NEXT : COORD_FAIL;
}

static const coord_step_type EDITING = {
    .size = sizeof EDITING,
    .name = "editing",
    .help = "Puts what the request says.",
    .create = editing_create,
    .execute = editing_execute,
    .destroy = free,
};

COORD_PLUGIN(.name = "editing", .version = "0", .licence = "Apache-2.0",
             .steps = (const coord_step_type *const[]){&EDITING, NULL})

/* ---- What the tests share ---- */

static coord_kit *kit;

static int setup(void **state)
{
    (void)state;
    kit = coord_kit_start(&(coord_kit_options){
        .size = sizeof(coord_kit_options),
        .yaml =
            "log_level: 3\n"
            "pipeline: {steps: [{type: editing, id: early}, {type: render, params: {address: \"http://render.kit\"}}, "
            "{type: editing, id: late}, {type: editing, id: later}, {type: decode}]}\n",
        .plugins = (const coord_plugin_descriptor *const[]){&coord_plugin, NULL}});
    if (!kit)
        fail_msg("%s", coord_kit_problem());
    coord_kit_on(kit, &(coord_kit_rule){.upstream = "render",
                                        .path = "/v1/completions/render",
                                        .body = COORD_SLICE("[{\"token_ids\":[9,77,77,5]}]")});
    coord_kit_on(kit, &(coord_kit_rule){.upstream = "render", .body = COORD_SLICE("{\"token_ids\":[9,77,77,5]}")});
    coord_kit_on(kit, &(coord_kit_rule){.phase = "decode", .body = COORD_SLICE("{\"usage\":{\"prompt_tokens\":4}}")});
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return coord_kit_stop(kit) ? 0 : -1;
}

static double counted(const char *step)
{
    return coord_kit_metric("prompt_mutated_after_render_total",
                            (coord_slice[]){COORD_SLICE("m"), coord_slice_of(step)});
}

#define CHAT "/v1/chat/completions"
#define CHAT_BODY                                                                                                      \
    "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"tools\":[1],\"temperature\":1}"

static const struct {
    const char *name, *path, *body, *early, *late, *later;
    const char *member; /* that is told of; NULL: none */
    bool by_late, by_later;
} rows[] = {
    {"nothing", CHAT, CHAT_BODY, NULL, NULL, NULL, NULL, false, false},
    {"the messages", CHAT, CHAT_BODY, NULL, "/messages=[]", NULL, "messages", true, false},
    {"inside the messages", CHAT, CHAT_BODY, NULL, "/messages/0/content=\"ho\"", NULL, "messages", true, false},
    {"the same bytes again", CHAT, CHAT_BODY, NULL, "/messages/0/content=\"hi\"", NULL, NULL, false, false},
    {"the same text in other bytes", CHAT, CHAT_BODY, NULL, "/messages/0/content=\"h\\u0069\"", NULL, "messages", true,
     false},
    {"taken away", CHAT, CHAT_BODY, NULL, "/tools", NULL, "tools", true, false},
    {"what was not there is taken away", CHAT, CHAT_BODY, NULL, "/documents", NULL, NULL, false, false},
    {"put where nothing was", CHAT, CHAT_BODY, NULL, "/chat_template_kwargs={\"enable_thinking\":false}", NULL,
     "chat_template_kwargs", true, false},
    {"no part of the prompt", CHAT, CHAT_BODY, NULL, "/temperature=0", "/metadata={}", NULL, false, false},
    {"before render", CHAT, CHAT_BODY, "/messages=[]", NULL, NULL, NULL, false, false},
    {"whose it is", CHAT, CHAT_BODY, NULL, "/temperature=0", "/messages=[]", "messages", false, true},
    {"each of two", CHAT, CHAT_BODY, NULL, "/messages=[]", "/tools=[]", "tools", true, true},
    {"back again is a change too", CHAT, CHAT_BODY, NULL, "/tools=[2]", "/tools=[1]", "tools", true, true},
    {"completions: render's own ids are none", "/v1/completions", "{\"model\":\"m\",\"prompt\":\"hi\"}", NULL, NULL,
     NULL, NULL, false, false},
    {"completions", "/v1/completions", "{\"model\":\"m\",\"prompt\":\"hi\"}", NULL, "/prompt=\"ho\"", NULL, "prompt",
     true, false},
    {"completions without ids", "/v1/completions", "{\"model\":\"m\",\"prompt\":[]}", NULL, "/prompt=\"ho\"", NULL,
     NULL, false, false},
    {"responses", "/v1/responses", "{\"model\":\"m\",\"input\":\"hi\"}", NULL, "/instructions=\"be short\"", NULL,
     "instructions", true, false},
    {"messages", "/v1/messages", "{\"model\":\"m\",\"max_tokens\":3,\"messages\":[]}", NULL, "/system=\"be short\"",
     NULL, "system", true, false},
    {"generate", "/inference/v1/generate", "{\"model\":\"m\",\"token_ids\":[1,2],\"sampling_params\":{}}", NULL,
     "/token_ids=[1,2,3]", NULL, "token_ids", true, false},
};

static void an_edit_of_the_prompt_after_render_is_counted_and_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *headers[7] = {0};
        size_t count = 0;
        double late = counted("late"), later = counted("later");
        const coord_kit_message *got;

        print_message("  %s\n", rows[i].name);
        if (rows[i].early)
            headers[count++] = "x-early", headers[count++] = rows[i].early;
        if (rows[i].late)
            headers[count++] = "x-late", headers[count++] = rows[i].late;
        if (rows[i].later)
            headers[count++] = "x-later", headers[count++] = rows[i].later;
        got = coord_kit_ask(kit, &(coord_kit_request){
                                     .target = rows[i].path, .headers = headers, .body = coord_slice_of(rows[i].body)});
        assert_non_null(got);
        assert_int_equal(got->status, 200); /* told of, not refused */
        assert_true(counted("late") - late == rows[i].by_late);
        assert_true(counted("later") - later == rows[i].by_later);
        if (rows[i].member) {
            char field[64];

            snprintf(field, sizeof field, "member=%s", rows[i].member);
            assert_true(coord_kit_logged(kit, field));
        }
    }
    assert_true(counted("early") == 0);
    assert_true(counted("render") == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_edit_of_the_prompt_after_render_is_counted_and_named, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
