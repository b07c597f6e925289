/*
 * Fuzzes redact.c and the log's lines: whatever the bytes, a redacted body is UTF-8 within its room and never longer than it
 * may be, a JSON line is JSON, a text line is one line of text. Input: the room, the body.
 */
#include "telemetry/log.h"

#include "../unit/telemetry/json_check.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            abort();                                                                                                   \
    } while (0)

static void check_line(void *json, coord_slice line)
{
    CHECK(line.size > 0 && memchr(line.data, '\n', line.size) == line.data + line.size - 1);
    CHECK(json_is_text(line.data, line.size) && !memchr(line.data, '\x1b', line.size));
    CHECK(!json || json_is_valid(line.data, line.size));
}

static void check_body(coord_slice body, size_t room)
{
    bool valid = json_is_valid(body.data, body.size);
    char *out = malloc(room + 1);
    size_t size;

    CHECK(out);
    size = log_redact_body(body, out, room);
    CHECK(size <= room && json_is_text(out, size));
    /* All of it fits: JSON stays JSON. A mark takes less than 41 bytes for each byte of the body. */
    if (valid && room > 41 * body.size)
        CHECK(json_is_valid(out, size));
    size = log_redact_value(body, out, room);
    CHECK(size <= room && size <= 256 + 14);
    free(out);
}

static void check_lines(coord_slice text)
{
    static bool is_json;
    const coord_field fields[] = {LOG_TEXT_FIELD("a", text), LOG_TEXT_FIELD("b", text), LOG_INT_FIELD("n", text.size)};

    log_configure(COORD_LOG_INFO, LOG_TEXT);
    log_set_sink(check_line, NULL);
    coord_log(NULL, COORD_LOG_INFO, "m", fields, 3);
    coord_logf(NULL, COORD_LOG_INFO, "%.*s", COORD_FMT(text));
    log_configure(COORD_LOG_INFO, LOG_JSON);
    log_set_sink(check_line, &is_json);
    coord_log(NULL, COORD_LOG_INFO, "m", fields, 3);
    coord_logf(NULL, COORD_LOG_INFO, "%.*s", COORD_FMT(text));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    coord_slice body;

    if (size < 1)
        return 0;
    body = (coord_slice){(const char *)data + 1, size - 1};
    check_body(body, data[0]);
    check_body(body, 41 * body.size + 1);
    check_lines(body);
    return 0;
}
