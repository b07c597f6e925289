/* See tls_names.h. */
#include "tls_names.h"

struct tls_suite {
    const char *name;
    const char *exchange; /* NULL: TLS 1.3 */
    const char *cipher;
    const char *mac;
};

static const struct tls_suite suites[] = {
    {"TLS_AES_128_GCM_SHA256", NULL, "AES-128-GCM", "AEAD"},
    {"TLS_AES_256_GCM_SHA384", NULL, "AES-256-GCM", "AEAD"},
    {"TLS_CHACHA20_POLY1305_SHA256", NULL, "CHACHA20-POLY1305", "AEAD"},
    {"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", "ECDHE-ECDSA", "AES-128-CBC", "SHA1"},
    {"TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA", "ECDHE-ECDSA", "AES-256-CBC", "SHA1"},
    {"TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "ECDHE-RSA", "AES-128-CBC", "SHA1"},
    {"TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", "ECDHE-RSA", "AES-256-CBC", "SHA1"},
    {"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA", "AES-128-GCM", "AEAD"},
    {"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA", "AES-256-GCM", "AEAD"},
    {"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA", "AES-128-GCM", "AEAD"},
    {"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA", "AES-256-GCM", "AEAD"},
    {"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA", "CHACHA20-POLY1305", "AEAD"},
    {"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA", "CHACHA20-POLY1305", "AEAD"},
    {"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", "ECDHE-RSA", "CHACHA20-POLY1305", "AEAD"},
    {"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", "ECDHE-ECDSA", "CHACHA20-POLY1305", "AEAD"},
    {"TLS_RSA_WITH_RC4_128_SHA", "RSA", "ARCFOUR-128", "SHA1"},
    {"TLS_RSA_WITH_3DES_EDE_CBC_SHA", "RSA", "3DES-CBC", "SHA1"},
    {"TLS_RSA_WITH_AES_128_CBC_SHA", "RSA", "AES-128-CBC", "SHA1"},
    {"TLS_RSA_WITH_AES_256_CBC_SHA", "RSA", "AES-256-CBC", "SHA1"},
    {"TLS_RSA_WITH_AES_128_CBC_SHA256", "RSA", "AES-128-CBC", "SHA256"},
    {"TLS_RSA_WITH_AES_128_GCM_SHA256", "RSA", "AES-128-GCM", "AEAD"},
    {"TLS_RSA_WITH_AES_256_GCM_SHA384", "RSA", "AES-256-GCM", "AEAD"},
    {"TLS_ECDHE_ECDSA_WITH_RC4_128_SHA", "ECDHE-ECDSA", "ARCFOUR-128", "SHA1"},
    {"TLS_ECDHE_RSA_WITH_RC4_128_SHA", "ECDHE-RSA", "ARCFOUR-128", "SHA1"},
    {"TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA", "ECDHE-RSA", "3DES-CBC", "SHA1"},
    {"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256", "ECDHE-ECDSA", "AES-128-CBC", "SHA256"},
    {"TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", "ECDHE-RSA", "AES-128-CBC", "SHA256"},
};

static const struct {
    const char *name;
    const char *versions; /* this one and all above it */
} versions[] = {
    {"VersionTLS10", ":+VERS-TLS1.3:+VERS-TLS1.2:+VERS-TLS1.1:+VERS-TLS1.0"},
    {"VersionTLS11", ":+VERS-TLS1.3:+VERS-TLS1.2:+VERS-TLS1.1"},
    {"VersionTLS12", ":+VERS-TLS1.3:+VERS-TLS1.2"},
    {"VersionTLS13", ":+VERS-TLS1.3"},
};

static const struct tls_suite *find_suite(coord_slice name)
{
    for (size_t i = 0; i < sizeof suites / sizeof *suites; i++)
        if (coord_slice_is(name, suites[i].name))
            return &suites[i];
    return NULL;
}

static const char *find_versions(coord_slice name)
{
    if (name.size == 0)
        name = coord_slice_of("VersionTLS12");
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
        if (coord_slice_is(name, versions[i].name))
            return versions[i].versions;
    return NULL;
}

coord_status tls_check_names(const struct tls_options *options, struct buffer *reason)
{
    if (!find_versions(options->min_version))
        return buffer_printf(reason, "unknown TLS version \"%.*s\" (VersionTLS10, 11, 12 or 13)",
                             COORD_FMT(options->min_version))
                   ? COORD_INVALID
                   : COORD_NO_MEMORY;
    for (size_t i = 0; i < options->suite_count; i++)
        if (!find_suite(options->suites[i]))
            return buffer_printf(reason, "Cipher suite %.*s not supported or doesn't exist",
                                 COORD_FMT(options->suites[i]))
                       ? COORD_INVALID
                       : COORD_NO_MEMORY;
    return COORD_OK;
}

/* Only TLS 1.3 suites: the list says nothing about TLS 1.2. */
static bool restricts(const struct tls_options *options)
{
    for (size_t i = 0; i < options->suite_count; i++)
        if (find_suite(options->suites[i])->exchange)
            return true;
    return false;
}

bool tls_names_priorities(const struct tls_options *options, struct buffer *into)
{
    bool restricted = restricts(options);

    if (!buffer_append_text(into, "NORMAL:-VERS-ALL") || !buffer_append_text(into, find_versions(options->min_version)))
        return false;
    if (restricted && !buffer_append_text(into, ":-KX-ALL:-CIPHER-ALL:-MAC-ALL"))
        return false;
    for (size_t i = 0; i < options->suite_count && restricted; i++) {
        const struct tls_suite *suite = find_suite(options->suites[i]);

        if (suite->exchange && !buffer_printf(into, ":+%s", suite->exchange))
            return false;
        if (!buffer_printf(into, ":+%s:+%s", suite->cipher, suite->mac))
            return false;
    }
    return buffer_append(into, "", 1);
}
