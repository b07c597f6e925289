/*
 * An error that a worker tells inside of a 200 stream (decision 54): the bytes pass as they are, but the request counts as
 * failed. Looked for in the worker's own bytes, before any writer; a compressed stream is not looked at.
 *
 * Invariant: only the first error counts. Thread: [reactor].
 */
#ifndef PIPELINE_STREAM_WATCH_H
#define PIPELINE_STREAM_WATCH_H

#include "http/headers.h"

#include <coordinator/sse.h>

struct stream_watch {
    bool on;
    bool midway; /* some of the stream was skipped before there was a parser */
    size_t limit;
    coord_sse *sse;
    int32_t status; /* the error's code where that is a status, else 500; 0: there was none */
};

/* A relayed answer begins. `limit`: the longest event that is looked at. */
void stream_watch_begin(struct stream_watch *watch, int32_t status, const struct headers *headers, size_t limit);
void stream_watch_feed(struct stream_watch *watch, coord_slice bytes);
/* The stream ended cleanly: its last event may lack the blank line. */
void stream_watch_end(struct stream_watch *watch);
void stream_watch_release(struct stream_watch *watch);

#endif
