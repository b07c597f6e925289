/* See conditions.h. */
#include "config/conditions.h"

#include <coordinator/request.h>

enum { SHOWN_MAX = 80 };

/* By number, from 1. */
static const char *const APIS[] = {
    [COORD_API_CHAT_COMPLETIONS - 1] = "chat_completions",
    [COORD_API_COMPLETIONS - 1] = "completions",
    [COORD_API_RESPONSES - 1] = "responses",
    [COORD_API_MESSAGES - 1] = "messages",
    [COORD_API_GENERATE - 1] = "generate",
    NULL,
};
enum { API_COUNT = sizeof APIS / sizeof *APIS - 1 };

static const struct key BOUNDS[] = {
    {"min", "As many token ids at least.", KEY_COUNT},
    {"max", "As many token ids at most.", KEY_COUNT},
};

struct keys conditions_bounds(void) { return KEYS_OF(BOUNDS); }

/* Where the keys are read from and to. */
struct reading {
    struct arena *arena;
    const char *where;
    struct complaints *complaints;
    struct conditions *conditions;
};

static int shown(coord_slice text) { return text.size < SHOWN_MAX ? (int)text.size : SHOWN_MAX; }

static void wrong(const struct reading *reading, struct position at, const char *key, const char *what)
{
    complain(reading->complaints, COMPLAINT_ERROR, at, "%s.%s %s", reading->where, key, what);
}

/* A text or a list of texts, as a list; `*secret` when one was substituted. False when it is something else. */
static bool read_texts(const struct reading *reading, const struct node *node, const char *key,
                       const coord_slice **texts, size_t *count, bool *secret)
{
    const struct node *one[] = {node};
    const struct node *const *items = node->kind == NODE_LIST ? (const struct node *const *)node->items : one;
    coord_slice *list;

    *count = node->kind == NODE_LIST ? node->count : 1;
    list = arena_alloc(reading->arena, (*count + 1) * sizeof *list);
    if (!list || *count == 0 || node->kind == NODE_MAP) {
        wrong(reading, node->at, key, "takes a text or a list of texts");
        return false;
    }
    for (size_t i = 0; i < *count; i++) {
        if (items[i]->broken)
            return false; /* that was said */
        if (items[i]->kind != NODE_SCALAR || items[i]->text.size == 0) {
            wrong(reading, items[i]->at, key, "takes a text or a list of texts, none of them empty");
            return false;
        }
        list[i] = items[i]->text;
        *secret |= items[i]->substituted;
    }
    *texts = list;
    return true;
}

static void read_models(const struct reading *reading, const struct node *node)
{
    if (!read_texts(reading, node, "models", &reading->conditions->models, &reading->conditions->model_count,
                    &reading->conditions->models_secret))
        reading->conditions->model_count = 0;
}

static void read_api(const struct reading *reading, coord_slice name, struct position at)
{
    const char *near;

    for (unsigned i = 0; i < API_COUNT; i++) {
        if (coord_slice_is(name, APIS[i])) {
            reading->conditions->apis |= UINT32_C(1) << (i + 1);
            return;
        }
    }
    near = nearest_name(name, APIS, API_COUNT);
    complain(reading->complaints, COMPLAINT_ERROR, at, "%s.apis: unknown API \"%.*s\"%s%s%s", reading->where,
             shown(name), name.data,
             near ? ": did you mean \"" : "; there are chat_completions, completions, responses, messages and generate",
             near ? near : "", near ? "\"?" : "");
}

static void read_apis(const struct reading *reading, const struct node *node)
{
    const coord_slice *names;
    size_t count;
    bool secret = false; /* names of APIs are none */

    if (!read_texts(reading, node, "apis", &names, &count, &secret))
        return;
    for (size_t i = 0; i < count; i++)
        read_api(reading, names[i], node->kind == NODE_LIST ? node->items[i]->at : node->at);
}

