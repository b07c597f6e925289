/* Loading the configuration anew (decision 77): new requests get the new one, what began with the old one ends with it, and
 * whatever is wrong with the new one changes nothing. */
#include "harness.h"

#include <json-c/json.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#define SUCCESSES metric("config_reload_total{result=\"success\"}")
#define FAILURES metric("config_reload_total{result=\"failure\"}")
#define LIFE_STEP "    - type: test-life\n      params: {name: %s, events: \"%s\"%s}\n    - type: decode\n"

static const char *coordinator_log(void) { return process_log(&deployed.coordinator); }

static char *pid_path(void)
{
    static char path[128];

    snprintf(path, sizeof path, "%s/pid", deployed.folder);
    return path;
}

/* `coordinator reload`; its exit status. */
static int reload(struct text *output)
{
    return run_program((const char *const[]){coordinator_program(), "reload", "--pid-file", pid_path(), NULL}, NULL,
                       output);
}

static void assert_no_pid_files(void)
{
    char answers[160];

    snprintf(answers, sizeof answers, "%s.reload", pid_path());
    assert_int_equal(access(pid_path(), F_OK), -1);
    assert_int_equal(access(answers, F_OK), -1);
}

static void hang_up(void) { process_signal(&deployed.coordinator, SIGHUP); }

/* Two workers that tell themselves apart. */
static void say_old(struct stage *stage) { stage_json(stage, 200, "X-Worker: old\r\n", "{\"from\":\"old\"}"); }
static void say_new(struct stage *stage) { stage_json(stage, 200, "X-Worker: new\r\n", "{\"from\":\"new\"}"); }

static void chunk(struct stage *stage, const char *text) { stage_chunk(stage, text, strlen(text)); }

static void stream_until_the_gate(struct stage *stage)
{
    stage_stream_head(stage);
    chunk(stage, "data: {\"from\":\"old\"}\n\n");
    stage_wait_gate(stage, PATIENCE_MS);
    chunk(stage, "data: {\"to\":\"old\"}\n\ndata: [DONE]\n\n");
    stage_last_chunk(stage);
}

static void old_decode(struct stage *stage)
{
    bool streams = strstr(stage->request->body.data, "\"stream\":true") != NULL;

    (streams ? stream_until_the_gate : say_old)(stage);
}

static struct plan decode_at(const struct scripted *worker)
{
    return (struct plan){.no_sim = true, .gateway_port = scripted_port(worker), .steps = "    - type: decode\n"};
}

static void assert_answers(const char *who)
{
    char wanted[32];
    struct client *client = fetch("POST", CHAT_PATH, "", CHAT);

    snprintf(wanted, sizeof wanted, "{\"from\":\"%s\"}", who);
    assert_int_equal(client->answer.status, 200);
    assert_string_equal(client->answer.body.data, wanted);
    client_close(client);
}

/* ---- What a reload does ---- */

