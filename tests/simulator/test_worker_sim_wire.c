/* worker-sim on the wire: faults, framing of requests and answers, the transcript, and many streams at once. */
#include "sim_test.h"

#include <sys/socket.h>
#include <unistd.h>

#define USUAL CHAT_BODY(",\"stream\":true,\"max_tokens\":4")
#define SAME_ID "x-request-id: q\r\n"

/* Sends with a fault and reads what comes within `ms`; the answer may stay incomplete. */
static struct client *broken(const char *spec, const char *body, int64_t ms)
{
    char fields[512];
    struct client *client = client_open(deployed.sim_port);

    snprintf(fields, sizeof fields, FAULT("%s") SAME_ID, spec);
    client_post(client, CHAT_PATH, fields, span_of(body));
    client_read(client, ms);
    return client;
}

static struct client *whole(const char *spec, const char *body)
{
    struct client *client = broken(spec, body, PATIENCE_MS);

    if (!client->answer.whole)
        fail_msg("%s: not whole: %s", spec, client->answer.body.data ? client->answer.body.data : "");
    return client;
}

/* ---- Faults ---- */

static void delays_hold_back(void **state)
{
    int64_t start;

    (void)state;
    SIM("--delay", "render=120");
    start = now_ms();
    whole("delay=150", CHAT_BODY(""));
    assert_in_range(now_ms() - start, 140, PATIENCE_MS);
    start = now_ms();
    ask_well(CHAT_PATH "/render", "", CHAT_BODY(""));
    assert_in_range(now_ms() - start, 110, PATIENCE_MS);
    start = now_ms();
    struct client *client = whole("first-token-delay=150", USUAL);
    assert_in_range(client->answer.arrivals[0].at_ms - start, 140, PATIENCE_MS);
    assert_true(client->answer.head_ms - start < 140); /* the head does not wait */
    start = now_ms();
    whole("event-interval=40", USUAL);
    assert_in_range(now_ms() - start, 110, PATIENCE_MS);
    start = now_ms();
    ask_well(CHAT_PATH, DECODE "x-sim-fault-prefill: delay=5000\r\n", CHAT_BODY(""));
    assert_true(now_ms() - start < 4000); /* other phases are spared */
}

static void statuses_are_injected(void **state)
{
    (void)state;
    SIM("--fault", "prefill=status=503;busy%2C%20really;retry-after=7");
    struct client *client = ask(MESSAGES_PATH, PREFILL, "{}");
    assert_int_equal(client->answer.status, 503);
    assert_string_equal(client->answer.body.data, "busy, really");
    assert_string_equal(answer_header(client, "retry-after"), "7");
    client = ask(CHAT_PATH, FAULT("status=429"), CHAT_BODY(""));
    assert_int_equal(number_of(client, "/error/code"), 429);
    assert_string_equal(string_of(client, "/error/type"), "Too Many Requests");
    client = ask(MESSAGES_PATH, FAULT("status=429"), CHAT_BODY(""));
    assert_string_equal(string_of(client, "/type"), "error");
    assert_string_equal(string_of(client, "/error/type"), "Too Many Requests");

    char path[128], fields[256];
    snprintf(path, sizeof path, "%s/body", deployed.folder);
    file_write(path, "{\"secret\":true}");
    snprintf(fields, sizeof fields, FAULT("status=500;@%s,header=X-Peer-Topology:rack%%2C7"), path);
    client = ask(CHAT_PATH, fields, CHAT_BODY(""));
    assert_string_equal(client->answer.body.data, "{\"secret\":true}");
    assert_string_equal(answer_header(client, "X-Peer-Topology"), "rack,7");
    assert_int_equal(ask(CHAT_PATH, FAULT("status=204"), CHAT_BODY(""))->answer.status, 204);
    client = ask(CHAT_PATH, FAULT("nonsense=1"), CHAT_BODY(""));
    assert_int_equal(client->answer.status, 400);
    assert_contains(client->answer.body.data, "nonsense=1");
    end_sim();

    int64_t failed = 0;
    SIM("--fault-rate", "decode=status=500@0.3", "--seed", "3");
    for (int i = 0; i < 60; i++)
        failed += ask(CHAT_PATH, DECODE, CHAT_BODY(""))->answer.status == 500;
    assert_in_range(failed, 5, 35);
}

