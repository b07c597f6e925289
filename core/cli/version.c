/* `coordinator version`: this build, its ABI, and the libraries that it runs with. */
#include "cli/load.h"

#include <coordinator/plugin.h>

#include <ares.h>
#include <curl/curl.h>
#include <microhttpd.h>
#include <stdio.h>

int cli_version(const struct arguments *arguments)
{
    const curl_version_info_data *curl = curl_version_info(CURLVERSION_NOW);

    (void)arguments;
    printf("coordinator %s, plugin ABI %d.%d\n", COORD_VERSION, COORD_ABI_MAJOR, COORD_ABI_MINOR);
    printf("libmicrohttpd %s, libcurl %s (%s), c-ares %s\n", MHD_get_version(), curl->version,
           curl->ssl_version ? curl->ssl_version : "no TLS", ares_version(NULL));
    return 0;
}
