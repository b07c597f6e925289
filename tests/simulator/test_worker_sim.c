/*
 * worker-sim's answers: shapes as the engine's own recordings have them, what it refuses, and its pages. Prompts and usage:
 * test_worker_sim_tokens.c; KV books: test_worker_sim_books.c; faults, framing and load: test_worker_sim_wire.c.
 */
#include "sim_apis.h"

/* ---- Shapes ---- */

/* Members whose strings are part of the shape. */
static bool is_kept(const char *key, size_t size)
{
    static const char *const kept[] = {"object",      "type",         "role",        "model",      "finish_reason",
                                       "reason",      "status",       "stop_reason", "version",    "stop",
                                       "tool_choice", "service_tier", "truncation",  "output_mode"};

    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (strlen(kept[i]) == size && memcmp(kept[i], key, size) == 0)
            return true;
    return false;
}

static const char *string_end(const char *at)
{
    for (at++; *at && *at != '"'; at++)
        at += *at == '\\' && at[1];
    return *at ? at + 1 : at;
}

static const char *object_end(const char *at)
{
    size_t depth = 0;

    do {
        if (*at == '"') {
            at = string_end(at);
            continue;
        }
        depth += *at == '{';
        depth -= *at == '}';
        at++;
    } while (depth && *at);
    return at;
}

/*
 * A line with what varies replaced: strings by T, numbers by 0, lists of numbers by one of them, the descriptor by {}. All
 * names, their order, nulls and punctuation stay.
 */
static void add_plain(struct text *out, const char *line, size_t size)
{
    const char *at = line, *end = line + size, *key = "";
    size_t key_size = 0;

    if (size > 5 && memcmp(at, "event:", 6) == 0) {
        text_add(out, line, size);
        return;
    }
    while (at < end) {
        if (*at == '"') {
            const char *after = string_end(at);

            if (*after == ':') {
                key = at + 1;
                key_size = (size_t)(after - at) - 2;
                text_add(out, at, (size_t)(after - at));
            } else if (is_kept(key, key_size)) {
                text_add(out, at, (size_t)(after - at));
            } else {
                text_printf(out, "\"T\"");
            }
            at = after;
        } else if (*at == '{' && key_size == 18 && memcmp(key, "kv_transfer_params", 18) == 0 && at[-1] == ':') {
            text_printf(out, "{}");
            at = object_end(at);
        } else if (strchr("-0123456789", *at)) {
            at += strspn(at, "-+.eE0123456789");
            text_printf(out, "0");
            if (out->size > 3 && memcmp(out->data + out->size - 3, "0,0", 3) == 0)
                out->size -= 2;
        } else {
            text_add(out, at++, 1);
        }
    }
    text_add(out, "", 0);
}

/* Runs of like events count as one: how many tokens share one is chance. */
static void plain(struct text *out, const char *body)
{
    struct text event = {0}, before = {0};

    text_clear(out);
    for (const char *at = body; *at;) {
        const char *end = strstr(at, "\n\n");
        size_t size = end ? (size_t)(end - at) : strlen(at);

        text_clear(&event);
        for (const char *line = at; line < at + size;) {
            size_t length = strcspn(line, "\n");

            add_plain(&event, line, length);
            text_printf(&event, "\n");
            line += length + (line[length] == '\n');
        }
        if (!before.data || strcmp(before.data, event.data) != 0)
            text_printf(out, "%s\n", event.data);
        text_clear(&before);
        text_add(&before, event.data, event.size);
        at += size + (end ? 2 : 0);
    }
    text_free(&event);
    text_free(&before);
}

static void check_recording(const char *path, const char *phase, const char *request, int status, char *wanted)
{
    struct text got = {0}, recorded = {0};
    char fields[64], *cut = strstr(wanted, "…");

    snprintf(fields, sizeof fields, "EPP-Profile: %s\r\n", phase);
    struct client *client = ask(path, fields, "%s", request);
    if (client->answer.status != status)
        fail_msg("%s %s: %d %s", path, request, client->answer.status, client->answer.body.data);
    if (cut)
        *cut = '\0';
    if (status >= 400) {
        assert_same_bytes(text_span(&client->answer.body), span_of(wanted));
        return;
    }
    plain(&got, client->answer.body.data);
    plain(&recorded, wanted);
    if (cut && got.size > recorded.size)
        got.size = recorded.size;
    harness_assert_same(text_span(&got), text_span(&recorded), request, __FILE__, __LINE__);
    text_free(&got);
    text_free(&recorded);
}

