/* See sections.h. Defaults and ranges stand here and nowhere else. */
#include "config/sections.h"

#include "config/settings.h"

#define SECONDS(n) ((int64_t)(n) * 1000000000)
#define KIB(n) ((int64_t)(n) << 10)
#define MIB(n) ((int64_t)(n) << 20)
#define FOREVER INT64_MAX

enum { PORT_MAX = 65535, COUNT_MAX = 1 << 30 };

static const char *const log_formats[] = {"text", "json", NULL};
static const char *const half_close_choices[] = {"close", "keep", NULL};
static const char *const transports[] = {"auto", "direct", "curl", NULL}; /* in the order of enum upstream_transport */
static const char *const tls_versions[] = {"VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13", NULL};

static const coord_param top[] = {
    {COORD_PARAM(INT, "log_level", "how much is logged: 0 errors, 1 warnings, 2 info, 3 verbose, 4 debug, 5 trace"),
     .fallback = "2", .flags = COORD_PARAM_NO_LIMITS},
    {COORD_PARAM(BOOL, "tracing",
                 "export spans of our own: not yet, true is a warning; trace context is passed on in any case"),
     .fallback = "false"},
};

static const coord_param logging[] = {
    {COORD_PARAM(ENUM, "format", "shape of a log line"), .fallback = "text", .choices = log_formats},
    {COORD_PARAM(BOOL, "usage", "write a line with the token usage of each request"), .fallback = "false"},
    {COORD_PARAM(STRING, "tenant_header", "header that names a request's tenant in its usage line; empty: none"),
     .fallback = ""},
};

static const coord_param server[] = {
    {COORD_PARAM(STRING, "listen_addr", "address to serve on; without a host, every address of the machine"),
     .fallback = ":8080"},
    {COORD_PARAM(INT, "metrics_port", "port of /metrics and the probes; 0 or less: none"), .fallback = "9090",
     .minimum = INT64_MIN, .maximum = PORT_MAX},
    {COORD_PARAM(STRING, "metrics_cert_dir", "folder with tls.crt and tls.key for the metrics port; empty: plain HTTP"),
     .fallback = ""},
    {COORD_PARAM(BOOL, "secure_serving", "serve TLS; when not set: if cert_path is set")},
    {COORD_PARAM(STRING, "cert_path", "folder with tls.crt and tls.key to serve with"), .fallback = ""},
    {COORD_PARAM(ENUM, "tls_min_version", "oldest TLS version that is spoken; empty: 1.2"), .choices = tls_versions},
    {COORD_PARAM(STRING_LIST, "tls_cipher_suites", "cipher suites by their Go names; empty: the library's choice"),
     .fallback = "[]"},
    {COORD_PARAM(DURATION, "read_timeout", "for a client to send head and body; 0s: none"), .fallback = "30s",
     .maximum = FOREVER},
    {COORD_PARAM(DURATION, "write_timeout", "for a client that takes nothing of its answer; 0s: none"),
     .fallback = "120s", .maximum = FOREVER},
    {COORD_PARAM(DURATION, "shutdown_timeout", "for running requests to finish after SIGTERM"), .fallback = "25s",
     .maximum = FOREVER},
    {COORD_PARAM(DURATION, "drain_delay", "between /readyz turning 503 and closing the listeners"), .fallback = "0s",
     .maximum = FOREVER},
    {COORD_PARAM(INT, "max_request_body_size", "largest request body in MB (2^20 bytes); 0: 64"), .fallback = "64",
     .maximum = 8796093022207},
    {COORD_PARAM(INT, "max_inflight_requests", "requests at a time before 503; 0: no limit"), .fallback = "0",
     .maximum = COUNT_MAX},
    {COORD_PARAM(SIZE, "max_inflight_bytes", "request body bytes at a time before 503; 0: no limit"), .fallback = "0",
     .maximum = INT64_MAX},
    {COORD_PARAM(SIZE, "connection_memory", "memory of a client connection, which bounds the head of a response"),
     .fallback = "16KiB", .minimum = KIB(8), .maximum = MIB(16)},
    {COORD_PARAM(INT, "max_connections", "client connections at a time"), .fallback = "65536", .minimum = 1,
     .maximum = COUNT_MAX},
    {COORD_PARAM(ENUM, "half_close", "a client that shuts its sending side: close takes it as gone, keep serves it"),
     .fallback = "close", .choices = half_close_choices},
    {COORD_PARAM(STRING_LIST, "cors_origins", "origins that browsers may call from, or *; empty: CORS is off"),
     .fallback = "[]"},
};

