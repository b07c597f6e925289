/*
 * Structured log lines. `request` may be NULL (load time); with one, its id is added. [any callback of the request; load]
 */
#ifndef COORDINATOR_LOG_H
#define COORDINATOR_LOG_H

#include <coordinator/base.h>

COORD_BEGIN_DECLS

struct coord_request;

/* As log_level in the configuration: a line shows when its level is at most that. */
enum {
    COORD_LOG_ERROR = 0,
    COORD_LOG_WARNING = 1,
    COORD_LOG_INFO = 2,
    COORD_LOG_VERBOSE = 3,
    COORD_LOG_DEBUG = 4,
    COORD_LOG_TRACE = 5
};

/* A field: name and value. Values of names that hold credentials (authorization, cookie, …) are replaced by [REDACTED]. */
typedef struct coord_field {
    const char *name;
    int32_t type; /* COORD_FIELD_… */
    int32_t reserved;
    coord_slice text;
    int64_t number;
} coord_field;
enum {
    COORD_FIELD_TEXT = 1,
    COORD_FIELD_INT = 2,
    COORD_FIELD_BOOL = 3,
    COORD_FIELD_SECONDS = 4 /* `number` in ns, printed in seconds */
};

/* Whether lines of that level show. [any thread] */
COORD_API bool coord_log_enabled(int32_t level);
/* `message` is a constant sentence; what varies goes into fields. Never blocks for long: lines beyond the log's buffer are counted and dropped. */
COORD_API void coord_log(const struct coord_request *request, int32_t level, const char *message,
                         const coord_field *fields, size_t count);
/* For the simple case: formatted text. */
COORD_API void coord_logf(const struct coord_request *request, int32_t level, const char *format, ...)
    COORD_PRINTF(3, 4);

COORD_END_DECLS
#endif
