/*
 * See scanner.h. This file validates; walker.c reads what was validated.
 *
 * One loop asks what is due next: a value, a member name, or what may follow a value. The way out of nested containers is a
 * bit a level (object or array), so a text of any depth costs the same few bytes of stack.
 */
#include "json/scanner.h"
#include "json/integers.h"
#include "json/utf8.h"

enum due { DUE_VALUE, DUE_KEY, DUE_AFTER, DUE_NOTHING };

/* Where the scan is goes from hand to hand, NULL once it has failed: kept here, each step would store it and load it again. */
struct scan {
    json_bytes begin;
    json_bytes end;
    enum due due;
    bool object;  /* the innermost container is one */
    bool escaped; /* an escape was seen since this was cleared */
    size_t depth;
    size_t max_depth;
    uint64_t objects[JSON_MAX_DEPTH / 64]; /* bit d: level d is an object */
    struct json_member current;            /* of the top-level container */
    json_member_fn *member;
    void *context;
    struct json_error error;
};

/* What may stand at the beginning of a value. */
enum kind { KIND_OTHER, KIND_OBJECT, KIND_ARRAY, KIND_STRING, KIND_NUMBER, KIND_TRUE, KIND_FALSE, KIND_NULL };

static const unsigned char kinds[256] = {
    ['{'] = KIND_OBJECT, ['['] = KIND_ARRAY,  ['"'] = KIND_STRING, ['-'] = KIND_NUMBER, ['0'] = KIND_NUMBER,
    ['1'] = KIND_NUMBER, ['2'] = KIND_NUMBER, ['3'] = KIND_NUMBER, ['4'] = KIND_NUMBER, ['5'] = KIND_NUMBER,
    ['6'] = KIND_NUMBER, ['7'] = KIND_NUMBER, ['8'] = KIND_NUMBER, ['9'] = KIND_NUMBER, ['t'] = KIND_TRUE,
    ['f'] = KIND_FALSE,  ['n'] = KIND_NULL,
};

/* What a client may have meant by a byte that begins no value. */
static const struct {
    char byte;
    const char *reason;
} misreadings[] = {
    {'N', "NaN is not JSON"},
    {'I', "Infinity is not JSON"},
    {'\'', "a string must stand in double quotes"},
    {'/', "JSON has no comments"},
    {'#', "JSON has no comments"},
    {'T', "true, false and null are written in small letters"},
    {'F', "true, false and null are written in small letters"},
    {'+', "a number does not begin with '+'"},
    {'.', "a number needs a digit before '.'"},
};

static json_bytes refuse(struct scan *scan, json_bytes at, const char *reason)
{
    scan->error.offset = (size_t)(at - scan->begin);
    scan->error.reason = reason;
    return NULL;
}

static bool is_digit(unsigned char byte) { return byte >= '0' && byte <= '9'; }

static bool is_hex(unsigned char byte) { return is_digit(byte) || ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'f'); }

static inline json_bytes skip_space(const struct scan *scan, json_bytes at)
{
    while (at < scan->end && *at <= ' ' && json_is_space(*at))
        at++;
    return at;
}

/* The same where `byte` is what mostly stands at once. */
static inline json_bytes skip_space_before(const struct scan *scan, json_bytes at, unsigned char byte)
{
    return at < scan->end && *at == byte ? at : skip_space(scan, at);
}

/* An escape whose backslash is at `at`. */
static json_bytes take_escape(struct scan *scan, json_bytes at)
{
    json_bytes backslash = at++;

    scan->escaped = true;
    if (at == scan->end)
        return refuse(scan, at, "the text ends inside a string");
    if (*at != 'u') {
        if (*at == 0 || !strchr("\"\\/bfnrt", *at))
            return refuse(scan, backslash, "unknown escape in a string");
        return at + 1;
    }
    at++;
    for (int digit = 0; digit < 4; digit++, at++) {
        if (at == scan->end)
            return refuse(scan, at, "the text ends inside a string");
        if (!is_hex(*at))
            return refuse(scan, backslash, "\\u needs four hexadecimal digits");
    }
    return at;
}

/* The rest of a string, from a byte on at which its plain part ends. */
static json_bytes take_rest_of_string(struct scan *scan, json_bytes at)
{
    for (; at; at = json_find_not_plain(at, scan->end)) {
        if (at == scan->end)
            return refuse(scan, at, "the text ends inside a string");
        if (*at == '"')
            return at + 1;
        if (*at == '\\') {
            at = take_escape(scan, at);
            if (!at)
                return NULL;
            continue;
        }
        if (*at < 0x20)
            return refuse(scan, at, "control character in a string");
        while (at < scan->end && *at >= 0x80) {
            size_t size = json_utf8_size(at, scan->end);

            if (size == 0)
                return refuse(scan, at, "invalid UTF-8 in a string");
            at += size;
        }
    }
    return NULL;
}

