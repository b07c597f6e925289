/*
 * The step `redact`: takes words out of what the model says, in event streams and in JSON, also where a word comes in parts.
 *
 * A rewriting writer. An event in whose text a word may have begun is held until the next ones show whether it has, and with it
 * all that come after; then they go on, each with its own bytes, a match apart. An event that has none is the worker's, byte for byte.
 * What is held is bounded. What this writer cannot look into it does not let through: the client sees the answer cut. (What a
 * worker compresses although it was asked not to, no writer sees: see coordinator/response.h.)
 * Which texts there are is told by one table. Not among them: arguments of tools, log probabilities, and token ids.
 */
#define _POSIX_C_SOURCE 200809L /* strndup beside plain C11 */
#include "words.h"

#include <coordinator/document.h>
#include <coordinator/plugin.h>
#include <coordinator/response.h>
#include <coordinator/sse.h>

#include <stdio.h>
#include <stdlib.h>

enum { POINTER_ROOM = 128, BODY_LIMIT = 16 << 20 }; /* a JSON answer; with it one event of a stream */

struct redact {
    struct words words;
    uint64_t max_held;
};

static const coord_param params[] = {
    {COORD_PARAM(STRING_LIST, "words", "What is taken out."), .flags = COORD_PARAM_REQUIRED},
    {COORD_PARAM(STRING, "replacement", "What stands there instead."), .fallback = "[redacted]"},
    {COORD_PARAM(BOOL, "ignore_case", "Whether the case of the letters a to z makes no difference."),
     .fallback = "true"},
    {COORD_PARAM(SIZE, "max_held", "Bytes of events that may wait for the rest of a word."), .fallback = "256KiB",
     .minimum = 1, .maximum = INT64_MAX},
};

/* ---- Where texts stand ---- */

enum { SAID, THOUGHT };
enum { KEYS = 2 };

/* `*` in a pointer is any index; in `keys` it is the same one as in `text`. */
struct place {
    int32_t api;
    const char *text;
    const char *keys[KEYS]; /* numbers that tell which run goes on here; none: the text is whole */
    int kind;               /* runs of different kinds are different */
    const char *type;       /* only in events of this `type`; NULL: any */
};

#define CHOICE .keys = {"/choices/*/index"}
static const struct place places[] = {
    {COORD_API_CHAT_COMPLETIONS, "/choices/*/delta/content", CHOICE, .kind = SAID},
    {COORD_API_CHAT_COMPLETIONS, "/choices/*/delta/reasoning", CHOICE, .kind = THOUGHT},
    {COORD_API_CHAT_COMPLETIONS, "/choices/*/delta/reasoning_content", CHOICE, .kind = THOUGHT},
    {COORD_API_CHAT_COMPLETIONS, "/choices/*/message/content", .kind = SAID},
    {COORD_API_CHAT_COMPLETIONS, "/choices/*/message/reasoning", .kind = SAID},
    {COORD_API_CHAT_COMPLETIONS, "/choices/*/message/reasoning_content", .kind = SAID},
    {COORD_API_COMPLETIONS, "/choices/*/text", CHOICE, .kind = SAID},
    {COORD_API_RESPONSES, "/delta", {"/output_index", "/content_index"}, SAID, "response.output_text.delta"},
    {COORD_API_RESPONSES, "/delta", {"/output_index", "/content_index"}, THOUGHT, "response.reasoning_text.delta"},
    {COORD_API_RESPONSES, "/text", .kind = SAID},
    {COORD_API_RESPONSES, "/part/text", .kind = SAID},
    {COORD_API_RESPONSES, "/item/content/*/text", .kind = SAID},
    {COORD_API_RESPONSES, "/response/output/*/content/*/text", .kind = SAID},
    {COORD_API_RESPONSES, "/output/*/content/*/text", .kind = SAID},
    {COORD_API_MESSAGES, "/content_block/text", {"/index"}, .kind = SAID},
    {COORD_API_MESSAGES, "/delta/text", {"/index"}, .kind = SAID},
    {COORD_API_MESSAGES, "/delta/thinking", {"/index"}, .kind = THOUGHT},
    {COORD_API_MESSAGES, "/content/*/text", .kind = SAID},
    {COORD_API_MESSAGES, "/content/*/thinking", .kind = SAID},
};

