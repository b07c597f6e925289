/* The searches for steps that hold their reactor in the system, and that go on when the client leaves: see <coordinator/testkit.h>. */
#include "memory.h"
#include "trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    LOOKS = 3,
    LOOKS_AT_LOCKS = 30 /* one that the kit holds takes as long as the machine is busy */,
    AT_ONCE = 10 /* of the patience: a tenth */,
    AT_MOST_MS = 5000,
    MANY_LEGS = 32,
    MANY_REACTORS = 64
};

/* ---- Blocking ---- */

static const struct {
    long number;
    const char *name;
} CALLS[] = {
    {SYS_read, "read"},
    {SYS_write, "write"},
    {SYS_readv, "readv"},
    {SYS_nanosleep, "nanosleep"},
    {SYS_clock_nanosleep, "clock_nanosleep (sleep, usleep, nanosleep)"},
    {SYS_futex, "futex (a lock, a condition or a join)"},
    {SYS_recvfrom, "recv"},
    {SYS_recvmsg, "recvmsg"},
    {SYS_sendto, "send"},
    {SYS_connect, "connect"},
    {SYS_accept4, "accept"},
    {SYS_ppoll, "poll"},
    {SYS_pselect6, "select"},
    {SYS_epoll_pwait, "epoll_wait"},
    {SYS_wait4, "wait"},
    {SYS_flock, "flock"},
    {SYS_fsync, "fsync"},
#ifdef SYS_poll
    {SYS_poll, "poll"},
    {SYS_select, "select"},
    {SYS_epoll_wait, "epoll_wait"},
    {SYS_pause, "pause"},
#endif
};

/* One reactor, as it is looked at every two milliseconds. */
struct look {
    int64_t since_ns;
    unsigned asleep; /* how often in this stretch it was seen sleeping, one look after the other */
};

struct sampler {
    coord_kit *kit;
    pthread_t thread;
    _Atomic bool stop;
    struct look looks[MANY_REACTORS];
    bool found; /* set once, before the thread ends */
    struct coord_kit_running who;
    char call[64];
};

/* A thread that waits in the system is in state S or D; one that was put off by others is in R. */
static bool sleeps(int thread)
{
    char path[64], line[512];
    const char *after;
    FILE *file;
    bool asleep = false;

    snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
    file = fopen(path, "re");
    if (file && fgets(line, sizeof line, file) && (after = strrchr(line, ')')) != NULL)
        asleep = strncmp(after, ") S", 3) == 0 || strncmp(after, ") D", 3) == 0;
    if (file)
        fclose(file);
    return asleep;
}

/* Returns how often it has to be seen. */
static unsigned name_call(int thread, char *name, size_t room)
{
    char path[64], line[256];
    long number = -1;
    FILE *file;

    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", thread);
    file = fopen(path, "re");
    if (file && fgets(line, sizeof line, file) && line[0] >= '0' && line[0] <= '9')
        number = strtol(line, NULL, 10);
    if (file)
        fclose(file);
    snprintf(name, room, number < 0 ? "a call that the system does not name" : "system call %ld", number);
    for (size_t i = 0; i < sizeof CALLS / sizeof *CALLS; i++)
        if (CALLS[i].number == number)
            snprintf(name, room, "%s", CALLS[i].name);
    return number == SYS_futex ? LOOKS_AT_LOCKS : LOOKS;
}

/* True: somebody's code has slept through several looks in one stretch. */
static bool look_at(struct sampler *sampler, unsigned reactor)
{
    struct look *look = &sampler->looks[reactor];
    struct coord_kit_running who;
    int64_t since;
    int thread;

    if (!coord_kit_host_holder(sampler->kit->host, reactor, &who, &since, &thread) || !sleeps(thread)) {
        look->asleep = 0;
        return false;
    }
    look->asleep = look->since_ns == since ? look->asleep + 1 : 1;
    look->since_ns = since;
    if (look->asleep < LOOKS || look->asleep < name_call(thread, sampler->call, sizeof sampler->call))
        return false;
    sampler->who = who;
    return coord_kit_host_holder(sampler->kit->host, reactor, &who, &since, &thread) && since == look->since_ns;
}

