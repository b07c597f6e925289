/* See rehearsal.h: the service, the client, and what came of it. */
#include "pipeline/rehearsal.h"

#include "runtime/clock.h"

#include <coordinator/document.h>

#include <signal.h>

enum { ANSWER_MIB = 64 };

static const int64_t LIMIT_NS = REHEARSAL_SECONDS * INT64_C(1000000000);
static const struct loopback_limits LIMITS = {REHEARSAL_SECONDS * INT64_C(1000000000), ANSWER_MIB *(size_t)(1 << 20)};

void rehearsal_adjust(struct settings *settings)
{
    if (settings->log_level > COORD_LOG_WARNING)
        settings->log_level = COORD_LOG_WARNING;
    settings->server.listen_addr = coord_slice_of("127.0.0.1:0");
    settings->server.metrics_port = 0;
    settings->server.secure_serving_set = true;
    settings->server.secure_serving = false;
    settings->server.cert_path = settings->server.metrics_cert_dir = (coord_slice){0};
    settings->server.drain_delay_ns = 0;
    settings->server.shutdown_timeout_ns = LIMIT_NS;
    settings->runtime.reactors = 1;
}

/* ---- The client ---- */

static bool put_request(struct buffer *out, const struct rehearsal_input *input)
{
    static const struct header usual[] = {
        {COORD_SLICE("Host"), COORD_SLICE("coordinator")},
        {COORD_SLICE("Content-Type"), COORD_SLICE("application/json")},
    };
    struct headers given = {.list = (struct header *)(uintptr_t)input->headers, .count = input->header_count};
    bool done = buffer_printf(out, "POST %.*s HTTP/1.1\r\nConnection: close\r\n", COORD_FMT(input->path));

    for (size_t i = 0; i < sizeof usual / sizeof *usual && done; i++)
        if (!headers_find(&given, usual[i].name))
            done = buffer_printf(out, "%.*s: %.*s\r\n", COORD_FMT(usual[i].name), COORD_FMT(usual[i].value));
    for (size_t i = 0; i < input->header_count && done; i++)
        done =
            buffer_printf(out, "%.*s: %.*s\r\n", COORD_FMT(input->headers[i].name), COORD_FMT(input->headers[i].value));
    return done && buffer_printf(out, "Content-Length: %zu\r\n\r\n", input->body.size) &&
           buffer_append_slice(out, input->body);
}

static enum loopback_outcome ask(struct rehearsal *rehearsal, const struct rehearsal_input *input, struct arena *arena)
{
    struct buffer request = {0};
    enum loopback_outcome outcome = LOOPBACK_BROKEN;

    if (put_request(&request, input))
        outcome = loopback_run(rehearsal->service.port, buffer_slice(&request), &LIMITS, arena, &rehearsal->answer);
    buffer_release(&request);
    return outcome;
}

/* ---- What came of it ---- */

/* OpenAI's and Anthropic's errors have their message at the same place. */
static const char *message_in(struct rehearsal *rehearsal, coord_slice body)
{
    coord_document *document = coord_document_parse_new(body, NULL, NULL);
    coord_slice message = {0};
    const char *kept = NULL;

    if (document && coord_document_get_string(document, "/error/message", &message) == COORD_OK)
        kept = arena_copy(&rehearsal->arena, message).data;
    coord_document_free(document);
    return kept;
}

static void judge_answer(struct rehearsal *rehearsal)
{
    const struct loopback_answer *got = &rehearsal->answer;

    rehearsal->error_status = got->status;
    if (got->status >= 400) {
        rehearsal->error = message_in(rehearsal, buffer_slice(&rehearsal->answer_body));
        if (!rehearsal->error)
            rehearsal->error = arena_printf(&rehearsal->arena, "the answer is HTTP %d", got->status);
    } else if (got->status == 0) {
        rehearsal->error = "the connection was closed without an answer";
    } else if (!got->whole) {
        rehearsal->error = "the answer was cut in the middle";
    }
}

