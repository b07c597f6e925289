/* The command line: exit codes, positions of what is wrong, and what beats what. */
#include "harness.h"

#include <unistd.h>

static char folder[] = "/tmp/e2e-cli-XXXXXX";

static void write_file(const char *name, const char *yaml, char path[128])
{
    snprintf(path, 128, "%s/%s", folder, name);
    file_write(path, yaml);
}

static int check(const char *path, struct text *output)
{
    return run_program((const char *const[]){coordinator_program(), "check", "--config", path, NULL}, NULL, output);
}

#define GOOD_TAIL                                                                                                      \
    "gateway: {address: 'http://x'}\npipeline:\n  kv_connector: kv-nixl\n  steps:\n    - type: prefill\n    - type: "  \
    "decode\n"

static void what_is_wrong_is_named_with_its_position(void **state)
{
    static const struct {
        const char *name, *yaml, *position, *parts[3];
    } rows[] = {
        {"unknown key", "servr:\n  listen_addr: ':1'\n" GOOD_TAIL, ":1:1: ", {"servr", "server"}},
        {"unknown key below", "server:\n  listen_adr: ':1'\n" GOOD_TAIL, ":2:3: ", {"listen_adr", "listen_addr"}},
        {"unknown param",
         "gateway: {address: 'http://x'}\npipeline:\n  steps:\n    - type: prefill\n      params: {kv_conector: "
         "kv-nixl}\n    - type: decode\n",
         ":5:16: ",
         {"kv_conector", "kv_connector"}},
        {"unknown step",
         "gateway: {address: 'http://x'}\npipeline:\n  steps:\n    - type: decoed\n",
         ":4:13: ",
         {"decoed", "decode"}},
        {"repeated key", "server:\n  read_timeout: 1s\n  read_timeout: 2s\n" GOOD_TAIL, ":3:3: ", {"read_timeout"}},
        {"duration without unit", "server:\n  read_timeout: 30\n" GOOD_TAIL, ":2:17: ", {"read_timeout", "30s"}},
        {"negative duration", "server:\n  read_timeout: -1s\n" GOOD_TAIL, ":2:17: ", {"read_timeout"}},
        {"boolean in words", "server:\n  secure_serving: yes\n" GOOD_TAIL, ":2:19: ", {"secure_serving", "true"}},
        {"unknown connector",
         "gateway: {address: 'http://x'}\npipeline:\n  kv_connector: kv-nixxl\n  steps:\n    - type: prefill\n    - "
         "type: decode\n",
         ":3:17: ",
         {"step prefill: unknown kv_connector \"kv-nixxl\": did you mean \"kv-nixl\"?", "step decode: "}},
        {"unknown connector of one step",
         "gateway: {address: 'http://x'}\npipeline:\n  steps:\n    - type: decode\n      params: {kv_connector: "
         "kv-nothing-like-it}\n",
         ":5:30: ",
         {"kv-nothing-like-it", "loaded are: ", "kv-shared-storage"}},
        {"a missing required param",
         "gateway: {address: 'http://x'}\npipeline:\n  steps:\n    - type: render\n    - type: decode\n",
         ":4:",
         {"render", "address"}},
        {"not YAML", "server: [\n", ":", {"bad.yaml"}},
        {"a tab", "server:\n\tlisten_addr: ':1'\n", ":2:", {"bad.yaml"}},
        {"not a map", "- 1\n", ":1:1: ", {"bad.yaml"}},
        {"an empty file", "", ":1:1: ", {"gateway.address is missing"}},
        {"a step of the Go coordinator",
         "gateway: {address: 'http://x'}\npipeline:\n  steps:\n    - type: async-broker\n    - type: decode\n",
         ":4:13: ",
         {"async-broker", "differences"}},
        {"a step of the Go coordinator whose name is near another",
         "gateway: {address: 'http://x'}\npipeline:\n  steps:\n    - type: encode\n    - type: decode\n",
         ":4:13: ",
         {"step type \"encode\" is a step of the Go coordinator", "differences"}},
        {"another",
         "gateway: {address: 'http://x'}\npipeline:\n  steps:\n    - type: replace-media-urls\n    - type: decode\n",
         ":4:13: ",
         {"step type \"replace-media-urls\" is a step of the Go coordinator"}},
        {"a connector of the Go coordinator",
         "gateway: {address: 'http://x'}\npipeline:\n  kv_connector: kv-sglang\n  steps:\n    - type: prefill\n    - "
         "type: decode\n",
         ":3:17: ",
         {"step prefill: kv_connector \"kv-sglang\" is a connector of the Go coordinator", "differences"}},
        {"an unset variable",
         "gateway: {address: '${NOT_SET_AT_ALL}'}\npipeline:\n  steps:\n    - type: decode\n",
         ":1:",
         {"NOT_SET_AT_ALL"}},
        {"https for the direct transport of a step",
         "gateway: {address: 'http://x', transport: direct}\npipeline:\n  steps:\n    - type: render\n      params: "
         "{address: 'https://r'}\n    - type: decode\n",
         ":5:25: ",
         {"step render: address is https", "set transport: auto"}},
        {"authorities that are not there",
         "gateway: {address: 'https://x', ca_file: /nope/ca.pem}\npipeline:\n  steps:\n    - type: decode\n",
         ":1:42: ",
         {"ca_file of gateway default", "/nope/ca.pem", "No such file"}},
        {"a key of one of several gateways that is not there",
         "gateways: {a: {address: 'https://x', cert_file: /dev/null, key_file: /nope/a.key}}\npipelines:\n  - name: a\n"
         "    gateway: a\n    steps: [{type: decode}]\n",
         ":1:70: ",
         {"key_file of gateway a", "/nope/a.key", "No such file"}},
        {"a certificate that is not there",
         "server: {cert_path: /nope}\n" GOOD_TAIL,
         ":1:21: ",
         {"server.cert_path", "/nope/tls.crt"}},
        {"a certificate for metrics that is not there",
         "server: {metrics_cert_dir: /nope}\n" GOOD_TAIL,
         ":1:28: ",
         {"server.metrics_cert_dir", "/nope/tls.crt"}},
        {"a cipher suite that is none",
         "server: {tls_cipher_suites: [NONE]}\n" GOOD_TAIL,
         ":1:29: ",
         {"server.tls_cipher_suites", "NONE"}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct text output = {0};
        char path[128], at[256];
        int code;

        write_file("bad.yaml", rows[i].yaml, path);
        code = check(path, &output);
        if (code != 2)
            fail_msg("%s: exit %d: %s", rows[i].name, code, output.data);
        snprintf(at, sizeof at, "bad.yaml%s", rows[i].position);
        assert_contains(output.data, at);
        for (size_t p = 0; p < 3 && rows[i].parts[p]; p++)
            assert_contains(output.data, rows[i].parts[p]);
        text_free(&output);
    }
}

/* With a remedy, and without errors that only follow from it. */
static void a_mistake_is_told_once_in_words_that_help(void **state)
{
#define GATEWAY "gateway: {address: 'http://x'}\n"
#define STEPS "pipeline: {steps: [{type: decode}]}\n"
    static const struct {
        const char *name, *yaml, *said;
    } rows[] = {
        {"a star", "x: [*]\n",
         ":1:6: did not find expected alphabetic or numeric character, while scanning an alias: quote a value that "
         "begins with *, as in \"*\""},
        {"a star and more", GATEWAY STEPS "x-models: [*llama]\n",
         ":3:12: no anchor \"llama\" above this alias: quote a text that begins with *"},
        {"an ampersand", "x: [& b]\n",
         ":1:6: did not find expected alphabetic or numeric character, while scanning an anchor: quote a value that "
         "begins with &"},
        {"an at sign", "x: @b\n",
         ":1:4: found character that cannot start any token, while scanning for the next token: quote a value that "
         "begins with such a character"},
        {"a colon and a space", "gateway:\n  address: http://x: 80\n",
         ":2:20: mapping values are not allowed in this context: quote the value, or take the space behind its colon "
         "out; if that is a key, look at the indentation"},
        {"a list out of line", "a:\n  - b: 1\n c: 2\n",
         ":3:2: did not find expected key, while parsing a block mapping: look at the indentation: keys of one map "
         "begin in one column"},
        {"a map out of line", "a:\n    - b: c\n      d:\n       e: f\n      g: h\n     i: j\n",
         ":6:6: did not find expected '-' indicator, while parsing a block collection: look at the indentation: "
         "entries of one list begin in one column"},
        {"a brace that is open", "x: {a: [b}\n",
         ":1:10: did not find expected ',' or ']', while parsing a flow sequence: the [ is not closed, or a comma is "
         "missing"},
        {"a quote that is open", "x: 'a\n",
         ":2:1: found unexpected end of stream, while scanning a quoted scalar: its quote is not closed"},
        {"a backslash", "x: \"a\\q\"\n",
         ":1:6: found unknown escape character, while parsing a quoted scalar: write \\\\ for a backslash, or quote "
         "with '"},
        {"an address without a scheme", "gateway: {address: 'x:80'}\n" STEPS,
         ":1:20: gateway.address: \"x:80\" has no scheme: write http:// or https:// in front of it"},
        {"one of several",
         "gateways: {a: {address: 'x:80'}}\npipelines: [{name: b, gateway: a, steps: [{type: decode}]}]\n",
         ":1:25: gateways.a.address: \"x:80\" has no scheme: write http:// or https:// in front of it"},
        {"an address with an open brace", "gateway: {address: 'http://${X'}\n" STEPS,
         ":1:20: \"${\" without \"}\": write $$ for a dollar sign"},
        {"a misspelt address", "gateway: {adress: 'http://x'}\n" STEPS,
         ":1:11: unknown key \"gateway.adress\": did you mean \"address\"?"},
        {"a misspelt gateway", "gatway: {address: 'http://x'}\n" STEPS,
         ":1:1: unknown key \"gatway\": did you mean \"gateway\"?"},
        {"a misspelt pipeline", GATEWAY "pipline: {steps: [{type: decode}]}\n",
         ":2:1: unknown key \"pipline\": did you mean \"pipeline\"?"},
        {"misspelt steps", GATEWAY "pipeline: {stpes: [{type: decode}]}\n",
         ":2:12: unknown key \"pipeline.stpes\": did you mean \"steps\"?"},
        {"a misspelt type", GATEWAY "pipeline: {steps: [{tpye: decode}]}\n",
         ":2:21: unknown key \"tpye\" of a step: did you mean \"type\"?"},
        {"a misspelt name", GATEWAY "pipelines: [{nmae: a, steps: [{type: decode}]}]\n",
         ":2:14: unknown param \"nmae\" of a pipeline: did you mean \"name\"?"},
        {"a misspelt param that must be there",
         GATEWAY "pipeline: {steps: [{type: render, params: {adress: 'http://r'}}, {type: decode}]}\n",
         ":2:44: unknown param \"adress\" of step render: did you mean \"address\"?"},
        {"a step that is a text", GATEWAY "pipeline: {steps: [decode]}\n",
         ":2:20: a step is a map with a \"type\", as in {type: decode}"},
        {"steps that are a text", GATEWAY "pipeline: {steps: decode}\n", ":2:19: pipeline.steps: not a list of steps"},
        {"a gateway that is a text", "gateway: http://x\n" STEPS, ":1:10: gateway takes keys and values, not a text"},
        {"no gateway", STEPS,
         ":1:1: gateway.address is missing: set it to the inference gateway's URL, such as "
         "http://inference-gateway:80"},
        {"steps of one of several pipelines",
         GATEWAY "pipelines: [{name: a, steps: [{type: decode, when: {stream: true}}]}]\n",
         ":2:30: steps of pipeline a: no step answers the request on some way through the conditions; end with a step "
         "that always does, such as decode"},
        {"none of one of several pipelines", GATEWAY "pipelines: [{name: a}]\n",
         ":2:13: steps of pipeline a: none is there; a pipeline needs at least a step that answers, such as decode"},
        {"a match of the only pipeline", GATEWAY "pipeline: {match: {models: x}, steps: [{type: decode}]}\n",
         ":2:12: \"match\" stands in an entry of pipelines, not in pipeline: write pipelines, a list, in its place"},
        {"a timeout without a unit", GATEWAY "pipeline: {steps: [{type: decode, timeout: 5}]}\n",
         ":2:44: timeout of step decode: \"5\" is no duration with a unit, such as 500ms or 30s"},
    };

    size_t wrong = 0;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct text output = {0};
        char path[128], want[1024];

        write_file("bad.yaml", rows[i].yaml, path);
        assert_int_equal(check(path, &output), 2);
        snprintf(want, sizeof want, "%s%s\n%s: 1 errors, 0 warnings\n", path, rows[i].said, path);
        if (strcmp(output.data, want) != 0) {
            print_error("%s: said: %s\nwanted: %s\n", rows[i].name, output.data, want);
            wrong++;
        }
        text_free(&output);
    }
    assert_int_equal(wrong, 0);
}

