/*
 * A deterministic tokenizer in the likeness of a byte-pair encoder: common pieces of words and any three small letters
 * have ids of their own, any other byte is a token by itself. Longest first, left to right, so any changed byte changes
 * the ids.
 *
 * Tokens are never stored as numbers: a sink counts and fingerprints them, and writes them as a JSON list if asked.
 */
#ifndef SIM_TOKENIZER_H
#define SIM_TOKENIZER_H

#include "buf.h"

enum {
    TOKEN_BEGIN = 0,
    TOKEN_TURN = 1,
    TOKEN_TURN_END = 2,
    TOKEN_MEDIA = 3,
    TOKEN_BYTE = 4,       /* + the byte */
    TOKEN_PIECE = 260,    /* + the piece's place in the table */
    TOKEN_LETTERS = 1000, /* + three letters, with or without a space before them, as a number to base 26 */
};

struct token_sink {
    uint64_t count;
    uint64_t print;   /* equal lists have equal fingerprints */
    struct buf *list; /* borrowed, may be NULL: the ids with commas between, without brackets */
};

void token_add(struct token_sink *sink, uint64_t id);
void tokenize(struct token_sink *sink, struct text words);

/* One piece of generated text, for any `random` number; safe inside a JSON string as it is. */
struct text tokenizer_word(uint64_t random);

/* FNV-1a of 64 bits, as published. */
uint64_t fnv1a(struct text bytes);
uint64_t fingerprint(struct text bytes);
uint64_t mix(uint64_t x);

#endif
