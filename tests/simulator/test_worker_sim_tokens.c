/*
 * The tokens that worker-sim counts: what its templates make of a prompt, and what its usage says.
 */
#include "sim_apis.h"

/* ---- Templates ---- */

static const char *rendered(const char *path, const char *body)
{
    char render[96];

    snprintf(render, sizeof render, "%s/render", path);
    return raw_of(ask_well(render, "", "%s", body), "token_ids");
}

static int64_t count_of(const char *list)
{
    int64_t count = 1;

    for (; *list; list++)
        count += *list == ',';
    return count;
}

static void templates_see_bytes(void **state)
{
    static const struct {
        const char *name, *path, *one, *other;
    } rows[] = {
        {"order of keys in tools", CHAT_PATH, CHAT_BODY(",\"tools\":[{\"name\":\"f\",\"d\":1}]"),
         CHAT_BODY(",\"tools\":[{\"d\":1,\"name\":\"f\"}]")},
        {"order of keys in messages", CHAT_PATH, CHAT_BODY(""),
         "{\"messages\":[{\"content\":\"hello there\",\"role\":\"user\"}]}"},
        {"tools of Messages", MESSAGES_PATH, CHAT_BODY(",\"max_tokens\":1,\"tools\":[{\"name\":\"f\",\"d\":1}]"),
         CHAT_BODY(",\"max_tokens\":1,\"tools\":[{\"d\":1,\"name\":\"f\"}]")},
        {"system of Messages", MESSAGES_PATH, CHAT_BODY(",\"max_tokens\":1"),
         CHAT_BODY(",\"max_tokens\":1,\"system\":\"s\"")},
        {"tools of Responses", RESPONSES_PATH, "{\"input\":\"x\",\"tools\":[{\"name\":\"f\",\"d\":1}]}",
         "{\"input\":\"x\",\"tools\":[{\"d\":1,\"name\":\"f\"}]}"},
        {"instructions of Responses", RESPONSES_PATH, "{\"input\":\"x\"}", "{\"input\":\"x\",\"instructions\":\"s\"}"},
        {"thinking", CHAT_PATH, CHAT_BODY(""), CHAT_BODY(",\"chat_template_kwargs\":{\"enable_thinking\":false}")},
    };

    (void)state;
    SIM("--tokens", "2");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rendered(rows[i].path, rows[i].one), rendered(rows[i].path, rows[i].other)) == 0)
            fail_msg("%s makes no difference", rows[i].name);
    assert_string_equal(rendered(RESPONSES_PATH, "{\"input\":\"hello there\"}"), rendered(CHAT_PATH, CHAT_BODY("")));
    assert_string_equal(rendered(RESPONSES_PATH, "{\"input\":\"hello there\",\"instructions\":\"s\"}"),
                        rendered(MESSAGES_PATH, CHAT_BODY(",\"max_tokens\":1,\"system\":\"s\"")));
    assert_string_equal(rendered(RESPONSES_PATH, "{\"input\":[{\"role\":\"user\",\"content\":\"x\"}]}"),
                        rendered(RESPONSES_PATH, "{\"input\":\"x\"}"));
}

static void render_and_decode_agree_or_drift_as_configured(void **state)
{
    (void)state;
    for (int drift = 0; drift < 2; drift++) {
        SIM("--render-template", drift ? "B" : "A");
        for
            EACH_API(api)
            {
                if (!api->template)
                    continue;
                int64_t counted = count_of(rendered(api->path, api->body));
                int64_t used = prompt_of(api, ask_well(api->path, DECODE, "%s", api->body));
                assert_int_equal(counted != used, drift);
            }
        end_sim();
    }
}

