/*
 * A step that waits, for time, a descriptor, an event or another thread, and what it leaves when its client does; and one that
 * blocks its reactor instead.
 */
#include "behaviour_step.h"

#include <coordinator/answer.h>
#include <coordinator/testkit.h>
#include <coordinator/wait.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static atomic_int event_users; /* threads that post */
static atomic_bool flag;       /* set: posters go on, offloaded work ends */

/* ---- Acts ---- */

static void slot_destroy(void *value)
{
    atomic_fetch_add(&destroyed, 1);
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

const struct act acts[] = {
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
    {NULL, NULL},
};

/* ---- Slots and waiting ---- */

static bool no_event_users(void *argument)
{
    (void)argument;
    return atomic_load(&event_users) == 0;
}

static int teardown(void **state)
{
    atomic_store(&flag, false);
    return coord_kit_wait(kit, no_event_users, NULL) ? kit_teardown(state) : -1;
}

static void each_slot_is_destroyed_once(void **state)
{
    coord_kit_client *client;

    (void)state;
    assert_body(perform("slots_then_answer"), 200, "slots");
    wait_value(&destroyed, 2);
    assert_int_equal(perform("slots_then_fail")->status, 400);
    wait_value(&destroyed, 4);
    client = send_act("slots_then_sleep", false);
    wait_value(&in_act, 1);
    coord_kit_leave(client);
    wait_value(&destroyed, 6);
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

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, kit_setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(each_slot_is_destroyed_once),
        TEST(waiting_ends_with_what_it_waits_for),
        TEST(requests_may_wait_for_the_same_descriptor),
        TEST(waiting_ends_when_the_client_leaves),
        TEST(offloaded_work_is_waited_for_also_when_the_client_has_left),
        TEST(a_step_that_blocks_its_reactor_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
