/* A plugin that leaves behind what it should have ended: a thread that runs, and a thread-specific value with a destructor. */
#include <coordinator/plugin.h>

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_key_t key;

static void *linger(void *argument)
{
    for (;;)
        usleep(1000);
    return argument;
}

static coord_status leaves_create(const coord_config *config, void **state, coord_error *error)
{
    pthread_t thread;

    (void)config;
    *state = NULL;
    if (pthread_key_create(&key, free) != 0 || pthread_create(&thread, NULL, linger, NULL) != 0)
        return coord_error_set(error, "no thread");
    pthread_detach(thread);
    return COORD_OK;
}

static coord_status leaves_thread_start(void *state, void **local, coord_error *error)
{
    (void)state;
    (void)local;
    return pthread_setspecific(key, malloc(1)) == 0 ? COORD_OK : coord_error_set(error, "no value");
}

static coord_status leaves_execute(void *state, coord_request *request)
{
    (void)state;
    return coord_fail(request, 418, NULL, "it runs");
}

static const coord_step_type TYPE = {
    .size = sizeof TYPE,
    .name = "leaves-thread",
    .help = "Leaves a thread behind.",
    .provides = (const char *const[]){COORD_THING_ANSWER, NULL},
    .create = leaves_create,
    .execute = leaves_execute,
    .thread_start = leaves_thread_start,
};

COORD_PLUGIN(.name = "leaves-thread", .version = "1", .licence = "Apache-2.0",
             .steps = (const coord_step_type *const[]){&TYPE, NULL})
