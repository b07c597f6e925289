/* See report.h. */
#include "report.h"

#include "plot.h"

#include <stdio.h>
#include <string.h>

enum { PATH_AT_MOST = 1024, CELL = 32 };

static const char *const bounds_on[] = {[RATIO] = "ratio", [VALUE] = "value", [ADDED] = "added"};

/* `value` beside the base; negative: one of them was not measured. */
static double ratio(const struct finding *finding, double value)
{
    return finding->base > 0 && value >= 0 ? value / finding->base : -1;
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
    return ratio(finding, finding->coordinator);
}

/* "reached" or "missed"; empty: nothing was promised, or nothing measured. */
static const char *verdict(const struct finding *finding)
{
    if (finding->bound <= 0 || judged(finding) < 0)
        return "";
    return judged(finding) <= finding->bound ? "reached" : "missed";
}

static const char *number(char cell[CELL], double value, const char *unit)
{
    snprintf(cell, CELL, "-");
    if (value >= 0)
        snprintf(cell, CELL, "%.*f %s", value < 1 ? 3 : value < 10 ? 2 : value < 100 ? 1 : 0, value, unit);
    return cell;
}

static const char *times(char cell[CELL], double value)
{
    snprintf(cell, CELL, "-");
    if (value >= 0)
        snprintf(cell, CELL, "%.2f x", value);
    return cell;
}

static const char *promise(char cell[2 * CELL], const struct finding *finding)
{
    cell[0] = '\0';
    if (finding->bound > 0)
        snprintf(cell, 2 * CELL, "<= %g %s%s", finding->bound, finding->bound_on == RATIO ? "x" : finding->unit,
                 finding->bound_on == ADDED ? " more" : "");
    return cell;
}

/* The verdict, and what was judged where no column has it. */
static void tell_verdict(const struct finding *finding, FILE *file)
{
    fputs(verdict(finding), file);
    if (finding->bound > 0 && finding->bound_on == ADDED && judged(finding) >= 0)
        fprintf(file, ": %.3f %s%s", judged(finding), finding->unit, finding->each > 1 ? " each" : "");
}

/* A second of a core's time; 0: not measured, or no such figure. */
static double carried(const struct finding *finding)
{
    return finding->carried && finding->coordinator > 0 ? 1e6 / finding->coordinator : 0;
}

/* Hands each finding that a core carries something of to `row`, behind the heading. False: there is none. */
static bool list_carried(const struct finding *findings, size_t count, FILE *file, const char *heading,
                         void (*row)(const struct finding *finding, double a_second, FILE *file))
{
    bool any = false;

    for (size_t i = 0; i < count; i++) {
        double a_second = carried(&findings[i]);

        if (a_second <= 0)
            continue;
        if (!any)
            fputs(heading, file);
        any = true;
        row(&findings[i], a_second, file);
    }
    return any;
}

static void print_carried(const struct finding *finding, double a_second, FILE *file)
{
    fprintf(file, "  %-44s %12.0f %s a second", finding->title, a_second, finding->carried);
    if (finding->prompt_tokens > 0)
        fprintf(file, ", %.0f prompt tokens a second", a_second * finding->prompt_tokens);
    fputc('\n', file);
}

void report_print(const struct finding *findings, size_t count)
{
    const char *title = "";

    printf("%-46s %12s %12s %8s %12s %8s  %s\n", "median of the rounds", "beside", "coordinator", "ratio", "over curl",
           "ratio", "promised");
    for (size_t i = 0; i < count; i++) {
        const struct finding *finding = &findings[i];
        char cells[5][CELL], bound[2 * CELL];

        if (strcmp(title, finding->title) != 0)
            printf("%s (beside: %s)\n", title = finding->title, finding->base_name);
        printf("  %-44s %12s %12s %8s %12s %8s", finding->what, number(cells[0], finding->base, finding->unit),
               number(cells[1], finding->coordinator, finding->unit),
               times(cells[2], ratio(finding, finding->coordinator)), number(cells[3], finding->curl, finding->unit),
               times(cells[4], ratio(finding, finding->curl)));
        printf("  %-14s ", promise(bound, finding));
        tell_verdict(finding, stdout);
        putchar('\n');
    }
    list_carried(findings, count, stdout, "A core carries, as far as its own CPU time goes\n", print_carried);
}

FILE *report_open(const char *folder, const char *name)
{
    char path[PATH_AT_MOST];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "w");
    if (!file)
        perror(path);
    return file;
}

static bool write_csv(const struct finding *findings, size_t count, const char *folder)
{
    FILE *file = report_open(folder, "results.csv");

    if (!file)
        return false;
    fprintf(file, "case,measure,unit,beside,base,coordinator,ratio,curl,curl_ratio,bound,bound_on,verdict\n");
    for (size_t i = 0; i < count; i++)
        fprintf(file, "\"%s\",\"%s\",%s,\"%s\",%.3f,%.3f,%.3f,%.3f,%.3f,%g,%s,%s\n", findings[i].title,
                findings[i].what, findings[i].unit, findings[i].base_name, findings[i].base, findings[i].coordinator,
                ratio(&findings[i], findings[i].coordinator), findings[i].curl, ratio(&findings[i], findings[i].curl),
                findings[i].bound, bounds_on[findings[i].bound_on], verdict(&findings[i]));
    return fclose(file) == 0;
}

