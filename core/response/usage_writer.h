/*
 * What the two usage writers share: cutting an answer into what may hold a usage block.
 *
 * An event stream in which the word does not stand passes without being parsed (events.h).
 * Thread: [reactor].
 */
#ifndef RESPONSE_USAGE_WRITER_H
#define RESPONSE_USAGE_WRITER_H

#include "response/events.h"

#include <coordinator/usage.h>

enum answer_form { FORM_OTHER = 0, FORM_JSON, FORM_EVENTS };

/* The form of an answer that may hold usage: FORM_OTHER for errors and other types. */
enum answer_form usage_form(const coord_head *head);

/* True when `piece` follows an event's end, ends at one, and holds no usage. */
bool usage_can_skip(const coord_sse *sse, coord_slice piece);

/* How much of an answer is kept at most (response.inspect_limit). */
size_t usage_limit(const coord_request *request);

#endif
