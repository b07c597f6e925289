/* Prompts; see prompt.h. */
#include "prompt.h"

#include <stdio.h>
#include <string.h>

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

/* ---- conversations ---- */

/* An API with a chat template. */
struct dialect {
    enum part_dialect parts;
    const char *list;        /* member with the messages, or items */
    const char *system;      /* member with what the template sees as the system message; NULL: none */
    bool plain_string;       /* the list may be a string: one message of the user */
    bool walks;              /* a list that is none is refused when it is walked through, not before */
    bool items_without_role; /* tool calls, tool results, reasoning stand between the messages */
};

static bool refuse_part(const struct dialect *dialect, const char *place, struct text type, struct refusal *refusal)
{
    if (dialect->parts == PARTS_ANTHROPIC)
        return refuse_member(refusal, place, "literal_error",
                             "Input should be 'text', 'image', 'tool_use', 'tool_result', 'tool_reference', "
                             "'thinking' or 'redacted_thinking'",
                             type.at ? type : TEXT("{}"));
    *refusal = (struct refusal){.status = 400, .type = "BadRequestError"};
    buf_text(&refusal->message, "Unknown part type: ");
    if (json_kind(type) == '"')
        json_string(type, &refusal->message);
    return false;
}

static bool check_parts(const struct dialect *dialect, const char *place, struct text content, struct refusal *refusal)
{
    struct json_walk walk = json_walk(content);
    struct text key, part;
    while (json_next(&walk, &key, &part)) {
        struct text type = json_member(part, "type");
        bool bare_string = json_kind(part) == '"' && dialect->parts == PARTS_OPENAI; /* counts as text */
        if (!bare_string && !part_known(type, dialect->parts))
            return refuse_part(dialect, place, type, refusal);
    }
    return true;
}

static bool check_message(const struct dialect *dialect, const char *place, struct text message,
                          struct refusal *refusal)
{
    char inside[64];
    if (json_kind(message) != '{')
        return refuse_member(refusal, place, "dict_type", "Input should be a valid dictionary", message);
    snprintf(inside, sizeof inside, "%s.role", place);
    struct text role = json_member(message, "role");
    if (!role.at && dialect->items_without_role && json_kind(json_member(message, "type")) == '"')
        return true;
    if (!role.at)
        return refuse_missing(refusal, inside, message);
    if (json_kind(role) != '"')
        return refuse_member(refusal, inside, "string_type", "Input should be a valid string", role);
    snprintf(inside, sizeof inside, "%s.content", place);
    struct text content = json_member(message, "content");
    char kind = json_kind(content);
    if (content.at && kind != '"' && kind != '[' && kind != 'n')
        return refuse_member(refusal, inside, "string_type", "Input should be a valid string", content);
    return kind != '[' || check_parts(dialect, inside, content, refusal);
}

/* Chat takes whatever can be walked through. */
static bool refuse_unwalkable(struct text value, struct refusal *refusal)
{
    char kind = json_kind(value);
    bool whole = !memchr(value.at, '.', value.len) && !memchr(value.at, 'e', value.len);
    return refuse(refusal, 400, "BadRequestError", "", "'%s' object is not iterable",
                  kind == 't' || kind == 'f' ? "bool"
                  : whole                    ? "int"
                                             : "float");
}

static bool check_messages(const struct dialect *dialect, struct text body, struct text messages,
                           struct refusal *refusal)
{
    char place[64];
    snprintf(place, sizeof place, "body.%s", dialect->list);
    if (!messages.at)
        return refuse_missing(refusal, place, body);
    if (dialect->plain_string && json_kind(messages) == '"')
        return true;
    if (dialect->walks && (json_kind(messages) == 0 || json_kind(messages) == 't' || json_kind(messages) == 'f'))
        return refuse_unwalkable(messages, refusal);
    if (json_kind(messages) != '[')
        return refuse_member(refusal, place, "list_type", "Input should be a valid list", messages);
    struct json_walk walk = json_walk(messages);
    struct text key, message;
    for (int i = 0; json_next(&walk, &key, &message); i++) {
        snprintf(place, sizeof place, "body.%s.%d", dialect->list, i);
        if (!check_message(dialect, place, message, refusal))
            return false;
    }
    return true;
}

static void add_message_of(struct buf *out, const char *role, struct text content)
{
    buf_printf(out, "{\"role\":\"%s\",\"content\":", role);
    buf_add(out, content.at, content.len);
    buf_text(out, "}");
}

