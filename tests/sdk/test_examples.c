/*
 * The examples as an operator meets them: the installed coordinator, worker-sim, an example's own YAML, and a request whose
 * effect is seen. Run by examples.cmake once they are built; EXAMPLES is the folder where each lies with its .so.
 */
#include "harness.h"

#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#define RESPONSES_PATH "/v1/responses"
#define MESSAGES_PATH "/v1/messages"

/* Serves the example `folder` by `file`. */
static void serve(const char *folder, const char *file, const char *const *environment)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%s", getenv("EXAMPLES"), folder);
    assert_int_equal(chdir(path), 0); /* the YAML names its .so from here */
    deploy(&(struct plan){.config = file, .environment = environment});
}

static struct client *ask(const char *path, const char *fields, const char *body)
{
    struct client *client = fetch("POST", path, fields, body);

    assert_true(client->answer.whole);
    return client;
}

static const char *decode_body(void)
{
    const struct recorded *leg = transcript_find("decode", 0);

    assert_non_null(leg);
    return leg->body.data;
}

/* ---- Steps that ask a service ---- */

static void allow_m(struct stage *stage)
{
    const char *model = header_in(stage->request->head, "x-model", NULL);

    stage_json(stage, model && strcmp(model, "m") == 0 ? 200 : 404, "", "{}");
}

static void hello_asks_and_signs(void **state)
{
    struct scripted *policy = scripted_start(&(struct scripted_options){.other = allow_m});
    char url[64];
    struct client *client;

    (void)state;
    snprintf(url, sizeof url, "POLICY_URL=http://127.0.0.1:%u", scripted_port(policy));
    serve("hello-step", "hello.yaml", (const char *const[]){url, NULL});
    client = ask(CHAT_PATH, "", CHAT);
    assert_int_equal(client->answer.status, 200);
    assert_string_equal(answer_header(client, "x-hello"), "hello from the coordinator");
    client = ask(CHAT_PATH, "", "{\"model\":\"other\",\"messages\":[]}");
    assert_int_equal(client->answer.status, 403);
    assert_contains(client->answer.body.data, "\"code\":\"model_not_allowed\"");
    assert_int_equal(sim_count("requests.decode"), 1);
}

static void flag_bombs(struct stage *stage)
{
    bool flagged = strstr(stage->request->body.data, "bomb");

    stage_json(stage, 200, "", flagged ? "{\"results\":[{\"flagged\":true}]}" : "{\"results\":[{\"flagged\":false}]}");
}

static void guardrail_refuses_what_is_flagged(void **state)
{
    static const char flagged[] =
        "{\"model\":\"m\",\"max_tokens\":3,\"messages\":[{\"role\":\"user\",\"content\":\"a bomb\"}]}";
    struct scripted *service = scripted_start(&(struct scripted_options){.other = flag_bombs});
    char url[64];
    struct client *client;

    (void)state;
    snprintf(url, sizeof url, "MODERATION_URL=http://127.0.0.1:%u", scripted_port(service));
    serve("guardrail", "guardrail.yaml", (const char *const[]){url, NULL});
    assert_int_equal(ask(CHAT_PATH, "", CHAT)->answer.status, 200);
    client = ask(CHAT_PATH, "", flagged);
    assert_int_equal(client->answer.status, 400);
    assert_contains(client->answer.body.data, "\"code\":\"content_policy\"");
    client = ask(MESSAGES_PATH, "", flagged);
    assert_int_equal(client->answer.status, 400);
    assert_contains(client->answer.body.data, "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\"");
    assert_int_equal(sim_count("requests.decode"), 1);
}

/* ---- Steps that change the request ---- */

static void model_alias_gives_the_worker_another_name(void **state)
{
    (void)state;
    serve("model-alias", "model_alias.yaml", NULL);
    ask(CHAT_PATH, "", "{ \"model\" : \"default\",\"messages\":[{\"role\":\"user\",\"content\":\"\\u0068i\"}]}");
    assert_contains(decode_body(),
                    "{ \"model\" : \"meta-llama/Llama-3.1-8B-Instruct\",\"messages\":[{\"role\":\"user\","
                    "\"content\":\"\\u0068i\"}]");
}

static void request_defaults_adds_what_is_missing(void **state)
{
    (void)state;
    serve("request-defaults", "request_defaults.yaml", NULL);
    assert_int_equal(ask(CHAT_PATH, "", CHAT)->answer.status, 200);
    assert_contains(decode_body(),
                    "\"temperature\":0.2,\"chat_template_kwargs\":{\"enable_thinking\": false},\"priority\":10");
}