static void *sample(void *argument)
{
    static const struct timespec pause = {.tv_nsec = 2000000};
    struct sampler *sampler = argument;

    while (!sampler->stop && !sampler->found) {
        for (unsigned i = 0; i < MANY_REACTORS && !sampler->found; i++)
            sampler->found = look_at(sampler, i);
        nanosleep(&pause, NULL);
    }
    return NULL;
}

static const char *find_blocking(coord_kit *kit, const struct trial *trial)
{
    struct sampler sampler = {.kit = kit};
    const char *fault = NULL;
    int32_t status;

    if (pthread_create(&sampler.thread, NULL, sample, &sampler) != 0)
        return kit_trial_does_not_work("no thread");
    for (int i = 0; i < 3 && !fault; i++)
        if (!kit_trial_ask(kit, trial, &status))
            fault = "";
    sampler.stop = true;
    pthread_join(sampler.thread, NULL);
    if (sampler.found)
        return kit_trial_fault(
            "step \"%s\" of plugin %s blocks its reactor in %s: all requests of the reactor wait. Use "
            "coord_sleep, coord_wait_fd or a call of the coordinator's, or coord_offload for what has to block",
            sampler.who.step, sampler.who.plugin, sampler.call);
    return fault ? kit_trial_fault("the request was not over in time") : NULL;
}

const char *coord_kit_find_blocking(const coord_kit_trial *given)
{
    struct trial trial = kit_trial_of(given);
    coord_kit *kit = kit_trial_start(&trial, NULL);
    const char *fault = kit ? find_blocking(kit, &trial) : kit_trial_does_not_work("it does not start");

    coord_kit_stop(kit);
    return fault;
}

/* ---- Cancellation ---- */

static const char *const PHASES[] = {[HOLD_NONE] = "right after",
                                     [HOLD_HEAD] = "before the answer of",
                                     [HOLD_MIDDLE] = "in the middle of the answer of"};

/* Where the request stands: "leg 2 (decode)". */
static void name_leg(coord_kit *kit, size_t index, char *name, size_t room)
{
    const coord_kit_message *leg = coord_kit_leg(kit, NULL, index);

    if (leg && leg->phase.size > 0)
        snprintf(name, room, "its call to %s (%.*s)", leg->upstream, COORD_FMT(leg->phase));
    else
        snprintf(name, room, "its call to %s", leg ? leg->upstream : "an upstream");
}

static const char *describe_deaf(coord_kit *kit, const char *id, enum hold hold, const char *leg, int64_t left_ns)
{
    struct coord_kit_running who = {.step = "?", .plugin = "?"};
    bool named = coord_kit_host_unreturned(kit->host, id, &who), ended;
    char how_long[64];

    ended = kit_trial_over(kit, id, (int64_t)AT_MOST_MS * COORD_KIT_MS);
    snprintf(how_long, sizeof how_long, ended ? "it went on for %lld ms" : "after %lld ms it still had not returned",
             (long long)((kit_now() - left_ns) / COORD_KIT_MS));
    return kit_trial_fault(
        "%s%s%s%s takes no notice when the client leaves: the client left %s %s, and %s. Return at once when a "
        "call says COORD_CANCELLED",
        named ? "step \"" : "a step", named ? who.step : "", named ? "\" of plugin " : "", named ? who.plugin : "",
        PHASES[hold], leg, how_long);
}

/* Waits until a step that is looked at waits for something with the request, or the request is over. While it still runs the client
   would be gone before the step begins what it does not give up. */
