/*
 * A gzip stream (RFC 1952) of stored deflate blocks (RFC 1951 3.2.4): every decoder takes it, and it needs no library.
 *
 * A zeroed struct is a stream not begun. Each gzip_add is complete on the wire, so an event that was added can be
 * decoded at once, as with a server that flushes after each event.
 */
#ifndef SIM_GZIP_H
#define SIM_GZIP_H

#include "buf.h"

struct gzip {
    uint32_t crc;
    uint32_t size;
    bool begun;
};

void gzip_add(struct gzip *gzip, struct text plain, struct buf *out);
void gzip_end(struct gzip *gzip, struct buf *out);

#endif
