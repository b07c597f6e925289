/*
 * Redaction (log.h): which names hold credentials, and what of a body may stand on a TRACE line.
 *
 * A body is rewritten while it is read, in one pass without recursion: the kinds of the open containers are bits of a small
 * stack. What is replaced is still read, because a body that turns out not to be JSON is shown in another way.
 */
#include "telemetry/log.h"

#include "telemetry/line.h"
#include "telemetry/utf8.h"

#include <strings.h>

enum {
    HEADER_SHOWN = 256,
    STRING_SHOWN = 50, /* decoded bytes */
    ARRAY_SHOWN = 10,  /* elements */
    DEPTH_SHOWN = 32,  /* from here on nothing is shown */
    DEPTH_READ = 512,  /* deeper is not taken for JSON */
    PLAIN_SHOWN = 200, /* bytes of a body that is not JSON */
    PREFIX_SIZE = 24   /* of a string: longer than `https://` and every credential's name */
};

/* ---- Names ---- */

static char folded(char byte)
{
    if (byte == '_')
        return '-';
    return byte >= 'A' && byte <= 'Z' ? (char)(byte - 'A' + 'a') : byte;
}

static bool same_name(const char *name, const char *credential, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (folded(name[i]) != credential[i])
            return false;
    return true;
}

bool log_is_credential(coord_slice name)
{
    static const char *const by_size[][3] = {
        [6] = {"cookie", "secret"},
        [7] = {"api-key"},
        [8] = {"password"},
        [9] = {"x-api-key"},
        [10] = {"set-cookie"},
        [12] = {"x-auth-token"},
        [13] = {"authorization"},
        [14] = {"x-goog-api-key", "x-access-token"},
        [19] = {"proxy-authorization"},
        [20] = {"x-amz-security-token"},
    };

    if (name.size >= sizeof by_size / sizeof *by_size)
        return false;
    for (const char *const *credential = by_size[name.size]; *credential; credential++)
        if (same_name(name.data, *credential, name.size))
            return true;
    return false;
}

size_t log_redact_value(coord_slice value, char *out, size_t room)
{
    struct line line = {.data = out, .room = room};
    size_t shown = value.size <= HEADER_SHOWN ? value.size : HEADER_SHOWN;

    if (shown > room)
        shown = room;
    if (shown > 0)
        line_put(&line, value.data, shown);
    if (value.size > HEADER_SHOWN)
        line_text(&line, "...[truncated]");
    return line.size;
}

/* ---- Bodies ---- */

struct body {
    const char *at, *end;
    struct line out;
    size_t depth;      /* open containers */
    size_t muted_from; /* depth + 1 of the value that is being left out; 0: none */
    bool credential;   /* the member whose value comes next has a credential's name */
    unsigned char is_array[DEPTH_READ / 8];
    size_t elements[DEPTH_SHOWN]; /* seen so far in the open arrays that may be shown */
};

static void put(struct body *body, const char *data, size_t size)
{
    if (!body->muted_from && size > 0)
        line_put(&body->out, data, size);
}

static void put_text(struct body *body, const char *text) { put(body, text, strlen(text)); }

static bool in_array(const struct body *body)
{
    size_t top = body->depth - 1;

    return body->depth > 0 && (body->is_array[top / 8] >> top % 8 & 1) != 0;
}

static void skip_space(struct body *body)
{
    while (body->at != body->end && (*body->at == ' ' || *body->at == '\t' || *body->at == '\n' || *body->at == '\r'))
        body->at++;
}

static bool take(struct body *body, char byte)
{
    if (body->at == body->end || *body->at != byte)
        return false;
    body->at++;
    return true;
}

/* A string's raw text between the quotes, and enough of its decoded form to judge it. */
struct string {
    coord_slice raw;
    size_t size; /* decoded */
    char prefix[PREFIX_SIZE];
};

static void decoded(struct string *string, const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++, string->size++)
        if (string->size < PREFIX_SIZE)
            string->prefix[string->size] = bytes[i];
}

