/* See header_names.h. */
#include "config/header_names.h"

enum { SHOWN_MAX = 80 };

/* service.md 3.5: hop-by-hop, the body's, the coordinator's own. */
static const char *const never_forwarded[] = {
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "upgrade",
    "transfer-encoding",
    "host",
    "content-length",
    "content-type",
    "epp-profile",
    "x-llm-d-epp-profile",
    "x-llm-d-revision-decision-id",
    "x-llm-d-pin-host-port",
};

static bool contains(const coord_slice *names, size_t count, coord_slice name)
{
    for (size_t i = 0; i < count; i++) {
        if (coord_slice_equal(names[i], name))
            return true;
    }
    return false;
}

bool header_is_forwardable(coord_slice name, const struct header_names *phase_headers)
{
    for (size_t i = 0; i < sizeof never_forwarded / sizeof *never_forwarded; i++) {
        if (coord_slice_is(name, never_forwarded[i]))
            return false;
    }
    return !contains(phase_headers->names, phase_headers->count, name);
}

/* RFC 9110 5.6.2. */
static bool is_token(coord_slice name)
{
    static const char marks[] = "!#$%&'*+-.^_`|~";

    for (size_t i = 0; i < name.size; i++) {
        char c = name.data[i];
        bool letter = c >= 'a' && c <= 'z', digit = c >= '0' && c <= '9';

        if (!letter && !digit && !memchr(marks, c, sizeof marks - 1))
            return false;
    }
    return name.size > 0;
}

static coord_slice tidy(struct arena *arena, coord_slice text)
{
    coord_slice copy;
    char *name;

    while (text.size > 0 && (text.data[0] == ' ' || text.data[0] == '\t')) {
        text.data++;
        text.size--;
    }
    while (text.size > 0 && (text.data[text.size - 1] == ' ' || text.data[text.size - 1] == '\t'))
        text.size--;
    copy = arena_copy(arena, text);
    name = (char *)(uintptr_t)copy.data; /* our own copy */
    for (size_t i = 0; i < copy.size; i++) {
        if (name[i] >= 'A' && name[i] <= 'Z')
            name[i] = (char)(name[i] - 'A' + 'a');
    }
    return copy;
}

/* What is wrong with a name, going on from "LABEL[i] "; NULL: nothing. */
static const char *name_problem(coord_slice name, const struct header_names *before,
                                const struct header_names *phase_headers)
{
    if (name.size == 0)
        return "must not be empty";
    if (!is_token(name))
        return "is no header name:";
    if (phase_headers && !header_is_forwardable(name, phase_headers))
        return "contains non-forwardable header";
    if (contains(before->names, before->count, name))
        return "contains duplicate header";
    return NULL;
}

struct header_names header_names_read(struct arena *arena, const struct value *value, const struct node *node,
                                      const char *label, const struct header_names *phase_headers,
                                      struct complaints *complaints)
{
    coord_slice *names = arena_alloc(arena, value->count * sizeof *names);
    struct header_names read = {names, 0};
    bool in_file = value->source == VALUE_FILE && node && node->kind == NODE_LIST && node->count == value->count;

    if (!names) {
        complain(complaints, COMPLAINT_ERROR, value->at, "%s: memory is short", label);
        return read;
    }
    for (size_t i = 0; i < value->count; i++) {
        coord_slice name = tidy(arena, value->items[i]);
        struct position at = in_file ? node->items[i]->at : value->at;
        const char *problem = name_problem(name, &read, phase_headers);

        if (!problem)
            names[read.count++] = name;
        else if (name.size == 0 || value->secret)
            complain(complaints, COMPLAINT_ERROR, at, "%s[%zu] %s", label, i, problem);
        else
            complain(complaints, COMPLAINT_ERROR, at, "%s[%zu] %s \"%.*s\"", label, i, problem,
                     name.size < SHOWN_MAX ? (int)name.size : SHOWN_MAX, name.data);
    }
    return read;
}
