/*
 * What happens when a step does this or that: right things, and things that a step must not do. One step type whose act is
 * named by the request; through the test kit, so through the public ABI.
 */
#include <coordinator/answer.h>
#include <coordinator/background.h>
#include <coordinator/call.h>
#include <coordinator/response.h>
#include <coordinator/testkit.h>
#include <coordinator/wait.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static const char CHAT[] = "/v1/chat/completions";
static const int64_t MS = COORD_KIT_MS;

enum { PIECE = 65536, PIECES = 128 };

struct act_state {
    coord_upstream *other;
};

/* What acts leave for the test to look at. */
static atomic_int slots_destroyed, written, last_status, background_ran, background_released, offloaded, event_users,
    in_act;
static atomic_bool flag;

static void pause_ns(int64_t ns)
{
    nanosleep(&(struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000}, NULL);
}

/* ---- Acts: what a step may get wrong ---- */

static coord_status say_done(struct act_state *state, coord_request *request)
{
    (void)state, (void)request;
    return COORD_DONE;
}

static coord_status answer(coord_request *request, const char *text)
{
    return coord_answer(request, 200, "text/plain", coord_slice_of(text), NULL);
}

static coord_status answer_then_fail(struct act_state *state, coord_request *request)
{
    (void)state;
    answer(request, "first");
    return coord_fail(request, 503, NULL, "too late to fail");
}

static coord_status answer_then_error(struct act_state *state, coord_request *request)
{
    (void)state;
    answer(request, "first");
    return COORD_LIMIT;
}

static coord_status answer_twice(struct act_state *state, coord_request *request)
{
    (void)state;
    answer(request, "first");
    atomic_store(&last_status, answer(request, "second"));
    return COORD_DONE;
}

static coord_status answer_then_next(struct act_state *state, coord_request *request)
{
    (void)state;
    answer(request, "first");
    return COORD_NEXT;
}

static coord_status negative(struct act_state *state, coord_request *request)
{
    (void)state, (void)request;
    return COORD_MISTYPED;
}

static coord_status unknown(struct act_state *state, coord_request *request)
{
    (void)state, (void)request;
    return 77;
}

static coord_status cancelled_for_nothing(struct act_state *state, coord_request *request)
{
    (void)state, (void)request;
    return COORD_CANCELLED;
}

static coord_status begin_without_end(struct act_state *state, coord_request *request)
{
    (void)state;
    if (coord_answer_begin(request, 200, "text/plain", NULL) != COORD_OK ||
        coord_answer_write(request, coord_slice_of("some")) != COORD_OK)
        return COORD_FAIL;
    return COORD_DONE;
}

static coord_status begin_then_proxy(struct act_state *state, coord_request *request)
{
    coord_call *call = coord_call_gateway_new(request, "decode", COORD_PHASE_DECODE);

    (void)state;
    if (!call || coord_answer_begin(request, 200, "text/plain", NULL) != COORD_OK ||
        coord_answer_write(request, coord_slice_of("mine")) != COORD_OK)
        return COORD_FAIL;
    atomic_store(&last_status, coord_call_proxy(call));
    return coord_answer_end(request);
}

static coord_status fail_fully(struct act_state *state, coord_request *request)
{
    (void)state;
    return coord_fail_with(request,
                           &(coord_failure){.size = sizeof(coord_failure),
                                            .status = 429,
                                            .code = "quota",
                                            .type = "billing",
                                            .message = "no \"more\" today",
                                            .param = "/model",
                                            .headers = (const char *const[]){"Retry-After", "7", "Content-Length", "5",
                                                                             "X-Team", "a", NULL},
                                            .cause = "the quota service said no"});
}

static coord_status fail_at_length(struct act_state *state, coord_request *request)
{
    (void)state;
    return coord_fail(request, 400, NULL, "at length: %05000d", 7);
}

static coord_status fail_at_length_with_headers(struct act_state *state, coord_request *request)
{
    static char text[5000];

    (void)state;
    memset(text, 'y', sizeof text - 1);
    return coord_fail_with(request,
                           &(coord_failure){.size = sizeof(coord_failure),
                                            .status = 409,
                                            .message = text,
                                            .headers = (const char *const[]){"X Bad", "1", "X-Good", "2", NULL}});
}

static coord_status bad_headers(struct act_state *state, coord_request *request)
{
    (void)state;
    atomic_store(&last_status, coord_answer(request, 200, "text/plain", coord_slice_of("x"),
                                            (const char *const[]){"X-A", "b\r\nc", NULL}));
    return coord_answer(request, 200, "text/plain", coord_slice_of("good"),
                        (const char *const[]){"Content-Length", "1", "X-Request-Id", "mine", "X-A", "b", NULL});
}

/* ---- Acts: slots and waiting ---- */

static void slot_destroy(void *value)
{
    atomic_fetch_add(&slots_destroyed, 1);
    free(value);
}

static const coord_slot_type SLOT = {.size = sizeof SLOT, .name = "act", .destroy = slot_destroy};

static coord_status set_slots(coord_request *request)
{
    if (coord_request_set_slot(request, &SLOT, malloc(1)) != COORD_OK ||
        coord_request_set_slot(request, &SLOT, malloc(2)) != COORD_OK)
        return coord_fail(request, 500, NULL, "no slot");
    return coord_request_slot(request, &SLOT) ? COORD_OK : COORD_FAIL;
}

