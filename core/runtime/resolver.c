/*
 * See resolver.h. An entry is what is known of one name; a query is a lookup under way, with a c-ares channel of its own,
 * because c-ares can only cancel a whole channel (and one that is opened afresh reads a changed resolv.conf).
 *
 * Invariant: an entry with waiters has a query, running or finished; waiters are called from a task, never inside c-ares,
 * so that they may start and cancel what they like. An entry without waiters, query or knowledge does not exist.
 */
#include "resolver.h"

#include <arpa/inet.h>
#include <ares.h>
#include <assert.h>
#include <net/if.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/time.h>

#define NS_PER_S INT64_C(1000000000)

enum {
    BUCKETS = 256,
    ENTRIES_MAX = 1024,
    NAME_MAX_SIZE = 254, /* with a final dot */
    TTL_MIN_S = 1,
    TTL_MAX_S = 60,
    STALE_S = 600,
    TIMEOUT_MS = 1500, /* of the first try; each next one waits twice as long */
    TRIES = 3
};

struct query;

struct entry {
    struct entry *next; /* in its bucket */
    struct lookup *waiters;
    struct lookup **waiters_end;
    struct query *query;
    bool delivering;        /* its waiters are being called: it stays */
    bool usable;            /* `known` may be given when a lookup fails */
    int64_t fresh_until_ns; /* until then there is no need to ask; 0: never asked */
    int64_t known_since_ns; /* when `known` was learnt */
    const char *failure;    /* the present answer is this, else `known` */
    struct resolved known;  /* the last addresses; count 0: none yet */
    size_t size;
    char name[];
};

/* A socket of c-ares in the reactor. */
struct socket_watch {
    struct watch watch;
    struct query *query;
    struct socket_watch *next;
};

struct query {
    struct resolver *resolver;
    struct entry *entry; /* NULL once the answer does not matter any more */
    ares_channel channel;
    struct socket_watch *sockets;
    struct timer timer;
    struct query *next_finished;
    bool starting; /* inside ares_getaddrinfo */
    bool finished; /* the entry holds the answer */
};

struct resolver {
    struct reactor *reactor;
    char *servers;
    uint64_t generation; /* the last one given out */
    size_t entries;
    struct query *finished; /* whose waiters `task` will call */
    struct task task;
    struct entry *buckets[BUCKETS];
};

/* Literals */

static void add_address(struct resolved *answer, const struct sockaddr *address, size_t size)
{
    if (answer->count == RESOLVER_MAX_ADDRESSES || size > sizeof answer->addresses[0])
        return;
    memset(&answer->addresses[answer->count], 0, sizeof answer->addresses[0]);
    memcpy(&answer->addresses[answer->count++], address, size);
}

static bool literal_v4(const char *text, struct resolved *answer)
{
    struct sockaddr_in address = {.sin_family = AF_INET};

    if (inet_pton(AF_INET, text, &address.sin_addr) != 1)
        return false;
    add_address(answer, (struct sockaddr *)&address, sizeof address);
    return true;
}

/* `text` may end in a zone: fe80::1%eth0 or fe80::1%2. It is cut there. */
static bool literal_v6(char *text, struct resolved *answer)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6};
    char *zone = strchr(text, '%');

    if (zone) {
        char *end;

        *zone++ = '\0';
        address.sin6_scope_id = if_nametoindex(zone);
        if (address.sin6_scope_id == 0) {
            address.sin6_scope_id = (uint32_t)strtoul(zone, &end, 10);
            if (address.sin6_scope_id == 0 || *end)
                return false;
        }
    }
    if (inet_pton(AF_INET6, text, &address.sin6_addr) != 1)
        return false;
    add_address(answer, (struct sockaddr *)&address, sizeof address);
    return true;
}

static bool literal(const char *name, struct resolved *answer)
{
    char copy[NAME_MAX_SIZE + 1];

    if (!strchr(name, ':'))
        return literal_v4(name, answer);
    snprintf(copy, sizeof copy, "%s", name);
    return literal_v6(copy, answer);
}

