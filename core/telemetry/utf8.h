/*
 * One question about UTF-8, asked by the log, the redaction and the labels: how long is the character that begins here?
 *
 * Thread: any.
 */
#ifndef TELEMETRY_UTF8_H
#define TELEMETRY_UTF8_H

#include <coordinator/base.h>

/* Bytes of the well-formed character (RFC 3629) at `at`, 1 to 4; 0 when there is none: a stray or cut sequence, an overlong form, a surrogate. `at` < `end`. */
static inline size_t utf8_character(const char *at, const char *end)
{
    const unsigned char *byte = (const unsigned char *)at;
    size_t left = (size_t)(end - at), size;
    unsigned char low = 0x80, high = 0xBF; /* what the second byte may be */

    if (byte[0] < 0x80)
        return 1;
    if (byte[0] < 0xC2 || byte[0] > 0xF4)
        return 0;
    size = byte[0] < 0xE0 ? 2 : byte[0] < 0xF0 ? 3 : 4;
    if (byte[0] == 0xE0)
        low = 0xA0;
    else if (byte[0] == 0xED)
        high = 0x9F;
    else if (byte[0] == 0xF0)
        low = 0x90;
    else if (byte[0] == 0xF4)
        high = 0x8F;
    if (left < size || byte[1] < low || byte[1] > high)
        return 0;
    for (size_t i = 2; i < size; i++)
        if ((byte[i] & 0xC0) != 0x80)
            return 0;
    return size;
}

/* True when all of `text` is well-formed. */
static inline bool utf8_valid(coord_slice text)
{
    const char *at = text.data, *end = text.data ? text.data + text.size : NULL;

    while (at != end) {
        size_t size = utf8_character(at, end);

        if (size == 0)
            return false;
        at += size;
    }
    return true;
}

#endif
