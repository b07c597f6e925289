/*
 * The KV books: what prefill handed out, and whether decode came for it.
 *
 * kv-nixl: prefill hands out a descriptor; decode must present it with every member byte for byte, but the two
 * do_remote_* flags turned around; it may come once. kv-shared-storage: decode says only do_remote_prefill, and finds
 * the KV if an earlier prefill had the same tokens. (Members and flags: vLLM 0.32.0 on the wire, W3; the connectors'
 * handshakes are those of llm-d's coordinator.)
 *
 * Memory is bounded: of descriptors never collected the oldest are forgotten, though they stay counted as stranded.
 */
#ifndef SIM_BOOKS_H
#define SIM_BOOKS_H

#include "json.h"
#include "tokenizer.h"

struct kv_counts {
    uint64_t handed_out; /* descriptors */
    uint64_t hits;
    uint64_t misses;  /* KV was asked for and not found: decode recomputed */
    uint64_t altered; /* of those: a descriptor that is ours but for some bytes */
    uint64_t shared_stored;
    uint64_t shared_hits;
    uint64_t local;       /* decodes that asked for no KV */
    uint64_t token_drift; /* hits whose decode prompt has other tokens than prefill's */
    uint64_t bad_handshakes;
};

enum kv_handshake {
    KV_BAD,    /* not what a connector sends */
    KV_NONE,   /* no kv_transfer_params, or a null */
    KV_NIXL,   /* do_remote_decode true, do_remote_prefill false, four remote_* nulls */
    KV_SHARED, /* do_remote_decode true, do_remote_prefill false, no remote_* */
};

const struct kv_counts *books_counts(void);
uint64_t books_stranded(void); /* descriptors handed out that no decode has collected yet */
void books_reset(void);

/* True if a decode request says to fetch KV, and not which blocks. */
bool books_fetches_nothing(struct text kv);
/* Judges what a prefill request carries. */
enum kv_handshake books_handshake(struct text kv);
/* Notes that a prefill was refused for its handshake. */
void books_refused(void);
/*
 * Notes that a prefill answered for `tokens`, `cached` of which it says that it had them; for kv-nixl writes a fresh
 * descriptor (a JSON object) to `out`.
 */
void books_store(enum kv_handshake handshake, const struct token_sink *tokens, uint64_t cached, struct text answer_id,
                 struct buf *out);
/* What a decode request presents: true if the KV was there, so that its prompt counts as cached. */
bool books_collect(struct text kv, const struct token_sink *tokens);

#endif
