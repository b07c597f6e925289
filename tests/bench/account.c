/* See account.h. */
#include "account.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { CHILDREN_AT_MOST = 64 };

/* `pid` itself and its children. A grandchild is not found; neither nginx nor the coordinator has one. */
static int family(pid_t pid, pid_t members[CHILDREN_AT_MOST])
{
    char path[64];
    FILE *file;
    int count = 1;

    members[0] = pid;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    file = fopen(path, "r");
    if (!file)
        return count;
    for (int child; count < CHILDREN_AT_MOST && fscanf(file, "%d", &child) == 1;)
        members[count++] = child;
    fclose(file);
    return count;
}

static int64_t process_cpu_ns(pid_t pid)
{
    clockid_t clock;
    struct timespec used;

    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0)
        return -1;
    return (int64_t)used.tv_sec * 1000000000 + used.tv_nsec;
}

/* The number after `name` and a colon at the beginning of a line of a file; -1: none. */
static int64_t number_in(const char *path, const char *name)
{
    size_t length = strlen(name);
    long long number = -1;
    char line[256];
    FILE *file = fopen(path, "r");

    if (!file)
        return -1;
    while (number < 0 && fgets(line, sizeof line, file))
        if (strncmp(line, name, length) != 0 || line[length] != ':' || sscanf(line + length + 1, "%lld", &number) != 1)
            number = -1;
    fclose(file);
    return number;
}

static int64_t kib_of(pid_t pid, const char *file, const char *name)
{
    char path[64];
    int64_t kib;

    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    kib = number_in(path, name);
    return kib < 0 ? -1 : kib * 1024;
}

static int64_t process_memory(pid_t pid) { return kib_of(pid, "smaps_rollup", "Pss"); }

static int64_t added_up(pid_t pid, int64_t (*of)(pid_t))
{
    pid_t members[CHILDREN_AT_MOST];
    int count = family(pid, members);
    int64_t sum = 0;

    for (int i = 0; i < count; i++) {
        int64_t part = of(members[i]);

        if (part < 0)
            return -1;
        sum += part;
    }
    return sum;
}

int64_t account_cpu_ns(pid_t pid) { return added_up(pid, process_cpu_ns); }

int64_t account_memory(pid_t pid) { return added_up(pid, process_memory); }

int64_t account_resident(pid_t pid) { return kib_of(pid, "status", "VmRSS"); }

int64_t account_peak(pid_t pid) { return kib_of(pid, "status", "VmHWM"); }

int64_t account_sleeps(pid_t pid)
{
    char folder[64], path[sizeof folder + NAME_MAX + sizeof "//status"];
    int64_t sum = 0;
    DIR *threads;

    snprintf(folder, sizeof folder, "/proc/%d/task", (int)pid);
    threads = opendir(folder);
    if (!threads)
        return -1;
    for (struct dirent *thread; (thread = readdir(threads));) {
        int64_t sleeps;

        if (thread->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s/status", folder, thread->d_name);
        sleeps = number_in(path, "voluntary_ctxt_switches");
        sum += sleeps > 0 ? sleeps : 0;
    }
    closedir(threads);
    return sum;
}
