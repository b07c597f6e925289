/* Unit test of the log: what a line looks like, that no value can break it, and where it goes when nobody reads. */
#include "json_check.h"
#include "telemetry/families.h"
#include "telemetry/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static char seen[64 * 1024];

static void keep(void *context, coord_slice line)
{
    (void)context;
    assert_true(line.size < sizeof seen);
    memcpy(seen, line.data, line.size);
    seen[line.size] = '\0';
}

static coord_slice id_of(const struct coord_request *request) { return coord_slice_of((const char *)request); }

static int listen_to_lines(void **state)
{
    (void)state;
    log_set_sink(keep, NULL);
    log_set_request_id(id_of);
    log_configure(COORD_LOG_INFO, LOG_TEXT);
    *seen = '\0';
    return 0;
}

static int stop_listening(void **state)
{
    (void)state;
    log_set_sink(NULL, NULL);
    return 0;
}

static const struct coord_request *request(const char *id) { return (const struct coord_request *)(const void *)id; }

/* The line behind its timestamp. */
static const char *body(void) { return seen + strlen("2026-11-29T19:15:00.123Z "); }

static void a_text_line_reads_well(void **state)
{
    const coord_field fields[] = {
        LOG_TEXT_FIELD("model", coord_slice_of("llama-3.1")),
        LOG_TEXT_FIELD("path", coord_slice_of("/v1/x y")),
        LOG_TEXT_FIELD("empty", coord_slice_of("")),
        LOG_INT_FIELD("status", 200),
        LOG_INT_FIELD("least", INT64_MIN),
        LOG_BOOL_FIELD("stream", true),
        LOG_SECONDS_FIELD("took", 1250000000),
        LOG_SECONDS_FIELD("wait", 1499),
        LOG_SECONDS_FIELD("none", 0),
        LOG_SECONDS_FIELD("less", -2000500600),
    };
    int year, month, day, hour, minute, second, ms;

    (void)state;
    coord_log(request("r-1"), COORD_LOG_INFO, "request", fields, sizeof fields / sizeof *fields);
    assert_string_equal(body(), "INFO  request model=llama-3.1 path=\"/v1/x y\" empty=\"\" status=200 "
                                "least=-9223372036854775808 stream=true took=1.25 wait=0.000001 none=0 "
                                "less=-2.000501 request=r-1\n");
    assert_int_equal(sscanf(seen, "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ ", &year, &month, &day, &hour, &minute, &second, &ms),
                     7);
    assert_true(year >= 2024 && month >= 1 && month <= 12 && second <= 60);
}

static void a_json_line_reads_well(void **state)
{
    const coord_field fields[] = {LOG_TEXT_FIELD("model", coord_slice_of("a\"b")), LOG_INT_FIELD("status", -7),
                                  LOG_BOOL_FIELD("stream", false), LOG_SECONDS_FIELD("took", 500000000),
                                  LOG_TEXT_FIELD("msg", coord_slice_of("not the line's own"))};

    (void)state;
    log_configure(COORD_LOG_INFO, LOG_JSON);
    coord_log(request("r-1"), COORD_LOG_WARNING, "request", fields, sizeof fields / sizeof *fields);
    assert_memory_equal(seen, "{\"ts\":\"20", 9);
    assert_string_equal(
        strstr(seen, ",\"level\""),
        ",\"level\":\"warn\",\"msg\":\"request\",\"request\":\"r-1\",\"model\":\"a\\\"b\",\"status\":-7,"
        "\"stream\":false,\"took\":0.5,\"msg_\":\"not the line's own\"}\n");
    assert_true(json_is_valid(seen, strlen(seen)));
}

