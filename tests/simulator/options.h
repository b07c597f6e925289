/* The program's flags, read once; constant afterwards. */
#ifndef SIM_OPTIONS_H
#define SIM_OPTIONS_H

#include "fault.h"
#include "phase.h"
#include "template.h"

enum { PORTS_AT_MOST = 64, RATES_AT_MOST = 32 };

enum kv_mode {
    KV_MODE_AUTO,   /* prefill takes the handshake of kv-nixl or of kv-shared-storage */
    KV_MODE_NIXL,   /* only that of kv-nixl */
    KV_MODE_SHARED, /* only that of kv-shared-storage */
    KV_MODE_OFF,    /* anything; nothing is handed out */
};

struct fault_rate {
    enum phase phase;
    const char *spec;
    size_t len;
    double probability;
};

struct options {
    uint16_t ports[PORTS_AT_MOST];
    size_t port_count;
    const char *model; /* NULL: any */
    const char *record;
    uint64_t tokens; /* of an answer, unless the request wants fewer */
    uint64_t seed;
    uint64_t max_model_len;
    int64_t created; /* seconds; -1: now */
    int64_t event_interval;
    int64_t close_idle;
    double probe_412;
    enum template render_template, decode_template;
    enum kv_mode kv;
    const char *faults[PHASES]; /* specs, NULL for none */
    int64_t delays[PHASES];
    int64_t cached[PHASES];        /* tokens of the prompt that answers call cached; -1: as it is */
    int64_t created_cache[PHASES]; /* and newly put into a cache */
    struct traits traits;
    struct fault_rate rates[RATES_AT_MOST];
    size_t rate_count;
};

/* Ends the program with a message when a flag is wrong. */
struct options options_read(int argc, char **argv);

#endif
