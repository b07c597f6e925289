/*
 * The example hello-step, broken in one way, so that it is known that the test kit finds it. BREAK tells which:
 *   LEAKS          what it takes for a request is never freed
 *   NO_DESTROY     its instance is never freed
 *   THREAD_LEAKS   a thread of its own loses what it allocates
 *   GROWS          it keeps something of each request until it is destroyed
 *   BARE_SLOT      a slot with allocated memory has no destructor
 *   SLEEPS, READS  it blocks its reactor
 *   LINGERS        it offloads work that takes long, whoever waits for it
 *   DEAF           it tries again and again, also when the client has left
 *   TRUSTS_MALLOC  it does not look at what malloc returned
 *   TRUSTS_CALLS   it does not look at what the coordinator's functions returned
 */
#include <coordinator/call.h>
#include <coordinator/plugin.h>
#include <coordinator/response.h>
#include <coordinator/wait.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum {
    LEAKS = 1,
    NO_DESTROY,
    THREAD_LEAKS,
    GROWS,
    BARE_SLOT,
    SLEEPS,
    READS,
    LINGERS,
    DEAF,
    TRUSTS_MALLOC,
    TRUSTS_CALLS
};

/* What is lost on purpose: the kit has to see it. Checkers that tell of it too, at the program's end, are shown where it is. */
static void *lost[256];
static atomic_size_t lost_count;

static void lose(void *memory)
{
    size_t at = atomic_fetch_add(&lost_count, 1);

    if (at < sizeof lost / sizeof *lost)
        lost[at] = memory;
}

struct seen {
    struct seen *next;
    char model[64];
};

struct hello {
    coord_upstream *policy;
    char signature[64];
    pthread_mutex_t lock;
    struct seen *seen;
    pthread_t thread;
};

static const coord_param params[] = {
    {COORD_PARAM(URL, "policy", "Who decides which models may be used."), .flags = COORD_PARAM_REQUIRED},
    {COORD_PARAM(STRING, "signature", "The answer's header x-hello."), .fallback = "hello"},
};

static coord_status hello_create(const coord_config *config, void **state, coord_error *error)
{
    struct hello *hello = calloc(1, sizeof *hello);
    coord_slice signature = {0};

    if ((!hello && BREAK != TRUSTS_MALLOC) ||
        coord_upstream_open(config, "policy", NULL, &hello->policy, error) != COORD_OK ||
        coord_config_string(config, "signature", &signature) != COORD_OK || signature.size >= sizeof hello->signature) {
        free(hello);
        return coord_error_set(error, "signature is longer than %zu bytes, or memory is short",
                               sizeof hello->signature - 1);
    }
    pthread_mutex_init(&hello->lock, NULL);
    memcpy(hello->signature, signature.data, signature.size); /* the config goes away, so copy */
    *state = hello;
    if (BREAK == NO_DESTROY)
        lose(hello);
    return COORD_OK;
}

/* Changes the head and leaves the body alone: a stream is not slowed down, Content-Length stays. */
static void sign(coord_writer *writer, coord_head *head)
{
    const struct hello *hello = coord_writer_state(writer);

    if (coord_head_set_header(head, "x-hello", coord_slice_of(hello->signature)) == COORD_OK)
        coord_writer_skip(writer);
}

static const coord_writer_type signer = {
    .size = sizeof signer, .flags = COORD_WRITER_REWRITES, .name = "hello", .head = sign};

static const coord_slot_type model_slot = {
    .size = sizeof model_slot, .name = "model", .destroy = BREAK == BARE_SLOT ? NULL : free};

static coord_status keep(struct hello *hello, coord_request *request, char *model)
{
    struct seen *seen = BREAK == GROWS ? calloc(1, sizeof *seen) : NULL;

    if (seen) {
        pthread_mutex_lock(&hello->lock);
        seen->next = hello->seen;
        hello->seen = seen;
        pthread_mutex_unlock(&hello->lock);
    }
    if (BREAK == LEAKS || BREAK == BARE_SLOT)
        lose(model);
    if (BREAK == LEAKS || !model)
        return model ? COORD_OK : COORD_NO_MEMORY;
    if (coord_request_set_slot(request, &model_slot, model) == COORD_OK)
        return COORD_OK;
    free(model);
    return COORD_NO_MEMORY;
}

