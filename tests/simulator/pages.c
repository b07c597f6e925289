/* Answers that are no inference; see pages.h. */
#include "pages.h"

#include "books.h"

#include <string.h>

void page_models(struct buf *out, const struct options *options)
{
    buf_text(out, "{\"object\":\"list\",\"data\":[{\"id\":\"");
    const char *name = options->model ? options->model : "m";
    struct text model = {name, strlen(name)};
    buf_json(out, model);
    long long created = options->created >= 0 ? options->created : 1795977181;
    buf_printf(out, "\",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"vllm\",\"root\":\"", created);
    buf_json(out, model);
    buf_printf(out,
               "\",\"parent\":null,\"max_model_len\":%llu,\"permission\":[{\"id\":\"modelperm-00000000000000aa\","
               "\"object\":\"model_permission\",\"created\":%lld,\"allow_create_engine\":false,\"allow_sampling\":true,"
               "\"allow_logprobs\":true,\"allow_search_indices\":false,\"allow_view\":true,\"allow_fine_tuning\":false,"
               "\"organization\":\"*\",\"group\":null,\"is_blocking\":false}]}]}",
               (unsigned long long)options->max_model_len, created);
}

void page_echo(struct buf *out, const struct http_request *request)
{
    buf_text(out, "{\"method\":\"");
    buf_json_bytes(out, request->method);
    buf_text(out, "\",\"target\":\"");
    buf_json_bytes(out, request->target);
    buf_text(out, "\",\"headers\":[");
    for (size_t i = 0; i < request->header_count; i++) {
        buf_text(out, i ? ",[\"" : "[\"");
        buf_json_bytes(out, request->headers[i].name);
        buf_text(out, "\",\"");
        buf_json_bytes(out, request->headers[i].value);
        buf_text(out, "\"]");
    }
    buf_printf(out, "],\"body_length\":%zu,\"body_fnv1a\":\"%016llx\"}", buf_left(&request->body),
               (unsigned long long)fnv1a(buf_view(&request->body)));
}

static void add_count(struct buf *out, const char *name, uint64_t value)
{
    buf_printf(out, "\"%s\":%llu,", name, (unsigned long long)value);
}

static void add_phases(struct buf *out, const char *name, const uint64_t *values)
{
    buf_printf(out, "\"%s\":{", name);
    for (int i = 0; i < PHASES; i++)
        buf_printf(out, "%s\"%s\":%llu", i ? "," : "", phase_name((enum phase)i), (unsigned long long)values[i]);
    buf_text(out, "}");
}

void page_stats(struct buf *out, const struct counts *counts, uint64_t open_connections)
{
    const struct kv_counts *kv = books_counts();
    buf_text(out, "{");
    add_count(out, "hits", kv->hits);
    add_count(out, "misses", kv->misses);
    add_count(out, "altered", kv->altered);
    add_count(out, "local", kv->local);
    add_count(out, "handed_out", kv->handed_out);
    add_count(out, "stranded", books_stranded());
    add_count(out, "shared_stored", kv->shared_stored);
    add_count(out, "shared_hits", kv->shared_hits);
    add_count(out, "token_drift", kv->token_drift);
    add_count(out, "bad_handshakes", kv->bad_handshakes);
    add_count(out, "cancelled", counts->cancelled);
    add_count(out, "refused", counts->refused);
    add_count(out, "streamed", counts->streamed);
    add_count(out, "open_connections", open_connections);
    add_count(out, "active_requests", counts->active);
    add_phases(out, "requests", counts->requests);
    buf_text(out, ",");
    add_phases(out, "cancelled_in", counts->cancelled_in);
    buf_text(out, "}");
}
