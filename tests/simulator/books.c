/* The KV books; see books.h. */
#include "books.h"

#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 1 << 14, KEEP_AT_MOST = 1 << 16, SHARED_AT_MOST = 1 << 20 };

struct entry {
    struct entry *next; /* of its bucket */
    struct entry *older, *newer;
    uint64_t key; /* fingerprint of the raw remote_request_id */
    uint64_t tokens_print;
    uint64_t tokens_count;
    size_t len;
    char descriptor[];
};

static struct {
    struct kv_counts counts;
    struct entry *buckets[BUCKETS];
    struct entry *oldest, *newest;
    size_t kept;
    uint64_t collected;
    uint64_t serial;
    uint64_t *shared; /* open addressing over token fingerprints; 0: free */
    size_t shared_cap, shared_count;
} books;

const struct kv_counts *books_counts(void) { return &books.counts; }

uint64_t books_stranded(void) { return books.counts.handed_out - books.collected; }

static void forget(struct entry *entry)
{
    struct entry **link = &books.buckets[entry->key % BUCKETS];
    while (*link != entry)
        link = &(*link)->next;
    *link = entry->next;
    *(entry->older ? &entry->older->newer : &books.oldest) = entry->newer;
    *(entry->newer ? &entry->newer->older : &books.newest) = entry->older;
    books.kept--;
    free(entry);
}

void books_reset(void)
{
    while (books.oldest)
        forget(books.oldest);
    free(books.shared);
    uint64_t serial = books.serial; /* descriptors stay fresh over a reset */
    memset(&books, 0, sizeof books);
    books.serial = serial;
}

enum kv_handshake books_handshake(struct text kv)
{
    static const char *const names[] = {"do_remote_decode", "do_remote_prefill", "remote_engine_id",
                                        "remote_block_ids", "remote_host",       "remote_port"};
    struct text v[6];
    if (json_absent(kv))
        return KV_NONE;
    json_members(kv, names, v, 6);
    size_t nulls = 0, present = 0;
    for (size_t i = 2; i < 6; i++) {
        present += v[i].at != NULL;
        nulls += json_kind(v[i]) == 'n';
    }
    if (text_is(v[0], "true") && text_is(v[1], "false")) {
        if (nulls == 4)
            return KV_NIXL;
        if (!present)
            return KV_SHARED;
    }
    return KV_BAD;
}

void books_refused(void) { books.counts.bad_handshakes++; }

static bool shared_has(uint64_t print)
{
    for (size_t i = print; books.shared_cap && books.shared[i & (books.shared_cap - 1)]; i++)
        if (books.shared[i & (books.shared_cap - 1)] == print)
            return true;
    return false;
}

static void shared_put(uint64_t print)
{
    size_t i = print;
    while (books.shared[i & (books.shared_cap - 1)])
        i++;
    books.shared[i & (books.shared_cap - 1)] = print;
    books.shared_count++;
}

static void shared_add(uint64_t print)
{
    books.counts.shared_stored++;
    if (shared_has(print))
        return;
    if (2 * books.shared_count >= books.shared_cap) {
        uint64_t *old = books.shared;
        size_t old_cap = books.shared_cap;
        bool drop = old_cap >= SHARED_AT_MOST; /* full: a cache that was emptied */
        books.shared_cap = drop ? 1024 : old_cap ? 2 * old_cap : 1024;
        books.shared = calloc(books.shared_cap, sizeof *books.shared);
        if (!books.shared)
            abort();
        books.shared_count = 0;
        for (size_t i = 0; i < old_cap && !drop; i++)
            if (old[i])
                shared_put(old[i]);
        free(old);
    }
    shared_put(print);
}

/* Never 0, so that it can stand in the table. */
static uint64_t print_of(const struct token_sink *tokens) { return mix(tokens->print ^ tokens->count) | 1; }

/*
 * vLLM 0.32.0 on the wire, W3, with an order of its own, ids above 2^53 and 2^63, and members whose spelling a
 * converting JSON library would change: whoever forwards it must copy bytes.
 */
