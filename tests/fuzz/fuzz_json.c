/*
 * Fuzz target of the scanner: it agrees with a plain recursive reading of RFC 8259, and the walkers agree with the validation.
 */
#include "json/scanner.h"
#include "json/utf8.h"

#include <coordinator/document.h>

#include <stdio.h>
#include <stdlib.h>

#define CHECK(what) ((what) ? (void)0 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what), abort()))

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The plain reading: where the thing that begins at `at` ends, NULL when it is none. */
static const uint8_t *plain_value(const uint8_t *at, const uint8_t *end, int depth);

static const uint8_t *plain_space(const uint8_t *at, const uint8_t *end)
{
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r'))
        at++;
    return at;
}

static uint32_t plain_code_point(const uint8_t **at, const uint8_t *end)
{
    static const uint32_t smallest[] = {0, 0x80, 0x800, 0x10000};
    uint32_t code = *(*at)++;
    int more = code < 0x80 ? 0 : code >> 5 == 6 ? 1 : code >> 4 == 14 ? 2 : code >> 3 == 30 ? 3 : -1;

    if (more < 0)
        return UINT32_MAX;
    code &= more ? 0x3fU >> more : 0x7fU;
    for (int i = 0; i < more; i++) {
        if (*at == end || **at >> 6 != 2)
            return UINT32_MAX;
        code = code << 6 | (*(*at)++ & 0x3fU);
    }
    return code < smallest[more] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? UINT32_MAX : code;
}

static const uint8_t *plain_string(const uint8_t *at, const uint8_t *end)
{
    if (at == end || *at++ != '"')
        return NULL;
    while (at < end && *at != '"') {
        uint32_t code = plain_code_point(&at, end);

        if (code == UINT32_MAX || code < 0x20)
            return NULL;
        if (code != '\\')
            continue;
        if (at == end || !memchr("\"\\/bfnrtu", *at, 9))
            return NULL;
        if (*at++ == 'u') {
            for (int i = 0; i < 4; i++, at++)
                if (at == end || !memchr("0123456789abcdefABCDEF", *at, 22))
                    return NULL;
        }
    }
    return at < end ? at + 1 : NULL;
}

static const uint8_t *plain_digits(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *begin = at;

    while (at < end && *at >= '0' && *at <= '9')
        at++;
    return at > begin ? at : NULL;
}

static const uint8_t *plain_number(const uint8_t *at, const uint8_t *end)
{
    if (at < end && *at == '-')
        at++;
    at = at < end && *at == '0' ? at + 1 : plain_digits(at, end);
    if (at && at < end && *at == '.')
        at = plain_digits(at + 1, end);
    if (at && at < end && (*at == 'e' || *at == 'E')) {
        at++;
        at = plain_digits(at + (at < end && (*at == '+' || *at == '-')), end);
    }
    return at;
}

static const uint8_t *plain_container(const uint8_t *at, const uint8_t *end, int depth)
{
    bool object = *at == '{';
    uint8_t close = object ? '}' : ']';

    if (depth == JSON_MAX_DEPTH)
        return NULL;
    at = plain_space(at + 1, end);
    if (at < end && *at == close)
        return at + 1;
    for (;;) {
        if (object) {
            at = plain_string(plain_space(at, end), end);
            at = at ? plain_space(at, end) : end;
            if (at == end || *at++ != ':')
                return NULL;
        }
        at = plain_value(plain_space(at, end), end, depth + 1);
        at = at ? plain_space(at, end) : end;
        if (at == end)
            return NULL;
        if (*at == close)
            return at + 1;
        if (*at++ != ',')
            return NULL;
    }
}

static const uint8_t *plain_value(const uint8_t *at, const uint8_t *end, int depth)
{
    static const char *const words[] = {"true", "false", "null"};

    if (at == end)
        return NULL;
    if (*at == '{' || *at == '[')
        return plain_container(at, end, depth);
    if (*at == '"')
        return plain_string(at, end);
    for (int i = 0; i < 3; i++) {
        size_t size = strlen(words[i]);

        if ((size_t)(end - at) >= size && memcmp(at, words[i], size) == 0)
            return at + size;
    }
    return plain_number(at, end);
}

struct seen {
    size_t count;
    struct json_member last;
    size_t cursor;
    coord_slice text;
};

/* The walk and the notes made while validating go in step. */
static bool see(void *context, const struct json_member *member)
{
    struct seen *seen = context;
    struct json_member walked;

    seen->count++;
    CHECK(json_next_member(seen->text, json_skip_space(seen->text, 0), &seen->cursor, &walked));
    CHECK(walked.value.begin == member->value.begin && walked.value.end == member->value.end);
    if (member->key.end > 0)
        CHECK(walked.key.begin == member->key.begin && walked.key.end == member->key.end);
    return true;
}

static void check_strings(coord_slice text, const struct json_member *member)
{
    coord_slice key = {text.data + member->key.begin, member->key.end - member->key.begin};
    char *name;
    size_t size;

    if (key.size == 0)
        return;
    name = malloc(key.size);
    CHECK(name);
    size = json_unescape(key, name);
    CHECK(size <= key.size - 2 && json_utf8_valid((coord_slice){name, size}));
    CHECK(json_key_is(key, (coord_slice){name, size}));
    if (size > 0)
        CHECK(!json_key_is(key, (coord_slice){name, size - 1}));
    free(name);
}

static void check_walkers(coord_slice text)
{
    size_t root = json_skip_space(text, 0);
    size_t end = json_skip_value(text, root);
    size_t count = 0;
    size_t cursor = 0;
    struct json_member member;

    CHECK(json_skip_space(text, end) == text.size);
    if (json_type_at(text, root) < COORD_JSON_ARRAY)
        return;
    while (json_next_member(text, root, &cursor, &member)) {
        check_strings(text, &member);
        count++;
    }
    CHECK(count == json_count_members(text, root));
}

static bool plain_id(coord_slice value)
{
    uint64_t number = 0;

    for (size_t i = 0; i < value.size; i++) {
        if (value.data[i] < '0' || value.data[i] > '9' || number > (UINT64_C(1) << 53))
            return false;
        number = number * 10 + (uint64_t)(value.data[i] - '0');
    }
    return number <= (UINT64_C(1) << 53);
}

/* Whether `text`, which is JSON if `valid`, is an array of ids, and how many. */
static bool plain_ids(coord_slice text, bool valid, uint64_t *count)
{
    size_t cursor = 0;
    struct json_member member;

    *count = 0;
    if (!valid || text.data[0] != '[')
        return false;
    for (; json_next_member(text, 0, &cursor, &member); ++*count)
        if (!plain_id((coord_slice){text.data + member.value.begin, member.value.end - member.value.begin}))
            return false;
    return true;
}

static void check_ids(coord_slice text, bool valid)
{
    uint64_t count, plain_count;
    bool ids = plain_ids(text, valid, &plain_count);

    CHECK(json_count_ids(text, &count) == ids);
    CHECK(!ids || count == plain_count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *plain = plain_value(plain_space(data, data + size), data + size, 0);
    bool valid = plain && plain_space(plain, data + size) == data + size;
    coord_slice text = {(const char *)data, size};
    struct json_error error = {0};
    struct seen seen = {.text = text};

    CHECK(json_validate(text, &error, NULL, NULL) == valid);
    check_ids(text, valid);
    if (!valid) {
        CHECK(error.reason && error.offset <= size);
        return 0;
    }
    CHECK(json_validate(text, NULL, see, &seen));
    check_walkers(text);
    return 0;
}
