/*
 * Fuzz target of the document: any sequence of edits against a plain tree.
 *
 * Input: a JSON text up to the first NUL (or a built-in one when it is none), then a few bytes an edit. After each edit the
 * status must be what the tree says, the text must be JSON with the same members in the same order, and whatever was not
 * edited must have kept its bytes. Clones are edited in turn and must not see each other.
 */
#include <coordinator/document.h>

#include "json/scanner.h"
#include "runtime/arena.h"

#include <stdio.h>
#include <stdlib.h>

#define CHECK(what) ((what) ? (void)0 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what), abort()))

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_DOCUMENTS = 4, MAX_POINTER = 4096, MAX_EDITS = 64 };

struct member {
    coord_slice name; /* unescaped */
    coord_slice raw;  /* the bytes of the value; of no use in what was edited */
    bool edited;      /* something inside was */
    int32_t type;
    struct member **inside;
    size_t count;
    size_t capacity;
};

struct state {
    struct arena arena;
    const uint8_t *at;
    const uint8_t *end;
    coord_document *documents[MAX_DOCUMENTS];
    struct member *models[MAX_DOCUMENTS];
};

static coord_slice pieces[4096];

static const char *const values[] = {
    "1",
    "\"x\"",
    "{}",
    "[]",
    "{ \"a\" : 1 , \"b\": [ 1, 2 ] }",
    "[ {\"a\":1},2 , 3]",
    " null ",
    "{\"a\":1,\"a\":2}",
    "-0.0e5",
    "[[[ ]]]",
};

static const char *const names[] = {"a", "b", "", "new", "x/y~z", "q\"\n"};

static uint8_t take(struct state *state) { return state->at < state->end ? *state->at++ : 0; }

static void *allocate(struct state *state, size_t size)
{
    void *memory = arena_alloc(&state->arena, size);

    CHECK(memory);
    return memory;
}

static void add(struct state *state, struct member *above, size_t place, struct member *member)
{
    if (above->count == above->capacity) {
        size_t capacity = 2 * above->capacity + 4;
        struct member **inside = allocate(state, capacity * sizeof(struct member *));

        if (above->count > 0)
            memcpy(inside, above->inside, above->count * sizeof *inside);
        above->inside = inside;
        above->capacity = capacity;
    }
    memmove(above->inside + place + 1, above->inside + place, (above->count - place) * sizeof *above->inside);
    above->inside[place] = member;
    above->count++;
}

static void take_out(struct member *above, size_t place)
{
    above->count--;
    memmove(above->inside + place, above->inside + place + 1, (above->count - place) * sizeof *above->inside);
}

/* The tree of a valid text. */
static struct member *model(struct state *state, coord_slice text, size_t at)
{
    struct member *made = allocate(state, sizeof *made);
    struct json_member next;
    size_t cursor = 0;

    made->raw = (coord_slice){text.data + at, json_skip_value(text, at) - at};
    made->type = json_type_at(text, at);
    if (made->type < COORD_JSON_ARRAY)
        return made;
    while (json_next_member(text, at, &cursor, &next)) {
        struct member *inside = model(state, text, next.value.begin);

        if (made->type == COORD_JSON_OBJECT) {
            coord_slice key = {text.data + next.key.begin, next.key.end - next.key.begin};
            char *name = allocate(state, key.size);

            inside->name = (coord_slice){name, json_unescape(key, name)};
        }
        add(state, made, made->count, inside);
    }
    return made;
}

static struct member *copy(struct state *state, const struct member *from)
{
    struct member *made = allocate(state, sizeof *made);

    *made = *from;
    made->inside = allocate(state, (from->capacity ? from->capacity : 1) * sizeof *made->inside);
    for (size_t i = 0; i < from->count; i++)
        made->inside[i] = copy(state, from->inside[i]);
    return made;
}

