/* How a worker reports usage where workers differ: by flag for all its answers, or for one by a fault item. */
#ifndef SIM_TRAITS_H
#define SIM_TRAITS_H

#include "buf.h"

struct traits {
    bool force_usage;      /* the final usage frame comes unasked (--enable-force-include-usage of vLLM) */
    bool force_continuous; /* usage on every chunk, too: what another version of it does */
    bool null_chunks;      /* content chunks have "usage":null once usage was asked for */
    bool no_usage;         /* there is none anywhere */
    bool early_zero;       /* Messages: message_start tells 0 tokens */
    bool no_details;       /* nothing about caches, as without --enable-prompt-tokens-details */
};

static inline struct traits traits_both(struct traits a, struct traits b)
{
    return (struct traits){
        a.force_usage || b.force_usage, a.force_continuous || b.force_continuous,
        a.null_chunks || b.null_chunks, a.no_usage || b.no_usage,
        a.early_zero || b.early_zero,   a.no_details || b.no_details,
    };
}

#endif
