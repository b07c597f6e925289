/*
 * See tree_build.h. A stack of our own holds the lists and maps that are open, so that depth and size are checked before
 * anything grows; aliases share the node of their anchor, which is why every walk over a tree is bounded by `visits`.
 *
 * Invariant: visits counts the nodes of the tree as if every alias were written out.
 */
#include "config/tree_build.h"

#include "config/merge.h"
#include "config/substitute.h"

#include <stdlib.h>
#include <yaml.h>

enum { DEPTH_MAX = 64, VISITS_MAX = 100000, ANCHORS_MAX = 1000 };

struct anchor {
    char *name;
    struct node *node;
    size_t visits;  /* of its subtree */
    unsigned depth; /* of its subtree; a scalar has 1 */
    bool open;      /* its node is still being built */
};

/* A list or map that is being built. */
struct frame {
    struct node *node;
    struct pending *pending; /* items of a list stand in entry.value */
    size_t count, capacity;
    struct entry key; /* MAP: read, its value is due */
    bool has_key, merge, bad_key;
    size_t visits_before;
    unsigned depth; /* deepest child so far */
    size_t anchor;  /* index + 1; 0: none */
};

struct builder {
    struct arena *arena;
    const char *name;
    struct substitution substitution;
    struct complaints *complaints;
    yaml_parser_t parser;
    struct frame frames[DEPTH_MAX];
    unsigned depth;
    struct anchor anchors[ANCHORS_MAX];
    size_t anchor_count;
    size_t visits;
    struct node *root;
};

static struct position position_of(const struct builder *builder, yaml_mark_t mark)
{
    return (struct position){builder->name, (unsigned)mark.line + 1, (unsigned)mark.column + 1};
}

static bool refuse(struct builder *builder, struct position at, const char *what)
{
    complain(builder->complaints, COMPLAINT_ERROR, at, "%s", what);
    return false;
}

static bool out_of_memory(struct builder *builder)
{
    return refuse(builder, (struct position){.file = builder->name}, "memory is short");
}

/* Counts `more` nodes of which the deepest stands `depth` below the open frames. */
static bool count_visits(struct builder *builder, struct position at, size_t more, unsigned depth)
{
    if (builder->depth + depth > DEPTH_MAX)
        return refuse(builder, at, "nested deeper than 64 levels");
    builder->visits += more;
    if (builder->visits > VISITS_MAX)
        return refuse(builder, at, "more than 100,000 nodes (aliases count in full)");
    return true;
}

static struct node *node_new(struct builder *builder, enum node_kind kind, struct position at)
{
    struct node *node = arena_alloc(builder->arena, sizeof *node);

    if (!node) {
        out_of_memory(builder);
        return NULL;
    }
    node->kind = kind;
    node->at = at;
    return node;
}

/* Takes a key. It must be a scalar; what follows a bad one is read and dropped. */
static void take_key(struct builder *builder, struct frame *frame, struct node *node)
{
    frame->key = (struct entry){.key = node->text, .at = node->at};
    frame->has_key = true;
    frame->bad_key = node->kind != NODE_SCALAR;
    frame->merge = node->plain && coord_slice_is(node->text, "<<");
    if (frame->bad_key && !node->broken)
        refuse(builder, node->at, "a key must be a plain text, not a list or a map (quote values such as \"{{x}}\")");
}

static bool frame_push(struct builder *builder, struct frame *frame, struct pending pending)
{
    if (frame->count == frame->capacity) {
        size_t capacity = frame->capacity ? 2 * frame->capacity : 16;
        struct pending *grown = realloc(frame->pending, capacity * sizeof *grown);

        if (!grown)
            return out_of_memory(builder);
        frame->pending = grown;
        frame->capacity = capacity;
    }
    frame->pending[frame->count++] = pending;
    return true;
}

