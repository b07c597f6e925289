/*
 * The end of a map: repeated keys are found, merge keys (`<<`) applied, entries brought into their final order.
 *
 * Thread: [load].
 */
#ifndef CONFIG_MERGE_H
#define CONFIG_MERGE_H

#include "config/tree.h"

/* An entry as it was read. */
struct pending {
    struct entry entry;
    bool merge; /* its key is a plain `<<` */
};

/*
 * Fills `map->entries`: what stands in the map first, in file order, then what merged maps add (the earlier of several wins). A
 * repeated key is an error; its first value stays. False when memory is short.
 */
bool map_finish(struct arena *arena, struct node *map, const struct pending *pending, size_t count,
                struct complaints *complaints);

#endif
