/* Unit test of redact.c: which values are never shown, and what is left of a body. */
#include "json_check.h"
#include "telemetry/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#define S10 "0123456789"
#define S50 S10 S10 S10 S10 S10

static char out[16384];

static void assert_redacted(const char *body, const char *want)
{
    size_t size = log_redact_body(coord_slice_of(body), out, sizeof out - 1);

    out[size] = '\0';
    assert_string_equal(out, want);
}

static void names_of_credentials_are_known_in_any_case(void **state)
{
    static const struct {
        const char *name;
        bool credential;
    } rows[] = {
        {"authorization", true},
        {"Authorization", true},
        {"PROXY-AUTHORIZATION", true},
        {"cookie", true},
        {"Set-Cookie", true},
        {"X-Api-Key", true},
        {"x-auth-token", true},
        {"api_key", true},
        {"x-goog-api-key", true},
        {"x-access-token", true},
        {"x-amz-security-token", true},
        {"password", true},
        {"Secret", true},
        {"status", false},
        {"client", false},
        {"x_api_key", true},
        {"authorizatio", false},
        {"authorizations", false},
        {"model", false},
        {"", false},
        {"x-request-id", false},
        {"token", false},
    };

    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        print_message("  %s\n", rows[r].name);
        assert_int_equal(log_is_credential(coord_slice_of(rows[r].name)), rows[r].credential);
    }
    assert_false(log_is_credential((coord_slice){0}));
}

static void long_header_values_are_cut_at_256_bytes(void **state)
{
    char value[300];

    (void)state;
    memset(value, 'v', sizeof value);
    assert_int_equal(log_redact_value((coord_slice){value, 256}, out, sizeof out), 256);
    assert_int_equal(log_redact_value((coord_slice){value, 257}, out, sizeof out), 256 + 14);
    assert_memory_equal(out + 254, "vv...[truncated]", 16);
    assert_int_equal(log_redact_value((coord_slice){value, 300}, out, 10), 10);
    assert_int_equal(log_redact_value((coord_slice){0}, out, sizeof out), 0);
}

static void json_keeps_its_shape_and_loses_its_content(void **state)
{
    static const struct {
        const char *name, *body, *want;
    } rows[] = {
        {"short strings stay", "{\"role\": \"user\", \"content\": \"hi\"}", "{\"role\":\"user\",\"content\":\"hi\"}"},
        {"exactly 50 bytes stay", "[\"" S50 "\"]", "[\"" S50 "\"]"},
        {"51 bytes go", "[\"" S50 "x\"]", "[\"...\"]"},
        {"data URIs", "[\"data:" S50 "\"]", "[\"[base64]\"]"},
        {"URLs", "[\"https://" S50 "\",\"http://" S50 "\",\"ftp://" S50 "\"]", "[\"[url]\",\"[url]\",\"...\"]"},
        {"an escaped prefix is the same prefix", "[\"dat\\u0061:" S50 "\",\"https:\\/\\/" S50 "\"]",
         "[\"[base64]\",\"[url]\"]"},
        {"lengths are those of the decoded text", "[\"" S10 S10 S10 S10 "\\u0031\\n23456789\"]",
         "[\"" S10 S10 S10 S10 "\\u0031\\n23456789\"]"},
        {"a pair of surrogates is four bytes", "[\"" S10 S10 S10 S10 "012345\\ud83d\\ude00\"]",
         "[\"" S10 S10 S10 S10 "012345\\ud83d\\ude00\"]"},
        {"and a pair that is one byte too long", "[\"" S10 S10 S10 S10 "0123456\\ud83d\\ude00\"]", "[\"...\"]"},
        {"half a pair is the three bytes that stand for it",
         "[\"" S10 S10 S10 S10 "0123456\\ud83d\",\"" S10 S10 S10 S10 "01234567\\ude00\",\"" S10 S10 S10 S10
         "0123\\ud83d\\ud83d\",\"" S10 S10 S10 S10 "01234\\ude00\\ud83d\"]",
         "[\"" S10 S10 S10 S10 "0123456\\ud83d\",\"...\",\"" S10 S10 S10 S10 "0123\\ud83d\\ud83d\",\"...\"]"},
        {"half a pair before something else",
         "[\"" S10 S10 S10 S10 "012345\\ud83dx\",\"" S10 S10 S10 S10 "012345\\ud83d\\n\",\"" S10 S10 S10 S10
         "012345\\ud83d\\u0041\",\"" S10 S10 S10 S10 "012345\\ud83dxy\"]",
         "[\"" S10 S10 S10 S10 "012345\\ud83dx\",\"" S10 S10 S10 S10 "012345\\ud83d\\n\",\"" S10 S10 S10 S10
         "012345\\ud83d\\u0041\",\"...\"]"},
        {"keys are never altered", "{\"" S50 S10 "\":\"" S50 S10 "\"}", "{\"" S50 S10 "\":\"...\"}"},
        {"ten elements stay", "[1,2,3,4,5,6,7,8,9,10]", "[1,2,3,4,5,6,7,8,9,10]"},
        {"further elements are counted", "[1,2,3,4,5,6,7,8,9,10,[11,{\"a\":[]}],12]",
         "[1,2,3,4,5,6,7,8,9,10,\"... +2 more\"]"},
        {"arrays in arrays", "[[1,2,3,4,5,6,7,8,9,10,11],[],{}]", "[[1,2,3,4,5,6,7,8,9,10,\"... +1 more\"],[],{}]"},
        {"numbers keep their spelling", "[-0,1e5,18446744073709551617,0.10]", "[-0,1e5,18446744073709551617,0.10]"},
        {"words", " [ true , false , null ] ", "[true,false,null]"},
        {"a scalar", "\"x\"", "\"x\""},
        {"members with a credential's name", "{\"authorization\":\"Bearer x\",\"api_key\":{\"a\":[1]},\"b\":1}",
         "{\"authorization\":\"[REDACTED]\",\"api_key\":\"[REDACTED]\",\"b\":1}"},
        {"also one that is written with escapes",
         "{\"pass\\u0077ord\":\"x\",\"X-Amz-Security-To\\u006Ben\":1,\"\\ud83d\\ude00password\":2,\"password\\ud83d\":"
         "3}",
         "{\"pass\\u0077ord\":\"[REDACTED]\",\"X-Amz-Security-To\\u006Ben\":\"[REDACTED]\","
         "\"\\ud83d\\ude00password\":2,\"password\\ud83d\":3}"},
    };

    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        print_message("  %s\n", rows[r].name);
        assert_redacted(rows[r].body, rows[r].want);
    }
}

