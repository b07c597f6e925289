/* See growth.h. */
#include "growth.h"

#include "bend.h"
#include "plot.h"

/* A curve that ends higher than that over what the points before foretell is said to bend. */
#define BEND_AT_MOST 1.3

enum { SHOWN = 3 };

/* A column each, in the order of the tables. */
static const enum target shown[SHOWN] = {NGINX, COORDINATOR, CURL};
static const char *const shown_as[SHOWN] = {"nginx", "coordinator", "over curl"};

struct curves {
    const struct series *series;
    size_t count;
    /* Negative: not measured. `memory` and `rate` are those of what is measured of the coordinator. */
    double x[MAX_POINTS], cpu[SHOWN][MAX_POINTS], memory[MAX_POINTS], rate[MAX_POINTS];
};

static double first_measured(struct bench *bench, enum metric metric)
{
    double direct = measure_median(bench, COORDINATOR, metric);

    return direct >= 0 ? direct : measure_median(bench, CURL, metric);
}

static bool measure_point(struct bench *bench, struct curves *curves, size_t x)
{
    const struct series *series = curves->series;
    struct bench_case a_case;
    char name[64], title[128];
    size_t at = curves->count++;
    bool whole;

    series->make(&a_case, x);
    snprintf(name, sizeof name, "growth-%s-%zu", series->name, x);
    snprintf(title, sizeof title, "%s; %zu %s", series->title, x, series->axis);
    a_case.name = name;
    a_case.title = title;
    whole = measure_case(bench, &a_case);
    curves->x[at] = (double)x;
    for (int i = 0; i < SHOWN; i++)
        curves->cpu[i][at] = measure_median(bench, shown[i], CPU);
    curves->memory[at] = first_measured(bench, MEMORY);
    curves->rate[at] = first_measured(bench, RATE);
    measure_forget(bench);
    return whole;
}

static bool measure_series(struct bench *bench, struct curves *curves)
{
    const struct series *series = curves->series;
    size_t most = series->most ? series->most() : SIZE_MAX;
    bool whole = true;

    for (size_t i = 0; i < series->count; i++) {
        whole = measure_point(bench, curves, series->points[i] < most ? series->points[i] : most) && whole;
        if (series->points[i] >= most)
            break;
    }
    return whole;
}

static void say_bends(FILE *file, const struct curves *curves, const char *before, const char *after)
{
    for (int i = 0; i < SHOWN; i++) {
        double bend = bend_of(curves->x, curves->cpu[i], curves->count, curves->series->is_flat);

        if (bend >= 0)
            fprintf(file, "%s%s: %s, %.2f x what the points before foretell%s\n", before, shown_as[i],
                    bend <= BEND_AT_MOST ? (curves->series->is_flat ? "flat" : "linear") : "bends", bend, after);
    }
}

static void print_curves(const struct curves *curves)
{
    printf("%s\n  %16s %14s %14s %14s %14s %14s\n", curves->series->title, curves->series->axis, "nginx us",
           "coordinator us", "over curl us", "KiB each", "requests/s");
    for (size_t i = 0; i < curves->count; i++) {
        const double values[] = {curves->cpu[0][i], curves->cpu[1][i], curves->cpu[2][i], curves->memory[i],
                                 curves->rate[i]};

        printf("  %16.0f", curves->x[i]);
        for (size_t v = 0; v < sizeof values / sizeof *values; v++)
            if (values[v] >= 0)
                printf(" %14.1f", values[v]);
            else
                printf(" %14s", "-");
        putchar('\n');
    }
    say_bends(stdout, curves, "  ", "");
    fflush(stdout);
}

static void write_rows(FILE *csv, const struct curves *curves)
{
    for (size_t i = 0; i < curves->count; i++)
        fprintf(csv, "%s,%.0f,%.3f,%.3f,%.3f,%.3f,%.1f\n", curves->series->name, curves->x[i], curves->cpu[0][i],
                curves->cpu[1][i], curves->cpu[2][i], curves->memory[i], curves->rate[i]);
    fflush(csv);
}

