/* The writer chain between a sink that notes what arrives and writers that note what they are told. */
#include "response/chain.h"

#include "runtime/buffer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* A writer of the test: it notes its calls as letters behind its name and does what it is set to do. */
struct probe {
    const char *name;
    enum {
        LOOK = 0, /* pass on, or let pass */
        SHOUT,    /* upper case */
        SKIP,     /* in head */
        HOLD,     /* the head until the end of the body, then a new one */
        PREFIX,   /* bytes of its own before the first */
        FINISH,   /* after the first piece */
        FINISH_AT_HEAD,
        CUT,      /* after the first piece */
        DROP_END, /* says nothing at the end */
        TOUCH     /* sets status and a field */
    } does;
    bool started;
    coord_status set;
    struct coord_head *head;
    struct buffer held;
};

static struct buffer calls; /* "name.head name.data …" */
static struct buffer body;
static struct arena arena;
static struct chain chain;
static struct coord_head head;
static int32_t status;
static int64_t length;
static struct headers fields;
static unsigned heads, ends, aborts, finishes;

static void note(const char *who, const char *what)
{
    assert_true(buffer_printf(&calls, "%s%s.%s", calls.size ? " " : "", who, what));
}

static void assert_calls(const char *wanted)
{
    assert_true(buffer_append(&calls, "", 1));
    calls.size--;
    assert_string_equal(calls.data, wanted);
}

/* ---- The sink ---- */

static void sink_head(void *context, struct coord_head *got)
{
    (void)context;
    note("sink", "head");
    heads++;
    status = got->status;
    length = got->length;
    fields = got->headers;
}

static void sink_data(void *context, coord_slice bytes)
{
    (void)context;
    assert_true(buffer_append_slice(&body, bytes));
}

static void sink_end(void *context)
{
    (void)context;
    note("sink", "end");
    ends++;
}

static void sink_abort(void *context)
{
    (void)context;
    note("sink", "abort");
    aborts++;
}

static void sink_finished(void *context)
{
    (void)context;
    finishes++;
}

static const struct chain_sink SINK = {sink_head, sink_data, sink_end, sink_abort, sink_finished};

/* ---- The probes ---- */

static struct probe *probe_of(coord_writer *writer) { return coord_writer_state(writer); }

static void probe_head(coord_writer *writer, coord_head *got)
{
    struct probe *probe = probe_of(writer);

    note(probe->name, "head");
    switch (probe->does) {
    case SKIP:
        coord_writer_skip(writer);
        return;
    case HOLD:
        probe->head = got;
        return;
    case FINISH_AT_HEAD:
        coord_writer_pass_head(writer, got);
        coord_writer_pass(writer, coord_slice_of("early"));
        coord_writer_finish(writer);
        return;
    case TOUCH:
        probe->set = coord_head_set_status(got, 201);
        if (probe->set == COORD_OK)
            probe->set = coord_head_set_header(got, "X-Touched", coord_slice_of("yes"));
        break;
    default:
        break;
    }
    coord_writer_pass_head(writer, got);
}

static void shout(coord_writer *writer, coord_slice bytes)
{
    for (size_t i = 0; i < bytes.size; i++) {
        char letter = bytes.data[i];

        letter = (char)(letter >= 'a' && letter <= 'z' ? letter - 'a' + 'A' : letter);
        coord_writer_pass(writer, (coord_slice){&letter, 1});
    }
}

static void probe_data(coord_writer *writer, coord_slice bytes)
{
    struct probe *probe = probe_of(writer);
    bool first = !probe->started;

    probe->started = true;
    note(probe->name, "data");
    switch (probe->does) {
    case SHOUT:
        shout(writer, bytes);
        return;
    case HOLD:
        assert_true(buffer_append_slice(&probe->held, bytes));
        return;
    case PREFIX:
        if (first)
            coord_writer_pass(writer, coord_slice_of("> "));
        break;
    default:
        break;
    }
    coord_writer_pass(writer, bytes);
    if (probe->does == FINISH)
        coord_writer_finish(writer);
    if (probe->does == CUT)
        coord_writer_pass_abort(writer);
}