static void new_requests_get_the_new_one_and_streams_end_with_the_old_one(void **state)
{
    struct scripted *old = scripted_start(&(struct scripted_options){.decode = old_decode});
    struct scripted *new = scripted_start(&(struct scripted_options){.decode = say_new});
    struct client *streams[8], *kept;
    struct plan plan = decode_at(old);

    (void)state;
    plan.runtime = "  reactors: 2";
    deploy(&plan);
    assert_true(metric("config_generation") == 1);
    for (size_t i = 0; i < 8; i++) {
        streams[i] = client_open(deployed.port);
        client_post(streams[i], CHAT_PATH, "", span_of(STREAM));
        assert_true(client_read_head(streams[i], PATIENCE_MS));
    }
    kept = fetch("POST", CHAT_PATH, "", CHAT);
    assert_string_equal(kept->answer.body.data, "{\"from\":\"old\"}");
    plan.gateway_port = scripted_port(new);
    reconfigure(&plan);
    hang_up();
    UNTIL(SUCCESSES == 1);
    assert_true(metric("config_generation") == 2);
    for (int i = 0; i < 10; i++)
        assert_answers("new");
    /* The connection from before serves on, now with the new one. */
    client_post(kept, CHAT_PATH, "", span_of(CHAT));
    assert_true(client_read(kept, PATIENCE_MS));
    assert_string_equal(kept->answer.body.data, "{\"from\":\"new\"}");
    assert_int_equal(scripted_count(old, "decode"), 9);
    scripted_open_gate(old);
    for (size_t i = 0; i < 8; i++) {
        assert_true(client_read_body(streams[i], SIZE_MAX, PATIENCE_MS));
        assert_true(streams[i]->answer.whole);
        assert_contains(streams[i]->answer.body.data, "\"to\":\"old\"");
        assert_contains(streams[i]->answer.body.data, "[DONE]");
    }
    /* Nobody names the old gateway any more: its connections are closed, although they are not old. */
    UNTIL_WITHIN(scripted_open(old) == 0, sanitized() ? 3000 : 1500);
    UNTIL(strstr(coordinator_log(), "configuration reloaded"));
    assert_contains(coordinator_log(),
                    "generation=2 added=nothing removed=nothing changed=\"gateway default: address\"");
}

static void what_changed_is_named_and_nothing_is_told_of_values(void **state)
{
    char plugins[300], life[700];

    (void)state;
    deploy(&(struct plan){.steps = "    - {type: render, params: {address: \"@\"}}\n    - {type: prefill}\n"
                                   "    - {type: decode}\n"});
    snprintf(plugins, sizeof plugins, "  load: [\"%s/life.so\"]", test_plugin_folder());
    snprintf(life, sizeof life,
             "gateway: {address: \"@\"}\ngateways: {spare: {address: \"@\"}}\n"
             "pipelines:\n- name: first\n  match: {models: nobody}\n  steps: [{type: decode}]\n"
             "- name: default\n  kv_connector: kv-nixl\n  steps:\n"
             "    - {type: test-life, params: {password: hush-hush}}\n"
             "    - {type: decode, timeout: 77s}\n");
    reconfigure(&(struct plan){.plugins = plugins, .composition = life, .server = "  read_timeout: 29s"});
    hang_up();
    UNTIL(strstr(coordinator_log(), "configuration reloaded"));
    assert_contains(coordinator_log(),
                    "added=\"gateway spare, pipeline default: step test-life, pipeline first, plugin life\"");
    assert_contains(coordinator_log(), "removed=\"pipeline default: step render, pipeline default: step prefill\"");
    assert_contains(coordinator_log(),
                    "changed=\"server.read_timeout, plugins.load, pipeline default: step decode: timeout\"");
    assert_int_equal(fetch("POST", CHAT_PATH, "", CHAT)->answer.status, 200);
    /* A secret that changes is named like any other. */
    memcpy(strstr(life, "hush-hush"), "hush-hash", 9);
    reconfigure(&(struct plan){.plugins = plugins, .composition = life, .server = "  read_timeout: 29s"});
    hang_up();
    UNTIL(SUCCESSES == 2);
    UNTIL(strstr(coordinator_log(), "changed=\"pipeline default: step test-life: password\""));
    assert_lacks(coordinator_log(), "hush");
    /* Plugins go, too, and the log's level follows. */
    reconfigure(&(struct plan){.top = "log_level: 4", .steps = "    - type: decode\n"});
    hang_up();
    UNTIL(SUCCESSES == 3);
    UNTIL(strstr(coordinator_log(), "plugin life\""));
    assert_contains(coordinator_log(), "gateway spare, pipeline default: step test-life, pipeline first, plugin life");
    reconfigure(&(struct plan){.top = "log_level: 4", .steps = "    - type: test-life\n    - type: decode\n"});
    hang_up();
    UNTIL(FAILURES == 1);
    UNTIL(strstr(coordinator_log(), "unknown step type \"test-life\""));
}

