/*
 * Opening an upstream: which options are one and the same, and which are refused with a reason.
 */
#include "upstream_peer.h"
#include "upstream_probe.h"

#include <stdlib.h>
#include <string.h>

static void upstreams_are_shared_by_equal_options_and_refused_with_a_reason(void **state)
{
    static const struct {
        const char *url, *authority, *prefix; /* NULL: refused */
    } rows[] = {
        {"http://127.0.0.1:80", "127.0.0.1:80", ""},
        {"http://h", "h", ""},
        {"HTTP://h:1/", "h:1", ""},
        {"https://h:1/a/b/", "h:1", "/a/b"},
        {"http://[::1]:8000/v1", "[::1]:8000", "/v1"},
        {"http://h/a/../b", "h", "/a/../b"},
        {"", NULL, NULL},
        {"h:80", NULL, NULL},
        {"ftp://h", NULL, NULL},
        {"file:///etc/passwd", NULL, NULL},
        {"http://", NULL, NULL},
        {"http:///x", NULL, NULL},
        {"http://u:p@h", NULL, NULL},
        {"http://h?x", NULL, NULL},
        {"http://h/#x", NULL, NULL},
        {"http://h:99999", NULL, NULL},
        {"http://h h", NULL, NULL},
        {"http://h\r\nx", NULL, NULL},
        {"http://h\xc3\xa9", NULL, NULL},
    };
    struct world *world = *state;

    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        char *copy = strdup(rows[r].url); /* the options are not kept by reference */
        struct upstream_options options = {
            .url = coord_slice_of(copy), .max_idle_connections = 1, .idle_age_ns = 4000 * MS};
        const char *reason = NULL;
        struct upstream *one = upstream_open(world->client, &options, &reason), *two, *three;

        print_message("  %s: %s\n", rows[r].url, one ? "taken" : reason);
        if (!rows[r].authority) {
            assert_null(one);
            assert_non_null(reason);
            free(copy);
            continue;
        }
        two = upstream_open(world->client, &options, &reason);
        options.idle_age_ns = 3000 * MS;
        three = upstream_open(world->client, &options, &reason);
        memset(copy, 'x', strlen(copy));
        free(copy);
        assert_ptr_equal(one, two);
        assert_ptr_not_equal(one, three);
        upstream_close(two);
        assert_true(coord_slice_is(upstream_authority(one), rows[r].authority));
        assert_true(coord_slice_is(upstream_prefix(one), rows[r].prefix));
        upstream_close(one);
        upstream_close(three);
    }
    upstream_close(NULL);
    client_free(NULL);
}

static void the_direct_transport_is_refused_for_https(void **state)
{
    struct world *world = *state;
    struct upstream_options options = {.transport = UPSTREAM_DIRECT, .url = COORD_SLICE("https://h")};
    const char *reason = NULL;

    assert_null(upstream_open(world->client, &options, &reason));
    assert_string_equal(reason, "the direct transport speaks no TLS: an https URL needs libcurl");
    options.transport = UPSTREAM_AUTO;
    assert_non_null(upstream_open(world->client, &options, &reason));
}

static void an_unreadable_file_is_refused(void **state)
{
    struct world *world = *state;
    struct upstream_options options = {.url = COORD_SLICE("https://h"), .ca_file = COORD_SLICE("/nowhere/ca.pem")};
    const char *reason = NULL;

    assert_null(upstream_open(world->client, &options, &reason));
    assert_string_equal(reason, "cannot read /nowhere/ca.pem: No such file or directory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UPSTREAM_TEST(upstreams_are_shared_by_equal_options_and_refused_with_a_reason),
        UPSTREAM_TEST(an_unreadable_file_is_refused),
        UPSTREAM_TEST(the_direct_transport_is_refused_for_https),
    };
    int failed = cmocka_run_group_tests_name("direct", tests, over_direct, NULL);

    return failed + cmocka_run_group_tests_name("libcurl", tests, over_libcurl, NULL);
}