/* They are not in use: no metrics port, TLS off. */
static void files_that_are_not_used_need_not_be_there(void **state)
{
    struct text output = {0};
    char path[128];

    (void)state;
    write_file(
        "good.yaml",
        "server: {metrics_cert_dir: /nope, metrics_port: 0, cert_path: /nope, secure_serving: false}\n" GOOD_TAIL,
        path);
    assert_int_equal(check(path, &output), 0);
    text_free(&output);
}

static void what_came_from_the_environment_is_not_shown(void **state)
{
    struct text output = {0};
    char path[128];

    (void)state;
    write_file("bad.yaml",
               "server: {cert_path: '${FOLDER}'}\ngateway: {address: 'https://x', ca_file: '${FOLDER}/ca'}\npipeline:\n"
               "  steps:\n    - type: decode\n",
               path);
    assert_int_equal(run_program((const char *const[]){coordinator_program(), "check", "--config", path, NULL},
                                 (const char *const[]){"FOLDER=/nope/hidden", NULL}, &output),
                     2);
    assert_contains(output.data, "bad.yaml:1:21: server.cert_path: ");
    assert_contains(output.data, "bad.yaml:2:42: ca_file of gateway default: ");
    assert_lacks(output.data, "hidden");
    text_free(&output);
}

static void everything_wrong_is_told_at_once(void **state)
{
    struct text output = {0};
    char path[128];

    (void)state;
    write_file("many.yaml",
               "servr: 1\nlog_level: x\nserver:\n  read_timeout: 30\n  metrics_port: 99999\n  listen_addr: "
               "nowhere\ngateway: {address: 'ftp://x'}\n"
               "pipeline:\n  steps:\n    - type: prefil\n    - type: decode\n      params: {nonsense: 1}\n",
               path);
    assert_int_equal(check(path, &output), 2);
    for (int line = 1; line <= 7; line++) {
        char at[64];

        if (line == 3)
            continue;
        snprintf(at, sizeof at, "many.yaml:%d:", line);
        assert_contains(output.data, at);
    }
    assert_contains(output.data, "many.yaml:10:");
    assert_contains(output.data, "many.yaml:12:");
    text_free(&output);
}

