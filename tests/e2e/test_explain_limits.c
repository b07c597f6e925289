/* What `coordinator explain` does not do: wait or read for ever, show secrets, run what is wrong; and `check --explain`. */
#include "explained.h"

/* Both wait for as long as a dry run may take: at the same time. */
static void what_does_not_end_is_cut(void **state)
{
    static const char *const steps[] = {"test-park", "test-later-park"};
    static const char *const errors[] = {"within 10 s: step test-park was running",
                                         "work in the background did not end within 10 s"};
    struct process processes[2];
    char configs[2][64] = {"", ""}, log[2][64], yaml[256];
    int64_t began = now_ms();

    (void)state;
    file_write(in_folder("request.json"), CHAT);
    for (int i = 0; i < 2; i++) {
        struct text text = {0};

        snprintf(yaml, sizeof yaml, GATEWAY PLUGIN "pipeline:\n  steps:\n    - type: %s\n    - type: decode\n",
                 steps[i]);
        assert_true(file_read(configure(yaml), &text));
        snprintf(configs[i], sizeof configs[i], "%s/%s.yaml", folder, steps[i]);
        snprintf(log[i], sizeof log[i], "%s/%s.log", folder, steps[i]);
        file_write(configs[i], text.data);
        text_free(&text);
        process_start(&processes[i], log[i],
                      (const char *const[]){coordinator_program(), "explain", "--config", configs[i], "--request",
                                            in_folder("request.json"), "--json", NULL},
                      NULL);
    }
    for (int i = 0; i < 2; i++) {
        assert_true(process_wait(&processes[i], 25000)); /* the bound below */
        assert_int_equal(processes[i].code, 1);
        assert_contains(process_log(&processes[i]), errors[i]);
        unlink(configs[i]);
        unlink(log[i]);
    }
    assert_in_range(now_ms() - began, 10000, 25000);
}

static void an_answer_without_an_end_is_read_up_to_a_limit(void **state)
{
    struct text output = {0};
    char line[512];

    (void)state;
    file_write(in_folder("request.json"), CHAT);
    configure(GATEWAY PLUGIN "pipeline:\n  steps:\n    - type: test-flood\n    - type: decode\n");
    snprintf(
        line, sizeof line, "'%s' explain --config '%s' --request '%s' > '%s'; code=$?; tail -c 200 '%s'; exit $code",
        coordinator_program(), in_folder("c.yaml"), in_folder("request.json"), in_folder("long"), in_folder("long"));
    assert_int_equal(run_program((const char *const[]){"/bin/sh", "-c", line, NULL}, NULL, &output), 1);
    assert_contains(output.data, "the answer is longer than 64 MiB");
    unlink(in_folder("long"));
    text_free(&output);
}

static void secrets_and_what_came_from_the_environment_never_show(void **state)
{
    static const char config[] = "gateway: {address: \"${GW}\"}\n" PLUGIN "pipeline:\n  steps:\n"
                                 "    - {type: test-ask, params: {address: "
                                 "\"${ASKED:-http://unused}${PATH_OF_IT:-/there}\", token: its-token}}\n"
                                 "    - {type: test-splice, timeout: \"${TIME}\", params: {note: \"${NOTE}\"}}\n"
                                 "    - {type: decode, when: {headers: {x-tenant: [\"${TENANT}\", \"*\"]}}}\n"
                                 "    - {type: decode, id: rest}\n";
    static const char *const environment[] = {"GW=http://shown.invalid:8123/hidden-prefix",
                                              "ASKED=http://hidden-host.invalid",
                                              "NOTE=say \"hidden\"",
                                              "TENANT=hidden-tenant",
                                              "TIME=4711ms",
                                              NULL};
    static const char *const forms[] = {"--json", NULL};
    struct run run;

    (void)state;
    file_write(in_folder("answers.yaml"), "- {leg: test-ask, status: 404}\n");
    configure(config);
    for (int form = 0; form < 4; form++) {
        const char *more[6] = {"--header", "Authorization: Bearer hidden-client"};
        size_t count = 2;

        if (form & 1)
            more[count++] = forms[0];
        if (form & 2) {
            more[count++] = "--answers";
            more[count++] = in_folder("answers.yaml");
        }
        run = explain(in_folder("c.yaml"), STREAM, more, environment);
        assert_lacks(run.output.data, "hidden");
        assert_lacks(run.output.data, "its-token");
        assert_lacks(run.output.data, "4711");
        assert_contains(run.output.data, "[secret]");
        if (!(form & 2))
            assert_contains(run.output.data, "shown.invalid:8123");
        assert_int_equal(run.code, form & 2 ? 1 : 0);
        run_end(&run);
    }
}

