/* See why.h. A row for each key. */
#include "pipeline/why.h"

#include "pipeline/request.h"

static char *models(struct arena *arena, const struct conditions *conditions, const struct coord_request *request)
{
    (void)conditions;
    if (request->model.size == 0)
        return arena_printf(arena, "the request names no model");
    return arena_printf(arena, "the model is \"%.*s\"", COORD_FMT(request->model));
}

static char *apis(struct arena *arena, const struct conditions *conditions, const struct coord_request *request)
{
    (void)conditions;
    return arena_printf(arena, "the API is %s", request->api->name);
}

static char *headers(struct arena *arena, const struct conditions *conditions, const struct coord_request *request)
{
    for (size_t i = 0; i < conditions->header_count; i++)
        if (headers_count(&request->headers, conditions->headers[i].name) == 0)
            return arena_printf(arena, "there is no header %.*s", COORD_FMT(conditions->headers[i].name));
    return arena_printf(arena, "no line of a header has a value that fits");
}

static char *stream(struct arena *arena, const struct conditions *conditions, const struct coord_request *request)
{
    (void)conditions;
    return arena_printf(arena, "the request asks for %s", request->stream ? "a stream" : "no stream");
}

static char *media(struct arena *arena, const struct conditions *conditions, const struct coord_request *request)
{
    (void)request;
    return arena_printf(arena, "the request has %s", conditions->media ? "no media part" : "a media part");
}

static char *prompt_tokens(struct arena *arena, const struct conditions *conditions,
                           const struct coord_request *request)
{
    (void)conditions;
    return arena_printf(arena, "the prompt has %llu", (unsigned long long)request->token_count);
}

static const struct {
    const char *key;
    char *(*say)(struct arena *arena, const struct conditions *conditions, const struct coord_request *request);
} ROWS[] = {
    {"models", models}, {"apis", apis},   {"headers", headers},
    {"stream", stream}, {"media", media}, {"prompt_tokens", prompt_tokens},
};

char *why_not(struct arena *arena, const char *where, const struct conditions *conditions, const char *key,
              const struct coord_request *request)
{
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++)
        if (strcmp(ROWS[i].key, key) == 0) {
            char *said = ROWS[i].say(arena, conditions, request);

            return said ? arena_printf(arena, "%s.%s does not hold: %s", where, key, said) : NULL;
        }
    return arena_printf(arena, "%s.%s does not hold", where, key);
}