static coord_status slots_then_answer(struct act_state *state, coord_request *request)
{
    (void)state;
    return set_slots(request) == COORD_OK ? answer(request, "slots") : COORD_FAIL;
}

static coord_status slots_then_fail(struct act_state *state, coord_request *request)
{
    (void)state;
    return set_slots(request) == COORD_OK ? coord_fail(request, 400, NULL, "on purpose") : COORD_FAIL;
}

static coord_status slots_then_sleep(struct act_state *state, coord_request *request)
{
    coord_status status;

    (void)state;
    if (set_slots(request) != COORD_OK)
        return COORD_FAIL;
    atomic_store(&in_act, 1);
    status = coord_sleep(request, 3600 * 1000 * MS);
    atomic_store(&last_status, status);
    return status;
}

static coord_status sleep_a_little(struct act_state *state, coord_request *request)
{
    (void)state;
    return coord_sleep(request, 20 * MS) == COORD_OK && coord_sleep(request, 0) == COORD_OK ? answer(request, "slept")
                                                                                            : COORD_FAIL;
}

static void *write_later(void *argument)
{
    pause_ns(10 * MS);
    if (write(*(int *)argument, "x", 1) != 1)
        abort();
    return NULL;
}

static coord_status wait_descriptor(struct act_state *state, coord_request *request)
{
    int ends[2], file = open("/dev/null", O_RDONLY | O_CLOEXEC), regular = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    int32_t ready = 0;
    pthread_t thread;
    coord_status timeout, invalid, readable;

    (void)state;
    if (pipe(ends) != 0)
        abort();
    timeout = coord_wait_fd(request, ends[0], COORD_READABLE, MS, NULL);
    invalid = coord_wait_fd(request, regular, COORD_READABLE, -1, NULL);
    if (pthread_create(&thread, NULL, write_later, &ends[1]) != 0)
        abort();
    readable = coord_wait_fd(request, ends[0], COORD_READABLE, -1, &ready);
    pthread_join(thread, NULL);
    close(ends[0]), close(ends[1]), close(file), close(regular);
    if (timeout != COORD_END || invalid != COORD_INVALID || readable != COORD_OK || ready != COORD_READABLE)
        return coord_fail(request, 500, NULL, "%d %d %d %d", timeout, invalid, readable, ready);
    return answer(request, "ready");
}

/* Two requests on one reactor, one descriptor: the kit's bytes in it wake both. */
static int shared[2];

static coord_status wait_shared(struct act_state *state, coord_request *request)
{
    int32_t ready = 0;
    coord_status status;

    (void)state;
    atomic_fetch_add(&in_act, 1);
    status = coord_wait_fd(request, shared[0], COORD_READABLE, 5000 * MS, &ready);
    return status == COORD_OK && ready == COORD_READABLE ? answer(request, "shared")
                                                         : coord_fail(request, 500, NULL, "%d %d", status, ready);
}

static coord_status wait_descriptor_long(struct act_state *state, coord_request *request)
{
    int ends[2];
    coord_status status;

    (void)state;
    if (pipe(ends) != 0)
        abort();
    atomic_store(&in_act, 1);
    status = coord_wait_fd(request, ends[0], COORD_READABLE, -1, NULL);
    atomic_store(&last_status, status);
    close(ends[0]), close(ends[1]);
    return status;
}

static void *post_often(void *argument)
{
    coord_event *event = argument;

    for (int i = 0; i < 50 || atomic_load(&flag); i++) {
        coord_event_post(event);
        pause_ns(MS / 10);
    }
    coord_event_unref(event);
    atomic_fetch_sub(&event_users, 1);
    return NULL;
}

static coord_event *event_with_poster(coord_request *request)
{
    coord_event *event = coord_event_new(request);
    pthread_t thread;

    if (!event)
        return NULL;
    coord_event_ref(event);
    atomic_fetch_add(&event_users, 1);
    if (pthread_create(&thread, NULL, post_often, event) != 0)
        abort();
    pthread_detach(thread);
    return event;
}

static coord_status wait_event(struct act_state *state, coord_request *request)
{
    coord_event *quiet = coord_event_new(request), *event = event_with_poster(request);
    coord_status got = event ? coord_event_wait(event, -1) : COORD_FAIL;
    coord_status timeout = quiet ? coord_event_wait(quiet, MS) : COORD_FAIL;

    (void)state;
    coord_event_post(quiet);
    coord_event_post(quiet);
    if (got != COORD_OK || timeout != COORD_END || coord_event_wait(quiet, -1) != COORD_OK ||
        coord_event_wait(quiet, 0) != COORD_END)
        return coord_fail(request, 500, NULL, "%d %d", got, timeout);
    return answer(request, "posted"); /* the poster goes on after the request's end */
}

static coord_status wait_event_long(struct act_state *state, coord_request *request)
{
    coord_event *event = coord_event_new(request), *other = event_with_poster(request);
    coord_status status;

    (void)state;
    atomic_store(&in_act, 1);
    status = event && other ? coord_event_wait(event, -1) : COORD_FAIL;
    atomic_store(&last_status, status);
    return status;
}

