/* Unit test of resolver.c against a small name server on the loopback, whose moods a test sets. */
#include "runtime/resolver.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define MS INT64_C(1000000)

enum { NOERROR = 0, SERVFAIL = 2, NXDOMAIN = 3, TYPE_A = 1, TYPE_AAAA = 28 };

/*
 * The name server. It knows ok.*, v4only.*, many.* (20 addresses, another first each time), silent.* (never answers);
 * everything else does not exist.
 */
static struct {
    int fd, stop;
    pthread_t thread;
    char address[32];
    _Atomic int rcode;        /* of every answer, unless NOERROR */
    _Atomic unsigned host;    /* last byte of the addresses */
    _Atomic unsigned ttl;     /* seconds */
    _Atomic unsigned asked;   /* questions of type A */
    _Atomic unsigned unheard; /* questions for silent.* */
} server;

struct packet {
    unsigned char data[512];
    size_t size;
};

static void put16(struct packet *packet, unsigned value)
{
    packet->data[packet->size++] = (unsigned char)(value >> 8);
    packet->data[packet->size++] = (unsigned char)value;
}

static void put_record(struct packet *packet, unsigned type, unsigned host)
{
    static const unsigned char v4[] = {192, 0, 2}, v6[15] = {0x20, 0x01, 0x0d, 0xb8};
    size_t size = type == TYPE_A ? sizeof v4 : sizeof v6;

    put16(packet, 0xc00c); /* the name of the question */
    put16(packet, type);
    put16(packet, 1);
    put16(packet, 0);
    put16(packet, server.ttl);
    put16(packet, (unsigned)size + 1);
    memcpy(packet->data + packet->size, type == TYPE_A ? v4 : v6, size);
    packet->size += size;
    packet->data[packet->size++] = (unsigned char)host;
}

static bool asks_for(const struct packet *question, const char *label)
{
    return question->data[12] == strlen(label) && memcmp(question->data + 13, label, strlen(label)) == 0;
}

static void put_answers(struct packet *answer, const struct packet *question, unsigned type)
{
    unsigned count = asks_for(question, "many") ? 20 : 1;

    if (type != TYPE_A && !asks_for(question, "ok"))
        return;
    answer->data[7] = (unsigned char)count;
    for (unsigned i = 0; i < count; i++)
        put_record(answer, type, count == 1 ? server.host : 1 + (server.asked + i) % count);
}

/* Up to the end of its one question: what may follow (EDNS, as newer versions of c-ares send it) is no part of an answer. */
static bool cut_to_question(struct packet *packet)
{
    static const unsigned char counts[] = {0, 1, 0, 0, 0, 0, 0, 0};
    size_t at = 12;

    while (at < packet->size && packet->data[at])
        at += packet->data[at] + 1u;
    if (at + 5 > packet->size)
        return false;
    packet->size = at + 5;
    memcpy(packet->data + 4, counts, sizeof counts);
    return true;
}

/* Turns a question into its answer; false: it stays silent. */
static bool answer(const struct packet *question, struct packet *answer)
{
    unsigned type = question->data[question->size - 3];
    bool known = asks_for(question, "ok") || asks_for(question, "v4only") || asks_for(question, "many");
    int rcode = server.rcode != NOERROR ? server.rcode : known ? NOERROR : NXDOMAIN;

    server.asked += type == TYPE_A;
    if (asks_for(question, "silent")) {
        server.unheard++;
        return false;
    }
    *answer = *question;
    answer->data[2] = 0x81;
    answer->data[3] = (unsigned char)(0x80 | rcode);
    if (rcode == NOERROR)
        put_answers(answer, question, type);
    return true;
}