static void known_names_give_the_same_lines(void **state)
{
    const coord_field fields[] = {LOG_TEXT_FIELD("model", coord_slice_of("a b")), LOG_INT_FIELD("status", -7),
                                  LOG_BOOL_FIELD("stream", false), LOG_SECONDS_FIELD("first_byte", 500000000)};
    char line[1024];

    (void)state;
    for (int format = LOG_TEXT; format <= LOG_JSON; format++) {
        log_configure(COORD_LOG_INFO, (enum log_format)format);
        coord_log(request("r-1"), COORD_LOG_INFO, "request", fields, 4);
        snprintf(line, sizeof line, "%s", strstr(seen, "request"));
        *seen = '\0';
        log_known(request("r-1"), COORD_LOG_INFO, "request", fields, 4);
        assert_string_equal(strstr(seen, "request"), line);
    }
    *seen = '\0';
    log_known(NULL, COORD_LOG_DEBUG, "hidden", fields, 4);
    assert_string_equal(seen, "");
}

static void lines_show_up_to_the_level(void **state)
{
    (void)state;
    log_configure(COORD_LOG_WARNING, LOG_TEXT);
    coord_log(NULL, COORD_LOG_INFO, "hidden", NULL, 0);
    coord_logf(NULL, COORD_LOG_TRACE, "hidden");
    assert_string_equal(seen, "");
    assert_false(coord_log_enabled(COORD_LOG_INFO));
    coord_log(NULL, COORD_LOG_ERROR, "shown", NULL, 0);
    assert_string_equal(body(), "ERROR shown\n");
    coord_logf(NULL, COORD_LOG_WARNING, "%s %d", "shown", 7);
    assert_string_equal(body(), "WARN  shown 7\n");
}

static void credentials_are_not_shown(void **state)
{
    const coord_field fields[] = {LOG_TEXT_FIELD("Authorization", coord_slice_of("Bearer abc")),
                                  LOG_INT_FIELD("x_api_key", 42), LOG_TEXT_FIELD("cookies", coord_slice_of("2"))};

    (void)state;
    coord_log(NULL, COORD_LOG_INFO, "m", fields, 3);
    assert_string_equal(body(), "INFO  m Authorization=[REDACTED] x_api_key=[REDACTED] cookies=2\n");
    log_configure(COORD_LOG_INFO, LOG_JSON);
    coord_log(NULL, COORD_LOG_INFO, "m", fields, 3);
    assert_non_null(strstr(seen, "\"Authorization\":\"[REDACTED]\",\"x_api_key\":\"[REDACTED]\",\"cookies\":\"2\"}"));
}

static void a_text_value_cannot_end_its_line_or_steer_the_terminal(void **state)
{
    static const struct {
        const char *name;
        coord_slice value;
        const char *want;
    } rows[] = {
        {"line feed", COORD_SLICE("a\nERROR b"), "\"a\\nERROR b\""},
        {"escape sequence", COORD_SLICE("\x1b[2Jx"), "\"\\u001b[2Jx\""},
        {"C1 escape", COORD_SLICE("\xC2\x9B"), "\"\\u009b\""},
        {"line separator, right-to-left override", COORD_SLICE("\xE2\x80\xA8\xE2\x80\xAE"), "\"\\u2028\\u202e\""},
        {"delete and NUL", COORD_SLICE("\x7F\0"), "\"\\u007f\\u0000\""},
        {"quote and backslash", COORD_SLICE("a\"\\"), "\"a\\\"\\\\\""},
        {"equals sign", COORD_SLICE("a=b"), "\"a=b\""},
        {"text of other scripts", COORD_SLICE("\xC3\xA9\xF0\x9F\x98\x80"), "\"\xC3\xA9\xF0\x9F\x98\x80\""},
        {"bytes that are no text", COORD_SLICE("a\xFF\xC3"), "\"a\\xff\\xc3\""},
    };

    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        const coord_field field = LOG_TEXT_FIELD("v", rows[r].value);
        char want[128];

        print_message("  %s\n", rows[r].name);
        snprintf(want, sizeof want, "INFO  m v=%s\n", rows[r].want);
        coord_log(NULL, COORD_LOG_INFO, "m", &field, 1);
        assert_string_equal(body(), want);
    }
    coord_logf(request("id\n\"x"), COORD_LOG_INFO, "a \"quoted\"\r\n\x1b\\");
    assert_string_equal(body(), "INFO  a \"quoted\"\\r\\n\\u001b\\ request=\"id\\n\\\"x\"\n");
}