static void settings_of_the_server_are_applied_or_named_as_waiting_for_a_restart(void **state)
{
    static char big[1200000];
    char server[300];

    (void)state;
    deploy(&(struct plan){.steps = "    - type: decode\n", .runtime = "  reactors: 1"});
    snprintf(big, sizeof big, "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"%*s\"}]}", 1100000, "x");
    assert_int_equal(fetch("POST", CHAT_PATH, "", big)->answer.status, 200);
    snprintf(server, sizeof server,
             "  max_request_body_size: 1\n  cors_origins: [\"*\"]\n  max_connections: 99\n  connection_memory: 32KiB\n"
             "  tls_min_version: VersionTLS13\n  read_timeout: 1s");
    reconfigure(&(struct plan){.listen = "127.0.0.1:1",
                               .server = server,
                               .runtime = "  reactors: 2\n  offload_threads: 9",
                               .steps = "    - type: decode\n"});
    hang_up();
    UNTIL(SUCCESSES == 1);
    UNTIL(strstr(coordinator_log(), "only a restart applies it"));
    assert_contains(coordinator_log(),
                    "changed, but only a restart applies it: server.listen_addr, server.tls_min_version, "
                    "server.connection_memory, server.max_connections, runtime.reactors, runtime.offload_threads");
    assert_contains(coordinator_log(),
                    "changed=\"server.read_timeout, server.max_request_body_size, server.cors_origins\"");
    assert_int_equal(fetch("POST", CHAT_PATH, "", big)->answer.status, 413);
    assert_non_null(
        answer_header(fetch("POST", CHAT_PATH, "Origin: http://a\r\n", CHAT), "access-control-allow-origin"));
    {
        struct client *slow = client_open(deployed.port);

        client_say(slow, "POST " CHAT_PATH " HTTP/1.1\r\nHost: c\r\n");
        assert_true(client_wait_closed(slow, 10000)); /* 30 s by the old one */
    }
    /* They go on waiting, also when nothing else changes. */
    hang_up();
    UNTIL(SUCCESSES == 2);
    UNTIL(strstr(coordinator_log(), "generation=3 added=nothing removed=nothing changed=nothing"));
    UNTIL(strstr(strstr(coordinator_log(), "generation=3"), "only a restart applies it: server.listen_addr"));
    /* Limits on what is in flight are of all reactors. */
    reconfigure(&(struct plan){
        .server = "  max_inflight_bytes: 10", .runtime = "  reactors: 1", .steps = "    - type: decode\n"});
    hang_up();
    UNTIL(SUCCESSES == 3);
    assert_int_equal(fetch("POST", CHAT_PATH, "", CHAT)->answer.status, 503);
}

static void stream_blocks(struct stage *stage)
{
    char block[4096];

    memset(block, 'x', sizeof block);
    memcpy(block, "data: ", 6);
    memcpy(block + sizeof block - 2, "\n\n", 2);
    stage_stream_head(stage);
    for (int i = 0; i < 1000 && !stage->bad; i++)
        stage_chunk(stage, block, sizeof block);
    stage_chunk(stage, "data: [DONE]\n\n", 14);
    stage_last_chunk(stage);
}

/* The marks between which a slow client's worker is paused must not get lost between two configurations. */
static void a_slow_stream_goes_on_when_the_marks_of_its_buffer_change(void **state)
{
    struct client *slow;
    struct plan plan = decode_at(scripted_start(&(struct scripted_options){.decode = stream_blocks}));

    (void)state;
    plan.response = "  buffer_high: 16KiB\n  buffer_low: 8KiB";
    deploy(&plan);
    slow = client_open_small(deployed.port, 4096);
    client_post(slow, CHAT_PATH, "", span_of(STREAM));
    assert_true(client_read_head(slow, PATIENCE_MS));
    plan.response = "  buffer_high: 64MiB\n  buffer_low: 32MiB";
    reconfigure(&plan);
    hang_up();
    UNTIL(SUCCESSES == 1);
    assert_true(client_read_body(slow, SIZE_MAX, PATIENCE_MS));
    assert_true(slow->answer.whole);
}

/* ---- What is wrong changes nothing ---- */

