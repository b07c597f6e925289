/*
 * worker-sim as a worker: shapes as the engine's own recordings have them, what it refuses, templates, usage, KV books.
 * Faults, framing and load: test_worker_sim_wire.c.
 */
#include "sim_test.h"

/* Each API: a request without what only some tests add, and where its answers have things. */
static const struct api {
    const char *path;
    const char *body;   /* of a prompt that is the same on chat, Responses and Messages */
    const char *prompt; /* pointer to the prompt's tokens in a JSON answer */
    const char *cached;
    bool template;
} APIS[] = {
    {CHAT_PATH, CHAT_BODY(""), "/usage/prompt_tokens", "/usage/prompt_tokens_details/cached_tokens", true},
    {COMPLETIONS_PATH, "{\"model\":\"m\",\"prompt\":\"hello there, all of you\"}", "/usage/prompt_tokens",
     "/usage/prompt_tokens_details/cached_tokens", false},
    {RESPONSES_PATH, "{\"model\":\"m\",\"input\":\"hello there\"}", "/usage/input_tokens",
     "/usage/input_tokens_details/cached_tokens", true},
    {MESSAGES_PATH, CHAT_BODY(",\"max_tokens\":20"), NULL, "/usage/cache_read_input_tokens", true},
    {GENERATE_PATH, "{\"model\":\"m\",\"token_ids\":[0,5,6,7],\"sampling_params\":{\"max_tokens\":20}}",
     "/usage/prompt_tokens", "/usage/prompt_tokens_details/cached_tokens", false},
};
#define EACH_API(api) (const struct api *api = APIS; api < APIS + sizeof APIS / sizeof *APIS; api++)

static int64_t messages_prompt(const char *json, const char *usage)
{
    char pointer[96];
    int64_t sum = 0;
    static const char *const members[] = {"input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"};

    for (size_t i = 0; i < 3; i++) {
        snprintf(pointer, sizeof pointer, "%s/%s", usage, members[i]);
        sum += has_in(json, pointer) ? number_in(json, pointer) : 0;
    }
    return sum;
}

static int64_t prompt_of(const struct api *api, const struct client *client)
{
    return api->prompt ? number_of(client, api->prompt) : messages_prompt(client->answer.body.data, "/usage");
}

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

/* ---- Templates ---- */

static const char *rendered(const char *path, const char *body)
{
    char render[96];

    snprintf(render, sizeof render, "%s/render", path);
    return raw_of(ask_well(render, "", "%s", body), "token_ids");
}

static int64_t count_of(const char *list)
{
    int64_t count = 1;

    for (; *list; list++)
        count += *list == ',';
    return count;
}

static void templates_see_bytes(void **state)
{
    static const struct {
        const char *name, *path, *one, *other;
    } rows[] = {
        {"order of keys in tools", CHAT_PATH, CHAT_BODY(",\"tools\":[{\"name\":\"f\",\"d\":1}]"),
         CHAT_BODY(",\"tools\":[{\"d\":1,\"name\":\"f\"}]")},
        {"order of keys in messages", CHAT_PATH, CHAT_BODY(""),
         "{\"messages\":[{\"content\":\"hello there\",\"role\":\"user\"}]}"},
        {"tools of Messages", MESSAGES_PATH, CHAT_BODY(",\"max_tokens\":1,\"tools\":[{\"name\":\"f\",\"d\":1}]"),
         CHAT_BODY(",\"max_tokens\":1,\"tools\":[{\"d\":1,\"name\":\"f\"}]")},
        {"system of Messages", MESSAGES_PATH, CHAT_BODY(",\"max_tokens\":1"),
         CHAT_BODY(",\"max_tokens\":1,\"system\":\"s\"")},
        {"tools of Responses", RESPONSES_PATH, "{\"input\":\"x\",\"tools\":[{\"name\":\"f\",\"d\":1}]}",
         "{\"input\":\"x\",\"tools\":[{\"d\":1,\"name\":\"f\"}]}"},
        {"instructions of Responses", RESPONSES_PATH, "{\"input\":\"x\"}", "{\"input\":\"x\",\"instructions\":\"s\"}"},
        {"thinking", CHAT_PATH, CHAT_BODY(""), CHAT_BODY(",\"chat_template_kwargs\":{\"enable_thinking\":false}")},
    };

    (void)state;
    SIM("--tokens", "2");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rendered(rows[i].path, rows[i].one), rendered(rows[i].path, rows[i].other)) == 0)
            fail_msg("%s makes no difference", rows[i].name);
    assert_string_equal(rendered(RESPONSES_PATH, "{\"input\":\"hello there\"}"), rendered(CHAT_PATH, CHAT_BODY("")));
    assert_string_equal(rendered(RESPONSES_PATH, "{\"input\":\"hello there\",\"instructions\":\"s\"}"),
                        rendered(MESSAGES_PATH, CHAT_BODY(",\"max_tokens\":1,\"system\":\"s\"")));
    assert_string_equal(rendered(RESPONSES_PATH, "{\"input\":[{\"role\":\"user\",\"content\":\"x\"}]}"),
                        rendered(RESPONSES_PATH, "{\"input\":\"x\"}"));
}

