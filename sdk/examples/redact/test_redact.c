/* The writer against the test kit: every API, every split, and bytes that stay as they were. */
#undef NDEBUG
#include "words.h"

#include <coordinator/testkit.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

extern const coord_plugin_descriptor coord_plugin; /* of redact.c */

static const char *const event_stream[] = {"Content-Type", "text/event-stream", NULL};

#define TAKES_OUT(more)                                                                                                \
    "pipeline: {steps: [{type: redact, params: {words: [secret, secretary, \"gr\xc3\xbc\xc3\x9f\", \"a\\\"b\"], "      \
    "replacement: \"<\\\"x\\\">\"" more "}}, {type: decode}]}"

static coord_kit *start_with(const char *yaml)
{
    coord_kit *kit =
        coord_kit_start(&(coord_kit_options){.size = sizeof(coord_kit_options),
                                             .yaml = yaml,
                                             .plugins = (const coord_plugin_descriptor *const[]){&coord_plugin, NULL}});

    if (!kit)
        fprintf(stderr, "%s", coord_kit_problem());
    assert(kit);
    return kit;
}

static coord_kit *start(void) { return start_with(TAKES_OUT("")); }

static const coord_kit_message *ask(coord_kit *kit, const char *target)
{
    return coord_kit_post(kit, target, "{\"model\":\"m\",\"max_tokens\":9,\"stream\":true}");
}

static void assert_body(const coord_kit_message *answer, const char *wanted)
{
    if (answer && answer->whole && coord_slice_is(answer->body, wanted))
        return;
    fprintf(stderr, "wanted: %s\ngot: %.*s\n", wanted, COORD_FMT(answer ? answer->body : (coord_slice){0}));
    abort();
}

/* ---- Streams of each API, before and after ---- */

#define CHAT(index, text)                                                                                              \
    "data: {\"id\": 1,\"choices\":[{\"index\":" index ",\"delta\":{\"content\":\"" text "\"}}]}\n\n"
#define CHAT_STOP(index, text)                                                                                         \
    "data: {\"choices\":[{\"index\":" index ",\"delta\":{\"content\":\"" text "\"},\"finish_reason\":\"stop\"}]}\n\n"
#define CHAT_USAGE "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":12,\"completion_tokens\":9}}\n\ndata: [DONE]\n\n"
#define TEXT(text)                                                                                                     \
    "event: response.output_text.delta\r\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"" text            \
    "\",\"output_index\":0,\"content_index\":0}\r\n\r\n"
#define TEXT_ENDS(text)                                                                                                \
    "event: response.output_text.done\r\ndata: "                                                                       \
    "{\"type\":\"response.output_text.done\",\"output_index\":0,\"content_index\":0,\"text\":\"" text "\"}\r\n\r\n"    \
    "event: response.content_part.done\r\ndata: "                                                                      \
    "{\"type\":\"response.content_part.done\",\"part\":{\"type\":\"output_text\",\"text\":\"" text "\"}}\r\n\r\n"      \
    "event: response.output_item.done\r\ndata: "                                                                       \
    "{\"type\":\"response.output_item.done\",\"item\":{\"content\":[{},{\"text\":\"" text "\"}]}}\r\n\r\n"             \
    "event: response.completed\r\ndata: {\"type\":\"response.completed\",\"response\":{\"output\":[{\"content\":["     \
    "{\"text\":\"" text "\"}]}],\"usage\":{\"input_tokens\":3,\"output_tokens\":4}}}\r\n\r\n"
#define BLOCK(index, text)                                                                                             \
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":" index                             \
    ",\"delta\":{\"type\":\"text_delta\",\"text\":\"" text "\"}}\n\n"
#define BLOCK_STOPS(index) "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":" index "}\n\n"
#define MESSAGE_ENDS                                                                                                   \
    "event: message_delta\ndata: "                                                                                     \
    "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":7}}\n\n"        \
    "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"