static void a_configuration_with_errors_changes_nothing_and_every_error_is_told(void **state)
{
    static const struct {
        const char *text, *parts[3];
    } rows[] = {
        {"gateway: {address: [oops\n", {"coordinator.yaml:", "error"}},
        {"gateway: {adress: \"http://a\"}\npipeline: {steps: [{type: decod}]}\n",
         {"coordinator.yaml:1:11: ", "did you mean \"address\"", "coordinator.yaml:2:27: unknown step type"}},
        {"gateway: {address: \"http://a\"}\npipeline: {steps: [{type: render}]}\n", {"coordinator.yaml:2:"}},
    };
    struct scripted *worker = scripted_start(&(struct scripted_options){.decode = say_old});
    struct plan plan = decode_at(worker);
    struct text output = {0};

    (void)state;
    plan.pid_file = true;
    deploy(&plan);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        file_write(deployed.config, rows[i].text);
        text_clear(&output);
        assert_int_equal(reload(&output), 2);
        assert_true(FAILURES == (double)i + 1);
        for (size_t k = 0; k < 3 && rows[i].parts[k]; k++) {
            if (k > 0 || i > 0)
                assert_contains(output.data, rows[i].parts[k]);
            assert_contains(coordinator_log(), rows[i].parts[k]);
        }
        assert_answers("old");
    }
    unlink(deployed.config);
    hang_up();
    UNTIL(FAILURES == 4);
    UNTIL(strstr(coordinator_log(), "coordinator.yaml: cannot be read"));
    assert_answers("old");
    assert_true(metric("config_generation") == 1);
    assert_true(SUCCESSES <= 0);
    assert_contains(coordinator_log(),
                    "configuration not reloaded, generation 1 serves on: the configuration has errors");
    text_free(&output);
}

static struct plan life_plan(char steps[600], const char *name, const char *more)
{
    static char plugins[300], events[128];

    snprintf(plugins, sizeof plugins, "  load: [\"%s/life.so\"]", test_plugin_folder());
    snprintf(events, sizeof events, "%s/events", deployed.folder);
    snprintf(steps, 600, LIFE_STEP, name, events, more);
    return (struct plan){.plugins = plugins, .steps = steps, .runtime = "  reactors: 3"};
}

static size_t events(const char *event)
{
    struct text text = {0};
    char path[128];
    size_t count;

    snprintf(path, sizeof path, "%s/events", deployed.folder);
    count = file_read(path, &text) && text.size > 0 ? text_count(&text, event) : 0;
    text_free(&text);
    return count;
}

static void deploy_life(void)
{
    char steps[600];
    struct plan plan;

    deploy(&(struct plan){.steps = "    - type: decode\n", .runtime = "  reactors: 3"});
    plan = life_plan(steps, "first", "");
    reconfigure(&plan);
    hang_up();
    UNTIL(SUCCESSES == 1);
    assert_int_equal(events("first start\n"), 1);
    assert_int_equal(events("first thread_start\n"), 3);
}

static void reconfigure_life(const char *name, const char *more)
{
    char steps[600];
    struct plan plan = life_plan(steps, name, more);

    reconfigure(&plan);
}

static void a_generation_lives_until_its_last_request_and_each_part_of_it_once(void **state)
{
    struct client *stream;

    (void)state;
    deploy_life();
    stream = client_open(deployed.port);
    client_post(stream, CHAT_PATH, "X-Sim-Fault-Decode: delay=50\r\n", span_of(STREAM));
    assert_true(client_read_head(stream, PATIENCE_MS));
    reconfigure_life("second", "");
    hang_up();
    UNTIL(SUCCESSES == 2);
    assert_true(client_read_body(stream, SIZE_MAX, PATIENCE_MS));
    UNTIL(events("first destroy\n") == 1);
    assert_int_equal(events("first thread_stop\n"), 3);
    assert_int_equal(events("first stop\n"), 1);
    assert_int_equal(events("second thread_start\n"), 3);
    assert_int_equal(events("second thread_stop\n"), 0);
    undeploy();
    assert_int_equal(events("second thread_stop\n"), 3);
    assert_int_equal(events("second stop\n"), 1);
    assert_int_equal(events("second destroy\n"), 1);
    assert_int_equal(events("first destroy\n"), 1);
}

