/* The searches for leaks, for slots without destructor, and for what happens when memory is short: see <coordinator/testkit.h>. */
#include "memory.h"
#include "trial.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WARM_UP = 3, ROUNDS = 8, SETTLING_LOOKS = 20, MOST_ALLOCATIONS = 1000, ALL_FAILED_WELL = 77 };

static const char no_tables[] =
    "the import tables of this system cannot be changed, so what a step allocates cannot be seen";

/* ---- Leaks ---- */

static const char *ask_often(coord_kit *kit, const struct trial *trial, int times)
{
    int32_t status;

    for (int i = 0; i < times; i++)
        if (!kit_trial_ask(kit, trial, &status))
            return kit_trial_fault("the request was not over in time: no leak can be looked for");
    return NULL;
}

/*
 * What is kept for requests once they are over: a client has its answer a moment before the reactor gives back what hung on
 * the request, so the least that is seen for a while.
 */
static struct memory_total kept_when_settled(void)
{
    static const struct timespec pause = {.tv_nsec = 5000000};
    struct memory_total least = kit_memory_kept(true);

    for (int look = 0; look < SETTLING_LOOKS; look++) {
        struct memory_total now;

        nanosleep(&pause, NULL);
        now = kit_memory_kept(true);
        if (now.blocks < least.blocks)
            least = now;
    }
    return least;
}

static const char *growth(struct memory_total before, struct memory_total after)
{
    if (after.blocks < before.blocks + ROUNDS)
        return NULL;
    return kit_trial_fault(
        "step \"%s\" of plugin %s keeps more memory after each request: %zu bytes in %zu blocks more after %d "
        "requests (the oldest was allocated at %s): free it before `execute` returns, in the destructor "
        "of a slot or in `free` of a writer",
        after.first.step, after.first.plugin, after.bytes - before.bytes, after.blocks - before.blocks, ROUNDS,
        kit_memory_place(after.caller));
}

static const char *left_over(struct memory_total left, const char *since, const char *remedy)
{
    if (left.blocks == 0)
        return NULL;
    return kit_trial_fault(
        "step \"%s\" of plugin %s leaks: %zu bytes in %zu blocks that it allocated %s were never freed "
        "(the first at %s): %s",
        left.first.step, left.first.plugin, left.bytes, left.blocks, since, kit_memory_place(left.caller), remedy);
}

static const char *left_at_the_end(void)
{
    const char *fault =
        left_over(kit_memory_kept(true), "for requests",
                  "free them before `execute` returns, in the destructor of a slot or in `free` of a writer");

    return fault ? fault : left_over(kit_memory_kept(false), "when it was made", "free them in `stop` or `destroy`");
}

static const char *find_leak(const struct trial *trial)
{
    coord_kit *kit = kit_trial_start(trial, NULL);
    struct memory_total before;
    const char *fault;

    if (!kit)
        return kit_trial_does_not_work("it does not start");
    fault = ask_often(kit, trial, WARM_UP);
    before = kept_when_settled();
    if (!fault)
        fault = ask_often(kit, trial, ROUNDS);
    if (!fault)
        fault = growth(before, kept_when_settled());
    coord_kit_stop(kit);
    return fault ? fault : left_at_the_end();
}

const char *coord_kit_find_leak(const coord_kit_trial *given)
{
    struct trial trial = kit_trial_of(given);
    const char *fault = kit_memory_watch(&trial.options) ? find_leak(&trial) : kit_trial_does_not_work(no_tables);

    kit_memory_unwatch();
    return fault;
}

/* ---- Slots ---- */

struct bare {
    pthread_mutex_t lock;
    bool found;
    char slot[64];
    struct coord_kit_running who;
};

static void look_at_slot(void *context, const coord_slot_type *type, void *value, bool set)
{
    struct bare *bare = context;
    struct coord_kit_running who;

    if (!set || type->destroy || !kit_memory_holds(value, &who))
        return;
    pthread_mutex_lock(&bare->lock);
    if (!bare->found) {
        bare->found = true;
        bare->who = who;
        snprintf(bare->slot, sizeof bare->slot, "%s", type->name ? type->name : "");
    }
    pthread_mutex_unlock(&bare->lock);
}

