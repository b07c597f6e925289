/*
 * From a request to its answer; see serve.h.
 *
 * The order a request goes through: phase and faults (at its head), transcript and counts (when whole), delay, injected
 * status, page or API, validation, KV books, answer.
 */
#include "serve.h"

#include "api.h"
#include "books.h"
#include "main.h"
#include "pages.h"
#include "record.h"
#include "stream.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OUTPUT_AT_MOST = 1 << 24 };

enum stage {
    STAGE_DELAY,       /* waits, then act() */
    STAGE_SILENT,      /* never answers */
    STAGE_FIRST_TOKEN, /* waits, then the whole answer */
    STAGE_STREAM,
    STAGE_ANSWERED,
};

struct serving {
    enum stage stage;
    enum phase phase;
    bool control; /* a request about the simulator itself: not counted, not recorded */
    bool counted;
    struct text bad_spec; /* an item of a fault header that cannot be read */
    struct fault fault;
    struct reply reply;
    const struct api *api;
    struct stream stream;
    uint64_t words;
};

static struct {
    struct counts counts;
    uint64_t random;
    uint64_t serial; /* of answers */
    bool seeded;
} state;

static uint64_t random_next(void)
{
    if (!state.seeded) {
        state.seeded = true;
        state.random = options.seed;
    }
    return mix(state.random += 0x9e3779b97f4a7c15u);
}

static bool chance(double probability) { return (double)(random_next() >> 11) * 0x1p-53 < probability; }

void serve_fini(void) { books_reset(); }

/* ---- phase and faults ---- */

static enum phase phase_of(const struct http_request *request)
{
    static const char *const names[] = {"x-llm-d-epp-profile", "epp-profile", "epp-phase"};
    bool render;
    if (api_find(http_path(request), &render) && render)
        return PHASE_RENDER;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct text value = http_header(request, names[i]);
        if (text_is_nocase(value, "encode"))
            return PHASE_ENCODE;
        if (text_is_nocase(value, "prefill"))
            return PHASE_PREFILL;
        if (text_is_nocase(value, "decode"))
            return text_has_nocase(http_header(request, "prefer"), "if-available") ? PHASE_PROBE : PHASE_DECODE;
    }
    return PHASE_OTHER;
}

/* Flags first, then chance, then the request's own headers: the later wins. True if any spec was added. */
static bool gather_faults(struct serving *s, const struct http_request *request)
{
    const char *flag = options.faults[s->phase];
    bool any = flag != NULL;
    if (flag)
        fault_add(&s->fault, (struct text){flag, strlen(flag)}, &s->bad_spec);
    for (size_t i = 0; i < options.rate_count; i++) {
        const struct fault_rate *rate = &options.rates[i];
        if (rate->phase != s->phase || !chance(rate->probability))
            continue;
        fault_add(&s->fault, (struct text){rate->spec, rate->len}, &s->bad_spec);
        any = true;
    }
    s->bad_spec = (struct text){NULL, 0}; /* flags were checked at the start */
    static const char prefix[] = "x-sim-fault-";
    for (size_t i = 0; i < request->header_count; i++) {
        const struct http_header *h = &request->headers[i];
        enum phase phase;
        if (h->name.len < sizeof prefix || !text_is_nocase((struct text){h->name.at, sizeof prefix - 1}, prefix) ||
            !phase_named((struct text){h->name.at + sizeof prefix - 1, h->name.len - sizeof prefix + 1}, &phase) ||
            phase != s->phase)
            continue;
        struct text bad;
        if (!fault_add(&s->fault, h->value, &bad))
            s->bad_spec = bad;
        any = true;
    }
    return any;
}

/* ---- answers ---- */

static const char json_type[] = "application/json";

