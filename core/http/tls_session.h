/* What the HTTP server needs of a TLS identity for each session; kept apart so that GnuTLS's types stay inside http/. */
#ifndef HTTP_TLS_SESSION_H
#define HTTP_TLS_SESSION_H

#include "http/tls.h"

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>

/* Versions and suites as GnuTLS writes them; lives as long as the identity. */
const char *tls_session_priorities(const struct tls_identity *identity);

/* Makes tls_session_certificate answer with this identity's certificate; before the handshake. [reactor] */
void tls_session_bind(const struct tls_identity *identity, gnutls_session_t session);

/* A gnutls_certificate_retrieve_function2. [any thread] */
int tls_session_certificate(gnutls_session_t session, const gnutls_datum_t *authorities, int authority_count,
                            const gnutls_pk_algorithm_t *algorithms, int algorithm_count,
                            gnutls_pcert_st **certificates, unsigned *count, gnutls_privkey_t *key);

#endif
