/* See cases.h. */
#include "cases.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define DECODE_STEP "    - type: decode\n"
#define RENDER_AND_PREFILL "    - {type: render, params: {address: \"http://127.0.0.1:%u\"}}\n    - type: prefill\n"
#define NOOP(id) "    - {type: bench-noop, id: noop-" #id "}\n"
#define FIVE_NOOPS(id) NOOP(id##a) NOOP(id##b) NOOP(id##c) NOOP(id##d) NOOP(id##e)

static const char one_leg[] = DECODE_STEP;
static const char three_legs[] = RENDER_AND_PREFILL DECODE_STEP;
static const char noops[] = FIVE_NOOPS(a) FIVE_NOOPS(b) FIVE_NOOPS(c) FIVE_NOOPS(d) DECODE_STEP;

enum { NOOPS = 20, EVENTS_A_SECOND = 20000, STREAMS_WANTED = 10000, SPARE_FILES = 1000 };

static const struct shape small_chat = {.prompt = 400, .tokens = 120};
static const struct shape streamed = {.prompt = 400, .tokens = 120, .stream = 1};

#define STREAMS_OF(count)                                                                                              \
    .kind = STREAMS, .streams = (count), .interval_us = (int64_t)(count) * 1000000 / EVENTS_A_SECOND

const struct bench_case cases[] = {
    {.name = "1-leg",
     .title = "1 leg, small chat",
     .beside = BESIDE_ONE_HOP,
     .steps = one_leg,
     .shape = small_chat,
     .requests = 30000,
     .bound = 1.3},
    {.name = "3-legs",
     .title = "3 legs, small chat",
     .steps = three_legs,
     .shape = small_chat,
     .requests = 20000,
     .bound = 0.8},
    {.name = "long-prompt",
     .title = "3 legs, 220 KB prompt, 37k ids",
     .steps = three_legs,
     .shape = {.prompt = 220000, .tokens = 37000},
     .requests = 2000,
     .bound = 1.1},
    {.name = "image",
     .title = "3 legs, 1 MB inline image",
     .steps = three_legs,
     .shape = {.prompt = 200, .image = 1048576, .tokens = 1200},
     .requests = 1000,
     .bound = 1.1},
    {.name = "alone-1-leg",
     .title = "1 leg, small chat, one request at a time",
     .beside = BESIDE_ONE_HOP,
     .steps = one_leg,
     .shape = small_chat,
     .connections = 1,
     .requests = 5000},
    {.name = "alone-3-legs",
     .title = "3 legs, small chat, one request at a time",
     .beside = BESIDE_ONE_HOP,
     .steps = three_legs,
     .shape = small_chat,
     .connections = 1,
     .requests = 5000,
     .bound = 2.5},
    {.name = "1000-streams",
     .title = "1,000 streams, 20 events/s each",
     .steps = three_legs,
     .shape = streamed,
     STREAMS_OF(1000),
     .bound = 1.2,
     .promised = true},
    {.name = "5000-streams",
     .title = "5,000 streams, 4 events/s each",
     .steps = three_legs,
     .shape = streamed,
     STREAMS_OF(5000)},
    {.name = "parity",
     .title = "1,000 streams, parity and cached tokens",
     .beside = BESIDE_PLAIN,
     .steps = three_legs,
     .plain_steps = one_leg,
     .shape = streamed,
     STREAMS_OF(1000),
     .bound = 1.1},
    {.name = "steps",
     .title = "1 leg, small chat, 20 steps that do nothing",
     .beside = BESIDE_PLAIN,
     .steps = noops,
     .plain_steps = one_leg,
     .shape = small_chat,
     .requests = 30000,
     .bound = 1,
     .bound_on = ADDED,
     .each = NOOPS},
    {.name = "peak-prompt",
     .title = "3 legs, one request at a time, 10 MB prompt",
     .kind = PEAK,
     .beside = BESIDE_NOTHING,
     .steps = three_legs,
     .shape = {.prompt = 10000000, .tokens = 120},
     .requests = 5,
     .bound = 1.3},
    {.name = "peak-rendered-ids",
     .title = "3 legs, one request at a time, a million ids from render",
     .kind = PEAK,
     .beside = BESIDE_NOTHING,
     .steps = three_legs,
     .shape = {.prompt = 400, .tokens = 1000000},
     .requests = 5,
     .bound = 1.3},
    {.name = "peak-client-ids",
     .title = "3 steps, one request at a time, a million ids from the client",
     .kind = PEAK,
     .beside = BESIDE_NOTHING,
     .steps = three_legs,
     .shape = {.tokens = 1000000, .client_ids = true},
     .requests = 5,
     .bound = 1.3},
    {.name = "idle",
     .title = "start, and nothing to do; default configuration",
     .kind = IDLE,
     .beside = BESIDE_NOTHING,
     .steps = three_legs,
     .shape = small_chat},
};
const size_t case_count = sizeof cases / sizeof *cases;

