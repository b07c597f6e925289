/*
 * The transcript (--record): every request as one line of JSON, flushed before the request is answered, so that a test
 * that has the answer finds the line.
 *
 * Encoding: each byte of method, target, headers and body is one character; bytes below 0x20 and above 0x7e are written
 * \u00XX. In Python, json.loads(line)["body"].encode("latin-1") is the body as it came.
 */
#ifndef SIM_RECORD_H
#define SIM_RECORD_H

#include "http.h"

/* Opens (and empties) the file; false with errno if that fails. Without it record_request does nothing. */
bool record_open(const char *path);
void record_close(void);
/* `served`: requests that this connection carried before. `whole`: false when the body was refused before its end. */
void record_request(const struct http_request *request, const char *phase, uint64_t connection, uint64_t served,
                    bool whole);

#endif
