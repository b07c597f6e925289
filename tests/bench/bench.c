/*
 * bench: the cases of the benchmark, each measured for nginx as a plain proxy and for the coordinator in turns.
 *
 * For each round of a case a fresh worker and a fresh target are started, warmed up, measured and stopped. A case of three
 * legs is compared with nginx moving the bodies of those three legs one after the other, its CPU time added up. Medians over
 * the rounds are reported. The targets log and are configured as a user would have it, save for one reactor.
 */
#include "growth.h"
#include "measure.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum { MAX_FINDINGS = 64, FILES = 45000 };

static const char *cpu_of_what(const struct bench_case *a_case)
{
    if (a_case->streams)
        return "CPU an event";
    return a_case->plain_steps || case_has_one_leg(a_case) ? "CPU a request" : "CPU a request (nginx: its three hops)";
}

/* `value`: how it is read of a target; the bound is on the coordinator's own. */
static struct finding compare(struct bench *bench, const struct bench_case *a_case, const char *what,
                              enum metric metric, double value(struct bench *, enum target, enum metric), double bound)
{
    enum target base = measure_base(a_case);

    return (struct finding){.title = a_case->title,
                            .what = what,
                            .unit = metrics[metric].unit,
                            .base_name = base == NGINX ? "nginx" : "the same without",
                            .base = value(bench, base, metric),
                            .coordinator = value(bench, COORDINATOR, metric),
                            .bound = bound,
                            .bound_on = VALUE};
}

static size_t find(struct bench *bench, const struct bench_case *a_case, struct finding *findings)
{
    bool promised = a_case->streams && a_case->bound > 0 && measure_base(a_case) == NGINX;
    size_t count = 0;

    findings[0] = compare(bench, a_case, cpu_of_what(a_case), CPU, measure_median, a_case->bound);
    findings[0].bound_on = a_case->bound_on;
    findings[0].each = a_case->each;
    count++;
    if (!a_case->streams) {
        findings[count++] = compare(bench, a_case, "latency p50 under load", P50, measure_median, 0);
        return count;
    }
    findings[count++] =
        compare(bench, a_case, "memory a stream, reused connections", MEMORY, measure_median, promised ? 40 : 0);
    findings[count++] = compare(bench, a_case, "delay of an event over direct, p50", P50, measure_added, 0);
    findings[count++] =
        compare(bench, a_case, "delay of an event over direct, p99", P99, measure_added, promised ? 300 : 0);
    return count;
}

static bool run_case(struct bench *bench, const struct bench_case *a_case, struct finding *findings, size_t *count)
{
    bool whole = measure_case(bench, a_case);

    *count = find(bench, a_case, findings);
    measure_forget(bench);
    return whole;
}

static bool run_all(struct bench *bench)
{
    struct finding findings[MAX_FINDINGS];
    size_t found = 0;
    bool whole = true;

    for (size_t i = 0; i < case_count; i++) {
        size_t count;

        if (bench->settings.only_case && strcmp(bench->settings.only_case, cases[i].name) != 0)
            continue;
        whole = run_case(bench, &cases[i], findings + found, &count) && whole;
        found += count;
    }
    report_print(findings, found);
    return report_write(findings, found, bench->settings.places.out) && whole;
}

static int usage(void)
{
    fprintf(stderr, "usage: bench --coordinator PROGRAM --plugins DIR --worker PROGRAM --out DIR\n"
                    "  --quick         two rounds with a quarter of the requests\n"
                    "  --rounds N      rounds of each case (5)\n"
                    "  --only TARGET   nginx, plain (the coordinator without what a case is about) or coordinator\n"
                    "  --growth        instead: how costs grow; growth.csv and growth-*.png\n"
                    "  --case NAME     one of:");
    for (size_t i = 0; i < case_count; i++)
        fprintf(stderr, " %s", cases[i].name);
    fputc('\n', stderr);
    return 2;
}

static bool read_arguments(struct settings *settings, int argc, char **argv)
{
    enum { COORDINATOR_AT = 1, PLUGINS, WORKER, OUT, QUICK, ROUNDS, ONLY, CASE, GROWTH };
    static const struct option options[] = {{"coordinator", required_argument, NULL, COORDINATOR_AT},
                                            {"plugins", required_argument, NULL, PLUGINS},
                                            {"worker", required_argument, NULL, WORKER},
                                            {"out", required_argument, NULL, OUT},
                                            {"quick", no_argument, NULL, QUICK},
                                            {"growth", no_argument, NULL, GROWTH},
                                            {"rounds", required_argument, NULL, ROUNDS},
                                            {"only", required_argument, NULL, ONLY},
                                            {"case", required_argument, NULL, CASE},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};

    for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        switch (option) {
        case COORDINATOR_AT:
            settings->places.coordinator = optarg;
            break;
        case PLUGINS:
            settings->places.plugins = optarg;
            break;
        case WORKER:
            settings->places.worker = optarg;
            break;
        case OUT:
            settings->places.out = realpath(optarg, NULL);
            break; /* lives as long as the program */
        case ROUNDS:
            settings->rounds = (int)strtol(optarg, NULL, 10);
            break;
        case ONLY:
            settings->only_target = optarg;
            break;
        case CASE:
            settings->only_case = optarg;
            break;
        case GROWTH:
            settings->growth = true;
            break;
        case QUICK:
            settings->rounds = 2;
            settings->share = 0.25;
            break;
        default:
            return false;
        }
    }
    return settings->places.worker && settings->places.out && settings->places.coordinator &&
           settings->places.plugins && settings->rounds > 0;
}

static void raise_file_limit(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return;
    if (files.rlim_max < FILES)
        files.rlim_max = FILES; /* root may */
    files.rlim_cur = files.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &files) == 0)
        return;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    fprintf(stderr, "bench: only %llu files may be open here; 10,000 streams want %d\n",
            (unsigned long long)files.rlim_max, FILES);
}

int main(int argc, char **argv)
{
    struct bench bench = {.settings = {.rounds = 5, .share = 1}};
    char path[PATH_MAX];
    bool whole;

    if (!read_arguments(&bench.settings, argc, argv))
        return usage();
    raise_file_limit();
    snprintf(path, sizeof path, "%s/temp", bench.settings.places.out);
    if (mkdir(path, 0755) < 0 && errno != EEXIST) {
        perror(path);
        return 1;
    }
    snprintf(path, sizeof path, "%s/rounds.csv", bench.settings.places.out);
    bench.rounds_csv = fopen(path, "w");
    if (!bench.rounds_csv) {
        perror(path);
        return 1;
    }
    fprintf(bench.rounds_csv, "case,target,round,metric,value,unit\n");
    whole = bench.settings.growth ? growth_run(&bench) : run_all(&bench);
    fclose(bench.rounds_csv);
    return whole ? 0 : 1;
}
