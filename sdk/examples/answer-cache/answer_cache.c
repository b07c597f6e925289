/*
 * The step `answer-cache`: answers a chat request that was asked before from memory, byte for byte as the worker answered then,
 * JSON or event stream.
 *
 * Only what a worker would say again is kept: whole 200 answers of requests that ask for temperature 0. The key is the body as
 * the client wrote it, without the members that shape no answer, so two requests share an answer only if a worker would see
 * the same bytes; beside it stand the query and the header that tells clients apart, so nobody gets what another one was told. Entries and bytes
 * are bounded, the longest unused goes first.
 *
 * One cache for all reactors, with a lock: a prompt comes back on any of them, and with a cache for each, most would miss.
 * The lock is held to find an entry, never to copy or send one: an entry does not change, and who reads it holds a reference.
 */
#define _POSIX_C_SOURCE 200809L /* clock_gettime beside plain C11 */
#include <coordinator/answer.h>
#include <coordinator/metric.h>
#include <coordinator/plugin.h>
#include <coordinator/response.h>

#include <pthread.h>
#include <stdlib.h>
#include <strings.h>
#include <time.h>

enum { BUCKETS = 4096, TYPE_ROOM = 64, PIECE = 64 * 1024 };

/* Bytes of our own; `data` is freed by whoever has it last. */
struct bytes {
    char *data;
    size_t size, room;
};

struct entry {
    struct entry *chained;       /* in its bucket */
    struct entry *newer, *older; /* by use */
    unsigned references;         /* one is the cache's; under the lock */
    uint64_t hash;
    int64_t made_ns;
    struct bytes key, body;
    char type[TYPE_ROOM]; /* Content-Type */
};

struct cache {
    int64_t max_entries, ttl_ns;
    uint64_t max_bytes, max_answer;
    char *header; /* that tells clients apart */
    coord_metric *lookups;

    pthread_mutex_t lock; /* for all that follows, and the links and references of entries */
    struct entry *buckets[BUCKETS];
    struct entry *newest, *oldest;
    int64_t entries;
    uint64_t bytes;
};

static const coord_param params[] = {
    {COORD_PARAM(INT, "max_entries", "Answers that are kept."), .fallback = "10000", .minimum = 1, .maximum = 10000000},
    {COORD_PARAM(SIZE, "max_bytes", "What they may take in memory, prompts included."), .fallback = "256MiB",
     .minimum = 1, .maximum = INT64_MAX},
    {COORD_PARAM(SIZE, "max_answer", "Longer answers are not kept."), .fallback = "1MiB", .minimum = 1,
     .maximum = INT64_MAX},
    {COORD_PARAM(DURATION, "ttl", "How long an answer is good."), .fallback = "10m", .minimum = 1000000,
     .maximum = INT64_MAX},
    {COORD_PARAM(STRING, "per_header", "Requests with different values of this header share nothing."),
     .fallback = "authorization"},
};

/* Members that tell a worker who asks, or how urgently, and not what. */
static const char *const ignored[] = {"user", "metadata", "safety_identifier", "priority", "request_id"};

/* ---- Bytes ---- */

/* Adds at the end, up to `limit` in all. False: that is too long, or memory is short. */
static bool bytes_add(struct bytes *bytes, const void *data, size_t size, uint64_t limit)
{
    size_t room = bytes->room ? bytes->room : 512;
    char *grown;

    if (size == 0)
        return true;
    if (size > limit || bytes->size > limit - size)
        return false;
    while (room < bytes->size + size)
        room *= 2;
    if (room > bytes->room) {
        grown = realloc(bytes->data, room);
        if (!grown)
            return false;
        bytes->data = grown;
        bytes->room = room;
    }
    memcpy(bytes->data + bytes->size, data, size);
    bytes->size += size;
    return true;
}

static bool bytes_contain(const struct bytes *bytes, const char *word)
{
    size_t size = strlen(word);

    for (size_t at = 0; at + size <= bytes->size; at++)
        if (memcmp(bytes->data + at, word, size) == 0)
            return true;
    return false;
}