static void answer(struct conn *conn, int status, const char *type, struct text body)
{
    struct serving *s = conn->serving;
    struct buf headers = {0};
    s->stage = STAGE_ANSWERED;
    if (s->fault.retry_after >= 0)
        buf_printf(&headers, "retry-after: %lld\r\n", (long long)s->fault.retry_after);
    struct text more = buf_view(&s->fault.headers);
    buf_add(&headers, more.at, more.len);
    conn_answer(conn, status, type, buf_view(&headers), body);
    buf_free(&headers);
}

typedef void error_shape(struct buf *out, struct text message, const char *type, const char *param, int code);

static void answer_error_as(struct conn *conn, error_shape *shape, struct text message, const char *type,
                            const char *param, int status)
{
    struct buf body = {0};
    shape(&body, message, type, param, status);
    answer(conn, status, json_type, buf_view(&body));
    buf_free(&body);
}

/* By the API's own code. */
static void answer_error(struct conn *conn, struct text message, const char *type, const char *param, int status)
{
    const struct serving *s = conn->serving;
    answer_error_as(conn, s->api ? s->api->error : shape_error, message, type, param, status);
}

/* By what stands before all APIs, and so in one shape for all. */
static void answer_general_error(struct conn *conn, struct text message, const char *type, int status)
{
    answer_error_as(conn, shape_error, message, type, NULL, status);
}

/* By the router, which knows no API. */
static void answer_detail(struct conn *conn, const char *detail, const char *allow, int status)
{
    struct serving *s = conn->serving;
    struct buf body = {0}, headers = {0};
    buf_printf(&body, "{\"detail\":\"%s\"}", detail);
    if (allow)
        buf_printf(&headers, "allow: %s\r\n", allow);
    s->stage = STAGE_ANSWERED;
    conn_answer(conn, status, json_type, buf_view(&headers), buf_view(&body));
    buf_free(&headers);
    buf_free(&body);
}

static void answer_refusal(struct conn *conn, struct refusal *refusal)
{
    const struct serving *s = conn->serving;
    state.counts.refused++;
    bool general = refusal->of_body || s->phase == PHASE_RENDER; /* render paths have one shape for all APIs */
    answer_error_as(conn, general ? shape_error : s->api->error, buf_view(&refusal->message), refusal->type,
                    refusal->param[0] ? refusal->param : NULL, refusal->status);
    buf_free(&refusal->message);
}

static void answer_injected(struct conn *conn, int status)
{
    struct serving *s = conn->serving;
    if (!s->fault.has_body) {
        answer_error(conn, TEXT("injected by the simulator"), http_reason(status), NULL, status);
        return;
    }
    struct text body = buf_view(&s->fault.status_body);
    bool json = body.len && (body.at[0] == '{' || body.at[0] == '[');
    answer(conn, status, json ? json_type : "text/plain; charset=utf-8", body);
}

static void answer_whole(struct conn *conn)
{
    struct serving *s = conn->serving;
    struct buf content = {0}, body = {0};
    for (uint64_t i = 0; i < s->reply.output_tokens; i++)
        shape_add_word(s->api->shape, &content, stream_random(s->words, i));
    int64_t more = s->fault.blob > s->fault.huge_event ? s->fault.blob : s->fault.huge_event;
    if (more > 0)
        shape_add_filler(s->api->shape, &content, (size_t)more);
    s->api->shape->whole(&body, &s->reply, buf_view(&content));
    buf_free(&content);
    answer(conn, 200, json_type, buf_view(&body));
    buf_free(&body);
}

static void begin_stream(struct conn *conn)
{
    struct serving *s = conn->serving;
    state.counts.streamed++;
    s->stage = STAGE_STREAM;
    s->stream = (struct stream){.shape = s->api->shape, .reply = &s->reply, .fault = &s->fault, .words = s->words};
    s->stream.interval = s->fault.event_interval >= 0 ? s->fault.event_interval : options.event_interval;
    buf_free(&conn->request.body); /* thousands of streams wait with it otherwise */
    stream_begin(&s->stream, conn, buf_view(&s->fault.headers));
}

