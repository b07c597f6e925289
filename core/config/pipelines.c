/* See pipelines.h. */
#include "config/pipelines.h"

#include "config/conditions.h"
#include "config/header_names.h"
#include "config/sections.h"
#include "config/steps.h"

enum { SHOWN_MAX = 80 };

/* A pipeline that is alone has the last one only. */
static const struct key KEYS[] = {
    {"name", "What it is called in messages, log and metrics.", KEY_TEXT, .required = true},
    {"match", "Which requests it serves; left out: all.", KEY_MATCH},
    {"gateway", "Which of the gateways its legs go to; left out: the default one.", KEY_TEXT},
    {"steps", "What is done for a request, in order.", KEY_STEPS, .required = true},
};
enum { KEY_ROWS = sizeof KEYS / sizeof *KEYS };

struct keys pipeline_keys(bool listed) { return listed ? KEYS_OF(KEYS) : (struct keys){&KEYS[KEY_ROWS - 1], 1}; }

static int shown(coord_slice text) { return text.size < SHOWN_MAX ? (int)text.size : SHOWN_MAX; }

static const struct gateway_settings *default_gateway(const struct settings *settings)
{
    return settings->gateway.given ? &settings->gateway : NULL;
}

static const struct gateway_settings *named_gateway(const struct pipelines_input *input, const struct node *node)
{
    const struct settings *settings = input->settings;
    const char *names[PIPELINES_MAX];
    size_t count = settings->gateway_count < PIPELINES_MAX ? settings->gateway_count : PIPELINES_MAX;
    const char *near;

    if (node->kind != NODE_SCALAR) {
        complain(input->complaints, COMPLAINT_ERROR, node->at, "gateway of a pipeline takes the name of a gateway");
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        names[i] = settings->gateways[i]->name.data;
        if (coord_slice_equal(settings->gateways[i]->name, node->text))
            return settings->gateways[i];
    }
    near = nearest_name(node->text, names, count);
    complain(input->complaints, COMPLAINT_ERROR, node->at, "unknown gateway \"%.*s\"%s%s%s", shown(node->text),
             node->text.data, near ? ": did you mean \"" : "; name one of `gateways`, or `default` for `gateway`",
             near ? near : "", near ? "\"?" : "");
    return NULL;
}

static void read_forwarding(const struct pipelines_input *input, const struct node *map, const char *where,
                            struct pipeline_settings *pipeline)
{
    struct header_names phase = {0}, names;
    char *label = arena_printf(input->settings->arena, "%s.forward_response_headers", where);

    if (pipeline->gateway)
        phase = (struct header_names){pipeline->gateway->phase_headers, pipeline->gateway->phase_header_count};
    names =
        header_names_read(input->settings->arena, config_find(&pipeline->values, "forward_response_headers"),
                          node_get(map, "forward_response_headers"), label ? label : where, &phase, input->complaints);
    pipeline->forward_response_headers = names.names;
    pipeline->forward_response_header_count = names.count;
}

static void read_common(const struct pipelines_input *input, const struct node *map, const char *where,
                        struct keys others, struct pipeline_settings *pipeline)
{
    bool loaded = input->load(input->context, map, where, others, &pipeline->values);

    if (loaded || pipeline->values.count > 0)
        read_forwarding(input, map, where, pipeline);
    pipeline->steps_at = map ? map->at : input->settings->root->at;
    pipeline->steps_told =
        !input->allow_unknown && section_key_is_misspelt(SECTION_PIPELINE, others, map, KEYS[KEY_ROWS - 1].name);
    steps_read(input->settings->arena, pipeline, node_get(map, "steps"), input->allow_unknown, input->complaints);
}

/* What is wrong with the key itself, or its value, is why it has no steps. */
static bool single_was_told(const struct pipelines_input *input, const struct node *map)
{
    const struct node *root = input->settings->root;
    struct keys keys = section_other_keys(SECTION_TOP);

    if (map && !node_is_null(map))
        return map->kind != NODE_MAP;
    return !input->allow_unknown && (section_key_is_misspelt(SECTION_TOP, keys, root, "pipeline") ||
                                     section_key_is_misspelt(SECTION_TOP, keys, root, "pipelines"));
}

/* `pipeline:`, or nothing at all: one called default. */
static void read_single(const struct pipelines_input *input, const struct node *map)
{
    struct settings *settings = input->settings;
    struct pipeline_settings *pipeline = arena_alloc(settings->arena, sizeof *pipeline);

    if (!pipeline) {
        complain(input->complaints, COMPLAINT_ERROR, settings->root->at, "memory is short");
        return;
    }
    pipeline->name = coord_slice_of("default");
    pipeline->at = map ? map->at : settings->root->at;
    pipeline->match = conditions_read(settings->arena, NULL, "match", false, input->complaints);
    pipeline->gateway = default_gateway(settings);
    pipeline->steps_label = "pipeline.steps";
    read_common(input, map, "pipeline", pipeline_keys(false), pipeline);
    pipeline->steps_told |= single_was_told(input, map);
    settings->pipelines = pipeline;
    settings->pipeline_count = 1;
}

