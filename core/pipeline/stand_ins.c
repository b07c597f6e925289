/*
 * See stand_ins.h. The usual answers are rows of a table: which legs, which head, which body.
 *
 * In a body `@M` stands for the model as JSON, `@P` for the number of the prompt's tokens and `@T` for that and one more.
 */
#include "pipeline/stand_ins.h"

#include "config/tree_value.h"
#include "pipeline/call.h"
#include "pipeline/tree_json.h"

#include <coordinator/document.h>

/* ---- Answers of an API ---- */

struct api_answer {
    int32_t api;
    const char *whole;
    const char *begin, *usage, *end; /* of a stream; `usage` where the leg asks for it, NULL: the others hold it */
};

#define OPENAI_USAGE "{\"prompt_tokens\":@P,\"completion_tokens\":1,\"total_tokens\":@T}"
#define TYPED_USAGE "{\"input_tokens\":@P,\"output_tokens\":1,\"total_tokens\":@T}"
#define CHUNK_HEAD                                                                                                     \
    "data: {\"id\":\"chatcmpl-stand-in\",\"object\":\"chat.completion.chunk\",\"created\":0,\"model\":@M,"
#define TEXT_HEAD "\"id\":\"cmpl-stand-in\",\"object\":\"text_completion\",\"created\":0,\"model\":@M,"
#define RESPONSE_HEAD "\"id\":\"resp_standin\",\"object\":\"response\",\"created_at\":0,\"model\":@M,"
#define RESPONSE_ITEM                                                                                                  \
    "{\"id\":\"msg_standin\",\"type\":\"message\",\"role\":\"assistant\",\"status\":\"completed\",\"content\":["       \
    "{\"type\":\"output_text\",\"text\":\"stand-in\",\"annotations\":[]}]}"
#define GENERATE_CHOICE "\"choices\":[{\"index\":0,\"token_ids\":[1],\"finish_reason\":\"stop\"}]"
#define DONE "data: [DONE]\n\n"

static const struct api_answer API_ANSWERS[] = {
    {COORD_API_CHAT_COMPLETIONS,
     "{\"id\":\"chatcmpl-stand-in\",\"object\":\"chat.completion\",\"created\":0,\"model\":@M,\"choices\":[{\"index\":"
     "0,"
     "\"message\":{\"role\":\"assistant\",\"content\":\"stand-in\"},\"finish_reason\":\"stop\"}],"
     "\"usage\":" OPENAI_USAGE "}",
     CHUNK_HEAD "\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"stand-in\"},"
                "\"finish_reason\":null}]}\n\n" CHUNK_HEAD
                "\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
     CHUNK_HEAD "\"choices\":[],\"usage\":" OPENAI_USAGE "}\n\n", DONE},
    {COORD_API_COMPLETIONS,
     "{" TEXT_HEAD
     "\"choices\":[{\"index\":0,\"text\":\"stand-in\",\"finish_reason\":\"stop\"}],\"usage\":" OPENAI_USAGE "}",
     "data: {" TEXT_HEAD "\"choices\":[{\"index\":0,\"text\":\"stand-in\",\"finish_reason\":\"stop\"}]}\n\n",
     "data: {" TEXT_HEAD "\"choices\":[],\"usage\":" OPENAI_USAGE "}\n\n", DONE},
    {COORD_API_RESPONSES,
     "{" RESPONSE_HEAD "\"status\":\"completed\",\"output\":[" RESPONSE_ITEM "],\"usage\":" TYPED_USAGE "}",
     "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{" RESPONSE_HEAD
     "\"status\":\"in_progress\",\"output\":[],\"usage\":null}}\n\n"
     "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":1,"
     "\"item_id\":\"msg_standin\",\"output_index\":0,\"content_index\":0,\"delta\":\"stand-in\"}\n\n",
     NULL,
     "event: response.completed\ndata: {\"type\":\"response.completed\",\"sequence_number\":2,"
     "\"response\":{" RESPONSE_HEAD "\"status\":\"completed\",\"output\":[" RESPONSE_ITEM "],\"usage\":" TYPED_USAGE
     "}}\n\n"},
    {COORD_API_MESSAGES,
     "{\"id\":\"msg_standin\",\"type\":\"message\",\"role\":\"assistant\",\"model\":@M,\"content\":[{\"type\":\"text\","
     "\"text\":\"stand-in\"}],\"stop_reason\":\"end_turn\",\"stop_sequence\":null,\"usage\":{\"input_tokens\":@P,"
     "\"output_tokens\":1}}",
     "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_standin\",\"type\":\"message\","
     "\"role\":\"assistant\",\"model\":@M,\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":"
     "{\"input_tokens\":@P,\"output_tokens\":0}}}\n\n"
     "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":"
     "\"text\",\"text\":\"\"}}\n\n"
     "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":"
     "\"text_delta\",\"text\":\"stand-in\"}}\n\n"
     "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
     NULL,
     "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\","
     "\"stop_sequence\":null},\"usage\":{\"input_tokens\":@P,\"output_tokens\":1}}\n\n"
     "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"},
    {COORD_API_GENERATE,
     "{\"request_id\":\"generate-stand-in\",\"model\":@M," GENERATE_CHOICE ",\"usage\":" OPENAI_USAGE "}",
     "data: {\"request_id\":\"generate-stand-in\"," GENERATE_CHOICE "}\n\n",
     "data: {\"request_id\":\"generate-stand-in\",\"choices\":[],\"usage\":" OPENAI_USAGE "}\n\n", DONE},
};

