/* Composition (decisions 70 to 74): which pipeline serves a request, which of its steps run, and what the failure of one means. */
#include "harness.h"

#define RENDER "    - {type: render, params: {address: \"@\"}}\n"

static struct client *ask(const char *target, const char *model, const char *more)
{
    char body[512];

    snprintf(body, sizeof body,
             "{\"model\":\"%s\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"max_tokens\":5%s}", model,
             more);
    return fetch("POST", target, "", body);
}

/* ---- Pipelines ---- */

static const char TWO[] = "gateway: {address: \"@\"}\n"
                          "pipelines:\n"
                          "- name: llamas\n"
                          "  match: {models: [\"llama-*\"]}\n"
                          "  kv_connector: kv-nixl\n"
                          "  steps:\n" RENDER "    - {type: prefill}\n"
                          "    - {type: decode}\n"
                          "- name: mixtral\n"
                          "  match: {models: mixtral, apis: [chat_completions, messages]}\n"
                          "  kv_connector: kv-shared-storage\n"
                          "  steps:\n"
                          "    - {type: prefill}\n"
                          "    - {type: decode}\n";

enum { ROUNDS = 20 };

static void two_models_have_their_own_connectors_at_once(void **state)
{
    struct client *llamas[ROUNDS], *mixtrals[ROUNDS];

    (void)state;
    deploy(&(struct plan){.composition = TWO, .sim_flags = (const char *const[]){"--delay", "prefill=20", NULL}});
    for (int i = 0; i < ROUNDS; i++) {
        llamas[i] = client_open(deployed.port);
        mixtrals[i] = client_open(deployed.port);
        client_post(llamas[i], CHAT_PATH, "",
                    span_of("{\"model\":\"llama-3\",\"messages\":[{\"role\":\"user\",\"content\":\"one\"}]}"));
        client_post(mixtrals[i], CHAT_PATH, "",
                    span_of("{\"model\":\"mixtral\",\"messages\":[{\"role\":\"user\",\"content\":\"two\"}]}"));
    }
    for (int i = 0; i < ROUNDS; i++) {
        assert_true(client_read(llamas[i], PATIENCE_MS) && client_read(mixtrals[i], PATIENCE_MS));
        assert_int_equal(llamas[i]->answer.status, 200);
        assert_int_equal(mixtrals[i]->answer.status, 200);
        assert_contains(llamas[i]->answer.body.data, "\"model\":\"llama-3\"");
        assert_contains(mixtrals[i]->answer.body.data, "\"model\":\"mixtral\"");
    }
    assert_int_equal(sim_count("hits"), ROUNDS);
    assert_int_equal(sim_count("stranded"), 0);
    assert_int_equal(sim_count("misses"), 0);
    assert_int_equal(sim_count("shared_stored"), ROUNDS);
    assert_int_equal(sim_count("shared_hits"), ROUNDS);
    assert_int_equal(sim_count("requests.render"), ROUNDS);
    /* Ids are unique in their pipeline; one label adds them up. */
    UNTIL(metric("step_duration_seconds_count{step=\"decode\"}") == 2 * ROUNDS);
}

static void a_request_that_no_pipeline_matches_is_told_so_in_its_apis_shape(void **state)
{
    static const struct {
        const char *target, *model, *parts[4];
    } rows[] = {
        {CHAT_PATH, "other", {"{\"error\":{", "\"code\":\"model_not_found\"", "\\\"other\\\""}},
        {"/v1/responses", "mixtral", {"{\"error\":{", "\"code\":\"model_not_found\"", "/v1/responses"}},
        {"/v1/messages", "other", {"{\"type\":\"error\",\"error\":{", "\"type\":\"not_found_error\"", "\\\"other\\\""}},
    };

    (void)state;
    deploy(&(struct plan){.composition = TWO});
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct client *client = ask(rows[i].target, rows[i].model, "");

        assert_int_equal(client->answer.status, 404);
        for (size_t k = 0; k < 4 && rows[i].parts[k]; k++)
            assert_contains(client->answer.body.data, rows[i].parts[k]);
        /* A stream that was asked for did not begin either. */
        client = ask(rows[i].target, rows[i].model, ",\"stream\":true");
        assert_int_equal(client->answer.status, 404);
        assert_string_equal(answer_header(client, "content-type"), "application/json");
    }
    assert_int_equal(ask("/v1/messages", "mixtral", "")->answer.status, 200);
    assert_int_equal(sim_count("requests.prefill"), 1);
    assert_int_equal(sim_count("requests.render"), 0);
}

