/* GET /debug/pipelines on the metrics port: the generation that serves, in JSON, without secrets. */
#include "harness.h"

#include <json-c/json.h>
#include <signal.h>

static struct json_object *page(void)
{
    struct client *client = fetch_port(deployed.metrics_port, "GET", "/debug/pipelines", "", NULL);
    struct json_object *json;

    assert_int_equal(client->answer.status, 200);
    assert_string_equal(answer_header(client, "content-type"), "application/json");
    json = json_tokener_parse(client->answer.body.data);
    assert_non_null(json);
    client_close(client);
    return json;
}

/* What stands at a path of names and indices, divided by slashes. */
static struct json_object *at(struct json_object *json, const char *path)
{
    char copy[128], *rest = copy, *name;

    snprintf(copy, sizeof copy, "%s", path);
    while ((name = strsep(&rest, "/")) != NULL) {
        if (json_object_is_type(json, json_type_array))
            json = json_object_array_get_idx(json, strtoul(name, NULL, 10));
        else if (!json_object_object_get_ex(json, name, &json))
            fail_msg("no %s", path);
    }
    return json;
}

static const char *text_at(struct json_object *json, const char *path)
{
    return json_object_get_string(at(json, path));
}

static int64_t number_at(struct json_object *json, const char *path)
{
    struct json_object *value = at(json, path);

    assert_true(json_object_is_type(value, json_type_int));
    return json_object_get_int64(value);
}

static void assert_json(struct json_object *json, const char *path, const char *wanted)
{
    struct json_object *value = at(json, path);

    assert_string_equal(value ? json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN) : "null", wanted);
}

static bool ended(int64_t requests)
{
    struct json_object *json = page();
    bool all = number_at(json, "pipelines/0/steps/2/started") == requests &&
               json_object_get_double(at(json, "pipelines/0/steps/2/p99_seconds")) > 0;

    json_object_put(json);
    return all;
}

static const char COMPOSITION[] =
    "gateways: {near: {address: \"@\"}, far: {address: \"http://127.0.0.1:1\"}}\n"
    "pipelines:\n"
    "- name: gold\n"
    "  gateway: near\n"
    "  match: {models: [\"m*\"], headers: {x-key: \"${KEY}\"}}\n"
    "  kv_connector: kv-nixl\n"
    "  steps:\n"
    "    - {type: render, params: {address: \"@\"}}\n"
    "    - {type: prefill, id: first, when: {prompt_tokens: {min: 5000}, stream: false}}\n"
    "    - {type: decode}\n"
    "- {name: rest, gateway: far, steps: [{type: decode, id: other}]}\n";

static void it_tells_what_serves_and_how_it_went(void **state)
{
    struct json_object *json;
    struct client *client;

    (void)state;
    deploy(&(struct plan){.composition = COMPOSITION, .environment = (const char *const[]){"KEY=hush-hush", NULL}});
    json = page();
    assert_int_equal(number_at(json, "generation"), 1);
    assert_int_equal(strlen(text_at(json, "loaded_at")), strlen("2026-01-01T00:00:00Z"));
    assert_int_equal(json_object_array_length(at(json, "pipelines")), 2);
    assert_string_equal(text_at(json, "pipelines/0/name"), "gold");
    assert_string_equal(text_at(json, "pipelines/0/gateway"), "near");
    assert_json(json, "pipelines/0/match", "{\"models\":[\"m*\"],\"headers\":{\"x-key\":\"[substituted]\"}}");
    assert_json(json, "pipelines/1/match", "null");
    assert_json(json, "pipelines/0/steps/0/when", "null");
    assert_json(json, "pipelines/0/steps/1/when", "{\"prompt_tokens\":{\"min\":5000},\"stream\":false}");
    assert_string_equal(text_at(json, "pipelines/0/steps/1/id"), "first");
    assert_string_equal(text_at(json, "pipelines/0/steps/1/type"), "prefill");
    assert_json(json, "pipelines/0/steps/0/p50_seconds", "null");
    assert_json(json, "pipelines/0/writers", "[]");
    assert_int_equal(number_at(json, "pipelines/0/steps/0/started"), 0);
    json_object_put(json);
    for (int i = 0; i < 3; i++)
        assert_int_equal(fetch("POST", CHAT_PATH, "X-Key: hush-hush\r\n", STREAM)->answer.status, 200);
    assert_int_equal(fetch("POST", CHAT_PATH, "", CHAT)->answer.status, 503); /* nobody listens there */
    UNTIL(ended(3));
    json = page();
    assert_int_equal(number_at(json, "pipelines/0/steps/0/started"), 3);
    assert_int_equal(number_at(json, "pipelines/0/steps/0/failed"), 0);
    assert_int_equal(number_at(json, "pipelines/0/steps/1/started"), 0);
    assert_int_equal(number_at(json, "pipelines/0/steps/1/skipped"), 3);
    assert_int_equal(number_at(json, "pipelines/1/steps/0/started"), 1);
    assert_int_equal(number_at(json, "pipelines/1/steps/0/failed"), 1);
    assert_true(json_object_get_double(at(json, "pipelines/0/steps/2/p50_seconds")) <=
                json_object_get_double(at(json, "pipelines/0/steps/2/p99_seconds")));
    assert_json(json, "pipelines/0/writers", "[\"usage-observer\",\"usage-editor\"]");
    json_object_put(json);
    client = fetch_port(deployed.metrics_port, "GET", "/debug/pipelines", "", NULL);
    assert_lacks(client->answer.body.data, "hush");
    client = fetch_port(deployed.metrics_port, "POST", "/debug/pipelines", "Content-Length: 0\r\n", NULL);
    assert_int_equal(client->answer.status, 405);
    /* Not for clients. */
    assert_int_equal(fetch("GET", "/debug/pipelines", "", NULL)->answer.status, 404);
    process_signal(&deployed.coordinator, SIGHUP);
    UNTIL(metric("config_generation") == 2);
    json = page();
    assert_int_equal(number_at(json, "generation"), 2);
    assert_int_equal(number_at(json, "pipelines/0/steps/0/started"), 3); /* of the process */
    json_object_put(json);
}

/* One that runs has started. */
static void hold(struct stage *stage)
{
    stage_wait_gate(stage, PATIENCE_MS);
    stage_json(stage, 200, "", "{}");
}

static bool runs(void)
{
    struct json_object *json = page();
    bool one = number_at(json, "pipelines/0/steps/0/started") == 1;

    json_object_put(json);
    return one;
}

static void a_step_that_runs_has_started(void **state)
{
    struct scripted *worker = scripted_start(&(struct scripted_options){.decode = hold});
    struct client *client;

    (void)state;
    deploy(&(struct plan){.no_sim = true, .gateway_port = scripted_port(worker), .steps = "    - type: decode\n"});
    client = client_open(deployed.port);
    client_post(client, CHAT_PATH, "", span_of(CHAT));
    UNTIL(runs());
    scripted_open_gate(worker);
    assert_true(client_read(client, PATIENCE_MS));
    assert_true(runs());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(it_tells_what_serves_and_how_it_went),
        TEST(a_step_that_runs_has_started),
    };

    return harness_run(tests);
}