static void probe_end(coord_writer *writer)
{
    struct probe *probe = probe_of(writer);

    note(probe->name, "end");
    if (probe->does == HOLD) {
        coord_writer_pass_head(writer, probe->head);
        coord_writer_pass(writer, buffer_slice(&probe->held));
    }
    if (probe->does == DROP_END)
        return;
    coord_writer_pass_end(writer);
}

static void probe_abort(coord_writer *writer)
{
    note(probe_of(writer)->name, "abort");
    coord_writer_pass(writer, coord_slice_of("!")); /* what it held; nothing else passes any more */
    coord_writer_pass_head(writer, &head);
    coord_writer_pass_end(writer);
    coord_writer_pass_abort(writer);
    coord_writer_finish(writer);
}

static void probe_free(coord_writer *writer)
{
    note(probe_of(writer)->name, "free");
    buffer_release(&probe_of(writer)->held);
}

static const coord_writer_type OBSERVER = {sizeof OBSERVER, 0,         "observer",  probe_head,
                                           probe_data,      probe_end, probe_abort, probe_free};
static const coord_writer_type READER = {
    sizeof READER, COORD_WRITER_READS_BODY, "reader", probe_head, probe_data, probe_end, probe_abort, probe_free};
static const coord_writer_type REWRITER = {sizeof REWRITER, COORD_WRITER_REWRITES, "rewriter", probe_head, probe_data,
                                           probe_end,       probe_abort,           probe_free};
static const coord_writer_type READING_REWRITER = {sizeof READING_REWRITER,
                                                   COORD_WRITER_REWRITES | COORD_WRITER_READS_BODY,
                                                   "reading rewriter",
                                                   probe_head,
                                                   probe_data,
                                                   probe_end,
                                                   probe_abort,
                                                   probe_free};
static const coord_writer_type BARE = {sizeof BARE, COORD_WRITER_REWRITES, "bare", NULL, NULL, NULL, NULL, NULL};

static int setup(void **state)
{
    (void)state;
    chain_init(&chain, NULL, &arena, &SINK, NULL);
    head = (struct coord_head){.status = 200, .length = 6};
    headers_init(&head.headers, &arena);
    assert_true(
        headers_add(&head.headers, coord_slice_of("Content-Type"), coord_slice_of("text/event-stream; charset=utf-8")));
    assert_true(headers_add(&head.headers, coord_slice_of("ETag"), coord_slice_of("\"1\"")));
    assert_true(headers_add(&head.headers, coord_slice_of("Content-Digest"), coord_slice_of("sha-256=:x:")));
    heads = ends = aborts = finishes = 0;
    status = 0;
    length = -2;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    chain_release(&chain);
    buffer_release(&calls);
    buffer_release(&body);
    arena_release(&arena);
    return 0;
}

/* Copies the probe, which then lives until the chain is released. */
static struct probe *wrap(const coord_writer_type *type, const struct probe *probe)
{
    struct probe *kept = arena_alloc(&arena, sizeof *kept);

    assert_non_null(kept);
    if (probe)
        *kept = *probe;
    assert_int_equal(chain_wrap(&chain, type, kept), COORD_OK);
    return kept;
}

static void feed(void)
{
    chain_head(&chain, &head);
    chain_data(&chain, coord_slice_of("abc"));
    chain_data(&chain, (coord_slice){0});
    chain_data(&chain, coord_slice_of("def"));
    chain_end(&chain);
}

static void assert_out(int32_t wanted_status, int64_t wanted_length, const char *wanted_body)
{
    assert_int_equal(heads, 1);
    assert_int_equal(status, wanted_status);
    assert_int_equal(length, wanted_length);
    assert_true(coord_slice_is(buffer_slice(&body), wanted_body));
}

static bool has(const char *name) { return headers_find(&fields, coord_slice_of(name)) != NULL; }

/* ---- Order and framing ---- */

