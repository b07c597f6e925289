/* Unit test of usage.c: what a usage block says, in every API's shape and place, and what an edit leaves alone. */
#include <coordinator/request.h>
#include <coordinator/usage.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

enum { CHAT = COORD_API_CHAT_COMPLETIONS, RESPONSES = COORD_API_RESPONSES, MESSAGES = COORD_API_MESSAGES };
enum { P = COORD_USAGE_PROMPT, O = COORD_USAGE_OUTPUT, C = COORD_USAGE_CACHED, T = COORD_USAGE_TOTAL };

static const struct {
    const char *name;
    int32_t api;
    const char *json;
    coord_status status;
    uint32_t said;
    uint64_t prompt, output, cached, total;
} blocks[] = {
    /* Places (P20): top level, then response, then message; only an object is a block. */
    {"chat", CHAT, "{\"usage\":{\"prompt_tokens\":31,\"completion_tokens\":2,\"total_tokens\":33}}", COORD_OK,
     P | O | T, 31, 2, 0, 33},
    {"chat with details", CHAT,
     "{\"usage\":{\"prompt_tokens\":31,\"prompt_tokens_details\":{\"audio_tokens\":0,\"cached_tokens\":16}}}", COORD_OK,
     P | C, 31, 0, 16, 0},
    {"details null", CHAT, "{\"usage\":{\"prompt_tokens\":31,\"prompt_tokens_details\":null}}", COORD_OK, P, 31, 0, 0,
     0},
    {"completions", COORD_API_COMPLETIONS, "{\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":0}}", COORD_OK, P | O,
     3, 0, 0, 0},
    {"generate", COORD_API_GENERATE, "{\"usage\":{\"prompt_tokens\":4,\"total_tokens\":7,\"completion_tokens\":3}}",
     COORD_OK, P | O | T, 4, 3, 0, 7},
    {"responses", RESPONSES,
     "{\"usage\":{\"input_tokens\":31,\"input_tokens_details\":{\"cached_tokens\":0},\"output_tokens\":5,\"total_"
     "tokens\":36}}",
     COORD_OK, P | O | C | T, 31, 5, 0, 36},
    {"responses, terminal event", RESPONSES,
     "{\"type\":\"response.incomplete\",\"response\":{\"usage\":{\"input_tokens\":5,\"output_tokens\":7}}}", COORD_OK,
     P | O, 5, 7, 0, 0},
    {"responses, first event", RESPONSES, "{\"response\":{\"usage\":null}}", COORD_ABSENT, 0, 0, 0, 0, 0},
    {"responses, cache members of another API are not added", RESPONSES,
     "{\"usage\":{\"input_tokens\":5,\"cache_read_input_tokens\":3}}", COORD_OK, P, 5, 0, 0, 0},
    {"messages, three addends (P26)", MESSAGES,
     "{\"usage\":{\"input_tokens\":7,\"cache_read_input_tokens\":24,\"cache_creation_input_tokens\":1,\"output_"
     "tokens\":5}}",
     COORD_OK, P | O | C, 32, 5, 24, 0},
    {"messages, input alone (P28)", MESSAGES, "{\"usage\":{\"input_tokens\":31,\"output_tokens\":5}}", COORD_OK, P | O,
     31, 5, 0, 0},
    {"messages, creation only beside input", MESSAGES,
     "{\"usage\":{\"input_tokens\":1,\"cache_creation_input_tokens\":2}}", COORD_OK, P, 3, 0, 0, 0},
    {"messages, no input: no prompt count (P26)", MESSAGES,
     "{\"usage\":{\"cache_read_input_tokens\":24,\"output_tokens\":5}}", COORD_OK, O | C, 0, 5, 24, 0},
    {"messages, message_start", MESSAGES,
     "{\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":31,\"output_tokens\":0}}}", COORD_OK, P | O,
     31, 0, 0, 0},
    {"messages, cache members null", MESSAGES,
     "{\"usage\":{\"input_tokens\":31,\"cache_read_input_tokens\":null,\"cache_creation_input_tokens\":null}}",
     COORD_OK, P, 31, 0, 0, 0},
    {"prompt_tokens alone counts (P27)", CHAT,
     "{\"usage\":{\"prompt_tokens\":31,\"input_tokens\":7,\"cache_read_input_tokens\":9}}", COORD_OK, P, 31, 0, 0, 0},
    {"top level before nested", CHAT,
     "{\"message\":{\"usage\":{\"prompt_tokens\":1}},\"response\":{\"usage\":{\"prompt_tokens\":2}},\"usage\":{"
     "\"prompt_tokens\":3}}",
     COORD_OK, P, 3, 0, 0, 0},
    {"a null at the top does not hide the nested one", RESPONSES,
     "{\"usage\":null,\"response\":{\"usage\":{\"input_tokens\":2}}}", COORD_OK, P, 2, 0, 0, 0},
    {"escaped names", CHAT, "{\"us\\u0061ge\":{\"prompt\\u005ftokens\":3}}", COORD_OK, P, 3, 0, 0, 0},
    {"white space", CHAT, " { \"usage\" : { \"prompt_tokens\" : 3 } } ", COORD_OK, P, 3, 0, 0, 0},
    {"usage is no object", CHAT, "{\"usage\":[{\"prompt_tokens\":3}]}", COORD_ABSENT, 0, 0, 0, 0, 0},
    {"usage is a string", CHAT, "{\"usage\":\"prompt_tokens\"}", COORD_ABSENT, 0, 0, 0, 0, 0},
    {"only deeper", CHAT, "{\"choices\":[{\"usage\":{\"prompt_tokens\":3}}],\"x\":{\"usage\":{\"prompt_tokens\":3}}}",
     COORD_ABSENT, 0, 0, 0, 0, 0},
    {"in a string", CHAT, "{\"content\":\"{\\\"usage\\\":{\\\"prompt_tokens\\\":3}}\"}", COORD_ABSENT, 0, 0, 0, 0, 0},
    {"an array", CHAT, "[{\"usage\":{\"prompt_tokens\":3}}]", COORD_ABSENT, 0, 0, 0, 0, 0},
    {"a block without counts", CHAT, "{\"usage\":{}}", COORD_ABSENT, 0, 0, 0, 0, 0},
    {"twice the block: none", CHAT, "{\"usage\":{\"prompt_tokens\":3},\"usage\":{\"prompt_tokens\":4}}", COORD_ABSENT,
     0, 0, 0, 0, 0},
    {"twice the count: none", CHAT, "{\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1,\"prompt_tokens\":3}}",
     COORD_OK, O, 0, 1, 0, 0},
    {"twice the details: none", CHAT,
     "{\"usage\":{\"prompt_tokens\":3,\"prompt_tokens_details\":{\"cached_tokens\":1},\"prompt_tokens_details\":null}}",
     COORD_OK, P, 3, 0, 0, 0},
    {"not JSON", CHAT, "{\"usage\":{\"prompt_tokens\":3}", COORD_INVALID, 0, 0, 0, 0, 0},
    {"[DONE]", CHAT, "[DONE]", COORD_INVALID, 0, 0, 0, 0, 0},
    {"nothing", CHAT, "", COORD_INVALID, 0, 0, 0, 0, 0},
    /* What is no count (X24). */
    {"string", CHAT, "{\"usage\":{\"prompt_tokens\":\"3\",\"completion_tokens\":1}}", COORD_OK, O, 0, 1, 0, 0},
    {"negative", CHAT, "{\"usage\":{\"prompt_tokens\":-3,\"completion_tokens\":1}}", COORD_OK, O, 0, 1, 0, 0},
    {"minus zero", CHAT, "{\"usage\":{\"prompt_tokens\":-0,\"completion_tokens\":1}}", COORD_OK, O, 0, 1, 0, 0},
    {"fraction", CHAT, "{\"usage\":{\"prompt_tokens\":3.0,\"completion_tokens\":1}}", COORD_OK, O, 0, 1, 0, 0},
    {"exponent", CHAT, "{\"usage\":{\"prompt_tokens\":3e0,\"completion_tokens\":1}}", COORD_OK, O, 0, 1, 0, 0},
    {"null count", CHAT, "{\"usage\":{\"prompt_tokens\":null,\"completion_tokens\":1}}", COORD_OK, O, 0, 1, 0, 0},
    {"2^53", CHAT, "{\"usage\":{\"prompt_tokens\":9007199254740992}}", COORD_OK, P, 9007199254740992u, 0, 0, 0},
    {"2^53 + 1", CHAT, "{\"usage\":{\"prompt_tokens\":9007199254740993,\"completion_tokens\":1}}", COORD_OK, O, 0, 1, 0,
     0},
    {"2^64 + 3", CHAT, "{\"usage\":{\"prompt_tokens\":18446744073709551619,\"completion_tokens\":1}}", COORD_OK, O, 0,
     1, 0, 0},
    {"messages, an addend that is no count is 0", MESSAGES,
     "{\"usage\":{\"input_tokens\":3,\"cache_read_input_tokens\":\"4\"}}", COORD_OK, P, 3, 0, 0, 0},
    {"messages, the largest sum", MESSAGES,
     "{\"usage\":{\"input_tokens\":9007199254740992,\"cache_read_input_tokens\":9007199254740992,\"cache_creation_"
     "input_tokens\":9007199254740992}}",
     COORD_OK, P | C, 3u * 9007199254740992u, 0, 9007199254740992u, 0},
};

