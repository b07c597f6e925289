/* See linked_steps.h. */
#include "linked_steps.h"

#define BREAK LEAKS
#define coord_plugin linked_leaking
#include "../../sdk/broken/hello.c"