static void media_become_features(void **state)
{
    static const struct {
        const char *path, *body;
    } rows[] = {
        {CHAT_PATH, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"what\"},"
                    "{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:,%s\"}}]}]}"},
        {RESPONSES_PATH, "{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"what\"},"
                         "{\"type\":\"input_image\",\"image_url\":\"data:,%s\"}]}]}"},
        {MESSAGES_PATH, "{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":"
                        "\"what\"},{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"data\":\"%s\"}}]}]}"},
    };
    static char data[200000];

    (void)state;
    SIM("--tokens", "2");
    memset(data, 'A', sizeof data - 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct text body = {0};
        const char *hole = strstr(rows[i].body, "%s");
        text_printf(&body, "%.*s%s%s", (int)(hole - rows[i].body), rows[i].body, data, hole + 2);
        char render[64];
        snprintf(render, sizeof render, "%s/render", rows[i].path);
        struct client *client = ask_well(render, "", "%s", body.data);
        int64_t at = number_of(client, "/features/mm_placeholders/image/0/offset");
        char pointer[64];
        snprintf(pointer, sizeof pointer, "/token_ids/%lld", (long long)at);
        assert_int_equal(number_of(client, pointer), 3);
        assert_true(count_of(raw_of(client, "token_ids")) < 200);
        struct client *encoded = ask_well(rows[i].path, "EPP-Profile: encode\r\n", "%s", body.data);
        if (i != 2) { /* Messages has no such member */
            snprintf(pointer, sizeof pointer, "/ec_transfer_params/%s",
                     string_of(client, "/features/mm_hashes/image/0"));
            assert_true(has_in(encoded->answer.body.data, pointer));
        }
        text_free(&body);
    }
    assert_int_equal(sim_count("requests.encode"), 3);
}

static void forwarded_ids_are_the_prompt(void **state)
{
    (void)state;
    SIM("--tokens", "2");
    for
        EACH_API(api)
        {
            const char *body = with_kv(api->body, "{\"prompt_token_ids\":[0,1,2,3,4]}");
            int64_t used = prompt_of(api, ask_well(api->path, DECODE, "%s", body));
            if (api->template)
                assert_int_equal(used, 5);
            else
                assert_int_equal(used, prompt_of(api, ask_well(api->path, DECODE, "%s", api->body)));
        }
    const char *kv = replaced(NIXL, "}", ",\"prompt_token_ids\":[1,2,3]}");
    assert_int_equal(number_of(ask_well(CHAT_PATH, PREFILL, "%s", with_kv(CHAT_BODY(""), kv)), "/usage/prompt_tokens"),
                     3);
    assert_int_equal(count_of(rendered(CHAT_PATH, with_kv(CHAT_BODY(""), kv))), 3);
}

/* ---- Usage ---- */

static void cached_tokens_are_as_told(void **state)
{
    (void)state;
    SIM("--cached", "decode=3", "--cached", "prefill=2", "--created-cache", "decode=1");
    for
        EACH_API(api)
        {
            struct client *client = ask_well(api->path, DECODE, "%s", api->body);
            assert_int_equal(number_of(client, api->cached), 3);
            assert_int_equal(number_of(ask_well(api->path, FAULT("cached=1"), "%s", api->body), api->cached), 1);
            client = ask_well(api->path, PREFILL, "%s", with_kv(api->body, NIXL));
            assert_int_equal(number_of(client, api->cached), 2);
            assert_int_equal(number_of(client, "/kv_transfer_params/remote_prefill_cached_tokens"), 2);
            client = ask_well(api->path, DECODE, "%s", with_kv(api->body, turned(client)));
            assert_int_equal(number_of(client, api->cached), 3);
            client = ask_well(api->path, FAULT("cached=1000000"), "%s", api->body);
            assert_int_equal(number_of(client, api->cached), prompt_of(api, client));
        }
    assert_int_equal(sim_count("hits"), 5);
    struct client *client = ask_well(CHAT_PATH, DECODE, CHAT_BODY(""));
    assert_int_equal(number_of(client, "/usage/prompt_tokens_details/created_cache_tokens"), 1);
    client = ask_well(RESPONSES_PATH, DECODE, "{\"input\":\"x\"}");
    assert_int_equal(number_of(client, "/usage/input_tokens_details/cache_write_tokens"), 1);
}

static void messages_split_adds_up_to_the_prompt(void **state)
{
    (void)state;
    SIM("--cached", "decode=3", "--created-cache", "decode=2");
    int64_t whole = count_of(rendered(MESSAGES_PATH, APIS[3].body));
    struct client *client = ask_well(MESSAGES_PATH, DECODE, "%s", APIS[3].body);
    assert_int_equal(messages_prompt(client->answer.body.data, "/usage"), whole);
    assert_int_equal(number_of(client, "/usage/input_tokens"), whole - 5);
    client = ask_well(MESSAGES_PATH, DECODE, CHAT_BODY(",\"max_tokens\":20,\"stream\":true"));
    assert_int_equal(number_in(event_data(client, 0), "/message/usage/input_tokens"), whole);
    assert_false(has_in(event_data(client, 0), "/message/usage/cache_read_input_tokens"));
    assert_int_equal(messages_prompt(event_data(client, -2), "/usage"), whole);
    assert_int_equal(number_in(event_data(client, -2), "/usage/cache_creation_input_tokens"), 2);

    client = ask_well(MESSAGES_PATH, FAULT("early-zero-usage"), CHAT_BODY(",\"max_tokens\":20,\"stream\":true"));
    assert_int_equal(number_in(event_data(client, 0), "/message/usage/input_tokens"), 0);
    assert_int_equal(messages_prompt(event_data(client, -2), "/usage"), whole);
    client = ask_well(MESSAGES_PATH, FAULT("no-cache-details"), "%s", APIS[3].body);
    assert_int_equal(number_of(client, "/usage/input_tokens"), whole);
    assert_false(has_in(client->answer.body.data, "/usage/cache_read_input_tokens"));
}

