/* See growth.h. */
#include "growth.h"

#include <limits.h>

struct point {
    size_t x;
    double base_cpu, cpu, memory, rate; /* negative: not measured */
};

static bool measure_point(struct bench *bench, const struct series *series, size_t x, struct point *point)
{
    struct bench_case a_case;
    char name[64], title[96];
    bool whole;

    series->make(&a_case, x);
    snprintf(name, sizeof name, "growth-%s-%zu", series->name, x);
    snprintf(title, sizeof title, "%s: %zu", series->title, x);
    a_case.name = name;
    a_case.title = title;
    a_case.alone = series->alone;
    whole = measure_case(bench, &a_case);
    *point = (struct point){.x = x,
                            .base_cpu = series->alone ? -1 : measure_median(bench, NGINX, CPU),
                            .cpu = measure_median(bench, COORDINATOR, CPU),
                            .memory = measure_median(bench, COORDINATOR, MEMORY),
                            .rate = measure_median(bench, COORDINATOR, RATE)};
    measure_forget(bench);
    return whole;
}

static void print_value(double value)
{
    if (value >= 0)
        printf(" %14.1f", value);
    else
        printf(" %14s", "-");
}

static void print_series(const struct series *series, const struct point *points, size_t count)
{
    printf("%s\n  %12s %14s %14s %14s %14s\n", series->title, series->axis, "nginx us", "coordinator us", "KiB each",
           "requests/s");
    for (size_t i = 0; i < count; i++) {
        printf("  %12zu", points[i].x);
        print_value(points[i].base_cpu);
        print_value(points[i].cpu);
        print_value(points[i].memory);
        print_value(points[i].rate);
        putchar('\n');
    }
    fflush(stdout);
}

static void write_rows(FILE *csv, const struct series *series, const struct point *points, size_t count)
{
    for (size_t i = 0; i < count; i++)
        fprintf(csv, "%s,%zu,%.3f,%.3f,%.3f,%.1f\n", series->name, points[i].x, points[i].base_cpu, points[i].cpu,
                points[i].memory, points[i].rate);
}

static bool plot_series(const struct series *series, const struct point *points, size_t count, const char *folder)
{
    FILE *plot = popen("gnuplot", "w");

    if (!plot)
        return false;
    fprintf(plot,
            "set terminal pngcairo size 800,480 font 'sans,11'\nset output '%s/growth-%s.png'\nset title '%s'\n"
            "set xlabel '%s'\nset ylabel 'CPU us'\nset logscale xy\nset grid\nset key top left\n$data << END\n",
            folder, series->name, series->title, series->axis);
    for (size_t i = 0; i < count; i++)
        fprintf(plot, "%zu %g %g\n", points[i].x, points[i].base_cpu, points[i].cpu);
    fprintf(plot, "END\nplot $data using 1:3 with linespoints lw 2 title 'coordinator'%s\n",
            series->alone ? "" : ", $data using 1:2 with linespoints lw 2 title 'nginx, the same bytes'");
    return pclose(plot) == 0;
}

bool growth_run(struct bench *bench)
{
    const char *out = bench->settings.places.out;
    char path[PATH_MAX];
    bool whole = true;
    FILE *csv;

    snprintf(path, sizeof path, "%s/growth.csv", out);
    csv = fopen(path, "w");
    if (!csv) {
        perror(path);
        return false;
    }
    fprintf(csv, "series,x,nginx_us,coordinator_us,memory_kib,requests_per_s\n");
    for (const struct series *series = all_series; series < all_series + series_count; series++) {
        struct point points[MAX_POINTS];
        size_t count = 0;

        for (; count < MAX_POINTS && series->points[count] > 0; count++)
            whole = measure_point(bench, series, series->points[count], &points[count]) && whole;
        print_series(series, points, count);
        write_rows(csv, series, points, count);
        whole = plot_series(series, points, count, out) && whole;
    }
    return fclose(csv) == 0 && whole;
}
