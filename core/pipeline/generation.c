/* See generation.h: building, which goes step by step and collects every complaint before it gives up. */
#include "pipeline/generation.h"

#include "config/error.h"
#include "config/known.h"
#include "pipeline/composition.h"
#include "pipeline/owners.h"
#include "runtime/fiber.h"
#include "telemetry/families.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

static const int64_t SAFE_IDLE_AGE_NS = 3 * INT64_C(1000000000); /* decision 39: below 4 s */

/* What coord_config.owner points at while a step is being created. */
struct construction {
    struct generation *generation;
    const struct pipeline *pipeline;
    struct step *step;
    const struct connector_kind *kinds[2]; /* KV, EC */
    struct coord_config *configs;          /* the step's, then its connectors' */
    size_t config_count;
    struct complaints *complaints;
};

/* Params by which a step names its connectors. */
static const struct {
    const char *param;
    int32_t kind;
} CONNECTOR_PARAMS[2] = {{"kv_connector", COORD_CONNECTOR_KV}, {"ec_connector", COORD_CONNECTOR_EC}};

int32_t connector_kind_named_by(const char *param)
{
    for (size_t i = 0; i < sizeof CONNECTOR_PARAMS / sizeof *CONNECTOR_PARAMS; i++)
        if (strcmp(CONNECTOR_PARAMS[i].param, param) == 0)
            return CONNECTOR_PARAMS[i].kind;
    return 0;
}

const char *intern(coord_slice text)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct arena arena;
    static struct interned {
        struct interned *next;
        coord_slice text;
    } *all;
    struct interned *entry;

    pthread_mutex_lock(&lock);
    for (entry = all; entry && !coord_slice_equal(entry->text, text); entry = entry->next)
        ;
    if (!entry) {
        entry = arena_alloc(&arena, sizeof *entry);
        if (!entry || !(entry->text = arena_copy(&arena, text)).data)
            abort();
        entry->next = all;
        all = entry;
    }
    pthread_mutex_unlock(&lock);
    return entry->text.data;
}

static const coord_param *declared(const struct step_kind *kind, const char *name, coord_param *row)
{
    for (size_t i = 0; i < kind->params.count; i++) {
        *row = param_at(&kind->params, i);
        if (strcmp(row->name, name) == 0)
            return row;
    }
    return NULL;
}

/* The connector that a step will use, from its params, the pipeline's or the default: needed before its params can be validated. */
static const struct connector_kind *connector_of(const struct construction *build, const struct step_entry *entry,
                                                 size_t which)
{
    coord_param row;
    const struct node *set;
    const struct value *inherited;
    coord_slice name = {0};

    if (!declared(build->step->kind, CONNECTOR_PARAMS[which].param, &row))
        return NULL;
    set = node_get(entry->params, row.name);
    inherited = row.inherits ? config_find(&build->pipeline->settings->values, row.inherits) : NULL;
    if (set && set->kind == NODE_SCALAR)
        name = set->text;
    else if (inherited && inherited->source != VALUE_ABSENT && inherited->text.size > 0)
        name = inherited->text;
    else if (row.fallback)
        name = coord_slice_of(row.fallback);
    return registry_connector(build->generation->registry, CONNECTOR_PARAMS[which].kind, name);
}

static bool load_params(struct construction *build, const struct step_entry *entry)
{
    struct generation *generation = build->generation;
    struct param_table tables[3] = {build->step->kind->params};
    struct buffer where = {0};
    struct values_input input = {.arena = &generation->arena,
                                 .tables = tables,
                                 .table_count = 1,
                                 .map = entry->params,
                                 .at = entry->at,
                                 .parent = &build->pipeline->settings->values};
    bool loaded = false;

    for (size_t which = 0; which < 2; which++) {
        build->kinds[which] = connector_of(build, entry, which);
        if (build->kinds[which])
            tables[input.table_count++] = build->kinds[which]->params;
    }
    build->configs = arena_alloc(&generation->arena, input.table_count * sizeof *build->configs);
    if (build->configs && buffer_printf(&where, "step %.*s", COORD_FMT(entry->id))) {
        input.where = where.data;
        loaded = values_load(&input, build->configs, build->complaints);
        for (size_t i = 0; i < input.table_count; i++) {
            build->configs[i].step_id = entry->id;
            build->configs[i].owner = build;
        }
        build->config_count = input.table_count;
    }
    buffer_release(&where);
    return loaded;
}

static bool names_thing(const char *const *things, const char *thing)
{
    for (size_t i = 0; things && things[i]; i++)
        if (strcmp(things[i], thing) == 0)
            return true;
    return false;
}

static bool provided_before(const struct construction *build, const char *thing)
{
    for (const struct step *step = build->pipeline->steps; step < build->step; step++)
        if (names_thing(step->kind->type.provides, thing))
            return true;
    return false;
}

