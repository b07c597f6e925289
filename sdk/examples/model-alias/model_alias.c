/*
 * The step `model-alias`: clients ask for a name, workers get another. One splice of the body's `model`; every other byte of the
 * body stays as the client sent it.
 */
#include <coordinator/plugin.h>

#include <stdlib.h>

struct alias {
    coord_slice from, to;
};

struct aliases {
    size_t count;
    struct alias *list; /* in the order of the file; their texts lie behind one another in `texts` */
    char *texts;
};

static const coord_param params[] = {
    {COORD_PARAM(STRING_MAP, "models", "The name that clients use, and the one that workers know."),
     .flags = COORD_PARAM_REQUIRED},
};

static void aliases_free(void *state)
{
    struct aliases *aliases = state;

    free(aliases->list);
    free(aliases->texts);
    free(aliases);
}

static coord_slice keep(char **at, coord_slice text)
{
    coord_slice kept = {memcpy(*at, text.data, text.size), text.size};

    *at += text.size;
    return kept;
}

/* What `config` says goes away when `create` returns, so what is needed later is copied: counted first, then taken. */
static coord_status aliases_create(const coord_config *config, void **state, coord_error *error)
{
    struct aliases *aliases = calloc(1, sizeof *aliases);
    coord_slice from, to;
    size_t count = 0, bytes = 0;
    char *at;

    for (; coord_config_entry(config, "models", count, &from, &to) == COORD_OK; count++)
        bytes += from.size + to.size;
    if (!aliases)
        return coord_error_set(error, "memory is short");
    aliases->list = calloc(count + 1, sizeof *aliases->list);
    aliases->texts = at = malloc(bytes + 1);
    if (!aliases->list || !aliases->texts) {
        aliases_free(aliases);
        return coord_error_set(error, "memory is short");
    }
    for (; coord_config_entry(config, "models", aliases->count, &from, &to) == COORD_OK; aliases->count++)
        aliases->list[aliases->count] = (struct alias){keep(&at, from), keep(&at, to)};
    *state = aliases;
    return COORD_OK;
}

static coord_status aliases_execute(void *state, coord_request *request)
{
    const struct aliases *aliases = state;
    coord_slice model = coord_request_model(request);

    for (size_t i = 0; i < aliases->count; i++)
        if (coord_slice_equal(model, aliases->list[i].from))
            /* A `model` that stands there twice cannot be set: that is the client's 400. COORD_OK is COORD_NEXT. */
            return coord_fail_member(
                request, coord_document_set_string(coord_request_body(request), "/model", aliases->list[i].to),
                "/model", "a string");
    return COORD_NEXT;
}

static const coord_step_type alias_step = {
    .size = sizeof alias_step,
    .name = "model-alias",
    .help = "Gives a model another name before workers see the request.",
    COORD_STEP_PARAMS(params),
    .create = aliases_create,
    .execute = aliases_execute,
    .destroy = aliases_free,
};

static const coord_step_type *const steps[] = {&alias_step, NULL};

COORD_PLUGIN(.name = "model-alias", .version = "1.0", .licence = "Apache-2.0", .steps = steps)
