/*
 * Unit test of composition.c: which compositions are refused, with what words and where; and, for a request, which pipeline
 * serves it and which steps run.
 */
#include "pipeline/composition.h"

#include "pipeline/api.h"
#include "pipeline/request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>

#define ROWS(rows) (sizeof(rows) / sizeof *(rows))

/* ---- Steps that do nothing but declare ---- */

static coord_status create(const coord_config *config, void **state, coord_error *error)
{
    (void)config, (void)error;
    *state = NULL;
    return COORD_OK;
}

static coord_status execute(void *state, coord_request *request)
{
    (void)state, (void)request;
    return COORD_NEXT;
}

#define STEP(type, needed, provided)                                                                                   \
    {                                                                                                                  \
        .size = sizeof(coord_step_type), .name = type, .help = type, .create = create, .execute = execute,             \
        .needs = (const char *const[]){needed, NULL}, .provides = (const char *const[])                                \
        {                                                                                                              \
            provided, NULL                                                                                             \
        }                                                                                                              \
    }
static const coord_step_type TOKENS = STEP("tokens", NULL, COORD_THING_TOKEN_IDS);
static const coord_step_type SCORE = STEP("score", COORD_THING_TOKEN_IDS, "acme.score");
static const coord_step_type ROUTE = STEP("route", "acme.score", NULL);
static const coord_step_type LOST = STEP("lost", "acme.lost", NULL);
static const coord_step_type FREE = STEP("free", NULL, NULL);
static const coord_step_type CLOSING = STEP("closing", NULL, COORD_THING_ANSWER);

static const coord_plugin_descriptor PLUGIN = {
    .size = sizeof PLUGIN,
    .magic = COORD_PLUGIN_MAGIC,
    .abi_major = COORD_ABI_MAJOR,
    .name = "steps",
    .steps = (const coord_step_type *const[]){&TOKENS, &SCORE, &ROUTE, &LOST, &FREE, &CLOSING, NULL}};

static struct registry registry;
static struct complaints complaints;

static int setup(void **state)
{
    struct buffer reason = {0};

    (void)state;
    registry_init(&registry);
    assert_int_equal(registry_add(&registry, "", &PLUGIN, &reason), COORD_OK);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    registry_release(&registry);
    complaints_release(&complaints);
    complaints = (struct complaints){0};
    return 0;
}

static struct generation *build(const char *yaml)
{
    char *environment[] = {NULL};
    struct settings_input input = {.path = "f.yaml", .environment = environment};
    struct arena arena = {0};
    struct settings *settings = settings_parse(&arena, coord_slice_of(yaml), &input, &complaints);

    assert_non_null(settings);
    return generation_build(&arena, settings, &registry, &complaints);
}

/* ---- What is refused, and what is not ---- */

#define GATEWAY "gateway: {address: 'http://g'}\n"
#define PIPELINE GATEWAY "pipeline:\n  steps:\n"