enum { STAND_IN_TOKENS = 4 };

static const char STAND_IN_IDS[] = "{\"token_ids\":[1,2,3,4]}";
static const char STAND_IN_ID_LIST[] = "[{\"token_ids\":[1,2,3,4]}]";
/* Enough for any of our connectors: where it does not look, it does no harm. */
static const char PREFILLED[] =
    "{\"id\":\"stand-in\",\"kv_transfer_params\":{\"do_remote_prefill\":true,\"do_remote_decode\":false,"
    "\"remote_engine_id\":\"stand-in\",\"remote_block_ids\":[1],\"remote_host\":\"127.0.0.1\",\"remote_port\":1}}";

static const struct api_answer *api_answer(const struct coord_request *request)
{
    for (size_t i = 0; i < sizeof API_ANSWERS / sizeof *API_ANSWERS; i++)
        if (API_ANSWERS[i].api == request->api->id)
            return &API_ANSWERS[i];
    return NULL;
}

static bool append_model(struct buffer *out, coord_slice model)
{
    coord_json *json = coord_json_new();
    coord_slice text;
    bool done;

    coord_json_string(json, model);
    done = json && coord_json_end(json, &text) == COORD_OK && buffer_append_slice(out, text);
    coord_json_free(json);
    return done;
}

static bool append_pattern(struct buffer *out, const char *pattern, const struct coord_request *request)
{
    uint64_t prompt = request->has_token_ids ? request->token_count : STAND_IN_TOKENS;
    bool done = true;

    for (const char *at; done && (at = strchr(pattern, '@')); pattern = at + 2) {
        done = buffer_append(out, pattern, (size_t)(at - pattern));
        if (at[1] == 'M')
            done = done && append_model(out, request->model);
        else
            done = done && buffer_printf(out, "%llu", (unsigned long long)(prompt + (at[1] == 'T')));
    }
    return done && buffer_append_text(out, pattern);
}

static bool wants_usage(const struct coord_call *call)
{
    bool wanted = false;

    return call->out->document &&
           coord_document_get_bool(call->out->document, "/stream_options/include_usage", &wanted) == COORD_OK && wanted;
}

static bool put_head(struct buffer *out, int32_t status, const struct headers *headers, const char *type, size_t size)
{
    static const coord_slice name = COORD_SLICE("content-type");
    bool done = buffer_printf(out, "HTTP/1.1 %d Stand-In\r\n", status);

    for (size_t i = 0; headers && i < headers->count; i++)
        done = done && buffer_printf(out, "%.*s: %.*s\r\n", COORD_FMT(headers->list[i].name),
                                     COORD_FMT(headers->list[i].value));
    if (!headers || !headers_find(headers, name))
        done = done && buffer_printf(out, "Content-Type: %s\r\n", type);
    if (strcmp(type, "text/event-stream") == 0)
        return done && buffer_append_text(out, "Transfer-Encoding: chunked\r\n");
    return done && (status == 204 || status == 304 || buffer_printf(out, "Content-Length: %zu\r\n", size));
}

static bool answer_json(struct stand_in_answer *out, int32_t status, const char *body)
{
    return buffer_append_text(&out->body, body) && put_head(&out->head, status, NULL, "application/json", strlen(body));
}