static void *serve(void *argument)
{
    struct pollfd ready[2] = {{.fd = server.fd, .events = POLLIN}, {.fd = server.stop, .events = POLLIN}};

    (void)argument;
    while (poll(ready, 2, -1) >= 0 && !ready[1].revents) {
        struct packet question = {.size = 0}, reply;
        struct sockaddr_in from;
        socklen_t size = sizeof from;
        ssize_t got = recvfrom(server.fd, question.data, 400, 0, (struct sockaddr *)&from, &size);

        if (got < 17)
            continue;
        question.size = (size_t)got;
        if (cut_to_question(&question) && answer(&question, &reply))
            sendto(server.fd, reply.data, reply.size, 0, (struct sockaddr *)&from, size);
    }
    return NULL;
}

static int start_server(void **state)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;

    (void)state;
    server.fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    server.stop = eventfd(0, EFD_CLOEXEC);
    if (bind(server.fd, (struct sockaddr *)&address, size) != 0 ||
        getsockname(server.fd, (struct sockaddr *)&address, &size) != 0)
        return -1;
    snprintf(server.address, sizeof server.address, "127.0.0.1:%u", ntohs(address.sin_port));
    return pthread_create(&server.thread, NULL, serve, NULL);
}

static int stop_server(void **state)
{
    (void)state;
    if (eventfd_write(server.stop, 1) != 0)
        return -1;
    pthread_join(server.thread, NULL);
    close(server.fd);
    close(server.stop);
    return 0;
}

/* The reactor and the resolver of one test. */

static struct reactor *reactor;
static struct resolver *resolver;

static int start(void **state)
{
    (void)state;
    server.rcode = NOERROR;
    server.host = 1;
    server.ttl = 30;
    server.asked = server.unheard = 0;
    reactor = reactor_new(0);
    resolver = reactor ? resolver_new(reactor, server.address) : NULL;
    return resolver ? 0 : -1;
}

static int finish(void **state)
{
    (void)state;
    resolver_free(resolver);
    reactor_free(reactor);
    return 0;
}

struct probe {
    struct lookup lookup;
    struct resolved answer;
    unsigned calls;
};

static void done(struct lookup *lookup, const struct resolved *answer)
{
    struct probe *probe = (struct probe *)lookup;

    probe->answer = *answer;
    probe->calls++;
    assert_null(lookup->entry);
}

static bool ask(struct probe *probe, const char *host)
{
    *probe = (struct probe){.lookup.done = done};
    return resolver_start(resolver, coord_slice_of(host), &probe->lookup, &probe->answer);
}

/* Turns until it is answered, twenty seconds at most. */
static void await(struct probe *probe)
{
    int64_t until = reactor_now_fresh(reactor) + 20000 * MS;

    while (probe->calls == 0 && reactor_now(reactor) < until)
        reactor_turn(reactor, 100 * MS);
    assert_int_equal(probe->calls, 1);
}

static void look_up(struct probe *probe, const char *host)
{
    if (!ask(probe, host))
        await(probe);
}

static void turn_for(int64_t ns)
{
    int64_t until = reactor_now_fresh(reactor) + ns;

    while (reactor_now(reactor) < until)
        reactor_turn(reactor, 10 * MS);
}

static bool holds(const struct resolved *answer, const char *text)
{
    for (size_t i = 0; i < answer->count; i++) {
        const struct sockaddr_storage *address = &answer->addresses[i];
        char printed[INET6_ADDRSTRLEN];

        if (address->ss_family == AF_INET)
            inet_ntop(AF_INET, &((const struct sockaddr_in *)address)->sin_addr, printed, sizeof printed);
        else
            inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)address)->sin6_addr, printed, sizeof printed);
        if (strcmp(printed, text) == 0)
            return true;
    }
    return false;
}