bool is_picked(const char *list, const char *name)
{
    size_t length = strlen(name);

    if (!list)
        return true;
    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, length) == 0 && (at[length] == '\0' || at[length] == ','))
            return true;
    }
    return false;
}

/* ---- Growth ---- */

size_t most_streams(void)
{
    struct rlimit files;
    size_t streams = STREAMS_WANTED;

    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_max < 2 * STREAMS_WANTED + SPARE_FILES)
        streams = files.rlim_max > SPARE_FILES ? (files.rlim_max - SPARE_FILES) / 2 / 100 * 100 : 0;
    return streams ? streams : 1;
}

static size_t most_reactors(void)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    return cores > 0 ? (size_t)cores : 1;
}

/* Few, as 32 bodies of 10 MB at a time would measure the caches of the machine, and a client that waits too long for its turn gets a 408. */
enum { LONG_AT_ONCE = 4 };

/* As many as take about as long as the others. */
static uint64_t requests_of(size_t bytes) { return 20 + 20000000 / (bytes + 3000); }

static void make_streams(struct bench_case *a_case, size_t count)
{
    *a_case = (struct bench_case){.steps = three_legs, .shape = streamed, STREAMS_OF(count)};
}

static void make_streams_on_two(struct bench_case *a_case, size_t count)
{
    make_streams(a_case, count);
    a_case->reactors = 2;
    a_case->beside = BESIDE_NOTHING;
}

static void make_prompt(struct bench_case *a_case, size_t bytes)
{
    *a_case = (struct bench_case){.steps = three_legs,
                                  .shape = {.prompt = bytes, .tokens = 120},
                                  .connections = LONG_AT_ONCE,
                                  .requests = requests_of(bytes)};
}

static void make_ids(struct bench_case *a_case, size_t count)
{
    *a_case = (struct bench_case){.steps = three_legs,
                                  .shape = {.prompt = 400, .tokens = count},
                                  .connections = LONG_AT_ONCE,
                                  .requests = requests_of(7 * count)};
}

/* `count` steps of one type, then `last`. */
static const char *repeated(const char *type, size_t count, const char *last)
{
    static char steps[4096];
    size_t size = 0;

    for (size_t i = 0; i < count; i++)
        size += (size_t)snprintf(steps + size, sizeof steps - size, "    - {type: %s, id: %s-%zu}\n", type, type, i);
    snprintf(steps + size, sizeof steps - size, "%s", last);
    return steps;
}

static void make_steps(struct bench_case *a_case, size_t count)
{
    *a_case = (struct bench_case){.beside = BESIDE_NOTHING,
                                  .steps = repeated("bench-noop", count - 3, three_legs),
                                  .shape = small_chat,
                                  .requests = 20000};
}

static void make_writers(struct bench_case *a_case, size_t count)
{
    make_streams(a_case, 1000);
    a_case->beside = BESIDE_NOTHING;
    a_case->steps = repeated("bench-pass", count, three_legs);
}

static void make_reactors(struct bench_case *a_case, size_t count)
{
    *a_case = (struct bench_case){
        .beside = BESIDE_NOTHING, .steps = three_legs, .shape = small_chat, .requests = 20000, .reactors = (int)count};
}

#define POINTS(...) .points = {__VA_ARGS__}, .count = sizeof((size_t[]){__VA_ARGS__}) / sizeof(size_t)

const struct series all_series[] = {
    {.name = "streams",
     .title = "Streams, 20,000 events/s in all: an event",
     .axis = "streams",
     .is_flat = true,
     POINTS(100, 300, 1000, 3000, STREAMS_WANTED),
     .make = make_streams,
     .most = most_streams},
    {.name = "streams-2",
     .title = "Streams on two reactors, 20,000 events/s in all: an event",
     .axis = "streams",
     .is_flat = true,
     POINTS(300, 1000, STREAMS_WANTED),
     .make = make_streams_on_two,
     .most = most_streams},
    {.name = "prompt",
     .title = "Prompt, three legs: a request",
     .axis = "bytes of prompt",
     POINTS(1000, 10000, 100000, 1000000, 10000000),
     .make = make_prompt},
    {.name = "ids",
     .title = "Token ids from render, three legs: a request",
     .axis = "ids",
     POINTS(100, 1000, 10000, 100000, 1000000),
     .make = make_ids},
    {.name = "steps",
     .title = "Steps, three of which call: a request",
     .axis = "steps",
     POINTS(3, 5, 10, 20),
     .make = make_steps},
    {.name = "writers",
     .title = "Writers that pass on, 1,000 streams: an event",
     .axis = "writers",
     POINTS(0, 1, 3, 5),
     .make = make_writers},
    {.name = "reactors",
     .title = "Reactors, three legs, small chat: a request",
     .axis = "reactors",
     .is_flat = true,
     POINTS(1, 2, 4, 8, 16, 32, 64),
     .make = make_reactors,
     .most = most_reactors},
};
const size_t series_count = sizeof all_series / sizeof *all_series;
