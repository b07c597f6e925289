/* See ids.h. */
#include "pipeline/ids.h"

#include <stdlib.h>
#include <sys/random.h>
#include <uuid/uuid.h>

enum { POOL_SIZE = 4096, ID_LIMIT = 128 };

static void random_bytes(unsigned char *out, size_t size)
{
    static _Thread_local unsigned char pool[POOL_SIZE];
    static _Thread_local size_t left;

    if (left < size) {
        if (getrandom(pool, sizeof pool, 0) != (ssize_t)sizeof pool)
            abort(); /* ids must not repeat */
        left = sizeof pool;
    }
    left -= size;
    memcpy(out, pool + left, size);
}

void id_fresh(char out[ID_SIZE + 1])
{
    uuid_t bytes;

    random_bytes(bytes, sizeof bytes);
    bytes[6] = (unsigned char)((bytes[6] & 0x0f) | 0x40);
    bytes[8] = (unsigned char)((bytes[8] & 0x3f) | 0x80);
    uuid_unparse_lower(bytes, out);
}

static bool usable(coord_slice id)
{
    if (id.size == 0 || id.size > ID_LIMIT)
        return false;
    for (size_t i = 0; i < id.size; i++) {
        char at = id.data[i];

        if (!((at >= 'a' && at <= 'z') || (at >= 'A' && at <= 'Z') || (at >= '0' && at <= '9') || at == '-'))
            return false;
    }
    return true;
}

coord_slice id_of_request(const struct headers *headers, struct arena *arena, size_t *rejected)
{
    const struct header *field = headers_first(headers, HEADER_REQUEST_ID);
    char fresh[ID_SIZE + 1];

    if (rejected)
        *rejected = 0;
    if (field && headers_count(headers, field->name) == 1 && usable(field->value))
        return arena_copy(arena, field->value); /* the head goes before the exchange, once an answer is out */
    if (field && rejected)
        *rejected = field->value.size;
    id_fresh(fresh);
    return arena_copy(arena, (coord_slice){fresh, ID_SIZE});
}
