/* Unit test of settings.c, its sections, steps and header names, and of the example files in configs/. */
#include "config/settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>

#define ROWS(rows) (sizeof(rows) / sizeof *(rows))
#define SECOND 1000000000LL

struct loaded {
    struct arena arena;
    struct complaints complaints;
    struct settings *settings;
};

static struct loaded load(const char *text, const struct settings_input *extra)
{
    struct loaded loaded = {0};
    struct settings_input input = extra ? *extra : (struct settings_input){0};

    if (!input.path)
        input.path = "f.yaml";
    loaded.settings = settings_parse(&loaded.arena, coord_slice_of(text), &input, &loaded.complaints);
    return loaded;
}

static struct loaded load_with_variables(const char *text, char **environment)
{
    return load(text, &(struct settings_input){.environment = environment});
}

static void forget(struct loaded *loaded)
{
    complaints_release(&loaded->complaints);
    arena_release(&loaded->arena);
}

static void assert_said(const struct loaded *loaded, const char *want)
{
    coord_slice text = buffer_slice(&loaded->complaints.text);

    if (!coord_slice_is(text, want))
        fail_msg("said: %.*s\nwanted: %s", COORD_FMT(text), want);
}

static const struct value *value_of(const struct settings *settings, const char *section, const char *name)
{
    for (size_t i = 0; i < settings_section_count(); i++) {
        if (strcmp(settings_section_name(i), section) == 0)
            return config_find(&settings->sections[i], name);
    }
    return NULL;
}

static void an_empty_file_gives_every_default(void **state)
{
    struct loaded loaded = load("", NULL);
    const struct settings *s = loaded.settings;

    (void)state;
    assert_said(&loaded, "");
    assert_int_equal(s->log_level, 2);
    assert_int_equal(s->log_format, 0);
    assert_false(s->log_usage || s->tracing);
    assert_true(coord_slice_is(s->server.listen_addr, ":8080"));
    assert_int_equal(s->server.metrics_port, 9090);
    assert_false(s->server.secure_serving || s->server.secure_serving_set);
    assert_int_equal(s->server.cert_path.size + s->server.tls_min_version.size + s->server.metrics_cert_dir.size, 0);
    assert_int_equal(s->server.tls_cipher_suite_count + s->server.cors_origin_count, 0);
    assert_int_equal(s->server.read_timeout_ns, 30 * SECOND);
    assert_int_equal(s->server.write_timeout_ns, 120 * SECOND);
    assert_int_equal(s->server.shutdown_timeout_ns, 25 * SECOND);
    assert_int_equal(s->server.drain_delay_ns, 0);
    assert_int_equal(s->server.max_request_body_size, 64 << 20);
    assert_int_equal(s->server.max_inflight_bytes + s->server.max_inflight_requests, 0);
    assert_int_equal(s->server.connection_memory, 16384);
    assert_int_equal(s->server.max_connections, 65536);
    assert_false(s->server.keep_half_closed);
    assert_int_equal(s->gateway.address.size, 0);
    assert_int_equal(s->gateway.max_idle_conns_per_host, 100);
    assert_int_equal(s->gateway.idle_conn_timeout_ns, 90 * SECOND);
    assert_int_equal(s->gateway.transport, 0);
    assert_int_equal(s->gateway.timeout_ns, 60 * SECOND);
    assert_int_equal(s->gateway.response_timeout_ns, 600 * SECOND);
    assert_int_equal(s->gateway.idle_timeout_ns, 120 * SECOND);
    assert_int_equal(s->gateway.connect_timeout_ns, 5 * SECOND);
    assert_int_equal(s->gateway.total_timeout_ns, 0);
    assert_int_equal(s->gateway.phase_header_count, 1);
    assert_true(coord_slice_is(s->gateway.phase_headers[0], "x-llm-d-epp-profile"));
    assert_int_equal(s->pipelines[0].forward_response_header_count, 1);
    assert_true(coord_slice_is(s->pipelines[0].forward_response_headers[0], "x-llm-d-disagg-revision"));
    assert_int_equal(s->pipelines[0].step_count, 0);
    assert_int_equal(config_find(&s->pipelines[0].values, "kv_connector")->source, VALUE_ABSENT);
    assert_int_equal(config_find(&s->pipelines[0].values, "use_openai_format")->integer, 1);
    assert_int_equal(config_find(&s->pipelines[0].values, "dp_size")->integer, 1);
    assert_int_equal(s->response.inspect_limit, 16 << 20);
    assert_int_equal(s->response.buffer_high, 256 << 10);
    assert_int_equal(s->response.buffer_low, 64 << 10);
    assert_int_equal(s->response.heartbeat_ns, 0);
    assert_true(s->response.stream_error_event);
    assert_int_equal(s->runtime.reactors, 0);
    assert_int_equal(s->runtime.fiber_stack, 256 << 10);
    assert_int_equal(s->runtime.blocking_warning_ns, SECOND / 10);
    assert_int_equal(s->runtime.offload_threads, 4);
    assert_int_equal(s->runtime.name_servers.size, 0);
    assert_int_equal(s->plugins.path_count + s->plugins.load_count, 0);
    forget(&loaded);
}

