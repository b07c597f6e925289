/* `coordinator explain` and `check --explain`: what a dry run shows is what a real run does, and it calls nobody. */
#include "explained.h"

/* `Name: value` lines, without the ones that are made anew for each request. */
static void lines_of(json_object *leg, struct text *lines)
{
    json_object *list = member(leg, "headers");

    text_clear(lines);
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        json_object *field = json_object_array_get_idx(list, i);
        const char *name = json_object_get_string(json_object_array_get_idx(field, 0));

        if (strcmp(name, "x-llm-d-revision-decision-id") != 0)
            text_printf(lines, "%s: %s\n", name, json_object_get_string(json_object_array_get_idx(field, 1)));
    }
}

static void without_decision(const char *headers, struct text *lines)
{
    text_clear(lines);
    for (const char *at = headers, *end; *at; at = end + 1) {
        end = strchrnul(at, '\n');
        if (strncmp(at, "x-llm-d-revision-decision-id:", 29) != 0 && end > at)
            text_printf(lines, "%.*s\n", (int)(end - at - (end[-1] == '\r')), at);
        if (!*end)
            break;
    }
}

/* ---- What goes out ---- */

/* In single quotes, as YAML wants it. */
static void add_answer(struct text *yaml, const char *leg, const char *before, struct span json, const char *after)
{
    text_printf(yaml, "- leg: %s\n  body: '%s", leg, before);
    for (size_t i = 0; i < json.size; i++)
        text_printf(yaml, json.data[i] == '\'' ? "''" : "%c", json.data[i]);
    text_printf(yaml, "%s'\n", after);
}

/* The first request of that phase among those of the last real run; NULL: there is none. */
static size_t before; /* requests that the transcript held then */

static const struct recorded *sent_in(const char *phase)
{
    struct recorded *list;
    size_t count = transcript_read(&list);

    for (size_t i = before; i < count; i++)
        if (strcmp(list[i].phase, phase) == 0)
            return &list[i];
    return NULL;
}

/* The answers that the real run got, as far as its legs show them: so that the dry one can go the same way to the byte. */
static void write_answers(void)
{
    const struct recorded *leg = sent_in("prefill");
    bool listed = strstr(leg->target, "/v1/completions") != NULL;
    struct span params = json_member(text_span(&leg->body), "kv_transfer_params");
    struct span ids = listed ? json_member(text_span(&leg->body), "prompt") : json_member(params, "prompt_token_ids");
    struct text yaml = {0};

    text_printf(&yaml, "# as the workers answered\n");
    if (ids.size > 0)
        add_answer(&yaml, "render", listed ? "[{\"token_ids\":" : "{\"token_ids\":", ids, listed ? "}]" : "}");
    add_answer(&yaml, "prefill",
               "{\"kv_transfer_params\":", json_member(text_span(&sent_in("decode")->body), "kv_transfer_params"), "}");
    file_write(in_folder("answers.yaml"), yaml.data);
    text_free(&yaml);
}

static void assert_same_leg(const struct run *run, const char *phase)
{
    const struct recorded *real = sent_in(phase);
    struct text dry = {0}, sent = {0};
    json_object *leg;

    if (!real) {
        assert_int_equal(leg_count(run, phase), 0);
        return;
    }
    assert_int_equal(leg_count(run, phase), 1);
    leg = leg_of(run, phase, 0);
    assert_same_bytes(span_of(text_of(leg, "body")), text_span(&real->body));
    assert_string_equal(text_of(leg, "target"), real->target);
    assert_string_equal(text_of(leg, "method"), "POST");
    lines_of(leg, &dry);
    without_decision(real->headers, &sent);
    assert_same_bytes(text_span(&dry), text_span(&sent));
    text_free(&dry);
    text_free(&sent);
}

#define ODD_START                                                                                                      \
    "{ \"zeta\":1,\"model\" : "                                                                                        \
    "\"m\",\"seed\":9007199254740993,\"temperature\":1.0,\"top_p\":1e0,\"x\":-0,\"y\":1e3,\"big\":"                    \
    "18446744073709551617,\n\t"