/* Puts a finished node where it belongs; `depth` is its own. */
static bool attach(struct builder *builder, struct node *node, unsigned depth)
{
    struct frame *frame;

    if (builder->depth == 0) {
        builder->root = node;
        return true;
    }
    frame = &builder->frames[builder->depth - 1];
    if (depth > frame->depth)
        frame->depth = depth;
    if (frame->node->kind == NODE_LIST)
        return frame_push(builder, frame, (struct pending){.entry.value = node});
    if (!frame->has_key) {
        take_key(builder, frame, node);
        return true;
    }
    frame->has_key = false;
    frame->key.value = node;
    return frame->bad_key || frame_push(builder, frame, (struct pending){frame->key, frame->merge});
}

/* Registers an anchor; `*index` is its index + 1, 0 without one. A later anchor of the same name hides the earlier one. */
static bool anchor_add(struct builder *builder, const yaml_char_t *name, struct node *node, struct position at,
                       size_t *index)
{
    struct anchor *anchor = &builder->anchors[builder->anchor_count];

    *index = 0;
    if (!name)
        return true;
    if (builder->anchor_count == ANCHORS_MAX)
        return refuse(builder, at, "more than 1,000 anchors");
    *anchor = (struct anchor){arena_printf(builder->arena, "%s", (const char *)name), node, 1, 1, false};
    if (!anchor->name)
        return out_of_memory(builder);
    *index = ++builder->anchor_count;
    return true;
}

static struct anchor *anchor_find(struct builder *builder, const char *name)
{
    for (size_t i = builder->anchor_count; i > 0; i--) {
        if (strcmp(builder->anchors[i - 1].name, name) == 0)
            return &builder->anchors[i - 1];
    }
    return NULL;
}

static bool in_key_place(const struct builder *builder)
{
    const struct frame *frame = builder->depth ? &builder->frames[builder->depth - 1] : NULL;

    return frame && frame->node->kind == NODE_MAP && !frame->has_key;
}

/* A node that stands for something wrong, so that reading can go on. */
static bool attach_broken(struct builder *builder, struct position at)
{
    struct node *node = node_new(builder, NODE_SCALAR, at);

    if (!node)
        return false;
    node->broken = true;
    return attach(builder, node, 1);
}

static bool on_alias(struct builder *builder, const yaml_event_t *event)
{
    const char *name = (const char *)event->data.alias.anchor;
    struct position at = position_of(builder, event->start_mark);
    struct anchor *anchor = anchor_find(builder, name);

    if (!anchor || anchor->open) {
        complain(builder->complaints, COMPLAINT_ERROR, at,
                 anchor ? "anchor \"%.80s\" contains itself"
                        : "no anchor \"%.80s\" above this alias: quote a text that begins with *",
                 name);
        return count_visits(builder, at, 1, 1) && attach_broken(builder, at);
    }
    return count_visits(builder, at, anchor->visits, anchor->depth) && attach(builder, anchor->node, anchor->depth);
}

static bool tag_is(const yaml_char_t *tag, const char *name)
{
    return tag && (strcmp((const char *)tag, name) == 0 || (name[0] == '!' && strcmp((const char *)tag, "!") == 0));
}

/* Substitutes and checks the text of a scalar; leaves a broken node when something is wrong with it. */
static bool scalar_finish(struct builder *builder, struct node *node, bool is_key)
{
    struct substituted result = {0};
    coord_slice raw = node->text;

    if (memchr(raw.data, 0, raw.size)) {
        node->broken = true;
        refuse(builder, node->at, "a NUL character is not allowed here");
    } else if (!is_key && !substitute(&builder->substitution, builder->arena, raw, &result)) {
        node->broken = true;
        refuse(builder, node->at, result.problem);
    } else if (!is_key) {
        node->text = result.text;
        node->substituted = result.happened;
        node->origin = result.origin;
    }
    return true;
}

static bool on_scalar(struct builder *builder, const yaml_event_t *event)
{
    struct position at = position_of(builder, event->start_mark);
    const yaml_char_t *tag = event->data.scalar.tag;
    struct node *node = node_new(builder, NODE_SCALAR, at);
    size_t index;

    if (!node || !count_visits(builder, at, 1, 1) || !anchor_add(builder, event->data.scalar.anchor, node, at, &index))
        return false;
    node->text =
        arena_copy(builder->arena, (coord_slice){(const char *)event->data.scalar.value, event->data.scalar.length});
    if (!node->text.data)
        return out_of_memory(builder);
    node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && !tag;
    if (tag && !tag_is(tag, YAML_STR_TAG) && !tag_is(tag, "!")) {
        node->broken = true;
        refuse(builder, at, "tags are not used here: write the bare value");
    }
    return scalar_finish(builder, node, in_key_place(builder)) && attach(builder, node, 1);
}

