// A plugin in C++: the headers are C++, and what it throws it catches (coordinator/base.h).
#include <coordinator/plugin.h>

#include <new>
#include <stdexcept>
#include <string>

namespace
{

struct Greeting {
    std::string words;
};

coord_status create(const coord_config *config, void **state, coord_error *error)
{
    coord_slice words;

    if (coord_config_string(config, "words", &words) != COORD_OK)
        return coord_error_set(error, "words cannot be read");
    *state = new (std::nothrow) Greeting{std::string(words.data, words.size)};
    return *state ? COORD_OK : coord_error_set(error, "memory is short");
}

coord_status execute(void *state, coord_request *request)
{
    const Greeting *greeting = static_cast<Greeting *>(state);

    if (greeting->words == "cross")
        throw std::runtime_error("it crosses the core"); // a mistake that ends the process
    try {
        throw std::runtime_error(greeting->words);
    } catch (const std::exception &thrown) {
        return coord_fail(request, 418, nullptr, "%s", thrown.what());
    }
}

void destroy(void *state) { delete static_cast<Greeting *>(state); }

const coord_param params[] = {{COORD_PARAM(STRING, "words", "What is said."), .fallback = "hello from C++"}};

const char *const provided[] = {COORD_THING_ANSWER, nullptr};

const coord_step_type type = {
    .size = sizeof(coord_step_type),
    .flags = 0,
    .name = "cplusplus",
    .help = "A step in C++.",
    COORD_STEP_PARAMS(params),
    .needs = nullptr,
    .provides = provided,
    .create = create,
    .execute = execute,
    .destroy = destroy,
    .start = nullptr,
    .stop = nullptr,
    .thread_start = nullptr,
    .thread_stop = nullptr,
};

const coord_step_type *const steps[] = {&type, nullptr};

} // namespace

COORD_PLUGIN(.name = "cplusplus", .version = "1", .licence = "Apache-2.0", .steps = steps, .connectors = nullptr)
