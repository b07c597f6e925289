/*
 * Looking for a word in an event stream on the side, cheaply: a piece that begins and ends at an event's end is only searched;
 * what does not goes to the parser, and the events come out whole. Thread: [reactor].
 */
#ifndef RESPONSE_EVENTS_H
#define RESPONSE_EVENTS_H

#include <coordinator/sse.h>

/* True when `word`, of two bytes or more, stands in `piece`: memmem for words that are short and rare. */
bool events_hold(coord_slice piece, const char *word);

/* True when `piece` follows an event's end, ends at one, and does not hold `word`. `sse`: the parser so far, NULL: none yet. */
bool events_can_skip(const coord_sse *sse, coord_slice piece, const char *word);

/* A parser for an answer's stream; `midway`: it begins behind an event, where a byte order mark is none. NULL: memory is short. */
coord_sse *events_parser_new(size_t limit, bool midway);

#endif
