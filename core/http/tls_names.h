/*
 * Go's names of TLS versions and suites, and what GnuTLS calls them. Thread: any.
 *
 * GnuTLS is told key exchanges, ciphers and MACs, not suites: two configured suites also allow what mixes their parts. As in
 * Go the list is about TLS 1.2 and below; but if no suite of it has an AEAD cipher, TLS 1.3 is not spoken.
 */
#ifndef HTTP_TLS_NAMES_H
#define HTTP_TLS_NAMES_H

#include "http/tls.h"

/* Appends the NUL-terminated priority string. The names have been checked (tls_check_names). False: memory is short. */
bool tls_names_priorities(const struct tls_options *options, struct buffer *into) __attribute__((warn_unused_result));

#endif
