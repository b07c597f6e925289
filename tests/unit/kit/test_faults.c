/* The kit finds what is wrong with the broken copies of the examples, says which step it is and what to do, and finds nothing in the examples. */
#include "linked_steps.h"

#include <coordinator/testkit.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define HELLO_YAML                                                                                                     \
    "pipeline: {steps: [{type: hello, id: greeter, params: {policy: \"http://policy.kit\"}}, {type: decode}]}"
#define SHOUT_YAML "pipeline: {steps: [{type: shout}, {type: decode}]}"

static const coord_kit_rule answers[] = {
    {.upstream = "policy", .body = COORD_SLICE("{\"allowed\": true}")},
    {.upstream = "gateway", .body = COORD_SLICE("{\"choices\":[{\"a\": \"b\"}]}")}};
static const coord_kit_request chat = {.target = "/v1/chat/completions",
                                       .body = COORD_SLICE("{\"model\":\"tiny\",\"messages\":[]}")};
static const coord_kit_request stream = {.target = "/v1/chat/completions",
                                         .body = COORD_SLICE("{\"model\":\"tiny\",\"stream\":true}")};

/* A trial of one file of the tests' plugins; until the next one. */
static const coord_kit_trial *trial_of_file(const char *name, const char *yaml, const coord_kit_request *request)
{
    static char file[512];
    static const char *files[2] = {file, NULL};
    static coord_kit_options options;
    static coord_kit_trial trial;

    snprintf(file, sizeof file, "%s/%s.so", COORD_TEST_PLUGINS, name);
    options = (coord_kit_options){.size = sizeof options, .yaml = yaml, .plugin_files = files};
    if (strcmp(name, "broken-lingers") ==
        0) /* its work of 1.4 s is to be far above the bound, which is a tenth of this */
        options.patience_ns = INT64_C(2000) * COORD_KIT_MS;
    trial = (coord_kit_trial){
        .size = sizeof trial, .options = &options, .rules = answers, .rule_count = 2, .request = request};
    return &trial;
}

static void assert_says(const char *fault, const char *const *parts)
{
    if (!fault)
        fail_msg("nothing was found");
    for (; *parts; parts++)
        if (!strstr(fault, *parts))
            fail_msg("no \"%s\" in: %s", *parts, fault);
}