static void render_and_decode_agree_or_drift_as_configured(void **state)
{
    (void)state;
    for (int drift = 0; drift < 2; drift++) {
        SIM("--render-template", drift ? "B" : "A");
        for
            EACH_API(api)
            {
                if (!api->template)
                    continue;
                int64_t counted = count_of(rendered(api->path, api->body));
                int64_t used = prompt_of(api, ask_well(api->path, DECODE, "%s", api->body));
                assert_int_equal(counted != used, drift);
            }
        end_sim();
    }
}

static void media_become_features(void **state)
{
    static const struct {
        const char *path, *body;
    } rows[] = {
        {CHAT_PATH, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"what\"},"
                    "{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:,%s\"}}]}]}"},
        {RESPONSES_PATH, "{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"what\"},"
                         "{\"type\":\"input_image\",\"image_url\":\"data:,%s\"}]}]}"},
        {MESSAGES_PATH, "{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":"
                        "\"what\"},{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"data\":\"%s\"}}]}]}"},
    };
    static char data[200000];

    (void)state;
    SIM("--tokens", "2");
    memset(data, 'A', sizeof data - 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct text body = {0};
        const char *hole = strstr(rows[i].body, "%s");
        text_printf(&body, "%.*s%s%s", (int)(hole - rows[i].body), rows[i].body, data, hole + 2);
        char render[64];
        snprintf(render, sizeof render, "%s/render", rows[i].path);
        struct client *client = ask_well(render, "", "%s", body.data);
        int64_t at = number_of(client, "/features/mm_placeholders/image/0/offset");
        char pointer[64];
        snprintf(pointer, sizeof pointer, "/token_ids/%lld", (long long)at);
        assert_int_equal(number_of(client, pointer), 3);
        assert_true(count_of(raw_of(client, "token_ids")) < 200);
        struct client *encoded = ask_well(rows[i].path, "EPP-Profile: encode\r\n", "%s", body.data);
        if (i != 2) { /* Messages has no such member */
            snprintf(pointer, sizeof pointer, "/ec_transfer_params/%s",
                     string_of(client, "/features/mm_hashes/image/0"));
            assert_true(has_in(encoded->answer.body.data, pointer));
        }
        text_free(&body);
    }
    assert_int_equal(sim_count("requests.encode"), 3);
}

static void forwarded_ids_are_the_prompt(void **state)
{
    (void)state;
    SIM("--tokens", "2");
    for
        EACH_API(api)
        {
            const char *body = with_kv(api->body, "{\"prompt_token_ids\":[0,1,2,3,4]}");
            int64_t used = prompt_of(api, ask_well(api->path, DECODE, "%s", body));
            if (api->template)
                assert_int_equal(used, 5);
            else
                assert_int_equal(used, prompt_of(api, ask_well(api->path, DECODE, "%s", api->body)));
        }
    const char *kv = replaced(NIXL, "}", ",\"prompt_token_ids\":[1,2,3]}");
    assert_int_equal(number_of(ask_well(CHAT_PATH, PREFILL, "%s", with_kv(CHAT_BODY(""), kv)), "/usage/prompt_tokens"),
                     3);
    assert_int_equal(count_of(rendered(CHAT_PATH, with_kv(CHAT_BODY(""), kv))), 3);
}

