/* See explain.h: what both forms of the output say of steps and writers. */
#include "cli/explain.h"

static const struct step *answered_by(const struct rehearsal *rehearsal)
{
    for (size_t i = 0; i < rehearsal->pipeline->step_count; i++)
        if (rehearsal->steps[i].ended && rehearsal->steps[i].status == COORD_DONE)
            return rehearsal->steps[i].step;
    return NULL;
}

static const struct step *failed_by(const struct rehearsal *rehearsal)
{
    for (size_t i = 0; i < rehearsal->pipeline->step_count; i++)
        if (rehearsal->steps[i].ended && rehearsal->steps[i].status < 0 && !rehearsal->steps[i].undone)
            return rehearsal->steps[i].step;
    return NULL;
}

static const char *not_reached(const struct rehearsal *rehearsal)
{
    return answered_by(rehearsal) ? "not reached: a step before it answered"
           : failed_by(rehearsal) ? "not reached: a step before it failed"
                                  : "not reached";
}

const char *explain_why(const struct rehearsal *rehearsal, const struct rehearsed_step *step)
{
    if (step->why)
        return step->why;
    if (!step->ran)
        return not_reached(rehearsal);
    if (!step->ended || step->step == rehearsal->stuck)
        return "it did not end";
    if (step->status < 0)
        return "it failed without saying why";
    return step->step->entry->when.given ? "its conditions hold" : "it has no conditions";
}

static void note(struct writer_changes *changes, size_t *count, coord_slice name)
{
    for (size_t i = 0; i < *count; i++)
        if (coord_slice_is(name, changes->headers[i]))
            return;
    if (*count + 1 < sizeof changes->headers / sizeof *changes->headers)
        changes->headers[(*count)++] = name.data; /* a copy in an arena: a NUL stands behind it */
}

static void compare_headers(const struct headers *a, const struct headers *b, struct writer_changes *changes,
                            size_t *count)
{
    for (size_t i = 0; i < a->count; i++) {
        const struct header *other = headers_find(b, a->list[i].name);

        if (!other || !coord_slice_equal(other->value, a->list[i].value))
            note(changes, count, a->list[i].name);
    }
}

struct writer_changes explain_changes(const struct rehearsed_writer *writer)
{
    const struct rehearsed_writer *next = writer->inner;
    struct writer_changes changes = {0};
    size_t count = 0;

    while (next->writer && (!next->reached || next->skipped))
        next = next->inner;
    if (!writer->reached || writer->skipped || !next->reached)
        return changes;
    changes.status = writer->status != next->status;
    changes.body = !coord_slice_equal(buffer_slice(&writer->body), buffer_slice(&next->body));
    compare_headers(&writer->headers, &next->headers, &changes, &count);
    compare_headers(&next->headers, &writer->headers, &changes, &count);
    return changes;
}