static uint64_t hash_of(const struct bytes *bytes) /* FNV-1a */
{
    uint64_t hash = 0xcbf29ce484222325U;

    for (size_t i = 0; i < bytes->size; i++)
        hash = (hash ^ (unsigned char)bytes->data[i]) * 0x100000001b3U;
    return hash;
}

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- The cache; what is called *_locked wants the lock ---- */

static void entry_free(struct entry *entry)
{
    free(entry->key.data);
    free(entry->body.data);
    free(entry);
}

static void release_locked(struct entry *entry)
{
    if (--entry->references == 0)
        entry_free(entry);
}

static uint64_t weight(const struct entry *entry) { return sizeof *entry + entry->key.room + entry->body.room; }

static struct entry *find_locked(const struct cache *cache, const struct bytes *key, uint64_t hash)
{
    struct entry *entry = cache->buckets[hash % BUCKETS];

    while (entry &&
           (entry->hash != hash || entry->key.size != key->size || memcmp(entry->key.data, key->data, key->size) != 0))
        entry = entry->chained;
    return entry;
}

static void put_first_locked(struct cache *cache, struct entry *entry)
{
    entry->newer = NULL;
    entry->older = cache->newest;
    *(cache->newest ? &cache->newest->newer : &cache->oldest) = entry;
    cache->newest = entry;
}

static void take_out_of_order_locked(struct cache *cache, struct entry *entry)
{
    *(entry->newer ? &entry->newer->older : &cache->newest) = entry->older;
    *(entry->older ? &entry->older->newer : &cache->oldest) = entry->newer;
}

static void remove_locked(struct cache *cache, struct entry *entry)
{
    struct entry **link = &cache->buckets[entry->hash % BUCKETS];

    while (*link != entry)
        link = &(*link)->chained;
    *link = entry->chained;
    take_out_of_order_locked(cache, entry);
    cache->entries--;
    cache->bytes -= weight(entry);
    release_locked(entry);
}

/* The entry with that key, with a reference for the caller; NULL. */
static struct entry *cache_get_ref(struct cache *cache, const struct bytes *key)
{
    uint64_t hash = hash_of(key);
    int64_t now = now_ns();
    struct entry *entry;

    pthread_mutex_lock(&cache->lock);
    entry = find_locked(cache, key, hash);
    if (entry && now - entry->made_ns > cache->ttl_ns) {
        remove_locked(cache, entry);
        entry = NULL;
    }
    if (entry) {
        entry->references++;
        take_out_of_order_locked(cache, entry);
        put_first_locked(cache, entry);
    }
    pthread_mutex_unlock(&cache->lock);
    return entry;
}

static void cache_release(struct cache *cache, struct entry *entry)
{
    pthread_mutex_lock(&cache->lock);
    release_locked(entry);
    pthread_mutex_unlock(&cache->lock);
}

/* Takes the entry over. */
static void cache_put_take(struct cache *cache, struct entry *entry)
{
    struct entry *before;

    entry->hash = hash_of(&entry->key);
    entry->references = 1;
    entry->made_ns = now_ns();
    pthread_mutex_lock(&cache->lock);
    before = find_locked(cache, &entry->key, entry->hash);
    if (before)
        remove_locked(cache, before);
    entry->chained = cache->buckets[entry->hash % BUCKETS];
    cache->buckets[entry->hash % BUCKETS] = entry;
    put_first_locked(cache, entry);
    cache->entries++;
    cache->bytes += weight(entry);
    while (cache->oldest && (cache->entries > cache->max_entries || cache->bytes > cache->max_bytes))
        remove_locked(cache, cache->oldest);
    pthread_mutex_unlock(&cache->lock);
}

/* ---- The writer that records ---- */

struct recording {
    struct cache *cache;
    struct entry *entry; /* NULL: it is not kept, or kept already */
};

static void give_up(struct recording *recording)
{
    if (recording->entry)
        entry_free(recording->entry);
    recording->entry = NULL;
}

static void record_head(coord_writer *writer, coord_head *head)
{
    struct recording *recording = coord_writer_state(writer);
    coord_slice type;

    if (coord_head_status(head) != 200 || (!coord_head_is_json(head) && !coord_head_is_event_stream(head)) ||
        coord_head_header(head, "content-type", &type) != COORD_OK || type.size >= TYPE_ROOM)
        give_up(recording);
    else
        memcpy(recording->entry->type, type.data, type.size);
}

