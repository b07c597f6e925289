/* The table of APIs and the reading of requests; see api.h. Refusals: vLLM 0.32.0 on the wire, W8 and transcripts. */
#include "api.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- refusing ---- */

static bool refuse(struct refusal *refusal, int status, const char *type, const char *param, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

static bool refuse(struct refusal *refusal, int status, const char *type, const char *param, const char *format, ...)
{
    char message[512];
    va_list list;
    va_start(list, format);
    vsnprintf(message, sizeof message, format, list);
    va_end(list);
    *refusal = (struct refusal){.status = status, .type = type};
    snprintf(refusal->param, sizeof refusal->param, "%s", param);
    buf_text(&refusal->message, message);
    return false;
}

/* A JSON value as Python shows it, as far as that matters: strings in single quotes, long values cut. */
static void add_shown(struct buf *out, struct text raw)
{
    enum { SHOWN = 120 };
    if (json_kind(raw) == '"') {
        buf_text(out, "'");
        struct buf plain = {0};
        json_string(raw, &plain);
        buf_add(out, plain.data, plain.len < SHOWN ? plain.len : SHOWN);
        buf_free(&plain);
        buf_text(out, "'");
    } else {
        buf_add(out, raw.at, raw.len < SHOWN ? raw.len : SHOWN);
    }
}

/* What the engine's body model says about a member of a wrong type. */
static bool refuse_member(struct refusal *refusal, const char *place, const char *kind, const char *says,
                          struct text input)
{
    *refusal = (struct refusal){.status = 400, .type = "Bad Request"};
    snprintf(refusal->param, sizeof refusal->param, "%s", place);
    buf_printf(&refusal->message, "1 validation error:\n  {'type': '%s', 'loc': '%s', 'msg': '%s', 'input': ", kind,
               place, says);
    add_shown(&refusal->message, input);
    buf_text(&refusal->message, "}");
    return false;
}

static bool refuse_body(struct refusal *refusal, size_t at)
{
    *refusal = (struct refusal){.status = 400, .type = "Bad Request"};
    snprintf(refusal->param, sizeof refusal->param, "body.%zu", at);
    buf_printf(
        &refusal->message,
        "1 validation error:\n  {'type': 'json_invalid', 'loc': 'body.%zu', 'msg': 'JSON decode error', 'input': {}, "
        "'ctx': {'error': 'Expecting value'}}",
        at);
    return false;
}

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

static bool read_stream_options(struct text value, struct ask *ask, struct refusal *refusal)
{
    if (json_absent(value))
        return true;
    if (json_kind(value) != '{')
        return refuse_member(refusal, "body.stream_options", "model_attributes_type",
                             "Input should be a valid dictionary or object to extract fields from", value);
    struct text include = json_member(value, "include_usage");
    ask->include_usage = !include.at; /* the engine's default inside stream_options is true */
    if (!read_bool(include, "body.stream_options.include_usage", &ask->include_usage, refusal) ||
        !read_bool(json_member(value, "continuous_usage_stats"), "body.stream_options.continuous_usage_stats",
                   &ask->continuous_usage, refusal))
        return false;
    if (!ask->stream)
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
    enum { MODEL, STREAM, STREAM_OPTIONS, MIN_TOKENS, IGNORE_END, KV, COUNT };
    static const char *const names[COUNT] = {"model",      "stream",     "stream_options",
                                             "min_tokens", "ignore_eos", "kv_transfer_params"};
    struct text v[COUNT];
    size_t wrong;
    *ask = (struct ask){.prompt.list = setting->ids};
    if (!json_check(body, &wrong))
        return refuse_body(refusal, wrong);
    if (json_kind(body) != '{')
        return refuse_member(refusal, "body", "model_attributes_type",
                             "Input should be a valid dictionary or object to extract fields from", body);
    json_members(body, names, v, COUNT);
    if (!json_absent(v[MODEL]) && json_kind(v[MODEL]) != '"')
        return refuse_member(refusal, "body.model", "string_type", "Input should be a valid string", v[MODEL]);
    ask->model = json_absent(v[MODEL]) ? (struct text){NULL, 0} : v[MODEL];
    if (!json_absent(v[KV]) && json_kind(v[KV]) != '{')
        return refuse_member(refusal, "body.kv_transfer_params", "dict_type", "Input should be a valid dictionary",
                             v[KV]);
    ask->kv = v[KV];
    bool given = false;
    for (int i = 1; i >= 0; i--) { /* the first limit is read last and wins */
        char place[64];
        snprintf(place, sizeof place, "body.%s", api->limits[i] ? api->limits[i] : "");
        if (api->limits[i] && !read_uint(json_member(body, api->limits[i]), place, &ask->capped, &ask->cap, refusal))
            return false;
    }
    return read_bool(v[STREAM], "body.stream", &ask->stream, refusal) &&
           read_bool(v[IGNORE_END], "body.ignore_eos", &ask->ignore_end, refusal) &&
           read_uint(v[MIN_TOKENS], "body.min_tokens", &given, &ask->at_least, refusal) &&
           read_stream_options(v[STREAM_OPTIONS], ask, refusal) && check_model(setting, ask, refusal) &&
           check_limits(ask, refusal) && api->prompt(setting, body, ask, refusal);
}

/* ---- prompts ---- */

static bool check_length(const struct api_setting *setting, const struct ask *ask, struct refusal *refusal)
{
    if (ask->prompt.count <= setting->max_model_len)
        return true;
    return refuse(
        refusal, 400, "BadRequestError", "input_tokens",
        "This model's maximum context length is %llu tokens. However, your prompt contains %llu input tokens. "
        "Please reduce the length of the input prompt. (parameter=input_tokens, value=%llu)",
        (unsigned long long)setting->max_model_len, (unsigned long long)ask->prompt.count,
        (unsigned long long)ask->prompt.count);
}

static bool add_ids(struct text list, const char *place, struct ask *ask, struct refusal *refusal)
{
    struct json_walk walk = json_walk(list);
    struct text key, value;
    uint64_t id;
    while (json_next(&walk, &key, &value)) {
        if (!json_uint(value, &id))
            return refuse_member(refusal, place, "int_type", "Input should be a valid integer", value);
        token_add(&ask->prompt, id);
    }
    return true;
}

static bool check_parts(struct text content, struct refusal *refusal)
{
    struct json_walk walk = json_walk(content);
    struct text key, part;
    while (json_next(&walk, &key, &part)) {
        struct text type = json_member(part, "type");
        bool known = json_kind(part) == '"'; /* a bare string counts as text */
        if (!known)
            part_modality(type, &known);
        if (known)
            continue;
        *refusal = (struct refusal){.status = 400, .type = "BadRequestError"};
        buf_text(&refusal->message, "Unknown part type: ");
        if (json_kind(type) == '"')
            json_string(type, &refusal->message);
        return false;
    }
    return true;
}

static bool check_messages(struct text messages, struct refusal *refusal)
{
    if (!messages.at)
        return refuse_member(refusal, "body.messages", "missing", "Field required", TEXT("{}"));
    if (json_kind(messages) != '[')
        return refuse_member(refusal, "body.messages", "list_type", "Input should be a valid list", messages);
    struct json_walk walk = json_walk(messages);
    struct text key, message;
    for (int i = 0; json_next(&walk, &key, &message); i++) {
        char place[64];
        snprintf(place, sizeof place, "body.messages.%d", i);
        if (json_kind(message) != '{')
            return refuse_member(refusal, place, "dict_type", "Input should be a valid dictionary", message);
        snprintf(place, sizeof place, "body.messages.%d.role", i);
        struct text role = json_member(message, "role");
        if (json_kind(role) != '"')
            return refuse_member(refusal, place, role.at ? "string_type" : "missing",
                                 role.at ? "Input should be a valid string" : "Field required",
                                 role.at ? role : message);
        struct text content = json_member(message, "content");
        snprintf(place, sizeof place, "body.messages.%d.content", i);
        char kind = json_kind(content);
        if (content.at && kind != '"' && kind != '[' && kind != 'n')
            return refuse_member(refusal, place, "string_type", "Input should be a valid string", content);
        if (kind == '[' && !check_parts(content, refusal))
            return false;
    }
    return true;
}

/* W2: ids in kv_transfer_params are the prompt, whatever the template would make of the messages. */
static bool chat_prompt(const struct api_setting *setting, struct text body, struct ask *ask, struct refusal *refusal)
{
    static const char *const names[] = {"messages", "tools", "chat_template_kwargs"};
    struct text v[3];
    json_members(body, names, v, 3);
    if (!check_messages(v[0], refusal))
        return false;
    struct text ids = json_absent(ask->kv) ? (struct text){NULL, 0} : json_member(ask->kv, "prompt_token_ids");
    if (json_kind(ids) == '[') {
        if (!add_ids(ids, "body.kv_transfer_params.prompt_token_ids", ask, refusal))
            return false;
    } else {
        template_render(setting->template, v[0], v[1], v[2], &ask->prompt, setting->media);
    }
    return check_length(setting, ask, refusal);
}

static bool completions_prompt(const struct api_setting *setting, struct text body, struct ask *ask,
                               struct refusal *refusal)
{
    struct text prompt = json_member(body, "prompt"), key, first = {NULL, 0}, second;
    struct json_walk walk = json_walk(json_kind(prompt) == '[' ? prompt : first);
    json_next(&walk, &key, &first);
    if (json_absent(prompt) || (json_kind(prompt) == '[' && !first.at))
        return refuse(refusal, 400, "BadRequestError", "",
                      "Either prompt or prompt_embeds must be provided and non-empty.");
    if (json_kind(first) == '"' && !json_next(&walk, &key, &second))
        prompt = first; /* a batch of one */
    if (json_kind(prompt) == '"') {
        struct buf words = {0};
        json_string(prompt, &words);
        tokenize(&ask->prompt, buf_view(&words));
        buf_free(&words);
    } else if (json_kind(prompt) != '[') {
        return refuse_member(refusal, "body.prompt", "string_type", "Input should be a valid string", prompt);
    } else if (!add_ids(prompt, "body.prompt", ask, refusal)) {
        return false;
    }
    return check_length(setting, ask, refusal);
}

/* ---- the table ---- */

static const struct api apis[] = {
    {"/v1/chat/completions",
     "/v1/chat/completions/render",
     false,
     {"max_completion_tokens", "max_tokens"},
     chat_prompt,
     shape_error,
     &shape_chat},
    {"/v1/completions",
     "/v1/completions/render",
     true,
     {"max_tokens", NULL},
     completions_prompt,
     shape_error,
     &shape_completions},
};

const struct api *api_find(struct text path, bool *render)
{
    for (size_t i = 0; i < sizeof apis / sizeof *apis; i++) {
        *render = text_is(path, apis[i].render_path);
        if (*render || text_is(path, apis[i].path))
            return &apis[i];
    }
    *render = false;
    return NULL;
}