static void literals_are_answered_at_once_and_nonsense_is_refused(void **state)
{
    static const struct {
        const char *name, *host, *want; /* NULL: not a name */
    } rows[] = {
        {"IPv4", "192.0.2.7", "192.0.2.7"},
        {"IPv6", "2001:DB8::7", "2001:db8::7"},
        {"IPv6 with a zone by name", "fe80::1%lo", "fe80::1"},
        {"IPv6 with a zone by number", "fe80::1%9", "fe80::1"},
        {"IPv6 with a bad zone", "fe80::1%1x", NULL},
        {"almost IPv6", "2001:db8::zz", NULL},
        {"nothing", "", NULL},
        {"a space", "a b", NULL},
        {"a line break", "a\nb", NULL},
    };
    char tall[300];
    struct probe probe;

    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        print_message("  %s\n", rows[r].name);
        assert_true(ask(&probe, rows[r].host));
        if (rows[r].want)
            assert_true(probe.answer.count == 1 && holds(&probe.answer, rows[r].want));
        else
            assert_true(probe.answer.count == 0 && strcmp(probe.answer.reason, "not a valid host name") == 0);
    }
    memset(tall, 'a', sizeof tall);
    tall[sizeof tall - 1] = '\0';
    assert_true(ask(&probe, tall));
    assert_int_equal(probe.answer.count, 0);
    assert_int_equal(server.asked, 0);
}

static void both_families_are_looked_up_and_the_answer_is_kept(void **state)
{
    struct probe probe, again;

    (void)state;
    assert_false(ask(&probe, "ok.test"));
    assert_int_equal(probe.calls, 0);
    await(&probe);
    assert_int_equal(probe.answer.count, 2);
    assert_true(holds(&probe.answer, "192.0.2.1") && holds(&probe.answer, "2001:db8::1"));
    assert_true(ask(&again, "OK.Test")); /* names know no case */
    assert_memory_equal(&again.answer.addresses, &probe.answer.addresses, sizeof probe.answer.addresses);
    assert_true(again.answer.generation == probe.answer.generation);
    assert_int_equal(server.asked, 1);
    look_up(&probe, "v4only.test");
    assert_true(probe.answer.count == 1 && holds(&probe.answer, "192.0.2.1"));
}

static void waiters_for_one_name_share_a_lookup(void **state)
{
    static struct probe probes[50];

    (void)state;
    for (size_t i = 0; i < 50; i++)
        assert_false(ask(&probes[i], "ok.test"));
    resolver_cancel(resolver, &probes[0].lookup);
    resolver_cancel(resolver, &probes[49].lookup);
    resolver_cancel(resolver, &probes[49].lookup); /* a second time does nothing */
    await(&probes[1]);
    for (size_t i = 0; i < 50; i++)
        assert_int_equal(probes[i].calls, i == 0 || i == 49 ? 0 : 1);
    assert_int_equal(server.asked, 1);
}

static void an_expired_answer_is_asked_for_again_and_a_change_shows_in_the_generation(void **state)
{
    static struct probe first, second, third;

    (void)state;
    server.ttl = 0; /* kept for a second all the same */
    look_up(&first, "ok.test");
    assert_true(ask(&second, "ok.test"));
    turn_for(1050 * MS);
    assert_false(ask(&second, "ok.test"));
    await(&second);
    assert_true(second.answer.generation == first.answer.generation);
    server.host = 2;
    turn_for(1050 * MS);
    look_up(&third, "ok.test");
    assert_true(holds(&third.answer, "192.0.2.2"));
    assert_true(third.answer.generation != first.answer.generation);
}

static void at_most_sixteen_addresses_are_kept(void **state)
{
    struct probe probe;

    (void)state;
    look_up(&probe, "many.test");
    assert_int_equal(probe.answer.count, RESOLVER_MAX_ADDRESSES);
}

struct ticker {
    struct timer timer;
    unsigned ticks;
};

static void tick(struct timer *timer)
{
    ((struct ticker *)timer)->ticks++;
    reactor_arm(reactor, timer, 5 * MS);
}

