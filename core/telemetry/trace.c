/* See trace.h. The format is W3C Trace Context, level 2 (https://www.w3.org/TR/trace-context-2/). */
#include "telemetry/trace.h"

#include <errno.h>
#include <sys/random.h>
#include <time.h>

/* version-trace_id-parent_id-flags of version 00 */
enum {
    VERSION = 2,
    TRACE_ID = 32,
    PARENT_ID = 16,
    FLAGS = 2,
    TRACE_ID_AT = VERSION + 1,
    PARENT_ID_AT = TRACE_ID_AT + TRACE_ID + 1,
    FLAGS_AT = PARENT_ID_AT + PARENT_ID + 1,
    TRACEPARENT = FLAGS_AT + FLAGS
};
_Static_assert(TRACEPARENT == 55, "the length of a traceparent");

enum { KNOWN_FLAGS = 0x03 }; /* sampled, random: what others mean is not defined, and they are not passed on */

static const char hex_digits[] = "0123456789abcdef";

static int hex_value(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    if (digit >= 'a' && digit <= 'f')
        return digit - 'a' + 10;
    return -1; /* upper case is not allowed */
}

static bool is_hex(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (hex_value(text[i]) < 0)
            return false;
    return true;
}

static bool all_zero(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (text[i] != '0')
            return false;
    return true;
}

static bool well_formed(coord_slice value)
{
    const char *text = value.data;
    bool version_00;

    if (value.size < TRACEPARENT || !is_hex(text, VERSION) || memcmp(text, "ff", VERSION) == 0)
        return false;
    version_00 = memcmp(text, "00", VERSION) == 0;
    if (value.size > TRACEPARENT && (version_00 || text[TRACEPARENT] != '-'))
        return false;
    return text[VERSION] == '-' && text[PARENT_ID_AT - 1] == '-' && text[FLAGS_AT - 1] == '-' &&
           is_hex(text + TRACE_ID_AT, TRACE_ID) && is_hex(text + PARENT_ID_AT, PARENT_ID) &&
           is_hex(text + FLAGS_AT, FLAGS) && !all_zero(text + TRACE_ID_AT, TRACE_ID) &&
           !all_zero(text + PARENT_ID_AT, PARENT_ID);
}

struct trace_context trace_parse(coord_slice traceparent)
{
    struct trace_context context = {0};
    int flags;

    if (!well_formed(traceparent))
        return context;
    context.valid = true;
    memcpy(context.trace_id, traceparent.data + TRACE_ID_AT, TRACE_ID);
    memcpy(context.parent_id, traceparent.data + PARENT_ID_AT, PARENT_ID);
    flags = hex_value(traceparent.data[FLAGS_AT + 1]) & KNOWN_FLAGS;
    context.flags[0] = '0';
    context.flags[1] = hex_digits[flags];
    return context;
}

/* A parent id of zero is invalid, so zero is never returned. */
static uint64_t random_id(void)
{
    uint64_t id = 0;
    struct timespec now;
    ssize_t got;

    do
        got = getrandom(&id, sizeof id, 0);
    while (got < 0 && errno == EINTR);
    if (got != (ssize_t)sizeof id || id == 0) { /* no such system call in this sandbox: unique enough for a span */
        clock_gettime(CLOCK_MONOTONIC, &now);
        id = ((uint64_t)now.tv_sec << 32 ^ (uint64_t)now.tv_nsec ^ (uint64_t)(uintptr_t)&now) | 1;
    }
    return id;
}

void trace_format_child(const struct trace_context *context, char out[56])
{
    uint64_t id;

    if (!context->valid) {
        out[0] = '\0';
        return;
    }
    id = random_id();
    memcpy(out, "00-", TRACE_ID_AT);
    memcpy(out + TRACE_ID_AT, context->trace_id, TRACE_ID);
    out[PARENT_ID_AT - 1] = '-';
    for (size_t i = 0; i < PARENT_ID; i++)
        out[PARENT_ID_AT + i] = hex_digits[id >> (60 - 4 * i) & 0xF];
    out[FLAGS_AT - 1] = '-';
    memcpy(out + FLAGS_AT, context->flags, FLAGS);
    out[TRACEPARENT] = '\0';
}