/* ---- inference ---- */

/* As the engine does: of the header, or else the request's own, or else a new one. */
static void fill_id(struct conn *conn, const struct ask *ask)
{
    struct serving *s = conn->serving;
    struct buf *out = &s->reply.id;
    struct text id = http_header(&conn->request, "x-request-id");
    buf_text(out, s->api->shape->id_prefix);
    if (id.at && id.len)
        buf_json(out, id);
    else if (json_kind(ask->id) == '"')
        buf_add(out, ask->id.at + 1, ask->id.len - 2); /* raw: escaped already */
    else
        buf_printf(out, "%016llx", (unsigned long long)mix(mix(options.seed) + ++state.serial));
    s->reply.item = fingerprint(buf_view(out));
}

static void fill_usage(struct serving *s, const struct ask *ask)
{
    struct reply *r = &s->reply;
    int64_t cached = s->fault.cached >= 0 ? s->fault.cached : options.cached[s->phase];
    int64_t created = s->fault.created_cache >= 0 ? s->fault.created_cache : options.created_cache[s->phase];
    r->prompt_tokens = ask->prompt.count;
    r->include_usage = ask->include_usage;
    r->continuous_usage = ask->continuous_usage;
    r->usage_null = s->fault.usage_null;
    r->traits = traits_both(options.traits, s->fault.traits);
    r->cached_tokens = cached > 0 ? (uint64_t)cached : 0;
    if (r->cached_tokens > r->prompt_tokens)
        r->cached_tokens = r->prompt_tokens;
    r->created_cached = created > 0 ? (uint64_t)created : 0;
    if (r->created_cached > r->prompt_tokens - r->cached_tokens)
        r->created_cached = r->prompt_tokens - r->cached_tokens;
}

/* W10: the whole prompt counts as transferred, unless a number was fixed. */
static void fill_transferred(struct serving *s)
{
    if (s->fault.cached >= 0 || options.cached[s->phase] >= 0)
        return;
    s->reply.cached_tokens = s->reply.prompt_tokens;
    s->reply.created_cached = 0;
}

static void copy_raw(struct buf *out, struct text raw)
{
    if (!json_absent(raw))
        buf_add(out, raw.at, raw.len);
}

static void fill_reply(struct conn *conn, const struct ask *ask)
{
    struct serving *s = conn->serving;
    struct reply *r = &s->reply;
    fill_id(conn, ask);
    fill_usage(s, ask);
    if (ask->model.at)
        buf_add(&r->model, ask->model.at + 1, ask->model.len - 2); /* raw: escaped already */
    else
        buf_text(&r->model, options.model ? options.model : "m");
    r->created = options.created >= 0 ? options.created : (int64_t)time(NULL);
    if (s->api->shape == &shape_responses) {
        copy_raw(&r->instructions, ask->instructions);
        copy_raw(&r->tools, ask->tools);
    }
    r->cap = ask->capped ? ask->cap : options.max_model_len - ask->prompt.count;
    uint64_t n = s->fault.tokens >= 0 ? (uint64_t)s->fault.tokens : options.tokens;
    if (n < ask->at_least)
        n = ask->at_least;
    if (ask->capped && (n > ask->cap || ask->ignore_end))
        n = ask->cap;
    if (n > OUTPUT_AT_MOST)
        n = OUTPUT_AT_MOST;
    r->output_tokens = n ? n : 1;
    r->cut_short = ask->capped && r->output_tokens == ask->cap;
    s->words = mix(options.seed) ^ ask->prompt.print;
}

