/* Plugins that misbehave: they are named, and they take nothing else down that they need not. */
#include "harness.h"

#include <signal.h>
#include <unistd.h>

static const char *plugins_line(void)
{
    static char line[512];

    snprintf(line, sizeof line, "  load: [\"%s/misbehaving.so\"]", test_plugin_folder());
    return line;
}

static void a_step_that_blocks_its_reactor_is_named(void **state)
{
    (void)state;
    deploy(&(struct plan){.plugins = plugins_line(),
                          .steps = "    - type: test-block\n    - type: decode\n",
                          .runtime = "  reactors: 1"});
    assert_int_equal(fetch("POST", CHAT_PATH, "X-Block: 1\r\n", CHAT)->answer.status, 200);
    UNTIL(strstr(process_log(&deployed.coordinator), "blocks its reactor"));
    assert_contains(strstr(process_log(&deployed.coordinator), "blocks its reactor"), "test-block");
    assert_contains(strstr(process_log(&deployed.coordinator), "blocks its reactor"), "/misbehaving.so");
    UNTIL(metric_sum("reactor_blocked_total") >= 1);
}

static void a_step_that_overflows_its_stack_is_reported_and_the_process_ends(void **state)
{
    struct client *client;

    (void)state;
    deploy(&(struct plan){.plugins = plugins_line(),
                          .steps = "    - type: test-overflow\n    - type: decode\n",
                          /* a sanitizer's report goes to the log, not where those are collected that nobody expects */
                          .environment = (const char *const[]){"ASAN_OPTIONS=", "TSAN_OPTIONS=", NULL}});
    deployed.unclean = deployed.reports = true;
    client = fetch("POST", CHAT_PATH, "", CHAT);
    assert_true(client->ended);
    assert_true(process_wait(&deployed.coordinator, PATIENCE_MS));
    assert_int_not_equal(deployed.coordinator.code, 0);
    assert_contains(process_log(&deployed.coordinator), "step \"test-overflow\" of plugin ");
    assert_contains(process_log(&deployed.coordinator), "runtime.fiber_stack");
}

static void steps_that_fail_or_end_without_an_answer_are_a_500_that_names_them(void **state)
{
    struct client *client;

    (void)state;
    deploy(&(struct plan){.plugins = plugins_line(), .steps = "    - type: test-fail\n    - type: decode\n"});
    client = fetch("POST", CHAT_PATH, "", CHAT);
    assert_int_equal(client->answer.status, 500);
    assert_contains(client->answer.body.data, "test-fail");
    assert_int_equal(harness_end(NULL), 0);
    deploy(&(struct plan){.plugins = plugins_line(), .steps = "    - type: test-unanswered\n    - type: decode\n"});
    client = fetch("POST", CHAT_PATH, "", CHAT);
    assert_int_equal(client->answer.status, 500);
    assert_contains(client->answer.body.data, "test-unanswered");
}

static void files_that_are_no_plugins_are_refused_by_name(void **state)
{
    struct text output = {0};
    char yaml[512], path[64];
    static const struct {
        const char *file, *part;
    } rows[] = {{"/etc/hostname", "/etc/hostname"},
                {"/nowhere/x.so", "/nowhere/x.so"},
                {"/tmp", "/tmp"},
                {"/lib/x86_64-linux-gnu/libc.so.6", "plugin"}};

    (void)state;
    snprintf(path, sizeof path, "/tmp/e2e-plugins-%d.yaml", (int)getpid());
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(yaml, sizeof yaml,
                 "plugins: {load: ['%s']}\ngateway: {address: 'http://x'}\npipeline:\n  steps:\n    - type: decode\n",
                 rows[i].file);
        file_write(path, yaml);
        assert_int_equal(
            run_program((const char *const[]){coordinator_program(), "check", "--config", path, NULL}, NULL, &output),
            2);
        assert_contains(output.data, rows[i].part);
        remove(path);
    }
    text_free(&output);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_step_that_blocks_its_reactor_is_named),
        TEST(a_step_that_overflows_its_stack_is_reported_and_the_process_ends),
        TEST(steps_that_fail_or_end_without_an_answer_are_a_500_that_names_them),
        TEST(files_that_are_no_plugins_are_refused_by_name),
    };

    return harness_run(tests);
}
