/*
 * Finding the next byte of a class, many bytes a step: what makes the scanner fast.
 *
 * The json_find_* look at [at, end) only, never read past `end`, and return the first byte of the class or `end`. With SSE2
 * a step is 16 bytes; elsewhere, or with JSON_PORTABLE defined, 8 bytes in a plain word. The results are the same.
 * Thread: any; no state.
 */
#ifndef JSON_BLOCK_H
#define JSON_BLOCK_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef const unsigned char *json_bytes;

#if defined(__SSE2__) && !defined(JSON_PORTABLE)
#include <emmintrin.h>

enum { JSON_BLOCK = 16 };
typedef unsigned json_mask; /* one bit a byte */
typedef __m128i json_block;

static inline json_block json_block_load(json_bytes at) { return _mm_loadu_si128((const __m128i *)(const void *)at); }

/* The bytes of a mask: the first, and what is left without it. The mask must not be 0. */
static inline size_t json_mask_first(json_mask mask) { return (size_t)__builtin_ctz(mask); }

static inline json_mask json_mask_rest(json_mask mask) { return mask & (mask - 1); }

static inline json_block json_block_is(json_block block, char byte)
{
    return _mm_cmpeq_epi8(block, _mm_set1_epi8(byte));
}

static inline json_mask json_block_mask(json_block hits) { return (json_mask)_mm_movemask_epi8(hits); }

static inline json_block json_block_or(json_block a, json_block b) { return _mm_or_si128(a, b); }

/* Bytes below 0x20, and those with the high bit set. */
static inline json_block json_block_not_plain(json_block block)
{
    const json_block last_control = _mm_set1_epi8(0x1f);

    return _mm_or_si128(block,
                        _mm_cmpeq_epi8(_mm_max_epu8(block, last_control), last_control)); /* movemask takes bit 7 */
}

static inline json_mask json_block_digit(json_block block)
{
    json_block value = _mm_sub_epi8(block, _mm_set1_epi8('0'));

    return json_block_mask(_mm_cmpeq_epi8(_mm_min_epu8(value, _mm_set1_epi8(9)), value));
}

static inline json_mask json_block_not_digit(json_block block) { return json_block_digit(block) ^ 0xffffU; }

/* One bit a byte, that of the first byte lowest. */
static inline uint64_t json_mask_bits(json_mask mask) { return mask; }

/* Folds [ and { together, and ] and }. */
static inline json_block json_block_fold(json_block block) { return _mm_or_si128(block, _mm_set1_epi8(0x20)); }

#else

enum { JSON_BLOCK = 8 };
typedef uint64_t json_mask; /* the high bit of a byte */
typedef uint64_t json_block;

#define JSON_EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

static inline json_block json_block_load(json_bytes at)
{
    json_block block;

    memcpy(&block, at, sizeof block);
    return block;
}

static inline size_t json_mask_first(json_mask mask)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return (size_t)__builtin_ctzll(mask) / 8;
#else
    return (size_t)__builtin_clzll(mask) / 8;
#endif
}

static inline json_mask json_mask_rest(json_mask mask)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return mask & (mask - 1);
#else
    return mask & ~(UINT64_C(1) << (63 - __builtin_clzll(mask)));
#endif
}

/* High bit of every byte that is not zero; exact, no carry from one byte to the next. */
static inline json_mask json_block_nonzero(json_block block)
{
    return (((block & JSON_EACH(0x7fU)) + JSON_EACH(0x7fU)) | block) & JSON_EACH(0x80U);
}

static inline json_block json_block_is(json_block block, char byte)
{
    return json_block_nonzero(block ^ JSON_EACH((unsigned char)byte)) ^ JSON_EACH(0x80U);
}

static inline json_mask json_block_mask(json_block hits) { return hits & JSON_EACH(0x80U); }

static inline json_block json_block_or(json_block a, json_block b) { return a | b; }

static inline json_block json_block_not_plain(json_block block)
{
    return (json_block_nonzero(block & JSON_EACH(0xe0U)) ^ JSON_EACH(0x80U)) | block;
}

static inline json_mask json_block_not_digit(json_block block)
{
    json_block above = (block & JSON_EACH(0x7fU)) + JSON_EACH(0x06U); /* pushes ':' … '?' out of 0x3… */

    return json_block_nonzero(((block & JSON_EACH(0xf0U)) ^ JSON_EACH(0x30U)) |
                              ((above & JSON_EACH(0xf0U)) ^ JSON_EACH(0x30U)));
}

static inline json_mask json_block_digit(json_block block) { return json_block_not_digit(block) ^ JSON_EACH(0x80U); }

/* One bit a byte, that of the first byte lowest. */
static inline uint64_t json_mask_bits(json_mask mask)
{
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    mask = __builtin_bswap64(mask);
#endif
    return (mask >> 7) * UINT64_C(0x0102040810204080) >> 56; /* byte i's bit goes from 8i to 56 + i */
}

static inline json_block json_block_fold(json_block block) { return block | JSON_EACH(0x20U); }

#endif

/* A byte that ends the plain part of a string: a quote, a backslash, a control character, anything beyond ASCII. */
static inline json_bytes json_find_not_plain(json_bytes at, json_bytes end)
{
    for (; end - at >= JSON_BLOCK; at += JSON_BLOCK) {
        json_block block = json_block_load(at);
        json_block special = json_block_or(json_block_is(block, '"'), json_block_is(block, '\\'));
        json_mask hits = json_block_mask(json_block_or(special, json_block_not_plain(block)));

        if (hits)
            return at + json_mask_first(hits);
    }
    while (at < end && *at != '"' && *at != '\\' && *at >= 0x20 && *at < 0x80)
        at++;
    return at;
}

/* A quote or a backslash. */
static inline json_bytes json_find_quote(json_bytes at, json_bytes end)
{
    for (; end - at >= JSON_BLOCK; at += JSON_BLOCK) {
        json_block block = json_block_load(at);
        json_mask hits = json_block_mask(json_block_or(json_block_is(block, '"'), json_block_is(block, '\\')));

        if (hits)
            return at + json_mask_first(hits);
    }
    while (at < end && *at != '"' && *at != '\\')
        at++;
    return at;
}

/* Quotes and brackets of either kind in the JSON_BLOCK bytes from `at` on. */
static inline json_mask json_structure_mask(json_bytes at)
{
    json_block block = json_block_load(at);
    json_block folded = json_block_fold(block);
    json_block brackets = json_block_or(json_block_is(folded, '{'), json_block_is(folded, '}'));

    return json_block_mask(json_block_or(json_block_is(block, '"'), brackets));
}

/* A quote or a bracket of either kind. */
static inline json_bytes json_find_structure(json_bytes at, json_bytes end)
{
    for (; end - at >= JSON_BLOCK; at += JSON_BLOCK) {
        json_mask hits = json_structure_mask(at);

        if (hits)
            return at + json_mask_first(hits);
    }
    while (at < end && *at != '"' && (*at | 0x20) != '{' && (*at | 0x20) != '}')
        at++;
    return at;
}

/* A byte that is no digit. */
static inline json_bytes json_find_not_digit(json_bytes at, json_bytes end)
{
    for (; end - at >= JSON_BLOCK; at += JSON_BLOCK) {
        json_mask hits = json_block_not_digit(json_block_load(at));

        if (hits)
            return at + json_mask_first(hits);
    }
    while (at < end && *at >= '0' && *at <= '9')
        at++;
    return at;
}

#endif