static void without_writers_everything_passes(void **state)
{
    (void)state;
    assert_false(chain_reads_body(&chain));
    feed();
    assert_out(200, 6, "abcdef");
    assert_true(has("etag"));
    assert_calls("sink.head sink.end");
}

static void observers_are_shown_everything_and_change_nothing(void **state)
{
    struct probe first = {.name = "1", .does = TOUCH}, second = {.name = "2"}, *kept;

    (void)state;
    kept = wrap(&OBSERVER, &first);
    wrap(&READER, &second);
    assert_true(chain_reads_body(&chain));
    feed();
    assert_int_equal(kept->set, COORD_STATE);
    assert_out(200, 6, "abcdef");
    assert_true(has("etag") && has("content-digest"));
    assert_calls("2.head 1.head sink.head 2.data 1.data 2.data 1.data 2.end 1.end sink.end");
}

static void observers_cannot_end_cut_or_hold_an_answer(void **state)
{
    struct probe probes[] = {{.name = "1", .does = FINISH},
                             {.name = "2", .does = CUT},
                             {.name = "3", .does = HOLD},
                             {.name = "4", .does = PREFIX},
                             {.name = "5", .does = DROP_END}};

    (void)state;
    for (size_t i = 0; i < sizeof probes / sizeof *probes; i++)
        wrap(&OBSERVER, &probes[i]);
    feed();
    assert_out(200, 6, "abcdef");
    assert_int_equal(ends, 1);
    assert_int_equal(aborts + finishes, 0);
}

static void a_rewriter_takes_length_and_digests_away(void **state)
{
    struct probe probe = {.name = "1", .does = SHOUT};

    (void)state;
    wrap(&REWRITER, &probe);
    feed();
    assert_out(200, -1, "ABCDEF");
    assert_false(has("etag") || has("content-digest"));
    assert_true(has("content-type"));
    assert_int_equal(ends, 1);
}

static void the_last_wrapped_sees_the_workers_bytes_first(void **state)
{
    struct probe inner = {.name = "in", .does = SHOUT}, outer = {.name = "out", .does = PREFIX},
                 look = {.name = "look"};

    (void)state;
    wrap(&OBSERVER, &look); /* sees what the client gets */
    wrap(&REWRITER, &inner);
    wrap(&REWRITER, &outer);
    feed();
    assert_out(200, -1, "> ABCDEF");
    assert_non_null(strstr(calls.data, "out.head in.head look.head sink.head out.data in.data"));
}

static void a_rewriter_changes_status_and_fields_in_head_only(void **state)
{
    struct probe probe = {.name = "1", .does = TOUCH}, *kept;

    (void)state;
    kept = wrap(&REWRITER, &probe);
    feed();
    assert_int_equal(kept->set, COORD_OK);
    assert_out(201, -1, "abcdef");
    assert_true(has("x-touched"));
    assert_int_equal(coord_head_set_status(&head, 202), COORD_STATE);
    assert_int_equal(coord_head_set_header(&head, "A", coord_slice_of("b")), COORD_STATE);
    assert_int_equal(coord_head_remove_header(&head, "A"), COORD_STATE);
}

static void a_writer_of_an_older_plugin_passes_what_it_does_not_know(void **state)
{
    struct probe probe = {.name = "1"};
    coord_writer_type older = REWRITER;

    (void)state;
    older.size = offsetof(coord_writer_type, end);
    wrap(&BARE, NULL);
    wrap(&older, &probe);
    feed();
    assert_out(200, -1, "abcdef");
    assert_calls("1.head sink.head 1.data 1.data sink.end");
}

static void rewriters_that_skip_leave_length_and_bytes(void **state)
{
    struct probe first = {.name = "1", .does = SKIP}, second = {.name = "2", .does = SKIP};

    (void)state;
    wrap(&REWRITER, &first);
    wrap(&READING_REWRITER, &second);
    feed();
    chain_release(&chain);
    assert_out(200, 6, "abcdef");
    assert_true(has("etag"));
    assert_calls("2.head 1.head sink.head sink.end 2.free 1.free");
}

