/* Bytes are sacred: what the client sent reaches every worker, and what the worker said reaches the client, unchanged. */
#include "harness.h"

static const char ODD[] =
    "{ \"zeta\":1,\"model\" : "
    "\"m\",\"seed\":9007199254740993,\"temperature\":1.0,\"top_p\":1e0,\"x\":-0,\"y\":1e3,\"big\":18446744073709551617,"
    "\n"
    "\t\"messages\":[{\"role\":\"user\",\"content\":\"caf\\u00e9 \\/ \\ud83d <&> \xc3\xa9\\u2028\"} ],"
    "\"tools\":[{\"type\":\"function\",\"function\":{\"parameters\":{\"type\":\"object\",\"properties\":{\"zebra\":{},"
    "\"apple\":{},\"mango\":{}},"
    "\"zebra\":1,\"zebra\":2},\"name\":\"f\"}}],"
    "\"chat_template_kwargs\":{\"enable_thinking\":false,\"b\":1,\"a\":2} ,\"metadata\":{\"n\":0.1,\"l\":[1 , "
    "2]},\"nothing\":null}";
static const char *const ODD_MEMBERS[] = {"zeta",     "seed",  "temperature",          "top_p",    "x",      "y", "big",
                                          "messages", "tools", "chat_template_kwargs", "metadata", "nothing"};

static void each_odd_member_is_the_same_on_every_leg(void **state)
{
    static const char *const phases[] = {"render", "prefill", "decode"};

    (void)state;
    deploy(&(struct plan){0});
    assert_int_equal(fetch("POST", CHAT_PATH, "", ODD)->answer.status, 200);
    for (size_t p = 0; p < 3; p++) {
        const struct recorded *leg = transcript_find(phases[p], 0);

        assert_non_null(leg);
        for (size_t i = 0; i < sizeof ODD_MEMBERS / sizeof *ODD_MEMBERS; i++) {
            struct span sent = json_member(span_of(ODD), ODD_MEMBERS[i]);

            assert_true(sent.size > 0);
            assert_same_bytes(json_member(text_span(&leg->body), ODD_MEMBERS[i]), sent);
        }
    }
    assert_same_bytes(text_span(&transcript_find("render", 0)->body), span_of(ODD));
    assert_non_null(strstr(transcript_find("decode", 0)->body.data, "{ \"zeta\":1,\"model\" : \"m\""));
}

static void transfer_params_reach_decode_but_for_their_flags(void **state)
{
    struct scripted *worker = scripted_start(&(struct scripted_options){0});
    static const char *const members[] = {"remote_engine_id", "z",           "a", "remote_block_ids",
                                          "remote_host",      "remote_port", "f", "s"};
    struct span got;
    const char *at;

    (void)state;
    deploy(&(struct plan){.no_sim = true, .gateway_port = scripted_port(worker)});
    assert_int_equal(fetch("POST", CHAT_PATH, "", CHAT)->answer.status, 200);
    got = json_member(text_span(&scripted_find(worker, "decode", 0)->body), "kv_transfer_params");
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        assert_same_bytes(json_member(got, members[i]), json_member(span_of(KV_PARAMS), members[i]));
    at = got.data;
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        struct span member = json_member(got, members[i]);

        assert_true(member.data > at); /* in the same order */
        at = member.data;
    }
    assert_true(span_is(json_member(got, "do_remote_prefill"), "true"));
    assert_true(span_is(json_member(got, "do_remote_decode"), "false"));
}

/* A worker's answer as the test wants it. */
struct fixed {
    const char *head;
    struct span body;
    size_t cut; /* one byte a piece up to there: 0: whole */
};

static void play_fixed(struct stage *stage)
{
    const struct fixed *fixed = stage->context;

    stage_say(stage, "%s", fixed->head);
    stage_send(stage, fixed->body.data, fixed->body.size);
}

