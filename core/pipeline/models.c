/* See models.h. Everything lives in the exchange's arena but the bodies, which go when the answer is put together. */
#include "pipeline/models.h"

#include "pipeline/cors.h"
#include "pipeline/outcome.h"
#include "pipeline/worker.h"
#include "telemetry/log.h"

#include <coordinator/document.h>

enum { PLACES = 1024, MOST = 10000 /* models of one gateway: each is looked at on the reactor */ };

/* One gateway's list. */
struct part {
    struct models *models;
    const struct gateway_settings *gateway;
    struct leg *leg; /* running */
    struct headers headers;
    int32_t status;
    struct buffer body;
    const char *problem;  /* why it is left out; NULL: it is not */
    int32_t means_status; /* what the client is told if all are left out */
};

struct models {
    struct visit *visit;
    struct part *parts;
    size_t count, waiting;
    bool over;
};

/* Ids that have come, by hash. */
struct seen {
    struct seen *next;
    coord_slice id;
};

bool models_wanted(const struct visit *visit)
{
    return coord_slice_is(visit->path, "/v1/models") && coord_slice_is(exchange_method(visit->exchange), "GET") &&
           exchange_declared_length(visit->exchange) == 0 && visit->generation->settings->gateway_count > 1;
}

static void leave_out(struct part *part, int32_t means_status, const char *problem)
{
    part->problem = problem;
    part->means_status = means_status;
    coord_logf(NULL, COORD_LOG_WARNING, "the models of gateway %.*s are left out of the list for request %.*s: %s",
               COORD_FMT(part->gateway->name), COORD_FMT(part->models->visit->id), problem);
}

static void release(struct models *models)
{
    for (size_t i = 0; i < models->count; i++)
        buffer_release(&models->parts[i].body);
}

/* ---- Joining ---- */

static size_t place_of(coord_slice id)
{
    size_t hash = 5381;

    for (size_t i = 0; i < id.size; i++)
        hash = hash * 33 + (unsigned char)id.data[i];
    return hash % PLACES;
}

/* True when the entry's id is new, or it has none. An entry that cannot be noted is taken for new. */
static bool is_new(struct arena *arena, struct seen **places, coord_slice entry)
{
    coord_document *document = coord_document_parse_new(entry, NULL, NULL);
    struct seen **place, *seen;
    coord_slice id;
    bool new = true;

    if (document && coord_document_type(document, "") == COORD_JSON_OBJECT &&
        coord_document_get_string(document, "/id", &id) == COORD_OK) {
        place = &places[place_of(id)];
        for (seen = *place; seen && new; seen = seen->next)
            new = !coord_slice_equal(seen->id, id);
        seen = new ? arena_alloc(arena, sizeof *seen) : NULL;
        if (seen) {
            *seen = (struct seen){*place, arena_copy(arena, id)};
            *place = seen;
        }
    }
    coord_document_free(document);
    return new;
}

static bool add_entries(struct arena *arena, struct seen **places, coord_document *list, struct buffer *out)
{
    coord_slice entry;
    size_t cursor = 0;

    while (coord_document_next(list, "/data", &cursor, NULL, &entry) == COORD_OK)
        if (is_new(arena, places, entry) &&
            ((out->data[out->size - 1] != '[' && !buffer_append(out, ",", 1)) || !buffer_append_slice(out, entry)))
            return false;
    return true;
}

static bool add_part(struct part *part, struct arena *arena, struct seen **places, struct buffer *out)
{
    coord_document *list;
    bool added = true;

    if (part->problem)
        return true;
    list = coord_document_parse_new(buffer_slice(&part->body), NULL, NULL);
    if (!list || coord_document_type(list, "/data") != COORD_JSON_ARRAY)
        leave_out(part, 502, "its answer is no list of models");
    else if (coord_document_count(list, "/data") > MOST)
        leave_out(part, 502, "its list has more than 10,000 models");
    else
        added = add_entries(arena, places, list, out);
    coord_document_free(list);
    return added;
}

/* False: memory is short. */
static bool join(struct models *models, struct buffer *out)
{
    struct arena *arena = exchange_arena(models->visit->exchange);
    struct seen **places = arena_alloc(arena, PLACES * sizeof(struct seen *));

    if (!places || !buffer_append_text(out, "{\"object\":\"list\",\"data\":["))
        return false;
    for (size_t i = 0; i < models->count; i++)
        if (!add_part(&models->parts[i], arena, places, out))
            return false;
    return buffer_append_text(out, "]}");
}

/* ---- Answering ---- */

/* The first one's trouble, when there is no list at all; NULL: there is one. */
static const struct part *all_left_out(const struct models *models)
{
    for (size_t i = 0; i < models->count; i++)
        if (!models->parts[i].problem)
            return NULL;
    return &models->parts[0];
}