/* Where it says that the runs with those keys are over. `[DONE]` and the answer's end say so of all. */
static const struct ending {
    int32_t api;
    const char *at;
    const char *is; /* NULL: any text */
    const char *keys[KEYS];
} endings[] = {
    {COORD_API_CHAT_COMPLETIONS, "/choices/*/finish_reason", NULL, {"/choices/*/index"}},
    {COORD_API_COMPLETIONS, "/choices/*/finish_reason", NULL, {"/choices/*/index"}},
    {COORD_API_RESPONSES, "/type", "response.output_text.done", {"/output_index", "/content_index"}},
    {COORD_API_RESPONSES, "/type", "response.reasoning_text.done", {"/output_index", "/content_index"}},
    {COORD_API_MESSAGES, "/type", "content_block_stop", {"/index"}},
};

/* ---- What is held ---- */

/* A text in an event. */
struct spot {
    struct spot *next;
    struct piece piece;
    char pointer[POINTER_ROOM];
};

/* An event, or a whole JSON answer. */
struct held {
    struct held *next;
    char *raw;
    size_t size, data_at, data_size; /* its JSON in `raw` */
    coord_document *document;        /* NULL: it has none */
    struct spot *spots;
};

/* A text that goes on from event to event. It is here only while letters of it are undecided. */
struct open_run {
    struct open_run *next;
    int kind;
    uint64_t keys[KEYS];
    struct run run;
};

struct redactor {
    const struct redact *redact;
    coord_writer *writer; /* inside a call of the core */
    int32_t api;
    coord_sse *sse;    /* of an event stream; else NULL */
    struct held *body; /* of JSON: it gathers here */
    struct held *first, **last;
    size_t held_bytes;
    struct open_run *runs;
    bool cut; /* the answer was ended here */
};

static void held_free(struct held *held)
{
    for (struct spot *spot = held->spots, *next; spot; spot = next) {
        next = spot->next;
        piece_free(&spot->piece);
        free(spot);
    }
    coord_document_free(held->document);
    free(held->raw);
    free(held);
}

static bool held_add(struct held *held, coord_slice bytes)
{
    char *grown = realloc(held->raw, held->size + bytes.size + 1);

    if (!grown)
        return false;
    held->raw = grown;
    memcpy(held->raw + held->size, bytes.data, bytes.size);
    held->size += bytes.size;
    return true;
}

/* The end of an answer that must not go on. */
static bool cut_answer(struct redactor *redactor, const char *why)
{
    if (!redactor->cut) {
        coord_logf(coord_writer_request(redactor->writer), COORD_LOG_WARNING, "redact: the answer is cut: %s", why);
        redactor->cut = true;
        coord_writer_pass_abort(redactor->writer);
    }
    return false;
}

/* ---- Passing on ---- */

static bool is_decided(const struct held *held)
{
    for (const struct spot *spot = held->spots; spot; spot = spot->next)
        if (spot->piece.undecided > 0)
            return false;
    return true;
}

/* Puts what is left of its texts into the event's JSON. False: memory is short. */
static bool splice(struct held *held, const struct words *words, bool *changed)
{
    bool done = true;

    for (struct spot *spot = held->spots; spot && done; spot = spot->next) {
        size_t size = 0;
        char *text;

        if (spot->piece.cut_count == 0)
            continue;
        text = piece_text_new(&spot->piece, words, &size);
        done = text && coord_document_set(held->document, spot->pointer, (coord_slice){text, size}) == COORD_OK;
        free(text);
        *changed = true;
    }
    return done;
}

static bool pass_held(struct redactor *redactor, struct held *held)
{
    coord_writer *writer = redactor->writer;
    size_t after = held->data_at + held->data_size;
    bool changed = false;
    coord_slice json;

    if (!splice(held, &redactor->redact->words, &changed))
        return cut_answer(redactor, "memory is short");
    if (!changed) {
        coord_writer_pass(writer, (coord_slice){held->raw, held->size});
        return true;
    }
    if (coord_document_text(held->document, &json) != COORD_OK)
        return cut_answer(redactor, "memory is short");
    coord_writer_pass(writer, (coord_slice){held->raw, held->data_at});
    coord_writer_pass(writer, json);
    coord_writer_pass(writer, (coord_slice){held->raw + after, held->size - after});
    return true;
}

/* Passes on what is decided, in order. */
static bool pass_decided(struct redactor *redactor)
{
    struct held *held;
    bool passed = true;

    while (passed && (held = redactor->first) != NULL && is_decided(held)) {
        passed = pass_held(redactor, held);
        redactor->first = held->next;
        redactor->held_bytes -= held->size;
        held_free(held);
    }
    if (!redactor->first)
        redactor->last = &redactor->first;
    if (passed && redactor->held_bytes > redactor->redact->max_held)
        return cut_answer(redactor, "more than max_held waits for the rest of a word");
    return passed;
}