static void answers_have_the_recorded_shape(void **state)
{
    struct text file = {0};
    size_t count = 0;

    (void)state;
    SIM("--model", "m");
    assert_true(file_read(SIM_RECORDED, &file));
    for (char *at = strstr(file.data, "\n== "), *next; at; at = next, count++) {
        char path[64], phase[16], *request = strchr(at + 1, '\n') + 1, *answer = strstr(request, "\n-> ");

        next = strstr(answer, "\n\n== ");
        assert_int_equal(sscanf(at, "\n== %63s %15s", path, phase), 2);
        *answer = '\0';
        answer += 4;
        if (next)
            *next++ = '\0';
        else
            answer[strlen(answer) - 1] = '\0';
        check_recording(path, phase, request, atoi(answer), strchr(answer, '\n') + 1);
    }
    assert_int_equal(count, SIM_RECORDINGS);
    text_free(&file);
}

static void heads_are_the_engines(void **state)
{
    (void)state;
    SIM("--model", "m");
    struct client *client = ask(CHAT_PATH, DECODE, CHAT_BODY(",\"max_tokens\":2"));
    assert_string_equal(answer_header(client, "server"), "uvicorn");
    assert_string_equal(answer_header(client, "content-type"), "application/json");
    assert_int_equal(client->answer.length, (int64_t)client->answer.body.size);
    assert_contains(client->answer.head, "\r\ndate: ");

    client = ask(CHAT_PATH, DECODE, CHAT_BODY(",\"max_tokens\":2,\"stream\":true"));
    assert_string_equal(answer_header(client, "content-type"), "text/event-stream; charset=utf-8");
    assert_true(client->answer.chunked);
    assert_int_equal(event_count(client), 4);
    client = ask_well(CHAT_PATH, DECODE, CHAT_BODY(",\"stream\":\"true\""));
    assert_true(client->answer.chunked);
}

/* The text, or ids, of an answer whole or in events. */
static void add_content(struct text *out, const struct api *api, const struct client *client, bool stream)
{
    static const struct {
        const char *path, *whole, *delta;
    } places[] = {
        {CHAT_PATH, "/choices/0/message/content", "/choices/0/delta/content"},
        {COMPLETIONS_PATH, "/choices/0/text", "/choices/0/text"},
        {RESPONSES_PATH, "/output/0/content/0/text", "/delta"},
        {MESSAGES_PATH, "/content/0/text", "/delta/text"},
    };
    size_t row = (size_t)(api - APIS);

    text_clear(out);
    if (api->path[1] == 'i') { /* ids */
        const char *from = client->answer.body.data;
        while ((from = strstr(from, "\"token_ids\":[")) != NULL) {
            from += 13;
            text_printf(out, "%s%.*s", out->size ? "," : "", (int)strcspn(from, "]"), from);
        }
        return;
    }
    if (!stream) {
        text_printf(out, "%s", string_of(client, places[row].whole));
        return;
    }
    for (int i = 0; i < (int)event_count(client); i++) {
        const char *data = event_data(client, i);
        if (*data == '{' && has_in(data, places[row].delta))
            text_printf(out, "%s", string_in(data, places[row].delta));
    }
}

static void a_stream_says_the_same_as_a_body(void **state)
{
    struct text one = {0}, other = {0};

    (void)state;
    SIM("--tokens", "9");
    for
        EACH_API(api)
        {
            add_content(&one, api, ask_well(api->path, DECODE, "%s", api->body), false);
            struct client *client = ask_well(api->path, DECODE, "%s", replaced(api->body, "{", "{\"stream\":true,"));
            add_content(&other, api, client, true);
            assert_string_equal(one.data, other.data);
            assert_true(one.size > 9);
            if (api->path == APIS[2].path) {
                const char *data = event_data(client, -1);
                assert_string_equal(string_in(data, "/type"), "response.completed");
                assert_string_equal(string_in(data, "/response/output/0/content/0/text"), one.data);
                assert_string_equal(string_in(data, "/response/status"), "completed");
                assert_int_equal(number_in(data, "/response/usage/output_tokens"), 9);
                assert_int_equal(number_in(data, "/sequence_number"), (int64_t)event_count(client) - 1);
            }
        }
    text_free(&one);
    text_free(&other);
}

