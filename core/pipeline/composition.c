/* See composition.h. The checks: what a pipeline promises must hold on every way through its conditions. */
#include "pipeline/composition.h"

#include "config/conditions.h"
#include "pipeline/request.h"
#include "pipeline/witness.h"

static bool names_thing(const char *const *things, const char *thing)
{
    for (size_t i = 0; things && things[i]; i++)
        if (strcmp(things[i], thing) == 0)
            return true;
    return false;
}

static bool provides(const struct step *step, const char *thing)
{
    return names_thing(step->kind->type.provides, thing);
}

/* For the remedy: a loaded step type that provides `thing`, or `otherwise`. */
static const char *provider_of(const struct registry *registry, const char *thing, const char *otherwise)
{
    for (const struct step_kind *kind = registry->steps; kind; kind = kind->next)
        if (names_thing(kind->type.provides, thing))
            return kind->type.name;
    return otherwise;
}

/* ---- What a step needs ---- */

/*
 * A step before `step` that provides `thing` whenever `step` runs, if possible one whose failure ends the request; NULL: there is
 * none. `*sometimes` gets one that does on some ways.
 */
static const struct step *provider_before(const struct pipeline *pipeline, const struct step *step, const char *thing,
                                          const struct step **sometimes)
{
    const struct step *found = NULL;

    *sometimes = NULL;
    for (const struct step *before = pipeline->steps; before < step; before++) {
        if (!provides(before, thing))
            continue;
        if (!conditions_imply(&step->entry->when, &before->entry->when))
            *sometimes = before;
        else if (!found || found->entry->continues)
            found = before;
    }
    return found;
}

static void check_need(const struct generation *generation, const struct pipeline *pipeline, const struct step *step,
                       const char *thing, const char *who, struct position at, struct complaints *complaints)
{
    const struct step *sometimes;
    const struct step *provider = provider_before(pipeline, step, thing, &sometimes);

    if (provider && provider->entry->continues)
        complain(complaints, COMPLAINT_ERROR, provider->entry->on_error_at,
                 "on_error: continue is not allowed on step %s: step %s needs its %s", provider->id, step->id, thing);
    else if (!provider && sometimes)
        complain(complaints, COMPLAINT_ERROR, at,
                 "%s of step %s needs %s, which step %s provides only where its own when holds; give both the same "
                 "conditions",
                 who, step->id, thing, sometimes->id);
    else if (!provider)
        complain(complaints, COMPLAINT_ERROR, at,
                 "%s of step %s needs %s, which no step before it provides; put %s before it", who, step->id, thing,
                 provider_of(generation->registry, thing, "a step that provides it"));
}

static void check_needs(const struct generation *generation, const struct pipeline *pipeline, const struct step *step,
                        struct complaints *complaints)
{
    const char *const *needs = step->kind->type.needs;

    for (size_t i = 0; needs && needs[i]; i++)
        check_need(generation, pipeline, step, needs[i], "execution", step->entry->at, complaints);
    if (step->entry->when.has_tokens)
        check_need(generation, pipeline, step, COORD_THING_TOKEN_IDS, "when.prompt_tokens", step->entry->when.tokens_at,
                   complaints);
}

/* ---- Who answers ---- */

static bool always_runs(const struct step *step) { return !step->entry->when.given; }

/* Conditions of nothing but `stream`. */
static bool only_stream(const struct conditions *when)
{
    return when->stream >= 0 && when->model_count == 0 && when->apis == 0 && when->header_count == 0 &&
           when->media < 0 && !when->has_tokens;
}

/* The step with which every way through the pipeline has been answered; NULL: some way has no answer. */
static const struct step *last_needed(const struct pipeline *pipeline)
{
    bool streams = false, wholes = false;

    for (const struct step *step = pipeline->steps; step < pipeline->steps + pipeline->step_count; step++) {
        const struct conditions *when = &step->entry->when;

        if (!provides(step, COORD_THING_ANSWER) || step->entry->continues)
            continue;
        streams |= always_runs(step) || (only_stream(when) && when->stream);
        wholes |= always_runs(step) || (only_stream(when) && !when->stream);
        if (streams && wholes)
            return step;
    }
    return NULL;
}

static void check_answers(const struct generation *generation, const struct pipeline *pipeline,
                          struct complaints *complaints)
{
    const struct step *last = last_needed(pipeline);

    if (!last) {
        complain(complaints, COMPLAINT_ERROR, pipeline->settings->steps_at,
                 "%s: no step answers the request on some way through the conditions; end with a step that always "
                 "does, such as %s",
                 pipeline->settings->steps_label,
                 provider_of(generation->registry, COORD_THING_ANSWER, "one whose type provides \"answer\""));
        return;
    }
    for (const struct step *step = last + 1; step < pipeline->steps + pipeline->step_count; step++)
        complain(complaints, COMPLAINT_ERROR, step->entry->at,
                 "step %s is never reached: step %s before it always answers", step->id, last->id);
}

/* ---- The whole ---- */

static void check_format(const struct pipeline *pipeline, struct complaints *complaints)
{
    const struct value *openai = config_find(&pipeline->settings->values, "use_openai_format");

    if (!openai || openai->source == VALUE_ABSENT || openai->integer)
        return;
    for (size_t i = 0; i < pipeline->step_count; i++)
        if (provides(&pipeline->steps[i], COORD_THING_TOKEN_IDS))
            return;
    complain(complaints, COMPLAINT_ERROR, openai->at,
             "use_openai_format: false of pipeline %.*s sends token ids, which need a render step in it",
             COORD_FMT(pipeline->settings->name));
}

