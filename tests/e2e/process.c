/* Processes of the programs under test, and what the system tells of them; see harness.h. */
#include "harness.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_ENVIRONMENT = 256 };

extern char **environ;

void harness_select(void)
{
    if (getenv("E2E_ONLY"))
        cmocka_set_test_filter(getenv("E2E_ONLY"));
}

static const char *of_environment(const char *name, const char *fallback)
{
    const char *value = getenv(name);

    return value && *value ? value : fallback;
}

const char *coordinator_program(void) { return of_environment("COORDINATOR_BIN", E2E_BUILD "/bin/coordinator"); }
const char *worker_sim_program(void) { return of_environment("WORKER_SIM_BIN", E2E_BUILD "/bin/worker-sim"); }
const char *plugin_folder(void) { return of_environment("COORDINATOR_PLUGIN_PATH", E2E_BUILD "/plugins"); }
const char *test_plugin_folder(void) { return of_environment("TEST_PLUGIN_PATH", E2E_BUILD "/tests/plugins"); }

static bool is_replaced(const char *variable, const char *const *additions)
{
    size_t size = strcspn(variable, "=") + 1;

    for (; additions && *additions; additions++)
        if (strncmp(variable, *additions, size) == 0)
            return true;
    return false;
}

/* Of ours that are the coordinator's only the transport, so that all of these tests can run over each. */
static bool stays(const char *variable)
{
    static const char transport[] = "COORDINATOR_GATEWAY_TRANSPORT=";

    return strncmp(variable, "COORDINATOR_", 12) != 0 || strncmp(variable, transport, sizeof transport - 1) == 0;
}

/* What of ours stays and what is added, since of two of one name a reader may take either. */
static void make_environment(const char **made, const char *const *additions, char *plugin_path, size_t size)
{
    size_t count = 0;

    for (char **at = environ; *at && count < MAX_ENVIRONMENT - 32; at++)
        if (stays(*at) && !is_replaced(*at, additions))
            made[count++] = *at;
    snprintf(plugin_path, size, "COORDINATOR_PLUGIN_PATH=%s", plugin_folder());
    made[count++] = plugin_path;
    for (; additions && *additions && count < MAX_ENVIRONMENT - 1; additions++)
        made[count++] = *additions;
    made[count] = NULL;
}

static pid_t spawn(const char *const *arguments, const char *const *environment, int input, int output)
{
    const char *made[MAX_ENVIRONMENT];
    char plugin_path[512];
    pid_t pid;

    make_environment(made, environment, plugin_path, sizeof plugin_path);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (input >= 0)
            dup2(input, 0);
        dup2(output, 1);
        dup2(output, 2);
        execve(arguments[0], (char *const *)arguments, (char *const *)made);
        dprintf(2, "%s: %s\n", arguments[0], strerror(errno));
        _exit(127);
    }
    return pid;
}

void process_start(struct process *process, const char *log, const char *const *arguments,
                   const char *const *environment)
{
    process_start_with(process, NULL, log, arguments, environment);
}

void process_start_with(struct process *process, const char *input, const char *log, const char *const *arguments,
                        const char *const *environment)
{
    int output = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    int from = input ? open(input, O_RDONLY | O_CLOEXEC) : -1;

    assert_true(output >= 0 && (!input || from >= 0));
    *process = (struct process){0};
    snprintf(process->log, sizeof process->log, "%s", log);
    process->pid = spawn(arguments, environment, from, output);
    close(output);
    if (from >= 0)
        close(from);
}

bool process_wait(struct process *process, int64_t ms)
{
    int64_t deadline = now_ms() + ms;
    int status;

    while (process->pid && !process->ended) {
        pid_t got = waitpid(process->pid, &status, WNOHANG);

        if (got == process->pid) {
            process->ended = true;
            process->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        } else if (now_ms() > deadline) {
            return false;
        } else {
            pause_ms(1);
        }
    }
    return true;
}

void process_signal(struct process *process, int signal)
{
    assert_true(process->pid > 0 && !process->ended);
    assert_int_equal(kill(process->pid, signal), 0);
}

size_t process_descriptors(const struct process *process)
{
    char path[64];
    size_t count = 0;
    DIR *folder;

    snprintf(path, sizeof path, "/proc/%ld/fd", (long)process->pid);
    folder = opendir(path);
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

/* A field of its status that is given in kB. */
static size_t status_kib(const struct process *process, const char *field)
{
    char path[64];
    struct text text = {0};
    const char *at;
    size_t kib;

    snprintf(path, sizeof path, "/proc/%ld/status", (long)process->pid);
    assert_true(file_read(path, &text));
    at = strstr(text.data, field);
    assert_non_null(at);
    kib = strtoul(at + strlen(field), NULL, 10);
    text_free(&text);
    return kib;
}

size_t process_rss_kib(const struct process *process) { return status_kib(process, "VmRSS:"); }

size_t process_peak_kib(const struct process *process) { return status_kib(process, "VmHWM:"); }

int64_t process_cpu_ms(const struct process *process)
{
    char path[64];
    struct text text = {0};
    const char *at;
    unsigned long user = 0, system = 0;

    snprintf(path, sizeof path, "/proc/%ld/stat", (long)process->pid);
    assert_true(file_read(path, &text));
    at = strrchr(text.data, ')');
    assert_non_null(at);
    assert_int_equal(sscanf(at + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system), 2);
    text_free(&text);
    return (int64_t)(user + system) * 1000 / sysconf(_SC_CLK_TCK);
}

const char *process_log(const struct process *process)
{
    static struct text text;

    file_read(process->log, &text);
    return text.data;
}

int run_program(const char *const *arguments, const char *const *environment, struct text *output)
{
    char path[] = "/tmp/e2e-run-XXXXXX";
    int fd = mkostemp(path, O_CLOEXEC);
    struct process process = {0};

    assert_true(fd >= 0);
    process.pid = spawn(arguments, environment, -1, fd);
    close(fd);
    if (!process_wait(&process, PATIENCE_MS)) {
        kill(process.pid, SIGKILL);
        process_wait(&process, PATIENCE_MS);
        unlink(path);
        fail_msg("%s %s did not end", arguments[0], arguments[1]);
    }
    file_read(path, output);
    unlink(path);
    return process.code;
}

static bool is_free(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY), .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool bound;

    assert_true(fd >= 0);
    bound = bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
    close(fd);
    return bound;
}

/* Below the range that the system takes ports for outgoing connections from. */
uint16_t free_port(void)
{
    enum { FIRST = 20000, COUNT = 12000 };
    static unsigned next;

    if (next == 0)
        next = (unsigned)getpid() * 37;
    for (int i = 0; i < COUNT; i++) {
        uint16_t port = (uint16_t)(FIRST + next++ % COUNT);

        if (is_free(port))
            return port;
    }
    fail_msg("no free port");
    return 0;
}