static void a_generation_lives_until_its_last_work_in_the_background(void **state)
{
    struct text text = {0};
    char path[128];

    (void)state;
    deploy_life();
    reconfigure_life("busy", ", background: 1s");
    hang_up();
    UNTIL(SUCCESSES == 2);
    assert_int_equal(fetch("POST", CHAT_PATH, "", CHAT)->answer.status, 200);
    reconfigure_life("last", "");
    hang_up();
    UNTIL(SUCCESSES == 3);
    UNTIL(events("busy destroy\n") == 1);
    assert_int_equal(events("busy background\n"), 1);
    snprintf(path, sizeof path, "%s/events", deployed.folder);
    assert_true(file_read(path, &text));
    assert_true(strstr(text.data, "busy background") < strstr(text.data, "busy stop"));
    text_free(&text);
}

static void many_generations_live_side_by_side_and_a_drain_waits_for_all_of_them(void **state)
{
    enum { COUNT = 5 };
    struct scripted *worker = scripted_start(&(struct scripted_options){.decode = old_decode});
    struct client *streams[COUNT];
    char steps[600], name[16];

    (void)state;
    deploy_life();
    for (int i = 0; i < COUNT; i++) {
        struct plan plan;

        snprintf(name, sizeof name, "number-%d", i);
        plan = life_plan(steps, name, "");
        plan.gateway_port = scripted_port(worker);
        reconfigure(&plan);
        hang_up();
        UNTIL(SUCCESSES == i + 2);
        streams[i] = client_open(deployed.port);
        client_post(streams[i], CHAT_PATH, "", span_of(STREAM));
        assert_true(client_read_head(streams[i], PATIENCE_MS));
    }
    UNTIL(events(" destroy\n") == 1); /* that of deploy_life */
    process_signal(&deployed.coordinator, SIGTERM);
    UNTIL(strstr(coordinator_log(), "draining"));
    scripted_open_gate(worker);
    for (int i = 0; i < COUNT; i++) {
        assert_true(client_read_body(streams[i], SIZE_MAX, PATIENCE_MS));
        assert_contains(streams[i]->answer.body.data, "[DONE]");
    }
    assert_true(process_wait(&deployed.coordinator, PATIENCE_MS));
    assert_int_equal(deployed.coordinator.code, 0);
    assert_int_equal(events(" destroy\n"), COUNT + 1);
    assert_int_equal(events(" thread_stop\n"), 3 * (COUNT + 1));
}

static void a_step_that_does_not_start_changes_nothing(void **state)
{
    (void)state;
    deploy_life();
    reconfigure_life("second", ", fail_start: true");
    hang_up();
    UNTIL(FAILURES == 1);
    UNTIL(strstr(coordinator_log(), "generation 2 serves on: a step did not start"));
    assert_contains(coordinator_log(), "step test-life: it was told to fail");
    assert_int_equal(events("second destroy\n"), 1);
    /* Two reactors enter it, the third cannot: they leave it again. */
    reconfigure_life("third", ", fail_thread: 2");
    hang_up();
    UNTIL(FAILURES == 2);
    UNTIL(events("third destroy\n") == 1);
    assert_int_equal(events("third thread_start\n"), 2);
    assert_int_equal(events("third thread_stop\n"), 2);
    assert_int_equal(events("third stop\n"), 1);
    UNTIL(strstr(coordinator_log(), "test-life: this thread was told to fail"));
    assert_int_equal(fetch("POST", CHAT_PATH, "", CHAT)->answer.status, 200);
    assert_int_equal(events("first thread_stop\n"), 0);
    assert_true(metric("config_generation") == 2);
}

/* ---- Signals at bad moments ---- */

