/*
 * Params: what a step or connector can be configured with, declared once.
 *
 * From the declaration the core validates the YAML (with line and column), fills in defaults and inherited values, prints
 * `coordinator steps NAME` and emits the JSON Schema. A step never parses configuration text: `create` reads typed values.
 */
#ifndef COORDINATOR_PARAM_H
#define COORDINATOR_PARAM_H

#include <coordinator/base.h>

COORD_BEGIN_DECLS

enum {
    COORD_PARAM_STRING = 1,
    COORD_PARAM_SECRET = 2,   /* a string that is never printed */
    COORD_PARAM_BOOL = 3,     /* true or false */
    COORD_PARAM_INT = 4,      /* `minimum` … `maximum`; 8192.0 is taken as 8192 */
    COORD_PARAM_NUMBER = 5,   /* a finite double */
    COORD_PARAM_DURATION = 6, /* "30s", "1m30s", "250ms"; read in nanoseconds; a unit is required */
    COORD_PARAM_SIZE = 7,     /* "16MiB", "64KiB" or plain bytes; read in bytes */
    COORD_PARAM_ENUM = 8,     /* one of `choices` */
    COORD_PARAM_URL = 9,      /* http:// or https:// with a host, normalised; no trailing slash */
    COORD_PARAM_STRING_LIST = 10,
    COORD_PARAM_STRING_MAP = 11
};

enum {
    COORD_PARAM_REQUIRED = 1 << 0, /* absent and not inherited is an error at load */
    COORD_PARAM_NO_LIMITS = 1 << 1 /* `minimum` and `maximum` do not apply (INT, NUMBER, DURATION, SIZE) */
};

typedef struct coord_param {
    uint32_t size;        /* sizeof(coord_param) */
    int32_t type;         /* COORD_PARAM_… */
    const char *name;     /* [a-z][a-z0-9_]* */
    const char *help;     /* one sentence for `coordinator steps`, never NULL */
    const char *fallback; /* the default as YAML text, NULL: none (the getter says COORD_ABSENT) */
    const char *inherits; /* key of the pipeline section whose value stands in when the step sets none, or NULL */
    uint32_t flags;       /* COORD_PARAM_REQUIRED … */
    uint32_t reserved;
    int64_t minimum; /* INT: value; DURATION: nanoseconds; SIZE: bytes */
    int64_t maximum;
    const char *const *choices; /* ENUM: NULL-terminated */
    const char *
        needs; /* a thing that an earlier step must provide for it to take effect (COORD_THING_…), or NULL; an ENUM's first choice means "off" */
} coord_param;

/* A row of a param table; members follow in the order of coord_param, as C++ wants it: {COORD_PARAM(INT, "max_parallel", "legs at a time"), .fallback = "8", .minimum = 1, .maximum = 1024} */
#define COORD_PARAM(kind, param_name, param_help)                                                                      \
    .size = (uint32_t)sizeof(coord_param), .type = COORD_PARAM_##kind, .name = param_name, .help = param_help

/* Validated values of one step or connector. Lives until `create` returns; what must stay is copied. */
typedef struct coord_config coord_config;

/*
 * Typed getters; a text is followed by a NUL that does not count. COORD_OK; COORD_ABSENT: neither set, inherited nor defaulted (`*value` untouched); COORD_MISTYPED: declared
 * with another type, COORD_INVALID: not declared at all (both are mistakes of the step's author). [load]
 */
COORD_API coord_status coord_config_string(const coord_config *config, const char *name,
                                           coord_slice *value); /* STRING, SECRET, ENUM, URL */
COORD_API coord_status coord_config_bool(const coord_config *config, const char *name, bool *value);
COORD_API coord_status coord_config_int(const coord_config *config, const char *name, int64_t *value); /* INT */
COORD_API coord_status coord_config_number(const coord_config *config, const char *name,
                                           double *value); /* NUMBER, INT */
COORD_API coord_status coord_config_duration(const coord_config *config, const char *name, int64_t *nanoseconds);
COORD_API coord_status coord_config_size(const coord_config *config, const char *name, uint64_t *bytes);
COORD_API coord_status coord_config_choice(const coord_config *config, const char *name,
                                           int32_t *index); /* ENUM: index in `choices` */

/* STRING_LIST and STRING_MAP: entry `index` from 0; COORD_END past the last one. `key` is empty for lists. [load] */
COORD_API coord_status coord_config_entry(const coord_config *config, const char *name, size_t index, coord_slice *key,
                                          coord_slice *value);

/* True when the operator set the param in the step itself (not inherited, not the default). [load] */
COORD_API bool coord_config_is_set(const coord_config *config, const char *name);

/* The step's id in its pipeline (for a connector: of the step that uses it). [load] */
COORD_API coord_slice coord_config_step_id(const coord_config *config);

COORD_END_DECLS
#endif
