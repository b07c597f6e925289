/*
 * A worker that answers while most of the request's body is still on its way: through coord_call_head and coord_call_read in a
 * coordinator of the test kit, over both transports, which must come to the same verdict. Only the call holds the document that is
 * being sent, so a piece that went too early is seen by the address sanitizer, and by the worker, which compares every byte.
 */
#include <coordinator/answer.h>
#include <coordinator/call.h>
#include <coordinator/testkit.h>

#include "upstream_peer.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* More than the kernel takes while nobody reads. */
enum { PAD = 10 << 20 };

#define BODY_BEGIN "{\"pad\":\""
#define BODY_END "\",\"edit\":[1,2]}"

static char *pad;        /* PAD letters */
static atomic_int heads; /* that the step has seen */

/* ---- The step ---- */

static coord_document *body_new(void)
{
    size_t size = strlen(BODY_BEGIN) + PAD + 2;
    char *text = malloc(size + 1);
    coord_document *document;

    if (!text)
        return NULL;
    snprintf(text, size + 1, "%s%s\"}", BODY_BEGIN, pad);
    document = coord_document_parse_new((coord_slice){text, size}, NULL, NULL);
    free(text);
    if (document && coord_document_set(document, "/edit", (coord_slice)COORD_SLICE("[1,2]")) == COORD_OK)
        return document;
    coord_document_free(document);
    return NULL;
}

static bool give_body(coord_call *call)
{
    coord_document *document = body_new();
    bool given = document && coord_call_set_body(call, document) == COORD_OK;

    coord_document_free(document);
    return given;
}

static coord_status execute(void *state, coord_request *request)
{
    coord_call *call = coord_call_gateway_new(request, "decode", COORD_PHASE_DECODE);
    char text[64];
    size_t size = 0;
    coord_slice piece;
    coord_status status;

    (void)state;
    if (!call || !give_body(call))
        return COORD_FAIL;
    status = coord_call_head(call);
    if (status != COORD_OK)
        return status;
    atomic_fetch_add(&heads, 1);
    while ((status = coord_call_read(call, &piece)) == COORD_OK) {
        if (piece.size > sizeof text - size)
            return coord_fail(request, 500, NULL, "too much");
        memcpy(text + size, piece.data, piece.size);
        size += piece.size;
    }
    return status == COORD_END
               ? coord_answer(request, coord_call_status(call), "text/plain", (coord_slice){text, size}, NULL)
               : status;
}

static const coord_step_type CALLER = {.size = sizeof CALLER,
                                       .name = "caller",
                                       .help = "Sends much and reads the answer.",
                                       .provides = (const char *const[]){COORD_THING_ANSWER, NULL},
                                       .execute = execute};

COORD_PLUGIN(.name = "caller", .version = "1", .licence = "Apache-2.0",
             .steps = (const coord_step_type *const[]){&CALLER, NULL})

/* ---- The worker ---- */

enum then { READS_ON, TALKS_AND_READS, CLOSES };