static void output_is_the_seeds(void **state)
{
    struct text one = {0};

    (void)state;
    SIM("--seed", "1", "--created", "9");
    struct client *client = ask_well(CHAT_PATH, DECODE, CHAT_BODY(""));
    text_add(&one, client->answer.body.data, client->answer.body.size);
    assert_string_not_equal(string_of(ask(CHAT_PATH, DECODE, CHAT_BODY("")), "/id"), string_in(one.data, "/id"));
    assert_string_equal(string_of(ask(CHAT_PATH, DECODE, CHAT_BODY("")), "/choices/0/message/content"),
                        string_in(one.data, "/choices/0/message/content"));
    end_sim();
    SIM("--seed", "1", "--created", "9");
    client = ask_well(CHAT_PATH, DECODE, CHAT_BODY(""));
    assert_same_bytes(text_span(&client->answer.body), text_span(&one));
    end_sim();
    SIM("--seed", "2");
    client = ask_well(CHAT_PATH, DECODE, CHAT_BODY(",\"max_tokens\":50,\"ignore_eos\":true"));
    assert_string_not_equal(string_of(client, "/choices/0/message/content"),
                            string_in(one.data, "/choices/0/message/content"));
    assert_int_equal(number_of(client, "/usage/completion_tokens"), 50);
    text_free(&one);
}

/* ---- Refusals ---- */

static void refusals_are_the_engines(void **state)
{
    static const struct {
        const char *name, *path, *body;
        int status;
        const char *says; /* part of the body */
    } rows[] = {
        {"unknown part", CHAT_PATH, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"hologram\"}]}]}", 400,
         "{\"error\":{\"message\":\"Unknown part type: hologram\",\"type\":\"BadRequestError\",\"param\":null"},
        {"a block of Messages in chat", CHAT_PATH,
         "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"tool_use\"}]}]}", 400,
         "Unknown part type: tool_use"},
        {"a part of chat in Messages", MESSAGES_PATH,
         "{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]}", 400,
         "{\"error\":{\"message\":\"1 validation error:\\n  {'type': 'literal_error', 'loc': "
         "'body.messages.0.content'"},
        {"Messages without max_tokens", MESSAGES_PATH, CHAT_BODY(""), 400, "\"param\":\"body.max_tokens\""},
        {"Messages min_tokens is unknown", MESSAGES_PATH, CHAT_BODY(",\"max_tokens\":1,\"min_tokens\":9"), 200, "{"},
        {"stream_options are unknown to Messages", MESSAGES_PATH, CHAT_BODY(",\"max_tokens\":1,\"stream_options\":7"),
         200, "{"},
        {"stream_options are unknown to Responses", RESPONSES_PATH, "{\"input\":\"x\",\"stream_options\":7}", 200, "{"},
        {"input of a wrong type", RESPONSES_PATH, "{\"input\":7}", 400, "\"param\":\"body.input\""},
        {"no input", RESPONSES_PATH, "{}", 400, "\"param\":\"body.input\""},
        {"an item that is nothing", RESPONSES_PATH, "{\"input\":[{}]}", 400, "\"param\":\"body.input.0.role\""},
        {"max_output_tokens 0", RESPONSES_PATH, "{\"input\":\"x\",\"max_output_tokens\":0}", 400, "at least 1"},
        {"no sampling_params", GENERATE_PATH, "{\"token_ids\":[1]}", 400, "\"param\":\"body.sampling_params\""},
        {"sampling_params of a wrong type", GENERATE_PATH, "{\"token_ids\":[1],\"sampling_params\":[]}", 400,
         "\"param\":\"body.sampling_params\""},
        {"generate's min above max", GENERATE_PATH,
         "{\"token_ids\":[1],\"sampling_params\":{\"max_tokens\":1,\"min_tokens\":2}}", 400,
         "less than or equal to max_tokens=1, got 2."},
        {"generate's limit of a wrong type", GENERATE_PATH,
         "{\"token_ids\":[1],\"sampling_params\":{\"max_tokens\":\"x\"}}", 400,
         "\"param\":\"body.sampling_params.max_tokens\""},
        {"no ids", GENERATE_PATH, "{\"token_ids\":[],\"sampling_params\":{}}", 400, "\"param\":\"body.token_ids\""},
        {"generate is not rendered", GENERATE_PATH "/render", "{}", 404, "{\"detail\":\"Not Found\"}"},
        {"unknown path", "/v1/nothing", CHAT_BODY(""), 404, "{\"detail\":\"Not Found\"}"},
        {"no messages", CHAT_PATH, "{}", 400, "\"param\":\"body.messages\""},
        {"no prompt", COMPLETIONS_PATH, "{}", 400, "prompt"},
        {"text ids", COMPLETIONS_PATH, "{\"prompt\":[1,\"x\"]}", 400, "\"param\":\"body.prompt\""},
        {"zero max_tokens", CHAT_PATH, CHAT_BODY(",\"max_tokens\":0"), 400, "max_tokens"},
        {"max_tokens of a wrong type", CHAT_PATH, CHAT_BODY(",\"max_tokens\":\"many\""), 400, "body.max_tokens"},
        {"stream of a wrong type", CHAT_PATH, CHAT_BODY(",\"stream\":[1]"), 400, "body.stream"},
        {"render refuses, too", CHAT_PATH "/render", "{}", 400, "body.messages"},
        {"an escaped name counts", CHAT_PATH, "{\"mod\\u0065l\":\"nope\",\"messages\":[]}", 404, "nope"},
        {"trailing comma", CHAT_PATH, "{\"messages\":[],}", 400, "JSON decode error"},
        {"NaN", CHAT_PATH, "{\"messages\":[],\"x\":NaN}", 400, "JSON decode error"},
        {"leading zero", CHAT_PATH, "{\"messages\":[],\"x\":01}", 400, "JSON decode error"},
        {"bare control", CHAT_PATH, "{\"model\":\"m\n\"}", 400, "JSON decode error"},
        {"bad escape", CHAT_PATH, "{\"model\":\"\\x\"}", 400, "JSON decode error"},
        {"bad UTF-8", CHAT_PATH, "{\"model\":\"\xc3(\"}", 400, "JSON decode error"},
        {"overlong UTF-8", CHAT_PATH, "{\"model\":\"\xc0\xaf\"}", 400, "JSON decode error"},
        {"two values", CHAT_PATH, "{}{}", 400, "JSON decode error"},
        {"empty body", CHAT_PATH, "", 400, "JSON decode error"},
        {"a list", CHAT_PATH, "[]", 400, "valid dictionary"},
    };

    (void)state;
    SIM("--model", "m");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct client *client = ask(rows[i].path, DECODE, "%s", rows[i].body);
        if (client->answer.status != rows[i].status || !strstr(client->answer.body.data, rows[i].says))
            fail_msg("%s: %d %s", rows[i].name, client->answer.status, client->answer.body.data);
    }
    struct text deep = {0};
    for (int i = 0; i < 2000; i++)
        text_printf(&deep, "[");
    struct client *client = ask(CHAT_PATH, DECODE, "{\"x\":%s", deep.data);
    assert_contains(client->answer.body.data, "JSON decode error");
    text_free(&deep);
}

