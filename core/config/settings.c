/*
 * See settings.h. Each section is loaded by its table (sections.c); then its values are copied into the struct, and what
 * concerns several of them is checked.
 */
#include "config/settings.h"

#include "config/header_names.h"
#include "config/sections.h"
#include "config/pipelines.h"
#include "config/substitute.h"
#include "config/variables.h"

#include <assert.h>
#include <regex.h>
#include <stdio.h>
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

/* The map of the gateway called default, which may stand among the others. `*label`: what it is called in messages. */
static const struct node *default_gateway(const struct node *root, const char **label)
{
    const struct node *alone = node_get(root, "gateway"), *among = node_get(node_get(root, "gateways"), "default");
    bool is_among = among && node_is_null(alone);

    *label = is_among ? "gateways.default" : "gateway";
    return is_among ? among : alone;
}

/* The map of a section; `*label`: what it is called in messages. */
static const struct node *section_node(const struct settings *settings, enum section section, const char **label)
{
    *label = settings_section_name(section);
    if (section == SECTION_TOP)
        return settings->root;
    if (section == SECTION_GATEWAY)
        return default_gateway(settings->root, label);
    return node_get(settings->root, *label);
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

/* True when the whole of `text`, which a NUL follows, is what `pattern` says. */
static bool fits(coord_slice text, const char *pattern)
{
    char anchored[256];
    regex_t expression;
    bool matches;

    snprintf(anchored, sizeof anchored, "^(%s)$", pattern);
    if (regcomp(&expression, anchored, REG_EXTENDED | REG_NOSUB) != 0)
        return true; /* memory is short; binding the address will tell */
    matches = regexec(&expression, text.data ? text.data : "", 0, NULL, 0) == 0;
    regfree(&expression);
    return matches;
}

/* ":8080", "host:80", "[::1]:80"; whether it can be bound is found out by binding it. */
static void check_listen_address(const struct filling *filling)
{
    const struct value *value = find(filling, "listen_addr");

    if (value->source != VALUE_ABSENT && !fits(value->text, section_text_rule(SECTION_SERVER, "listen_addr")->pattern))
        complain(filling->complaints, COMPLAINT_ERROR, value->at,
                 "server.listen_addr: no port: write :8080, host:8080 or [::1]:8080");
}

/* Each port has a listener of its own. */
static void check_ports_differ(const struct filling *filling)
{
    const struct value *listen = find(filling, "listen_addr"), *metrics = find(filling, "metrics_port");
    const char *colon = listen->text.size > 0 ? memrchr(listen->text.data, ':', listen->text.size) : NULL;

    if (colon && metrics->integer > 0 && strtoll(colon + 1, NULL, 10) == metrics->integer)
        complain(filling->complaints, COMPLAINT_ERROR, metrics->source == VALUE_DEFAULT ? listen->at : metrics->at,
                 "server.metrics_port is the port of server.listen_addr: give it another, or 0 for none");
}

static void fill_server(const struct filling *filling)
{
    struct settings *settings = filling->settings;
    int64_t megabytes = integer_of(filling, "max_request_body_size");

    check_listen_address(filling);
    check_ports_differ(filling);
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

/* One gateway: `gateway:` or an entry of `gateways:`; `label` is what it is called in messages. */
static void read_phase_headers(const struct filling *filling, struct gateway_settings *gateway, const struct node *map,
                               const char *label)
{
    const struct value *value = find(filling, "phase_header");
    char *name = arena_printf(filling->settings->arena, "%s.phase_header", label);
    struct header_names names = header_names_read(filling->settings->arena, value, node_get(map, "phase_header"),
                                                  name ? name : "phase_header", NULL, filling->complaints);

    if (value->source != VALUE_ABSENT && value->count == 0)
        complain(filling->complaints, COMPLAINT_ERROR, value->at, "%s.phase_header must name a header", label);
    gateway->phase_headers = names.names;
    gateway->phase_header_count = names.count;
}

/* What upstreams with this transport will refuse when they are opened. */
static void check_transport(const struct filling *filling, const struct gateway_settings *gateway, const char *label)
{
    const struct value *transport = find(filling, "transport");

    if (url_is_secure(gateway->address) && coord_slice_is(transport->text, "direct"))
        complain(filling->complaints, COMPLAINT_ERROR, transport->at,
                 "%s.transport: direct speaks no TLS, and %s.address is https: set transport: auto", label, label);
}

static void read_gateway(const struct filling *filling, struct gateway_settings *gateway, const struct node *map,
                         const char *label)
{
    const struct value *cert = find(filling, "cert_file"), *key = find(filling, "key_file");
    int64_t idle = integer_of(filling, "max_idle_conns_per_host");

    gateway->values = *filling->config;
    gateway->label = label;
    gateway->at = map ? map->at : filling->settings->root->at;
    gateway->address = text_of(filling, "address");
    gateway->address_at = find(filling, "address")->at;
    gateway->address_told =
        gateway->address_at.file != NULL || (map && !node_is_null(map) && map->kind != NODE_MAP) ||
        (!filling->input->allow_unknown && section_key_is_misspelt(SECTION_GATEWAY, (struct keys){0}, map, "address"));
    gateway->address_secret = find(filling, "address")->secret || find(filling, "address")->environment;
    gateway->given = map || gateway->address.size > 0;
    gateway->transport = (int32_t)integer_of(filling, "transport");
    gateway->max_idle_conns_per_host = idle ? idle : default_idle_connections;
    gateway->idle_conn_timeout_ns = integer_of(filling, "idle_conn_timeout");
    gateway->timeout_ns = integer_of(filling, "timeout");
    gateway->response_timeout_ns = integer_of(filling, "response_timeout");
    gateway->idle_timeout_ns = integer_of(filling, "idle_timeout");
    gateway->connect_timeout_ns = integer_of(filling, "connect_timeout");
    gateway->total_timeout_ns = integer_of(filling, "total_timeout");
    gateway->ca_file = text_of(filling, "ca_file");
    gateway->cert_file = cert->text;
    gateway->key_file = key->text;
    if ((cert->text.size > 0) != (key->text.size > 0))
        complain(filling->complaints, COMPLAINT_ERROR, cert->text.size > 0 ? cert->at : key->at,
                 "%s.cert_file and %s.key_file are set together", label, label);
    check_transport(filling, gateway, label);
    read_phase_headers(filling, gateway, map, label);
}

static void fill_gateway(const struct filling *filling)
{
    struct settings *settings = filling->settings;

    const char *label;
    const struct node *map = section_node(settings, SECTION_GATEWAY, &label);

    settings->gateway.name = coord_slice_of("default");
    read_gateway(filling, &settings->gateway, map, label);
    settings->gateway.address_told |=
        !filling->input->allow_unknown &&
        section_key_is_misspelt(SECTION_TOP, section_other_keys(SECTION_TOP), settings->root, "gateway");
}

static void fill_nothing(const struct filling *filling) { (void)filling; }

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
    [SECTION_TOP] = fill_top,         [SECTION_LOG] = fill_log,          [SECTION_SERVER] = fill_server,
    [SECTION_GATEWAY] = fill_gateway, [SECTION_PIPELINE] = fill_nothing, [SECTION_RESPONSE] = fill_response,
    [SECTION_RUNTIME] = fill_runtime, [SECTION_PLUGINS] = fill_plugins,
};

static void load_section(struct settings *settings, const struct settings_input *input, enum section section,
                         struct coord_config *config, struct complaints *complaints)
{
    struct param_table table = settings_section_table(section);
    struct sources sources = {settings->arena, input, section};
    const char *label;
    const struct node *map = section_node(settings, section, &label);
    struct values_input values = {
        .arena = settings->arena,
        .tables = &table,
        .table_count = 1,
        .map = map,
        .at = settings->root->at,
        .where = label,
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

/* `gateways:`, a map of name to the keys of `gateway:`. The default one was read as a section: variables reach it only. */
static void load_gateways(struct settings *settings, const struct settings_input *input, struct complaints *complaints)
{
    const struct node *map = node_get(settings->root, "gateways");
    struct param_table table = settings_section_table(SECTION_GATEWAY);
    size_t count = map && map->kind == NODE_MAP ? map->count : 0;
    const struct gateway_settings **all = arena_alloc(settings->arena, (count + 1) * sizeof *all);
    struct gateway_settings *named = arena_alloc(settings->arena, (count + 1) * sizeof *named);

    if (!all || !named)
        return;
    if (map && !node_is_null(map) && !map->broken && map->kind != NODE_MAP)
        complain(complaints, COMPLAINT_ERROR, map->at, "gateways takes a map: a name to the keys of a gateway");
    settings->gateways = all;
    if (settings->gateway.given)
        all[settings->gateway_count++] = &settings->gateway;
    for (size_t i = 0; i < count; i++) {
        const struct entry *entry = &map->entries[i];
        char *label = arena_printf(settings->arena, "gateways.%.*s", COORD_FMT(entry->key));
        struct coord_config config = {0};
        struct values_input values = {.arena = settings->arena,
                                      .tables = &table,
                                      .table_count = 1,
                                      .map = entry->value,
                                      .at = entry->at,
                                      .where = label,
                                      .allow_unknown = input->allow_unknown};

        if (coord_slice_is(entry->key, "default")) {
            if (!node_is_null(node_get(settings->root, "gateway")))
                complain(complaints, COMPLAINT_ERROR, entry->at,
                         "gateways.default and gateway are the same one: keep one of them");
            continue;
        }
        if (!label || (!values_load(&values, &config, complaints) && config.count == 0))
            continue;
        named[i].name = entry->key;
        read_gateway(&(struct filling){settings, input, &config, complaints}, &named[i], entry->value, label);
        if (named[i].address.size == 0 && !named[i].address_told)
            complain(complaints, COMPLAINT_ERROR, entry->at,
                     "%s.address is missing: set it to the gateway's URL, such as http://inference-gateway:80", label);
        all[settings->gateway_count++] = &named[i];
    }
}

/* What pipelines.c loads a pipeline's params with. */
struct pipeline_loading {
    struct settings *settings;
    const struct settings_input *input;
    struct complaints *complaints;
};

static bool load_pipeline(void *context, const struct node *map, const char *where, struct keys other_keys,
                          struct coord_config *config)
{
    struct pipeline_loading *loading = context;
    struct param_table table = settings_section_table(SECTION_PIPELINE);
    struct sources *sources = arena_alloc(loading->settings->arena, sizeof *sources);
    struct values_input values = {
        .arena = loading->settings->arena,
        .tables = &table,
        .table_count = 1,
        .map = map,
        .at = loading->settings->root->at,
        .where = where,
        .override = find_override,
        .override_context = sources,
        .allow_unknown = loading->input->allow_unknown,
        .other_keys = other_keys,
    };

    if (!sources)
        return false;
    *sources = (struct sources){loading->settings->arena, loading->input, SECTION_PIPELINE};
    return values_load(&values, config, loading->complaints);
}

/* Everything from a tree on; `root` may be NULL: no file. */
static struct settings *build(struct arena *arena, const struct node *root, const struct settings_input *input,
                              struct complaints *complaints)
{
    static const struct node nothing = {.kind = NODE_MAP, .at.file = "(no file)"};
    struct settings *settings = arena_alloc(arena, sizeof *settings);
    struct coord_config *sections = arena_alloc(arena, SECTION_COUNT * sizeof *sections);
    struct pipeline_loading loading = {settings, input, complaints};

    if (settings)
        settings->root = without_private_keys(arena, root ? root : &nothing);
    if (!settings || !sections || !settings->root) {
        complain(complaints, COMPLAINT_ERROR, (struct position){.file = input->path}, "memory is short");
        return NULL;
    }
    settings->arena = arena;
    settings->sections = sections;
    for (size_t i = 0; i < SECTION_COUNT; i++)
        if (i != SECTION_PIPELINE) /* of which there may be several */
            load_section(settings, input, (enum section)i, &sections[i], complaints);
    load_gateways(settings, input, complaints);
    variables_check(arena, input->environment, complaints);
    pipelines_read(&(struct pipelines_input){.settings = settings,
                                             .allow_unknown = input->allow_unknown,
                                             .complaints = complaints,
                                             .load = load_pipeline,
                                             .context = &loading});
    if (settings->pipeline_count > 0)
        sections[SECTION_PIPELINE] = settings->pipelines[0].values;
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
