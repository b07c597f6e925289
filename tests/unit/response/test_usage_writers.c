/* Unit test of the writers of usage, through the chain: what the client gets and what was observed, however the bytes come. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>

#include "answer_fixture.h"
#include "response/last_event.h"

#define CHAT "/v1/chat/completions"
#define RESPONSES "/v1/responses"
#define MESSAGES "/v1/messages"
#define EVENTS "text/event-stream; charset=utf-8"
#define JSON "application/json"
enum { NONE = -1 };

static struct fixture fixture;

static int setup(void **state)
{
    (void)state;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fixture_release(&fixture);
    return 0;
}

static void begin_asked(const char *path, const char *type, int64_t cached, bool drops, const char *asked)
{
    fixture_release(&fixture);
    fixture_begin(&fixture, path, FIXTURE_LIMIT);
    fixture_asked(&fixture, asked);
    fixture_field(&fixture, "content-type", type);
    fixture_wrap(&fixture, cached, drops, true);
}

static void begin(const char *path, const char *type, int64_t cached, bool drops)
{
    begin_asked(path, type, cached, drops, "{}");
}

static void head(void) { chain_head(&fixture.request.chain, &fixture.head); }

static void feed(const char *text) { fixture_feed(&fixture, text, strlen(text)); }

static void end(void)
{
    chain_end(&fixture.request.chain);
    assert_int_equal(fixture.ends, 1);
    assert_int_equal(fixture.aborts, 0);
    assert_int_equal(fixture.seen_count, 1);
}

static void assert_got(coord_slice wanted)
{
    coord_slice got = buffer_slice(&fixture.body);
    bool both = got.data && wanted.data;

    if (got.size != wanted.size || (got.size > 0 && (!both || memcmp(got.data, wanted.data, got.size) != 0)))
        fail_msg("got    %.*s\nwanted %.*s", COORD_FMT(got), COORD_FMT(wanted));
}

#define assert_body(text) assert_got((coord_slice)COORD_SLICE(text))

static bool has(const char *name) { return headers_find(&fixture.fields, coord_slice_of(name)) != NULL; }

/* ---- Streams, for every split ---- */

#define PART(n)                                                                                                        \
    "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" n "\"},\"finish_reason\":null}]}"
#define FRAME(p)                                                                                                       \
    "{\"id\":\"c\",\"choices\":[],\"usage\":{\"prompt_tokens\":" p ",\"completion_tokens\":2,\"total_tokens\":33}}"
#define DONE "data: [DONE]"
#define CHOICE(i, reason) "{\"index\":" i ",\"delta\":{\"content\":\"z\"},\"finish_reason\":" reason "}"
#define LAST "data: {\"id\":\"c\",\"choices\":[" CHOICE("0", "\"stop\"") "]}"
#define PRINT "\"system_fingerprint\":\"f-1\""
#define PRINTED_LAST "data: {\"id\":\"c\",\"choices\":[" CHOICE("0", "\"stop\"") "]," PRINT "}"
#define PRINTED_FRAME "{\"id\":\"c\",\"choices\":[],\"usage\":{\"prompt_tokens\":31}," PRINT "}"
#define MARK "\xEF\xBB\xBF"
#define E "\xC3\xA9\xF0\x9F\x98\x80"