static void a_whole_answer_keeps_its_bytes_length_and_fields(void **state)
{
    static const char body[] = "{\"b\":1,\"a\":2 , "
                               "\"id\":\"x\\u00e9\",\"choices\":[],\"usage\":{\"prompt_tokens\":4,\"completion_"
                               "tokens\":1.0,\"total_tokens\":5}}\n";
    char head[512];
    struct fixed fixed = {head, span_of(body), 0};
    struct client *client;
    size_t copies;

    (void)state;
    snprintf(head, sizeof head,
             "HTTP/1.1 200 Fine\r\nContent-Type: application/json; x=1\r\nX-Worker: 7\r\nSet-Cookie: "
             "a=1\r\nSet-Cookie: b=2\r\nContent-Length: %zu\r\n\r\n",
             strlen(body));
    deploy(&(struct plan){.no_sim = true,
                          .gateway_port = scripted_port(
                              scripted_start(&(struct scripted_options){.decode = play_fixed, .context = &fixed}))});
    client = fetch("POST", CHAT_PATH, "", CHAT);
    assert_int_equal(client->answer.status, 200);
    assert_same_bytes(text_span(&client->answer.body), span_of(body));
    assert_int_equal(client->answer.length, strlen(body));
    assert_false(client->answer.chunked);
    assert_string_equal(answer_header(client, "content-type"), "application/json; x=1");
    assert_string_equal(answer_header(client, "x-worker"), "7");
    assert_string_equal(header_in(client->answer.head, "set-cookie", &copies), "a=1");
    assert_int_equal(copies, 2);
}

static void worker_sims_answers_arrive_as_it_sends_them(void **state)
{
    static const struct {
        const char *name, *path, *body;
    } rows[] = {
        {"chat", CHAT_PATH, CHAT},
        {"chat stream", CHAT_PATH, STREAM},
        {"chat stream with usage", CHAT_PATH,
         "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"stream\":true,\"stream_options\":{"
         "\"include_usage\":true}}"},
        {"completion", "/v1/completions", "{\"model\":\"m\",\"prompt\":\"hello there\"}"},
        {"completion stream", "/v1/completions", "{\"model\":\"m\",\"prompt\":\"hello there\",\"stream\":true}"},
    };
    static const char *const faults[] = {"tokens=16",      "split=1",           "crlf",
                                         "no-final-blank", "huge-event=300000", "split=7"};

    (void)state;
    deploy(&(struct plan){.sim_flags = (const char *const[]){"--created", "1700000000", NULL},
                          .steps = "    - type: decode\n"});
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t f = 0; f < sizeof faults / sizeof *faults; f++) {
            char fields[256];
            struct client *direct, *through;

            snprintf(fields, sizeof fields, "X-Request-Id: same\r\nX-Sim-Fault-Decode: %s\r\nX-Sim-Fault-Other: %s\r\n",
                     faults[f], faults[f]);
            direct = fetch_port(deployed.sim_port, "POST", rows[i].path, fields, rows[i].body);
            through = fetch("POST", rows[i].path, fields, rows[i].body);
            assert_int_equal(direct->answer.status, 200);
            assert_int_equal(through->answer.status, 200);
            assert_true(through->answer.whole);
            assert_same_bytes(text_span(&through->answer.body), text_span(&direct->answer.body));
            assert_int_equal(through->answer.length, direct->answer.length);
        }
}

static const char GOLDEN[] = "data: "
                             "{\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":"
                             "\"\xc3\xa9\xf0\x9f\x98\x80\"},\"finish_reason\":null}]}\n\n: a comment\r\n\r\n"
                             "event: x\ndata: {\"id\":\"c\"}\r\n\r\ndata: "
                             "{\"id\":\"c\",\"choices\":[],\"usage\":{\"prompt_tokens\":4,\"completion_tokens\":2,"
                             "\"total_tokens\":6}}\n\ndata: [DONE]\n\n";

/* The cut is in a field of the request; one connection for all. */
static void play_cut_stream(struct stage *stage)
{
    const char *field = strcasestr(stage->request->head, "\r\nX-Cut: ");
    size_t cut = field ? strtoul(field + 9, NULL, 10) : 0;

    stage_stream_head(stage);
    if (cut > 0)
        stage_chunk(stage, GOLDEN, cut);
    pause_ms(1);
    stage_chunk(stage, GOLDEN + cut, sizeof GOLDEN - 1 - cut);
    stage_last_chunk(stage);
}

