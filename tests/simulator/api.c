/* The table of APIs and the reading of requests; see api.h. */
#include "api.h"

#include <stdio.h>

/* ---- members ---- */

static bool read_bool(struct text value, const char *place, bool *into, struct refusal *refusal)
{
    if (json_absent(value))
        return true;
    struct buf word = {0}; /* W8: "true" is taken as true */
    if (json_kind(value) == '"')
        json_string(value, &word);
    else
        buf_add(&word, value.at, value.len);
    struct text view = buf_view(&word);
    bool yes = text_is_nocase(view, "true") || text_is(view, "1");
    bool no = text_is_nocase(view, "false") || text_is(view, "0");
    buf_free(&word);
    if (!yes && !no)
        return refuse_member(refusal, place, "bool_parsing",
                             "Input should be a valid boolean, unable to interpret input", value);
    *into = yes;
    return true;
}

static bool read_uint(struct text value, const char *place, bool *given, uint64_t *into, struct refusal *refusal)
{
    if (json_absent(value))
        return true;
    if (!json_uint(value, into))
        return refuse_member(refusal, place, "int_type", "Input should be a valid integer", value);
    *given = true;
    return true;
}

static bool read_stream_options(const struct api *api, struct text value, struct ask *ask, struct refusal *refusal)
{
    if (json_absent(value))
        return true;
    if (json_kind(value) != '{')
        return refuse_dictionary(refusal, "body.stream_options", value);
    struct text include = json_member(value, "include_usage");
    ask->include_usage = !include.at; /* the engine's default inside stream_options is true */
    if (!read_bool(include, "body.stream_options.include_usage", &ask->include_usage, refusal) ||
        !read_bool(json_member(value, "continuous_usage_stats"), "body.stream_options.continuous_usage_stats",
                   &ask->continuous_usage, refusal))
        return false;
    if (!ask->stream && api->options_need_stream)
        return refuse(refusal, 400, "BadRequestError", "stream_options",
                      "Stream options can only be defined when `stream=True`. (parameter=stream_options)");
    return true;
}

static bool check_model(const struct api_setting *setting, const struct ask *ask, struct refusal *refusal)
{
    if (!setting->model || !ask->model.at || json_string_is(ask->model, setting->model))
        return true;
    *refusal = (struct refusal){.status = 404, .type = "NotFoundError", .param = "model"};
    buf_text(&refusal->message, "The model `");
    json_string(ask->model, &refusal->message);
    buf_printf(&refusal->message, "` does not exist. Valid aliases: %s.", setting->model);
    return false;
}

/* What caps the output, from where the API has it. */
static bool read_limits(const struct api *api, struct text body, struct ask *ask, struct refusal *refusal)
{
    struct text from = body;
    char place[96];
    if (api->sampling) {
        from = json_member(body, api->sampling);
        snprintf(place, sizeof place, "body.%s", api->sampling);
        if (!from.at)
            return refuse_missing(refusal, place, body);
        if (json_kind(from) != '{')
            return refuse_dictionary(refusal, place, from);
    }
    const char *dot = api->sampling ? "." : "", *object = api->sampling ? api->sampling : "";
    for (int i = 1; i >= 0; i--) { /* the first limit is read last and wins */
        if (!api->limits[i])
            continue;
        snprintf(place, sizeof place, "body.%s%s%s", object, dot, api->limits[i]);
        if (!read_uint(json_member(from, api->limits[i]), place, &ask->capped, &ask->cap, refusal))
            return false;
    }
    bool given = false;
    snprintf(place, sizeof place, "body.%s%smin_tokens", object, dot);
    if (api->takes_min_tokens && !read_uint(json_member(from, "min_tokens"), place, &given, &ask->at_least, refusal))
        return false;
    snprintf(place, sizeof place, "body.%s%signore_eos", object, dot);
    return !api->takes_ignore_end || read_bool(json_member(from, "ignore_eos"), place, &ask->ignore_end, refusal);
}