#define ODD_END                                                                                                        \
    " ,\"tools\":[{\"type\":\"function\",\"function\":{\"parameters\":{\"type\":\"object\",\"properties\":{"           \
    "\"zebra\":{},\"apple\":{},\"mango\":{}},\"zebra\":1,\"zebra\":2},\"name\":\"f\"}}],"                              \
    "\"chat_template_kwargs\":{\"enable_thinking\":false,\"b\":1,\"a\":2} ,\"metadata\":{\"n\":0.1,\"l\":[1 , "        \
    "2]},\"nothing\":null"
#define ODD_MESSAGES                                                                                                   \
    "\"messages\":[{\"role\":\"user\",\"content\":\"caf\\u00e9 it's \\/ \\ud83d <&> \xc3\xa9\\u2028\"} ]"

static const struct {
    const char *path, *body;
} APIS[] = {
    {CHAT_PATH, ODD_START ODD_MESSAGES ODD_END},
    {"/v1/completions", "{\"prompt\" :\"caf\\u00e9 \",\"model\":\"m\",\"temperature\":1.0,\"nothing\":null"},
    {"/v1/responses", "{\"input\": \"caf\\u00e9\" ,\"model\":\"m\",\"top_p\":1e0,\"metadata\":{\"n\":\"1\"}"},
    {"/v1/messages", "{\"max_tokens\":9,\"model\":\"m\"," ODD_MESSAGES},
    {"/inference/v1/generate",
     "{\"model\":\"m\",\"token_ids\":[1, 2,3] ,\"sampling_params\":{\"temperature\":1.0,\"max_tokens\":7}"},
};
enum { API_COUNT = sizeof APIS / sizeof *APIS };

static void compare(const char *path, const char *body)
{
    static const char fields[] = "x-request-id: the-same\r\nX-Mine: a\r\nAccept-Encoding: br\r\n";
    struct recorded *list;
    struct run run;

    before = transcript_read(&list);
    assert_int_equal(fetch("POST", path, fields, body)->answer.status, 200);
    write_answers();
    run = explain(deployed.config, body,
                  (const char *const[]){"--path", path, "--header", "x-request-id: the-same", "--header", "X-Mine: a",
                                        "--header", "Accept-Encoding: br", "--answers", in_folder("answers.yaml"),
                                        "--json", NULL},
                  NULL);
    if (run.code != 0)
        fail_msg("%s: exit %d: %s", path, run.code, run.output.data);
    assert_string_equal(text_of(run.json, "pipeline"), "default");
    assert_same_leg(&run, "render");
    assert_same_leg(&run, "prefill");
    assert_same_leg(&run, "decode");
    assert_int_equal(transcript_read(&list), before + leg_count(&run, "render") + 2); /* of the real run alone */
    run_end(&run);
}

static void explain_shows_the_bytes_that_workers_get(void **state)
{
    static const char *const gateways[] = {"  transport: direct", "  transport: curl"};
    static const char *const streams[] = {"}", ",\"stream\": false}", " ,\"stream\":true }"};
    static const char rest[] = "    - {type: render, params: {address: \"@\"}}\n"
                               "    - type: prefill\n"
                               "    - type: decode\n";
    char steps[512], load[256], body[2048];

    (void)state;
    snprintf(load, sizeof load, "  load: [\"%s/rehearsed.so\"]", test_plugin_folder());
    for (size_t g = 0; g < 4; g++) { /* by each transport; as it is, and with the step of a third party */
        snprintf(steps, sizeof steps, "%s%s", g & 2 ? "    - type: test-splice\n" : "", rest);
        deploy(&(struct plan){.gateway = gateways[g & 1], .plugins = load, .steps = steps});
        for (size_t i = 0; i < API_COUNT; i++)
            for (size_t s = 0; s < sizeof streams / sizeof *streams; s++) {
                snprintf(body, sizeof body, "%s%s", APIS[i].body, streams[s]);
                compare(APIS[i].path, body);
            }
        assert_int_equal(harness_end(NULL), 0);
    }
}