static void record_data(coord_writer *writer, coord_slice bytes)
{
    struct recording *recording = coord_writer_state(writer);

    if (recording->entry && !bytes_add(&recording->entry->body, bytes.data, bytes.size, recording->cache->max_answer))
        give_up(recording);
}

/* Whether it is whole by what it says: words inside of an event are none of the stream's. */
static bool is_complete(const struct entry *entry)
{
    static const char done[] = "\ndata: [DONE]";
    size_t size = entry->body.size, end = sizeof done - 1;

    if (strncmp(entry->type, "text/event-stream", 17) != 0)
        return size > 0;
    while (size > 0 && (entry->body.data[size - 1] == '\n' || entry->body.data[size - 1] == '\r'))
        size--;
    return size >= end && memcmp(entry->body.data + size - end, done, end) == 0;
}

/* The answer came to its end. A worker's error inside a 200 is none to keep; better one answer too few than a wrong one. */
static void record_end(coord_writer *writer)
{
    struct recording *recording = coord_writer_state(writer);
    struct entry *entry = recording->entry;

    if (!entry || bytes_contain(&entry->body, "\"error\"") || !is_complete(entry))
        return;
    recording->entry = NULL;
    cache_put_take(recording->cache, entry);
}

/* After `abort` too: what is not whole is forgotten. */
static void record_free(coord_writer *writer) { give_up(coord_writer_state(writer)); }

static const coord_writer_type recorder = {
    .size = sizeof recorder,
    .flags = COORD_WRITER_READS_BODY, /* it only looks: nothing is delayed or changed */
    .name = "answer-cache",
    .head = record_head,
    .data = record_data,
    .end = record_end,
    .free = record_free,
};

/* ---- One request ---- */

/* True when the request asks for the answer that the worker always gives. */
static bool is_repeatable(coord_request *request)
{
    coord_slice json;
    char number[32] = "";

    if (coord_request_api(request) != COORD_API_CHAT_COMPLETIONS ||
        coord_document_type(coord_request_body(request), "/temperature") != COORD_JSON_NUMBER ||
        coord_document_get(coord_request_body(request), "/temperature", &json) != COORD_OK ||
        json.size >= sizeof number)
        return false;
    memcpy(number, json.data, json.size);
    return strtod(number, NULL) == 0; /* 0, 0.0, 0e0 */
}

/* Every line that the client sent of the header: which one a worker believes is not known here. */
static bool add_client(struct cache *cache, coord_request *request, struct bytes *key)
{
    size_t size = strlen(cache->header), at = 0;
    coord_slice name, value;

    while (coord_request_header_at(request, at++, &name, &value) == COORD_OK)
        if (name.size == size && strncasecmp(name.data, cache->header, size) == 0 &&
            (!bytes_add(key, value.data, value.size, SIZE_MAX) || !bytes_add(key, "\n", 1, SIZE_MAX)))
            return false;
    return true;
}

/* The header, the query, and the body without what shapes no answer. The NULs stand in none of the first two. */
static bool make_key(struct cache *cache, coord_request *request, struct bytes *key)
{
    coord_document *body = coord_document_clone_new(coord_request_body(request)); /* edits are the clone's alone */
    coord_slice query = coord_request_query(request), text;
    bool made = body != NULL;

    for (size_t i = 0; made && i < sizeof ignored / sizeof *ignored; i++)
        made = coord_document_remove_all(body, "", coord_slice_of(ignored[i]), NULL) == COORD_OK;
    made = made && coord_document_text(body, &text) == COORD_OK && add_client(cache, request, key) &&
           bytes_add(key, "", 1, SIZE_MAX) && bytes_add(key, query.data, query.size, SIZE_MAX) &&
           bytes_add(key, "", 1, SIZE_MAX) && bytes_add(key, text.data, text.size, SIZE_MAX);
    coord_document_free(body);
    return made;
}