static bool check_limits(const struct ask *ask, struct refusal *refusal)
{
    if (ask->capped && ask->cap == 0)
        return refuse(refusal, 400, "BadRequestError", "", "max_tokens must be at least 1, got 0.");
    if (ask->capped && ask->at_least > ask->cap)
        return refuse(refusal, 400, "BadRequestError", "",
                      "min_tokens must be less than or equal to max_tokens=%llu, got %llu.",
                      (unsigned long long)ask->cap, (unsigned long long)ask->at_least);
    return true;
}

bool api_read(const struct api *api, const struct api_setting *setting, struct text body, struct ask *ask,
              struct refusal *refusal)
{
    enum { MODEL, STREAM, STREAM_OPTIONS, KV, COUNT };
    static const char *const names[COUNT] = {"model", "stream", "stream_options", "kv_transfer_params"};
    struct text v[COUNT];
    size_t wrong;
    *ask = (struct ask){.prompt.list = setting->ids};
    if (!json_check(body, &wrong))
        return refuse_json(refusal, wrong);
    if (json_kind(body) != '{')
        return refuse_dictionary(refusal, "body", body);
    json_members(body, names, v, COUNT);
    if (!json_absent(v[MODEL]) && json_kind(v[MODEL]) != '"')
        return refuse_member(refusal, "body.model", "string_type", "Input should be a valid string", v[MODEL]);
    ask->model = json_absent(v[MODEL]) ? (struct text){NULL, 0} : v[MODEL];
    if (!json_absent(v[KV]) && json_kind(v[KV]) != '{')
        return refuse_member(refusal, "body.kv_transfer_params", "dict_type", "Input should be a valid dictionary",
                             v[KV]);
    ask->kv = v[KV];
    return read_limits(api, body, ask, refusal) && read_bool(v[STREAM], "body.stream", &ask->stream, refusal) &&
           (!api->takes_stream_options || read_stream_options(api, v[STREAM_OPTIONS], ask, refusal)) &&
           check_model(setting, ask, refusal) && check_limits(ask, refusal) && api->prompt(setting, body, ask, refusal);
}

/* ---- the table ---- */

static const struct api apis[] = {
    {.path = "/v1/chat/completions",
     .render_path = "/v1/chat/completions/render",
     .limits = {"max_completion_tokens", "max_tokens"},
     .takes_min_tokens = true,
     .takes_ignore_end = true,
     .takes_stream_options = true,
     .options_need_stream = true,
     .prompt = prompt_chat,
     .error = shape_error,
     .shape = &shape_chat},
    {.path = "/v1/completions",
     .render_path = "/v1/completions/render",
     .render_list = true,
     .limits = {"max_tokens"},
     .takes_min_tokens = true,
     .takes_ignore_end = true,
     .takes_stream_options = true,
     .options_need_stream = true,
     .prompt = prompt_completions,
     .error = shape_error,
     .shape = &shape_completions},
    {.path = "/v1/responses",
     .render_path = "/v1/responses/render",
     .render_more = "\"extra_args\":{},",
     .limits = {"max_output_tokens"},
     .takes_ignore_end = true,
     .prompt = prompt_responses,
     .error = shape_error,
     .shape = &shape_responses},
    {.path = "/v1/messages",
     .render_path = "/v1/messages/render",
     .limits = {"max_tokens"},
     .prompt = prompt_messages,
     .error = shape_messages_error,
     .shape = &shape_messages},
    {.path = "/inference/v1/generate",
     .limits = {"max_tokens"},
     .sampling = "sampling_params",
     .takes_min_tokens = true,
     .takes_ignore_end = true,
     .takes_stream_options = true,
     .prompt = prompt_generate,
     .error = shape_error,
     .shape = &shape_generate},
};

const struct api *api_find(struct text path, bool *render)
{
    for (size_t i = 0; i < sizeof apis / sizeof *apis; i++) {
        *render = apis[i].render_path && text_is(path, apis[i].render_path);
        if (*render || text_is(path, apis[i].path))
            return &apis[i];
    }
    *render = false;
    return NULL;
}
