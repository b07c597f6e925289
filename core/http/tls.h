/*
 * A server's TLS identity (decision 69): certificate, key, versions and suites, reloaded when the files change.
 *
 * New handshakes use the newest certificate that loaded; a pair that does not load leaves the old one and is reported once.
 * Thread: tls_identity_new/free [load]; the reload runs on a thread of its own or a reactor timer; handshakes read it from any reactor.
 */
#ifndef HTTP_TLS_H
#define HTTP_TLS_H

#include "runtime/buffer.h"
#include "runtime/reactor.h"

struct tls_identity;

struct tls_options {
    coord_slice directory;     /* holds tls.crt and tls.key; empty: a self-signed certificate in memory */
    coord_slice min_version;   /* "", VersionTLS10 … VersionTLS13; default TLS 1.2 */
    const coord_slice *suites; /* Go's names; none: the library's default */
    size_t suite_count;
    int64_t look_ns; /* how often the files are looked at; 0: every 5 s */
    /* Called after a reload, with NULL on success or what went wrong. May be NULL. */
    void (*reloaded)(void *context, const char *problem);
    void *context;
};

/* COORD_OK, or COORD_INVALID/COORD_FAIL with `reason` (names the file, version or suite). */
coord_status tls_identity_new(const struct tls_options *options, struct tls_identity **identity, struct buffer *reason);
void tls_identity_free(struct tls_identity *identity);
/* Starts looking for changed files, on this reactor. */
void tls_identity_watch(struct tls_identity *identity, struct reactor *reactor);
void tls_identity_unwatch(struct tls_identity *identity);

/* Checks names only, without files. */
coord_status tls_check_names(const struct tls_options *options, struct buffer *reason);

#endif