static const struct {
    const char *name, *path;
    int64_t cached;
    bool drops;
    coord_slice stream, want; /* want.data NULL: the same */
    uint32_t said;
    uint64_t prompt;
} streams[] = {
    {"observed, LF",
     CHAT,
     NONE,
     false,
     COORD_SLICE(PART(E) "\n\n"
                         "data: " FRAME("31") "\n\n" DONE "\n\n"),
     {0},
     COORD_USAGE_PROMPT,
     31},
    {"observed, CRLF",
     CHAT,
     NONE,
     false,
     COORD_SLICE(PART(E) "\r\n\r\n"
                         "data: " FRAME("31") "\r\n\r\n" DONE "\r\n\r\n"),
     {0},
     COORD_USAGE_PROMPT,
     31},
    {"observed, lone CR",
     CHAT,
     NONE,
     false,
     COORD_SLICE(PART(E) "\r\r"
                         "data: " FRAME("31") "\r\r" DONE "\r\r"),
     {0},
     COORD_USAGE_PROMPT,
     31},
    {"observed, no usage (X6)", CHAT, NONE, false, COORD_SLICE(PART("ok") "\n\n" DONE "\n\n"), {0}, 0, 0},
    {"observed, the word in the text only",
     CHAT,
     NONE,
     false,
     COORD_SLICE(PART("usage \\\"usage\\\":{}") "\n\n" DONE "\n\n"),
     {0},
     0,
     0},
    {"observed, not JSON",
     CHAT,
     NONE,
     false,
     COORD_SLICE("data: usage\n\ndata: {\"usage\":\n\n" DONE "\n\n"),
     {0},
     0,
     0},
    {"dropped, LF (P15)", CHAT, NONE, true,
     COORD_SLICE(PART("ok") "\n\n"
                            "data: " FRAME("31") "\n\n" DONE "\n\n"),
     COORD_SLICE(PART("ok") "\n\n" DONE "\n\n"), COORD_USAGE_PROMPT, 31},
    {"dropped, CRLF (X22)", CHAT, NONE, true,
     COORD_SLICE(PART("ok") "\r\n\r\n"
                            "data: " FRAME("31") "\r\n\r\n" DONE "\r\n\r\n"),
     COORD_SLICE(PART("ok") "\r\n\r\n" DONE "\r\n\r\n"), COORD_USAGE_PROMPT, 31},
    {"dropped, lone CR", CHAT, NONE, true,
     COORD_SLICE(PART("ok") "\r\r"
                            "data: " FRAME("31") "\r\r" DONE "\r\r"),
     COORD_SLICE(PART("ok") "\r\r" DONE "\r\r"), COORD_USAGE_PROMPT, 31},
    {"dropped with the event's other lines", CHAT, NONE, true,
     COORD_SLICE(PART("ok") "\n\nevent: x\nid: 7\n: c\ndata: " FRAME("31") "\nretry: 1\n\n" DONE "\n\n"),
     COORD_SLICE(PART("ok") "\n\n" DONE "\n\n"), COORD_USAGE_PROMPT, 31},
    {"dropped, without a space behind the colon", CHAT, NONE, true, COORD_SLICE("data:" FRAME("31") "\n\n" DONE "\n\n"),
     COORD_SLICE(DONE "\n\n"), COORD_USAGE_PROMPT, 31},
    {"dropped, in several lines", CHAT, NONE, true,
     COORD_SLICE("data: {\"choices\":[],\ndata: \"usage\":\ndata: {\"prompt_tokens\":31}}\n\n" DONE "\n\n"),
     COORD_SLICE(DONE "\n\n"), COORD_USAGE_PROMPT, 31},
    {"dropped, behind a mark", CHAT, NONE, true, COORD_SLICE(MARK "data: " FRAME("31") "\n\n" DONE "\n\n"),
     COORD_SLICE(DONE "\n\n"), COORD_USAGE_PROMPT, 31},
    {"dropped, the last event without a blank line", CHAT, NONE, true,
     COORD_SLICE(PART("ok") "\n\n"
                            "data: " FRAME("31")),
     COORD_SLICE(PART("ok") "\n\n"), COORD_USAGE_PROMPT, 31},
    {"dropped, the last event with one line end", CHAT, NONE, true,
     COORD_SLICE(PART("ok") "\r\n\r\n"
                            "data: " FRAME("31") "\r\n"),
     COORD_SLICE(PART("ok") "\r\n\r\n"), COORD_USAGE_PROMPT, 31},
    {"every frame is dropped, the last counts", CHAT, NONE, true,
     COORD_SLICE("data: " FRAME("30") "\n\n" PART("ok") "\n\ndata: " FRAME("31") "\n\n" DONE "\n\n"),
     COORD_SLICE(PART("ok") "\n\n" DONE "\n\n"), COORD_USAGE_PROMPT, 31},
    {"what stands on the dropped frame goes to the event before it", CHAT, NONE, true,
     COORD_SLICE(PART("ok") "\n\n" LAST "\n\ndata: " PRINTED_FRAME "\n\n" DONE "\n\n"),
     COORD_SLICE(PART("ok") "\n\n" PRINTED_LAST "\n\n" DONE "\n\n"), COORD_USAGE_PROMPT, 31},
    {"the same with CRLF, spaces and other fields", CHAT, NONE, true,
     COORD_SLICE("id: 1\r\n" LAST " \r\n: c\r\n\r\ndata: " PRINTED_FRAME "\r\n\r\n" DONE "\r\n\r\n"),
     COORD_SLICE("id: 1\r\n" PRINTED_LAST " \r\n: c\r\n\r\n" DONE "\r\n\r\n"), COORD_USAGE_PROMPT, 31},
    {"the same on completions, edited too", "/v1/completions", 16, true,
     COORD_SLICE(LAST "\n\ndata: " PRINTED_FRAME "\n\n"), COORD_SLICE(PRINTED_LAST "\n\n"), COORD_USAGE_PROMPT, 31},
    {"a fingerprint that is there already stays as it is", CHAT, NONE, true,
     COORD_SLICE("data: {\"system_fingerprint\":null,\"choices\":[" CHOICE("0", "\"stop\"") "]}\n\ndata: " PRINTED_FRAME
                                                                                            "\n\n"),
     COORD_SLICE("data: {\"system_fingerprint\":null,\"choices\":[" CHOICE("0", "\"stop\"") "]}\n\n"),
     COORD_USAGE_PROMPT, 31},
    {"a frame without one leaves the event alone", CHAT, NONE, true,
     COORD_SLICE(LAST "\n\ndata: " FRAME("31") "\n\n" DONE "\n\n"), COORD_SLICE(LAST "\n\n" DONE "\n\n"),
     COORD_USAGE_PROMPT, 31},
    {"another event between them, too", CHAT, NONE, true,
     COORD_SLICE(LAST "\n\ndata: {}\n\ndata: " PRINTED_FRAME "\n\n"), COORD_SLICE(LAST "\n\ndata: {}\n\n"),
     COORD_USAGE_PROMPT, 31},
    {"what has no data may come between them", CHAT, NONE, true,
     COORD_SLICE(LAST "\n\n: ping\n\nid: 7\n\n\n: ping\n\ndata: " PRINTED_FRAME "\n\n: ping\n\n" DONE "\n\n"),
     COORD_SLICE(PRINTED_LAST "\n\n: ping\n\nid: 7\n\n\n: ping\n\n: ping\n\n" DONE "\n\n"), COORD_USAGE_PROMPT, 31},
    {"and keeps its place where no frame comes",
     CHAT,
     NONE,
     true,
     COORD_SLICE(PART("ok") "\n\n: a\n\n" LAST "\r\n\r\n: b\r\n\r\n: c\r\n\r\n" DONE "\r\n\r\n: d"),
     {0},
     0,
     0},
    {"white space in the event", CHAT, NONE, true,
     COORD_SLICE("data: {\"choices\" : [ {\"finish_reason\" \t : \t \"stop\" } ] }\n\ndata: " PRINTED_FRAME "\n\n"),
     COORD_SLICE("data: {\"choices\" : [ {\"finish_reason\" \t : \t \"stop\" } ] ," PRINT "}\n\n"), COORD_USAGE_PROMPT,
     31},
    {"the word in a text first", CHAT, NONE, true,
     COORD_SLICE("data: {\"x\":[\"finish_reason\"],\"finish_reason\":null,\"choices\":[{\"finish_reason\": "
                 "\"stop\"}]}\n\ndata: " PRINTED_FRAME "\n\n"),
     COORD_SLICE("data: {\"x\":[\"finish_reason\"],\"finish_reason\":null,\"choices\":[{\"finish_reason\": "
                 "\"stop\"}]," PRINT "}\n\n"),
     COORD_USAGE_PROMPT, 31},
    {"no frame, no end: nothing is lost", CHAT, NONE, true, COORD_SLICE(PART("ok") "\n\n" LAST "\n\n"), {0}, 0, 0},
    {"the word in a text ends no choice",
     CHAT,
     NONE,
     true,
     COORD_SLICE(
         "data: [\"finish_reason\",{\"finish_reason\":\"x\"}]\n\ndata: {\"choices\":{\"finish_reason\":\"x\"}}\n\n"),
     {0},
     0,
     0},
    {"kept: choices that are not empty",
     CHAT,
     NONE,
     true,
     COORD_SLICE("data: {\"choices\":[{\"index\":0}],\"usage\":{\"prompt_tokens\":31}}\n\n" DONE "\n\n"),
     {0},
     COORD_USAGE_PROMPT,
     31},
    {"kept: no usage",
     CHAT,
     NONE,
     true,
     COORD_SLICE("data: {\"choices\":[],\"prompt_filter_results\":[\"usage\"]}\n\ndata: "
                 "{\"choices\":[],\"usage\":null}\n\n" DONE "\n\n"),
     {0},
     0,
     0},
    {"kept: no choices",
     CHAT,
     NONE,
     true,
     COORD_SLICE("data: {\"error\":{\"message\":\"usage\"},\"usage\":{\"prompt_tokens\":31}}\n\n"),
     {0},
     COORD_USAGE_PROMPT,
     31},
    {"kept: comments, blank lines, other fields",
     CHAT,
     NONE,
     true,
     COORD_SLICE(": usage\n\n\n\nevent: usage\n\nid: usage\r\n\r\nData: " FRAME("1") "\n\n" DONE "\n\n"),
     {0},
     0,
     0},
    {"kept: a mark in the midst of the stream hides the field",
     CHAT,
     NONE,
     true,
     COORD_SLICE(DONE "\n\n" MARK "data: " FRAME("31") "\n\n"),
     {0},
     0,
     0},
    {"kept: [DONE] with spaces", CHAT, NONE, true, COORD_SLICE(PART("usage") "\n\ndata:[DONE] \n\n"), {0}, 0, 0},
    {"edited, LF", CHAT, 16, false,
     COORD_SLICE(
         "data: "
         "{\"choices\":[],\"usage\":{\"prompt_tokens\":31,\"prompt_tokens_details\":{\"cached_tokens\":30}}}\n\n" DONE
         "\n\n"),
     COORD_SLICE(
         "data: "
         "{\"choices\":[],\"usage\":{\"prompt_tokens\":31,\"prompt_tokens_details\":{\"cached_tokens\":16}}}\n\n" DONE
         "\n\n"),
     COORD_USAGE_PROMPT | COORD_USAGE_CACHED, 31},
    {"edited, CRLF, other fields and a comment around", CHAT, 16, false,
     COORD_SLICE("id: 1\r\ndata:{\"usage\":{\"prompt_tokens\":31}} \r\n: c\r\n\r\n"),
     COORD_SLICE("id: 1\r\ndata:{\"usage\":{\"prompt_tokens\":31,\"prompt_tokens_details\":{\"cached_tokens\":16}}} "
                 "\r\n: c\r\n\r\n"),
     COORD_USAGE_PROMPT, 31},
    {"edited, several blocks (B06)", CHAT, 1, false,
     COORD_SLICE("data: {\"choices\":[{}],\"usage\":{\"prompt_tokens\":31}}\n\ndata: "
                 "{\"choices\":[{}],\"usage\":null}\n\ndata: {\"usage\":{\"prompt_tokens\":31}}"),
     COORD_SLICE("data: "
                 "{\"choices\":[{}],\"usage\":{\"prompt_tokens\":31,\"prompt_tokens_details\":{\"cached_tokens\":1}}}"
                 "\n\ndata: {\"choices\":[{}],\"usage\":null}\n\ndata: "
                 "{\"usage\":{\"prompt_tokens\":31,\"prompt_tokens_details\":{\"cached_tokens\":1}}}"),
     COORD_USAGE_PROMPT, 31},
    {"edited and dropped: dropping wins (P23)", CHAT, 16, true,
     COORD_SLICE("data: {\"choices\":[{}],\"usage\":{\"prompt_tokens\":31}}\n\ndata: " FRAME("31") "\n\n" DONE "\n\n"),
     COORD_SLICE(
         "data: "
         "{\"choices\":[{}],\"usage\":{\"prompt_tokens\":31,\"prompt_tokens_details\":{\"cached_tokens\":16}}}\n\n" DONE
         "\n\n"),
     COORD_USAGE_PROMPT, 31},
    {"edited, Responses", RESPONSES, 5, false,
     COORD_SLICE("event: response.created\ndata: {\"response\":{\"usage\":null}}\n\nevent: response.completed\ndata: "
                 "{\"response\":{\"usage\":{\"input_tokens\":31}}}\n\n"),
     COORD_SLICE("event: response.created\ndata: {\"response\":{\"usage\":null}}\n\nevent: response.completed\ndata: "
                 "{\"response\":{\"usage\":{\"input_tokens\":31,\"input_tokens_details\":{\"cached_tokens\":5}}}}\n\n"),
     COORD_USAGE_PROMPT, 31},
    {"edited, Messages", MESSAGES, 4, false,
     COORD_SLICE(
         "event: message_start\ndata: {\"message\":{\"usage\":{\"input_tokens\":0}}}\n\nevent: message_delta\ndata: "
         "{\"usage\":{\"input_tokens\":7,\"cache_read_input_tokens\":24}}\n\nevent: message_stop\ndata: {}\n\n"),
     COORD_SLICE(
         "event: message_start\ndata: "
         "{\"message\":{\"usage\":{\"input_tokens\":0,\"cache_read_input_tokens\":4}}}\n\nevent: message_delta\ndata: "
         "{\"usage\":{\"input_tokens\":27,\"cache_read_input_tokens\":4}}\n\nevent: message_stop\ndata: {}\n\n"),
     COORD_USAGE_PROMPT | COORD_USAGE_CACHED, 31},
};

