/*
 * worker-sim's KV books: which descriptors hit, what prefill wants, probes, and requests that were cancelled.
 */
#include "sim_apis.h"

static void an_exact_descriptor_hits_once(void **state)
{
    int64_t hits = 0;

    (void)state;
    SIM("--tokens", "2");
    for
        EACH_API(api)
        {
            struct client *prefill = ask_well(api->path, PREFILL, "%s", with_kv(api->body, NIXL));
            struct text kv = {0};
            text_printf(&kv, "%s", turned(prefill));
            assert_contains(kv.data, "\"remote_host\":\"127.0.0.1\"");
            assert_contains(kv.data, "184467440737095"); /* an id above 2^63 */
            assert_int_equal(sim_count("stranded"), 1);
            struct client *client = ask_well(api->path, DECODE, "%s", with_kv(api->body, kv.data));
            assert_int_equal(number_of(client, api->cached), prompt_of(api, client));
            assert_int_equal(sim_count("hits"), ++hits);
            client = ask_well(api->path, DECODE, "%s", with_kv(api->body, kv.data));
            assert_int_equal(number_of(client, api->cached), 0);
            assert_int_equal(sim_count("misses"), hits);
            assert_int_equal(sim_count("stranded"), 0);
            text_free(&kv);
        }
    assert_int_equal(sim_count("token_drift"), 0);
}

static void altered_descriptors_miss(void **state)
{
    static const struct {
        const char *part, *by;
    } edits[] = {
        {"\"sim_scale\":0.10", "\"sim_scale\":0.1"},
        {"\\u00e9", "\u00e9"},
        {"\\/", "/"},
        {"\"tp_size\":1,", ""},
        {"{", "{\"more\":1,"},
        {"\"remote_block_ids\":[[", "\"remote_block_ids\":[[1"},
        {"\"do_remote_decode\":false", "\"do_remote_decode\":true"},
    };
    enum { EDITS = sizeof edits / sizeof *edits };

    (void)state;
    SIM("--tokens", "2");
    for (size_t i = 0; i < EDITS; i++) {
        const char *kv = turned(ask_well(CHAT_PATH, PREFILL, "%s", with_kv(CHAT_BODY(""), NIXL)));
        ask_well(CHAT_PATH, DECODE, "%s", with_kv(CHAT_BODY(""), replaced(kv, edits[i].part, edits[i].by)));
        assert_int_equal(sim_count("altered"), (int64_t)i + 1);
    }
    ask_well(CHAT_PATH, DECODE, "%s", with_kv(CHAT_BODY(""), FETCH_SHARED));
    assert_int_equal(sim_count("misses"), EDITS + 1);
    assert_int_equal(sim_count("altered"), EDITS);
    const char *kv = turned(ask_well(CHAT_PATH, PREFILL, "%s", with_kv(CHAT_BODY(""), NIXL)));
    kv = replaced(kv, "{", "{\"prompt_token_ids\":[1,2],"); /* beside the descriptor, and so no harm to it */
    ask_well(CHAT_PATH, DECODE, "%s", with_kv(CHAT_BODY(""), kv));
    assert_int_equal(sim_count("hits"), 1);
    assert_int_equal(sim_count("token_drift"), 1);
}

static void drift_between_legs_is_counted(void **state)
{
    int64_t drifts = 0;

    (void)state;
    SIM("--tokens", "2");
    for
        EACH_API(api)
        {
            const char *word = api->template || api == &APIS[1] ? "hello" : "[0";
            const char *other = replaced(api->body, word, api->template || api == &APIS[1] ? "adieu" : "[1");
            struct client *prefill = ask_well(api->path, PREFILL, "%s", with_kv(api->body, NIXL));
            ask_well(api->path, DECODE, "%s", with_kv(other, turned(prefill)));
            assert_int_equal(sim_count("token_drift"), ++drifts);
            assert_int_equal(sim_count("hits"), drifts);
        }
}

