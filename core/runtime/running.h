/*
 * Whose code runs on this thread: what a crash line and the watchdog name.
 *
 * A fiber brings its own when it goes on and takes it away when it leaves; whoever calls into a plugin outside of one (a
 * writer, a slot's destructor, an offloaded job) says so around the call.
 * Thread: any; each has its own.
 */
#ifndef RUNTIME_RUNNING_H
#define RUNTIME_RUNNING_H

#include <stdint.h>

/* A step and where its code comes from. It and its texts live as long as the process. */
struct owner {
    const char *step;
    const char *plugin; /* the file, or the plugin's name where it is linked in */
};

struct running {
    const struct owner *owner; /* NULL: nobody's in particular */
    const char *subject;       /* the request's id, NULL: none; borrowed while it is set */
};

/* What is noted for this thread. Async-signal-safe. */
struct running running_now(void);

/* Notes who runs from here on and returns who did, to be set again at the call's end. On a reactor's thread the watchdog sees it too. */
struct running running_set(struct running now);

/*
 * The same for a call that happens often, inside of what somebody else does: the watchdog does not blame the others for its time.
 * Costs two looks at the coarse clock, of a few nanoseconds each.
 */
struct guest {
    struct running before;
    int64_t began_ns;
};
struct guest running_enter(struct running visitor);
void running_leave(struct guest guest);

struct reactor_activity;
/* From now on this thread is that reactor's; NULL: no reactor's. */
void running_on(struct reactor_activity *activity);

#endif
