/* See secrets.h. Each text is looked for as it is, and as anybody may spell it inside of a JSON string. */
#include "pipeline/secrets.h"

#include "json/scanner.h"

#include <coordinator/document.h>

#include <ctype.h>

enum {
    SHORTEST = 4, /* of a substituted text */
    UNIT = 6      /* bytes of \uXXXX */
};

static bool keep(struct secrets *secrets, coord_slice text)
{
    if (text.size == 0)
        return true;
    for (size_t i = 0; i < secrets->count; i++)
        if (coord_slice_equal(secrets->list[i], text))
            return true;
    if (secrets->count == secrets->capacity) {
        size_t capacity = 2 * secrets->capacity + 8;
        coord_slice *list = arena_alloc(secrets->arena, capacity * sizeof *list);

        if (!list)
            return false;
        if (secrets->count > 0)
            memcpy(list, secrets->list, secrets->count * sizeof *list);
        secrets->list = list;
        secrets->capacity = capacity;
    }
    secrets->list[secrets->count] = arena_copy(secrets->arena, text);
    return secrets->list[secrets->count++].data;
}

/* A JSON string of ours has U+FFFD for what is no UTF-8. */
static bool keep_text(struct secrets *secrets, coord_slice text, size_t shortest)
{
    coord_json *json;
    coord_slice quoted;
    bool kept;

    if (text.size < shortest)
        return true;
    json = coord_json_new();
    coord_json_string(json, text);
    kept = json && coord_json_end(json, &quoted) == COORD_OK && keep(secrets, text) &&
           keep(secrets, (coord_slice){quoted.data + 1, quoted.size - 2});
    coord_json_free(json);
    return kept;
}

/* scheme://host:port[/path] */
static bool keep_url(struct secrets *secrets, coord_slice url, bool with_host)
{
    const char *end = url.data + url.size;
    const char *host = memmem(url.data, url.size, "://", 3);
    const char *path;

    if (!host)
        return keep_text(secrets, url, SHORTEST);
    host += 3;
    path = memchr(host, '/', (size_t)(end - host));
    if (!path)
        path = end;
    while (end > path && end[-1] == '/')
        end--;
    return keep_text(secrets, (coord_slice){path, (size_t)(end - path)}, SHORTEST) &&
           (!with_host || keep_text(secrets, (coord_slice){host, (size_t)(path - host)}, SHORTEST));
}

static bool keep_value(struct secrets *secrets, const struct value *value)
{
    size_t shortest = value->param->type == COORD_PARAM_SECRET ? 1 : SHORTEST;
    bool kept = true;

    if (!(value->secret || value->environment) || value->source <= VALUE_DEFAULT)
        return true;
    switch (value->param->type) {
    case COORD_PARAM_STRING:
    case COORD_PARAM_SECRET:
        return keep_text(secrets, value->text, shortest);
    case COORD_PARAM_URL:
        return keep_url(secrets, value->text, true);
    case COORD_PARAM_STRING_LIST:
    case COORD_PARAM_STRING_MAP:
        for (size_t i = 0; i < value->count && kept; i++)
            kept = keep_text(secrets, value->items[i], shortest);
        return kept;
    default:
        return true; /* numbers and words that are known anyway */
    }
}

static bool keep_config(struct secrets *secrets, const struct coord_config *config)
{
    for (size_t i = 0; i < config->count; i++)
        if (!keep_value(secrets, &config->values[i]))
            return false;
    return true;
}

bool secrets_gather(struct secrets *secrets, struct arena *arena, const struct generation *generation)
{
    bool kept = true;

    *secrets = (struct secrets){.arena = arena};
    for (size_t i = 0; i < generation->step_count && kept; i++)
        for (size_t c = 0; c < generation->steps[i].config_count && kept; c++)
            kept = keep_config(secrets, &generation->steps[i].configs[c]);
    for (size_t i = 0; i < generation->settings->gateway_count && kept; i++) {
        const struct gateway_settings *gateway = generation->settings->gateways[i];

        if (gateway->address_secret)
            kept = keep_url(secrets, gateway->address, false);
    }
    return kept;
}

/* Bytes of the escape that begins here; 0: none does. Half a pair of surrogates is one, too. */
static size_t escape_at(coord_slice text, size_t at)
{
    size_t left = text.size - at;
    const char *escape = text.data + at;

    if (left < 2 || escape[0] != '\\')
        return 0;
    if (escape[1] != 'u')
        return memchr("\"\\/bfnrt", escape[1], 8) ? 2 : 0;
    for (size_t i = 2; i < UNIT; i++)
        if (i >= left || !isxdigit((unsigned char)escape[i]))
            return 0;
    return UNIT;
}

/* What an escape of `size` bytes stands for, at most so many bytes. */
static size_t unescape(const char *escape, size_t size, char *out)
{
    char quoted[2 * UNIT + 2];

    quoted[0] = quoted[size + 1] = '"';
    memcpy(quoted + 1, escape, size);
    return json_unescape((coord_slice){quoted, size + 2}, out);
}

/* The character or byte that is spelled here: into `out`, its size into `*size`. Returns the bytes that it takes here. */
static size_t read_spelled(coord_slice text, size_t at, char out[2 * UNIT + 2], size_t *size)
{
    size_t escape = escape_at(text, at);

    if (escape == UNIT && escape_at(text, at + UNIT) == UNIT) {
        *size = unescape(text.data + at, 2 * UNIT, out);
        if ((unsigned char)out[0] >= 0xF0) /* a pair of surrogates: only they make such a character */
            return 2 * UNIT;
    }
    if (escape == 0) {
        out[0] = text.data[at];
        *size = 1;
        return 1;
    }
    *size = unescape(text.data + at, escape, out);
    return escape;
}

/* Bytes that spell the secret from here on; 0: they spell something else. */
static size_t spelled_at(coord_slice secret, coord_slice text, size_t at)
{
    size_t from = at, same = 0;

    while (same < secret.size) {
        char out[2 * UNIT + 2];
        size_t size, taken;

        if (from == text.size)
            return 0;
        taken = read_spelled(text, from, out, &size);
        if (size > secret.size - same || memcmp(secret.data + same, out, size) != 0)
            return 0;
        from += taken;
        same += size;
    }
    return from - at;
}

/* The longest that begins here; 0: none does. */
static size_t found_at(const struct secrets *secrets, coord_slice text, size_t at)
{
    size_t longest = 0;

    for (size_t i = 0; i < secrets->count; i++) {
        coord_slice secret = secrets->list[i];
        size_t size = spelled_at(secret, text, at);

        if (size == 0 && secret.size <= text.size - at && memcmp(text.data + at, secret.data, secret.size) == 0)
            size = secret.size;
        if (size > longest)
            longest = size;
    }
    return longest;
}

bool secrets_hide(const struct secrets *secrets, coord_slice text, struct buffer *out)
{
    size_t from = 0, at = 0;

    while (secrets->count > 0 && at < text.size) {
        size_t size = found_at(secrets, text, at);

        if (size == 0) {
            at++;
            continue;
        }
        if (!buffer_append(out, text.data + from, at - from) || !buffer_append_text(out, "[secret]"))
            return false;
        from = at += size;
    }
    return from == text.size || buffer_append(out, text.data + from, text.size - from);
}