/* `depth` arrays in one another around a 1. */
static char *nested(size_t depth)
{
    char *body = malloc(2 * depth + 2);

    assert_non_null(body);
    memset(body, '[', depth);
    body[depth] = '1';
    memset(body + depth + 1, ']', depth);
    body[2 * depth + 1] = '\0';
    return body;
}

static void values_at_depth_32_and_deeper_are_not_shown(void **state)
{
    static const size_t depths[] = {31, 32, 33, 512};
    char want[128];

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        char *body = nested(depths[i]);
        size_t shown = depths[i] < 32 ? depths[i] : 32;

        memset(want, '[', shown);
        snprintf(want + shown, sizeof want - shown, "%s%.*s", depths[i] < 32 ? "1" : "\"[truncated]\"", (int)shown,
                 "]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]");
        assert_redacted(body, want);
        free(body);
    }
}

static void what_is_not_json_shows_its_first_200_bytes(void **state)
{
    static const struct {
        const char *name, *body, *want;
    } rows[] = {
        {"empty", "", ""},
        {"words", "not json", "not json"},
        {"an object that does not end", "{\"a\":1", "{\"a\":1"},
        {"something behind the value", "{} x", "{} x"},
        {"a comma too many", "[1,]", "[1,]"},
        {"a leading zero", "[01]", "[01]"},
        {"a bad escape", "[\"\\x\"]", "[\"\\x\"]"},
        {"half a pair and a bad escape", "[\"\\ud83d\\ude0\"]", "[\"\\ud83d\\ude0\"]"},
        {"half a pair and the end", "[\"\\ud83d\\", "[\"\\ud83d\\"},
        {"bytes that are no text", "a\xFF\xC3", "a\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"200 bytes", S50 S50 S50 S50, S50 S50 S50 S50},
        {"201 bytes", S50 S50 S50 S50 "x", S50 S50 S50 S50 "..."},
        {"no half character", S50 S50 S50 S10 S10 S10 S10 "012345678\xC3\xA9",
         S50 S50 S50 S10 S10 S10 S10 "012345678..."},
    };

    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        print_message("  %s\n", rows[r].name);
        assert_redacted(rows[r].body, rows[r].want);
    }
}

static void the_room_is_kept_and_the_text_is_whole_at_every_size(void **state)
{
    coord_slice json =
        COORD_SLICE("{\"k\xC3\xA9\":[\"\xF0\x9F\x98\x80\",1,2,3,4,5,6,7,8,9,10,11],\"x\":\"\xE2\x82\xAC\"}");
    coord_slice broken = COORD_SLICE("{\"k\xC3\xA9\":[\"\xF0\x9F\x98\x80\",1,2,3,4,5],\"x\":\"\xE2\x82\xAC\xFF\"}");

    (void)state;
    for (size_t room = 0; room < 100; room++) {
        char *exact = malloc(room + 1);
        size_t size;

        assert_non_null(exact);
        size = log_redact_body(json, exact, room);
        assert_true(size <= room && json_is_text(exact, size));
        size = log_redact_body(broken, exact, room);
        assert_true(size <= room && json_is_text(exact, size));
        free(exact);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_credentials_are_known_in_any_case),
        cmocka_unit_test(long_header_values_are_cut_at_256_bytes),
        cmocka_unit_test(json_keeps_its_shape_and_loses_its_content),
        cmocka_unit_test(values_at_depth_32_and_deeper_are_not_shown),
        cmocka_unit_test(what_is_not_json_shows_its_first_200_bytes),
        cmocka_unit_test(the_room_is_kept_and_the_text_is_whole_at_every_size),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