static void zero_and_negative_values_mean_what_they_meant(void **state)
{
    struct loaded loaded = load("log_level: -1\n"
                                "server: {metrics_port: -1, max_request_body_size: 0, half_close: keep,"
                                " secure_serving: false, read_timeout: 0}\n"
                                "gateway: {max_idle_conns_per_host: 0, address: ''}\n"
                                "pipeline: {forward_response_headers: []}\n",
                                NULL);
    const struct settings *s = loaded.settings;

    (void)state;
    assert_said(&loaded, "");
    assert_int_equal(s->log_level, 2);
    assert_int_equal(s->server.metrics_port, -1);
    assert_int_equal(s->server.max_request_body_size, 64 << 20);
    assert_true(s->server.keep_half_closed && s->server.secure_serving_set && !s->server.secure_serving);
    assert_int_equal(s->server.read_timeout_ns, 0);
    assert_int_equal(s->gateway.max_idle_conns_per_host, 2);
    assert_int_equal(s->gateway.address.size, 0);
    assert_int_equal(s->pipelines[0].forward_response_header_count, 0);
    forget(&loaded);
}

static void mistakes_are_said_with_their_place(void **state)
{
    static const struct {
        const char *name, *text, *want;
    } rows[] = {
        {"an unknown section", "servr:\n  listen_addr: ':1'\n",
         "f.yaml:1:1: unknown key \"servr\": did you mean \"server\"?\n"},
        {"an unknown key", "server:\n  red_timeout: 1s\n",
         "f.yaml:2:3: unknown key \"server.red_timeout\": did you mean \"read_timeout\"?\n"},
        {"no unit", "server:\n  read_timeout: 30\n",
         "f.yaml:2:17: server.read_timeout: \"30\" has no unit: write 30s\n"},
        {"a repeated key", "server:\n  read_timeout: 1s\n  read_timeout: 2s\n",
         "f.yaml:3:3: duplicate key \"read_timeout\" (first at line 2)\n"},
        {"a section that is a text", "server: x\n", "f.yaml:1:9: server takes keys and values, not a text\n"},
        {"a negative body size", "server: {max_request_body_size: -1}\n",
         "f.yaml:1:33: server.max_request_body_size: \"-1\" is too small: the least is 0\n"},
        {"a body size past 2^63", "server: {max_request_body_size: 8796093022208}\n",
         "f.yaml:1:33: server.max_request_body_size: \"8796093022208\" is too large: the most is 8796093022207\n"},
        {"an address without a port", "server: {listen_addr: localhost}\n",
         "f.yaml:1:23: server.listen_addr: no port: write :8080, host:8080 or [::1]:8080\n"},
        {"a port alone", "server: {listen_addr: 8080}\n",
         "f.yaml:1:23: server.listen_addr: no port: write :8080, host:8080 or [::1]:8080\n"},
        {"an unknown TLS version", "server: {tls_min_version: TLS13}\n",
         "f.yaml:1:27: server.tls_min_version: \"TLS13\" is none of VersionTLS10, VersionTLS11, VersionTLS12, "
         "VersionTLS13\n"},
        {"a certificate without its key", "gateway: {cert_file: a.pem}\n",
         "f.yaml:1:22: gateway.cert_file and gateway.key_file are set together\n"},
        {"https without TLS", "gateway:\n  address: https://g\n  transport: direct\n",
         "f.yaml:3:14: gateway.transport: direct speaks no TLS, and gateway.address is https: set transport: auto\n"},
        {"https without TLS at one of several", "gateways: {a: {address: 'HTTPS://g', transport: direct}}\n",
         "f.yaml:1:49: gateways.a.transport: direct speaks no TLS, and gateways.a.address is https: set transport: "
         "auto\n"},
        {"two default gateways", "gateway: {address: 'http://a'}\ngateways: {default: {address: 'http://b'}}\n",
         "f.yaml:2:12: gateways.default and gateway are the same one: keep one of them\n"},
        {"a mistake in the default gateway among others", "gateways: {default: {adress: 'http://b'}}\n",
         "f.yaml:1:22: unknown key \"gateways.default.adress\": did you mean \"address\"?\n"},
        {"one port for two", "server: {listen_addr: ':8080', metrics_port: 8080}\n",
         "f.yaml:1:46: server.metrics_port is the port of server.listen_addr: give it another, or 0 for none\n"},
        {"the default port for two", "server: {listen_addr: '[::1]:9090'}\n",
         "f.yaml:1:23: server.metrics_port is the port of server.listen_addr: give it another, or 0 for none\n"},
        {"no phase header", "gateway: {phase_header: []}\n", "f.yaml:1:25: gateway.phase_header must name a header\n"},
        {"a phase header that is none", "gateway: {phase_header: 'a b'}\n",
         "f.yaml:1:25: gateway.phase_header[0] is no header name: \"a b\"\n"},
        {"an empty forwarded header", "pipeline: {forward_response_headers: [a, ' ']}\n",
         "f.yaml:1:42: pipeline.forward_response_headers[1] must not be empty\n"},
        {"a repeated one", "pipeline: {forward_response_headers: [A, b, ' a']}\n",
         "f.yaml:1:45: pipeline.forward_response_headers[2] contains duplicate header \"a\"\n"},
        {"one that is not forwardable", "pipeline: {forward_response_headers: [Transfer-Encoding]}\n",
         "f.yaml:1:39: pipeline.forward_response_headers[0] contains non-forwardable header \"transfer-encoding\"\n"},
        {"one that is a phase header",
         "gateway: {phase_header: [Phase]}\npipeline: {forward_response_headers: [phase]}\n",
         "f.yaml:2:39: pipeline.forward_response_headers[0] contains non-forwardable header \"phase\"\n"},
        {"dp_size 0", "pipeline: {dp_size: 0}\n",
         "f.yaml:1:21: pipeline.dp_size: \"0\" is too small: the least is 1\n"},
        {"low above high", "response: {buffer_low: 1MiB}\n",
         "f.yaml:1:24: response.buffer_low is above response.buffer_high\n"},
        {"a stack too small", "runtime: {fiber_stack: 4KiB}\n",
         "f.yaml:1:24: runtime.fiber_stack: \"4KiB\" is too small: the least is 64KiB\n"},
        {"steps that are no list", "pipeline: {steps: {}}\n", "f.yaml:1:19: pipeline.steps: not a list of steps\n"},
        {"a step that is a text", "pipeline: {steps: [decode]}\n",
         "f.yaml:1:20: a step is a map with a \"type\", as in {type: decode}\n"},
        {"a step without a type", "pipeline: {steps: [{id: a}]}\n", "f.yaml:1:20: a step needs a \"type\"\n"},
        {"a type that is a list", "pipeline: {steps: [{type: [a]}]}\n",
         "f.yaml:1:27: the type of a step must be a text\n"},
        {"params that are a list", "pipeline: {steps: [{type: a, params: []}]}\n",
         "f.yaml:1:38: the params of a step are a map, not a list\n"},
        {"a misspelt key", "pipeline: {steps: [{type: a, parms: {}}]}\n",
         "f.yaml:1:30: unknown key \"parms\" of a step: did you mean \"params\"?\n"},
        {"a param outside params", "pipeline: {steps: [{type: a, address: x}]}\n",
         "f.yaml:1:30: unknown key \"address\" of a step: its params stand under \"params\"\n"},
        {"two steps of one id", "pipeline:\n  steps:\n  - type: a\n  - type: a\n",
         "f.yaml:4:11: step id \"a\" is taken by the step at line 3: give one of them an id of its own\n"},
        {"an id that is no label", "pipeline: {steps: [{type: a, id: 'b c'}]}\n",
         "f.yaml:1:34: a step's id is at most 64 letters, digits, \"-\", \"_\" and \".\"\n"},
        {"a wrong value is said once", "server: {read_timeout: '${NONE}'}\n",
         "f.yaml:1:24: environment variable NONE is not set: set it, or write ${NONE:-default}\n"},
    };

    (void)state;
    for (size_t r = 0; r < ROWS(rows); r++) {
        struct loaded loaded = load(rows[r].text, NULL);

        print_message("  %s\n", rows[r].name);
        assert_said(&loaded, rows[r].want);
        assert_int_equal(loaded.complaints.errors, 1);
        assert_non_null(loaded.settings);
        forget(&loaded);
    }
}