static void a_block_says_its_counts_and_nothing_else(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        coord_usage usage = {.size = sizeof usage};

        print_message("  %s\n", blocks[i].name);
        assert_int_equal(coord_usage_read(blocks[i].api, coord_slice_of(blocks[i].json), &usage), blocks[i].status);
        assert_int_equal(usage.size, sizeof usage);
        assert_int_equal(usage.said, blocks[i].said);
        assert_int_equal((usage.said & P) ? usage.prompt : 0, blocks[i].prompt);
        assert_int_equal((usage.said & O) ? usage.output : 0, blocks[i].output);
        assert_int_equal((usage.said & C) ? usage.cached : 0, blocks[i].cached);
        assert_int_equal((usage.said & T) ? usage.total : 0, blocks[i].total);
    }
}

static coord_usage read_all(int32_t api, const char *const *events)
{
    coord_usage usage = {.size = sizeof usage};

    for (; *events; events++)
        (void)coord_usage_read(api, coord_slice_of(*events), &usage);
    return usage;
}

/* Decision 50. */
static void snapshots_follow_each_other_and_the_last_that_says_something_wins(void **state)
{
    static const char *const events[] = {
        "{\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":5,\"total_tokens\":15}}",
        "{\"usage\":{\"total_tokens\":16,\"prompt_tokens_details\":{\"cached_tokens\":4}}}",
        "{\"usage\":{\"completion_tokens\":7,\"prompt_tokens\":\"x\"}}",
        "{\"usage\":null}",
        "not JSON",
        NULL,
    };
    coord_usage usage = read_all(CHAT, events);

    (void)state;
    assert_int_equal(usage.said, P | O | C | T);
    assert_int_equal(usage.prompt, 10);
    assert_int_equal(usage.output, 7);
    assert_int_equal(usage.cached, 4);
    assert_int_equal(usage.total, 16);
}