/* Features of the render answer; a list of kwargs that nobody needs to understand. */
static void add_features(struct buf *out, const struct buf *media)
{
    static const char *const modalities[] = {"image", "audio", "video"};
    static const char *const members[] = {"mm_hashes", "mm_placeholders", "kwargs_data"};
    const struct media_slot *slots = (const void *)media->data;
    size_t count = buf_left(media) / sizeof *slots;
    if (!count) {
        buf_text(out, "null");
        return;
    }
    for (size_t m = 0; m < 3; m++) {
        buf_printf(out, "%s\"%s\":{", m ? "," : "{", members[m]);
        bool first_modality = true;
        for (size_t k = 0; k < 3; k++) {
            bool first = true;
            for (size_t i = 0; i < count; i++) {
                if (strcmp(slots[i].modality, modalities[k]) != 0)
                    continue;
                if (first)
                    buf_printf(out, "%s\"%s\":[", first_modality ? "" : ",", modalities[k]);
                else
                    buf_text(out, ",");
                first = first_modality = false;
                if (m == 0)
                    buf_printf(out, "\"%016llx\"", (unsigned long long)slots[i].hash);
                else if (m == 1)
                    buf_printf(out, "{\"offset\":%llu,\"length\":%llu}", (unsigned long long)slots[i].offset,
                               (unsigned long long)slots[i].length);
                else
                    buf_text(out, "\"c2lt\"");
            }
            if (!first)
                buf_text(out, "]");
        }
        buf_text(out, "}");
    }
    buf_text(out, "}");
}

static void answer_render(struct conn *conn, const struct ask *ask, const struct buf *ids, const struct buf *media)
{
    struct serving *s = conn->serving;
    struct buf body = {0}, features = {0};
    add_features(&features, media);
    struct rendered it = {buf_view(ids), buf_view(&features), s->api->render_more, -1, ask->stream};
    if (ask->capped || !s->api->render_list)
        it.max_tokens = (int64_t)s->reply.cap;
    if (s->api->render_list)
        buf_text(&body, "[");
    shape_rendered(&body, &s->reply, &it);
    if (s->api->render_list)
        buf_text(&body, "]");
    answer(conn, 200, json_type, buf_view(&body));
    buf_free(&features);
    buf_free(&body);
}

static bool shake_hands(struct conn *conn, const struct ask *ask)
{
    static const bool takes[][4] = {
        /* KV_BAD, KV_NONE, KV_NIXL, KV_SHARED */
        [KV_MODE_AUTO] = {false, false, true, true},
        [KV_MODE_NIXL] = {false, false, true, false},
        [KV_MODE_SHARED] = {false, false, false, true},
        [KV_MODE_OFF] = {true, true, true, true},
    };
    struct serving *s = conn->serving;
    enum kv_handshake handshake = books_handshake(ask->kv);
    if (!takes[options.kv][handshake]) {
        books_refused();
        state.counts.refused++;
        answer_error(conn, TEXT("kv_transfer_params: not the handshake of a KV connector"), "BadRequestError",
                     "kv_transfer_params", 400);
        return false;
    }
    if (options.kv != KV_MODE_OFF)
        books_store(handshake, &ask->prompt, s->reply.cached_tokens, buf_view(&s->reply.id), &s->reply.kv);
    return true;
}

/* An encoder's answer tells where each medium's embedding lies. */
static void add_embeddings(struct reply *reply, const struct buf *media)
{
    const struct media_slot *slots = (const void *)media->data;
    size_t count = buf_left(media) / sizeof *slots;
    for (size_t i = 0; i < count; i++)
        buf_printf(&reply->ec,
                   "%s\"%016llx\":{\"peer_host\":\"127.0.0.1\",\"peer_port\":5501,\"size\":9007199254740993}",
                   i ? "," : "{", (unsigned long long)slots[i].hash);
    if (count)
        buf_text(&reply->ec, "}");
}

