/* See explain.h: the dry run as one JSON object. */
#include "cli/explain.h"

#include <coordinator/document.h>

static void text(coord_json *json, const char *key, coord_slice value)
{
    coord_json_key(json, key);
    coord_json_string(json, value);
}

static void headers(coord_json *json, const struct headers *list)
{
    coord_json_key(json, "headers");
    coord_json_array(json);
    for (size_t i = 0; i < list->count; i++) {
        coord_json_array(json);
        coord_json_string(json, list->list[i].name);
        coord_json_string(json, list->list[i].value);
        coord_json_close(json);
    }
    coord_json_close(json);
}

/* False when memory is short. */
static bool body(coord_json *json, const struct rehearsed_leg *leg)
{
    struct buffer joined = {0};
    bool good = true;

    for (size_t i = 0; i < leg->piece_count && good; i++)
        good = buffer_append_slice(&joined, leg->pieces[i].text);
    text(json, "body", buffer_slice(&joined));
    buffer_release(&joined);
    return good;
}

static bool leg(coord_json *json, const struct rehearsed_leg *seen)
{
    bool good;

    coord_json_object(json);
    text(json, "name", coord_slice_of(seen->name));
    text(json, "to", seen->to);
    text(json, "transport", coord_slice_of(seen->transport));
    text(json, "method", seen->method);
    text(json, "target", seen->target);
    headers(json, &seen->headers);
    good = body(json, seen);
    coord_json_key(json, "spliced");
    coord_json_array(json);
    for (size_t i = 0; i < seen->spliced_count; i++)
        coord_json_string(json, seen->spliced[i]);
    coord_json_close(json);
    coord_json_key(json, "answered");
    coord_json_int(json, seen->answered);
    coord_json_close(json);
    return good;
}

static bool legs(coord_json *json, const char *key, const struct rehearsed_leg *list)
{
    bool good = true;

    coord_json_key(json, key);
    coord_json_array(json);
    for (; list && good; list = list->next)
        good = leg(json, list);
    coord_json_close(json);
    return good;
}

static bool steps(coord_json *json, const struct rehearsal *rehearsal)
{
    size_t count = rehearsal->pipeline ? rehearsal->pipeline->step_count : 0;
    bool good = true;

    coord_json_key(json, "steps");
    coord_json_array(json);
    for (size_t i = 0; i < count && good; i++) {
        const struct rehearsed_step *seen = &rehearsal->steps[i];

        coord_json_object(json);
        text(json, "id", coord_slice_of(seen->step->id));
        text(json, "type", coord_slice_of(seen->step->kind->type.name));
        coord_json_key(json, "ran");
        coord_json_bool(json, seen->ran);
        coord_json_key(json, "failed");
        coord_json_bool(json, seen->ran && (!seen->ended || seen->status < 0));
        text(json, "why", coord_slice_of(explain_why(rehearsal, seen)));
        good = legs(json, "legs", seen->legs);
        coord_json_close(json);
    }
    coord_json_close(json);
    return good;
}

static void changes(coord_json *json, const struct rehearsed_writer *writer)
{
    struct writer_changes made = explain_changes(writer);

    coord_json_key(json, "changed");
    coord_json_object(json);
    coord_json_key(json, "status");
    coord_json_bool(json, made.status);
    coord_json_key(json, "headers");
    coord_json_array(json);
    for (size_t i = 0; made.headers[i]; i++)
        coord_json_string(json, coord_slice_of(made.headers[i]));
    coord_json_close(json);
    coord_json_key(json, "body");
    coord_json_bool(json, made.body);
    coord_json_close(json);
}

static void writers(coord_json *json, const struct rehearsal *rehearsal)
{
    coord_json_key(json, "writers");
    coord_json_array(json);
    for (const struct rehearsed_writer *writer = rehearsal->outermost; writer->writer; writer = writer->inner) {
        if (!writer->reached)
            continue;
        coord_json_object(json);
        text(json, "name", writer->name);
        text(json, "step", coord_slice_of(writer->step));
        coord_json_key(json, "rewrites");
        coord_json_bool(json, writer->rewrites);
        coord_json_key(json, "skipped");
        coord_json_bool(json, writer->skipped);
        changes(json, writer);
        coord_json_close(json);
    }
    coord_json_close(json);
}

static void passed_over(coord_json *json, const struct rehearsal *rehearsal)
{
    coord_json_key(json, "passed_over");
    coord_json_array(json);
    for (const struct rehearsed_try *entry = rehearsal->tries; entry; entry = entry->next) {
        coord_json_object(json);
        text(json, "pipeline", entry->name);
        text(json, "why", coord_slice_of(entry->why ? entry->why : ""));
        coord_json_close(json);
    }
    coord_json_close(json);
}

static void answer(coord_json *json, const struct rehearsal *rehearsal)
{
    coord_json_key(json, "answer");
    if (rehearsal->answer.status == 0) {
        coord_json_null(json);
        return;
    }
    coord_json_object(json);
    coord_json_key(json, "status");
    coord_json_int(json, rehearsal->answer.status);
    headers(json, &rehearsal->answer.headers);
    text(json, "body", buffer_slice(&rehearsal->answer_body));
    coord_json_close(json);
}

static void error(coord_json *json, const struct rehearsal *rehearsal)
{
    if (!rehearsal->error)
        return;
    coord_json_key(json, "error");
    coord_json_object(json);
    coord_json_key(json, "status");
    if (rehearsal->error_status)
        coord_json_int(json, rehearsal->error_status);
    else
        coord_json_null(json);
    text(json, "message", coord_slice_of(rehearsal->error));
    coord_json_close(json);
}

bool explain_json(const struct rehearsal *rehearsal, struct buffer *out)
{
    coord_json *json = coord_json_new();
    coord_slice whole;
    bool good;

    coord_json_object(json);
    coord_json_key(json, "pipeline");
    if (rehearsal->pipeline)
        coord_json_string(json, rehearsal->pipeline->settings->name);
    else
        coord_json_null(json);
    passed_over(json, rehearsal);
    good = steps(json, rehearsal);
    writers(json, rehearsal);
    good = good && legs(json, "background", rehearsal->background);
    answer(json, rehearsal);
    error(json, rehearsal);
    coord_json_close(json);
    good = good && json && coord_json_end(json, &whole) == COORD_OK && buffer_append_slice(out, whole) &&
           buffer_append(out, "\n", 1);
    coord_json_free(json);
    return good;
}
