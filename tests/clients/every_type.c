/* A plugin for the tests of the schema: a step with a param of each type, and a connector with params of its own. */
#include <coordinator/plugin.h>

static const char *const CHOICES[] = {"off", "on", NULL};

static const coord_param PARAMS[] = {
    {COORD_PARAM(STRING, "string", "A text."), .fallback = "some"},
    {COORD_PARAM(SECRET, "secret", "A text that is never printed.")},
    {COORD_PARAM(BOOL, "bool", "A truth."), .fallback = "true"},
    {COORD_PARAM(INT, "int", "A number."), .fallback = "2", .minimum = -1, .maximum = 7},
    {COORD_PARAM(INT, "any_int", "Any number."), .flags = COORD_PARAM_NO_LIMITS},
    {COORD_PARAM(NUMBER, "number", "A fraction."), .fallback = "0.5", .minimum = 0, .maximum = 1},
    {COORD_PARAM(DURATION, "duration", "A time."), .fallback = "1m30s", .maximum = INT64_MAX},
    {COORD_PARAM(DURATION, "long_duration", "A time that is no nothing."), .minimum = 1, .maximum = INT64_MAX},
    {COORD_PARAM(DURATION, "any_duration", "Any time."), .flags = COORD_PARAM_NO_LIMITS},
    {COORD_PARAM(SIZE, "size", "So many bytes."), .fallback = "16KiB", .minimum = 1, .maximum = 1 << 20},
    {COORD_PARAM(ENUM, "choice", "One of two."), .fallback = "off", .choices = CHOICES},
    {COORD_PARAM(URL, "url", "A place.")},
    {COORD_PARAM(STRING_LIST, "list", "Texts."), .fallback = "[a, b]"},
    {COORD_PARAM(STRING_MAP, "map", "Texts by name."), .fallback = "{a: b}"},
    {COORD_PARAM(STRING, "kv_connector", "A connector."), .fallback = "kv-every-type", .inherits = "kv_connector"},
};

static const coord_param NEEDED[] = {
    {COORD_PARAM(URL, "needed", "What must be set."), .flags = COORD_PARAM_REQUIRED},
};

static const coord_param CONNECTOR_PARAMS[] = {
    {COORD_PARAM(INT, "rank", "Of the connector."), .fallback = "1", .minimum = 1, .maximum = 3},
};

static coord_status execute(void *state, coord_request *request)
{
    (void)state, (void)request;
    return COORD_NEXT;
}

static const coord_step_type EVERY_TYPE = {.size = sizeof EVERY_TYPE,
                                           .name = "every-type",
                                           .help = "Has a param of each type.",
                                           COORD_STEP_PARAMS(PARAMS),
                                           .execute = execute};
static const coord_step_type NEEDS = {.size = sizeof NEEDS,
                                      .name = "needs",
                                      .help = "Has one that must be set.",
                                      COORD_STEP_PARAMS(NEEDED),
                                      .execute = execute};
static const coord_connector_type CONNECTOR = {.size = sizeof CONNECTOR,
                                               .kind = COORD_CONNECTOR_KV,
                                               .name = "kv-every-type",
                                               .help = "Has a param.",
                                               COORD_STEP_PARAMS(CONNECTOR_PARAMS)};

COORD_PLUGIN(.name = "every-type", .version = "1", .licence = "Apache-2.0",
             .steps = (const coord_step_type *const[]){&EVERY_TYPE, &NEEDS, NULL},
             .connectors = (const coord_connector_type *const[]){&CONNECTOR, NULL})
