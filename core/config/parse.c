/* Single texts as durations, sizes, integers and URLs. See values.h. Thread: any. */
#include "config/values.h"

#include <curl/curl.h>
#include <strings.h>

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

struct unit {
    const char *name;
    uint64_t factor;
};

static const struct unit duration_units[] = {
    {"ns", 1},           {"us", 1000},      {"\xc2\xb5s", 1000}, /* U+00B5 micro sign */
    {"\xce\xbcs", 1000},                                         /* U+03BC Greek mu */
    {"ms", 1000000},     {"s", 1000000000}, {"m", 60000000000},  {"h", 3600000000000},
};

static const struct unit size_units[] = {
    {"", 1},      {"B", 1},        {"KiB", 1ULL << 10}, {"MiB", 1ULL << 20}, {"GiB", 1ULL << 30},
    {"KB", 1000}, {"MB", 1000000}, {"GB", 1000000000},
};

const char duration_pattern[] = "^[-+]?(0|(([0-9]+[.]?[0-9]*|[.][0-9]+)(ns|us|\xc2\xb5s|\xce\xbcs|ms|s|m|h))+)$";
const char size_pattern[] = "^[0-9]+(B|KiB|MiB|GiB|KB|MB|GB)?$";
const char url_pattern[] = "^[Hh][Tt][Tt][Pp][Ss]?://[^/:?#@ ][^/?#@ ]*(/[^?# ]*)?$";

static bool unit_find(const struct unit *units, size_t count, coord_slice name, uint64_t *factor)
{
    for (size_t i = 0; i < count; i++) {
        if (coord_slice_is(name, units[i].name)) {
            *factor = units[i].factor;
            return true;
        }
    }
    return false;
}

/* Reads digits at `*at`; false on overflow. No digits give 0 and leave `*at`. */
static bool read_digits(const char **at, const char *end, uint64_t *value)
{
    *value = 0;
    for (; *at < end && is_digit(**at); ++*at) {
        if (__builtin_mul_overflow(*value, 10, value) || __builtin_add_overflow(*value, (uint64_t)(**at - '0'), value))
            return false;
    }
    return true;
}

/* The digits behind a point as a part of `factor`, rounded down to a nanosecond; billionths are as many as matter. */
static uint64_t read_fraction(const char *at, const char *end, uint64_t factor)
{
    const uint64_t billion = 1000000000;
    uint64_t billionths = 0;

    for (uint64_t one = billion / 10; at < end && one > 0; at++, one /= 10)
        billionths += (uint64_t)(*at - '0') * one;
    return factor >= billion ? billionths * (factor / billion) : billionths * factor / billion;
}

/* One "1.5h" of a duration. */
static bool read_term(const char **at, const char *end, uint64_t *nanoseconds)
{
    const char *start = *at, *point, *unit;
    uint64_t whole, factor;
    size_t digits;

    if (!read_digits(at, end, &whole))
        return false;
    digits = (size_t)(*at - start);
    point = *at;
    if (*at < end && **at == '.') {
        for (++*at; *at < end && is_digit(**at); ++*at)
            digits++;
    }
    unit = *at;
    while (*at < end && !is_digit(**at) && **at != '.')
        ++*at;
    if (digits == 0 || !unit_find(duration_units, sizeof duration_units / sizeof *duration_units,
                                  (coord_slice){unit, (size_t)(*at - unit)}, &factor))
        return false;
    if (__builtin_mul_overflow(whole, factor, nanoseconds))
        return false;
    if (unit > point && __builtin_add_overflow(*nanoseconds, read_fraction(point + 1, unit, factor), nanoseconds))
        return false;
    return true;
}

bool parse_duration(coord_slice text, int64_t *nanoseconds)
{
    const char *at = text.data, *end = text.data + text.size;
    uint64_t total = 0, term;
    bool negative;

    if (text.size == 0)
        return false;
    negative = *at == '-';
    if (*at == '-' || *at == '+')
        at++;
    if (at == end)
        return false;
    if (end - at == 1 && *at == '0') {
        *nanoseconds = 0;
        return true;
    }
    while (at < end) {
        if (!read_term(&at, end, &term) || __builtin_add_overflow(total, term, &total) || total > INT64_MAX)
            return false;
    }
    *nanoseconds = negative ? -(int64_t)total : (int64_t)total;
    return true;
}

bool parse_size(coord_slice text, uint64_t *bytes)
{
    const char *at = text.data, *end = text.data + text.size;
    uint64_t value, factor;

    if (text.size == 0 || !is_digit(*at) || !read_digits(&at, end, &value) ||
        !unit_find(size_units, sizeof size_units / sizeof *size_units, (coord_slice){at, (size_t)(end - at)}, &factor))
        return false;
    return !__builtin_mul_overflow(value, factor, bytes);
}