const char *coord_kit_find_slot(const coord_kit_trial *given)
{
    struct trial trial = kit_trial_of(given);
    struct bare bare = {.lock = PTHREAD_MUTEX_INITIALIZER};
    const char *fault = NULL;
    coord_kit *kit;

    if (!kit_memory_watch(&trial.options)) {
        fault = kit_trial_does_not_work(no_tables);
    } else if ((kit = kit_trial_start_told(&trial, look_at_slot, &bare)) != NULL) {
        fault = ask_often(kit, &trial, 1);
        coord_kit_stop(kit);
    } else {
        fault = kit_trial_does_not_work("it does not start");
    }
    kit_memory_unwatch();
    if (!fault && bare.found)
        fault = kit_trial_fault(
            "step \"%s\" of plugin %s puts allocated memory into the slot \"%s\", which has no destructor: "
            "give its coord_slot_type a `destroy`, or take the memory from coord_request_alloc",
            bare.who.step, bare.who.plugin, bare.slot);
    return fault;
}

/* ---- Short memory ---- */

/* A crash is meant to end the process, whatever this test's framework makes of signals. */
static void crash_plainly(void)
{
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE};
    static const struct rlimit no_core = {0, 0};

    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++)
        signal(crashes[i], SIG_DFL);
    setrlimit(RLIMIT_CORE, &no_core);
}

/* In a process of its own. The fault, if any, goes to `out`; the exit status tells whether an allocation failed. */
static void live_without(const struct trial *trial, unsigned long which, int32_t wanted, int out)
{
    struct coord_kit_running who;
    const void *caller;
    int32_t status = 0;
    const char *fault = NULL;
    coord_kit *kit;
    bool failed;

    crash_plainly();
    kit_memory_fail(which);
    kit = kit_trial_start(trial, NULL);
    if (kit && !kit_trial_ask(kit, trial, &status))
        fault = "the request had neither an answer nor an end";
    failed = kit_memory_failed(&who, &caller);
    kit_memory_fail(0);
    if (kit && !fault && !(kit_trial_ask(kit, trial, &status) && status == wanted))
        fault = "the next request, with memory again, was not answered as it should be";
    if (!kit && !failed)
        fault = "the trial does not start";
    if (kit && !fault)
        coord_kit_stop(kit);
    if (failed && !fault && kit_memory_kept(true).blocks + kit_memory_kept(false).blocks > 0)
        fault = "what it had allocated before was never freed";
    if (fault)
        dprintf(out, "allocation %lu (asked for at %s) failed in step \"%s\" of plugin %s, and %s", which,
                failed ? kit_memory_place(caller) : "no place", failed ? who.step : "", failed ? who.plugin : "",
                fault);
    _exit(failed ? ALL_FAILED_WELL : 0);
}

/* Reads what the child says; its exit status. */
static int listen_to(pid_t child, int in, char *text, size_t room)
{
    size_t size = 0;
    ssize_t got;
    int status = 0;

    while ((got = read(in, text + size, room - 1 - size)) > 0)
        size += (size_t)got;
    text[size] = '\0';
    waitpid(child, &status, 0);
    return status;
}

static const char *try_without(const struct trial *trial, unsigned long which, int32_t wanted, bool *failed)
{
    struct coord_kit_running who;
    const void *caller;
    int ends[2], status;
    char text[2048];
    pid_t child;

    if (pipe(ends) != 0)
        return kit_trial_does_not_work("no pipe");
    child = fork();
    if (child == 0) {
        close(ends[0]);
        live_without(trial, which, wanted, ends[1]);
    }
    close(ends[1]);
    status = child > 0 ? listen_to(child, ends[0], text, sizeof text) : 0;
    close(ends[0]);
    if (child < 0)
        return kit_trial_does_not_work("no process");
    *failed = kit_memory_failed(&who, &caller);
    if (text[0])
        return kit_trial_fault("%s: check what the call returned, and free on the way out", text);
    if (!WIFEXITED(status) || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != ALL_FAILED_WELL))
        return kit_trial_fault(
            "step \"%s\" of plugin %s crashes when allocation %lu in its name fails (asked for at %s): check "
            "what the call returned",
            who.step, who.plugin, which, kit_memory_place(caller));
    return NULL;
}

static const char *find_short_memory(const struct trial *trial)
{
    coord_kit *kit = kit_trial_start(trial, NULL);
    const char *fault = NULL;
    int32_t wanted = 0;
    bool failed = true, answered = kit && kit_trial_ask(kit, trial, &wanted);

    coord_kit_stop(kit);
    if (!answered)
        return kit_trial_does_not_work("its request is not answered with memory, either");
    for (unsigned long which = 1; failed && !fault && which <= MOST_ALLOCATIONS; which++)
        fault = try_without(trial, which, wanted, &failed);
    return fault;
}

const char *coord_kit_find_short_memory(const coord_kit_trial *given)
{
    struct trial trial = kit_trial_of(given);
    const char *fault =
        kit_memory_watch(&trial.options) ? find_short_memory(&trial) : kit_trial_does_not_work(no_tables);

    kit_memory_unwatch();
    return fault;
}
