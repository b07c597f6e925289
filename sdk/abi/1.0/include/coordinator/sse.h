/*
 * Server-sent events for writer authors: an incremental parser (WHATWG rules) that keeps the bytes, and an emitter.
 *
 * The parser cuts a stream into events: the raw bytes of each from its first byte to the end of its blank line, and its
 * fields. LF, CRLF and a lone CR end a line, also when CR and LF come in different pieces. A BOM at the start is skipped for
 * parsing only. The concatenation of all raw bytes given out (and the rest at the end) is exactly the input.
 *
 * A blank line that ends no event (several in a row) is an event of its own without fields. An event whose blank line ends
 * with a CR as the last byte so far is held until the next byte shows whether a LF belongs to it, or the stream is over.
 */
#ifndef COORDINATOR_SSE_H
#define COORDINATOR_SSE_H

#include <coordinator/base.h>

COORD_BEGIN_DECLS

typedef struct coord_sse coord_sse;

typedef struct coord_sse_event {
    uint32_t size;     /* sizeof(coord_sse_event), set by the caller */
    uint32_t has_data; /* 0: only comments or other fields */
    coord_slice raw;   /* all its bytes, blank line included */
    coord_slice type;  /* value of the last `event` field, empty: none */
    coord_slice data;  /* all `data` fields joined with LF */
    coord_slice
        data_raw; /* where `data` lies inside `raw` when it is one line (then the bytes are the same); else empty */
} coord_sse_event;

/* `limit`: bytes of one event that are kept (0: no limit); a longer one makes coord_sse_next say COORD_LIMIT, for good. NULL: memory is short. */
COORD_API coord_sse *coord_sse_new(size_t limit) COORD_MUST_CHECK;
COORD_API void coord_sse_free(coord_sse *sse);

/* Takes a copy of a piece of the stream. COORD_OK, COORD_LIMIT (said before; nothing was taken), COORD_NO_MEMORY. */
COORD_API coord_status coord_sse_feed(coord_sse *sse, coord_slice piece) COORD_MUST_CHECK;
/* The next complete event; its slices are valid until the next call on `sse`. COORD_OK, COORD_END (none complete yet), COORD_LIMIT, COORD_NO_MEMORY. */
COORD_API coord_status coord_sse_next(coord_sse *sse, coord_sse_event *event) COORD_MUST_CHECK;
/*
 * Bytes that were not given out. At a clean end of the stream those of no complete event are an event without its blank line:
 * coord_sse_last gives the events that are complete (also one that was held for a LF), then parses the rest as one.
 */
COORD_API coord_slice coord_sse_rest(const coord_sse *sse);
COORD_API coord_status coord_sse_last(coord_sse *sse, coord_sse_event *event)
    COORD_MUST_CHECK; /* COORD_OK, COORD_END (nothing is left), COORD_LIMIT, COORD_NO_MEMORY */
/* True when the bytes so far end at an event's end (or nothing came); also where that event is held for a LF. */
COORD_API bool coord_sse_at_boundary(const coord_sse *sse);

/* True when the whole data of the event is [DONE]. */
COORD_API bool coord_sse_is_done(const coord_sse_event *event);

/*
 * Writes an event as `event: TYPE\ndata: LINE\n…\n\n` (type may be empty) into `out`; returns the size that it needs, writes
 * nothing when `room` is less. CR, LF and CRLF in `data` begin a new line; `type` ends at the first.
 */
COORD_API size_t coord_sse_write(coord_slice type, coord_slice data, char *out, size_t room);

COORD_END_DECLS
#endif
