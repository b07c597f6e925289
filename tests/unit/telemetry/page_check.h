/*
 * A small reader of /metrics pages for tests: fails the running test unless every line is well-formed, HELP and TYPE stand
 * before a family's samples, families are whole, no series comes twice, buckets rise and +Inf equals the count.
 */
#ifndef TEST_PAGE_CHECK_H
#define TEST_PAGE_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct page_check {
    char family[128], type[16], seen[8192];
    char labels[512]; /* of the histogram series in progress, without le */
    double bucket, bound;
    size_t samples;
};

static void page_fail(const char *line, const char *why)
{
    print_error("%s: %.*s\n", why, (int)strcspn(line, "\n"), line);
    fail();
}

static bool page_name_byte(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') || byte == '_';
}

static const char *page_skip_name(const char *at, const char *line)
{
    const char *begin = at;

    while (page_name_byte(*at))
        at++;
    if (at == begin || (*begin >= '0' && *begin <= '9'))
        page_fail(line, "no name");
    return at;
}

/* Copies the labels but `le`; returns what follows the braces. */
static const char *page_labels(const char *at, const char *line, char *labels, char *le)
{
    *labels = *le = '\0';
    if (*at != '{')
        return at;
    do {
        const char *begin = ++at, *value;

        at = page_skip_name(at, line);
        if (at[0] != '=' || at[1] != '"')
            page_fail(line, "no label value");
        for (value = at += 2; *at != '"'; at++) {
            if (*at == '\n' || *at == '\0')
                page_fail(line, "a label value does not end");
            if (*at == '\\' && !strchr("\\\"n", *++at))
                page_fail(line, "bad escape");
        }
        at++;
        if (strncmp(begin, "le=", 3) == 0)
            sprintf(le, "%.*s", (int)(at - 1 - value), value);
        else
            strncat(labels, begin, (size_t)(at - begin));
    } while (*at == ',');
    if (*at != '}')
        page_fail(line, "labels do not end");
    return at + 1;
}

static void page_bucket(struct page_check *check, const char *line, const char *labels, const char *le, double value)
{
    double bound = strtod(le, NULL);

    if (strcmp(check->labels, labels) != 0 || isinf(check->bound)) {
        strcpy(check->labels, labels);
        check->bound = -INFINITY;
        check->bucket = 0;
    }
    if (!(bound > check->bound) || value < check->bucket)
        page_fail(line, "buckets do not rise");
    check->bound = bound;
    check->bucket = value;
}

static void page_sample(struct page_check *check, const char *line, bool openmetrics)
{
    const char *end = page_skip_name(line, line), *suffix = line + strlen(check->family);
    char labels[512], le[64], *after;
    const char *at = page_labels(end, line, labels, le);
    double value = strtod(at + 1, &after);

    if (*at != ' ' || after == at + 1 || *after != '\n')
        page_fail(line, "no value");
    if (strncmp(line, check->family, strlen(check->family)) != 0)
        page_fail(line, "a sample outside its family");
    check->samples++;
    if (strcmp(check->type, "histogram") == 0) {
        if (strncmp(suffix, "_bucket", 7) == 0)
            page_bucket(check, line, labels, le, value);
        else if (strncmp(suffix, "_count", 6) == 0 && (!isinf(check->bound) || value != check->bucket))
            page_fail(line, "count differs from +Inf");
        else if (strncmp(suffix, "_sum", 4) != 0 && strncmp(suffix, "_count", 6) != 0)
            page_fail(line, "not of a histogram");
    } else if ((size_t)(end - suffix) != (openmetrics && strcmp(check->type, "counter") == 0 ? strlen("_total") : 0)) {
        page_fail(line, "a name with a wrong suffix");
    }
}

static void page_head_line(struct page_check *check, const char *line)
{
    char name[128], rest[512], mark[160];

    if (sscanf(line, "# HELP %127s %511[^\n]", name, rest) == 2) {
        snprintf(mark, sizeof mark, " %s ", name);
        if (strstr(check->seen, mark))
            page_fail(line, "a family comes twice");
        strcat(check->seen, mark);
        strcpy(check->family, name);
        *check->type = *check->labels = '\0';
        check->bound = INFINITY;
    } else if (sscanf(line, "# TYPE %127s %15s", name, rest) == 2 && strcmp(name, check->family) == 0 &&
               !*check->type) {
        strcpy(check->type, rest);
    } else {
        page_fail(line, "a comment that is neither HELP nor its TYPE");
    }
}

/* Returns the number of samples. */
static size_t page_check(const char *page, bool openmetrics)
{
    static struct page_check check;
    const char *line = page;

    check = (struct page_check){0};
    for (; *line && strcmp(line, "# EOF\n") != 0; line = strchr(line, '\n') + 1) {
        if (!strchr(line, '\n'))
            page_fail(line, "the last line does not end");
        if (*line == '#')
            page_head_line(&check, line);
        else if (!*check.type)
            page_fail(line, "a sample without TYPE");
        else
            page_sample(&check, line, openmetrics);
    }
    assert_int_equal(*line != '\0', openmetrics);
    return check.samples;
}

#endif
