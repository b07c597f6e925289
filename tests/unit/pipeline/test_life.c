/* The life of a step: which entry point comes when, on which thread, and what happens when one of them fails or the process stops. */
#include <coordinator/answer.h>
#include <coordinator/background.h>
#include <coordinator/testkit.h>
#include <coordinator/wait.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

static const char CHAT[] = "/v1/chat/completions";

static atomic_int created, started, threads_started, executed, threads_stopped, stopped, destroyed, slots_destroyed,
    released;
static atomic_int out_of_order, waiting;

static void expect(bool holds)
{
    if (!holds)
        atomic_fetch_add(&out_of_order, 1);
}

struct life {
    bool fail_start, fail_thread, fail_threads;
};

struct local {
    pthread_t thread;
};

static coord_status life_create(const coord_config *config, void **state, coord_error *error)
{
    struct life *life = calloc(1, sizeof *life);
    coord_slice fails;

    if (!life || coord_config_string(config, "fails", &fails) != COORD_OK)
        return coord_error_set(error, "no");
    atomic_fetch_add(&created, 1);
    life->fail_start = coord_slice_is(fails, "start");
    life->fail_thread = coord_slice_is(fails, "thread_start");
    life->fail_threads = coord_slice_is(fails, "threads");
    *state = life;
    return COORD_OK;
}

/* Threads from now on want a stack that no address space has. */
static void forbid_threads(void)
{
    pthread_attr_t huge;

    expect(pthread_attr_init(&huge) == 0 && pthread_attr_setstacksize(&huge, (size_t)1 << 50) == 0 &&
           pthread_setattr_default_np(&huge) == 0);
    pthread_attr_destroy(&huge);
}

static coord_status life_start(void *state, coord_error *error)
{
    const struct life *life = state;

    expect(atomic_load(&created) == 1 && atomic_load(&threads_started) == 0);
    if (life->fail_start)
        return coord_error_set(error, "start says no");
    atomic_fetch_add(&started, 1);
    if (life->fail_threads)
        forbid_threads();
    return COORD_OK;
}

static coord_status life_thread_start(void *state, void **local, coord_error *error)
{
    const struct life *life = state;
    struct local *mine = calloc(1, sizeof *mine);

    expect(atomic_load(&started) == 1 && atomic_load(&executed) == 0 && mine);
    if (!mine || life->fail_thread) {
        free(mine);
        return coord_error_set(error, "this thread says no");
    }
    mine->thread = pthread_self();
    *local = mine;
    atomic_fetch_add(&threads_started, 1);
    return COORD_OK;
}

static void slot_destroy(void *value)
{
    (void)value;
    expect(atomic_load(&stopped) == 0);
    atomic_fetch_add(&slots_destroyed, 1);
}

static const coord_slot_type SLOT = {.size = sizeof SLOT, .name = "life", .destroy = slot_destroy};

static void sleep_in_background(coord_request *background, void *argument)
{
    (void)argument;
    atomic_fetch_add(&waiting, 1);
    expect(coord_sleep(background, INT64_C(3600000) * COORD_KIT_MS) == COORD_CANCELLED);
}

static void release(void *argument)
{
    (void)argument;
    expect(atomic_load(&stopped) == 0);
    atomic_fetch_add(&released, 1);
}

/* An event of a request that is long over when the step is stopped: a thread of the step may hold one until it is joined. */
static coord_event *held;

static void hold_event(coord_request *request)
{
    held = coord_event_new(request);
    expect(held != NULL);
    coord_event_ref(held);
}

static void post_held(void)
{
    if (!held)
        return;
    coord_event_post(held);
    coord_event_unref(held);
    held = NULL;
}

static coord_status life_execute(void *state, coord_request *request)
{
    const struct local *local = coord_request_local(request);
    coord_slice act = COORD_SLICE("");

    (void)state;
    expect(local && pthread_equal(local->thread, pthread_self()) && atomic_load(&stopped) == 0);
    atomic_fetch_add(&executed, 1);
    if (coord_request_set_slot(request, &SLOT, &executed) != COORD_OK)
        return COORD_FAIL;
    if (coord_request_header(request, "x-act", &act) == COORD_OK && coord_slice_is(act, "sleep")) {
        atomic_fetch_add(&waiting, 1);
        return coord_sleep(request, INT64_C(3600000) * COORD_KIT_MS);
    }
    if (coord_slice_is(act, "post"))
        hold_event(request);
    if (coord_slice_is(act, "background") && coord_background(request, sleep_in_background, NULL, release) != COORD_OK)
        return COORD_FAIL;
    return coord_answer(request, 200, "text/plain", coord_slice_of("alive"), NULL);
}

static void life_thread_stop(void *state, void *local)
{
    (void)state;
    expect(pthread_equal(((struct local *)local)->thread, pthread_self()) && atomic_load(&stopped) == 0);
    free(local);
    atomic_fetch_add(&threads_stopped, 1);
}

static void life_stop(void *state)
{
    (void)state;
    expect(atomic_load(&threads_stopped) == atomic_load(&threads_started) && atomic_load(&destroyed) == 0);
    post_held();
    atomic_fetch_add(&stopped, 1);
}

static void life_destroy(void *state)
{
    expect(atomic_load(&stopped) == atomic_load(&started));
    free(state);
    atomic_fetch_add(&destroyed, 1);
}

static const coord_param PARAMS[] = {{COORD_PARAM(STRING, "fails", "What fails."), .fallback = "nothing"}};

