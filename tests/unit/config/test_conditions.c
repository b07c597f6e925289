/* Unit test of config/conditions.c: what `match` and `when` take, where mistakes are said to be, and which conditions imply which. */
#include "config/conditions.h"

#include <coordinator/request.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define ROWS(rows) (sizeof(rows) / sizeof *(rows))

struct reading {
    struct arena arena;
    struct complaints complaints;
    struct conditions conditions;
};

/* `text` is a file whose key `when` holds the conditions. */
static struct reading read_conditions(const char *text, const char *where, bool of_step)
{
    struct reading reading = {0};
    char *environment[] = {NULL};
    const struct node *root =
        tree_parse_in(&reading.arena, "f.yaml", coord_slice_of(text), environment, &reading.complaints);

    assert_non_null(root);
    reading.conditions = conditions_read(&reading.arena, node_get(root, "when"), where, of_step, &reading.complaints);
    return reading;
}

static void forget(struct reading *reading)
{
    complaints_release(&reading->complaints);
    arena_release(&reading->arena);
}

static void mistakes_are_said_with_their_place(void **state)
{
    static const struct {
        const char *name, *text, *want;
        bool of_match;
    } rows[] = {
        {"no map", "when: [models]\n", "f.yaml:1:7: when takes a map of conditions, such as {models: [\"llama-*\"]}\n",
         false},
        {"an unknown key", "when:\n  stream: true\n  promt_tokens: {min: 1}\n",
         "f.yaml:3:3: unknown key \"promt_tokens\" of when: did you mean \"prompt_tokens\"?\n", false},
        {"a key of steps alone", "when: {stream: true}\n",
         "f.yaml:1:8: unknown key \"stream\" of match; it takes models, apis and headers\n", true},
        {"no value", "when:\n  models:\n", "f.yaml:2:3: when.models has no value\n", false},
        {"an empty list", "when:\n  models: []\n", "f.yaml:2:11: when.models takes a text or a list of texts\n", false},
        {"an empty model", "when:\n  models: [a, '']\n",
         "f.yaml:2:15: when.models takes a text or a list of texts, none of them empty\n", false},
        {"a map as models", "when:\n  models: {a: b}\n", "f.yaml:2:11: when.models takes a text or a list of texts\n",
         false},
        {"an API misspelt", "when:\n  apis: [completions, chat_completion]\n",
         "f.yaml:2:23: when.apis: unknown API \"chat_completion\": did you mean \"chat_completions\"?\n", false},
        {"an API that nobody knows", "when: {apis: embeddings}\n",
         "f.yaml:1:14: match.apis: unknown API \"embeddings\"; there are chat_completions, completions, responses, "
         "messages and generate\n",
         true},
        {"headers as a text", "when:\n  headers: x-tenant\n",
         "f.yaml:2:12: when.headers takes a map: header name to a value or a list of values\n", false},
        {"a header with no value", "when:\n  headers: {x-tenant: [gold, {a: b}]}\n",
         "f.yaml:2:30: when.headers takes a text or a list of texts, none of them empty\n", false},
        {"a name that no header has", "when:\n  headers: {x tenant: gold}\n",
         "f.yaml:2:13: when.headers holds a name that no header can have\n", false},
        {"stream as a number", "when:\n  stream: 1\n", "f.yaml:2:11: when.stream takes true or false\n", false},
        {"media as a text", "when:\n  media: 'true'\n", "f.yaml:2:10: when.media takes true or false\n", false},
        {"tokens as a number", "when:\n  prompt_tokens: 7\n",
         "f.yaml:2:18: when.prompt_tokens takes a map with min, max or both\n", false},
        {"a negative bound", "when:\n  prompt_tokens: {min: -1}\n",
         "f.yaml:2:24: when.prompt_tokens takes whole numbers of at least 0 as min and max\n", false},
        {"no bound", "when:\n  prompt_tokens: {}\n",
         "f.yaml:2:18: when.prompt_tokens takes min, max or both, and nothing else\n", false},
        {"another bound", "when:\n  prompt_tokens: {min: 1, most: 2}\n",
         "f.yaml:2:18: when.prompt_tokens takes min, max or both, and nothing else\n", false},
        {"bounds that cross", "when:\n  prompt_tokens: {min: 3, max: 2}\n",
         "f.yaml:2:18: when.prompt_tokens has a min above its max: it never holds\n", false},
        {"two at once", "when:\n  stream: 1\n  media: 2\n",
         "f.yaml:2:11: when.stream takes true or false\nf.yaml:3:10: when.media takes true or false\n", false},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct reading reading = read_conditions(rows[i].text, rows[i].of_match ? "match" : "when", !rows[i].of_match);
        coord_slice said = buffer_slice(&reading.complaints.text);

        if (!coord_slice_is(said, rows[i].want))
            fail_msg("%s: said: %.*s\nwanted: %s", rows[i].name, COORD_FMT(said), rows[i].want);
        /* A mistake never makes conditions that hold for all: others would be told that they are never reached. */
        assert_true(reading.conditions.given);
        forget(&reading);
    }
}