/* A string whose opening quote is at `at`. */
static inline json_bytes take_string(struct scan *scan, json_bytes at)
{
    at = json_find_not_plain(at + 1, scan->end);
    return at < scan->end && *at == '"' ? at + 1 : take_rest_of_string(scan, at);
}

static json_bytes take_digits(struct scan *scan, json_bytes at)
{
    json_bytes after = json_find_not_digit(at, scan->end);

    if (after == at)
        return refuse(scan, at, at == scan->end ? "the text ends inside a number" : "a number needs a digit here");
    return after;
}

static json_bytes take_number(struct scan *scan, json_bytes at)
{
    if (*at == '-')
        at++;
    if (scan->end - at > 1 && at[0] == '0' && is_digit(at[1]))
        return refuse(scan, at, "a number does not begin with 0 and more digits");
    at = take_digits(scan, at);
    if (at && at < scan->end && *at == '.')
        at = take_digits(scan, at + 1);
    if (at && at < scan->end && (*at | 0x20) == 'e') {
        at++;
        if (at < scan->end && (*at == '+' || *at == '-'))
            at++;
        at = take_digits(scan, at);
    }
    return at;
}

static json_bytes no_word(struct scan *scan, json_bytes at, const char *word, size_t size)
{
    size_t left = (size_t)(scan->end - at);

    if (left < size && memcmp(at, word, left) == 0)
        return refuse(scan, scan->end, "the text ends inside a value");
    return refuse(scan, at, "unknown word; JSON has true, false and null");
}

/* A word of a size that the compiler knows is one comparison. */
static inline json_bytes take_word(struct scan *scan, json_bytes at, const char *word, size_t size)
{
    if ((size_t)(scan->end - at) >= size && memcmp(at, word, size) == 0)
        return at + size;
    return no_word(scan, at, word, size);
}

/*
 * The integers of an array, from behind its first one on: far more frequent than anything else. Stops before the first element
 * that is none.
 */
static json_bytes take_integers(const struct scan *scan, json_bytes behind)
{
    for (;;) {
        json_bytes at = behind;
        json_bytes after;
        uint64_t count = 0;

        if (scan->end - at < 2 || at[0] != ',')
            return behind;
        at = json_pass_integers(at + 1, scan->end, &count);
        behind = at - 1; /* a comma */
        if (at < scan->end && *at == ' ')
            at++;
        after = json_find_not_digit(at, scan->end);
        if (after == at || after == scan->end || (*at == '0' && after - at > 1) || (*after != ',' && *after != ']'))
            return behind;
        behind = after;
    }
}

static void enter(struct scan *scan, bool object)
{
    uint64_t bit = UINT64_C(1) << scan->depth % 64;

    if (object)
        scan->objects[scan->depth / 64] |= bit;
    else
        scan->objects[scan->depth / 64] &= ~bit;
    scan->depth++;
    scan->object = object;
}

static void leave(struct scan *scan)
{
    size_t above = --scan->depth - 1;

    scan->object = scan->depth > 0 && (scan->objects[above / 64] >> above % 64 & 1);
}

static json_bytes open_container(struct scan *scan, json_bytes at, bool object)
{
    if (scan->depth == scan->max_depth)
        return refuse(scan, at, "nested too deeply");
    at = skip_space(scan, at + 1);
    if (at < scan->end && *at == (object ? '}' : ']'))
        return at + 1;
    enter(scan, object);
    scan->due = object ? DUE_KEY : DUE_VALUE;
    return at;
}

static json_bytes no_value(struct scan *scan, json_bytes at)
{
    if (at == scan->end)
        return refuse(scan, at, scan->depth ? "the text ends where a value should stand" : "there is no JSON value");
    for (size_t row = 0; row < sizeof misreadings / sizeof *misreadings; row++)
        if (*at == (unsigned char)misreadings[row].byte)
            return refuse(scan, at, misreadings[row].reason);
    if (*at == ']' || *at == '}')
        return refuse(scan, at, "a bracket closes where a value should stand");
    return refuse(scan, at, "this is not the beginning of a JSON value");
}

