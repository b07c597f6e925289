/*
 * Streams of Responses number their events and name the response: what an end of ours, when the worker breaks off, goes on from.
 *
 * Sees the bytes that go to the client, in pieces that may be cut anywhere. Thread: [reactor].
 */
#ifndef PIPELINE_SEQUENCE_H
#define PIPELINE_SEQUENCE_H

#include <coordinator/base.h>

enum { SEQUENCE_CARRY = 128 };

struct sequence {
    int64_t last;               /* number that went out, -1: none */
    char response_id[80];       /* empty: none yet */
    char carry[SEQUENCE_CARRY]; /* the end of what came, where a name or number may have been cut */
    size_t carry_size;
};

void sequence_begin(struct sequence *sequence);
void sequence_note(struct sequence *sequence, coord_slice bytes);

#endif
