/* Unit test of headers.c. */
#include "http/headers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>

static struct arena arena;

static coord_slice text(const char *value) { return coord_slice_of(value); }

/* "A: 1|B: 2" and back. */
static struct headers parse(const char *line)
{
    struct headers headers;

    headers_init(&headers, &arena);
    while (*line) {
        size_t size = strcspn(line, "|");
        size_t name = strcspn(line, ":");
        bool added = headers_add(&headers, (coord_slice){line, name}, (coord_slice){line + name + 2, size - name - 2});

        assert_true(added);
        line += size + (line[size] == '|');
    }
    return headers;
}

static const char *print(const struct headers *headers)
{
    char *line = arena_printf(&arena, "%s", "");

    for (size_t i = 0; i < headers->count; i++)
        line = arena_printf(&arena, "%s%s%.*s: %.*s", line, i ? "|" : "", COORD_FMT(headers->list[i].name),
                            COORD_FMT(headers->list[i].value));
    return line;
}

static int finish(void **state)
{
    (void)state;
    arena_release(&arena);
    return 0;
}

static void fields_keep_order_spelling_and_repeats(void **state)
{
    struct headers headers = parse("b: 1|A: 2|B: 3|a: ");

    (void)state;
    assert_string_equal(print(&headers), "b: 1|A: 2|B: 3|a: ");
    assert_int_equal(headers_count(&headers, text("B")), 2);
    assert_int_equal(headers_count(&headers, text("c")), 0);
    assert_ptr_equal(headers_find(&headers, text("B")), &headers.list[0]);
    assert_null(headers_find(&headers, text("bb")));
    assert_true(headers_set(&headers, text("B"), text("4")));
    assert_string_equal(print(&headers), "A: 2|a: |B: 4");
    assert_int_equal(headers_remove(&headers, text("a")), 2);
    assert_int_equal(headers_remove(&headers, text("a")), 0);
    assert_string_equal(print(&headers), "B: 4");
}

static void a_field_may_be_set_to_a_part_of_itself(void **state)
{
    struct headers headers = parse("x: one two|y: 3");
    const struct header *x = headers_find(&headers, text("X"));

    (void)state;
    assert_true(headers_set(&headers, x->name, (coord_slice){x->value.data + 4, 3}));
    assert_string_equal(print(&headers), "y: 3|x: two");
}

static void many_fields_fit(void **state)
{
    struct headers headers, copy;

    (void)state;
    headers_init(&headers, &arena);
    headers_init(&copy, &arena);
    for (int i = 0; i < 1000; i++)
        assert_true(headers_add(&headers, text(arena_printf(&arena, "n%d", i)), text("v")));
    assert_true(headers_copy(&copy, &headers));
    assert_int_equal(copy.count, 1000);
    assert_true(coord_slice_is(copy.list[999].name, "n999"));
    assert_ptr_not_equal(copy.list[999].name.data, headers.list[999].name.data);
}