static void private_keys_hold_anchors(void **state)
{
    struct loaded loaded = load("x-waits: &waits\n  read_timeout: 7s\n  write_timeout: 8s\nx-: 1\n"
                                "server:\n  <<: *waits\n  write_timeout: 9s\n",
                                NULL);

    (void)state;
    assert_said(&loaded, "");
    assert_int_equal(loaded.settings->server.read_timeout_ns, 7 * SECOND);
    assert_int_equal(loaded.settings->server.write_timeout_ns, 9 * SECOND);
    forget(&loaded);
}

static void steps_are_kept_as_written(void **state)
{
    struct loaded loaded = load("pipeline:\n  steps:\n    - type: render\n      params: {address: x}\n"
                                "    - {type: decode, id: last, params: }\n",
                                NULL);
    const struct step_entry *steps = loaded.settings->pipelines[0].steps;

    (void)state;
    assert_said(&loaded, "");
    assert_int_equal(loaded.settings->pipelines[0].step_count, 2);
    assert_int_equal(loaded.settings->pipelines[0].steps_at.line, 3);
    assert_true(coord_slice_is(steps[0].type, "render") && coord_slice_is(steps[0].id, "render"));
    assert_int_equal(steps[0].type_at.line, 3);
    assert_int_equal(steps[0].type_at.column, 13);
    assert_true(coord_slice_is(node_get(steps[0].params, "address")->text, "x"));
    assert_true(coord_slice_is(steps[1].id, "last"));
    assert_null(steps[1].params);
    assert_int_equal(steps[1].at.line, 5);
    forget(&loaded);
}

