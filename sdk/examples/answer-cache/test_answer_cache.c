/* The step against the test kit: what is answered from memory, and what never is. */
#define _POSIX_C_SOURCE 200809L
#undef NDEBUG
#include <coordinator/testkit.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

extern const coord_plugin_descriptor coord_plugin; /* of answer_cache.c */

static const char *const event_stream[] = {"Content-Type", "text/event-stream; charset=utf-8", NULL};
static const char chat[] = "/v1/chat/completions";
static const char events[] = "data: {\"choices\":[{\"delta\":{\"content\":\"a \\u00fc\"}}]}\n\ndata: [DONE]\n\n";

static coord_kit *start_with(const char *params)
{
    char yaml[256];
    coord_kit *kit;

    snprintf(yaml, sizeof yaml, "pipeline: {steps: [{type: answer-cache, params: {%s}}, {type: decode}]}", params);
    kit =
        coord_kit_start(&(coord_kit_options){.size = sizeof(coord_kit_options),
                                             .reactors = 2,
                                             .yaml = yaml,
                                             .plugins = (const coord_plugin_descriptor *const[]){&coord_plugin, NULL}});
    if (!kit)
        fprintf(stderr, "%s", coord_kit_problem());
    assert(kit);
    return kit;
}

static const coord_kit_message *ask_as(coord_kit *kit, const char *client, const char *body)
{
    const char *const headers[] = {"authorization", client, NULL};

    return coord_kit_ask(kit, &(coord_kit_request){.target = chat, .headers = headers, .body = coord_slice_of(body)});
}

static bool is_hit(const coord_kit_message *answer)
{
    assert(answer && answer->whole);
    return coord_kit_header_is(answer, "x-cache", "hit");
}

/* The same request twice: whether the second one was answered from memory. */
static bool is_kept(coord_kit *kit, const char *body)
{
    assert(!is_hit(coord_kit_post(kit, chat, body)));
    return is_hit(coord_kit_post(kit, chat, body));
}

static void the_same_request_gets_the_same_bytes_and_no_worker_is_asked(void)
{
    static const char asked[] = "{\"model\":\"m\",\"temperature\":0.0,\"messages\":[{\"content\":\"hi\"}]}";
    coord_kit *kit = start_with("");
    const coord_kit_message *first, *second;

    coord_kit_on(kit, &(coord_kit_rule){.times = 1, .body = COORD_SLICE("{ \"choices\":[ \"\\u00fc\"]}\n")});
    first = coord_kit_post(kit, chat, asked);
    second = coord_kit_post(kit, chat, asked);
    assert(!is_hit(first) && is_hit(second) && second->status == 200);
    assert(coord_slice_equal(first->body, second->body));
    assert(coord_kit_header_is(second, "content-type", "application/json"));
    assert(coord_kit_leg_count(kit, NULL) == 1);
    assert(coord_kit_stop(kit));
}

static void a_stream_is_answered_as_a_stream_and_apart_from_json(void)
{
    static const char streamed[] = "{\"model\":\"m\",\"stream\":true,\"temperature\":0}";
    coord_kit *kit = start_with("");
    const coord_kit_message *answer;

    coord_kit_on(kit, &(coord_kit_rule){.times = 1, .headers = event_stream, .body = coord_slice_of(events)});
    coord_kit_on(kit, &(coord_kit_rule){.body = COORD_SLICE("{}")});
    assert(!is_hit(coord_kit_post(kit, chat, streamed)));
    answer = coord_kit_post(kit, chat, streamed);
    assert(is_hit(answer) && coord_slice_is(answer->body, events));
    assert(coord_kit_header_is(answer, "content-type", event_stream[1]));
    assert(!is_hit(coord_kit_post(kit, chat, "{\"model\":\"m\",\"stream\":false,\"temperature\":0}")));
    assert(coord_kit_stop(kit));
}

static void only_the_same_prompt_of_the_same_client_is_the_same_request(void)
{
    coord_kit *kit = start_with("");

    coord_kit_on(kit, &(coord_kit_rule){.body = COORD_SLICE("{}")});
    assert(!is_hit(ask_as(kit, "a", "{\"temperature\":0,\"messages\":[\"hi\"],\"user\":\"x\"}")));
    assert(is_hit(ask_as(kit, "a", "{\"temperature\":0,\"messages\":[\"hi\"],\"user\":\"y\"}")));
    assert(is_hit(ask_as(kit, "a", "{\"temperature\":0,\"messages\":[\"hi\"]}")));
    assert(!is_hit(ask_as(kit, "b", "{\"temperature\":0,\"messages\":[\"hi\"]}")));
    assert(!is_hit(ask_as(kit, "a", "{\"temperature\":0,\"messages\":[\"hi \"]}")));
    assert(!is_hit(ask_as(kit, "a", "{\"messages\":[\"hi\"],\"temperature\":0}"))); /* other bytes for the worker */
    assert(coord_kit_stop(kit));
}

