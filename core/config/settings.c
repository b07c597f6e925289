/*
 * See settings.h. Each section is loaded by its table (sections.c); then its values are copied into the struct, and what
 * concerns several of them is checked.
 */
#include "config/settings.h"

#include "config/header_names.h"
#include "config/sections.h"
#include "config/steps.h"
#include "config/substitute.h"

#include <assert.h>
#include <stdlib.h>

static const int64_t default_log_level = 2;
static const int64_t default_body_mb = 64;
static const int64_t default_idle_connections = 2; /* of Go's HTTP client */

/* What one section asks the flags and the environment with. */
struct sources {
    struct arena *arena;
    const struct settings_input *input;
    enum section section;
};

static bool key_is(const char *key, const char *section, const char *name)
{
    size_t size = strlen(section);

    if (size == 0)
        return strcmp(key, name) == 0;
    return strncmp(key, section, size) == 0 && key[size] == '.' && strcmp(key + size + 1, name) == 0;
}

static bool is_list(enum section section, const char *name)
{
    struct param_table table = settings_section_table(section);

    for (size_t i = 0; i < table.count; i++) {
        if (strcmp(table.rows[i].name, name) == 0)
            return table.rows[i].type == COORD_PARAM_STRING_LIST;
    }
    return false;
}

/* The last flag of several counts; those of a list are joined. */
static struct override from_flags(const struct sources *sources, const char *name)
{
    const struct settings_input *input = sources->input;
    const char *section = settings_section_name(sources->section);
    struct override override = {.source = VALUE_FLAG};

    for (size_t i = 0; i < input->flag_count; i++) {
        const struct flag_value *flag = &input->flags[i];
        const char *text = flag->value;

        if (!key_is(flag->key, section, name))
            continue;
        if (override.given && is_list(sources->section, name))
            text = arena_printf(sources->arena, "%.*s,%s", COORD_FMT(override.text), flag->value);
        override.given = true;
        override.text = coord_slice_of(text);
        override.at = (struct position){.file = flag->flag};
    }
    return override;
}

/* server.read_timeout → COORDINATOR_SERVER_READ_TIMEOUT. NULL when memory is short. */
static char *variable_name(struct arena *arena, const char *section, const char *name)
{
    char *variable = arena_printf(arena, "COORDINATOR_%s%s%s", section, *section ? "_" : "", name);

    for (char *c = variable; c && *c; c++) {
        if (*c >= 'a' && *c <= 'z')
            *c = (char)(*c - 'a' + 'A');
    }
    return variable;
}

static struct override from_environment(const struct sources *sources, const char *name)
{
    char *variable = variable_name(sources->arena, settings_section_name(sources->section), name);
    struct override override = {.source = VALUE_ENVIRONMENT, .at.file = variable};

    if (variable && section_has_environment(sources->section))
        override.text = environment_get(sources->input->environment, coord_slice_of(variable));
    override.given = override.text.size > 0; /* set but empty counts as unset */
    return override;
}

static struct override find_override(void *context, const char *name)
{
    struct override override = from_flags(context, name);

    return override.given ? override : from_environment(context, name);
}

/* Top-level keys that begin with `x-` are the operator's own: a map without them. NULL when memory is short. */
static const struct node *without_private_keys(struct arena *arena, const struct node *root)
{
    struct node *copy = arena_alloc(arena, sizeof *copy);

    if (!copy)
        return NULL;
    *copy = *root;
    copy->count = 0;
    copy->entries = arena_alloc(arena, root->count * sizeof *copy->entries);
    if (!copy->entries)
        return NULL;
    for (size_t i = 0; i < root->count; i++) {
        coord_slice key = root->entries[i].key;

        if (key.size < 2 || memcmp(key.data, "x-", 2) != 0)
            copy->entries[copy->count++] = root->entries[i];
    }
    return copy;
}

static const struct node *section_node(const struct settings *settings, enum section section)
{
    return section == SECTION_TOP ? settings->root : node_get(settings->root, settings_section_name(section));
}

/* What the fill_… functions read from. */
struct filling {
    struct settings *settings;
    const struct settings_input *input;
    const struct coord_config *config;
    struct complaints *complaints;
};

/* The value of a key of our own; it may be absent. */
static const struct value *find(const struct filling *filling, const char *name)
{
    const struct value *value = config_find(filling->config, name);

    assert(value);
    return value;
}

static int64_t integer_of(const struct filling *filling, const char *name) { return find(filling, name)->integer; }

static uint64_t size_of(const struct filling *filling, const char *name)
{
    return (uint64_t)find(filling, name)->integer; /* never negative, by its table */
}

static coord_slice text_of(const struct filling *filling, const char *name) { return find(filling, name)->text; }

static const coord_slice *list_of(const struct filling *filling, const char *name, size_t *count)
{
    *count = find(filling, name)->count;
    return find(filling, name)->items;
}

static void fill_top(const struct filling *filling)
{
    struct settings *settings = filling->settings;

    settings->log_level = integer_of(filling, "log_level");
    if (settings->log_level < 0)
        settings->log_level = default_log_level;
    settings->tracing = integer_of(filling, "tracing");
}