static void silence_reset_and_fin(void **state)
{
    static const char *const bodies[] = {USUAL, CHAT_BODY(",\"max_tokens\":4")};
    static const size_t offsets[] = {0, 1, 300};
    int64_t cancelled = 1;

    (void)state;
    SIM("--created", "5");
    struct client *client = broken("silence", CHAT_BODY(""), 300);
    assert_false(client->ended);
    assert_int_equal(client->answer.status, 0);
    client_close(client);
    for (size_t b = 0; b < 2; b++) {
        struct client *good = whole("", bodies[b]);
        for (size_t i = 0; i < 3; i++) {
            char spec[64];
            snprintf(spec, sizeof spec, "reset-after=%zu,no-length", offsets[i]);
            client = broken(spec, bodies[b], PATIENCE_MS);
            assert_true(client->reset && !client->answer.whole);
            snprintf(spec, sizeof spec, "fin-after=%zu,no-length", offsets[i]);
            client = broken(spec, bodies[b], PATIENCE_MS);
            assert_true(client->ended && !client->reset);
            assert_same_bytes(text_span(&client->answer.body), ((struct span){good->answer.body.data, offsets[i]}));
        }
        client = broken("fin-after=10", bodies[b], PATIENCE_MS);
        assert_false(client->answer.whole);
        client = broken("silence-after=10,no-length", bodies[b], 300);
        assert_int_equal(client->answer.status, 200);
        assert_int_equal(client->answer.body.size, 10);
        assert_false(client->ended);
        client_close(client);
        cancelled++;
    }
    UNTIL(sim_count("active_requests") == 0 && sim_count("cancelled") == cancelled);
}

static void splits_keep_the_bytes(void **state)
{
    static const char body[] = CHAT_BODY(",\"max_tokens\":4");

    (void)state;
    SIM("--created", "5");
    struct client *stream = whole("", USUAL), *json = whole("", body), *client = whole("split=1", USUAL);
    struct span wanted = text_span(&stream->answer.body);
    assert_same_bytes(text_span(&client->answer.body), wanted);
    assert_int_equal(client->answer.arrival_count, wanted.size);
    client = whole("split-at=7,split-at=3", USUAL);
    assert_same_bytes(text_span(&client->answer.body), wanted);
    assert_int_equal(client->answer.arrivals[0].size, 3);
    assert_int_equal(client->answer.arrivals[1].size, 4);
    client = whole("split=10", body);
    assert_same_bytes(text_span(&client->answer.body), text_span(&json->answer.body));
    for (size_t at = 0; at < wanted.size; at += 97) {
        char spec[64];
        snprintf(spec, sizeof spec, "split-at=%zu", at);
        assert_same_bytes(text_span(&whole(spec, USUAL)->answer.body), wanted);
    }
    client = whole("no-final-blank", USUAL);
    assert_same_bytes(text_span(&client->answer.body), ((struct span){wanted.data, wanted.size - 1}));
    client = whole("no-length", USUAL);
    assert_same_bytes(text_span(&client->answer.body), wanted);
    assert_false(client->answer.chunked);
    assert_string_equal(answer_header(client, "connection"), "close");
    client = whole("no-length", body);
    assert_same_bytes(text_span(&client->answer.body), text_span(&json->answer.body));
    assert_int_equal(client->answer.length, -1);
}