static void infer(struct conn *conn, bool render)
{
    struct serving *s = conn->serving;
    struct buf ids = {0}, media = {0};
    struct api_setting setting = {options.model, render ? options.render_template : options.decode_template,
                                  options.max_model_len, render ? &ids : NULL,
                                  render || s->phase == PHASE_ENCODE ? &media : NULL};
    struct ask ask;
    struct refusal refusal;
    if (!api_read(s->api, &setting, buf_view(&conn->request.body), &ask, &refusal)) {
        answer_refusal(conn, &refusal);
        goto out;
    }
    fill_reply(conn, &ask);
    if (render) {
        answer_render(conn, &ask, &ids, &media);
        goto out;
    }
    if (s->phase == PHASE_PREFILL) {
        if (!shake_hands(conn, &ask))
            goto out;
    } else if (s->phase == PHASE_ENCODE) {
        add_embeddings(&s->reply, &media);
    } else if (options.kv == KV_MODE_NIXL && books_fetches_nothing(ask.kv)) {
        /* An assertion of the NIXL scheduler (docs/engine.md): the engine does not survive it, worker-sim does. */
        answer_error(conn, TEXT("EngineCore encountered an issue. See stack trace (above) for the root cause."),
                     "InternalServerError", NULL, 500);
        goto out;
    } else if (books_collect(ask.kv, &ask.prompt)) {
        fill_transferred(s);
    }
    if (ask.stream) {
        begin_stream(conn);
    } else if (s->fault.first_token_delay > 0) {
        s->stage = STAGE_FIRST_TOKEN;
        conn_arm(conn, loop_now() + s->fault.first_token_delay);
    } else {
        answer_whole(conn);
    }
out:
    buf_free(&ids);
    buf_free(&media);
}

/* The engine takes no other media type; parameters are free. */
static bool is_json(struct text type)
{
    const char *parameters = type.at ? memchr(type.at, ';', type.len) : NULL;
    if (parameters)
        type.len = (size_t)(parameters - type.at);
    return text_is_nocase(text_trim(type), json_type);
}

static bool probe_misses(const struct http_request *request)
{
    struct text wish = http_header(request, "x-sim-probe");
    if (text_is_nocase(wish, "miss") || text_is_nocase(wish, "hit"))
        return text_is_nocase(wish, "miss");
    return chance(options.probe_412);
}

/* ---- pages ---- */

static void page(struct conn *conn, void (*write)(struct buf *out, const struct http_request *request))
{
    struct buf body = {0};
    write(&body, &conn->request);
    answer(conn, 200, buf_left(&body) ? json_type : NULL, buf_view(&body));
    buf_free(&body);
}

static void write_models(struct buf *out, const struct http_request *request)
{
    (void)request;
    page_models(out, &options);
}

static void write_health(struct buf *out, const struct http_request *request)
{
    (void)out;
    (void)request;
}

static void write_stats(struct buf *out, const struct http_request *request)
{
    (void)request;
    page_stats(out, &state.counts, conn_open_count());
}

static void write_reset(struct buf *out, const struct http_request *request)
{
    (void)request;
    uint64_t active = state.counts.active;
    state.counts = (struct counts){.active = active};
    books_reset();
    buf_text(out, "{}");
}

static const struct {
    const char *path;
    const char *method; /* NULL: any */
    bool control;
    void (*write)(struct buf *out, const struct http_request *request);
} pages[] = {
    {"/v1/models", "GET", false, write_models}, {"/health", "GET", false, write_health},
    {"/sim/echo", NULL, false, page_echo},      {"/sim/stats", "GET", true, write_stats},
    {"/sim/reset", "POST", true, write_reset},
};
enum { PAGES = sizeof pages / sizeof *pages };

static size_t page_find(struct text path)
{
    for (size_t i = 0; i < PAGES; i++)
        if (text_is(path, pages[i].path))
            return i;
    return PAGES;
}

/* ---- the way of a request ---- */