static void requests_are_served_while_a_reload_takes_its_time(void **state)
{
    int64_t began, worst = 0;

    (void)state;
    deploy_life();
    reconfigure_life("slow", ", start: 1s");
    hang_up();
    for (int i = 0; SUCCESSES < 2; i++) {
        began = now_ms();
        assert_int_equal(fetch("POST", CHAT_PATH, "", CHAT)->answer.status, 200);
        worst = now_ms() - began > worst ? now_ms() - began : worst;
    }
    assert_true(worst < 700);
}

static void two_signals_at_once_are_no_less_than_one_reload_after_the_last(void **state)
{
    (void)state;
    deploy_life();
    reconfigure_life("slow", ", start: 1s"); /* all five signals come while it is still being loaded */
    hang_up();
    UNTIL(events("slow starting\n") == 1);
    reconfigure_life("last", "");
    for (int i = 0; i < 5; i++)
        hang_up();
    UNTIL(events("last thread_start\n") == 3);
    UNTIL(SUCCESSES == 3);
    UNTIL(events("slow destroy\n") == 1);
    assert_true(metric("config_generation") == 4);
}

static void a_process_that_is_to_end_does_not_wait_for_a_reload(void **state)
{
    int64_t began;

    (void)state;
    deploy_life();
    /* Every reactor is busy entering it for a while. */
    reconfigure_life("second", ", thread: 700ms");
    hang_up();
    UNTIL(events("second start\n") == 1);
    began = now_ms();
    process_signal(&deployed.coordinator, SIGTERM);
    assert_true(process_wait(&deployed.coordinator, PATIENCE_MS));
    assert_true(now_ms() - began < 5000);
    assert_int_equal(deployed.coordinator.code, 0);
    assert_int_equal(events("first destroy\n"), 1);
    assert_int_equal(events("second destroy\n"), 1);
    assert_int_equal(events("second thread_start\n"), events("second thread_stop\n"));
    assert_contains(coordinator_log(), "generation 2 serves on: the process is to end");
}

static void a_signal_during_the_drain_is_not_looked_at(void **state)
{
    struct scripted *worker = scripted_start(&(struct scripted_options){.decode = old_decode});
    struct plan plan = decode_at(worker);
    struct client *stream;
    struct text output = {0};

    (void)state;
    plan.pid_file = true;
    deploy(&plan);
    stream = client_open(deployed.port);
    client_post(stream, CHAT_PATH, "", span_of(STREAM));
    assert_true(client_read_head(stream, PATIENCE_MS));
    process_signal(&deployed.coordinator, SIGTERM);
    UNTIL(strstr(coordinator_log(), "draining"));
    hang_up();
    assert_int_equal(reload(&output), 1);
    assert_contains(output.data, "the coordinator is ending");
    scripted_open_gate(worker);
    assert_true(client_read_body(stream, SIZE_MAX, PATIENCE_MS));
    assert_contains(stream->answer.body.data, "[DONE]");
    assert_true(process_wait(&deployed.coordinator, PATIENCE_MS));
    assert_int_equal(deployed.coordinator.code, 0);
    assert_lacks(coordinator_log(), "reloading");
    assert_no_pid_files();
    text_free(&output);
}

/* ---- The pid file ---- */

static void a_reload_by_pid_file_waits_for_its_result(void **state)
{
    struct scripted *old = scripted_start(&(struct scripted_options){.decode = say_old});
    struct scripted *new = scripted_start(&(struct scripted_options){.decode = say_new});
    struct plan plan = decode_at(old);
    struct text output = {0};
    char pid[32];

    (void)state;
    plan.pid_file = true;
    deploy(&plan);
    snprintf(pid, sizeof pid, "%ld\n", (long)deployed.coordinator.pid);
    assert_true(file_read(pid_path(), &output));
    assert_string_equal(output.data, pid);
    for (int i = 0; i < 4; i++) {
        plan.gateway_port = scripted_port(i % 2 ? old : new);
        reconfigure(&plan);
        text_clear(&output);
        assert_int_equal(reload(&output), 0);
        assert_contains(output.data, "changed: gateway default: address");
        assert_answers(i % 2 ? "old" : "new"); /* at once, on every reactor */
    }
    plan.runtime = "  reactors: 3";
    reconfigure(&plan);
    text_clear(&output);
    assert_int_equal(reload(&output), 0);
    assert_contains(output.data, "only a restart applies it: runtime.reactors");
    undeploy();
    assert_no_pid_files();
    text_clear(&output);
    assert_int_equal(reload(&output), 1);
    assert_contains(output.data, "pid: No such file");
    text_free(&output);
}

