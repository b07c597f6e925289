/*
 * What the test kit (sdk/testkit) needs of the library: the real service in the test's process. Exported for it alone, under a
 * version node of its own that promises nothing: kit and library come from the same build.
 *
 * Thread: [load], one host at a time in a process.
 */
#ifndef PIPELINE_KIT_HOST_H
#define PIPELINE_KIT_HOST_H

#include <coordinator/plugin.h>

COORD_BEGIN_DECLS

typedef struct coord_kit_host coord_kit_host;

struct coord_kit_host_options {
    const char *yaml;
    const char *const *flags; /* key, value, key, value, …, NULL: beat the YAML */
    char *const *environment;
    const coord_plugin_descriptor *const *plugins;
    const char *const *plugin_files;
    void (*log)(void *context, coord_slice line);
    void *log_context;
};

/* NULL with the reason in `problem` (`room` bytes, NUL-terminated). */
COORD_API coord_kit_host *coord_kit_host_start(const struct coord_kit_host_options *options, char *problem,
                                               size_t room);
COORD_API uint16_t coord_kit_host_port(const coord_kit_host *host);
/* Drains and frees. False: answers were cut. */
COORD_API bool coord_kit_host_stop(coord_kit_host *host);
/* Lets that much time pass at once for all reactors: what is due by then happens. */
COORD_API void coord_kit_host_advance(coord_kit_host *host, int64_t ns);

/* Whose code runs; texts are "" where there is nothing to say. */
struct coord_kit_running {
    char step[64], plugin[1024], request[128];
    bool parked; /* of coord_kit_host_unreturned: it waits in a call of the coordinator's */
};
/* On the calling thread. Async-signal-safe. False: nobody's. */
COORD_API bool coord_kit_host_running(struct coord_kit_running *running);
/* On a reactor at this moment: false when it waits, moves on or runs nobody's code. `since_ns` is the same as long as the same
   stretch lasts, and `thread` is its number for the system. */
COORD_API bool coord_kit_host_holder(coord_kit_host *host, unsigned reactor, struct coord_kit_running *holder,
                                     int64_t *since_ns, int *thread);
/* The step that has not returned for the request with that id. False: none, or it did not say within half a second. */
COORD_API bool coord_kit_host_unreturned(coord_kit_host *host, const char *request, struct coord_kit_running *step);

/* Step number `index` of all pipelines. False: there are fewer. */
COORD_API bool coord_kit_host_step(coord_kit_host *host, size_t index, struct coord_kit_running *step);

/* Memory of request or load lifetime is refused when that says so; NULL: never. */
COORD_API void coord_kit_host_refuse(bool (*refuses)(void));

/* Told of slots, on the reactor's thread; one for the process, NULL: nobody. `set` false: the request has ended, or another value came. */
typedef void coord_kit_slot_fn(void *context, const coord_slot_type *type, void *value, bool set);
COORD_API void coord_kit_host_watch_slots(coord_kit_slot_fn *told, void *context);

/* The metrics page, for `free`; NULL: memory is short. */
COORD_API char *coord_kit_host_metrics(void);
COORD_API double coord_kit_host_metric(const char *name, const coord_slice *labels);

COORD_END_DECLS
#endif
