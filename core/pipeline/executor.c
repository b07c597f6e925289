/* See executor.h. */
#include "pipeline/executor.h"

#include "pipeline/call.h"
#include "pipeline/composition.h"
#include "pipeline/heartbeat.h"
#include "pipeline/prompt_guard.h"
#include "pipeline/trial.h"
#include "pipeline/witness.h"
#include "pipeline/worker.h"
#include "telemetry/families.h"
#include "telemetry/log.h"

#include <coordinator/background.h>

#include <stdlib.h>

static void count_step_error(const struct step *step, enum error_class class)
{
    coord_metric_add(families()->step_errors_total, 1,
                     (coord_slice[]){coord_slice_of(step->id), coord_slice_of(error_class_name(class))});
}

static bool is_status(coord_status status) { return status <= COORD_DONE && status >= COORD_STATE; }

/* A negative status without a failure is the step's mistake, and is said so. */
static void settle_failure(struct coord_request *request, const struct step *step, coord_status status)
{
    if (request->cancelled || request->failure.class != ERROR_NONE)
        return;
    request_fail(request, ERROR_INTERNAL, 500, NULL, "step %s failed without saying why", step->id);
    request->failure.cause = arena_printf(&request->arena, "execute returned %d%s", status,
                                          is_status(status) ? "" : ", which is no status of a step");
}

static void count_failure(const struct coord_request *request, const struct step *step, coord_status status)
{
    if (request->failure.class != ERROR_NONE && request->failure.class != ERROR_CANCELLED)
        count_step_error(step, request->failure.class);
    else if (request->answer_begun && request->answer_status >= 400 && status == COORD_DONE)
        count_step_error(step, request->answer_status < 500 ? ERROR_UPSTREAM_4XX : ERROR_UPSTREAM_5XX);
    else if (request->watch.status != 0 && status == COORD_DONE)
        count_step_error(step, request->watch.status < 500 ? ERROR_UPSTREAM_4XX : ERROR_UPSTREAM_5XX);
}

/* The step's own time, its metrics, and the name by which the watchdog and a crash call it. */
static coord_status execute(struct coord_request *request, const struct step *step)
{
    struct step_record *record = &request->steps_ran[request->steps_ran_count++];
    coord_status status;

    record->step = step;
    request->step = step;
    fiber_set_owner(request->fiber, step->owner); /* reads the clock, here and below */
    record->began_ns = reactor_now(request->worker->reactor);
    metric_series_add(step->running, 1);
    status = step->kind->type.execute(step->state, request);
    metric_series_add(step->running, -1);
    fiber_set_owner(request->fiber, NULL);
    request->step = NULL;
    record->ended_ns = reactor_now(request->worker->reactor);
    metric_series_add(step->duration, (double)(record->ended_ns - record->began_ns) / 1e9);
    return status;
}

static coord_status run_step(struct coord_request *request, const struct step *step)
{
    const struct witness *witness = request->generation->witness;
    bool had_ids = request->has_token_ids;
    struct trial trial;
    coord_slice message;
    coord_status status;
    bool goes_on;

    if (witness)
        witness->began(witness->context, step);
    trial_begin(&trial, request, step);
    status = execute(request, step);
    if (request->expired && status != COORD_DONE)
        request_fail(request, ERROR_UPSTREAM_TRANSPORT, 504, "upstream_timeout",
                     "step %s did not end within its timeout", step->id);
    if (status < 0 || !is_status(status)) {
        settle_failure(request, step, status);
        status = COORD_FAIL;
    }
    count_failure(request, step, status);
    message = request->failure.message;
    goes_on = trial_end(&trial, request, step, status < 0);
    prompt_guard_after(request, step, had_ids); /* of what is left of the step */
    if (witness)
        witness->ended(witness->context, step, status, message, goes_on);
    return goes_on ? COORD_NEXT : status;
}

/* False: its conditions do not hold for this request. */
static bool is_to_run(struct coord_request *request, const struct step *step)
{
    const struct witness *witness = request->generation->witness;
    const char *key = composition_skips(step, request);
    coord_slice label;

    if (!key)
        return true;
    if (witness)
        witness->skipped(witness->context, request, step, key);
    label = coord_slice_of(step->id);
    coord_metric_add(families()->step_skipped_total, 1, &label);
    coord_logf(request, COORD_LOG_DEBUG, "step %s skipped: when.%s does not hold", step->id, key);
    return false;
}

void executor_run(struct coord_request *request)
{
    const struct pipeline *pipeline = request->pipeline;
    coord_status status = COORD_NEXT;
    const char *last = "none";

    request->steps_ran = arena_alloc(&request->arena, (pipeline->step_count + 1) * sizeof *request->steps_ran);
    fiber_set_subject(request->fiber, request->id.data);
    heartbeat_start(request);
    for (size_t i = 0; i < pipeline->step_count && status == COORD_NEXT && request->steps_ran; i++) {
        if (request->cancelled || request->failure.class != ERROR_NONE || request->answer_over)
            break;
        if (!is_to_run(request, &pipeline->steps[i]))
            continue;
        last = pipeline->steps[i].id;
        status = run_step(request, &pipeline->steps[i]);
    }
    heartbeat_stop(request);
    if (request->cancelled) {
        chain_abort(&request->chain);
        return;
    }
    if (!request->answer_over && request->failure.class == ERROR_NONE)
        request_fail(request, ERROR_INTERNAL, 500, NULL,
                     status == COORD_DONE ? "step %s said that it had answered, but it had not"
                                          : "no step of the pipeline answered the request (the last one was %s)",
                     last);
    if (request->failure.class != ERROR_NONE)
        request_answer_failure(request);
}

/* ---- Background work ---- */

static void detached_main(void *argument)
{
    struct coord_request *request = argument;
    struct detached *work = request->detached;

    request->detached = NULL;
    fiber_set_subject(request->fiber, request->id.data);
    fiber_set_owner(request->fiber, work->owner);
    work->function(request, work->argument);
    if (work->release)
        work->release(work->argument);
    fiber_set_owner(request->fiber, NULL);
    free(work);
    request_fiber_done(request);
}

void executor_detach(struct coord_request *of, struct detached *work)
{
    struct coord_request *request = of->background ? NULL : request_background(of);

    if (request) {
        request->detached = work;
        if (request_spawn(request, detached_main))
            return;
        request->detached = NULL;
        request_fiber_done(request);
    }
    coord_logf(of, COORD_LOG_WARNING, "background work dropped: too much of it runs already; let it take less time");
    if (work->release)
        work->release(work->argument);
    free(work);
}

coord_status coord_background(coord_request *request, void (*function)(coord_request *background, void *argument),
                              void *argument_take, void (*release)(void *argument))
{
    struct detached *work;

    if (request->background)
        return COORD_STATE;
    if (request->worker->background_count >= BACKGROUND_LIMIT)
        return COORD_LIMIT;
    work = malloc(sizeof *work);
    if (!work)
        return COORD_NO_MEMORY;
    *work = (struct detached){request->detached, function, release, argument_take, running_now().owner};
    request->detached = work;
    return COORD_OK;
}