static void line_ends_bend_in_every_api(void **state)
{
    static const char *const paths[] = {CHAT_PATH, MESSAGES_PATH};

    (void)state;
    SIM("--created", "5", "--tokens", "3");
    for (size_t i = 0; i < 2; i++) {
        static const char body[] = CHAT_BODY(",\"stream\":true,\"max_tokens\":4");
        struct client *plain = ask_well(paths[i], DECODE SAME_ID, body);
        struct client *bent = ask_well(paths[i], FAULT("crlf") SAME_ID, body);
        struct text straight = {0};
        for (size_t at = 0; at < bent->answer.body.size; at++)
            if (bent->answer.body.data[at] != '\r')
                text_add(&straight, bent->answer.body.data + at, 1);
        assert_same_bytes(text_span(&straight), text_span(&plain->answer.body));
        assert_int_equal(text_count(&bent->answer.body, "\r\n"), text_count(&plain->answer.body, "\n"));
        text_free(&straight);
    }
}

/* By the tool that everybody has. */
static void unpack(const struct client *client, struct text *plain)
{
    char packed[128], unpacked[128], command[400];
    struct text output = {0};

    assert_string_equal(answer_header(client, "content-encoding"), "gzip");
    snprintf(packed, sizeof packed, "%s/answer.gz", deployed.folder);
    snprintf(unpacked, sizeof unpacked, "%s/answer", deployed.folder);
    FILE *file = fopen(packed, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(client->answer.body.data, 1, client->answer.body.size, file), client->answer.body.size);
    fclose(file);
    snprintf(command, sizeof command, "gzip -dc %s > %s", packed, unpacked);
    assert_int_equal(run_program((const char *const[]){"/bin/sh", "-c", command, NULL}, NULL, &output), 0);
    text_clear(plain);
    assert_true(file_read(unpacked, plain));
    text_free(&output);
}

static void gzip_answers_decode(void **state)
{
    struct text plain = {0};

    (void)state;
    SIM("--created", "5");
    unpack(whole("gzip", USUAL), &plain);
    assert_same_bytes(text_span(&plain), text_span(&whole("", USUAL)->answer.body));
    unpack(whole("gzip", CHAT_BODY("")), &plain);
    assert_same_bytes(text_span(&plain), text_span(&whole("", CHAT_BODY(""))->answer.body));
    unpack(whole("gzip,split=100,huge-event=200000", CHAT_BODY("")), &plain);
    assert_true(plain.size > 200000);
    unpack(whole("tokens=1,crlf,split=33,gzip", USUAL), &plain);
    assert_string_equal(plain.data + plain.size - 16, "data: [DONE]\r\n\r\n");
    text_free(&plain);
}

static const struct {
    const char *path, *body, *error; /* pointer to the words of an error event */
    bool done;                       /* and [DONE] follows it */
} STREAMS[] = {
    {CHAT_PATH, USUAL, "/error/message", true},
    {COMPLETIONS_PATH, "{\"prompt\":\"x\",\"stream\":true}", "/error/message", true},
    {RESPONSES_PATH, "{\"input\":\"x\",\"stream\":true}", "/message", false},
    {MESSAGES_PATH, USUAL, "/error/message", false},
    {GENERATE_PATH, "{\"token_ids\":[1],\"sampling_params\":{},\"stream\":true}", "/error/message", true},
};
#define EACH_STREAM(i) (size_t i = 0; i < sizeof STREAMS / sizeof *STREAMS; i++)

static void an_error_comes_after_any_event(void **state)
{
    (void)state;
    SIM("--tokens", "3");
    for
        EACH_STREAM(i)
        {
            size_t all = event_count(ask_well(STREAMS[i].path, DECODE, "%s", STREAMS[i].body));
            for (size_t after = 0; after <= all; after++) {
                char fields[96];
                snprintf(fields, sizeof fields, FAULT("error-event-after=%zu"), after);
                struct client *client = ask_well(STREAMS[i].path, fields, "%s", STREAMS[i].body);
                if (after == all) { /* never reached */
                    assert_int_equal(event_count(client), all);
                    continue;
                }
                assert_int_equal(event_count(client), after + (STREAMS[i].done ? 2 : 1));
                assert_contains(string_in(event_data(client, (int)after), STREAMS[i].error), "EngineCore");
                if (STREAMS[i].done)
                    assert_string_equal(event_data(client, -1), "[DONE]");
            }
        }
}