static void each_pipeline_has_its_gateway(void **state)
{
    struct scripted *left = scripted_start(&(struct scripted_options){0});
    struct scripted *right = scripted_start(&(struct scripted_options){0});
    char yaml[1024];

    (void)state;
    snprintf(yaml, sizeof yaml,
             "gateways:\n"
             "  left: {address: \"http://127.0.0.1:%u\"}\n"
             "  right: {address: \"http://127.0.0.1:%u\"}\n"
             "pipelines:\n"
             "- {name: gold, gateway: right, match: {headers: {x-tenant: gold}}, steps: [{type: decode}]}\n"
             "- {name: rest, gateway: left, steps: [{type: decode}]}\n",
             scripted_port(left), scripted_port(right));
    deploy(&(struct plan){.no_sim = true, .composition = yaml});
    assert_int_equal(fetch("POST", CHAT_PATH, "X-Tenant: gold\r\n", CHAT)->answer.status, 200);
    assert_int_equal(scripted_count(left, "decode"), 0);
    assert_int_equal(scripted_count(right, "decode"), 1);
    assert_int_equal(fetch("POST", CHAT_PATH, "X-Tenant: tin\r\n", CHAT)->answer.status, 200);
    assert_int_equal(scripted_count(left, "decode"), 1);
    assert_int_equal(scripted_count(right, "decode"), 1);
    /* None is called default: nothing is passed through. */
    assert_int_equal(fetch("GET", "/version", "", NULL)->answer.status, 404);
    assert_int_equal(scripted_count(left, NULL) + scripted_count(right, NULL), 2);
}

/* ---- Conditions ---- */

static void short_prompts_go_straight_to_decode(void **state)
{
    static const char LONG[] = "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\""
                               "one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
                               "one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
                               "one two three four five six seven eight nine ten eleven twelve thirteen fourteen\"}]}";

    (void)state;
    deploy(&(struct plan){.top = "log_level: 4",
                          .steps = RENDER "    - type: prefill\n      when: {prompt_tokens: {min: 40}}\n"
                                          "    - type: decode\n"});
    assert_int_equal(fetch("POST", CHAT_PATH, "", CHAT)->answer.status, 200);
    assert_int_equal(sim_count("requests.prefill"), 0);
    assert_null(strstr(transcript_find("decode", 0)->body.data, "remote_engine_id"));
    assert_int_equal(fetch("POST", CHAT_PATH, "", LONG)->answer.status, 200);
    assert_int_equal(sim_count("requests.prefill"), 1);
    assert_int_equal(sim_count("hits"), 1);
    UNTIL(metric("execution_path_total{model_name=\"m\",path=\"prefill-decode\"}") == 1);
    assert_true(metric("execution_path_total{model_name=\"m\",path=\"decode-only\"}") == 1);
    assert_true(metric("step_skipped_total{step=\"prefill\"}") == 1);
    assert_contains(process_log(&deployed.coordinator), "step prefill skipped: when.prompt_tokens does not hold");
}

/* ---- Failures and time limits ---- */

static void be_silent(struct stage *stage)
{
    stage_wait_closed(stage, PATIENCE_MS);
    stage->hang_up = true;
}

#define OPTIONAL                                                                                                       \
    RENDER "    - type: prefill\n      timeout: 400ms\n      on_error: continue\n"                                     \
           "      when: {headers: {x-prefill: \"1\"}}\n"                                                               \
           "    - type: decode\n"
#define PREFILL "X-Prefill: 1\r\nX-Request-Id: same\r\n"

static void what_an_optional_step_does_wrong_is_not_seen_by_clients(void **state)
{
    static const struct {
        const char *name, *fault, *error;
        bool late;
    } rows[] = {
        {"an error of the worker", "X-Sim-Fault-Prefill: status=500\r\n", "upstream_5xx", false},
        {"a refusal", "X-Sim-Fault-Prefill: status=429\r\n", "upstream_4xx", false},
        {"a worker that resets", "X-Sim-Fault-Prefill: reset-after=5\r\n", "upstream_transport", false},
        {"a silent worker", "X-Sim-Fault-Prefill: silence\r\n", "upstream_transport", true},
        {"a worker silent in mid-answer", "X-Sim-Fault-Prefill: silence-after=5\r\n", "upstream_transport", true},
    };
    static const char *const bodies[] = {CHAT, STREAM};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char fields[256], series[128];
        struct text sent = {0};

        print_message("             %s\n", rows[i].name);
        deploy(&(struct plan){.steps = OPTIONAL, .sim_flags = (const char *const[]){"--created", "1", NULL}});
        snprintf(fields, sizeof fields, PREFILL "%s", rows[i].fault);
        snprintf(series, sizeof series, "step_errors_total{step=\"prefill\",error_code=\"%s\"}", rows[i].error);
        for (size_t k = 0; k < 2; k++) {
            struct client *without = fetch("POST", CHAT_PATH, "X-Request-Id: same\r\n", bodies[k]);
            const struct recorded *recorded;
            int64_t began = now_ms();
            struct client *with = fetch("POST", CHAT_PATH, fields, bodies[k]);

            assert_int_equal(with->answer.status, 200);
            assert_true(with->answer.whole);
            assert_same_bytes(text_span(&with->answer.body), text_span(&without->answer.body));
            if (rows[i].late)
                assert_in_range(now_ms() - began, 350, 900 + 2 * promptly_ms());
            /* Decode was sent what it is sent where the step is left out. */
            recorded = transcript_find("decode", 2 * k);
            text_clear(&sent); /* the next look at the transcript ends what the last one gave */
            text_add(&sent, recorded->body.data, recorded->body.size);
            assert_same_bytes(text_span(&transcript_find("decode", 2 * k + 1)->body), text_span(&sent));
        }
        UNTIL(metric("request_total{model_name=\"m\"}") == 4);
        assert_true(metric(series) == 2);
        assert_true(metric_sum("step_errors_total") == 2);
        assert_true(metric_sum("request_error_total") <= 0);
        text_free(&sent);
        UNTIL(sim_count("active_requests") <= 1); /* the late leg was given up */
        assert_int_equal(harness_end(NULL), 0);
    }
}

