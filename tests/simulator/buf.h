/*
 * Bytes that grow, and borrowed bytes.
 *
 * `struct buf` owns its memory; bytes [from, len) are its contents. `struct text` borrows. The simulator is a test
 * program: when memory is short it stops, so nothing here fails.
 */
#ifndef SIM_BUF_H
#define SIM_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
    char *data;
    size_t from; /* consumed so far */
    size_t len;  /* end of the contents; from <= len <= cap */
    size_t cap;
};

struct text {
    const char *at; /* NULL: there is none */
    size_t len;
};

#define TEXT(literal) ((struct text){literal, sizeof(literal) - 1})

/* A zeroed buf is empty and ready. */
void buf_free(struct buf *buf);

/* Room for `more` bytes at the end; returns where they go. The caller then adds to `len` what it wrote. */
char *buf_room(struct buf *buf, size_t more);
void buf_add(struct buf *buf, const void *bytes, size_t len);
void buf_text(struct buf *buf, const char *words);
void buf_printf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buf_uint(struct buf *buf, uint64_t number);

/* Adds the inside of a JSON string: quotes, backslashes and controls escaped, other bytes as they are. */
void buf_json(struct buf *buf, struct text words);
/* Same, but every byte above 0x7e is escaped too, as \u00XX: reads back as latin-1, so any bytes survive. */
void buf_json_bytes(struct buf *buf, struct text bytes);

static inline struct text buf_view(const struct buf *buf)
{
    return (struct text){buf->data ? buf->data + buf->from : "", buf->len - buf->from};
}

static inline size_t buf_left(const struct buf *buf) { return buf->len - buf->from; }

/* Drops the first `n` bytes; an emptied buffer that had grown past a page gives its memory back. */
void buf_drop(struct buf *buf, size_t n);

bool text_is(struct text text, const char *words);
/* Same, ASCII case ignored. */
bool text_is_nocase(struct text text, const char *words);
bool text_has_nocase(struct text text, const char *part);
struct text text_trim(struct text text);
/* Decimal digits only, at most UINT64_MAX. */
bool text_uint(struct text text, uint64_t *number);

#endif