static void run_stream(size_t s, size_t first, size_t second)
{
    coord_slice stream = streams[s].stream;
    size_t cuts[] = {0, first, second, stream.size};

    begin(streams[s].path, EVENTS, streams[s].cached, streams[s].drops);
    head();
    for (size_t i = 0; i < 3; i++)
        fixture_feed(&fixture, stream.data + cuts[i], cuts[i + 1] - cuts[i]);
    end();
    assert_got(streams[s].want.data ? streams[s].want : stream);
    assert_int_equal(fixture.seen.said & (COORD_USAGE_PROMPT | COORD_USAGE_CACHED), streams[s].said);
    if (streams[s].said)
        assert_int_equal(fixture.seen.prompt, streams[s].prompt);
}

/* X21 */
static void a_stream_comes_out_the_same_however_it_is_split(void **state)
{
    (void)state;
    for (size_t s = 0; s < sizeof streams / sizeof *streams; s++) {
        size_t size = streams[s].stream.size;

        print_message("  %s\n", streams[s].name);
        for (size_t first = 0; first <= size; first++) {
            run_stream(s, first, size);
            run_stream(s, first, first < size ? first + 1 : size);
            run_stream(s, first / 2, first);
        }
    }
}

static void a_stream_of_single_bytes_comes_out_the_same(void **state)
{
    (void)state;
    for (size_t s = 0; s < sizeof streams / sizeof *streams; s++) {
        coord_slice stream = streams[s].stream;

        begin(streams[s].path, EVENTS, streams[s].cached, streams[s].drops);
        head();
        for (size_t i = 0; i < stream.size; i++)
            fixture_feed(&fixture, stream.data + i, 1);
        end();
        assert_got(streams[s].want.data ? streams[s].want : stream);
    }
}