static void a_byte_that_is_not_plain_is_seen_at_every_place(void **state)
{
    static const struct {
        char byte;
        const char *text, *json;
    } rows[] = {{' ', " ", " "},
                {'=', "=", "="},
                {'"', "\\\"", "\\\""},
                {'\\', "\\\\", "\\\\"},
                {'\n', "\\n", "\\n"},
                {'\x1f', "\\u001f", "\\u001f"},
                {'\x7F', "\\u007f", "\\u007f"},
                {'\xFF', "\\xff", "\\ufffd"},
                {'\x80', "\\x80", "\\ufffd"}};

    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (int size = 1; size <= 25; size++)
            for (int at = 0; at < size; at++) {
                char value[32], want[64];
                coord_field field = LOG_TEXT_FIELD("v", ((coord_slice){value, (size_t)size}));

                memset(value, 'a', sizeof value);
                value[at] = rows[r].byte;
                snprintf(want, sizeof want, " v=\"%.*s%s%.*s\"\n", at, value, rows[r].text, size - at - 1,
                         value + at + 1);
                log_configure(COORD_LOG_INFO, LOG_TEXT);
                coord_log(NULL, COORD_LOG_INFO, "m", &field, 1);
                assert_string_equal(body() + strlen("INFO  m"), want);
                snprintf(want, sizeof want, "\"v\":\"%.*s%s%.*s\"}\n", at, value, rows[r].json, size - at - 1,
                         value + at + 1);
                log_configure(COORD_LOG_INFO, LOG_JSON);
                coord_log(NULL, COORD_LOG_INFO, "m", &field, 1);
                assert_string_equal(strstr(seen, "\"v\":"), want);
            }
}

/* Values of any bytes, names and sentences of any bytes, up to more than a line takes. */
static void lines_are_valid_whatever_the_bytes_are(void **state)
{
    static char bytes[40000];
    static const size_t sizes[] = {0, 1, 7, 100, 5000, 15800, 16200, 16340, 16384, 40000};

    (void)state;
    srand(7);
    for (int round = 0; round < 3000; round++) {
        enum log_format format = round % 2 ? LOG_JSON : LOG_TEXT;
        size_t size = round % 3 ? (size_t)rand() % 40 : sizes[(size_t)rand() % 10];
        int mask = round % 5 ? 0xFF : 0x7F;
        char name[8], sentence[64];
        coord_field fields[4];

        for (size_t i = 0; i < size; i++)
            bytes[i] = (char)(round % 7 == 0 ? 'a' : rand() & mask);
        for (size_t i = 0; i < sizeof name; i++)
            name[i] = (char)(i + 1 < sizeof name ? rand() % 255 + 1 : 0);
        for (size_t i = 0; i < sizeof sentence; i++)
            sentence[i] = (char)(i + 1 < sizeof sentence ? rand() % 255 + 1 : 0);
        fields[0] = (coord_field)LOG_TEXT_FIELD("a", ((coord_slice){bytes, size}));
        fields[1] = (coord_field)LOG_TEXT_FIELD(name, ((coord_slice){bytes, size / 2}));
        fields[2] = (coord_field)LOG_INT_FIELD("n", rand());
        fields[3] = (coord_field){.name = NULL};
        log_configure(COORD_LOG_INFO, format);
        coord_log(request(name), COORD_LOG_INFO, sentence, fields, 4);

        size = strlen(seen);
        assert_true(size <= 16 * 1024);
        assert_ptr_equal(strchr(seen, '\n'), seen + size - 1);
        assert_true(json_is_text(seen, size));
        assert_null(strchr(seen, '\x1b'));
        assert_true(format == LOG_TEXT || json_is_valid(seen, size));
    }
}