/* In lower case, so that names compare as bytes. Empty: it is no name of a header. */
static coord_slice header_name(const struct reading *reading, coord_slice written)
{
    char *name = arena_alloc(reading->arena, written.size + 1);

    for (size_t i = 0; name && i < written.size; i++) {
        char c = written.data[i];

        if (c >= 'A' && c <= 'Z')
            c = (char)(c - 'A' + 'a');
        else if (c <= ' ' || c >= 0x7f || strchr("\"(),/:;<=>?@[\\]{}", c))
            return (coord_slice){0};
        name[i] = c;
    }
    return (coord_slice){name, name ? written.size : 0};
}

static void read_headers(const struct reading *reading, const struct node *node)
{
    struct header_condition *headers;

    if (node->kind != NODE_MAP || node->count == 0) {
        wrong(reading, node->at, "headers", "takes a map: header name to a value or a list of values");
        return;
    }
    headers = arena_alloc(reading->arena, node->count * sizeof *headers);
    for (size_t i = 0; headers && i < node->count; i++) {
        struct header_condition *header = &headers[reading->conditions->header_count];

        header->name = header_name(reading, node->entries[i].key);
        if (header->name.size == 0)
            wrong(reading, node->entries[i].at, "headers", "holds a name that no header can have");
        else if (read_texts(reading, node->entries[i].value, "headers", &header->values, &header->count,
                            &header->secret))
            reading->conditions->header_count++;
    }
    reading->conditions->headers = headers;
}

static void read_flag(const struct reading *reading, const struct node *node, const char *key, int *flag)
{
    bool is_true = node->kind == NODE_SCALAR && node->plain && coord_slice_is(node->text, "true");

    if (is_true || (node->kind == NODE_SCALAR && node->plain && coord_slice_is(node->text, "false")))
        *flag = is_true;
    else
        wrong(reading, node->at, key, "takes true or false");
}

static void read_stream(const struct reading *reading, const struct node *node)
{
    read_flag(reading, node, "stream", &reading->conditions->stream);
}

static void read_media(const struct reading *reading, const struct node *node)
{
    read_flag(reading, node, "media", &reading->conditions->media);
}

static bool read_bound(const struct reading *reading, const struct node *map, const char *key, uint64_t *bound)
{
    const struct node *node = node_get(map, key);
    int64_t value = -1;

    if (!node)
        return false;
    if (node->broken)
        return true;
    if (node->kind != NODE_SCALAR || !parse_integer(node->text, &value) || value < 0)
        wrong(reading, node->at, "prompt_tokens", "takes whole numbers of at least 0 as min and max");
    else
        *bound = (uint64_t)value;
    reading->conditions->tokens_secret |= node->substituted;
    return true;
}

static void read_tokens(const struct reading *reading, const struct node *node)
{
    struct conditions *conditions = reading->conditions;
    size_t known;

    conditions->tokens_at = node->at;
    conditions->has_tokens = true;
    conditions->max_tokens = UINT64_MAX;
    if (node->kind != NODE_MAP) {
        wrong(reading, node->at, "prompt_tokens", "takes a map with min, max or both");
        return;
    }
    known = (size_t)read_bound(reading, node, BOUNDS[0].name, &conditions->min_tokens) +
            (size_t)read_bound(reading, node, BOUNDS[1].name, &conditions->max_tokens);
    if (known == 0 || known != node->count)
        wrong(reading, node->at, "prompt_tokens", "takes min, max or both, and nothing else");
    else if (conditions->min_tokens > conditions->max_tokens)
        wrong(reading, node->at, "prompt_tokens", "has a min above its max: it never holds");
}