static bool on_start(struct builder *builder, enum node_kind kind, const yaml_char_t *anchor, const yaml_char_t *tag,
                     yaml_mark_t mark)
{
    struct position at = position_of(builder, mark);
    struct node *node = node_new(builder, kind, at);
    struct frame *frame;
    size_t index;

    if (!node || !count_visits(builder, at, 1, 1) || !anchor_add(builder, anchor, node, at, &index))
        return false;
    if (tag && !tag_is(tag, kind == NODE_MAP ? YAML_MAP_TAG : YAML_SEQ_TAG))
        refuse(builder, at, "tags are not used here: write the bare value");
    if (index)
        builder->anchors[index - 1].open = true;
    frame = &builder->frames[builder->depth++];
    *frame = (struct frame){.node = node,
                            .pending = frame->pending,
                            .capacity = frame->capacity,
                            .visits_before = builder->visits - 1,
                            .anchor = index};
    return true;
}

static bool list_finish(struct builder *builder, const struct frame *frame)
{
    struct node *node = frame->node;

    node->items = arena_alloc(builder->arena, frame->count * sizeof(struct node *));
    if (!node->items)
        return out_of_memory(builder);
    for (size_t i = 0; i < frame->count; i++)
        node->items[i] = frame->pending[i].entry.value;
    node->count = frame->count;
    return true;
}

static bool on_end(struct builder *builder)
{
    struct frame *frame = &builder->frames[--builder->depth];

    if (frame->node->kind == NODE_LIST) {
        if (!list_finish(builder, frame))
            return false;
    } else if (!map_finish(builder->arena, frame->node, frame->pending, frame->count, builder->complaints)) {
        return out_of_memory(builder);
    }
    if (frame->anchor) {
        struct anchor *anchor = &builder->anchors[frame->anchor - 1];

        anchor->open = false;
        anchor->visits = builder->visits - frame->visits_before;
        anchor->depth = frame->depth + 1;
    }
    return attach(builder, frame->node, frame->depth + 1);
}

static bool on_document(struct builder *builder, const yaml_event_t *event)
{
    if (!builder->root)
        return true;
    return refuse(builder, position_of(builder, event->start_mark), "a second document: only one is read");
}

static bool on_event(struct builder *builder, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        return on_document(builder, event);
    case YAML_ALIAS_EVENT:
        return on_alias(builder, event);
    case YAML_SCALAR_EVENT:
        return on_scalar(builder, event);
    case YAML_SEQUENCE_START_EVENT:
        return on_start(builder, NODE_LIST, event->data.sequence_start.anchor, event->data.sequence_start.tag,
                        event->start_mark);
    case YAML_MAPPING_START_EVENT:
        return on_start(builder, NODE_MAP, event->data.mapping_start.anchor, event->data.mapping_start.tag,
                        event->start_mark);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        return on_end(builder);
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_STREAM_END_EVENT:
    case YAML_DOCUMENT_END_EVENT:
        break;
    }
    return true;
}

/* Line and column of a byte: libyaml's reader (bad UTF-8, control characters) knows only the offset. */
static struct position position_at(const struct builder *builder, coord_slice text, size_t offset)
{
    struct position at = {builder->name, 1, 1};

    for (size_t i = 0; i < offset && i < text.size; i++) {
        at.column += ((unsigned char)text.data[i] & 0xc0) != 0x80;
        if (text.data[i] == '\n') {
            at.line++;
            at.column = 1;
        }
    }
    return at;
}

