/* See stateful.h. */
#include "pipeline/stateful.h"

#include "json/scanner.h"

static void refuse(struct coord_request *request, const char *pointer, const char *format, const char *name)
{
    request_fail(request, ERROR_BAD_REQUEST, 400, "unsupported_parameter", format, name);
    request->failure.param = pointer;
}

static bool is_set(struct coord_request *request, const char *pointer)
{
    int32_t type = coord_document_type(request->body, pointer);

    return type != COORD_JSON_ABSENT && type != COORD_JSON_NULL;
}

static bool is_false(struct coord_request *request, const char *pointer)
{
    bool value = true;

    return coord_document_get_bool(request->body, pointer, &value) == COORD_OK && !value;
}

/* Types whose file_id names a file that only the provider has. */
static bool is_file_type(coord_slice quoted)
{
    static const char *const types[] = {"input_image", "input_file", "computer_screenshot"};

    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (json_key_is(quoted, coord_slice_of(types[i])))
            return true;
    return false;
}

/* One object: does it have such a type and a file_id? */
static bool object_has_file(coord_slice text, size_t at)
{
    struct json_member member;
    size_t cursor = 0;
    bool file = false, id = false;

    while (json_next_member(text, at, &cursor, &member)) {
        coord_slice key = json_slice(text, member.key);
        coord_slice value = json_slice(text, member.value);

        file |= json_key_is(key, (coord_slice)COORD_SLICE("type")) && value.data[0] == '"' && is_file_type(value);
        id |= json_key_is(key, (coord_slice)COORD_SLICE("file_id")) && value.data[0] != 'n';
    }
    return file && id;
}

/* Every object of a validated text, at any depth, without recursion: each one begins at a brace outside of a string. */
static bool any_object_has_file(coord_slice text)
{
    for (size_t at = 0; at < text.size; at++) {
        if (text.data[at] == '"')
            at = json_skip_value(text, at) - 1;
        else if (text.data[at] == '{' && object_has_file(text, at))
            return true;
    }
    return false;
}

void stateful_check(struct coord_request *request)
{
    int32_t type = coord_document_type(request->body, "/input");
    coord_slice input;

    if (is_set(request, "/previous_response_id"))
        refuse(request, "/previous_response_id",
               "%s is not supported: no response is stored here; send the whole conversation in input",
               "previous_response_id");
    else if (is_set(request, "/conversation"))
        refuse(request, "/conversation", "%s is not supported: no conversation is stored here; send it whole in input",
               "conversation");
    else if (is_set(request, "/background") && !is_false(request, "/background"))
        refuse(request, "/background", "%s is not supported: leave it out or set it to false", "background");
    else if (type != COORD_JSON_ABSENT && type != COORD_JSON_NULL && type != COORD_JSON_STRING &&
             type != COORD_JSON_ARRAY)
        refuse(request, "/input", "%s must be a string or an array", "input");
    else if (type == COORD_JSON_ARRAY && coord_document_get(request->body, "/input", &input) == COORD_OK &&
             memmem(input.data, input.size, "file_id", 7) && any_object_has_file(input))
        refuse(request, "/input", "%s is not supported: no file is stored here; send its contents", "file_id");
}
