/* `coordinator schema`: the JSON Schema of the configuration, with the params of everything that is loaded. */
#include "cli/load.h"
#include "pipeline/schema.h"

#include <stdio.h>

/* False: memory is short, or standard output takes nothing. */
static bool print_schema(const struct registry *registry)
{
    coord_json *json = coord_json_new();
    coord_slice text;
    bool printed = false;

    schema_write(json, registry, COORD_VERSION);
    if (json && coord_json_end(json, &text) == COORD_OK)
        printed = printf("%.*s\n", COORD_FMT(text)) > 0 && fflush(stdout) == 0;
    coord_json_free(json);
    return printed;
}

/* A file that is wrong elsewhere is one that somebody is writing with this schema: only its plugins matter. */
int cli_schema(const struct arguments *arguments)
{
    struct complaints complaints = {0};
    struct registry registry;
    int code = 2;

    if (arguments->rest_count > 0)
        return cli_misused("schema");
    if (load_types(&registry, arguments, false, &complaints))
        code = print_schema(&registry) ? 0 : 1;
    fprintf(stderr, "%.*s", COORD_FMT(buffer_slice(&complaints.text)));
    registry_release(&registry);
    complaints_release(&complaints);
    return code;
}
