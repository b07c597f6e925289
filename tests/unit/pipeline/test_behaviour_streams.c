/*
 * An answer under way: a step that streams to a slow client, and writers that keep, finish or cut the answer.
 */
#include "behaviour_step.h"

#include <coordinator/answer.h>
#include <coordinator/response.h>
#include <coordinator/testkit.h>

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PIECE = 65536, PIECES = 128 };
static atomic_int written;

/* ---- Acts, and writers ---- */

static coord_status stream_much(struct act_state *state, coord_request *request)
{
    static char piece[PIECE];

    (void)state;
    memset(piece, 'x', sizeof piece);
    atomic_store(&written, 0);
    if (coord_answer_begin(request, 200, "text/plain", NULL) != COORD_OK)
        return COORD_FAIL;
    for (int i = 0; i < PIECES; i++) {
        coord_status status = coord_answer_write(request, (coord_slice){piece, sizeof piece});

        if (status != COORD_OK) {
            atomic_store(&last_status, status);
            return status;
        }
        atomic_fetch_add(&written, 1);
    }
    return coord_answer_end(request);
}

static void hold_for_ever(coord_writer *writer, coord_head *head) { (void)writer, (void)head; }

static void finish_at_once(coord_writer *writer, coord_slice bytes)
{
    coord_writer_pass(writer, (coord_slice){bytes.data, 1});
    coord_writer_finish(writer);
}

static void cut_at_once(coord_writer *writer, coord_slice bytes)
{
    coord_writer_pass(writer, bytes);
    coord_writer_pass_abort(writer);
}

static void count_free(coord_writer *writer)
{
    (void)writer;
    atomic_fetch_add(&destroyed, 1);
}

static const coord_writer_type HOLDER = {
    .size = sizeof HOLDER, .flags = COORD_WRITER_REWRITES, .name = "holder", .head = hold_for_ever, .free = count_free};

static const coord_writer_type FINISHER = {.size = sizeof FINISHER,
                                           .flags = COORD_WRITER_REWRITES,
                                           .name = "finisher",
                                           .data = finish_at_once,
                                           .free = count_free};

static const coord_writer_type CUTTER = {
    .size = sizeof CUTTER, .flags = COORD_WRITER_REWRITES, .name = "cutter", .data = cut_at_once, .free = count_free};

static coord_status wrap_holder(struct act_state *state, coord_request *request)
{
    (void)state;
    return coord_request_wrap(request, &HOLDER, NULL);
}

static coord_status wrap_finisher(struct act_state *state, coord_request *request)
{
    (void)state;
    return coord_request_wrap(request, &FINISHER, NULL);
}

static coord_status wrap_cutter(struct act_state *state, coord_request *request)
{
    (void)state;
    return coord_request_wrap(request, &CUTTER, NULL);
}

/* A stack that went deep before the answer: a page of it, and whether it is in memory while the answer is relayed. */
enum { DEEP = 128 * 1024, FRAME = 8 * 1024 };
static _Atomic uintptr_t deep_page;

static __attribute__((noinline)) void go_down(size_t left)
{
    volatile char frame[FRAME];

    for (size_t i = 0; i < sizeof frame; i += 1024)
        frame[i] = 1;
    if (left > sizeof frame)
        go_down(left - sizeof frame);
    else
        atomic_store(&deep_page, (uintptr_t)frame / (uintptr_t)getpagesize() * (uintptr_t)getpagesize());
    frame[0] = 2; /* so that the call is not the last thing, and has a frame of its own */
}

static void look_at_page(coord_writer *writer, coord_slice bytes)
{
    unsigned char resident = 0;
    void *page = (void *)atomic_load(&deep_page); // NOLINT(performance-no-int-to-ptr)

    (void)writer, (void)bytes;
    atomic_store(&last_status, mincore(page, (size_t)getpagesize(), &resident) == 0 ? resident & 1 : -1);
}

static const coord_writer_type LOOKER = {.size = sizeof LOOKER, .name = "looker", .data = look_at_page};

static coord_status go_deep(struct act_state *state, coord_request *request)
{
    (void)state;
    go_down(DEEP);
    return coord_request_wrap(request, &LOOKER, NULL);
}

const struct act acts[] = {
    {"go_deep", go_deep},         {"stream_much", stream_much},
    {"wrap_holder", wrap_holder}, {"wrap_finisher", wrap_finisher},
    {"wrap_cutter", wrap_cutter}, {NULL, NULL},
};

/* ---- Slow clients ---- */

static void a_slow_client_holds_up_the_step_that_streams(void **state)
{
    coord_kit_client *client = send_act("stream_much", true);
    int before, after;

    (void)state;
    assert_true(coord_kit_read(client, 1));
    do {
        before = atomic_load(&written);
        pause_ns(100 * MS);
        after = atomic_load(&written);
    } while (before != after);
    assert_true(after < PIECES / 2);
    assert_true(coord_kit_read(client, COORD_KIT_ALL));
    assert_int_equal(coord_kit_answer(client)->body.size, PIECE * PIECES);
}

static void a_slow_client_that_leaves_ends_the_step_that_streams(void **state)
{
    coord_kit_client *client = send_act("stream_much", true);

    (void)state;
    assert_true(coord_kit_read(client, 1));
    coord_kit_leave(client);
    wait_value(&last_status, COORD_CANCELLED);
}

/* ---- Memory ---- */

