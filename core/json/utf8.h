/*
 * UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF. Thread: any; no state.
 */
#ifndef JSON_UTF8_H
#define JSON_UTF8_H

#include <coordinator/base.h>

/* Bytes of the sequence that begins at `at` (at < end): 1 … 4, or 0 when it is not valid or does not end before `end`. */
static inline size_t json_utf8_size(const unsigned char *at, const unsigned char *end)
{
    unsigned lead = *at;
    size_t left = (size_t)(end - at);

    if (lead < 0x80)
        return 1;
    if (lead < 0xc2 || lead > 0xf4 || left < 2 || (at[1] & 0xc0) != 0x80)
        return 0;
    if (lead < 0xe0)
        return 2;
    if (left < 3 || (at[2] & 0xc0) != 0x80)
        return 0;
    if (lead < 0xf0) /* E0 80…9F is overlong, ED A0…BF are surrogates */
        return (lead == 0xe0 && at[1] < 0xa0) || (lead == 0xed && at[1] >= 0xa0) ? 0 : 3;
    if (left < 4 || (at[3] & 0xc0) != 0x80)
        return 0;
    return (lead == 0xf0 && at[1] < 0x90) || (lead == 0xf4 && at[1] >= 0x90) ? 0 : 4;
}

/* True when all of `text` is valid. */
bool json_utf8_valid(coord_slice text);

#endif