static void unknown_keys_may_be_warnings(void **state)
{
    struct loaded loaded = load("servr: 1\npipeline: {stesp: 2, steps: [{type: a, whne: {}}]}\n",
                                &(struct settings_input){.allow_unknown = true});

    (void)state;
    assert_int_equal(loaded.complaints.errors, 0);
    assert_int_equal(loaded.complaints.warnings, 3);
    forget(&loaded);
}

static void an_unusable_file_gives_no_settings(void **state)
{
    struct loaded loaded = load("a: [\n", NULL);

    (void)state;
    assert_null(loaded.settings);
    assert_int_equal(loaded.complaints.errors, 1);
    forget(&loaded);
    loaded.settings =
        settings_load(&loaded.arena, &(struct settings_input){.path = "/missing.yaml"}, &loaded.complaints);
    assert_null(loaded.settings);
    assert_said(&loaded, "/missing.yaml: cannot be read: No such file or directory\n");
    forget(&loaded);
}

static void no_file_at_all_gives_defaults(void **state)
{
    struct loaded loaded = {0};
    const struct flag_value flag = {"server.listen_addr", ":1", "--listen-addr"};

    (void)state;
    loaded.settings =
        settings_load(&loaded.arena, &(struct settings_input){.flags = &flag, .flag_count = 1}, &loaded.complaints);
    assert_said(&loaded, "");
    assert_true(coord_slice_is(loaded.settings->server.listen_addr, ":1"));
    forget(&loaded);
}

/* A value that a key of its type takes and that is not its default. */
static const char *other_value(const coord_param *param)
{
    switch (param->type) {
    case COORD_PARAM_BOOL:
        return param->fallback && strcmp(param->fallback, "true") == 0 ? "false" : "true";
    case COORD_PARAM_INT:
        return "7";
    case COORD_PARAM_DURATION:
        return "77s";
    case COORD_PARAM_SIZE:
        return "128KiB";
    case COORD_PARAM_ENUM:
        return param->choices[1];
    case COORD_PARAM_URL:
        return "http://other";
    case COORD_PARAM_STRING_LIST:
        return "x-one, x-two";
    default:
        return "other:1";
    }
}

