/* One of the broken examples, linked into the program, as a step author's tests have their step. */
#ifndef LINKED_STEPS_H
#define LINKED_STEPS_H

#include <coordinator/plugin.h>

extern const coord_plugin_descriptor linked_leaking;

#endif