static void wrong_compositions_are_refused_with_words_and_place(void **state)
{
    static const struct {
        const char *name, *yaml, *want;
    } rows[] = {
        {"a need that nothing provides", PIPELINE "  - {type: score}\n  - {type: closing}\n",
         "f.yaml:4:5: execution of step score needs token_ids, which no step before it provides; put tokens before "
         "it\n"},
        {"a need that no loaded type provides", PIPELINE "  - {type: lost}\n  - {type: closing}\n",
         "f.yaml:4:5: execution of step lost needs acme.lost, which no step before it provides; put a step that "
         "provides it before it\n"},
        {"a need provided too late", PIPELINE "  - {type: score}\n  - {type: tokens}\n  - {type: closing}\n",
         "f.yaml:4:5: execution of step score needs token_ids, which no step before it provides; put tokens before "
         "it\n"},
        {"a need provided sometimes",
         PIPELINE "  - {type: tokens, when: {stream: true}}\n  - {type: score}\n  - {type: closing}\n",
         "f.yaml:5:5: execution of step score needs token_ids, which step tokens provides only where its own when "
         "holds; give both the same conditions\n"},
        {"a condition on tokens without tokens",
         PIPELINE "  - type: free\n    when: {prompt_tokens: {min: 3}}\n  - {type: closing}\n",
         "f.yaml:5:27: when.prompt_tokens of step free needs token_ids, which no step before it provides; put tokens "
         "before it\n"},
        {"a condition on tokens that are there sometimes",
         PIPELINE "  - {type: tokens, id: t, when: {models: a}}\n"
                  "  - type: free\n    when: {models: b, prompt_tokens: {min: 3}}\n  - {type: closing}\n",
         "f.yaml:6:38: when.prompt_tokens of step free needs token_ids, which step t provides only where its own when "
         "holds; give both the same conditions\n"},
        {"going on without a needed step",
         PIPELINE "  - {type: tokens, on_error: continue}\n  - {type: score, id: s}\n  - {type: closing}\n",
         "f.yaml:4:30: on_error: continue is not allowed on step tokens: step s needs its token_ids\n"},
        {"going on without the tokens of a condition",
         PIPELINE "  - {type: tokens, on_error: continue}\n  - {type: free, when: {prompt_tokens: {max: 3}}}\n"
                  "  - {type: closing}\n",
         "f.yaml:4:30: on_error: continue is not allowed on step tokens: step free needs its token_ids\n"},
        {"a step after the answer", PIPELINE "  - {type: closing}\n  - {type: free}\n",
         "f.yaml:5:5: step free is never reached: step closing before it always answers\n"},
        {"a step after two answers that share all",
         PIPELINE
         "  - {type: closing, id: a, when: {stream: true}}\n  - {type: closing, id: b, when: {stream: false}}\n"
         "  - {type: free}\n",
         "f.yaml:6:5: step free is never reached: step b before it always answers\n"},
        {"no answer", PIPELINE "  - {type: free}\n",
         "f.yaml:4:3: pipeline.steps: no step answers the request on some way through the conditions; end with a step "
         "that always does, such as closing\n"},
        {"an answer on some ways", PIPELINE "  - {type: free}\n  - {type: closing, when: {apis: messages}}\n",
         "f.yaml:4:3: pipeline.steps: no step answers the request on some way through the conditions; end with a step "
         "that always does, such as closing\n"},
        {"an answer that may fail and go on", PIPELINE "  - {type: closing, on_error: continue}\n",
         "f.yaml:4:3: pipeline.steps: no step answers the request on some way through the conditions; end with a step "
         "that always does, such as closing\n"},
        {"a pipeline behind one for all",
         GATEWAY "pipelines:\n- name: a\n  steps: [{type: closing}]\n- name: b\n  match: {models: m}\n"
                 "  steps: [{type: closing}]\n",
         "f.yaml:5:3: pipeline \"b\" can never serve a request: \"a\" before it has no match and serves all of them; "
         "put it last\n"},
        {"a name twice",
         GATEWAY "pipelines:\n- {name: a, match: {models: m}, steps: [{type: closing}]}\n"
                 "- {name: a, steps: [{type: closing}]}\n",
         "f.yaml:4:3: pipeline \"a\": the name is taken by the one at line 3\n"},
        {"no name", GATEWAY "pipelines:\n- steps: [{type: closing}]\n", "f.yaml:3:3: a pipeline needs a name\n"},
        {"one and several",
         GATEWAY "pipeline: {steps: [{type: closing}]}\npipelines:\n- {name: a, steps: [{type: closing}]}\n",
         "f.yaml:3:1: both pipeline and pipelines are there: pipelines is enough, pipeline is short for one\n"},
        {"a gateway misspelt",
         "gateways: {left: {address: 'http://l'}, right: {address: 'http://r'}}\n"
         "pipelines:\n- {name: a, gateway: rihgt, steps: [{type: closing}]}\n",
         "f.yaml:3:22: unknown gateway \"rihgt\": did you mean \"right\"?\n"},
        {"a gateway that is not there", GATEWAY "pipelines:\n- {name: a, gateway: nowhere, steps: [{type: closing}]}\n",
         "f.yaml:3:22: unknown gateway \"nowhere\"; name one of `gateways`, or `default` for `gateway`\n"},
        {"no gateway named, and none that is called default",
         "gateways: {left: {address: 'http://l'}}\npipelines:\n- {name: a, steps: [{type: closing}]}\n",
         "f.yaml:3:3: pipeline \"a\" names no gateway, and there is no default one\n"},
        {"no steps in one of several",
         GATEWAY "pipelines:\n- {name: a, match: {models: m}, steps: [{type: closing}]}\n- {name: b}\n",
         "f.yaml:4:3: steps of pipeline b: none is there; a pipeline needs at least a step that answers, such as "
         "decode\n"},
        {"a match that is no map hides no other mistake, and shadows nothing",
         GATEWAY "pipelines:\n- {name: a, match: [m], steps: [{type: closing}]}\n- {name: b, steps: [{type: free}]}\n",
         "f.yaml:3:20: match takes a map of conditions, such as {models: [\"llama-*\"]}\n"
         "f.yaml:4:20: steps of pipeline b: no step answers the request on some way through the conditions; end with a "
         "step "
         "that always does, such as closing\n"},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct generation *generation = build(rows[i].yaml);
        coord_slice said = buffer_slice(&complaints.text);

        if (complaints.errors == 0 || !coord_slice_is(said, rows[i].want))
            fail_msg("%s: said: %.*s\nwanted: %s", rows[i].name, COORD_FMT(said), rows[i].want);
        generation_free(generation); /* what the settings complain of is no reason for the builder to stop */
        complaints_release(&complaints);
        complaints = (struct complaints){0};
    }
}