/* ---- What is told of it ---- */

static void splices_are_named_and_marked_and_the_rest_is_the_clients(void **state)
{
    static const char body[] = ODD_START ODD_MESSAGES ODD_END "}";
    static const char *const set[] = {"/user", "/metadata/n", "/metadata/l/1", "/nothing", "/kv_transfer_params"};
    struct run run = explain(configure(GATEWAY PLUGIN "pipeline:\n  steps:\n    - type: test-splice\n" RENDER
                                                      "    - type: prefill\n    - type: decode\n"),
                             body, JSON, NULL);
    json_object *leg;

    (void)state;
    assert_int_equal(run.code, 0);
    leg = leg_of(&run, "decode", 0);
    for (size_t i = 0; i < sizeof set / sizeof *set; i++)
        if (!spliced(leg, set[i]))
            fail_msg("%s is not among %s", set[i], json_object_to_json_string(member(leg, "spliced")));
    assert_int_equal(json_object_array_length(member(leg, "spliced")), sizeof set / sizeof *set);
    leg = leg_of(&run, "prefill", 0);
    assert_true(spliced(leg, "/max_tokens") && spliced(leg, "/stream"));
    assert_false(spliced(leg, "/messages"));
    assert_int_equal(leg_count(&run, "test-splice"), 0);
    run_end(&run);
    run = explain(in_folder("c.yaml"), body, NULL, NULL);
    assert_contains(run.output.data, "set or removed: /metadata/n /metadata/l/1 /user /kv_transfer_params /nothing; "
                                     "every other byte is the client's");
    assert_contains(run.output.data, "\"metadata\":{\"n\":«{\"deep\":[1]}»,\"l\":[1«,1.50» , 2]}«,\"user\":\"noted\"");
    run_end(&run);
}

static const char TWO[] = "gateways:\n"
                          "  left: {address: \"http://left.invalid:8080/prefix\"}\n"
                          "  right: {address: \"https://right.invalid\", ca_file: /nowhere/ca.pem}\n"
                          "pipelines:\n"
                          "- name: llamas\n"
                          "  match: {models: [\"llama-*\"]}\n"
                          "  gateway: left\n"
                          "  steps: [{type: decode}]\n"
                          "- name: gold\n"
                          "  match: {headers: {x-tenant: gold}, apis: [messages, chat_completions]}\n"
                          "  gateway: right\n"
                          "  steps: [{type: decode, id: golden}]\n";

static void the_pipeline_is_named_and_why_the_others_were_not_it(void **state)
{
    const char *config = configure(TWO);
    struct run run = explain(config, CHAT, (const char *const[]){"--json", "--header", "X-Tenant: gold", NULL}, NULL);
    json_object *over;

    (void)state;
    assert_int_equal(run.code, 0);
    assert_string_equal(text_of(run.json, "pipeline"), "gold");
    over = json_object_array_get_idx(member(run.json, "passed_over"), 0);
    assert_string_equal(text_of(over, "pipeline"), "llamas");
    assert_contains(text_of(over, "why"), "match.models does not hold");
    assert_string_equal(text_of(leg_of(&run, "golden", 0), "to"), "https://right.invalid");
    assert_string_equal(text_of(leg_of(&run, "golden", 0), "transport"), "libcurl");
    assert_string_equal(text_of(step_of(&run, "golden"), "type"), "decode");
    run_end(&run);
    run = explain(config, "{\"model\":\"llama-7b\",\"messages\":[]}", JSON, NULL);
    assert_int_equal(run.code, 0);
    assert_string_equal(text_of(leg_of(&run, "decode", 0), "to"), "http://left.invalid:8080");
    assert_string_equal(text_of(leg_of(&run, "decode", 0), "target"), "/prefix/v1/chat/completions");
    assert_string_equal(text_of(leg_of(&run, "decode", 0), "transport"), "direct");
    run_end(&run);
}

