/* See quote.h. */
#include "json/quote.h"
#include "json/block.h"
#include "json/utf8.h"

/* What stands for one byte that cannot stand for itself: an ASCII one that json_find_not_plain stops at. */
static bool append_escape(struct buffer *buffer, unsigned char byte)
{
    static const char *const names[256] = {['"'] = "\\\"", ['\\'] = "\\\\", ['\b'] = "\\b", ['\f'] = "\\f",
                                           ['\n'] = "\\n", ['\r'] = "\\r",  ['\t'] = "\\t"};

    if (names[byte])
        return buffer_append(buffer, names[byte], 2);
    return buffer_printf(buffer, "\\u%04x", byte);
}

bool json_append_quoted(struct buffer *buffer, coord_slice text)
{
    json_bytes at = (json_bytes)text.data;
    json_bytes end = text.size ? at + text.size : at;

    if (!buffer_append(buffer, "\"", 1))
        return false;
    while (at < end) {
        json_bytes stop = json_find_not_plain(at, end);
        size_t size;

        if (!buffer_append(buffer, at, (size_t)(stop - at)))
            return false;
        at = stop;
        if (at == end)
            break;
        if (*at < 0x80) {
            if (!append_escape(buffer, *at++))
                return false;
            continue;
        }
        size = json_utf8_size(at, end);
        if (!buffer_append(buffer, size ? (const char *)at : "\xef\xbf\xbd", size ? size : 3))
            return false;
        at += size ? size : 1;
    }
    return buffer_append(buffer, "\"", 1);
}