/* ---- What is not to be run ---- */

static void a_variable_of_a_keys_own_is_as_secret(void **state)
{
    static const char *const environment[] = {"COORDINATOR_GATEWAY_ADDRESS=http://shown.invalid:82/hidden", NULL};
    struct run run = explain(configure("pipeline:\n  steps:\n    - type: decode\n"), CHAT, JSON, environment);
    struct text output = {0};

    (void)state;
    assert_int_equal(run.code, 0);
    assert_lacks(run.output.data, "hidden");
    assert_string_equal(text_of(leg_of(&run, "decode", 0), "to"), "http://shown.invalid:82");
    assert_string_equal(text_of(leg_of(&run, "decode", 0), "target"), "[secret]/v1/chat/completions");
    run_end(&run);
    assert_int_equal(run_program((const char *const[]){coordinator_program(), "check", "--explain", "--config",
                                                       in_folder("c.yaml"), NULL},
                                 environment, &output),
                     0);
    assert_lacks(output.data, "hidden");
    assert_contains(output.data, "gateway: default, http://shown.invalid:82 (environment COORDINATOR_GATEWAY_ADDRESS)");
    text_free(&output);
}

static void a_broken_answers_file_is_refused_with_its_position(void **state)
{
    static const struct {
        const char *yaml, *position, *part;
    } rows[] = {
        {"- {leg: decode, status: 99}\n", ":1:25: ", "status takes a number from 200 to 599"},
        {"- {leg: decode, status: ok}\n", ":1:25: ", "status takes"},
        {"- {leg: decode}\n- {leg: decoed}\n", ":2:3: ", "no step has the id or type \"decoed\""},
        {"- {status: 200}\n", ":1:3: ", "names its leg"},
        {"- {leg: decode, staus: 200}\n", ":1:17: ", "did you mean \"status\""},
        {"- {leg: decode, headers: [a]}\n", ":1:26: ", "names and values"},
        {"- {leg: decode, headers: {Content-Length: 1}}\n", ":1:27: ", "framing"},
        {"- {leg: decode, headers: {'a b': 1}}\n", ":1:27: ", "no header"},
        {"- decode\n", ":1:3: ", "an answer is a map"},
        {"leg: decode\n", ":1:1: ", "a list of answers"},
        {"- {leg: decode\n", ":2:1: ", ""},
    };
    struct run run;

    (void)state;
    configure(GATEWAY "pipeline:\n  steps:\n    - type: decode\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char at[64];

        file_write(in_folder("answers.yaml"), rows[i].yaml);
        run = explain(in_folder("c.yaml"), CHAT, (const char *const[]){"--answers", in_folder("answers.yaml"), NULL},
                      NULL);
        if (run.code != 2)
            fail_msg("%s: exit %d: %s", rows[i].yaml, run.code, run.output.data);
        snprintf(at, sizeof at, "answers.yaml%s", rows[i].position);
        assert_contains(run.output.data, at);
        assert_contains(run.output.data, rows[i].part);
        run_end(&run);
    }
    run = explain(in_folder("c.yaml"), CHAT, (const char *const[]){"--answers", "/nowhere/a.yaml", NULL}, NULL);
    assert_int_equal(run.code, 2);
    assert_contains(run.output.data, "/nowhere/a.yaml");
    run_end(&run);
}

