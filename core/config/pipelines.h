/*
 * The pipelines as written: `pipeline:` alone, or the list `pipelines:`, each with its steps (decisions 70–73).
 *
 * Thread: [load].
 */
#ifndef CONFIG_PIPELINES_H
#define CONFIG_PIPELINES_H

#include "config/settings.h"

enum { PIPELINES_MAX = 256 };

/* The keys of `pipeline:`, or of an entry of `pipelines:`, beside the params of the section. */
struct keys pipeline_keys(bool listed);

/* Loads the params of one pipeline's map, with what overrides them; as values_load for the section `pipeline`. */
struct pipelines_input {
    struct settings *settings;
    bool allow_unknown;
    struct complaints *complaints;
    bool (*load)(void *context, const struct node *map, const char *where, struct keys other_keys,
                 struct coord_config *config);
    void *context;
};

/* After the gateways: fills settings->pipelines. */
void pipelines_read(const struct pipelines_input *input);

#endif
