/* See text.h. */
#include "json/text.h"

#include "json/block.h"
#include "json/quote.h"
#include "runtime/blocks.h"

#include <assert.h>
#include <stdlib.h>

enum { FIRST_CAPACITY = 8 };

static bool note_member(void *context, const struct json_member *member)
{
    struct json_draft *draft = context;

    if (member->key.end == 0) /* an element: arrays have fingers instead */
        return true;
    if (draft->indexed == draft->room) {
        bool few = draft->index == draft->few;
        struct json_entry *index = realloc(few ? NULL : draft->index, 2 * draft->room * sizeof *index);

        if (!index)
            return false;
        if (few)
            memcpy(index, draft->few, sizeof draft->few);
        draft->index = index;
        draft->room *= 2;
    }
    draft->index[draft->indexed++] = (struct json_entry){
        .key = (uint32_t)member->key.begin,
        .name_size = member->escaped ? JSON_ESCAPED : (uint32_t)(member->key.end - member->key.begin - 2),
        .value = (uint32_t)member->value.begin,
        .end = (uint32_t)member->value.end};
    return true;
}

static struct json_span without_space(coord_slice bytes)
{
    struct json_span root = {json_skip_space(bytes, 0), bytes.size};

    while (root.end > root.begin && json_is_space((unsigned char)bytes.data[root.end - 1]))
        root.end--;
    return root;
}

bool json_draft_scan(struct json_draft *draft, coord_slice bytes, size_t max_depth, struct json_error *error)
{
    bool small = bytes.size < UINT32_MAX;

    draft->bytes = bytes;
    draft->index = draft->few;
    draft->indexed = 0;
    draft->room = JSON_FEW_ENTRIES;
    if (!json_validate_within(bytes, max_depth, error, small ? note_member : NULL, draft)) {
        json_draft_release(draft);
        return false;
    }
    draft->root = without_space(bytes);
    return true;
}

/* A text that has `entries` of the index and `room` bytes of its own. */
static struct json_text *make(size_t entries, size_t room)
{
    size_t head = sizeof(struct json_text) + entries * sizeof(struct json_entry);
    struct json_text *text = room < SIZE_MAX - head ? block_take(head + room) : NULL;

    if (!text)
        return NULL;
    *text = (struct json_text){.references = 1, .size = head + room, .index = text->own};
    text->bytes = (coord_slice){(const char *)(text->own + entries), room};
    return text;
}

/*
 * A text of the draft with `room` bytes to be filled, of which what was at `from` in the draft comes at `to`. The index is the
 * text's from then on. One that cannot number all bytes is none.
 */
static struct json_text *make_indexed(struct json_draft *draft, size_t room, size_t from, size_t to)
{
    bool few = draft->index == draft->few;
    struct json_text *text = make(few ? draft->indexed : 0, room);
    uint32_t shift = (uint32_t)to - (uint32_t)from;

    if (!text)
        return NULL;
    text->root = (struct json_span){draft->root.begin - from + to, draft->root.end - from + to};
    if (to + draft->bytes.size >= UINT32_MAX)
        return text;
    if (!few) {
        text->index = draft->index;
        draft->index = draft->few;
    }
    for (size_t i = 0; i < draft->indexed; i++) {
        const struct json_entry *entry = few ? &draft->few[i] : &text->index[i];

        text->index[i] =
            (struct json_entry){entry->key + shift, entry->name_size, entry->value + shift, entry->end + shift};
    }
    text->indexed = draft->indexed;
    text->complete = true;
    return text;
}

static char *bytes_of(struct json_text *text) { return (char *)(uintptr_t)text->bytes.data; }

struct json_text *json_draft_text_new(struct json_draft *draft)
{
    size_t size = draft->root.end - draft->root.begin;
    struct json_text *text = make_indexed(draft, size, draft->root.begin, 0);

    if (text)
        memcpy(bytes_of(text), draft->bytes.data + draft->root.begin, size);
    return text;
}

/* A name without quotes as a string has it; what needs escapes is written to `memory`. False: memory is short. */
static bool name_inside(coord_slice *name, struct buffer *memory)
{
    json_bytes begin = (json_bytes)name->data, end = name->size ? begin + name->size : begin;

    if (json_find_not_plain(begin, end) == end)
        return true;
    if (!json_append_quoted(memory, *name))
        return false;
    *name = (coord_slice){memory->data + 1, memory->size - 2};
    return true;
}

/* `,"name":` */
static void put_key(char *to, coord_slice inside)
{
    to[0] = ',';
    to[1] = '"';
    if (inside.size > 0)
        memcpy(to + 2, inside.data, inside.size);
    to[2 + inside.size] = '"';
    to[3 + inside.size] = ':';
}

struct json_text *json_draft_member_new(struct json_draft *draft, coord_slice name)
{
    size_t size = draft->root.end - draft->root.begin;
    struct buffer memory = {0};
    struct json_text *text = NULL;