static void sound_compositions_are_taken(void **state)
{
    static const struct {
        const char *name, *yaml;
    } rows[] = {
        {"needs in order", PIPELINE "  - {type: tokens}\n  - {type: score}\n  - {type: route}\n  - {type: closing}\n"},
        {"the same conditions",
         PIPELINE "  - {type: tokens, when: {headers: {X-A: v}}}\n  - {type: score, when: {headers: {x-a: v}}}\n"
                  "  - {type: closing}\n"},
        {"narrower conditions",
         PIPELINE "  - {type: tokens, when: {models: [a, b]}}\n  - {type: score, when: {models: a, stream: true}}\n"
                  "  - {type: closing}\n"},
        {"an optional step that nobody needs",
         PIPELINE "  - {type: tokens}\n  - {type: score, on_error: continue, timeout: 1s}\n  - {type: closing}\n"},
        {"an optional step with one that stands in for it",
         PIPELINE "  - {type: tokens, on_error: continue}\n  - {type: tokens, id: again}\n  - {type: score}\n"
                  "  - {type: closing}\n"},
        {"an optional answer with one that stands in for it",
         PIPELINE "  - {type: closing, on_error: continue}\n  - {type: closing, id: other}\n"},
        {"answers that share all", PIPELINE
         "  - {type: closing, id: a, when: {stream: true}}\n  - {type: closing, id: b, when: {stream: false}}\n"},
        {"an answer for some, then one for all",
         PIPELINE "  - {type: tokens}\n  - {type: closing, id: a, when: {prompt_tokens: {max: 9}}}\n  - {type: free}\n"
                  "  - {type: closing}\n"},
        {"several pipelines, the last one for all",
         GATEWAY "gateways: {other: {address: 'http://o'}}\npipelines:\n"
                 "- {name: a, match: {models: a}, gateway: other, steps: [{type: closing}]}\n"
                 "- {name: b, match: {models: a}, gateway: default, steps: [{type: closing}]}\n"
                 "- {name: c, steps: [{type: closing}]}\n"},
        {"the same ids in two pipelines",
         GATEWAY "pipelines:\n- {name: a, match: {models: a}, steps: [{type: closing, id: x}]}\n"
                 "- {name: b, steps: [{type: closing, id: x}]}\n"},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct generation *generation = build(rows[i].yaml);

        if (!generation || complaints.errors + complaints.warnings > 0)
            fail_msg("%s: said: %.*s", rows[i].name, COORD_FMT(buffer_slice(&complaints.text)));
        generation_free(generation);
    }
}

/* ---- For each request ---- */

