/* Passthrough: an exchange that is no API of ours goes to the gateway as it is (decision 8), streamed both ways.
 *
 * The upload goes through a small buffer from the exchange to the leg; the answer goes from the leg straight to the
 * exchange. An answer that comes before the upload has ended is held (decision 67): up to EARLY_LIMIT it is answered at once,
 * a larger one begins when the client has sent all. Everything lives in the exchange's arena; the leg never outlives it. */
#include "pipeline/front.h"

#include "http/path.h"
#include "pipeline/cors.h"
#include "pipeline/leg_headers.h"
#include "pipeline/models.h"
#include "pipeline/outcome.h"
#include "pipeline/worker.h"
#include "telemetry/log.h"

#include <stdio.h>

enum { UPLOAD_ROOM = 65536, EARLY_LIMIT = 65536 };

struct passthrough {
    struct visit *visit;
    struct generation *generation;
    struct leg *leg;      /* running */
    struct buffer upload; /* from the client, not yet taken by the leg */
    bool uploads, upload_over;
    bool torn; /* a part of it was thrown away */
    bool head_seen, begun, over, paused;
    int32_t status;
    int64_t length;
    struct headers headers; /* of the answer, as the client gets them */
    struct buffer early;    /* answer bytes that came before the upload's end */
    bool early_whole;
    int64_t began_ns;
};

static bool gone(const struct passthrough *self) { return self->over || exchange_is_gone(self->visit->exchange); }

static void release(struct passthrough *self)
{
    buffer_release(&self->upload);
    buffer_release(&self->early);
}

static void write_line(const struct passthrough *self)
{
    coord_slice path = path_of_target(exchange_target(self->visit->exchange), NULL); /* as it was sent */

    coord_log(NULL, COORD_LOG_INFO, "passthrough",
              (coord_field[]){LOG_TEXT_FIELD("request", self->visit->id),
                              LOG_TEXT_FIELD("method", exchange_method(self->visit->exchange)),
                              LOG_TEXT_FIELD("path", path), LOG_INT_FIELD("status", self->status),
                              LOG_SECONDS_FIELD("seconds", reactor_now(self->visit->worker->reactor) - self->began_ns)},
              5);
}

static void finish(struct passthrough *self)
{
    if (self->over)
        return;
    self->over = true;
    release(self);
    write_line(self);
}

static void begin(struct passthrough *self)
{
    self->begun = true;
    if (exchange_begin(self->visit->exchange, self->status, &self->headers, self->length) != COORD_OK) {
        passthrough_stop(self);
        return;
    }
    if (self->early.size > 0)
        exchange_write(self->visit->exchange, buffer_slice(&self->early));
    buffer_release(&self->early);
    if (self->early_whole)
        exchange_end(self->visit->exchange);
}

/* Before an answer has begun. */
static void run_short(struct passthrough *self)
{
    leg_cancel(self->leg);
    self->leg = NULL;
    self->status = 500;
    front_answer_error(self->visit, self->status, NULL, NULL, "memory is short");
    finish(self);
}

static void on_head(struct leg *leg, const struct leg_head *head)
{
    struct passthrough *self = leg_owner(leg);
    struct arena *arena = exchange_arena(self->visit->exchange);
    struct headers borrowed; /* from the leg, which does not keep it */

    self->head_seen = true;
    self->status = head->status;
    self->length = head->length;
    headers_init(&borrowed, arena);
    headers_init(&self->headers, arena);
    if (!client_headers(&borrowed, &head->headers, self->visit->id) ||
        !cors_allow(&borrowed, exchange_headers(self->visit->exchange), self->generation->settings) ||
        !headers_copy(&self->headers, &borrowed)) {
        run_short(self);
        return;
    }
    if (!self->uploads || self->upload_over)
        begin(self);
}