static void a_messages_prompt_is_put_together_over_events(void **state)
{
    static const struct {
        const char *name, *events[4];
        uint64_t prompt, output;
    } rows[] = {
        {"X9: zero at the start, right in the delta",
         {"{\"message\":{\"usage\":{\"input_tokens\":0,\"output_tokens\":0}}}",
          "{\"usage\":{\"input_tokens\":31,\"output_tokens\":5}}", NULL},
         31,
         5},
        {"X10: the delta says only its output",
         {"{\"message\":{\"usage\":{\"input_tokens\":31,\"output_tokens\":1}}}", "{\"usage\":{\"output_tokens\":5}}",
          NULL},
         31,
         5},
        {"the split comes in the delta",
         {"{\"message\":{\"usage\":{\"input_tokens\":31}}}",
          "{\"usage\":{\"input_tokens\":7,\"cache_read_input_tokens\":24,\"output_tokens\":5}}", NULL},
         31,
         5},
        {"an input without a split replaces one with it",
         {"{\"message\":{\"usage\":{\"input_tokens\":7,\"cache_read_input_tokens\":24}}}",
          "{\"usage\":{\"input_tokens\":31,\"output_tokens\":5}}", NULL},
         31,
         5},
        {"the cache count comes later",
         {"{\"message\":{\"usage\":{\"input_tokens\":7}}}",
          "{\"usage\":{\"cache_read_input_tokens\":24,\"output_tokens\":5}}", NULL},
         31,
         5},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        coord_usage usage = read_all(MESSAGES, rows[i].events);

        print_message("  %s\n", rows[i].name);
        assert_true(usage.said & P);
        assert_int_equal(usage.prompt, rows[i].prompt);
        assert_int_equal(usage.output, rows[i].output);
    }
}

