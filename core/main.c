/* The `coordinator` program. Everything it does is in libcoordinator.so, so that plugins and program share one core. */
#include "cli/cli.h"

int main(int argc, char **argv) { return coord_main(argc, argv); }
