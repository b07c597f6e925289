/* What is told of a request once it is over: the request families of the metrics, and one line in the log. */
#include "pipeline/executor.h"

#include "pipeline/worker.h"
#include "telemetry/families.h"
#include "telemetry/log.h"

enum { MAX_FIELDS = 24, TIMES_SIZE = 1024 };

static double seconds(int64_t ns) { return ns > 0 ? (double)ns / 1e9 : 0; }

/* Where no decode leg was sent there is none (decision 49). */
enum path { PATH_DECODE, PATH_PREFILL, PATH_ENCODE, PATH_NONE };

static const char *const PATHS[] = {
    [PATH_DECODE] = "decode-only",
    [PATH_PREFILL] = "prefill-decode",
    [PATH_ENCODE] = "encode-prefill-decode",
    [PATH_NONE] = NULL,
};

_Static_assert((int)PATH_NONE == (int)PATHS_TAKEN, "each path has a place");

static enum path path_taken(const struct coord_request *request)
{
    if (!request->sent_decode)
        return PATH_NONE;
    if (!request->sent_prefill)
        return PATH_DECODE;
    return request->sent_encode ? PATH_ENCODE : PATH_PREFILL;
}

/* What counts as the request's error: its failure, or the error that a worker's relayed answer was. */
static enum error_class error_of(const struct coord_request *request)
{
    if (request->failure.class != ERROR_NONE)
        return request->failure.class;
    if (request->watch.status != 0) /* decision 54 */
        return request->watch.status < 500 ? ERROR_UPSTREAM_4XX : ERROR_UPSTREAM_5XX;
    if (request->cancelled)
        return ERROR_CANCELLED;
    if (request->answer_status >= 400)
        return request->answer_status < 500 ? ERROR_UPSTREAM_4XX : ERROR_UPSTREAM_5XX;
    return ERROR_NONE;
}

static int64_t step_time(const struct coord_request *request)
{
    int64_t sum = 0;

    for (size_t i = 0; i < request->steps_ran_count; i++)
        sum += request->steps_ran[i].ended_ns - request->steps_ran[i].began_ns;
    return sum;
}

static bool ran(const struct coord_request *request, const char *type)
{
    for (size_t i = 0; i < request->steps_ran_count; i++)
        if (strcmp(request->steps_ran[i].step->kind->type.name, type) == 0)
            return true;
    return false;
}

/* What the client was told: prefill's count, where there is one (decision 34). */
static uint64_t told_cached(const struct coord_request *request)
{
    return request->prefill_usage.said & COORD_USAGE_CACHED ? request->prefill_usage.cached
                                                            : request->decode_usage.cached;
}

/* Moves a series of the request's model; `second`: its other label, if it has one. */
static void move(const struct coord_request *request, size_t place, coord_metric *family, const char *second,
                 double value)
{
    coord_slice labels[] = {request->model_label, second ? coord_slice_of(second) : (coord_slice){0}};

    metric_handle_add(&request->model_metrics->handles[place], family, labels, value);
}

/* The series that do not tell models apart. */
static void move_common(const struct coord_request *request, int64_t total)
{
    static struct metric_handle sent[2], overhead[API_PLACES]; /* by stream, by API */
    const struct families *family = families();
    int64_t parse = request->parsed_ns ? request->parsed_ns - request->began_ns : total;
    coord_slice stream = coord_slice_of(request->stream ? "true" : "false"),
                route = coord_slice_of(request->api->route);

    metric_handle_add(&sent[request->stream], family->response_size_bytes, &stream, (double)request->bytes_out);
    metric_handle_add(&overhead[request->api->id], family->orchestration_overhead_seconds, &route,
                      seconds(total - parse - step_time(request)));
}

static void move_metrics(const struct coord_request *request)
{
    const struct families *family = families();
    const coord_usage *prefill = &request->prefill_usage, *decode = &request->decode_usage;
    const char *api = request->api->name;
    size_t api_place = (size_t)request->api->id;
    enum error_class class = error_of(request);
    int64_t total = request->ended_ns - request->began_ns;
    enum path path = path_taken(request);

    move(request, MODEL_TOTAL, family->request_total, NULL, 1);
    move(request, MODEL_DURATION, family->request_duration_seconds, NULL, seconds(total));
    move(request, MODEL_SIZE, family->request_size_bytes, NULL, (double)request->bytes_in);
    move_common(request, total);
    if (class != ERROR_NONE)
        coord_metric_add(family->request_error_total, 1,
                         (coord_slice[]){request->model_label, coord_slice_of(error_class_name(class))});
    if (path != PATH_NONE)
        move(request, MODEL_PATH + path, family->execution_path_total, PATHS[path], 1);
    if (request->has_token_ids && ran(request, "render"))
        move(request, MODEL_INPUT_TOKENS, family->request_input_tokens, NULL, (double)request->token_count);
    if (decode->said & COORD_USAGE_OUTPUT)
        move(request, MODEL_OUTPUT_TOKENS + api_place, family->response_output_tokens, api, (double)decode->output);
    if (decode->said && ((decode->said | prefill->said) & COORD_USAGE_CACHED))
        move(request, MODEL_CACHED_TOKENS + api_place, family->response_cached_tokens, api,
             (double)told_cached(request));
    request_count_running(request, -1);
}