static inline json_bytes take_value(struct scan *scan, json_bytes at)
{
    at = skip_space(scan, at);
    if (scan->depth == 1)
        scan->current.value.begin = (size_t)(at - scan->begin);
    if (at == scan->end)
        return no_value(scan, at);
    scan->due = DUE_AFTER;
    switch (kinds[*at]) {
    case KIND_OBJECT:
        return open_container(scan, at, true);
    case KIND_ARRAY:
        return open_container(scan, at, false);
    case KIND_STRING:
        return take_string(scan, at);
    case KIND_NUMBER:
        at = take_number(scan, at);
        return at && scan->depth > 0 && !scan->object && (scan->depth > 1 || !scan->member) ? take_integers(scan, at)
                                                                                            : at;
    case KIND_TRUE:
        return take_word(scan, at, "true", 4);
    case KIND_FALSE:
        return take_word(scan, at, "false", 5);
    case KIND_NULL:
        return take_word(scan, at, "null", 4);
    default:
        return no_value(scan, at);
    }
}

static inline json_bytes take_key(struct scan *scan, json_bytes at)
{
    json_bytes begin = skip_space_before(scan, at, '"');

    if (begin == scan->end)
        return refuse(scan, begin, "the text ends inside an object");
    if (*begin != '"')
        return refuse(scan, begin, "a member name in double quotes should stand here");
    scan->escaped = false;
    at = take_string(scan, begin);
    if (!at)
        return NULL;
    if (scan->depth == 1) {
        scan->current.key = (struct json_span){(size_t)(begin - scan->begin), (size_t)(at - scan->begin)};
        scan->current.escaped = scan->escaped;
    }
    at = skip_space_before(scan, at, ':');
    if (at == scan->end)
        return refuse(scan, at, "the text ends inside an object");
    if (*at != ':')
        return refuse(scan, at, "a ':' should follow the member name");
    scan->due = DUE_VALUE;
    return at + 1;
}

static json_bytes note_member(struct scan *scan, json_bytes at)
{
    scan->current.value.end = (size_t)(at - scan->begin);
    if (scan->member(scan->context, &scan->current))
        return at;
    scan->error.memory = true;
    return refuse(scan, at, "memory is short");
}

/* What follows a value that has just ended at `at`, as far as it ends the values around it as well. */
static inline json_bytes take_after(struct scan *scan, json_bytes at)
{
    for (; scan->depth > 0; leave(scan), at++) {
        if (scan->depth == 1 && scan->member && !note_member(scan, at))
            return NULL;
        at = skip_space_before(scan, at, ',');
        if (at == scan->end)
            return refuse(scan, at, scan->object ? "the text ends inside an object" : "the text ends inside an array");
        if (*at == ',') {
            scan->due = scan->object ? DUE_KEY : DUE_VALUE;
            return at + 1;
        }
        if (*at != (scan->object ? '}' : ']'))
            return refuse(scan, at, scan->object ? "a ',' or '}' should stand here" : "a ',' or ']' should stand here");
    }
    scan->due = DUE_NOTHING;
    return at;
}

static bool scan_text(struct scan *scan, json_bytes at)
{
    if (scan->end - at >= 3 && memcmp(at, "\xef\xbb\xbf", 3) == 0)
        return refuse(scan, at, "byte order mark before the JSON text");
    while (at && scan->due != DUE_NOTHING) {
        if (scan->due == DUE_KEY)
            at = take_key(scan, at);
        if (at && scan->due == DUE_VALUE)
            at = take_value(scan, at);
        if (at && scan->due == DUE_AFTER)
            at = take_after(scan, at);
    }
    if (!at)
        return false;
    at = skip_space(scan, at);
    return at == scan->end || refuse(scan, at, "there is more after the JSON value");
}

bool json_validate_within(coord_slice text, size_t max_depth, struct json_error *error, json_member_fn *member,
                          void *context)
{
    static const unsigned char nothing[1];
    json_bytes begin = text.data ? (json_bytes)text.data : nothing;
    struct scan scan = {.begin = begin,
                        .end = begin + text.size,
                        .max_depth = max_depth < JSON_MAX_DEPTH ? max_depth : JSON_MAX_DEPTH,
                        .member = member,
                        .context = context};

    if (scan_text(&scan, begin))
        return true;
    if (error)
        *error = scan.error;
    return false;
}

bool json_validate(coord_slice text, struct json_error *error, json_member_fn *member, void *context)
{
    return json_validate_within(text, JSON_MAX_DEPTH, error, member, context);
}

bool json_utf8_valid(coord_slice text)
{
    json_bytes at = (json_bytes)text.data;
    json_bytes end = text.size ? at + text.size : at;

    while (at < end) {
        size_t size = *at < 0x80 ? 1 : json_utf8_size(at, end);

        if (size == 0)
            return false;
        at += size;
    }
    return true;
}