/* Streams what is kept; parks while the client is slow. */
static coord_status answer_from(struct entry *entry, coord_request *request)
{
    static const char *const headers[] = {"x-cache", "hit", NULL};
    coord_slice body = {entry->body.data, entry->body.size};
    coord_status status;

    if (strncmp(entry->type, "text/event-stream", 17) != 0)
        return coord_answer(request, 200, entry->type, body, headers);
    status = coord_answer_begin(request, 200, entry->type, headers);
    for (size_t at = 0; status == COORD_OK && at < body.size; at += PIECE)
        status =
            coord_answer_write(request, (coord_slice){body.data + at, body.size - at < PIECE ? body.size - at : PIECE});
    return status == COORD_OK ? coord_answer_end(request) : status;
}

/* Wraps a writer that records the answer to come; `key_take` is the entry's then. */
static coord_status record(struct cache *cache, coord_request *request, struct bytes key_take)
{
    struct recording *recording = coord_request_alloc(request, sizeof *recording);
    struct entry *entry = calloc(1, sizeof *entry);
    coord_status status;

    if (!recording || !entry) {
        free(key_take.data);
        free(entry);
        return COORD_NEXT; /* not recorded, that is all */
    }
    entry->key = key_take;
    *recording = (struct recording){cache, entry};
    status = coord_request_wrap(request, &recorder, recording);
    if (status != COORD_OK)
        entry_free(entry);
    return status;
}

static void count_lookup(struct cache *cache, const char *result)
{
    coord_metric_add(cache->lookups, 1, (const coord_slice[]){coord_slice_of(result)});
}

static coord_status cache_execute(void *state, coord_request *request)
{
    struct cache *cache = state;
    struct bytes key = {0};
    struct entry *entry;
    coord_status status;

    if (!is_repeatable(request))
        return COORD_NEXT;
    if (!make_key(cache, request, &key)) {
        free(key.data);
        return COORD_NEXT;
    }
    entry = cache_get_ref(cache, &key);
    count_lookup(cache, entry ? "hit" : "miss");
    if (!entry)
        return record(cache, request, key);
    free(key.data);
    status = answer_from(entry, request);
    cache_release(cache, entry);
    return status;
}

/* ---- Life ---- */

static void cache_free(void *state)
{
    struct cache *cache = state;

    while (cache->oldest)
        remove_locked(cache, cache->oldest);
    pthread_mutex_destroy(&cache->lock);
    free(cache->header);
    free(cache);
}

static coord_status cache_create(const coord_config *config, void **state, coord_error *error)
{
    static const char *const labels[] = {"result", NULL};
    static const coord_metric_type lookups = {.size = sizeof lookups,
                                              .kind = COORD_METRIC_COUNTER,
                                              .name = "answer_cache_lookups_total",
                                              .help =
                                                  "Requests that could be answered from memory, by whether they were.",
                                              .labels = labels};
    struct cache *cache = calloc(1, sizeof *cache);
    coord_slice header;

    if (!cache)
        return coord_error_set(error, "memory is short");
    pthread_mutex_init(&cache->lock, NULL);
    if (coord_config_int(config, "max_entries", &cache->max_entries) != COORD_OK ||
        coord_config_size(config, "max_bytes", &cache->max_bytes) != COORD_OK ||
        coord_config_size(config, "max_answer", &cache->max_answer) != COORD_OK ||
        coord_config_duration(config, "ttl", &cache->ttl_ns) != COORD_OK ||
        coord_config_string(config, "per_header", &header) != COORD_OK ||
        !(cache->header = strndup(header.data, header.size)) || !(cache->lookups = coord_metric_declare(&lookups))) {
        cache_free(cache);
        return coord_error_set(error, "the params cannot be used");
    }
    *state = cache;
    return COORD_OK;
}

static const coord_step_type cache_step = {
    .size = sizeof cache_step,
    .name = "answer-cache",
    .help = "Answers chat requests at temperature 0 that were asked before from memory.",
    COORD_STEP_PARAMS(params),
    .create = cache_create,
    .execute = cache_execute,
    .destroy = cache_free,
};

static const coord_step_type *const steps[] = {&cache_step, NULL};

COORD_PLUGIN(.name = "answer-cache", .version = "1.0", .licence = "Apache-2.0", .steps = steps)