/* A line's lists of times are put together by hand: printf takes longer than all else that is logged. */
struct text {
    char *at;
    char *end;
};

static void put(struct text *text, const char *piece, size_t size)
{
    size_t left = (size_t)(text->end - text->at);

    size = size < left ? size : left;
    memcpy(text->at, piece, size);
    text->at += size;
}

static void put_text(struct text *text, const char *piece) { put(text, piece, strlen(piece)); }

static void put_number(struct text *text, uint64_t number, int digits)
{
    char room[24];
    size_t used = sizeof room;

    for (; number > 0 || digits > 0; number /= 10, digits--)
        room[--used] = (char)('0' + number % 10);
    put(text, room + used, sizeof room - used);
}

/* In seconds, to the microsecond. */
static void put_time(struct text *text, int64_t ns)
{
    uint64_t us = ns > 0 ? (uint64_t)ns / 1000 : 0;

    put_number(text, us / 1000000, 1);
    put(text, ".", 1);
    put_number(text, us % 1000000, 6);
}

/* "render=0.004000 prefill=0.120000 decode=2.100000" */
static coord_slice times_of_steps(const struct coord_request *request, char *room, size_t size)
{
    struct text text = {room, room + size};

    for (size_t i = 0; i < request->steps_ran_count; i++) {
        const struct step_record *record = &request->steps_ran[i];

        put(&text, " ", i > 0);
        put_text(&text, record->step->id);
        put(&text, "=", 1);
        put_time(&text, record->ended_ns - record->began_ns);
    }
    return (coord_slice){room, (size_t)(text.at - room)};
}

/* "prefill:200=0.119000/0.120000": status, time to the head, to the end */
static coord_slice times_of_legs(const struct coord_request *request, char *room, size_t size)
{
    struct text text = {room, room + size};

    for (const struct leg_record *leg = request->legs; leg; leg = leg->next) {
        put(&text, " ", leg != request->legs);
        put_text(&text, leg->name);
        put(&text, ":", 1);
        put_number(&text, leg->status > 0 ? (uint64_t)leg->status : 0, 1);
        put(&text, "=", 1);
        put_time(&text, leg->head_ns - leg->began_ns);
        put(&text, "/", 1);
        put_time(&text, leg->ended_ns - leg->began_ns);
    }
    return (coord_slice){room, (size_t)(text.at - room)};
}

static const char *outcome_of(const struct coord_request *request)
{
    if (request->cancelled == CANCEL_CLIENT_SLOW)
        return "client_slow";
    if (request->cancelled == CANCEL_STOPPING)
        return "stopped";
    if (request->answer_aborted) /* the exchange then ended as if the client had gone */
        return "broken";
    if (request->cancelled == CANCEL_CLIENT_GONE)
        return "client_gone";
    return request->complete ? "complete" : "cut";
}