static void wait_for_step(coord_kit *kit, const struct trial *trial, const char *id)
{
    int64_t until = kit_now() + kit->patience_ns;
    struct coord_kit_running who;

    while (kit_now() < until && !kit_trial_over(kit, id, COORD_KIT_MS))
        if (coord_kit_host_unreturned(kit->host, id, &who) && who.parked && kit_memory_is_ours(&trial->options, &who))
            return;
}

static void hold_leg(coord_kit *kit, size_t leg, enum hold hold)
{
    pthread_mutex_lock(&kit->lock);
    kit->held_leg = leg;
    kit->hold = hold;
    pthread_mutex_unlock(&kit->lock);
}

/* The client leaves as soon as the step has begun, wherever it is by then. */
static const char *leave_soon(coord_kit *kit, const struct trial *trial)
{
    coord_kit_client *client;
    char id[TRIAL_ID];
    int64_t left_ns;

    hold_leg(kit, 0, HOLD_NONE);
    client = kit_trial_send(kit, trial, id);
    if (!client)
        return kit_trial_does_not_work("the request cannot be sent");
    wait_for_step(kit, trial, id);
    left_ns = kit_now();
    coord_kit_leave(client);
    return kit_trial_over(kit, id, kit->patience_ns / AT_ONCE)
               ? NULL
               : describe_deaf(kit, id, HOLD_NONE, "the step had begun", left_ns);
}

/* The client leaves while leg number `index` of this request is held. `*reached` false: the request has no such leg. */
static const char *leave_in(coord_kit *kit, const struct trial *trial, size_t index, enum hold hold, bool *reached)
{
    static const struct timespec pause = {.tv_nsec = 20000000};
    size_t before = coord_kit_leg_count(kit, NULL);
    coord_kit_client *client;
    char id[TRIAL_ID], leg[256];
    int64_t left_ns;

    hold_leg(kit, before + index, hold);
    client = kit_trial_send(kit, trial, id);
    if (!client)
        return kit_trial_does_not_work("the request cannot be sent");
    while (coord_kit_leg_count(kit, NULL) <= before + index && !kit_trial_over(kit, id, COORD_KIT_MS))
        kit_wire_pump(&client->wire, 0); /* what comes is taken, so that nobody waits for the client */
    *reached = coord_kit_leg_count(kit, NULL) > before + index;
    if (!*reached)
        return NULL;
    nanosleep(&pause, NULL); /* what is sent of the answer arrives */
    name_leg(kit, before + index, leg, sizeof leg);
    left_ns = kit_now();
    coord_kit_leave(client);
    return kit_trial_over(kit, id, kit->patience_ns / AT_ONCE) ? NULL : describe_deaf(kit, id, hold, leg, left_ns);
}

static const char *find_uncancelled(coord_kit *kit, const struct trial *trial)
{
    const char *fault = NULL;
    bool reached = true;

    for (size_t index = 0; reached && index < MANY_LEGS; index++)
        for (enum hold hold = HOLD_HEAD; hold <= HOLD_MIDDLE && reached; hold++) {
            fault = leave_in(kit, trial, index, hold, &reached);
            if (fault)
                return fault;
        }
    return leave_soon(kit, trial);
}

const char *coord_kit_find_uncancelled(const coord_kit_trial *given)
{
    struct trial trial = kit_trial_of(given);
    coord_kit *kit = kit_trial_start(&trial, NULL);
    const char *fault = kit ? find_uncancelled(kit, &trial) : kit_trial_does_not_work("it does not start");

    coord_kit_stop(kit);
    return fault;
}

/* ---- All ---- */

const char *coord_kit_find_fault(const coord_kit_trial *trial)
{
    static const char *(*const searches[])(const coord_kit_trial *trial) = {
        coord_kit_find_slot, coord_kit_find_leak, coord_kit_find_blocking, coord_kit_find_uncancelled,
        coord_kit_find_short_memory};
    const char *fault = NULL;

    for (size_t i = 0; i < sizeof searches / sizeof *searches && !fault; i++)
        fault = searches[i](trial);
    return fault;
}