/* ---- Usage ---- */

static void cached_tokens_are_as_told(void **state)
{
    (void)state;
    SIM("--cached", "decode=3", "--cached", "prefill=2", "--created-cache", "decode=1");
    for
        EACH_API(api)
        {
            struct client *client = ask_well(api->path, DECODE, "%s", api->body);
            assert_int_equal(number_of(client, api->cached), 3);
            assert_int_equal(number_of(ask_well(api->path, FAULT("cached=1"), "%s", api->body), api->cached), 1);
            client = ask_well(api->path, PREFILL, "%s", with_kv(api->body, NIXL));
            assert_int_equal(number_of(client, api->cached), 2);
            assert_int_equal(number_of(client, "/kv_transfer_params/remote_prefill_cached_tokens"), 2);
            client = ask_well(api->path, DECODE, "%s", with_kv(api->body, turned(client)));
            assert_int_equal(number_of(client, api->cached), 3);
            client = ask_well(api->path, FAULT("cached=1000000"), "%s", api->body);
            assert_int_equal(number_of(client, api->cached), prompt_of(api, client));
        }
    assert_int_equal(sim_count("hits"), 5);
    struct client *client = ask_well(CHAT_PATH, DECODE, CHAT_BODY(""));
    assert_int_equal(number_of(client, "/usage/prompt_tokens_details/created_cache_tokens"), 1);
    client = ask_well(RESPONSES_PATH, DECODE, "{\"input\":\"x\"}");
    assert_int_equal(number_of(client, "/usage/input_tokens_details/cache_write_tokens"), 1);
}

static void messages_split_adds_up_to_the_prompt(void **state)
{
    (void)state;
    SIM("--cached", "decode=3", "--created-cache", "decode=2");
    int64_t whole = count_of(rendered(MESSAGES_PATH, APIS[3].body));
    struct client *client = ask_well(MESSAGES_PATH, DECODE, "%s", APIS[3].body);
    assert_int_equal(messages_prompt(client->answer.body.data, "/usage"), whole);
    assert_int_equal(number_of(client, "/usage/input_tokens"), whole - 5);
    client = ask_well(MESSAGES_PATH, DECODE, CHAT_BODY(",\"max_tokens\":20,\"stream\":true"));
    assert_int_equal(number_in(event_data(client, 0), "/message/usage/input_tokens"), whole);
    assert_false(has_in(event_data(client, 0), "/message/usage/cache_read_input_tokens"));
    assert_int_equal(messages_prompt(event_data(client, -2), "/usage"), whole);
    assert_int_equal(number_in(event_data(client, -2), "/usage/cache_creation_input_tokens"), 2);

    client = ask_well(MESSAGES_PATH, FAULT("early-zero-usage"), CHAT_BODY(",\"max_tokens\":20,\"stream\":true"));
    assert_int_equal(number_in(event_data(client, 0), "/message/usage/input_tokens"), 0);
    assert_int_equal(messages_prompt(event_data(client, -2), "/usage"), whole);
    client = ask_well(MESSAGES_PATH, FAULT("no-cache-details"), "%s", APIS[3].body);
    assert_int_equal(number_of(client, "/usage/input_tokens"), whole);
    assert_false(has_in(client->answer.body.data, "/usage/cache_read_input_tokens"));
}

