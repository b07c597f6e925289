/* The writer against the test kit: in whatever pieces a stream comes, the client gets the same bytes. */
#undef NDEBUG
#include <coordinator/testkit.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

extern const coord_plugin_descriptor coord_plugin; /* of my-step.c */

#define BEGINNING ": hello\r\n\r\ndata: {\"n\": 1}\r\n\r\ndata: two\ndata: lines\n\n"
static const char given[] = BEGINNING "data: [DONE]\n\n";
static const char wanted[] = BEGINNING ": seen: 2 events\n\ndata: [DONE]\n\n";

static const char *const event_stream[] = {"Content-Type", "text/event-stream", NULL};
static const char request[] = "{\"model\":\"m\",\"stream\":true}";

static const coord_plugin_descriptor *const plugins[] = {&coord_plugin, NULL};
static const coord_kit_options options = {
    .size = sizeof options,
    .yaml = "pipeline: {steps: [{type: my-step, params: {label: seen}}, {type: decode}]}",
    .plugins = plugins};

static coord_kit *started(void)
{
    coord_kit *kit = coord_kit_start(&options);

    if (!kit)
        fprintf(stderr, "%s", coord_kit_problem());
    assert(kit);
    return kit;
}

static void assert_answer(const coord_kit_message *answer, const char *body)
{
    if (answer && answer->whole && coord_slice_is(answer->body, body))
        return;
    fprintf(stderr, "got: %.*s\n", COORD_FMT(answer ? answer->body : (coord_slice){0}));
    abort();
}

/* Each split, byte by byte, and without the last blank line; then leaks, blocking calls and the like. */
static void no_split_and_no_fault_is_found(void)
{
    static const coord_kit_rule answer = {.headers = event_stream, .body = {given, sizeof given - 1}};
    static const coord_kit_request asked = {.target = "/v1/chat/completions", .body = {request, sizeof request - 1}};
    static const coord_kit_trial trial = {
        .size = sizeof trial, .rule_count = 1, .options = &options, .rules = &answer, .request = &asked};

    assert(!coord_kit_find_split(&trial, &answer, (coord_slice){wanted, sizeof wanted - 1}));
    assert(!coord_kit_find_fault(&trial));
}

static void an_event_passes_as_soon_as_it_is_whole(void)
{
    static const coord_kit_piece pieces[] = {{.bytes = COORD_SLICE("data: 1\n\ndata: 2")},
                                             {.bytes = COORD_SLICE("\n\n"), .gate = "more"}};
    coord_kit *kit = started();
    coord_kit_client *client;

    coord_kit_on(kit, &(coord_kit_rule){.headers = event_stream, .pieces = pieces, .piece_count = 2});
    client = coord_kit_send(
        kit, &(coord_kit_request){.target = "/v1/chat/completions", .body = {request, sizeof request - 1}});
    assert(client && coord_kit_read(client, sizeof "data: 1\n\n" - 1));
    assert(coord_slice_is(coord_kit_answer(client)->body, "data: 1\n\n"));
    coord_kit_open(kit, "more");
    assert(coord_kit_read(client, COORD_KIT_ALL));
    assert_answer(coord_kit_answer(client), "data: 1\n\ndata: 2\n\n");
    assert(coord_kit_stop(kit));
}

static void a_last_event_without_its_blank_line_passes_too(void)
{
    static const coord_kit_piece piece = {.bytes = COORD_SLICE("data: 1\n\ndata: 2")};
    coord_kit *kit = started();

    coord_kit_on(kit, &(coord_kit_rule){.headers = event_stream, .pieces = &piece, .piece_count = 1});
    assert_answer(coord_kit_post(kit, "/v1/chat/completions", request), "data: 1\n\ndata: 2");
    assert(coord_kit_stop(kit));
}

static void what_is_no_stream_keeps_its_bytes_and_its_length(void)
{
    coord_kit *kit = started();
    const coord_kit_message *answer;

    coord_kit_on(kit, &(coord_kit_rule){.body = COORD_SLICE("{\"choices\":[]}")});
    answer = coord_kit_post(kit, "/v1/chat/completions", "{\"model\":\"m\"}");
    assert_answer(answer, "{\"choices\":[]}");
    assert(coord_kit_header_is(answer, "content-length", "14"));
    assert(coord_kit_stop(kit));
}

int main(void)
{
    no_split_and_no_fault_is_found();
    an_event_passes_as_soon_as_it_is_whole();
    a_last_event_without_its_blank_line_passes_too();
    what_is_no_stream_keeps_its_bytes_and_its_length();
    printf("my-step: 4 tests passed\n");
    return 0;
}