static coord_slice read_name(const struct pipelines_input *input, const struct node *map)
{
    const struct node *name = node_get(map, "name");

    if (name && name->kind == NODE_SCALAR && name->text.size > 0 && !name->broken)
        return name->text;
    if (name ? name->broken
             : !input->allow_unknown && section_key_is_misspelt(SECTION_PIPELINE, pipeline_keys(true), map, "name"))
        return (coord_slice){0};
    complain(input->complaints, COMPLAINT_ERROR, name ? name->at : map->at, "a pipeline needs a name");
    return (coord_slice){0};
}

static void check_before(const struct pipelines_input *input, const struct pipeline_settings *pipelines, size_t index)
{
    const struct pipeline_settings *pipeline = &pipelines[index];

    for (size_t i = 0; i < index; i++) {
        if (pipeline->name.size > 0 && coord_slice_equal(pipelines[i].name, pipeline->name))
            complain(input->complaints, COMPLAINT_ERROR, pipeline->at,
                     "pipeline \"%.*s\": the name is taken by the one at line %u", shown(pipeline->name),
                     pipeline->name.data, pipelines[i].at.line);
        if (!pipelines[i].match.given) {
            complain(input->complaints, COMPLAINT_ERROR, pipeline->at,
                     "pipeline \"%.*s\" can never serve a request: \"%.*s\" before it has no match and serves all of "
                     "them; put it last",
                     shown(pipeline->name), pipeline->name.data ? pipeline->name.data : "", shown(pipelines[i].name),
                     pipelines[i].name.data ? pipelines[i].name.data : "");
            return;
        }
    }
}

static void read_one(const struct pipelines_input *input, const struct node *map, struct pipeline_settings *pipeline)
{
    struct settings *settings = input->settings;
    const struct node *gateway = node_get(map, "gateway");
    char *where, *label;

    pipeline->at = pipeline->steps_at = map->at;
    pipeline->match = (struct conditions){.stream = -1, .media = -1};
    pipeline->steps_label = "steps of a pipeline";
    pipeline->steps_told = map->kind != NODE_MAP || map->broken;
    if (map->broken)
        return;
    if (map->kind != NODE_MAP) {
        complain(input->complaints, COMPLAINT_ERROR, map->at, "a pipeline is a map with name, match and steps");
        return;
    }
    pipeline->name = read_name(input, map);
    pipeline->match = conditions_read(settings->arena, node_get(map, "match"), "match", false, input->complaints);
    if (gateway && !node_is_null(gateway))
        pipeline->gateway = gateway->broken ? NULL : named_gateway(input, gateway);
    else if (!(pipeline->gateway = default_gateway(settings)))
        complain(input->complaints, COMPLAINT_ERROR, map->at,
                 "pipeline \"%.*s\" names no gateway, and there is no default one", shown(pipeline->name),
                 pipeline->name.data ? pipeline->name.data : "");
    where = pipeline->name.size > 0 ? arena_printf(settings->arena, "pipeline %.*s", COORD_FMT(pipeline->name)) : NULL;
    label = arena_printf(settings->arena, "steps of pipeline %.*s", COORD_FMT(pipeline->name));
    if (label && pipeline->name.size > 0)
        pipeline->steps_label = label;
    read_common(input, map, where ? where : "a pipeline", pipeline_keys(true), pipeline);
}

static void read_list(const struct pipelines_input *input, const struct node *list)
{
    struct settings *settings = input->settings;
    struct pipeline_settings *pipelines;

    if (list->kind != NODE_LIST || list->count == 0 || list->count > PIPELINES_MAX) {
        complain(input->complaints, COMPLAINT_ERROR, list->at, "pipelines takes a list of 1 to %d pipelines",
                 PIPELINES_MAX);
        return;
    }
    pipelines = arena_alloc(settings->arena, list->count * sizeof *pipelines);
    if (!pipelines) {
        complain(input->complaints, COMPLAINT_ERROR, list->at, "memory is short");
        return;
    }
    for (size_t i = 0; i < list->count; i++) {
        read_one(input, list->items[i], &pipelines[i]);
        check_before(input, pipelines, i);
    }
    settings->pipelines = pipelines;
    settings->pipeline_count = list->count;
}

void pipelines_read(const struct pipelines_input *input)
{
    const struct node *root = input->settings->root;
    const struct node *single = node_get(root, "pipeline"), *list = node_get(root, "pipelines");

    if (list && !node_is_null(list) && single && !node_is_null(single))
        complain(input->complaints, COMPLAINT_ERROR, node_entry(root, "pipelines")->at,
                 "both pipeline and pipelines are there: pipelines is enough, pipeline is short for one");
    if (list && !node_is_null(list)) {
        if (!list->broken)
            read_list(input, list);
    } else {
        read_single(input, single && single->broken ? NULL : single);
    }
}