static void block_a_little(void *argument)
{
    pthread_t *who = argument;

    pause_ns(30 * MS);
    *who = pthread_self();
    atomic_fetch_add(&offloaded, 1);
}

static coord_status offload(struct act_state *state, coord_request *request)
{
    pthread_t who;

    (void)state;
    if (coord_offload(request, block_a_little, &who) != COORD_OK)
        return COORD_FAIL;
    return answer(request, pthread_equal(who, pthread_self()) ? "same thread" : "another thread");
}

static void block_until_flag(void *argument)
{
    atomic_store(&in_act, 1);
    while (!atomic_load(&flag))
        pause_ns(MS);
    *(int *)argument = 1; /* on the fiber's stack: it must still be there */
}

static coord_status offload_long(struct act_state *state, coord_request *request)
{
    int done = 0;
    coord_status status = coord_offload(request, block_until_flag, &done);

    (void)state;
    atomic_store(&last_status, status == COORD_CANCELLED && done ? COORD_CANCELLED : COORD_INVALID);
    return status;
}

static coord_status block(struct act_state *state, coord_request *request)
{
    (void)state;
    pause_ns(300 * MS);
    return answer(request, "blocked");
}

/* ---- Acts: calls ---- */

static coord_call *other_call(struct act_state *state, coord_request *request, const char *path)
{
    coord_call *call = coord_call_upstream_new(request, "other", state->other, false);

    if (call &&
        (coord_call_set_method(call, "GET") != COORD_OK || coord_call_set_path(call, coord_slice_of(path)) != COORD_OK))
        return NULL;
    return call;
}

static coord_status many_calls(struct act_state *state, coord_request *request)
{
    coord_call *calls[6];
    coord_status status;

    for (int i = 0; i < 6; i++) {
        char path[16];

        snprintf(path, sizeof path, "/part/%d", i);
        calls[i] = other_call(state, request, path);
        if (!calls[i])
            return COORD_FAIL;
    }
    status = coord_calls_run(calls, 6, 2);
    if (status != COORD_OK)
        return status;
    for (int i = 0; i < 6; i++)
        if (coord_call_status(calls[i]) != 200 || !coord_slice_is(coord_call_body(calls[i]), "part"))
            return coord_fail(request, 500, NULL, "call %d has %d", i, coord_call_status(calls[i]));
    return answer(request, "all");
}

static coord_call *peek(coord_request *request)
{
    coord_call *call = coord_call_gateway_new(request, "decode", COORD_PHASE_DECODE);

    return call && coord_call_set_body(call, coord_request_body(request)) == COORD_OK &&
                   coord_call_head(call) == COORD_OK
               ? call
               : NULL;
}

static coord_status head_then_discard(struct act_state *state, coord_request *request)
{
    coord_call *call = peek(request);
    coord_slice value = {0};

    (void)state;
    if (!call || coord_call_header(call, "X-Worker", &value) != COORD_OK || coord_call_discard(call) != COORD_OK)
        return COORD_FAIL;
    atomic_store(&last_status, coord_call_status(call));
    return coord_call_read(call, &value) == COORD_STATE && coord_call_relay(call) == COORD_STATE ? COORD_NEXT
                                                                                                 : COORD_FAIL;
}

static coord_status head_then_read(struct act_state *state, coord_request *request)
{
    coord_call *call = peek(request);
    coord_status status;
    coord_slice piece;

    (void)state;
    if (!call || coord_answer_begin(request, 200, "text/plain", NULL) != COORD_OK)
        return COORD_FAIL;
    while ((status = coord_call_read(call, &piece)) == COORD_OK)
        if (coord_answer_write(request, piece) != COORD_OK)
            return COORD_CANCELLED;
    return status == COORD_END ? coord_answer_end(request) : status;
}

static coord_status head_then_relay(struct act_state *state, coord_request *request)
{
    coord_call *call = peek(request);

    (void)state;
    return call ? coord_call_relay(call) : COORD_FAIL;
}

/* Goes on as if it had not been told that the client is gone. */
static coord_status head_then_relay_stubbornly(struct act_state *state, coord_request *request)
{
    coord_call *call = peek(request);

    (void)state;
    atomic_store(&in_act, 1);
    if (!call || coord_sleep(request, 3600 * 1000 * MS) != COORD_CANCELLED)
        return COORD_FAIL;
    atomic_store(&last_status, coord_call_relay(call));
    return COORD_DONE;
}

static coord_status relay_twice(struct act_state *state, coord_request *request)
{
    coord_call *first = peek(request), *second = peek(request);

    (void)state;
    if (!first || !second || coord_call_relay(first) != COORD_DONE)
        return COORD_FAIL;
    atomic_store(&last_status, coord_call_relay(second));
    return COORD_DONE;
}

static coord_status keep_failure(struct act_state *state, coord_request *request)
{
    coord_call *call = other_call(state, request, "/dead");

    if (!call || coord_call_keep_failure(call) != COORD_OK || coord_call_run(call) != COORD_OK)
        return COORD_FAIL;
    return coord_call_status(call) == 0 && coord_call_body(call).size == 0 ? COORD_NEXT : COORD_FAIL;
}

