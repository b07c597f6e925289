/* A gzip stream of stored blocks; see gzip.h. */
#include "gzip.h"

static uint32_t crc_add(uint32_t crc, struct text plain)
{
    static uint32_t table[256];
    if (!table[1])
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t c = i;
            for (int bit = 0; bit < 8; bit++)
                c = c & 1 ? 0xedb88320u ^ c >> 1 : c >> 1;
            table[i] = c;
        }
    crc = ~crc;
    for (size_t i = 0; i < plain.len; i++)
        crc = table[(crc ^ (unsigned char)plain.at[i]) & 0xff] ^ crc >> 8;
    return ~crc;
}

static void begin(struct gzip *gzip, struct buf *out)
{
    if (gzip->begun)
        return;
    gzip->begun = true;
    buf_add(out, "\x1f\x8b\x08\0\0\0\0\0\0\xff", 10);
}

static void add_block(struct buf *out, bool last, const char *at, size_t len)
{
    unsigned char head[5] = {last, (unsigned char)len, (unsigned char)(len >> 8), (unsigned char)~len,
                             (unsigned char)(~len >> 8)};
    buf_add(out, head, sizeof head);
    buf_add(out, at, len);
}

void gzip_add(struct gzip *gzip, struct text plain, struct buf *out)
{
    begin(gzip, out);
    gzip->crc = crc_add(gzip->crc, plain);
    gzip->size += (uint32_t)plain.len;
    while (plain.len) {
        size_t piece = plain.len < 65535 ? plain.len : 65535;
        add_block(out, false, plain.at, piece);
        plain.at += piece;
        plain.len -= piece;
    }
}

void gzip_end(struct gzip *gzip, struct buf *out)
{
    begin(gzip, out);
    add_block(out, true, "", 0);
    for (int shift = 0; shift < 32; shift += 8)
        buf_add(out, (char[]){(char)(gzip->crc >> shift)}, 1);
    for (int shift = 0; shift < 32; shift += 8)
        buf_add(out, (char[]){(char)(gzip->size >> shift)}, 1);
}