/* A step type, loaded or not used here, that would provide it: for the remedy. */
static const char *provider_of(const struct registry *registry, const char *thing)
{
    for (const struct step_kind *kind = registry->steps; kind; kind = kind->next)
        if (names_thing(kind->type.provides, thing))
            return kind->type.name;
    return "a step that provides it";
}

/* A param that was set but can have no effect here is a warning; set to "error", which asks for certainty, it is one. */
static void check_needs(const struct construction *build, const struct step_entry *entry)
{
    for (size_t i = 0; i < build->configs[0].count; i++) {
        const struct value *value = &build->configs[0].values[i];
        coord_param row = param_at(&build->step->kind->params, i);
        bool strict = coord_slice_is(value->text, "error");

        if (!row.needs || value->source <= VALUE_DEFAULT || (row.type == COORD_PARAM_ENUM && value->integer == 0) ||
            provided_before(build, row.needs))
            continue;
        complain(build->complaints, strict ? COMPLAINT_ERROR : COMPLAINT_WARNING, value->at,
                 "%s of step %.*s can have no effect: no step before it provides %s; put %s before it", row.name,
                 COORD_FMT(entry->id), row.needs, provider_of(build->generation->registry, row.needs));
    }
}

static void create_step(struct construction *build, const struct step_entry *entry)
{
    struct step *step = build->step;
    coord_error error = {0};
    struct running before;

    if (!load_params(build, entry))
        return;
    check_needs(build, entry);
    step->config = build->configs[0];
    step->configs = build->configs;
    step->config_count = build->config_count;
    memcpy(step->kinds, build->kinds, sizeof step->kinds);
    before = running_set((struct running){step->owner, NULL}); /* what it does is done in its name */
    step->created =
        !step->kind->type.create || step->kind->type.create(&build->configs[0], &step->state, &error) == COORD_OK;
    running_set(before);
    if (!step->created)
        complain(build->complaints, COMPLAINT_ERROR, error.at.file ? error.at : entry->at, "step %.*s: %.*s",
                 COORD_FMT(entry->id), COORD_FMT(error_message(&error, "create failed without saying why")));
    error_release(&error);
}

static void add_metrics(struct step *step)
{
    coord_slice label = coord_slice_of(step->id);

    step->duration = metric_series_of(families()->step_duration_seconds, &label);
    step->running = metric_series_of(families()->step_running, &label);
}

static void complain_unknown_type(const struct generation *generation, const struct step_entry *entry,
                                  struct complaints *complaints)
{
    const char *near = registry_nearest_step(generation->registry, entry->type);
    const char *refusal = known_refusal("step type", entry->type);

    if (refusal) {
        complain(complaints, COMPLAINT_ERROR, entry->type_at, "step type \"%.*s\" %s", COORD_FMT(entry->type), refusal);
        return;
    }
    if (generation->registry->incomplete) {
        complain(complaints, COMPLAINT_ERROR, entry->type_at,
                 "step type \"%.*s\" is not there: is it in the plugin that was not loaded (see above)?",
                 COORD_FMT(entry->type));
        return;
    }
    complain(complaints, COMPLAINT_ERROR, entry->type_at, "unknown step type \"%.*s\"%s%s%s", COORD_FMT(entry->type),
             near ? ": did you mean \"" : "; `coordinator steps` lists those that are loaded", near ? near : "",
             near ? "\"?" : "");
}

static void build_step(struct generation *generation, struct pipeline *pipeline, const struct step_entry *entry,
                       struct complaints *complaints)
{
    const struct step_kind *kind = registry_step(generation->registry, entry->type);
    struct step *step = &pipeline->steps[pipeline->step_count];
    struct construction *build;

    if (entry->type.size == 0)
        return; /* that was said */
    if (!kind) {
        complain_unknown_type(generation, entry, complaints);
        return;
    }
    build = arena_alloc(&generation->arena, sizeof *build);
    step->writers = arena_alloc(&generation->arena, sizeof *step->writers);
    if (!build || !step->writers) {
        complain(complaints, COMPLAINT_ERROR, entry->at, "memory is short");
        return;
    }
    generation->step_count++;
    pipeline->step_count++;
    step->kind = kind;
    step->entry = entry;
    step->id = intern(entry->id);
    step->owner = owner_of(step->id, kind->plugin);
    *build =
        (struct construction){.generation = generation, .pipeline = pipeline, .step = step, .complaints = complaints};
    create_step(build, entry);
    add_metrics(step);
}

/* A whole second above what libcurl's clock may add; never above what workers keep (decision 39). */
static int64_t idle_age(int64_t wanted_ns)
{
    return wanted_ns > 0 && wanted_ns < SAFE_IDLE_AGE_NS ? wanted_ns : SAFE_IDLE_AGE_NS;
}