static void a_step_that_relays_a_stream_holds_no_stack_that_it_does_not_need(void **state)
{
    static const char *const headers[] = {"X-Act", "go_deep", NULL};
    const coord_kit_request streamed = {
        .target = "/v1/chat/completions", .body = COORD_SLICE("{\"model\":\"m\",\"stream\":true}"), .headers = headers};
    coord_kit_client *client;

    (void)state;
    coord_kit_on(kit, &(coord_kit_rule){.body = COORD_SLICE("data: 1\n\n")});
    assert_body(perform("go_deep"), 200, "data: 1\n\n");
    assert_int_equal(atomic_load(&last_status), 1); /* an answer that is soon over is not worth a system call */
    client = coord_kit_send(kit, &streamed);
    assert_non_null(client);
    coord_kit_read(client, COORD_KIT_ALL);
    assert_body(coord_kit_answer(client), 200, "data: 1\n\n");
    assert_int_equal(atomic_load(&last_status), 0);
}

static void step_has_ended(double before)
{
    static const coord_slice decode = COORD_SLICE("decode");

    for (int i = 0; coord_kit_metric("step_duration_seconds", &decode) == before; i++) {
        assert_true(i < 1000);
        pause_ns(10 * MS);
    }
}

/* Its steps have ended, and others use their stack, before the client has taken the answer. */
static void what_a_stream_keeps_outlives_its_steps(void **state)
{
    enum { OTHERS = 8 };
    static char much[100000]; /* less than buffer_high */
    static const coord_slice decode = COORD_SLICE("decode");
    static const char *const slow[] = {"x-request-id", "the-slow-one", NULL}, *const quick[] = {"x-request-id",
                                                                                                "one-of-the-others",
                                                                                                NULL};
    coord_kit_request request = {.target = "/v1/chat/completions",
                                 .body = COORD_SLICE("{\"model\":\"m\",\"stream\":true}"),
                                 .headers = slow,
                                 .reads_little = true};
    static const coord_kit_piece pieces[] = {{.bytes = {much, sizeof much}}};
    double before = coord_kit_metric("step_duration_seconds", &decode);
    coord_kit_client *client;

    (void)state;
    memset(much, 'x', sizeof much);
    coord_kit_on(kit, &(coord_kit_rule){.times = 1, .pieces = pieces, .piece_count = 1});
    coord_kit_on(kit, &(coord_kit_rule){.body = COORD_SLICE("data: 1\n\n")});
    client = coord_kit_send(kit, &request);
    assert_non_null(client);
    step_has_ended(before);
    request.headers = quick;
    request.reads_little = false;
    for (int i = 0; i < OTHERS; i++)
        assert_body(coord_kit_ask(kit, &request), 200, "data: 1\n\n");
    assert_true(coord_kit_read(client, COORD_KIT_ALL));
    assert_int_equal(coord_kit_answer(client)->body.size, sizeof much);
    assert_true(coord_kit_logged(kit, "request=the-slow-one"));
}

/* ---- Writers ---- */

static void an_answer_whose_head_a_writer_keeps_is_a_500(void **state)
{
    const coord_kit_message *got;

    (void)state;
    coord_kit_on(kit, &(coord_kit_rule){.body = COORD_SLICE("whole")});
    got = perform("wrap_holder");
    assert_int_equal(got->status, 500);
    assert_true(got->whole);
    assert_holds(got, "a response writer ended the answer without its head");
    wait_value(&destroyed, 1);
}

static void a_writer_that_finishes_ends_the_answer_and_the_leg(void **state)
{
    static const coord_kit_piece pieces[] = {{.bytes = COORD_SLICE("one ")},
                                             {.bytes = COORD_SLICE("two"), .gate = "never"}};

    (void)state;
    coord_kit_on(kit, &(coord_kit_rule){.pieces = pieces, .piece_count = 2});
    assert_body(perform("wrap_finisher"), 200, "o");
    assert_true(coord_kit_leg_left(kit, coord_kit_leg(kit, "decode", 0)));
    wait_value(&destroyed, 1);
}

static void a_writer_that_cuts_leaves_a_truncated_answer_and_ends_the_leg(void **state)
{
    static const coord_kit_piece pieces[] = {{.bytes = COORD_SLICE("one ")},
                                             {.bytes = COORD_SLICE("two"), .gate = "never"}};
    const coord_kit_message *got;

    (void)state;
    coord_kit_on(kit, &(coord_kit_rule){.pieces = pieces, .piece_count = 2});
    got = perform("wrap_cutter");
    assert_int_equal(got->status, 200);
    assert_true(coord_slice_is(got->body, "one "));
    assert_false(got->whole);
    assert_true(coord_kit_leg_left(kit, coord_kit_leg(kit, "decode", 0)));
    wait_value(&destroyed, 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, kit_setup, kit_teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_slow_client_holds_up_the_step_that_streams),
        TEST(a_slow_client_that_leaves_ends_the_step_that_streams),
        TEST(a_step_that_relays_a_stream_holds_no_stack_that_it_does_not_need),
        TEST(what_a_stream_keeps_outlives_its_steps),
        TEST(an_answer_whose_head_a_writer_keeps_is_a_500),
        TEST(a_writer_that_finishes_ends_the_answer_and_the_leg),
        TEST(a_writer_that_cuts_leaves_a_truncated_answer_and_ends_the_leg),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