static void an_older_plugin_gets_the_members_that_it_knows(void **state)
{
    struct {
        coord_usage usage;
        uint64_t behind;
    } old = {.usage = {.size = offsetof(coord_usage, parts)}, .behind = 77};

    (void)state;
    memset((char *)&old.usage + old.usage.size, 0x55, sizeof old.usage - old.usage.size);
    assert_int_equal(
        coord_usage_read(MESSAGES,
                         (coord_slice)COORD_SLICE("{\"usage\":{\"input_tokens\":7,\"cache_read_input_tokens\":2}}"),
                         &old.usage),
        COORD_OK);
    assert_int_equal(old.usage.prompt, 9);
    assert_int_equal(old.usage.input, 0x5555555555555555u);
    assert_int_equal(old.behind, 77);
}

static void a_frame_is_usage_and_empty_choices(void **state)
{
    static const struct {
        const char *json;
        bool is;
    } rows[] = {
        {"{\"choices\":[],\"usage\":{\"prompt_tokens\":1}}", true},
        {"{\"usage\":{},\"choices\":[ ]}", true},
        {"{\"choices\":[{}],\"usage\":{\"prompt_tokens\":1}}", false}, /* continuous usage */
        {"{\"choices\":[],\"usage\":null}", false},
        {"{\"choices\":[]}", false}, /* prompt filter */
        {"{\"usage\":{\"prompt_tokens\":1}}", false},
        {"{\"choices\":null,\"usage\":{\"prompt_tokens\":1}}", false},
        {"{\"choices\":{},\"usage\":{\"prompt_tokens\":1}}", false},
        {"{\"error\":{},\"choices\":[],\"usage\":\"x\"}", false},
        {"{\"response\":{\"usage\":{}},\"choices\":[]}", false},
        {"[DONE]", false},
        {"", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        print_message("  %s\n", rows[i].json);
        assert_int_equal(coord_usage_is_frame(coord_slice_of(rows[i].json)), rows[i].is);
    }
}

/* ---- Editing: `want` NULL: COORD_END, nothing to change ---- */

static const struct {
    const char *name;
    int32_t api;
    uint64_t cached;
    const char *json, *want;
} edits[] = {
    {"a number is replaced, every other byte stays", CHAT, 2,
     "{\"z\":1 ,\"x\":-0.10,\"usage\":{\"prompt_tokens\":4,\"prompt_tokens_details\":{\"audio\":null, "
     "\"cached_tokens\" : 40 ,\"w\":1e3},\"total_tokens\":5},\"b\":\"\\u00e9<&>\",\"n\":9007199254740993,\"z\":2}\n",
     "{\"z\":1 ,\"x\":-0.10,\"usage\":{\"prompt_tokens\":4,\"prompt_tokens_details\":{\"audio\":null, "
     "\"cached_tokens\" : 2 ,\"w\":1e3},\"total_tokens\":5},\"b\":\"\\u00e9<&>\",\"n\":9007199254740993,\"z\":2}\n"},
    {"equal: no edit", CHAT, 16, "{\"usage\":{\"prompt_tokens_details\":{\"cached_tokens\":16}}}", NULL},
    {"zero is a count", CHAT, 0, "{\"usage\":{\"prompt_tokens_details\":{\"cached_tokens\":16}}}",
     "{\"usage\":{\"prompt_tokens_details\":{\"cached_tokens\":0}}}"},
    {"the details are missing", CHAT, 3, "{\"usage\":{\"prompt_tokens\":4}}",
     "{\"usage\":{\"prompt_tokens\":4,\"prompt_tokens_details\":{\"cached_tokens\":3}}}"},
    {"the details are null", CHAT, 3, "{\"usage\":{\"prompt_tokens_details\":null,\"prompt_tokens\":4}}",
     "{\"usage\":{\"prompt_tokens_details\":{\"cached_tokens\":3},\"prompt_tokens\":4}}"},
    {"the details are no object", CHAT, 3, "{\"usage\":{\"prompt_tokens_details\":7}}",
     "{\"usage\":{\"prompt_tokens_details\":{\"cached_tokens\":3}}}"},
    {"the member is missing", CHAT, 3, "{\"usage\":{\"prompt_tokens_details\":{\"audio_tokens\":0}}}",
     "{\"usage\":{\"prompt_tokens_details\":{\"audio_tokens\":0,\"cached_tokens\":3}}}"},
    {"the details are empty", CHAT, 3, "{\"usage\":{\"prompt_tokens_details\":{}}}",
     "{\"usage\":{\"prompt_tokens_details\":{\"cached_tokens\":3}}}"},
    {"the member is null", CHAT, 3, "{\"usage\":{\"prompt_tokens_details\":{\"cached_tokens\":null}}}",
     "{\"usage\":{\"prompt_tokens_details\":{\"cached_tokens\":3}}}"},
    {"the member is a string", CHAT, 3, "{\"usage\":{\"prompt_tokens_details\":{\"cached_tokens\":\"3\"}}}",
     "{\"usage\":{\"prompt_tokens_details\":{\"cached_tokens\":3}}}"},
    {"the block is empty", CHAT, 3, "{\"usage\":{}}", "{\"usage\":{\"prompt_tokens_details\":{\"cached_tokens\":3}}}"},
    {"completions", COORD_API_COMPLETIONS, 3, "{\"usage\":{\"prompt_tokens_details\":{\"cached_tokens\":9}}}",
     "{\"usage\":{\"prompt_tokens_details\":{\"cached_tokens\":3}}}"},
    {"generate", COORD_API_GENERATE, 3, "{\"usage\":{\"prompt_tokens_details\":{\"cached_tokens\":9}}}",
     "{\"usage\":{\"prompt_tokens_details\":{\"cached_tokens\":3}}}"},
    {"no block", CHAT, 3, "{\"usage\":null}", NULL},
    {"no block at all", CHAT, 3, "{}", NULL},
    {"responses", RESPONSES, 3,
     "{\"usage\":{\"input_tokens\":5,\"input_tokens_details\":{\"cached_tokens\":5},\"output_tokens\":7}}",
     "{\"usage\":{\"input_tokens\":5,\"input_tokens_details\":{\"cached_tokens\":3},\"output_tokens\":7}}"},
    {"responses, nested", RESPONSES, 3, "{\"type\":\"response.failed\",\"response\":{\"usage\":{\"input_tokens\":5}}}",
     "{\"type\":\"response.failed\",\"response\":{\"usage\":{\"input_tokens\":5,\"input_tokens_details\":{\"cached_"
     "tokens\":3}}}}"},
    {"responses is not taken for Messages", RESPONSES, 3, "{\"usage\":{\"input_tokens\":5}}",
     "{\"usage\":{\"input_tokens\":5,\"input_tokens_details\":{\"cached_tokens\":3}}}"},
    /* Reference 4.3, worked Messages cases. */
    {"messages: all was read", MESSAGES, 448, "{\"usage\":{\"input_tokens\":0,\"cache_read_input_tokens\":1710}}",
     "{\"usage\":{\"input_tokens\":1262,\"cache_read_input_tokens\":448}}"},
    {"messages: with creation", MESSAGES, 64,
     "{\"usage\":{\"input_tokens\":6,\"cache_creation_input_tokens\":768,\"cache_read_input_tokens\":448}}",
     "{\"usage\":{\"input_tokens\":390,\"cache_creation_input_tokens\":768,\"cache_read_input_tokens\":64}}"},
    {"messages: clamped", MESSAGES, 99, "{\"usage\":{\"input_tokens\":10,\"cache_read_input_tokens\":0}}",
     "{\"usage\":{\"input_tokens\":0,\"cache_read_input_tokens\":99}}"},
    {"messages: message_start", MESSAGES, 448,
     "{\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":1214,\"output_tokens\":0}}}",
     "{\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":766,\"output_tokens\":0,\"cache_read_input_"
     "tokens\":448}}}"},
    {"messages: right already", MESSAGES, 24, "{\"usage\":{\"input_tokens\":7,\"cache_read_input_tokens\":24}}", NULL},
    {"messages: only output", MESSAGES, 24, "{\"usage\":{\"output_tokens\":7}}", NULL},
    {"messages: null", MESSAGES, 2, "{\"usage\":{\"input_tokens\":7,\"cache_read_input_tokens\":null}}",
     "{\"usage\":{\"input_tokens\":5,\"cache_read_input_tokens\":2}}"},
    {"messages: no cache, none said", MESSAGES, 0, "{\"usage\":{\"input_tokens\":7}}",
     "{\"usage\":{\"input_tokens\":7,\"cache_read_input_tokens\":0}}"},
    {"messages: prompt_tokens_details is not invented", MESSAGES, 1,
     "{\"usage\":{\"input_tokens\":7,\"prompt_tokens\":7}}",
     "{\"usage\":{\"input_tokens\":6,\"prompt_tokens\":7,\"cache_read_input_tokens\":1}}"},
};

static void an_edit_changes_the_number_and_nothing_else(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        char *edited = NULL;
        size_t size = 0;
        coord_status status =
            coord_usage_edit_cached(edits[i].api, coord_slice_of(edits[i].json), edits[i].cached, &edited, &size);

        print_message("  %s\n", edits[i].name);
        assert_int_equal(status, edits[i].want ? COORD_OK : COORD_END);
        if (edits[i].want) {
            char *text = strndup(edited, size);

            assert_string_equal(text, edits[i].want);
            free(text);
            free(edited);
            assert_int_equal(
                coord_usage_edit_cached(edits[i].api, coord_slice_of(edits[i].want), edits[i].cached, &edited, &size),
                COORD_END);
        }
    }
}