static void events_grow(void **state)
{
    (void)state;
    SIM("--tokens", "3");
    for
        EACH_STREAM(i)
        {
            struct client *client = ask_well(STREAMS[i].path, FAULT("huge-event=1000001"), "%s", STREAMS[i].body);
            assert_true(client->answer.body.size > 1000001);
            for (int e = 0; e < (int)event_count(client); e++) {
                const char *data = event_data(client, e);
                assert_true(*data == '[' || *kind_in(data, "") == 'o'); /* valid JSON, all of them */
            }
            client = ask_well(STREAMS[i].path, FAULT("blob=1000000"), "%s", STREAMS[i].body);
            assert_in_range(client->answer.body.size, 1000000, 1010000);
            for (int e = 0; e < (int)event_count(client); e++) {
                const char *data = event_data(client, e);
                assert_true(*data == '[' || *kind_in(data, "") == 'o');
                if (STREAMS[i].path == STREAMS[2].path)
                    assert_int_equal(number_in(data, "/sequence_number"), e);
            }
            client = ask_well(STREAMS[i].path, FAULT("blob=70000"), "%s", replaced(STREAMS[i].body, "true", "false"));
            assert_true(client->answer.body.size > 70000 && *kind_in(client->answer.body.data, "") == 'o');
        }
}

static void refused_uploads_are_answered_early(void **state)
{
    static char filler[100000];

    (void)state;
    SIM("--tokens", "2");
    struct client *client = client_open(deployed.sim_port);
    client_say(client,
               "POST " CHAT_PATH " HTTP/1.1\r\nHost: x\r\nContent-Length: 50000000\r\n" FAULT("refuse-body") "\r\nxx");
    assert_true(client_read(client, PATIENCE_MS));
    assert_int_equal(client->answer.status, 413);
    assert_string_equal(answer_header(client, "connection"), "close");
    assert_true(client_send(client, filler, sizeof filler)); /* is dropped, not reset */
    assert_true(client_wait_closed(client, PATIENCE_MS) && !client->reset);
    client = ask(CHAT_PATH, FAULT("refuse-body,status=401"), CHAT_BODY(""));
    assert_int_equal(client->answer.status, 401);
}

static void idle_connections_close(void **state)
{
    int64_t start;

    (void)state;
    SIM("--close-idle", "150");
    struct client *client = client_open(deployed.sim_port);
    start = now_ms();
    assert_true(client_wait_closed(client, PATIENCE_MS));
    assert_in_range(now_ms() - start, 100, 5000);
    client = whole("delay=400", CHAT_BODY("")); /* busy is not idle */
    assert_true(client_wait_closed(client, PATIENCE_MS));
    end_sim();
    SIM("--tokens", "2");
    assert_true(client_wait_closed(whole("close-idle=100", CHAT_BODY("")), PATIENCE_MS));
}

/* ---- Framing ---- */