/* Entries */

/* Names are compared without regard to case; it is lowered here. False and an empty name: this cannot be one. */
static bool fold(coord_slice host, char name[static NAME_MAX_SIZE + 1])
{
    name[0] = '\0';
    if (host.size == 0 || host.size > NAME_MAX_SIZE)
        return false;
    for (size_t i = 0; i < host.size; i++)
        if ((unsigned char)host.data[i] <= ' ' || host.data[i] == 0x7f)
            return false;
    for (size_t i = 0; i < host.size; i++) {
        char c = host.data[i];

        name[i] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    name[host.size] = '\0';
    return true;
}

static struct entry **bucket_of(struct resolver *resolver, const char *name)
{
    uint32_t hash = 2166136261U; /* FNV-1a */

    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619U;
    return &resolver->buckets[hash % BUCKETS];
}

static struct entry *find_entry(struct resolver *resolver, const char *name)
{
    struct entry *entry = *bucket_of(resolver, name);

    while (entry && strcmp(entry->name, name) != 0)
        entry = entry->next;
    return entry;
}

static void drop_entry(struct resolver *resolver, struct entry *entry)
{
    struct entry **link = bucket_of(resolver, entry->name);

    while (*link != entry)
        link = &(*link)->next;
    *link = entry->next;
    resolver->entries--;
    free(entry);
}

static bool busy(const struct entry *entry) { return entry->waiters || entry->query || entry->delivering; }

/* Makes room by dropping the entry that has been out of date for longest. False: all are in use. */
static bool drop_oldest(struct resolver *resolver)
{
    struct entry *oldest = NULL;

    for (size_t i = 0; i < BUCKETS; i++)
        for (struct entry *entry = resolver->buckets[i]; entry; entry = entry->next)
            if (!busy(entry) && (!oldest || entry->fresh_until_ns < oldest->fresh_until_ns))
                oldest = entry;
    if (!oldest)
        return false;
    drop_entry(resolver, oldest);
    return true;
}

static struct entry *new_entry(struct resolver *resolver, const char *name)
{
    struct entry **bucket = bucket_of(resolver, name);
    size_t size = strlen(name);
    struct entry *entry;

    if (resolver->entries >= ENTRIES_MAX && !drop_oldest(resolver))
        return NULL;
    entry = calloc(1, sizeof *entry + size + 1);
    if (!entry)
        return NULL;
    entry->waiters_end = &entry->waiters;
    entry->size = size;
    memcpy(entry->name, name, size + 1);
    entry->next = *bucket;
    *bucket = entry;
    resolver->entries++;
    return entry;
}

static bool fresh(const struct resolver *resolver, const struct entry *entry)
{
    return entry->fresh_until_ns > reactor_now(resolver->reactor);
}

static void fail(struct resolved *answer, const char *reason) { *answer = (struct resolved){.reason = reason}; }

static void give(const struct entry *entry, struct resolved *answer)
{
    if (!entry->failure) {
        *answer = entry->known;
        return;
    }
    fail(answer, entry->failure);
    answer->generation = entry->known.generation;
}

/* Answers */

static bool has(const struct resolved *answer, const struct sockaddr_storage *address)
{
    for (size_t i = 0; i < answer->count; i++)
        if (memcmp(&answer->addresses[i], address, sizeof *address) == 0)
            return true;
    return false;
}

/* Name servers turn the order round at will: that is no change. */
static bool same_addresses(const struct resolved *a, const struct resolved *b)
{
    for (size_t i = 0; i < a->count; i++)
        if (!has(b, &a->addresses[i]))
            return false;
    return a->count == b->count;
}

static int lowest_ttl(const struct ares_addrinfo *info)
{
    int ttl = TTL_MAX_S;

    for (const struct ares_addrinfo_node *node = info->nodes; node; node = node->ai_next)
        ttl = node->ai_ttl < ttl ? node->ai_ttl : ttl;
    for (const struct ares_addrinfo_cname *cname = info->cnames; cname; cname = cname->next)
        ttl = cname->ttl < ttl ? cname->ttl : ttl;
    return ttl > TTL_MIN_S ? ttl : TTL_MIN_S;
}

static void learn(struct resolver *resolver, struct entry *entry, const struct ares_addrinfo *info)
{
    struct resolved answer = {0};

    for (const struct ares_addrinfo_node *node = info->nodes; node; node = node->ai_next)
        add_address(&answer, node->ai_addr, node->ai_addrlen);
    answer.generation = same_addresses(&answer, &entry->known) ? entry->known.generation : ++resolver->generation;
    entry->known = answer;
    entry->known_since_ns = reactor_now(resolver->reactor);
    entry->fresh_until_ns = entry->known_since_ns + lowest_ttl(info) * NS_PER_S;
    entry->usable = true;
    entry->failure = NULL;
}

static const char *reason_of(int status)
{
    switch (status) {
    case ARES_ENOTFOUND:
        return "no such host";
    case ARES_ENODATA:
        return "the host has no address";
    case ARES_ETIMEOUT:
        return "no answer from the name servers";
    case ARES_ECONNREFUSED: /* c-ares says this too when every server answered SERVFAIL or REFUSED */
    case ARES_ESERVFAIL:
    case ARES_EREFUSED:
        return "the name servers cannot be reached or refuse to answer";
    case ARES_EBADNAME:
        return "not a valid host name";
    case ARES_ENOMEM:
        return "out of memory";
    default:
        return ares_strerror(status);
    }
}

static void learn_failure(struct resolver *resolver, struct entry *entry, int status)
{
    int64_t now = reactor_now(resolver->reactor);

    if (status == ARES_ENOTFOUND || status == ARES_ENODATA)
        entry->usable = false; /* that is an answer */
    entry->failure = entry->usable && now - entry->known_since_ns <= STALE_S * NS_PER_S ? NULL : reason_of(status);
    entry->fresh_until_ns = now + TTL_MIN_S * NS_PER_S;
}

static void queue_delivery(struct query *query)
{
    struct resolver *resolver = query->resolver;

    query->next_finished = resolver->finished;
    resolver->finished = query;
    reactor_defer(resolver->reactor, &resolver->task);
}

/* From c-ares, perhaps inside ares_getaddrinfo; once a query. */
static void answered(void *argument, int status, int timeouts, struct ares_addrinfo *info)
{
    struct query *query = argument;

    (void)timeouts;
    if (query->entry) {
        if (status == ARES_SUCCESS && info && info->nodes)
            learn(query->resolver, query->entry, info);
        else
            learn_failure(query->resolver, query->entry, status == ARES_SUCCESS ? ARES_ENODATA : status);
        query->finished = true;
        if (!query->starting)
            queue_delivery(query);
    }
    if (info)
        ares_freeaddrinfo(info);
}

/* Queries */

static void set_timer(struct query *query)
{
    struct timeval wait;

    if (!query->finished && ares_timeout(query->channel, NULL, &wait))
        reactor_arm(query->resolver->reactor, &query->timer, wait.tv_sec * NS_PER_S + (wait.tv_usec + 1) * 1000);
    else
        reactor_disarm(query->resolver->reactor, &query->timer);
}

static void timed_out(struct timer *timer)
{
    struct query *query = (struct query *)((char *)timer - offsetof(struct query, timer));

    ares_process_fd(query->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
    set_timer(query);
}

static void socket_ready(struct watch *watch, uint32_t events)
{
    struct query *query = ((struct socket_watch *)watch)->query;
    int fd = watch->fd;
    bool failed = events & (EPOLLERR | EPOLLHUP);
    bool readable = (watch->events & EPOLLIN) && (failed || events & EPOLLIN);
    bool writable = (watch->events & EPOLLOUT) && (failed || events & EPOLLOUT);

    ares_process_fd(query->channel, readable ? fd : ARES_SOCKET_BAD,
                    writable ? fd : ARES_SOCKET_BAD); /* frees `watch`? */
    set_timer(query);
}

static struct socket_watch **find_socket(struct query *query, int fd)
{
    struct socket_watch **link = &query->sockets;

    while (*link && (*link)->watch.fd != fd)
        link = &(*link)->next;
    return link;
}

static void forget_socket(struct query *query, struct socket_watch **link)
{
    struct socket_watch *socket = *link;

    reactor_unwatch(query->resolver->reactor, &socket->watch);
    *link = socket->next;
    free(socket);
}

/* Without memory or a place in epoll the socket stays unwatched, and the query fails by its timeout. */
static void add_socket(struct query *query, int fd, uint32_t events)
{
    struct socket_watch *socket = calloc(1, sizeof *socket);

    if (!socket)
        return;
    socket->watch.ready = socket_ready;
    socket->query = query;
    if (!reactor_watch(query->resolver->reactor, &socket->watch, fd, events)) {
        free(socket);
        return;
    }
    socket->next = query->sockets;
    query->sockets = socket;
}

/* From c-ares: it wants to know when `fd` is ready, or (neither) is about to close it. */
static void socket_state(void *argument, ares_socket_t fd, int readable, int writable)
{
    struct query *query = argument;
    struct socket_watch **link = find_socket(query, fd);
    uint32_t events = (readable ? (uint32_t)EPOLLIN : 0) | (writable ? (uint32_t)EPOLLOUT : 0);

    if (!events) {
        if (*link)
            forget_socket(query, link);
        return;
    }
    if (!*link)
        add_socket(query, fd, events);
    else if (!reactor_rewatch(query->resolver->reactor, &(*link)->watch, events))
        forget_socket(query, link);
}

static bool open_channel(struct query *query, const char *servers)
{
    char lookups[] = "fb"; /* the hosts file, then the name servers */
    struct ares_options options = {.sock_state_cb = socket_state,
                                   .sock_state_cb_data = query,
                                   .lookups = lookups,
                                   .timeout = TIMEOUT_MS,
                                   .tries = TRIES};
    int mask = ARES_OPT_SOCK_STATE_CB | ARES_OPT_LOOKUPS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES;

    if (ares_init_options(&query->channel, &options, mask) != ARES_SUCCESS)
        return false;
    if (!servers || ares_set_servers_ports_csv(query->channel, servers) == ARES_SUCCESS)
        return true;
    ares_destroy(query->channel);
    return false;
}

static struct query *query_new(struct resolver *resolver)
{
    struct query *query = calloc(1, sizeof *query);

    if (!query)
        return NULL;
    query->resolver = resolver;
    query->timer.due = timed_out;
    if (open_channel(query, resolver->servers))
        return query;
    free(query);
    return NULL;
}

/* Ends it wherever it is. Never inside c-ares. */
static void query_free(struct query *query)
{
    query->entry = NULL;
    ares_destroy(query->channel);
    reactor_disarm(query->resolver->reactor, &query->timer);
    while (query->sockets)
        forget_socket(query, &query->sockets);
    free(query);
}

/* Asks. What needs no name server is answered at once; the entry then holds it and has no query. */
static void ask(struct resolver *resolver, struct entry *entry)
{
    struct ares_addrinfo_hints hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct query *query = query_new(resolver);

    if (!query) {
        learn_failure(resolver, entry, ARES_ENOMEM);
        return;
    }
    query->entry = entry;
    query->starting = true;
    ares_getaddrinfo(query->channel, entry->name, NULL, &hints, answered, query);
    query->starting = false;
    if (query->finished) {
        query_free(query);
        return;
    }
    entry->query = query;
    set_timer(query);
}

/* Waiters */

static void add_waiter(struct entry *entry, struct lookup *lookup)
{
    lookup->next = NULL;
    lookup->entry = entry;
    *entry->waiters_end = lookup;
    entry->waiters_end = &lookup->next;
}

static void remove_waiter(struct entry *entry, struct lookup *lookup)
{
    struct lookup **link = &entry->waiters;

    while (*link != lookup) {
        assert(*link);
        link = &(*link)->next;
    }
    *link = lookup->next;
    if (entry->waiters_end == &lookup->next)
        entry->waiters_end = link;
    lookup->entry = NULL;
}

/* Calls all waiters of an entry; each may start, cancel and free lookups. */
static void deliver(struct entry *entry)
{
    struct resolved answer;

    give(entry, &answer);
    entry->delivering = true;
    while (entry->waiters) {
        struct lookup *lookup = entry->waiters;

        remove_waiter(entry, lookup);
        lookup->done(lookup, &answer);
    }
    entry->delivering = false;
}

static void deliver_finished(struct task *task)
{
    struct resolver *resolver = (struct resolver *)((char *)task - offsetof(struct resolver, task));

    while (resolver->finished) {
        struct query *query = resolver->finished;
        struct entry *entry = query->entry;

        resolver->finished = query->next_finished;
        entry->query = NULL;
        query_free(query);
        deliver(entry);
    }
}

bool resolver_start(struct resolver *resolver, coord_slice host, struct lookup *lookup, struct resolved *answer)
{
    char name[NAME_MAX_SIZE + 1];
    struct entry *entry;

    *answer = (struct resolved){0};
    lookup->entry = NULL;
    if (fold(host, name) && literal(name, answer))
        return true;
    if (!name[0] || strchr(name, ':')) {
        fail(answer, "not a valid host name");
        return true;
    }
    entry = find_entry(resolver, name);
    if (!entry)
        entry = new_entry(resolver, name);
    if (!entry) {
        fail(answer, "out of memory");
        return true;
    }
    if (!fresh(resolver, entry) && !entry->query)
        ask(resolver, entry);
    if (fresh(resolver, entry)) {
        give(entry, answer);
        return true;
    }
    add_waiter(entry, lookup);
    return false;
}

void resolver_cancel(struct resolver *resolver, struct lookup *lookup)
{
    struct entry *entry = lookup->entry;

    if (!entry)
        return;
    remove_waiter(entry, lookup);
    if (entry->waiters || !entry->query || entry->query->finished)
        return;
    query_free(entry->query);
    entry->query = NULL;
    if (!busy(entry) && entry->fresh_until_ns == 0)
        drop_entry(resolver, entry);
}

/* Life */

static void init_library(void) { ares_library_init(ARES_LIB_INIT_ALL); }

struct resolver *resolver_new(struct reactor *reactor, const char *servers)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct resolver *resolver = calloc(1, sizeof *resolver);
    struct query *probe;

    if (!resolver)
        return NULL;
    pthread_once(&once, init_library);
    resolver->reactor = reactor;
    resolver->task.run = deliver_finished;
    resolver->servers = servers ? strdup(servers) : NULL;
    probe = !servers || resolver->servers ? query_new(resolver) : NULL; /* are the servers well-formed? */
    if (!probe) {
        free(resolver->servers);
        free(resolver);
        return NULL;
    }
    query_free(probe);
    return resolver;
}

static void release_entry(struct entry *entry)
{
    assert(!entry->delivering);
    while (entry->waiters)
        remove_waiter(entry, entry->waiters);
    if (entry->query)
        query_free(entry->query);
    free(entry);
}

void resolver_free(struct resolver *resolver)
{
    struct entry *entry, *next;

    if (!resolver)
        return;
    reactor_undefer(resolver->reactor, &resolver->task);
    for (size_t i = 0; i < BUCKETS; i++)
        for (entry = resolver->buckets[i]; entry; entry = next) {
            next = entry->next;
            release_entry(entry);
        }
    free(resolver->servers);
    free(resolver);
}
