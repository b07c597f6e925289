/*
 * bench-load: the load generator alone, for looking at one program by hand. Prints one line of JSON.
 *
 * Usage: bench-load --port N [--path P] [--phase P] [--body FILE] [--connections N] [--requests N] [--warm-up N]
 *                   [--length N] [--pid PID] [--seconds N]
 *        bench-load --port N --streams N --rate N --seconds N [--pid PID]       against bench-worker, or what is before it
 */
#include "account.h"
#include "load.h"
#include "streams.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct arguments {
    const char *path, *phase, *body;
    unsigned long port, connections, requests, warm_up, pid, seconds, streams, rate;
    long length;
};

static const char usage[] =
    "usage: bench-load --port N [--path PATH] [--phase NAME] [--body FILE] [--connections N] [--requests N]\n"
    "                  [--warm-up N] [--length N] [--pid PID] [--seconds N]\n"
    "       bench-load --port N --streams N --rate EVENTS-A-SECOND [--seconds N] [--pid PID]\n";

static char *read_file(const char *path, size_t *length)
{
    FILE *file = fopen(path, "r");
    char *bytes = NULL;
    size_t size = 0;
    FILE *text = open_memstream(&bytes, &size);

    if (!file || !text) {
        perror(path);
        exit(2);
    }
    for (int byte; (byte = fgetc(file)) != EOF;)
        fputc(byte, text);
    fclose(text);
    fclose(file);
    *length = size;
    return bytes;
}

static int load(const struct arguments *arguments)
{
    static const char small[] = "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]}";
    size_t body_length = sizeof small - 1;
    char *body = arguments->body ? read_file(arguments->body, &body_length) : strdup(small);
    struct load_plan plan = {.port = (uint16_t)arguments->port,
                             .connections = arguments->connections,
                             .warm_up = arguments->warm_up,
                             .requests = arguments->requests,
                             .answer_length = arguments->length,
                             .target = (pid_t)arguments->pid,
                             .deadline_ns = now_ns() + (int64_t)arguments->seconds * 1000000000};
    struct load_result result;
    char *request = load_request_new(arguments->path, arguments->phase, body, body_length, &plan.request_length);
    bool whole;

    plan.request = request;
    whole = load_run(&plan, &result);
    printf("{\"requests\":%llu,\"errors\":%llu,\"wall_s\":%.3f,\"cpu_us\":%.2f,\"p50_us\":%.0f,\"p99_us\":%.0f,\"first_"
           "error\":\"%s\"}\n",
           (unsigned long long)result.requests, (unsigned long long)result.errors, (double)result.wall_ns / 1e9,
           result.cpu_ns < 0 || !result.requests ? -1.0 : (double)result.cpu_ns / 1e3 / (double)result.requests,
           samples_percentile(&result.latency, 50), samples_percentile(&result.latency, 99), result.first_error);
    samples_release(&result.latency);
    free(request);
    free(body);
    return whole && result.errors == 0 ? 0 : 1;
}

static char *stream_request(const struct arguments *arguments, unsigned long events, size_t *length)
{
    char body[512];
    int size = snprintf(
        body, sizeof body,
        "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}],\"max_tokens\":%lu,\"stream\":true}",
        events);

    return load_request_new(arguments->path, arguments->phase, body, (size_t)size, length);
}

static int streams(const struct arguments *arguments)
{
    int64_t second = 1000000000, window_ns = (int64_t)arguments->seconds * second;
    struct streams_plan plan = {.port = (uint16_t)arguments->port,
                                .streams = arguments->streams,
                                .short_events = 3,
                                .long_events = arguments->rate * (arguments->seconds + 3),
                                .ramp_ns = second,
                                .window_after_ns = second / 2,
                                .window_ns = window_ns,
                                .target = (pid_t)arguments->pid,
                                .deadline_ns = now_ns() + window_ns + 60 * second};
    int64_t idle = arguments->pid ? account_memory((pid_t)arguments->pid) : -1;
    struct streams_result result;
    char *few = stream_request(arguments, plan.short_events, &plan.short_length);
    char *many = stream_request(arguments, plan.long_events, &plan.long_length);
    bool whole;

    plan.short_request = few;
    plan.long_request = many;
    whole = streams_run(&plan, &result);
    printf("{\"streams\":%llu,\"events\":%llu,\"cpu_us\":%.2f,\"memory_a_stream\":%.0f,\"p50_us\":%.0f,\"p99_us\":%.0f,"
           "\"first_error\":\"%s\"}\n",
           (unsigned long long)result.complete, (unsigned long long)result.events,
           result.cpu_ns < 0 || !result.events ? -1.0 : (double)result.cpu_ns / 1e3 / (double)result.events,
           result.memory < 0 || idle < 0 ? -1.0 : (double)(result.memory - idle) / (double)plan.streams,
           samples_percentile(&result.delay, 50), samples_percentile(&result.delay, 99), result.first_error);
    samples_release(&result.delay);
    free(few);
    free(many);
    return whole ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct arguments arguments = {.path = "/v1/chat/completions",
                                  .connections = 32,
                                  .requests = 10000,
                                  .warm_up = 1000,
                                  .seconds = 10,
                                  .length = -1,
                                  .rate = 20};
    const struct {
        const char *name;
        unsigned long *number;
        const char **text;
    } rows[] = {{"port", &arguments.port, NULL},         {"connections", &arguments.connections, NULL},
                {"requests", &arguments.requests, NULL}, {"warm-up", &arguments.warm_up, NULL},
                {"pid", &arguments.pid, NULL},           {"seconds", &arguments.seconds, NULL},
                {"streams", &arguments.streams, NULL},   {"rate", &arguments.rate, NULL},
                {"path", NULL, &arguments.path},         {"phase", NULL, &arguments.phase},
                {"body", NULL, &arguments.body},         {"length", NULL, NULL}};
    enum { ROWS = sizeof rows / sizeof *rows };
    struct option options[ROWS + 1] = {0};

    for (int row = 0; row < ROWS; row++)
        options[row] = (struct option){rows[row].name, required_argument, NULL, 1 + row};
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (option < 1 || option > ROWS) {
            fputs(usage, stderr);
            return 2;
        }
        if (rows[option - 1].number)
            *rows[option - 1].number = strtoul(optarg, NULL, 10);
        else if (rows[option - 1].text)
            *rows[option - 1].text = optarg;
        else
            arguments.length = strtol(optarg, NULL, 10);
    }
    if (arguments.port == 0 || arguments.port > 65535 || arguments.connections == 0 || arguments.rate == 0) {
        fputs(usage, stderr);
        return 2;
    }
    return arguments.streams ? streams(&arguments) : load(&arguments);
}