static struct coord_upstream *add_upstream(struct generation *generation, const struct upstream_options *options)
{
    struct coord_upstream *upstream = arena_alloc(&generation->arena, sizeof *upstream);

    if (!upstream)
        return NULL;
    upstream->options = *options;
    upstream->index = generation->upstream_count++;
    upstream->next = generation->upstreams;
    generation->upstreams = upstream;
    return upstream;
}

static struct coord_upstream *add_gateway(struct generation *generation, const struct gateway_settings *gateway)
{
    struct upstream_options options = {
        .transport = (enum upstream_transport)gateway->transport,
        .url = gateway->address,
        .max_idle_connections = (unsigned)gateway->max_idle_conns_per_host,
        .idle_age_ns = idle_age(gateway->idle_conn_timeout_ns),
        .connect_timeout_ns = gateway->connect_timeout_ns,
        .ca_file = gateway->ca_file,
        .client_cert_file = gateway->cert_file,
        .client_key_file = gateway->key_file,
    };

    return gateway->address.size > 0 ? add_upstream(generation, &options) : NULL;
}

static struct coord_upstream *gateway_upstream(const struct generation *generation,
                                               const struct gateway_settings *gateway)
{
    const struct settings *settings = generation->settings;

    if (gateway == &settings->gateway)
        return generation->gateway;
    for (size_t i = 0; i < settings->gateway_count; i++)
        if (settings->gateways[i] == gateway)
            return generation->gateways[i];
    return NULL;
}

static void build_gateways(struct generation *generation, struct complaints *complaints)
{
    const struct settings *settings = generation->settings;

    if (settings->gateway.address.size == 0 && !settings->gateway.address_told &&
        (settings->gateway_count == 0 || settings->gateway.given))
        complain(complaints, COMPLAINT_ERROR, settings->gateway.at,
                 "%s.address is missing: set it to the inference gateway's URL, such as http://inference-gateway:80",
                 settings->gateway.label);
    generation->gateway = add_gateway(generation, &settings->gateway);
    for (size_t i = 0; i < settings->gateway_count; i++)
        generation->gateways[i] = settings->gateways[i] == &settings->gateway
                                      ? generation->gateway
                                      : add_gateway(generation, settings->gateways[i]);
}

static void build_pipeline(struct generation *generation, const struct pipeline_settings *settings,
                           struct complaints *complaints)
{
    struct pipeline *pipeline = &generation->pipelines[generation->pipeline_count];

    pipeline->settings = settings;
    pipeline->steps = &generation->steps[generation->step_count];
    if (settings->gateway)
        pipeline->gateway = gateway_upstream(generation, settings->gateway);
    generation->pipeline_count++;
    if (settings->step_count > MAX_STEPS) {
        complain(complaints, COMPLAINT_ERROR, settings->steps_at, "%s: %zu entries; at most %d are allowed",
                 settings->steps_label, settings->step_count, MAX_STEPS);
        return;
    }
    for (size_t i = 0; i < settings->step_count; i++)
        build_step(generation, pipeline, &settings->steps[i], complaints);
}

static bool make_room(struct generation *generation)
{
    const struct settings *settings = generation->settings;
    size_t steps = 0;

    for (size_t i = 0; i < settings->pipeline_count; i++)
        steps += settings->pipelines[i].step_count;
    generation->steps = arena_alloc(&generation->arena, (steps + 1) * sizeof *generation->steps);
    generation->pipelines =
        arena_alloc(&generation->arena, (settings->pipeline_count + 1) * sizeof *generation->pipelines);
    generation->gateways =
        arena_alloc(&generation->arena, (settings->gateway_count + 1) * sizeof(struct coord_upstream *));
    generation->local = arena_alloc(&generation->arena, MAX_REACTORS * sizeof *generation->local);
    return generation->steps && generation->pipelines && generation->gateways && generation->local;
}

struct generation *generation_build(struct arena *arena_take, const struct settings *settings,
                                    const struct registry *registry, struct complaints *complaints)
{
    unsigned before = complaints->errors;
    struct generation *generation = calloc(1, sizeof *generation);

    assert(families_declare());
    fiber_crash_install(); /* code of steps runs from here on */
    if (!generation) {
        arena_release(arena_take);
        return NULL;
    }
    generation->arena = *arena_take;
    *arena_take = (struct arena){0};
    generation->settings = settings;
    generation->registry = registry;
    if (!make_room(generation)) {
        complain(complaints, COMPLAINT_ERROR, settings->root->at, "memory is short");
    } else {
        build_gateways(generation, complaints);
        for (size_t i = 0; i < settings->pipeline_count; i++)
            build_pipeline(generation, &settings->pipelines[i], complaints);
        composition_check(generation, complaints);
    }
    if (complaints->errors > before) {
        generation_free(generation);
        return NULL;
    }
    return generation;
}

