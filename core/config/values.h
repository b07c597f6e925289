/*
 * Declared params against what a configuration says: the one place where text becomes typed values. Used for steps,
 * connectors and the coordinator's own sections alike, so that all of them report, print and inherit in the same way.
 *
 * Thread: [load]; values are read-only afterwards.
 */
#ifndef CONFIG_VALUES_H
#define CONFIG_VALUES_H

#include "config/keys.h"
#include "config/tree.h"

#include <coordinator/param.h>

/* Where a value came from. */
enum value_source { VALUE_ABSENT = 0, VALUE_DEFAULT, VALUE_FILE, VALUE_INHERITED, VALUE_ENVIRONMENT, VALUE_FLAG };

struct value {
    const coord_param *param; /* a copy of the row, in the arena */
    enum value_source source;
    struct position at; /* also set, with VALUE_ABSENT, when what was given was wrong */
    bool secret;        /* SECRET, or substituted: never printed */
    coord_slice origin; /* of a substituted one: by which variables, never with what */
    bool environment;   /* it, or what it inherits, came from a variable */
    coord_slice text;   /* STRING, SECRET, ENUM, URL (normalised); the text as written for the others */
    int64_t integer;    /* INT, DURATION (ns), SIZE (bytes), BOOL, ENUM (index) */
    double number;      /* NUMBER */
    coord_slice *keys;  /* STRING_MAP */
    coord_slice *items; /* STRING_LIST, STRING_MAP */
    size_t count;
};

/* = coord_config of the public API. */
struct coord_config {
    const struct value *values; /* one for each param, in order of declaration */
    size_t count;
    coord_slice step_id;
    void *owner; /* what create-time calls (coord_upstream_open, coord_connector_open) hang their objects on */
};

/* A param table whose rows may be shorter or longer than ours (ABI growth). */
struct param_table {
    const coord_param *rows;
    size_t count;
    size_t row_size;
};
/* Row `index`, with members that the table's rows are too short for zeroed. Copy. */
coord_param param_at(const struct param_table *table, size_t index);
/* Checks a declaration itself (names, types, duplicates, defaults that parse, choices): "malformed param table". COORD_OK or COORD_INVALID with `reason`. */
coord_status params_check(const struct param_table *table, struct buffer *reason);

/* What else may give a value to a key: asked with the param's name; beats the map, whose own value is then not looked at. */
struct override {
    coord_slice text;
    bool given;
    struct position at; /* line 0, file = "COORDINATOR_SERVER_READ_TIMEOUT" or "--metrics-port" */
    enum value_source source;
};
typedef struct override override_fn(void *context, const char *name);

struct values_input {
    struct arena *arena; /* of the result */
    const struct param_table
        *tables; /* usually one; a step and its connector have two: a name in several is given to all */
    size_t table_count;
    const struct node *map;            /* the section or `params:` map; NULL: nothing there */
    struct position at;                /* where to say that a required one is missing */
    const char *where;                 /* "server", "step prefill": for messages */
    const struct coord_config *parent; /* where `inherits` is looked up, or NULL */
    override_fn *override;             /* NULL: none */
    void *override_context;
    bool allow_unknown;     /* unknown keys are warnings */
    struct keys other_keys; /* keys of the map that are handled elsewhere */
};

/*
 * Null (`~`, `null`, nothing) counts as absent, and so does an empty text for ENUM and URL. A list may be written as one
 * comma-separated text. Texts (of lists and maps too) are followed by a NUL that does not count.
 *
 * Fills `configs[0 … table_count)`. Every error is added to `complaints`: unknown key with the nearest name, wrong type, unit
 * missing, out of range, not one of the choices, required but missing, duplicate list entry where that matters. False when any was added.
 */
bool values_load(const struct values_input *input, struct coord_config *configs, struct complaints *complaints);

/*
 * Parsing of single texts; false when malformed. The patterns say the same as regular expressions (POSIX extended and ECMA alike),
 * but for numbers that are too large and for what only a URL library finds.
 */
extern const char duration_pattern[], size_pattern[], url_pattern[];
bool parse_duration(
    coord_slice text,
    int64_t *nanoseconds); /* Go's: "1h2m3.5s", "100ms", "1us", "µs", "ns"; "0" alone is 0; negative allowed with '-' */
bool parse_size(coord_slice text,
                uint64_t *bytes); /* digits, or digits and KiB, MiB, GiB (powers of 1,024), KB, MB, GB (of 1,000), B */
bool parse_integer(coord_slice text, int64_t *value); /* also 8192.0 */
bool url_is_secure(coord_slice normal);               /* of one that parse_url has read: https */
bool parse_url(
    struct arena *arena, coord_slice text, coord_slice *normal,
    const char **reason); /* by curl's URL API; `reason` is a constant that goes on from the URL: "has no host" */

/* The text of a value for printing (`explain`, `steps`); secrets give "[secret]". Appends. */
bool value_print(const struct value *value, struct buffer *out) __attribute__((warn_unused_result));

/* The same once read, however it is written and wherever it came from; secrets too. */
bool value_equal(const struct value *a, const struct value *b);
/* A copy, its param included, that depends on nothing outside of the arena but the param's texts. False: memory is short. */
bool value_copy(struct arena *arena, const struct value *value, struct value *copy) __attribute__((warn_unused_result));

const struct value *config_find(const struct coord_config *config, const char *name); /* NULL: not declared */

/* The name of a param type for people: "duration", "string list", … */
const char *param_type_name(int32_t type);

#endif
