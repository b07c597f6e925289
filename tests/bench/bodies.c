/* See bodies.h. */
#include "bodies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const leg_names[LEGS] = {"render", "prefill", "decode"};

/* What prefill hands out, shaped as vLLM's NIXL connector does. */
static const char descriptor[] =
    "{\"do_remote_prefill\":true,\"do_remote_decode\":false,\"remote_block_ids\":[[101,102,103,104,105,106,107,108]],"
    "\"remote_engine_id\":\"87adad1e-5a30-44af-8f6d-e59b7e8a81c4\",\"remote_request_id\":\"chatcmpl-bench\","
    "\"remote_host\":\"10.0.0.17\",\"remote_port\":5600,\"tp_size\":1,\"dcp_size\":1,\"pp_size\":1,"
    "\"remote_num_tokens\":120,\"remote_blocks_expiry_time\":null,\"transfer_mode\":\"pull\"}";
static const char asking[] =
    "{\"do_remote_decode\":true,\"do_remote_prefill\":false,\"remote_engine_id\":null,\"remote_block_ids\":null,"
    "\"remote_host\":null,\"remote_port\":null";

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static FILE *open_text(struct text *text)
{
    FILE *file = open_memstream(&text->bytes, &text->length);

    if (!file)
        abort();
    return file;
}

static void put_words(FILE *file, size_t bytes)
{
    static const char *const words[] = {"the ", "service ", "answers ", "each ", "question ", "in ", "turn, ", "and "};
    unsigned pick = 1;

    for (size_t put = 0; put < bytes;) {
        const char *word = words[(pick = pick * 1103515245u + 12345u) >> 16 & 7];

        fputs(word, file);
        put += strlen(word);
    }
}

static void put_tokens(FILE *file, size_t count)
{
    unsigned pick = 7;

    fputc('[', file);
    for (size_t i = 0; i < count; i++)
        fprintf(file, "%s%u", i ? "," : "", (pick = pick * 1103515245u + 12345u) >> 8 & 0x1ffff);
    fputc(']', file);
}

/* The body up to the last member, without the closing brace: legs go on from there. */
static void put_client(FILE *file, const struct shape *shape, size_t cap, bool stream)
{
    if (shape->client_ids) {
        fputs("{\"model\":\"m\",\"prompt\":", file);
        put_tokens(file, shape->tokens);
        fprintf(file, ",\"max_tokens\":%zu", cap);
        return;
    }
    fputs("{\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":\"You are a helpful assistant.\"},"
          "{\"role\":\"user\",\"content\":",
          file);
    if (shape->image) {
        fputs("[{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/png;base64,", file);
        for (size_t i = 0; i < shape->image; i++)
            fputc(alphabet[i * 2654435761u >> 7 & 63], file);
        fputs("\"}},{\"type\":\"text\",\"text\":\"", file);
    } else {
        fputc('"', file);
    }
    put_words(file, shape->prompt);
    fputs(shape->image ? "\"}]" : "\"", file);
    fprintf(file, "}],\"temperature\":0.7,\"top_p\":0.95,\"max_tokens\":%zu", cap);
    if (stream)
        fputs(",\"stream\":true", file);
}

static void put_answer(FILE *file, const struct shape *shape, const char *text, const char *transfer)
{
    fprintf(
        file,
        "{\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion\",\"created\":1700000000,\"model\":\"m\",\"choices\":"
        "[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"%s\",\"refusal\":null,\"annotations\":null},"
        "\"logprobs\":null,\"finish_reason\":\"length\",\"stop_reason\":null}],\"service_tier\":null,"
        "\"usage\":{\"prompt_tokens\":%zu,\"total_tokens\":%zu,\"completion_tokens\":64,"
        "\"prompt_tokens_details\":{\"cached_tokens\":%d}},\"kv_transfer_params\":%s}",
        text, shape->tokens, shape->tokens + 64, transfer == descriptor ? 32 : 16, transfer);
}

static void make_render(struct bodies *bodies, const struct shape *shape)
{
    FILE *file = open_text(&bodies->answered[RENDER]);

    fputs("{\"request_id\":\"chatcmpl-bench\",\"token_ids\":", file);
    put_tokens(file, shape->tokens);
    fputs(",\"token_offsets\":null,\"features\":null,\"sampling_params\":{\"temperature\":0.7,\"top_p\":0.95},"
          "\"model\":\"m\"}",
          file);
    fclose(file);
    file = open_text(&bodies->sent[RENDER]);
    fwrite(bodies->client.bytes, 1, bodies->client.length, file);
    fclose(file);
}

static void make_prefill(struct bodies *bodies, const struct shape *shape)
{
    FILE *file = open_text(&bodies->sent[PREFILL]);

    put_client(file, shape, 1, false);
    fprintf(file, ",\"max_completion_tokens\":1,\"kv_transfer_params\":%s,\"prompt_token_ids\":", asking);
    put_tokens(file, shape->tokens);
    fputs("}}", file);
    fclose(file);
    file = open_text(&bodies->answered[PREFILL]);
    put_answer(file, shape, " The", descriptor);
    fclose(file);
}

static void make_decode(struct bodies *bodies, const struct shape *shape)
{
    FILE *file = open_text(&bodies->sent[DECODE]);

    put_client(file, shape, shape->stream ? shape->stream : 64, shape->stream);
    fprintf(file, ",\"kv_transfer_params\":%s}", descriptor);
    fclose(file);
    file = open_text(&bodies->answered[DECODE]);
    put_answer(
        file, shape,
        " The service answers each question in turn, and says so in some sixty tokens of plain text, which is what "
        "a short chat turn amounts to; a longer one would only add to what has to be moved from one socket to the "
        "next.",
        "null");
    fclose(file);
}

void bodies_make(struct bodies *bodies, const struct shape *shape)
{
    FILE *file = open_text(&bodies->client);

    bodies->path = shape->client_ids ? "/v1/completions" : "/v1/chat/completions";
    put_client(file, shape, shape->stream ? shape->stream : 64, shape->stream);
    fputc('}', file);
    fclose(file);
    make_render(bodies, shape);
    make_prefill(bodies, shape);
    make_decode(bodies, shape);
}

void bodies_release(struct bodies *bodies)
{
    free(bodies->client.bytes);
    for (int leg = 0; leg < LEGS; leg++) {
        free(bodies->sent[leg].bytes);
        free(bodies->answered[leg].bytes);
    }
    *bodies = (struct bodies){0};
}

static bool write_text(const struct text *text, const char *folder, const char *name)
{
    char path[1024];
    FILE *file;
    bool written;

    snprintf(path, sizeof path, "%s/%s.json", folder, name);
    file = fopen(path, "w");
    written = file && fwrite(text->bytes, 1, text->length, file) == text->length;
    if (file && fclose(file) != 0)
        written = false;
    if (!written)
        perror(path);
    return written;
}

bool bodies_write(const struct bodies *bodies, const char *folder)
{
    bool written = write_text(&bodies->client, folder, "client");

    for (int leg = 0; leg < LEGS; leg++)
        written = write_text(&bodies->answered[leg], folder, leg_names[leg]) && written;
    return written;
}
