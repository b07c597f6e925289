/*
 * An answer on its way through the writers of usage, without a network: a request with what the writers read of it, and a
 * client that writes down what reaches it. Shared by the unit tests and the fuzzer.
 */
#ifndef UNIT_ANSWER_FIXTURE_H
#define UNIT_ANSWER_FIXTURE_H

#include "pipeline/request.h"
#include "runtime/buffer.h"

#include <stdlib.h>

enum { FIXTURE_LIMIT = 16 << 20 };

struct fixture {
    struct settings settings;
    struct generation generation;
    struct coord_request request;
    struct coord_head head;
    /* What reached the client. */
    int32_t status; /* 0: no head */
    int64_t length;
    struct headers fields;
    struct buffer body;
    size_t pieces;
    int ends, aborts;
    /* What the observer said. */
    coord_usage seen;
    int seen_count;
};

static inline void fixture_head(void *context, struct coord_head *head)
{
    struct fixture *fixture = context;

    fixture->status = head->status;
    fixture->length = head->length;
    fixture->fields = head->headers;
}

static inline void fixture_data(void *context, coord_slice bytes)
{
    struct fixture *fixture = context;

    fixture->pieces++;
    if (!buffer_append_slice(&fixture->body, bytes))
        abort();
}

static inline void fixture_end(void *context) { ((struct fixture *)context)->ends++; }

static inline void fixture_abort(void *context) { ((struct fixture *)context)->aborts++; }

static inline void fixture_finished(void *context) { (void)context; }

static const struct chain_sink fixture_sink = {fixture_head, fixture_data, fixture_end, fixture_abort,
                                               fixture_finished};

/* `path`: of the API. */
static inline void fixture_begin(struct fixture *fixture, const char *path, size_t limit)
{
    *fixture = (struct fixture){0};
    fixture->settings.response.inspect_limit = limit;
    fixture->generation.settings = &fixture->settings;
    fixture->request.magic = REQUEST_MAGIC;
    fixture->request.generation = &fixture->generation;
    fixture->request.api = api_for_path(coord_slice_of(path));
    fixture->head = (struct coord_head){.status = 200, .length = -1};
    headers_init(&fixture->head.headers, &fixture->request.arena);
    chain_init(&fixture->request.chain, &fixture->request, &fixture->request.arena, &fixture_sink, fixture);
    if (!fixture->request.api)
        abort();
}

static inline void fixture_field(struct fixture *fixture, const char *name, const char *value)
{
    if (!headers_add(&fixture->head.headers, coord_slice_of(name), coord_slice_of(value)))
        abort();
}

static inline void fixture_seen(coord_request *request, const coord_usage *usage, void *argument)
{
    struct fixture *fixture = argument;

    if (request != &fixture->request)
        abort();
    fixture->seen = *usage;
    fixture->seen_count++;
}

/* What the client asked for, before anything is wrapped. */
static inline void fixture_asked(struct fixture *fixture, const char *body)
{
    fixture->request.body = coord_document_parse_new(coord_slice_of(body), NULL, NULL);
    if (!fixture->request.body)
        abort();
}

/* As a decode leg does: the editor first, so that the observer sees the worker's bytes. `cached`: below 0: none. */
static inline void fixture_wrap(struct fixture *fixture, int64_t cached, bool drops, bool observes)
{
    uint64_t count = (uint64_t)cached;

    if (coord_usage_edit(&fixture->request, cached >= 0 ? &count : NULL, drops) != COORD_OK ||
        (observes && coord_usage_observe(&fixture->request, fixture_seen, fixture) != COORD_OK))
        abort();
}

/* A piece in memory of its own, which is gone when the writer has returned. */
static inline void fixture_feed(struct fixture *fixture, const char *data, size_t size)
{
    char *piece = malloc(size ? size : 1);

    if (!piece)
        abort();
    memcpy(piece, data, size);
    chain_data(&fixture->request.chain, (coord_slice){piece, size});
    free(piece);
}

static inline void fixture_release(struct fixture *fixture)
{
    chain_release(&fixture->request.chain);
    buffer_release(&fixture->body);
    coord_document_free(fixture->request.body);
    fixture->request.body = NULL;
    arena_release(&fixture->request.arena);
    fixture->request.chain.writers = NULL;
}

#endif
