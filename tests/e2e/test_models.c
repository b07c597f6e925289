/* GET /v1/models where there are several gateways: their lists joined (decision 76). */
#include "harness.h"

static const char LEFT[] =
    "{\"object\":\"list\",\"data\":[{ \"id\":\"a\" , \"n\":1.0e2},{\"id\":\"b\",\"from\":\"left\"}]}";
static const char RIGHT[] = "{\"data\":[\n{\"from\":\"right\",\"id\":\"\\u0062\"},{\"id\":\"c\",\"owned_by\":"
                            "\"\\u00e9\"},{\"noid\":true},7], \"object\":\"list\"}";

static void say_left(struct stage *stage) { stage_json(stage, 200, "", LEFT); }
static void say_right(struct stage *stage) { stage_json(stage, 200, "", RIGHT); }
static void say_nonsense(struct stage *stage) { stage_json(stage, 200, "", "{\"data\":{}}"); }
static void say_no(struct stage *stage) { stage_json(stage, 401, "", "{\"error\":{}}"); }
static void cut(struct stage *stage)
{
    stage_say(stage, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"data\":[");
    stage_reset(stage);
}
static void say_nothing(struct stage *stage)
{
    stage_wait_closed(stage, PATIENCE_MS);
    stage->hang_up = true;
}

/* A list that would hold the reactor for long. */
static void say_too_many(struct stage *stage)
{
    enum { ENTRIES = 10001, ENTRY = 16 };
    char *list = malloc(ENTRIES * ENTRY + 32);
    size_t size;

    assert_non_null(list);
    size = (size_t)sprintf(list, "{\"data\":[");
    for (int i = 0; i < ENTRIES; i++)
        size += (size_t)sprintf(list + size, "%s{\"id\":\"%d\"}", i ? "," : "", i);
    memcpy(list + size, "]}", 3);
    stage_json(stage, 200, "", list);
    free(list);
}

static struct scripted *worker_of(script *other) { return scripted_start(&(struct scripted_options){.other = other}); }

static void deploy_gateways(uint16_t first, uint16_t second, const char *more)
{
    char yaml[512];

    snprintf(yaml, sizeof yaml,
             "gateways:\n"
             "  left: {address: \"http://127.0.0.1:%u\", phase_header: x-left}\n"
             "  right: {address: \"http://127.0.0.1:%u\"%s}\n"
             "pipelines:\n- {name: all, gateway: left, steps: [{type: decode}]}\n",
             first, second, more);
    deploy(&(struct plan){.no_sim = true, .composition = yaml});
}

static void the_lists_of_all_gateways_are_one(void **state)
{
    struct scripted *left = worker_of(say_left), *right = worker_of(say_right);
    struct client *client;

    (void)state;
    deploy_gateways(scripted_port(left), scripted_port(right), "");
    client = fetch("GET", "/v1/models?all=1",
                   "Authorization: Bearer k\r\nAccept-Encoding: gzip\r\nIf-None-Match: x\r\n", NULL);
    assert_int_equal(client->answer.status, 200);
    assert_string_equal(answer_header(client, "content-type"), "application/json");
    assert_non_null(answer_header(client, "x-request-id"));
    /* Each entry's bytes; of what comes twice, the first. */
    assert_string_equal(client->answer.body.data,
                        "{\"object\":\"list\",\"data\":[{ \"id\":\"a\" , \"n\":1.0e2},{\"id\":\"b\",\"from\":\"left\"},"
                        "{\"id\":\"c\",\"owned_by\":\"\\u00e9\"},{\"noid\":true},7]}");
    assert_string_equal(scripted_find(right, NULL, 0)->target, "/v1/models?all=1");
    assert_non_null(strcasestr(scripted_find(right, NULL, 0)->head, "authorization: bearer k"));
    assert_non_null(strcasestr(scripted_find(right, NULL, 0)->head, "x-llm-d-epp-profile: decode"));
    assert_non_null(strcasestr(scripted_find(left, NULL, 0)->head, "x-left: decode"));
    assert_null(strcasestr(scripted_find(left, NULL, 0)->head, "gzip"));
    assert_null(strcasestr(scripted_find(left, NULL, 0)->head, "if-none-match"));
    /* No other path is joined; none is called default. */
    assert_int_equal(fetch("GET", "/v1/models/a", "", NULL)->answer.status, 404);
    assert_int_equal(fetch("POST", "/v1/models", "", "{}")->answer.status, 404);
}

static void one_that_gives_no_list_is_left_out(void **state)
{
    static const struct {
        script *script;
        const char *why;
    } rows[] = {
        {NULL, "it refused the connection"}, {say_nonsense, "its answer is no list of models"},
        {say_no, "its status is not 200"},   {cut, "its answer broke off"},
        {say_nothing, "no answer in time"},  {say_too_many, "its list has more than 10,000 models"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct scripted *left = worker_of(say_left);
        uint16_t right = rows[i].script ? scripted_port(worker_of(rows[i].script)) : free_port();
        struct client *client;

        deploy_gateways(scripted_port(left), right, ", timeout: 300ms");
        client = fetch("GET", "/v1/models", "", NULL);
        assert_int_equal(client->answer.status, 200);
        assert_string_equal(client->answer.body.data, LEFT);
        UNTIL(strstr(process_log(&deployed.coordinator), rows[i].why));
        assert_contains(process_log(&deployed.coordinator), "the models of gateway right are left out");
        assert_int_equal(harness_end(NULL), 0);
    }
}

static void without_any_list_the_client_is_told_so(void **state)
{
    (void)state;
    deploy_gateways(free_port(), scripted_port(worker_of(say_no)), "");
    assert_int_equal(fetch("GET", "/v1/models", "", NULL)->answer.status, 503);
}

static void a_client_that_leaves_ends_the_questions(void **state)
{
    struct scripted *left = worker_of(say_nothing), *right = worker_of(say_nothing);
    struct client *client;

    (void)state;
    deploy_gateways(scripted_port(left), scripted_port(right), "");
    client = client_open(deployed.port);
    client_say(client, "GET /v1/models HTTP/1.1\r\nHost: c\r\n\r\n");
    UNTIL(scripted_count(left, NULL) == 1 && scripted_count(right, NULL) == 1);
    client_close(client);
    UNTIL_WITHIN(scripted_open(left) == 0 && scripted_open(right) == 0, sanitized() ? 5000 : 1000);
}

static void with_one_gateway_it_is_passed_through(void **state)
{
    struct scripted *only = worker_of(say_right);

    (void)state;
    deploy(&(struct plan){.no_sim = true, .gateway_port = scripted_port(only), .steps = "    - type: decode\n"});
    assert_string_equal(fetch("GET", "/v1/models", "", NULL)->answer.body.data, RIGHT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_lists_of_all_gateways_are_one),      TEST(one_that_gives_no_list_is_left_out),
        TEST(without_any_list_the_client_is_told_so), TEST(a_client_that_leaves_ends_the_questions),
        TEST(with_one_gateway_it_is_passed_through),
    };

    return harness_run(tests);
}
