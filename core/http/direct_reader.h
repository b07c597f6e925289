/*
 * Bytes of a connection as one answer: the lines of its heads, then its body.
 *
 * Knows where lines end, not what they say: the caller has each read by answer_head_line and tells when the final head is
 * over. A pure function over bytes, like direct_body. Ownership: it owns the line whose end has not come yet, nothing else.
 * Thread: whoever owns it.
 */
#ifndef HTTP_DIRECT_READER_H
#define HTTP_DIRECT_READER_H

#include "http/direct_body.h"
#include "runtime/buffer.h"

/* A zeroed one is ready for direct_reader_begin. */
struct direct_reader {
    struct buffer line; /* the beginning of one that is not complete, or the one that was given out last */
    bool line_given;
    bool first_line; /* it is the one that comes next */
    bool in_body;
    struct direct_body body;
};

enum direct_reading {
    READING_MORE, /* all bytes are taken, and more must come */
    READING_LINE, /* `*piece` is a line of a head with its line end, valid as long as the bytes and until the next call */
    READING_DATA, /* `*piece` is a part of the body, never empty, valid as long as the bytes */
    READING_WHOLE,
    READING_BAD /* `*reason` says why; a string that lives as long as the process */
};

void direct_reader_begin(struct direct_reader *reader);
/* Takes from the front of `*bytes` until there is something to say. What is left after READING_WHOLE is not the answer's. */
enum direct_reading direct_reader_next(struct direct_reader *reader, coord_slice *bytes, coord_slice *piece,
                                       const char **reason) COORD_MUST_CHECK;
/* The line that was given last ended the final head. */
void direct_reader_head_over(struct direct_reader *reader, const struct answer_head *head, bool to_head);
/* The line that was given last lies in the bytes, and not in the reader. */
bool direct_reader_lent(const struct direct_reader *reader);
/* Nothing of the answer is missing: the next call says so without taking a byte. */
bool direct_reader_whole(const struct direct_reader *reader);
/* The connection has ended: READING_WHOLE or READING_BAD. */
enum direct_reading direct_reader_end(const struct direct_reader *reader, const char **reason) COORD_MUST_CHECK;
void direct_reader_release(struct direct_reader *reader);

#endif