static void every_line_of_the_header_and_the_query_tell_apart(void)
{
    static const struct {
        const char *target, *headers[5];
    } rows[] = {
        {chat, {NULL}},
        {"/v1/chat/completions?a=1", {NULL}},
        {"/v1/chat/completions?a=2", {NULL}},
        {chat, {"authorization", "a", NULL}},
        {chat, {"authorization", "a", "Authorization", "b", NULL}},
        {chat, {"authorization", "a", "Authorization", "c", NULL}},
    };
    coord_kit *kit = start_with("");

    coord_kit_on(kit, &(coord_kit_rule){.body = COORD_SLICE("{}")});
    for (int again = 0; again < 2; again++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            assert(is_hit(coord_kit_ask(kit, &(coord_kit_request){.target = rows[i].target,
                                                                  .headers = rows[i].headers,
                                                                  .body = COORD_SLICE("{\"temperature\":0}")})) ==
                   again);
    assert(coord_kit_stop(kit));
}

static void what_a_worker_might_say_otherwise_is_not_kept(void)
{
    static const char good[] = "{\"temperature\":0}", streamed[] = "{\"temperature\":0,\"stream\":true}";
    static const coord_kit_piece half = {.bytes = COORD_SLICE("data: {\"choices\":[]}\n\n")};
    static const coord_kit_piece told = {.bytes = COORD_SLICE("data: {\"said\":\"\\ndata: [DONE]\"}\n\n")};
    static const coord_kit_piece error = {.bytes = COORD_SLICE("data: {\"error\":{\"code\":500}}\n\ndata: [DONE]\n\n")};
    static const struct {
        const char *asked;
        coord_kit_rule answer;
    } rows[] = {
        {"{}", {.body = COORD_SLICE("{}")}},
        {"{\"temperature\":0.1}", {.body = COORD_SLICE("{}")}},
        {"{\"temperature\":\"0\"}", {.body = COORD_SLICE("{}")}},
        {"{\"temperature\":null}", {.body = COORD_SLICE("{}")}},
        {good, {.status = 201, .body = COORD_SLICE("{}")}},
        {good, {.status = 503, .body = COORD_SLICE("{}")}},
        {good, {.body = COORD_SLICE("{\"error\":{}}")}},
        {good,
         {.body = COORD_SLICE(
              "{\"choices\":[\"more than eighty bytes, which is more than this test allows an answer to have\"]}")}},
        {streamed, {.headers = event_stream, .pieces = &half, .piece_count = 1, .ending = COORD_KIT_CUT}},
        {streamed, {.headers = event_stream, .pieces = &half, .piece_count = 1}},
        {streamed, {.headers = event_stream, .pieces = &told, .piece_count = 1}},
        {good, {.body = COORD_SLICE("")}},
        {streamed, {.headers = event_stream, .pieces = &error, .piece_count = 1}},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        coord_kit *kit = start_with("max_answer: 80");

        coord_kit_on(kit, &rows[i].answer);
        assert(!is_kept(kit, rows[i].asked));
        assert(coord_kit_leg_count(kit, NULL) == 2);
        assert(coord_kit_stop(kit));
    }
}

static void another_api_passes_by(void)
{
    coord_kit *kit = start_with("");

    coord_kit_on(kit, &(coord_kit_rule){.body = COORD_SLICE("{}")});
    for (int i = 0; i < 2; i++)
        assert(!is_hit(coord_kit_post(kit, "/v1/completions", "{\"temperature\":0,\"prompt\":\"a\"}")));
    assert(coord_kit_stop(kit));
}

static void the_longest_unused_makes_room(void)
{
    static const char a[] = "{\"temperature\":0,\"messages\":\"a\"}", b[] = "{\"temperature\":0,\"messages\":\"b\"}",
                      c[] = "{\"temperature\":0,\"messages\":\"c\"}";
    coord_kit *kit = start_with("max_entries: 2");

    coord_kit_on(kit, &(coord_kit_rule){.body = COORD_SLICE("{}")});
    assert(is_kept(kit, a) && is_kept(kit, b));
    assert(is_hit(coord_kit_post(kit, chat, a)));
    assert(is_kept(kit, c));
    assert(is_hit(coord_kit_post(kit, chat, a)));
    assert(!is_hit(coord_kit_post(kit, chat, b)));
    assert(coord_kit_stop(kit));
}

static void the_bytes_are_bounded_prompts_included(void)
{
    static char large[2][40000];
    coord_kit *kit = start_with("max_bytes: 50000");

    coord_kit_on(kit, &(coord_kit_rule){.body = COORD_SLICE("{}")});
    for (int i = 0; i < 2; i++)
        snprintf(large[i], sizeof large[i], "{\"temperature\":0,\"messages\":\"%030000d\"}", i);
    assert(is_kept(kit, large[0]));
    assert(is_kept(kit, "{\"temperature\":0}"));
    assert(is_kept(kit, large[1]));
    assert(is_hit(coord_kit_post(kit, chat, "{\"temperature\":0}")));
    assert(!is_hit(coord_kit_post(kit, chat, large[0]))); /* both are too much */
    assert(coord_kit_stop(kit));
}

static void an_answer_that_is_too_old_is_asked_for_anew(void)
{
    static const char asked[] = "{\"temperature\":0}";
    const struct timespec longer = {.tv_nsec = 30 * COORD_KIT_MS};
    coord_kit *kit = start_with("ttl: 20ms");

    coord_kit_on(kit, &(coord_kit_rule){.body = COORD_SLICE("{}")});
    assert(!is_hit(coord_kit_post(kit, chat, asked)));
    nanosleep(&longer, NULL); /* time is what is tested */
    assert(!is_hit(coord_kit_post(kit, chat, asked)));
    assert(coord_kit_stop(kit));
}

static void a_client_that_reads_slowly_gets_the_whole_stream_too(void)
{
    enum { SIZE = 4 << 20 };
    static const char streamed[] = "{\"temperature\":0,\"stream\":true}";
    char *large = malloc(SIZE + 2 + sizeof events);
    coord_kit *kit = start_with("max_answer: 8MiB");
    coord_kit_client *client;

    assert(large);
    memset(large, ':', SIZE); /* one long comment */
    memcpy(large + SIZE, "\n\n", 2);
    memcpy(large + SIZE + 2, events, sizeof events - 1);
    coord_kit_on(kit, &(coord_kit_rule){.headers = event_stream, .body = {large, SIZE + sizeof events + 1}});
    assert(!is_hit(coord_kit_post(kit, chat, streamed)));
    client = coord_kit_send(
        kit, &(coord_kit_request){.target = chat, .body = coord_slice_of(streamed), .reads_little = true});
    assert(client && coord_kit_read(client, COORD_KIT_ALL));
    assert(is_hit(coord_kit_answer(client)) && coord_kit_answer(client)->body.size == SIZE + sizeof events + 1);
    client = coord_kit_send(
        kit, &(coord_kit_request){.target = chat, .body = coord_slice_of(streamed), .reads_little = true});
    assert(client && coord_kit_read(client, 1)); /* one that leaves lets go of it */
    coord_kit_leave(client);
    assert(coord_kit_stop(kit));
    free(large);
}

static void many_at_a_time_get_what_is_theirs(void)
{
    enum { MANY = 200, PROMPTS = 8 };
    static char asked[PROMPTS][64], said[PROMPTS][64];
    static coord_kit_client *clients[MANY];
    coord_kit *kit = start_with("max_entries: 5"); /* on two reactors; entries go while others read them */

    for (int i = 0; i < PROMPTS; i++) {
        snprintf(asked[i], sizeof asked[i], "{\"temperature\":0,\"messages\":\"%d\"}", i);
        snprintf(said[i], sizeof said[i], "{\"said\":\"%d\"}", i);
        coord_kit_on(kit, &(coord_kit_rule){.header = "x-n", .value = said[i], .body = coord_slice_of(said[i])});
    }
    for (int i = 0; i < MANY; i++) {
        int n = i * 7 % PROMPTS;
        const char *const headers[] = {"x-n", said[n], NULL};

        clients[i] = coord_kit_send(
            kit, &(coord_kit_request){.target = chat, .headers = headers, .body = coord_slice_of(asked[n])});
        assert(clients[i]);
    }
    for (int i = 0; i < MANY; i++) {
        assert(coord_kit_read(clients[i], COORD_KIT_ALL));
        assert(coord_slice_is(coord_kit_answer(clients[i])->body, said[i * 7 % PROMPTS]));
    }
    assert(coord_kit_stop(kit));
}

int main(void)
{
    the_same_request_gets_the_same_bytes_and_no_worker_is_asked();
    a_stream_is_answered_as_a_stream_and_apart_from_json();
    only_the_same_prompt_of_the_same_client_is_the_same_request();
    every_line_of_the_header_and_the_query_tell_apart();
    what_a_worker_might_say_otherwise_is_not_kept();
    another_api_passes_by();
    the_longest_unused_makes_room();
    the_bytes_are_bounded_prompts_included();
    an_answer_that_is_too_old_is_asked_for_anew();
    a_client_that_reads_slowly_gets_the_whole_stream_too();
    many_at_a_time_get_what_is_theirs();
    printf("answer-cache: 11 tests passed\n");
    return 0;
}
