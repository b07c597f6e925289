/* Unit test of stream_watch.c: which events of a 200 stream are an error, however the bytes come (decision 54). */
#include "pipeline/stream_watch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#define OK "data: {\"choices\":[{\"delta\":{\"content\":\"an error, \\\"error\\\":{}\"}}]}\n\n"

static const struct {
    const char *name, *stream;
    int32_t status;
} rows[] = {
    {"none", OK "data: [DONE]\n\n", 0},
    {"chat, with a code", OK "data: {\"error\":{\"message\":\"no\",\"code\":400}}\n\ndata: [DONE]\n\n", 400},
    {"chat, a 503", OK "data: {\"error\":{\"code\":503}}\n\n", 503},
    {"a code that is a word", "data: {\"error\":{\"code\":\"internal\"}}\n\n", 500},
    {"a code that is no status", "data: {\"error\":{\"code\":7}}\n\n", 500},
    {"a code that is a success", "data: {\"error\":{\"code\":200}}\n\n", 500},
    {"no code", "data: {\"error\":{}}\n\n", 500},
    {"a text", "data: {\"error\":\"out of memory\"}\n\n", 500},
    {"null is none", "data: {\"error\":null,\"choices\":[]}\n\n", 0},
    {"false is none", "data: {\"error\":false}\n\n", 0},
    {"deeper is none", "data: {\"choices\":[{\"error\":{\"code\":400}}]}\n\n", 0},
    {"not JSON is none", "data: error\n\ndata: {\"error\":{\n\n", 0},
    {"the first counts", "data: {\"error\":{\"code\":429}}\n\ndata: {\"error\":{\"code\":500}}\n\n", 429},
    {"CRLF", "data: {\"choices\":[]}\r\n\r\ndata: {\"error\":{\"code\":400}}\r\n\r\n", 400},
    {"lone CR", "data: {\"choices\":[]}\r\rdata: {\"error\":{\"code\":400}}\r\r", 400},
    {"no blank line at the end", OK "data: {\"error\":{\"code\":400}}", 400},
    {"messages",
     "event: ping\ndata: {\"type\":\"ping\"}\n\nevent: error\ndata: "
     "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n",
     500},
    {"responses, failed",
     "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"error\":null}}\n\nevent: "
     "response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"server_error\"}}}\n\n",
     500},
    {"responses, completed",
     "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"error\":null}}\n\n", 0},
    {"responses, error event", "event: error\ndata: {\"type\":\"error\",\"code\":404,\"message\":\"no\"}\n\n", 404},
};

static struct arena arena;
static struct headers headers;

static void begin(struct stream_watch *watch, int32_t status, const char *type, const char *encoding)
{
    arena_reset(&arena);
    headers_init(&headers, &arena);
    assert_true(headers_add(&headers, coord_slice_of("Content-Type"), coord_slice_of(type)));
    if (encoding)
        assert_true(headers_add(&headers, coord_slice_of("Content-Encoding"), coord_slice_of(encoding)));
    stream_watch_begin(watch, status, &headers, 4096);
}

static void feed(struct stream_watch *watch, const char *data, size_t size)
{
    char *piece = malloc(size + 1);

    memcpy(piece, data, size);
    stream_watch_feed(watch, (coord_slice){piece, size});
    free(piece);
}

static void errors_are_seen_however_the_stream_is_split(void **state)
{
    struct stream_watch watch;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t size = strlen(rows[i].stream);

        print_message("  %s\n", rows[i].name);
        for (size_t cut = 0; cut <= size; cut++) {
            begin(&watch, 200, "text/event-stream; charset=utf-8", NULL);
            feed(&watch, rows[i].stream, cut);
            feed(&watch, rows[i].stream + cut, size - cut);
            stream_watch_end(&watch);
            assert_int_equal(watch.status, rows[i].status);
            stream_watch_release(&watch);
        }
    }
    arena_release(&arena);
}

static void other_answers_are_not_looked_at(void **state)
{
    static const struct {
        int32_t status;
        const char *type, *encoding;
        bool looks;
    } heads[] = {
        {200, "text/event-stream", NULL, true},    {200, "text/event-stream", "identity", true},
        {200, "text/event-stream", "gzip", false}, {200, "application/json", NULL, false},
        {500, "text/event-stream", NULL, false},   {302, "text/event-stream", NULL, false},
    };
    static const char error[] = "data: {\"error\":{\"code\":400}}\n\n";
    struct stream_watch watch;

    (void)state;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        begin(&watch, heads[i].status, heads[i].type, heads[i].encoding);
        feed(&watch, error, sizeof error - 1);
        stream_watch_end(&watch);
        assert_int_equal(watch.status, heads[i].looks ? 400 : 0);
        stream_watch_release(&watch);
    }
    arena_release(&arena);
}

static void past_the_limit_it_looks_no_more(void **state)
{
    static char filler[6000];
    struct stream_watch watch;

    (void)state;
    memset(filler, 'x', sizeof filler);
    begin(&watch, 200, "text/event-stream", NULL);
    feed(&watch, "data: error", 11);
    feed(&watch, filler, sizeof filler);
    feed(&watch, "\n\ndata: {\"error\":{}}\n\n", 22);
    stream_watch_end(&watch);
    assert_int_equal(watch.status, 0);
    assert_null(watch.sse);
    arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_seen_however_the_stream_is_split),
        cmocka_unit_test(other_answers_are_not_looked_at),
        cmocka_unit_test(past_the_limit_it_looks_no_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