static const struct stream {
    const char *target, *given, *wanted;
} streams[] = {
    /* Across events, twice in one, in capitals, with escapes before and behind, and between other choices' events. */
    {"/v1/chat/completions",
     ": hi\n\n" CHAT("0", "\\u00fc my sec") CHAT("1", "fine \\/ sec") CHAT("0", "") CHAT("0", "RE") CHAT("1", "tor")
         CHAT("0", "t\\n \\ud83d\\ude00 secret.Secret!") CHAT_STOP("1", "") CHAT_STOP("0", "!") CHAT_USAGE,
     ": hi\n\n" CHAT("0", "\\u00fc my <\\\"x\\\">") CHAT("1", "fine \\/ sec") CHAT("0", "") CHAT("0", "")
         CHAT("1", "tor") CHAT("0", "\\n \\ud83d\\ude00 <\\\"x\\\">.<\\\"x\\\">!") CHAT_STOP("1", "")
             CHAT_STOP("0", "!") CHAT_USAGE},
    /* The longer one of two that begin alike; one that ends with its text; letters spelled in two ways. */
    {"/v1/chat/completions",
     CHAT("0", "secreta") CHAT("0", "ry, secreta") CHAT("0", "l, gr\\u00fc") CHAT("0", "\xc3\x9f; a\\u0022b a\\\"")
         CHAT_STOP("0", "b secret") CHAT_USAGE,
     CHAT("0", "<\\\"x\\\">") CHAT("0", ", <\\\"x\\\">a") CHAT("0", "l, <\\\"x\\\">")
         CHAT("0", "; <\\\"x\\\"> <\\\"x\\\">") CHAT_STOP("0", " <\\\"x\\\">") CHAT_USAGE},
    /* What only begins like a word stays, at the end too; numbers, white space and spellings stay. */
    {"/v1/chat/completions",
     CHAT("0", "a sesec")
         CHAT("0", "t\\u0073ecre") "data: { \"choices\" : [ {\"delta\":{},\"n\":1.50e1} ] }\n\n" CHAT_STOP("0", "")
             CHAT_USAGE,
     CHAT("0", "a sesec")
         CHAT("0", "t\\u0073ecre") "data: { \"choices\" : [ {\"delta\":{},\"n\":1.50e1} ] }\n\n" CHAT_STOP("0", "")
             CHAT_USAGE},
    {"/v1/completions",
     "data: {\"choices\":[{\"index\":0,\"text\":\"se\"}]}\n\ndata: {\"choices\":[{\"index\":0,\"text\":\"cret\"}]}\n\n",
     "data: {\"choices\":[{\"index\":0,\"text\":\"<\\\"x\\\">\"}]}\n\ndata: "
     "{\"choices\":[{\"index\":0,\"text\":\"\"}]}\n\n"},
    /* The texts that repeat what was said at the end say the same. */
    {"/v1/responses", TEXT("The sec") TEXT("ret\\t") TEXT("is s") TEXT_ENDS("The secret\\tis s"),
     TEXT("The <\\\"x\\\">") TEXT("\\t") TEXT("is s") TEXT_ENDS("The <\\\"x\\\">\\tis s")},
    /* A block that ends does not go on in the next one. */
    {"/v1/messages",
     BLOCK("0", "a sec") BLOCK("0", "ret or s") BLOCK_STOPS("0") BLOCK("1", "ecret") BLOCK_STOPS("1") MESSAGE_ENDS,
     BLOCK("0", "a <\\\"x\\\">") BLOCK("0", " or s") BLOCK_STOPS("0") BLOCK("1", "ecret") BLOCK_STOPS("1")
         MESSAGE_ENDS},
    /* No blank line at the end. */
    {"/v1/chat/completions", CHAT("0", "sec") "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"ret\"}}]}\n",
     CHAT("0", "<\\\"x\\\">") "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"}}]}\n"},
};
enum { STREAMS = sizeof streams / sizeof *streams };

static void words_are_taken_out_of_every_apis_stream_and_every_other_byte_stays(void)
{
    coord_kit *kit = start();

    for (size_t i = 0; i < STREAMS; i++) {
        coord_kit_on(kit,
                     &(coord_kit_rule){.times = 1, .headers = event_stream, .body = coord_slice_of(streams[i].given)});
        assert_body(ask(kit, streams[i].target), streams[i].wanted);
    }
    assert(coord_kit_stop(kit));
}

static void every_split_of_a_stream_gives_the_same_bytes(void)
{
    static coord_kit_piece pieces[256][2];
    coord_kit *kit = start();

    for (size_t i = 0; i < STREAMS; i++) {
        const char *given = streams[i].given;
        size_t size = strlen(given);

        for (size_t at = 1; size < 256 && at < size; at++) { /* the short ones; byte by byte all of them come below */
            pieces[at][0] = (coord_kit_piece){.bytes = {given, at}};
            pieces[at][1] = (coord_kit_piece){.bytes = {given + at, size - at}, .delay_ns = COORD_KIT_MS};
            coord_kit_on(
                kit, &(coord_kit_rule){.times = 1, .headers = event_stream, .pieces = pieces[at], .piece_count = 2});
            assert_body(ask(kit, streams[i].target), streams[i].wanted);
        }
    }
    assert(coord_kit_stop(kit));
}

