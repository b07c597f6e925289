/* See generation.h: what becomes of one that is built, from its start to its end, on the whole and on each reactor. */
#include "pipeline/generation.h"

#include "config/error.h"
#include "pipeline/witness.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

/* What a step does from here on, until running_set with what this returned, is done in its name. */
static struct running enter(const struct step *step) { return running_set((struct running){step->owner, NULL}); }

static void destroy_connectors(struct step *step)
{
    for (struct coord_connector *connector = step->connectors; connector; connector = connector->next)
        if (connector->kind->type.destroy)
            connector->kind->type.destroy(connector->state);
    step->connectors = NULL;
}

static void stop_steps(struct generation *generation)
{
    for (size_t i = generation->step_count; i-- > 0;) {
        struct step *step = &generation->steps[i];
        struct running before = enter(step);

        if (step->started && step->kind->type.stop)
            step->kind->type.stop(step->state);
        step->started = false;
        running_set(before);
    }
}

void generation_take_registry(struct generation *generation, struct registry *registry_take)
{
    assert(generation->registry == registry_take);
    generation->own = *registry_take;
    generation->registry = &generation->own;
    registry_init(registry_take);
}

void generation_free(struct generation *generation)
{
    struct arena arena;

    if (!generation)
        return;
    for (unsigned i = 0; generation->local && i < MAX_REACTORS; i++)
        assert(!generation->local[i].entered);
    stop_steps(generation);
    for (size_t i = generation->step_count; i-- > 0;) {
        struct step *step = &generation->steps[i];
        struct running before = enter(step);

        if (step->created && step->kind->type.destroy)
            step->kind->type.destroy(step->state);
        destroy_connectors(step);
        running_set(before);
    }
    registry_release(&generation->own);
    buffer_release(&generation->refusal);
    arena = generation->arena;
    free(generation);
    arena_release(&arena);
}

bool generation_start(struct generation *generation, struct complaints *complaints)
{
    static const struct position at = {"start", 0, 0};

    for (size_t i = 0; i < generation->step_count; i++) {
        struct step *step = &generation->steps[i];
        struct running before = enter(step);
        coord_error error = {0};
        bool failed = step->kind->type.start && step->kind->type.start(step->state, &error) != COORD_OK;

        running_set(before);
        if (failed) {
            complain(complaints, COMPLAINT_ERROR, at, "step %s: %.*s", step->id,
                     COORD_FMT(error_message(&error, "start failed without saying why")));
            error_release(&error);
            stop_steps(generation);
            return false;
        }
        error_release(&error);
        step->started = true;
    }
    return true;
}

static bool open_upstreams(struct generation *generation, struct client *client, struct generation_local *local,
                           struct buffer *reason)
{
    for (struct coord_upstream *upstream = generation->upstreams; upstream; upstream = upstream->next) {
        const char *why = "memory is short";

        local->upstreams[upstream->index] = upstream_open(client, &upstream->options, &why);
        if (!local->upstreams[upstream->index])
            return buffer_explain(reason, "%.*s: %s", COORD_FMT(upstream->options.url), why);
    }
    return true;
}

static void thread_stop(const struct step *step, void *local)
{
    struct running before = enter(step);

    if (step->kind->type.thread_stop)
        step->kind->type.thread_stop(step->state, local);
    running_set(before);
}

static bool thread_start(const struct step *step, void **local, struct buffer *reason)
{
    struct running before = enter(step);
    coord_error error = {0};
    bool failed =
        step->kind->type.thread_start && step->kind->type.thread_start(step->state, local, &error) != COORD_OK;

    running_set(before);
    if (failed)
        buffer_explain(reason, "%s: %.*s", step->id,
                       COORD_FMT(error_message(&error, "thread_start failed without saying why")));
    error_release(&error);
    return !failed;
}

bool generation_enter(struct generation *generation, struct client *client, unsigned reactor, struct buffer *reason)
{
    struct generation_local *local = &generation->local[reactor];
    size_t entered = 0;

    local->upstreams = calloc(generation->upstream_count + 1, sizeof *local->upstreams);
    local->locals = calloc(generation->step_count + 1, sizeof *local->locals);
    local->entered = true;
    if (generation->witness)
        client_stand_in(client, generation->witness->answer, generation->witness->context);
    if (!local->upstreams || !local->locals || !open_upstreams(generation, client, local, reason))
        goto fail;
    for (; entered < generation->step_count; entered++)
        if (!thread_start(&generation->steps[entered], &local->locals[entered], reason))
            goto fail;
    return true;
fail:
    while (entered-- > 0)
        thread_stop(&generation->steps[entered], local->locals[entered]);
    free(local->locals);
    local->locals = NULL;
    generation_leave(generation, reactor);
    return false;
}

void generation_leave(struct generation *generation, unsigned reactor)
{
    struct generation_local *local = &generation->local[reactor];

    for (size_t i = generation->step_count; local->locals && i-- > 0;)
        thread_stop(&generation->steps[i], local->locals[i]);
    for (unsigned i = 0; local->upstreams && i < generation->upstream_count; i++)
        upstream_close(local->upstreams[i]);
    free(local->upstreams);
    free(local->locals);
    local->upstreams = NULL;
    local->locals = NULL;
    local->entered = false;
}

void generation_note_writer(const struct step *step, const char *name)
{
    size_t at = 0;

    for (const char *seen; at < MAX_WRITERS_SEEN && (seen = atomic_load(&step->writers->names[at])); at++)
        if (strcmp(seen, name) == 0)
            return;
    for (const char *kept = intern(coord_slice_of(name)); at < MAX_WRITERS_SEEN; at++) {
        const char *seen = NULL; /* another reactor may be first */

        if (atomic_compare_exchange_strong(&step->writers->names[at], &seen, kept) || seen == kept)
            return;
    }
}