static void where_no_pipeline_matches_it_is_said(void **state)
{
    struct run run = explain(configure(TWO), CHAT, JSON, NULL);

    (void)state;
    assert_int_equal(run.code, 1);
    assert_null(member(run.json, "pipeline"));
    assert_int_equal(json_object_array_length(member(run.json, "passed_over")), 2);
    assert_int_equal(json_object_array_length(member(run.json, "steps")), 0);
    assert_int_equal(json_object_get_int(member(member(run.json, "error"), "status")), 404);
    assert_contains(text_of(member(run.json, "error"), "message"), "no pipeline serves the model");
    run_end(&run);
    run = explain(in_folder("c.yaml"), CHAT, NULL, NULL);
    assert_int_equal(run.code, 1);
    assert_contains(run.output.data,
                    "pipeline gold passed over: match.headers does not hold: there is no header x-tenant");
    assert_contains(run.output.data, "no pipeline serves the request");
    run_end(&run);
    run = explain(in_folder("c.yaml"), CHAT, (const char *const[]){"--path", "/v1/models", "--json", NULL}, NULL);
    assert_int_equal(run.code, 1);
    assert_null(member(run.json, "pipeline"));
    assert_contains(text_of(member(run.json, "error"), "message"), "passed through");
    run_end(&run);
}

static void a_refusal_is_told_with_its_status(void **state)
{
    static const struct {
        const char *name, *body, *path, *header, *pipeline;
        int status;
        const char *message;
    } rows[] = {
        {"not JSON", "{\"model\":\"m\",", CHAT_PATH, "x: y", NULL, 400, "not valid JSON"},
        {"empty", "", CHAT_PATH, "x: y", NULL, 400, "not valid JSON"},
        {"no object", "[1]", CHAT_PATH, "x: y", NULL, 400, "must be a JSON object"},
        {"a member twice", "{\"model\":\"m\",\"model\":\"n\"}", CHAT_PATH, "x: y", NULL, 400, "more than once"},
        {"by a step", "{\"model\":\"m\",\"prompt\":\"x\",\"echo\":true}", "/v1/completions", "x: y", "default", 400,
         "echo is not supported"},
        {"compressed", "{}", CHAT_PATH, "Content-Encoding: gzip", NULL, 415, "compressed"},
        {"of Anthropic's shape", "{\"model\":\"m\"", "/v1/messages", "x: y", NULL, 400, "not valid JSON"},
    };
    const char *config = configure(GATEWAY "pipeline:\n  steps:\n    - type: prefill\n    - type: decode\n");

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct run run =
            explain(config, rows[i].body,
                    (const char *const[]){"--path", rows[i].path, "--header", rows[i].header, "--json", NULL}, NULL);

        print_message("  %s\n", rows[i].name);
        assert_int_equal(run.code, 1);
        assert_int_equal(json_object_get_int(member(member(run.json, "error"), "status")), rows[i].status);
        assert_contains(text_of(member(run.json, "error"), "message"), rows[i].message);
        if (rows[i].pipeline)
            assert_string_equal(text_of(run.json, "pipeline"), rows[i].pipeline);
        else
            assert_null(member(run.json, "pipeline"));
        run_end(&run);
    }
}

static bool ran(const struct run *run, const char *id)
{
    return json_object_get_boolean(member(step_of(run, id), "ran"));
}
static bool failed(const struct run *run, const char *id)
{
    return json_object_get_boolean(member(step_of(run, id), "failed"));
}