static void one_rewriter_that_does_not_skip_is_enough(void **state)
{
    struct probe first = {.name = "1", .does = SHOUT}, second = {.name = "2", .does = SKIP};

    (void)state;
    wrap(&REWRITER, &first);
    wrap(&REWRITER, &second);
    feed();
    assert_out(200, -1, "ABCDEF");
    assert_false(has("etag"));
}

static void a_compressed_answer_is_not_shown_to_those_who_read_it(void **state)
{
    struct probe reader = {.name = "r"}, rewriter = {.name = "w", .does = SHOUT}, observer = {.name = "o"};

    (void)state;
    assert_true(headers_add(&head.headers, coord_slice_of("Content-Encoding"), coord_slice_of("gzip")));
    wrap(&OBSERVER, &observer);
    wrap(&READER, &reader);
    wrap(&READING_REWRITER, &rewriter);
    feed();
    chain_release(&chain);
    assert_out(200, 6, "abcdef");
    assert_calls("o.head sink.head o.data o.data o.end sink.end w.free r.free o.free");
}

static void identity_is_no_compression(void **state)
{
    struct probe probe = {.name = "1", .does = SHOUT};

    (void)state;
    assert_true(headers_add(&head.headers, coord_slice_of("Content-Encoding"), coord_slice_of("Identity")));
    wrap(&READING_REWRITER, &probe);
    feed();
    assert_out(200, -1, "ABCDEF");
}

/* ---- Holding, ending early, breaking off ---- */

static void a_head_that_is_held_goes_out_when_it_is_passed(void **state)
{
    struct probe probe = {.name = "1", .does = HOLD};

    (void)state;
    wrap(&REWRITER, &probe);
    chain_head(&chain, &head);
    chain_data(&chain, coord_slice_of("abc"));
    assert_int_equal(heads, 0);
    assert_int_equal(body.size, 0);
    chain_end(&chain);
    assert_out(200, -1, "abc");
    assert_calls("1.head 1.data 1.end sink.head sink.end");
}

static void an_end_that_a_rewriter_forgets_comes_all_the_same(void **state)
{
    struct probe probe = {.name = "1", .does = DROP_END};

    (void)state;
    wrap(&REWRITER, &probe);
    feed();
    assert_int_equal(ends, 1);
}

static void a_rewriter_that_finishes_ends_the_answer_there(void **state)
{
    struct probe inner = {.name = "in"}, middle = {.name = "mid", .does = FINISH}, outer = {.name = "out"};

    (void)state;
    wrap(&REWRITER, &inner);
    wrap(&REWRITER, &middle);
    wrap(&OBSERVER, &outer);
    feed();
    chain_abort(&chain);
    chain_release(&chain);
    assert_out(200, -1, "abc");
    assert_int_equal(finishes, 1);
    assert_int_equal(aborts, 0);
    assert_calls("out.head mid.head in.head sink.head out.data mid.data in.data out.abort in.end sink.end out.free "
                 "mid.free in.free");
}

static void a_rewriter_may_finish_in_head(void **state)
{
    struct probe probe = {.name = "1", .does = FINISH_AT_HEAD};

    (void)state;
    wrap(&REWRITER, &probe);
    feed();
    assert_out(200, -1, "early");
    assert_int_equal(finishes, 1);
    assert_int_equal(ends, 1);
}

static void a_rewriter_that_cuts_gets_nothing_more(void **state)
{
    struct probe inner = {.name = "in"}, probe = {.name = "1", .does = CUT}, outer = {.name = "out"};

    (void)state;
    wrap(&OBSERVER, &inner);
    wrap(&REWRITER, &probe);
    wrap(&REWRITER, &outer);
    feed();
    chain_release(&chain);
    assert_out(200, -1, "abc");
    assert_int_equal(aborts, 1);
    assert_int_equal(ends, 0);
    assert_int_equal(finishes, 1);
    assert_calls("out.head 1.head in.head sink.head out.data 1.data in.data out.abort in.abort sink.abort out.free "
                 "1.free in.free");
}

