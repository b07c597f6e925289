/*
 * Unit test of a whole coordinator when memory is short: for the length of a request one allocation of the reactor fails, or
 * all from one on. The client gets an answer or a cut connection, never nothing; the next request is served as if nothing had
 * been. The program brings its own allocator functions, which fail on demand on that thread and otherwise go to the next ones.
 */
#include <coordinator/testkit.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A checker that is linked into the program has no next malloc that its free would know; gcc's libasan has. */
#if defined(__clang__)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define ONE_MALLOC
#endif
#elif defined(__SANITIZE_THREAD__)
#define ONE_MALLOC
#endif

enum { MOST_ALLOCATIONS = 4000 };

static const int64_t PATIENCE_NS = INT64_C(5000000000);

static _Thread_local bool on_reactor;
static atomic_long left = -1; /* allocations until one fails; -1: none does */
static atomic_bool all_from_there;
static atomic_long failed;

#ifndef ONE_MALLOC
/* They run before a checker is ready: nothing in them is checked, and the checker's own is called by its name. */
#define UNCHECKED __attribute__((no_sanitize("address", "undefined")))

extern void *__interceptor_malloc(size_t size) __attribute__((weak));
extern void *__interceptor_calloc(size_t count, size_t size) __attribute__((weak));
extern void *__interceptor_realloc(void *memory, size_t size) __attribute__((weak));

UNCHECKED static bool fails(void)
{
    if (!on_reactor || left < 0)
        return false;
    if (left > 0) {
        left--;
        return false;
    }
    if (!all_from_there)
        left = -1;
    failed++;
    return true;
}

/* The shared library has to see them. */
#pragma GCC visibility push(default)

UNCHECKED void *malloc(size_t size)
{
    static void *(*next)(size_t);

    if (fails())
        return NULL;
    if (__interceptor_malloc)
        return __interceptor_malloc(size);
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "malloc");
    return next(size);
}

UNCHECKED void *calloc(size_t count, size_t size)
{
    static void *(*next)(size_t, size_t);

    if (fails())
        return NULL;
    if (__interceptor_calloc)
        return __interceptor_calloc(count, size);
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "calloc");
    return next(count, size);
}

UNCHECKED void *realloc(void *memory, size_t size)
{
    static void *(*next)(void *, size_t);

    if (fails())
        return NULL;
    if (__interceptor_realloc)
        return __interceptor_realloc(memory, size);
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "realloc");
    return next(memory, size);
}

#pragma GCC visibility pop
#endif

static coord_status mark_execute(void *state, coord_request *request)
{
    (void)state;
    (void)request;
    return COORD_NEXT;
}

static coord_status mark_thread(void *state, void **local, coord_error *error)
{
    (void)state;
    (void)local;
    (void)error;
    on_reactor = true;
    return COORD_OK;
}

static const coord_step_type MARK = {.size = sizeof MARK,
                                     .name = "mark",
                                     .help = "Notes the reactor's thread.",
                                     .execute = mark_execute,
                                     .thread_start = mark_thread};

COORD_PLUGIN(.name = "mark", .version = "1", .licence = "Apache-2.0",
             .steps = (const coord_step_type *const[]){&MARK, NULL})

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static coord_kit *kit;

#define STREAM_HEADERS "Content-Type", "text/event-stream"
#define EVENT "data: {\"choices\":[{\"delta\":{\"content\":\"word\"}}]}\n\n"
#define USAGE "\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1,\"total_tokens\":4}"

/* So that what is kept of a head needs memory of its own. */
static char large[5000];

static void script(void)
{
    static const char *const stream[] = {STREAM_HEADERS, "X-Large", large, NULL};
    static const coord_kit_piece pieces[] = {{.bytes = COORD_SLICE(EVENT)},
                                             {.bytes = COORD_SLICE("data: {\"choices\":[]," USAGE "}\n")},
                                             {.bytes = COORD_SLICE("\ndata: [DONE]\n\n")}};

    memset(large, 'l', sizeof large - 1);
    coord_kit_on(kit, &(coord_kit_rule){.upstream = "render", .body = COORD_SLICE("{\"token_ids\":[1,2,3]}")});
    coord_kit_on(kit, &(coord_kit_rule){.phase = "prefill",
                                        .body = COORD_SLICE("{\"kv_transfer_params\":{\"remote_engine_id\":\"e\"},"
                                                            "\"usage\":{\"prompt_tokens\":3,\"prompt_tokens_details\":"
                                                            "{\"cached_tokens\":2}}}")});
    coord_kit_on(kit, &(coord_kit_rule){.header = "x-stream",
                                        .value = "1",
                                        .headers = stream,
                                        .pieces = pieces,
                                        .piece_count = sizeof pieces / sizeof *pieces});
    coord_kit_on(kit,
                 &(coord_kit_rule){.body = COORD_SLICE("{\"choices\":[{\"message\":{\"content\":\"w\"}}]," USAGE "}")});
}