static const coord_step_type LIFE = {
    .size = sizeof LIFE,
    .name = "life",
    .help = "Counts.",
    COORD_STEP_PARAMS(PARAMS),
    .create = life_create,
    .provides = (const char *const[]){COORD_THING_ANSWER, NULL},
    .execute = life_execute,
    .destroy = life_destroy,
    .start = life_start,
    .stop = life_stop,
    .thread_start = life_thread_start,
    .thread_stop = life_thread_stop,
};

COORD_PLUGIN(.name = "life", .version = "1", .licence = "Apache-2.0",
             .steps = (const coord_step_type *const[]){&LIFE, NULL})

static int setup(void **state)
{
    atomic_int *const all[] = {&created,         &started,      &threads_started, &executed,
                               &threads_stopped, &stopped,      &destroyed,       &slots_destroyed,
                               &released,        &out_of_order, &waiting};

    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        atomic_store(all[i], 0);
    return 0;
}

static coord_kit *start(const char *yaml)
{
    return coord_kit_start(
        &(coord_kit_options){.size = sizeof(coord_kit_options),
                             .reactors = 3,
                             .yaml = yaml,
                             .plugins = (const coord_plugin_descriptor *const[]){&coord_plugin, NULL}});
}

static void assert_over(int of_threads)
{
    assert_int_equal(atomic_load(&created), 1);
    assert_int_equal(atomic_load(&destroyed), 1);
    assert_int_equal(atomic_load(&started), atomic_load(&stopped));
    assert_int_equal(atomic_load(&threads_started), of_threads);
    assert_int_equal(atomic_load(&threads_stopped), of_threads);
    assert_int_equal(atomic_load(&slots_destroyed), atomic_load(&executed));
    assert_int_equal(atomic_load(&out_of_order), 0);
}

static void entry_points_come_in_order_and_on_their_threads(void **state)
{
    coord_kit *kit = start("pipeline: {steps: [{type: life}]}");

    (void)state;
    assert_non_null(kit);
    for (int i = 0; i < 30; i++)
        assert_int_equal(coord_kit_post(kit, CHAT, "{}")->status, 200);
    assert_true(coord_kit_stop(kit));
    assert_int_equal(atomic_load(&executed), 30);
    assert_over(3);
}

static void a_start_that_fails_keeps_the_service_from_starting(void **state)
{
    (void)state;
    assert_null(start("pipeline: {steps: [{type: life, params: {fails: start}}]}"));
    assert_non_null(strstr(coord_kit_problem(), "step life: start says no"));
    assert_over(0);
}

static void a_thread_start_that_fails_keeps_the_service_from_starting(void **state)
{
    (void)state;
    assert_null(start("pipeline: {steps: [{type: life, params: {fails: thread_start}}]}"));
    assert_non_null(strstr(coord_kit_problem(), "life: this thread says no"));
    assert_over(0);
}

static void a_thread_that_cannot_be_had_is_told_with_its_reason(void **state)
{
    pthread_attr_t usual;

    (void)state;
    assert_int_equal(pthread_getattr_default_np(&usual), 0);
    assert_null(start("pipeline: {steps: [{type: life, params: {fails: threads}}]}"));
    assert_int_equal(pthread_setattr_default_np(&usual), 0);
    pthread_attr_destroy(&usual);
    if (!strstr(coord_kit_problem(), "thread does not start: Resource temporarily unavailable") &&
        !strstr(coord_kit_problem(), "thread does not start: Invalid argument")) /* valgrind's */
        fail_msg("%s", coord_kit_problem());
    assert_over(0);
}

static bool two_wait(void *argument)
{
    (void)argument;
    return atomic_load(&waiting) == 2;
}

static void what_waits_when_the_process_stops_is_cancelled_and_freed_once(void **state)
{
    coord_kit *kit = start("server: {shutdown_timeout: 100ms}\npipeline: {steps: [{type: life}]}");
    coord_kit_client *client;

    (void)state;
    assert_non_null(kit);
    assert_int_equal(
        coord_kit_ask(kit, &(coord_kit_request){.target = CHAT,
                                                .body = COORD_SLICE("{}"),
                                                .headers = (const char *const[]){"X-Act", "background", NULL}})
            ->status,
        200);
    client = coord_kit_send(kit, &(coord_kit_request){.target = CHAT,
                                                      .body = COORD_SLICE("{}"),
                                                      .headers = (const char *const[]){"X-Act", "sleep", NULL}});
    assert_non_null(client);
    assert_true(coord_kit_wait(kit, two_wait, NULL));
    assert_false(coord_kit_stop(kit));
    assert_int_equal(atomic_load(&released), 1);
    assert_over(3);
}

static void a_step_may_post_until_it_is_stopped(void **state)
{
    coord_kit *kit = start("pipeline: {steps: [{type: life}]}");

    (void)state;
    assert_non_null(kit);
    assert_int_equal(coord_kit_ask(kit, &(coord_kit_request){.target = CHAT,
                                                             .body = COORD_SLICE("{}"),
                                                             .headers = (const char *const[]){"X-Act", "post", NULL}})
                         ->status,
                     200);
    assert_true(coord_kit_stop(kit));
    assert_over(3);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, setup)
    const struct CMUnitTest tests[] = {
        TEST(entry_points_come_in_order_and_on_their_threads),
        TEST(a_start_that_fails_keeps_the_service_from_starting),
        TEST(a_thread_start_that_fails_keeps_the_service_from_starting),
        TEST(a_thread_that_cannot_be_had_is_told_with_its_reason),
        TEST(what_waits_when_the_process_stops_is_cancelled_and_freed_once),
        TEST(a_step_may_post_until_it_is_stopped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