static void shared_storage_hits_by_tokens(void **state)
{
    (void)state;
    SIM("--tokens", "2");
    for
        EACH_API(api)
        {
            sim_reset();
            struct client *client = ask_well(api->path, PREFILL, "%s", with_kv(api->body, SHARED));
            assert_false(strcmp(kind_in(client->answer.body.data, "/kv_transfer_params"), "object") == 0);
            ask_well(api->path, DECODE, "%s", with_kv(api->body, FETCH_SHARED));
            assert_int_equal(sim_count("shared_hits"), 1);
        }
    ask_well(CHAT_PATH, DECODE, "%s", with_kv(CHAT_BODY(",\"tools\":[]"), FETCH_SHARED));
    assert_int_equal(sim_count("misses"), 1);
    ask_well(CHAT_PATH, DECODE, CHAT_BODY(""));
    assert_int_equal(sim_count("local"), 1);
    struct client *client = client_open(deployed.sim_port);
    for (int i = 0; i < 3000; i++) { /* the table grows */
        char body[256];
        snprintf(body, sizeof body, "{\"prompt\":[%d,7],\"max_tokens\":1,\"kv_transfer_params\":" SHARED "}", i);
        client_post(client, COMPLETIONS_PATH, PREFILL, span_of(body));
        assert_true(client_read(client, PATIENCE_MS));
    }
    ask_well(COMPLETIONS_PATH, DECODE, "%s", with_kv("{\"prompt\":[5,7]}", FETCH_SHARED));
    assert_int_equal(sim_count("shared_hits"), 2);
}

static void prefill_wants_a_handshake(void **state)
{
    static const struct {
        const char *flag, *kv;
        int status;
    } rows[] = {
        {"auto", "null", 400},
        {"auto", "{}", 400},
        {"auto", "{\"do_remote_decode\":true}", 400},
        {"auto", "{\"do_remote_decode\":true,\"do_remote_prefill\":false,\"remote_host\":null}", 400},
        {"auto", FETCH_SHARED, 400},
        {"auto", NIXL, 200},
        {"auto", SHARED, 200},
        {"nixl", SHARED, 400},
        {"nixl", NIXL, 200},
        {"shared", NIXL, 400},
        {"shared", SHARED, 200},
        {"off", "null", 200},
    };
    int64_t bad = 0;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        SIM("--kv", rows[i].flag);
        bad = 0;
        for
            EACH_API(api)
            {
                struct client *client = ask(api->path, PREFILL, "%s", with_kv(api->body, rows[i].kv));
                assert_int_equal(client->answer.status, rows[i].status);
                bad += rows[i].status == 400;
            }
        assert_int_equal(sim_count("bad_handshakes"), bad);
        end_sim();
    }
}

static void probes_answer_412(void **state)
{
    char luck[2][61] = {"", ""};

    (void)state;
    SIM("--tokens", "2");
    struct client *client = ask(MESSAGES_PATH, PROBE, "%s", APIS[3].body);
    assert_int_equal(client->answer.status, 412);
    assert_string_equal(string_of(client, "/type"), "error");
    ask_well(CHAT_PATH, PROBE "x-sim-probe: hit\r\n", CHAT_BODY(""));
    assert_int_equal(sim_count("requests.probe"), 2);
    end_sim();
    for (int round = 0; round < 2; round++) {
        SIM("--probe-412", "0.5", "--seed", "7");
        for (int i = 0; i < 60; i++)
            luck[round][i] = ask(CHAT_PATH, PROBE, CHAT_BODY(""))->answer.status == 412 ? 'x' : '.';
        end_sim();
    }
    assert_string_equal(luck[0], luck[1]); /* the same seed, the same luck */
    size_t misses = 0;
    for (int i = 0; i < 60; i++)
        misses += luck[0][i] == 'x';
    assert_in_range(misses, 10, 50);
}

static void cancelled_requests_are_counted(void **state)
{
    (void)state;
    SIM("--event-interval", "50", "--tokens", "1000");
    for
        EACH_API(api)
        {
            struct client *client = client_open(deployed.sim_port);
            const char *body = replaced(api->body, "{", "{\"stream\":true,");
            client_post(client, api->path, DECODE, span_of(body));
            assert_true(client_read_head(client, PATIENCE_MS));
            client_close(client);
        }
    UNTIL(sim_count("cancelled_in.decode") == 5);
    struct client *client = client_open(deployed.sim_port);
    client_post(client, CHAT_PATH, PREFILL "x-sim-fault-prefill: delay=5000\r\n",
                span_of(with_kv(CHAT_BODY(""), NIXL)));
    UNTIL(sim_count("active_requests") == 1);
    client_close(client);
    UNTIL(sim_count("cancelled_in.prefill") == 1);
    assert_int_equal(sim_count("cancelled"), 6);
    sim_reset();
    assert_int_equal(sim_count("cancelled"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SIM_TEST(an_exact_descriptor_hits_once),  SIM_TEST(altered_descriptors_miss),
        SIM_TEST(drift_between_legs_is_counted),  SIM_TEST(shared_storage_hits_by_tokens),
        SIM_TEST(prefill_wants_a_handshake),      SIM_TEST(probes_answer_412),
        SIM_TEST(cancelled_requests_are_counted),
    };

    return harness_run(tests);
}
