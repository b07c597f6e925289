/* Reading and editing usage blocks (coordinator/usage.h). What differs per API is one row. */
#include <coordinator/usage.h>

#include <stdio.h>
#include <stdlib.h>

/* Where a block may stand; the first object wins. */
static const char *const PLACES[] = {"/usage", "/response/usage", "/message/usage"};

/* How an API spells its counts, below the block. */
struct usage_row {
    int32_t api;
    const char *prompt; /* NULL: the sum of Messages */
    const char *output;
    const char *details; /* the object that holds the cached count; NULL: none */
};

static const struct usage_row ROWS[] = {
    {COORD_API_CHAT_COMPLETIONS, "prompt_tokens", "completion_tokens", "prompt_tokens_details"},
    {COORD_API_COMPLETIONS, "prompt_tokens", "completion_tokens", "prompt_tokens_details"},
    {COORD_API_GENERATE, "prompt_tokens", "completion_tokens", "prompt_tokens_details"},
    {COORD_API_RESPONSES, "input_tokens", "output_tokens", "input_tokens_details"},
    {COORD_API_MESSAGES, NULL, "output_tokens", NULL},
};

static const struct usage_row *row_of(int32_t api)
{
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++)
        if (ROWS[i].api == api)
            return &ROWS[i];
    return &ROWS[0];
}

bool coord_usage_maybe(coord_slice bytes)
{
    return bytes.size > 0 && memmem(bytes.data, bytes.size, "usage", 5) != NULL;
}

static const char *place_of(coord_document *document)
{
    for (size_t i = 0; i < sizeof PLACES / sizeof *PLACES; i++)
        if (coord_document_type(document, PLACES[i]) == COORD_JSON_OBJECT)
            return PLACES[i];
    return NULL;
}

static bool count_at(coord_document *document, const char *place, const char *name, uint64_t *count)
{
    char at[128];

    snprintf(at, sizeof at, "%s/%s", place, name);
    return coord_document_get_count(document, at, count) == COORD_OK;
}

/* Takes a count over if the block says it. */
static void take(coord_document *document, const char *place, const char *name, coord_usage *usage, uint32_t what,
                 uint64_t *count)
{
    if (count_at(document, place, name, count))
        usage->said |= what;
}

/* Messages: the prompt is the sum of three, which may come in different events. */
static void read_messages(coord_document *document, const char *place, coord_usage *usage)
{
    static const struct {
        const char *name;
        uint32_t part;
        size_t offset;
    } PARTS[] = {
        {"input_tokens", COORD_USAGE_INPUT, offsetof(coord_usage, input)},
        {"cache_read_input_tokens", COORD_USAGE_CACHE_READ, offsetof(coord_usage, cache_read)},
        {"cache_creation_input_tokens", COORD_USAGE_CACHE_CREATION, offsetof(coord_usage, cache_creation)},
    };
    uint64_t count;

    if (count_at(document, place, PARTS[0].name,
                 &count)) { /* a block with an input count is a whole snapshot of the prompt */
        usage->parts = 0;
        usage->cache_read = usage->cache_creation = 0;
    }
    for (size_t i = 0; i < sizeof PARTS / sizeof *PARTS; i++)
        if (count_at(document, place, PARTS[i].name, &count)) {
            usage->parts |= PARTS[i].part;
            memcpy((char *)usage + PARTS[i].offset, &count, sizeof count);
        }
    if (usage->parts & COORD_USAGE_INPUT) {
        usage->said |= COORD_USAGE_PROMPT;
        usage->prompt = usage->input + usage->cache_read + usage->cache_creation;
    }
    if (usage->parts & COORD_USAGE_CACHE_READ) {
        usage->said |= COORD_USAGE_CACHED;
        usage->cached = usage->cache_read;
    }
}

static void read_block(const struct usage_row *row, coord_document *document, const char *place, coord_usage *usage)
{
    char details[64];

    take(document, place, row->output, usage, COORD_USAGE_OUTPUT, &usage->output);
    take(document, place, "total_tokens", usage, COORD_USAGE_TOTAL, &usage->total);
    if (!row->prompt) {
        read_messages(document, place, usage);
        return;
    }
    take(document, place, row->prompt, usage, COORD_USAGE_PROMPT, &usage->prompt);
    snprintf(details, sizeof details, "%s/cached_tokens", row->details);
    take(document, place, details, usage, COORD_USAGE_CACHED, &usage->cached);
}

