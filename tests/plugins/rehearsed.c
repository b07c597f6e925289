/* Steps for the tests of `coordinator explain`: they splice, ask services of their own, wrap writers, park, and work on afterwards. */
#include <coordinator/answer.h>
#include <coordinator/background.h>
#include <coordinator/call.h>
#include <coordinator/plugin.h>
#include <coordinator/response.h>
#include <coordinator/wait.h>

#include <stdlib.h>

/* ---- test-splice: edits the body in every way, and rewrites the answer ---- */

static const coord_param SPLICE_PARAMS[] = {
    {COORD_PARAM(STRING, "note", "What is put into the body."), .fallback = "noted"},
};

static coord_status splice_create(const coord_config *config, void **state, coord_error *error)
{
    coord_slice note;

    if (coord_config_string(config, "note", &note) != COORD_OK || !(*state = strdup(note.data)))
        return coord_error_set(error, "note could not be read");
    return COORD_OK;
}

static void mark_head(coord_writer *writer, coord_head *head)
{
    coord_status status = coord_head_set_header(head, "x-mark", coord_slice_of("1"));

    (void)status;
    coord_writer_pass_head(writer, head);
}

static void mark_data(coord_writer *writer, coord_slice bytes) { coord_writer_pass(writer, bytes); }

static void mark_end(coord_writer *writer)
{
    coord_writer_pass(writer, coord_slice_of("\n\n"));
    coord_writer_pass_end(writer);
}

static const coord_writer_type MARK = {.size = sizeof MARK,
                                       .flags = COORD_WRITER_REWRITES,
                                       .name = "mark",
                                       .head = mark_head,
                                       .data = mark_data,
                                       .end = mark_end};

static coord_status splice(void *state, coord_request *request)
{
    coord_document *body = coord_request_body(request);
    coord_status status = coord_document_set_string(body, "/user", coord_slice_of(state));

    if (status == COORD_OK && coord_document_type(body, "/metadata/n") != COORD_JSON_ABSENT)
        status = coord_document_set(body, "/metadata/n", coord_slice_of("{\"deep\":[1]}"));
    if (status == COORD_OK && coord_document_type(body, "/metadata/l") == COORD_JSON_ARRAY)
        status = coord_document_insert(body, "/metadata/l", 1, coord_slice_of("1.50"));
    if (status == COORD_OK)
        status = coord_document_remove(body, "/nothing");
    if (status == COORD_OK)
        status = coord_request_wrap(request, &MARK, NULL);
    return status == COORD_OK ? COORD_NEXT : coord_fail(request, 500, NULL, "the body could not be spliced");
}

static const coord_step_type SPLICE = {.size = sizeof SPLICE,
                                       .name = "test-splice",
                                       .help = "For tests.",
                                       COORD_STEP_PARAMS(SPLICE_PARAMS),
                                       .create = splice_create,
                                       .execute = splice,
                                       .destroy = free};

/* ---- test-ask: asks a service of its own, with a token ---- */

struct ask {
    coord_upstream *service;
    char *token;
};

static const coord_param ASK_PARAMS[] = {
    {COORD_PARAM(URL, "address", "Who is asked."), .flags = COORD_PARAM_REQUIRED},
    {COORD_PARAM(SECRET, "token", "What it wants to see."), .fallback = "none"},
};

static coord_status ask_create(const coord_config *config, void **state, coord_error *error)
{
    struct ask *self = calloc(1, sizeof *self);
    coord_slice token;

    if (!self || coord_config_string(config, "token", &token) != COORD_OK || !(self->token = strdup(token.data)) ||
        coord_upstream_open(config, "address", NULL, &self->service, error) != COORD_OK) {
        free(self);
        return coord_error_set(error, "its params could not be read");
    }
    *state = self;
    return COORD_OK;
}

static void ask_destroy(void *state)
{
    struct ask *self = state;

    free(self->token);
    free(self);
}

