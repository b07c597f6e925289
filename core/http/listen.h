/*
 * Listening sockets of our own (decision 68): parsed address, dual-stack, SO_REUSEPORT, non-blocking.
 * Thread: [load].
 */
#ifndef HTTP_LISTEN_H
#define HTTP_LISTEN_H

#include "runtime/buffer.h"

/*
 * Opens `count` sockets on the address `text` (":8080" is dual-stack, "127.0.0.1:0", "[::1]:80", "host:port"); more than one share the port by
 * SO_REUSEPORT. COORD_OK; COORD_INVALID (`reason` says what is wrong with the text), COORD_FAIL (`reason` has the system's words).
 */
coord_status listen_open(coord_slice text, unsigned count, int *fds, struct buffer *reason);

/* The port that a socket got. */
uint16_t listen_port(int fd);

/* Raises RLIMIT_NOFILE to its hard limit and returns it. */
uint64_t listen_raise_descriptors(void);

#endif