static void a_stream_cut_at_any_byte_arrives_unchanged(void **state)
{
    static const char body[] = "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"stream\":true,"
                               "\"stream_options\":{\"include_usage\":true}}";
    struct scripted *worker = scripted_start(&(struct scripted_options){.decode = play_cut_stream});
    struct client *client;

    (void)state;
    deploy(&(struct plan){.no_sim = true, .gateway_port = scripted_port(worker), .runtime = "  reactors: 1"});
    client = client_open(deployed.port);
    for (size_t cut = 0; cut < sizeof GOLDEN - 1; cut++) {
        char field[64];

        snprintf(field, sizeof field, "X-Cut: %zu\r\n", cut);
        client_post(client, CHAT_PATH, field, span_of(body));
        assert_true(client_read(client, PATIENCE_MS));
        assert_same_bytes(text_span(&client->answer.body), span_of(GOLDEN));
    }
    assert_true(scripted_find(worker, "decode", 10)->connection < 3); /* connections are used again */
}

static const char WHOLE[] = "{\"id\":\"\xc3\xa9\",\"choices\":[{\"message\":{\"content\":\"\\ud83d\\ude00\"}}],"
                            "\"usage\":{\"prompt_tokens\":4,\"completion_tokens\":1,\"total_tokens\":5}}";

static void play_cut_json(struct stage *stage)
{
    const char *field = strcasestr(stage->request->head, "\r\nX-Cut: ");
    size_t cut = field ? strtoul(field + 9, NULL, 10) : 0;

    stage_say(stage, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
              sizeof WHOLE - 1);
    stage_send(stage, WHOLE, cut);
    pause_ms(1);
    stage_send(stage, WHOLE + cut, sizeof WHOLE - 1 - cut);
}

static void a_whole_answer_cut_at_any_byte_arrives_unchanged(void **state)
{
    struct scripted *worker = scripted_start(&(struct scripted_options){.decode = play_cut_json});
    struct client *client;

    (void)state;
    deploy(&(struct plan){.no_sim = true, .gateway_port = scripted_port(worker)});
    client = client_open(deployed.port);
    for (size_t cut = 0; cut < sizeof WHOLE - 1; cut++) {
        char field[64];

        snprintf(field, sizeof field, "X-Cut: %zu\r\n", cut);
        client_post(client, CHAT_PATH, field, span_of(CHAT));
        assert_true(client_read(client, PATIENCE_MS));
        assert_same_bytes(text_span(&client->answer.body), span_of(WHOLE));
        assert_int_equal(client->answer.length, sizeof WHOLE - 1);
    }
}

static void play_paced(struct stage *stage)
{
    stage_stream_head(stage);
    for (int i = 0; i < 4; i++) {
        char event[64];
        int size = snprintf(event, sizeof event, "data: {\"n\":%d,\"at\":%lld}\n\n", i, (long long)now_ms());

        stage_chunk(stage, event, (size_t)size);
        pause_ms(150);
    }
    stage_last_chunk(stage);
}

static void events_are_not_held_back(void **state)
{
    struct scripted *worker = scripted_start(&(struct scripted_options){.decode = play_paced});
    struct client *client;
    const char *at;

    (void)state;
    deploy(&(struct plan){.no_sim = true, .gateway_port = scripted_port(worker)});
    client = fetch("POST", CHAT_PATH, "", STREAM);
    assert_true(client->answer.whole);
    assert_int_equal(client->answer.arrival_count, 4);
    at = client->answer.body.data;
    for (size_t i = 0; i < 4; i++) {
        at = strstr(at, "\"at\":") + 5;
        assert_true(client->answer.arrivals[i].at_ms - strtoll(at, NULL, 10) < promptly_ms());
    }
    assert_string_equal(answer_header(client, "cache-control"), "no-cache");
    assert_string_equal(answer_header(client, "x-accel-buffering"), "no");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_odd_member_is_the_same_on_every_leg),
        TEST(transfer_params_reach_decode_but_for_their_flags),
        TEST(a_whole_answer_keeps_its_bytes_length_and_fields),
        TEST(worker_sims_answers_arrive_as_it_sends_them),
        TEST(a_stream_cut_at_any_byte_arrives_unchanged),
        TEST(a_whole_answer_cut_at_any_byte_arrives_unchanged),
        TEST(events_are_not_held_back),
    };

    return harness_run(tests);
}