static void a_skipped_step_is_told_with_the_key_of_its_when(void **state)
{
    struct run run =
        explain(configure(GATEWAY "pipeline:\n  steps:\n" RENDER
                                  "    - {type: prefill, id: long, when: {prompt_tokens: {min: 5}}}\n"
                                  "    - {type: prefill, id: whole, when: {stream: false}}\n"
                                  "    - {type: prefill, id: seen, when: {media: true}}\n"
                                  "    - {type: prefill, id: told, when: {headers: {x-told: \"1\"}}}\n"
                                  "    - {type: prefill, id: short, when: {prompt_tokens: {max: 4}, models: m, apis: "
                                  "chat_completions}}\n"
                                  "    - type: decode\n"),
                STREAM, (const char *const[]){"--json", "--header", "x-told: 2", NULL}, NULL);

    (void)state;
    assert_int_equal(run.code, 0);
    assert_false(ran(&run, "long") || ran(&run, "whole") || ran(&run, "seen") || ran(&run, "told"));
    assert_string_equal(text_of(step_of(&run, "long"), "why"), "when.prompt_tokens does not hold: the prompt has 4");
    assert_string_equal(text_of(step_of(&run, "whole"), "why"),
                        "when.stream does not hold: the request asks for a stream");
    assert_string_equal(text_of(step_of(&run, "seen"), "why"),
                        "when.media does not hold: the request has no media part");
    assert_contains(text_of(step_of(&run, "told"), "why"), "when.headers does not hold");
    assert_true(ran(&run, "short") && ran(&run, "decode"));
    assert_int_equal(leg_count(&run, "long"), 0);
    run_end(&run);
}

static void a_step_that_fails_or_is_late_is_told_and_what_follows(void **state)
{
    static const char answers[] =
        "- {leg: prefill, status: 503, headers: {Retry-After: 7}, body: {error: {message: no}}}\n";
    struct run run;
    char *whole;

    (void)state;
    file_write(in_folder("answers.yaml"), answers);
    run = explain(configure(GATEWAY PLUGIN "pipeline:\n  steps:\n"
                                           "    - {type: test-park, timeout: 50ms, on_error: continue}\n"
                                           "    - {type: prefill, on_error: continue}\n"
                                           "    - type: decode\n"),
                  CHAT, (const char *const[]){"--json", "--answers", in_folder("answers.yaml"), NULL}, NULL);
    assert_int_equal(run.code, 0);
    assert_true(ran(&run, "test-park") && failed(&run, "test-park"));
    assert_contains(text_of(step_of(&run, "test-park"), "why"), "did not end within its timeout");
    assert_true(failed(&run, "prefill"));
    assert_int_equal(json_object_get_int(member(leg_of(&run, "prefill", 0), "answered")), 503);
    assert_false(failed(&run, "decode"));
    whole = strdup(text_of(leg_of(&run, "decode", 0), "body"));
    run_end(&run);
    run = explain(configure(GATEWAY "pipeline:\n  steps:\n    - type: decode\n"), CHAT, JSON, NULL);
    assert_string_equal(text_of(leg_of(&run, "decode", 0), "body"), whole);
    free(whole);
    run_end(&run);
    run = explain(configure(GATEWAY "pipeline:\n  steps:\n    - type: prefill\n    - type: decode\n"), CHAT,
                  (const char *const[]){"--json", "--answers", in_folder("answers.yaml"), NULL}, NULL);
    assert_int_equal(run.code, 1);
    assert_int_equal(json_object_get_int(member(member(run.json, "error"), "status")), 503);
    assert_false(ran(&run, "decode"));
    assert_string_equal(text_of(step_of(&run, "decode"), "why"), "not reached: a step before it failed");
    assert_contains(json_object_to_json_string(member(member(run.json, "answer"), "headers")), "Retry-After");
    run_end(&run);
    run = explain(
        configure(GATEWAY PLUGIN "pipeline:\n  steps:\n    - {type: test-park, timeout: 50ms}\n    - type: decode\n"),
        CHAT, JSON, NULL);
    assert_int_equal(run.code, 1);
    assert_int_equal(json_object_get_int(member(member(run.json, "error"), "status")), 504);
    run_end(&run);
    run = explain(configure(GATEWAY PLUGIN "pipeline:\n  steps:\n    - type: test-fail\n    - type: decode\n"), CHAT,
                  JSON, NULL);
    assert_int_equal(run.code, 1);
    assert_contains(text_of(step_of(&run, "test-fail"), "why"), "failed without saying why");
    run_end(&run);
}

