/*
 * See explain.h: the dry run for people. In a leg's body what was spliced stands between «…»; the rest is the client's, byte for
 * byte.
 */
#include "cli/explain.h"

#include "cli/page.h"

static void put_slice(struct page *page, coord_slice text)
{
    page->good = page->good && buffer_append_slice(page->out, text);
}

static void put_headers(struct page *page, const struct headers *headers)
{
    for (size_t i = 0; i < headers->count; i++)
        put(page, "    | %.*s: %.*s\n", COORD_FMT(headers->list[i].name), COORD_FMT(headers->list[i].value));
}

/* Line by line, so that it stands out from what is said about it. */
static void put_block(struct page *page, coord_slice text)
{
    while (text.size > 0) {
        const char *end = memchr(text.data, '\n', text.size);
        size_t size = end ? (size_t)(end - text.data) : text.size;

        put(page, "    | ");
        put_slice(page, (coord_slice){text.data, size});
        put(page, "\n");
        size += end != NULL;
        text = (coord_slice){text.data + size, text.size - size};
    }
}

static void put_body(struct page *page, const struct rehearsed_leg *leg)
{
    struct buffer marked = {0};
    bool inside = false;

    for (size_t i = 0; i < leg->piece_count && page->good; i++) {
        const struct rehearsed_piece *piece = &leg->pieces[i];

        if (piece->text.size == 0)
            continue;
        if (piece->spliced != inside)
            page->good = buffer_append_text(&marked, inside ? "»" : "«");
        inside = piece->spliced;
        page->good = page->good && buffer_append_slice(&marked, piece->text);
    }
    if (inside)
        page->good = page->good && buffer_append_text(&marked, "»");
    put_block(page, buffer_slice(&marked));
    buffer_release(&marked);
}

static void put_splices(struct page *page, const struct rehearsed_leg *leg)
{
    if (leg->piece_count == 0)
        return;
    if (leg->spliced_count == 0) {
        put(page, "    every byte of the body is the client's\n");
    } else if (leg->spliced_count == 1 && leg->spliced[0].size == 0) {
        put(page, "    the whole body is the step's own\n");
    } else {
        put(page, "    set or removed:");
        for (size_t i = 0; i < leg->spliced_count; i++)
            put(page, " %.*s", COORD_FMT(leg->spliced[i]));
        put(page, "; every other byte is the client's\n");
    }
}

static void put_leg(struct page *page, const struct rehearsed_leg *leg)
{
    put(page, "  leg %s to %.*s (%s transport)\n", leg->name, COORD_FMT(leg->to), leg->transport);
    put(page, "    | %.*s %.*s HTTP/1.1\n", COORD_FMT(leg->method), COORD_FMT(leg->target));
    put_headers(page, &leg->headers);
    put(page, "    |\n");
    put_body(page, leg);
    put_splices(page, leg);
    if (leg->at.file)
        put(page, "    answered with HTTP %d, as %s:%u says\n", leg->answered, leg->at.file, leg->at.line);
    else
        put(page, "    answered with HTTP %d, which stands in for a worker's\n", leg->answered);
}

static void put_step(struct page *page, const struct rehearsal *rehearsal, const struct rehearsed_step *seen)
{
    const char *how = !seen->ran                         ? "did not run"
                      : seen->undone                     ? "failed, and the pipeline goes on without it"
                      : !seen->ended || seen->status < 0 ? "failed"
                      : seen->status == COORD_DONE       ? "ran and answered"
                                                         : "ran";

    put(page, "\nstep %s", seen->step->id);
    if (strcmp(seen->step->id, seen->step->kind->type.name) != 0)
        put(page, " (type %s)", seen->step->kind->type.name);
    put(page, " %s: %s\n", how, explain_why(rehearsal, seen));
    for (const struct rehearsed_leg *leg = seen->legs; leg; leg = leg->next)
        put_leg(page, leg);
}

static void put_changes(struct page *page, const struct rehearsed_writer *writer)
{
    struct writer_changes changes = explain_changes(writer);

    if (writer->skipped) {
        put(page, "let the answer pass it by\n");
        return;
    }
    if (!writer->rewrites) {
        put(page, "looked on\n");
        return;
    }
    if (!changes.status && !changes.body && !changes.headers[0]) {
        put(page, "changed nothing\n");
        return;
    }
    put(page, "changed%s%s%s", changes.status ? " the status" : "", changes.status && changes.body ? " and" : "",
        changes.body ? " the body" : "");
    for (size_t i = 0; changes.headers[i]; i++)
        put(page, "%s%s",
            i                                ? ", "
            : changes.status || changes.body ? " and the headers "
                                             : " the headers ",
            changes.headers[i]);
    put(page, "\n");
}

static void put_writers(struct page *page, const struct rehearsal *rehearsal)
{
    bool any = false;

    for (const struct rehearsed_writer *writer = rehearsal->outermost; writer->writer; writer = writer->inner) {
        if (!writer->reached)
            continue;
        if (!any)
            put(page, "\nwriters, in the order in which they saw the answer's bytes:\n");
        any = true;
        put(page, "  %.*s of step %s: ", COORD_FMT(writer->name), writer->step);
        put_changes(page, writer);
        if (explain_changes(writer).body) {
            put(page, "    it got:\n");
            put_block(page, buffer_slice(&writer->body));
        }
    }
    if (!any)
        put(page, "\nno writer saw the answer\n");
}

static void put_answer(struct page *page, const struct rehearsal *rehearsal)
{
    if (rehearsal->answer.status != 0) {
        put(page, "\nthe client gets HTTP %d\n", rehearsal->answer.status);
        put_headers(page, &rehearsal->answer.headers);
        put(page, "    |\n");
        put_block(page, buffer_slice(&rehearsal->answer_body));
    }
    if (rehearsal->error)
        put(page, "\nerror: %s\n", rehearsal->error);
}

bool explain_text(const struct rehearsal *rehearsal, struct buffer *out)
{
    struct page page = {out, true};

    for (const struct rehearsed_try *entry = rehearsal->tries; entry; entry = entry->next)
        put(&page, "pipeline %.*s passed over: %s\n", COORD_FMT(entry->name), entry->why ? entry->why : "");
    if (rehearsal->pipeline)
        put(&page, "pipeline %.*s serves the request\n", COORD_FMT(rehearsal->pipeline->settings->name));
    else
        put(&page, "no pipeline serves the request\n");
    for (size_t i = 0; rehearsal->pipeline && i < rehearsal->pipeline->step_count; i++)
        put_step(&page, rehearsal, &rehearsal->steps[i]);
    if (rehearsal->pipeline)
        put_writers(&page, rehearsal);
    if (rehearsal->background)
        put(&page, "\nwork in the background\n");
    for (const struct rehearsed_leg *leg = rehearsal->background; leg; leg = leg->next)
        put_leg(&page, leg);
    put_answer(&page, rehearsal);
    return page.good;
}