static const coord_param gateway[] = {
    {COORD_PARAM(URL, "address", "the inference gateway, or a worker")},
    {COORD_PARAM(INT, "max_idle_conns_per_host", "idle connections kept per host; 0: 2"), .fallback = "100",
     .maximum = COUNT_MAX},
    {COORD_PARAM(DURATION, "idle_conn_timeout", "how long an idle connection is kept; a worker's keep-alive bounds it"),
     .fallback = "90s", .maximum = FOREVER},
    {COORD_PARAM(DURATION, "timeout", "to the headers of render, encode, prefill and streams; 0s: none"),
     .fallback = "60s", .maximum = FOREVER},
    {COORD_PARAM(DURATION, "response_timeout", "to the headers of a non-streaming answer and passthrough; 0s: none"),
     .fallback = "600s", .maximum = FOREVER},
    {COORD_PARAM(DURATION, "idle_timeout", "between two pieces of an answer; 0s: none"), .fallback = "120s",
     .maximum = FOREVER},
    {COORD_PARAM(DURATION, "connect_timeout", "to connect to a worker; 0s: none"), .fallback = "5s",
     .maximum = FOREVER},
    {COORD_PARAM(DURATION, "total_timeout", "for a whole leg, healthy streams too; 0s: none"), .fallback = "0s",
     .maximum = FOREVER},
    {COORD_PARAM(ENUM, "transport", "HTTP client of all legs; auto: direct, our own, for http, and curl for https"),
     .fallback = "auto", .choices = transports},
    {COORD_PARAM(STRING_LIST, "phase_header", "headers that name the phase of a leg to the gateway"),
     .fallback = "[x-llm-d-epp-profile]"},
    {COORD_PARAM(STRING, "ca_file", "certificates that an https gateway is trusted by; empty: the system's"),
     .fallback = ""},
    {COORD_PARAM(STRING, "cert_file", "our certificate for an https gateway that asks for one"), .fallback = ""},
    {COORD_PARAM(STRING, "key_file", "the key of cert_file"), .fallback = ""},
};

static const coord_param pipeline[] = {
    {COORD_PARAM(STRING, "kv_connector", "how KV cache gets from prefill to decode, for steps that set none")},
    {COORD_PARAM(STRING, "ec_connector", "how encoder output gets to prefill, for steps that set none")},
    {COORD_PARAM(BOOL, "use_openai_format",
                 "encode and prefill call the client's own path; false: /inference/v1/generate with token ids"),
     .fallback = "true"},
    {COORD_PARAM(STRING_LIST, "forward_response_headers",
                 "response headers of one phase that the later phases get; []: none"),
     .fallback = "[x-llm-d-disagg-revision]"},
    {COORD_PARAM(INT, "dp_size", "data-parallel ranks of the workers"), .fallback = "1", .minimum = 1,
     .maximum = 65536},
};

static const coord_param response[] = {
    {COORD_PARAM(SIZE, "inspect_limit", "bytes of an answer that are held to look into it; past it, it just passes"),
     .fallback = "16MiB", .minimum = KIB(4), .maximum = MIB(1024)},
    {COORD_PARAM(SIZE, "buffer_high", "bytes waiting for a slow client at which its worker is paused"),
     .fallback = "256KiB", .minimum = KIB(4), .maximum = MIB(1024)},
    {COORD_PARAM(SIZE, "buffer_low", "bytes waiting at which the worker goes on"), .fallback = "64KiB",
     .maximum = MIB(1024)},
    {COORD_PARAM(DURATION, "heartbeat", "comments to a streaming client while steps run; 0s: off"), .fallback = "0s",
     .maximum = FOREVER},
    {COORD_PARAM(BOOL, "stream_error_event", "tell a streaming client by an event when its worker dies"),
     .fallback = "true"},
};

static const coord_param runtime[] = {
    {COORD_PARAM(INT, "reactors", "threads that serve requests; 0: one a core"), .fallback = "0", .maximum = 1024},
    {COORD_PARAM(SIZE, "fiber_stack", "stack of a request"), .fallback = "256KiB", .minimum = KIB(64),
     .maximum = MIB(64)},
    {COORD_PARAM(DURATION, "blocking_warning", "how long a step may hold its reactor before that is logged; 0s: off"),
     .fallback = "100ms", .maximum = FOREVER},
    {COORD_PARAM(INT, "offload_threads", "threads for work that blocks"), .fallback = "4", .minimum = 1,
     .maximum = 1024},
    {COORD_PARAM(STRING, "name_servers", "DNS servers, comma-separated; empty: the system's"), .fallback = ""},
};