static void bytes_that_come_one_by_one_give_the_same(void)
{
    static coord_kit_piece pieces[4096];
    coord_kit *kit = start();

    for (size_t i = 0; i < STREAMS; i++) {
        size_t size = strlen(streams[i].given);

        assert(size < 4096);
        for (size_t at = 0; at < size; at++)
            pieces[at] = (coord_kit_piece){.bytes = {streams[i].given + at, 1}, .delay_ns = COORD_KIT_MS / 10};
        coord_kit_on(kit,
                     &(coord_kit_rule){.times = 1, .headers = event_stream, .pieces = pieces, .piece_count = size});
        assert_body(ask(kit, streams[i].target), streams[i].wanted);
    }
    assert(coord_kit_stop(kit));
}

/* ---- JSON ---- */

static void words_are_taken_out_of_json_answers_and_every_other_byte_stays(void)
{
    static const struct {
        const char *target, *given, *wanted;
    } rows[] = {
        {"/v1/chat/completions",
         "{ \"choices\":[{\"message\":{\"content\":\"a secret "
         "\\u00e9\"}},{\"message\":{\"content\":\"sec\",\"reasoning\":\"SECRET\"}},"
         "{\"message\":{\"content\":null}}], \"usage\":{\"prompt_tokens\":1.0} }\n",
         "{ \"choices\":[{\"message\":{\"content\":\"a <\\\"x\\\"> "
         "\\u00e9\"}},{\"message\":{\"content\":\"sec\",\"reasoning\":\"<\\\"x\\\">\"}},"
         "{\"message\":{\"content\":null}}], \"usage\":{\"prompt_tokens\":1.0} }\n"},
        {"/v1/completions", "{\"choices\":[{\"text\":\"secret\"}]}", "{\"choices\":[{\"text\":\"<\\\"x\\\">\"}]}"},
        {"/v1/responses", "{\"output\":[{\"content\":[{\"text\":\"sec\"},{\"text\":\"ret secret\"}]},{}]}",
         "{\"output\":[{\"content\":[{\"text\":\"sec\"},{\"text\":\"ret <\\\"x\\\">\"}]},{}]}"},
        {"/v1/messages", "{\"content\":[{\"type\":\"text\",\"text\":\"secretsecret\"}],\"model\":\"secret\"}",
         "{\"content\":[{\"type\":\"text\",\"text\":\"<\\\"x\\\"><\\\"x\\\">\"}],\"model\":\"secret\"}"},
        {"/v1/chat/completions", "{\"choices\": [ ]}", "{\"choices\": [ ]}"},
    };
    coord_kit *kit = start();

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        coord_kit_on(kit, &(coord_kit_rule){.times = 1, .body = coord_slice_of(rows[i].given)});
        assert_body(coord_kit_post(kit, rows[i].target, "{\"model\":\"m\",\"max_tokens\":9}"), rows[i].wanted);
    }
    assert(coord_kit_stop(kit));
}

static void an_error_passes_as_it_is_with_its_length(void)
{
    coord_kit *kit = start();
    const coord_kit_message *answer;

    coord_kit_on(kit, &(coord_kit_rule){.status = 400, .body = COORD_SLICE("{\"error\":\"secret\"}")});
    answer = ask(kit, "/v1/chat/completions");
    assert(answer && answer->status == 400 && coord_kit_header_is(answer, "content-length", "18"));
    assert_body(answer, "{\"error\":\"secret\"}");
    assert(coord_kit_stop(kit));
}

/* ---- Holding back ---- */

static void only_what_may_be_a_word_is_held_and_nothing_longer_than_needed(void)
{
    static const coord_kit_piece pieces[] = {{.bytes = COORD_SLICE(CHAT("0", "see, sec"))},
                                             {.bytes = COORD_SLICE(CHAT("0", "t")), .gate = "no"},
                                             {.bytes = COORD_SLICE(CHAT("0", "sec") BLOCK("0", "")), .gate = "held"},
                                             {.bytes = COORD_SLICE(CHAT_STOP("0", "")), .gate = "stop"},
                                             {.bytes = COORD_SLICE(CHAT_USAGE), .gate = "end"}};
    size_t first = pieces[0].bytes.size + pieces[1].bytes.size, second = pieces[2].bytes.size + pieces[3].bytes.size;
    coord_kit *kit = start();
    coord_kit_client *client;

    coord_kit_on(kit, &(coord_kit_rule){.headers = event_stream, .pieces = pieces, .piece_count = 5});
    client = coord_kit_send(kit, &(coord_kit_request){.target = "/v1/chat/completions", .body = COORD_SLICE("{}")});
    assert(client && coord_kit_read(client, 0) && coord_kit_answer(client)->body.size == 0);
    coord_kit_open(kit, "no");
    assert(coord_kit_read(client, first) && coord_kit_answer(client)->body.size == first);
    coord_kit_open(kit, "held");
    coord_kit_open(kit, "stop");
    assert(coord_kit_read(client, first + second)); /* before the stream's end */
    coord_kit_open(kit, "end");
    assert(coord_kit_read(client, COORD_KIT_ALL));
    assert(coord_kit_stop(kit));
}

