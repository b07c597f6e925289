/*
 * The log: one line an entry on standard error, as `text` or `json`, written whole. Public side: <coordinator/log.h>.
 *
 * Lines are formatted in a per-thread buffer (16 KiB; a longer one is cut) and written by one write(2), those of a reactor's
 * turn together (log_gather); when standard error does not take them (a full pipe), a bounded backlog is kept by a writer
 * thread and lines beyond it are dropped and counted.
 * Thread: any.
 */
#ifndef TELEMETRY_LOG_H
#define TELEMETRY_LOG_H

#include <coordinator/log.h>

enum log_format { LOG_TEXT = 0, LOG_JSON = 1 };

/* At first `info` and `text`. May be called again at any time; looks anew at what standard error is. */
void log_configure(int32_t level, enum log_format format);
/* Sends lines to `sink` instead of standard error (tests, test kit); NULL: back. */
void log_set_sink(void (*sink)(void *context, coord_slice line), void *context);
/* How a request's id is found; set once by the pipeline. */
void log_set_request_id(coord_slice (*id_of)(const struct coord_request *request));
/* Lines dropped so far. */
uint64_t log_dropped(void);
/*
 * From now on lines of this thread wait for log_send, or until 4 KiB of them stand there: for a thread that ends each of its
 * turns with log_send. A warning or an error still leaves at once, with all that waits, and so does what waits when the process
 * crashes or exits, or when a thread that does not gather writes a line: it comes after all that were written before. Where
 * memory is short lines do not wait.
 */
void log_gather(void);
/* Writes what waits of this thread; nothing where it does not gather. */
void log_send(void);
/* The same, and from now on lines of this thread do not wait. */
void log_gather_end(void);
/* Sends what all threads have gathered and waits until what is queued is written, for 2 seconds at most; call before exit. */
void log_flush(void);

/* Fields in short: coord_field fields[] = {LOG_TEXT_FIELD("model", m), LOG_INT_FIELD("status", s)}; */
#define LOG_TEXT_FIELD(field_name, slice) {.name = (field_name), .type = COORD_FIELD_TEXT, .text = (slice)}
#define LOG_INT_FIELD(field_name, value) {.name = (field_name), .type = COORD_FIELD_INT, .number = (int64_t)(value)}
#define LOG_BOOL_FIELD(field_name, value) {.name = (field_name), .type = COORD_FIELD_BOOL, .number = (value)}
#define LOG_SECONDS_FIELD(field_name, ns) {.name = (field_name), .type = COORD_FIELD_SECONDS, .number = (ns)}

/* As coord_log, where all names are constants of ours: bare words, and none a credential's. They are written as they are. */
void log_known(const struct coord_request *request, int32_t level, const char *message, const coord_field *fields,
               size_t count);

/* Redaction: true for names (of headers, fields, members) whose values are never shown; `-` and `_` are the same. */
bool log_is_credential(coord_slice header_name);
/*
 * Writes a body redacted for TRACE lines into `out` (at most `room` bytes, always UTF-8), returns the length. JSON is written
 * without the space between its tokens and ends early where the room does; members with a credential's name are [REDACTED].
 */
size_t log_redact_body(coord_slice body, char *out, size_t room);
/* A header value cut at 256 bytes, as it is otherwise (a line escapes it); returns the length. */
size_t log_redact_value(coord_slice value, char *out, size_t room);

#endif