/* What a worker's flag, or the same as a fault item, makes of a stream. */
static void workers_differ_in_the_usage_of_streams(void **state)
{
    static const char plain_stream[] = ",\"stream\":true";
    static const char asks[] = ",\"stream\":true,\"stream_options\":{\"include_usage\":true}";
    static const char continuous[] =
        ",\"stream\":true,\"stream_options\":{\"include_usage\":true,\"continuous_usage_stats\":true}";
    static const struct {
        const char *trait, *more;
        const char *content, *final; /* kind of usage on a content frame of chat, and of the last frame before [DONE] */
        bool frame;                  /* that one is a usage frame */
    } rows[] = {
        {"", plain_stream, "absent", "absent", false},
        {"", asks, "absent", "object", true},
        {"", continuous, "object", "object", true},
        {"force-include-usage", plain_stream, "absent", "object", true},
        {"force-continuous-usage", plain_stream, "object", "object", true},
        {"usage-null-chunks", plain_stream, "absent", "absent", false},
        {"usage-null-chunks", asks, "null", "object", true},
        {"usage-null", asks, "null", "null", true},
        {"no-usage", asks, "absent", "absent", false},
        {"no-usage", continuous, "absent", "absent", false},
    };

    (void)state;
    for (int by_flag = 0; by_flag < 2; by_flag++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            char flag[64], fields[128];
            snprintf(flag, sizeof flag, "--%s", rows[i].trait);
            snprintf(fields, sizeof fields, FAULT("%s"), by_flag ? "" : rows[i].trait);
            if (by_flag && (!*rows[i].trait || strcmp(rows[i].trait, "usage-null") == 0))
                continue; /* that one is a fault only */
            SIM("--tokens", "3", by_flag ? flag : NULL);
            for (size_t a = 0; a < 5; a++) {
                const struct api *api = &APIS[a];
                if (a == 2 || a == 3)
                    continue;
                struct text body = {0};
                text_printf(&body, "%.*s%s}", (int)strlen(api->body) - 1, api->body, rows[i].more);
                struct client *client = ask_well(api->path, fields, "%s", body.data);
                const char *last = event_data(client, -2);
                const char *content = rows[i].content;
                if (a == 4 && strcmp(rows[i].trait, "no-usage") != 0 && strcmp(content, "absent") == 0)
                    content = "null"; /* generate leaves no member out */
                const char *final = rows[i].frame ? rows[i].final : content;
                assert_string_equal(kind_in(event_data(client, 1), "/usage"), content);
                assert_string_equal(kind_in(last, "/usage"), final);
                assert_int_equal(!has_in(last, "/choices/0"), rows[i].frame);
                text_free(&body);
            }
            end_sim();
        }
}

static void an_old_worker_has_no_usage(void **state)
{
    (void)state;
    SIM("--no-usage");
    for
        EACH_API(api)
        {
            assert_false(has_in(ask_well(api->path, DECODE, "%s", api->body)->answer.body.data, "/usage"));
            struct client *client = ask_well(api->path, DECODE, "%s", replaced(api->body, "{", "{\"stream\":true,"));
            assert_int_equal(text_count(&client->answer.body, "_tokens\":"), api->path == APIS[2].path ? 3 : 0);
        }
}

/* ---- KV books ---- */

static void an_exact_descriptor_hits_once(void **state)
{
    int64_t hits = 0;

    (void)state;
    SIM("--tokens", "2");
    for
        EACH_API(api)
        {
            struct client *prefill = ask_well(api->path, PREFILL, "%s", with_kv(api->body, NIXL));
            struct text kv = {0};
            text_printf(&kv, "%s", turned(prefill));
            assert_contains(kv.data, "\"remote_host\":\"127.0.0.1\"");
            assert_contains(kv.data, "184467440737095"); /* an id above 2^63 */
            assert_int_equal(sim_count("stranded"), 1);
            struct client *client = ask_well(api->path, DECODE, "%s", with_kv(api->body, kv.data));
            assert_int_equal(number_of(client, api->cached), prompt_of(api, client));
            assert_int_equal(sim_count("hits"), ++hits);
            client = ask_well(api->path, DECODE, "%s", with_kv(api->body, kv.data));
            assert_int_equal(number_of(client, api->cached), 0);
            assert_int_equal(sim_count("misses"), hits);
            assert_int_equal(sim_count("stranded"), 0);
            text_free(&kv);
        }
    assert_int_equal(sim_count("token_drift"), 0);
}

