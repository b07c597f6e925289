/* See usage_worker.h. Shapes: docs/api.md, and recorded answers of vLLM 0.32.0 (tests/data). */
#include "usage_worker.h"

#define MESSAGES_BODY "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"

const struct usage_kind USAGE_KINDS[] = {
    {"chat", CHAT_PATH, "{\"model\":\"m\"," MESSAGES_BODY "}", "chat_completions", "false", false, false, false},
    {"chat stream", CHAT_PATH, "{\"model\":\"m\"," MESSAGES_BODY ",\"stream\":true}", "chat_completions", "false", true,
     false, true},
    {"chat stream that asks", CHAT_PATH,
     "{\"model\":\"m\"," MESSAGES_BODY ",\"stream\":true,\"stream_options\":{\"include_usage\":true}}",
     "chat_completions", "false", true, true, false},
    {"chat with an image", CHAT_PATH,
     "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"what\"},{\"type\":"
     "\"image_url\",\"image_url\":{\"url\":\"https://images.example/a.png\"}}]}]}",
     "chat_completions", "false", false, false, false},
    {"completions", "/v1/completions", "{\"model\":\"m\",\"prompt\":\"hi\"}", "completions", "true", false, false,
     false},
    {"completions stream", "/v1/completions", "{\"model\":\"m\",\"prompt\":\"hi\",\"stream\":true}", "completions",
     "true", true, false, true},
    {"responses", "/v1/responses", "{\"model\":\"m\",\"input\":\"hi\"}", "responses", "false", false, false, false},
    {"responses stream", "/v1/responses", "{\"model\":\"m\",\"input\":\"hi\",\"stream\":true}", "responses", "false",
     true, true, false},
    {"messages", "/v1/messages", "{\"model\":\"m\",\"max_tokens\":9," MESSAGES_BODY "}", "messages", "false", false,
     false, false},
    {"messages stream", "/v1/messages", "{\"model\":\"m\",\"max_tokens\":9," MESSAGES_BODY ",\"stream\":true}",
     "messages", "false", true, true, false},
    {"generate", "/inference/v1/generate",
     "{\"model\":\"m\",\"token_ids\":[9,77,77,5],\"sampling_params\":{\"max_tokens\":3}}", "vllm_generate", "true",
     false, false, false},
    {"generate stream that asks", "/inference/v1/generate",
     "{\"model\":\"m\",\"token_ids\":[9,77,77,5],\"sampling_params\":{\"max_tokens\":3},\"stream\":true,\"stream_"
     "options\":{\"include_usage\":true}}",
     "vllm_generate", "true", true, true, false},
    {NULL, NULL, NULL, NULL, NULL, false, false, false},
};

static bool path_is(const char *path, const char *wanted) { return strncmp(path, wanted, strlen(wanted)) == 0; }

static void chat_usage(struct text *out, unsigned reported)
{
    text_printf(out, "\"usage\":{\"prompt_tokens\":%u,\"completion_tokens\":2,\"total_tokens\":%u}", reported,
                reported + 2);
}

static void chunk_stream(struct text *out, const char *delta, bool frame, unsigned reported)
{
    text_printf(out, "data: {\"id\":\"c\",\"choices\":[{\"index\":0,%s,\"finish_reason\":null}]}\n\n", delta);
    text_printf(out, "data: {\"id\":\"c\",\"choices\":[{\"index\":0,%s,\"finish_reason\":\"stop\"}]}\n\n", delta);
    if (frame) {
        text_printf(out, "data: {\"id\":\"c\",\"choices\":[],");
        chat_usage(out, reported);
        text_printf(out, "}\n\n");
    }
    text_printf(out, "data: [DONE]\n\n");
}

static void responses_stream(struct text *out, unsigned reported)
{
    text_printf(out,
                "event: response.created\ndata: "
                "{\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"resp_1\",\"status\":\"in_"
                "progress\",\"usage\":null}}\n\n"
                "event: response.output_text.delta\ndata: "
                "{\"type\":\"response.output_text.delta\",\"sequence_number\":1,\"delta\":\"the usage \xc3\xa9\"}\n\n"
                "event: response.completed\ndata: "
                "{\"type\":\"response.completed\",\"sequence_number\":2,\"response\":{\"id\":\"resp_1\",\"status\":"
                "\"completed\",\"output\":[],"
                "\"usage\":{\"input_tokens\":%u,\"output_tokens\":5,\"total_tokens\":%u}}}\n\n",
                reported, reported + 5);
}

/* The sum is the same in both events; the split comes with the second. */
static void messages_stream(struct text *out, unsigned reported)
{
    text_printf(out,
                "event: message_start\ndata: "
                "{\"type\":\"message_start\",\"message\":{\"id\":\"m1\",\"role\":\"assistant\",\"content\":[],"
                "\"usage\":{\"input_tokens\":%u,\"output_tokens\":0}}}\n\n"
                "event: ping\ndata: {\"type\":\"ping\"}\n\n"
                "event: message_delta\ndata: "
                "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"input_tokens\":%u,"
                "\"cache_read_input_tokens\":2,\"cache_creation_input_tokens\":1,\"output_tokens\":5}}\n\n"
                "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
                reported, reported - 3);
}