/* The same members in the same order, and the same bytes where nothing was edited. */
static void compare(const struct member *want, const struct member *got)
{
    CHECK(want->type == got->type && want->count == got->count);
    if (!want->edited)
        CHECK(coord_slice_equal(want->raw, got->raw));
    for (size_t i = 0; i < want->count; i++) {
        CHECK(coord_slice_equal(want->inside[i]->name, got->inside[i]->name));
        compare(want->inside[i], got->inside[i]);
    }
}

static void check_pieces(coord_document *document, coord_slice text)
{
    size_t max = sizeof pieces / sizeof *pieces;
    size_t count = coord_document_pieces(document, pieces, NULL, max);
    size_t at = 0;

    CHECK(coord_document_size(document) == text.size);
    for (size_t i = 0; i < count && i < max; i++) {
        CHECK(pieces[i].size <= text.size - at);
        CHECK(memcmp(text.data + at, pieces[i].data, pieces[i].size) == 0);
        at += pieces[i].size;
    }
    CHECK(count > max || at == text.size);
}

static void check_walk(coord_document *document, const struct member *want)
{
    size_t cursor = 0;
    coord_slice key;
    coord_slice json;

    CHECK(coord_document_count(document, "") == want->count);
    for (size_t i = 0; i < want->count; i++) {
        CHECK(coord_document_next(document, "", &cursor, &key, &json) == COORD_OK);
        CHECK(coord_slice_equal(key, want->inside[i]->name));
        CHECK(json_validate(json, NULL, NULL, NULL));
        if (!want->inside[i]->edited)
            CHECK(coord_slice_equal(json, want->inside[i]->raw));
    }
    CHECK(coord_document_next(document, "", &cursor, &key, &json) ==
          (want->type >= COORD_JSON_ARRAY ? COORD_END : COORD_MISTYPED));
}

static void check(struct state *state, size_t which)
{
    struct json_error error = {0};
    struct member *got;
    coord_slice text;

    CHECK(coord_document_text(state->documents[which], &text) == COORD_OK);
    if (!json_validate(text, &error, NULL, NULL)) {
        fprintf(stderr, "%s at %zu: %.*s\n", error.reason, error.offset, COORD_FMT(text));
        abort();
    }
    got = model(state, text, json_skip_space(text, 0));
    compare(state->models[which], got);
    check_pieces(state->documents[which], text);
    check_walk(state->documents[which], state->models[which]);
}

/* A place: what the pointer says, and what the tree has there. */
struct place {
    char pointer[MAX_POINTER];
    size_t size;
    size_t depth;
    struct member *way[64]; /* the containers on the way, the last one holds the place */
    struct member *found;   /* NULL: nothing there */
    size_t index;           /* in the last container */
    coord_slice name;       /* the last token */
    coord_status status;    /* COORD_OK, COORD_ABSENT, COORD_REPEATED */
};

static void append_token(struct place *place, coord_slice name)
{
    place->pointer[place->size++] = '/';
    for (size_t i = 0; i < name.size; i++) {
        char byte = name.data[i];

        if (byte == '~' || byte == '/') {
            place->pointer[place->size++] = '~';
            byte = byte == '~' ? '0' : '1';
        }
        place->pointer[place->size++] = byte;
    }
    place->pointer[place->size] = '\0';
}

static size_t times(const struct member *object, coord_slice name, size_t *first)
{
    size_t count = 0;

    for (size_t i = object->count; i > 0; i--) {
        if (!coord_slice_equal(object->inside[i - 1]->name, name))
            continue;
        *first = i - 1;
        count++;
    }
    return count;
}

