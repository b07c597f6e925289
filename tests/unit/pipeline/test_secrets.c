/* What a dry run does not show (pipeline/secrets.h). */
#include "pipeline/secrets.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { STRING, SECRET, ADDRESS, LIST, NUMBER, PARAM_COUNT };

static const coord_param PARAMS[] = {
    [STRING] = {COORD_PARAM(STRING, "string", "x")}, [SECRET] = {COORD_PARAM(SECRET, "secret", "x")},
    [ADDRESS] = {COORD_PARAM(URL, "address", "x")},  [LIST] = {COORD_PARAM(STRING_LIST, "list", "x")},
    [NUMBER] = {COORD_PARAM(INT, "number", "x")},
};

/* A value of one param that came from the file. */
static struct value of(int which, const char *text, bool secret)
{
    static coord_slice items[2];
    struct value value = {
        .param = &PARAMS[which], .source = VALUE_FILE, .secret = secret, .text = coord_slice_of(text)};

    if (which == LIST) {
        items[0] = coord_slice_of("plain-item");
        items[1] = coord_slice_of(text);
        value.items = items;
        value.count = 2;
    }
    return value;
}

static void what_is_secret_is_replaced_wherever_it_stands(void **state)
{
    static const struct {
        const char *name;
        int param;
        const char *value;
        bool secret;
        const char *text, *shown;
    } rows[] = {
        {"nothing secret", STRING, "open", false, "open text", "open text"},
        {"a substituted text", STRING, "hidden", true, "a hidden, hiddenhidden.", "a [secret], [secret][secret]."},
        {"too short to tell", STRING, "abc", true, "abcabc", "abcabc"},
        {"a secret of one byte", SECRET, "x", true, "axb", "a[secret]b"},
        {"an empty one", SECRET, "", true, "ab", "ab"},
        {"inside of a JSON string", STRING, "say \"it\"", true, "{\"a\":\"say \\\"it\\\"\"} say \"it\"",
         "{\"a\":\"[secret]\"} [secret]"},
        {"with other escapes than needed", STRING, "a/b\xC3\xA9!", true,
         "a\\/b\\u00e9! \\u0061/b\\u00C9! a/b\\u00E9\\u0021", "[secret] \\u0061/b\\u00C9! [secret]"},
        {"a pair of surrogates", STRING, "a\xF0\x9F\x98\x80z", true,
         "a\xF0\x9F\x98\x80z a\\ud83d\\ude00z a\\uD83D\\uDE00\\u007A", "[secret] [secret] [secret]"},
        {"half a pair", STRING, "a\xF0\x9F\x98\x80z", true, "a\\ud83d a\\ud83d\\u007a a\\ude00\\ud83dz",
         "a\\ud83d a\\ud83d\\u007a a\\ude00\\ud83dz"},
        {"it ends with one", STRING, "abc\xF0\x9F\x98\x80", true, "abc\\ud83d\\ude00\\ud83d\\ude01",
         "[secret]\\ud83d\\ude01"},
        {"two characters that look like one", STRING, "abc\xC3\xA9", true, "abc\\u00e9\\u00e9", "[secret]\\u00e9"},
        {"bytes that are no text", STRING, "abc\xFFz", true, "abc\xFFz abc\xEF\xBF\xBDz", "[secret] [secret]"},
        {"no escapes", STRING, "abc\\n", true, "abc\\n abc\\\\n abc\\ abc\\x abc\\u00 abc\\",
         "[secret] [secret] abc\\ abc\\x abc\\u00 abc\\"},
        {"a URL's host and path", ADDRESS, "http://ask.invalid:81/path", true, "ask.invalid:81 /path/x http://",
         "[secret] [secret]/x http://"},
        {"a URL without a path", ADDRESS, "https://ask.invalid", true, "/ ask.invalid", "/ [secret]"},
        {"an item", LIST, "hidden", true, "hidden", "[secret]"},
        {"a number is everywhere", NUMBER, "4711", true, "4711", "4711"},
        {"to the end", SECRET, "end", true, "the end", "the [secret]"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct value value = of(rows[i].param, rows[i].value, rows[i].secret);
        struct coord_config config = {.values = &value, .count = 1};
        struct step step = {.configs = &config, .config_count = 1};
        struct settings settings = {0};
        struct generation generation = {.settings = &settings, .steps = &step, .step_count = 1};
        struct secrets secrets;
        struct arena arena = {0};
        struct buffer shown = {0};

        assert_true(secrets_gather(&secrets, &arena, &generation));
        assert_true(secrets_hide(&secrets, coord_slice_of(rows[i].text), &shown));
        assert_true(buffer_append(&shown, "", 1));
        if (strcmp(shown.data, rows[i].shown) != 0)
            fail_msg("%s: %s", rows[i].name, shown.data);
        buffer_release(&shown);
        arena_release(&arena);
    }
}

static void of_a_gateway_host_and_port_are_shown(void **state)
{
    struct gateway_settings gateway = {.address = COORD_SLICE("http://gate.invalid:81/hidden"), .address_secret = true};
    const struct gateway_settings *gateways[] = {&gateway};
    struct settings settings = {.gateways = gateways, .gateway_count = 1};
    struct generation generation = {.settings = &settings};
    struct secrets secrets;
    struct arena arena = {0};
    struct buffer shown = {0};

    (void)state;
    assert_true(secrets_gather(&secrets, &arena, &generation));
    assert_true(secrets_hide(&secrets, coord_slice_of("gate.invalid:81 /hidden/v1"), &shown));
    assert_true(coord_slice_is(buffer_slice(&shown), "gate.invalid:81 [secret]/v1"));
    buffer_release(&shown);
    arena_release(&arena);
}

static void the_longest_wins(void **state)
{
    struct value values[] = {of(SECRET, "hide", true), of(SECRET, "hideout", true)};
    struct coord_config config = {.values = values, .count = 2};
    struct step step = {.configs = &config, .config_count = 1};
    struct settings settings = {0};
    struct generation generation = {.settings = &settings, .steps = &step, .step_count = 1};
    struct secrets secrets;
    struct arena arena = {0};
    struct buffer shown = {0};

    (void)state;
    assert_true(secrets_gather(&secrets, &arena, &generation));
    assert_true(secrets_hide(&secrets, coord_slice_of("hideouthide"), &shown));
    assert_true(coord_slice_is(buffer_slice(&shown), "[secret][secret]"));
    buffer_release(&shown);
    arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_secret_is_replaced_wherever_it_stands),
        cmocka_unit_test(of_a_gateway_host_and_port_are_shown),
        cmocka_unit_test(the_longest_wins),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