    if (name_inside(&name, &memory))
        text = make_indexed(draft, name.size + 4 + size, draft->root.begin, name.size + 4);
    if (text) {
        put_key(bytes_of(text), name);
        memcpy(bytes_of(text) + name.size + 4, draft->bytes.data + draft->root.begin, size);
    }
    buffer_release(&memory);
    return text;
}

struct json_text *json_text_key_new(coord_slice name)
{
    struct buffer memory = {0};
    struct json_text *text = NULL;

    if (name_inside(&name, &memory))
        text = make(0, name.size + 4);
    if (text)
        put_key(bytes_of(text), name);
    buffer_release(&memory);
    return text;
}

static struct json_text *keep(struct json_text *text, struct json_error *error)
{
    if (!text)
        *error = (struct json_error){0, "memory is short", true};
    return text;
}

struct json_text *json_text_new(coord_slice bytes, struct json_error *error)
{
    struct json_draft draft;
    struct json_text *text;

    if (!json_draft_scan(&draft, bytes, JSON_MAX_DEPTH, error))
        return NULL;
    text = keep(make_indexed(&draft, bytes.size, 0, 0), error);
    if (text)
        memcpy(bytes_of(text), bytes.data, bytes.size);
    json_draft_release(&draft);
    return text;
}

struct json_text *json_text_adopt_new(struct buffer *take, struct json_error *error)
{
    coord_slice bytes = buffer_slice(take);
    struct json_draft draft;
    struct json_text *text;

    if (!json_draft_scan(&draft, bytes, JSON_MAX_DEPTH, error))
        return NULL;
    text = keep(make_indexed(&draft, 0, 0, 0), error);
    if (text) {
        text->bytes = bytes;
        text->adopted = *take;
        *take = (struct buffer){0};
    }
    json_draft_release(&draft);
    return text;
}

struct json_text *json_text_room_new(size_t size, char **bytes)
{
    struct json_text *text = make(0, size);

    if (!text)
        return NULL;
    text->root.end = size;
    *bytes = bytes_of(text);
    return text;
}

struct json_text *json_text_piece_new(coord_slice bytes)
{
    char *to;
    struct json_text *text = json_text_room_new(bytes.size, &to);

    if (text && bytes.size > 0)
        memcpy(to, bytes.data, bytes.size);
    return text;
}

struct json_text *json_text_part_new(struct json_text *whole, coord_slice part)
{
    struct json_text *text = make(0, 0);

    assert(part.data >= whole->bytes.data && part.size <= whole->bytes.size &&
           (size_t)(part.data - whole->bytes.data) <= whole->bytes.size - part.size);
    if (!text)
        return NULL;
    text->bytes = part;
    text->root.end = part.size;
    text->whole = json_text_ref(whole);
    return text;
}

void json_text_unref(struct json_text *text)
{
    if (!text)
        return;
    assert(text->references > 0);
    if (--text->references > 0)
        return;
    for (size_t i = 0; i < text->string_count; i++)
        free((void *)(uintptr_t)text->strings[i].text.data);
    free(text->strings);
    free(text->fingers);
    if (text->index != text->own)
        free(text->index);
    buffer_release(&text->adopted);
    json_text_unref(text->whole);
    block_give(text, text->size);
}