static void bad_framing_is_refused(void **state)
{
#define ECHO "POST /sim/echo HTTP/1.1\r\nHost: a\r\n"
    static const struct {
        const char *name, *raw;
    } rows[] = {
        {"two lengths", ECHO "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}"},
        {"length and coding", ECHO "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
        {"signed length", ECHO "Content-Length: +2\r\n\r\n{}"},
        {"list of lengths", ECHO "Content-Length: 2, 2\r\n\r\n{}"},
        {"huge length", ECHO "Content-Length: 99999999999999999999999\r\n\r\n"},
        {"unknown coding", ECHO "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"},
        {"bad chunk size", ECHO "Transfer-Encoding: chunked\r\n\r\nzz\r\n"},
        {"signed chunk size", ECHO "Transfer-Encoding: chunked\r\n\r\n-1\r\n"},
        {"chunk without its end", ECHO "Transfer-Encoding: chunked\r\n\r\n2\r\n{}xx\r\n0\r\n\r\n"},
        {"chunk with bare LF", ECHO "Transfer-Encoding: chunked\r\n\r\n2\n{}\r\n0\r\n\r\n"},
        {"space before colon", ECHO "Content-Length : 2\r\n\r\n{}"},
        {"folded header", ECHO "X-A: 1\r\n 2\r\n\r\n"},
        {"control in value", ECHO "X-A: 1\0012\r\n\r\n"},
        {"second host", ECHO "Host: b\r\n\r\n"},
        {"no colon", ECHO "nonsense\r\n\r\n"},
        {"bare LF", ECHO "X-A: 1\nX-B: 2\r\n\r\n"},
        {"no host", "GET /health HTTP/1.1\r\n\r\n"},
        {"version", "GET /health HTTP/2.0\r\nHost: a\r\n\r\n"},
        {"request line", "GET /health\r\nHost: a\r\n\r\n"},
        {"only LF", "GET /health HTTP/1.1\nHost: a\n\n"},
        {"TLS", "\x16\x03\x01\x02\x05\x01\r\n\r\n"},
    };

    (void)state;
    SIM("--tokens", "2");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct client *client = client_open(deployed.sim_port);
        client_send(client, rows[i].raw, strlen(rows[i].raw));
        if (!client_read(client, PATIENCE_MS) || client->answer.status != 400 ||
            strcmp(client->answer.body.data, "Invalid HTTP request received.") != 0)
            fail_msg("%s: %d", rows[i].name, client->answer.status);
        assert_true(client_wait_closed(client, PATIENCE_MS));
    }
    assert_int_equal(sim_count("requests.other"), 0);
}

static void bodies_arrive_however_cut(void **state)
{
    static const char body[] = CHAT_BODY("");
#define HEAD "POST " CHAT_PATH " HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n" DECODE
    struct text chunked = {0}, counted = {0}, three = {0}, words = {0};

    (void)state;
    SIM("--tokens", "4");
    text_printf(&chunked, HEAD "Transfer-Encoding: chunked\r\n\r\n");
    for (size_t at = 0; at < sizeof body - 1; at += 7) {
        size_t size = sizeof body - 1 - at < 7 ? sizeof body - 1 - at : 7;
        text_printf(&chunked, "%zX;x=y\r\n%.*s\r\n", size, (int)size, body + at);
    }
    text_printf(&chunked, "0\r\nX-Trailer: 1\r\n\r\n");
    text_printf(&counted, HEAD "Content-Length: %zu\r\n\r\n%s", sizeof body - 1, body);
    text_printf(&words, "%s", string_of(ask_well(CHAT_PATH, DECODE, body), "/choices/0/message/content"));
    for (int i = 0; i < 2; i++) {
        struct client *client = client_open(deployed.sim_port);
        const struct text *raw = i ? &counted : &chunked;
        for (size_t at = 0; at < raw->size; at++)
            client_send(client, raw->data + at, 1);
        assert_true(client_read(client, PATIENCE_MS));
        assert_string_equal(string_of(client, "/choices/0/message/content"), words.data);
    }
    text_printf(&three, "%s%s%s", chunked.data, counted.data, chunked.data); /* pipelined */
    struct client *client = client_open(deployed.sim_port);
    client_send(client, three.data, three.size);
    for (int i = 0; i < 3; i++) {
        assert_true(client_read(client, PATIENCE_MS));
        assert_string_equal(string_of(client, "/choices/0/message/content"), words.data);
    }
    client_say(client, HEAD "Expect: 100-continue\r\nContent-Length: %zu\r\n\r\n", sizeof body - 1);
    char word[32] = "";
    UNTIL(recv(client->fd, word, 25, MSG_PEEK | MSG_DONTWAIT) == 25);
    assert_memory_equal(word, "HTTP/1.1 100 Continue\r\n\r\n", 25);
    client_send(client, body, sizeof body - 1);
    assert_true(client_read(client, PATIENCE_MS));
    client = ask_well(CHAT_PATH, DECODE "Connection: close\r\n", body);
    assert_string_equal(answer_header(client, "connection"), "close");
    client = client_open(deployed.sim_port);
    client_say(client, "POST " CHAT_PATH " HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
               sizeof USUAL - 1, USUAL);
    assert_true(client_read(client, PATIENCE_MS) && !client->answer.chunked && client->ended);
    assert_string_equal(event_data(client, -1), "[DONE]");
    text_free(&chunked);
    text_free(&counted);
    text_free(&three);
    text_free(&words);
}