static void answer_list(struct visit *visit, coord_slice text)
{
    struct headers headers = {.arena = exchange_arena(visit->exchange)};

    if (!headers_add_borrowed(&headers, (coord_slice)COORD_SLICE("Content-Type"),
                              (coord_slice)COORD_SLICE("application/json")) ||
        !headers_add_borrowed(&headers, (coord_slice)COORD_SLICE("x-request-id"), visit->id) ||
        !cors_allow(&headers, exchange_headers(visit->exchange), visit->generation->settings) ||
        exchange_answer(visit->exchange, 200, &headers, text) != COORD_OK)
        exchange_abort(visit->exchange);
}

static void answer(struct models *models)
{
    struct buffer text = {0};
    bool joined = join(models, &text);
    const struct part *trouble = all_left_out(models);

    models->over = true;
    if (trouble)
        front_answer_error(models->visit, trouble->means_status, NULL, NULL, "no gateway has told its models");
    else if (!joined)
        front_answer_error(models->visit, 503, "overloaded", NULL, "no memory for the list of models");
    else
        answer_list(models->visit, buffer_slice(&text));
    buffer_release(&text);
    release(models);
}

/* ---- Asking ---- */

static void on_head(struct leg *leg, const struct leg_head *head)
{
    struct part *part = leg_owner(leg);

    part->status = head->status;
}

static void end(struct part *part)
{
    part->leg = NULL;
    if (--part->models->waiting == 0 && !part->models->over)
        answer(part->models);
}

static void on_data(struct leg *leg, coord_slice bytes)
{
    struct part *part = leg_owner(leg);

    if (buffer_append_slice(&part->body, bytes))
        return;
    leg_cancel(leg);
    leave_out(part, 502, "its answer is larger than response.inspect_limit");
    end(part);
}

static void on_end(struct leg *leg, const struct leg_result *result)
{
    struct part *part = leg_owner(leg);

    if (result->outcome != LEG_COMPLETE)
        leave_out(part, leg_outcome_status(result->outcome), leg_outcome_words(result->outcome));
    else if (part->status != 200)
        leave_out(part, 502, "its status is not 200");
    end(part);
}

static const struct leg_events EVENTS = {.head = on_head, .data = on_data, .end = on_end};

/* What would make an answer something else than a list to read. */
static bool stays(coord_slice name)
{
    static const char *const NOT[] = {"accept-encoding", "if-none-match", "if-modified-since", "if-range", "range"};

    for (size_t i = 0; i < sizeof NOT / sizeof *NOT; i++)
        if (header_name_is(name, NOT[i]))
            return false;
    return true;
}

static bool make_headers(struct part *part, const struct visit *visit)
{
    struct headers all;

    headers_init(&all, exchange_arena(visit->exchange));
    headers_init(&part->headers, exchange_arena(visit->exchange));
    if (!passthrough_headers(&all, visit, part->gateway))
        return false;
    for (size_t i = 0; i < all.count; i++)
        if (stays(all.list[i].name) && !headers_add_borrowed(&part->headers, all.list[i].name, all.list[i].value))
            return false;
    return headers_add_borrowed(&part->headers, (coord_slice)COORD_SLICE("Accept-Encoding"),
                                (coord_slice)COORD_SLICE("identity"));
}

static void ask(struct part *part, const struct coord_upstream *upstream)
{
    const struct visit *visit = part->models->visit;
    void *memory = arena_alloc(exchange_arena(visit->exchange), leg_size());

    if (memory && make_headers(part, visit))
        part->leg = leg_start(memory, generation_upstream(visit->generation, visit->worker->index, upstream),
                              &(struct leg_request){.method = exchange_method(visit->exchange),
                                                    .target = exchange_target(visit->exchange),
                                                    .headers = part->headers.list,
                                                    .header_count = part->headers.count,
                                                    .head_timeout_ns = part->gateway->timeout_ns,
                                                    .idle_timeout_ns = part->gateway->idle_timeout_ns,
                                                    .total_timeout_ns = part->gateway->total_timeout_ns},
                              &EVENTS, part);
    if (part->leg)
        part->models->waiting++;
    else
        leave_out(part, 503, "memory is short");
}

void models_start(struct visit *visit)
{
    const struct settings *settings = visit->generation->settings;
    struct arena *arena = exchange_arena(visit->exchange);
    struct models *models = arena_alloc(arena, sizeof *models);
    struct part *parts = arena_alloc(arena, settings->gateway_count * sizeof *parts);

    if (!models || !parts) {
        front_answer_error(visit, 503, "overloaded", NULL, "no memory for another request");
        return;
    }
    *models = (struct models){.visit = visit, .parts = parts, .count = settings->gateway_count};
    visit->models = models;
    exchange_hold(visit->exchange);
    for (size_t i = 0; i < models->count; i++) {
        parts[i] = (struct part){
            .models = models, .gateway = settings->gateways[i], .body.limit = settings->response.inspect_limit};
        ask(&parts[i], visit->generation->gateways[i]);
    }
    if (models->waiting == 0)
        answer(models);
}

void models_stop(struct models *models)
{
    if (models->over)
        return;
    models->over = true;
    for (size_t i = 0; i < models->count; i++)
        if (models->parts[i].leg)
            leg_cancel(models->parts[i].leg);
    release(models);
}
