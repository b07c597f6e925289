/* Probes, and the metrics listener. */
#include "pipeline/front.h"

#include "pipeline/describe.h"
#include "pipeline/worker.h"
#include "telemetry/metrics.h"

#include <stdatomic.h>

static void answer_text(struct visit *visit, int32_t status, const char *type, coord_slice body)
{
    struct headers headers = {.arena = exchange_arena(visit->exchange)};

    if (!headers_add_borrowed(&headers, (coord_slice)COORD_SLICE("Content-Type"), coord_slice_of(type)) ||
        !headers_add_borrowed(&headers, (coord_slice)COORD_SLICE("x-request-id"), visit->id) ||
        exchange_answer(visit->exchange, status, &headers, body) != COORD_OK)
        exchange_abort(visit->exchange);
}

static bool is_read(struct visit *visit)
{
    coord_slice method = exchange_method(visit->exchange);

    if (coord_slice_is(method, "GET") || coord_slice_is(method, "HEAD"))
        return true;
    front_answer_error(visit, 405, NULL, "GET, HEAD", "this path takes GET and HEAD requests only");
    return false;
}

bool status_answer(struct visit *visit)
{
    bool ready = atomic_load(&visit->worker->service->ready);

    if (coord_slice_is(visit->path, "/healthz")) {
        if (is_read(visit))
            answer_text(visit, 200, "text/plain; charset=utf-8", (coord_slice)COORD_SLICE("ok"));
        return true;
    }
    if (!coord_slice_is(visit->path, "/readyz"))
        return false;
    if (!is_read(visit))
        return true;
    if (ready)
        answer_text(visit, 200, "text/plain; charset=utf-8", (coord_slice)COORD_SLICE("ok"));
    else
        front_answer_error(visit, 503, "draining", NULL, "not ready: starting or draining");
    return true;
}

static void answer_metrics(struct visit *visit)
{
    const struct header *accept = headers_find(exchange_headers(visit->exchange), (coord_slice)COORD_SLICE("accept"));
    bool openmetrics = accept && metrics_wants_openmetrics(accept->value);
    struct buffer page = {0};

    if (metrics_render(&page, openmetrics))
        answer_text(visit, 200, metrics_content_type(openmetrics), buffer_slice(&page));
    else
        front_answer_error(visit, 500, NULL, NULL, "memory is short");
    buffer_release(&page);
}

static void answer_pipelines(struct visit *visit)
{
    coord_json *json = coord_json_new();
    coord_slice text;

    describe_generation(visit->generation, json);
    if (coord_json_end(json, &text) == COORD_OK)
        answer_text(visit, 200, "application/json", text);
    else
        front_answer_error(visit, 500, NULL, NULL, "memory is short");
    coord_json_free(json);
}

/* What the metrics port serves besides the probes. */
static const struct {
    const char *path;
    void (*answer)(struct visit *visit);
} PAGES[] = {{"/metrics", answer_metrics}, {"/debug/pipelines", answer_pipelines}};
enum { PAGE_COUNT = sizeof PAGES / sizeof *PAGES };

static void status_head(void *context, struct exchange *exchange)
{
    struct visit *visit = front_begin(context, exchange);

    if (!visit)
        return;
    visit->api = api_none();
    if (status_answer(visit))
        return;
    for (size_t i = 0; i < PAGE_COUNT; i++)
        if (coord_slice_is(visit->path, PAGES[i].path)) {
            if (is_read(visit))
                PAGES[i].answer(visit);
            return;
        }
    front_answer_error(visit, 404, NULL, NULL, "this listener serves /metrics, /debug/pipelines, /healthz and /readyz");
}

struct server_app status_app(struct worker *worker)
{
    struct server_app app = front_app(worker);

    app.on_head = status_head;
    return app;
}