static void the_transcript_is_lossless(void **state)
{
    char body[259];
    uint64_t hash = 0xcbf29ce484222325u;
    char wanted[32];
    size_t copies = 0;

    (void)state;
    SIM("--tokens", "2");
    for (int i = 0; i < 256; i++)
        body[i] = (char)i;
    memcpy(body + 256, "\"\\\n", 3);
    for (size_t i = 0; i < sizeof body; i++)
        hash = (hash ^ (unsigned char)body[i]) * 0x100000001b3u;
    snprintf(wanted, sizeof wanted, "%016llx", (unsigned long long)hash);
    struct client *client = client_open(deployed.sim_port);
    client_post(client, "/sim/echo?x", "X-Latin: caf\xe9\r\nx-LATIN: 2\r\n", (struct span){body, sizeof body});
    assert_true(client_read(client, PATIENCE_MS));
    assert_string_equal(string_of(client, "/body_fnv1a"), wanted);
    client_post(client, CHAT_PATH, DECODE, span_of(CHAT_BODY("")));
    assert_true(client_read(client, PATIENCE_MS));
    sim_count("hits"); /* is not recorded */

    struct recorded *list;
    assert_int_equal(transcript_read(&list), 2);
    assert_string_equal(list[0].phase, "other");
    assert_string_equal(list[1].phase, "decode");
    assert_string_equal(list[0].target, "/sim/echo?x");
    assert_same_bytes(text_span(&list[0].body), ((struct span){body, sizeof body}));
    assert_string_equal(header_in(list[0].headers, "x-latin", &copies), "caf\xc3\xa9"); /* characters */
    assert_int_equal(copies, 2);

    struct text file = {0};
    assert_true(file_read(deployed.transcript, &file));
    const char *second = strchr(file.data, '\n') + 1;
    assert_contains(second, "\"reused\":true");
    assert_null(memmem(file.data, (size_t)(second - file.data), "\"reused\":true", 13));
    text_free(&file);
}

/* ---- Load ---- */

static uint32_t dice(uint32_t *seed, uint32_t sides)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % sides;
}