static void every_key_is_kept_as_written(void **state)
{
    struct reading reading = read_conditions("when:\n"
                                             "  models: [\"llama-*\", m]\n"
                                             "  apis: [messages, generate]\n"
                                             "  headers: {X-Tenant: gold, x-tier: [a, \"b*\"]}\n"
                                             "  stream: true\n"
                                             "  media: false\n"
                                             "  prompt_tokens: {min: 7}\n",
                                             "when", true);
    const struct conditions *conditions = &reading.conditions;

    (void)state;
    assert_int_equal(reading.complaints.errors, 0);
    assert_true(conditions->given);
    assert_int_equal(conditions->model_count, 2);
    assert_true(coord_slice_is(conditions->models[0], "llama-*"));
    assert_int_equal(conditions->apis, UINT32_C(1) << COORD_API_MESSAGES | UINT32_C(1) << COORD_API_GENERATE);
    assert_int_equal(conditions->header_count, 2);
    assert_true(coord_slice_is(conditions->headers[0].name, "x-tenant"));
    assert_int_equal(conditions->headers[0].count, 1);
    assert_true(coord_slice_is(conditions->headers[1].values[1], "b*"));
    assert_int_equal(conditions->stream, 1);
    assert_int_equal(conditions->media, 0);
    assert_true(conditions->has_tokens);
    assert_int_equal(conditions->min_tokens, 7);
    assert_true(conditions->max_tokens == UINT64_MAX);
    assert_int_equal(conditions->tokens_at.line, 7);
    forget(&reading);
}

static void nothing_written_is_no_condition(void **state)
{
    static const char *const rows[] = {"other: 1\n", "when:\n", "when: {}\n"};

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct reading reading = read_conditions(rows[i], "when", true);

        assert_int_equal(reading.complaints.errors, 0);
        assert_false(reading.conditions.given);
        assert_int_equal(reading.conditions.stream, -1);
        forget(&reading);
    }
}

static void narrower_conditions_imply_wider_ones(void **state)
{
    static const struct {
        const char *name, *narrow, *wide;
        bool implied;
    } rows[] = {
        {"all imply none", "when: {stream: true}\n", "when: {}\n", true},
        {"none implies but none", "when: {}\n", "when: {stream: true}\n", false},
        {"the same", "when: {models: [a, b], media: true}\n", "when: {media: true, models: [b, a]}\n", true},
        {"a model of several", "when: {models: a}\n", "when: {models: [a, b]}\n", true},
        {"several models of one", "when: {models: [a, b]}\n", "when: {models: a}\n", false},
        {"an API of several", "when: {apis: messages}\n", "when: {apis: [messages, generate]}\n", true},
        {"another API", "when: {apis: messages}\n", "when: {apis: generate}\n", false},
        {"header names know no case", "when: {headers: {X-A: '1'}}\n", "when: {headers: {x-a: ['1', '2']}}\n", true},
        {"header values do", "when: {headers: {x-a: v}}\n", "when: {headers: {x-a: V}}\n", false},
        {"another header", "when: {headers: {x-a: v}}\n", "when: {headers: {x-b: v}}\n", false},
        {"streams are not wholes", "when: {stream: true}\n", "when: {stream: false}\n", false},
        {"bounds within bounds", "when: {prompt_tokens: {min: 3, max: 5}}\n", "when: {prompt_tokens: {min: 2}}\n",
         true},
        {"bounds beyond bounds", "when: {prompt_tokens: {min: 3}}\n", "when: {prompt_tokens: {min: 2, max: 9}}\n",
         false},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct reading narrow = read_conditions(rows[i].narrow, "when", true);
        struct reading wide = read_conditions(rows[i].wide, "when", true);

        assert_int_equal(narrow.complaints.errors + wide.complaints.errors, 0);
        if (conditions_imply(&narrow.conditions, &wide.conditions) != rows[i].implied)
            fail_msg("%s", rows[i].name);
        forget(&narrow);
        forget(&wide);
    }
}

static void conditions_are_printed_as_yaml_without_what_was_substituted(void **state)
{
    static const struct {
        const char *text, *printed;
    } rows[] = {
        {"when: {models: \"llama-*\"}\n", "{models: [\"llama-*\"]}"},
        {"when: {apis: [messages, completions], models: [a, b]}\n",
         "{models: [\"a\", \"b\"], apis: [completions, messages]}"},
        {"when: {headers: {X-A: [1, \"2*\"], x-b: c}}\n", "{headers: {x-a: [\"1\", \"2*\"], x-b: [\"c\"]}}"},
        {"when: {stream: true, media: false}\n", "{stream: true, media: false}"},
        {"when: {prompt_tokens: {min: 3}}\n", "{prompt_tokens: {min: 3}}"},
        {"when: {prompt_tokens: {max: 4}}\n", "{prompt_tokens: {max: 4}}"},
        {"when: {prompt_tokens: {min: 3, max: 4}}\n", "{prompt_tokens: {min: 3, max: 4}}"},
        {"when: {models: [a, \"${X:-hidden}\"], headers: {x-a: \"${X:-hidden}\", x-b: c}}\n",
         "{models: [secret], headers: {x-a: [secret], x-b: [\"c\"]}}"},
        {"when: {prompt_tokens: {min: \"${X:-3}\", max: 4}}\n", "{prompt_tokens: [secret]}"},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct reading reading = read_conditions(rows[i].text, "when", true);
        struct buffer printed = {0};

        assert_int_equal(reading.complaints.errors, 0);
        assert_true(conditions_print(&reading.conditions, &printed) && buffer_append(&printed, "", 1));
        assert_string_equal(printed.data, rows[i].printed);
        buffer_release(&printed);
        forget(&reading);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mistakes_are_said_with_their_place),
        cmocka_unit_test(every_key_is_kept_as_written),
        cmocka_unit_test(nothing_written_is_no_condition),
        cmocka_unit_test(narrower_conditions_imply_wider_ones),
        cmocka_unit_test(conditions_are_printed_as_yaml_without_what_was_substituted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