static void done_is_the_end_of_all_texts(void)
{
    static const coord_kit_piece pieces[] = {{.bytes = COORD_SLICE(CHAT("0", "sec") "data: [DONE]\n\n")},
                                             {.bytes = COORD_SLICE(": bye\n\n"), .gate = "end"}};
    coord_kit *kit = start();
    coord_kit_client *client;

    coord_kit_on(kit, &(coord_kit_rule){.headers = event_stream, .pieces = pieces, .piece_count = 2});
    client = coord_kit_send(kit, &(coord_kit_request){.target = "/v1/chat/completions", .body = COORD_SLICE("{}")});
    assert(client && coord_kit_read(client, pieces[0].bytes.size)); /* while the worker still has something to say */
    coord_kit_open(kit, "end");
    assert(coord_kit_read(client, COORD_KIT_ALL));
    assert(coord_kit_stop(kit));
}

/* ---- What cannot be looked into ---- */

static void what_cannot_be_looked_into_is_cut_before_it(void)
{
    static const struct {
        const char *yaml, *given, *why;
    } rows[] = {
        {TAKES_OUT(", max_held: 200"), CHAT("0", "sec") CHAT("1", "a") CHAT("1", "b") CHAT("1", "c"), "max_held"},
        {TAKES_OUT(""), "data: {\"choices\":\ndata: []}\n\n", "several lines"},
        {TAKES_OUT(""), "data: {\"choices\":[\n\n", "no JSON"},
        {TAKES_OUT(""), "data: {\"choices\":[],\"choices\":[]}\n\n", "twice"},
        {TAKES_OUT(""), "data: {\"choices\":[{\"delta\":{\"content\":\"\",\"content\":\"\"}}]}\n\n", "twice"},
    };
    static const char passed[] = CHAT("0", "x");

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const coord_kit_piece pieces[] = {{.bytes = COORD_SLICE(CHAT("0", "x"))},
                                          {.bytes = coord_slice_of(rows[i].given), .gate = "go"}};
        coord_kit *kit = start_with(rows[i].yaml);
        coord_kit_client *client;

        coord_kit_on(kit, &(coord_kit_rule){.headers = event_stream, .pieces = pieces, .piece_count = 2});
        client = coord_kit_send(kit, &(coord_kit_request){.target = "/v1/chat/completions", .body = COORD_SLICE("{}")});
        assert(client && coord_kit_read(client, sizeof passed - 1));
        coord_kit_open(kit, "go");
        assert(coord_kit_logged(kit, rows[i].why));
        assert(!coord_kit_read(client, COORD_KIT_ALL) && coord_slice_is(coord_kit_answer(client)->body, passed));
        assert(coord_kit_stop(kit));
    }
}

/* Nobody has told what it is: a model may have said it. */
static void an_answer_of_another_type_does_not_come_through(void)
{
    static const char *const types[] = {"text/plain", "application/problem+json"};

    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const char *const headers[] = {"Content-Type", types[i], NULL};
        coord_kit *kit = start();
        coord_kit_client *client;

        coord_kit_on(kit, &(coord_kit_rule){.headers = headers, .body = COORD_SLICE("secret")});
        client = coord_kit_send(kit, &(coord_kit_request){.target = "/v1/chat/completions", .body = COORD_SLICE("{}")});
        assert(client && !coord_kit_read(client, COORD_KIT_ALL));
        assert(coord_kit_answer(client)->body.size == 0 && coord_kit_logged(kit, "Content-Type"));
        assert(coord_kit_stop(kit));
    }
}

