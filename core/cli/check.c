/* `coordinator check`: loads everything, makes every instance, serves nothing. */
#include "cli/load.h"

#include <curl/curl.h>
#include <stdio.h>

int cli_check(const struct arguments *arguments)
{
    struct loaded loaded;
    int code;

    if (!arguments->config || arguments->rest_count > 0) {
        fprintf(stderr, "usage: coordinator check --config FILE\n");
        return 2;
    }
    curl_global_init(CURL_GLOBAL_DEFAULT);
    load_all(&loaded, arguments);
    fprintf(stderr, "%.*s", COORD_FMT(buffer_slice(&loaded.complaints.text)));
    code = loaded.generation ? 0 : 2;
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
