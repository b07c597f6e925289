/*
 * Request ids: the client's when it may be used, else a random UUID (decision 37).
 *
 * Random bytes come from the system in blocks per thread: one system call for many ids. Thread: any.
 */
#ifndef PIPELINE_IDS_H
#define PIPELINE_IDS_H

#include "http/headers.h"

enum { ID_SIZE = 36 };

/* A fresh version 4 UUID in lower case, NUL-terminated. */
void id_fresh(char out[ID_SIZE + 1]);

/* The client's x-request-id if there is exactly one of [A-Za-z0-9-]{1,128}, else a fresh one; in the arena. `*rejected` (may be NULL): the size of one that was refused, else 0. Empty: memory is short. */
coord_slice id_of_request(const struct headers *headers, struct arena *arena, size_t *rejected);

#endif
