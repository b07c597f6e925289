/*
 * See tls.h. Handshakes of all reactors take the newest pair of certificate and key by one atomic load; a pair that was
 * replaced is kept until every handshake that may still use it is over.
 */
#include "tls_session.h"

#include <gnutls/crypto.h>
#include <gnutls/x509.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "http/tls_names.h"

enum { MAX_CHAIN = 16, SELF_SIGNED_BITS = 2048 };

static const int64_t LOOK_NS = INT64_C(5000000000);
static const int64_t RETIRED_NS = INT64_C(600000000000); /* far longer than a handshake may take */

struct tls_pair {
    struct tls_pair *older;
    gnutls_pcert_st certificates[MAX_CHAIN];
    unsigned count;
    gnutls_privkey_t key;
    int64_t retired_ns; /* when a newer one took its place */
};

struct tls_stamp {
    struct timespec changed[2];
    ino_t inode[2];
};

struct tls_identity {
    _Atomic(struct tls_pair *) newest; /* the older ones hang on it */
    struct buffer priorities;
    char *certificate_path, *key_path; /* NULL: self-signed */
    struct tls_stamp stamp;
    int64_t look_ns;
    bool failing; /* reported already */
    void (*reloaded)(void *context, const char *problem);
    void *context;
    struct reactor *reactor;
    struct timer timer;
};

#define CONTAINER(pointer, type, member) ((type *)(void *)((char *)(pointer) - offsetof(type, member)))

/* Pairs */

static void pair_free(struct tls_pair *pair)
{
    if (!pair)
        return;
    for (unsigned i = 0; i < pair->count; i++)
        gnutls_pcert_deinit(&pair->certificates[i]);
    gnutls_privkey_deinit(pair->key);
    free(pair);
}

static bool same_key(struct tls_pair *pair)
{
    unsigned char ids[2][64];
    size_t sizes[2] = {sizeof ids[0], sizeof ids[1]};
    gnutls_pubkey_t public_key;
    bool same;

    if (gnutls_pubkey_init(&public_key) < 0)
        return false;
    same = gnutls_pubkey_import_privkey(public_key, pair->key, 0, 0) >= 0 &&
           gnutls_pubkey_get_key_id(public_key, GNUTLS_KEYID_USE_SHA256, ids[0], &sizes[0]) >= 0 &&
           gnutls_pubkey_get_key_id(pair->certificates[0].pubkey, GNUTLS_KEYID_USE_SHA256, ids[1], &sizes[1]) >= 0 &&
           sizes[0] == sizes[1] && memcmp(ids[0], ids[1], sizes[0]) == 0;
    gnutls_pubkey_deinit(public_key);
    return same;
}

static bool complain(struct buffer *reason, const char *what, const char *why)
{
    if (!buffer_printf(reason, "%s: %s", what, why))
        buffer_release(reason);
    return false;
}

static bool load_certificates(struct tls_pair *pair, const gnutls_datum_t *pem, const char *name, struct buffer *reason)
{
    unsigned count = MAX_CHAIN;
    int error = gnutls_pcert_list_import_x509_raw(pair->certificates, &count, pem, GNUTLS_X509_FMT_PEM, 0);

    if (error < 0)
        return complain(reason, name, gnutls_strerror(error));
    pair->count = count;
    return count > 0 || complain(reason, name, "it holds no certificate");
}

static bool load_key(struct tls_pair *pair, const gnutls_datum_t *pem, const char *name, struct buffer *reason)
{
    int error = gnutls_privkey_import_x509_raw(pair->key, pem, GNUTLS_X509_FMT_PEM, NULL, 0);

    if (error < 0)
        return complain(reason, name, gnutls_strerror(error));
    return same_key(pair) || complain(reason, name, "it is not the key of the certificate beside it");
}

static struct tls_pair *pair_new(void)
{
    struct tls_pair *pair = calloc(1, sizeof *pair);

    if (pair && gnutls_privkey_init(&pair->key) < 0) {
        free(pair);
        return NULL;
    }
    return pair;
}

static struct tls_pair *pair_from_files(const struct tls_identity *identity, struct buffer *reason)
{
    struct tls_pair *pair = pair_new();
    gnutls_datum_t certificate = {0}, key = {0};
    bool loaded = false;
    int error;