static coord_call *ask_call(const struct ask *self, coord_request *request, const char *path)
{
    coord_call *call = coord_call_upstream_new(request, "ask", self->service, false);

    if (!call || coord_call_set_path(call, coord_slice_of(path)) != COORD_OK ||
        coord_call_set_header(call, "authorization", coord_slice_of("Bearer of-nobody")) != COORD_OK ||
        coord_call_set_header(call, "x-token", coord_slice_of(self->token)) != COORD_OK ||
        coord_call_set_text(call, coord_slice_of(self->token), "text/plain") != COORD_OK)
        return NULL;
    return call;
}

static coord_status ask(void *state, coord_request *request)
{
    coord_call *call = ask_call(state, request, "/may-i");
    coord_slice again;
    coord_status status = call ? coord_call_run(call) : COORD_FAIL;

    if (status != COORD_OK)
        return status;
    if (coord_call_status(call) != 200)
        return coord_fail(request, 403, NULL, "no, says the service with %s", ((struct ask *)state)->token);
    if (coord_request_header(request, "x-again", &again) != COORD_OK)
        return COORD_NEXT;
    call = ask_call(state, request, "/may-i-really");
    status = call ? coord_call_run(call) : COORD_FAIL;
    return status == COORD_OK && coord_call_status(call) != 200 ? coord_fail(request, 402, NULL, "not really") : status;
}

static const coord_step_type ASK = {.size = sizeof ASK,
                                    .name = "test-ask",
                                    .help = "For tests.",
                                    COORD_STEP_PARAMS(ASK_PARAMS),
                                    .create = ask_create,
                                    .execute = ask,
                                    .destroy = ask_destroy};

/* ---- test-park, test-later, test-later-park ---- */

static coord_status park(void *state, coord_request *request)
{
    (void)state;
    return coord_sleep(request, INT64_C(3600) * 1000000000);
}

static void park_later(coord_request *background, void *argument)
{
    coord_status status = park(argument, background);

    (void)status;
}

static coord_status detach_park(void *state, coord_request *request)
{
    coord_status status = coord_background(request, park_later, state, NULL);

    return status == COORD_OK ? COORD_NEXT : coord_fail(request, 500, NULL, "no background work");
}

static const coord_step_type LATER_PARK = {
    .size = sizeof LATER_PARK, .name = "test-later-park", .help = "For tests.", .execute = detach_park};

static const coord_step_type PARK = {.size = sizeof PARK, .name = "test-park", .help = "For tests.", .execute = park};

static void later(coord_request *background, void *argument)
{
    coord_call *call = ask_call(argument, background, "/later");
    coord_status status = call ? coord_call_run(call) : COORD_FAIL;

    (void)status;
}

static coord_status detach(void *state, coord_request *request)
{
    coord_status status = coord_background(request, later, state, NULL);

    return status == COORD_OK ? COORD_NEXT : coord_fail(request, 500, NULL, "no background work");
}

static const coord_step_type LATER = {.size = sizeof LATER,
                                      .name = "test-later",
                                      .help = "For tests.",
                                      COORD_STEP_PARAMS(ASK_PARAMS),
                                      .create = ask_create,
                                      .execute = detach,
                                      .destroy = ask_destroy};

/* ---- test-flood: answers without an end ---- */

static coord_status flood(void *state, coord_request *request)
{
    char piece[4096];
    coord_status status = coord_answer_begin(request, 200, "text/plain", NULL);

    (void)state;
    memset(piece, 'x', sizeof piece);
    while (status == COORD_OK)
        status = coord_answer_write(request, (coord_slice){piece, sizeof piece});
    return status;
}

static const coord_step_type FLOOD = {
    .size = sizeof FLOOD, .name = "test-flood", .help = "For tests.", .execute = flood};

static const coord_step_type *const steps[] = {&SPLICE, &ASK, &PARK, &LATER, &LATER_PARK, &FLOOD, NULL};

COORD_PLUGIN(.name = "rehearsed", .version = "1", .licence = "Apache-2.0", .steps = steps)