static void act(struct conn *conn)
{
    struct serving *s = conn->serving;
    bool render, post = text_is(conn->request.method, "POST");
    size_t place = page_find(http_path(&conn->request));
    s->api = api_find(http_path(&conn->request), &render);
    if (s->bad_spec.at) {
        struct buf message = {0};
        buf_text(&message, "x-sim-fault: cannot read: ");
        buf_add(&message, s->bad_spec.at, s->bad_spec.len);
        answer_error(conn, buf_view(&message), "BadRequestError", "x-sim-fault", 400);
        buf_free(&message);
    } else if (s->fault.status >= 0) {
        answer_injected(conn, (int)s->fault.status);
    } else if (place < PAGES) {
        if (pages[place].method && !text_is(conn->request.method, pages[place].method) &&
            !text_is(conn->request.method, "HEAD"))
            answer_detail(conn, "Method Not Allowed", pages[place].method, 405);
        else
            page(conn, pages[place].write);
    } else if (!s->api) {
        answer_detail(conn, "Not Found", NULL, 404);
    } else if (!post) {
        answer_detail(conn, "Method Not Allowed", "POST", 405);
    } else if (!is_json(http_header(&conn->request, "content-type"))) {
        answer_general_error(conn,
                             TEXT("1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed"),
                             "Bad Request", 400);
    } else if (s->phase == PHASE_PROBE && probe_misses(&conn->request)) {
        answer_error(conn, TEXT("no decode worker has the prefix"), "Precondition Failed", NULL, 412);
    } else {
        infer(conn, render);
    }
}

static void count(struct conn *conn, bool whole)
{
    struct serving *s = conn->serving;
    if (s->control)
        return;
    record_request(&conn->request, phase_name(s->phase), conn->id, conn->served, whole);
    s->counted = true;
    state.counts.requests[s->phase]++;
    state.counts.active++;
}

void serve_head(struct conn *conn)
{
    struct serving *s = calloc(1, sizeof *s);
    if (!s)
        abort();
    conn->serving = s;
    size_t place = page_find(http_path(&conn->request));
    s->control = place < PAGES && pages[place].control;
    s->phase = phase_of(&conn->request);
    fault_init(&s->fault);
    bool faulty = !s->control && gather_faults(s, &conn->request);
    conn->fault = faulty ? &s->fault : NULL;
    if (s->fault.close_idle >= 0)
        conn->close_idle = s->fault.close_idle;
    if (!s->fault.refuse_body || conn->request.place == HTTP_AT_END)
        return;
    count(conn, false);
    conn->close_after = true;
    bool render;
    s->api = api_find(http_path(&conn->request), &render);
    answer_injected(conn, s->fault.status >= 0 ? (int)s->fault.status : 413);
}

void serve_request(struct conn *conn)
{
    struct serving *s = conn->serving;
    count(conn, true);
    int64_t delay = s->fault.delay >= 0 ? s->fault.delay : s->control ? 0 : options.delays[s->phase];
    s->stage = STAGE_DELAY;
    if (s->fault.silence)
        s->stage = STAGE_SILENT;
    else if (delay > 0)
        conn_arm(conn, loop_now() + delay);
    else
        act(conn);
}

void serve_due(struct conn *conn)
{
    struct serving *s = conn->serving;
    switch (s->stage) {
    case STAGE_DELAY:
        act(conn);
        break;
    case STAGE_FIRST_TOKEN:
        answer_whole(conn);
        break;
    case STAGE_STREAM:
        stream_due(&s->stream, conn);
        break;
    case STAGE_SILENT:
    case STAGE_ANSWERED:
        break;
    }
}

void serve_writable(struct conn *conn)
{
    struct serving *s = conn->serving;
    if (s && s->stage == STAGE_STREAM)
        stream_writable(&s->stream, conn);
}

void serve_over(struct conn *conn, bool broken)
{
    struct serving *s = conn->serving;
    if (!s)
        return;
    conn->serving = NULL;
    if (s->counted) {
        state.counts.active--;
        state.counts.cancelled += broken;
        state.counts.cancelled_in[s->phase] += broken;
    }
    reply_free(&s->reply);
    fault_free(&s->fault);
    free(s);
}