static void every_key_but_those_of_plugins_can_come_from_the_environment(void **state)
{
    (void)state;
    for (size_t i = 0; i < settings_section_count(); i++) {
        struct param_table table = settings_section_table(i);
        const char *section = settings_section_name(i);

        for (size_t k = 0; k < table.count; k++) {
            const coord_param *param = &table.rows[k];
            char variable[256] = "COORDINATOR_";
            char *environment[] = {variable, NULL};
            struct loaded loaded;
            const struct value *value;

            snprintf(variable, sizeof variable, "COORDINATOR_%s%s%s", section, *section ? "_" : "", param->name);
            for (char *c = variable; *c; c++)
                *c = (char)(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c);
            snprintf(variable + strlen(variable), 128, "=%s", other_value(param));
            loaded = load_with_variables("", environment);
            value = value_of(loaded.settings, section, param->name);
            if (strcmp(section, "plugins") == 0)
                assert_int_not_equal(value->source, VALUE_ENVIRONMENT);
            else if (value->source != VALUE_ENVIRONMENT)
                fail_msg("%s: %.*s", variable, COORD_FMT(buffer_slice(&loaded.complaints.text)));
            forget(&loaded);
        }
    }
}

static void flags_beat_the_environment_beats_the_file(void **state)
{
    static const char file[] = "server: {metrics_port: 1, tls_cipher_suites: [A]}\n";
    static const struct flag_value flags[] = {{"server.metrics_port", "3", "--metrics-port"},
                                              {"server.metrics_port", "4", "--metrics-port"},
                                              {"server.tls_cipher_suites", "B,C", "--tls-cipher-suites"},
                                              {"server.tls_cipher_suites", "D", "--tls-cipher-suites"},
                                              {"log_level", "5", "-v"}};
    char *environment[] = {"COORDINATOR_SERVER_METRICS_PORT=2", "COORDINATOR_NO_SUCH_KEY=x",
                           "COORDINATOR_LOG_LEVEL=", NULL};
    struct settings_input input = {.environment = environment};
    struct loaded loaded = load(file, NULL);

    (void)state;
    assert_int_equal(loaded.settings->server.metrics_port, 1);
    forget(&loaded);
    loaded = load(file, &input);
    assert_said(&loaded, "");
    assert_int_equal(loaded.settings->server.metrics_port, 2);
    assert_int_equal(loaded.settings->log_level, 2);
    forget(&loaded);
    input.flags = flags;
    input.flag_count = ROWS(flags);
    loaded = load(file, &input);
    assert_said(&loaded, "");
    assert_int_equal(loaded.settings->server.metrics_port, 4);
    assert_int_equal(loaded.settings->server.tls_cipher_suite_count, 3);
    assert_true(coord_slice_is(loaded.settings->server.tls_cipher_suites[2], "D"));
    assert_int_equal(loaded.settings->log_level, 5);
    forget(&loaded);
}

static void a_variable_that_is_nearly_one_of_ours_is_a_warning(void **state)
{
    char *environment[] = {"COORDINATOR_SERVER_REED_TIMEOUT=1s", "COORDINATOR_LOG_LEVLE=3",
                           "COORDINATOR_GATEWAY_ADRESS=http://x",
                           "COORDINATOR_SERVER_WRITE_TIMEOTU=", /* set to nothing counts as unset */
                           "COORDINATOR_LOG_LEVEL=2", "COORDINATOR_RESPONSE_BUFFER_HIGH=128KiB",
                           /* not ours, and other people's */
                           "COORDINATOR_PLUGIN_PATH=/x", "COORDINATOR_BIN=/x",
                           "COORDINATOR_SERVER_SERVICE_HOST=10.0.0.1", "COORDINATOR_SERVER_SERVICE_PORT=80",
                           "COORDINATOR_SERVER_PORT=tcp://10.0.0.1:80", "COORDINATOR_GATEWAY_PORT_80_TCP_ADDR=10.0.0.1",
                           "COORDINATOR_SERVER_=x", "COORDINATOR_=x", "NOT_COORDINATOR_SERVER_REED_TIMEOUT=1s", NULL};
    struct loaded loaded = load_with_variables("", environment);

    (void)state;
    assert_said(&loaded,
                "COORDINATOR_SERVER_REED_TIMEOUT: warning: sets no key: did you mean COORDINATOR_SERVER_READ_TIMEOUT?\n"
                "COORDINATOR_LOG_LEVLE: warning: sets no key: did you mean COORDINATOR_LOG_LEVEL?\n"
                "COORDINATOR_GATEWAY_ADRESS: warning: sets no key: did you mean COORDINATOR_GATEWAY_ADDRESS?\n");
    forget(&loaded);
}

