/*
 * An HTTP/1.1 answer, taken apart as its bytes arrive: status, framing, body. Just enough for a load generator.
 *
 * Thread: one. Invariant: whatever the splits of the input, the same calls of `body` with the same bytes in the same order.
 */
#ifndef BENCH_ANSWER_H
#define BENCH_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ANSWER_HEAD_AT_MOST = 4096 };

enum answer_progress { ANSWER_MORE, ANSWER_DONE, ANSWER_BROKEN };

enum answer_place { AT_HEAD, AT_BODY, AT_CHUNK_SIZE, AT_CHUNK_DATA, AT_CHUNK_END, AT_LAST_LINE, AT_UNTIL_CLOSE };

struct answer {
    enum answer_place place;
    int status;
    bool closes;         /* the peer will close after it */
    uint64_t left;       /* of the body, or of the chunk */
    uint64_t body_bytes; /* without chunk framing */
    size_t head_length;
    char head[ANSWER_HEAD_AT_MOST];
};

/* Before each answer. */
void answer_begin(struct answer *answer);
/*
 * Takes bytes; `body` (may be NULL) is called for each piece of the body. DONE leaves the rest of the input alone (there
 * is none, as we never send a second request before the answer). BROKEN: no HTTP, or a head that is too long.
 */
enum answer_progress answer_feed(struct answer *answer, const char *bytes, size_t length,
                                 void (*body)(void *context, const char *bytes, size_t length), void *context);
/* The peer has closed: DONE where that ends the answer, else BROKEN. */
enum answer_progress answer_closed(const struct answer *answer);

#endif