static void a_stream_that_breaks_while_something_is_held_leaks_nothing(void)
{
    static const coord_kit_piece pieces[] = {{.bytes = COORD_SLICE(CHAT("0", "x") CHAT("0", "sec"))}};
    coord_kit *kit = start();
    const coord_kit_message *answer;

    coord_kit_on(
        kit, &(coord_kit_rule){.headers = event_stream, .pieces = pieces, .piece_count = 1, .ending = COORD_KIT_CUT});
    answer = ask(kit, "/v1/chat/completions");
    assert(answer && answer->body.size >= sizeof CHAT("0", "x") - 1);
    assert(memcmp(answer->body.data, CHAT("0", "x"), sizeof CHAT("0", "x") - 1) == 0);
    assert(answer->body.size < sizeof CHAT("0", "x") ||
           memcmp(answer->body.data + sizeof CHAT("0", "x") - 1, "data: {\"error\"", 14) == 0);
    assert(coord_kit_stop(kit));
}

/* ---- Matching alone (words.h) ---- */

enum { TEXT_LETTERS = 24, TEXTS = 20000 };

static unsigned dice(unsigned sides)
{
    static uint32_t state = 1;

    state = state * 1664525U + 1013904223U;
    return (state >> 16) % sides;
}

/* A text of few letters, so that words begin often; some have several spellings. */
static const char *random_letter(void)
{
    static const char *const letters[] = {"a",   "b",    "\\u0061", "\xc3\xa9", "\\u00e9", "\\ud83d\\ude00",
                                          "\\n", "\\\"", "\\ud83d"};

    return letters[dice(sizeof letters / sizeof *letters)];
}

/* What is left of the letters in `bounds[0 … count)`-th pieces, one after another without their quotes. */
static void redact_pieces(const char *const *letters, size_t count, unsigned split, const struct words *words,
                          char *out)
{
    static struct piece pieces[TEXT_LETTERS + 1];
    static char texts[TEXT_LETTERS + 1][TEXT_LETTERS * 16];
    struct run run = {0};
    size_t used = 0, at = 0, size;

    do {
        char *to = texts[used];

        *to++ = '"';
        do {
            if (at < count)
                to += sprintf(to, "%s", letters[at]);
        } while (++at < count && split > 0 && dice(split) != 0);
        for (; split == 0 && at < count; at++)
            to += sprintf(to, "%s", letters[at]);
        *to++ = '"';
        pieces[used] = (struct piece){.json = {texts[used], (size_t)(to - texts[used])}};
        assert(run_add(&run, &pieces[used], words));
        assert(run.count < 6); /* the longest word has so many letters */
        used++;
    } while (at < count);
    assert(run_settle(&run, words) && run.count == 0);
    run_free(&run);
    for (size_t i = 0; i < used; i++) {
        char *text = piece_text_new(&pieces[i], words, &size);

        assert(text && pieces[i].undecided == 0 && size >= 2);
        memcpy(out, text + 1, size - 2);
        out += size - 2;
        free(text);
        piece_free(&pieces[i]);
    }
    *out = '\0';
}

static void any_split_of_any_text_is_redacted_as_the_whole(void)
{
    static char *list[] = {"ab", "aba\xc3\xa9", "b\xf0\x9f\x98\x80", "\n\"", "ababab"};
    const struct words words = {list, 5, false, "#", 1};
    const char *letters[TEXT_LETTERS];
    char whole[TEXT_LETTERS * 16], split[TEXT_LETTERS * 16];
    size_t matched = 0;

    for (int i = 0; i < TEXTS; i++) {
        size_t count = 1 + dice(TEXT_LETTERS);

        for (size_t at = 0; at < count; at++)
            letters[at] = random_letter();
        redact_pieces(letters, count, 0, &words, whole);
        redact_pieces(letters, count, 1 + dice(4), &words, split);
        if (strcmp(whole, split) != 0)
            fprintf(stderr, "%s\n%s\n", whole, split);
        assert(strcmp(whole, split) == 0);
        matched += strchr(whole, '#') != NULL;
    }
    assert(matched > TEXTS / 10);
}

int main(void)
{
    any_split_of_any_text_is_redacted_as_the_whole();
    words_are_taken_out_of_every_apis_stream_and_every_other_byte_stays();
    every_split_of_a_stream_gives_the_same_bytes();
    bytes_that_come_one_by_one_give_the_same();
    words_are_taken_out_of_json_answers_and_every_other_byte_stays();
    an_error_passes_as_it_is_with_its_length();
    only_what_may_be_a_word_is_held_and_nothing_longer_than_needed();
    done_is_the_end_of_all_texts();
    what_cannot_be_looked_into_is_cut_before_it();
    an_answer_of_another_type_does_not_come_through();
    a_stream_that_breaks_while_something_is_held_leaks_nothing();
    printf("redact: 11 tests passed\n");
    return 0;
}