/* What `match` has comes first. */
static const struct key KEYS[] = {
    {"models", "The request's model is one of these; * stands for any bytes.", KEY_TEXTS},
    {"apis", "It came in on one of these.", KEY_CHOICES, .choices = APIS},
    {"headers", "Each of these headers has one of its values; * stands for any bytes.", KEY_TEXTS_MAP,
     .pattern = "[-!#$%&'*+.^_`|~0-9A-Za-z]+"},
    {"stream", "The request asks for a stream, or does not.", KEY_FLAG},
    {"media", "Its content has an image, audio or video, or none.", KEY_FLAG},
    {"prompt_tokens", "How many token ids its prompt has; a step before this one must provide them.", KEY_BOUNDS},
};
enum { KEY_ROWS = sizeof KEYS / sizeof *KEYS, MATCH_ROWS = 3 };

/* In the same order. */
static void (*const READERS[KEY_ROWS])(const struct reading *reading, const struct node *node) = {
    read_models, read_apis, read_headers, read_stream, read_media, read_tokens,
};

struct keys conditions_keys(bool of_step) { return (struct keys){KEYS, of_step ? KEY_ROWS : MATCH_ROWS}; }

static void read_key(const struct reading *reading, const struct entry *entry, bool of_step)
{
    const char *names[KEY_ROWS];
    size_t count = conditions_keys(of_step).count;
    const char *near;

    for (size_t i = 0; i < count; i++) {
        names[i] = KEYS[i].name;
        if (!coord_slice_is(entry->key, KEYS[i].name))
            continue;
        if (node_is_null(entry->value))
            wrong(reading, entry->at, KEYS[i].name, "has no value");
        else if (!entry->value->broken)
            READERS[i](reading, entry->value);
        return;
    }
    near = nearest_name(entry->key, names, count);
    complain(reading->complaints, COMPLAINT_ERROR, entry->at, "unknown key \"%.*s\" of %s%s%s%s", shown(entry->key),
             entry->key.data, reading->where,
             near      ? ": did you mean \""
             : of_step ? ""
                       : "; it takes models, apis and headers",
             near ? near : "", near ? "\"?" : "");
}

struct conditions conditions_read(struct arena *arena, const struct node *node, const char *where, bool of_step,
                                  struct complaints *complaints)
{
    struct conditions conditions = {.stream = -1, .media = -1};
    struct reading reading = {arena, where, complaints, &conditions};

    if (!node || node_is_null(node) || node->broken)
        return conditions;
    conditions.at = node->at;
    conditions.written = node;
    conditions.given = node->kind != NODE_MAP || node->count > 0;
    if (node->kind != NODE_MAP) {
        complain(complaints, COMPLAINT_ERROR, node->at, "%s takes a map of conditions, such as {models: [\"llama-*\"]}",
                 where);
        return conditions;
    }
    for (size_t i = 0; i < node->count; i++)
        read_key(&reading, &node->entries[i], of_step);
    return conditions;
}

/* ---- Printing ---- */

static bool print_key(struct buffer *out, const char *key, bool *first)
{
    bool printed = buffer_printf(out, "%s%s: ", *first ? "" : ", ", key);

    *first = false;
    return printed;
}

static bool print_texts(struct buffer *out, const coord_slice *texts, size_t count, bool secret)
{
    bool printed = buffer_append_text(out, secret ? "[secret" : "[");

    for (size_t i = 0; i < count && printed && !secret; i++)
        printed = buffer_printf(out, "%s\"%.*s\"", i ? ", " : "", COORD_FMT(texts[i]));
    return printed && buffer_append(out, "]", 1);
}

static bool print_apis(struct buffer *out, uint32_t apis)
{
    bool printed = buffer_append(out, "[", 1), first = true;

    for (size_t i = 0; APIS[i] && printed; i++)
        if (apis >> (i + 1) & 1) {
            printed = buffer_printf(out, "%s%s", first ? "" : ", ", APIS[i]);
            first = false;
        }
    return printed && buffer_append(out, "]", 1);
}

