/* See report.h. */
#include "report.h"

#include <stdio.h>
#include <string.h>

enum { PATH_AT_MOST = 1024 };

static double ratio(const struct finding *finding)
{
    return finding->nginx > 0 && finding->coordinator >= 0 ? finding->coordinator / finding->nginx : -1;
}

/* What the bound is on. */
static double judged(const struct finding *finding)
{
    return finding->is_ratio ? ratio(finding) : finding->coordinator;
}

static const char *verdict(const struct finding *finding)
{
    if (finding->bound <= 0 || judged(finding) < 0) /* not measured, or nothing to compare with */
        return "";
    return judged(finding) <= finding->bound ? "reached" : "missed";
}

static void print_number(double value, const char *unit)
{
    char text[32] = "-";

    if (value >= 0)
        snprintf(text, sizeof text, "%.*f %s", value < 100 ? 1 : 0, value, unit);
    printf(" %12s", text);
}

void report_print(const struct finding *findings, size_t count)
{
    const char *title = "";

    printf("%-46s %12s %12s %8s  %-12s\n", "median of the rounds", "nginx", "coordinator", "ratio", "promised");
    for (size_t i = 0; i < count; i++) {
        const struct finding *finding = &findings[i];
        char bound[32] = "", times[16] = "-";

        if (strcmp(title, finding->title) != 0)
            printf("%s\n", title = finding->title);
        printf("  %-44s", finding->what);
        print_number(finding->nginx, finding->unit);
        print_number(finding->coordinator, finding->unit);
        if (ratio(finding) >= 0)
            snprintf(times, sizeof times, "%.2f x", ratio(finding));
        if (finding->bound > 0)
            snprintf(bound, sizeof bound, "<= %g %s", finding->bound, finding->is_ratio ? "x" : finding->unit);
        printf(" %8s  %-12s %s\n", times, bound, verdict(finding));
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
    fprintf(file, "case,measure,unit,nginx,coordinator,ratio,bound,bound_on,verdict\n");
    for (size_t i = 0; i < count; i++)
        fprintf(file, "\"%s\",\"%s\",%s,%.3f,%.3f,%.3f,%g,%s,%s\n", findings[i].title, findings[i].what,
                findings[i].unit, findings[i].nginx, findings[i].coordinator, ratio(&findings[i]), findings[i].bound,
                findings[i].is_ratio ? "ratio" : "value", verdict(&findings[i]));
    return fclose(file) == 0;
}

/* Bars of the CPU ratios, each with its bound as a line across. */
static bool write_plot(const struct finding *findings, size_t count, const char *folder)
{
    FILE *plot = popen("gnuplot", "w");

    if (!plot)
        return false;
    fprintf(plot, "set terminal pngcairo size 1100,520 font 'sans,11'\nset output '%s/ratios.png'\n", folder);
    fprintf(plot,
            "set title 'CPU time of the coordinator, nginx moving the same bytes = 1'\n"
            "set yrange [0:*]\nset ylabel 'times nginx'\nset grid ytics\nset style fill solid 0.7\nset boxwidth 0.6\n"
            "set xtics rotate by -12\nset key top left\n$data << END\n");
    for (size_t i = 0; i < count; i++)
        if (findings[i].is_ratio)
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
