/* See owners.h. */
#include "pipeline/owners.h"

#include "pipeline/generation.h"

#include <pthread.h>
#include <stdlib.h>

const struct owner *owner_of(const char *step_id, const struct plugin *plugin)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct arena arena;
    static struct known {
        struct known *next;
        struct owner owner;
    } *all;
    const char *step = intern(coord_slice_of(step_id));
    const char *from = intern(coord_slice_of(plugin->file[0] ? plugin->file : plugin->name));
    struct known *known;

    pthread_mutex_lock(&lock);
    for (known = all; known && (known->owner.step != step || known->owner.plugin != from); known = known->next)
        ;
    if (!known) {
        known = arena_alloc(&arena, sizeof *known);
        if (!known)
            abort();
        *known = (struct known){all, {step, from}};
        all = known;
    }
    pthread_mutex_unlock(&lock);
    return &known->owner;
}