static void a_silent_server_disturbs_nobody_and_cancelling_takes_no_time(void **state)
{
    struct ticker ticker = {.timer.due = tick};
    struct probe silent, other;
    int64_t before;

    (void)state;
    reactor_arm(reactor, &ticker.timer, 5 * MS);
    assert_false(ask(&silent, "silent.test"));
    look_up(&other, "ok.test");
    assert_true(holds(&other.answer, "192.0.2.1"));
    before = reactor_now_fresh(reactor);
    while ((ticker.ticks < 10 || server.unheard == 0) && reactor_now(reactor) - before < 5000 * MS)
        reactor_turn(reactor, 10 * MS);
    reactor_disarm(reactor, &ticker.timer);
    assert_true(ticker.ticks >= 10);
    assert_true(server.unheard > 0);
    assert_int_equal(silent.calls, 0);
    before = reactor_now_fresh(reactor);
    resolver_cancel(resolver, &silent.lookup);
    assert_true(reactor_now_fresh(reactor) - before < 100 * MS);
    before = reactor_now_fresh(reactor);
    reactor_turn(reactor, 300 * MS); /* nothing is left that could wake the loop */
    reactor_turn(reactor, 300 * MS);
    assert_true(reactor_now_fresh(reactor) - before >= 300 * MS);
    assert_int_equal(silent.calls, 0);
    assert_false(ask(&silent, "silent.test")); /* and can be asked again */
    resolver_cancel(resolver, &silent.lookup);
}

static void a_host_that_does_not_exist_is_remembered_for_a_second(void **state)
{
    struct probe probe;
    unsigned asked;

    (void)state;
    look_up(&probe, "gone.test");
    assert_int_equal(probe.answer.count, 0);
    assert_string_equal(probe.answer.reason, "no such host");
    asked = server.asked;
    assert_true(ask(&probe, "gone.test"));
    assert_string_equal(probe.answer.reason, "no such host");
    assert_int_equal(server.asked, asked);
    turn_for(1050 * MS);
    assert_false(ask(&probe, "gone.test"));
    await(&probe);
}

static void an_expired_answer_is_given_when_the_servers_fail_but_not_when_they_deny(void **state)
{
    static struct probe first, stale, denied;

    (void)state;
    server.ttl = 1;
    look_up(&first, "ok.test");
    server.rcode = SERVFAIL;
    turn_for(1050 * MS);
    assert_false(ask(&stale, "ok.test"));
    await(&stale);
    assert_int_equal(stale.answer.count, 2);
    assert_true(stale.answer.generation == first.answer.generation);
    server.rcode = NXDOMAIN;
    turn_for(1050 * MS);
    look_up(&denied, "ok.test");
    assert_int_equal(denied.answer.count, 0);
    assert_string_equal(denied.answer.reason, "no such host");
    look_up(&denied, "unknown.test");
    assert_int_equal(denied.answer.count, 0);
}

static void failing_servers_are_named_as_the_reason(void **state)
{
    struct probe probe;

    (void)state;
    server.rcode = SERVFAIL;
    look_up(&probe, "ok.test");
    assert_int_equal(probe.answer.count, 0);
    assert_string_equal(probe.answer.reason, "the name servers cannot be reached or refuse to answer");
    resolver_free(resolver);
    resolver = resolver_new(reactor, "127.0.0.1:1"); /* nobody listens */
    look_up(&probe, "ok.test");
    assert_int_equal(probe.answer.count, 0);
    assert_non_null(strstr(probe.answer.reason, "name servers"));
}

/* A name of /etc/hosts that is not localhost (which c-ares knows by itself), and its address. False: there is none. */
static bool a_name_of_the_hosts_file(char address[static 64], char name[static 256])
{
    FILE *file = fopen("/etc/hosts", "re");
    char line[512];
    bool found = false;

    while (file && !found && fgets(line, sizeof line, file))
        found = sscanf(line, "%63[0-9.] %255s", address, name) == 2 && !strstr(name, "localhost");
    if (file)
        fclose(file);
    return found;
}