/* ---- Timing ---- */

/* Only what the next event may still change waits for it. */
static void the_event_that_ends_the_last_choice_waits_for_the_next(void **state)
{
    static const struct {
        const char *name, *path, *asked, *first, *last;
    } rows[] = {
        {"one choice", CHAT, "{}", PART("a") "\n\n", LAST "\n\n"},
        {"two choices", CHAT, "{\"n\":2}", "data: {\"choices\":[" CHOICE("1", "\"stop\"") "]}\n\n", LAST "\n\n"},
        {"two choices in one event", CHAT, "{\"n\":2}", PART("a") "\n\n",
         "data: {\"choices\":[" CHOICE("1", "\"stop\"") "," CHOICE("0", "\"length\"") "]}\n\n"},
        {"two prompts of two", "/v1/completions", "{\"prompt\":[\"a\",\"b\"],\"n\":2}",
         "data: {\"choices\":[" CHOICE("1", "\"stop\"") "," CHOICE("2", "\"stop\"") "," CHOICE("3",
                                                                                               "\"stop\"") "]}\n\n",
         LAST "\n\n"},
        {"one prompt of ids", "/v1/completions", "{\"prompt\":[1,2]}", PART("a") "\n\n", LAST "\n\n"},
        {"two prompts of ids", "/v1/completions", "{\"prompt\":[[1],[2]]}", LAST "\n\n", LAST "\n\n"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        print_message("  %s\n", rows[i].name);
        begin_asked(rows[i].path, EVENTS, NONE, true, rows[i].asked);
        head();
        feed(rows[i].first);
        assert_int_equal(fixture.body.size, strlen(rows[i].first));
        feed(rows[i].last);
        assert_int_equal(fixture.body.size, strlen(rows[i].first));
        feed(": ping\n\n");
        assert_int_equal(fixture.body.size, strlen(rows[i].first));
        feed("data: {}\n\n");
        assert_int_equal(fixture.body.size,
                         strlen(rows[i].first) + strlen(rows[i].last) + strlen(": ping\n\ndata: {}\n\n"));
        end();
    }
}

/* Where nobody's frame is taken out, and on the other APIs. */
static void other_last_events_do_not_wait(void **state)
{
    static const struct {
        const char *path, *asked;
        int64_t cached;
        bool drops;
    } rows[] = {
        {CHAT, "{}", 3, false},
        {CHAT, "{\"n\":0}", NONE, true},
        {"/inference/v1/generate", "{}", NONE, true},
        {RESPONSES, "{}", NONE, true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        begin_asked(rows[i].path, EVENTS, rows[i].cached, rows[i].drops, rows[i].asked);
        head();
        feed(LAST "\n\n");
        assert_body(LAST "\n\n");
        end();
    }
}

static void the_last_event_is_not_lost_with_its_worker(void **state)
{
    (void)state;
    begin(CHAT, EVENTS, NONE, true);
    head();
    feed(PART("ok") "\n\n" LAST "\n\ndata: {\"ch");
    assert_body(PART("ok") "\n\n");
    chain_abort(&fixture.request.chain);
    assert_body(PART("ok") "\n\n" LAST "\n\n");
    assert_int_equal(fixture.aborts, 1);
}

/* It is whole, though a LF might still come. */
static void an_event_that_waits_for_half_a_line_end_is_not_lost_with_its_worker(void **state)
{
    static const struct {
        const char *name;
        coord_slice sent, want;
    } rows[] = {
        {"lone CRs", COORD_SLICE(PART("a") "\r\r" DONE "\r\r"), COORD_SLICE(PART("a") "\r\r" DONE "\r\r")},
        {"CR LF CR", COORD_SLICE(PART("a") "\r\n\r"), COORD_SLICE(PART("a") "\r\n\r")},
        {"the last one", COORD_SLICE(LAST "\r\r"), COORD_SLICE(LAST "\r\r")},
        {"the frame", COORD_SLICE(PART("a") "\r\rdata: " FRAME("31") "\r\r"), COORD_SLICE(PART("a") "\r\r")},
        {"no whole one", COORD_SLICE(PART("a") "\r\r" DONE "\r"), COORD_SLICE(PART("a") "\r\r")},
    };

    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        print_message("  %s\n", rows[r].name);
        begin(CHAT, EVENTS, NONE, true);
        head();
        fixture_feed(&fixture, rows[r].sent.data, rows[r].sent.size);
        chain_abort(&fixture.request.chain);
        assert_got(rows[r].want);
    }
}

static void release_fixture(struct task *task)
{
    (void)task;
    fixture_release(&fixture);
}

static void feed_last(struct task *task)
{
    (void)task;
    feed(LAST "\n\n");
}

static void the_last_event_waits_for_a_short_time_only(void **state)
{
    struct reactor *reactor = reactor_new(0);
    struct task task = {.run = feed_last};

    (void)state;
    assert_non_null(reactor);
    begin(CHAT, EVENTS, NONE, true);
    head();
    reactor_defer(reactor, &task);
    reactor_turn(reactor, 0);
    assert_int_equal(fixture.body.size, 0);
    reactor_advance(reactor, LAST_EVENT_WAIT_NS / 2); /* what the test itself takes comes on top */
    reactor_turn(reactor, 0);
    assert_int_equal(fixture.body.size, 0);
    reactor_advance(reactor, LAST_EVENT_WAIT_NS / 2);
    reactor_turn(reactor, 0);
    assert_body(LAST "\n\n");
    feed("data: " PRINTED_FRAME "\n\n" DONE "\n\n");
    end();
    assert_body(LAST "\n\n" DONE "\n\n");
    begin(CHAT, EVENTS, NONE, true); /* freed while it waits */
    head();
    reactor_defer(reactor, &task);
    reactor_turn(reactor, 0);
    reactor_defer(reactor, &(struct task){.run = release_fixture});
    reactor_turn(reactor, 0);
    reactor_free(reactor);
}

/* P37, B14 */
static void the_observer_holds_nothing_back(void **state)
{
    static const char *const pieces[] = {
        "da", "ta: {\"usage\":{\"prompt_tokens\":3", "1}}", "\n", "\n", "data: [DO", "NE]\n\n", ": ping\n\n"};
    size_t sent = 0;

    (void)state;
    begin(CHAT, EVENTS, NONE, false);
    head();
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        feed(pieces[i]);
        sent += strlen(pieces[i]);
        assert_int_equal(fixture.pieces, i + 1);
        assert_int_equal(fixture.body.size, sent);
    }
    end();
    assert_int_equal(fixture.seen.prompt, 31);
}