static void variables_of_the_gateway_reach_the_default_one_wherever_it_stands(void **state)
{
    static const struct {
        const char *name, *text;
        size_t count;
    } rows[] = {
        {"alone", "gateway: {address: 'http://a', timeout: 1s}\n", 1},
        {"beside others", "gateway: {address: 'http://a', timeout: 1s}\ngateways: {b: {address: 'http://b'}}\n", 2},
        {"among others", "gateways: {b: {address: 'http://b'}, default: {address: 'http://a', timeout: 1s}}\n", 2},
        {"among others, beside nothing",
         "gateway:\ngateways: {b: {address: 'http://b'}, default: {address: 'http://a', timeout: 1s}}\n", 2},
        {"nowhere", "gateways: {b: {address: 'http://b'}}\n", 2},
    };
    char *environment[] = {"COORDINATOR_GATEWAY_ADDRESS=http://q:1", "COORDINATOR_GATEWAY_CONNECT_TIMEOUT=7s", NULL};

    (void)state;
    for (size_t r = 0; r < ROWS(rows); r++) {
        struct loaded loaded = load_with_variables(rows[r].text, environment);
        const struct settings *s = loaded.settings;

        print_message("  %s\n", rows[r].name);
        assert_said(&loaded, "");
        assert_true(s->gateway.given && coord_slice_is(s->gateway.address, "http://q:1"));
        assert_int_equal(s->gateway.timeout_ns, r == ROWS(rows) - 1 ? 60 * SECOND : SECOND);
        assert_int_equal(s->gateway.connect_timeout_ns, 7 * SECOND);
        assert_int_equal(s->gateway_count, rows[r].count);
        assert_ptr_equal(s->gateways[0], &s->gateway);
        if (rows[r].count > 1) {
            assert_true(coord_slice_is(s->gateways[1]->address, "http://b"));
            assert_int_equal(s->gateways[1]->connect_timeout_ns, 5 * SECOND);
        }
        forget(&loaded);
    }
}

static void mistakes_in_variables_and_flags_name_them(void **state)
{
    char *environment[] = {"COORDINATOR_SERVER_READ_TIMEOUT=30", "COORDINATOR_TRACING=1",
                           "COORDINATOR_PIPELINE_FORWARD_RESPONSE_HEADERS=a,host", NULL};
    const struct flag_value flag = {"server.metrics_port", "x", "--metrics-port"};
    struct loaded loaded =
        load("", &(struct settings_input){.environment = environment, .flags = &flag, .flag_count = 1});

    (void)state;
    assert_said(&loaded, "COORDINATOR_TRACING: tracing: \"1\" is no boolean: write true or false\n"
                         "--metrics-port: server.metrics_port: \"x\" is no integer\n"
                         "COORDINATOR_SERVER_READ_TIMEOUT: server.read_timeout: \"30\" has no unit: write 30s\n"
                         "COORDINATOR_PIPELINE_FORWARD_RESPONSE_HEADERS: pipeline.forward_response_headers[1] "
                         "contains non-forwardable header \"host\"\n");
    forget(&loaded);
}

static void substitution_reads_the_given_environment(void **state)
{
    char *environment[] = {"GATEWAY=gw", "PORT=8", NULL};
    struct loaded loaded = load_with_variables(
        "server: {metrics_port: '${PORT}'}\ngateway: {address: 'http://${GATEWAY}/'}\n", environment);

    (void)state;
    assert_said(&loaded, "");
    assert_true(coord_slice_is(loaded.settings->gateway.address, "http://gw"));
    assert_int_equal(loaded.settings->server.metrics_port, 8);
    assert_true(value_of(loaded.settings, "gateway", "address")->secret);
    forget(&loaded);
}