static void methods_and_media_types_are_checked(void **state)
{
    (void)state;
    SIM("--model", "m");
    assert_int_equal(look("GET", CHAT_PATH)->answer.status, 405);
    struct client *client = client_open(deployed.sim_port);
    client_say(client,
               "POST " MESSAGES_PATH " HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}");
    assert_true(client_read(client, PATIENCE_MS));
    assert_int_equal(client->answer.status, 400);
    assert_contains(client->answer.body.data,
                    "{\"error\":{\"message\":\"1 validation error:\\n  Unsupported Media Type");
    client = client_open(deployed.sim_port);
    client_say(client, "POST " CHAT_PATH " HTTP/1.1\r\nHost: a\r\nContent-Type: Application/JSON; charset=utf-8\r\n"
                       "Content-Length: 2\r\n\r\n{}");
    assert_true(client_read(client, PATIENCE_MS));
    assert_contains(client->answer.body.data, "body.messages");
}

static void pages_answer(void **state)
{
    (void)state;
    SIM("--model", "m");
    assert_string_equal(string_of(look("GET", "/v1/models"), "/data/0/id"), "m");
    struct client *client = look("GET", "/health");
    assert_int_equal(client->answer.status, 200);
    assert_int_equal(client->answer.length, 0);
    client = fetch_port(deployed.sim_port, "PUT", "/sim/echo?a=b", "X-One: 1\r\nx-one: 2\r\n", "12345");
    assert_string_equal(string_of(client, "/method"), "PUT");
    assert_string_equal(string_of(client, "/target"), "/sim/echo?a=b");
    assert_int_equal(number_of(client, "/body_length"), 5);
    assert_contains(client->answer.body.data, "[\"X-One\",\"1\"],[\"x-one\",\"2\"]");
    client = look("HEAD", "/sim/echo");
    assert_int_equal(client->answer.status, 200);
    assert_true(client->answer.length > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SIM_TEST(answers_have_the_recorded_shape),
        SIM_TEST(heads_are_the_engines),
        SIM_TEST(a_stream_says_the_same_as_a_body),
        SIM_TEST(output_is_the_seeds),
        SIM_TEST(refusals_are_the_engines),
        SIM_TEST(methods_and_media_types_are_checked),
        SIM_TEST(pages_answer),
    };

    return harness_run(tests);
}