static void on_data(struct leg *leg, coord_slice bytes)
{
    struct passthrough *self = leg_owner(leg);
    const struct settings *settings = self->generation->settings;
    size_t queued;

    if (gone(self))
        return;
    if (self->begun) {
        queued = exchange_write(self->visit->exchange, bytes);
    } else {
        if (!buffer_append_slice(&self->early, bytes)) {
            run_short(self);
            return;
        }
        queued = self->early.size > EARLY_LIMIT ? settings->response.buffer_high : 0;
    }
    if (queued >= settings->response.buffer_high && !self->paused) {
        self->paused = true;
        leg_pause(leg);
        if (!self->begun)
            exchange_upload_more(self->visit->exchange); /* it is forgotten from now on */
    }
}

static void fail(struct passthrough *self, const struct leg_result *result)
{
    char message[128];

    snprintf(message, sizeof message, "gateway: %s", leg_outcome_words(result->outcome));
    coord_logf(NULL, COORD_LOG_VERBOSE, "passthrough %.*s: %s", COORD_FMT(self->visit->id),
               result->detail ? result->detail : message);
    if (self->begun) {
        exchange_abort(self->visit->exchange);
    } else {
        self->status = leg_outcome_status(result->outcome);
        front_answer_error(self->visit, self->status, NULL, NULL, message);
    }
    finish(self);
}

static void on_end(struct leg *leg, const struct leg_result *result)
{
    struct passthrough *self = leg_owner(leg);
    struct exchange *exchange = self->visit->exchange;

    self->leg = NULL;
    if (gone(self))
        return;
    if (result->outcome != LEG_COMPLETE) {
        fail(self, result);
        return;
    }
    self->early_whole = true;
    if (self->begun)
        exchange_end(exchange);
    else if (self->early.size <= EARLY_LIMIT &&
             exchange_answer(exchange, self->status, &self->headers, buffer_slice(&self->early)) != COORD_OK)
        exchange_abort(exchange);
    else if (self->early.size > EARLY_LIMIT) { /* the rest of the upload is drained first */
        exchange_upload_more(exchange);
        return;
    }
    finish(self);
}

static size_t on_upload(struct leg *leg, char *room, size_t size)
{
    struct passthrough *self = leg_owner(leg);
    size_t taken = self->upload.size < size ? self->upload.size : size;
    bool was_full = self->upload.size >= UPLOAD_ROOM;

    if (self->torn)
        return LEG_UPLOAD_TORN;
    if (taken == 0)
        return self->upload_over ? LEG_UPLOAD_END : 0;
    memcpy(room, self->upload.data, taken);
    buffer_drop(&self->upload, taken);
    if (was_full && self->upload.size < UPLOAD_ROOM)
        exchange_upload_more(self->visit->exchange);
    return taken;
}

static const struct leg_events EVENTS = {.head = on_head, .data = on_data, .end = on_end, .upload = on_upload};

/* The worker needs no more of the upload, or its answer cannot begin before the client has sent all (decision 67). */
static bool forgets(const struct passthrough *self) { return !self->leg || (self->paused && !self->begun); }

/* So many bytes are thrown away: what the worker has got is not the whole. */
static void tear(struct passthrough *self, size_t size)
{
    if (self->torn || !self->leg || size == 0)
        return;
    self->torn = true;
    leg_upload_more(self->leg);
}

static size_t take_upload(struct passthrough *self, coord_slice piece)
{
    size_t room = self->upload.size < UPLOAD_ROOM ? UPLOAD_ROOM - self->upload.size : 0;
    size_t taken = piece.size < room ? piece.size : room;

    if (forgets(self)) {
        tear(self, piece.size);
        return piece.size;
    }
    if (!buffer_append(&self->upload, piece.data, taken)) { /* the worker must not take what it has for the whole */
        run_short(self);
        return piece.size;
    }
    leg_upload_more(self->leg);
    return taken;
}

size_t passthrough_upload(struct passthrough *self, coord_slice piece, bool last)
{
    size_t taken;

    if (last)
        self->upload_over = true;
    taken = take_upload(self, piece);
    if (last && self->head_seen && !self->begun && !gone(self)) {
        begin(self);
        if (self->early_whole)
            finish(self);
        else
            passthrough_drained(self);
    }
    return taken;
}

void passthrough_drained(struct passthrough *self)
{
    if (!self->paused || !self->begun)
        return;
    self->paused = false;
    if (self->leg)
        leg_resume(self->leg);
}