void usage_answer(struct text *out, const char *path, bool stream, bool frame, unsigned reported)
{
    text_clear(out);
    if (path_is(path, "/v1/responses") && stream) {
        responses_stream(out, reported);
    } else if (path_is(path, "/v1/messages") && stream) {
        messages_stream(out, reported);
    } else if (stream) {
        chunk_stream(out,
                     path_is(path, "/v1/chat")          ? "\"delta\":{\"content\":\"usage \\u00e9\"}"
                     : path_is(path, "/v1/completions") ? "\"text\":\"usage \xc3\xa9\""
                                                        : "\"token_ids\":[1]",
                     frame, reported);
    } else if (path_is(path, "/v1/responses")) {
        text_printf(
            out,
            "{\"id\":\"resp_1\",\"object\":\"response\",\"status\":\"completed\",\"output\":[ "
            "],\"usage\":{\"input_tokens\":%u,\"input_tokens_details\":{\"cached_tokens\":0},\"output_tokens\":5}}",
            reported);
    } else if (path_is(path, "/v1/messages")) {
        text_printf(out,
                    "{\"id\":\"m1\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[ "
                    "],\"usage\":{\"input_tokens\":%u,\"cache_read_input_tokens\":2,\"cache_creation_input_tokens\":1,"
                    "\"output_tokens\":5}}\n",
                    reported - 3);
    } else {
        text_printf(out, "{\"z\":1.0,\"id\":\"c\",\"choices\":[{\"index\":0,\"text\":\"usage \\u00e9\"}],");
        chat_usage(out, reported);
        text_printf(out, " }\n");
    }
}

static void send_answer(struct stage *stage, const struct text *answer, bool stream)
{
    const char *at = answer->data, *end;

    if (!stream) {
        stage_json(stage, 200, "X-Worker: 7\r\n", answer->data);
        return;
    }
    stage_stream_head(stage);
    for (; (end = strstr(at, "\n\n")) != NULL; at = end + 2)
        stage_chunk(stage, at, (size_t)(end + 2 - at));
    stage_last_chunk(stage);
}

void usage_decode(struct stage *stage)
{
    const struct usage_worker *worker = stage->context;
    struct span body = text_span(&stage->request->body);
    bool stream = span_is(json_member(body, "stream"), "true");
    struct span options = json_member(body, "stream_options");
    bool frame = options.size > 0 && options.data[0] == '{' && span_is(json_member(options, "include_usage"), "true");
    bool probe = strcasestr(stage->request->head, "\r\nprefer: if-available\r\n") != NULL;
    struct text answer = {0};

    if (probe && worker->probe < 0) {
        stage_reset(stage);
        return;
    }
    if (probe && worker->probe > 0) {
        stage_json(stage, worker->probe, "Retry-After: 7\r\n", "{\"error\":{\"message\":\"probe\"}}");
        return;
    }
    if (worker->raw) {
        stage_say(stage, "%s", worker->raw);
        return;
    }
    usage_answer(&answer, stage->request->target, stream, frame, worker->reported);
    send_answer(stage, &answer, stream);
    text_free(&answer);
}

void usage_prefill(struct stage *stage)
{
    const struct usage_worker *worker = stage->context;

    if (worker->prefill)
        stage_json(stage, 200, "", worker->prefill);
    else
        stage_default(stage);
}

struct scripted *usage_worker_start(struct usage_worker *worker)
{
    return scripted_start(
        &(struct scripted_options){.decode = usage_decode, .prefill = usage_prefill, .context = worker});
}

void assert_answer(const struct client *client, const struct usage_kind *kind, unsigned reported)
{
    struct text wanted = {0};

    usage_answer(&wanted, kind->path, kind->stream, kind->asked, reported);
    assert_int_equal(client->answer.status, 200);
    assert_true(client->answer.whole);
    assert_same_bytes(text_span(&client->answer.body), text_span(&wanted));
    if (!kind->stream) {
        assert_int_equal(client->answer.length, wanted.size);
        assert_string_equal(answer_header(client, "x-worker"), "7");
    }
    text_free(&wanted);
}

const char *rendered_steps(const struct scripted *worker, const char *rest)
{
    static char steps[2048];

    snprintf(steps, sizeof steps, "    - type: render\n      params: {address: \"http://127.0.0.1:%u\"}\n%s",
             scripted_port(worker), rest);
    return steps;
}

double mismatches(const struct usage_kind *kind)
{
    char series[256];

    snprintf(series, sizeof series,
             "prompt_token_mismatch_total{model_name=\"m\",api_type=\"%s\",ids_forwarded=\"%s\"}", kind->api,
             kind->ids_forwarded);
    return metric(series);
}

size_t mismatch_lines(void)
{
    size_t count = 0;

    for (const char *at = process_log(&deployed.coordinator); (at = strstr(at, "prompt token mismatch")) != NULL; at++)
        count++;
    return count;
}
