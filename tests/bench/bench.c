/*
 * bench: the cases of the benchmark, each measured for nginx as a plain proxy and for the coordinator in turns.
 *
 * For each round of a case a fresh worker and a fresh target are started, warmed up, measured and stopped. A case of three
 * legs is compared with nginx moving the bodies of those three legs one after the other, its CPU time added up. Medians over
 * the rounds are reported. The targets log and are configured as a user would have it, save for one reactor.
 */
#include "findings.h"
#include "growth.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum { MAX_FINDINGS = 64, FILES = 45000 };

static bool run_all(struct bench *bench)
{
    struct finding findings[MAX_FINDINGS];
    size_t found = 0;
    bool whole = true;

    for (size_t i = 0; i < case_count && found + FINDINGS_A_CASE <= MAX_FINDINGS; i++) {
        if (!is_picked(bench->settings.only_cases, cases[i].name))
            continue;
        whole = measure_case(bench, &cases[i]) && whole;
        found += findings_of(bench, &cases[i], findings + found);
        measure_forget(bench);
    }
    report_print(findings, found);
    return report_write(findings, found, bench->settings.places.out, bench->settings.places.plots) && whole;
}

static int usage(void)
{
    fprintf(stderr,
            "usage: bench --coordinator PROGRAM --plugins DIR --worker PROGRAM --out DIR\n"
            "  --quick         two rounds with a quarter of the requests\n"
            "  --rounds N      rounds of each case (3)\n"
            "  --growth        instead of cases: how costs grow; growth.csv, growth.md and growth-*.png\n"
            "  --plots DIR     write the plots there, too, as SVG\n"
            "  --only LIST     of: nginx, plain (the coordinator without what a case is about), coordinator (over its\n"
            "                  own transport), curl (the coordinator over libcurl; with --growth only if named)\n"
            "  --case LIST     of:");
    for (size_t i = 0; i < case_count; i++)
        fprintf(stderr, " %s", cases[i].name);
    fprintf(stderr, "\n  --series LIST   of:");
    for (size_t i = 0; i < series_count; i++)
        fprintf(stderr, " %s", all_series[i].name);
    fprintf(stderr, "\nA list has commas between its names.\n");
    return 2;
}

/* A name that is none would measure nothing, and look like a success. */
static bool has_known_names(const struct settings *settings)
{
    bool picked = !settings->only_cases, grown = !settings->only_series, targeted = !settings->only_targets;

    for (size_t i = 0; i < case_count; i++)
        picked = picked || is_picked(settings->only_cases, cases[i].name);
    for (size_t i = 0; i < series_count; i++)
        grown = grown || is_picked(settings->only_series, all_series[i].name);
    for (size_t i = 0; i < TARGETS; i++)
        targeted = targeted || is_picked(settings->only_targets, target_names[i]);
    return picked && grown && targeted;
}

enum { COORDINATOR_AT = 1, PLUGINS, WORKER, OUT, PLOTS, QUICK, ROUNDS, ONLY, CASE, SERIES, GROWTH };

static const struct option options[] = {{"coordinator", required_argument, NULL, COORDINATOR_AT},
                                        {"plugins", required_argument, NULL, PLUGINS},
                                        {"worker", required_argument, NULL, WORKER},
                                        {"out", required_argument, NULL, OUT},
                                        {"plots", required_argument, NULL, PLOTS},
                                        {"quick", no_argument, NULL, QUICK},
                                        {"growth", no_argument, NULL, GROWTH},
                                        {"rounds", required_argument, NULL, ROUNDS},
                                        {"only", required_argument, NULL, ONLY},
                                        {"case", required_argument, NULL, CASE},
                                        {"series", required_argument, NULL, SERIES},
                                        {"help", no_argument, NULL, 'h'},
                                        {0}};

static bool read_arguments(struct settings *settings, int argc, char **argv)
{
    const char **const texts[] = {[COORDINATOR_AT] = &settings->places.coordinator,
                                  [PLUGINS] = &settings->places.plugins,
                                  [WORKER] = &settings->places.worker,
                                  [OUT] = &settings->places.out,
                                  [PLOTS] = &settings->places.plots,
                                  [ONLY] = &settings->only_targets,
                                  [CASE] = &settings->only_cases,
                                  [SERIES] = &settings->only_series,
                                  [GROWTH] = NULL};

    for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        if (option > GROWTH)
            return false;
        if (option == QUICK) {
            settings->rounds = 2;
            settings->share = 0.25;
        } else if (option == ROUNDS) {
            settings->rounds = (int)strtol(optarg, NULL, 10);
        } else if (texts[option]) {
            *texts[option] = optarg;
        }
        settings->growth = settings->growth || option == GROWTH || option == SERIES;
    }
    if (settings->places.out)
        settings->places.out = realpath(settings->places.out, NULL); /* lives as long as the program */
    return settings->places.worker && settings->places.out && settings->places.coordinator &&
           settings->places.plugins && settings->rounds > 0 && has_known_names(settings);
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
    fprintf(stderr, "bench: a process may open %llu files here, so %zu streams are the most, as each takes two\n",
            (unsigned long long)files.rlim_max, most_streams());
}

int main(int argc, char **argv)
{
    struct bench bench = {.settings = {.rounds = 3, .share = 1}};
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
    if (bench.settings.places.plots && mkdir(bench.settings.places.plots, 0755) < 0 && errno != EEXIST) {
        perror(bench.settings.places.plots);
        return 1;
    }
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