static void write_table(const struct finding *findings, size_t count, FILE *file)
{
    const char *title = "";

    fprintf(file, "| case (beside) | measure | beside | direct | ratio | curl | ratio | promised | |\n"
                  "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
    for (size_t i = 0; i < count; i++) {
        const struct finding *finding = &findings[i];
        char cells[5][CELL], bound[2 * CELL];

        if (strcmp(title, finding->title) != 0)
            fprintf(file, "| %s (%s) ", title = finding->title, finding->base_name);
        else
            fputs("| ", file);
        fprintf(file, "| %s | %s | %s | %s | %s | %s | %s | ", finding->what,
                number(cells[0], finding->base, finding->unit), number(cells[1], finding->coordinator, finding->unit),
                times(cells[2], ratio(finding, finding->coordinator)), number(cells[3], finding->curl, finding->unit),
                times(cells[4], ratio(finding, finding->curl)), promise(bound, finding));
        tell_verdict(finding, file);
        fputs(" |\n", file);
    }
    fputc('\n', file);
}

static void write_carried_row(const struct finding *finding, double a_second, FILE *file)
{
    fprintf(file, "| %s | %.0f %s |", finding->title, a_second, finding->carried);
    if (finding->prompt_tokens > 0)
        fprintf(file, " %.0f", a_second * finding->prompt_tokens);
    fputs(" |\n", file);
}

static void write_carried(const struct finding *findings, size_t count, FILE *file)
{
    static const char heading[] = "| a core carries | a second | prompt tokens a second |\n| --- | --- | --- |\n";

    if (list_carried(findings, count, file, heading, write_carried_row))
        fputc('\n', file);
}

bool report_append(const struct finding *findings, size_t count, const char *path)
{
    FILE *file = fopen(path, "a");

    if (!file) {
        perror(path);
        return false;
    }
    write_table(findings, count, file);
    write_carried(findings, count, file);
    return fclose(file) == 0;
}

static bool write_markdown(const struct finding *findings, size_t count, const char *folder, const char *plots)
{
    FILE *file = report_open(folder, "results.md");

    if (!file)
        return false;
    write_table(findings, count, file);
    if (plots)
        fprintf(file, "![CPU time of the coordinator, nginx = 1](%s/ratios.svg)\n\n", plot_folder_name(plots));
    write_carried(findings, count, file);
    return fclose(file) == 0;
}

/* Bars of the ratios over both transports, each with its bound as a line across. */
static bool write_plot(const struct finding *findings, size_t count, const char *folder, const char *plots)
{
    struct plot plot;
    size_t bars = 0;

    for (size_t i = 0; i < count; i++)
        bars += findings[i].is_plotted;
    if (bars == 0)
        return true;
    plot_begin(&plot);
    fprintf(plot.script,
            "set title 'CPU time (alone: p50) of the coordinator, nginx = 1'\n"
            "set yrange [0:*]\nset ylabel 'times nginx'\nset grid ytics\nset style fill solid 0.7\nset boxwidth 0.35\n"
            "set xtics rotate by -20 noenhanced\nset key outside top center horizontal\n$data << END\n");
    for (size_t i = 0; i < count; i++)
        if (findings[i].is_plotted)
            fprintf(plot.script, "\"%s\" %.3f %.3f %g\n", findings[i].title,
                    ratio(&findings[i], findings[i].coordinator), ratio(&findings[i], findings[i].curl),
                    findings[i].bound);
    fprintf(plot.script, "END\nplot $data using ($0-0.18):($2 < 0 ? 0 : $2):xtic(1) with boxes title 'direct', "
                         "$data using ($0+0.18):($3 < 0 ? 0 : $3) with boxes title 'curl', "
                         "$data using 0:($4 > 0 ? $4 : NaN):(0.4) with xerrorbars pt 0 lw 2 title 'promised at most', "
                         "$data using ($0-0.18):2:(sprintf('%%.2f', $2)) with labels offset 0,0.7 notitle\n");
    return plot_end(&plot, "ratios", folder, plots);
}

bool report_write(const struct finding *findings, size_t count, const char *folder, const char *plots)
{
    bool tables = write_csv(findings, count, folder) && write_markdown(findings, count, folder, plots);
    bool plot = write_plot(findings, count, folder, plots);

    if (tables && plot)
        printf("written: %s/results.csv results.md rounds.csv ratios.png\n", folder);
    else
        fprintf(stderr, "bench: not everything could be written to %s\n", folder);
    return tables && plot;
}