static void write_descriptor(struct buf *out, const struct token_sink *tokens, uint64_t cached, struct text answer_id)
{
    uint64_t a = mix(++books.serial), b = mix(a);
    buf_printf(
        out,
        "{\"tp_size\":1,\"do_remote_prefill\":true,\"remote_block_ids\":[[%llu,%llu,%llu],[%llu,%llu]],"
        "\"remote_engine_id\":\"%08x-%04x-4%03x-8%03x-%012llx\",\"do_remote_decode\":false,\"remote_request_id\":\"",
        (unsigned long long)books.serial, 9007199254740993ull + 2 * (a % 1000), 4503599627370497ull,
        18446744073709551000ull + b % 600, 9223372036854775809ull + 2 * (b % 1000), (unsigned)a,
        (unsigned)(a >> 32) & 0xffff, (unsigned)(a >> 48) & 0xfff, (unsigned)b & 0xfff, (unsigned long long)(b >> 16));
    buf_json(out, answer_id);
    buf_printf(out,
               "-%08x\",\"remote_host\":\"127.0.0.1\",\"remote_port\":%u,\"dcp_size\":1,\"pp_size\":1,"
               "\"remote_num_tokens\":%llu,\"remote_blocks_expiry_time\":null,\"transfer_mode\":\"pull\","
               "\"remote_prefill_cached_tokens\":%llu,\"sim_scale\":0.10,\"sim_note\":\"caf\\u00e9 \\/ \xc3\xa9\"}",
               (unsigned)(b >> 32), 5600 + (unsigned)(a % 100), (unsigned long long)tokens->count,
               (unsigned long long)cached);
}

static uint64_t key_of(struct text descriptor)
{
    struct text id = json_member(descriptor, "remote_request_id");
    return json_kind(id) == '"' ? fingerprint(id) : 0;
}

void books_store(enum kv_handshake handshake, const struct token_sink *tokens, uint64_t cached, struct text answer_id,
                 struct buf *out)
{
    if (handshake == KV_SHARED)
        shared_add(print_of(tokens));
    if (handshake != KV_NIXL)
        return;
    size_t start = buf_left(out);
    write_descriptor(out, tokens, cached, answer_id);
    struct text text = {buf_view(out).at + start, buf_left(out) - start};
    struct entry *entry = malloc(sizeof *entry + text.len);
    if (!entry)
        abort();
    *entry = (struct entry){
        .key = key_of(text), .tokens_print = tokens->print, .tokens_count = tokens->count, .len = text.len};
    memcpy(entry->descriptor, text.at, text.len);
    entry->next = books.buckets[entry->key % BUCKETS];
    books.buckets[entry->key % BUCKETS] = entry;
    entry->older = books.newest;
    *(books.newest ? &books.newest->newer : &books.oldest) = entry;
    books.newest = entry;
    books.counts.handed_out++;
    if (++books.kept > KEEP_AT_MOST)
        forget(books.oldest);
}

static bool is_flag(struct text key)
{
    return json_string_is(key, "do_remote_prefill") || json_string_is(key, "do_remote_decode");
}

static bool has_member(struct text ours, struct text wanted_key, struct text wanted)
{
    struct json_walk walk = json_walk(ours);
    struct text key, value;
    while (json_next(&walk, &key, &value))
        if (key.len == wanted_key.len && memcmp(key.at, wanted_key.at, key.len) == 0)
            return value.len == wanted.len && memcmp(value.at, wanted.at, value.len) == 0;
    return false;
}

/* `theirs` has the members of `ours`, each with the same raw key and value, and no others but forwarded ids. */
static bool same_members(struct text ours, struct text theirs)
{
    struct json_walk walk = json_walk(ours);
    struct text key, value;
    size_t wanted = 0, found = 0;
    while (json_next(&walk, &key, &value))
        wanted += !is_flag(key);
    walk = json_walk(theirs);
    while (json_next(&walk, &key, &value)) {
        if (is_flag(key) || json_string_is(key, "prompt_token_ids"))
            continue;
        if (!has_member(ours, key, value))
            return false;
        found++;
    }
    return found == wanted;
}

bool books_fetches_nothing(struct text kv)
{
    struct text ids = json_absent(kv) ? kv : json_member(kv, "remote_block_ids"), key, first;
    struct json_walk walk = json_walk(ids);
    return !json_absent(kv) && text_is(json_member(kv, "do_remote_prefill"), "true") &&
           (json_absent(ids) || (json_kind(ids) == '[' && !json_next(&walk, &key, &first)));
}

bool books_collect(struct text kv, const struct token_sink *tokens)
{
    if (json_absent(kv) || !text_is(json_member(kv, "do_remote_prefill"), "true")) {
        books.counts.local++;
        return false;
    }
    uint64_t key = key_of(kv);
    if (!key) { /* no descriptor: shared storage */
        bool there = shared_has(print_of(tokens));
        books.counts.shared_hits += there;
        books.counts.misses += !there;
        return there;
    }
    struct entry *entry = books.buckets[key % BUCKETS];
    while (entry && entry->key != key)
        entry = entry->next;
    bool turned = text_is(json_member(kv, "do_remote_decode"), "false");
    if (!entry || !turned || !same_members((struct text){entry->descriptor, entry->len}, kv)) {
        books.counts.misses++;
        books.counts.altered += entry != NULL;
        return false;
    }
    books.counts.hits++;
    books.counts.token_drift += entry->tokens_print != tokens->print || entry->tokens_count != tokens->count;
    books.collected++;
    forget(entry);
    return true;
}