static int setup(void **state)
{
    (void)state;
    kit = coord_kit_start(&(coord_kit_options){
        .size = sizeof(coord_kit_options),
        .reactors = 1,
        .patience_ns = PATIENCE_NS,
        .yaml = "log_level: 0\n"
                "pipeline: {kv_connector: kv-nixl, steps: [{type: mark},\n"
                "  {type: render, params: {address: \"http://render.kit\"}}, {type: prefill}, {type: decode}]}\n",
        .plugins = (const coord_plugin_descriptor *const[]){&coord_plugin, NULL}});
    if (!kit)
        fail_msg("%s", coord_kit_problem());
    script();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    atomic_store(&left, -1);
    return coord_kit_stop(kit) ? 0 : -1;
}

struct kind {
    const char *name, *target;
    const char *body;
    bool stream, chunked, verbatim; /* verbatim: the worker gets the very body, or nobody learns of success */
};

static const struct kind KINDS[] = {
    {"chat", "/v1/chat/completions", "{\"model\":\"m\",\"messages\":[],\"kv_transfer_params\":{},\"a\\u0062\":1}",
     false, false, false},
    {"a chat stream", "/v1/chat/completions", "{\"model\":\"m\",\"messages\":[],\"stream\":true}", true, false, false},
    {"passthrough", "/elsewhere", "{}", false, false, true},
    {"passthrough in chunks", "/elsewhere", "{}", false, true, true},
};

/* A chunked body with a gap would be whole for the worker. */
static void assert_worker_got(const struct kind *kind)
{
    const coord_kit_message *leg = coord_kit_leg(kit, NULL, coord_kit_leg_count(kit, NULL) - 1);

    if (!leg || !coord_slice_is(leg->body, kind->body))
        fail_msg("%s: the worker got another body", kind->name);
}

/* True: whole. It fails when neither an answer nor an end came. */
static bool ask(const struct kind *kind, int32_t *status)
{
    static const char *const stream[] = {"x-stream", "1", NULL}, *const chunks[] = {"Transfer-Encoding", "chunked",
                                                                                    NULL};
    int64_t began = now_ns();
    coord_kit_client *client = coord_kit_send(kit, &(coord_kit_request){.target = kind->target,
                                                                        .headers = kind->stream    ? stream
                                                                                   : kind->chunked ? chunks
                                                                                                   : NULL,
                                                                        .body = coord_slice_of(kind->body)});
    bool whole = client && coord_kit_read(client, COORD_KIT_ALL);

    *status = whole ? coord_kit_answer(client)->status : 0;
    if (now_ns() - began >= PATIENCE_NS)
        fail_msg("%s: neither an answer nor an end", kind->name);
    if (client)
        coord_kit_leave(client);
    if (*status == 200 && kind->verbatim)
        assert_worker_got(kind);
    return whole;
}

static void without(const struct kind *kind, long allocations, bool all)
{
    int32_t status;

    atomic_store(&all_from_there, all);
    atomic_store(&left, allocations);
    if (ask(kind, &status) && status != 200 && (status < 500 || status > 503))
        fail_msg("%s without allocation %ld: status %d", kind->name, allocations, (int)status);
    atomic_store(&left, -1);
    if (!ask(kind, &status) || status != 200)
        fail_msg("%s: status %d after a request without allocation %ld", kind->name, (int)status, allocations);
}

static void a_request_without_memory_is_answered_or_cut(void **state)
{
    int32_t status;

    (void)state;
    assert_true(ask(&KINDS[0], &status));
    for (size_t k = 0; k < sizeof KINDS / sizeof *KINDS; k++)
        for (int all = 0; all < 2; all++) {
            long allocations = 0, before;

            do {
                before = atomic_load(&failed);
                without(&KINDS[k], allocations++, all);
            } while (atomic_load(&failed) > before && allocations < MOST_ALLOCATIONS);
            print_message("  %s: %ld allocations%s\n", KINDS[k].name, allocations - 1, all ? ", all from there" : "");
            assert_in_range(allocations, 1, MOST_ALLOCATIONS - 1);
        }
}

/*
 * No leg has left anything behind: what the second one finds there, the first one has to allocate. The room for timers is made
 * before: without it the process ends, as it is meant to.
 */
static void a_first_request_without_memory_is_answered_or_cut(void **state)
{
    for (size_t k = 0; k < sizeof KINDS / sizeof *KINDS; k++) {
        static const struct kind refused = {
            "a request that is refused", "/v1/chat/completions", "{", false, false, false};
        long allocations = 0, before;
        int32_t status;

        do {
            setup(state);
            ask(&refused, &status);
            assert_int_equal(status, 400);
            before = atomic_load(&failed);
            without(&KINDS[k], allocations++, false);
            assert_int_equal(teardown(state), 0);
        } while (atomic_load(&failed) > before && allocations < MOST_ALLOCATIONS);
        print_message("  %s: %ld allocations\n", KINDS[k].name, allocations - 1);
        assert_in_range(allocations, atomic_load(&failed) > 0 ? 2 : 1, MOST_ALLOCATIONS - 1);
    }
    if (atomic_load(&failed) == 0)
        print_message("memory cannot be made short under this checker\n");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_first_request_without_memory_is_answered_or_cut),
        cmocka_unit_test_setup_teardown(a_request_without_memory_is_answered_or_cut, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
