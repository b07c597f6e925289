/* A worker's own error inside of a 200 stream passes as it is, and the request counts as failed (decision 54). */
#include "harness.h"

#define STREAM_HEAD "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
#define FIRST "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"no error\"}}]}\n\n"

static void play(struct stage *stage)
{
    const char *stream = stage->context;

    stage_stream_head(stage);
    stage_chunk(stage, FIRST, sizeof FIRST - 1);
    stage_chunk(stage, stream, strlen(stream));
    stage_last_chunk(stage);
}

/* Neither length nor chunks: the error is the last that is to come. */
static void play_to_close(struct stage *stage)
{
    stage_say(stage, STREAM_HEAD "Connection: close\r\n\r\n" FIRST "%s", (const char *)stage->context);
    stage->hang_up = true;
}

static void an_error_event_passes_and_is_counted(void **state)
{
    static const struct {
        const char *name, *path, *body, *stream, *code;
    } rows[] = {
        {"a 400 (chat)", CHAT_PATH, STREAM, "data: {\"error\":{\"message\":\"no\",\"code\":400}}\n\ndata: [DONE]\n\n",
         "upstream_4xx"},
        {"no code (chat)", CHAT_PATH, STREAM, "data: {\"error\":{\"message\":\"no\",\"code\":null}}\n\n",
         "upstream_5xx"},
        {"messages", "/v1/messages", "{\"model\":\"m\",\"max_tokens\":3,\"messages\":[],\"stream\":true}",
         "event: error\r\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\"}}\r\n\r\n", "upstream_5xx"},
        {"responses", "/v1/responses", "{\"model\":\"m\",\"input\":\"hi\",\"stream\":true}",
         "event: response.failed\ndata: "
         "{\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"server_error\"}}}\n\n",
         "upstream_5xx"},
        {"none", CHAT_PATH, STREAM, "data: [DONE]\n\n", NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int close_delimited = 0; close_delimited < 2; close_delimited++) {
            struct scripted *worker = scripted_start(&(struct scripted_options){
                .decode = close_delimited ? play_to_close : play, .context = (void *)(uintptr_t)rows[i].stream});
            struct client *client;
            struct text wanted = {0};
            char series[128];

            print_message("  %s%s\n", rows[i].name, close_delimited ? ", until the connection closes" : "");
            deploy(
                &(struct plan){.no_sim = true, .gateway_port = scripted_port(worker), .steps = "    - type: decode\n"});
            client = fetch("POST", rows[i].path, "", rows[i].body);
            assert_int_equal(client->answer.status, 200);
            assert_true(client->answer.whole);
            text_printf(&wanted, "%s%s", FIRST, rows[i].stream);
            assert_same_bytes(text_span(&client->answer.body), text_span(&wanted));
            UNTIL(metric("request_total{model_name=\"m\"}") == 1);
            assert_true(metric_sum("request_error_total") == (rows[i].code != NULL));
            assert_true(metric_sum("step_errors_total") == (rows[i].code != NULL));
            if (rows[i].code) {
                snprintf(series, sizeof series, "request_error_total{model_name=\"m\",error_code=\"%s\"}",
                         rows[i].code);
                assert_true(metric(series) == 1);
                snprintf(series, sizeof series, "step_errors_total{step=\"decode\",error_code=\"%s\"}", rows[i].code);
                assert_true(metric(series) == 1);
            }
            text_free(&wanted);
            harness_end(NULL);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(an_error_event_passes_and_is_counted)};

    return harness_run(tests);
}
