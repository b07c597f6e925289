/* The transcript; see record.h. */
#include "record.h"

#include <stdio.h>
#include <time.h>

static FILE *file;

bool record_open(const char *path)
{
    file = fopen(path, "wb");
    return file != NULL;
}

void record_close(void)
{
    if (file)
        fclose(file);
    file = NULL;
}

void record_request(const struct http_request *request, const char *phase, uint64_t connection, uint64_t served,
                    bool whole)
{
    if (!file)
        return;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct buf line = {0};
    buf_printf(&line, "{\"time\":%lld,\"connection\":%llu,\"reused\":%s,\"whole\":%s,\"phase\":\"%s\",\"method\":\"",
               (long long)now.tv_sec * 1000000000 + now.tv_nsec, (unsigned long long)connection,
               served ? "true" : "false", whole ? "true" : "false", phase);
    buf_json_bytes(&line, request->method);
    buf_text(&line, "\",\"target\":\"");
    buf_json_bytes(&line, request->target);
    buf_text(&line, "\",\"headers\":[");
    for (size_t i = 0; i < request->header_count; i++) {
        buf_text(&line, i ? ",[\"" : "[\"");
        buf_json_bytes(&line, request->headers[i].name);
        buf_text(&line, "\",\"");
        buf_json_bytes(&line, request->headers[i].value);
        buf_text(&line, "\"]");
    }
    buf_text(&line, "],\"body\":\"");
    buf_json_bytes(&line, buf_view(&request->body));
    buf_text(&line, "\"}\n");
    struct text view = buf_view(&line);
    fwrite(view.at, 1, view.len, file);
    fflush(file);
    buf_free(&line);
}
