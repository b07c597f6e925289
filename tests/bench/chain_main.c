/*
 * bench-chain: what a writer adds to an event of a stream, without a network: events go through the chain of an answer's
 * writers to a client that only counts. The same events are sent with and without the writers in turns; the medians of the
 * rounds are compared.
 *
 * The events are shaped as vLLM's of a chat and say nothing about usage, as all but the last do.
 *
 * Usage: bench-chain [FILE]      (appends the table to FILE as Markdown)
 */
#include "pipeline/request.h"
#include "report.h"
#include "samples.h"

#include <coordinator/usage.h>

#include <stdlib.h>

enum { ROUNDS = 15, EVENTS = 200000, KINDS = 3, WRITERS = 5 };

static const char event[] =
    "data: {\"id\":\"chatcmpl-861ec77c03714b1ea2cb14a77d97193c\",\"object\":\"chat.completion.chunk\","
    "\"created\":1795991517,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" while\"},"
    "\"logprobs\":null,\"finish_reason\":null,\"token_ids\":null}]}\n\n";

struct answer {
    struct settings settings;
    struct generation generation;
    struct coord_request request;
    struct coord_head head;
    uint64_t bytes;
};

static void count_bytes(void *context, coord_slice bytes) { ((struct answer *)context)->bytes += bytes.size; }
static void ignore_head(void *context, struct coord_head *head) { (void)context, (void)head; }
static void ignore(void *context) { (void)context; }

static const struct chain_sink client = {ignore_head, count_bytes, ignore, ignore, ignore};

static void pass(coord_writer *writer, coord_slice bytes) { coord_writer_pass(writer, bytes); }

static const coord_writer_type passing = {
    .size = sizeof passing, .flags = COORD_WRITER_REWRITES, .name = "passing", .data = pass};

static void seen(coord_request *request, const coord_usage *usage, void *argument)
{
    (void)request, (void)usage, (void)argument;
}

static coord_status wrap_nothing(coord_request *request)
{
    (void)request;
    return COORD_OK;
}

static coord_status wrap_observer(coord_request *request) { return coord_usage_observe(request, seen, NULL); }

static coord_status wrap_passing(coord_request *request)
{
    coord_status status = COORD_OK;

    for (int i = 0; i < WRITERS && status == COORD_OK; i++)
        status = coord_request_wrap(request, &passing, NULL);
    return status;
}

static const struct kind {
    const char *title;
    coord_status (*wrap)(coord_request *request);
    int writers;
    double bound; /* us an event a writer */
} kinds[KINDS] = {{"no writer", wrap_nothing, 1, 0},
                  {"usage observer, events without usage", wrap_observer, 1, 0.3},
                  {"5 pass-through writers", wrap_passing, WRITERS, 0.2}};

/* us an event. */
static double measure(const struct kind *kind)
{
    struct answer answer = {.settings.response.inspect_limit = 1 << 20};
    struct chain *chain = &answer.request.chain;
    double began, ended;

    answer.generation.settings = &answer.settings;
    answer.request.magic = REQUEST_MAGIC;
    answer.request.generation = &answer.generation;
    answer.request.api = api_for_path(coord_slice_of("/v1/chat/completions"));
    answer.head = (struct coord_head){.status = 200, .length = -1};
    headers_init(&answer.head.headers, &answer.request.arena);
    chain_init(chain, &answer.request, &answer.request.arena, &client, &answer);
    if (kind->wrap(&answer.request) != COORD_OK ||
        !headers_add(&answer.head.headers, coord_slice_of("content-type"), coord_slice_of("text/event-stream")))
        abort();
    chain_head(chain, &answer.head);
    began = thread_cpu_us();
    for (int i = 0; i < EVENTS; i++)
        chain_data(chain, (coord_slice){event, sizeof event - 1});
    ended = thread_cpu_us();
    chain_end(chain);
    chain_release(chain);
    arena_release(&answer.request.arena);
    if (answer.bytes != EVENTS * (sizeof event - 1))
        abort();
    return (ended - began) / EVENTS;
}

int main(int argc, char **argv)
{
    struct samples measured[KINDS] = {0};
    struct finding findings[KINDS - 1];
    double medians[KINDS];
    bool written;

    for (int round = 0; round < ROUNDS; round++)
        for (int kind = 0; kind < KINDS; kind++)
            samples_add(&measured[kind], measure(&kinds[kind]));
    for (int kind = 0; kind < KINDS; kind++) {
        medians[kind] = samples_median(&measured[kind]);
        samples_release(&measured[kind]);
    }
    for (int kind = 1; kind < KINDS; kind++)
        findings[kind - 1] = (struct finding){.title = kinds[kind].title,
                                              .what = "CPU an event, in the process",
                                              .unit = "us",
                                              .base_name = "no writer",
                                              .base = medians[0],
                                              .coordinator = medians[kind],
                                              .curl = -1,
                                              .bound = kinds[kind].bound,
                                              .bound_on = ADDED,
                                              .each = kinds[kind].writers};
    report_print(findings, KINDS - 1);
    written = argc < 2 || report_append(findings, KINDS - 1, argv[1]);
    return written ? 0 : 1;
}