static void answers_are_used_in_their_order(void **state)
{
    static const char config[] =
        GATEWAY PLUGIN "pipeline:\n  steps:\n"
                       "    - {type: test-ask, id: guard, params: {address: \"http://ask.invalid\"}}\n"
                       "    - {type: decode, on_error: fail}\n";
    static const struct {
        const char *answers;
        int code, legs, status;
    } rows[] = {
        {"[]", 0, 2, 200},
        {"- {leg: guard}\n- {leg: test-ask, status: 404}\n", 1, 2, 402},
        {"- {leg: guard, status: 404}\n- {leg: guard}\n", 1, 1, 403},
        {"- {leg: test-ask, status: 200}\n", 0, 2, 200},
        {"- {leg: decode, status: 429, headers: {Retry-After: '3'}, body: 'busy'}\n", 1, 2, 429},
        {"- leg: decode\n  headers: {content-type: text/plain}\n  body: |\n    two\n    lines\n", 0, 2, 200},
    };

    (void)state;
    configure(config);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct run run;

        file_write(in_folder("answers.yaml"), rows[i].answers);
        run = explain(
            in_folder("c.yaml"), CHAT,
            (const char *const[]){"--answers", in_folder("answers.yaml"), "--header", "x-again: 1", "--json", NULL},
            NULL);
        print_message("  %s", rows[i].answers);
        assert_int_equal(run.code, rows[i].code);
        assert_int_equal(leg_count(&run, "guard"), rows[i].legs);
        assert_int_equal(json_object_get_int(member(member(run.json, "answer"), "status")), rows[i].status);
        if (i + 1 == sizeof rows / sizeof *rows)
            assert_string_equal(text_of(member(run.json, "answer"), "body"), "two\nlines\n");
        run_end(&run);
    }
}

static void a_probe_is_deferred_unless_an_answer_says_otherwise(void **state)
{
    static const char config[] = GATEWAY "pipeline:\n  steps:\n    - type: conditional-decode\n    - type: prefill\n"
                                         "    - type: decode\n";
    struct run run = explain(configure(config), CHAT, JSON, NULL);

    (void)state;
    assert_int_equal(run.code, 0);
    assert_true(ran(&run, "conditional-decode") && ran(&run, "prefill") && ran(&run, "decode"));
    run_end(&run);
    file_write(in_folder("answers.yaml"), "- {leg: conditional-decode, body: {choices: []}}\n");
    run = explain(in_folder("c.yaml"), CHAT,
                  (const char *const[]){"--answers", in_folder("answers.yaml"), "--json", NULL}, NULL);
    assert_int_equal(run.code, 0);
    assert_false(ran(&run, "prefill") || ran(&run, "decode"));
    assert_string_equal(text_of(step_of(&run, "decode"), "why"), "not reached: a step before it answered");
    assert_string_equal(text_of(member(run.json, "answer"), "body"), "{\"choices\":[]}");
    run_end(&run);
}