static coord_status setters(struct act_state *state, coord_request *request)
{
    coord_call *call = other_call(state, request, "/set?q=1");
    static const char big[] = "0123456789";

    if (!call || coord_call_set_path(call, coord_slice_of("no-slash")) != COORD_INVALID ||
        coord_call_set_path(call, coord_slice_of("/a b")) != COORD_INVALID ||
        coord_call_set_header(call, "X A", coord_slice_of("v")) != COORD_INVALID ||
        coord_call_set_header(call, "X-A", coord_slice_of("v\nw")) != COORD_INVALID ||
        coord_call_set_method(call, "G ET") != COORD_INVALID ||
        coord_call_set_header(call, "X-A", coord_slice_of("v")) != COORD_OK ||
        coord_call_set_text(call, coord_slice_of(big), "text/plain") != COORD_OK ||
        coord_call_set_limit(call, 4) != COORD_OK)
        return coord_fail(request, 500, NULL, "a setter");
    atomic_store(&last_status, coord_call_run(call));
    if (coord_call_set_path(call, coord_slice_of("/late")) != COORD_STATE || coord_call_run(call) != COORD_STATE)
        return coord_fail(request, 500, NULL, "a setter, late");
    return COORD_FAIL;
}

static coord_status set_owned_headers(struct act_state *state, coord_request *request)
{
    static const char *const NAMES[] = {"Content-Length", "Transfer-Encoding", "Connection",
                                        "Host",           "X-Request-Id",      "Traceparent"};
    coord_call *call = other_call(state, request, "/owned");
    int refused = 0;

    for (size_t i = 0; call && i < sizeof NAMES / sizeof *NAMES; i++)
        refused += coord_call_set_header(call, NAMES[i], coord_slice_of("5")) == COORD_INVALID;
    atomic_store(&last_status, refused);
    return call && coord_call_set_text(call, coord_slice_of("body"), "text/plain") == COORD_OK &&
                   coord_call_run(call) == COORD_OK
               ? answer(request, "sent")
               : COORD_FAIL;
}

static void in_background(coord_request *background, void *argument)
{
    struct act_state *state = argument;
    coord_call *call = other_call(state, background, "/audit"), *probe = other_call(state, background, "/");

    if (call && coord_call_run(call) == COORD_OK && coord_request_model(background).size == 1 &&
        coord_sleep(background, MS) == COORD_OK && answer(background, "to nobody") == COORD_STATE && probe &&
        coord_call_proxy(probe) == COORD_STATE)
        atomic_fetch_add(&background_ran, 1);
    if (coord_background(background, in_background, NULL, NULL) == COORD_OK)
        abort(); /* not from there */
}

static void release_background(void *argument)
{
    (void)argument;
    atomic_fetch_add(&background_released, 1);
}

static coord_status work_later(struct act_state *state, coord_request *request)
{
    if (coord_background(request, in_background, state, release_background) != COORD_OK)
        return COORD_FAIL;
    return answer(request, "audited");
}

static coord_status work_later_and_fail(struct act_state *state, coord_request *request)
{
    return coord_background(request, in_background, state, release_background) == COORD_OK
               ? coord_fail(request, 400, NULL, "no")
               : COORD_FAIL;
}

