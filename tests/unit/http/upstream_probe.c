#include "upstream_probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum upstream_transport transport;

int over_direct(void **state)
{
    (void)state;
    transport = UPSTREAM_DIRECT;
    return 0;
}

int over_libcurl(void **state)
{
    (void)state;
    transport = UPSTREAM_CURL;
    return 0;
}

struct world *world_new(const char *server)
{
    struct world *world = calloc(1, sizeof *world);

    world->reactor = reactor_new(0);
    world->resolver = resolver_new(world->reactor, server);
    world->client = client_new(world->reactor, world->resolver);
    assert_true(world->reactor && world->resolver && world->client);
    return world;
}

int world_start(void **state)
{
    *state = world_new(NULL);
    return 0;
}

int world_stop(void **state)
{
    struct world *world = *state;

    assert_int_equal(client_legs(world->client), 0);
    client_free(world->client);
    resolver_free(world->resolver);
    reactor_free(world->reactor);
    free(world);
    return 0;
}

void turn(struct world *world, int ms)
{
    world->turns++;
    reactor_turn(world->reactor, ms * MS);
}

void turn_for(struct world *world, int ms)
{
    for (int64_t end = now_ns() + ms * MS; now_ns() < end;)
        turn(world, (int)((end - now_ns()) / MS) + 1);
}

void close_client(void **state)
{
    struct world *world = *state;

    client_free(world->client);
    world->client = client_new(world->reactor, world->resolver);
}

struct upstream *open_named(struct world *world, const char *host, int port)
{
    char url[64];
    const char *reason = NULL;
    struct upstream_options options = {
        .transport = transport, .max_idle_connections = 8, .idle_age_ns = 4000 * MS, .connect_timeout_ns = 5000 * MS};
    struct upstream *upstream;

    snprintf(url, sizeof url, "http://%s:%d", host, port);
    options.url = coord_slice_of(url);
    upstream = upstream_open(world->client, &options, &reason);
    assert_non_null(upstream);
    return upstream;
}

struct upstream *open_peer(struct world *world, const struct peer *peer)
{
    return open_named(world, "127.0.0.1", peer->port);
}

struct leg_request get(const char *target)
{
    return (struct leg_request){.method = COORD_SLICE("GET"), .target = coord_slice_of(target)};
}

static void head_came(struct leg *leg, const struct leg_head *head)
{
    struct probe *probe = leg_owner(leg);

    assert_false(probe->inside);
    assert_int_equal(probe->heads + probe->datas + probe->ends, 0);
    probe->heads++;
    probe->status = head->status;
    probe->length = head->length;
    probe->reused = head->reused;
    probe->sent = head->sent;
    for (size_t i = 0; i < head->headers.count; i++)
        assert_true(buffer_printf(&probe->fields, "%.*s=%.*s;", COORD_FMT(head->headers.list[i].name),
                                  COORD_FMT(head->headers.list[i].value)));
    if (probe->on_head)
        probe->on_head(probe);
}

static void data_came(struct leg *leg, coord_slice bytes)
{
    struct probe *probe = leg_owner(leg);
    size_t before = probe->body.size;

    assert_false(probe->inside);
    assert_true(probe->heads == 1 && probe->ends == 0);
    probe->datas++;
    if (bytes.size > probe->largest)
        probe->largest = bytes.size;
    assert_true(buffer_append_slice(&probe->body, bytes));
    if (probe->on_data)
        probe->on_data(probe);
    assert_true(memcmp(bytes.data, probe->body.data + before, bytes.size) == 0); /* whatever was done meanwhile */
}

static void end_came(struct leg *leg, const struct leg_result *result)
{
    struct probe *probe = leg_owner(leg);

    assert_false(probe->inside);
    assert_int_equal(probe->ends, 0);
    probe->ends++;
    probe->result = *result;
    probe->ended_ns = now_ns();
    snprintf(probe->detail, sizeof probe->detail, "%s", result->detail);
    free(probe->memory);
    probe->memory = NULL;
    if (probe->on_end)
        probe->on_end(probe);
}

static size_t upload_wanted(struct leg *leg, char *room, size_t size)
{
    struct probe *probe = leg_owner(leg);

    assert_false(probe->inside);
    probe->uploads++;
    return probe->on_upload(probe, room, size);
}

static const struct leg_events events = {head_came, data_came, end_came, upload_wanted};

void probe_start(struct probe *probe, struct world *world, struct upstream *upstream, const struct leg_request *request)
{
    probe->world = world;
    probe->upstream = upstream;
    probe->memory = calloc(1, leg_size());
    probe->inside = true;
    probe->leg = leg_start(probe->memory, upstream, request, &events, probe);
    probe->inside = false;
    assert_non_null(probe->leg);
}

void probe_cancel(struct probe *probe)
{
    probe->inside = true;
    leg_cancel(probe->leg);
    free(probe->memory);
    probe->memory = NULL;
    probe->inside = true; /* for ever: no event may come any more */
}

void probe_resume(struct probe *probe)
{
    probe->inside = true;
    leg_resume(probe->leg);
    probe->inside = false;
}

void probe_clear(struct probe *probe)
{
    buffer_release(&probe->body);
    buffer_release(&probe->fields);
    free(probe->memory);
    *probe = (struct probe){0};
}

void finish(struct probe *probe)
{
    for (int64_t end = now_ns() + PATIENCE_MS * MS; !probe->ends; turn(probe->world, 100))
        assert_true(now_ns() < end);
}

void run_leg(struct world *world, struct upstream *upstream, bool fresh, bool reused)
{
    struct leg_request request = get("/");
    struct probe probe = {0};

    request.fresh = fresh;
    probe_start(&probe, world, upstream, &request);
    finish(&probe);
    assert_int_equal(probe.result.outcome, LEG_COMPLETE);
    assert_int_equal(probe.reused, reused);
    probe_clear(&probe);
}

void assert_wire(struct peer *peer, const char *format)
{
    char want[4096];

    peer_join(peer);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(want, sizeof want, format, peer->port, peer->port);
#pragma GCC diagnostic pop
    peer->log[peer->logged] = 0;
    assert_string_equal(peer->log, want);
}

void assert_body(const struct probe *probe, const char *text)
{
    assert_int_equal(probe->body.size, strlen(text));
    assert_memory_equal(probe->body.data ? probe->body.data : "", text, strlen(text));
}

void assert_fields(struct probe *probe, const char *text)
{
    assert_true(buffer_append(&probe->fields, "", 1));
    assert_string_equal(probe->fields.data, text);
}
