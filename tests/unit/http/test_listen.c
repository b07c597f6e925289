/* Unit test of listen.c: what is an address, both families on one socket, shared ports. */
#include "http/listen.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static bool connects(int family, uint16_t port)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(family, SOCK_STREAM, 0);
    bool connected = family == AF_INET ? connect(fd, (struct sockaddr *)&in, sizeof in) == 0
                                       : connect(fd, (struct sockaddr *)&in6, sizeof in6) == 0;

    close(fd);
    return connected;
}

static void texts_that_are_no_address_are_explained(void **state)
{
    static const struct {
        const char *text, *reason;
    } rows[] = {
        {"", "a port is missing"}, {"8080", "a port is missing"}, {"127.0.0.1", "a port is missing"},
        {":", "not a number"},     {":http", "not a number"},     {":65536", "not a number"},
        {":-1", "not a number"},   {":80 ", "not a number"},      {"::1:80", "in brackets"},
        {"[::1:80", "not closed"}, {"[]:80", "not closed"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buffer reason = {0};
        int fd;

        print_message("  \"%s\"\n", rows[i].text);
        assert_int_equal(listen_open(coord_slice_of(rows[i].text), 1, &fd, &reason), COORD_INVALID);
        assert_true(buffer_append(&reason, "", 1));
        assert_non_null(strstr(reason.data, rows[i].reason));
        buffer_release(&reason);
    }
}

static void every_form_of_address_listens(void **state)
{
    static const struct {
        const char *text;
        bool in, in6;
    } rows[] = {
        {":0", true, true}, {"127.0.0.1:0", true, false}, {"[::1]:0", false, true}, {"localhost:0", true, false}};
    bool have_in6 = socket(AF_INET6, SOCK_STREAM, 0) >= 0;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buffer reason = {0};
        int fd;

        print_message("  %s\n", rows[i].text);
        if (!rows[i].in && !have_in6)
            continue;
        assert_int_equal(listen_open(coord_slice_of(rows[i].text), 1, &fd, &reason), COORD_OK);
        assert_true(listen_port(fd) > 0);
        assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
        assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        assert_int_equal(connects(AF_INET, listen_port(fd)), rows[i].in);
        if (have_in6)
            assert_int_equal(connects(AF_INET6, listen_port(fd)), rows[i].in6);
        close(fd);
        buffer_release(&reason);
    }
}

static void a_port_is_shared_by_our_own_sockets_only(void **state)
{
    struct buffer reason = {0};
    char text[32];
    int fds[4], other[2];

    (void)state;
    assert_int_equal(listen_open(coord_slice_of("127.0.0.1:0"), 4, fds, &reason), COORD_OK);
    for (int i = 1; i < 4; i++)
        assert_int_equal(listen_port(fds[i]), listen_port(fds[0]));
    snprintf(text, sizeof text, "127.0.0.1:%u", listen_port(fds[0]));
    assert_int_equal(listen_open(coord_slice_of(text), 1, other, &reason), COORD_FAIL);
    assert_int_equal(listen_open(coord_slice_of(text), 2, other, &reason), COORD_FAIL);
    assert_non_null(memmem(reason.data, reason.size, "in use", 6));
    assert_non_null(memmem(reason.data, reason.size, text, strlen(text)));
    for (int i = 0; i < 4; i++)
        close(fds[i]);
    assert_int_equal(listen_open(coord_slice_of(text), 2, other, &reason), COORD_OK);
    close(other[0]);
    close(other[1]);
    buffer_release(&reason);
}

static void descriptors_are_raised_to_the_hard_limit(void **state)
{
    struct rlimit limit;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max < 64 ? limit.rlim_max : 64;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(listen_raise_descriptors(), limit.rlim_max);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(limit.rlim_cur, limit.rlim_max);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_that_are_no_address_are_explained),
        cmocka_unit_test(every_form_of_address_listens),
        cmocka_unit_test(a_port_is_shared_by_our_own_sockets_only),
        cmocka_unit_test(descriptors_are_raised_to_the_hard_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
