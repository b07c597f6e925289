/*
 * Text to a JSON string. Thread: any; no state outside the arguments.
 */
#ifndef JSON_QUOTE_H
#define JSON_QUOTE_H

#include "runtime/buffer.h"

/*
 * Appends `text` in quotes: only what JSON demands is escaped, everything else goes through as it is; each byte that is not
 * part of valid UTF-8 becomes U+FFFD. False when memory is short or the buffer's limit is reached.
 */
bool json_append_quoted(struct buffer *buffer, coord_slice text) COORD_MUST_CHECK;

#endif
