/* See describe.h. */
#include "pipeline/describe.h"

#include "pipeline/tree_json.h"
#include "telemetry/families.h"

#include <assert.h>
#include <math.h>
#include <stdatomic.h>
#include <time.h>

static void write_text(coord_json *json, const char *name, coord_slice text)
{
    coord_json_key(json, name);
    coord_json_string(json, text);
}

static void write_conditions(coord_json *json, const char *name, const struct conditions *conditions)
{
    bool written = true;

    coord_json_key(json, name);
    if (conditions->given && conditions->written)
        written = tree_write_json(conditions->written, json);
    else
        coord_json_null(json);
    assert(written); /* what it may be called was checked as it was read */
}

/* ---- Steps ---- */

static void write_count(coord_json *json, const char *name, double count)
{
    coord_json_key(json, name);
    coord_json_int(json, (int64_t)count);
}

static void write_quantile(coord_json *json, const char *name, const struct step *step, double part)
{
    coord_json_key(json, name);
    coord_json_number(json, step->duration ? metric_series_quantile(step->duration, part) : NAN); /* NaN: null */
}

/* A step's duration is observed at its end: those that run have started, too. */
static void write_step(coord_json *json, const struct step *step)
{
    const struct families *all = families();
    coord_slice id = coord_slice_of(step->id);

    coord_json_object(json);
    write_text(json, "id", id);
    write_text(json, "type", coord_slice_of(step->kind->type.name));
    write_conditions(json, "when", &step->entry->when);
    write_count(json, "started", metric_sum_of(all->step_duration_seconds, id) + metric_sum_of(all->step_running, id));
    write_count(json, "failed", metric_sum_of(all->step_errors_total, id));
    write_count(json, "skipped", metric_sum_of(all->step_skipped_total, id));
    write_quantile(json, "p50_seconds", step, .5);
    write_quantile(json, "p99_seconds", step, .99);
    coord_json_close(json);
}

/* The writer that was wrapped last sees the bytes first. */
static void write_writers(coord_json *json, const struct pipeline *pipeline)
{
    coord_json_key(json, "writers");
    coord_json_array(json);
    for (size_t i = pipeline->step_count; i-- > 0;)
        for (size_t k = MAX_WRITERS_SEEN; k-- > 0;) {
            const char *name = atomic_load(&pipeline->steps[i].writers->names[k]);

            if (name)
                coord_json_string(json, coord_slice_of(name));
        }
    coord_json_close(json);
}

/* ---- The whole ---- */

static void write_pipeline(coord_json *json, const struct pipeline *pipeline)
{
    const struct pipeline_settings *settings = pipeline->settings;

    coord_json_object(json);
    write_text(json, "name", settings->name);
    write_conditions(json, "match", &settings->match);
    write_text(json, "gateway", settings->gateway->name);
    coord_json_key(json, "steps");
    coord_json_array(json);
    for (size_t i = 0; i < pipeline->step_count; i++)
        write_step(json, &pipeline->steps[i]);
    coord_json_close(json);
    write_writers(json, pipeline);
    coord_json_close(json);
}

static void write_time(coord_json *json, const char *name, int64_t seconds)
{
    time_t when = (time_t)seconds;
    struct tm parts;
    char text[32];

    if (!gmtime_r(&when, &parts) || strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
        text[0] = '\0';
    write_text(json, name, coord_slice_of(text));
}

void describe_generation(const struct generation *generation, coord_json *json)
{
    coord_json_object(json);
    coord_json_key(json, "generation");
    coord_json_int(json, generation->number);
    write_time(json, "loaded_at", generation->loaded_at);
    coord_json_key(json, "pipelines");
    coord_json_array(json);
    for (size_t i = 0; i < generation->pipeline_count; i++)
        write_pipeline(json, &generation->pipelines[i]);
    coord_json_close(json);
    coord_json_close(json);
}
