/* `coordinator check`: loads everything, makes every instance, serves nothing. With --explain it tells what was made. */
#include "cli/check_explain.h"
#include "cli/load.h"

#include <curl/curl.h>
#include <stdio.h>

static void explain(const struct generation *generation)
{
    struct buffer out = {0};

    if (check_explain(generation, &out))
        fwrite(out.data, 1, out.size, stdout);
    else
        fprintf(stderr, "coordinator: memory is short\n");
    buffer_release(&out);
}

int cli_check(const struct arguments *arguments)
{
    struct loaded loaded;
    int code;

    if (!arguments->config)
        return cli_lacks("check", "--config FILE");
    if (arguments->rest_count > 0)
        return cli_misused("check");
    curl_global_init(CURL_GLOBAL_DEFAULT);
    load_all(&loaded, arguments);
    fprintf(stderr, "%.*s", COORD_FMT(buffer_slice(&loaded.complaints.text)));
    code = loaded.generation ? 0 : 2;
    if (code == 0 && arguments->explain)
        explain(loaded.generation);
    if (code == 0)
        printf("%s: good: %zu steps, %u warnings\n", arguments->config, loaded.generation->step_count,
               loaded.complaints.warnings);
    else
        fprintf(stderr, "%s: %u errors, %u warnings\n", arguments->config, loaded.complaints.errors,
                loaded.complaints.warnings);
    load_release(&loaded);
    curl_global_cleanup();
    return code;
}