static void altered_descriptors_miss(void **state)
{
    static const struct {
        const char *part, *by;
    } edits[] = {
        {"\"sim_scale\":0.10", "\"sim_scale\":0.1"},
        {"\\u00e9", "\u00e9"},
        {"\\/", "/"},
        {"\"tp_size\":1,", ""},
        {"{", "{\"more\":1,"},
        {"\"remote_block_ids\":[[", "\"remote_block_ids\":[[1"},
        {"\"do_remote_decode\":false", "\"do_remote_decode\":true"},
    };
    enum { EDITS = sizeof edits / sizeof *edits };

    (void)state;
    SIM("--tokens", "2");
    for (size_t i = 0; i < EDITS; i++) {
        const char *kv = turned(ask_well(CHAT_PATH, PREFILL, "%s", with_kv(CHAT_BODY(""), NIXL)));
        ask_well(CHAT_PATH, DECODE, "%s", with_kv(CHAT_BODY(""), replaced(kv, edits[i].part, edits[i].by)));
        assert_int_equal(sim_count("altered"), (int64_t)i + 1);
    }
    ask_well(CHAT_PATH, DECODE, "%s", with_kv(CHAT_BODY(""), FETCH_SHARED));
    assert_int_equal(sim_count("misses"), EDITS + 1);
    assert_int_equal(sim_count("altered"), EDITS);
    const char *kv = turned(ask_well(CHAT_PATH, PREFILL, "%s", with_kv(CHAT_BODY(""), NIXL)));
    kv = replaced(kv, "{", "{\"prompt_token_ids\":[1,2],"); /* beside the descriptor, and so no harm to it */
    ask_well(CHAT_PATH, DECODE, "%s", with_kv(CHAT_BODY(""), kv));
    assert_int_equal(sim_count("hits"), 1);
    assert_int_equal(sim_count("token_drift"), 1);
}

static void drift_between_legs_is_counted(void **state)
{
    int64_t drifts = 0;

    (void)state;
    SIM("--tokens", "2");
    for
        EACH_API(api)
        {
            const char *word = api->template || api == &APIS[1] ? "hello" : "[0";
            const char *other = replaced(api->body, word, api->template || api == &APIS[1] ? "adieu" : "[1");
            struct client *prefill = ask_well(api->path, PREFILL, "%s", with_kv(api->body, NIXL));
            ask_well(api->path, DECODE, "%s", with_kv(other, turned(prefill)));
            assert_int_equal(sim_count("token_drift"), ++drifts);
            assert_int_equal(sim_count("hits"), drifts);
        }
}

static void shared_storage_hits_by_tokens(void **state)
{
    (void)state;
    SIM("--tokens", "2");
    for
        EACH_API(api)
        {
            sim_reset();
            struct client *client = ask_well(api->path, PREFILL, "%s", with_kv(api->body, SHARED));
            assert_false(strcmp(kind_in(client->answer.body.data, "/kv_transfer_params"), "object") == 0);
            ask_well(api->path, DECODE, "%s", with_kv(api->body, FETCH_SHARED));
            assert_int_equal(sim_count("shared_hits"), 1);
        }
    ask_well(CHAT_PATH, DECODE, "%s", with_kv(CHAT_BODY(",\"tools\":[]"), FETCH_SHARED));
    assert_int_equal(sim_count("misses"), 1);
    ask_well(CHAT_PATH, DECODE, CHAT_BODY(""));
    assert_int_equal(sim_count("local"), 1);
    struct client *client = client_open(deployed.sim_port);
    for (int i = 0; i < 3000; i++) { /* the table grows */
        char body[256];
        snprintf(body, sizeof body, "{\"prompt\":[%d,7],\"max_tokens\":1,\"kv_transfer_params\":" SHARED "}", i);
        client_post(client, COMPLETIONS_PATH, PREFILL, span_of(body));
        assert_true(client_read(client, PATIENCE_MS));
    }
    ask_well(COMPLETIONS_PATH, DECODE, "%s", with_kv("{\"prompt\":[5,7]}", FETCH_SHARED));
    assert_int_equal(sim_count("shared_hits"), 2);
}

