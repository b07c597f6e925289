/* The last bytes of a stream tell whether it stands at an event's end, and whether its last event came (see request.h). */
#include "pipeline/request.h"

void tail_note(struct tail *tail, coord_slice bytes)
{
    size_t room = sizeof tail->bytes, keep;

    if (bytes.size >= room) {
        memcpy(tail->bytes, bytes.data + bytes.size - room, room);
        tail->size = room;
        return;
    }
    keep = tail->size < room - bytes.size ? tail->size : room - bytes.size;
    memmove(tail->bytes, tail->bytes + tail->size - keep, keep);
    memcpy(tail->bytes + keep, bytes.data, bytes.size);
    tail->size = keep + bytes.size;
}

/* One line end off the end: CRLF, LF or CR. */
static size_t without_line_end(const char *text, size_t size)
{
    if (size > 0 && text[size - 1] == '\n')
        size--;
    else
        return size > 0 && text[size - 1] == '\r' ? size - 1 : size;
    return size > 0 && text[size - 1] == '\r' ? size - 1 : size;
}

bool tail_at_boundary(const struct tail *tail)
{
    size_t before = without_line_end(tail->bytes, tail->size);

    return tail->size == 0 ||
           (before < tail->size && (before == 0 || tail->bytes[before - 1] == '\n' || tail->bytes[before - 1] == '\r'));
}
