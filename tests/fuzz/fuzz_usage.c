/*
 * Fuzzes the writers of usage: an answer goes through editor and observer whole and in pieces. What the client gets and what
 * was observed is the same both times, and what a simple model says: the answer but for the number, the member or the frame.
 *
 * The model trusts the validation of JSON (fuzzed elsewhere) and finds everything else by itself. It does not unescape names:
 * answers with an escape in them are only run, and so are those with a fingerprint (response/last_event.h).
 * Input: API and options, the cached count, a seed of the cuts, the answer.
 */
#include "../unit/response/answer_fixture.h"

#include <coordinator/usage.h>

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            abort();                                                                                                   \
    } while (0)

enum { SMALL_LIMIT = 100 };

static const char *const PATHS[] = {"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages",
                                    "/inference/v1/generate"};

struct plan {
    size_t api; /* of PATHS */
    bool events, drops, observes, small;
    int64_t cached;
    unsigned seed;
};

/* ---- The model: a reader of valid JSON ---- */

struct span {
    const char *at;
    size_t size;
};

static size_t skip_space(struct span text, size_t at)
{
    while (at < text.size && strchr(" \t\r\n", text.at[at]) && text.at[at])
        at++;
    return at;
}

static size_t skip_string(struct span text, size_t at)
{
    for (at++; text.at[at] != '"'; at++)
        at += text.at[at] == '\\';
    return at + 1;
}

static size_t skip_value(struct span text, size_t at)
{
    size_t depth = 0;

    do {
        char c = text.at[at];

        if (c == '"') {
            at = skip_string(text, at);
            continue;
        }
        depth += c == '{' || c == '[';
        depth -= c == '}' || c == ']';
        at++;
        if (depth == 0 && !strchr("{[}]", c))
            while (at < text.size && !strchr(" \t\r\n,}]", text.at[at]))
                at++;
    } while (depth > 0);
    return at;
}

/* The member `name` of the object that `text` is, if it stands there exactly once; its size is 0 otherwise. */
static struct span member(struct span text, const char *name, size_t *times)
{
    struct span found = {0};
    size_t at = skip_space(text, 0) + 1;

    *times = 0;
    for (at = skip_space(text, at); text.at[at] != '}'; at = skip_space(text, at)) {
        size_t key = at, key_end = skip_string(text, at);
        size_t value = skip_space(text, skip_space(text, key_end) + 1), end = skip_value(text, value);

        if (key_end - key == strlen(name) + 2 && memcmp(text.at + key + 1, name, strlen(name)) == 0) {
            found = (struct span){text.at + value, end - value};
            ++*times;
        }
        at = skip_space(text, end);
        at += text.at[at] == ',';
    }
    if (*times != 1)
        found = (struct span){0};
    return found;
}

static bool is_object(struct span span) { return span.size > 0 && span.at[0] == '{'; }

static bool count_of(struct span span, uint64_t *count)
{
    *count = 0;
    if (span.size == 0 || span.size > 16)
        return false;
    for (size_t i = 0; i < span.size; i++) {
        if (span.at[i] < '0' || span.at[i] > '9')
            return false;
        *count = 10 * *count + (uint64_t)(span.at[i] - '0');
    }
    return *count <= 1ull << 53;
}

static bool count_in(struct span object, const char *name, uint64_t *count)
{
    size_t times;

    return count_of(member(object, name, &times), count);
}

static struct span block_of(struct span json)
{
    static const char *const OUTER[] = {NULL, "response", "message"};
    size_t first = skip_space(json, 0), times;

    for (size_t i = 0; i < 3 && first < json.size && json.at[first] == '{'; i++) {
        struct span outer = OUTER[i] ? member(json, OUTER[i], &times) : json;
        struct span block = !OUTER[i] || is_object(outer) ? member(outer, "usage", &times) : (struct span){0};

        if (is_object(block))
            return block;
    }
    return (struct span){0};
}

static bool is_json(struct span text)
{
    coord_document *document = coord_document_parse_new((coord_slice){text.at, text.size}, NULL, NULL);

    coord_document_free(document);
    return document != NULL;
}

/* ---- The model: edits ---- */