static void tenant_priority_is_that_of_the_header(void **state)
{
    (void)state;
    serve("tenant-priority", "tenant_priority.yaml", NULL);
    assert_int_equal(ask(CHAT_PATH, "x-tenant: silver\r\n", CHAT)->answer.status, 200);
    assert_contains(decode_body(), "\"priority\":50");
}

/* ---- Steps with a writer ---- */

static void shout_puts_a_stream_in_capitals(void **state)
{
    struct client *client;

    (void)state;
    serve("writer-shout", "shout.yaml", NULL);
    client = ask(CHAT_PATH, "", STREAM);
    assert_contains(client->answer.body.data, "\"content\":\" STREAM\"");
    assert_contains(client->answer.body.data, "data: [DONE]\n\n");
}

static void redact_takes_words_out_of_every_api(void **state)
{
    /* What worker-sim says to `hi`: " stream once readers", an event a word. */
    static const struct {
        const char *path, *body;
        const char *first, *second; /* of the events that are no more whole */
        const char *usage;
    } rows[] = {
        {CHAT_PATH,
         "{\"model\":\"m\",\"max_tokens\":3,\"stream\":true,\"stream_options\":{\"include_usage\":true},\"messages\":[{"
         "\"role\":\"user\",\"content\":\"hi\"}]}",
         "{\"content\":\" [redacted]\"}", "{\"content\":\"\"}", "\"completion_tokens\":3"},
        {RESPONSES_PATH, "{\"model\":\"m\",\"max_output_tokens\":3,\"stream\":true,\"input\":\"hi\"}",
         "\"delta\":\" [redacted]\"", "\"delta\":\"\"", "\"output_tokens\":3"},
        {MESSAGES_PATH,
         "{\"model\":\"m\",\"max_tokens\":3,\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}",
         "\"text\":\" [redacted]\"", "\"text\":\"\"}", "\"output_tokens\":3"},
        {CHAT_PATH, "{\"model\":\"m\",\"max_tokens\":3,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}",
         "\"content\":\" stream [redacted]\"", "", "\"completion_tokens\":3"},
        {RESPONSES_PATH, "{\"model\":\"m\",\"max_output_tokens\":3,\"input\":\"hi\"}",
         "\"text\":\" stream [redacted]\"", "", "\"output_tokens\":3"},
        {MESSAGES_PATH, "{\"model\":\"m\",\"max_tokens\":3,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}",
         "\"text\":\" stream [redacted]\"", "", "\"output_tokens\":3"},
    };

    (void)state;
    serve("redact", "redact.yaml", (const char *const[]){"REDACTED=once READERS", NULL});
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct client *client = ask(rows[i].path, "", rows[i].body);

        assert_int_equal(client->answer.status, 200);
        assert_contains(client->answer.body.data, rows[i].first);
        assert_contains(client->answer.body.data, rows[i].second);
        assert_contains(client->answer.body.data, rows[i].usage);
        assert_lacks(client->answer.body.data, "once");
        assert_lacks(client->answer.body.data, "readers");
    }
}

static void answer_cache_answers_the_second_time(void **state)
{
    static const char *const bodies[] = {
        "{\"model\":\"m\",\"temperature\":0,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}",
        "{\"model\":\"m\",\"temperature\":0,\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}"};

    (void)state;
    serve("answer-cache", "answer_cache.yaml", NULL);
    for (int i = 0; i < 2; i++) {
        struct client *first = ask(CHAT_PATH, "", bodies[i]), *second = ask(CHAT_PATH, "", bodies[i]);

        assert_int_equal(first->answer.status, 200);
        assert_null(answer_header(first, "x-cache"));
        assert_string_equal(answer_header(second, "x-cache"), "hit");
        assert_same_bytes(text_span(&second->answer.body), text_span(&first->answer.body));
        assert_int_equal(sim_count("requests.decode"), i + 1);
    }
    assert_true(metric("answer_cache_lookups_total{result=\"hit\"}") == 2);
}

