/* See steps.h. */
#include "config/steps.h"

#include "config/conditions.h"
#include "config/known.h"

enum { STEPS_MAX = 256, ID_MAX = 64, SHOWN_MAX = 80 };

static const char *const on_errors[] = {"fail", "continue", NULL};

static const struct key keys[] = {
    {"type", "Which step: `coordinator steps` lists those that are loaded.", KEY_STEP_TYPE, .required = true},
    {"id", "Its name in log and metrics, one of a kind in its pipeline; left out: the type.", KEY_TEXT,
     .pattern = "[A-Za-z0-9_.-]{1,64}"},
    {"when", "On which requests it runs; left out: all.", KEY_WHEN},
    {"timeout", "How long it may take, as in 500ms or 30s; then the client gets a 504.", KEY_DURATION},
    {"on_error", "What an error means: fail (default), or continue as if the step had not run.", KEY_CHOICE,
     .choices = on_errors},
    {"params", "The step's own: `coordinator steps TYPE` lists them.", KEY_PARAMS},
};
enum { KEY_ROWS = sizeof keys / sizeof *keys };

struct keys step_keys(void) { return KEYS_OF(keys); }

static int shown(coord_slice text) { return text.size < SHOWN_MAX ? (int)text.size : SHOWN_MAX; }

/* True when it was meant as `type`, which then is not missed. */
static bool refuse_unknown(const struct entry *entry, bool allow_unknown, struct complaints *complaints)
{
    const char *known = known_refusal("a step", entry->key);
    const char *names[KEY_ROWS], *near;

    for (size_t i = 0; i < KEY_ROWS; i++)
        names[i] = keys[i].name;
    near = nearest_name(entry->key, names, KEY_ROWS);

    if (known)
        complain(complaints, COMPLAINT_ERROR, entry->at, "\"%.*s\" %s", shown(entry->key), entry->key.data, known);
    else
        complain(complaints, allow_unknown ? COMPLAINT_WARNING : COMPLAINT_ERROR, entry->at,
                 "unknown key \"%.*s\" of a step: %s%s%s", shown(entry->key), entry->key.data,
                 near ? "did you mean \"" : "its params stand under \"params\"", near ? near : "", near ? "\"?" : "");
    return near && !known && !allow_unknown && strcmp(near, keys[0].name) == 0;
}

/* The text of `type` or `id`; empty when absent or wrong. */
static coord_slice read_text(const struct node *step, const char *key, struct complaints *complaints)
{
    const struct node *node = node_get(step, key);

    if (node_is_null(node) || node->broken)
        return (coord_slice){0};
    if (node->kind == NODE_SCALAR && node->text.size > 0)
        return node->text;
    complain(complaints, COMPLAINT_ERROR, node->at, "the %s of a step must be a text", key);
    return (coord_slice){0};
}