static void the_editor_holds_only_what_is_not_whole(void **state)
{
    (void)state;
    begin(CHAT, EVENTS, 1, true);
    head();
    feed(PART("a") "\n\n");
    assert_body(PART("a") "\n\n");
    feed(": ping\n\n" PART("b") "\n\nda");
    assert_body(PART("a") "\n\n: ping\n\n" PART("b") "\n\n");
    feed("ta: [DONE]\r\n\r\n");
    assert_body(PART("a") "\n\n: ping\n\n" PART("b") "\n\ndata: [DONE]\r\n\r\n");
    end();
}

static void an_answer_that_breaks_off_is_told_without_its_half_event(void **state)
{
    (void)state;
    begin(CHAT, EVENTS, NONE, false);
    head();
    feed("data: " FRAME("30") "\n\ndata: " FRAME("31") "\n");
    chain_abort(&fixture.request.chain);
    assert_int_equal(fixture.seen_count, 1);
    assert_int_equal(fixture.seen.prompt, 30);
    assert_int_equal(fixture.aborts, 1);
    begin(CHAT, EVENTS, NONE, false);
    head();
    feed("data: " FRAME("30") "\r\rdata: " FRAME("31") "\r\r"); /* whole, though a LF might still come */
    chain_abort(&fixture.request.chain);
    assert_int_equal(fixture.seen.prompt, 31);
    begin(CHAT, JSON, NONE, false);
    head();
    feed("{\"usage\":{\"prompt_tokens\":31}}");
    chain_abort(&fixture.request.chain);
    assert_int_equal(fixture.seen_count, 1);
    assert_int_equal(fixture.seen.said, 0);
}

