/*
 * The command line: `coordinator SUBCOMMAND …`. One file a subcommand, each with the signature of cli_command.
 *
 * Exit codes: 0 done; 1 it could not start (`serve` with an error in the configuration, too) or something was cut; 2 wrong usage or,
 * but for `serve`, an error in the configuration.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <coordinator/base.h>

/* The program's main function, exported for core/main.c only. */
COORD_API int coord_main(int argc, char **argv);

#endif
