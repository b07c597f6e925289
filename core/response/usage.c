/* Reading and editing usage blocks (coordinator/usage.h). What differs per API is one row. */
#include <coordinator/usage.h>

#include "json/scanner.h"

#include <stdio.h>
#include <stdlib.h>

enum { DIGITS = 20 }; /* of the largest uint64_t */

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

/* ---- Finding: while the text is validated, nothing is built ---- */

/* The members of the text in which a block may stand. */
enum outer { OUTER_USAGE, OUTER_RESPONSE, OUTER_MESSAGE, OUTERS };

static const coord_slice OUTER_NAMES[OUTERS] = {COORD_SLICE("usage"), COORD_SLICE("response"), COORD_SLICE("message")};

struct outers {
    coord_slice text;
    size_t at[OUTERS]; /* where the value begins; 0: not there */
    bool twice[OUTERS];
};

static bool note_outer(void *context, const struct json_member *member)
{
    struct outers *outers = context;
    coord_slice key = json_slice(outers->text, member->key);

    for (size_t i = 0; i < OUTERS; i++)
        if ((member->escaped || key.size == OUTER_NAMES[i].size + 2) && json_key_is(key, OUTER_NAMES[i])) {
            outers->twice[i] = outers->at[i] != 0;
            outers->at[i] = member->value.begin;
        }
    return true;
}

/* The value of `name` in the object at `at`; 0: not there, or there twice. */
static size_t member_at(coord_slice text, size_t at, const char *name)
{
    struct json_member member;
    size_t cursor = 0, found = 0;

    while (json_next_member(text, at, &cursor, &member))
        if (json_key_is(json_slice(text, member.key), coord_slice_of(name))) {
            if (found)
                return 0;
            found = member.value.begin;
        }
    return found;
}

/* Where the block of a text begins; 0: there is none (a block never stands at the text's first byte). COORD_OK, COORD_INVALID: not JSON. */
static coord_status find_block(coord_slice text, size_t *block)
{
    struct outers outers = {.text = text};

    *block = 0;
    if (!json_validate(text, NULL, note_outer, &outers))
        return COORD_INVALID;
    for (size_t i = 0; i < OUTERS; i++) {
        size_t at = outers.twice[i] ? 0 : outers.at[i];

        if (at && i != OUTER_USAGE)
            at = text.data[at] == '{' ? member_at(text, at, "usage") : 0;
        if (at && text.data[at] == '{') {
            *block = at;
            break;
        }
    }
    return COORD_OK;
}

/* ---- Reading ---- */

/* Digits only, 0 … 2^53 (decision 25). */
static bool count_of(coord_slice text, uint64_t *count)
{
    uint64_t value = 0;

    if (text.size == 0 || text.size > 16)
        return false;
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
        value = 10 * value + (uint64_t)(text.data[i] - '0');
    }
    *count = value;
    return value <= UINT64_C(1) << 53;
}

/* The counts of a block that we know, as it spells them. */
struct counts {
    uint64_t prompt, output, total, cached, input, cache_read, cache_creation;
    unsigned said, seen;
};
enum {
    SAID_PROMPT = 1,
    SAID_OUTPUT = 2,
    SAID_TOTAL = 4,
    SAID_CACHED = 8,
    SAID_INPUT = 16,
    SAID_CACHE_READ = 32,
    SAID_CACHE_CREATION = 64,
    SEEN_DETAILS = 128
};

/* What stands twice says nothing: readers differ in which one they take. */
static bool seen_before(struct counts *counts, unsigned what, unsigned unsaid)
{
    bool before = (counts->seen & what) != 0;

    counts->seen |= what;
    if (before)
        counts->said &= ~unsaid;
    return before;
}

static void take_count(struct counts *counts, unsigned what, uint64_t *place, coord_slice value)
{
    if (!seen_before(counts, what, what) && count_of(value, place))
        counts->said |= what;
}

static void read_details(coord_slice text, size_t at, struct counts *counts)
{
    size_t value;

    if (seen_before(counts, SEEN_DETAILS, SAID_CACHED) || text.data[at] != '{')
        return;
    value = member_at(text, at, "cached_tokens");
    if (value)
        take_count(counts, SAID_CACHED, &counts->cached,
                   (coord_slice){text.data + value, json_skip_value(text, value) - value});
}

static void read_counts(const struct usage_row *row, coord_slice text, size_t block, struct counts *counts)
{
    struct json_member member;
    size_t cursor = 0;

    while (json_next_member(text, block, &cursor, &member)) {
        coord_slice key = json_slice(text, member.key), value = json_slice(text, member.value);

        if (row->prompt && json_key_is(key, coord_slice_of(row->prompt)))
            take_count(counts, SAID_PROMPT, &counts->prompt, value);
        else if (json_key_is(key, coord_slice_of(row->output)))
            take_count(counts, SAID_OUTPUT, &counts->output, value);
        else if (json_key_is(key, (coord_slice)COORD_SLICE("total_tokens")))
            take_count(counts, SAID_TOTAL, &counts->total, value);
        else if (row->details && json_key_is(key, coord_slice_of(row->details)))
            read_details(text, member.value.begin, counts);
        else if (!row->prompt && json_key_is(key, (coord_slice)COORD_SLICE("input_tokens")))
            take_count(counts, SAID_INPUT, &counts->input, value);
        else if (!row->prompt && json_key_is(key, (coord_slice)COORD_SLICE("cache_read_input_tokens")))
            take_count(counts, SAID_CACHE_READ, &counts->cache_read, value);
        else if (!row->prompt && json_key_is(key, (coord_slice)COORD_SLICE("cache_creation_input_tokens")))
            take_count(counts, SAID_CACHE_CREATION, &counts->cache_creation, value);
    }
}