    if (!pair)
        return NULL;
    if ((error = gnutls_load_file(identity->certificate_path, &certificate)) < 0)
        complain(reason, identity->certificate_path, gnutls_strerror(error));
    else if ((error = gnutls_load_file(identity->key_path, &key)) < 0)
        complain(reason, identity->key_path, gnutls_strerror(error));
    else
        loaded = load_certificates(pair, &certificate, identity->certificate_path, reason) &&
                 load_key(pair, &key, identity->key_path, reason);
    gnutls_free(certificate.data);
    if (key.data)
        gnutls_memset(key.data, 0, key.size);
    gnutls_free(key.data);
    if (loaded)
        return pair;
    pair_free(pair);
    return NULL;
}

/* For trying things out: nobody can verify it. */
static int sign(gnutls_x509_crt_t certificate, gnutls_x509_privkey_t key)
{
    unsigned char serial[16];
    time_t now = time(NULL);
    int error = gnutls_rnd(GNUTLS_RND_NONCE, serial, sizeof serial);

    serial[0] = (unsigned char)((serial[0] & 0x7f) | 1); /* positive */
    if (error >= 0)
        error = gnutls_x509_privkey_generate(key, GNUTLS_PK_RSA, SELF_SIGNED_BITS, 0);
    if (error >= 0)
        error = gnutls_x509_crt_set_key(certificate, key);
    if (error >= 0)
        error = gnutls_x509_crt_set_version(certificate, 3);
    if (error >= 0)
        error = gnutls_x509_crt_set_serial(certificate, serial, sizeof serial);
    if (error >= 0)
        error = gnutls_x509_crt_set_dn_by_oid(certificate, GNUTLS_OID_X520_ORGANIZATION_NAME, 0, "coordinator", 11);
    if (error >= 0)
        error = gnutls_x509_crt_set_activation_time(certificate, now - 3600);
    if (error >= 0)
        error = gnutls_x509_crt_set_expiration_time(certificate, now + (time_t)3650 * 86400);
    if (error >= 0)
        error = gnutls_x509_crt_set_key_usage(certificate, GNUTLS_KEY_DIGITAL_SIGNATURE | GNUTLS_KEY_KEY_ENCIPHERMENT);
    if (error >= 0)
        error = gnutls_x509_crt_set_key_purpose_oid(certificate, GNUTLS_KP_TLS_WWW_SERVER, 0);
    if (error >= 0)
        error = gnutls_x509_crt_sign2(certificate, certificate, key, GNUTLS_DIG_SHA256, 0);
    return error;
}

static struct tls_pair *pair_self_signed(struct buffer *reason)
{
    struct tls_pair *pair = pair_new();
    gnutls_x509_crt_t certificate = NULL;
    gnutls_x509_privkey_t key = NULL;
    int error = GNUTLS_E_MEMORY_ERROR;

    if (pair && gnutls_x509_crt_init(&certificate) >= 0 && gnutls_x509_privkey_init(&key) >= 0)
        error = sign(certificate, key);
    if (error >= 0)
        error = gnutls_pcert_import_x509(&pair->certificates[0], certificate, 0);
    if (error >= 0) {
        pair->count = 1;
        error = gnutls_privkey_import_x509(pair->key, key, GNUTLS_PRIVKEY_IMPORT_COPY);
    }
    if (certificate)
        gnutls_x509_crt_deinit(certificate);
    if (key)
        gnutls_x509_privkey_deinit(key);
    if (error >= 0)
        return pair;
    complain(reason, "self-signed certificate", gnutls_strerror(error));
    pair_free(pair);
    return NULL;
}

/* Sessions */

const char *tls_session_priorities(const struct tls_identity *identity) { return identity->priorities.data; }

void tls_session_bind(const struct tls_identity *identity, gnutls_session_t session)
{
    if (session)
        gnutls_session_set_ptr(session, (void *)(uintptr_t)identity);
}

int tls_session_certificate(gnutls_session_t session, const gnutls_datum_t *authorities, int authority_count,
                            const gnutls_pk_algorithm_t *algorithms, int algorithm_count,
                            gnutls_pcert_st **certificates, unsigned *count, gnutls_privkey_t *key)
{
    struct tls_identity *identity = gnutls_session_get_ptr(session);
    struct tls_pair *pair = atomic_load_explicit(&identity->newest, memory_order_acquire);

    (void)authorities;
    (void)authority_count;
    (void)algorithms;
    (void)algorithm_count;
    *certificates = pair->certificates;
    *count = pair->count;
    *key = pair->key;
    return 0;
}

/* Reloading */

static bool read_stamp(const struct tls_identity *identity, struct tls_stamp *stamp)
{
    const char *paths[2] = {identity->certificate_path, identity->key_path};

    memset(stamp, 0, sizeof *stamp);
    for (int i = 0; i < 2; i++) {
        struct stat file;

        if (stat(paths[i], &file) != 0)
            return false;
        stamp->changed[i] = file.st_mtim;
        stamp->inode[i] = file.st_ino;
    }
    return true;
}