static bool answer_decode(struct stand_in_answer *out, const struct coord_call *call)
{
    const struct coord_request *request = call->request;
    const struct api_answer *row = api_answer(request);

    if (!row)
        return answer_json(out, 200, "{}");
    if (!request->stream)
        return append_pattern(&out->body, row->whole, request) &&
               put_head(&out->head, 200, NULL, "application/json", out->body.size);
    return append_pattern(&out->body, row->begin, request) &&
           (!row->usage || !wants_usage(call) || append_pattern(&out->body, row->usage, request)) &&
           append_pattern(&out->body, row->end, request) && put_head(&out->head, 200, NULL, "text/event-stream", 0);
}

static bool ends_with(coord_slice text, const char *end)
{
    size_t size = strlen(end);

    return text.size >= size && memcmp(text.data + text.size - size, end, size) == 0;
}

/* A probe for a cache that no worker has: so that the rest of the pipeline is seen. */
static bool is_probe(const struct coord_call *call)
{
    const struct header *prefer = headers_find(&call->out->headers, (coord_slice)COORD_SLICE("prefer"));

    return prefer && header_name_is(prefer->value, "if-available");
}

static bool answer_usual(struct stand_in_answer *out, const struct coord_call *call)
{
    if (call_has_phase(call, COORD_PHASE_DECODE))
        return is_probe(call) ? answer_json(out, 412, "{}") : answer_decode(out, call);
    if (call_has_phase(call, COORD_PHASE_PREFILL))
        return answer_json(out, 200, PREFILLED);
    if (ends_with(call->out->path, "/v1/completions/render"))
        return answer_json(out, 200, STAND_IN_ID_LIST);
    if (ends_with(call->out->path, "/render"))
        return answer_json(out, 200, STAND_IN_IDS);
    return answer_json(out, 200, "{}");
}

/* ---- Given ones ---- */

static bool is_for(const struct given_answer *answer, const struct coord_call *call)
{
    const struct step *step = call->request->step;

    if (!step) /* work in the background: only the leg's own name is left of it */
        return coord_slice_is(answer->leg, call->name);
    return coord_slice_is(answer->leg, step->id) || coord_slice_is(answer->leg, step->kind->type.name);
}

static struct given_answer *next_given(struct given_answers *answers, const struct coord_call *call)
{
    struct given_answer *last = NULL;

    for (size_t i = 0; i < answers->count; i++) {
        struct given_answer *answer = &answers->list[i];

        if (!is_for(answer, call))
            continue;
        last = answer;
        if (!answer->used)
            break;
    }
    if (last)
        last->used = true;
    return last;
}

static bool looks_like_events(coord_slice body)
{
    return body.size > 6 && (memcmp(body.data, "data:", 5) == 0 || memcmp(body.data, "event:", 6) == 0);
}

static const char *type_of(const struct given_answer *given)
{
    const struct header *type = headers_find(&given->headers, (coord_slice)COORD_SLICE("content-type"));
    static const char stream[] = "text/event-stream";

    if (type)
        return type->value.size >= sizeof stream - 1 && header_names_alike(type->value.data, stream, sizeof stream - 1)
                   ? stream
                   : "";
    return looks_like_events(given->body) ? stream : "application/json";
}

bool stand_in_answer(struct given_answers *answers, const struct coord_call *call, struct stand_in_answer *out,
                     const struct given_answer **given)
{
    const struct given_answer *found = next_given(answers, call);

    *given = found;
    if (!found)
        return answer_usual(out, call);
    return buffer_append_slice(&out->body, found->body) &&
           put_head(&out->head, found->status, &found->headers, type_of(found), found->body.size);
}

/* ---- The file ---- */

struct reading {
    struct arena *arena;
    struct complaints *complaints;
};

static void wrong(const struct reading *reading, struct position at, const char *what)
{
    complain(reading->complaints, COMPLAINT_ERROR, at, "%s", what);
}

/* A text is the body as it is; keys and values are JSON. */
static coord_slice read_body(const struct reading *reading, const struct node *node)
{
    coord_json *json;
    coord_slice text = {0};

    if (node_is_null(node) || node->kind == NODE_SCALAR)
        return node_is_null(node) ? text : node->text;
    json = coord_json_new();
    if (!json || !tree_write_json(node, json) || coord_json_end(json, &text) != COORD_OK)
        wrong(reading, node->at, "body cannot be written as JSON");
    text = arena_copy(reading->arena, text);
    coord_json_free(json);
    return text;
}

