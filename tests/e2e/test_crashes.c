/*
 * A step that takes the process down, holds a reactor or does not come back names itself: which step, of which plugin, in
 * which request. Crashes go on to what would have happened without us: the signal's default action, or a sanitizer's report.
 */
#include "harness.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#define ID "x-request-id: request-of-the-test\r\n"

static const char STEPS[] = "    - {type: test-crash, id: fragile}\n    - type: decode\n";

static void deploy_crashing(const char *server)
{
    static char line[512];

    snprintf(line, sizeof line, "  load: [\"%s/crashing.so\"]", test_plugin_folder());
    deploy(&(struct plan){.plugins = line,
                          .steps = STEPS,
                          .server = server,
                          .runtime = "  reactors: 1",
                          /* a sanitizer's report goes to the log, not where those are collected that nobody expects */
                          .environment = (const char *const[]){"ASAN_OPTIONS=", "TSAN_OPTIONS=", NULL}});
}

/* The line that holds `part`, as a text of its own; "" when none does. */
static const char *log_line(const char *part)
{
    static char line[2048];
    const char *log = process_log(&deployed.coordinator);
    const char *at = strstr(log, part), *end;

    line[0] = '\0';
    if (!at)
        return line;
    while (at > log && at[-1] != '\n')
        at--;
    end = strchr(at, '\n');
    snprintf(line, sizeof line, "%.*s", (int)(end ? end - at : (ptrdiff_t)strlen(at)), at);
    return line;
}

static size_t count(const char *text, const char *part)
{
    size_t found = 0;

    for (; (text = strstr(text, part)) != NULL; text += strlen(part))
        found++;
    return found;
}

static void a_crash_leaves_one_line_with_step_plugin_and_request(void **state)
{
    static const struct {
        const char *way, *says;
        int signal;
    } rows[] = {
        {"segv", "crashed with SIGSEGV in step \"fragile\" of plugin ", SIGSEGV},
        {"abort", "crashed with SIGABRT in step \"fragile\" of plugin ", SIGABRT},
        {"overflow", "step \"fragile\" of plugin ", SIGSEGV},
        {"writer", "crashed with SIGSEGV in step \"fragile\" of plugin ", SIGSEGV},
        {"slot", "crashed with SIGSEGV in step \"fragile\" of plugin ", SIGSEGV},
        {"background", "crashed with SIGSEGV in step \"fragile\" of plugin ", SIGSEGV},
        {"offload", "crashed with SIGSEGV in step \"fragile\" of plugin ", SIGSEGV},
    };
    char fields[128];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct client *client;

        print_message("  %s\n", rows[i].way);
        deploy_crashing(NULL);
        deployed.unclean = deployed.reports = true;
        snprintf(fields, sizeof fields, ID "x-do: %s\r\n", rows[i].way);
        client = client_open(deployed.port);
        client_post(client, CHAT_PATH, fields, span_of(CHAT));
        assert_true(process_wait(&deployed.coordinator, PATIENCE_MS));
        if (sanitized())
            assert_int_not_equal(deployed.coordinator.code, 0); /* the sanitizer reports as well and ends it its way */
        else
            assert_int_equal(deployed.coordinator.code, 128 + rows[i].signal);
        assert_contains(log_line(rows[i].says), "/crashing.so");
        assert_contains(log_line(rows[i].says), "(request request-of-the-test)");
        snprintf(fields, sizeof fields, "on the way to %s request=", rows[i].way);
        assert_contains(process_log(&deployed.coordinator), fields); /* what was logged in the same turn is not lost */
        if (strcmp(rows[i].way, "overflow") == 0)
            assert_contains(log_line(rows[i].says), " KiB stack: raise runtime.fiber_stack");
        assert_int_equal(count(process_log(&deployed.coordinator), "in step \"fragile\"") +
                             count(process_log(&deployed.coordinator), "overflowed its"),
                         1);
        assert_int_equal(harness_end(NULL), 0);
    }
}

static void a_crash_while_a_step_is_made_names_the_step_too(void **state)
{
    struct text output = {0};
    char yaml[1024], path[96];

    (void)state;
    snprintf(path, sizeof path, "/tmp/e2e-crashes-%d.yaml", (int)getpid());
    snprintf(yaml, sizeof yaml,
             "plugins: {load: ['%s/crashing.so']}\ngateway: {address: 'http://x'}\npipeline:\n  steps:\n%s",
             test_plugin_folder(), STEPS);
    file_write(path, yaml);
    assert_int_not_equal(run_program((const char *const[]){coordinator_program(), "check", "--config", path, NULL},
                                     (const char *const[]){"CRASH_IN_CREATE=1", "ASAN_OPTIONS=", "TSAN_OPTIONS=", NULL},
                                     &output),
                         0);
    remove(path);
    assert_contains(output.data, "crashed with SIGSEGV in step \"fragile\" of plugin ");
    text_free(&output);
}

static void a_writer_that_blocks_is_named_by_its_steps_name_and_plugin(void **state)
{
    (void)state;
    deploy_crashing(NULL);
    assert_int_equal(fetch("POST", CHAT_PATH, "x-do: blocking-writer\r\n", CHAT)->answer.status, 200);
    UNTIL(strstr(process_log(&deployed.coordinator), "blocks its reactor"));
    assert_contains(log_line("blocks its reactor"), "step=fragile");
    assert_contains(log_line("blocks its reactor"), "/crashing.so");
    assert_true(strstr(process_log(&deployed.coordinator), "on the way to blocking-writer") <
                strstr(process_log(&deployed.coordinator), "blocks its reactor"));
}

static void a_step_that_does_not_return_after_its_cancellation_is_named_at_drain(void **state)
{
    static const struct {
        const char *way, *says;
    } rows[] = {
        {"hold", "and holds its reactor"},
        {"park", "let what it waits for end"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char fields[128];

        print_message("  %s\n", rows[i].way);
        deploy_crashing("  shutdown_timeout: 200ms");
        deployed.unclean = true;
        snprintf(fields, sizeof fields, ID "x-do: %s\r\n", rows[i].way);
        client_post(client_open(deployed.port), CHAT_PATH, fields, span_of(CHAT));
        pause_ms(200); /* the step has begun by then; nothing outside of it tells */
        process_signal(&deployed.coordinator, SIGTERM);
        assert_true(process_wait(&deployed.coordinator, PATIENCE_MS));
        assert_int_equal(deployed.coordinator.code, 1);
        assert_contains(log_line("did not return after its request was cancelled"), rows[i].says);
        assert_contains(log_line("did not return after its request was cancelled"), "step=fragile");
        assert_contains(log_line("did not return after its request was cancelled"), "/crashing.so");
        assert_contains(log_line("did not return after its request was cancelled"), "request-of-the-test");
        assert_int_equal(harness_end(NULL), 0);
    }
}

int main(void)
{
    const struct rlimit no_core = {0, 0};
    const struct CMUnitTest tests[] = {
        TEST(a_crash_leaves_one_line_with_step_plugin_and_request),
        TEST(a_crash_while_a_step_is_made_names_the_step_too),
        TEST(a_writer_that_blocks_is_named_by_its_steps_name_and_plugin),
        TEST(a_step_that_does_not_return_after_its_cancellation_is_named_at_drain),
    };

    setrlimit(RLIMIT_CORE, &no_core); /* the crashes are meant */
    return harness_run(tests);
}
