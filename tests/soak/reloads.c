/* See reloads.h. */
#include "reloads.h"

#include <signal.h>

enum { BROKEN_EACH = 5 /* every so many attempts one file is broken */, STUCK_MS = 60000 };

const char *const reload_marks[SIDES] = {"\"created\":1111111111", "\"created\":2222222222"};

static const char *const BROKEN[] = {
    "gateway: {address: [oops\n",
    "gateway: {address: \"http://127.0.0.1:1\"}\npipeline: {steps: [{type: nonsense}]}\n",
    "nonsense: 1\n",
};

static struct {
    struct process other; /* the worker of side 1 */
    uint16_t ports[SIDES];
    struct plan plan;
    char runtime[64], said[96];
    long asked, applied, wanted;         /* good ones */
    long attempts, refused;              /* all, and the broken ones */
    long applied_before, refused_before; /* reloads_begin */
    int64_t began_ms, ms, attempted_ms, slowest_ms;
    bool pending, broken;
    const char *problem;
} reloads;

static const char STEPS[] = "    - type: render\n      params: {address: \"@\", max_idle_conns_per_host: 10}\n"
                            "    - type: prefill\n    - type: decode\n";

static void start_other(void)
{
    char log[128];
    const char *said;

    snprintf(log, sizeof log, "%s/other.log", deployed.folder);
    process_start(&reloads.other, log,
                  (const char *const[]){worker_sim_program(), "--port", "0", "--event-interval", "20", "--tokens", "40",
                                        "--created", "2222222222", NULL},
                  NULL);
    UNTIL(strstr(process_log(&reloads.other), "listening on "));
    said = strstr(process_log(&reloads.other), "listening on 127.0.0.1:");
    assert_non_null(said);
    reloads.ports[1] = (uint16_t)strtoul(said + strlen("listening on 127.0.0.1:"), NULL, 10);
}

static void write_side(long side)
{
    reloads.plan.gateway_port = reloads.ports[side];
    reconfigure(&reloads.plan);
}

void reloads_deploy(long reactors)
{
    snprintf(reloads.runtime, sizeof reloads.runtime, "  reactors: %ld", reactors);
    reloads.plan = (struct plan){.runtime = reloads.runtime,
                                 /* A machine that is busy is no request lost. */
                                 .server = "  read_timeout: 30s",
                                 .gateway = "  max_idle_conns_per_host: 10\n  connect_timeout: 30s\n  timeout: 30s",
                                 .steps = STEPS,
                                 .top = "log_level: 2",
                                 .pid_file = true,
                                 .sim_flags = (const char *const[]){"--event-interval", "20", "--tokens", "40",
                                                                    "--created", "1111111111", NULL}};
    deploy(&reloads.plan);
    reloads.plan.sim_flags = NULL;
    reloads.ports[0] = deployed.sim_port;
    start_other();
}

void reloads_begin(long count, int64_t ms)
{
    reloads.wanted += count;
    reloads.applied_before = reloads.applied;
    reloads.refused_before = reloads.refused;
    reloads.slowest_ms = 0;
    reloads.began_ms = now_ms();
    reloads.ms = ms / count;
}

static void ask(void)
{
    reloads.attempts++;
    reloads.broken = reloads.attempts % BROKEN_EACH == 0;
    if (reloads.broken)
        file_write(deployed.config, BROKEN[reloads.attempts / BROKEN_EACH % 3]);
    else
        write_side(++reloads.asked % SIDES);
    reloads.pending = true;
    reloads.attempted_ms = now_ms();
    process_signal(&deployed.coordinator, SIGHUP);
}

/* The first line of the file beside the pid file: number and state. */
static bool read_answer(long *number, char state[16])
{
    struct text text = {0};
    char path[160];
    bool there;

    snprintf(path, sizeof path, "%s/pid.reload", deployed.folder);
    there = file_read(path, &text) && text.size > 0 && sscanf(text.data, "%ld %15s", number, state) == 2;
    text_free(&text);
    return there;
}

static void look(void)
{
    long number = 0;
    char state[16];
    int64_t took = now_ms() - reloads.attempted_ms;

    if (!read_answer(&number, state) || number < reloads.attempts || strcmp(state, "begun") == 0) {
        if (took > STUCK_MS)
            reloads.problem = "a reload has no end";
        return;
    }
    reloads.pending = false;
    reloads.slowest_ms = took > reloads.slowest_ms ? took : reloads.slowest_ms;
    if (strcmp(state, reloads.broken ? "refused" : "applied") != 0)
        reloads.problem = reloads.broken ? "a broken file was not refused" : "a good file was not applied";
    reloads.refused += reloads.broken;
    reloads.applied += !reloads.broken;
}

void reloads_turn(void)
{
    if (reloads.problem)
        return;
    if (reloads.pending)
        look();
    else if (reloads.asked < reloads.wanted &&
             now_ms() - reloads.attempted_ms >= reloads.ms * (BROKEN_EACH - 1) / BROKEN_EACH)
        ask();
}

bool reloads_over(void) { return reloads.problem || (!reloads.pending && reloads.asked >= reloads.wanted); }
long reloads_asked(void) { return reloads.asked; }
long reloads_applied(void) { return reloads.applied; }

const char *reloads_problem(void)
{
    if (!reloads.problem && (metric("config_reload_total{result=\"success\"}") != (double)reloads.applied ||
                             metric("config_generation") != (double)reloads.applied + 1))
        reloads.problem = "the metrics tell of another number of reloads";
    if (!reloads.problem && reloads.refused > 0 &&
        metric("config_reload_total{result=\"failure\"}") != (double)reloads.refused)
        reloads.problem = "the metrics tell of another number of failures";
    return reloads.problem;
}

int64_t reloads_count(const char *member)
{
    int64_t sum = 0;

    for (int i = 0; i < SIDES; i++) {
        deployed.sim_port = reloads.ports[i];
        sum += sim_count(member);
    }
    return sum;
}

const char *reloads_summary(void)
{
    snprintf(reloads.said, sizeof reloads.said, "%ld reloads, %ld refused, slowest %lld ms; ",
             reloads.applied - reloads.applied_before, reloads.refused - reloads.refused_before,
             (long long)reloads.slowest_ms);
    return reloads.said;
}
