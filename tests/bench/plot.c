/* See plot.h. */
#include "plot.h"

#include <stdlib.h>
#include <string.h>

void plot_begin(struct plot *plot)
{
    plot->script = open_memstream(&plot->text, &plot->length);
    if (!plot->script)
        abort();
}

static bool draw(const struct plot *plot, const char *terminal, const char *folder, const char *name, const char *kind)
{
    FILE *gnuplot = popen("gnuplot", "w");

    if (!gnuplot)
        return false;
    fprintf(gnuplot, "set terminal %s size 800,480 font 'sans,11'\nset output '%s/%s.%s'\n", terminal, folder, name,
            kind);
    fwrite(plot->text, 1, plot->length, gnuplot);
    return pclose(gnuplot) == 0;
}

bool plot_end(struct plot *plot, const char *name, const char *folder, const char *svg_folder)
{
    bool drawn = fclose(plot->script) == 0 && draw(plot, "pngcairo", folder, name, "png");

    if (drawn && svg_folder)
        drawn = draw(plot, "svg background rgb 'white'", svg_folder, name, "svg");
    free(plot->text);
    return drawn;
}

const char *plot_folder_name(const char *folder)
{
    const char *slash = strrchr(folder, '/');

    return slash ? slash + 1 : folder;
}