static void a_pid_file_of_a_dead_process_is_taken_over_and_one_in_use_is_not(void **state)
{
    struct plan plan = {.steps = "    - type: decode\n", .pid_file = true};
    struct text output = {0};
    char pid[32], copy[96], words[256];

    (void)state;
    deploy(&plan);
    snprintf(pid, sizeof pid, "%ld\n", (long)deployed.coordinator.pid);
    snprintf(words, sizeof words, "--pid-file %s belongs to a coordinator that runs, process %ld", pid_path(),
             (long)deployed.coordinator.pid);
    assert_int_equal(run_program((const char *const[]){coordinator_program(), "serve", "--config", deployed.config,
                                                       "--pid-file", pid_path(), NULL},
                                 NULL, &output),
                     1);
    assert_contains(output.data, words);
    text_clear(&output);
    assert_true(file_read(pid_path(), &output));
    assert_string_equal(output.data, pid);
    /* Its process is killed: the file stays behind. */
    deployed.unclean = true;
    process_signal(&deployed.coordinator, SIGKILL);
    assert_true(process_wait(&deployed.coordinator, PATIENCE_MS));
    assert_int_equal(access(pid_path(), F_OK), 0);
    text_clear(&output);
    assert_int_equal(reload(&output), 1);
    assert_contains(output.data, "is stale");
    /* One that a number of another live process stands in is as stale: ours. */
    snprintf(copy, sizeof copy, "%ld\n", (long)getpid());
    file_write(pid_path(), copy);
    text_clear(&output);
    assert_int_equal(reload(&output), 1);
    assert_contains(output.data, "is stale");
    start_again(&plan);
    text_clear(&output);
    assert_int_equal(reload(&output), 0);
    file_write(pid_path(), "nonsense\n");
    text_clear(&output);
    assert_int_equal(reload(&output), 1);
    assert_contains(output.data, "is no pid file");
    text_free(&output);
}

static void a_configuration_from_standard_input_cannot_be_read_again(void **state)
{
    struct plan plan = {.steps = "    - type: decode\n", .pid_file = true, .stdin_config = true};
    struct text output = {0};

    (void)state;
    deploy(&plan);
    assert_int_equal(reload(&output), 1);
    assert_contains(output.data, "standard input");
    assert_true(FAILURES == 1);
    assert_int_equal(fetch("POST", CHAT_PATH, "", CHAT)->answer.status, 200);
    text_free(&output);
}

/* The one thread that looks at signals must not wait for somebody to write. */
static void a_configuration_that_has_become_a_pipe_is_not_waited_for(void **state)
{
    struct scripted *worker = scripted_start(&(struct scripted_options){.decode = say_old});
    struct plan plan = decode_at(worker);
    struct text output = {0};

    (void)state;
    plan.pid_file = true;
    deploy(&plan);
    unlink(deployed.config);
    assert_int_equal(mkfifo(deployed.config, 0600), 0);
    assert_int_equal(reload(&output), 1);
    assert_contains(output.data, "--config is a pipe, which cannot be read again");
    assert_answers("old");
    text_free(&output);
}

