/* The step `kit-writer`: wraps the one writer of the kit's options, so that a writer can be tested without a step around it. */
#include "kit.h"

#include <stdlib.h>

static coord_kit_writer writer; /* of the kit that runs: there is one at a time */

static coord_status wrap(void *state, coord_request *request)
{
    (void)state;
    return coord_request_wrap(request, writer.type, writer.make ? writer.make(request) : NULL);
}

static const coord_step_type step = {.size = sizeof step,
                                     .name = "kit-writer",
                                     .help = "Wraps the writer that the test kit was given.",
                                     .execute = wrap};
static const coord_step_type *const steps[] = {&step, NULL};
static const coord_plugin_descriptor plugin = {.size = sizeof plugin,
                                               .magic = COORD_PLUGIN_MAGIC,
                                               .abi_major = COORD_ABI_MAJOR,
                                               .abi_minor = COORD_ABI_MINOR,
                                               .name = "kit-writer",
                                               .version = "1",
                                               .licence = "Apache-2.0",
                                               .steps = steps};

const coord_plugin_descriptor *const *kit_writer_alone_add(const coord_plugin_descriptor **room,
                                                           const coord_kit_options *options)
{
    size_t count = 0;

    if (!options->writer)
        return options->plugins;
    writer = *options->writer;
    for (; options->plugins && options->plugins[count]; count++) {
        if (count == MAX_PLUGINS - 1)
            abort();
        room[count] = options->plugins[count];
    }
    room[count] = &plugin;
    return room;
}

const char *kit_writer_alone_yaml(const coord_kit_writer *given)
{
    return given ? "pipeline: {steps: [{type: kit-writer}, {type: decode}]}" : "pipeline: {steps: [{type: decode}]}";
}