static void an_optional_probe_that_is_late_leaves_nothing_behind(void **state)
{
    static const char *const faults[] = {"X-Sim-Fault-Probe: silence\r\n", "X-Sim-Fault-Probe: delay=350\r\n"};
    static const char *const bodies[] = {CHAT, STREAM};

    (void)state;
    deploy(&(struct plan){.steps = RENDER "    - {type: conditional-decode, timeout: 300ms, on_error: continue}\n"
                                          "    - {type: prefill}\n"
                                          "    - {type: decode, params: {prompt_token_parity: error}}\n",
                          .sim_flags = (const char *const[]){"--created", "1", NULL}});
    for (size_t i = 0; i < 4; i++) {
        char fields[128];
        struct client *without = fetch("POST", CHAT_PATH, "X-Request-Id: same\r\n", bodies[i % 2]), *with;

        snprintf(fields, sizeof fields, "X-Request-Id: same\r\nX-Sim-Probe: hit\r\n%s", faults[i / 2]);
        with = fetch("POST", CHAT_PATH, fields, bodies[i % 2]);
        assert_int_equal(with->answer.status, 200);
        assert_true(with->answer.whole);
        assert_same_bytes(text_span(&with->answer.body), text_span(&without->answer.body));
    }
    assert_int_equal(sim_count("hits"), 8);
    UNTIL(metric("request_total{model_name=\"m\"}") == 8);
    assert_true(metric_sum("step_errors_total") == 4);
    assert_true(metric_sum("request_error_total") <= 0);
}

static void a_client_that_leaves_an_optional_step_ends_the_request(void **state)
{
    struct scripted *worker = scripted_start(&(struct scripted_options){.prefill = be_silent});
    struct client *client;

    (void)state;
    deploy(&(struct plan){.no_sim = true,
                          .gateway_port = scripted_port(worker),
                          .steps = "    - {type: prefill, timeout: 10s, on_error: continue}\n    - {type: decode}\n"});
    client = client_open(deployed.port);
    client_post(client, CHAT_PATH, "", span_of(CHAT));
    UNTIL(scripted_count(worker, "prefill") == 1);
    client_close(client);
    UNTIL(scripted_closed_ms(worker, scripted_find(worker, "prefill", 0)) != 0);
    UNTIL(metric("request_total{model_name=\"m\"}") == 1);
    assert_int_equal(scripted_count(worker, "decode"), 0);
}

static void a_step_that_others_may_miss_still_counts_when_it_works(void **state)
{
    (void)state;
    deploy(&(struct plan){.steps = OPTIONAL});
    assert_int_equal(fetch("POST", CHAT_PATH, PREFILL, CHAT)->answer.status, 200);
    assert_int_equal(sim_count("hits"), 1);
    UNTIL(metric("request_total{model_name=\"m\"}") == 1);
    assert_true(metric_sum("step_errors_total") <= 0);
}

static void stream_slowly(struct stage *stage)
{
    stage_stream_head(stage);
    for (int i = 0; i < 10; i++) {
        stage_chunk(stage, "data: {\"a\":1}\n\n", 15);
        pause_ms(100);
    }
    stage_chunk(stage, "data: [DONE]\n\n", 14);
    stage_last_chunk(stage);
}

