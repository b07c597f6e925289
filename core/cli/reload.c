/* `coordinator reload`: asks a coordinator that runs to load its configuration anew, and waits for what comes of it. */
#include "cli/load.h"
#include "cli/pid_file.h"
#include "runtime/clock.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

static const int64_t PAUSE_NS = 10000000;
static const int64_t DEFAULT_TIMEOUT_NS = INT64_C(60000000000);

static int fail(const struct buffer *reason)
{
    fprintf(stderr, "coordinator: not reloaded: %.*s\n", COORD_FMT(buffer_slice(reason)));
    return 1;
}

static int finish(const struct reload_answer *answer)
{
    FILE *to = answer->state == RELOAD_APPLIED ? stdout : stderr;

    fprintf(to, "%.*s", COORD_FMT(buffer_slice(&answer->text)));
    if (answer->state == RELOAD_APPLIED)
        return 0;
    if (answer->state == RELOAD_ENDING)
        fprintf(stderr, "coordinator: not reloaded: the coordinator is ending\n");
    return answer->state == RELOAD_REFUSED ? 2 : 1;
}

/* `wanted`: the first reload that cannot have begun before we were called. */
static bool is_ours(const struct reload_answer *answer, unsigned wanted)
{
    return answer->state == RELOAD_ENDING ||
           (answer->number >= wanted && answer->state != RELOAD_BEGUN && answer->state != RELOAD_NONE);
}

static int wait_for(const char *path, unsigned wanted, int64_t timeout_ns, struct reload_answer *answer,
                    struct buffer *reason)
{
    int64_t until = clock_ns() + timeout_ns;

    for (;;) {
        bool lives = pid_file_process(path, reason) != 0; /* before the answer, which may be its last */

        reload_answer_read(path, answer);
        if (is_ours(answer, wanted))
            return finish(answer);
        if (!lives)
            return fail(reason);
        if (clock_ns() >= until)
            break;
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    }
    buffer_explain(reason, "the coordinator did not answer in time (--timeout); it may still do so: see its log");
    return fail(reason);
}

static int reload(const char *path, int64_t timeout_ns, struct reload_answer *answer, struct buffer *reason)
{
    long process = pid_file_process(path, reason);

    if (process == 0)
        return fail(reason);
    reload_answer_read(path, answer);
    if (kill((pid_t)process, SIGHUP) != 0) {
        buffer_explain(reason, "process %ld takes no signal: %s", process, strerror(errno));
        return fail(reason);
    }
    return wait_for(path, answer->number + 1, timeout_ns, answer, reason);
}

int cli_reload(const struct arguments *arguments)
{
    struct reload_answer answer = {0};
    struct buffer reason = {.limit = 4096};
    int64_t timeout_ns = DEFAULT_TIMEOUT_NS;
    int code;

    if (!arguments->pid_file)
        return cli_lacks("reload", "--pid-file FILE");
    if (arguments->rest_count > 0 ||
        (arguments->timeout && (!parse_duration(coord_slice_of(arguments->timeout), &timeout_ns) || timeout_ns < 0)))
        return cli_misused("reload");
    code = reload(arguments->pid_file, timeout_ns, &answer, &reason);
    buffer_release(&answer.text);
    buffer_release(&reason);
    return code;
}