void passthrough_stop(struct passthrough *self)
{
    if (self->leg)
        leg_cancel(self->leg);
    self->leg = NULL;
    finish(self);
}

bool passthrough_headers(struct headers *to, const struct visit *visit, const struct gateway_settings *gateway)
{
    const struct headers *from = exchange_headers(visit->exchange);
    coord_slice tracestate;
    struct trace_context trace = leg_headers_read_trace(from, &tracestate);

    if (!leg_headers_passthrough(to, from, visit->generation->settings))
        return false;
    for (size_t i = 0; i < gateway->phase_header_count; i++)
        if (!headers_add_borrowed(to, gateway->phase_headers[i], (coord_slice)COORD_SLICE(COORD_PHASE_DECODE)))
            return false;
    return headers_add_known(to, HEADER_REQUEST_ID, visit->id) && leg_headers_add_trace(to, &trace, tracestate);
}

/* What can be said before anything is sent. */
static bool refuse(struct visit *visit)
{
    struct exchange *exchange = visit->exchange;
    coord_slice target = exchange_target(exchange);

    if (headers_first(exchange_headers(exchange), HEADER_UPGRADE))
        front_answer_error(visit, 501, NULL, NULL, "protocol upgrades are not supported");
    else if (!header_name_valid(exchange_method(exchange)))
        front_answer_error(visit, 400, "invalid_request", NULL, "the request method is not a token");
    else if (!path_target_valid(target))
        front_answer_error(visit, 400, "invalid_request", NULL,
                           "the request target holds bytes that may not stand there");
    else if (target.size == 0 || target.data[0] != '/')
        front_answer_error(visit, 405, NULL, NULL, "the request target must begin with a slash");
    else
        return false;
    return true;
}

static struct leg *start_leg(struct passthrough *self, void *memory, const struct headers *headers)
{
    const struct visit *visit = self->visit;
    const struct generation *generation = self->generation;
    const struct gateway_settings *gateway = &generation->settings->gateway;

    return leg_start(memory, generation_upstream(self->generation, visit->worker->index, generation->gateway),
                     &(struct leg_request){.method = exchange_method(visit->exchange),
                                           .target = exchange_target(visit->exchange),
                                           .headers = headers->list,
                                           .header_count = headers->count,
                                           .streamed = self->uploads,
                                           .stream_length = exchange_declared_length(visit->exchange),
                                           .head_timeout_ns = gateway->response_timeout_ns,
                                           .idle_timeout_ns = gateway->idle_timeout_ns,
                                           .total_timeout_ns = gateway->total_timeout_ns},
                     &EVENTS, self);
}

static void pass_on(struct visit *visit)
{
    struct exchange *exchange = visit->exchange;
    struct arena *arena = exchange_arena(exchange);
    struct passthrough *self = arena_alloc(arena, sizeof *self);
    void *memory = arena_alloc(arena, leg_size());
    struct headers headers;

    headers_init(&headers, arena);
    if (!self || !memory || !passthrough_headers(&headers, visit, &visit->generation->settings->gateway)) {
        front_answer_error(visit, 503, "overloaded", NULL, "no memory for another request");
        return;
    }
    *self = (struct passthrough){.visit = visit,
                                 .generation = visit->generation,
                                 .uploads = exchange_declared_length(exchange) != 0,
                                 .began_ns = reactor_now(visit->worker->reactor)};
    visit->passthrough = self;
    if (self->uploads)
        exchange_stream_body(exchange);
    else
        exchange_hold(exchange);
    self->leg = start_leg(self, memory, &headers);
    if (self->leg)
        return;
    self->status = 503; /* a leg that never began tells nobody of its end */
    front_answer_error(visit, self->status, "overloaded", NULL, "no memory for another request");
    finish(self);
}

void passthrough_start(struct visit *visit)
{
    if (refuse(visit))
        return;
    if (models_wanted(visit))
        models_start(visit);
    else if (visit->generation->gateway)
        pass_on(visit);
    else
        front_answer_error(visit, 404, NULL, NULL,
                           "this path is no API of ours, and there is no default gateway to pass it to");
}