static bool print_headers(struct buffer *out, const struct conditions *conditions)
{
    bool printed = buffer_append(out, "{", 1);

    for (size_t i = 0; i < conditions->header_count && printed; i++) {
        const struct header_condition *header = &conditions->headers[i];

        printed = buffer_printf(out, "%s%.*s: ", i ? ", " : "", COORD_FMT(header->name)) &&
                  print_texts(out, header->values, header->count, header->secret);
    }
    return printed && buffer_append(out, "}", 1);
}

static bool print_tokens(struct buffer *out, const struct conditions *conditions)
{
    bool printed;

    if (conditions->tokens_secret)
        return buffer_append_text(out, "[secret]");
    printed = buffer_append(out, "{", 1);
    if (conditions->min_tokens > 0)
        printed = printed && buffer_printf(out, "min: %llu", (unsigned long long)conditions->min_tokens);
    if (conditions->max_tokens < UINT64_MAX)
        printed = printed && buffer_printf(out, "%smax: %llu", conditions->min_tokens > 0 ? ", " : "",
                                           (unsigned long long)conditions->max_tokens);
    return printed && buffer_append(out, "}", 1);
}

bool conditions_print(const struct conditions *conditions, struct buffer *out)
{
    bool first = true, printed = buffer_append(out, "{", 1);

    if (conditions->model_count > 0)
        printed = printed && print_key(out, "models", &first) &&
                  print_texts(out, conditions->models, conditions->model_count, conditions->models_secret);
    if (conditions->apis != 0)
        printed = printed && print_key(out, "apis", &first) && print_apis(out, conditions->apis);
    if (conditions->header_count > 0)
        printed = printed && print_key(out, "headers", &first) && print_headers(out, conditions);
    if (conditions->stream >= 0)
        printed = printed && print_key(out, "stream", &first) &&
                  buffer_append_text(out, conditions->stream ? "true" : "false");
    if (conditions->media >= 0)
        printed =
            printed && print_key(out, "media", &first) && buffer_append_text(out, conditions->media ? "true" : "false");
    if (conditions->has_tokens)
        printed = printed && print_key(out, "prompt_tokens", &first) && print_tokens(out, conditions);
    return printed && buffer_append(out, "}", 1);
}

/* ---- Implication ---- */

static bool holds_text(const coord_slice *texts, size_t count, coord_slice text)
{
    for (size_t i = 0; i < count; i++)
        if (coord_slice_equal(texts[i], text))
            return true;
    return false;
}

static bool texts_imply(const coord_slice *narrow, size_t narrow_count, const coord_slice *wide, size_t wide_count)
{
    if (wide_count == 0)
        return true;
    for (size_t i = 0; i < narrow_count; i++)
        if (!holds_text(wide, wide_count, narrow[i]))
            return false;
    return narrow_count > 0;
}

static bool headers_imply(const struct conditions *narrow, const struct conditions *wide)
{
    for (size_t i = 0; i < wide->header_count; i++) {
        const struct header_condition *wanted = &wide->headers[i];
        bool implied = false;

        for (size_t k = 0; k < narrow->header_count && !implied; k++)
            implied = coord_slice_equal(narrow->headers[k].name, wanted->name) &&
                      texts_imply(narrow->headers[k].values, narrow->headers[k].count, wanted->values, wanted->count);
        if (!implied)
            return false;
    }
    return true;
}

bool conditions_imply(const struct conditions *narrow, const struct conditions *wide)
{
    return texts_imply(narrow->models, narrow->model_count, wide->models, wide->model_count) &&
           (wide->apis == 0 || (narrow->apis != 0 && (narrow->apis & ~wide->apis) == 0)) &&
           headers_imply(narrow, wide) && (wide->stream < 0 || wide->stream == narrow->stream) &&
           (wide->media < 0 || wide->media == narrow->media) &&
           (!wide->has_tokens ||
            (narrow->has_tokens && narrow->min_tokens >= wide->min_tokens && narrow->max_tokens <= wide->max_tokens));
}
