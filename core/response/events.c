/* See events.h. */
#include "response/events.h"

#include <string.h>

/* A blank line at the end: LF LF, or CR LF CR LF. A stream of lone CRs goes the slow way. */
static bool ends_an_event(coord_slice piece)
{
    const char *end = piece.data + piece.size;

    if (piece.size < 2 || end[-1] != '\n')
        return false;
    return end[-2] == '\n' || (piece.size >= 4 && end[-2] == '\r' && end[-3] == '\n');
}

bool events_can_skip(const coord_sse *sse, coord_slice piece, const char *word)
{
    return (!sse || (coord_sse_at_boundary(sse) && coord_sse_rest(sse).size == 0)) && ends_an_event(piece) &&
           !memmem(piece.data, piece.size, word, strlen(word));
}

coord_sse *events_parser_new(size_t limit, bool midway)
{
    coord_sse_event blank = {.size = sizeof blank};
    coord_sse *sse = coord_sse_new(limit);

    if (sse && midway &&
        (coord_sse_feed(sse, (coord_slice)COORD_SLICE("\n")) != COORD_OK || coord_sse_next(sse, &blank) != COORD_OK)) {
        coord_sse_free(sse);
        return NULL;
    }
    return sse;
}