/* Also when there never was a head; and once only. */
static void who_observes_is_told_once_in_any_case(void **state)
{
    (void)state;
    begin(CHAT, EVENTS, NONE, false);
    chain_release(&fixture.request.chain);
    assert_int_equal(fixture.seen_count, 1);
    assert_int_equal(fixture.seen.said, 0);
    begin(CHAT, EVENTS, NONE, false);
    head();
    feed("data: " FRAME("30") "\n\n");
    end();
    chain_abort(&fixture.request.chain);
    chain_release(&fixture.request.chain);
    assert_int_equal(fixture.seen_count, 1);
}

/* ---- Whole answers ---- */

static const char ANSWER[] = "{\"id\":\"\xC3\xA9\",\"choices\":[{\"text\":\"usage\"}],\"usage\":{\"prompt_tokens\":31,"
                             "\"prompt_tokens_details\":{\"cached_tokens\":30}},\"x\":1.0}\n";
static const char EDITED[] = "{\"id\":\"\xC3\xA9\",\"choices\":[{\"text\":\"usage\"}],\"usage\":{\"prompt_tokens\":31,"
                             "\"prompt_tokens_details\":{\"cached_tokens\":4}},\"x\":1.0}\n";

/* B02 */
static void a_whole_answer_is_edited_however_it_is_split(void **state)
{
    (void)state;
    for (size_t cut = 0; cut < sizeof ANSWER; cut++) {
        begin(CHAT, JSON, 4, false);
        head();
        fixture_feed(&fixture, ANSWER, cut);
        assert_int_equal(fixture.body.size, 0);
        fixture_feed(&fixture, ANSWER + cut, sizeof ANSWER - 1 - cut);
        end();
        assert_got((coord_slice){EDITED, sizeof EDITED - 1});
        assert_int_equal(fixture.seen.cached, 30); /* the worker's own number */
    }
}

static void a_whole_answer_is_observed_however_it_is_split(void **state)
{
    static const struct {
        const char *name, *rest;
        bool breaks_off;
        uint64_t prompt;
    } rows[] = {
        {"whole", "", false, 31},
        {"blanks behind it", " \n", false, 31},
        {"breaks off when it is whole", "", true, 0},
        {"breaks off in the blanks", " ", true, 0},
        {"a bracket too many", "}", false, 0},
        {"two texts", " {}", false, 0},
    };

    (void)state;
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        print_message("  %s\n", rows[row].name);
        for (size_t cut = 0; cut < sizeof ANSWER; cut++) {
            begin(CHAT, JSON, NONE, false);
            head();
            fixture_feed(&fixture, ANSWER, cut);
            fixture_feed(&fixture, ANSWER + cut, sizeof ANSWER - 1 - cut);
            feed(rows[row].rest);
            if (rows[row].breaks_off)
                chain_abort(&fixture.request.chain);
            else
                end();
            assert_int_equal(fixture.seen_count, 1);
            assert_int_equal(fixture.seen.prompt, rows[row].prompt);
            assert_int_equal(fixture.seen.said == 0, rows[row].prompt == 0);
        }
    }
}