static const struct row {
    const char *name;
    const char *begin; /* when it has read the request's head */
    enum then then;    /* when the step has seen the answer's head */
    const char *rest;  /* when it has read the whole body */
    int32_t status;    /* the client's */
    const char *answer;
    bool arrives; /* the whole body does */
} rows[] = {
    {"a stream", ENDLESS, READS_ON, "3\r\ndef\r\n0\r\n\r\n", 200, "abcdef", true},
    {"a stream that goes on meanwhile", ENDLESS, TALKS_AND_READS, "0\r\n\r\n", 200, "abc................", true},
    {"a length", "HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\nab", READS_ON, "cd", 201, "abcd", true},
    {"to the connection's end", "HTTP/1.1 200 OK\r\n\r\nab", READS_ON, "cd", 200, "abcd", true},
    {"all of it", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", READS_ON, "", 200, "ok", false},
    {"a refusal", "HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno", READS_ON, "", 413, "no",
     false},
    {"a refusal, then the end", "HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno", CLOSES,
     "", 413, "no", false},
    {"a stream that breaks off", ENDLESS, CLOSES, "", 502, NULL, false},
    {"a length that breaks off", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab", CLOSES, "", 502, NULL, false},
};

/* The script's; the test's after its end. */
static const struct row *row;
static size_t got; /* of the body */
static bool same;  /* it was the document's bytes */

static bool receive_head(struct peer *peer)
{
    while (!memmem(peer->log, peer->logged, "\r\n\r\n", 4))
        if (!peer_receive(peer))
            return false;
    return true;
}

static void compare(const char *bytes, size_t size)
{
    const coord_slice parts[] = {COORD_SLICE(BODY_BEGIN), {pad, PAD}, COORD_SLICE(BODY_END)};
    size_t begin = 0;

    for (size_t i = 0; i < sizeof parts / sizeof *parts && size > 0; begin += parts[i++].size) {
        size_t at = got - begin, part;

        if (at >= parts[i].size)
            continue;
        part = parts[i].size - at < size ? parts[i].size - at : size;
        same = same && memcmp(bytes, parts[i].data + at, part) == 0;
        bytes += part;
        size -= part;
        got += part;
    }
    same = same && size == 0;
}

/* What the log has and is no head. */
static void take(struct peer *peer)
{
    const char *end = memmem(peer->log, peer->logged, "\r\n\r\n", 4);
    size_t head = end && got == 0 ? (size_t)(end + 4 - peer->log) : 0;

    compare(peer->log + head, peer->logged - head);
    peer->logged = 0;
}

static bool read_until(struct peer *peer, size_t size)
{
    while (got < size && peer_receive(peer))
        take(peer);
    return got >= size;
}

static void await_step(void)
{
    for (int64_t end = now_ns() + PATIENCE_MS * MS; atomic_load(&heads) == 0 && now_ns() < end;)
        usleep(200);
}

static void answer_early(struct peer *peer)
{
    if (!peer_accept(peer) || !receive_head(peer))
        return;
    take(peer);
    peer_send(peer, row->begin);
    await_step();
    if (row->then == CLOSES) /* with much unread: a reset */
        return;
    for (size_t i = 1; row->then == TALKS_AND_READS && i <= 16; i++) {
        read_until(peer, i * (PAD / 20));
        peer_send(peer, "1\r\n.\r\n");
    }
    if (read_until(peer, strlen(BODY_BEGIN) + PAD + strlen(BODY_END)))
        peer_send(peer, row->rest);
}

/* ---- The test ---- */

static void perform(const char *transport)
{
    struct peer *peer = peer_start(answer_early, NULL);
    const coord_kit_message *answer;
    char yaml[200];
    coord_kit *kit;

    got = 0;
    same = true;
    atomic_store(&heads, 0);
    snprintf(yaml, sizeof yaml,
             "log_level: 2\ngateway: {address: \"http://127.0.0.1:%d\", transport: %s}\npipeline: {steps: [{type: "
             "caller}]}\n",
             peer->port, transport);
    kit =
        coord_kit_start(&(coord_kit_options){.size = sizeof(coord_kit_options),
                                             .yaml = yaml,
                                             .plugins = (const coord_plugin_descriptor *const[]){&coord_plugin, NULL}});
    if (!kit)
        fail_msg("%s", coord_kit_problem());
    answer = coord_kit_post(kit, "/v1/chat/completions", "{\"model\":\"m\"}");
    assert_non_null(answer);
    if (answer->status != row->status || (row->answer && !coord_slice_is(answer->body, row->answer)))
        fail_msg("%d %.*s", answer->status, COORD_FMT(answer->body));
    assert_int_equal(atomic_load(&heads), 1);
    peer_join(peer);
    assert_true(same);
    if (row->arrives)
        assert_int_equal(got, strlen(BODY_BEGIN) + PAD + strlen(BODY_END));
    assert_true(coord_kit_stop(kit));
    peer_free(peer);
}

static void a_body_lasts_until_it_is_out_although_the_answer_has_begun(void **state)
{
    static const char *const transports[] = {"direct", "curl"};

    (void)state;
    pad = pattern_new(PAD);
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (size_t t = 0; t < sizeof transports / sizeof *transports; t++) {
            row = &rows[r];
            print_message("  %s, over %s\n", row->name, transports[t]);
            perform(transports[t]);
        }
    free(pad);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_lasts_until_it_is_out_although_the_answer_has_begun),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
