/* The parts that a request can want played; see README.md for how one is told from the other. */
#ifndef SIM_PHASE_H
#define SIM_PHASE_H

#include "buf.h"

enum phase { PHASE_RENDER, PHASE_PREFILL, PHASE_DECODE, PHASE_PROBE, PHASE_ENCODE, PHASE_OTHER, PHASES };

const char *phase_name(enum phase phase);
/* False if it is no phase's name. */
bool phase_named(struct text name, enum phase *phase);

#endif