static void put(struct buffer *out, const char *data, size_t size) { CHECK(buffer_append(out, data, size)); }

static const char *rest_of(struct span json, const char *from, size_t *size)
{
    *size = (size_t)(json.at + json.size - from);
    return from;
}

/* `json` with what stands at `old` replaced; where `old` is empty, with a member put behind the last one of `object`. */
static void splice(struct buffer *out, struct span json, struct span object, struct span old, const char *name,
                   const char *text)
{
    const char *from;
    size_t size;

    if (old.size == 0) {
        const char *end = object.at + object.size - 1, *last = end;
        bool empty;

        while (strchr(" \t\r\n", last[-1]))
            last--;
        empty = last[-1] == '{';
        if (empty)
            last = object.at + 1;
        put(out, json.at, (size_t)(last - json.at));
        CHECK(buffer_printf(out, "%s\"%s\":%s", empty ? "" : ",", name, text));
        from = rest_of(json, last, &size);
    } else {
        put(out, json.at, (size_t)(old.at - json.at));
        CHECK(buffer_append_text(out, text));
        from = rest_of(json, old.at + old.size, &size);
    }
    put(out, from, size);
}

static bool model_details(struct buffer *out, struct span json, struct span block, const char *name, uint64_t cached)
{
    size_t times, inner;
    struct span details = member(block, name, &times), old;
    char text[96];
    uint64_t was;

    if (times > 1)
        return false;
    if (!is_object(details)) {
        snprintf(text, sizeof text, "{\"cached_tokens\":%llu}", (unsigned long long)cached);
        splice(out, json, block, details, name, text);
        return true;
    }
    old = member(details, "cached_tokens", &inner);
    if (inner > 1 || (count_of(old, &was) && was == cached))
        return false;
    snprintf(text, sizeof text, "%llu", (unsigned long long)cached);
    splice(out, json, details, old, "cached_tokens", text);
    return true;
}

static bool model_messages(struct buffer *out, struct span json, struct span block, uint64_t cached)
{
    uint64_t input, read, creation, left;
    size_t times;
    bool has_read;
    struct span old;
    struct buffer once = {0};
    struct span middle;
    char text[32];

    if (!count_in(block, "input_tokens", &input))
        return false;
    has_read = count_in(block, "cache_read_input_tokens", &read);
    old = member(block, "cache_read_input_tokens", &times);
    (void)count_in(block, "cache_creation_input_tokens", &creation);
    if (times > 1 || (has_read && read == cached))
        return false;
    left = input + read > cached ? input + read - cached : 0;
    snprintf(text, sizeof text, "%llu", (unsigned long long)left);
    if (left == input)
        put(&once, json.at, json.size);
    else
        splice(&once, json, block, member(block, "input_tokens", &times), "input_tokens", text);
    middle = (struct span){once.data, once.size};
    block = block_of(middle);
    old = member(block, "cache_read_input_tokens", &times);
    snprintf(text, sizeof text, "%llu", (unsigned long long)cached);
    splice(out, middle, block, old, "cache_read_input_tokens", text);
    buffer_release(&once);
    return true;
}

static bool model_edit(struct buffer *out, const struct plan *plan, struct span json)
{
    struct span block = is_json(json) ? block_of(json) : (struct span){0};

    if (!is_object(block) || plan->cached < 0)
        return false;
    if (plan->api == 3)
        return model_messages(out, json, block, (uint64_t)plan->cached);
    return model_details(out, json, block, plan->api == 2 ? "input_tokens_details" : "prompt_tokens_details",
                         (uint64_t)plan->cached);
}

static bool model_is_frame(struct span json)
{
    size_t times, first = skip_space(json, 0);
    struct span choices, usage;

    if (!is_json(json) || json.at[first] != '{')
        return false;
    usage = member(json, "usage", &times);
    choices = member(json, "choices", &times);
    return is_object(usage) && choices.size > 0 && choices.at[0] == '[' && choices.at[skip_space(choices, 1)] == ']';
}

/* ---- The model: reading ---- */

static void take_count(struct span block, const char *name, coord_usage *usage, uint32_t what, uint64_t *to)
{
    uint64_t count;

    if (!count_in(block, name, &count))
        return;
    *to = count;
    usage->said |= what;
}