static void prefill_wants_a_handshake(void **state)
{
    static const struct {
        const char *flag, *kv;
        int status;
    } rows[] = {
        {"auto", "null", 400},
        {"auto", "{}", 400},
        {"auto", "{\"do_remote_decode\":true}", 400},
        {"auto", "{\"do_remote_decode\":true,\"do_remote_prefill\":false,\"remote_host\":null}", 400},
        {"auto", FETCH_SHARED, 400},
        {"auto", NIXL, 200},
        {"auto", SHARED, 200},
        {"nixl", SHARED, 400},
        {"nixl", NIXL, 200},
        {"shared", NIXL, 400},
        {"shared", SHARED, 200},
        {"off", "null", 200},
    };
    int64_t bad = 0;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        SIM("--kv", rows[i].flag);
        bad = 0;
        for
            EACH_API(api)
            {
                struct client *client = ask(api->path, PREFILL, "%s", with_kv(api->body, rows[i].kv));
                assert_int_equal(client->answer.status, rows[i].status);
                bad += rows[i].status == 400;
            }
        assert_int_equal(sim_count("bad_handshakes"), bad);
        end_sim();
    }
}

static void probes_answer_412(void **state)
{
    char luck[2][61] = {"", ""};

    (void)state;
    SIM("--tokens", "2");
    struct client *client = ask(MESSAGES_PATH, PROBE, "%s", APIS[3].body);
    assert_int_equal(client->answer.status, 412);
    assert_string_equal(string_of(client, "/type"), "error");
    ask_well(CHAT_PATH, PROBE "x-sim-probe: hit\r\n", CHAT_BODY(""));
    assert_int_equal(sim_count("requests.probe"), 2);
    end_sim();
    for (int round = 0; round < 2; round++) {
        SIM("--probe-412", "0.5", "--seed", "7");
        for (int i = 0; i < 60; i++)
            luck[round][i] = ask(CHAT_PATH, PROBE, CHAT_BODY(""))->answer.status == 412 ? 'x' : '.';
        end_sim();
    }
    assert_string_equal(luck[0], luck[1]); /* the same seed, the same luck */
    size_t misses = 0;
    for (int i = 0; i < 60; i++)
        misses += luck[0][i] == 'x';
    assert_in_range(misses, 10, 50);
}

static void cancelled_requests_are_counted(void **state)
{
    (void)state;
    SIM("--event-interval", "50", "--tokens", "1000");
    for
        EACH_API(api)
        {
            struct client *client = client_open(deployed.sim_port);
            const char *body = replaced(api->body, "{", "{\"stream\":true,");
            client_post(client, api->path, DECODE, span_of(body));
            assert_true(client_read_head(client, PATIENCE_MS));
            client_close(client);
        }
    UNTIL(sim_count("cancelled_in.decode") == 5);
    struct client *client = client_open(deployed.sim_port);
    client_post(client, CHAT_PATH, PREFILL "x-sim-fault-prefill: delay=5000\r\n",
                span_of(with_kv(CHAT_BODY(""), NIXL)));
    UNTIL(sim_count("active_requests") == 1);
    client_close(client);
    UNTIL(sim_count("cancelled_in.prefill") == 1);
    assert_int_equal(sim_count("cancelled"), 6);
    sim_reset();
    assert_int_equal(sim_count("cancelled"), 0);
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
        SIM_TEST(templates_see_bytes),
        SIM_TEST(render_and_decode_agree_or_drift_as_configured),
        SIM_TEST(media_become_features),
        SIM_TEST(forwarded_ids_are_the_prompt),
        SIM_TEST(cached_tokens_are_as_told),
        SIM_TEST(messages_split_adds_up_to_the_prompt),
        SIM_TEST(workers_differ_in_the_usage_of_streams),
        SIM_TEST(an_old_worker_has_no_usage),
        SIM_TEST(an_exact_descriptor_hits_once),
        SIM_TEST(altered_descriptors_miss),
        SIM_TEST(drift_between_legs_is_counted),
        SIM_TEST(shared_storage_hits_by_tokens),
        SIM_TEST(prefill_wants_a_handshake),
        SIM_TEST(probes_answer_412),
        SIM_TEST(cancelled_requests_are_counted),
    };

    return harness_run(tests);
}
