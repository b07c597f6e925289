/*
 * Going through long arrays of integers, which is what token ids are: 64 bytes a step where nothing else is in them.
 *
 * Thread: any; no state.
 */
#ifndef JSON_INTEGERS_H
#define JSON_INTEGERS_H

#include "json/block.h"

enum { JSON_WINDOW = 64 };

/* What the bytes of a window are, one bit a byte, the first byte lowest. */
struct json_window {
    uint64_t digits, zeros, commas, spaces;
};

static inline struct json_window json_window_at(json_bytes at)
{
    struct json_window window = {0};

    for (unsigned shift = 0; shift < JSON_WINDOW; shift += JSON_BLOCK) {
        json_block block = json_block_load(at + shift);

        window.digits |= json_mask_bits(json_block_digit(block)) << shift;
        window.zeros |= json_mask_bits(json_block_mask(json_block_is(block, '0'))) << shift;
        window.commas |= json_mask_bits(json_block_mask(json_block_is(block, ','))) << shift;
        window.spaces |= json_mask_bits(json_block_mask(json_block_is(block, ' '))) << shift;
    }
    return window;
}

/*
 * `at` is where an element of an array should begin, with a space before it or none. Goes over integers of at most 15 digits that
 * a comma follows, adds their number to `*count`, and returns where the next element should begin. It stops where it sees
 * anything else, which need not be wrong, and near `end`, so the caller goes on from there one by one. Every array that it goes over
 * in part is as RFC 8259 wants it up to there.
 */
static inline json_bytes json_pass_integers(json_bytes at, json_bytes end, uint64_t *count)
{
    for (; end - at >= JSON_WINDOW;) {
        struct json_window window = json_window_at(at);
        uint64_t gaps = window.spaces & (window.commas << 1 | 1);
        uint64_t other = ~(window.digits | window.commas | gaps);
        uint64_t commas = other ? window.commas & ((other & -other) - 1) : window.commas;
        uint64_t inside, starts, long_runs;
        unsigned last;

        if (commas == 0)
            return at;
        last = 63 - (unsigned)__builtin_clzll(commas);
        inside = ~UINT64_C(0) >> (63 - last);
        starts = (((commas << 1 | 1) & ~gaps) | gaps << 1) & inside;
        long_runs = window.digits & window.digits >> 1;
        long_runs &= long_runs >> 2;
        long_runs &= long_runs >> 4;
        long_runs &= long_runs >> 8;
        if ((starts & ~window.digits) | (starts & window.zeros & window.digits >> 1) | (long_runs & inside))
            return at;
        *count += (unsigned)__builtin_popcountll(commas);
        at += last + 1;
    }
    return at;
}

#endif