/* "007" is octal to some readers and decimal to others: not an integer here. */
bool parse_integer(coord_slice text, int64_t *value)
{
    const char *at = text.data, *end = text.data + text.size, *start;
    bool negative = text.size > 0 && *at == '-';
    uint64_t magnitude;

    if (text.size == 0)
        return false;
    if (*at == '-' || *at == '+')
        at++;
    start = at;
    if (!read_digits(&at, end, &magnitude) || at == start || (*start == '0' && at - start > 1))
        return false;
    if (at < end && *at == '.') {
        const char *zeros = ++at;

        while (at < end && *at == '0')
            at++;
        if (at == zeros)
            return false;
    }
    if (at != end || magnitude > (uint64_t)INT64_MAX + negative)
        return false;
    *value = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return true;
}

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

/* What can be said about a URL before curl reads it; NULL: nothing. `*authority` is what stands between "//" and the path. */
static const char *url_problem(coord_slice text, coord_slice *authority)
{
    const char *colon = text.size ? memmem(text.data, text.size, "://", 3) : NULL, *slash;
    coord_slice scheme = {text.data, colon ? (size_t)(colon - text.data) : 0};

    for (size_t i = 0; i < text.size; i++) {
        if ((unsigned char)text.data[i] <= 0x20 || (unsigned char)text.data[i] >= 0x7f)
            return "holds a space, a control character or a non-ASCII one";
    }
    if (!colon)
        return "has no scheme: write http:// or https:// in front of it";
    if (!(scheme.size == 4 && strncasecmp(scheme.data, "http", 4) == 0) &&
        !(scheme.size == 5 && strncasecmp(scheme.data, "https", 5) == 0))
        return "is neither http:// nor https://";
    if (memchr(text.data, '?', text.size) || memchr(text.data, '#', text.size))
        return "must have neither a query nor a fragment";
    authority->data = colon + 3;
    authority->size = text.size - scheme.size - 3;
    slash = memchr(authority->data, '/', authority->size);
    if (slash)
        authority->size = (size_t)(slash - authority->data);
    if (authority->size == 0 || *authority->data == ':')
        return "has no host";
    if (memchr(authority->data, '@', authority->size))
        return "must not hold credentials: they would show in logs; set them in a header or a secret param";
    if (memchr(authority->data, '\\', authority->size))
        return "is not a URL";
    if (*authority->data != '[' && memchr(authority->data, '%', authority->size))
        return "has an escaped character in its host";
    return NULL;
}

bool url_is_secure(coord_slice normal)
{
    static const coord_slice scheme = COORD_SLICE("https://");

    return normal.size >= scheme.size && memcmp(normal.data, scheme.data, scheme.size) == 0;
}

/* Scheme and host in lower case, no slash at the end. */
static coord_slice url_tidy(struct arena *arena, const char *url)
{
    coord_slice tidy = arena_copy(arena, coord_slice_of(url));
    char *text = (char *)(uintptr_t)tidy.data; /* our own copy */
    size_t host = 0;

    if (!text)
        return tidy;
    while (host < tidy.size && text[host] != ':')
        host++;
    for (size_t i = 0; i < tidy.size && (i < host + 3 || (text[i] != '/' && text[i] != '%')); i++)
        text[i] = lower(text[i]);
    while (tidy.size > host + 3 && text[tidy.size - 1] == '/')
        text[--tidy.size] = 0;
    return tidy;
}

bool parse_url(struct arena *arena, coord_slice text, coord_slice *normal, const char **reason)
{
    coord_slice authority = {0}, copy;
    char *url = NULL, *port = NULL;
    CURLU *handle = NULL;
    bool done = false;

    *reason = url_problem(text, &authority);
    if (*reason)
        return false;
    copy = arena_copy(arena, text);
    handle = curl_url();
    *reason = "could not be read: memory is short";
    if (!copy.data || !handle)
        goto out;
    *reason = "is not a URL";
    if (curl_url_set(handle, CURLUPART_URL, copy.data, 0) != CURLUE_OK)
        goto out;
    if (curl_url_get(handle, CURLUPART_PORT, &port, 0) == CURLUE_OK && strcmp(port, "0") == 0)
        goto out;
    if (curl_url_get(handle, CURLUPART_URL, &url, 0) != CURLUE_OK)
        goto out;
    *reason = "could not be read: memory is short";
    *normal = url_tidy(arena, url);
    done = normal->data != NULL;
    if (done)
        *reason = NULL;
out:
    curl_free(port);
    curl_free(url);
    curl_url_cleanup(handle);
    return done;
}