static void a_time_limit_spares_a_stream_that_began(void **state)
{
    struct scripted *worker = scripted_start(&(struct scripted_options){.decode = stream_slowly});
    struct client *client;

    (void)state;
    deploy(&(struct plan){
        .no_sim = true, .gateway_port = scripted_port(worker), .steps = "    - {type: decode, timeout: 400ms}\n"});
    client = fetch("POST", CHAT_PATH, "", STREAM);
    assert_int_equal(client->answer.status, 200);
    assert_true(client->answer.whole);
    assert_int_equal(text_count(&client->answer.body, "data: {\"a\":1}\n\n"), 10);
    assert_contains(client->answer.body.data, "data: [DONE]\n\n");
    UNTIL(metric("request_total{model_name=\"m\"}") == 1);
    assert_true(metric_sum("step_errors_total") <= 0);
}

static void a_time_limit_ends_a_step_that_has_not_answered(void **state)
{
    struct scripted *worker = scripted_start(&(struct scripted_options){.decode = be_silent});
    static const char *const bodies[] = {CHAT, STREAM};

    (void)state;
    deploy(&(struct plan){
        .no_sim = true, .gateway_port = scripted_port(worker), .steps = "    - {type: decode, timeout: 400ms}\n"});
    for (size_t i = 0; i < 2; i++) {
        int64_t began = now_ms();
        struct client *client = fetch("POST", CHAT_PATH, "", bodies[i]);

        assert_int_equal(client->answer.status, 504);
        assert_in_range(now_ms() - began, 350, 900 + 2 * promptly_ms());
        assert_true(client->answer.whole);
        assert_contains(client->answer.body.data, "\"code\":\"upstream_timeout\"");
        assert_contains(client->answer.body.data, "step decode did not end within its timeout");
        UNTIL(scripted_closed_ms(worker, scripted_find(worker, "decode", i)) != 0);
    }
    UNTIL(metric("step_errors_total{step=\"decode\",error_code=\"upstream_transport\"}") == 2);
}

static void a_heartbeat_is_no_answer_yet(void **state)
{
    struct scripted *worker = scripted_start(&(struct scripted_options){.prefill = be_silent});
    struct client *client;

    (void)state;
    deploy(
        &(struct plan){.no_sim = true,
                       .gateway_port = scripted_port(worker),
                       .response = "  heartbeat: 100ms",
                       .steps = "    - {type: prefill, timeout: 500ms, on_error: continue}\n    - {type: decode}\n"});
    client = fetch("POST", CHAT_PATH, "", STREAM);
    assert_int_equal(client->answer.status, 200);
    assert_true(client->answer.whole);
    assert_true(client->answer.head_ms < client->answer.end_ms);
    assert_contains(client->answer.body.data, "data: [DONE]\n\n");
    assert_lacks(client->answer.body.data, "\"error\"");
    assert_int_equal(scripted_count(worker, "decode"), 1);
    UNTIL(metric("step_errors_total{step=\"prefill\",error_code=\"upstream_transport\"}") == 1);
}

static void a_time_limit_after_a_heartbeat_is_told_within_the_stream(void **state)
{
    static const char *const steps[] = {"    - {type: prefill, timeout: 400ms}\n    - {type: decode}\n",
                                        "    - {type: decode, timeout: 400ms}\n"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct scripted *worker = scripted_start(&(struct scripted_options){.prefill = be_silent, .decode = be_silent});
        struct client *client;

        deploy(&(struct plan){.no_sim = true,
                              .gateway_port = scripted_port(worker),
                              .response = "  heartbeat: 100ms",
                              .steps = steps[i]});
        client = fetch("POST", CHAT_PATH, "", STREAM);
        assert_int_equal(client->answer.status, 200);
        assert_true(client->answer.whole);
        assert_contains(client->answer.body.data, "data: {\"error\":{");
        assert_contains(client->answer.body.data, "did not end within its timeout");
        assert_lacks(client->answer.body.data, "[DONE]");
        assert_int_equal(harness_end(NULL), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(two_models_have_their_own_connectors_at_once),
        TEST(a_request_that_no_pipeline_matches_is_told_so_in_its_apis_shape),
        TEST(each_pipeline_has_its_gateway),
        TEST(short_prompts_go_straight_to_decode),
        TEST(what_an_optional_step_does_wrong_is_not_seen_by_clients),
        TEST(an_optional_probe_that_is_late_leaves_nothing_behind),
        TEST(a_client_that_leaves_an_optional_step_ends_the_request),
        TEST(a_step_that_others_may_miss_still_counts_when_it_works),
        TEST(a_time_limit_spares_a_stream_that_began),
        TEST(a_time_limit_ends_a_step_that_has_not_answered),
        TEST(a_heartbeat_is_no_answer_yet),
        TEST(a_time_limit_after_a_heartbeat_is_told_within_the_stream),
    };

    return harness_run(tests);
}