static const coord_param plugins[] = {
    {COORD_PARAM(
        STRING_LIST, "path",
        "folders whose plugins are loaded, relative ones from the working directory; not set: the installed ones")},
    {COORD_PARAM(STRING_LIST, "load", "further plugin files, relative ones from the working directory"),
     .fallback = "[]"},
};

static const struct key top_others[] = {
    {"log", "What is logged, and how a line looks.", KEY_SECTION},
    {"server", "Where clients connect, and what they may do.", KEY_SECTION},
    {"gateway", "The gateway called default: where legs and passthrough go.", KEY_SECTION},
    {"gateways", "Several gateways: name to the keys of a gateway.", KEY_GATEWAYS},
    {"pipeline", "The one pipeline, which serves every request.", KEY_SECTION},
    {"pipelines", "Several pipelines: the first whose match holds serves a request.", KEY_PIPELINES},
    {"response", "Answers on their way to the client.", KEY_SECTION},
    {"runtime", "Threads, stacks and names.", KEY_SECTION},
    {"plugins", "Where steps and connectors are loaded from.", KEY_SECTION},
};

/* RFC 9110 5.6.2, with white space around it. */
#define HEADER_NAME "[ \t]*[-!#$%&'*+.^_`|~0-9A-Za-z]+[ \t]*"
#define PORT "(0|[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"

static const struct {
    enum section section;
    const char *name;
    struct text_rule rule;
} rules[] = {
    {SECTION_SERVER, "listen_addr", {".*:" PORT, true}},
    {SECTION_GATEWAY, "phase_header", {HEADER_NAME, true}},
    {SECTION_PIPELINE, "forward_response_headers", {HEADER_NAME, false}},
};

#define TABLE(rows) {rows, sizeof(rows) / sizeof *(rows), sizeof(coord_param)}

static const struct {
    const char *name;
    struct param_table table;
    struct keys others;
    bool no_environment;
} sections[SECTION_COUNT] = {
    [SECTION_TOP] = {"", TABLE(top), {top_others, sizeof top_others / sizeof *top_others}, false},
    [SECTION_LOG] = {"log", TABLE(logging), {0}, false},
    [SECTION_SERVER] = {"server", TABLE(server), {0}, false},
    [SECTION_GATEWAY] = {"gateway", TABLE(gateway), {0}, false},
    [SECTION_PIPELINE] = {"pipeline", TABLE(pipeline), {0}, false},
    [SECTION_RESPONSE] = {"response", TABLE(response), {0}, false},
    [SECTION_RUNTIME] = {"runtime", TABLE(runtime), {0}, false},
    [SECTION_PLUGINS] = {"plugins", TABLE(plugins), {0}, true},
};

size_t settings_section_count(void) { return SECTION_COUNT; }

const char *settings_section_name(size_t index) { return sections[index].name; }

struct param_table settings_section_table(size_t index) { return sections[index].table; }

struct keys section_other_keys(enum section section) { return sections[section].others; }

const struct text_rule *section_text_rule(enum section section, const char *name)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i].section == section && strcmp(rules[i].name, name) == 0)
            return &rules[i].rule;
    return NULL;
}

bool section_key_is_misspelt(enum section section, struct keys others, const struct node *map, const char *name)
{
    enum { MOST = 64 };
    const struct param_table *table = &sections[section].table;
    const char *names[MOST];
    size_t count = 0;

    for (size_t i = 0; i < table->count && count < MOST; i++)
        names[count++] = table->rows[i].name;
    for (size_t i = 0; i < others.count && count < MOST; i++)
        names[count++] = others.rows[i].name;
    for (size_t i = 0; map && map->kind == NODE_MAP && i < map->count; i++) {
        const char *near = nearest_name(map->entries[i].key, names, count);

        if (near && strcmp(near, name) == 0 && !coord_slice_is(map->entries[i].key, name))
            return true;
    }
    return false;
}

bool section_has_environment(enum section section) { return !sections[section].no_environment; }

static const struct settings_flag flags[] = {
    {"-v", "log_level", true},
    {"--v", "log_level", true},
    {"--tracing", "tracing", false},
    {"--listen-addr", "server.listen_addr", true},
    {"--metrics-port", "server.metrics_port", true},
    {"--metrics-cert-dir", "server.metrics_cert_dir", true},
    {"--secure-serving", "server.secure_serving", false},
    {"--cert-path", "server.cert_path", true},
    {"--tls-min-version", "server.tls_min_version", true},
    {"--tls-cipher-suites", "server.tls_cipher_suites", true},
    {NULL, NULL, false},
};

const struct settings_flag *settings_flags(void) { return flags; }