static void wait_the_wrong_way(void)
{
    static const struct itimerspec soon = {.it_value.tv_nsec = 200000000};
    uint64_t times;
    int timer;

    if (BREAK == SLEEPS)
        usleep(200000);
    if (BREAK != READS)
        return;
    timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    timerfd_settime(timer, 0, &soon, NULL);
    (void)!read(timer, &times, sizeof times);
    close(timer);
}

static void nap(void *argument)
{
    (void)argument;
    usleep(50000);
}

static void work_long(void *argument)
{
    (void)argument;
    usleep(1400000);
}

static coord_status ask(coord_request *request, coord_call *call)
{
    coord_status status = coord_call_run(call);

    for (int tries = 0; BREAK == DEAF && status != COORD_OK && tries < 30; tries++) {
        (void)!coord_offload(request, nap, NULL); /* without the status, it tells nothing about the client */
        nap(NULL);
        status = coord_call_run(call);
    }
    return status;
}

static coord_status hello_execute(void *state, coord_request *request)
{
    struct hello *hello = state;
    coord_slice model = coord_request_model(request);
    coord_call *call = coord_call_upstream_new(request, "policy", hello->policy, false);
    char *copy = BREAK ? strndup(model.data, model.size) : NULL;
    coord_status status;

    wait_the_wrong_way();
    if (BREAK == LINGERS)
        (void)!coord_offload(request, work_long, NULL);
    if (BREAK == TRUSTS_MALLOC && copy[0] == '\0')
        return COORD_NEXT;
    if (BREAK && keep(hello, request, copy) != COORD_OK)
        return coord_fail(request, 500, NULL, "memory is short");
    if ((!call && BREAK != TRUSTS_CALLS) || coord_call_set_method(call, "GET") != COORD_OK ||
        coord_call_set_path(call, coord_slice_of("/may-use")) != COORD_OK)
        return coord_fail(request, 500, NULL, "the policy call could not be made");
    if (coord_call_set_header(call, "x-model", model) != COORD_OK)
        return coord_fail(request, 400, NULL, "the model's name cannot stand in a header");
    status = ask(request, call);
    if (status != COORD_OK)
        return status; /* the client left, or the service did not answer: the core says so */
    if (coord_call_status(call) != 200)
        return coord_fail(request, 403, "model_not_allowed", "the model %.*s is not for you", COORD_FMT(model));
    return coord_request_wrap(request, &signer, hello); /* COORD_OK is COORD_NEXT */
}

static void hello_destroy(void *state)
{
    struct hello *hello = state;

    while (hello->seen) {
        struct seen *seen = hello->seen;

        hello->seen = seen->next;
        free(seen);
    }
    pthread_mutex_destroy(&hello->lock);
    free(hello);
}

static void *think(void *unused)
{
    (void)unused;
    lose(malloc(100));
    return NULL;
}

static coord_status hello_start(void *state, coord_error *error)
{
    struct hello *hello = state;

    if (BREAK != THREAD_LEAKS || pthread_create(&hello->thread, NULL, think, NULL) == 0)
        return COORD_OK;
    return coord_error_set(error, "no thread");
}

static void hello_stop(void *state)
{
    struct hello *hello = state;

    if (BREAK == THREAD_LEAKS)
        pthread_join(hello->thread, NULL);
}

static const coord_step_type hello_step = {
    .size = sizeof hello_step,
    .name = "hello",
    .help = "Asks a policy service before the request goes on, and signs the answer.",
    COORD_STEP_PARAMS(params),
    .create = hello_create,
    .execute = hello_execute,
    .start = hello_start,
    .stop = hello_stop,
    .destroy = BREAK == NO_DESTROY ? NULL : hello_destroy,
};

static const coord_step_type *const steps[] = {&hello_step, NULL};

COORD_PLUGIN(.name = "hello", .version = "1.0", .licence = "Apache-2.0", .steps = steps)