static void what_is_not_whole_or_not_json_goes_out_as_it_came(void **state)
{
    static const char *const texts[] = {
        "{\"usage\":{\"prompt_tokens\":31",   "", "  ", "usage", "{\"usage\":null}", "[]", "\"usage\"",
        "{\"usage\":{\"prompt_tokens\":31}}}"};

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        begin(CHAT, JSON, 4, true);
        head();
        feed(texts[i]);
        end();
        assert_got(coord_slice_of(texts[i]));
        assert_int_equal(fixture.seen.said, 0);
    }
}

/* ---- Heads ---- */

static void begin_with_digests(const char *type, int64_t cached, bool drops)
{
    static const char *const names[] = {"etag", "content-md5", "digest", "content-digest", "repr-digest", "x-other"};

    begin(CHAT, type, cached, drops);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        fixture_field(&fixture, names[i], "\"v\"");
    fixture.head.length = 77;
}

/* P36, P48, B02, B15. A whole answer that is edited is held until its new length is known. */
static void length_and_digests_go_only_where_something_may_change(void **state)
{
    static const struct {
        const char *name, *type;
        int64_t cached;
        bool drops, changes;
        int64_t length;
    } rows[] = {
        {"observed", JSON, NONE, false, false, 77},
        {"observed stream", EVENTS, NONE, false, false, 77},
        {"a frame to drop in a whole answer: there is none", JSON, NONE, true, false, 77},
        {"a frame to drop", EVENTS, NONE, true, true, -1},
        {"a count to write", JSON, 3, false, true, 2},
        {"a count to write in a stream", EVENTS, 3, false, true, -1},
        {"neither JSON nor events", "text/plain", 3, true, false, 77},
        {"a type that begins alike", "application/jsonl", 3, true, false, 77},
        {"no type", NULL, 3, true, false, 77},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        print_message("  %s\n", rows[i].name);
        begin_with_digests(rows[i].type ? rows[i].type : JSON, rows[i].cached, rows[i].drops);
        if (!rows[i].type)
            headers_remove(&fixture.head.headers, coord_slice_of("content-type"));
        head();
        feed("{}");
        end();
        assert_body("{}");
        assert_int_equal(fixture.length, rows[i].length);
        assert_int_equal(has("etag"), !rows[i].changes);
        assert_int_equal(has("content-md5"), !rows[i].changes);
        assert_int_equal(has("digest"), !rows[i].changes);
        assert_int_equal(has("content-digest"), !rows[i].changes);
        assert_int_equal(has("repr-digest"), !rows[i].changes);
        assert_true(has("x-other"));
    }
}

