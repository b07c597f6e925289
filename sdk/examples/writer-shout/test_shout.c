/* The writer against the test kit: whatever the pieces in which a stream comes, the client gets the same bytes. */
#undef NDEBUG
#include <coordinator/testkit.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

extern const coord_plugin_descriptor coord_plugin; /* of shout.c */

static const char given[] = ": hello\r\n\r\n"
                            "event: x\r\nid: 7\r\ndata: {\"choices\": [{\"delta\":{\"content\":\"gr\\u00fc\\u00df "
                            "dich\"},\"index\":0}], \"big\":12345678901234567890}\r\n\r\n"
                            "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\n"
                            "data: {\"choices\":[{\"delta\":{\"content\":\" say \\\"hi\\\"\\n\"}}]}\n\n"
                            "data: not json\n\n"
                            "data: [DONE]\n\n";
static const char wanted[] = ": hello\r\n\r\n"
                             "event: x\r\nid: 7\r\ndata: {\"choices\": [{\"delta\":{\"content\":\"GR\xc3\xbc\xc3\x9f "
                             "DICH\"},\"index\":0}], \"big\":12345678901234567890}\r\n\r\n"
                             "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\n"
                             "data: {\"choices\":[{\"delta\":{\"content\":\" SAY \\\"HI\\\"\\n\"}}]}\n\n"
                             "data: not json\n\n"
                             "data: [DONE]\n\n";

static const char *const event_stream[] = {"Content-Type", "text/event-stream; charset=utf-8", NULL};
static const char request[] = "{\"model\":\"m\",\"stream\":true}";

static coord_kit *start(void)
{
    coord_kit *kit =
        coord_kit_start(&(coord_kit_options){.size = sizeof(coord_kit_options),
                                             .yaml = "pipeline: {steps: [{type: shout}, {type: decode}]}",
                                             .plugins = (const coord_plugin_descriptor *const[]){&coord_plugin, NULL}});

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

static void every_split_of_the_stream_gives_the_same_bytes(void)
{
    static coord_kit_piece pieces[sizeof given][2];
    coord_kit *kit = start();

    for (size_t at = 1; at < sizeof given - 1; at++) {
        pieces[at][0] = (coord_kit_piece){.bytes = {given, at}};
        pieces[at][1] = (coord_kit_piece){.bytes = {given + at, sizeof given - 1 - at}, .delay_ns = 2 * COORD_KIT_MS};
        coord_kit_on(kit,
                     &(coord_kit_rule){.times = 1, .headers = event_stream, .pieces = pieces[at], .piece_count = 2});
        assert_answer(coord_kit_post(kit, "/v1/chat/completions", request), wanted);
    }
    assert(coord_kit_stop(kit));
}

static void bytes_that_come_one_by_one_give_the_same(void)
{
    static coord_kit_piece pieces[sizeof given - 1];
    coord_kit *kit = start();

    for (size_t at = 0; at < sizeof given - 1; at++)
        pieces[at] = (coord_kit_piece){.bytes = {given + at, 1}, .delay_ns = COORD_KIT_MS / 4};
    coord_kit_on(kit, &(coord_kit_rule){.headers = event_stream, .pieces = pieces, .piece_count = sizeof given - 1});
    assert_answer(coord_kit_post(kit, "/v1/chat/completions", request), wanted);
    assert(coord_kit_stop(kit));
}

static void an_event_passes_as_soon_as_it_is_whole(void)
{
    static const coord_kit_piece pieces[] = {
        {.bytes = COORD_SLICE("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {")},
        {.bytes = COORD_SLICE("}\n\n"), .gate = "go"}};
    static const char first[] = "data: {\"choices\":[{\"delta\":{\"content\":\"A\"}}]}\n\n";
    coord_kit *kit = start();
    coord_kit_client *client;

    coord_kit_on(kit, &(coord_kit_rule){.headers = event_stream, .pieces = pieces, .piece_count = 2});
    client =
        coord_kit_send(kit, &(coord_kit_request){.target = "/v1/chat/completions", .body = coord_slice_of(request)});
    assert(client && coord_kit_read(client, sizeof first - 1));
    assert(coord_slice_is(coord_kit_answer(client)->body, first)); /* the half event is held */
    coord_kit_open(kit, "go");
    assert(coord_kit_read(client, COORD_KIT_ALL));
    assert(coord_kit_stop(kit));
}

static const coord_kit_message *ask_for_a_cut_stream(coord_kit *kit, const coord_kit_piece *piece)
{
    const coord_kit_message *answer;

    coord_kit_on(kit,
                 &(coord_kit_rule){
                     .times = 1, .headers = event_stream, .pieces = piece, .piece_count = 1, .ending = COORD_KIT_CUT});
    answer = coord_kit_post(kit, "/v1/chat/completions", request);
    assert(answer && answer->status == 200);
    return answer;
}

static void a_stream_that_is_cut_at_an_events_end_gets_an_error_event(void)
{
    static const coord_kit_piece piece = {.bytes =
                                              COORD_SLICE("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n")};
    static const char first[] = "data: {\"choices\":[{\"delta\":{\"content\":\"A\"}}]}\n\ndata: {\"error\":";
    coord_kit *kit = start();
    const coord_kit_message *answer = ask_for_a_cut_stream(kit, &piece);

    assert(answer->whole && answer->body.size > sizeof first &&
           memcmp(answer->body.data, first, sizeof first - 1) == 0);
    assert(coord_kit_stop(kit));
}

static void a_stream_that_is_cut_inside_an_event_is_cut_for_the_client_too(void)
{
    static const coord_kit_piece piece = {
        .bytes = COORD_SLICE("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"cho")};
    coord_kit *kit = start();
    const coord_kit_message *answer = ask_for_a_cut_stream(kit, &piece);

    assert(!answer->whole);
    assert(coord_slice_is(answer->body, "data: {\"choices\":[{\"delta\":{\"content\":\"A\"}}]}\n\n"));
    assert(coord_kit_stop(kit));
}

static void what_is_no_event_stream_keeps_its_bytes_and_its_length(void)
{
    coord_kit *kit = start();
    const coord_kit_message *answer;

    coord_kit_on(kit, &(coord_kit_rule){.body = COORD_SLICE("{\"choices\":[]}")});
    answer = coord_kit_post(kit, "/v1/chat/completions", "{\"model\":\"m\"}");
    assert_answer(answer, "{\"choices\":[]}");
    assert(coord_kit_header_is(answer, "content-length", "14"));
    assert(coord_kit_header_is(coord_kit_leg(kit, "decode", 0), "accept-encoding", "identity"));
    assert(coord_kit_stop(kit));
}

int main(void)
{
    every_split_of_the_stream_gives_the_same_bytes();
    bytes_that_come_one_by_one_give_the_same();
    an_event_passes_as_soon_as_it_is_whole();
    a_stream_that_is_cut_at_an_events_end_gets_an_error_event();
    a_stream_that_is_cut_inside_an_event_is_cut_for_the_client_too();
    what_is_no_event_stream_keeps_its_bytes_and_its_length();
    printf("shout: 6 tests passed\n");
    return 0;
}
