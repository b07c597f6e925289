/*
 * A plot, drawn by gnuplot: as PNG into one folder and, where asked for, as SVG into another.
 */
#ifndef BENCH_PLOT_H
#define BENCH_PLOT_H

#include <stdbool.h>
#include <stdio.h>

struct plot {
    FILE *script; /* gnuplot commands; terminal and output are set */
    char *text;
    size_t length;
};

/* Aborts when memory runs out. */
void plot_begin(struct plot *plot);
/* Draws FOLDER/NAME.png, and SVG_FOLDER/NAME.svg unless that is NULL. False: gnuplot failed. Releases the script. */
bool plot_end(struct plot *plot, const char *name, const char *folder, const char *svg_folder);

/* The last part of a folder's path: how a page that lies beside the folder names it. */
const char *plot_folder_name(const char *folder);

#endif