static void wrong_usage_and_a_wrong_configuration_are_2(void **state)
{
    static const struct {
        const char *more[6], *part;
    } rows[] = {
        {{"--path", "v1/completions"}, "begins with a slash"},
        {{"--path", "/v1/ x"}, "--path holds"},
        {{"--header", "nonsense"}, "NAME: VALUE"},
        {{"--header", "a b: c"}, "NAME: VALUE"},
        {{"--header", "Content-Length: 3"}, "framing"},
        {{"more"}, "usage"},
        {{"--request", "/nowhere/r.json"}, "/nowhere/r.json cannot be read"},
        {{"--nonsense"}, "not known"},
        {{"--config", "-", "--request", "-"}, "cannot both come from standard input"},
        {{"--config", "/nowhere/c.yaml"}, "/nowhere/c.yaml"},
    };
    struct run run;

    (void)state;
    configure(GATEWAY "pipeline:\n  steps:\n    - type: decode\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        run = explain(in_folder("c.yaml"), CHAT, rows[i].more, NULL);
        if (run.code != 2)
            fail_msg("%s: exit %d: %s", rows[i].more[0], run.code, run.output.data);
        assert_contains(run.output.data, rows[i].part);
        run_end(&run);
    }
    run = explain(configure(GATEWAY "pipeline:\n  steps:\n    - type: decoed\n"), CHAT, NULL, NULL);
    assert_int_equal(run.code, 2);
    assert_contains(run.output.data, "c.yaml:4:13: ");
    run_end(&run);
    run = explain(configure("server: {listen_addr: nowhere}\n" GATEWAY "pipeline:\n  steps:\n    - type: decode\n"),
                  CHAT, NULL, NULL);
    assert_int_equal(run.code, 2); /* of what a dry run does without, too */
    assert_contains(run.output.data, "c.yaml:1:23: ");
    run_end(&run);
}

/* What a file may be: a device, or a pipe that somebody keeps filling. */
static void a_request_without_an_end_is_read_up_to_the_limit(void **state)
{
    struct run run;

    (void)state;
    configure("server: {max_request_body_size: 1}\n" GATEWAY "pipeline:\n  steps:\n    - type: decode\n");
    run = explain(in_folder("c.yaml"), CHAT, (const char *const[6]){"--request", "/dev/zero"}, NULL);
    assert_int_equal(run.code, 1);
    assert_contains(run.output.data, "larger than server.max_request_body_size");
    run_end(&run);
}

static int explain_from_input(const char *config, struct text *output)
{
    char line[1024];

    configure(config);
    file_write(in_folder("request.json"), CHAT);
    snprintf(line, sizeof line, "'%s' explain --config - --request '%s' --json < '%s'", coordinator_program(),
             in_folder("request.json"), in_folder("c.yaml"));
    return run_program((const char *const[]){"/bin/sh", "-c", line, NULL}, NULL, output);
}

static void the_configuration_may_come_from_standard_input(void **state)
{
    struct text output = {0};

    (void)state;
    assert_int_equal(explain_from_input(GATEWAY "pipeline:\n  steps:\n    - type: decode\n", &output), 0);
    assert_contains(output.data, "\"pipeline\":\"default\"");
    text_clear(&output);
    assert_int_equal(explain_from_input(GATEWAY "pipeline:\n  steps:\n    - type: decoed\n", &output), 2);
    assert_contains(output.data, "<stdin>:4:13: ");
    text_free(&output);
}

/* ---- check --explain ---- */

