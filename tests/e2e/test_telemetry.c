/* What operators see: the metrics' page and the log. */
#include "harness.h"

#include <unistd.h>

static void after_requests_of_all_kinds_the_page_tells_of_them(void **state)
{
    static const char *const families[] = {
        "request_total",
        "request_error_total",
        "request_duration_seconds",
        "request_size_bytes",
        "request_input_tokens",
        "request_running",
        "response_size_bytes",
        "orchestration_overhead_seconds",
        "step_duration_seconds",
        "step_errors_total",
        "step_running",
        "upstream_request_total",
        "upstream_request_duration_seconds",
        "execution_path_total",
    };
    struct text page = {0};
    struct client *client;

    (void)state;
    deploy(&(struct plan){0});
    for (int i = 0; i < 3; i++)
        client_close(fetch("POST", CHAT_PATH, "", i ? STREAM : CHAT));
    client_close(fetch("POST", CHAT_PATH, "X-Sim-Fault-Prefill: status=500\r\n", CHAT));
    client_close(fetch("POST", CHAT_PATH, "X-Sim-Fault-Prefill: status=429\r\n", CHAT));
    client_close(fetch("POST", CHAT_PATH, "X-Sim-Fault-Decode: status=503\r\n", CHAT));
    client_close(fetch("POST", CHAT_PATH, "", "nonsense"));
    client_close(fetch("GET", "/v1/models", "", NULL)); /* not counted: no inference request */
    UNTIL(metric("request_total{model_name=\"m\"}") == 6);
    metrics_read(&page);
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        char line[128];

        snprintf(line, sizeof line, "# TYPE llm_d_coordinator_%s ", families[i]);
        assert_contains(page.data, line);
        snprintf(line, sizeof line, "# HELP llm_d_coordinator_%s [ALPHA] ", families[i]);
        assert_contains(page.data, line);
    }
    assert_true(metric("execution_path_total{model_name=\"m\",path=\"prefill-decode\"}") == 4);
    assert_true(metric("request_error_total{model_name=\"m\",error_code=\"upstream_5xx\"}") == 2);
    assert_true(metric("request_error_total{model_name=\"m\",error_code=\"upstream_4xx\"}") == 1);
    assert_true(metric("request_error_total{model_name=\"unknown\",error_code=\"bad_request\"}") == 1);
    assert_true(metric("request_running{model_name=\"m\"}") == 0);
    assert_true(metric("step_running{step=\"decode\"}") == 0);
    assert_true(metric("step_errors_total{step=\"prefill\",error_code=\"upstream_5xx\"}") == 1);
    assert_true(metric("step_duration_seconds_count{step=\"render\"}") == 6);
    assert_true(metric("request_input_tokens_count{model_name=\"m\"}") == 6);
    assert_true(metric("response_size_bytes_count{stream=\"true\"}") == 2);
    client = fetch_port(deployed.metrics_port, "GET", "/metrics", "", NULL);
    assert_contains(answer_header(client, "content-type"), "text/plain");
    text_free(&page);
}

static void a_running_request_shows_in_the_gauges(void **state)
{
    struct client *client;

    (void)state;
    deploy(&(struct plan){.sim_flags = (const char *const[]){"--delay", "decode=300", NULL}});
    client = client_open(deployed.port);
    client_post(client, CHAT_PATH, "", span_of(CHAT));
    UNTIL(metric("step_running{step=\"decode\"}") == 1);
    assert_true(metric("request_running{model_name=\"m\"}") == 1);
    assert_true(client_read(client, PATIENCE_MS));
    UNTIL(metric("request_running{model_name=\"m\"}") == 0);
    assert_true(metric("step_running{step=\"decode\"}") == 0);
}

static void promtool_finds_nothing(void **state)
{
    const char *promtool = getenv("PROMTOOL");
    struct text page = {0}, output = {0};
    char path[96], command[256];
    int code;

    (void)state;
    if (!promtool || !*promtool) {
        print_message("SKIP: PROMTOOL does not name a promtool\n");
        skip();
    }
    deploy(&(struct plan){0});
    client_close(fetch("POST", CHAT_PATH, "", CHAT));
    client_close(fetch("POST", CHAT_PATH, "", STREAM));
    client_close(fetch("POST", CHAT_PATH, "", "nonsense"));
    UNTIL(metric_sum("request_total") == 3);
    metrics_read(&page);
    snprintf(path, sizeof path, "%s/page", deployed.folder);
    file_write(path, page.data);
    snprintf(command, sizeof command, "%s check metrics < %s", promtool, path);
    code = run_program((const char *const[]){"/bin/sh", "-c", command, NULL}, NULL, &output);
    /* 3: remarks on style. It takes the `d` of the prefix llm_d for a unit; nothing else may be remarked. */
    if ((code != 0 && code != 3) ||
        text_count(&output, "\n") != text_count(&output, "metric names should not contain abbreviated units\n"))
        fail_msg("promtool ends with %d: %s", code, output.data);
    text_free(&page);
    text_free(&output);
}