/* One token further down; false when it leads nowhere. */
static bool step_down(struct state *state, struct place *place)
{
    struct member *above = place->found;
    uint8_t choice = take(state);
    size_t matches;

    place->way[place->depth++] = above;
    if (above->type == COORD_JSON_ARRAY) {
        char *index = allocate(state, 24);

        place->index = choice % (above->count + 1);
        snprintf(index, 24, "%zu", place->index);
        place->name = choice == 255 ? (coord_slice)COORD_SLICE("-") : coord_slice_of(index);
        place->found = choice == 255 || place->index == above->count ? NULL : above->inside[place->index];
        if (choice == 255)
            place->index = above->count;
    } else {
        place->name = above->count > 0 && choice < 192 ? above->inside[choice % above->count]->name
                                                       : coord_slice_of(names[choice % (sizeof names / sizeof *names)]);
        matches = above->type == COORD_JSON_OBJECT ? times(above, place->name, &place->index) : 0;
        place->found = matches == 1 ? above->inside[place->index] : NULL;
        if (matches > 1)
            place->status = COORD_REPEATED;
    }
    if ((place->name.size > 0 && memchr(place->name.data, 0, place->name.size)) || place->name.size > 64)
        return false; /* no C string can say it */
    append_token(place, place->name);
    if (!place->found && place->status == COORD_OK)
        place->status = COORD_ABSENT;
    return true;
}

static bool choose(struct state *state, struct member *root, struct place *place)
{
    uint8_t depth = take(state) % 8;

    *place = (struct place){.found = root};
    for (; depth > 0 && place->found; depth--)
        if (!step_down(state, place))
            return false;
    return true;
}

static void mark_edited(const struct place *place)
{
    for (size_t i = 0; i < place->depth; i++)
        place->way[i]->edited = true;
}

static coord_status want_of_set(const struct place *place)
{
    int32_t above;

    if (place->depth == 0 || place->status != COORD_ABSENT)
        return place->status;
    above = place->way[place->depth - 1]->type;
    return above >= COORD_JSON_ARRAY ? COORD_OK : COORD_MISTYPED;
}

static void edit_set(struct state *state, size_t which)
{
    struct place place;
    coord_slice json;
    struct member *value;
    coord_status want;

    if (!choose(state, state->models[which], &place))
        return;
    json = coord_slice_of(values[take(state) % (sizeof values / sizeof *values)]);
    want = want_of_set(&place);
    CHECK(coord_document_set(state->documents[which], place.pointer, json) == want);
    if (want != COORD_OK)
        return;
    value = model(state, json, json_skip_space(json, 0));
    mark_edited(&place);
    if (place.depth == 0) {
        state->models[which] = value;
        return;
    }
    if (place.way[place.depth - 1]->type == COORD_JSON_OBJECT)
        value->name = place.name;
    if (place.found)
        place.way[place.depth - 1]->inside[place.index] = value;
    else
        add(state, place.way[place.depth - 1], place.way[place.depth - 1]->count, value);
}

static void edit_remove(struct state *state, size_t which)
{
    struct place place;

    if (!choose(state, state->models[which], &place) || place.depth == 0)
        return;
    CHECK(coord_document_remove(state->documents[which], place.pointer) ==
          (place.status == COORD_ABSENT ? COORD_OK : place.status));
    if (!place.found)
        return;
    mark_edited(&place);
    take_out(place.way[place.depth - 1], place.index);
}

static void edit_insert(struct state *state, size_t which)
{
    struct place place;
    coord_slice json;
    coord_status want;
    size_t index;

    if (!choose(state, state->models[which], &place))
        return;
    json = coord_slice_of(values[take(state) % (sizeof values / sizeof *values)]);
    index = place.found && place.found->type == COORD_JSON_ARRAY ? take(state) % (place.found->count + 2) : 0;
    want = place.status != COORD_OK                ? place.status
           : place.found->type != COORD_JSON_ARRAY ? COORD_MISTYPED
           : index > place.found->count            ? COORD_ABSENT
                                                   : COORD_OK;
    CHECK(coord_document_insert(state->documents[which], place.pointer, index, json) == want);
    if (want != COORD_OK)
        return;
    mark_edited(&place);
    place.found->edited = true;
    add(state, place.found, index, model(state, json, json_skip_space(json, 0)));
}