static void a_line_that_is_too_long_is_cut_in_a_value_and_keeps_its_end(void **state)
{
    static char bytes[40000];
    const coord_field fields[] = {LOG_TEXT_FIELD("big", ((coord_slice){bytes, sizeof bytes})), LOG_INT_FIELD("n", 1)};
    static const char end[] = "x...[truncated]\" request=r-1\n";

    (void)state;
    memset(bytes, 'x', sizeof bytes);
    coord_log(request("r-1"), COORD_LOG_INFO, "m", fields, 2);
    assert_string_equal(seen + strlen(seen) - strlen(end), end);
    log_configure(COORD_LOG_INFO, LOG_JSON);
    coord_log(request("r-1"), COORD_LOG_INFO, "m", fields, 2);
    assert_string_equal(seen + strlen(seen) - 18, "x...[truncated]\"}\n");
    assert_true(json_is_valid(seen, strlen(seen)));
}

static void a_formatted_sentence_that_is_too_long_ends_in_a_mark(void **state)
{
    char text[3000];

    (void)state;
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    coord_logf(NULL, COORD_LOG_INFO, "%s", text);
    assert_string_equal(seen + strlen(seen) - 16, "x...[truncated]\n");
}

/* ---- Standard error ---- */

struct pipe_test {
    int saved, read;
};

/* Puts `write` in the place of standard error. */
static struct pipe_test redirect(int read_end, int write_end)
{
    struct pipe_test test = {dup(STDERR_FILENO), read_end};

    assert_true(test.saved >= 0);
    assert_int_equal(dup2(write_end, STDERR_FILENO), STDERR_FILENO);
    close(write_end);
    log_set_sink(NULL, NULL);
    log_configure(COORD_LOG_INFO, LOG_TEXT);
    return test;
}

static void restore(struct pipe_test *test)
{
    log_flush();
    dup2(test->saved, STDERR_FILENO);
    close(test->saved);
    close(test->read);
    log_configure(COORD_LOG_INFO, LOG_TEXT);
}

static void write_numbered(int from, int to)
{
    char padding[200];

    memset(padding, 'p', sizeof padding);
    for (int i = from; i < to; i++) {
        const coord_field fields[] = {LOG_TEXT_FIELD("pad", ((coord_slice){padding, sizeof padding})),
                                      LOG_INT_FIELD("n", i)};

        coord_log(NULL, COORD_LOG_INFO, "m", fields, 2);
    }
}

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Reads whole lines until `count` came; their numbers must rise, by one where `all`. */
static void read_numbered(int fd, int count, bool all)
{
    char *text = malloc(2 * 1024 * 1024), *line, *end;
    size_t size = 0;
    int lines = 0, last = -1;

    assert_non_null(text);
    while (lines < count) {
        ssize_t got;

        assert_int_equal(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 10000), 1);
        got = read(fd, text + size, 65536);
        assert_true(got > 0);
        for (size_t i = size; i < size + (size_t)got; i++)
            lines += text[i] == '\n';
        size += (size_t)got;
        assert_true(size + 65536 <= 2 * 1024 * 1024);
    }
    text[size] = '\0';
    for (line = text; (end = strchr(line, '\n')); line = end + 1) {
        int n = atoi(strstr(line, " n=") + 3);

        assert_memory_equal(line + 4, "-", 1);
        assert_true(strstr(line, " n=") < end && (all ? n == last + 1 : n > last));
        last = n;
    }
    assert_ptr_equal(line, text + size);
    free(text);
}

static void nobody_reading_does_not_hold_the_caller_and_loses_nothing_within_the_backlog(void **state)
{
    enum { LINES = 3000 }; /* some 750 KB: more than a pipe, less than the backlog */
    uint64_t dropped = log_dropped();
    struct pipe_test test;
    int64_t began = now_ms();
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    test = redirect(ends[0], ends[1]);
    write_numbered(0, LINES);
    assert_true(now_ms() - began < 5000);
    assert_int_equal(log_dropped(), dropped);
    read_numbered(test.read, LINES, true);
    log_flush();
    write_numbered(0, 10); /* directly again */
    read_numbered(test.read, 10, true);
    restore(&test);
}