/* The public side, called from `create`. */

coord_status coord_upstream_open(const coord_config *config, const char *param, const coord_upstream_options *given,
                                 coord_upstream **upstream, coord_error *error)
{
    struct construction *build = config->owner;
    const struct settings *settings = build->generation->settings;
    coord_upstream_options wanted = {0};
    struct upstream_options options = {0};
    coord_status status = coord_config_string(config, param, &options.url);

    if (status == COORD_ABSENT || (status == COORD_OK && options.url.size == 0))
        return COORD_ABSENT;
    if (status != COORD_OK)
        return coord_error_set(error, "%s is not declared as a url param of this step", param);
    if (given)
        memcpy(&wanted, given, given->size < sizeof wanted ? given->size : sizeof wanted);
    options.max_idle_connections = wanted.max_idle_connections ? wanted.max_idle_connections : 100;
    options.idle_age_ns = idle_age(wanted.idle_age_ns);
    options.connect_timeout_ns =
        wanted.connect_timeout_ns ? wanted.connect_timeout_ns : settings->gateway.connect_timeout_ns;
    options.ca_file = settings->gateway.ca_file;
    options.transport = (enum upstream_transport)settings->gateway.transport;
    if (options.transport == UPSTREAM_DIRECT && url_is_secure(options.url)) {
        error->at = config_find(config, param)->at;
        return coord_error_set(error, "%s is https, and gateway.transport: direct speaks no TLS: set transport: auto",
                               param);
    }
    *upstream = add_upstream(build->generation, &options);
    if (!*upstream)
        return coord_error_set(error, "memory is short");
    (*upstream)->timeout_ns = wanted.timeout_ns;
    return COORD_OK;
}

/* Told where the name stands: with the step, in the pipeline section, or in the environment. */
static coord_status unknown_connector(const struct construction *build, const struct value *value, int32_t kind,
                                      coord_error *error)
{
    const struct registry *registry = build->generation->registry;
    const char *near = registry_nearest_connector(registry, kind, value->text);
    const char *refusal = known_refusal(value->param->name, value->text);
    struct buffer list = {.limit = 1024};

    if (value->source > VALUE_DEFAULT)
        error->at = value->at;
    if (refusal)
        return coord_error_set(error, "%s \"%.*s\" %s", value->param->name, COORD_FMT(value->text), refusal);
    if (registry->incomplete)
        return coord_error_set(error, "%s \"%.*s\" is not there: is it in the plugin that was not loaded (see above)?",
                               value->param->name, COORD_FMT(value->text));
    if (near)
        return coord_error_set(error, "unknown %s \"%.*s\": did you mean \"%s\"?", value->param->name,
                               COORD_FMT(value->text), near);
    for (const struct connector_kind *known = registry->connectors; known; known = known->next)
        if (known->type.kind == kind && !buffer_printf(&list, "%s%s", list.size ? ", " : "", known->type.name))
            break;
    coord_error_set(error, "unknown %s \"%.*s\"; loaded are: %.*s", value->param->name, COORD_FMT(value->text),
                    COORD_FMT(list.size ? buffer_slice(&list) : coord_slice_of("none")));
    buffer_release(&list);
    return COORD_FAIL;
}

coord_status coord_connector_open(const coord_config *config, const char *param, int32_t kind,
                                  coord_connector **connector, coord_error *error)
{
    struct construction *build = config->owner;
    struct coord_connector *made;
    coord_slice name = {0};
    size_t at = 1;
    size_t which = kind == COORD_CONNECTOR_EC;

    if (strcmp(param, CONNECTOR_PARAMS[which].param) != 0 || CONNECTOR_PARAMS[which].kind != kind)
        return coord_error_set(error,
                               "%s is no param that names a connector of kind %d; call it kv_connector or "
                               "ec_connector",
                               param, kind);
    if (coord_config_string(config, param, &name) != COORD_OK)
        return coord_error_set(error, "%s is not declared as a string param of this step, or has no value", param);
    if (!build->kinds[which] || !coord_slice_is(name, build->kinds[which]->type.name))
        return unknown_connector(build, config_find(config, param), kind, error);
    if (which == 1 && build->kinds[0])
        at++;
    made = arena_alloc(&build->generation->arena, sizeof *made);
    if (!made)
        return coord_error_set(error, "memory is short");
    made->kind = build->kinds[which];
    made->owner = owner_of(build->step->id, made->kind->plugin);
    if (made->kind->type.create && made->kind->type.create(&build->configs[at], &made->state, error) != COORD_OK)
        return COORD_FAIL;
    made->next = build->step->connectors;
    build->step->connectors = made;
    *connector = made;
    return COORD_OK;
}