static coord_status stream_much(struct act_state *state, coord_request *request)
{
    static char piece[PIECE];

    (void)state;
    memset(piece, 'x', sizeof piece);
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

/* ---- Acts: writers ---- */

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
    atomic_fetch_add(&slots_destroyed, 1);
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

static const struct {
    const char *name;
    coord_status (*act)(struct act_state *state, coord_request *request);
} ACTS[] = {
    {"say_done", say_done},
    {"answer_then_fail", answer_then_fail},
    {"answer_then_error", answer_then_error},
    {"answer_twice", answer_twice},
    {"answer_then_next", answer_then_next},
    {"negative", negative},
    {"unknown", unknown},
    {"cancelled_for_nothing", cancelled_for_nothing},
    {"begin_without_end", begin_without_end},
    {"begin_then_proxy", begin_then_proxy},
    {"fail_fully", fail_fully},
    {"fail_at_length", fail_at_length},
    {"fail_at_length_with_headers", fail_at_length_with_headers},
    {"bad_headers", bad_headers},
    {"slots_then_answer", slots_then_answer},
    {"slots_then_fail", slots_then_fail},
    {"slots_then_sleep", slots_then_sleep},
    {"sleep_a_little", sleep_a_little},
    {"wait_descriptor", wait_descriptor},
    {"wait_descriptor_long", wait_descriptor_long},
    {"wait_shared", wait_shared},
    {"wait_event", wait_event},
    {"wait_event_long", wait_event_long},
    {"offload", offload},
    {"offload_long", offload_long},
    {"block", block},
    {"many_calls", many_calls},
    {"head_then_discard", head_then_discard},
    {"head_then_read", head_then_read},
    {"head_then_relay", head_then_relay},
    {"head_then_relay_stubbornly", head_then_relay_stubbornly},
    {"relay_twice", relay_twice},
    {"keep_failure", keep_failure},
    {"setters", setters},
    {"set_owned_headers", set_owned_headers},
    {"work_later", work_later},
    {"work_later_and_fail", work_later_and_fail},
    {"stream_much", stream_much},
    {"wrap_holder", wrap_holder},
    {"wrap_finisher", wrap_finisher},
    {"wrap_cutter", wrap_cutter},
};

/* ---- The step ---- */

static coord_status act_create(const coord_config *config, void **state, coord_error *error)
{
    struct act_state *self = calloc(1, sizeof *self);

    if (!self || coord_upstream_open(config, "other", NULL, &self->other, error) != COORD_OK) {
        free(self);
        return COORD_FAIL;
    }
    *state = self;
    return COORD_OK;
}

static coord_status act_execute(void *state, coord_request *request)
{
    coord_slice name;

    if (coord_request_header(request, "x-act", &name) != COORD_OK)
        return COORD_NEXT;
    for (size_t i = 0; i < sizeof ACTS / sizeof *ACTS; i++)
        if (coord_slice_is(name, ACTS[i].name))
            return ACTS[i].act(state, request);
    return coord_fail(request, 500, NULL, "no such act");
}

static const coord_param PARAMS[] = {
    {COORD_PARAM(URL, "other", "An upstream of its own."), .flags = COORD_PARAM_REQUIRED}};

static const coord_step_type ACT = {
    .size = sizeof ACT,
    .name = "act",
    .help = "Does what the request says.",
    COORD_STEP_PARAMS(PARAMS),
    .create = act_create,
    .execute = act_execute,
    .destroy = free,
};

COORD_PLUGIN(.name = "act", .version = "1", .licence = "Apache-2.0",
             .steps = (const coord_step_type *const[]){&ACT, NULL})

/* ---- What the tests share ---- */

static coord_kit *kit;

static int setup(void **state)
{
    (void)state;
    kit = coord_kit_start(&(coord_kit_options){
        .size = sizeof(coord_kit_options),
        .reactors = 2,
        .yaml = "log_level: 2\n"
                "runtime: {blocking_warning: 50ms}\n"
                "response: {buffer_high: 128KiB, buffer_low: 32KiB}\n"
                "pipeline: {steps: [{type: act, id: first, params: {other: \"http://other.kit\"}}, {type: decode}]}\n",
        .plugins = (const coord_plugin_descriptor *const[]){&coord_plugin, NULL}});
    if (!kit)
        fail_msg("%s", coord_kit_problem());
    atomic_store(&last_status, 12345);
    atomic_store(&slots_destroyed, 0);
    atomic_store(&in_act, 0);
    atomic_store(&written, 0);
    atomic_store(&background_ran, 0);
    atomic_store(&background_released, 0);
    atomic_store(&flag, false);
    return 0;
}

static bool no_event_users(void *argument)
{
    (void)argument;
    return atomic_load(&event_users) == 0;
}

static int teardown(void **state)
{
    (void)state;
    atomic_store(&flag, false);
    if (!coord_kit_wait(kit, no_event_users, NULL))
        return -1;
    return coord_kit_stop(kit) ? 0 : -1;
}

static coord_kit_client *send_act(const char *name, bool reads_little)
{
    coord_kit_client *client =
        coord_kit_send(kit, &(coord_kit_request){.target = CHAT,
                                                 .body = COORD_SLICE("{\"model\":\"m\"}"),
                                                 .headers = (const char *const[]){"X-Act", name, NULL},
                                                 .reads_little = reads_little});

    assert_non_null(client);
    return client;
}

static const coord_kit_message *perform(const char *name)
{
    coord_kit_client *client = send_act(name, false);

    coord_kit_read(client, COORD_KIT_ALL);
    coord_kit_leave(client);
    return coord_kit_answer(client);
}

static void assert_holds(const coord_kit_message *message, const char *text)
{
    if (!message->body.data || !memmem(message->body.data, message->body.size, text, strlen(text)))
        fail_msg("\"%s\" is not in %.*s", text, COORD_FMT(message->body));
}

static void assert_body(const coord_kit_message *message, int32_t status, const char *text)
{
    if (message->status != status || !message->whole || !coord_slice_is(message->body, text))
        fail_msg("%d whole=%d %.*s", message->status, message->whole, COORD_FMT(message->body));
}

static bool is_value(void *argument)
{
    atomic_int *const *pair = argument;

    return atomic_load(pair[0]) == atomic_load(pair[1]);
}

static void wait_value(atomic_int *value, int wanted)
{
    atomic_int copy = wanted;

    if (!coord_kit_wait(kit, is_value, (atomic_int *[]){value, &copy}))
        fail_msg("%d instead of %d", atomic_load(value), wanted);
}

/* ---- Answers and failures ---- */

static void done_without_an_answer_is_a_500_that_names_the_step(void **state)
{
    const coord_kit_message *got = perform("say_done");

    (void)state;
    assert_int_equal(got->status, 500);
    assert_holds(got, "step first said that it had answered, but it had not");
    assert_int_equal(coord_kit_leg_count(kit, NULL), 0);
}

static void the_first_answer_wins_over_a_later_failure_which_is_logged(void **state)
{
    (void)state;
    assert_body(perform("answer_then_fail"), 200, "first");
    assert_true(coord_kit_logged(kit, "too late to fail"));
    assert_body(perform("answer_then_error"), 200, "first");
    assert_true(coord_kit_logged(kit, "step first failed without saying why"));
    assert_body(perform("answer_twice"), 200, "first");
    wait_value(&last_status, COORD_STATE);
}

static void an_answered_request_goes_no_further(void **state)
{
    (void)state;
    assert_body(perform("answer_then_next"), 200, "first");
    assert_true(coord_kit_logged(kit, "status=200"));
    assert_int_equal(coord_kit_leg_count(kit, NULL), 0);
}

static void a_negative_status_without_a_reason_is_a_500_that_names_the_step(void **state)
{
    (void)state;
    assert_int_equal(perform("negative")->status, 500);
    assert_true(coord_kit_logged(kit, "execute returned -4"));
    assert_holds(perform("negative"), "step first failed without saying why");
    assert_int_equal(perform("unknown")->status, 500);
    assert_true(coord_kit_logged(kit, "execute returned 77"));
    assert_int_equal(perform("cancelled_for_nothing")->status, 500);
    assert_int_equal(coord_kit_leg_count(kit, NULL), 0);
}

static void an_answer_that_is_not_ended_is_cut(void **state)
{
    const coord_kit_message *got = perform("begin_without_end");

    (void)state;
    assert_int_equal(got->status, 200);
    assert_true(coord_slice_is(got->body, "some"));
    assert_false(got->whole);
}

static void a_workers_answer_does_not_get_into_an_answer_that_has_begun(void **state)
{
    (void)state;
    coord_kit_on(kit, &(coord_kit_rule){.body = COORD_SLICE("the worker's")});
    assert_body(perform("begin_then_proxy"), 200, "mine");
    assert_int_equal(atomic_load(&last_status), COORD_STATE);
    assert_int_equal(coord_kit_leg_count(kit, NULL), 0);
}

static void a_failure_takes_code_type_param_and_headers(void **state)
{
    const coord_kit_message *got = perform("fail_fully");

    (void)state;
    assert_body(got, 429,
                "{\"error\":{\"message\":\"no \\\"more\\\" "
                "today\",\"type\":\"billing\",\"param\":\"/model\",\"code\":\"quota\"}}");
    assert_true(coord_kit_header_is(got, "retry-after", "7"));
    assert_true(coord_kit_header_is(got, "x-team", "a"));
    assert_true(coord_kit_logged(kit, "the quota service said no"));
}

static void a_long_message_is_cut_and_a_bad_header_left_out(void **state)
{
    const coord_kit_message *got = perform("fail_at_length");

    (void)state;
    assert_int_equal(got->status, 400);
    assert_holds(got, "at length: 0000");
    assert_true(got->body.size > 900);
    got = perform("fail_at_length_with_headers");
    assert_int_equal(got->status, 409);
    assert_holds(got, "yyyyyy");
    assert_true(coord_kit_header_is(got, "x-good", "2"));
}

static void headers_of_an_answer_cannot_break_its_framing(void **state)
{
    const coord_kit_message *got = perform("bad_headers");

    (void)state;
    assert_int_equal(atomic_load(&last_status), COORD_INVALID);
    assert_body(got, 200, "good");
    assert_true(coord_kit_header_is(got, "content-length", "4"));
    assert_true(coord_kit_header_is(got, "x-a", "b"));
    assert_false(coord_kit_header_is(got, "x-request-id", "mine"));
}

/* ---- Slots and waiting ---- */

static void each_slot_is_destroyed_once(void **state)
{
    coord_kit_client *client;

    (void)state;
    assert_body(perform("slots_then_answer"), 200, "slots");
    wait_value(&slots_destroyed, 2);
    assert_int_equal(perform("slots_then_fail")->status, 400);
    wait_value(&slots_destroyed, 4);
    client = send_act("slots_then_sleep", false);
    wait_value(&in_act, 1);
    coord_kit_leave(client);
    wait_value(&slots_destroyed, 6);
    assert_int_equal(atomic_load(&last_status), COORD_CANCELLED);
}

static void waiting_ends_with_what_it_waits_for(void **state)
{
    (void)state;
    assert_body(perform("sleep_a_little"), 200, "slept");
    assert_body(perform("wait_descriptor"), 200, "ready");
    assert_body(perform("wait_event"), 200, "posted");
    assert_body(perform("offload"), 200, "another thread");
}

static void requests_may_wait_for_the_same_descriptor(void **state)
{
    enum { WAITERS = 6 }; /* on two reactors: some share one */
    coord_kit_client *clients[WAITERS];

    (void)state;
    assert_int_equal(pipe(shared), 0);
    for (int i = 0; i < WAITERS; i++)
        clients[i] = send_act("wait_shared", false);
    wait_value(&in_act, WAITERS);
    assert_int_equal(write(shared[1], "x", 1), 1);
    for (int i = 0; i < WAITERS; i++) {
        assert_true(coord_kit_read(clients[i], COORD_KIT_ALL));
        assert_body(coord_kit_answer(clients[i]), 200, "shared");
    }
    close(shared[0]);
    close(shared[1]);
}

static void waiting_ends_when_the_client_leaves(void **state)
{
    static const char *const NAMES[] = {"slots_then_sleep", "wait_descriptor_long", "wait_event_long"};

    (void)state;
    atomic_store(&flag, true); /* the event's poster goes on meanwhile */
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        coord_kit_client *client;

        atomic_store(&in_act, 0);
        atomic_store(&last_status, 12345);
        client = send_act(NAMES[i], false);
        wait_value(&in_act, 1);
        coord_kit_leave(client);
        wait_value(&last_status, COORD_CANCELLED);
    }
}