static void model_read(const struct plan *plan, struct span json, coord_usage *usage)
{
    struct span block = is_json(json) ? block_of(json) : (struct span){0};
    uint64_t count;
    size_t times;

    if (!is_object(block))
        return;
    take_count(block, plan->api == 2 || plan->api == 3 ? "output_tokens" : "completion_tokens", usage,
               COORD_USAGE_OUTPUT, &usage->output);
    take_count(block, "total_tokens", usage, COORD_USAGE_TOTAL, &usage->total);
    if (plan->api != 3) {
        struct span details = member(block, plan->api == 2 ? "input_tokens_details" : "prompt_tokens_details", &times);

        take_count(block, plan->api == 2 ? "input_tokens" : "prompt_tokens", usage, COORD_USAGE_PROMPT, &usage->prompt);
        if (is_object(details))
            take_count(details, "cached_tokens", usage, COORD_USAGE_CACHED, &usage->cached);
        return;
    }
    if (count_in(block, "input_tokens", &count)) {
        usage->input = count;
        usage->cache_read = usage->cache_creation = 0;
        usage->parts = COORD_USAGE_INPUT;
    }
    if (count_in(block, "cache_read_input_tokens", &count)) {
        usage->cache_read = count;
        usage->parts |= COORD_USAGE_CACHE_READ;
    }
    if (count_in(block, "cache_creation_input_tokens", &count)) {
        usage->cache_creation = count;
        usage->parts |= COORD_USAGE_CACHE_CREATION;
    }
    if (usage->parts & COORD_USAGE_INPUT) {
        usage->prompt = usage->input + usage->cache_read + usage->cache_creation;
        usage->said |= COORD_USAGE_PROMPT;
    }
    if (usage->parts & COORD_USAGE_CACHE_READ) {
        usage->cached = usage->cache_read;
        usage->said |= COORD_USAGE_CACHED;
    }
}

/* ---- The model: events ---- */

/* End of the line at `at` (its line end included); its text is [at, *end). */
static size_t line_at(struct span text, size_t at, size_t *end)
{
    while (at < text.size && text.at[at] != '\n' && text.at[at] != '\r')
        at++;
    *end = at;
    if (at < text.size && text.at[at] == '\r' && at + 1 < text.size && text.at[at + 1] == '\n')
        at++;
    return at < text.size ? at + 1 : at;
}

/* The event at `at`: where it ends, its data (joined in `joined`), and where a single line of data stands. */
static size_t event_at(struct span text, size_t at, struct buffer *joined, size_t *lines, struct span *single)
{
    size_t end, next;

    *lines = 0;
    for (; at < text.size; at = next) {
        size_t from = at;

        next = line_at(text, at, &end);
        if (at == 0 && end >= 3 && memcmp(text.at, "\xEF\xBB\xBF", 3) == 0)
            from = 3;
        if (from == end)
            return next;
        if (end - from < 4 || memcmp(text.at + from, "data", 4) != 0 || (end - from > 4 && text.at[from + 4] != ':'))
            continue;
        from += end - from > 4 ? 5 : 4;
        from += from < end && text.at[from] == ' ';
        if ((*lines)++ > 0)
            put(joined, "\n", 1);
        put(joined, text.at + from, end - from);
        *single = (struct span){text.at + from, end - from};
    }
    return at;
}

/* Past event `blind` nothing is looked at any more. */
static void model_events(const struct plan *plan, struct span text, size_t blind, struct buffer *out,
                         coord_usage *usage)
{
    struct buffer joined = {0};
    struct span single = {0};
    size_t lines;

    for (size_t at = 0, next, index = 0; at < text.size; at = next, index++) {
        struct span json;

        buffer_clear(&joined, SIZE_MAX);
        next = event_at(text, at, &joined, &lines, &single);
        json = lines == 1 ? single : (struct span){joined.data, joined.size};
        if (index >= blind) {
            put(out, text.at + at, text.size - at);
            break;
        }
        if (lines > 0 && json.size > 0) {
            struct buffer edited = {0};

            model_read(plan, json, usage);
            if (plan->drops && model_is_frame(json))
                continue;
            if (lines == 1 && model_edit(&edited, plan, json)) {
                put(out, text.at + at, (size_t)(json.at - (text.at + at)));
                put(out, edited.data, edited.size);
                put(out, json.at + json.size, (size_t)(text.at + next - (json.at + json.size)));
                buffer_release(&edited);
                continue;
            }
        }
        put(out, text.at + at, next - at);
    }
    buffer_release(&joined);
}