/* What a worker's flag, or the same as a fault item, makes of a stream. */
static void workers_differ_in_the_usage_of_streams(void **state)
{
    static const char plain_stream[] = ",\"stream\":true";
    static const char asks[] = ",\"stream\":true,\"stream_options\":{\"include_usage\":true}";
    static const char continuous[] =
        ",\"stream\":true,\"stream_options\":{\"include_usage\":true,\"continuous_usage_stats\":true}";
    static const struct {
        const char *trait, *more;
        const char *content, *final; /* kind of usage on a content frame of chat, and of the last frame before [DONE] */
        bool frame;                  /* that one is a usage frame */
    } rows[] = {
        {"", plain_stream, "absent", "absent", false},
        {"", asks, "absent", "object", true},
        {"", continuous, "object", "object", true},
        {"force-include-usage", plain_stream, "absent", "object", true},
        {"force-continuous-usage", plain_stream, "object", "object", true},
        {"usage-null-chunks", plain_stream, "absent", "absent", false},
        {"usage-null-chunks", asks, "null", "object", true},
        {"usage-null", asks, "null", "null", true},
        {"no-usage", asks, "absent", "absent", false},
        {"no-usage", continuous, "absent", "absent", false},
    };

    (void)state;
    for (int by_flag = 0; by_flag < 2; by_flag++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            char flag[64], fields[128];
            snprintf(flag, sizeof flag, "--%s", rows[i].trait);
            snprintf(fields, sizeof fields, FAULT("%s"), by_flag ? "" : rows[i].trait);
            if (by_flag && (!*rows[i].trait || strcmp(rows[i].trait, "usage-null") == 0))
                continue; /* that one is a fault only */
            SIM("--tokens", "3", by_flag ? flag : NULL);
            for (size_t a = 0; a < 5; a++) {
                const struct api *api = &APIS[a];
                if (a == 2 || a == 3)
                    continue;
                struct text body = {0};
                text_printf(&body, "%.*s%s}", (int)strlen(api->body) - 1, api->body, rows[i].more);
                struct client *client = ask_well(api->path, fields, "%s", body.data);
                const char *last = event_data(client, -2);
                const char *content = rows[i].content;
                if (a == 4 && strcmp(rows[i].trait, "no-usage") != 0 && strcmp(content, "absent") == 0)
                    content = "null"; /* generate leaves no member out */
                const char *final = rows[i].frame ? rows[i].final : content;
                assert_string_equal(kind_in(event_data(client, 1), "/usage"), content);
                assert_string_equal(kind_in(last, "/usage"), final);
                assert_int_equal(!has_in(last, "/choices/0"), rows[i].frame);
                text_free(&body);
            }
            end_sim();
        }
}

static void an_old_worker_has_no_usage(void **state)
{
    (void)state;
    SIM("--no-usage");
    for
        EACH_API(api)
        {
            assert_false(has_in(ask_well(api->path, DECODE, "%s", api->body)->answer.body.data, "/usage"));
            struct client *client = ask_well(api->path, DECODE, "%s", replaced(api->body, "{", "{\"stream\":true,"));
            assert_int_equal(text_count(&client->answer.body, "_tokens\":"), api->path == APIS[2].path ? 3 : 0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SIM_TEST(templates_see_bytes),
        SIM_TEST(render_and_decode_agree_or_drift_as_configured),
        SIM_TEST(media_become_features),
        SIM_TEST(forwarded_ids_are_the_prompt),
        SIM_TEST(cached_tokens_are_as_told),
        SIM_TEST(messages_split_adds_up_to_the_prompt),
        SIM_TEST(workers_differ_in_the_usage_of_streams),
        SIM_TEST(an_old_worker_has_no_usage),
    };

    return harness_run(tests);
}