static void our_own_tables_are_well_formed_and_flags_name_their_keys(void **state)
{
    (void)state;
    for (size_t i = 0; i < settings_section_count(); i++) {
        struct param_table table = settings_section_table(i);
        struct buffer reason = {0};

        if (params_check(&table, &reason) != COORD_OK)
            fail_msg("%s: %.*s", settings_section_name(i), COORD_FMT(buffer_slice(&reason)));
        buffer_release(&reason);
    }
    for (const struct settings_flag *flag = settings_flags(); flag->flag; flag++) {
        struct loaded loaded = load("", NULL);
        const char *dot = strchr(flag->key, '.');
        char section[64] = "";
        const struct value *value;

        snprintf(section, sizeof section, "%.*s", dot ? (int)(dot - flag->key) : 0, flag->key);
        value = value_of(loaded.settings, section, dot ? dot + 1 : flag->key);
        assert_non_null(value);
        assert_int_equal(flag->takes_value, value->param->type != COORD_PARAM_BOOL);
        forget(&loaded);
    }
}

/* Unit tests run in the repository's root. */
static void example_path(char *path, size_t size, const char *name) { snprintf(path, size, "configs/%s", name); }

static void the_annotated_file_holds_every_key_with_its_default(void **state)
{
    char path[1024];
    struct arena arena = {0};
    struct complaints complaints = {0};
    struct settings *settings;
    struct loaded defaults = load("", NULL);

    (void)state;
    example_path(path, sizeof path, "coordinator.yaml");
    settings = settings_load(&arena, &(struct settings_input){.path = path}, &complaints);
    if (complaints.errors + complaints.warnings)
        fail_msg("%.*s", COORD_FMT(buffer_slice(&complaints.text)));
    assert_int_equal(settings->pipelines[0].step_count, 3);
    for (size_t i = 0; i < settings_section_count(); i++) {
        struct param_table table = settings_section_table(i);

        for (size_t k = 0; k < table.count; k++) {
            const char *section = settings_section_name(i), *name = table.rows[k].name;
            const struct value *in_file = value_of(settings, section, name);
            const struct value *by_default = value_of(defaults.settings, section, name);
            const struct node *map = *section ? node_get(settings->root, section) : settings->root;
            struct buffer a = {0}, b = {0};

            if (strcmp(section, "plugins") == 0 && strcmp(name, "path") == 0)
                continue; /* its default is not known before installation */
            if (!node_get(map, name))
                fail_msg("%s.%s is missing", section, name);
            assert_true(value_print(in_file, &a) && value_print(by_default, &b));
            if (table.rows[k].fallback && !coord_slice_equal(buffer_slice(&a), buffer_slice(&b)))
                fail_msg("%s.%s: %.*s, but its default is %.*s", section, name, COORD_FMT(buffer_slice(&a)),
                         COORD_FMT(buffer_slice(&b)));
            buffer_release(&a);
            buffer_release(&b);
        }
    }
    complaints_release(&complaints);
    arena_release(&arena);
    forget(&defaults);
}

static void the_minimal_file_loads(void **state)
{
    char path[1024];
    struct loaded loaded = {0};

    (void)state;
    example_path(path, sizeof path, "minimal.yaml");
    loaded.settings = settings_load(&loaded.arena, &(struct settings_input){.path = path}, &loaded.complaints);
    assert_said(&loaded, "");
    assert_int_equal(loaded.settings->pipelines[0].step_count, 2);
    forget(&loaded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_file_gives_every_default),
        cmocka_unit_test(zero_and_negative_values_mean_what_they_meant),
        cmocka_unit_test(mistakes_are_said_with_their_place),
        cmocka_unit_test(private_keys_hold_anchors),
        cmocka_unit_test(steps_are_kept_as_written),
        cmocka_unit_test(unknown_keys_may_be_warnings),
        cmocka_unit_test(an_unusable_file_gives_no_settings),
        cmocka_unit_test(no_file_at_all_gives_defaults),
        cmocka_unit_test(every_key_but_those_of_plugins_can_come_from_the_environment),
        cmocka_unit_test(flags_beat_the_environment_beats_the_file),
        cmocka_unit_test(a_variable_that_is_nearly_one_of_ours_is_a_warning),
        cmocka_unit_test(variables_of_the_gateway_reach_the_default_one_wherever_it_stands),
        cmocka_unit_test(mistakes_in_variables_and_flags_name_them),
        cmocka_unit_test(substitution_reads_the_given_environment),
        cmocka_unit_test(our_own_tables_are_well_formed_and_flags_name_their_keys),
        cmocka_unit_test(the_annotated_file_holds_every_key_with_its_default),
        cmocka_unit_test(the_minimal_file_loads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