static void the_page_speaks_openmetrics_to_those_who_ask(void **state)
{
    static const struct {
        const char *accept;
        bool openmetrics;
    } rows[] = {
        {"", false},
        {"Accept: */*\r\n", false},
        {"Accept: text/plain;version=0.0.4\r\n", false},
        {"Accept: application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1\r\n", true},
        {"Accept: application/openmetrics-text;q=0.2,text/plain;q=0.9\r\n", false},
    };

    (void)state;
    deploy(&(struct plan){0});
    client_close(fetch("POST", CHAT_PATH, "", CHAT));
    UNTIL(metric_sum("request_total") == 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct client *client = fetch_port(deployed.metrics_port, "GET", "/metrics", rows[i].accept, NULL);
        const char *body = client->answer.body.data;

        print_message("  %s\n", rows[i].accept);
        assert_contains(answer_header(client, "content-type"),
                        rows[i].openmetrics ? "application/openmetrics-text" : "text/plain");
        assert_int_equal(strcmp(body + client->answer.body.size - 6, "# EOF\n") == 0, rows[i].openmetrics);
        assert_contains(body, rows[i].openmetrics ? "# TYPE llm_d_coordinator_request counter\n"
                                                  : "# TYPE llm_d_coordinator_request_total counter\n");
        assert_contains(body, "llm_d_coordinator_request_total{model_name=\"m\"} 1");
    }
}

static void a_request_leaves_one_line_with_what_happened(void **state)
{
    static const char *const parts[] = {"request=my-id",
                                        "api=chat_completions",
                                        "model=m",
                                        "stream=true",
                                        "status=200",
                                        "outcome=complete",
                                        "path=prefill-decode",
                                        "steps=\"render=",
                                        "prefill=",
                                        "decode=",
                                        "legs=\"render:200=",
                                        "decode:200=",
                                        "prompt_tokens=",
                                        "bytes_in=",
                                        "bytes_out=",
                                        "client=127.0.0.1",
                                        "seconds=",
                                        "first_byte="};
    const char *line, *log;
    char copy[2048];

    (void)state;
    deploy(&(struct plan){0});
    client_close(fetch("POST", CHAT_PATH, "X-Request-Id: my-id\r\n", STREAM));
    UNTIL(strstr(process_log(&deployed.coordinator), "outcome="));
    log = process_log(&deployed.coordinator);
    line = strstr(log, "INFO  request ");
    assert_non_null(line);
    assert_null(strstr(line + 1, "INFO  request "));
    snprintf(copy, sizeof copy, "%.*s", (int)strcspn(line, "\n"), line);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        assert_contains(copy, parts[i]);
}

static void json_lines_stay_lines_whatever_a_client_sends(void **state)
{
    const char *log;

    (void)state;
    deploy(&(struct plan){.top = "log_level: 2\nlog: {format: json}", .not_ready = true});
    UNTIL(strstr(process_log(&deployed.coordinator), "\"port\":"));
    deployed.port = (uint16_t)strtoul(strstr(process_log(&deployed.coordinator), "\"port\":") + 7, NULL, 10);
    client_close(fetch("POST", CHAT_PATH, "", "{\"model\":\"a\\nb\\\"c\\u0000\\u001b[31m\",\"messages\":[]}"));
    UNTIL(strstr(process_log(&deployed.coordinator), "\"outcome\""));
    log = process_log(&deployed.coordinator);
    assert_lacks(log, "\x1b");
    for (const char *at = log; *at; at = strchr(at, '\n') + 1)
        assert_int_equal(*at, '{');
}

static void bodies_in_the_trace_are_redacted(void **state)
{
    (void)state;
    deploy(&(struct plan){.top = "log_level: 5"});
    client_close(fetch("POST", CHAT_PATH, "Authorization: Bearer hush-1\r\nX-Api-Key: hush-2\r\nCookie: hush-3\r\n",
                       "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"api_key\":\"hush-4\","
                       "\"metadata\":{\"password\":\"hush-5\"}}"));
    client_close(fetch("GET", "/x?token=1", "Authorization: Basic hush-6\r\n", NULL));
    UNTIL(strstr(process_log(&deployed.coordinator), "passthrough"));
    assert_lacks(process_log(&deployed.coordinator), "hush-");
}

static void trace_context_reaches_every_leg(void **state)
{
    static const char *const phases[] = {"render", "prefill", "decode"};
    static const char trace[] = "0af7651916cd43dd8448eb211c80319c";
    char fields[256];
    size_t copies;

    (void)state;
    deploy(&(struct plan){0});
    snprintf(fields, sizeof fields, "traceparent: 00-%s-b7ad6b7169203331-01\r\ntracestate: a=1\r\n", trace);
    client_close(fetch("POST", CHAT_PATH, fields, CHAT));
    for (size_t i = 0; i < 3; i++) {
        const char *value = header_in(transcript_find(phases[i], 0)->headers, "traceparent", &copies);

        assert_int_equal(copies, 1);
        assert_contains(value, trace);
    }
    client_close(fetch("POST", CHAT_PATH, "traceparent: rubbish\r\n", CHAT));
    for (size_t i = 0; i < 3; i++) {
        const char *value = header_in(transcript_find(phases[i], 1)->headers, "traceparent", &copies);

        if (value)
            assert_string_not_equal(value, "rubbish");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(after_requests_of_all_kinds_the_page_tells_of_them),
        TEST(a_running_request_shows_in_the_gauges),
        TEST(promtool_finds_nothing),
        TEST(the_page_speaks_openmetrics_to_those_who_ask),
        TEST(a_request_leaves_one_line_with_what_happened),
        TEST(json_lines_stay_lines_whatever_a_client_sends),
        TEST(bodies_in_the_trace_are_redacted),
        TEST(trace_context_reaches_every_leg),
    };

    return harness_run(tests);
}