static void merge(coord_usage *usage, uint32_t what, uint64_t *place, bool said, uint64_t count)
{
    if (!said)
        return;
    usage->said |= what;
    *place = count;
}

/* Messages: the prompt is the sum of three, which may come in different events; an input count begins a new snapshot. */
static void merge_messages(coord_usage *usage, const struct counts *counts)
{
    if (counts->said & SAID_INPUT) {
        usage->parts = COORD_USAGE_INPUT;
        usage->input = counts->input;
        usage->cache_read = usage->cache_creation = 0;
    }
    if (counts->said & SAID_CACHE_READ) {
        usage->parts |= COORD_USAGE_CACHE_READ;
        usage->cache_read = counts->cache_read;
    }
    if (counts->said & SAID_CACHE_CREATION) {
        usage->parts |= COORD_USAGE_CACHE_CREATION;
        usage->cache_creation = counts->cache_creation;
    }
    merge(usage, COORD_USAGE_PROMPT, &usage->prompt, (usage->parts & COORD_USAGE_INPUT) != 0,
          usage->input + usage->cache_read + usage->cache_creation);
    merge(usage, COORD_USAGE_CACHED, &usage->cached, (usage->parts & COORD_USAGE_CACHE_READ) != 0, usage->cache_read);
}

coord_status coord_usage_read(int32_t api, coord_slice json, coord_usage *usage)
{
    const struct usage_row *row = row_of(api);
    coord_usage read = {.size = sizeof read};
    size_t known = usage->size < sizeof read ? usage->size : sizeof read;
    uint32_t size = usage->size;
    struct counts counts = {0};
    size_t block;

    if (find_block(json, &block) != COORD_OK)
        return COORD_INVALID;
    if (block == 0)
        return COORD_ABSENT;
    memcpy(&read, usage, known);
    read_counts(row, json, block, &counts);
    merge(&read, COORD_USAGE_PROMPT, &read.prompt, (counts.said & SAID_PROMPT) != 0, counts.prompt);
    merge(&read, COORD_USAGE_OUTPUT, &read.output, (counts.said & SAID_OUTPUT) != 0, counts.output);
    merge(&read, COORD_USAGE_TOTAL, &read.total, (counts.said & SAID_TOTAL) != 0, counts.total);
    merge(&read, COORD_USAGE_CACHED, &read.cached, (counts.said & SAID_CACHED) != 0, counts.cached);
    if (!row->prompt)
        merge_messages(&read, &counts);
    memcpy(usage, &read, known);
    usage->size = size;
    return counts.said ? COORD_OK : COORD_ABSENT;
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

/* Edits by the document: something has to be added, or more than one number changes. */
static coord_status edit_document(const struct usage_row *row, coord_slice json, uint64_t cached, char **edited,
                                  size_t *size)
{
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

/* The cached count where it stands as the only one; empty: it does not. */
static coord_slice cached_in(const struct usage_row *row, coord_slice json, size_t block)
{
    size_t details = row->details ? member_at(json, block, row->details) : 0;
    size_t value = details && json.data[details] == '{' ? member_at(json, details, "cached_tokens") : 0;

    return value ? (coord_slice){json.data + value, json_skip_value(json, value) - value} : (coord_slice){0};
}

/* The text with `number` in the place of `old`, which is a part of it. */
static coord_status replace(coord_slice json, coord_slice old, uint64_t number, char **edited, size_t *size)
{
    char digits[DIGITS];
    size_t before = (size_t)(old.data - json.data), behind = json.size - before - old.size, first = DIGITS;

    do
        digits[--first] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    *size = before + (DIGITS - first) + behind;
    *edited = malloc(*size);
    if (!*edited)
        return COORD_NO_MEMORY;
    memcpy(*edited, json.data, before);
    memcpy(*edited + before, digits + first, DIGITS - first);
    memcpy(*edited + before + (DIGITS - first), old.data + old.size, behind);
    return COORD_OK;
}

coord_status coord_usage_edit_cached(int32_t api, coord_slice json, uint64_t cached, char **edited, size_t *size)
{
    const struct usage_row *row = row_of(api);
    coord_slice old;
    uint64_t was;
    size_t block;

    if (find_block(json, &block) != COORD_OK)
        return COORD_INVALID;
    if (block == 0)
        return COORD_END;
    old = cached_in(row, json, block);
    if (old.size == 0)
        return edit_document(row, json, cached, edited, size);
    return count_of(old, &was) && was == cached ? COORD_END : replace(json, old, cached, edited, size);
}
