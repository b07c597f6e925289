/* See scanner.h: arrays of token ids. */
#include "json/integers.h"
#include "json/scanner.h"

enum { LARGEST_ID_DIGITS = 16 }; /* of 2^53 = 9007199254740992 */

static const uint64_t largest_id = UINT64_C(1) << 53;

static json_bytes over_space(json_bytes at, json_bytes end)
{
    while (at < end && json_is_space(*at))
        at++;
    return at;
}

/* Behind the id that begins at `at`; NULL when none does. */
static json_bytes take_id(json_bytes at, json_bytes end)
{
    json_bytes after = json_find_not_digit(at, end);
    size_t digits = (size_t)(after - at);
    uint64_t value = 0;

    if (digits == 0 || digits > LARGEST_ID_DIGITS || (*at == '0' && digits > 1))
        return NULL;
    for (; at < after; at++)
        value = value * 10 + (uint64_t)(*at - '0');
    return value <= largest_id ? after : NULL;
}

bool json_count_ids(coord_slice text, uint64_t *count)
{
    json_bytes at = (json_bytes)text.data;
    json_bytes end = text.size ? at + text.size : at;
    uint64_t counted = 0;

    if (at == end || *at != '[')
        return false;
    at = over_space(at + 1, end);
    while (counted > 0 || at == end || *at != ']') {
        at = take_id(over_space(json_pass_integers(at, end, &counted), end), end);
        if (!at)
            return false;
        counted++;
        at = over_space(at, end);
        if (at == end || *at != ',')
            break;
        at++;
    }
    if (at == end || *at != ']' || over_space(at + 1, end) != end)
        return false;
    *count = counted;
    return true;
}