static void an_answer_that_breaks_is_aborted_once(void **state)
{
    struct probe first = {.name = "1"}, second = {.name = "2", .does = SHOUT};

    (void)state;
    wrap(&OBSERVER, &first);
    wrap(&REWRITER, &second);
    chain_head(&chain, &head);
    chain_data(&chain, coord_slice_of("abc"));
    chain_abort(&chain);
    chain_abort(&chain);
    chain_data(&chain, coord_slice_of("def"));
    chain_end(&chain);
    chain_release(&chain);
    assert_true(coord_slice_is(buffer_slice(&body), "ABC!"));
    assert_int_equal(aborts, 1);
    assert_int_equal(ends + finishes, 0);
    assert_null(strstr(calls.data, "end"));
    assert_non_null(strstr(calls.data, "2.abort 1.data 1.abort sink.abort 2.free 1.free"));
}

/* What one further out lets go of passes through those further in, who are still to be told. */
static void what_rewriters_held_goes_out_before_the_answer_breaks(void **state)
{
    struct probe inner = {.name = "in", .does = SHOUT}, outer = {.name = "out"};

    (void)state;
    wrap(&REWRITER, &inner);
    wrap(&REWRITER, &outer);
    chain_head(&chain, &head);
    chain_data(&chain, coord_slice_of("abc"));
    chain_abort(&chain);
    assert_true(coord_slice_is(buffer_slice(&body), "ABC!!"));
    chain_release(&chain);
    assert_true(coord_slice_is(buffer_slice(&body), "ABC!!"));
    assert_int_equal(aborts, 1);
    assert_non_null(strstr(calls.data, "out.abort in.data in.abort sink.abort out.free in.free"));
}

static void an_answer_that_never_began_is_aborted_before_it_is_freed(void **state)
{
    struct probe probe = {.name = "1"};

    (void)state;
    wrap(&OBSERVER, &probe);
    chain_release(&chain);
    assert_calls("1.abort 1.free");
}

static void an_end_behind_a_head_that_was_never_passed_aborts_those_who_saw_none(void **state)
{
    struct probe inner = {.name = "in"}, outer = {.name = "out", .does = HOLD};
    coord_writer_type never = REWRITER;

    (void)state;
    never.end = NULL; /* where the probe would have passed its head */
    wrap(&OBSERVER, &inner);
    wrap(&never, &outer);
    feed();
    chain_release(&chain);
    assert_int_equal(heads, 0);
    assert_null(strstr(calls.data, "in.end"));
    assert_non_null(strstr(calls.data, "in.abort"));
}

static void after_the_head_nobody_can_be_wrapped(void **state)
{
    struct probe probe = {.name = "1"};

    (void)state;
    chain_head(&chain, &head);
    assert_int_equal(chain_wrap(&chain, &OBSERVER, &probe), COORD_STATE);
    chain_end(&chain);
    assert_int_equal(chain_wrap(&chain, &OBSERVER, &probe), COORD_STATE);
}

/* ---- Looking on ---- */

static struct buffer watched; /* "name<what name<what …": what reached whom; the client has no name */

static const char *name_of(const coord_writer *writer)
{
    return writer ? ((struct probe *)coord_writer_state(writer))->name : "client";
}

static void watch_wrapped(void *context, coord_request *request, const coord_writer *writer,
                          const coord_writer_type *type)
{
    (void)request;
    assert_ptr_equal(context, &watched);
    assert_true(buffer_printf(&watched, "+%s(%s) ", name_of(writer), type->name));
}

static void watch_head(void *context, const coord_writer *to, const struct coord_head *got)
{
    (void)context;
    assert_true(buffer_printf(&watched, "%s<%d ", name_of(to), got->status));
}

static void watch_data(void *context, const coord_writer *to, coord_slice bytes)
{
    (void)context;
    assert_true(buffer_printf(&watched, "%s<%.*s ", name_of(to), COORD_FMT(bytes)));
}