static void write_line(const struct coord_request *request)
{
    char steps[TIMES_SIZE], legs[TIMES_SIZE];
    const char *path = PATHS[path_taken(request)];
    enum error_class class = error_of(request);
    coord_field fields[MAX_FIELDS];
    size_t count = 0;

    if (!coord_log_enabled(COORD_LOG_INFO))
        return;
    fields[count++] = (coord_field)LOG_TEXT_FIELD("api", coord_slice_of(request->api->name));
    fields[count++] = (coord_field)LOG_TEXT_FIELD("model", request->model);
    fields[count++] = (coord_field)LOG_BOOL_FIELD("stream", request->stream);
    fields[count++] = (coord_field)LOG_INT_FIELD("status", request->answer_status);
    fields[count++] = (coord_field)LOG_TEXT_FIELD("outcome", coord_slice_of(outcome_of(request)));
    if (path)
        fields[count++] = (coord_field)LOG_TEXT_FIELD("path", coord_slice_of(path));
    fields[count++] = (coord_field)LOG_SECONDS_FIELD("seconds", request->ended_ns - request->began_ns);
    if (request->first_byte_ns)
        fields[count++] = (coord_field)LOG_SECONDS_FIELD("first_byte", request->first_byte_ns - request->began_ns);
    if (request->parsed_ns)
        fields[count++] = (coord_field)LOG_SECONDS_FIELD("parse", request->parsed_ns - request->began_ns);
    fields[count++] = (coord_field)LOG_TEXT_FIELD("steps", times_of_steps(request, steps, sizeof steps));
    fields[count++] = (coord_field)LOG_TEXT_FIELD("legs", times_of_legs(request, legs, sizeof legs));
    if (request->has_token_ids)
        fields[count++] = (coord_field)LOG_INT_FIELD("prompt_tokens", request->token_count);
    fields[count++] = (coord_field)LOG_INT_FIELD("bytes_in", request->bytes_in);
    fields[count++] = (coord_field)LOG_INT_FIELD("bytes_out", request->bytes_out);
    fields[count++] = (coord_field)LOG_TEXT_FIELD("client", request->peer);
    if (class != ERROR_NONE)
        fields[count++] = (coord_field)LOG_TEXT_FIELD("error_code", coord_slice_of(error_class_name(class)));
    if (request->failure.class != ERROR_NONE)
        fields[count++] = (coord_field)LOG_TEXT_FIELD("error", request->failure.message);
    if (request->failure.cause)
        fields[count++] = (coord_field)LOG_TEXT_FIELD("cause", coord_slice_of(request->failure.cause));
    if (request->trace.valid)
        fields[count++] = (coord_field)LOG_TEXT_FIELD("trace_id", coord_slice_of(request->trace.trace_id));
    log_known(request, COORD_LOG_INFO, "request", fields, count);
}

static void put_count(coord_field *fields, size_t *count, const char *name, const coord_usage *usage, uint32_t what,
                      uint64_t value)
{
    if (usage->said & what)
        fields[(*count)++] = (coord_field)LOG_INT_FIELD(name, value);
}

/* The usage record: one line a request that whoever bills or plans can read by itself. */
static void write_usage(const struct coord_request *request)
{
    const struct settings *settings = request->generation->settings;
    const struct header *tenant =
        settings->log_tenant_header.size > 0 ? headers_find(&request->headers, settings->log_tenant_header) : NULL;
    const coord_usage *prefill = &request->prefill_usage, *decode = &request->decode_usage;
    char legs[TIMES_SIZE];
    const char *path = PATHS[path_taken(request)];
    coord_field fields[MAX_FIELDS];
    size_t count = 0;

    if (!settings->log_usage)
        return;
    fields[count++] = (coord_field)LOG_TEXT_FIELD("model", request->model);
    fields[count++] = (coord_field)LOG_TEXT_FIELD("api", coord_slice_of(request->api->name));
    if (tenant)
        fields[count++] = (coord_field)LOG_TEXT_FIELD("tenant", tenant->value);
    if (request->has_token_ids)
        fields[count++] = (coord_field)LOG_INT_FIELD("render_prompt_tokens", request->token_count);
    put_count(fields, &count, "prefill_prompt_tokens", prefill, COORD_USAGE_PROMPT, prefill->prompt);
    put_count(fields, &count, "decode_prompt_tokens", decode, COORD_USAGE_PROMPT, decode->prompt);
    put_count(fields, &count, "prefill_cached_tokens", prefill, COORD_USAGE_CACHED, prefill->cached);
    put_count(fields, &count, "decode_cached_tokens", decode, COORD_USAGE_CACHED, decode->cached);
    put_count(fields, &count, "output_tokens", decode, COORD_USAGE_OUTPUT, decode->output);
    fields[count++] = (coord_field)LOG_TEXT_FIELD("path", coord_slice_of(path ? path : "none"));
    fields[count++] = (coord_field)LOG_TEXT_FIELD("legs", times_of_legs(request, legs, sizeof legs));
    fields[count++] = (coord_field)LOG_INT_FIELD("status", request->answer_status);
    fields[count++] = (coord_field)LOG_TEXT_FIELD("outcome", coord_slice_of(outcome_of(request)));
    fields[count++] = (coord_field)LOG_SECONDS_FIELD("seconds", request->ended_ns - request->began_ns);
    log_known(request, COORD_LOG_INFO, "usage", fields, count);
}

void executor_report(struct coord_request *request)
{
    write_usage(request);
    move_metrics(request);
    write_line(request);
}
