/*
 * The client's side of its tests: a world (reactor, resolver, client) that the test turns itself, and probes, each the owner of
 * one leg, that note every event, check its order and do in an event what the test asked for. One thread, the test's. Each
 * program runs its group twice, once over each transport: over_direct and over_libcurl are the set-ups of the two groups.
 */
#ifndef UPSTREAM_PROBE_H
#define UPSTREAM_PROBE_H

#include "http/upstream.h"
#include "runtime/buffer.h"
#include "upstream_peer.h"

/* Under test: what open_named and open_peer ask for. */
extern enum upstream_transport transport;

int over_direct(void **state);
int over_libcurl(void **state);

struct world {
    struct reactor *reactor;
    struct resolver *resolver;
    struct client *client;
    unsigned turns;
};

/* `server`: the name server as resolver_new takes it, NULL for the system's. */
struct world *world_new(const char *server);
/* Set-up and teardown of a test: *state is a world, and no leg may be left in the end. */
int world_start(void **state);
int world_stop(void **state);
#define UPSTREAM_TEST(name) cmocka_unit_test_setup_teardown(name, world_start, world_stop)

/* One turn of the reactor, or as many as fit into `ms`. */
void turn(struct world *world, int ms);
void turn_for(struct world *world, int ms);
/* Turns until the condition holds; fails when that takes too long. */
#define TURN_UNTIL(world, condition)                                                                                   \
    for (int64_t end_ = now_ns() + PATIENCE_MS * MS; !(condition); turn(world, 5))                                     \
    assert_true(now_ns() < end_)

/* Ends the world's connections, so that a peer that waits for more sees the end; its upstreams are gone. */
void close_client(void **state);
/* An upstream with eight idle connections at most, http:// only. */
struct upstream *open_named(struct world *world, const char *host, int port);
struct upstream *open_peer(struct world *world, const struct peer *peer);
/* A GET without headers or deadlines; `target` is borrowed. */
struct leg_request get(const char *target);

/* Zeroed but for what the test fills in; probe_clear ends it. */
struct probe {
    struct leg *leg;
    void *memory; /* the leg's; NULL when it has ended or been cancelled */
    struct world *world;
    struct buffer body, fields; /* fields: "name=value;" of each */
    struct leg_result result;
    char detail[512];
    int32_t status;
    int64_t length;
    bool reused, sent;
    int heads, datas, ends, uploads; /* events so far */
    size_t uploaded;
    size_t largest; /* piece of data */
    int64_t ended_ns;
    /* What to do when; the test's. */
    void (*on_head)(struct probe *probe);
    void (*on_data)(struct probe *probe);
    void (*on_end)(struct probe *probe);
    size_t (*on_upload)(struct probe *probe, char *room, size_t size);
    struct probe *other; /* for these */
    struct upstream *upstream;
    bool inside; /* a call into the client is on the stack: no event may come */
};

void probe_start(struct probe *probe, struct world *world, struct upstream *upstream,
                 const struct leg_request *request);
/* From then on any event fails the test. */
void probe_cancel(struct probe *probe);
void probe_resume(struct probe *probe);
void probe_clear(struct probe *probe);
/* Turns until the probe has ended; fails when that takes too long. */
void finish(struct probe *probe);
/* A GET from start to end that must complete, over a kept connection or a new one as `reused` says. */
void run_leg(struct world *world, struct upstream *upstream, bool fresh, bool reused);

/* What the peer's log must be, after its end; "%d" in `format` is the port. */
void assert_wire(struct peer *peer, const char *format);
void assert_body(const struct probe *probe, const char *text);
/* Once a probe. */
void assert_fields(struct probe *probe, const char *text);

#endif
