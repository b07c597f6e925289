/*
 * Finding words in texts that come in pieces, a match across two of them included.
 *
 * A piece is a JSON string as it stands in an event, escapes and all; a run is the text that pieces make one after another. Of
 * a run only those letters are kept that may yet turn out to begin a word: fewer than the longest word has. Everything else is
 * decided at once, the leftmost match first and of several there the longest.
 * A match is taken out where its letters stand: the replacement goes where it begins, and what is no match keeps its spelling.
 */
#ifndef REDACT_WORDS_H
#define REDACT_WORDS_H

#include <coordinator/base.h>

struct words {
    char **list;
    size_t count;
    bool ignore_case;  /* of the letters a to z */
    char *replacement; /* as it stands inside a JSON string */
    size_t replacement_size;
};

/* Bytes of a piece that are left out; `put`: the replacement stands there instead. */
struct cut {
    size_t from, to;
    bool put;
};

struct piece {
    coord_slice json; /* the string with its quotes; the caller's, as long as the piece */
    size_t undecided; /* letters; none: it can go */
    struct cut *cuts;
    size_t cut_count;
};

/* Zeroed: nothing has come. */
struct run {
    struct letter *letters; /* the undecided ones */
    size_t count, room;
};

/* The piece comes next. False: memory is short. */
bool run_add(struct run *run, struct piece *piece, const struct words *words) COORD_MUST_CHECK;
/* Nothing more comes: what began like a word was none. False: memory is short. */
bool run_settle(struct run *run, const struct words *words) COORD_MUST_CHECK;
void run_free(struct run *run);

/* The piece's JSON string without its matches; freed with free(). NULL: memory is short. */
char *piece_text_new(const struct piece *piece, const struct words *words, size_t *size) COORD_MUST_CHECK;
void piece_free(struct piece *piece);

#endif