static void offloaded_work_is_waited_for_also_when_the_client_has_left(void **state)
{
    coord_kit_client *client = send_act("offload_long", false);

    (void)state;
    wait_value(&in_act, 1);
    coord_kit_leave(client);
    pause_ns(50 * MS);
    assert_int_equal(atomic_load(&last_status), 12345);
    atomic_store(&flag, true);
    wait_value(&last_status, COORD_CANCELLED);
}

static void a_step_that_blocks_its_reactor_is_named(void **state)
{
    (void)state;
    assert_body(perform("block"), 200, "blocked");
    assert_true(coord_kit_logged(kit, "blocks its reactor"));
    assert_true(coord_kit_logged(kit, "step=first"));
    assert_true(coord_kit_metric("reactor_blocked_total", &(coord_slice)COORD_SLICE("first")) >= 1);
}

/* ---- Calls ---- */

static void many_calls_run_so_many_at_a_time(void **state)
{
    coord_kit_client *client;

    (void)state;
    coord_kit_on(kit, &(coord_kit_rule){.upstream = "other", .gate = "parts", .body = COORD_SLICE("part")});
    client = send_act("many_calls", false);
    assert_non_null(coord_kit_leg(kit, "other", 1));
    pause_ns(30 * MS);
    assert_int_equal(coord_kit_leg_count(kit, "other"), 2);
    coord_kit_open(kit, "parts");
    assert_true(coord_kit_read(client, COORD_KIT_ALL));
    assert_body(coord_kit_answer(client), 200, "all");
    assert_int_equal(coord_kit_leg_count(kit, "other"), 6);
    assert_int_equal(coord_kit_leg(kit, "other", 0)->body.size, 0);
}

