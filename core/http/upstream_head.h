/*
 * The head of an answer, collected line by line: what every transport needs to turn lines into a struct leg_head.
 *
 * Interim heads (1xx) are forgotten; only the final one is kept, its fields in order. A head whose framing is not beyond doubt
 * (RFC 9112: folded or ended by a bare line feed, a length that is repeated or comes with a coding, a coding other than
 * chunked) is refused rather than guessed at, since an answer read differently by two sides is how answers are smuggled.
 * Ownership: the fields live in the collector's arena until answer_head_begin, or in lines that stay (`borrowed`).
 * Thread: whoever owns it.
 */
#ifndef HTTP_UPSTREAM_HEAD_H
#define HTTP_UPSTREAM_HEAD_H

#include "http/headers.h"

enum {
    ANSWER_HEAD_LIMIT = 64 * 1024, /* bytes of one head, line ends included */
    ANSWER_FIELD_LIMIT = 256       /* fields of one head */
};

/* A zeroed one is ready for answer_head_begin. */
struct answer_head {
    struct arena arena;
    struct headers headers;
    size_t bytes;
    size_t owned;    /* fields from the first one on that lie in no line */
    int64_t length;  /* Content-Length, -1: none */
    int32_t status;  /* of the head that is being read; 0: no status line yet */
    bool began;      /* a line has come, of an interim head perhaps */
    bool complete;   /* the final head has ended; later lines are trailers */
    bool chunked;    /* Transfer-Encoding: chunked; there is no other */
    bool old;        /* HTTP/1.0 */
    bool connection; /* it has a Connection field that says more than keep-alive */
    bool closing;    /* … which says close */
    bool borrowed;   /* the caller's: the line that comes next stays, so that its field needs no copy */
};

enum answer_line {
    ANSWER_MORE,     /* go on */
    ANSWER_COMPLETE, /* this line ended the final head */
    ANSWER_REFUSED   /* `*reason` says why */
};

/* Empties it for the next answer, keeping the arena's first block. */
void answer_head_begin(struct answer_head *head);
/* Takes one line with its line end. `*reason` is a string that lives as long as the process. */
enum answer_line answer_head_line(struct answer_head *head, coord_slice line, const char **reason) COORD_MUST_CHECK;
/* The lines that stayed go: copies what lies in them. False when memory is short. */
bool answer_head_own(struct answer_head *head) COORD_MUST_CHECK;
bool answer_head_has_body(const struct answer_head *head, bool to_head);
/* True when the upstream will take another request on this connection. */
bool answer_head_keeps_connection(const struct answer_head *head);
/* True when the body of this answer ends with the connection. `to_head`: the request was a HEAD. */
bool answer_head_close_delimited(const struct answer_head *head, bool to_head);
/* The declared length of the body, -1: unknown. */
int64_t answer_head_length(const struct answer_head *head);
/* Forgets the fields and frees their memory; what was read of the framing stays. */
void answer_head_release(struct answer_head *head);

#endif