/* The list that the template sees: the body's own bytes, or, where a message must be made up, a copy in `made`. */
static struct text conversation(struct text messages, struct text system, struct buf *made)
{
    bool plain = json_kind(messages) == '"';
    if (json_absent(system) && !plain)
        return messages;
    buf_text(made, "[");
    if (!json_absent(system))
        add_message_of(made, "system", system);
    if (plain) {
        buf_text(made, json_absent(system) ? "" : ",");
        add_message_of(made, "user", messages);
        buf_text(made, "]");
        return buf_view(made);
    }
    struct json_walk walk = json_walk(messages);
    struct text key, message;
    while (json_next(&walk, &key, &message)) {
        buf_text(made, ",");
        buf_add(made, message.at, message.len);
    }
    buf_text(made, "]");
    return buf_view(made);
}

/* W2: ids in kv_transfer_params are the prompt, whatever the template would make of the messages. */
static bool read_conversation(const struct dialect *dialect, const struct api_setting *setting, struct text body,
                              struct ask *ask, struct refusal *refusal)
{
    const char *const names[] = {dialect->list, "tools", "chat_template_kwargs",
                                 dialect->system ? dialect->system : ""};
    struct text v[4];
    json_members(body, names, v, 4);
    if (!dialect->system)
        v[3] = (struct text){NULL, 0};
    if (!check_messages(dialect, body, v[0], refusal))
        return false;
    ask->tools = v[1];
    ask->instructions = v[3];
    struct text ids = json_absent(ask->kv) ? (struct text){NULL, 0} : json_member(ask->kv, "prompt_token_ids");
    if (json_kind(ids) == '[') {
        if (!add_ids(ids, "body.kv_transfer_params.prompt_token_ids", ask, refusal))
            return false;
    } else {
        struct buf made = {0};
        template_render(setting->template, conversation(v[0], v[3], &made), v[1], v[2], &ask->prompt, setting->media);
        buf_free(&made);
    }
    return check_length(setting, ask, refusal);
}

bool prompt_chat(const struct api_setting *setting, struct text body, struct ask *ask, struct refusal *refusal)
{
    static const struct dialect chat = {PARTS_OPENAI, "messages", NULL, false, true, false};
    return read_conversation(&chat, setting, body, ask, refusal);
}

bool prompt_responses(const struct api_setting *setting, struct text body, struct ask *ask, struct refusal *refusal)
{
    static const struct dialect responses = {PARTS_OPENAI, "input", "instructions", true, false, true};
    return read_conversation(&responses, setting, body, ask, refusal);
}

bool prompt_messages(const struct api_setting *setting, struct text body, struct ask *ask, struct refusal *refusal)
{
    static const struct dialect messages = {PARTS_ANTHROPIC, "messages", "system", false, false, false};
    if (!ask->capped)
        return refuse_missing(refusal, "body.max_tokens", body);
    return read_conversation(&messages, setting, body, ask, refusal);
}

/* ---- the others ---- */

bool prompt_completions(const struct api_setting *setting, struct text body, struct ask *ask, struct refusal *refusal)
{
    struct text prompt = json_member(body, "prompt"), key, first = {NULL, 0}, second;
    struct json_walk walk = json_walk(json_kind(prompt) == '[' ? prompt : first);
    json_next(&walk, &key, &first);
    if (json_absent(prompt) || (json_kind(prompt) == '[' && !first.at))
        return refuse(refusal, 400, "BadRequestError", "prompt",
                      "Either prompt or prompt_embeds must be provided and non-empty. (parameter=prompt)");
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

bool prompt_generate(const struct api_setting *setting, struct text body, struct ask *ask, struct refusal *refusal)
{
    static const char place[] = "body.token_ids";
    struct text ids = json_member(body, "token_ids");
    ask->id = json_member(body, "request_id");
    if (!ids.at)
        return refuse_missing(refusal, place, body);
    if (json_kind(ids) != '[')
        return refuse_member(refusal, place, "list_type", "Input should be a valid list", ids);
    if (!add_ids(ids, place, ask, refusal))
        return false;
    if (!ask->prompt.count)
        return refuse_member(refusal, place, "too_short", "List should have at least 1 item after validation, not 0",
                             ids);
    return check_length(setting, ask, refusal);
}