/* ---- Runs ---- */

static struct run *run_with(struct redactor *redactor, int kind, const uint64_t *keys)
{
    struct open_run *open = redactor->runs;

    while (open && (open->kind != kind || memcmp(open->keys, keys, sizeof open->keys) != 0))
        open = open->next;
    if (!open && (open = calloc(1, sizeof *open)) != NULL) {
        open->kind = kind;
        memcpy(open->keys, keys, sizeof open->keys);
        open->next = redactor->runs;
        redactor->runs = open;
    }
    return open ? &open->run : NULL;
}

/* Settles the runs with those keys (NULL: all), and forgets those of which nothing is undecided. */
static bool settle(struct redactor *redactor, const uint64_t *keys)
{
    for (struct open_run *open = redactor->runs; open; open = open->next)
        if ((!keys || memcmp(open->keys, keys, sizeof open->keys) == 0) &&
            !run_settle(&open->run, &redactor->redact->words))
            return cut_answer(redactor, "memory is short");
    return true;
}

static void forget_runs(struct redactor *redactor, bool all)
{
    for (struct open_run **link = &redactor->runs, *open; (open = *link) != NULL;)
        if (all || open->run.count == 0) {
            *link = open->next;
            run_free(&open->run);
            free(open);
        } else {
            link = &open->next;
        }
}

/* ---- Looking into JSON ---- */

/* The pointer with its stars replaced, up to the star number `stars` (the way to the array). */
static void fill(char *pointer, const char *pattern, const size_t *indexes, int stars)
{
    int size = 0, star = 0;

    for (; *pattern && size < POINTER_ROOM - 24; pattern++)
        if (*pattern != '*')
            pointer[size++] = *pattern;
        else if (star == stars)
            break;
        else
            size += snprintf(pointer + size, 24, "%zu", indexes[star++]);
    if (*pattern == '*')
        size--; /* the slash in front of it */
    pointer[size] = '\0';
}

static void read_keys(coord_document *document, const char *const *patterns, const size_t *indexes, uint64_t *keys)
{
    char pointer[POINTER_ROOM];

    for (int i = 0; i < KEYS; i++) {
        keys[i] = 0;
        if (!patterns[i])
            continue;
        fill(pointer, patterns[i], indexes, KEYS);
        if (coord_document_get_count(document, pointer, &keys[i]) != COORD_OK)
            keys[i] = 0;
    }
}

/* Whatever fits the pattern, one after another: `found` gets its pointer and indexes. False: stop. */
typedef bool found(struct redactor *redactor, struct held *held, const void *row, const char *pointer,
                   const size_t *indexes);

/* How many there are in the array. A way to it that is there twice would be read either way. */
static bool count_at(struct redactor *redactor, struct held *held, const char *pointer, size_t *count)
{
    coord_slice json;

    if (coord_document_get(held->document, pointer, &json) == COORD_REPEATED)
        return cut_answer(redactor, "a member stands there twice");
    *count = coord_document_count(held->document, pointer);
    return true;
}

static bool each(struct redactor *redactor, struct held *held, const char *pattern, found *what, const void *row)
{
    const char *star = strchr(pattern, '*');
    bool second = star && strchr(star + 1, '*');
    size_t indexes[2] = {0, 0}, counts[2] = {1, 1};
    char pointer[POINTER_ROOM];

    if (star) {
        fill(pointer, pattern, indexes, 0);
        if (!count_at(redactor, held, pointer, &counts[0]))
            return false;
    }
    for (indexes[0] = 0; indexes[0] < counts[0]; indexes[0]++) {
        if (second) {
            fill(pointer, pattern, indexes, 1);
            if (!count_at(redactor, held, pointer, &counts[1]))
                return false;
        }
        for (indexes[1] = 0; indexes[1] < counts[1]; indexes[1]++) {
            fill(pointer, pattern, indexes, 2);
            if (!what(redactor, held, row, pointer, indexes))
                return false;
        }
    }
    return true;
}

static bool has_type(struct held *held, const char *type)
{
    coord_slice is;

    return !type || (coord_document_get_string(held->document, "/type", &is) == COORD_OK && coord_slice_is(is, type));
}