static void fill_log(const struct filling *filling)
{
    filling->settings->log_format = (int32_t)integer_of(filling, "format");
    filling->settings->log_usage = integer_of(filling, "usage");
    filling->settings->log_tenant_header = text_of(filling, "tenant_header");
}

/* ":8080", "host:80", "[::1]:80"; whether it can be bound is found out by binding it. */
static void check_listen_address(const struct filling *filling)
{
    const struct value *value = find(filling, "listen_addr");
    const char *colon = value->text.size ? memrchr(value->text.data, ':', value->text.size) : NULL;
    coord_slice port = {0};
    int64_t number = -1;

    if (value->source == VALUE_ABSENT)
        return;
    if (colon)
        port = (coord_slice){colon + 1, value->text.size - (size_t)(colon + 1 - value->text.data)};
    if (port.size == 0 || memchr(port.data, '.', port.size) || !parse_integer(port, &number) || number < 0 ||
        number > 65535)
        complain(filling->complaints, COMPLAINT_ERROR, value->at,
                 "server.listen_addr: no port: write :8080, host:8080 or [::1]:8080");
}

static void fill_server(const struct filling *filling)
{
    struct settings *settings = filling->settings;
    int64_t megabytes = integer_of(filling, "max_request_body_size");

    check_listen_address(filling);
    settings->server.listen_addr = text_of(filling, "listen_addr");
    settings->server.metrics_port = integer_of(filling, "metrics_port");
    settings->server.metrics_cert_dir = text_of(filling, "metrics_cert_dir");
    settings->server.secure_serving = integer_of(filling, "secure_serving");
    settings->server.secure_serving_set = find(filling, "secure_serving")->source != VALUE_ABSENT;
    settings->server.cert_path = text_of(filling, "cert_path");
    settings->server.tls_min_version = text_of(filling, "tls_min_version");
    settings->server.tls_cipher_suites =
        list_of(filling, "tls_cipher_suites", &settings->server.tls_cipher_suite_count);
    settings->server.read_timeout_ns = integer_of(filling, "read_timeout");
    settings->server.write_timeout_ns = integer_of(filling, "write_timeout");
    settings->server.shutdown_timeout_ns = integer_of(filling, "shutdown_timeout");
    settings->server.drain_delay_ns = integer_of(filling, "drain_delay");
    settings->server.max_request_body_size = (uint64_t)(megabytes ? megabytes : default_body_mb) << 20;
    settings->server.max_inflight_requests = size_of(filling, "max_inflight_requests");
    settings->server.max_inflight_bytes = size_of(filling, "max_inflight_bytes");
    settings->server.connection_memory = size_of(filling, "connection_memory");
    settings->server.max_connections = size_of(filling, "max_connections");
    settings->server.keep_half_closed = integer_of(filling, "half_close");
    settings->server.cors_origins = list_of(filling, "cors_origins", &settings->server.cors_origin_count);
}

static void read_phase_headers(const struct filling *filling)
{
    struct settings *settings = filling->settings;
    const struct value *value = find(filling, "phase_header");
    struct header_names names =
        header_names_read(settings->arena, value, node_get(section_node(settings, SECTION_GATEWAY), "phase_header"),
                          "gateway.phase_header", NULL, filling->complaints);

    if (value->source != VALUE_ABSENT && value->count == 0)
        complain(filling->complaints, COMPLAINT_ERROR, value->at, "gateway.phase_header must name a header");
    settings->gateway.phase_headers = names.names;
    settings->gateway.phase_header_count = names.count;
}

static void fill_gateway(const struct filling *filling)
{
    struct settings *settings = filling->settings;
    const struct value *cert = find(filling, "cert_file"), *key = find(filling, "key_file");
    int64_t idle = integer_of(filling, "max_idle_conns_per_host");

    settings->gateway.address = text_of(filling, "address");
    settings->gateway.address_at = find(filling, "address")->at;
    settings->gateway.transport = (int32_t)integer_of(filling, "transport");
    settings->gateway.max_idle_conns_per_host = idle ? idle : default_idle_connections;
    settings->gateway.idle_conn_timeout_ns = integer_of(filling, "idle_conn_timeout");
    settings->gateway.timeout_ns = integer_of(filling, "timeout");
    settings->gateway.response_timeout_ns = integer_of(filling, "response_timeout");
    settings->gateway.idle_timeout_ns = integer_of(filling, "idle_timeout");
    settings->gateway.connect_timeout_ns = integer_of(filling, "connect_timeout");
    settings->gateway.total_timeout_ns = integer_of(filling, "total_timeout");
    settings->gateway.ca_file = text_of(filling, "ca_file");
    settings->gateway.cert_file = cert->text;
    settings->gateway.key_file = key->text;
    if ((cert->text.size > 0) != (key->text.size > 0))
        complain(filling->complaints, COMPLAINT_ERROR, cert->text.size > 0 ? cert->at : key->at,
                 "gateway.cert_file and gateway.key_file are set together");
    read_phase_headers(filling);
}

