/*
 * Watches that no reactor is held: a thread that looks at every reactor's activity and reports, once an episode, who held
 * one longer than the limit.
 *
 * `report(context, reactor_index, owner, held_ns)` runs on the watchdog's thread: first when the limit is passed (`owner` is
 * whose code it is, or NULL), and again when the episode ended, with the full time and `ended` true.
 */
#ifndef RUNTIME_WATCHDOG_H
#define RUNTIME_WATCHDOG_H

#include "runtime/reactor.h"

struct watchdog;
typedef void watchdog_report_fn(void *context, unsigned reactor, const struct owner *owner, int64_t held_ns,
                                bool ended);

/* `reactors` is borrowed until watchdog_free. It must cost an idle process no more than one wake-up a second. NULL: no thread or memory. */
struct watchdog *watchdog_new(struct reactor **reactors, unsigned count, int64_t limit_ns, watchdog_report_fn *report,
                              void *context);
void watchdog_free(struct watchdog *watchdog);

#endif