/* The first index entry whose key is at or behind `at`. */
static size_t index_place(const struct json_text *text, size_t at)
{
    size_t low = 0;
    size_t high = text->indexed;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (text->index[middle].key < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/*
 * The index entry of the top-level member whose key begins at `at`; NULL when there is none. Runs are looked at in order, so
 * the hint is mostly right.
 */
static const struct json_entry *indexed_at(struct json_text *text, size_t at)
{
    size_t place = text->index_hint;

    if (text->indexed > 0 && text->index[0].key == at) { /* the whole object, mostly */
        text->index_hint = 0;
        return text->index;
    }
    if (place >= text->indexed || text->index[place].key != at)
        place = index_place(text, at);
    text->index_hint = place;
    return place < text->indexed && text->index[place].key == at ? &text->index[place] : NULL;
}

static struct json_member from_entry(const struct json_text *text, const struct json_entry *entry)
{
    size_t end = entry->name_size == JSON_ESCAPED ? json_skip_value(text->bytes, entry->key)
                                                  : (size_t)entry->key + entry->name_size + 2;

    return (struct json_member){.key = {entry->key, end}, .value = {entry->value, entry->end}};
}

static bool entry_is(const struct json_text *text, const struct json_entry *entry, coord_slice name)
{
    if (entry->name_size == JSON_ESCAPED)
        return json_key_at_is(text->bytes, entry->key, name);
    return entry->name_size == name.size && memcmp(text->bytes.data + entry->key + 1, name.data, name.size) == 0;
}

/* As json_text_find, through the index. */
static size_t find_indexed(const struct json_text *text, const struct json_entry *entry, size_t count, coord_slice name,
                           struct json_found *found)
{
    size_t matches = 0;

    for (size_t i = 0; i < count; i++)
        if (entry_is(text, &entry[i], name) && matches++ == 0)
            *found = (struct json_found){from_entry(text, &entry[i]), i};
    return matches;
}

size_t json_text_find(struct json_text *text, size_t first, size_t count, coord_slice name, struct json_found *found)
{
    const struct json_entry *entry = indexed_at(text, first);
    size_t at = first, matches = 0;

    if (entry) {
        size_t left = text->indexed - (size_t)(entry - text->index);

        count = count < left ? count : left;
        text->index_hint += count + 1; /* where the next run begins when one member was taken out behind this */
        return find_indexed(text, entry, count, name, found);
    }
    for (size_t i = 0; i < count && at != 0; i++) {
        struct json_member member = json_member_at(text->bytes, true, at);

        if (json_key_is(json_slice(text->bytes, member.key), name) && matches++ == 0)
            *found = (struct json_found){member, i};
        at = json_after_member(text->bytes, member.value.end);
    }
    return matches;
}

/* The finger nearest before `ordinal`, or one that is free to be put there; `spare` when there is no memory for any. */
static struct json_finger *finger_for(struct json_text *text, size_t first, size_t ordinal, struct json_finger *spare)
{
    struct json_finger *finger = spare;

    if (!text->fingers)
        text->fingers = calloc(JSON_FINGERS, sizeof *text->fingers);
    for (size_t i = 0; text->fingers && i < JSON_FINGERS; i++)
        if (text->fingers[i].first == first && text->fingers[i].ordinal <= ordinal)
            return &text->fingers[i];
    if (text->fingers)
        finger = &text->fingers[text->next_finger++ % JSON_FINGERS];
    *finger = (struct json_finger){first, 0, first};
    return finger;
}

bool json_text_member(struct json_text *text, bool object, size_t first, size_t ordinal, struct json_member *member)
{
    const struct json_entry *entry = object ? indexed_at(text, first) : NULL;
    struct json_finger *finger, spare;

    if (entry) {
        if (ordinal >= text->indexed - (size_t)(entry - text->index))
            return false;
        *member = from_entry(text, entry + ordinal);
        return true;
    }
    finger = finger_for(text, first, ordinal, &spare);
    while (finger->ordinal < ordinal) {
        size_t next = json_after_member(text->bytes, json_member_at(text->bytes, object, finger->at).value.end);

        if (next == 0)
            return false;
        finger->at = next;
        finger->ordinal++;
    }
    *member = json_member_at(text->bytes, object, finger->at);
    return true;
}

size_t json_text_first(const struct json_text *text, size_t container)
{
    size_t at = json_skip_space(text->bytes, container + 1);

    return text->bytes.data[at] == ']' || text->bytes.data[at] == '}' ? 0 : at;
}

size_t json_text_count(const struct json_text *text, size_t container)
{
    if (text->complete && container == text->root.begin && text->bytes.data[container] == '{')
        return text->indexed;
    return json_count_members(text->bytes, container);
}

/* The first cached string at or behind `at`. */
static size_t string_place(const struct json_text *text, size_t at)
{
    size_t low = 0;
    size_t high = text->string_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (text->strings[middle].at < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool remember(struct json_text *text, size_t place, size_t at, coord_slice unescaped)
{
    if (text->string_count == text->string_capacity) {
        size_t capacity = text->string_capacity ? 2 * text->string_capacity : FIRST_CAPACITY;
        struct json_unescaped *strings = realloc(text->strings, capacity * sizeof *strings);

        if (!strings)
            return false;
        text->strings = strings;
        text->string_capacity = capacity;
    }
    memmove(text->strings + place + 1, text->strings + place, (text->string_count - place) * sizeof *text->strings);
    text->strings[place] = (struct json_unescaped){at, unescaped};
    text->string_count++;
    return true;
}

bool json_text_unescaped(struct json_text *text, struct json_span quoted, coord_slice *unescaped)
{
    coord_slice inside = {text->bytes.data + quoted.begin + 1, quoted.end - quoted.begin - 2};
    size_t place;
    char *memory;

    if (inside.size == 0 || !memchr(inside.data, '\\', inside.size)) {
        *unescaped = inside;
        return true;
    }
    place = string_place(text, quoted.begin);
    if (place < text->string_count && text->strings[place].at == quoted.begin) {
        *unescaped = text->strings[place].text;
        return true;
    }
    memory = malloc(inside.size + 2);
    if (!memory)
        return false;
    *unescaped = (coord_slice){memory, json_unescape((coord_slice){inside.data - 1, inside.size + 2}, memory)};
    if (remember(text, place, quoted.begin, *unescaped))
        return true;
    free(memory);
    *unescaped = (coord_slice){NULL, 0};
    return false;
}
