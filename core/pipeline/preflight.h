/*
 * What can be told of a configuration's surroundings before anything is served with it: files that it names can be read, and
 * certificates fit their keys. And how the two listeners speak TLS, which is judged by it. Nothing is bound, looked up or called.
 *
 * Thread: [load].
 */
#ifndef PIPELINE_PREFLIGHT_H
#define PIPELINE_PREFLIGHT_H

#include "config/settings.h"
#include "http/tls.h"

/* Whether clients are served TLS; with an empty directory of the identity it is a self-signed one. */
bool serves_tls(const struct settings *settings);
/* The identity of the listener for clients, and of the one for metrics (an empty directory: plain HTTP). */
struct tls_options serving_identity(const struct settings *settings);
struct tls_options metrics_identity(const struct settings *settings);

/* Complains about what is wrong, each with the place of its key. Values that are not to be shown are not. */
void preflight_check(const struct settings *settings, struct complaints *complaints);

#endif