static void exit_codes_are_as_documented(void **state)
{
    char good[128], warned[128], bad[128], out[128];
    struct text output = {0};
    const char *program = coordinator_program();

    (void)state;
    write_file("good.yaml", GOOD_TAIL, good);
    write_file("warned.yaml", "nonsense: 1\n" GOOD_TAIL, warned);
    write_file("bad.yaml", "server: 1\n", bad);
    snprintf(out, sizeof out, "%s/missing.yaml", folder);
    const struct {
        int code;
        const char *arguments[6], *part;
    } rows[] = {
        {0, {program, "check", "--config", good}, "good"},
        {2, {program, "check", "--config", bad}, "bad.yaml:1:"},
        {2, {program, "check", "--config", out}, "missing.yaml"},
        {2, {program, "check"}, "usage"},
        {2, {program, "check", good}, "check: --config FILE is missing"},
        {2, {program, "explain", "--config", good}, "explain: --request FILE is missing"},
        {2, {program, "reload"}, "reload: --pid-file FILE is missing"},
        {2, {program, "check", "--config", warned}, "nonsense"},
        {0, {program, "check", "--config", warned, "--allow-unknown-keys"}, "nonsense"},
        {1, {program, "serve", "--config", bad}, "bad.yaml:1:"},
        {1, {program, "serve", "--config", out}, "missing.yaml"},
        {2, {program, "serve"}, "usage: coordinator serve --config FILE [--pid-file FILE]"},
        {2, {program, "nonsense"}, "nonsense"},
        {2, {program, "serve", "--nonsense"}, "--nonsense"},
        {2, {program}, "coordinator"},
        {0, {program, "help"}, "serve"},
        {0, {program, "--help"}, "serve"},
        {0, {program, "explain", "--help"}, "usage: coordinator explain --config FILE --request FILE"},
        {0, {program, "version"}, "ABI"},
        {0, {program, "--version"}, "ABI"},
        {0, {program, "steps"}, "kv-shared-storage"},
        {0, {program, "steps", "prefill"}, "kv_connector"},
        {0, {program, "steps", "prefill"}, ", licence Apache-2.0 (/"},
        {0, {program, "steps", "prefill", "--json"}, "\"licence\":\"Apache-2.0\""},
        {0, {program, "steps", "render"}, "timeout (duration, at least 0s)"},
        {0, {program, "steps", "render"}, "max_idle_conns_per_host (int, 0 to 65536)"},
        {0, {program, "steps", "prefill", "--json"}, "\"default\""},
        {0, {program, "schema"}, "https://json-schema.org/draft/2020-12/schema"},
        {2, {program, "schema", "decode"}, "usage"},
        {2, {program, "steps", "prefil"}, "prefill"},
        {2, {program, "steps", "kv-nixxl"}, "did you mean \"kv-nixl\""},
        {2, {program, "steps", "prefill", "decode"}, "usage"},
        {2, {program, "steps", "--config", warned}, "nonsense"},
        {0, {program, "steps", "--config", warned, "--allow-unknown-keys"}, "nonsense"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int code = run_program(rows[i].arguments, NULL, &output);

        if (code != rows[i].code)
            fail_msg("%s %s %s: exit %d, not %d: %s", rows[i].arguments[1],
                     rows[i].arguments[2] ? rows[i].arguments[2] : "", rows[i].arguments[3] ? rows[i].arguments[3] : "",
                     code, rows[i].code, output.data);
        assert_contains(output.data, rows[i].part);
    }
    text_free(&output);
}

static void a_start_that_fails_is_told_once_and_with_its_reason(void **state)
{
    struct text output = {0};
    char path[128];

    (void)state;
    write_file("good.yaml", "nonsense: 1\nserver: {listen_addr: '127.0.0.1:0', metrics_port: 0}\n" GOOD_TAIL, path);
    assert_int_equal(run_program((const char *const[]){coordinator_program(), "serve", "--config", path,
                                                       "--allow-unknown-keys", "--pid-file", "/nowhere/at/all", NULL},
                                 NULL, &output),
                     1);
    assert_contains(output.data, "the process id cannot be written to --pid-file /nowhere/at/all: No such file");
    assert_null(strstr(strstr(output.data, "nonsense") + 1, "nonsense"));
    text_free(&output);
}

static void every_scalar_key_has_an_environment_variable_and_flags_beat_it(void **state)
{
    uint16_t dead = free_port(), metrics = free_port();
    char port[16], address[64];

    (void)state;
    /* file < environment */
    deploy(&(struct plan){.steps = "    - type: decode\n"});
    snprintf(address, sizeof address, "COORDINATOR_GATEWAY_ADDRESS=http://127.0.0.1:%u", deployed.sim_port);
    assert_int_equal(harness_end(NULL), 0);
    {
        struct scripted *worker = scripted_start(&(struct scripted_options){0});

        snprintf(address, sizeof address, "COORDINATOR_GATEWAY_ADDRESS=http://127.0.0.1:%u", scripted_port(worker));
        deploy(&(struct plan){
            .no_sim = true,
            .gateway_port = dead,
            .steps = "    - type: decode\n",
            .environment = (const char *const[]){address, "COORDINATOR_SERVER_MAX_REQUEST_BODY_SIZE=1",
                                                 "COORDINATOR_LOG_LEVEL=0", "COORDINATOR_SERVER_METRICS_PORT=0", NULL},
            .not_ready = true,
            .flags = (const char *const[]){"-v", "2", NULL}});
        UNTIL(strstr(process_log(&deployed.coordinator), "started")); /* -v beats COORDINATOR_LOG_LEVEL */
        deployed.port = (uint16_t)strtoul(strstr(process_log(&deployed.coordinator), " port=") + 6, NULL, 10);
        assert_contains(process_log(&deployed.coordinator), "metrics_port=0");
        assert_int_equal(fetch("POST", CHAT_PATH, "", CHAT)->answer.status, 200);
        struct client *client = client_open(deployed.port);

        client_say(client, "POST " CHAT_PATH " HTTP/1.1\r\nHost: c\r\nContent-Length: 1048577\r\n\r\n");
        assert_true(client_read(client, PATIENCE_MS));
        assert_int_equal(client->answer.status, 413);
        assert_int_equal(harness_end(NULL), 0);
    }
    /* environment < flag */
    snprintf(port, sizeof port, "%u", metrics);
    deploy(&(struct plan){.environment = (const char *const[]){"COORDINATOR_SERVER_METRICS_PORT=0", NULL},
                          .flags = (const char *const[]){"--metrics-port", port, NULL}});
    assert_int_equal(fetch_port(metrics, "GET", "/metrics", "", NULL)->answer.status, 200);
}

static void a_port_in_use_and_a_bad_environment_are_told(void **state)
{
    struct text output = {0};
    char path[128], yaml[512];

    (void)state;
    deploy(&(struct plan){0});
    snprintf(yaml, sizeof yaml, "server: {listen_addr: '127.0.0.1:%u', metrics_port: 0}\n" GOOD_TAIL,
             deployed.sim_port);
    write_file("used.yaml", yaml, path);
    assert_int_equal(
        run_program((const char *const[]){coordinator_program(), "serve", "--config", path, NULL}, NULL, &output), 1);
    assert_contains(output.data, "ddress already in use");
    snprintf(yaml, sizeof yaml, "server: {listen_addr: '127.0.0.1:0', metrics_port: %u}\n" GOOD_TAIL,
             deployed.metrics_port);
    write_file("used.yaml", yaml, path);
    assert_int_equal(
        run_program((const char *const[]){coordinator_program(), "serve", "--config", path, NULL}, NULL, &output), 1);
    assert_contains(output.data, "metrics");
    assert_contains(output.data, "ddress already in use");
    write_file("good.yaml", GOOD_TAIL, path);
    assert_int_equal(run_program((const char *const[]){coordinator_program(), "check", "--config", path, NULL},
                                 (const char *const[]){"COORDINATOR_SERVER_READ_TIMEOUT=soon", NULL}, &output),
                     2);
    assert_contains(output.data, "COORDINATOR_SERVER_READ_TIMEOUT");
    text_free(&output);
}

/* Pins prefill and decode to one rank by a hash; without it both would go to rank 0 silently. */
static void ranks_without_their_hash_are_refused(void **state)
{
    struct text output = {0};
    char ranks[128], openssl[128], variable[160];
    const char *const arguments[] = {coordinator_program(), "check", "--config", ranks, NULL};

    (void)state;
    write_file("ranks.yaml",
               "gateway: {address: 'http://x'}\npipeline:\n  kv_connector: kv-nixl\n  dp_size: 2\n  steps:\n"
               "    - type: prefill\n    - type: decode\n",
               ranks);
    write_file("openssl.cnf",
               "openssl_conf = all\n[all]\nproviders = list\n[list]\nnull = none\n[none]\nactivate = 1\n", openssl);
    snprintf(variable, sizeof variable, "OPENSSL_CONF=%s", openssl);
    assert_int_equal(run_program(arguments, (const char *const[]){variable, NULL}, &output), 2);
    assert_contains(output.data, "dp_size above 1 needs BLAKE2s");
    assert_int_equal(run_program(arguments, NULL, &output), 0);
    text_free(&output);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_files(void **state)
{
    static const char *const names[] = {"bad.yaml",  "many.yaml",  "good.yaml",  "warned.yaml",
                                        "used.yaml", "ranks.yaml", "openssl.cnf"};
    char path[128];

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_wrong_is_named_with_its_position),
        TEST(a_mistake_is_told_once_in_words_that_help),
        TEST(files_that_are_not_used_need_not_be_there),
        TEST(what_came_from_the_environment_is_not_shown),
        TEST(everything_wrong_is_told_at_once),
        TEST(exit_codes_are_as_documented),
        TEST(a_start_that_fails_is_told_once_and_with_its_reason),
        TEST(every_scalar_key_has_an_environment_variable_and_flags_beat_it),
        TEST(a_port_in_use_and_a_bad_environment_are_told),
        TEST(ranks_without_their_hash_are_refused),
    };

    harness_select();
    return cmocka_run_group_tests(tests, make_folder, remove_files);
}