static void what_cannot_be_edited_is_left_alone(void **state)
{
    static const char *const texts[] = {
        "",
        "   ",
        "{\"usage\":{\"prompt_tokens\":3}",
        "[DONE]",
        "{\"usage\":{\"prompt_tokens_details\":{\"cached_tokens\":1,\"cached_tokens\":2}}}",
        "{\"usage\":{\"prompt_tokens_details\":{},\"prompt_tokens_details\":{}}}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char *edited = NULL;
        size_t size = 0;

        print_message("  %s\n", texts[i]);
        assert_int_equal(coord_usage_edit_cached(CHAT, coord_slice_of(texts[i]), 3, &edited, &size), COORD_INVALID);
        assert_null(edited);
    }
}

static void the_word_is_searched_for(void **state)
{
    (void)state;
    assert_true(coord_usage_maybe((coord_slice)COORD_SLICE("{\"usage\":{}}")));
    assert_true(coord_usage_maybe((coord_slice)COORD_SLICE("usage")));
    assert_false(coord_usage_maybe((coord_slice)COORD_SLICE("usag")));
    assert_false(coord_usage_maybe((coord_slice){NULL, 0}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_says_its_counts_and_nothing_else),
        cmocka_unit_test(snapshots_follow_each_other_and_the_last_that_says_something_wins),
        cmocka_unit_test(a_messages_prompt_is_put_together_over_events),
        cmocka_unit_test(an_older_plugin_gets_the_members_that_it_knows),
        cmocka_unit_test(a_frame_is_usage_and_empty_choices),
        cmocka_unit_test(an_edit_changes_the_number_and_nothing_else),
        cmocka_unit_test(what_cannot_be_edited_is_left_alone),
        cmocka_unit_test(the_word_is_searched_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
