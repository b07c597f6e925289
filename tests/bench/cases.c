/* See cases.h. */
#include "cases.h"

#include <stdio.h>

#define DECODE_STEP "    - type: decode\n"
#define RENDER_AND_PREFILL "    - {type: render, params: {address: \"http://127.0.0.1:%u\"}}\n    - type: prefill\n"
#define NOOP(id) "    - {type: bench-noop, id: noop-" #id "}\n"
#define FIVE_NOOPS(id) NOOP(id##a) NOOP(id##b) NOOP(id##c) NOOP(id##d) NOOP(id##e)

static const char one_leg[] = DECODE_STEP;
static const char three_legs[] = RENDER_AND_PREFILL DECODE_STEP;
static const char noops[] = FIVE_NOOPS(a) FIVE_NOOPS(b) FIVE_NOOPS(c) FIVE_NOOPS(d) DECODE_STEP;

enum { NOOPS = 20, EVENTS_A_SECOND = 20000 };

static const struct shape small_chat = {.prompt = 400, .tokens = 120};
static const struct shape streamed = {.prompt = 400, .tokens = 120, .stream = 1};

#define STREAMS(count) .streams = (count), .interval_us = (int64_t)(count) * 1000000 / EVENTS_A_SECOND

const struct bench_case cases[] = {
    {.name = "1-leg",
     .title = "1 leg, small chat",
     .steps = one_leg,
     .shape = small_chat,
     .requests = 30000,
     .bound = 2.2},
    {.name = "3-legs",
     .title = "3 legs, small chat",
     .steps = three_legs,
     .shape = small_chat,
     .requests = 20000,
     .bound = 1.7},
    {.name = "long-prompt",
     .title = "3 legs, 220 KB prompt, 37k ids",
     .steps = three_legs,
     .shape = {.prompt = 220000, .tokens = 37000},
     .requests = 2000,
     .bound = 1.5},
    {.name = "image",
     .title = "3 legs, 1 MB inline image",
     .steps = three_legs,
     .shape = {.prompt = 200, .image = 1048576, .tokens = 1200},
     .requests = 1000,
     .bound = 1.5},
    {.name = "1000-streams",
     .title = "1,000 streams, 20 events/s each",
     .steps = three_legs,
     .shape = streamed,
     STREAMS(1000),
     .bound = 1.5},
    {.name = "5000-streams",
     .title = "5,000 streams, 4 events/s each",
     .steps = three_legs,
     .shape = streamed,
     STREAMS(5000)},
    {.name = "parity",
     .title = "1,000 streams, parity and cached tokens",
     .steps = three_legs,
     .plain_steps = one_leg,
     .shape = streamed,
     STREAMS(1000),
     .bound = 1.1},
    {.name = "steps",
     .title = "1 leg, small chat, 20 steps that do nothing",
     .steps = noops,
     .plain_steps = one_leg,
     .shape = small_chat,
     .requests = 30000,
     .bound = 1,
     .bound_on = ADDED,
     .each = NOOPS},
};
const size_t case_count = sizeof cases / sizeof *cases;

bool case_has_one_leg(const struct bench_case *a_case) { return a_case->steps == one_leg; }

/* ---- Growth ---- */

/* As many as take about as long as the others. */
static uint64_t requests_of(size_t bytes) { return 20 + 10000000 / (bytes + 1000); }

static void make_streams(struct bench_case *a_case, size_t count)
{
    *a_case = (struct bench_case){.steps = three_legs, .shape = streamed, STREAMS(count)};
}

static void make_prompt(struct bench_case *a_case, size_t bytes)
{
    *a_case = (struct bench_case){
        .steps = three_legs, .shape = {.prompt = bytes, .tokens = 120}, .requests = requests_of(bytes)};
}

static void make_ids(struct bench_case *a_case, size_t count)
{
    *a_case = (struct bench_case){
        .steps = three_legs, .shape = {.prompt = 400, .tokens = count}, .requests = requests_of(7 * count)};
}

static void make_steps(struct bench_case *a_case, size_t count)
{
    static char steps[4096];
    size_t size = 0;

    for (size_t i = 3; i < count; i++)
        size += (size_t)snprintf(steps + size, sizeof steps - size, "    - {type: bench-noop, id: noop-%zu}\n", i);
    snprintf(steps + size, sizeof steps - size, "%s", three_legs);
    *a_case = (struct bench_case){.steps = steps, .shape = small_chat, .requests = 20000};
}

static void make_reactors(struct bench_case *a_case, size_t count)
{
    *a_case = (struct bench_case){.steps = three_legs, .shape = small_chat, .requests = 20000, .reactors = (int)count};
}

const struct series all_series[] = {
    {"streams", "Streams, 20,000 events/s in all", "streams", false, {100, 300, 1000, 3000, 10000}, make_streams},
    {"prompt", "Prompt, three legs", "bytes of prompt", false, {1000, 10000, 100000, 1000000, 10000000}, make_prompt},
    {"ids", "Token ids, three legs", "ids", false, {100, 1000, 10000, 100000, 1000000}, make_ids},
    {"steps", "Steps, three of which call", "steps", true, {3, 5, 10, 20}, make_steps},
    {"reactors", "Reactors, three legs, small chat", "reactors", true, {1, 2, 4, 8}, make_reactors},
};
const size_t series_count = sizeof all_series / sizeof *all_series;
