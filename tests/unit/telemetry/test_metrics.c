/* Unit test of the metrics registry and its page: what is counted, from how many threads, and how it is written. */
#include "telemetry/families.h"
#include "page_check.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define P "llm_d_coordinator_"

static coord_metric *declare(int32_t kind, const char *name, const char *const *labels, uint32_t max_series)
{
    static const double bounds[] = {0.005, 1, 1.25, 1048576};
    const coord_metric_type type = {.size = sizeof type,
                                    .kind = kind,
                                    .name = name,
                                    .help = "Help.",
                                    .labels = labels,
                                    .buckets = bounds,
                                    .bucket_count = kind == COORD_METRIC_HISTOGRAM ? 4 : 0,
                                    .max_series = max_series};

    return coord_metric_declare(&type);
}

static const char *const one_label[] = {"who", NULL};
static const char *const two_labels[] = {"who", "what", NULL};

/* The page, for free(); checked. */
static char *page(bool openmetrics)
{
    struct buffer buffer = {0};
    size_t size;

    assert_true(metrics_render(&buffer, openmetrics));
    assert_true(buffer_append(&buffer, "", 1));
    page_check(buffer.data, openmetrics);
    return buffer_take(&buffer, &size);
}

static bool page_has(bool openmetrics, const char *text)
{
    char *rendered = page(openmetrics);
    bool has = strstr(rendered, text) != NULL;

    free(rendered);
    return has;
}

static void the_same_family_may_be_declared_twice_and_another_shape_may_not(void **state)
{
    static const double one = 1, falling[] = {2, 1};
    coord_metric_type type = {
        .size = sizeof type, .kind = COORD_METRIC_COUNTER, .name = "shape_total", .labels = one_label};
    coord_metric *metric = coord_metric_declare(&type);

    (void)state;
    assert_non_null(metric);
    assert_ptr_equal(coord_metric_declare(&type), metric);
    type.labels = two_labels;
    assert_null(coord_metric_declare(&type));
    type.labels = NULL;
    assert_null(coord_metric_declare(&type));
    assert_null(declare(COORD_METRIC_GAUGE, "shape", one_label, 0)); /* OpenMetrics calls both `shape` */
    type = (coord_metric_type){
        .size = sizeof type, .kind = COORD_METRIC_HISTOGRAM, .name = "shape_seconds", .buckets = &one};
    type.bucket_count = 1;
    assert_non_null(coord_metric_declare(&type));
    type.name = "shape_falling";
    type.buckets = falling;
    type.bucket_count = 2;
    assert_null(coord_metric_declare(&type));
}

static void a_type_that_would_spoil_the_page_is_refused(void **state)
{
    static const char *const le[] = {"le", NULL}, *const dash[] = {"a-b", NULL}, *const same[] = {"a", "a", NULL},
                             *const five[] = {"a", "b", "c", "d", "e", NULL};
    static const struct {
        const char *name, *metric;
        int32_t kind;
        const char *const *labels;
    } rows[] = {
        {"counter without _total", "refused", COORD_METRIC_COUNTER, NULL},
        {"gauge with _total", "refused_total", COORD_METRIC_GAUGE, NULL},
        {"a dash in the name", "re-fused_total", COORD_METRIC_COUNTER, NULL},
        {"a digit first", "1_total", COORD_METRIC_COUNTER, NULL},
        {"a histogram's own label", "refused", COORD_METRIC_HISTOGRAM, le},
        {"a dash in a label", "refused", COORD_METRIC_GAUGE, dash},
        {"a label twice", "refused", COORD_METRIC_GAUGE, same},
        {"too many labels", "refused", COORD_METRIC_GAUGE, five},
        {"no such kind", "refused", 9, NULL},
        {"no name", NULL, COORD_METRIC_GAUGE, NULL},
    };

    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        print_message("  %s\n", rows[r].name);
        assert_null(declare(rows[r].kind, rows[r].metric, rows[r].labels, 0));
    }
    assert_null(coord_metric_declare(NULL));
    coord_metric_add(NULL, 1, NULL);
    assert_null(metric_series_of(NULL, NULL));
    metric_series_add(NULL, 1);
}

