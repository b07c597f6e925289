/*
 * Legs to names: all addresses are tried, and those of now; lookups that fail or never end. A name server of this file's own
 * answers on a thread.
 */
#include "upstream_peer.h"
#include "upstream_probe.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct names {
    pthread_t thread;
    int fd;
    _Atomic bool stop;
    _Atomic int move; /* the last byte of moving.test's address */
    _Atomic int asked;
};

static struct names names;

/* "silent…" gets no answer, "gone…" does not exist, the others have the addresses 127.0.0.x below. */
static size_t answer_name(const unsigned char *question, size_t size, unsigned char *answer)
{
    const char *first = (const char *)question + 13;
    unsigned char hosts[3] = {3, 2, 1}, count = 3;
    size_t at = 12;

    while (at < size && question[at])
        at += question[at] + 1u;
    if (at + 5 > size)
        return 0;
    at += 5;
    names.asked++;
    if (strncmp(first, "silent", 6) == 0)
        return 0;
    if (strncmp(first, "moving", 6) == 0) {
        hosts[0] = (unsigned char)names.move;
        count = 1;
    }
    if (strncmp(first, "pair", 4) == 0) {
        hosts[0] = 2;
        hosts[1] = 1;
        count = 2;
    }
    memcpy(answer, question, at);
    memcpy(answer + 2, "\x81\x80\0\1\0\0\0\0\0\0", 10);
    if (strncmp(first, "gone", 4) == 0) {
        answer[3] = 0x83;
        return at;
    }
    if (question[at - 3] != 1) /* not an A */
        return at;
    answer[7] = count;
    for (size_t i = 0; i < count; i++) {
        memcpy(answer + at, "\xc0\x0c\0\1\0\1\0\0\0\1\0\4\x7f\0\0", 15);
        answer[at + 15] = hosts[i];
        at += 16;
    }
    return at;
}

static void *serve_names(void *unused)
{
    unsigned char question[512], answer[1024];
    struct sockaddr_in from;

    (void)unused;
    while (!names.stop) {
        socklen_t size = sizeof from;
        ssize_t got;
        size_t filled;

        if (!readable(names.fd, 5))
            continue;
        got = recvfrom(names.fd, question, sizeof question, 0, (struct sockaddr *)&from, &size);
        filled = got > 17 ? answer_name(question, (size_t)got, answer) : 0;
        if (filled)
            sendto(names.fd, answer, filled, 0, (struct sockaddr *)&from, size);
    }
    return NULL;
}

static int start_with_names(void **state)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char server[32];

    names.fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(names.fd, (struct sockaddr *)&name, sizeof name), 0);
    names.stop = false;
    names.move = 1;
    assert_int_equal(pthread_create(&names.thread, NULL, serve_names, NULL), 0);
    snprintf(server, sizeof server, "127.0.0.1:%d", port_of(names.fd));
    *state = world_new(server);
    return 0;
}

static int stop_with_names(void **state)
{
    names.stop = true;
    pthread_join(names.thread, NULL);
    close(names.fd);
    return world_stop(state);
}

static int thread_count(void)
{
    DIR *folder = opendir("/proc/self/task");
    int count = 0;

    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

static void all_addresses_of_a_name_are_tried_and_no_thread_is_started(void **state)
{
    struct world *world = *state;
    struct peer *peer = peer_start(serve_many, NULL); /* on the last of three addresses */
    struct upstream *upstream = open_named(world, "Three.test", peer->port),
                    *dotted = open_named(world, "three.test.", peer->port);
    int threads = thread_count();
    struct leg_request request = get("/");
    struct probe probe = {0};

    run_leg(world, upstream, false, false);
    assert_int_equal(thread_count(), threads);
    run_leg(world, upstream, false, true);
    run_leg(world, upstream, true, false);
    probe_start(&probe, world, dotted, &request);
    finish(&probe);
    assert_int_equal(probe.result.outcome, LEG_COMPLETE);
    assert_int_equal(thread_count(), threads);
    probe_clear(&probe);
    stop_peer(peer);
}

static void the_next_address_is_tried_when_the_first_does_not_answer(void **state)
{
    struct world *world = *state;
    struct peer *peer = peer_start(serve_many, NULL);
    int silent = listen_on("127.0.0.2", peer->port, 0), fillers[8];
    struct sockaddr_in name = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)peer->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1)};
    char url[64];
    const char *reason;
    struct upstream_options options = {
        .transport = transport, .max_idle_connections = 1, .idle_age_ns = 4000 * MS, .connect_timeout_ns = 1500 * MS};
    struct upstream *upstream;

    assert_true(silent >= 0);
    for (size_t i = 0; i < 8; i++) {
        fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        connect(fillers[i], (struct sockaddr *)&name, sizeof name);
    }
    snprintf(url, sizeof url, "http://pair.test:%d", peer->port);
    options.url = coord_slice_of(url);
    upstream = upstream_open(world->client, &options, &reason);
    run_leg(world, upstream, false, false);
    run_leg(world, upstream, false, true);
    assert_int_equal(client_connections(world->client), 1);
    for (size_t i = 0; i < 8; i++)
        close(fillers[i]);
    close(silent);
    stop_peer(peer);
}