static void assert_watched(const char *wanted)
{
    assert_true(buffer_append(&watched, "", 1));
    assert_string_equal(watched.data, wanted);
    buffer_release(&watched);
}

static const struct chain_watch WATCH = {&watched, watch_wrapped, watch_head, watch_data};

static void who_looks_on_sees_what_reaches_whom(void **state)
{
    struct probe touch = {.name = "touch", .does = TOUCH}, prefix = {.name = "prefix", .does = PREFIX},
                 look = {.name = "look"};

    (void)state;
    chain.watch = &WATCH;
    wrap(&REWRITER, &touch);
    wrap(&REWRITER, &prefix);
    wrap(&OBSERVER, &look);
    feed();
    assert_watched(
        "+touch(rewriter) +prefix(rewriter) +look(observer) look<200 prefix<200 touch<200 client<201 "
        "look<abc prefix<abc touch<>  client<>  touch<abc client<abc look<def prefix<def touch<def client<def ");
}

static void who_takes_no_part_is_passed_over(void **state)
{
    struct probe skip = {.name = "skip", .does = SKIP}, finish = {.name = "finish", .does = FINISH};

    (void)state;
    chain.watch = &WATCH;
    wrap(&REWRITER, &skip);
    wrap(&REWRITER, &finish);
    feed();
    assert_watched("+skip(rewriter) +finish(rewriter) finish<200 skip<200 client<200 finish<abc client<abc ");
}

static void a_head_is_read_by_its_media_type(void **state)
{
    static const struct {
        const char *type;
        bool events, json;
    } ROWS[] = {
        {"text/event-stream", true, false},     {"Text/Event-Stream;charset=utf-8", true, false},
        {"text/event-streams", false, false},   {"text/event", false, false},
        {"application/json", false, true},      {"application/json; a=b", false, true},
        {"application/json-seq", false, false}, {"", false, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        assert_true(headers_set(&head.headers, coord_slice_of("Content-Type"), coord_slice_of(ROWS[i].type)));
        assert_int_equal(coord_head_is_event_stream(&head), ROWS[i].events);
        assert_int_equal(coord_head_is_json(&head), ROWS[i].json);
    }
    headers_remove(&head.headers, coord_slice_of("Content-Type"));
    assert_false(coord_head_is_json(&head));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(without_writers_everything_passes),
        TEST(observers_are_shown_everything_and_change_nothing),
        TEST(observers_cannot_end_cut_or_hold_an_answer),
        TEST(a_rewriter_takes_length_and_digests_away),
        TEST(the_last_wrapped_sees_the_workers_bytes_first),
        TEST(a_rewriter_changes_status_and_fields_in_head_only),
        TEST(a_writer_of_an_older_plugin_passes_what_it_does_not_know),
        TEST(rewriters_that_skip_leave_length_and_bytes),
        TEST(one_rewriter_that_does_not_skip_is_enough),
        TEST(a_compressed_answer_is_not_shown_to_those_who_read_it),
        TEST(identity_is_no_compression),
        TEST(a_head_that_is_held_goes_out_when_it_is_passed),
        TEST(an_end_that_a_rewriter_forgets_comes_all_the_same),
        TEST(a_rewriter_that_finishes_ends_the_answer_there),
        TEST(a_rewriter_may_finish_in_head),
        TEST(a_rewriter_that_cuts_gets_nothing_more),
        TEST(an_answer_that_breaks_is_aborted_once),
        TEST(what_rewriters_held_goes_out_before_the_answer_breaks),
        TEST(an_answer_that_never_began_is_aborted_before_it_is_freed),
        TEST(an_end_behind_a_head_that_was_never_passed_aborts_those_who_saw_none),
        TEST(after_the_head_nobody_can_be_wrapped),
        TEST(who_looks_on_sees_what_reaches_whom),
        TEST(who_takes_no_part_is_passed_over),
        TEST(a_head_is_read_by_its_media_type),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