static void a_series_shows_from_its_first_movement(void **state)
{
    coord_metric *metric = declare(COORD_METRIC_COUNTER, "appears_total", one_label, 0);
    coord_slice moved = COORD_SLICE("moved"), held = COORD_SLICE("held");

    (void)state;
    assert_false(page_has(false, P "appears_total"));
    assert_non_null(metric_series_of(metric, &held));
    coord_metric_add(metric, 0, &moved);
    assert_true(page_has(false, "# HELP " P "appears_total Help.\n# TYPE " P "appears_total counter\n" P
                                "appears_total{who=\"moved\"} 0\n"));
    assert_false(page_has(false, "held"));
}

static void a_family_without_labels_shows_zero_from_its_declaration(void **state)
{
    (void)state;
    assert_non_null(declare(COORD_METRIC_GAUGE, "bare", NULL, 0));
    assert_true(page_has(false, "\n" P "bare 0\n"));
}

static void movements_that_mean_nothing_move_nothing(void **state)
{
    coord_metric *counter = declare(COORD_METRIC_COUNTER, "nothing_total", NULL, 0);
    coord_metric *labelled = declare(COORD_METRIC_COUNTER, "nothing_labelled_total", one_label, 0);
    coord_metric *histogram = declare(COORD_METRIC_HISTOGRAM, "nothing_seen", NULL, 0);

    (void)state;
    coord_metric_add(counter, -1, NULL);
    coord_metric_add(counter, NAN, NULL);
    coord_metric_add(counter, INFINITY, NULL);
    coord_metric_add(histogram, NAN, NULL);
    coord_metric_add(labelled, 1, NULL);
    assert_true(metric_value("nothing_total", NULL) == 0);
    assert_true(metric_value("nothing_seen", NULL) == 0);
    assert_false(page_has(false, "nothing_labelled_total"));
}

static void a_histogram_is_written_as_gos_client_writes_it(void **state)
{
    coord_metric *metric = declare(COORD_METRIC_HISTOGRAM, "gos", one_label, 0);
    coord_slice label = COORD_SLICE("a");
    static const double values[] = {0.005, 0.0050001, 1, 1.2, 7, 1048576, 1048577, 0, -3};

    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        coord_metric_add(metric, values[i], &label);
    assert_true(page_has(false,
                         P "gos_bucket{who=\"a\",le=\"0.005\"} 3\n" P "gos_bucket{who=\"a\",le=\"1\"} 5\n" P
                           "gos_bucket{who=\"a\",le=\"1.25\"} 6\n" P "gos_bucket{who=\"a\",le=\"1.048576e+06\"} 8\n" P
                           "gos_bucket{who=\"a\",le=\"+Inf\"} 9\n" P "gos_sum{who=\"a\"} 2.0971592100001e+06\n" P
                           "gos_count{who=\"a\"} 9\n"));
    assert_true(page_has(true, P "gos_bucket{who=\"a\",le=\"1.0\"} 5\n" P "gos_bucket{who=\"a\",le=\"1.25\"} 6\n" P
                                 "gos_bucket{who=\"a\",le=\"1.048576e+06\"} 8\n"));
    assert_true(metric_value(P "gos", &label) == 9);
}

static void openmetrics_names_a_counters_family_without_total(void **state)
{
    coord_metric *metric = declare(COORD_METRIC_COUNTER, "open_total", NULL, 0);

    (void)state;
    coord_metric_add(metric, 2.5, NULL);
    assert_true(page_has(true, "# HELP " P "open Help.\n# TYPE " P "open counter\n" P "open_total 2.5\n"));
    assert_true(page_has(false, "# TYPE " P "open_total counter\n" P "open_total 2.5\n"));
}

static void label_values_are_escaped_and_sorted(void **state)
{
    coord_metric *metric = declare(COORD_METRIC_COUNTER, "escaped_total", two_labels, 0);
    coord_slice labels[3][2] = {{COORD_SLICE("b"), COORD_SLICE("")},
                                {COORD_SLICE("a\"\\\n"), COORD_SLICE("\xC3\xA9")},
                                {COORD_SLICE("a"), COORD_SLICE("z")}};

    (void)state;
    for (size_t i = 0; i < 3; i++)
        coord_metric_add(metric, (double)(i + 1), labels[i]);
    assert_true(page_has(false, P "escaped_total{who=\"a\",what=\"z\"} 3\n" P
                                  "escaped_total{who=\"a\\\"\\\\\\n\",what=\"\xC3\xA9\"} 2\n" P
                                  "escaped_total{who=\"b\",what=\"\"} 1\n"));
}