/* ---- Running ---- */

static void run(struct fixture *fixture, const struct plan *plan, struct span text, bool whole)
{
    unsigned seed = plan->seed;

    fixture_begin(fixture, PATHS[plan->api], plan->small ? SMALL_LIMIT : FIXTURE_LIMIT);
    fixture_field(fixture, "content-type", plan->events ? "text/event-stream" : "application/json");
    fixture_asked(fixture, plan->seed % 3 ? "{}" : "{\"n\":2}");
    fixture_wrap(fixture, plan->cached, plan->drops, plan->observes);
    chain_head(&fixture->request.chain, &fixture->head);
    for (size_t at = 0; at < text.size;) {
        size_t piece = 1 + (seed = seed * 1103515245u + 12345u) / 65536u % (plan->seed % 2 ? 5 : 60);

        if (whole || piece > text.size - at)
            piece = text.size - at;
        fixture_feed(fixture, text.at + at, piece);
        at += piece;
    }
    chain_end(&fixture->request.chain);
    CHECK(fixture->ends == 1 && fixture->aborts == 0 && fixture->status == 200);
    CHECK(fixture->seen_count == plan->observes);
}

static bool same_usage(const coord_usage *a, const coord_usage *b)
{
    return a->said == b->said && a->prompt == b->prompt && a->output == b->output && a->cached == b->cached &&
           a->total == b->total && a->parts == b->parts;
}

static bool matches(const struct fixture *fixture, const struct plan *plan, struct span text, size_t blind)
{
    struct buffer out = {0};
    coord_usage usage = {0};
    bool same;

    if (plan->events)
        model_events(plan, text, blind, &out, &usage);
    else if (blind == 0 || !model_edit(&out, plan, text))
        put(&out, text.at, text.size);
    if (!plan->events && blind > 0)
        model_read(plan, text, &usage);
    same = coord_slice_equal(buffer_slice(&fixture->body), buffer_slice(&out)) &&
           (!plan->observes || blind < SIZE_MAX || same_usage(&fixture->seen, &usage));
    buffer_release(&out);
    return same;
}

/* With a small limit: whatever it passed, it gave up at one event and changed nothing from there. */
static bool matches_somewhere(const struct fixture *fixture, const struct plan *plan, struct span text)
{
    bool found = matches(fixture, plan, text, SIZE_MAX);

    for (size_t blind = 0; !found && blind <= text.size; blind++)
        found = matches(fixture, plan, text, blind);
    return found;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fixture whole, split;
    struct plan plan;
    struct span text;

    if (size < 4)
        return 0;
    plan = (struct plan){.api = (data[0] & 7u) % 5,
                         .events = data[0] & 8,
                         .drops = data[0] & 16,
                         .observes = data[0] & 32,
                         .small = data[0] & 64,
                         .cached = data[0] & 128 ? data[1] : -1,
                         .seed = data[2]};
    text = (struct span){(const char *)data + 3, size - 3};
    run(&whole, &plan, text, true);
    run(&split, &plan, text, false);
    if (!plan.small) {
        CHECK(coord_slice_equal(buffer_slice(&whole.body), buffer_slice(&split.body)));
        CHECK(!plan.observes || same_usage(&whole.seen, &split.seen));
    }
    if (!memchr(text.at, '\\', text.size) && !memmem(text.at, text.size, "system_fingerprint", 18)) {
        CHECK(plan.small ? matches_somewhere(&whole, &plan, text) : matches(&whole, &plan, text, SIZE_MAX));
        CHECK(plan.small ? matches_somewhere(&split, &plan, text) : matches(&split, &plan, text, SIZE_MAX));
    }
    fixture_release(&whole);
    fixture_release(&split);
    return 0;
}