static int32_t read_status(const struct reading *reading, const struct node *node)
{
    int64_t status = 200;

    if (!node_is_null(node) &&
        (node->kind != NODE_SCALAR || !parse_integer(node->text, &status) || status < 200 || status > 599))
        wrong(reading, node->at, "status takes a number from 200 to 599");
    return (int32_t)status;
}

static void read_header(const struct reading *reading, const struct entry *entry, struct headers *headers)
{
    const struct node *value = entry->value;

    if (header_name_is(entry->key, "content-length") || header_name_is(entry->key, "transfer-encoding"))
        wrong(reading, entry->at, "an answer's framing follows from its body: leave this header out");
    else if (!header_name_valid(entry->key))
        wrong(reading, entry->at, "no header can have this name");
    else if (value->kind != NODE_SCALAR || !header_value_valid(value->text))
        wrong(reading, value->at, "a header takes a text of one line");
    else if (!headers_add_borrowed(headers, entry->key, value->text))
        wrong(reading, entry->at, "memory is short");
}

static void read_headers(const struct reading *reading, const struct node *node, struct headers *headers)
{
    headers_init(headers, reading->arena);
    if (node_is_null(node))
        return;
    if (node->kind != NODE_MAP) {
        wrong(reading, node->at, "headers takes names and values");
        return;
    }
    for (size_t i = 0; i < node->count; i++)
        read_header(reading, &node->entries[i], headers);
}

static void refuse_unknown(const struct reading *reading, const struct entry *entry)
{
    static const char *const keys[] = {"leg", "status", "headers", "body"};
    const char *near = nearest_name(entry->key, keys, sizeof keys / sizeof *keys);

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (coord_slice_is(entry->key, keys[i]))
            return;
    complain(reading->complaints, COMPLAINT_ERROR, entry->at, "unknown key \"%.*s\" of an answer%s%s%s",
             COORD_FMT(entry->key), near ? ": did you mean \"" : "; it takes leg, status, headers and body",
             near ? near : "", near ? "\"?" : "");
}

static void read_answer(const struct reading *reading, const struct node *node, struct given_answer *answer)
{
    const struct node *leg = node_get(node, "leg");

    answer->at = node->at;
    if (node->broken)
        return;
    if (node->kind != NODE_MAP) {
        wrong(reading, node->at, "an answer is a map, as in {leg: prefill, status: 503}");
        return;
    }
    for (size_t i = 0; i < node->count; i++)
        refuse_unknown(reading, &node->entries[i]);
    if (node_is_null(leg) || leg->kind != NODE_SCALAR)
        wrong(reading, leg ? leg->at : node->at, "an answer names its leg: the id or type of the step that sends it");
    else
        answer->leg = leg->text;
    answer->status = read_status(reading, node_get(node, "status"));
    read_headers(reading, node_get(node, "headers"), &answer->headers);
    answer->body = read_body(reading, node_get(node, "body"));
}

void given_answers_load(struct given_answers *answers, struct arena *arena, const char *path,
                        struct complaints *complaints)
{
    struct reading reading = {arena, complaints};
    const struct node *root = tree_load_value(arena, path, complaints);

    *answers = (struct given_answers){0};
    if (!root || node_is_null(root) || root->broken)
        return;
    if (root->kind != NODE_LIST) {
        wrong(&reading, root->at, "expected a list of answers, as in [{leg: prefill, status: 503}]");
        return;
    }
    answers->list = arena_alloc(arena, (root->count + 1) * sizeof *answers->list);
    for (size_t i = 0; answers->list && i < root->count; i++)
        read_answer(&reading, root->items[i], &answers->list[answers->count++]);
}

static bool names_step(const struct generation *generation, coord_slice leg)
{
    for (size_t i = 0; i < generation->step_count; i++)
        if (coord_slice_is(leg, generation->steps[i].id) || coord_slice_is(leg, generation->steps[i].kind->type.name))
            return true;
    return false;
}

void given_answers_check(const struct given_answers *answers, const struct generation *generation,
                         struct complaints *complaints)
{
    for (size_t i = 0; i < answers->count; i++)
        if (answers->list[i].leg.size > 0 && !names_step(generation, answers->list[i].leg))
            complain(complaints, COMPLAINT_ERROR, answers->list[i].at, "no step has the id or type \"%.*s\"",
                     COORD_FMT(answers->list[i].leg));
}