coord_status coord_usage_read(int32_t api, coord_slice json, coord_usage *usage)
{
    coord_usage read = {.size = sizeof read};
    coord_document *document = coord_document_parse_new(json, NULL, NULL);
    size_t known = usage->size < sizeof read ? usage->size : sizeof read;
    const char *place = document ? place_of(document) : NULL;
    uint32_t size = usage->size;

    memcpy(&read, usage, known);
    if (place)
        read_block(row_of(api), document, place, &read);
    coord_document_free(document);
    if (!document)
        return COORD_INVALID;
    memcpy(usage, &read, known);
    usage->size = size;
    return place && read.said ? COORD_OK : COORD_ABSENT;
}

bool coord_usage_is_frame(coord_slice json)
{
    coord_document *document = coord_document_parse_new(json, NULL, NULL);
    bool is = document && coord_document_type(document, "/usage") == COORD_JSON_OBJECT &&
              coord_document_type(document, "/choices") == COORD_JSON_ARRAY &&
              coord_document_count(document, "/choices") == 0;

    coord_document_free(document);
    return is;
}

/* ---- Editing ---- */

static coord_status set_count(coord_document *document, const char *place, const char *name, uint64_t value)
{
    char at[128];

    snprintf(at, sizeof at, "%s/%s", place, name);
    return coord_document_set_int(document, at, (int64_t)value);
}

/* COORD_END: it says so already. */
static coord_status edit_details(const struct usage_row *row, coord_document *document, const char *place,
                                 uint64_t cached)
{
    char details[96], member[96];
    uint64_t was;
    coord_status status;

    snprintf(details, sizeof details, "%s/%s", place, row->details);
    snprintf(member, sizeof member, "%s/cached_tokens", row->details);
    if (count_at(document, place, member, &was) && was == cached)
        return COORD_END;
    if (coord_document_type(document, details) != COORD_JSON_OBJECT) {
        status = coord_document_set(document, details, (coord_slice)COORD_SLICE("{}"));
        if (status != COORD_OK)
            return status;
    }
    return set_count(document, place, member, cached);
}

/* The sum of the three stays; only what a clamp cuts is lost. A block without an input count has no prompt to speak of. */
static coord_status edit_messages(coord_document *document, const char *place, uint64_t cached)
{
    uint64_t input = 0, read = 0, creation = 0, sum;
    bool has_read;
    coord_status status = COORD_OK;

    if (!count_at(document, place, "input_tokens", &input))
        return COORD_END;
    has_read = count_at(document, place, "cache_read_input_tokens", &read);
    (void)count_at(document, place, "cache_creation_input_tokens", &creation);
    sum = input + read + creation;
    if (has_read && read == cached)
        return COORD_END;
    if (sum - creation != input + read || cached > sum - creation)
        sum = cached + creation;
    if (sum - cached - creation != input)
        status = set_count(document, place, "input_tokens", sum - cached - creation);
    return status == COORD_OK ? set_count(document, place, "cache_read_input_tokens", cached) : status;
}

coord_status coord_usage_edit_cached(int32_t api, coord_slice json, uint64_t cached, char **edited, size_t *size)
{
    const struct usage_row *row = row_of(api);
    coord_document *document = coord_document_parse_new(json, NULL, NULL);
    const char *place = document ? place_of(document) : NULL;
    coord_status status = COORD_END;
    coord_slice text;

    if (!document)
        return COORD_INVALID;
    if (place)
        status = row->prompt ? edit_details(row, document, place, cached) : edit_messages(document, place, cached);
    if (status == COORD_OK)
        status = coord_document_text(document, &text);
    if (status == COORD_OK) {
        *edited = malloc(text.size ? text.size : 1);
        *size = text.size;
        if (*edited)
            memcpy(*edited, text.data, text.size);
        else
            status = COORD_NO_MEMORY;
    }
    coord_document_free(document);
    return status == COORD_REPEATED || status == COORD_MISTYPED ? COORD_INVALID : status;
}
