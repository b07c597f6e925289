/* Bytes, files and a small reader of raw JSON, which shares nothing with the one under test; see harness.h. */
#include "harness.h"

void text_add(struct text *text, const void *data, size_t size)
{
    if (text->size + size + 1 > text->room) {
        text->room = (text->size + size + 1) * 2;
        text->data = realloc(text->data, text->room);
        if (!text->data)
            abort();
    }
    if (size > 0)
        memcpy(text->data + text->size, data, size);
    text->size += size;
    text->data[text->size] = '\0';
}

void text_vprintf(struct text *text, const char *format, va_list list)
{
    char *made = NULL;
    int size = vasprintf(&made, format, list);

    if (size < 0)
        abort();
    text_add(text, made, (size_t)size);
    free(made);
}

void text_printf(struct text *text, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    text_vprintf(text, format, list);
    va_end(list);
}

void text_clear(struct text *text)
{
    text->size = 0;
    text_add(text, "", 0);
}

void text_free(struct text *text)
{
    free(text->data);
    *text = (struct text){0};
}

struct span span_of(const char *text) { return (struct span){text, strlen(text)}; }

struct span text_span(const struct text *text) { return (struct span){text->data, text->size}; }

bool span_is(struct span span, const char *text) { return span_equal(span, span_of(text)); }

bool span_equal(struct span a, struct span b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

bool text_contains(const struct text *text, const char *part) { return text_count(text, part) > 0; }

size_t text_count(const struct text *text, const char *part)
{
    size_t count = 0, size = strlen(part);
    const char *at = text->data, *end = text->data ? text->data + text->size : NULL;

    while (at && (at = memmem(at, (size_t)(end - at), part, size)) != NULL) {
        count++;
        at += size;
    }
    return count;
}

void harness_assert_same(struct span got, struct span wanted, const char *what, const char *file, int line)
{
    size_t at = 0, from;

    if (span_equal(got, wanted))
        return;
    while (at < got.size && at < wanted.size && got.data[at] == wanted.data[at])
        at++;
    from = at > 60 ? at - 60 : 0;
    print_error("%s: %zu and %zu bytes, different from byte %zu on:\n  got    …%.*s\n  wanted …%.*s\n", what, got.size,
                wanted.size, at, (int)(got.size - from < 160 ? got.size - from : 160), got.data + from,
                (int)(wanted.size - from < 160 ? wanted.size - from : 160), wanted.data + from);
    _fail(file, line);
}

static size_t skip_space(struct span s, size_t i)
{
    while (i < s.size && strchr(" \t\r\n", s.data[i]))
        i++;
    return i;
}

static size_t skip_string(struct span s, size_t i)
{
    for (i++; i < s.size && s.data[i] != '"'; i++)
        if (s.data[i] == '\\')
            i++;
    return i < s.size ? i + 1 : i;
}

static size_t skip_value(struct span s, size_t i)
{
    size_t depth = 0;

    do {
        if (i >= s.size)
            return s.size;
        if (s.data[i] == '"') {
            i = skip_string(s, i);
            continue;
        }
        if (s.data[i] == '{' || s.data[i] == '[')
            depth++;
        else if (s.data[i] == '}' || s.data[i] == ']')
            depth--;
        i++;
        if (depth == 0 && !strchr("{}[]\"", s.data[i - 1]))
            while (i < s.size && !strchr(",}] \t\r\n", s.data[i]))
                i++;
    } while (depth > 0);
    return i;
}

struct span json_member(struct span s, const char *name)
{
    size_t i = skip_space(s, 0);

    if (i >= s.size || s.data[i] != '{')
        return (struct span){0};
    for (i = skip_space(s, i + 1); i < s.size && s.data[i] == '"'; i = skip_space(s, i + 1)) {
        size_t key = i + 1, key_end = skip_string(s, i), value;

        value = skip_space(s, skip_space(s, key_end) + 1);
        i = skip_value(s, value);
        if (key_end - key == strlen(name) + 1 && memcmp(s.data + key, name, strlen(name)) == 0)
            return (struct span){s.data + value, i - value};
        i = skip_space(s, i);
        if (i >= s.size || s.data[i] != ',')
            break;
    }
    return (struct span){0};
}

bool file_read(const char *path, struct text *text)
{
    FILE *file = fopen(path, "re");
    static _Thread_local char block[65536];
    size_t got;

    text_clear(text);
    if (!file)
        return false;
    while ((got = fread(block, 1, sizeof block, file)) > 0)
        text_add(text, block, got);
    fclose(file);
    return true;
}

void file_write(const char *path, const char *data)
{
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, strlen(data), file), strlen(data));
    assert_int_equal(fclose(file), 0);
}