static void a_pattern_fits_the_whole_text(void **state)
{
    static const struct {
        const char *pattern, *text;
        bool fits;
    } rows[] = {
        {"m", "m", true},
        {"m", "M", false},
        {"m", "mm", false},
        {"m", "", false},
        {"", "", true},
        {"*", "", true},
        {"*", "anything", true},
        {"llama-*", "llama-", true},
        {"llama-*", "llama-3/8b", true},
        {"llama-*", "a llama-3", false},
        {"*-8b", "llama-8b", true},
        {"*-8b", "llama-8b-it", false},
        {"a*b*c", "abbc", true},
        {"a*b*c", "acb", false},
        {"a**c", "ac", true},
        {"*aab", "aaab", true},
        {"*a*", "b", false},
        {"a?c", "abc", false},
        {"a.c", "abc", false},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++)
        if (pattern_fits(coord_slice_of(rows[i].pattern), coord_slice_of(rows[i].text)) != rows[i].fits)
            fail_msg("\"%s\" and \"%s\"", rows[i].pattern, rows[i].text);
}

struct asked {
    const char *path, *model, *headers[6], *body;
    bool stream;
    uint64_t tokens;
};

/* A request as far as conditions look at it. */
static void ask(struct coord_request *request, const struct asked *asked)
{
    *request = (struct coord_request){.api = api_for_path(coord_slice_of(asked->path ? asked->path : "/v1/messages")),
                                      .model = coord_slice_of(asked->model ? asked->model : ""),
                                      .received = coord_slice_of(asked->body ? asked->body : "{}"),
                                      .stream = asked->stream,
                                      .token_count = asked->tokens,
                                      .has_token_ids = asked->tokens > 0};
    headers_init(&request->headers, &request->arena);
    for (size_t i = 0; i + 1 < ROWS(asked->headers) && asked->headers[i]; i += 2)
        assert_true(
            headers_add(&request->headers, coord_slice_of(asked->headers[i]), coord_slice_of(asked->headers[i + 1])));
}

static void the_first_pipeline_that_matches_serves(void **state)
{
    static const char YAML[] = GATEWAY "pipelines:\n"
                                       "- {name: llamas, match: {models: ['llama-*', l]}, steps: [{type: closing}]}\n"
                                       "- {name: gold, match: {headers: {X-Tenant: [gold, 'plat*'], x-b: '*'}},"
                                       " steps: [{type: closing}]}\n"
                                       "- {name: chats, match: {apis: [chat_completions, messages], models: m},"
                                       " steps: [{type: closing}]}\n"
                                       "- {name: any, match: {models: '*', apis: generate}, steps: [{type: closing}]}\n"
                                       "- {name: some, match: {models: '**', apis: completions},"
                                       " steps: [{type: closing}]}\n";
    static const struct {
        const char *name;
        struct asked asked;
        const char *pipeline;
    } rows[] = {
        {"a pattern of models", {.model = "llama-3"}, "llamas"},
        {"another exact one", {.model = "l"}, "llamas"},
        {"models mind case", {.model = "Llama-3"}, NULL},
        {"the first of two", {.model = "l", .headers = {"x-tenant", "gold", "x-b", ""}}, "llamas"},
        {"header names mind none", {.model = "x", .headers = {"x-TENANT", "gold", "X-B", "1"}}, "gold"},
        {"header values do", {.model = "x", .headers = {"x-tenant", "Gold", "x-b", "1"}}, NULL},
        {"a pattern of headers", {.model = "x", .headers = {"x-tenant", "platinum", "x-b", "1"}}, "gold"},
        {"all headers must hold", {.model = "x", .headers = {"x-tenant", "gold"}}, NULL},
        {"any line of a repeated header suffices",
         {.model = "x", .headers = {"x-tenant", "tin", "x-tenant", "gold", "x-b", "1"}},
         "gold"},
        {"lines of a header are not joined", {.model = "x", .headers = {"x-tenant", "tin, gold", "x-b", "1"}}, NULL},
        {"an API of several", {.model = "m"}, "chats"},
        {"another API", {.model = "m", .path = "/v1/responses"}, NULL},
        {"no model is no pattern but *", {.path = "/inference/v1/generate"}, "any"},
        {"not even ** is that", {.path = "/v1/completions"}, NULL},
        {"no model where models are not looked at", {.headers = {"x-tenant", "gold", "x-b", "1"}}, "gold"},
    };
    struct generation *generation = build(YAML);

    (void)state;
    if (!generation)
        fail_msg("said: %.*s", COORD_FMT(buffer_slice(&complaints.text)));
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct coord_request request;
        const struct pipeline *found;

        ask(&request, &rows[i].asked);
        found = composition_pipeline(generation, &request);
        if (rows[i].pipeline ? !found || !coord_slice_is(found->settings->name, rows[i].pipeline) : found != NULL)
            fail_msg("%s: %.*s", rows[i].name, COORD_FMT(found ? found->settings->name : coord_slice_of("none")));
        arena_release(&request.arena);
    }
    generation_free(generation);
}

