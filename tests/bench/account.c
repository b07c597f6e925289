/* See account.h. */
#include "account.h"

#include <stdio.h>
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

static int64_t process_memory(pid_t pid)
{
    char path[64], line[256];
    long long kib = -1;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)pid);
    file = fopen(path, "r");
    if (!file)
        return -1;
    while (kib < 0 && fgets(line, sizeof line, file))
        if (sscanf(line, "Pss: %lld kB", &kib) != 1)
            kib = -1;
    fclose(file);
    return kib < 0 ? -1 : kib * 1024;
}

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