static void the_hosts_file_is_honoured(void **state)
{
    char address[64], name[256];
    struct probe probe;

    (void)state;
    look_up(&probe, "localhost");
    assert_true(holds(&probe.answer, "127.0.0.1") || holds(&probe.answer, "::1"));
    if (a_name_of_the_hosts_file(address, name)) {
        print_message("  %s is %s\n", name, address);
        look_up(&probe, name);
        assert_true(holds(&probe.answer, address));
    }
    assert_int_equal(server.asked, 0);
}

static struct probe victim, next;

static void starts_and_cancels(struct lookup *lookup, const struct resolved *answer)
{
    ((struct probe *)lookup)->calls++;
    assert_int_equal(answer->count, 2);
    resolver_cancel(resolver, &victim.lookup);
    assert_true(ask(&next, "ok.test"));
    assert_false(ask(&next, "v4only.test"));
}

static void a_waiter_may_cancel_others_and_ask_again(void **state)
{
    struct probe first;

    (void)state;
    assert_false(ask(&first, "ok.test"));
    assert_false(ask(&victim, "ok.test"));
    first.lookup.done = starts_and_cancels;
    await(&first);
    await(&next);
    assert_int_equal(victim.calls, 0);
    assert_int_equal(next.answer.count, 1);
}

static void a_resolver_that_ends_drops_its_waiters(void **state)
{
    struct probe ok, silent;

    (void)state;
    assert_false(ask(&ok, "ok.test"));
    assert_false(ask(&silent, "silent.test"));
    resolver_free(resolver);
    resolver = NULL;
    turn_for(20 * MS);
    assert_int_equal(ok.calls + silent.calls, 0);
}

static void many_names_do_not_grow_the_cache_for_ever(void **state)
{
    struct probe probe;
    char name[32];

    (void)state;
    for (int i = 0; i < 1500; i++) {
        snprintf(name, sizeof name, "v4only.n%d.test", i);
        look_up(&probe, name);
        assert_int_equal(probe.answer.count, 1);
    }
    assert_true(ask(&probe, "v4only.n1499.test"));
    assert_false(ask(&probe, "v4only.n0.test"));
    await(&probe);
}

static void malformed_servers_are_refused(void **state)
{
    (void)state;
    assert_null(resolver_new(reactor, "not an address"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(literals_are_answered_at_once_and_nonsense_is_refused, start, finish),
        cmocka_unit_test_setup_teardown(both_families_are_looked_up_and_the_answer_is_kept, start, finish),
        cmocka_unit_test_setup_teardown(waiters_for_one_name_share_a_lookup, start, finish),
        cmocka_unit_test_setup_teardown(an_expired_answer_is_asked_for_again_and_a_change_shows_in_the_generation,
                                        start, finish),
        cmocka_unit_test_setup_teardown(at_most_sixteen_addresses_are_kept, start, finish),
        cmocka_unit_test_setup_teardown(a_silent_server_disturbs_nobody_and_cancelling_takes_no_time, start, finish),
        cmocka_unit_test_setup_teardown(a_host_that_does_not_exist_is_remembered_for_a_second, start, finish),
        cmocka_unit_test_setup_teardown(an_expired_answer_is_given_when_the_servers_fail_but_not_when_they_deny, start,
                                        finish),
        cmocka_unit_test_setup_teardown(failing_servers_are_named_as_the_reason, start, finish),
        cmocka_unit_test_setup_teardown(the_hosts_file_is_honoured, start, finish),
        cmocka_unit_test_setup_teardown(a_waiter_may_cancel_others_and_ask_again, start, finish),
        cmocka_unit_test_setup_teardown(a_resolver_that_ends_drops_its_waiters, start, finish),
        cmocka_unit_test_setup_teardown(many_names_do_not_grow_the_cache_for_ever, start, finish),
        cmocka_unit_test_setup_teardown(malformed_servers_are_refused, start, finish),
    };

    return cmocka_run_group_tests(tests, start_server, stop_server);
}
