/* Bytes that grow; see buf.h. */
#include "buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { KEEP_AT_MOST = 4096 };

void buf_free(struct buf *buf)
{
    free(buf->data);
    *buf = (struct buf){0};
}

char *buf_room(struct buf *buf, size_t more)
{
    if (buf->cap - buf->len < more && buf->from > 0) {
        memmove(buf->data, buf->data + buf->from, buf->len - buf->from);
        buf->len -= buf->from;
        buf->from = 0;
    }
    if (buf->cap - buf->len < more || !buf->data) {
        size_t cap = buf->cap ? buf->cap : 256;
        while (cap - buf->len < more)
            cap *= 2;
        char *data = realloc(buf->data, cap);
        if (!data) {
            fputs("worker-sim: out of memory\n", stderr);
            abort();
        }
        buf->data = data;
        buf->cap = cap;
    }
    return buf->data + buf->len;
}

void buf_add(struct buf *buf, const void *bytes, size_t len)
{
    if (!len)
        return;
    memcpy(buf_room(buf, len), bytes, len);
    buf->len += len;
}

void buf_text(struct buf *buf, const char *words) { buf_add(buf, words, strlen(words)); }

void buf_printf(struct buf *buf, const char *format, ...)
{
    for (size_t room = 256;;) {
        char *at = buf_room(buf, room);
        va_list list;
        va_start(list, format);
        int wrote = vsnprintf(at, room, format, list);
        va_end(list);
        if (wrote < 0)
            abort();
        if ((size_t)wrote < room) {
            buf->len += (size_t)wrote;
            return;
        }
        room = (size_t)wrote + 1;
    }
}

void buf_uint(struct buf *buf, uint64_t number)
{
    char digits[24];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    buf_add(buf, digits + at, sizeof digits - at);
}

static void add_escaped(struct buf *buf, struct text words, unsigned char last_plain, bool short_controls)
{
    static const char hex[] = "0123456789abcdef", controls[] = "\b\t\n\f\r", letters[] = "btnfr";
    size_t plain = 0;
    for (size_t i = 0; i < words.len; i++) {
        unsigned char c = (unsigned char)words.at[i];
        if (c >= 0x20 && c <= last_plain && c != '"' && c != '\\')
            continue;
        buf_add(buf, words.at + plain, i - plain);
        plain = i + 1;
        const char *known = short_controls && c ? strchr(controls, c) : NULL;
        if (c == '"' || c == '\\')
            buf_add(buf, (char[]){'\\', (char)c}, 2);
        else if (known)
            buf_add(buf, (char[]){'\\', letters[known - controls]}, 2);
        else
            buf_add(buf, (char[]){'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]}, 6);
    }
    buf_add(buf, words.at + plain, words.len - plain);
}

void buf_json(struct buf *buf, struct text words) { add_escaped(buf, words, 0xff, true); }

void buf_json_bytes(struct buf *buf, struct text bytes) { add_escaped(buf, bytes, 0x7e, false); }

void buf_drop(struct buf *buf, size_t n)
{
    buf->from += n;
    if (buf->from < buf->len)
        return;
    if (buf->cap > KEEP_AT_MOST)
        buf_free(buf);
    else
        buf->from = buf->len = 0;
}

bool text_is(struct text text, const char *words)
{
    size_t len = strlen(words);
    return text.at && text.len == len && memcmp(text.at, words, len) == 0;
}

bool text_is_nocase(struct text text, const char *words)
{
    size_t len = strlen(words);
    return text.at && text.len == len && strncasecmp(text.at, words, len) == 0;
}

bool text_has_nocase(struct text text, const char *part)
{
    size_t len = strlen(part);
    for (size_t i = 0; text.at && i + len <= text.len; i++)
        if (strncasecmp(text.at + i, part, len) == 0)
            return true;
    return false;
}

struct text text_trim(struct text text)
{
    while (text.len && (text.at[0] == ' ' || text.at[0] == '\t')) {
        text.at++;
        text.len--;
    }
    while (text.len && (text.at[text.len - 1] == ' ' || text.at[text.len - 1] == '\t'))
        text.len--;
    return text;
}

bool text_uint(struct text text, uint64_t *number)
{
    uint64_t sum = 0;
    if (!text.at || !text.len)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];
        if (c < '0' || c > '9' || __builtin_mul_overflow(sum, 10u, &sum) ||
            __builtin_add_overflow(sum, (uint64_t)(c - '0'), &sum))
            return false;
    }
    *number = sum;
    return true;
}