static void check_pipeline(const struct generation *generation, const struct pipeline *pipeline,
                           struct complaints *complaints)
{
    if (pipeline->settings->step_count == 0) {
        if (!pipeline->settings->steps_told)
            complain(complaints, COMPLAINT_ERROR, pipeline->settings->steps_at,
                     "%s: none is there; a pipeline needs at least a step that answers, such as decode",
                     pipeline->settings->steps_label);
        return;
    }
    check_format(pipeline, complaints);
    if (pipeline->step_count < pipeline->settings->step_count)
        return; /* some step is unknown: what it would have provided is, too */
    for (size_t i = 0; i < pipeline->step_count; i++)
        check_needs(generation, pipeline, &pipeline->steps[i], complaints);
    check_answers(generation, pipeline, complaints);
}

void composition_check(const struct generation *generation, struct complaints *complaints)
{
    const struct entry *tracing = node_entry(generation->settings->root, "tracing");

    for (size_t i = 0; i < generation->pipeline_count; i++)
        check_pipeline(generation, &generation->pipelines[i], complaints);
    if (generation->settings->tracing && tracing)
        complain(complaints, COMPLAINT_WARNING, tracing->at,
                 "tracing: true passes trace context on, but exports no spans yet; remove it to silence this");
}

/* ---- For each request ---- */

bool pattern_fits(coord_slice pattern, coord_slice text)
{
    size_t p = 0, t = 0, star = SIZE_MAX, resume = 0;

    while (t < text.size) {
        if (p < pattern.size && pattern.data[p] == '*') {
            star = p++;
            resume = t;
        } else if (p < pattern.size && pattern.data[p] == text.data[t]) {
            p++;
            t++;
        } else if (star != SIZE_MAX) {
            p = star + 1;
            t = ++resume;
        } else {
            return false;
        }
    }
    while (p < pattern.size && pattern.data[p] == '*')
        p++;
    return p == pattern.size;
}

static bool any_fits(const coord_slice *patterns, size_t count, coord_slice text)
{
    for (size_t i = 0; i < count; i++)
        if (pattern_fits(patterns[i], text))
            return true;
    return false;
}

/* A request without a model fits only "*". */
static bool model_fits(const struct conditions *conditions, coord_slice model)
{
    if (model.size > 0)
        return any_fits(conditions->models, conditions->model_count, model);
    for (size_t i = 0; i < conditions->model_count; i++)
        if (coord_slice_is(conditions->models[i], "*"))
            return true;
    return false;
}

/* Each line of a repeated header is looked at alone. */
static bool header_fits(const struct header_condition *condition, const struct headers *headers)
{
    for (size_t i = 0; i < headers->count; i++)
        if (header_name_equal(headers->list[i].name, condition->name) &&
            any_fits(condition->values, condition->count, headers->list[i].value))
            return true;
    return false;
}

static bool headers_fit(const struct conditions *conditions, const struct headers *headers)
{
    for (size_t i = 0; i < conditions->header_count; i++)
        if (!header_fits(&conditions->headers[i], headers))
            return false;
    return true;
}

static const char *after_space(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r'))
        at++;
    return at;
}

/* A quoted name of a kind of media part is there. */
static bool names_media(const char *at, const char *end)
{
    static const coord_slice PARTS[] = {
        COORD_SLICE("\"image_url\""), COORD_SLICE("\"input_image\""), COORD_SLICE("\"image\""),
        COORD_SLICE("\"audio_url\""), COORD_SLICE("\"input_audio\""), COORD_SLICE("\"video_url\""),
    };

    for (size_t i = 0; i < sizeof PARTS / sizeof *PARTS; i++)
        if ((size_t)(end - at) >= PARTS[i].size && memcmp(at, PARTS[i].data, PARTS[i].size) == 0)
            return true;
    return false;
}

/* Some object's `type` is that of a media part. Within a JSON text its quotes would be escaped, so that texts never look like one. */
static bool has_media(const struct coord_request *request)
{
    static const char key[] = "\"type\"";
    const char *at = request->received.data, *end = at + request->received.size;

    while ((at = memmem(at, (size_t)(end - at), key, sizeof key - 1))) {
        at = after_space(at + sizeof key - 1, end);
        if (at < end && *at == ':' && names_media(after_space(at + 1, end), end))
            return true;
    }
    return false;
}

/* The first key that does not hold, in the order of the documentation; NULL: all do. */
static const char *failing_key(const struct conditions *conditions, const struct coord_request *request)
{
    if (conditions->model_count > 0 && !model_fits(conditions, request->model))
        return "models";
    if (conditions->apis != 0 && !(conditions->apis >> request->api->id & 1))
        return "apis";
    if (!headers_fit(conditions, &request->headers))
        return "headers";
    if (conditions->stream >= 0 && conditions->stream != request->stream)
        return "stream";
    if (conditions->media >= 0 && conditions->media != has_media(request))
        return "media";
    if (conditions->has_tokens &&
        (request->token_count < conditions->min_tokens || request->token_count > conditions->max_tokens))
        return "prompt_tokens";
    return NULL;
}

const struct pipeline *composition_pipeline(const struct generation *generation, const struct coord_request *request)
{
    for (size_t i = 0; i < generation->pipeline_count; i++) {
        const struct pipeline *pipeline = &generation->pipelines[i];
        const char *key = failing_key(&pipeline->settings->match, request);

        if (generation->witness)
            generation->witness->tried(generation->witness->context, request, pipeline, key);
        if (!key)
            return pipeline;
    }
    return NULL;
}

const char *composition_skips(const struct step *step, const struct coord_request *request)
{
    return step->entry->when.given ? failing_key(&step->entry->when, request) : NULL;
}