static void the_first_call_that_fails_cancels_the_rest(void **state)
{
    const coord_kit_message *slow = NULL;
    coord_kit_client *client;

    (void)state;
    coord_kit_on(kit, &(coord_kit_rule){.path = "/part/0", .gate = "never"});
    coord_kit_on(kit, &(coord_kit_rule){.path = "/part/1", .body = COORD_SLICE("part")});
    coord_kit_on(kit, &(coord_kit_rule){.path = "/part/2",
                                        .gate = "all are there",
                                        .status = 422,
                                        .body = COORD_SLICE("{\"error\":{\"message\":\"part 2\"}}")});
    client = send_act("many_calls", false);
    for (size_t i = 0; i < 3; i++) {
        const coord_kit_message *leg = coord_kit_leg(kit, "other", i);

        assert_non_null(leg);
        if (coord_slice_is(leg->target, "/part/0"))
            slow = leg;
    }
    assert_non_null(slow);
    coord_kit_open(kit, "all are there");
    assert_true(coord_kit_read(client, COORD_KIT_ALL));
    assert_body(coord_kit_answer(client), 422, "{\"error\":{\"message\":\"part 2\"}}");
    assert_true(coord_kit_leg_left(kit, slow));
    assert_int_equal(coord_kit_leg_count(kit, "other"), 3);
}

static void a_peeked_answer_is_discarded_read_or_relayed(void **state)
{
    static const coord_kit_piece pieces[] = {{.bytes = COORD_SLICE("one ")},
                                             {.bytes = COORD_SLICE("two"), .delay_ns = 5 * COORD_KIT_MS}};
    static const char *const headers[] = {"X-Worker", "w", NULL};

    (void)state;
    coord_kit_on(kit,
                 &(coord_kit_rule){.times = 1, .status = 412, .headers = headers, .body = COORD_SLICE("not here")});
    coord_kit_on(kit, &(coord_kit_rule){.times = 1, .body = COORD_SLICE("then decode")});
    coord_kit_on(kit, &(coord_kit_rule){.headers = headers, .pieces = pieces, .piece_count = 2});
    assert_body(perform("head_then_discard"), 200, "then decode");
    assert_int_equal(atomic_load(&last_status), 412);
    assert_body(perform("head_then_read"), 200, "one two");
    assert_body(perform("head_then_relay"), 200, "one two");
    assert_true(coord_kit_header_is(perform("head_then_relay"), "x-worker", "w"));
}

static void a_relay_after_the_client_has_left_says_so(void **state)
{
    static const coord_kit_piece pieces[] = {{.bytes = COORD_SLICE("one ")},
                                             {.bytes = COORD_SLICE("two"), .gate = "never"}};
    coord_kit_client *client;

    (void)state;
    coord_kit_on(kit, &(coord_kit_rule){.pieces = pieces, .piece_count = 2});
    client = send_act("head_then_relay_stubbornly", false);
    wait_value(&in_act, 1);
    coord_kit_leave(client);
    wait_value(&last_status, COORD_CANCELLED);
    assert_true(coord_kit_logged(kit, "outcome=client_gone"));
}

static void a_second_relay_says_that_there_is_an_answer(void **state)
{
    (void)state;
    coord_kit_on(kit, &(coord_kit_rule){.body = COORD_SLICE("whole")});
    assert_body(perform("relay_twice"), 200, "whole");
    wait_value(&last_status, COORD_STATE);
}