static void a_name_without_an_address_is_unresolved(void **state)
{
    struct world *world = *state;
    struct upstream *upstream = open_named(world, "gone.test", 80);
    struct leg_request request = get("/");

    for (int known = 0; known < 2; known++) {
        struct probe probe = {0};

        probe_start(&probe, world, upstream, &request);
        finish(&probe);
        assert_int_equal(probe.result.outcome, LEG_UNRESOLVED);
        assert_true(probe.detail[0]);
        probe_clear(&probe);
    }
}

static void a_lookup_that_never_ends_troubles_nobody_else(void **state)
{
    struct world *world = *state;
    struct peer *peer = peer_start(serve_many, NULL);
    char url[64];
    const char *reason;
    struct upstream_options options = {.transport = transport, .connect_timeout_ns = 400 * MS};
    struct upstream *upstream, *other = open_peer(world, peer);
    struct leg_request request = get("/");
    struct probe probe = {0}, cancelled = {0};
    int64_t begun = now_ns();

    snprintf(url, sizeof url, "http://silent.test:%d", peer->port);
    options.url = coord_slice_of(url);
    upstream = upstream_open(world->client, &options, &reason);
    probe_start(&probe, world, upstream, &request);
    probe_start(&cancelled, world, upstream, &request);
    leg_pause(cancelled.leg);
    run_leg(world, other, false, false);
    probe_cancel(&cancelled);
    run_leg(world, other, false, true);
    assert_true(now_ns() - begun < 1000 * MS);
    finish(&probe);
    assert_int_equal(probe.result.outcome, LEG_CONNECT_TIMEOUT);
    assert_string_equal(probe.detail, "the name lookup did not end within 0.4 s");
    assert_true(names.asked > 0);
    probe_clear(&probe);
    probe_clear(&cancelled);
    stop_peer(peer);
}

static void legs_go_to_the_addresses_of_now(void **state)
{
    struct world *world = *state;
    struct peer *peer = peer_start(serve_many, NULL), *second = peer_new(serve_many);
    struct upstream *upstream = open_named(world, "moving.test", peer->port);

    close(second->listener);
    second->listener = listen_on("127.0.0.2", peer->port, 64);
    assert_true(second->listener >= 0);
    peer_begin(second);
    run_leg(world, upstream, false, false);
    assert_int_equal(peer->connections, 1);
    names.move = 2;
    run_leg(world, upstream, false, true);
    turn_for(world, 1100); /* until the answer is too old */
    run_leg(world, upstream, false, false);
    run_leg(world, upstream, false, true);
    assert_int_equal(peer->connections, 1);
    assert_int_equal(second->connections, 1);
    stop_peer(peer);
    stop_peer(second);
}

#define NAMES_TEST(name) cmocka_unit_test_setup_teardown(name, start_with_names, stop_with_names)

int main(void)
{
    const struct CMUnitTest tests[] = {
        NAMES_TEST(all_addresses_of_a_name_are_tried_and_no_thread_is_started),
        NAMES_TEST(the_next_address_is_tried_when_the_first_does_not_answer),
        NAMES_TEST(a_name_without_an_address_is_unresolved),
        NAMES_TEST(a_lookup_that_never_ends_troubles_nobody_else),
        NAMES_TEST(legs_go_to_the_addresses_of_now),
    };
    int failed = cmocka_run_group_tests_name("direct", tests, over_direct, NULL);

    return failed + cmocka_run_group_tests_name("libcurl", tests, over_libcurl, NULL);
}