static bool take_text(struct redactor *redactor, struct held *held, const void *row, const char *pointer,
                      const size_t *indexes)
{
    const struct words *words = &redactor->redact->words;
    const struct place *place = row;
    uint64_t keys[KEYS];
    struct spot *spot;
    struct run whole = {0}, *run = &whole;
    coord_slice json;
    coord_status status = coord_document_get(held->document, pointer, &json);
    bool added;

    if (status == COORD_REPEATED)
        return cut_answer(redactor, "a text stands there twice");
    if (status != COORD_OK || json.size < 2 || json.data[0] != '"')
        return true;
    spot = calloc(1, sizeof *spot);
    if (!spot)
        return cut_answer(redactor, "memory is short");
    spot->piece.json = json;
    memcpy(spot->pointer, pointer, strlen(pointer) + 1);
    spot->next = held->spots;
    held->spots = spot;
    if (place->keys[0] && !redactor->body) {
        read_keys(held->document, place->keys, indexes, keys);
        run = run_with(redactor, place->kind, keys);
    }
    added = run && run_add(run, &spot->piece, words) && (run != &whole || run_settle(&whole, words));
    run_free(&whole);
    return added || cut_answer(redactor, "memory is short");
}

static bool take_ending(struct redactor *redactor, struct held *held, const void *row, const char *pointer,
                        const size_t *indexes)
{
    const struct ending *ending = row;
    uint64_t keys[KEYS];
    coord_slice text;

    if (coord_document_get_string(held->document, pointer, &text) != COORD_OK ||
        (ending->is && !coord_slice_is(text, ending->is)))
        return true;
    read_keys(held->document, ending->keys, indexes, keys);
    return settle(redactor, keys);
}

/* Finds the texts of its JSON, and which ones it says are over. */
static bool look_into(struct redactor *redactor, struct held *held)
{
    held->document = coord_document_parse_new((coord_slice){held->raw + held->data_at, held->data_size}, NULL, NULL);
    if (!held->document)
        return cut_answer(redactor, "it is no JSON");
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (places[i].api == redactor->api && has_type(held, places[i].type) &&
            !each(redactor, held, places[i].text, take_text, &places[i]))
            return false;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (endings[i].api == redactor->api && !each(redactor, held, endings[i].at, take_ending, &endings[i]))
            return false;
    return true;
}

/* ---- The writer ---- */

static bool take_event(struct redactor *redactor, const coord_sse_event *event)
{
    struct held *held;
    bool looked;

    if (event->data.size > 0 && event->data_raw.size == 0)
        return cut_answer(redactor, "an event has its data on several lines");
    held = calloc(1, sizeof *held);
    if (!held || !held_add(held, event->raw)) {
        free(held);
        return cut_answer(redactor, "memory is short");
    }
    *redactor->last = held;
    redactor->last = &held->next;
    redactor->held_bytes += held->size;
    if (event->data_raw.size > 0) {
        held->data_at = (size_t)(event->data_raw.data - event->raw.data);
        held->data_size = event->data_raw.size;
    }
    if (coord_sse_is_done(event))
        looked = settle(redactor, NULL);
    else
        looked = held->data_size == 0 || look_into(redactor, held); /* a comment has nothing to look into */
    forget_runs(redactor, false);
    return looked && pass_decided(redactor);
}

static void redact_head(coord_writer *writer, coord_head *head)
{
    struct redactor *redactor = coord_writer_state(writer);

    bool events = coord_head_is_event_stream(head), json = coord_head_is_json(head);

    if (coord_head_status(head) != 200) {
        coord_writer_skip(writer); /* an error: nothing that a model said */
        return;
    }
    if (events)
        redactor->sse = coord_sse_new(BODY_LIMIT);
    else if (json)
        redactor->body = calloc(1, sizeof *redactor->body);
    redactor->writer = writer;
    coord_writer_pass_head(writer, head);
    if (!redactor->sse && !redactor->body)
        cut_answer(redactor, events || json ? "memory is short" : "its Content-Type is neither events nor JSON");
}

static void redact_data(coord_writer *writer, coord_slice bytes)
{
    struct redactor *redactor = coord_writer_state(writer);
    coord_sse_event event = {.size = sizeof event};
    coord_status status;

    redactor->writer = writer;
    if (redactor->cut)
        return;
    if (redactor->body) {
        if (redactor->body->size + bytes.size > BODY_LIMIT || !held_add(redactor->body, bytes))
            cut_answer(redactor, "it is too long");
        return;
    }
    status = coord_sse_feed(redactor->sse, bytes);
    while (status == COORD_OK && (status = coord_sse_next(redactor->sse, &event)) == COORD_OK)
        if (!take_event(redactor, &event))
            return;
    if (status != COORD_END)
        cut_answer(redactor, "an event is too long, or memory is short");
}