static bool same_stamp(const struct tls_stamp *a, const struct tls_stamp *b)
{
    for (int i = 0; i < 2; i++)
        if (a->inode[i] != b->inode[i] || a->changed[i].tv_sec != b->changed[i].tv_sec ||
            a->changed[i].tv_nsec != b->changed[i].tv_nsec)
            return false;
    return true;
}

static void drop_retired(struct tls_pair *pair, int64_t now)
{
    while (pair->older) {
        struct tls_pair *old = pair->older;

        if (now - old->retired_ns < RETIRED_NS) {
            pair = old;
            continue;
        }
        pair->older = old->older;
        pair_free(old);
    }
}

static void reload(struct tls_identity *identity, int64_t now)
{
    struct tls_pair *old = atomic_load_explicit(&identity->newest, memory_order_relaxed);
    struct buffer reason = {.limit = 1024};
    struct tls_pair *pair = pair_from_files(identity, &reason);

    if (pair) {
        old->retired_ns = now;
        pair->older = old;
        atomic_store_explicit(&identity->newest, pair, memory_order_release);
    }
    if (identity->reloaded && (pair || !identity->failing))
        identity->reloaded(identity->context, pair ? NULL : reason.data ? reason.data : "memory is short");
    identity->failing = !pair;
    buffer_release(&reason);
}

/* A pair that does not load is tried again: its other half may still be on its way. */
static void look(struct timer *timer)
{
    struct tls_identity *identity = CONTAINER(timer, struct tls_identity, timer);
    int64_t now = reactor_now(identity->reactor);
    struct tls_stamp stamp;

    if (read_stamp(identity, &stamp) && (identity->failing || !same_stamp(&stamp, &identity->stamp))) {
        identity->stamp = stamp;
        reload(identity, now);
    }
    drop_retired(atomic_load_explicit(&identity->newest, memory_order_relaxed), now);
    reactor_arm(identity->reactor, timer, identity->look_ns);
}

void tls_identity_watch(struct tls_identity *identity, struct reactor *reactor)
{
    if (!identity->certificate_path)
        return;
    identity->reactor = reactor;
    identity->timer.due = look;
    reactor_arm(reactor, &identity->timer, identity->look_ns);
}

void tls_identity_unwatch(struct tls_identity *identity)
{
    if (identity->reactor)
        reactor_disarm(identity->reactor, &identity->timer);
    identity->reactor = NULL;
}

/* Life */

static char *file_in(coord_slice directory, const char *name)
{
    struct buffer path = {0};
    size_t size;

    if (!buffer_append_slice(&path, directory) || !buffer_printf(&path, "/%s", name)) {
        buffer_release(&path);
        return NULL;
    }
    return buffer_take(&path, &size);
}

static bool load_first(struct tls_identity *identity, const struct tls_options *options, struct buffer *reason)
{
    struct tls_pair *pair;

    if (options->directory.size > 0) {
        identity->certificate_path = file_in(options->directory, "tls.crt");
        identity->key_path = file_in(options->directory, "tls.key");
        if (!identity->certificate_path || !identity->key_path)
            return false;
        read_stamp(identity, &identity->stamp); /* before reading, so that a change in between is seen later */
        pair = pair_from_files(identity, reason);
    } else {
        pair = pair_self_signed(reason);
    }
    atomic_store(&identity->newest, pair);
    return pair != NULL;
}

coord_status tls_identity_new(const struct tls_options *options, struct tls_identity **result, struct buffer *reason)
{
    struct tls_identity *identity;
    coord_status status = tls_check_names(options, reason);

    *result = NULL;
    if (status != COORD_OK)
        return status;
    identity = calloc(1, sizeof *identity);
    if (!identity)
        return COORD_NO_MEMORY;
    identity->look_ns = options->look_ns > 0 ? options->look_ns : LOOK_NS;
    identity->reloaded = options->reloaded;
    identity->context = options->context;
    if (!tls_names_priorities(options, &identity->priorities) || !load_first(identity, options, reason)) {
        tls_identity_free(identity);
        return COORD_FAIL;
    }
    *result = identity;
    return COORD_OK;
}

void tls_identity_free(struct tls_identity *identity)
{
    struct tls_pair *pair;

    if (!identity)
        return;
    tls_identity_unwatch(identity);
    pair = atomic_load(&identity->newest);
    while (pair) {
        struct tls_pair *older = pair->older;

        pair_free(pair);
        pair = older;
    }
    buffer_release(&identity->priorities);
    free(identity->certificate_path);
    free(identity->key_path);
    free(identity);
}
