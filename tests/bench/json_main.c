/*
 * bench-json: how fast a body is validated and indexed, without a network, on two bodies: a chat of 220 KB with ordinary words, and
 * 10 MB with a million token ids. Beside it stands memchr for a byte that is not there, which reads every byte once.
 *
 * Usage: bench-json [FILE]       (appends the table to FILE as Markdown)
 */
#include "bodies.h"
#include "json/text.h"
#include "report.h"
#include "samples.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 25, MEGABYTE = 1000000, IDS = 1000000, ID_DIGITS = 9 };

static void validate(coord_slice body)
{
    struct json_error error;
    struct buffer memory = {.data = (char *)(uintptr_t)body.data, .size = body.size};
    struct json_text *text = json_text_adopt_new(&memory, &error);

    if (!text)
        abort();
    text->adopted = (struct buffer){0}; /* stays ours */
    json_text_unref(text);
}

static void read_once(coord_slice body)
{
    if (memchr(body.data, '\x01', body.size))
        abort();
}

/* us a MB. */
static double measure(coord_slice body, void work(coord_slice))
{
    int times = 1 + (int)(20 * MEGABYTE / body.size);
    double began = thread_cpu_us();

    for (int i = 0; i < times; i++)
        work(body);
    return (thread_cpu_us() - began) * MEGABYTE / (double)body.size / times;
}

static struct finding compare(const char *title, coord_slice body, double bound)
{
    struct samples with = {0}, once = {0};
    struct finding finding = {.title = title,
                              .what = "validating and indexing, a MB",
                              .unit = "us",
                              .curl = -1,
                              .base_name = "memchr",
                              .bound = bound,
                              .bound_on = VALUE};

    for (int round = 0; round < ROUNDS; round++) {
        samples_add(&with, measure(body, validate));
        samples_add(&once, measure(body, read_once));
    }
    finding.coordinator = samples_median(&with);
    finding.base = samples_median(&once);
    samples_release(&with);
    samples_release(&once);
    return finding;
}

static coord_slice make_ids(void)
{
    size_t room = (size_t)IDS * (ID_DIGITS + 1) + 64;
    char *body = malloc(room), *at = body;
    unsigned pick = 7;

    if (!body)
        abort();
    at += sprintf(at, "{\"model\":\"m\",\"token_ids\":[");
    for (int i = 0; i < IDS; i++)
        at += sprintf(at, "%s%09u", i ? "," : "", 100000000U + (pick = pick * 1103515245U + 12345U) % 900000000U);
    at += sprintf(at, "]}");
    return (coord_slice){body, (size_t)(at - body)};
}

int main(int argc, char **argv)
{
    static const struct shape chat_shape = {.prompt = 220000};
    struct bodies chat;
    coord_slice ids = make_ids();
    struct finding findings[2];
    bool written;

    bodies_make(&chat, &chat_shape);
    findings[0] = compare("a chat of 220 KB", (coord_slice){chat.client.bytes, chat.client.length}, 1000);
    findings[1] = compare("a million token ids, 10 MB", ids, 1429);
    report_print(findings, 2);
    written = argc < 2 || report_append(findings, 2, argv[1]);
    bodies_release(&chat);
    free((char *)(uintptr_t)ids.data);
    return written ? 0 : 1;
}