static void answers_that_hold_no_usage_pass_untouched(void **state)
{
    static const struct {
        const char *name;
        int32_t status;
        const char *encoding;
    } rows[] = {
        {"created", 201, "identity"}, /* looked at */
        {"no content", 204, NULL},    {"not modified", 304, NULL}, {"bad request (X7)", 400, NULL},
        {"precondition", 412, NULL},  {"server error", 500, NULL}, {"compressed (X16, B11)", 200, "gzip"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool looks = i == 0;

        print_message("  %s\n", rows[i].name);
        begin(CHAT, JSON, 4, true);
        if (rows[i].encoding)
            fixture_field(&fixture, "content-encoding", rows[i].encoding);
        fixture.head.status = rows[i].status;
        fixture.head.length = sizeof ANSWER - 1;
        head();
        feed(ANSWER);
        chain_end(&fixture.request.chain);
        assert_int_equal(fixture.status, rows[i].status);
        assert_int_equal(fixture.length, looks ? (int64_t)sizeof EDITED - 1 : (int64_t)sizeof ANSWER - 1);
        assert_got(looks ? (coord_slice){EDITED, sizeof EDITED - 1} : (coord_slice){ANSWER, sizeof ANSWER - 1});
        assert_int_equal(fixture.seen.said != 0, looks);
        chain_release(&fixture.request.chain);
        assert_int_equal(fixture.seen_count, 1);
    }
}

/* ---- Limits ---- */

static void begin_small(const char *type, int64_t cached, bool drops)
{
    fixture_release(&fixture);
    fixture_begin(&fixture, CHAT, 4096);
    fixture_asked(&fixture, "{}");
    fixture_field(&fixture, "content-type", type);
    fixture_wrap(&fixture, cached, drops, true);
    head();
}

static void past_the_limit_everything_passes_as_it_came(void **state)
{
    struct buffer sent = {0};

    (void)state;
    for (size_t piece = 100; piece < 6000; piece = piece * 3 + 7) {
        buffer_clear(&sent, SIZE_MAX);
        assert_true(buffer_append_text(&sent, "data: {\"usage\":{\"prompt_tokens\":9},\"x\":\""));
        while (sent.size < 5000)
            assert_true(buffer_append_text(&sent, "0123456789"));
        assert_true(buffer_append_text(&sent, "\"}\n\ndata: " FRAME("31") "\n\n"));
        begin_small(EVENTS, 4, true);
        for (size_t at = 0; at < sent.size; at += piece)
            fixture_feed(&fixture, sent.data + at, piece < sent.size - at ? piece : sent.size - at);
        end();
        assert_got(buffer_slice(&sent));
        assert_int_equal(fixture.seen.said, 0);
        begin_small(JSON, 4, true);
        for (size_t at = 6; at < sent.size; at += piece)
            fixture_feed(&fixture, sent.data + at, piece < sent.size - at ? piece : sent.size - at);
        end();
        assert_got((coord_slice){sent.data + 6, sent.size - 6});
        assert_int_equal(fixture.seen.said, 0);
    }
    buffer_release(&sent);
}

static void past_the_limit_nothing_is_held_any_more(void **state)
{
    static char filler[6000];

    (void)state;
    memset(filler, 'x', sizeof filler);
    begin_small(JSON, 4, false);
    fixture_feed(&fixture, filler, 3000);
    assert_int_equal(fixture.body.size, 0);
    fixture_feed(&fixture, filler, 3000);
    assert_int_equal(fixture.body.size, 6000);
    fixture_feed(&fixture, filler, 10);
    assert_int_equal(fixture.body.size, 6010);
    end();
}

/* An engine that says nothing but comments; without a reactor no time passes. */
static void what_waits_behind_the_last_event_is_bounded(void **state)
{
    struct buffer sent = {0};

    (void)state;
    begin_small(EVENTS, NONE, true);
    for (const char *next = LAST "\n\n"; sent.size <= 4096; next = ": ping\n\n") {
        assert_int_equal(fixture.body.size, 0);
        assert_true(buffer_append_text(&sent, next));
        feed(next);
    }
    assert_got(buffer_slice(&sent));
    end();
    buffer_release(&sent);
}

/* X23 */
static void an_event_of_two_megabytes_is_observed_and_edited(void **state)
{
    struct buffer sent = {0};
    size_t big;

    (void)state;
    assert_true(buffer_append_text(&sent, "event: response.completed\ndata: {\"response\":{\"output\":\""));
    while (sent.size < 2 << 20)
        assert_true(buffer_append_text(&sent, "usage of a long and boring text, "));
    assert_true(buffer_append_text(
        &sent, "\",\"usage\":{\"input_tokens\":31,\"input_tokens_details\":{\"cached_tokens\":30}}}}\n\n"));
    big = sent.size;
    for (int cached = NONE; cached < 10; cached += 6) {
        begin(RESPONSES, EVENTS, cached, false);
        head();
        for (size_t at = 0; at < big; at += 16384) {
            fixture_feed(&fixture, sent.data + at, big - at < 16384 ? big - at : 16384);
            if (cached == NONE)
                assert_int_equal(fixture.body.size, at + 16384 < big ? at + 16384 : big);
        }
        end();
        assert_int_equal(fixture.seen.prompt, 31);
        assert_int_equal(fixture.body.size, cached == NONE ? big : big - 1);
    }
    buffer_release(&sent);
}

static void nothing_to_do_wraps_nothing(void **state)
{
    (void)state;
    fixture_release(&fixture);
    fixture_begin(&fixture, CHAT, FIXTURE_LIMIT);
    fixture_wrap(&fixture, NONE, false, false);
    assert_null(fixture.request.chain.writers);
    assert_false(chain_reads_body(&fixture.request.chain));
    head();
    assert_int_equal(coord_usage_observe(&fixture.request, fixture_seen, &fixture), COORD_STATE);
    assert_int_equal(coord_usage_edit(&fixture.request, &(uint64_t){1}, false), COORD_STATE);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_stream_comes_out_the_same_however_it_is_split),
        TEST(a_stream_of_single_bytes_comes_out_the_same),
        TEST(the_event_that_ends_the_last_choice_waits_for_the_next),
        TEST(other_last_events_do_not_wait),
        TEST(the_last_event_is_not_lost_with_its_worker),
        TEST(an_event_that_waits_for_half_a_line_end_is_not_lost_with_its_worker),
        TEST(the_last_event_waits_for_a_short_time_only),
        TEST(the_observer_holds_nothing_back),
        TEST(the_editor_holds_only_what_is_not_whole),
        TEST(an_answer_that_breaks_off_is_told_without_its_half_event),
        TEST(who_observes_is_told_once_in_any_case),
        TEST(a_whole_answer_is_edited_however_it_is_split),
        TEST(a_whole_answer_is_observed_however_it_is_split),
        TEST(what_is_not_whole_or_not_json_goes_out_as_it_came),
        TEST(length_and_digests_go_only_where_something_may_change),
        TEST(answers_that_hold_no_usage_pass_untouched),
        TEST(past_the_limit_everything_passes_as_it_came),
        TEST(past_the_limit_nothing_is_held_any_more),
        TEST(what_waits_behind_the_last_event_is_bounded),
        TEST(an_event_of_two_megabytes_is_observed_and_edited),
        TEST(nothing_to_do_wraps_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
