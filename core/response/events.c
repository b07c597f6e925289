/* See events.h. */
#include "response/events.h"

#include "json/block.h"

#include <string.h>

/* A blank line at the end: LF LF, or CR LF CR LF. A stream of lone CRs goes the slow way. */
static bool ends_an_event(coord_slice piece)
{
    const char *end = piece.data + piece.size;

    if (piece.size < 2 || end[-1] != '\n')
        return false;
    return end[-2] == '\n' || (piece.size >= 4 && end[-2] == '\r' && end[-3] == '\n');
}

/* The places of a block where the first byte of the word stands, and the last one as far behind it as in the word. */
static inline json_mask candidates(json_bytes at, const char *word, size_t size)
{
    return json_block_mask(json_block_is(json_block_load(at), word[0])) &
           json_block_mask(json_block_is(json_block_load(at + size - 1), word[size - 1]));
}

bool events_hold(coord_slice piece, const char *word)
{
    size_t size = strlen(word), reach = JSON_BLOCK + size - 1;
    json_bytes at = (json_bytes)piece.data, last;

    if (piece.size < reach)
        return piece.size >= size && memmem(piece.data, piece.size, word, size) != NULL;
    for (last = at + piece.size - reach;; at = last - at > JSON_BLOCK ? at + JSON_BLOCK : last) {
        for (json_mask hits = candidates(at, word, size); hits; hits = json_mask_rest(hits))
            if (memcmp(at + json_mask_first(hits), word, size) == 0)
                return true;
        if (at == last)
            return false;
    }
}

bool events_can_skip(const coord_sse *sse, coord_slice piece, const char *word)
{
    return (!sse || (coord_sse_at_boundary(sse) && coord_sse_rest(sse).size == 0)) && ends_an_event(piece) &&
           !events_hold(piece, word);
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