static void lines_beyond_the_backlog_are_dropped_whole_and_counted(void **state)
{
    enum { LINES = 10000 };
    uint64_t before = log_dropped(), dropped;
    struct pipe_test test;
    int ends[2];

    (void)state;
    assert_true(families_declare());
    assert_int_equal(pipe(ends), 0);
    test = redirect(ends[0], ends[1]);
    write_numbered(0, LINES);
    dropped = log_dropped() - before;
    assert_true(dropped > 0 && dropped < LINES);
    assert_true(metric_value("log_lines_dropped_total", NULL) == (double)dropped);
    read_numbered(test.read, LINES - (int)dropped, false);
    restore(&test);
}

static void a_socket_is_written_without_blocking_too(void **state)
{
    enum { LINES = 2500 };
    struct pipe_test test;
    int ends[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    test = redirect(ends[0], ends[1]);
    write_numbered(0, LINES);
    read_numbered(test.read, LINES, true);
    restore(&test);
}

static void a_file_is_written_directly(void **state)
{
    char name[] = "/tmp/test_log.XXXXXX";
    char text[8192];
    struct pipe_test test;
    int fd = mkstemp(name);
    ssize_t size;

    (void)state;
    assert_true(fd >= 0);
    test = redirect(open(name, O_RDONLY | O_CLOEXEC), fd);
    unlink(name);
    write_numbered(0, 10);
    size = read(test.read, text, sizeof text - 1);
    restore(&test);
    assert_true(size > 2000);
    text[size] = '\0';
    assert_non_null(strstr(text, " n=9\n"));
}

enum { THREADS = 4, EACH = 300 };

static void *write_some(void *unused)
{
    (void)unused;
    for (int i = 0; i < EACH; i++)
        coord_logf(NULL, COORD_LOG_INFO, "from a thread, a sentence of some length, number %d n=0", i);
    return NULL;
}

static void lines_of_several_threads_do_not_mix(void **state)
{
    pthread_t threads[THREADS];
    struct pipe_test test;
    int ends[2], lines = 0;
    FILE *file;
    char *line = NULL;
    size_t room = 0;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    test = redirect(ends[0], ends[1]);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_some, NULL), 0);
    file = fdopen(dup(test.read), "r");
    assert_non_null(file);
    while (lines < THREADS * EACH && getline(&line, &room, file) > 0) {
        assert_memory_equal(line + 24, " INFO  from a thread,", 21);
        assert_non_null(strstr(line, " n=0\n"));
        lines++;
    }
    assert_int_equal(lines, THREADS * EACH);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    free(line);
    fclose(file);
    restore(&test);
}

#define LINE_TEST(name) cmocka_unit_test_setup_teardown(name, listen_to_lines, stop_listening)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LINE_TEST(a_text_line_reads_well),
        LINE_TEST(a_json_line_reads_well),
        LINE_TEST(known_names_give_the_same_lines),
        LINE_TEST(lines_show_up_to_the_level),
        LINE_TEST(credentials_are_not_shown),
        LINE_TEST(a_text_value_cannot_end_its_line_or_steer_the_terminal),
        LINE_TEST(a_byte_that_is_not_plain_is_seen_at_every_place),
        LINE_TEST(lines_are_valid_whatever_the_bytes_are),
        LINE_TEST(a_line_that_is_too_long_is_cut_in_a_value_and_keeps_its_end),
        LINE_TEST(a_formatted_sentence_that_is_too_long_ends_in_a_mark),
        cmocka_unit_test(nobody_reading_does_not_hold_the_caller_and_loses_nothing_within_the_backlog),
        cmocka_unit_test(lines_beyond_the_backlog_are_dropped_whole_and_counted),
        cmocka_unit_test(a_socket_is_written_without_blocking_too),
        cmocka_unit_test(a_file_is_written_directly),
        cmocka_unit_test(lines_of_several_threads_do_not_mix),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