static void put_cell(FILE *file, double value)
{
    if (value >= 0)
        fprintf(file, " %.*f |", value < 100 ? 1 : 0, value);
    else
        fputs(" |", file);
}

/* As docs/performance.md has it. */
static void write_section(FILE *file, const struct curves *curves, const char *plots)
{
    fprintf(file,
            "**%s**\n\n| %s | nginx us | coordinator us | over curl us | KiB each | requests/s |\n| --- | --- | --- | "
            "--- | --- | --- |\n",
            curves->series->title, curves->series->axis);
    for (size_t i = 0; i < curves->count; i++) {
        fprintf(file, "| %.0f |", curves->x[i]);
        for (int j = 0; j < SHOWN; j++)
            put_cell(file, curves->cpu[j][i]);
        put_cell(file, curves->memory[i]);
        put_cell(file, curves->rate[i]);
        fputc('\n', file);
    }
    fputc('\n', file);
    say_bends(file, curves, "* ", ".");
    if (plots)
        fprintf(file, "\n![%s](%s/growth-%s.svg)\n", curves->series->title, plot_folder_name(plots),
                curves->series->name);
    fputc('\n', file);
}

/* A cost that grows over decades is seen on two logarithmic axes; one that should be flat begins at zero. */
static const char *axes_of(const struct curves *curves)
{
    bool has_decades = curves->x[0] > 0 && curves->x[curves->count - 1] >= 30 * curves->x[0];

    if (!has_decades)
        return "set yrange [0:*]\n";
    return curves->series->is_flat ? "set logscale x\nset yrange [0:*]\n" : "set logscale xy\n";
}

static bool plot_curves(const struct curves *curves, const struct places *places)
{
    const struct series *series = curves->series;
    char name[64];
    bool any = false;
    struct plot plot;

    for (int i = 0; i < SHOWN; i++)
        any = any || curves->cpu[i][0] >= 0;
    if (!any)
        return false;
    plot_begin(&plot);
    fprintf(plot.script,
            "set title '%s'\nset xlabel '%s'\nset ylabel 'CPU us'\nset grid\nset key top left\n%s$data << END\n",
            series->title, series->axis, axes_of(curves));
    for (size_t i = 0; i < curves->count; i++)
        fprintf(plot.script, "%.0f %g %g %g\n", curves->x[i], curves->cpu[0][i], curves->cpu[1][i], curves->cpu[2][i]);
    fprintf(plot.script, "END\nplot ");
    for (int i = 0; i < SHOWN; i++)
        if (curves->cpu[i][0] >= 0)
            fprintf(plot.script, "$data using 1:%d with linespoints lw 2 title '%s', ", i + 2, shown_as[i]);
    fprintf(plot.script, "NaN notitle\n");
    snprintf(name, sizeof name, "growth-%s", series->name);
    return plot_end(&plot, name, places->out, places->plots);
}

static bool run_series(struct bench *bench, FILE *csv, FILE *sections)
{
    bool whole = true;

    for (const struct series *series = all_series; series < all_series + series_count; series++) {
        struct curves curves = {.series = series};

        if (!is_picked(bench->settings.only_series, series->name))
            continue;
        whole = measure_series(bench, &curves) && whole;
        print_curves(&curves);
        write_rows(csv, &curves);
        write_section(sections, &curves, bench->settings.places.plots);
        whole = plot_curves(&curves, &bench->settings.places) && whole;
    }
    return whole;
}

bool growth_run(struct bench *bench)
{
    FILE *csv = report_open(bench->settings.places.out, "growth.csv"),
         *sections = report_open(bench->settings.places.out, "growth.md");
    bool whole = csv && sections;

    if (csv)
        fprintf(csv, "series,x,nginx_us,coordinator_us,curl_us,memory_kib,requests_per_s\n");
    whole = whole && run_series(bench, csv, sections);
    if (csv)
        whole = fclose(csv) == 0 && whole;
    if (sections)
        whole = fclose(sections) == 0 && whole;
    return whole;
}