/* Ids are labels of metrics and stand in log lines. */
static bool id_is_good(coord_slice id)
{
    for (size_t i = 0; i < id.size; i++) {
        char c = id.data[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'), digit = c >= '0' && c <= '9';

        if (!letter && !digit && c != '-' && c != '_' && c != '.')
            return false;
    }
    return id.size <= ID_MAX;
}

static void check_id(const struct step_entry *steps, size_t index, struct position at, struct complaints *complaints)
{
    coord_slice id = steps[index].id;

    if (!id_is_good(id))
        complain(complaints, COMPLAINT_ERROR, at, "a step's id is at most 64 letters, digits, \"-\", \"_\" and \".\"");
    for (size_t i = 0; id.size > 0 && i < index; i++) {
        if (!coord_slice_equal(steps[i].id, id))
            continue;
        complain(complaints, COMPLAINT_ERROR, at,
                 "step id \"%.*s\" is taken by the step at line %u: give one of them an id of its own", shown(id),
                 id.data, steps[i].at.line);
        break;
    }
}

static void read_timeout(struct step_entry *step, const struct node *node, struct complaints *complaints)
{
    bool hidden = node && (node->kind != NODE_SCALAR || node->substituted);

    if (!node || node_is_null(node) || node->broken)
        return;
    step->timeout_secret = node->substituted;
    if (node->kind != NODE_SCALAR || !parse_duration(node->text, &step->timeout_ns) || step->timeout_ns <= 0)
        complain(complaints, COMPLAINT_ERROR, node->at,
                 "timeout of step %.*s: %s%.*s%s is no duration with a unit, such as 500ms or 30s", shown(step->id),
                 step->id.data ? step->id.data : "", hidden ? "the value (not shown)" : "\"",
                 hidden ? 0 : shown(node->text), node->text.data ? node->text.data : "", hidden ? "" : "\"");
}

static void read_on_error(struct step_entry *step, const struct node *node, struct complaints *complaints)
{
    if (!node || node_is_null(node) || node->broken)
        return;
    step->on_error_at = node->at;
    step->continues = node->kind == NODE_SCALAR && coord_slice_is(node->text, on_errors[1]);
    if (!step->continues && !(node->kind == NODE_SCALAR && coord_slice_is(node->text, on_errors[0])))
        complain(complaints, COMPLAINT_ERROR, node->at, "on_error of step %.*s takes fail or continue", shown(step->id),
                 step->id.data ? step->id.data : "");
}

static void read_step(struct arena *arena, struct step_entry *steps, size_t index, const struct node *node,
                      bool allow_unknown, struct complaints *complaints)
{
    struct step_entry *step = &steps[index];
    const struct node *type = node_get(node, "type"), *id = node_get(node, "id"), *params = node_get(node, "params");
    bool type_told = false;

    step->at = node->at;
    step->when = (struct conditions){.stream = -1, .media = -1};
    if (node->broken)
        return;
    if (node->kind != NODE_MAP) {
        complain(complaints, COMPLAINT_ERROR, node->at, "a step is a map with a \"type\", as in {type: decode}");
        return;
    }
    for (size_t i = 0; i < node->count; i++) {
        const struct entry *entry = &node->entries[i];
        bool known = false;

        for (size_t k = 0; k < KEY_ROWS; k++)
            known |= coord_slice_is(entry->key, keys[k].name);
        if (!known)
            type_told |= refuse_unknown(entry, allow_unknown, complaints);
    }
    if (node_is_null(type) && !type_told)
        complain(complaints, COMPLAINT_ERROR, node->at, "a step needs a \"type\"");
    step->type = read_text(node, "type", complaints);
    step->type_at = type ? type->at : node->at;
    step->id = read_text(node, "id", complaints);
    if (step->id.size == 0)
        step->id = step->type;
    step->when = conditions_read(arena, node_get(node, "when"), "when", true, complaints);
    read_timeout(step, node_get(node, "timeout"), complaints);
    read_on_error(step, node_get(node, "on_error"), complaints);
    check_id(steps, index, step->id.data == step->type.data || !id ? step->type_at : id->at, complaints);
    if (node_is_null(params) || params->broken)
        return;
    if (params->kind == NODE_MAP)
        step->params = params;
    else
        complain(complaints, COMPLAINT_ERROR, params->at, "the params of a step are a map, not a %s",
                 params->kind == NODE_LIST ? "list" : "text");
}

void steps_read(struct arena *arena, struct pipeline_settings *pipeline, const struct node *list, bool allow_unknown,
                struct complaints *complaints)
{
    struct step_entry *steps;

    if (node_is_null(list))
        return;
    pipeline->steps_told |= list->broken;
    if (list->broken)
        return;
    pipeline->steps_at = list->at;
    if (list->kind != NODE_LIST || list->count > STEPS_MAX) {
        pipeline->steps_told = true;
        complain(complaints, COMPLAINT_ERROR, list->at,
                 list->kind == NODE_LIST ? "%s: more than 256 steps" : "%s: not a list of steps",
                 pipeline->steps_label);
        return;
    }
    steps = arena_alloc(arena, list->count * sizeof *steps);
    if (!steps) {
        complain(complaints, COMPLAINT_ERROR, list->at, "memory is short");
        return;
    }
    for (size_t i = 0; i < list->count; i++)
        read_step(arena, steps, i, list->items[i], allow_unknown, complaints);
    pipeline->steps = steps;
    pipeline->step_count = list->count;
}