static void whatever_goes_wrong_leaves_nothing_behind(void **state)
{
    static const char *const items[] = {
        "split=1",
        "split=50",
        "split-at=5",
        "split-at=200",
        "crlf",
        "gzip",
        "no-length",
        "no-final-blank",
        "usage-null",
        "reset-after=0",
        "fin-after=50",
        "reset-after=100",
        "silence-after=20",
        "silence",
        "delay=5",
        "first-token-delay=5",
        "huge-event=100000",
        "event-interval=1",
        "blob=300000",
        "error-event-after=2",
        "status=503",
        "status=204",
        "refuse-body",
        "close-idle=1",
        "tokens=3",
        "no-usage",
        "cached=4",
    };
    enum { ITEMS = sizeof items / sizeof *items };
    uint32_t seed = 5;

    (void)state;
    SIM("--tokens", "6");
    for (int i = 0; i < 400; i++) {
        size_t row = dice(&seed, sizeof STREAMS / sizeof *STREAMS);
        bool prefill = dice(&seed, 3) == 0, silent = false;
        char fields[512];
        struct text raw = {0};
        snprintf(fields, sizeof fields, "%sx-sim-fault-%s: ", prefill ? PREFILL : DECODE,
                 prefill ? "prefill" : "decode");
        for (uint32_t n = dice(&seed, 5); n > 0; n--) {
            const char *item = items[dice(&seed, ITEMS)];
            silent = silent || strstr(item, "silence");
            strcat(strcat(fields, item), ",");
        }
        const char *body = prefill ? with_kv(STREAMS[row].body, NIXL) : STREAMS[row].body;
        text_printf(
            &raw,
            "POST %s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n%s\r\nContent-Length: %zu\r\n\r\n%s",
            STREAMS[row].path, fields, strlen(body), body);
        struct client *client = client_open(deployed.sim_port);
        bool cut = dice(&seed, 4) == 0;
        client_send(client, raw.data, cut ? 1 + dice(&seed, (uint32_t)raw.size) : raw.size);
        if (!cut && dice(&seed, 3) > 0 && !silent) {
            client_read(client, PATIENCE_MS);
            if (!client->answer.whole && !client->ended)
                fail_msg("neither whole nor ended: %s", fields);
        }
        if (dice(&seed, 2))
            client_reset(client);
        else
            client_close(client);
        text_free(&raw);
    }
    UNTIL(sim_count("active_requests") == 0 && sim_count("open_connections") == 1);
    assert_true(sim_count("requests.decode") > 50 && sim_count("stranded") > 20);
}

static void slow_readers_hold_back_the_stream(void **state)
{
    (void)state;
    SIM("--tokens", "2");
    struct client *client = client_open_small(deployed.sim_port, 65536);
    client_post(client, CHAT_PATH, FAULT("blob=200000000"), span_of(USUAL));
    assert_true(client_read_head(client, PATIENCE_MS));
    pause_ms(300); /* in which a program that does not hold back would take the memory */
    if (!sanitized())
        assert_in_range(process_rss_kib(&deployed.sim), 1, 50000);
    assert_int_equal(sim_count("active_requests"), 1);
    assert_true(client_read_body(client, 5000000, PATIENCE_MS));
}

static void many_streams_at_once(void **state)
{
    enum { MANY = 1000, TOKENS = 20 };
    static struct client *clients[MANY];
    size_t count = sanitized() ? 300 : MANY;

    (void)state;
    SIM("--event-interval", "20", "--tokens", "20");
    for (size_t i = 0; i < count; i++) {
        char body[160];
        clients[i] = client_open(deployed.sim_port);
        snprintf(body, sizeof body, "{\"messages\":[{\"role\":\"user\",\"content\":\"number %zu\"}],\"stream\":true}",
                 i);
        client_post(clients[i], CHAT_PATH, DECODE, span_of(body));
    }
    for (size_t i = 0; i < count; i++) {
        assert_true(client_read(clients[i], 60000));
        assert_int_equal(event_count(clients[i]), TOKENS + 2);
        client_close(clients[i]);
    }
    UNTIL(sim_count("active_requests") == 0 && sim_count("open_connections") == 1);
    assert_int_equal(sim_count("cancelled"), 0);
    assert_int_equal(sim_count("streamed"), (int64_t)count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SIM_TEST(delays_hold_back),
        SIM_TEST(statuses_are_injected),
        SIM_TEST(silence_reset_and_fin),
        SIM_TEST(splits_keep_the_bytes),
        SIM_TEST(line_ends_bend_in_every_api),
        SIM_TEST(gzip_answers_decode),
        SIM_TEST(an_error_comes_after_any_event),
        SIM_TEST(events_grow),
        SIM_TEST(refused_uploads_are_answered_early),
        SIM_TEST(idle_connections_close),
        SIM_TEST(bad_framing_is_refused),
        SIM_TEST(bodies_arrive_however_cut),
        SIM_TEST(the_transcript_is_lossless),
        SIM_TEST(whatever_goes_wrong_leaves_nothing_behind),
        SIM_TEST(slow_readers_hold_back_the_stream),
        SIM_TEST(many_streams_at_once),
    };

    return harness_run(tests);
}
