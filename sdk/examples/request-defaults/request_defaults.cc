// The step `request-defaults`, in C++17: gives a request the members that its client left out, and those that no client may choose.
//
// Members are spliced into the body one by one: what the client wrote keeps its bytes, and a default of the operator's goes out
// as it stands in the configuration.
#include "coordinator.hpp"

#include <stdexcept>
#include <vector>

namespace
{

using namespace coordinator;

struct Member {
    std::string pointer, json;
};

struct Defaults {
    std::vector<Member> missing; // set where the client has none
    std::vector<Member> forced;  // set in any case
};

// C++17 has no designated initialisers: what is not said here is zero, as in C.
constexpr coord_param string_param(const char *name, const char *help)
{
    coord_param param{};

    param.size = sizeof param;
    param.type = COORD_PARAM_STRING;
    param.name = name;
    param.help = help;
    param.fallback = "{}";
    return param;
}

constexpr coord_param params[] = {
    string_param("defaults", "A JSON object: members for requests that have none of that name."),
    string_param("forced", "A JSON object: members that every request gets, whatever the client says."),
};

std::vector<Member> read_members(const coord_config *config, const char *name)
{
    std::vector<Member> members;
    std::size_t cursor = 0;
    coord_slice text{}, key, json;

    if (coord_config_string(config, name, &text) != COORD_OK)
        throw std::runtime_error(std::string(name) + " cannot be read");
    const Document document = parse(view(text)); // freed wherever this function ends
    if (!document || coord_document_type(document.get(), "") != COORD_JSON_OBJECT)
        throw std::runtime_error(std::string(name) + " is not a JSON object");
    while (coord_document_next(document.get(), "", &cursor, &key, &json) == COORD_OK)
        members.push_back({pointer_to(view(key)), std::string(view(json))});
    return members;
}

coord_status defaults_create(const coord_config *config, void **state, coord_error *error)
{
    return guarded(
        [&]() -> coord_status {
            auto defaults = std::make_unique<Defaults>();

            defaults->missing = read_members(config, "defaults");
            defaults->forced = read_members(config, "forced");
            *state = defaults.release();
            return COORD_OK;
        },
        [&](const char *what) { return coord_error_set(error, "%s", what); });
}

// A member that stands there twice cannot be set: that is the client's 400.
coord_status set(coord_request *request, const Member &member)
{
    const coord_status status =
        coord_document_set(coord_request_body(request), member.pointer.c_str(), slice(member.json));

    return coord_fail_member(request, status, member.pointer.c_str(), "there once at most");
}

bool is_missing(coord_request *request, const Member &member)
{
    return coord_document_type(coord_request_body(request), member.pointer.c_str()) == COORD_JSON_ABSENT;
}

coord_status defaults_execute(void *state, coord_request *request)
{
    const Defaults &defaults = *static_cast<const Defaults *>(state);

    for (const Member &member : defaults.missing)
        if (is_missing(request, member) && set(request, member) != COORD_OK)
            return COORD_FAIL;
    for (const Member &member : defaults.forced)
        if (set(request, member) != COORD_OK)
            return COORD_FAIL;
    return COORD_NEXT;
}

void defaults_destroy(void *state) { delete static_cast<Defaults *>(state); }

constexpr coord_step_type make_step()
{
    coord_step_type step{};

    step.size = sizeof step;
    step.name = "request-defaults";
    step.help = "Sets members that a client left out, and those that no client may choose.";
    step.params = params;
    step.param_count = sizeof params / sizeof *params;
    step.param_size = sizeof *params;
    step.create = defaults_create;
    step.execute = defaults_execute;
    step.destroy = defaults_destroy;
    return step;
}

constexpr coord_step_type defaults_step = make_step();
constexpr const coord_step_type *steps[] = {&defaults_step, nullptr};

} // namespace

COORD_PLUGIN_OF("request-defaults", "1.0", "Apache-2.0", steps, nullptr)
