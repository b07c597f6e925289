/*
 * The process metrics that every Prometheus client shows, read from the system when the page is.
 *
 * What cannot be read is left out: a number that is not known is no zero. Thread: any.
 */
#include "telemetry/registry.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* All a small file of /proc says, NUL-terminated; false when it cannot be read. */
static bool read_text(const char *path, char *text, size_t room)
{
    FILE *file = fopen(path, "re");
    size_t size;

    if (!file)
        return false;
    size = fread(text, 1, room - 1, file);
    text[size] = '\0';
    fclose(file);
    return size > 0;
}

static double cpu_seconds(void)
{
    struct timespec used;

    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) != 0)
        return NAN;
    return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

static double resident_bytes(void)
{
    unsigned long all, resident;
    char text[256];

    if (!read_text("/proc/self/statm", text, sizeof text) || sscanf(text, "%lu %lu", &all, &resident) != 2)
        return NAN;
    return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

static double open_fds(void)
{
    struct stat status;
    double count = 0;
    DIR *folder;

    if (stat("/proc/self/fd", &status) == 0 && status.st_size > 0) /* the count itself, since Linux 6.2 */
        return (double)status.st_size;
    folder = opendir("/proc/self/fd");
    if (!folder)
        return NAN;
    for (struct dirent *entry; (entry = readdir(folder));)
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count - 1; /* the folder itself was open */
}

static double max_fds(void)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? (double)limit.rlim_cur : NAN;
}

/* The 22nd field of stat, in clock ticks after boot; the 2nd, a name in parentheses, may hold anything. */
static double start_ticks(void)
{
    unsigned long long ticks;
    char text[1024], *at;

    if (!read_text("/proc/self/stat", text, sizeof text) || !(at = strrchr(text, ')')))
        return NAN;
    for (int field = 2; field < 22; field++) {
        at = strchr(at + 1, ' ');
        if (!at)
            return NAN;
    }
    return sscanf(at, "%llu", &ticks) == 1 ? (double)ticks : NAN;
}

static double boot_time(void)
{
    FILE *file = fopen("/proc/stat", "re");
    unsigned long long seconds;
    double time = NAN;
    char *line = NULL;
    size_t room = 0;

    if (!file)
        return NAN;
    while (isnan(time) && getline(&line, &room, file) > 0)
        if (sscanf(line, "btime %llu", &seconds) == 1)
            time = (double)seconds;
    free(line);
    fclose(file);
    return time;
}

static double start_time(void) { return boot_time() + start_ticks() / (double)sysconf(_SC_CLK_TCK); }

bool process_render(struct buffer *page, bool openmetrics)
{
    static const struct {
        const char *name, *help;
        int32_t kind;
        double (*read)(void);
    } rows[] = {
        {"process_cpu_seconds_total", "Total user and system CPU time spent in seconds.", COORD_METRIC_COUNTER,
         cpu_seconds},
        {"process_max_fds", "Maximum number of open file descriptors.", COORD_METRIC_GAUGE, max_fds},
        {"process_open_fds", "Number of open file descriptors.", COORD_METRIC_GAUGE, open_fds},
        {"process_resident_memory_bytes", "Resident memory size in bytes.", COORD_METRIC_GAUGE, resident_bytes},
        {"process_start_time_seconds", "Start time of the process since unix epoch in seconds.", COORD_METRIC_GAUGE,
         start_time},
    };

    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        double value = rows[r].read();

        if (isnan(value))
            continue;
        if (!page_head(page, rows[r].name, rows[r].help, rows[r].kind, openmetrics) ||
            !buffer_append_text(page, rows[r].name) || !buffer_append_text(page, " ") || !page_number(page, value) ||
            !buffer_append_text(page, "\n"))
            return false;
    }
    return true;
}
