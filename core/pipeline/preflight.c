/* See preflight.h. */
#include "pipeline/preflight.h"

#include "config/sections.h"

#include <errno.h>
#include <unistd.h>

bool serves_tls(const struct settings *settings)
{
    return settings->server.secure_serving_set ? settings->server.secure_serving : settings->server.cert_path.size > 0;
}

struct tls_options serving_identity(const struct settings *settings)
{
    return (struct tls_options){.directory = settings->server.cert_path,
                                .min_version = settings->server.tls_min_version,
                                .suites = settings->server.tls_cipher_suites,
                                .suite_count = settings->server.tls_cipher_suite_count};
}

struct tls_options metrics_identity(const struct settings *settings)
{
    return (struct tls_options){.directory = settings->server.metrics_cert_dir};
}

static const struct value *server_value(const struct settings *settings, const char *name)
{
    return config_find(&settings->sections[SECTION_SERVER], name);
}

/* The pair is loaded and dropped again. */
static void check_identity(const struct settings *settings, const char *key, const struct tls_options *options,
                           struct complaints *complaints)
{
    const struct value *value = server_value(settings, key);
    struct buffer reason = {.limit = 1024};
    struct tls_identity *identity = NULL;

    if (tls_identity_new(options, &identity, &reason) != COORD_OK)
        complain(complaints, COMPLAINT_ERROR, value->at, "server.%s: %.*s", key,
                 COORD_FMT(value->secret ? coord_slice_of("its tls.crt and tls.key (not shown) cannot be used")
                                         : buffer_slice(&reason)));
    tls_identity_free(identity);
    buffer_release(&reason);
}

static void check_listeners(const struct settings *settings, struct complaints *complaints)
{
    struct tls_options serving = serving_identity(settings), metrics = metrics_identity(settings);
    struct buffer reason = {.limit = 1024};

    if (tls_check_names(&serving, &reason) != COORD_OK)
        complain(complaints, COMPLAINT_ERROR, server_value(settings, "tls_cipher_suites")->at,
                 "server.tls_cipher_suites: %.*s", COORD_FMT(buffer_slice(&reason)));
    else if (serves_tls(settings) && serving.directory.size > 0)
        check_identity(settings, "cert_path", &serving, complaints);
    if (metrics.directory.size > 0 && settings->server.metrics_port > 0)
        check_identity(settings, "metrics_cert_dir", &metrics, complaints);
    buffer_release(&reason);
}

static void check_file(const struct gateway_settings *gateway, const char *key, struct complaints *complaints)
{
    const struct value *value = config_find(&gateway->values, key);

    if (!value || value->source == VALUE_ABSENT || value->text.size == 0 || access(value->text.data, R_OK) == 0)
        return;
    complain(complaints, COMPLAINT_ERROR, value->at, "%s of gateway %.*s: %.*s cannot be read: %s", key,
             COORD_FMT(gateway->name), COORD_FMT(value->secret ? coord_slice_of("the file (not shown)") : value->text),
             strerror(errno));
}

void preflight_check(const struct settings *settings, struct complaints *complaints)
{
    static const char *const files[] = {"ca_file", "cert_file", "key_file"};

    check_listeners(settings, complaints);
    for (size_t i = 0; i < settings->gateway_count; i++)
        for (size_t f = 0; f < sizeof files / sizeof *files; f++)
            check_file(settings->gateways[i], files[f], complaints);
}