static bool end_stream(struct redactor *redactor)
{
    coord_sse_event event = {.size = sizeof event};

    while (coord_sse_last(redactor->sse, &event) == COORD_OK) /* an event whose blank line is missing */
        if (!take_event(redactor, &event))
            return false;
    return settle(redactor, NULL) && pass_decided(redactor);
}

static bool end_body(struct redactor *redactor)
{
    redactor->body->data_size = redactor->body->size;
    return look_into(redactor, redactor->body) && pass_held(redactor, redactor->body);
}

static void redact_end(coord_writer *writer)
{
    struct redactor *redactor = coord_writer_state(writer);

    redactor->writer = writer;
    if (!redactor->cut && (redactor->body ? end_body(redactor) : end_stream(redactor)))
        coord_writer_pass_end(writer);
}

static void redact_free(coord_writer *writer)
{
    struct redactor *redactor = coord_writer_state(writer);

    for (struct held *held = redactor->first, *next; held; held = next) {
        next = held->next;
        held_free(held);
    }
    if (redactor->body)
        held_free(redactor->body);
    forget_runs(redactor, true);
    coord_sse_free(redactor->sse);
}

static const coord_writer_type writer_type = {
    .size = sizeof writer_type,
    .flags = COORD_WRITER_REWRITES | COORD_WRITER_READS_BODY,
    .name = "redact",
    .head = redact_head,
    .data = redact_data,
    .end = redact_end,
    .free = redact_free,
};

/* ---- The step ---- */

static coord_status redact_execute(void *state, coord_request *request)
{
    struct redactor *redactor = coord_request_alloc(request, sizeof *redactor);

    if (!redactor)
        return coord_fail(request, 500, NULL, "memory is short");
    redactor->redact = state;
    redactor->api = coord_request_api(request);
    redactor->last = &redactor->first;
    return coord_request_wrap(request, &writer_type, redactor);
}

static void redact_destroy(void *state)
{
    struct redact *redact = state;

    for (size_t i = 0; i < redact->words.count; i++)
        free(redact->words.list[i]);
    free(redact->words.list);
    free(redact->words.replacement);
    free(redact);
}

static coord_status read_words(const coord_config *config, struct words *words, coord_error *error)
{
    coord_slice key, word;
    size_t count = 0;

    while (coord_config_entry(config, "words", count, &key, &word) == COORD_OK)
        if (count++, word.size == 0)
            return coord_error_set(error, "a word is empty");
    words->list = calloc(count + 1, sizeof *words->list);
    while (words->list && coord_config_entry(config, "words", words->count, &key, &word) == COORD_OK) {
        words->list[words->count] = strndup(word.data, word.size);
        if (!words->list[words->count])
            break;
        words->count++;
    }
    return words->count == count ? COORD_OK : coord_error_set(error, "memory is short");
}

/* The replacement is escaped once, here. */
static coord_status read_replacement(const coord_config *config, struct words *words)
{
    coord_json *json = coord_json_new();
    coord_slice text;
    coord_status status = coord_config_string(config, "replacement", &text);

    coord_json_string(json, text);
    if (status == COORD_OK)
        status = coord_json_end(json, &text);
    if (status == COORD_OK) {
        words->replacement = strndup(text.data + 1, text.size - 2); /* without its quotes */
        words->replacement_size = text.size - 2;
        status = words->replacement ? COORD_OK : COORD_NO_MEMORY;
    }
    coord_json_free(json);
    return status;
}

static coord_status redact_create(const coord_config *config, void **state, coord_error *error)
{
    struct redact *redact = calloc(1, sizeof *redact);

    if (!redact)
        return coord_error_set(error, "memory is short");
    if (read_words(config, &redact->words, error) != COORD_OK || read_replacement(config, &redact->words) != COORD_OK ||
        coord_config_bool(config, "ignore_case", &redact->words.ignore_case) != COORD_OK ||
        coord_config_size(config, "max_held", &redact->max_held) != COORD_OK) {
        redact_destroy(redact);
        return coord_error_set(error, "the params cannot be used");
    }
    *state = redact;
    return COORD_OK;
}

static const coord_step_type redact_step = {
    .size = sizeof redact_step,
    .name = "redact",
    .help = "Takes words out of what the model says.",
    COORD_STEP_PARAMS(params),
    .create = redact_create,
    .execute = redact_execute,
    .destroy = redact_destroy,
};

static const coord_step_type *const steps[] = {&redact_step, NULL};

COORD_PLUGIN(.name = "redact", .version = "1.0", .licence = "Apache-2.0", .steps = steps)