static void a_kept_failure_lets_the_pipeline_go_on(void **state)
{
    (void)state;
    coord_kit_on(kit, &(coord_kit_rule){.upstream = "other", .status = COORD_KIT_NO_HEAD, .ending = COORD_KIT_CUT});
    coord_kit_on(kit, &(coord_kit_rule){.body = COORD_SLICE("decoded")});
    assert_body(perform("keep_failure"), 200, "decoded");
}

static void setters_say_what_may_not_stand_there(void **state)
{
    const coord_kit_message *got, *leg;

    (void)state;
    coord_kit_on(kit, &(coord_kit_rule){.body = COORD_SLICE("too long an answer")});
    got = perform("setters");
    assert_int_equal(got->status, 502);
    assert_holds(got, "more than 4 bytes");
    assert_int_equal(atomic_load(&last_status), COORD_FAIL);
    leg = coord_kit_leg(kit, "other", 0);
    assert_true(coord_slice_is(leg->target, "/set?q=1"));
    assert_true(coord_slice_is(leg->body, "0123456789"));
    assert_true(coord_kit_header_is(leg, "x-a", "v"));
    assert_true(coord_kit_header_is(leg, "content-type", "text/plain"));
}

static void headers_that_frame_a_leg_are_the_cores(void **state)
{
    const coord_kit_message *leg;

    (void)state;
    coord_kit_on(kit, &(coord_kit_rule){0});
    assert_body(perform("set_owned_headers"), 200, "sent");
    assert_int_equal(atomic_load(&last_status), 6);
    leg = coord_kit_leg(kit, "other", 0);
    assert_true(coord_slice_is(leg->body, "body"));
    assert_true(coord_kit_header_is(leg, "content-length", "4"));
    assert_false(coord_kit_header_is(leg, "x-request-id", "5"));
    assert_false(coord_kit_header_is(leg, "host", "5"));
}

static void background_work_runs_after_the_answer_and_is_released(void **state)
{
    (void)state;
    coord_kit_on(kit, &(coord_kit_rule){.path = "/audit", .gate = "audit"});
    assert_body(perform("work_later"), 200, "audited");
    assert_int_equal(perform("work_later_and_fail")->status, 400);
    assert_int_equal(atomic_load(&background_ran), 0);
    coord_kit_open(kit, "audit");
    wait_value(&background_ran, 2);
    wait_value(&background_released, 2);
    assert_int_equal(coord_kit_leg_count(kit, "other"), 2);
}

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
    wait_value(&slots_destroyed, 1);
}

static void a_writer_that_finishes_ends_the_answer_and_the_leg(void **state)
{
    static const coord_kit_piece pieces[] = {{.bytes = COORD_SLICE("one ")},
                                             {.bytes = COORD_SLICE("two"), .gate = "never"}};

    (void)state;
    coord_kit_on(kit, &(coord_kit_rule){.pieces = pieces, .piece_count = 2});
    assert_body(perform("wrap_finisher"), 200, "o");
    assert_true(coord_kit_leg_left(kit, coord_kit_leg(kit, "decode", 0)));
    wait_value(&slots_destroyed, 1);
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
    wait_value(&slots_destroyed, 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(done_without_an_answer_is_a_500_that_names_the_step),
        TEST(the_first_answer_wins_over_a_later_failure_which_is_logged),
        TEST(an_answered_request_goes_no_further),
        TEST(a_negative_status_without_a_reason_is_a_500_that_names_the_step),
        TEST(an_answer_that_is_not_ended_is_cut),
        TEST(a_workers_answer_does_not_get_into_an_answer_that_has_begun),
        TEST(a_failure_takes_code_type_param_and_headers),
        TEST(a_long_message_is_cut_and_a_bad_header_left_out),
        TEST(headers_of_an_answer_cannot_break_its_framing),
        TEST(each_slot_is_destroyed_once),
        TEST(waiting_ends_with_what_it_waits_for),
        TEST(requests_may_wait_for_the_same_descriptor),
        TEST(waiting_ends_when_the_client_leaves),
        TEST(offloaded_work_is_waited_for_also_when_the_client_has_left),
        TEST(a_step_that_blocks_its_reactor_is_named),
        TEST(many_calls_run_so_many_at_a_time),
        TEST(the_first_call_that_fails_cancels_the_rest),
        TEST(a_peeked_answer_is_discarded_read_or_relayed),
        TEST(a_relay_after_the_client_has_left_says_so),
        TEST(a_second_relay_says_that_there_is_an_answer),
        TEST(a_kept_failure_lets_the_pipeline_go_on),
        TEST(setters_say_what_may_not_stand_there),
        TEST(headers_that_frame_a_leg_are_the_cores),
        TEST(background_work_runs_after_the_answer_and_is_released),
        TEST(a_slow_client_holds_up_the_step_that_streams),
        TEST(a_slow_client_that_leaves_ends_the_step_that_streams),
        TEST(an_answer_whose_head_a_writer_keeps_is_a_500),
        TEST(a_writer_that_finishes_ends_the_answer_and_the_leg),
        TEST(a_writer_that_cuts_leaves_a_truncated_answer_and_ends_the_leg),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