static void edit_remove_all(struct state *state, size_t which)
{
    struct place place;
    coord_slice name = coord_slice_of(names[take(state) % (sizeof names / sizeof *names)]);
    coord_status want;
    size_t removed;
    size_t first;
    size_t count = 0;

    if (!choose(state, state->models[which], &place))
        return;
    want = place.status == COORD_ABSENT ? COORD_OK : place.status;
    if (place.found && place.found->type == COORD_JSON_OBJECT)
        count = times(place.found, name, &first);
    CHECK(coord_document_remove_all(state->documents[which], place.pointer, name, &removed) == want);
    CHECK(removed == count);
    if (count == 0)
        return;
    mark_edited(&place);
    place.found->edited = true;
    while (times(place.found, name, &first) > 0)
        take_out(place.found, first);
}

/* Reading changes nothing, but fills the caches that an edit must forget. */
static void read_something(struct state *state, size_t which)
{
    struct place place;
    coord_slice json;
    coord_slice text;
    coord_status status;
    size_t cursor = 0;

    if (!choose(state, state->models[which], &place))
        return;
    if (coord_document_next(state->documents[which], place.pointer, &cursor, NULL, &json) == COORD_OK &&
        !place.found->inside[0]->edited)
        CHECK(coord_slice_equal(json, place.found->inside[0]->raw));
    status = coord_document_get(state->documents[which], place.pointer, &json);
    CHECK(status == place.status);
    CHECK(coord_document_type(state->documents[which], place.pointer) ==
          (place.found ? place.found->type : COORD_JSON_ABSENT));
    if (place.found && !place.found->edited)
        CHECK(coord_slice_equal(json, place.found->raw));
    if (place.found && place.found->type == COORD_JSON_STRING)
        CHECK(coord_document_get_string(state->documents[which], place.pointer, &text) == COORD_OK);
}

static void clone_or_free(struct state *state, size_t which)
{
    size_t other = take(state) % MAX_DOCUMENTS;

    if (other == which)
        return;
    coord_document_free(state->documents[other]);
    state->documents[other] = coord_document_clone_new(state->documents[which]);
    CHECK(state->documents[other]);
    state->models[other] = copy(state, state->models[which]);
    check(state, other);
}

static void edit(struct state *state)
{
    static void (*const edits[])(struct state *, size_t) = {edit_set,        edit_remove,    edit_insert,
                                                            edit_remove_all, edit_set,       edit_remove,
                                                            edit_insert,     read_something, clone_or_free};
    uint8_t choice = take(state);
    size_t which = take(state) % MAX_DOCUMENTS;

    if (!state->documents[which])
        which = 0;
    if (!state->documents[which])
        return;
    edits[choice % (sizeof edits / sizeof *edits)](state, which);
    check(state, which);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char otherwise[] =
        " { \"a\" : [ 1 , {\"b\": 2} ] ,\"c\":{ \"a\":1, \"b\":[] },\"d\":1,\"d\":2,\"e\\u0041\":\"\\n\" } ";
    static struct state state;
    const uint8_t *split = size > 0 ? memchr(data, 0, size) : NULL;
    coord_slice text = {(const char *)data, split ? (size_t)(split - data) : size};

    if (!json_validate_within(text, 40, NULL, NULL, NULL))
        text = coord_slice_of(otherwise);
    state = (struct state){.at = split ? split + 1 : data + size, .end = data + size};
    state.documents[0] = coord_document_parse_new(text, NULL, NULL);
    CHECK(state.documents[0]);
    state.models[0] = model(&state, text, json_skip_space(text, 0));
    check(&state, 0);
    for (size_t i = 0; i < MAX_EDITS && state.at < state.end; i++)
        edit(&state);
    for (size_t i = 0; i < MAX_DOCUMENTS; i++)
        if (state.documents[i])
            check(&state, i);
    for (size_t i = 0; i < MAX_DOCUMENTS; i++)
        coord_document_free(state.documents[i]);
    arena_release(&state.arena);
    return 0;
}
