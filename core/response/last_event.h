/*
 * The last content event of a chat or completions stream, while the frame behind it is still to come.
 *
 * vLLM tells `system_fingerprint` on the event that ends a choice, or, where usage is asked for, on the usage frame behind it
 * (tests/data/vllm-0.32). Where that frame is taken out because only we have asked for it, the member belongs on the event
 * before it. So the event that ends the last choice is kept until the next event with data shows what stands on it: the engine
 * writes both in one go. It is kept for LAST_EVENT_WAIT_NS at most and is never lost: not to another event, an end or an abort.
 * What has no data (comments that keep a connection alive) and comes meanwhile waits behind it.
 *
 * Invariant: at most one event with data is kept, and nothing that came behind it has left before it.
 * Ownership: the struct is the writer's; zeroed, it keeps nothing. last_event_release frees what it holds.
 * Thread: [reactor]; without a reactor (tests) an event is kept for as long as nothing follows.
 */
#ifndef RESPONSE_LAST_EVENT_H
#define RESPONSE_LAST_EVENT_H

#include "runtime/buffer.h"
#include "runtime/reactor.h"

#include <coordinator/response.h>
#include <coordinator/sse.h>

static const int64_t LAST_EVENT_WAIT_NS = INT64_C(50000000);

struct last_event {
    coord_writer *writer; /* that keeps it; set with the first event */
    uint64_t choices;     /* that the answer has; 0: no event of it is ever kept */
    uint64_t ended;       /* how many of them */
    struct buffer raw; /* the kept event and what waits behind it, up to the limit of what is inspected; empty: none */
    size_t data_end;   /* where its data ends inside `raw` */
    struct timer timer;
};

/*
 * Reads how many choices the request asks for: n, and on completions that many for each prompt. Other APIs: none, so that nothing
 * is ever kept.
 */
void last_event_begin(struct last_event *last, coord_request *request);
/*
 * False when `piece`, of whole events, gives no choice a `finish_reason`; far cheaper than parsing. An event that spells the name with
 * escapes is never kept.
 */
bool last_event_maybe(const struct last_event *last, coord_slice piece);
/* True when the event ends the last choice and was kept, a copy of it: `writer` passes it on by last_event_pass, or the timer does. */
bool last_event_keep(struct last_event *last, coord_writer *writer, const coord_sse_event *event);
static inline bool last_event_kept(const struct last_event *last) { return last->raw.size > 0; }
/* True when an event is kept and `raw`, an event without data, was taken to go out behind it. */
bool last_event_append(struct last_event *last, coord_slice raw);
/*
 * Passes on what is kept, if anything. `frame`: the data of the usage frame behind it, which is being taken out (JSON, as
 * coord_usage_is_frame has found); empty: none.
 */
void last_event_pass(struct last_event *last, coord_slice frame);
/* Drops what is kept. */
void last_event_release(struct last_event *last);

#endif
