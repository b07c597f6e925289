/*
 * A growing byte buffer with a hard cap, and nothing else.
 *
 * Invariant: data[0 … size) is what was appended; size ≤ limit. The first block is hardly larger than what is asked for, then
 * growth is geometric. Ownership: the buffer owns its memory until buffer_release or buffer_take. Thread: whoever owns it.
 */
#ifndef RUNTIME_BUFFER_H
#define RUNTIME_BUFFER_H

#include <coordinator/base.h>

#include <stdarg.h>

/* {.limit = N} is an empty buffer of at most N bytes; a zeroed one has no cap. */
struct buffer {
    char *data;
    size_t size;
    size_t capacity;
    size_t limit; /* 0: none */
};

/* Makes room for `more` bytes. False when that passes the limit or memory is short; the buffer is then as before. */
bool buffer_reserve(struct buffer *buffer, size_t more) __attribute__((warn_unused_result));

/* Appends; false as buffer_reserve. */
bool buffer_append(struct buffer *buffer, const void *data, size_t size) __attribute__((warn_unused_result));
bool buffer_append_slice(struct buffer *buffer, coord_slice slice) __attribute__((warn_unused_result));
bool buffer_append_text(struct buffer *buffer, const char *text) __attribute__((warn_unused_result));

/* Appends formatted text; false as buffer_reserve. */
bool buffer_printf(struct buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3), warn_unused_result));
bool buffer_vprintf(struct buffer *buffer, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0), warn_unused_result));

/*
 * Puts a message in place of what it holds: why something failed. One that does not fit is lost, and nothing else with it.
 * False, always, so that `return buffer_explain(reason, …)` reads well.
 */
bool buffer_explain(struct buffer *reason, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Drops the first `size` bytes (memmove). */
void buffer_drop(struct buffer *buffer, size_t size);

/* Empties it, keeping memory of at most `keep` bytes. */
void buffer_clear(struct buffer *buffer, size_t keep);

/* Frees the memory; the buffer is empty and may be used again. */
void buffer_release(struct buffer *buffer);

/* Hands the memory to the caller (free()), NULL if empty, and leaves an empty buffer. */
char *buffer_take(struct buffer *buffer, size_t *size);

static inline coord_slice buffer_slice(const struct buffer *buffer)
{
    return (coord_slice){buffer->data, buffer->size};
}

#endif