static void numbers_are_whole_or_as_short_as_they_read_back(void **state)
{
    static const struct {
        double value;
        const char *want;
    } rows[] = {
        {0, "0"},
        {1, "1"},
        {-17, "-17"},
        {1e15, "1000000000000000"},
        {9007199254740992.0, "9007199254740992"},
        {0.1, "0.1"},
        {-0.25, "-0.25"},
        {1.0 / 3, "0.3333333333333333"},
        {12345.678, "12345.678"},
        {1234567.5, "1.2345675e+06"},
        {0.0001, "0.0001"},
        {0.00001, "1e-05"},
        {1e300, "1e+300"},
    };
    coord_metric *metric = declare(COORD_METRIC_GAUGE, "number", one_label, 0);

    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        char label[8], want[128];
        coord_slice slice;

        snprintf(label, sizeof label, "%zu", r);
        slice = coord_slice_of(label);
        coord_metric_add(metric, rows[r].value, &slice);
        snprintf(want, sizeof want, "\n" P "number{who=\"%s\"} %s\n", label, rows[r].want);
        print_message("  %s\n", rows[r].want);
        assert_true(page_has(false, want));
    }
}

static void combinations_beyond_the_limit_are_counted_together(void **state)
{
    coord_metric *metric = declare(COORD_METRIC_COUNTER, "limited_total", two_labels, 3);
    coord_slice other[2] = {COORD_SLICE("other"), COORD_SLICE("other")};
    coord_slice first[2] = {COORD_SLICE("0"), COORD_SLICE("x")};

    (void)state;
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 10; i++) {
            char text[8];
            coord_slice labels[2] = {{text, (size_t)snprintf(text, sizeof text, "%d", i)}, COORD_SLICE("x")};

            coord_metric_add(metric, 1, labels);
        }
    assert_true(metric_value("limited_total", first) == 2);
    assert_true(metric_value("limited_total", other) == 14);
}

/* A thousand models, and what other labels make of them. */
static void a_family_by_model_holds_every_model_that_is_admitted(void **state)
{
    static const char *const labels[] = {"model_name", "api_type", NULL};
    coord_metric *metric = declare(COORD_METRIC_COUNTER, "by_model_total", labels, 0);
    coord_slice last[] = {COORD_SLICE("other"), COORD_SLICE("chat")},
                none[] = {COORD_SLICE("other"), COORD_SLICE("other")};

    (void)state;
    for (int i = 0; i < 3000; i++) {
        char text[8];

        coord_metric_add(metric, 1,
                         (coord_slice[]){{text, (size_t)snprintf(text, sizeof text, "%d", i / 3)},
                                         coord_slice_of(i % 3 == 0   ? "chat"
                                                        : i % 3 == 1 ? "text"
                                                                     : "more")});
    }
    coord_metric_add(metric, 1, last);
    assert_true(metric_value("by_model_total", last) == 1);
    assert_true(metric_value("by_model_total", none) == 0);
}

static void a_label_value_that_is_no_text_does_not_spoil_the_page(void **state)
{
    coord_metric *metric = declare(COORD_METRIC_COUNTER, "binary_total", one_label, 0);
    coord_slice other = COORD_SLICE("other"),
                values[] = {COORD_SLICE("\xFF"), COORD_SLICE("\xC3"), COORD_SLICE("a\0b")};

    (void)state;
    for (size_t i = 0; i < 3; i++)
        coord_metric_add(metric, 1, &values[i]);
    assert_true(metric_value("binary_total", &other) == 3);
    assert_true(page_has(false, P "binary_total{who=\"other\"} 3\n"));
}

static void a_handle_finds_its_series_when_it_first_moves_it(void **state)
{
    static const char *const labels[] = {"who", NULL};
    coord_metric *metric = declare(COORD_METRIC_COUNTER, "handled_total", labels, 2);
    coord_slice values[] = {COORD_SLICE("first"), COORD_SLICE("second"), COORD_SLICE("beyond")};
    coord_slice other = COORD_SLICE("other");
    struct metric_handle handles[3] = {0};

    (void)state;
    metric_handle_add(&handles[0], NULL, &values[0], 1); /* a family that is not declared yet */
    for (size_t i = 0; i < 6; i++)
        metric_handle_add(&handles[i % 3], metric, &values[i % 3], 1);
    coord_metric_add(metric, 1, &values[0]);
    assert_true(metric_value("handled_total", &values[0]) == 3);
    assert_true(metric_value("handled_total", &values[1]) == 2);
    assert_true(metric_value("handled_total", &other) == 2);
}

