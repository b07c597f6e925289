/* See trial.h. */
#include "pipeline/trial.h"

#include "pipeline/call.h"
#include "pipeline/worker.h"
#include "telemetry/log.h"

static bool is_too_late(const struct coord_request *request) { return request->answer_begun && !request->early; }

static void expire(struct timer *timer)
{
    struct coord_request *request =
        (struct coord_request *)((char *)timer - offsetof(struct coord_request, step_timer));

    if (is_too_late(request))
        return;
    request->expired = true;
    request_wake(request);
}

static void keep(struct trial *trial, struct coord_request *request)
{
    *trial = (struct trial){.kept = true,
                            .body = coord_document_clone_new(request->body),
                            .token_text = request->token_text,
                            .token_ids = request->token_ids,
                            .kv_params = request->kv_params,
                            .peer_topology = request->peer_topology,
                            .token_count = request->token_count,
                            .has_token_ids = request->has_token_ids,
                            .has_kv_params = request->has_kv_params,
                            .prefill_usage = request->prefill_usage,
                            .mark = chain_mark(&request->chain)};
    headers_init(&trial->relayed, &request->arena);
    if (!trial->body || !headers_copy(&trial->relayed, &request->relayed))
        trial->kept = false; /* memory is short: then its failure is the request's */
}

void trial_begin(struct trial *trial, struct coord_request *request, const struct step *step)
{
    *trial = (struct trial){0};
    if (step->entry->continues)
        keep(trial, request);
    if (step->entry->timeout_ns == 0)
        return;
    request->step_timer.due = expire;
    request->deadline_ns = reactor_now_fresh(request->worker->reactor) + step->entry->timeout_ns;
    reactor_arm(request->worker->reactor, &request->step_timer, step->entry->timeout_ns);
}

/* Legs that the step left running are its own: nobody waits for them any more. */
static void cancel_legs(struct coord_request *request)
{
    for (struct coord_call *call = request->calls; call; call = call->next_of_request)
        if (call->started && !call->ended)
            coord_call_cancel(call);
}

static void undo(struct trial *trial, struct coord_request *request)
{
    cancel_legs(request);
    coord_document_free(request->body);
    request->body = trial->body;
    trial->body = NULL;
    request->token_text = trial->token_text;
    request->token_ids = trial->token_ids;
    request->token_count = trial->token_count;
    request->has_token_ids = trial->has_token_ids;
    request->kv_params = trial->kv_params;
    request->has_kv_params = trial->has_kv_params;
    request->peer_topology = trial->peer_topology;
    request->prefill_usage = trial->prefill_usage;
    request->relayed = trial->relayed;
    chain_unwrap(&request->chain, trial->mark);
    request->failure = (struct failure){0};
    headers_init(&request->failure.headers, &request->arena);
}

bool trial_end(struct trial *trial, struct coord_request *request, const struct step *step, bool failed)
{
    bool goes_on;

    reactor_disarm(request->worker->reactor, &request->step_timer);
    request->deadline_ns = 0;
    if (request->expired) {
        request->expired = false;
        failed = true;
        cancel_legs(request);
    }
    goes_on = failed && trial->kept && !request->cancelled && !is_too_late(request) && !request->chain.head_entered;
    if (goes_on) {
        coord_log(request, COORD_LOG_INFO, "a step failed, and the pipeline goes on without it (on_error: continue)",
                  (coord_field[]){LOG_TEXT_FIELD("step", coord_slice_of(step->id)),
                                  LOG_TEXT_FIELD("error", request->failure.message)},
                  2);
        undo(trial, request);
    }
    coord_document_free(trial->body);
    return goes_on;
}