static void writers_are_told_in_their_order_with_what_they_changed(void **state)
{
    static const char config[] =
        GATEWAY PLUGIN "pipeline:\n  steps:\n    - type: test-splice\n" RENDER "    - type: decode\n";
    json_object *writers, *changed;
    struct run run;

    (void)state;
    for (size_t i = 0; i < API_COUNT; i++) {
        char body[2048];

        snprintf(body, sizeof body, "%s,\"stream\":true}", APIS[i].body);
        run = explain(configure(config), body, (const char *const[]){"--path", APIS[i].path, "--json", NULL}, NULL);
        if (run.code != 0)
            fail_msg("%s: %s", APIS[i].path, run.output.data);
        writers = member(run.json, "writers");
        assert_true(json_object_array_length(writers) >= 2);
        assert_string_equal(text_of(json_object_array_get_idx(writers, 0), "name"), "usage-observer");
        assert_string_equal(text_of(json_object_array_get_idx(writers, 0), "step"), "decode");
        changed = json_object_array_get_idx(writers, json_object_array_length(writers) - 1);
        assert_string_equal(text_of(changed, "name"), "mark");
        assert_string_equal(text_of(changed, "step"), "test-splice");
        changed = member(changed, "changed");
        assert_true(json_object_get_boolean(member(changed, "body")));
        assert_contains(json_object_to_json_string(member(changed, "headers")), "x-mark");
        assert_contains(json_object_to_json_string(member(member(run.json, "answer"), "headers")), "event-stream");
        assert_contains(text_of(member(run.json, "answer"), "body"), "\n\n\n\n");
        run_end(&run);
    }
    run = explain(in_folder("c.yaml"), STREAM, NULL, NULL);
    assert_contains(run.output.data, "usage-observer of step decode: looked on");
    assert_contains(run.output.data, "mark of step test-splice: changed the body and the headers x-mark");
    run_end(&run);
}

static void the_usual_answers_have_the_shape_of_their_api(void **state)
{
    static const char *const texts[] = {"stand-in", "stand-in", "stand-in", "stand-in", "\"token_ids\":[1]"};
    static const char *const streams[] = {"}", ",\"stream\":true}"};

    (void)state;
    configure(GATEWAY "pipeline:\n  kv_connector: kv-nixl\n  steps:\n" RENDER
                      "    - type: prefill\n    - type: decode\n");
    for (size_t i = 0; i < 2 * API_COUNT; i++) {
        char body[2048];
        struct run run;
        const char *answer;

        snprintf(body, sizeof body, "%s%s", APIS[i / 2].body, streams[i % 2]);
        run =
            explain(in_folder("c.yaml"), body, (const char *const[]){"--path", APIS[i / 2].path, "--json", NULL}, NULL);
        assert_int_equal(run.code, 0);
        assert_lacks(run.output.data, "WARN"); /* no tokens that differ, no transfer params that are missing */
        answer = text_of(member(run.json, "answer"), "body");
        assert_contains(answer, texts[i / 2]);
        if (i % 2 == 0)
            assert_contains(answer, "\"usage\":{");
        else
            assert_contains(answer, "data: {");
        assert_contains(text_of(leg_of(&run, "decode", 0), "body"), "\"remote_engine_id\":\"stand-in\"");
        run_end(&run);
    }
}

static void work_in_the_background_is_waited_for_and_told(void **state)
{
    struct run run =
        explain(configure(GATEWAY PLUGIN "pipeline:\n  steps:\n"
                                         "    - {type: test-later, params: {address: \"http://audit.invalid\"}}\n"
                                         "    - type: decode\n"),
                CHAT, JSON, NULL);
    json_object *legs;

    (void)state;
    assert_int_equal(run.code, 0);
    legs = member(run.json, "background");
    assert_int_equal(json_object_array_length(legs), 1);
    assert_string_equal(text_of(json_object_array_get_idx(legs, 0), "target"), "/later");
    run_end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(explain_shows_the_bytes_that_workers_get),
        TEST(splices_are_named_and_marked_and_the_rest_is_the_clients),
        TEST(the_pipeline_is_named_and_why_the_others_were_not_it),
        TEST(where_no_pipeline_matches_it_is_said),
        TEST(a_refusal_is_told_with_its_status),
        TEST(a_skipped_step_is_told_with_the_key_of_its_when),
        TEST(a_step_that_fails_or_is_late_is_told_and_what_follows),
        TEST(answers_are_used_in_their_order),
        TEST(a_probe_is_deferred_unless_an_answer_says_otherwise),
        TEST(writers_are_told_in_their_order_with_what_they_changed),
        TEST(the_usual_answers_have_the_shape_of_their_api),
        TEST(work_in_the_background_is_waited_for_and_told),
    };

    harness_select();
    return cmocka_run_group_tests(tests, make_folder, remove_files);
}