static void each_model_has_handles_of_its_own(void **state)
{
    static const char *const labels[] = {"model_name", NULL};
    coord_metric *metric = declare(COORD_METRIC_COUNTER, "of_models_total", labels, 0);
    struct metric_model *models[] = {metrics_model((coord_slice){0}), metrics_model((coord_slice)COORD_SLICE("\xFF")),
                                     metrics_model((coord_slice)COORD_SLICE("model-0"))};

    (void)state;
    for (size_t i = 0; i < 3; i++)
        for (size_t times = 0; times <= i; times++)
            metric_handle_add(&models[i]->handles[METRIC_MODEL_HANDLES - 1], metric, &models[i]->label, 1);
    assert_true(metric_value("of_models_total", &(coord_slice)COORD_SLICE("unknown")) == 1);
    assert_true(metric_value("of_models_total", &(coord_slice)COORD_SLICE("other")) == 2);
    assert_true(metric_value("of_models_total", &(coord_slice)COORD_SLICE("model-0")) == 3);
    assert_ptr_equal(metrics_model((coord_slice)COORD_SLICE("model-0")), models[2]);
}

static void model_names_are_admitted_up_to_a_thousand(void **state)
{
    char text[300];
    coord_slice first;

    (void)state;
    assert_true(coord_slice_is(metrics_model_label((coord_slice){0}), "unknown"));
    assert_true(coord_slice_is(metrics_model_label((coord_slice)COORD_SLICE("\xFF")), "other"));
    memset(text, 'm', sizeof text);
    assert_true(coord_slice_is(metrics_model_label((coord_slice){text, sizeof text}), "other"));
    first = metrics_model_label((coord_slice)COORD_SLICE("model-0"));
    assert_true(coord_slice_is(first, "model-0"));
    for (int i = 1; i < 1200; i++) {
        coord_slice name = {text, (size_t)snprintf(text, sizeof text, "model-%d", i)};

        assert_true(i < 1000 ? coord_slice_equal(metrics_model_label(name), name)
                             : coord_slice_is(metrics_model_label(name), "other"));
    }
    assert_ptr_equal(metrics_model_label((coord_slice)COORD_SLICE("model-0")).data, first.data);
}

enum { THREADS = 4, ROUNDS = 20000, MANY_SERIES = 50 };
static atomic_bool finished;
static struct metric_handle shared_handle;

static void *mover(void *argument)
{
    coord_metric *const *metrics = argument;
    coord_slice label = COORD_SLICE("shared");
    struct metric_series *series = metric_series_of(metrics[0], &label);
    char text[16];

    for (int i = 0; i < ROUNDS; i++) {
        coord_slice many = {text, (size_t)snprintf(text, sizeof text, "s%d", i % MANY_SERIES)};

        metric_series_add(series, 1);
        coord_metric_add(metrics[0], 1, &many);
        metric_handle_add(&shared_handle, metrics[1], NULL, i % 2 ? -1 : 1);
        coord_metric_add(metrics[2], (double)(i % 3), NULL);
        metrics_model_label(many);
    }
    return NULL;
}

static void *reader(void *argument)
{
    (void)argument;
    while (!atomic_load(&finished)) {
        struct buffer buffer = {0};

        assert_true(metrics_render(&buffer, false));
        buffer_release(&buffer);
    }
    return NULL;
}

static void nothing_is_lost_between_threads_also_when_they_end(void **state)
{
    coord_metric *metrics[] = {declare(COORD_METRIC_COUNTER, "threads_total", one_label, 0),
                               declare(COORD_METRIC_GAUGE, "threads_running", NULL, 0),
                               declare(COORD_METRIC_HISTOGRAM, "threads_spread", NULL, 0)};
    coord_slice shared = COORD_SLICE("shared"), one = COORD_SLICE("s7");
    pthread_t threads[THREADS], render;

    (void)state;
    atomic_store(&finished, false);
    assert_int_equal(pthread_create(&render, NULL, reader, NULL), 0);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, mover, metrics), 0);
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    atomic_store(&finished, true);
    pthread_join(render, NULL);
    assert_true(metric_value("threads_total", &shared) == 2.0 * THREADS * ROUNDS);
    assert_true(metric_value("threads_total", &one) == 2.0 * THREADS * ROUNDS / MANY_SERIES);
    assert_true(metric_value("threads_running", NULL) == 0);
    assert_true(metric_value("threads_spread", NULL) == 2.0 * THREADS * ROUNDS);
    free(page(false));
}

