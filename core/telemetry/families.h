/*
 * The coordinator's own metric families (docs/metrics.md), declared once at start-up.
 */
#ifndef TELEMETRY_FAMILIES_H
#define TELEMETRY_FAMILIES_H

#include "telemetry/metrics.h"

struct families {
    coord_metric *request_total, *request_error_total, *request_duration_seconds, *request_size_bytes,
        *request_input_tokens, *request_running, *response_size_bytes, *orchestration_overhead_seconds;
    coord_metric *step_duration_seconds, *step_errors_total, *step_running, *step_skipped_total;
    coord_metric *upstream_request_total, *upstream_request_duration_seconds;
    coord_metric *execution_path_total;
    coord_metric *time_to_first_token_seconds, *inter_token_latency_seconds, *response_output_tokens,
        *response_cached_tokens;
    coord_metric *prompt_mutated_after_render_total;
    coord_metric *config_reload_total, *config_generation;
    coord_metric *reactor_blocked_total, *log_lines_dropped_total;
};

/* Declares them all; false when memory is short. May be called again. [load] */
bool families_declare(void) __attribute__((warn_unused_result));
/* Never NULL; before they are declared all members are NULL, and moving them does nothing. */
const struct families *families(void);

#endif