static void check_tells_the_pipelines_as_composed(void **state)
{
    static const char config[] =
        "gateways:\n"
        "  default: {address: \"${GW}\"}\n"
        "  right: {address: \"https://right.invalid\"}\n"
        "  third: {address: \"http://third.invalid\", transport: curl}\n" PLUGIN "pipelines:\n"
        "- name: first\n"
        "  match: {models: [\"llama-*\", b], headers: {x-tenant: \"${TENANT}\"}, apis: messages}\n"
        "  gateway: right\n"
        "  kv_connector: kv-nixl\n"
        "  steps:\n"
        "    - {type: test-ask, params: {address: \"${ASKED:-http://unused}${PATH_OF_IT:-/there}\", token: "
        "its-token}}\n"
        "    - {type: prefill, when: {stream: true, media: false}, timeout: 300ms, on_error: continue}\n"
        "    - type: decode\n"
        "- {name: second, gateway: third, match: {models: x}, steps: [{type: decode}]}\n"
        "- {name: third, steps: [{type: test-park}, {type: decode}]}\n";
    static const char *const lines[] = {
        "pipeline first (",
        "\n  match: {models: [\"llama-*\", \"b\"], apis: [messages], headers: {x-tenant: [secret]}} (",
        "\n  gateway: right, https://right.invalid (",
        "c.yaml:3)\n  transport: libcurl (gateway.transport is auto, and the URL is https)\n",
        "\n  kv_connector: kv-nixl (",
        "\n  use_openai_format: true (default)\n",
        "\n  dp_size: [secret] (environment COORDINATOR_PIPELINE_DP_SIZE)\n",
        "\n  step test-ask (type test-ask of plugin rehearsed 1, ",
        "c.yaml:12)\n    when: always\n    timeout: none but those of its legs\n    on_error: fail\n",
        "\n    needs: nothing\n    provides: nothing\n    params:\n",
        "      address: [secret] (",
        "c.yaml:12, ${ASKED} is set, ${PATH_OF_IT} is not: default)\n",
        "\n      token: [secret] (",
        "\n    when: {stream: true, media: false} (",
        "c.yaml:13)\n    timeout: 0.3s\n    on_error: continue\n    needs: nothing\n    provides: kv_params\n",
        "\n    params:\n      kv_connector: kv-nixl (inherited from kv_connector at ",
        "c.yaml:10)\n      ec_connector: ec-shared-storage (default)\n",
        "      dp_size: [secret] (inherited from dp_size, environment COORDINATOR_PIPELINE_DP_SIZE)\n",
        "\n  writers: an answer's bytes pass those of step decode, then test-ask, then go to the client\n",
        "\n  gateway: third, http://third.invalid (",
        "c.yaml:4)\n  transport: libcurl (gateway.transport is curl)\n",
        "\n  match: every request\n  gateway: default, http://shown.invalid:8123 (",
        "c.yaml:2, ${GW} is set)\n  transport: direct (gateway.transport is auto, and the URL is http)\n",
        "c.yaml: good: 6 steps, 0 warnings\n",
    };
    struct text output = {0};
    const char *at;

    (void)state;
    configure(config);
    assert_int_equal(
        run_program(
            (const char *const[]){coordinator_program(), "check", "--explain", "--config", in_folder("c.yaml"), NULL},
            (const char *const[]){"GW=http://shown.invalid:8123/hidden", "TENANT=hidden", "ASKED=http://hidden.invalid",
                                  "COORDINATOR_PIPELINE_DP_SIZE=2", NULL},
            &output),
        0);
    at = output.data ? output.data : "";
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        const char *found = strstr(at, lines[i]);

        if (found)
            at = found + 1;
        else
            fail_msg("no \"%s\" (in this order) in: %s", lines[i], output.data);
    }
    assert_lacks(output.data, "hidden");
    assert_lacks(output.data, "its-token");
    text_free(&output);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_does_not_end_is_cut),
        TEST(an_answer_without_an_end_is_read_up_to_a_limit),
        TEST(secrets_and_what_came_from_the_environment_never_show),
        TEST(a_variable_of_a_keys_own_is_as_secret),
        TEST(a_broken_answers_file_is_refused_with_its_position),
        TEST(wrong_usage_and_a_wrong_configuration_are_2),
        TEST(a_request_without_an_end_is_read_up_to_the_limit),
        TEST(the_configuration_may_come_from_standard_input),
        TEST(check_tells_the_pipelines_as_composed),
    };

    harness_select();
    return cmocka_run_group_tests(tests, make_folder, remove_files);
}