static void judge_timeout(struct rehearsal *rehearsal)
{
    if (rehearsal->stuck)
        rehearsal->error = arena_printf(&rehearsal->arena, "the dry run did not end within %d s: step %s was running",
                                        REHEARSAL_SECONDS, rehearsal->stuck->id);
    else
        rehearsal->error = arena_printf(&rehearsal->arena, "the dry run did not end within %d s", REHEARSAL_SECONDS);
}

static void judge(struct rehearsal *rehearsal, enum loopback_outcome outcome, bool drained)
{
    rehearsal->short_of_memory |=
        !secrets_hide(&rehearsal->secrets, buffer_slice(&rehearsal->answer.body), &rehearsal->answer_body);
    if (outcome == LOOPBACK_TIMEOUT)
        judge_timeout(rehearsal);
    else if (outcome == LOOPBACK_TOO_LONG)
        rehearsal->error = arena_printf(&rehearsal->arena, "the answer is longer than %d MiB", ANSWER_MIB);
    else if (outcome == LOOPBACK_BROKEN || rehearsal->short_of_memory)
        rehearsal->error = "memory is short, or the service did not take the connection";
    else
        judge_answer(rehearsal);
    if (!drained && !rehearsal->error)
        rehearsal->error =
            arena_printf(&rehearsal->arena, "work in the background did not end within %d s", REHEARSAL_SECONDS);
}

static void note_stuck(struct rehearsal *rehearsal)
{
    pthread_mutex_lock(&rehearsal->lock);
    rehearsal->stuck = rehearsal->running;
    pthread_mutex_unlock(&rehearsal->lock);
}

/* The reactor may still be stuck in a step: from now on it writes nothing down. */
static void close_record(struct rehearsal *rehearsal)
{
    pthread_mutex_lock(&rehearsal->lock);
    rehearsal->over = true;
    pthread_mutex_unlock(&rehearsal->lock);
}

static void say(struct complaints *complaints, const struct buffer *reason)
{
    static const struct position at = {"explain", 0, 0};

    complain(complaints, COMPLAINT_ERROR, at, "%.*s", COORD_FMT(buffer_slice(reason)));
}

static bool start(struct rehearsal *rehearsal, struct generation *generation, struct complaints *complaints)
{
    struct buffer reason = {.limit = 4096};
    bool started;

    rehearsal_witness(rehearsal);
    pthread_mutex_init(&rehearsal->lock, NULL);
    if (!secrets_gather(&rehearsal->secrets, &rehearsal->arena, generation) ||
        !generation_start(generation, complaints)) {
        generation_free(generation);
        return false;
    }
    generation->witness = &rehearsal->witness;
    rehearsal->generation = generation;
    rehearsal->served = true;
    started = service_start(&rehearsal->service, generation, &reason) == COORD_OK;
    if (!started)
        say(complaints, &reason);
    buffer_release(&reason);
    return started;
}

bool rehearsal_run(struct rehearsal *rehearsal, struct generation *generation_take, const struct rehearsal_input *input,
                   struct complaints *complaints)
{
    struct arena received = {0};
    enum loopback_outcome outcome;
    int64_t began_ns;
    bool drained;
    struct headers fields;

    signal(SIGPIPE, SIG_IGN);
    if (!start(rehearsal, generation_take, complaints))
        return false;
    outcome = ask(rehearsal, input, &received);
    if (outcome == LOOPBACK_TIMEOUT)
        note_stuck(rehearsal);
    loopback_hang_up(&rehearsal->answer);
    began_ns = clock_ns();
    drained = service_drain(&rehearsal->service, -1) && clock_ns() - began_ns < LIMIT_NS;
    close_record(rehearsal);
    fields = rehearsal->answer.headers;
    rehearsal_copy_fields(rehearsal, &rehearsal->answer.headers, &fields);
    judge(rehearsal, outcome, drained);
    arena_release(&received);
    return true;
}

void rehearsal_release(struct rehearsal *rehearsal)
{
    if (rehearsal->served)
        service_release(&rehearsal->service);
    for (struct rehearsed_writer *writer = rehearsal->outermost; writer; writer = writer->inner)
        buffer_release(&writer->body);
    loopback_release(&rehearsal->answer);
    buffer_release(&rehearsal->answer_body);
    arena_release(&rehearsal->arena);
}