static void a_reload_that_takes_too_long_is_not_waited_for(void **state)
{
    struct text output = {0};
    char steps[600];
    struct plan plan;

    (void)state;
    deploy(&(struct plan){.steps = "    - type: decode\n", .pid_file = true});
    plan = life_plan(steps, "slow", ", start: 2s");
    reconfigure(&plan);
    assert_int_equal(run_program((const char *const[]){coordinator_program(), "reload", "--pid-file", pid_path(),
                                                       "--timeout", "200ms", NULL},
                                 NULL, &output),
                     1);
    assert_contains(output.data, "did not answer in time");
    /* The next one does not take the answer to that one for its own. */
    plan = life_plan(steps, "second", "");
    reconfigure(&plan);
    text_clear(&output);
    assert_int_equal(reload(&output), 0);
    assert_contains(output.data, "generation 3");
    assert_int_equal(run_program((const char *const[]){coordinator_program(), "reload", NULL}, NULL, &output), 2);
    text_free(&output);
}

/* ---- Plugin files ---- */

static void copy_file(const char *from, const char *to)
{
    struct text text = {0};
    char made[200];
    FILE *file;

    snprintf(made, sizeof made, "%s.new", to);
    assert_true(file_read(from, &text));
    file = fopen(made, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(text.data, 1, text.size, file), text.size);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(rename(made, to), 0);
    text_free(&text);
}

static void a_plugin_file_that_changed_is_named_and_its_loaded_code_runs_on(void **state)
{
    char from[300], file[160], plugins[200];
    struct plan plan = {.steps = "    - type: test-life\n    - type: decode\n"};

    (void)state;
    deploy(&(struct plan){.steps = "    - type: decode\n"});
    snprintf(from, sizeof from, "%s/life.so", test_plugin_folder());
    snprintf(file, sizeof file, "%s/mine.so", deployed.folder);
    snprintf(plugins, sizeof plugins, "  load: [\"%s\"]", file);
    plan.plugins = plugins;
    copy_file(from, file);
    reconfigure(&plan);
    hang_up();
    UNTIL(SUCCESSES == 1);
    assert_lacks(coordinator_log(), "has changed on disk");
    copy_file(from, file);
    hang_up();
    UNTIL(SUCCESSES == 2);
    UNTIL(strstr(coordinator_log(), "mine.so has changed on disk; the code that is loaded runs on until a restart"));
    assert_int_equal(fetch("POST", CHAT_PATH, "", CHAT)->answer.status, 200);
    /* Even what is no plugin any more. */
    file_write(file, "nonsense");
    hang_up();
    UNTIL(SUCCESSES == 3);
    assert_int_equal(fetch("POST", CHAT_PATH, "", CHAT)->answer.status, 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(new_requests_get_the_new_one_and_streams_end_with_the_old_one),
        TEST(what_changed_is_named_and_nothing_is_told_of_values),
        TEST(settings_of_the_server_are_applied_or_named_as_waiting_for_a_restart),
        TEST(a_slow_stream_goes_on_when_the_marks_of_its_buffer_change),
        TEST(a_configuration_with_errors_changes_nothing_and_every_error_is_told),
        TEST(a_generation_lives_until_its_last_request_and_each_part_of_it_once),
        TEST(a_generation_lives_until_its_last_work_in_the_background),
        TEST(many_generations_live_side_by_side_and_a_drain_waits_for_all_of_them),
        TEST(a_step_that_does_not_start_changes_nothing),
        TEST(requests_are_served_while_a_reload_takes_its_time),
        TEST(two_signals_at_once_are_no_less_than_one_reload_after_the_last),
        TEST(a_process_that_is_to_end_does_not_wait_for_a_reload),
        TEST(a_signal_during_the_drain_is_not_looked_at),
        TEST(a_reload_by_pid_file_waits_for_its_result),
        TEST(a_pid_file_of_a_dead_process_is_taken_over_and_one_in_use_is_not),
        TEST(a_configuration_from_standard_input_cannot_be_read_again),
        TEST(a_configuration_that_has_become_a_pipe_is_not_waited_for),
        TEST(a_reload_that_takes_too_long_is_not_waited_for),
        TEST(a_plugin_file_that_changed_is_named_and_its_loaded_code_runs_on),
    };

    return harness_run(tests);
}