static void a_skipped_step_names_the_key_that_does_not_hold(void **state)
{
    static const char IMAGE[] =
        "{\"messages\":[{\"content\":[{\"type\":\"image_url\",\"image_url\":{\"url\":\"u\"}}]}]}";
    static const struct {
        const char *name, *when;
        struct asked asked;
        const char *key;
    } rows[] = {
        {"nothing asked", "{}", {.model = "m"}, NULL},
        {"all hold",
         "{models: m, apis: messages, headers: {a: b}, stream: true, media: false, prompt_tokens: {min: 2, max: 2}}",
         {.model = "m", .headers = {"A", "b"}, .stream = true, .tokens = 2},
         NULL},
        {"the first that fails is named", "{stream: true, models: n}", {.model = "m"}, "models"},
        {"apis", "{apis: generate}", {.model = "m"}, "apis"},
        {"headers", "{headers: {a: b}}", {.model = "m"}, "headers"},
        {"a stream", "{stream: false}", {.model = "m", .stream = true}, "stream"},
        {"no stream", "{stream: true}", {.model = "m"}, "stream"},
        {"media", "{media: true}", {.model = "m", .body = IMAGE}, NULL},
        {"no media", "{media: true}", {.model = "m"}, "media"},
        {"media spelt with spaces",
         "{media: true}",
         {.model = "m", .body = "{\"content\":[{\"type\" :\n \"input_audio\"}]}"},
         NULL},
        {"a text about media",
         "{media: true}",
         {.model = "m", .body = "{\"content\":\"{\\\"type\\\":\\\"image_url\\\"} or image_url\"}"},
         "media"},
        {"a tool's parameter called image",
         "{media: true}",
         {.model = "m", .body = "{\"tools\":[{\"image\":{\"type\":\"string\"},\"required\":[\"image\"]}],\"type\""},
         "media"},
        {"text alone", "{media: false}", {.model = "m", .body = IMAGE}, "media"},
        {"one token too few", "{prompt_tokens: {min: 5}}", {.model = "m", .tokens = 4}, "prompt_tokens"},
        {"just enough", "{prompt_tokens: {min: 5}}", {.model = "m", .tokens = 5}, NULL},
        {"just not too many", "{prompt_tokens: {max: 5}}", {.model = "m", .tokens = 5}, NULL},
        {"one too many", "{prompt_tokens: {max: 5}}", {.model = "m", .tokens = 6}, "prompt_tokens"},
        {"no ids are no tokens", "{prompt_tokens: {max: 5}}", {.model = "m"}, NULL},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        char yaml[512];
        struct generation *generation;
        struct coord_request request;
        const char *key;

        snprintf(yaml, sizeof yaml, PIPELINE "  - {type: tokens}\n  - {type: free, when: %s}\n  - {type: closing}\n",
                 rows[i].when);
        generation = build(yaml);
        if (!generation)
            fail_msg("%s: said: %.*s", rows[i].name, COORD_FMT(buffer_slice(&complaints.text)));
        ask(&request, &rows[i].asked);
        assert_null(composition_skips(&generation->steps[0], &request));
        key = composition_skips(&generation->steps[1], &request);
        if (rows[i].key ? !key || strcmp(key, rows[i].key) != 0 : key != NULL)
            fail_msg("%s: %s", rows[i].name, key ? key : "not skipped");
        arena_release(&request.arena);
        generation_free(generation);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(wrong_compositions_are_refused_with_words_and_place),
        TEST(sound_compositions_are_taken),
        TEST(a_pattern_fits_the_whole_text),
        TEST(the_first_pipeline_that_matches_serves),
        TEST(a_skipped_step_names_the_key_that_does_not_hold),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
