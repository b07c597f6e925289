/*
 * Text for people, put together from many pieces: `good` turns false once, when memory is short, and stays so. One look at the end
 * tells. Thread: [load].
 */
#ifndef CLI_PAGE_H
#define CLI_PAGE_H

#include "runtime/buffer.h"

struct page {
    struct buffer *out;
    bool good;
};

__attribute__((format(printf, 2, 3))) static inline void put(struct page *page, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    page->good = page->good && buffer_vprintf(page->out, format, arguments);
    va_end(arguments);
}

#endif
