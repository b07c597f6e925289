/*
 * What decision 64 asks of a request's head, as a pure function: whoever disagrees with us about where a request ends could
 * be made to see another one inside it (RFC 9112 sections 3.2, 5.1, 6). Thread: any.
 */
#ifndef HTTP_FRAMING_H
#define HTTP_FRAMING_H

#include "http/headers.h"

/*
 * NULL when the head is unambiguous; `declared` then has the body's length, -1 for chunked, 0 for none. Otherwise a static
 * text that says which rule is broken. Fields that are good are `checked` afterwards.
 */
const char *framing_check(bool http10, struct headers *headers, int64_t *declared);

#endif
