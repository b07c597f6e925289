/* See report.h. */
#include "report.h"

#include <stdio.h>
#include <string.h>

enum { PATH_AT_MOST = 1024 };

static const char *const bounds_on[] = {[RATIO] = "ratio", [VALUE] = "value", [ADDED] = "added"};

static double ratio(const struct finding *finding)
{
    return finding->base > 0 && finding->coordinator >= 0 ? finding->coordinator / finding->base : -1;
}

/* What the bound is on; negative: not measured, or nothing to compare with. */
static double judged(const struct finding *finding)
{
    double added = finding->coordinator - finding->base;

    switch (finding->bound_on) {
    case VALUE:
        return finding->coordinator;
    case ADDED:
        if (finding->base < 0 || finding->coordinator < 0)
            return -1;
        return added > 0 ? added / finding->each : 0;
    case RATIO:
        break;
    }
    return ratio(finding);
}

static const char *verdict(const struct finding *finding)
{
    if (finding->bound <= 0 || judged(finding) < 0)
        return "";
    return judged(finding) <= finding->bound ? "reached" : "missed";
}

static void print_number(double value, const char *unit)
{
    char text[32] = "-";

    if (value >= 0)
        snprintf(text, sizeof text, "%.*f %s", value < 1 ? 3 : value < 100 ? 1 : 0, value, unit);
    printf(" %12s", text);
}

static void print_bound(const struct finding *finding)
{
    char bound[48] = "";

    if (finding->bound <= 0) {
        putchar('\n');
        return;
    }
    snprintf(bound, sizeof bound, "<= %g %s%s", finding->bound, finding->bound_on == RATIO ? "x" : finding->unit,
             finding->bound_on == ADDED ? " more" : "");
    printf("  %-14s %s", bound, verdict(finding));
    if (finding->bound_on == ADDED && judged(finding) >= 0)
        printf(": %.3f %s%s", judged(finding), finding->unit, finding->each > 1 ? " each" : "");
    putchar('\n');
}

void report_print(const struct finding *findings, size_t count)
{
    const char *title = "";

    printf("%-46s %12s %12s %8s  %s\n", "median of the rounds", "beside", "coordinator", "ratio", "promised");
    for (size_t i = 0; i < count; i++) {
        const struct finding *finding = &findings[i];
        char times[16] = "-";

        if (strcmp(title, finding->title) != 0)
            printf("%s (beside: %s)\n", title = finding->title, finding->base_name);
        printf("  %-44s", finding->what);
        print_number(finding->base, finding->unit);
        print_number(finding->coordinator, finding->unit);
        if (ratio(finding) >= 0)
            snprintf(times, sizeof times, "%.2f x", ratio(finding));
        printf(" %8s", times);
        print_bound(finding);
    }
}

static bool write_csv(const struct finding *findings, size_t count, const char *folder)
{
    char path[PATH_AT_MOST];
    FILE *file;

    snprintf(path, sizeof path, "%s/results.csv", folder);
    file = fopen(path, "w");
    if (!file) {
        perror(path);
        return false;
    }
    fprintf(file, "case,measure,unit,beside,base,coordinator,ratio,bound,bound_on,verdict\n");
    for (size_t i = 0; i < count; i++)
        fprintf(file, "\"%s\",\"%s\",%s,\"%s\",%.3f,%.3f,%.3f,%g,%s,%s\n", findings[i].title, findings[i].what,
                findings[i].unit, findings[i].base_name, findings[i].base, findings[i].coordinator, ratio(&findings[i]),
                findings[i].bound, bounds_on[findings[i].bound_on], verdict(&findings[i]));
    return fclose(file) == 0;
}

static bool is_plotted(const struct finding *finding)
{
    return finding->bound_on == RATIO && strcmp(finding->base_name, "nginx") == 0;
}

/* Bars of the CPU ratios, each with its bound as a line across. */
static bool write_plot(const struct finding *findings, size_t count, const char *folder)
{
    size_t bars = 0;
    FILE *plot;

    for (size_t i = 0; i < count; i++)
        bars += is_plotted(&findings[i]);
    if (bars == 0)
        return true;
    plot = popen("gnuplot", "w");
    if (!plot)
        return false;
    fprintf(plot, "set terminal pngcairo size 1100,520 font 'sans,11'\nset output '%s/ratios.png'\n", folder);
    fprintf(plot,
            "set title 'CPU time of the coordinator, nginx moving the same bytes = 1'\n"
            "set yrange [0:*]\nset ylabel 'times nginx'\nset grid ytics\nset style fill solid 0.7\nset boxwidth 0.6\n"
            "set xtics rotate by -12\nset key top left\n$data << END\n");
    for (size_t i = 0; i < count; i++)
        if (is_plotted(&findings[i]))
            fprintf(plot, "\"%s\" %.3f %g\n", findings[i].title, ratio(&findings[i]) < 0 ? 0 : ratio(&findings[i]),
                    findings[i].bound);
    fprintf(plot, "END\nplot $data using 0:2:xtic(1) with boxes title 'reached', "
                  "$data using 0:($3 > 0 ? $3 : NaN):(0.35) with xerrorbars pt 0 lw 2 title 'promised at most', "
                  "$data using 0:2:(sprintf('%%.2f', $2)) with labels offset 0,0.7 notitle\n");
    return pclose(plot) == 0;
}

bool report_write(const struct finding *findings, size_t count, const char *folder)
{
    bool csv = write_csv(findings, count, folder), plot = write_plot(findings, count, folder);

    if (csv && plot)
        printf("written: %s/results.csv rounds.csv ratios.png\n", folder);
    else
        fprintf(stderr, "bench: not everything could be written to %s\n", folder);
    return csv && plot;
}