static void each_broken_step_is_found_and_named(void **state)
{
    static const struct {
        const char *file;
        const char *(*search)(const coord_kit_trial *trial);
        const char *parts[6];
    } rows[] = {
        {"broken-leaks",
         coord_kit_find_leak,
         {"keeps more memory after each request", "40 bytes in 8 blocks", "in the destructor of a slot"}},
        {"broken-no-destroy",
         coord_kit_find_leak,
         {"leaks: ", "in 1 blocks", "when it was made", "in `stop` or `destroy`"}},
        {"broken-thread-leaks", coord_kit_find_leak, {"\"a thread of its own\"", "leaks: 100 bytes in 1 blocks"}},
        {"broken-grows",
         coord_kit_find_leak,
         {"keeps more memory after each request", "in 8 blocks", "free it before"}},
        {"broken-bare-slot",
         coord_kit_find_slot,
         {"the slot \"model\", which has no destructor", "give its coord_slot_type"}},
        {"broken-sleeps", coord_kit_find_blocking, {"blocks its reactor in clock_nanosleep", "coord_offload"}},
        {"broken-reads", coord_kit_find_blocking, {"blocks its reactor in read:", "coord_wait_fd"}},
        {"broken-lingers",
         coord_kit_find_uncancelled,
         {"takes no notice when the client leaves", "left right after the step had begun", "it went on for ",
          "COORD_CANCELLED"}},
        {"broken-deaf",
         coord_kit_find_uncancelled,
         {"takes no notice when the client leaves", "before the answer of its call to policy", "it went on for ", " ms",
          "COORD_CANCELLED"}},
        {"broken-trusts-malloc",
         coord_kit_find_short_memory,
         {"crashes when allocation ", "check what the call returned"}},
        {"broken-trusts-calls",
         coord_kit_find_short_memory,
         {"crashes when allocation ", "check what the call returned"}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *fault = rows[i].search(trial_of_file(rows[i].file, HELLO_YAML, &chat));
        bool thread = strcmp(rows[i].file, "broken-thread-leaks") == 0; /* it works for no step in particular */
        const char *const name[] = {thread ? " of plugin " : "step \"greeter\" of plugin ", rows[i].file, NULL};

        print_message("  %s\n", rows[i].file);
        assert_says(fault, name);
        assert_says(fault, rows[i].parts);
    }
}

static void the_healthy_steps_have_no_fault(void **state)
{
    (void)state;
    assert_null(coord_kit_find_fault(trial_of_file("example-hello", HELLO_YAML, &chat)));
    assert_null(coord_kit_find_fault(trial_of_file("example-shout", SHOUT_YAML, &stream)));
}

/* A step that returns at once leaves nothing to wait for: no leg of the last request is held, however patient the kit is. */
static void a_step_that_returns_at_once_is_not_waited_for(void **state)
{
    coord_kit_options options = *trial_of_file("example-shout", SHOUT_YAML, &stream)->options;
    coord_kit_trial trial = *trial_of_file("example-shout", SHOUT_YAML, &stream);
    struct timespec began, ended;

    (void)state;
    options.patience_ns = INT64_C(300000) * COORD_KIT_MS;
    trial.options = &options;
    clock_gettime(CLOCK_MONOTONIC, &began);
    assert_null(coord_kit_find_uncancelled(&trial));
    clock_gettime(CLOCK_MONOTONIC, &ended);
    assert_true(ended.tv_sec - began.tv_sec < 150);
}

static void a_step_that_is_linked_in_is_searched_too(void **state)
{
    static const coord_plugin_descriptor *const plugins[] = {&linked_leaking, NULL};
    static const coord_kit_options options = {.size = sizeof options, .yaml = HELLO_YAML, .plugins = plugins};
    static const coord_kit_trial trial = {
        .size = sizeof trial, .options = &options, .rules = answers, .rule_count = 2, .request = &chat};

    (void)state;
    assert_says(coord_kit_find_leak(&trial),
                (const char *const[]){"step \"greeter\" of plugin hello", "40 bytes in 8 blocks", NULL});
}

/* ---- Writers ---- */

static const char events[] = ": hi\n\ndata: {\"choices\": [{\"delta\":{\"content\":\"one \"}}]}\r\n\r\n"
                             "data: {\"choices\": [{\"delta\":{\"content\":\"two\"}}]}\n\n";
static const char shouted[] = ": hi\n\ndata: {\"choices\": [{\"delta\":{\"content\":\"ONE \"}}]}\r\n\r\n"
                              "data: {\"choices\": [{\"delta\":{\"content\":\"TWO\"}}]}\n\n";
static const coord_kit_rule answer = {.headers = (const char *const[]){"Content-Type", "text/event-stream", NULL},
                                      .body = {events, sizeof events - 1}};

static void a_writer_that_breaks_at_a_split_is_found_with_the_place(void **state)
{
    const char *fault =
        coord_kit_find_split(trial_of_file("broken-splits", SHOUT_YAML, &stream), &answer, coord_slice_of(shouted));

    (void)state;
    assert_says(fault, (const char *const[]){
                           "the writer of step \"shout\" of plugin ",
                           "broken-splits.so breaks when an answer comes in two pieces, split at byte ", "from byte ",
                           "the client gets \"one ", "instead of \"ONE ", "Keep what is not whole yet", NULL});
}

static void a_writer_that_holds_bytes_at_the_end_is_found(void **state)
{
    (void)state;
    assert_says(
        coord_kit_find_split(trial_of_file("broken-holds", SHOUT_YAML, &stream), &answer, coord_slice_of(shouted)),
        (const char *const[]){"the writer of step \"shout\" of plugin ",
                              "broken-holds.so holds bytes at the end of an answer that comes without the last ",
                              "the client misses the last ", "Pass on in `end`", NULL});
    assert_says(coord_kit_find_split(trial_of_file("broken-holds", SHOUT_YAML, &stream), &answer, (coord_slice){0}),
                (const char *const[]){"holds bytes at the end", NULL});
}

static void the_healthy_writer_gives_the_same_at_every_split(void **state)
{
    (void)state;
    assert_null(
        coord_kit_find_split(trial_of_file("example-shout", SHOUT_YAML, &stream), &answer, coord_slice_of(shouted)));
}

/* A writer without a step: each byte is passed twice. */
static void pass_twice(coord_writer *writer, coord_slice bytes)
{
    for (size_t i = 0; i < bytes.size; i++) {
        coord_writer_pass(writer, (coord_slice){bytes.data + i, 1});
        coord_writer_pass(writer, (coord_slice){bytes.data + i, 1});
    }
}

static void a_writer_is_tested_alone(void **state)
{
    static const coord_writer_type twice = {.size = sizeof twice,
                                            .flags = COORD_WRITER_REWRITES | COORD_WRITER_READS_BODY,
                                            .name = "twice",
                                            .data = pass_twice};
    static const coord_kit_writer alone = {.type = &twice};
    static const coord_kit_options options = {.size = sizeof options, .writer = &alone};
    static const coord_kit_trial trial = {.size = sizeof trial, .options = &options, .request = &chat};
    static const coord_kit_rule abc = {.body = COORD_SLICE("abc")};

    (void)state;
    assert_null(coord_kit_find_split(&trial, &abc, coord_slice_of("aabbcc")));
    assert_says(coord_kit_find_split(&trial, &abc, coord_slice_of("aabbccd")),
                (const char *const[]){"the writer of twice holds bytes", "misses the last 1 of 7 bytes", NULL});
}

/* Where the checkers that look at the program's end find what is lost on purpose. */
static void *lost[64];
static size_t lost_count;

static void *make_and_lose(coord_request *request)
{
    (void)request;
    return lost[lost_count++ % 64] = malloc(24);
}

static void free_state(coord_writer *writer) { free(coord_writer_state(writer)); }

static void a_writer_alone_that_keeps_its_state_is_found(void **state)
{
    static const coord_writer_type keeps = {.size = sizeof keeps, .name = "keeps"};
    static const coord_writer_type frees = {.size = sizeof frees, .name = "frees", .free = free_state};
    static coord_kit_writer writer = {.make = make_and_lose};
    static const coord_kit_options options = {.size = sizeof options, .writer = &writer};
    static const coord_kit_trial trial = {.size = sizeof trial, .options = &options, .request = &chat};

    (void)state;
    writer.type = &frees;
    assert_null(coord_kit_find_leak(&trial));
    writer.type = &keeps;
    assert_says(coord_kit_find_leak(&trial),
                (const char *const[]){"step \"kit-writer\"", "192 bytes in 8 blocks", "in `free` of a writer", NULL});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_broken_step_is_found_and_named),
        cmocka_unit_test(the_healthy_steps_have_no_fault),
        cmocka_unit_test(a_step_that_returns_at_once_is_not_waited_for),
        cmocka_unit_test(a_step_that_is_linked_in_is_searched_too),
        cmocka_unit_test(a_writer_that_breaks_at_a_split_is_found_with_the_place),
        cmocka_unit_test(a_writer_that_holds_bytes_at_the_end_is_found),
        cmocka_unit_test(the_healthy_writer_gives_the_same_at_every_split),
        cmocka_unit_test(a_writer_is_tested_alone),
        cmocka_unit_test(a_writer_alone_that_keeps_its_state_is_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
