/*
 * How long a call keeps what its leg sends, its document above all (pipeline/call_events.c): until the body is out and the answer's head is
 * there, where the transport tells, and never shorter than pieces of it are sent. A bare call is the owner of a real leg.
 */
#include "pipeline/call.h"
#include "pipeline/worker.h"
#include "telemetry/families.h"

#include "upstream_peer.h"
#include "upstream_probe.h"

#include <stdlib.h>
#include <string.h>

/* More than the kernel takes while nobody reads. */
enum { LONG_BODY = 20 << 20 };

struct bare {
    struct coord_call call;
    struct coord_request request;
    struct worker worker;
    struct leg_record record;
    coord_slice piece;
    void *memory;
};

static coord_document *text_new(size_t size)
{
    char *text = pattern_new(size);
    coord_document *document;

    text[0] = text[size - 1] = '"';
    document = coord_document_parse_new((coord_slice){text, size}, NULL, NULL);
    assert_non_null(document);
    free(text);
    return document;
}

/* What call_start does, and no more. */
static void start(struct bare *bare, struct world *world, struct upstream *upstream, size_t size)
{
    struct leg_request request = {.method = COORD_SLICE("POST"), .target = COORD_SLICE("/"), .has_body = true};

    *bare = (struct bare){.memory = calloc(1, leg_size())};
    bare->worker.reactor = world->reactor;
    bare->request.worker = &bare->worker;
    bare->call.request = &bare->request;
    headers_init(&bare->call.answer_headers, &bare->request.arena);
    bare->call.record = &bare->record;
    bare->call.name = "decode";
    bare->call.mode = CALL_COLLECT;
    bare->call.out = call_outgoing_new((coord_slice)COORD_SLICE("/"));
    assert_non_null(bare->call.out);
    bare->call.out->document = text_new(size);
    assert_int_equal(coord_document_pieces(bare->call.out->document, &bare->piece, NULL, 1), 1);
    request.pieces = &bare->piece;
    request.piece_count = 1;
    request.body_size = size;
    bare->call.leg = leg_start(bare->memory, upstream, &request, &call_events, &bare->call);
    assert_non_null(bare->call.leg);
}

static void stop(struct bare *bare)
{
    assert_true(bare->call.ended);
    buffer_release(&bare->call.body);
    arena_release(&bare->request.arena);
    free(bare->memory);
}

static bool receive_head(struct peer *peer)
{
    while (!memmem(peer->log, peer->logged, "\r\n\r\n", 4))
        if (!peer_receive(peer))
            return false;
    return true;
}

/* The last chunk comes when the test has set stage 1. */
static void stream_after_the_request(struct peer *peer)
{
    if (!peer_accept(peer) || !peer_request(peer))
        return;
    peer_send(peer, ENDLESS);
    peer_await_stage(peer, 1);
    peer_send(peer, "0\r\n\r\n");
    peer_await_eof(peer);
}

/* The same, but of the body hardly anything is read before stage 1. */
static void stream_before_the_body(struct peer *peer)
{
    if (!peer_accept(peer) || !receive_head(peer))
        return;
    peer_send(peer, ENDLESS);
    peer_await_stage(peer, 1);
    peer_send(peer, "0\r\n\r\n");
    while (peer_receive(peer))
        peer->logged = 0;
}

static const struct {
    const char *name;
    script_fn *script;
    size_t size;
    bool kept[UPSTREAM_CURL + 1]; /* while the answer streams, by transport */
} rows[] = {
    {"a short body", stream_after_the_request, 100, {[UPSTREAM_CURL] = true}}, /* libcurl does not tell */
    {"a body that is still sent",
     stream_before_the_body,
     LONG_BODY,
     {[UPSTREAM_DIRECT] = true, [UPSTREAM_CURL] = true}},
};

static void what_a_leg_sends_goes_once_it_is_out_and_the_head_is_there(void **state)
{
    assert_true(families_declare());
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        struct peer *peer = peer_start(rows[r].script, NULL);
        struct upstream *upstream = open_peer(*state, peer);
        struct bare bare;

        print_message("  %s\n", rows[r].name);
        start(&bare, *state, upstream, rows[r].size);
        TURN_UNTIL((struct world *)*state, bare.call.head_seen && bare.call.body.size == 3);
        assert_int_equal(bare.call.out != NULL, rows[r].kept[transport]);
        assert_false(bare.call.ended);
        peer->stage = 1;
        TURN_UNTIL((struct world *)*state, bare.call.ended);
        assert_int_equal(bare.call.outcome, LEG_COMPLETE);
        assert_null(bare.call.out);
        stop(&bare);
        close_client(state);
        peer_free(peer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UPSTREAM_TEST(what_a_leg_sends_goes_once_it_is_out_and_the_head_is_there),
    };
    int failed = cmocka_run_group_tests_name("direct", tests, over_direct, NULL);

    return failed + cmocka_run_group_tests_name("libcurl", tests, over_libcurl, NULL);
}