static void the_format_follows_the_accept_header(void **state)
{
    static const struct {
        const char *accept;
        bool openmetrics;
    } rows[] = {
        {"", false},
        {"*/*", false},
        {"text/plain;version=0.0.4", false},
        {"application/openmetrics-text", true},
        {"Application/OpenMetrics-Text; Version=1.0.0", true},
        {"application/openmetrics-text; version=1.0.0; charset=utf-8", true},
        {"application/openmetrics-text;version=0.0.1", false},
        {"application/openmetrics-text;q=0", false},
        {"application/openmetrics-text;q=0.2, text/plain;q=0.9", false},
        {"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,"
         "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
         "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.1",
         true},
    };

    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        print_message("  %s\n", rows[r].accept);
        assert_int_equal(metrics_wants_openmetrics(coord_slice_of(rows[r].accept)), rows[r].openmetrics);
    }
    assert_string_equal(metrics_content_type(false), "text/plain; version=0.0.4; charset=utf-8");
}

static void our_families_carry_the_stability_marker_and_the_ladders(void **state)
{
    coord_slice model = COORD_SLICE("m"), pair[2] = {COORD_SLICE("m"), COORD_SLICE("internal")};
    const struct families *our = families();
    char *rendered;

    (void)state;
    assert_true(families_declare());
    assert_true(families_declare());
    coord_metric_add(our->request_total, 1, &model);
    coord_metric_add(our->request_error_total, 1, pair);
    coord_metric_add(our->request_duration_seconds, 0.3, &model);
    coord_metric_add(our->request_size_bytes, 100, &model);
    coord_metric_add(our->request_input_tokens, 0, &model);
    rendered = page(false);
    assert_non_null(strstr(rendered, "# HELP " P "request_total [ALPHA] "));
    assert_non_null(strstr(rendered, P "request_error_total{model_name=\"m\",error_code=\"internal\"} 1\n"));
    assert_non_null(strstr(rendered, P "request_duration_seconds_bucket{model_name=\"m\",le=\"3600\"} 1\n"));
    assert_non_null(strstr(rendered, P "request_size_bytes_bucket{model_name=\"m\",le=\"1.073741824e+09\"} 1\n"));
    assert_non_null(strstr(rendered, P "request_input_tokens_bucket{model_name=\"m\",le=\"32768\"} 1\n"));
    assert_non_null(strstr(rendered, "\n" P "log_lines_dropped_total 0\n"));
    free(rendered);
}

static void the_process_tells_its_own_figures(void **state)
{
    char *rendered = page(false);
    const char *start = strstr(rendered, "\nprocess_start_time_seconds ");

    (void)state;
    assert_non_null(strstr(rendered, "\n# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total "));
    assert_non_null(strstr(rendered, "\nprocess_resident_memory_bytes "));
    assert_non_null(strstr(rendered, "\nprocess_open_fds "));
    assert_non_null(strstr(rendered, "\nprocess_max_fds "));
    assert_non_null(start);
    assert_true(fabs(strtod(start + 28, NULL) - (double)time(NULL)) < 3600);
    free(rendered);
}

/* promtool stands in $PROMTOOL or on the path. */
static void promtool_has_nothing_to_say(void **state)
{
    const char *promtool = getenv("PROMTOOL");
    char command[512], *rendered;
    FILE *check;
    int status;

    (void)state;
    if (!promtool)
        promtool = "promtool";
    snprintf(command, sizeof command, "command -v '%s' >/dev/null 2>&1", promtool);
    if (system(command) != 0) {
        print_message("SKIP: no promtool (neither on the path nor in $PROMTOOL)\n");
        skip();
    }
    snprintf(command, sizeof command, "'%s' check metrics >/dev/null 2>&1", promtool);
    check = popen(command, "w");
    assert_non_null(check);
    rendered = page(false);
    fputs(rendered, check);
    free(rendered);
    status = pclose(check);
    assert_true(WIFEXITED(status));
    /* 3: remarks on style; it takes the `d` of our prefix for a unit. What cannot be read is 1. */
    assert_true(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 3);
}

