/* See sequence.h. */
#include "pipeline/sequence.h"

#include <string.h>

void sequence_begin(struct sequence *sequence) { *sequence = (struct sequence){.last = -1}; }

static void look_for_numbers(struct sequence *sequence, const char *from, const char *end)
{
    static const char name[] = "\"sequence_number\":";

    for (; (from = memmem(from, (size_t)(end - from), name, sizeof name - 1)); from++) {
        int64_t value = 0;
        const char *at = from + sizeof name - 1;

        while (at < end && *at == ' ')
            at++;
        for (; at < end && *at >= '0' && *at <= '9' && value < INT64_MAX / 16; at++)
            value = 10 * value + (*at - '0');
        if (value > sequence->last)
            sequence->last = value;
    }
}

static void look_for_id(struct sequence *sequence, const char *from, const char *end)
{
    static const char name[] = "\"id\":\"resp";
    const char *found = memmem(from, (size_t)(end - from), name, sizeof name - 1);
    const char *begin = found ? found + sizeof name - 1 - strlen("resp") : NULL;
    const char *stop = found ? memchr(begin, '"', (size_t)(end - begin)) : NULL;

    if (stop && (size_t)(stop - begin) < sizeof sequence->response_id)
        memcpy(sequence->response_id, begin, (size_t)(stop - begin));
}

static void look(struct sequence *sequence, const char *from, size_t size)
{
    look_for_numbers(sequence, from, from + size);
    if (!sequence->response_id[0])
        look_for_id(sequence, from, from + size);
}

/* Keeps the last SEQUENCE_CARRY bytes of what was kept and of `bytes`. */
static void carry(struct sequence *sequence, coord_slice bytes)
{
    size_t taken = bytes.size < SEQUENCE_CARRY ? bytes.size : SEQUENCE_CARRY;
    size_t room = SEQUENCE_CARRY - taken;
    size_t kept = sequence->carry_size < room ? sequence->carry_size : room;

    memmove(sequence->carry, sequence->carry + sequence->carry_size - kept, kept);
    memcpy(sequence->carry + kept, bytes.data + bytes.size - taken, taken);
    sequence->carry_size = kept + taken;
}

void sequence_note(struct sequence *sequence, coord_slice bytes)
{
    char joined[2 * SEQUENCE_CARRY];
    size_t head = bytes.size < SEQUENCE_CARRY ? bytes.size : SEQUENCE_CARRY;

    if (bytes.size == 0)
        return;
    memcpy(joined, sequence->carry, sequence->carry_size);
    memcpy(joined + sequence->carry_size, bytes.data, head);
    look(sequence, joined, sequence->carry_size + head);
    if (bytes.size > head)
        look(sequence, bytes.data, bytes.size);
    carry(sequence, bytes);
}