static int hex_value(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    digit = (char)(digit | 0x20);
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

/* The four digits of \uXXXX; -1: they are none. */
static int take_unit(struct body *body)
{
    int unit = 0;

    for (int i = 0; i < 4; i++) {
        int value = body->at != body->end ? hex_value(*body->at) : -1;

        if (value < 0)
            return -1;
        unit = unit << 4 | value;
        body->at++;
    }
    return unit;
}

/* True when \uXXXX with the second half of a pair of surrogates comes next, and was read. */
static bool take_low_half(struct body *body)
{
    const char *begin = body->at;
    int unit = take(body, '\\') && take(body, 'u') ? take_unit(body) : -1;

    if (unit >= 0xDC00 && unit <= 0xDFFF)
        return true;
    body->at = begin;
    return false;
}

/* Bytes of what \uXXXX stands for. Half a pair stands for U+FFFD. */
static size_t unit_size(struct body *body, int unit)
{
    if (unit < 0x800)
        return unit < 0x80 ? 1 : 2;
    return unit >= 0xD800 && unit <= 0xDBFF && take_low_half(body) ? 4 : 3;
}

/* Only ASCII matters for the prefix; of the rest the size does. */
static bool read_escape(struct body *body, struct string *string)
{
    static const char names[] = "\"\\/bfnrt", bytes[] = "\"\\/\b\f\n\r\t";
    const char *name;
    int unit;

    if (body->at == body->end)
        return false;
    if (take(body, 'u')) {
        unit = take_unit(body);
        if (unit < 0)
            return false;
        decoded(string, unit < 0x80 ? &(char){(char)unit} : "????", unit_size(body, unit));
        return true;
    }
    name = *body->at ? strchr(names, *body->at) : NULL;
    if (!name)
        return false;
    decoded(string, &bytes[name - names], 1);
    body->at++;
    return true;
}

/* From behind the opening quote to behind the closing one. */
static bool read_string(struct body *body, struct string *string)
{
    *string = (struct string){.raw = {body->at, 0}};
    while (body->at != body->end && *body->at != '"') {
        size_t size = utf8_character(body->at, body->end);

        if (size == 0 || (unsigned char)*body->at < 0x20)
            return false;
        if (take(body, '\\')) {
            if (!read_escape(body, string))
                return false;
            continue;
        }
        decoded(string, body->at, size);
        body->at += size;
    }
    string->raw.size = (size_t)(body->at - string->raw.data);
    return take(body, '"');
}

static bool begins(const struct string *string, const char *prefix)
{
    return string->size >= strlen(prefix) && memcmp(string->prefix, prefix, strlen(prefix)) == 0;
}

static bool value_string(struct body *body)
{
    struct string string;

    body->at++;
    if (!read_string(body, &string))
        return false;
    put_text(body, "\"");
    if (string.size <= STRING_SHOWN)
        put(body, string.raw.data, string.raw.size);
    else if (begins(&string, "data:"))
        put_text(body, "[base64]");
    else if (begins(&string, "http://") || begins(&string, "https://"))
        put_text(body, "[url]");
    else
        put_text(body, "...");
    put_text(body, "\"");
    return true;
}

static bool take_digits(struct body *body)
{
    const char *begin = body->at;

    while (body->at != body->end && *body->at >= '0' && *body->at <= '9')
        body->at++;
    return body->at != begin;
}

static bool value_number(struct body *body)
{
    const char *begin = body->at;

    take(body, '-');
    if (!take(body, '0') && !take_digits(body))
        return false;
    if (take(body, '.') && !take_digits(body))
        return false;
    if (take(body, 'e') || take(body, 'E')) {
        if (!take(body, '+'))
            take(body, '-');
        if (!take_digits(body))
            return false;
    }
    put(body, begin, (size_t)(body->at - begin));
    return true;
}

static bool value_word(struct body *body, const char *word)
{
    size_t size = strlen(word);

    if ((size_t)(body->end - body->at) < size || memcmp(body->at, word, size) != 0)
        return false;
    body->at += size;
    put(body, word, size);
    return true;
}

static bool open_container(struct body *body, bool array)
{
    size_t at = body->depth;
    unsigned char bit = (unsigned char)(1u << at % 8);

    if (at == DEPTH_READ)
        return false;
    put(body, body->at++, 1);
    body->is_array[at / 8] = (unsigned char)(array ? body->is_array[at / 8] | bit : body->is_array[at / 8] & ~bit);
    if (at < DEPTH_SHOWN)
        body->elements[at] = 0;
    body->depth++;
    return true;
}

/* The value that begins here is left out of the page, whatever stands for it. */
static void mute(struct body *body, const char *instead)
{
    put_text(body, instead);
    body->muted_from = body->depth + 1;
}

/* Decides what is shown of the value that begins here. */
static void begin_value(struct body *body)
{
    bool credential = body->credential;

    body->credential = false;
    if (body->muted_from)
        return;
    if (in_array(body)) {
        size_t element = ++body->elements[body->depth - 1];

        if (element > ARRAY_SHOWN) {
            mute(body, "");
            return;
        }
        if (element > 1)
            put_text(body, ",");
    }
    if (body->depth >= DEPTH_SHOWN)
        mute(body, "\"[truncated]\"");
    else if (credential)
        mute(body, "\"[REDACTED]\"");
}

static void end_value(struct body *body)
{
    if (body->muted_from == body->depth + 1)
        body->muted_from = 0;
}

static void close_container(struct body *body)
{
    bool array = in_array(body);

    if (array && !body->muted_from && body->elements[body->depth - 1] > ARRAY_SHOWN) {
        put_text(body, ",\"... +");
        line_unsigned(&body->out, body->elements[body->depth - 1] - ARRAY_SHOWN);
        put_text(body, " more\"");
    }
    body->at++;
    put_text(body, array ? "]" : "}");
    body->depth--;
    end_value(body);
}

static bool member_name(struct body *body)
{
    struct string name;

    skip_space(body);
    if (!take(body, '"') || !read_string(body, &name))
        return false;
    put_text(body, "\"");
    put(body, name.raw.data, name.raw.size);
    put_text(body, "\":");
    body->credential = log_is_credential((coord_slice){name.prefix, name.size});
    skip_space(body);
    return take(body, ':');
}

/* After a value: closes what ends here, and stands before the next value. False: not JSON. `done`: the body has ended. */
static bool go_on(struct body *body, bool *done)
{
    for (;;) {
        skip_space(body);
        if (body->depth == 0) {
            *done = true;
            return body->at == body->end;
        }
        if (body->at == body->end)
            return false;
        if (*body->at != (in_array(body) ? ']' : '}'))
            break;
        close_container(body);
    }
    if (!take(body, ','))
        return false;
    if (in_array(body))
        return true;
    put_text(body, ",");
    return member_name(body);
}

/* Opens a container and stands before its first value, or behind it when it is empty. */
static bool value_container(struct body *body, bool array, bool *inside)
{
    if (!open_container(body, array))
        return false;
    skip_space(body);
    *inside = body->at == body->end || *body->at != (array ? ']' : '}');
    if (!*inside) {
        close_container(body);
        return true;
    }
    return array || member_name(body);
}

static bool redact_json(struct body *body)
{
    bool done = false;

    while (!done) {
        bool inside = false, well_formed;

        skip_space(body);
        if (body->at == body->end)
            return false;
        begin_value(body);
        switch (*body->at) {
        case '{':
        case '[':
            well_formed = value_container(body, *body->at == '[', &inside);
            break;
        case '"':
            well_formed = value_string(body);
            break;
        case 't':
            well_formed = value_word(body, "true");
            break;
        case 'f':
            well_formed = value_word(body, "false");
            break;
        case 'n':
            well_formed = value_word(body, "null");
            break;
        default:
            well_formed = value_number(body);
        }
        if (!well_formed)
            return false;
        if (inside)
            continue;
        end_value(body);
        if (!go_on(body, &done))
            return false;
    }
    return true;
}

/* The beginning of something else, as text. */
static size_t redact_plain(coord_slice text, char *out, size_t room)
{
    struct line line = {.data = out, .room = room};
    const char *at = text.data, *end = at ? at + text.size : NULL;
    const char *stop = text.size > PLAIN_SHOWN ? at + PLAIN_SHOWN : end;

    while (at < stop && !line.full) {
        size_t size = utf8_character(at, end);

        if (size > 0 && *at != '\0' && at + size <= stop)
            line_put(&line, at, size);
        else if (size <= 1)
            line_text(&line, "\xEF\xBF\xBD");
        at += size > 0 ? size : 1;
    }
    if (stop != end)
        line_text(&line, "...");
    return line.size;
}

size_t log_redact_body(coord_slice text, char *out, size_t room)
{
    struct body body = {
        .at = text.data, .end = text.data ? text.data + text.size : NULL, .out = {.data = out, .room = room}};

    if (text.size == 0 || !redact_json(&body))
        return redact_plain(text, out, room);
    return body.out.size; /* it is put together of whole strings */
}