static void tokens_are_found_in_lists(void **state)
{
    static const struct {
        const char *name, *fields, *token;
        bool found;
    } rows[] = {
        {"alone", "connection: close", "Close", true},
        {"in a list", "connection: a, close ,b", "close", true},
        {"in another field", "connection: a|Connection: close", "close", true},
        {"a part of one", "connection: closed, xclose", "close", false},
        {"parameters do not count", "te: trailers;q=1", "trailers", true},
        {"nor do quoted commas", "te: \"a, close\"", "close", false},
        {"an escaped quote", "te: \"a\\\", close\", open", "open", true},
        {"empty elements", "te: ,, ,close", "close", true},
        {"empty field", "te: ", "close", false},
        {"no field", "x: close", "close", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct headers headers = parse(rows[i].fields);
        coord_slice name = {rows[i].fields, strcspn(rows[i].fields, ":")};

        print_message("  %s\n", rows[i].name);
        if (strcmp(rows[i].name, "no field") == 0)
            name = text("te");
        assert_int_equal(headers_has_token(&headers, name, text(rows[i].token)), rows[i].found);
    }
}

static void hop_by_hop_fields_are_dropped(void **state)
{
    static const struct {
        const char *name, *before, *after;
    } rows[] = {
        {"none", "a: 1|b: 2", "a: 1|b: 2"},
        {"those of the RFC",
         "a: 1|Keep-Alive: x|TE: y|Transfer-Encoding: chunked|Upgrade: h2c|Proxy-Connection: z|Proxy-Authorization: p|"
         "Proxy-Authenticate: q|Trailer: t|b: 2",
         "a: 1|b: 2"},
        {"those that Connection names", "x-a: 1|Connection: close, X-A|x-b: 2|x-A: 3", "x-b: 2"},
        {"by several fields, before and after", "p: 1|connection: q|q: 2|r: 3|Connection: p|s: 4", "r: 3|s: 4"},
        {"Connection alone", "Connection: keep-alive", ""},
        {"what Connection names twice", "x: 1|Connection: x, x;q, x|Connection: X|y: 2", "y: 2"},
        {"one that has a kind", "Connection: host|Host: 1|Cookie: 2", "Cookie: 2"},
        {"Connection itself", "Connection: connection|a: 1", "a: 1"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct headers headers = parse(rows[i].before);

        print_message("  %s\n", rows[i].name);
        headers_drop_hop_by_hop(&headers);
        assert_string_equal(print(&headers), rows[i].after);
    }
}

static void names_and_values_are_judged_as_in_the_rfc(void **state)
{
    (void)state;
    assert_true(header_name_valid(text("X-a_1!#$%&'*+.^`|~")));
    assert_false(header_name_valid(text("")));
    for (int c = 0; c < 256; c++) {
        char name[3] = {'a', (char)c, 'b'};
        bool token = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                     (c != 0 && strchr("!#$%&'*+-.^_`|~", c));

        assert_int_equal(header_name_valid((coord_slice){name, 3}), token);
        assert_int_equal(header_value_valid((coord_slice){name, 3}), c != 0 && c != '\r' && c != '\n');
    }
    assert_true(header_value_valid(text("")));
    assert_true(header_name_is(text("cOntent-LENGTH"), "Content-Length"));
    assert_false(header_name_is(text("a{"), "a["));
    assert_false(header_name_equal(text("a"), text("ab")));
}

static void a_name_has_its_kind_however_it_is_spelled(void **state)
{
    static const struct {
        const char *name;
        enum header_kind kind;
    } rows[] = {
        {"TE", HEADER_TE},
        {"Host", HEADER_HOST},
        {"Cookie", HEADER_COOKIE},
        {"expect", HEADER_EXPECT},
        {"Prefer", HEADER_PREFER},
        {"Trailer", HEADER_TRAILER},
        {"Upgrade", HEADER_UPGRADE},
        {"Connection", HEADER_CONNECTION},
        {"Keep-Alive", HEADER_KEEP_ALIVE},
        {"tracestate", HEADER_TRACE_STATE},
        {"traceparent", HEADER_TRACE_PARENT},
        {"Content-TYPE", HEADER_CONTENT_TYPE},
        {"X-Request-Id", HEADER_REQUEST_ID},
        {"AUTHORIZATION", HEADER_AUTHORIZATION},
        {"Content-Length", HEADER_CONTENT_LENGTH},
        {"Accept-Encoding", HEADER_ACCEPT_ENCODING},
        {"X-Peer-Topology", HEADER_PEER_TOPOLOGY},
        {"Content-Encoding", HEADER_CONTENT_ENCODING},
        {"Proxy-Connection", HEADER_PROXY_CONNECTION},
        {"Transfer-Encoding", HEADER_TRANSFER_ENCODING},
        {"Proxy-Authenticate", HEADER_PROXY_AUTHENTICATE},
        {"Proxy-Authorization", HEADER_PROXY_AUTHORIZATION},
        {"x-llm-d-pin-host-port", HEADER_PIN_HOST_PORT},
        {"X-Prefill-Pin-Host-Port", HEADER_PREFILL_PIN_HOST_PORT},
        {"x-llm-d-parent-request-id", HEADER_PARENT_REQUEST_ID},
        {"x-llm-d-revision-decision-id", HEADER_DECISION_ID},
        {"", HEADER_OTHER},
        {"a", HEADER_OTHER},
        {"hosts", HEADER_OTHER},
        {"most", HEADER_OTHER},
        {"content-lengtj", HEADER_OTHER},
        {"content\rlength", HEADER_OTHER},
        {"x-llm-d-revision-decision-ids", HEADER_OTHER},
        {"x-llm-d-revision-decision-id-and-more", HEADER_OTHER},
    };
    bool seen[HEADER_KINDS] = {false};
    struct headers headers = parse("a: 1|Host: 2|host: 3");
    struct headers others;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        print_message("  %s\n", rows[i].name);
        assert_int_equal(header_kind_of(text(rows[i].name)), rows[i].kind);
        seen[rows[i].kind] = true;
    }
    for (size_t i = 0; i < HEADER_KINDS; i++)
        assert_true(seen[i]);
    assert_ptr_equal(headers_first(&headers, HEADER_HOST), &headers.list[1]);
    assert_null(headers_first(&headers, HEADER_TE));
    headers_init(&others, &arena);
    assert_true(headers_add_field(&others, &headers.list[2]));
    assert_true(headers_copy(&others, &headers));
    assert_true(headers_set(&others, text("TE"), text("4")));
    assert_true(headers_add_known(&others, HEADER_REQUEST_ID, text("5")));
    assert_string_equal(print(&others), "host: 3|a: 1|Host: 2|host: 3|TE: 4|x-request-id: 5");
    assert_int_equal(others.list[5].kind, HEADER_REQUEST_ID);
    assert_int_equal(others.list[2].kind, HEADER_HOST);
    assert_int_equal(others.list[4].kind, HEADER_TE);
    assert_ptr_equal(others.list[0].value.data, headers.list[2].value.data);
}

static void fields_get_names_and_values_of_their_own(void **state)
{
    char theirs[] = "host: 3|Empty: |x-request-id: 5";
    struct headers headers = parse(theirs);
    const struct header *list = headers.list;

    (void)state;
    for (size_t i = 0; i < headers.count; i++) { /* as a server borrows them */
        headers.list[i].name = (coord_slice){theirs + i, 3};
        headers.list[i].value = (coord_slice){theirs + 4, i};
    }
    assert_true(headers_own(&headers));
    memset(theirs, 'x', sizeof theirs);
    assert_string_equal(print(&headers), "hos: |ost: :|st:: : ");
    assert_ptr_equal(headers.list, list);
    assert_int_equal(headers.list[2].kind, HEADER_REQUEST_ID); /* all else stays */
    headers = (struct headers){.arena = headers.arena};
    assert_true(headers_own(&headers));
    assert_int_equal(headers.count, 0);
}

static void room_is_made_for_as_many_as_are_wanted(void **state)
{
    struct headers headers = parse("a: 1|b: 2");
    const struct header *list;

    (void)state;
    assert_true(headers_reserve(&headers, 20));
    list = headers.list;
    for (int i = 0; i < 20; i++)
        assert_true(headers_add_borrowed(&headers, text("c"), text("3")));
    assert_ptr_equal(headers.list, list);
    assert_int_equal(headers.count, headers.capacity);
    assert_true(headers_add_borrowed(&headers, text("d"), text("4")));
    assert_true(coord_slice_is(headers.list[0].value, "1"));
    assert_true(coord_slice_is(headers.list[22].value, "4"));
}

static void a_bad_byte_is_found_wherever_it_stands(void **state)
{
    char value[40];

    (void)state;
    for (size_t size = 1; size < sizeof value; size++)
        for (size_t at = 0; at < size; at++) {
            memset(value, 'v', sizeof value);
            for (int c = 0; c < 256; c++) {
                bool token = header_name_valid((coord_slice){(const char[]){(char)c}, 1});

                value[at] = (char)c;
                assert_int_equal(header_value_valid((coord_slice){value, size}), c != 0 && c != '\r' && c != '\n');
                assert_int_equal(header_name_valid((coord_slice){value, size}), token);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(fields_keep_order_spelling_and_repeats, finish),
        cmocka_unit_test_teardown(a_field_may_be_set_to_a_part_of_itself, finish),
        cmocka_unit_test_teardown(many_fields_fit, finish),
        cmocka_unit_test_teardown(tokens_are_found_in_lists, finish),
        cmocka_unit_test_teardown(hop_by_hop_fields_are_dropped, finish),
        cmocka_unit_test_teardown(names_and_values_are_judged_as_in_the_rfc, finish),
        cmocka_unit_test_teardown(a_name_has_its_kind_however_it_is_spelled, finish),
        cmocka_unit_test_teardown(fields_get_names_and_values_of_their_own, finish),
        cmocka_unit_test_teardown(room_is_made_for_as_many_as_are_wanted, finish),
        cmocka_unit_test_teardown(a_bad_byte_is_found_wherever_it_stands, finish),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