static void usage_audit_writes_a_line_a_request(void **state)
{
    char folder[] = "/tmp/audit-XXXXXX", file[64], variable[80];
    struct text lines = {0};

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/usage.jsonl", folder);
    snprintf(variable, sizeof variable, "AUDIT_FILE=%s", file);
    serve("usage-audit", "usage_audit.yaml", (const char *const[]){variable, NULL});
    ask(CHAT_PATH, "x-request-id: one\r\n", "{\"model\":\"m\",\"max_tokens\":3,\"messages\":[]}");
    ask(MESSAGES_PATH, "x-request-id: two\r\n",
        "{\"model\":\"m\",\"max_tokens\":3,\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}");
    undeploy();
    assert_true(file_read(file, &lines));
    assert_int_equal(text_count(&lines, "\n"), 2);
    assert_true(
        text_contains(&lines, "\"request\":\"one\",\"api\":\"chat_completions\",\"model\":\"m\",\"prompt_tokens\":"));
    assert_true(text_contains(&lines, "\"request\":\"two\",\"api\":\"messages\",\"model\":\"m\",\"prompt_tokens\":11,"
                                      "\"output_tokens\":3"));
    text_free(&lines);
    unlink(file);
    rmdir(folder);
}

/* ---- A queue in Redis ---- */

/* Sends a command in Redis' plain form and reads what comes until `end` of it is there. */
static void redis(uint16_t port, const char *command, const char *end, char *reply, size_t room)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    size_t size = 0;

    assert_true(fd >= 0);
    *reply = '\0';
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
        write(fd, command, strlen(command)) == (ssize_t)strlen(command))
        while (size < room - 1 && !strstr(reply, end)) {
            ssize_t got = read(fd, reply + size, room - 1 - size);

            if (got <= 0)
                break;
            size += (size_t)got;
            reply[size] = '\0';
        }
    close(fd);
}

static bool redis_says(uint16_t port, const char *command, const char *wanted)
{
    char reply[256];

    redis(port, command, "\r\n", reply, sizeof reply);
    return strcmp(reply, wanted) == 0;
}

static void hold_queue_waits_for_its_turn_and_not_too_long(void **state)
{
    uint16_t port = free_port();
    char number[8], address[64], command[256], reply[256], ticket[128];
    const char *const arguments[] = {
        getenv("REDIS_SERVER"), "--port", number, "--bind", "127.0.0.1", "--save", "", NULL};
    struct process server;
    struct client *client;

    (void)state;
    snprintf(number, sizeof number, "%u", port);
    snprintf(address, sizeof address, "REDIS=localhost:%u", port);
    process_start(&server, "/dev/null", arguments, NULL);
    UNTIL(redis_says(port, "PING\r\n", "+PONG\r\n"));
    serve("hold-queue", "hold_queue.yaml", (const char *const[]){address, "HOLD_TIMEOUT=1500ms", NULL});

    client = client_open(deployed.port);
    client_post(client, CHAT_PATH, "x-request-id: first\r\n", span_of(CHAT));
    UNTIL(redis_says(port, "LLEN hold\r\n", ":1\r\n"));
    assert_int_equal(sim_count("requests.decode"), 0);
    redis(port, "LPOP hold\r\n", "first\r\n", reply, sizeof reply);
    assert_int_equal(sscanf(reply, "$5 %127s", ticket), 1);
    snprintf(command, sizeof command, "RPUSH hold:%s go\r\n", ticket);
    redis(port, command, "\r\n", reply, sizeof reply);
    assert_true(client_read(client, PATIENCE_MS));
    assert_int_equal(client->answer.status, 200);

    client = ask(CHAT_PATH, "", CHAT); /* nobody lets it in */
    assert_int_equal(client->answer.status, 429);
    assert_contains(client->answer.body.data, "\"type\":\"rate_limit_error\"");
    UNTIL(redis_says(port, "DBSIZE\r\n", ":0\r\n"));
    assert_int_equal(sim_count("requests.decode"), 1);
    undeploy();
    process_signal(&server, SIGKILL);
    assert_true(process_wait(&server, PATIENCE_MS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(hello_asks_and_signs),
        TEST(guardrail_refuses_what_is_flagged),
        TEST(model_alias_gives_the_worker_another_name),
        TEST(request_defaults_adds_what_is_missing),
        TEST(tenant_priority_is_that_of_the_header),
        TEST(shout_puts_a_stream_in_capitals),
        TEST(redact_takes_words_out_of_every_api),
        TEST(answer_cache_answers_the_second_time),
        TEST(usage_audit_writes_a_line_a_request),
        TEST(hold_queue_waits_for_its_turn_and_not_too_long),
    };

    if (!getenv("EXAMPLES") || !getenv("REDIS_SERVER")) {
        fprintf(stderr,
                "this is run by tests/sdk/examples.cmake, which says in EXAMPLES and REDIS_SERVER where things are\n");
        return 1;
    }
    return harness_run(tests);
}