/* The remedy for what trips people most; empty when there is none to name. */
static const char *remedy(const yaml_parser_t *parser, coord_slice text)
{
    static const struct {
        const char *problem, *context, *remedy; /* libyaml's words, or parts of them; the first row that fits */
    } rows[] = {
        {"alphabetic or numeric", "alias", ": quote a value that begins with *, as in \"*\""},
        {"alphabetic or numeric", "anchor", ": quote a value that begins with &"},
        {"cannot start any token", "", ": quote a value that begins with such a character"},
        {"mapping values are not allowed", "",
         ": quote the value, or take the space behind its colon out; if that is a key, look at the indentation"},
        {"expected '-' indicator", "", ": look at the indentation: entries of one list begin in one column"},
        {"expected <block end>", "", ": look at the indentation: what belongs together begins in one column"},
        {"did not find expected key", "", ": look at the indentation: keys of one map begin in one column"},
        {"expected ',' or '}'", "", ": the { is not closed, or a comma is missing"},
        {"expected ',' or ']'", "", ": the [ is not closed, or a comma is missing"},
        {"unexpected end of stream", "quoted", ": its quote is not closed"},
        {"unknown escape", "", ": write \\\\ for a backslash, or quote with '"},
    };
    size_t index = parser->problem_mark.index;

    if (index < text.size && text.data[index] == '\t')
        return ": indent with spaces, not with tabs";
    if (index > 0 && index < text.size && text.data[index] == '{' && text.data[index - 1] == '$')
        return ": quote a value with ${…} inside { } or [ ]";
    for (size_t i = 0; parser->problem && i < sizeof rows / sizeof *rows; i++)
        if (strstr(parser->problem, rows[i].problem) && strstr(parser->context ? parser->context : "", rows[i].context))
            return rows[i].remedy;
    return "";
}

static void explain_parser_error(struct builder *builder, coord_slice text)
{
    const yaml_parser_t *parser = &builder->parser;
    const char *problem = parser->problem ? parser->problem : "not YAML";

    if (parser->error == YAML_MEMORY_ERROR)
        out_of_memory(builder);
    else if (parser->error == YAML_READER_ERROR)
        complain(builder->complaints, COMPLAINT_ERROR, position_at(builder, text, parser->problem_offset), "%s",
                 problem);
    else
        complain(builder->complaints, COMPLAINT_ERROR, position_of(builder, parser->problem_mark), "%s%s%s%s", problem,
                 parser->context ? ", " : "", parser->context ? parser->context : "", remedy(parser, text));
}

static bool read_events(struct builder *builder, coord_slice text)
{
    yaml_event_t event;
    bool going = true, ended = false;

    yaml_parser_set_input_string(&builder->parser, (const unsigned char *)text.data, text.size);
    while (going && !ended) {
        if (!yaml_parser_parse(&builder->parser, &event)) {
            explain_parser_error(builder, text);
            return false;
        }
        ended = event.type == YAML_STREAM_END_EVENT;
        going = on_event(builder, &event);
        yaml_event_delete(&event);
    }
    return going;
}

bool tree_build(struct arena *arena, const char *name, coord_slice text, char *const *environment,
                struct complaints *complaints, struct node **root)
{
    struct builder *builder = calloc(1, sizeof *builder); /* too large for a stack */
    bool done = false;

    if (!text.data) /* libyaml wants one */
        text = coord_slice_of("");
    *root = NULL;
    if (!builder) {
        complain(complaints, COMPLAINT_ERROR, (struct position){.file = name}, "memory is short");
        return false;
    }
    builder->arena = arena;
    builder->complaints = complaints;
    builder->substitution = (struct substitution){environment, TREE_FILE_MAX};
    builder->name = arena_printf(arena, "%s", name);
    if (!builder->name || !yaml_parser_initialize(&builder->parser)) {
        out_of_memory(builder);
    } else if (text.size > TREE_FILE_MAX) {
        refuse(builder, (struct position){.file = name}, "larger than 4 MiB");
    } else {
        done = read_events(builder, text);
    }
    *root = done ? builder->root : NULL;
    for (unsigned i = 0; i < DEPTH_MAX; i++)
        free(builder->frames[i].pending);
    yaml_parser_delete(&builder->parser);
    free(builder);
    return done;
}
