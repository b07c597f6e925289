/* `coordinator explain`: a dry run of one request. */
#include "cli/explain.h"

#include "cli/load.h"
#include "http/path.h"
#include "pipeline/api.h"
#include "telemetry/log.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>

enum { USAGE = 2, REFUSED = 1, MAX_HEADERS = 64 };

static const char DEFAULT_PATH[] = "/v1/chat/completions";

struct asked {
    struct header headers[MAX_HEADERS];
    struct buffer body;
    struct rehearsal_input input;
};

static bool wrong(const char *what, const char *which)
{
    fprintf(stderr, "coordinator: %s%s%s\n", what, which ? ": " : "", which ? which : "");
    return false;
}

static bool is_framing(coord_slice name)
{
    return header_name_is(name, "content-length") || header_name_is(name, "transfer-encoding") ||
           header_name_is(name, "connection") || header_name_is(name, "expect");
}

/* "NAME: VALUE" */
static bool read_header(const char *text, struct header *header)
{
    const char *colon = strchr(text, ':');
    const char *value = colon ? colon + 1 : text;

    value += strspn(value, " \t");
    *header = (struct header){{text, colon ? (size_t)(colon - text) : 0}, coord_slice_of(value)};
    if (!colon || !header_name_valid(header->name) || !header_value_valid(header->value))
        return wrong("--header takes \"NAME: VALUE\", not", text);
    return !is_framing(header->name) || wrong("--header cannot set the request's framing", text);
}

static bool read_headers(const struct arguments *arguments, struct asked *asked)
{
    if (arguments->header_count > MAX_HEADERS)
        return wrong("there are more than 64 of --header", NULL);
    for (size_t i = 0; i < arguments->header_count; i++)
        if (!read_header(arguments->headers[i], &asked->headers[i]))
            return false;
    asked->input.headers = asked->headers;
    asked->input.header_count = arguments->header_count;
    return true;
}

static bool read_path(const struct arguments *arguments, struct asked *asked)
{
    const char *path = arguments->path ? arguments->path : DEFAULT_PATH;

    for (const char *at = path; *at; at++)
        if ((unsigned char)*at <= ' ' || *at == 0x7f)
            return wrong("--path holds what no path can", path);
    asked->input.path = coord_slice_of(path);
    return *path == '/' || wrong("--path begins with a slash, as in /v1/completions, not", path);
}

/* Of what is larger than the service takes only so much that it says so. */
static bool read_body(const char *path, size_t most, struct buffer *body)
{
    bool standard = strcmp(path, "-") == 0;
    FILE *file = standard ? stdin : fopen(path, "re");
    char piece[8192];
    size_t got;
    bool good = file != NULL;

    while (good && body->size <= most && (got = fread(piece, 1, sizeof piece, file)) > 0)
        good = buffer_append(body, piece, got);
    good = good && !ferror(file);
    if (!good)
        fprintf(stderr, "coordinator: --request %s cannot be read: %s\n", path, strerror(errno));
    if (file && !standard)
        fclose(file);
    return good;
}

static bool read_all(const struct arguments *arguments, struct asked *asked)
{
    if (strcmp(arguments->config, "-") == 0 && strcmp(arguments->request, "-") == 0)
        return wrong("--config and --request cannot both come from standard input", NULL);
    return read_headers(arguments, asked) && read_path(arguments, asked);
}

/* No pipeline serves it, and no dry run either. */
static bool is_api(const struct rehearsal_input *input, struct arena *arena)
{
    coord_slice query, path = path_clean(arena, path_of_target(input->path, &query));

    return path.data && api_for_path(path);
}

static int print(const struct rehearsal *rehearsal, bool json)
{
    struct buffer out = {0};
    bool good = json ? explain_json(rehearsal, &out) : explain_text(rehearsal, &out);

    if (good)
        fwrite(out.data, 1, out.size, stdout);
    else
        fprintf(stderr, "coordinator: memory is short\n");
    fflush(stdout);
    buffer_release(&out);
    return good && rehearsal->pipeline && !rehearsal->error ? 0 : REFUSED;
}

static int rehearse(struct loaded *loaded, struct rehearsal *rehearsal, const struct arguments *arguments,
                    const struct asked *asked)
{
    struct generation *generation = loaded->generation;
    size_t said = loaded->complaints.text.size;
    int code;

    if (!is_api(&asked->input, &rehearsal->arena)) {
        rehearsal_witness(rehearsal);
        rehearsal->error_status = 404;
        rehearsal->error = "no inference API has this path: such requests are passed through to the default gateway";
        return print(rehearsal, arguments->json);
    }
    loaded->generation = NULL;
    if (!rehearsal_run(rehearsal, generation, &asked->input, &loaded->complaints)) {
        fprintf(stderr, "%.*s", (int)(loaded->complaints.text.size - said), loaded->complaints.text.data + said);
        return USAGE;
    }
    code = print(rehearsal, arguments->json);
    log_flush();
    return code;
}

static int load_and_rehearse(const struct arguments *arguments, struct asked *asked)
{
    struct rehearsal rehearsal = {.answer.fd = -1};
    const struct settings *settings;
    struct loaded loaded;
    int code = USAGE;

    load_adjusted(&loaded, arguments, rehearsal_adjust);
    if (arguments->answers)
        given_answers_load(&rehearsal.answers, &rehearsal.arena, arguments->answers, &loaded.complaints);
    if (loaded.generation)
        given_answers_check(&rehearsal.answers, loaded.generation, &loaded.complaints);
    fprintf(stderr, "%.*s", COORD_FMT(buffer_slice(&loaded.complaints.text)));
    if (loaded.generation && loaded.complaints.errors == 0) {
        settings = loaded.generation->settings;
        if (read_body(arguments->request, settings->server.max_request_body_size, &asked->body)) {
            asked->input.body = buffer_slice(&asked->body);
            code = rehearse(&loaded, &rehearsal, arguments, asked);
        }
    }
    rehearsal_release(&rehearsal);
    load_release(&loaded);
    return code;
}

int cli_explain(const struct arguments *arguments)
{
    struct asked asked = {0};
    int code = USAGE;

    if (!arguments->config || !arguments->request)
        return cli_lacks("explain", arguments->config ? "--request FILE" : "--config FILE");
    if (arguments->rest_count > 0)
        return cli_misused("explain");
    if (read_all(arguments, &asked)) {
        curl_global_init(CURL_GLOBAL_DEFAULT);
        code = load_and_rehearse(arguments, &asked);
        curl_global_cleanup();
    }
    buffer_release(&asked.body);
    return code;
}