/* After fill_gateway: phase headers may not be forwarded. */
static void fill_pipeline(const struct filling *filling)
{
    struct settings *settings = filling->settings;
    const struct node *node = section_node(settings, SECTION_PIPELINE);
    struct header_names phase = {settings->gateway.phase_headers, settings->gateway.phase_header_count};
    struct header_names names = header_names_read(settings->arena, find(filling, "forward_response_headers"),
                                                  node_get(node, "forward_response_headers"),
                                                  "pipeline.forward_response_headers", &phase, filling->complaints);

    settings->pipeline.forward_response_headers = names.names;
    settings->pipeline.forward_response_header_count = names.count;
    settings->pipeline.at = node ? node->at : settings->root->at;
    settings->pipeline_values = *filling->config;
    steps_read(settings, node_get(node, "steps"), filling->input->allow_unknown, filling->complaints);
}

static void fill_response(const struct filling *filling)
{
    struct settings *settings = filling->settings;
    const struct value *low = find(filling, "buffer_low"), *high = find(filling, "buffer_high");

    settings->response.inspect_limit = size_of(filling, "inspect_limit");
    settings->response.buffer_high = size_of(filling, "buffer_high");
    settings->response.buffer_low = size_of(filling, "buffer_low");
    settings->response.heartbeat_ns = integer_of(filling, "heartbeat");
    settings->response.stream_error_event = integer_of(filling, "stream_error_event");
    if (low->source != VALUE_ABSENT && high->source != VALUE_ABSENT && low->integer > high->integer)
        complain(filling->complaints, COMPLAINT_ERROR, low->source == VALUE_DEFAULT ? high->at : low->at,
                 "response.buffer_low is above response.buffer_high");
}

static void fill_runtime(const struct filling *filling)
{
    struct settings *settings = filling->settings;

    settings->runtime.reactors = integer_of(filling, "reactors");
    settings->runtime.fiber_stack = size_of(filling, "fiber_stack");
    settings->runtime.blocking_warning_ns = integer_of(filling, "blocking_warning");
    settings->runtime.offload_threads = integer_of(filling, "offload_threads");
    settings->runtime.name_servers = text_of(filling, "name_servers");
}

static void fill_plugins(const struct filling *filling)
{
    struct settings *settings = filling->settings;

    settings->plugins.path = list_of(filling, "path", &settings->plugins.path_count);
    settings->plugins.load = list_of(filling, "load", &settings->plugins.load_count);
}

static void (*const fills[SECTION_COUNT])(const struct filling *filling) = {
    [SECTION_TOP] = fill_top,         [SECTION_LOG] = fill_log,           [SECTION_SERVER] = fill_server,
    [SECTION_GATEWAY] = fill_gateway, [SECTION_PIPELINE] = fill_pipeline, [SECTION_RESPONSE] = fill_response,
    [SECTION_RUNTIME] = fill_runtime, [SECTION_PLUGINS] = fill_plugins,
};

static void load_section(struct settings *settings, const struct settings_input *input, enum section section,
                         struct coord_config *config, struct complaints *complaints)
{
    struct param_table table = settings_section_table(section);
    struct sources sources = {settings->arena, input, section};
    struct values_input values = {
        .arena = settings->arena,
        .tables = &table,
        .table_count = 1,
        .map = section_node(settings, section),
        .at = settings->root->at,
        .where = settings_section_name(section),
        .override = find_override,
        .override_context = &sources,
        .allow_unknown = input->allow_unknown,
        .other_keys = section_other_keys(section),
    };
    bool good = values_load(&values, config, complaints);

    (void)good; /* the complaints say it; going on finds the rest of them */
    if (config->count == table.count)
        fills[section](&(struct filling){settings, input, config, complaints});
}

/* Everything from a tree on; `root` may be NULL: no file. */
static struct settings *build(struct arena *arena, const struct node *root, const struct settings_input *input,
                              struct complaints *complaints)
{
    static const struct node nothing = {.kind = NODE_MAP, .at.file = "(no file)"};
    struct settings *settings = arena_alloc(arena, sizeof *settings);
    struct coord_config *sections = arena_alloc(arena, SECTION_COUNT * sizeof *sections);

    if (settings)
        settings->root = without_private_keys(arena, root ? root : &nothing);
    if (!settings || !sections || !settings->root) {
        complain(complaints, COMPLAINT_ERROR, (struct position){.file = input->path}, "memory is short");
        return NULL;
    }
    settings->arena = arena;
    settings->sections = sections;
    for (size_t i = 0; i < SECTION_COUNT; i++)
        load_section(settings, input, (enum section)i, &sections[i], complaints);
    return settings;
}

struct settings *settings_load(struct arena *arena, const struct settings_input *input, struct complaints *complaints)
{
    const struct node *root = NULL;

    if (input->path) {
        root = tree_load_in(arena, input->path, input->environment, complaints);
        if (!root)
            return NULL;
    }
    return build(arena, root, input, complaints);
}

struct settings *settings_parse(struct arena *arena, coord_slice text, const struct settings_input *input,
                                struct complaints *complaints)
{
    const struct node *root = tree_parse_in(arena, input->path, text, input->environment, complaints);

    return root ? build(arena, root, input, complaints) : NULL;
}