static void series_of_one_first_label_add_up(void **state)
{
    coord_metric *counter = declare(COORD_METRIC_COUNTER, "sums_total", two_labels, 0);
    coord_metric *histogram = declare(COORD_METRIC_HISTOGRAM, "sums_seconds", one_label, 0);

    (void)state;
    assert_true(metric_sum_of(counter, coord_slice_of("a")) == 0);
    coord_metric_add(counter, 1, (coord_slice[]){COORD_SLICE("a"), COORD_SLICE("x")});
    coord_metric_add(counter, 2, (coord_slice[]){COORD_SLICE("a"), COORD_SLICE("y")});
    coord_metric_add(counter, 4, (coord_slice[]){COORD_SLICE("b"), COORD_SLICE("x")});
    assert_true(metric_sum_of(counter, coord_slice_of("a")) == 3);
    for (int i = 0; i < 3; i++)
        coord_metric_add(histogram, 100, &(coord_slice)COORD_SLICE("a"));
    assert_true(metric_sum_of(histogram, coord_slice_of("a")) == 3);
    assert_true(metric_sum_of(NULL, coord_slice_of("a")) == 0);
}

static void quantiles_are_estimated_within_their_bucket(void **state)
{
    static const struct {
        double observed[4], part, wanted;
    } rows[] = {
        /* bounds are .005, 1, 1.25 and 1048576 */
        {{.001}, .5, .0025},
        {{.5, .5}, .5, .005 + .995 / 2},
        {{.5, .5}, 1, 1},
        {{.001, .5, 1.1, 1.1}, .25, .005},
        {{.001, .5, 1.1, 1.1}, .5, 1},
        {{.001, .5, 1.1, 1.1}, .75, 1.125},
        {{2e6}, .5, 1048576}, /* above every bound */
        {{1.1, 2e6}, .99, 1048576},
    };
    char name[32];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct metric_series *series;

        snprintf(name, sizeof name, "quantile_%zu_seconds", i);
        series = metric_series_of(declare(COORD_METRIC_HISTOGRAM, name, NULL, 0), NULL);
        assert_true(isnan(metric_series_quantile(series, .5)));
        for (size_t k = 0; k < 4 && rows[i].observed[k] > 0; k++)
            metric_series_add(series, rows[i].observed[k]);
        if (fabs(metric_series_quantile(series, rows[i].part) - rows[i].wanted) > 1e-9)
            fail_msg("row %zu: %g", i, metric_series_quantile(series, rows[i].part));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_family_may_be_declared_twice_and_another_shape_may_not),
        cmocka_unit_test(a_type_that_would_spoil_the_page_is_refused),
        cmocka_unit_test(a_series_shows_from_its_first_movement),
        cmocka_unit_test(a_family_without_labels_shows_zero_from_its_declaration),
        cmocka_unit_test(movements_that_mean_nothing_move_nothing),
        cmocka_unit_test(a_histogram_is_written_as_gos_client_writes_it),
        cmocka_unit_test(openmetrics_names_a_counters_family_without_total),
        cmocka_unit_test(label_values_are_escaped_and_sorted),
        cmocka_unit_test(numbers_are_whole_or_as_short_as_they_read_back),
        cmocka_unit_test(combinations_beyond_the_limit_are_counted_together),
        cmocka_unit_test(a_family_by_model_holds_every_model_that_is_admitted),
        cmocka_unit_test(a_label_value_that_is_no_text_does_not_spoil_the_page),
        cmocka_unit_test(a_handle_finds_its_series_when_it_first_moves_it),
        cmocka_unit_test(each_model_has_handles_of_its_own),
        cmocka_unit_test(model_names_are_admitted_up_to_a_thousand),
        cmocka_unit_test(nothing_is_lost_between_threads_also_when_they_end),
        cmocka_unit_test(the_format_follows_the_accept_header),
        cmocka_unit_test(our_families_carry_the_stability_marker_and_the_ladders),
        cmocka_unit_test(the_process_tells_its_own_figures),
        cmocka_unit_test(promtool_has_nothing_to_say),
        cmocka_unit_test(series_of_one_first_label_add_up),
        cmocka_unit_test(quantiles_are_estimated_within_their_bucket),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
