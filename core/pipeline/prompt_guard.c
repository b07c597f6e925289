/* See prompt_guard.h. */
#include "pipeline/prompt_guard.h"

#include "json/document_internal.h"
#include "telemetry/families.h"
#include "telemetry/log.h"

/* Makes the body as it is now the reference; without memory there is no guard for this request. */
static void take_reference(struct coord_request *request)
{
    coord_document_free(request->rendered);
    request->rendered = coord_document_clone_new(request->body);
    request->rendered_edits = request->body->edits;
}

static bool same(struct coord_request *request, const char *pointer)
{
    coord_slice now = {0}, then = {0};
    bool is = coord_document_get(request->body, pointer, &now) == COORD_OK;
    bool was = coord_document_get(request->rendered, pointer, &then) == COORD_OK;

    if (is != was)
        return false;
    return now.data == then.data ? now.size == then.size : coord_slice_equal(now, then);
}

static void report(struct coord_request *request, const struct step *step, const char *member)
{
    coord_slice id = coord_slice_of(step->id);

    coord_metric_add(families()->prompt_mutated_after_render_total, 1, (coord_slice[]){request->model_label, id});
    coord_log(request, COORD_LOG_WARNING,
              "a step changed the prompt after it was rendered: prefill and decode will not see the same one; move the "
              "step before render",
              (coord_field[]){LOG_TEXT_FIELD("step", id), LOG_TEXT_FIELD("member", coord_slice_of(member + 1)),
                              LOG_TEXT_FIELD("model", request->model)},
              3);
}

void prompt_guard_after(struct coord_request *request, const struct step *step, bool had_ids)
{
    if (request_answered(request) || !request->has_token_ids)
        return;
    if (!had_ids || !request->rendered) { /* this step made the ids; what it did to the body belongs to that */
        take_reference(request);
        return;
    }
    if (request->body->edits == request->rendered_edits)
        return;
    for (size_t i = 0; request->api->prompt && request->api->prompt[i]; i++)
        if (!same(request, request->api->prompt[i])) {
            report(request, step, request->api->prompt[i]);
            break;
        }
    take_reference(request);
}
