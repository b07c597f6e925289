/*
 * The coordinator's own configuration: sections of declared params (the same tables print, validate and emit schema), the
 * list of steps as written, environment and flags on top (flag > environment > file > default).
 *
 * Thread: [load]; read-only afterwards. Everything lives in the arena of settings_load.
 */
#ifndef CONFIG_SETTINGS_H
#define CONFIG_SETTINGS_H

#include "config/values.h"

/* `key=value` from the command line, e.g. {"server.metrics_port", "0", "--metrics-port"}. */
struct flag_value {
    const char *key;
    const char *value;
    const char *flag;
};

/* What must hold for a pipeline to serve a request (`match`), or for a step to run (`when`): every key that is given (decisions 71, 72). */
struct header_condition {
    coord_slice name;          /* lower case */
    const coord_slice *values; /* any of them; exact or with `*` */
    size_t count;
    bool secret; /* some were substituted: never shown */
};
struct conditions {
    struct position at; /* of the map */
    bool given;
    const struct node *written; /* that map, as the file has it; NULL: none */
    const coord_slice *models;  /* any of them; exact or with `*` */
    size_t model_count;
    bool models_secret;
    uint32_t apis; /* 1 << COORD_API_…; 0: not given */
    const struct header_condition *headers;
    size_t header_count;
    int stream, media; /* 0, 1; -1: not given */
    bool has_tokens, tokens_secret;
    uint64_t min_tokens, max_tokens;
    struct position tokens_at;
};

struct step_entry {
    coord_slice type;
    struct position type_at;
    coord_slice id;            /* default: the type */
    const struct node *params; /* map or NULL */
    struct position at;
    struct conditions when;
    int64_t timeout_ns; /* 0: none */
    bool timeout_secret;
    bool continues; /* on_error: continue */
    struct position on_error_at;
};

struct gateway_settings {
    coord_slice name;
    struct position at;
    bool given;          /* by the file, the environment or a flag */
    coord_slice address; /* normalised URL, may be empty when absent */
    struct position address_at;
    const char *label;   /* in messages: "gateway", "gateways.fast" */
    bool address_told;   /* it is missing, and why that is was said */
    bool address_secret; /* from the environment: only scheme, host and port are shown */
    int32_t transport;
    int64_t max_idle_conns_per_host;
    int64_t idle_conn_timeout_ns;
    int64_t timeout_ns, response_timeout_ns, idle_timeout_ns, connect_timeout_ns, total_timeout_ns;
    const coord_slice *phase_headers; /* lower case; default x-llm-d-epp-profile */
    size_t phase_header_count;
    coord_slice ca_file, cert_file, key_file;
    struct coord_config values; /* all of its keys, as given */
};

struct pipeline_settings {
    coord_slice name; /* "default" for `pipeline:` */
    struct position at;
    struct conditions match;
    const struct gateway_settings *gateway;      /* NULL: complained about */
    const coord_slice *forward_response_headers; /* lower case, checked */
    size_t forward_response_header_count;
    const struct step_entry *steps;
    size_t step_count;
    struct position steps_at;
    const char *steps_label;    /* in messages: "pipeline.steps", "steps of pipeline gold" */
    bool steps_told;            /* there are none, and why that is was said */
    struct coord_config values; /* kv_connector, ec_connector, use_openai_format, dp_size, …: what steps inherit */
};

struct settings {
    struct arena *arena;
    const struct node *root;

    /* top level */
    int64_t log_level;
    int32_t log_format; /* 0 text, 1 json */
    bool log_usage;
    coord_slice log_tenant_header;
    bool tracing;

    struct {
        coord_slice listen_addr;
        int64_t metrics_port; /* ≤ 0: off */
        coord_slice metrics_cert_dir;
        bool secure_serving;
        bool secure_serving_set;
        coord_slice cert_path;
        coord_slice tls_min_version;
        const coord_slice *tls_cipher_suites;
        size_t tls_cipher_suite_count;
        int64_t read_timeout_ns, write_timeout_ns, shutdown_timeout_ns, drain_delay_ns;
        uint64_t max_request_body_size; /* bytes (MB key × 2^20; 0 means 64) */
        uint64_t max_inflight_requests; /* 0: none */
        uint64_t max_inflight_bytes;    /* 0: none */
        uint64_t connection_memory;
        uint64_t max_connections;
        bool keep_half_closed; /* server.half_close: close | keep */
        const coord_slice *cors_origins;
        size_t cors_origin_count;
    } server;

    struct gateway_settings gateway;                /* the one called `default` */
    const struct gateway_settings *const *gateways; /* all that are given, that one first */
    size_t gateway_count;

    const struct pipeline_settings *pipelines; /* in the order in which they are tried */
    size_t pipeline_count;

    struct {
        uint64_t inspect_limit, buffer_high, buffer_low;
        int64_t heartbeat_ns; /* 0: off */
        bool stream_error_event;
    } response;

    struct {
        int64_t reactors; /* 0: one a core that we may run on */
        uint64_t fiber_stack;
        int64_t blocking_warning_ns;
        int64_t offload_threads;
        coord_slice name_servers; /* "" the system's */
    } runtime;

    struct {
        const coord_slice *path; /* folders of plugins */
        size_t path_count;
        const coord_slice *load; /* files */
        size_t load_count;
    } plugins;

    const struct coord_config
        *sections; /* all sections' values by settings_section_name order, for explain and schema */
};

struct settings_input {
    const char *path; /* "-": standard input; NULL: defaults, environment and flags only */
    const struct flag_value *flags;
    size_t flag_count;
    bool allow_unknown;
    char **environment; /* as environ */
};

/* Loads and checks everything but step types and their params (the pipeline builder does those). NULL when the file is unreadable or no YAML; complaints may hold errors beside a result. */
struct settings *settings_load(struct arena *arena, const struct settings_input *input, struct complaints *complaints);

/* The same with the file's text from memory; `input->path` stands for the file in messages. */
struct settings *settings_parse(struct arena *arena, coord_slice text, const struct settings_input *input,
                                struct complaints *complaints);

/* Sections for `check --explain`, schema and docs: name ("" top level, "server", …) and its table. */
size_t settings_section_count(void);
const char *settings_section_name(size_t index);
struct param_table settings_section_table(size_t index);

/* Every flag that maps to a key: NULL-terminated pairs {"--metrics-port", "server.metrics_port"}. `takes_value` false for booleans. */
struct settings_flag {
    const char *flag;
    const char *key;
    bool takes_value;
};
const struct settings_flag *settings_flags(void); /* ends with a NULL flag */

#endif
