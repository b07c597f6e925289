/* The flags, for whoever needs them. */
#ifndef SIM_MAIN_H
#define SIM_MAIN_H

#include "options.h"

extern struct options options; /* constant once main has read it */

#endif
