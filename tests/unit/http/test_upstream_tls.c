/*
 * TLS to an upstream, which only libcurl speaks: whom we trust, who we are, and a peer that speaks none.
 */
#include "upstream_peer.h"
#include "upstream_probe.h"

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct identity {
    gnutls_x509_privkey_t key;
    gnutls_x509_crt_t certificate;
    char certificate_file[64], key_file[64];
};

static struct identity identity;
static bool ask_for_certificate;
static _Atomic int handshakes;

static void write_file(char *path, const gnutls_datum_t *text)
{
    int fd;

    strcpy(path, "/tmp/test_upstream_XXXXXX");
    fd = mkstemp(path);
    assert_int_equal(write(fd, text->data, text->size), text->size);
    close(fd);
}

/* A certificate for 127.0.0.1, signed by itself. */
static void make_identity(void)
{
    static const unsigned char address[4] = {127, 0, 0, 1}, serial = 1;
    gnutls_datum_t text;

    gnutls_x509_privkey_init(&identity.key);
    assert_int_equal(gnutls_x509_privkey_generate(identity.key, GNUTLS_PK_ECDSA,
                                                  GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0),
                     0);
    gnutls_x509_crt_init(&identity.certificate);
    gnutls_x509_crt_set_version(identity.certificate, 3);
    gnutls_x509_crt_set_serial(identity.certificate, &serial, 1);
    gnutls_x509_crt_set_activation_time(identity.certificate, time(NULL) - 3600);
    gnutls_x509_crt_set_expiration_time(identity.certificate, time(NULL) + 3600);
    gnutls_x509_crt_set_dn_by_oid(identity.certificate, GNUTLS_OID_X520_COMMON_NAME, 0, "test", 4);
    gnutls_x509_crt_set_subject_alt_name(identity.certificate, GNUTLS_SAN_IPADDRESS, address, 4, GNUTLS_FSAN_SET);
    gnutls_x509_crt_set_basic_constraints(identity.certificate, 1, -1);
    gnutls_x509_crt_set_key(identity.certificate, identity.key);
    assert_int_equal(
        gnutls_x509_crt_sign2(identity.certificate, identity.certificate, identity.key, GNUTLS_DIG_SHA256, 0), 0);
    gnutls_x509_crt_export2(identity.certificate, GNUTLS_X509_FMT_PEM, &text);
    write_file(identity.certificate_file, &text);
    gnutls_free(text.data);
    gnutls_x509_privkey_export2(identity.key, GNUTLS_X509_FMT_PEM, &text);
    write_file(identity.key_file, &text);
    gnutls_free(text.data);
}

static void drop_identity(void)
{
    unlink(identity.certificate_file);
    unlink(identity.key_file);
    gnutls_x509_crt_deinit(identity.certificate);
    gnutls_x509_privkey_deinit(identity.key);
}

static void serve_tls(struct peer *peer)
{
    gnutls_certificate_credentials_t credentials;
    gnutls_session_t session;
    char buffer[4096];

    gnutls_certificate_allocate_credentials(&credentials);
    gnutls_certificate_set_x509_key(credentials, &identity.certificate, 1, identity.key);
    gnutls_certificate_set_x509_trust(credentials, &identity.certificate, 1);
    if (peer_accept(peer)) {
        gnutls_init(&session, GNUTLS_SERVER);
        gnutls_set_default_priority(session);
        gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, credentials);
        if (ask_for_certificate)
            gnutls_certificate_server_set_request(session, GNUTLS_CERT_REQUIRE);
        gnutls_transport_set_int(session, peer->fd);
        if (gnutls_handshake(session) == 0) {
            handshakes++;
            while (gnutls_record_recv(session, buffer, sizeof buffer) > 0)
                gnutls_record_send(session, OK_ANSWER, sizeof OK_ANSWER - 1);
        }
        gnutls_deinit(session);
    }
    gnutls_certificate_free_credentials(credentials);
}

static void a_tls_peer_must_be_trusted_and_may_ask_who_we_are(void **state)
{
    static const struct {
        const char *name;
        bool trust, insecure, asked, identified;
        enum leg_outcome outcome;
    } rows[] = {
        {"unknown", false, false, false, false, LEG_TLS},
        {"trusted by its file", true, false, false, false, LEG_COMPLETE},
        {"not verified", false, true, false, false, LEG_COMPLETE},
        {"asks for a certificate and gets it", true, false, true, true, LEG_COMPLETE},
    };
    struct world *world = *state;

    make_identity();
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        struct peer *peer;
        char url[64];
        const char *reason;
        struct upstream_options options = {
            .max_idle_connections = 1, .idle_age_ns = 4000 * MS, .connect_timeout_ns = 5000 * MS};
        struct upstream *upstream;
        struct leg_request request = get("/");
        struct probe probe = {0}, again = {0};

        print_message("  %s\n", rows[r].name);
        ask_for_certificate = rows[r].asked;
        peer = peer_start(serve_tls, NULL);
        snprintf(url, sizeof url, "https://127.0.0.1:%d", peer->port);
        options.url = coord_slice_of(url);
        options.insecure_skip_verify = rows[r].insecure;
        if (rows[r].trust)
            options.ca_file = coord_slice_of(identity.certificate_file);
        if (rows[r].identified) {
            options.client_cert_file = coord_slice_of(identity.certificate_file);
            options.client_key_file = coord_slice_of(identity.key_file);
        }
        upstream = upstream_open(world->client, &options, &reason);
        assert_non_null(upstream);
        probe_start(&probe, world, upstream, &request);
        finish(&probe);
        assert_int_equal(probe.result.outcome, rows[r].outcome);
        if (rows[r].outcome == LEG_TLS)
            assert_true(probe.detail[0]);
        else {
            assert_body(&probe, "ok");
            probe_start(&again, world, upstream, &request);
            finish(&again);
            assert_true(again.reused);
        }
        close_client(state);
        peer_free(peer);
        probe_clear(&probe);
        probe_clear(&again);
    }
    drop_identity();
}

static void speak_no_tls(struct peer *peer)
{
    if (!peer_accept(peer))
        return;
    peer_receive(peer);
    peer_send(peer, OK_ANSWER);
}

static void a_peer_that_speaks_no_tls_is_a_tls_failure(void **state)
{
    struct world *world = *state;
    struct peer *peer = peer_start(speak_no_tls, NULL);
    char url[64];
    const char *reason;
    struct upstream_options options = {.connect_timeout_ns = 5000 * MS, .insecure_skip_verify = true};
    struct leg_request request = get("/");
    struct probe probe = {0};

    snprintf(url, sizeof url, "https://127.0.0.1:%d", peer->port);
    options.url = coord_slice_of(url);
    probe_start(&probe, world, upstream_open(world->client, &options, &reason), &request);
    finish(&probe);
    assert_int_equal(probe.result.outcome, LEG_TLS);
    probe_clear(&probe);
    peer_free(peer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UPSTREAM_TEST(a_tls_peer_must_be_trusted_and_may_ask_who_we_are),
        UPSTREAM_TEST(a_peer_that_speaks_no_tls_is_a_tls_failure),
    };

    return cmocka_run_group_tests_name("TLS", tests, NULL, NULL);
}
