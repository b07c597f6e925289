/* TLS on both listeners and to the gateway; certificates that change while serving. */
#include "harness.h"

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char folder[] = "/tmp/e2e-tls-XXXXXX";

static void save(const char *name, const gnutls_datum_t *pem)
{
    char path[128], temporary[128];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    snprintf(temporary, sizeof temporary, "%s/%s.new", folder, name);
    file_write(temporary, (const char *)pem->data);
    assert_int_equal(rename(temporary, path), 0);
}

/* A key and a certificate for localhost and 127.0.0.1, signed by itself. */
static void make_certificate(unsigned char serial)
{
    unsigned char address[4] = {127, 0, 0, 1};
    gnutls_x509_privkey_t key;
    gnutls_x509_crt_t certificate;
    gnutls_datum_t pem;

    assert_int_equal(gnutls_x509_privkey_init(&key), 0);
    assert_int_equal(
        gnutls_x509_privkey_generate(key, GNUTLS_PK_EC, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0), 0);
    assert_int_equal(gnutls_x509_crt_init(&certificate), 0);
    gnutls_x509_crt_set_version(certificate, 3);
    gnutls_x509_crt_set_serial(certificate, &serial, 1);
    gnutls_x509_crt_set_activation_time(certificate, time(NULL) - 3600);
    gnutls_x509_crt_set_expiration_time(certificate, time(NULL) + 86400);
    gnutls_x509_crt_set_dn(certificate, "CN=localhost", NULL);
    gnutls_x509_crt_set_subject_alt_name(certificate, GNUTLS_SAN_DNSNAME, "localhost", 9, GNUTLS_FSAN_SET);
    gnutls_x509_crt_set_subject_alt_name(certificate, GNUTLS_SAN_IPADDRESS, address, 4, GNUTLS_FSAN_APPEND);
    gnutls_x509_crt_set_basic_constraints(certificate, 1, -1);
    gnutls_x509_crt_set_key(certificate, key);
    assert_int_equal(gnutls_x509_crt_sign2(certificate, certificate, key, GNUTLS_DIG_SHA256, 0), 0);
    assert_int_equal(gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &pem), 0);
    save("tls.key", &pem);
    gnutls_free(pem.data);
    assert_int_equal(gnutls_x509_crt_export2(certificate, GNUTLS_X509_FMT_PEM, &pem), 0);
    save("tls.crt", &pem);
    gnutls_free(pem.data);
    gnutls_x509_crt_deinit(certificate);
    gnutls_x509_privkey_deinit(key);
}

static const char *server_lines(void)
{
    static char lines[256];

    snprintf(lines, sizeof lines, "  cert_path: %s\n  metrics_cert_dir: %s", folder, folder);
    return lines;
}

static void both_listeners_speak_tls(void **state)
{
    struct client *client;

    (void)state;
    deploy(&(struct plan){.server = server_lines()});
    for (int i = 0; i < 3; i++) {
        client = client_open_tls(deployed.port, NULL);
        client_post(client, CHAT_PATH, "", span_of(i ? STREAM : CHAT));
        assert_true(client_read(client, PATIENCE_MS));
        assert_int_equal(client->answer.status, 200);
        client_post(client, CHAT_PATH, "", span_of("nonsense")); /* the connection goes on */
        assert_true(client_read(client, PATIENCE_MS));
        assert_int_equal(client->answer.status, 400);
    }
    client = client_open_tls(deployed.metrics_port, NULL);
    client_say(client, "GET /metrics HTTP/1.1\r\nHost: c\r\n\r\n");
    assert_true(client_read(client, PATIENCE_MS));
    assert_contains(client->answer.body.data, "llm_d_coordinator_request_total{model_name=\"m\"} 3");
    client = client_open(deployed.port); /* plain text on a TLS port */
    client_say(client, "GET /healthz HTTP/1.1\r\nHost: c\r\n\r\n");
    assert_true(client_wait_closed(client, 5000));
}

static void hang(struct stage *stage)
{
    stage_stream_head(stage);
    stage_chunk(stage, "data: {}\n\n", 10);
    stage_wait_closed(stage, PATIENCE_MS);
}

static void a_tls_client_that_leaves_stops_its_leg_too(void **state)
{
    struct scripted *worker = scripted_start(&(struct scripted_options){.decode = hang});
    struct client *client;
    int64_t left_at, closed_at;

    (void)state;
    deploy(&(struct plan){.server = server_lines(), .no_sim = true, .gateway_port = scripted_port(worker)});
    client = client_open_tls(deployed.port, NULL);
    client_post(client, CHAT_PATH, "", span_of(STREAM));
    assert_true(client_read_head(client, PATIENCE_MS));
    left_at = now_ms();
    client_close(client);
    UNTIL((closed_at = scripted_closed_ms(worker, scripted_find(worker, "decode", 0))) != 0);
    assert_true(closed_at - left_at < promptly_ms());
}

static void a_replaced_certificate_is_served_without_a_restart(void **state)
{
    char before[65], now[65];
    struct client *old;

    (void)state;
    deploy(&(struct plan){.server = server_lines()});
    old = client_open_tls(deployed.port, before);
    make_certificate(2);
    UNTIL((client_close(client_open_tls(deployed.port, now)), pause_ms(100), strcmp(before, now) != 0));
    UNTIL((client_close(client_open_tls(deployed.metrics_port, now)), pause_ms(100), strcmp(before, now) != 0));
    client_post(old, CHAT_PATH, "", span_of(CHAT)); /* who was there before stays */
    assert_true(client_read(old, PATIENCE_MS));
    assert_int_equal(old->answer.status, 200);
    /* A broken one changes nothing. */
    {
        char path[128];

        snprintf(path, sizeof path, "%s/tls.crt", folder);
        file_write(path, "nonsense\n");
    }
    UNTIL(strstr(process_log(&deployed.coordinator), "not reloaded"));
    client_close(client_open_tls(deployed.port, before));
    assert_string_equal(before, now);
    make_certificate(3);
}

static void an_https_gateway_is_verified(void **state)
{
    char certificate[128], key[128], url[64], gateway[256];
    struct scripted *worker;
    struct client *client;

    (void)state;
    snprintf(certificate, sizeof certificate, "%s/tls.crt", folder);
    snprintf(key, sizeof key, "%s/tls.key", folder);
    worker = scripted_start(&(struct scripted_options){.certificate = certificate, .key = key});
    snprintf(url, sizeof url, "https://localhost:%u", scripted_port(worker));
    snprintf(gateway, sizeof gateway, "  ca_file: %s", certificate);
    deploy(&(struct plan){.no_sim = true, .gateway_url = url, .gateway = gateway, .steps = "    - type: decode\n"});
    for (int i = 0; i < 3; i++) {
        client = fetch("POST", CHAT_PATH, "", i ? STREAM : CHAT);
        if (client->answer.status != 200)
            fail_msg("status %d: %s", client->answer.status, client->answer.body.data);
        assert_true(client->answer.whole);
    }
    assert_int_equal(fetch("GET", "/v1/models", "", NULL)->answer.status, 200);
    assert_int_equal(harness_end(NULL), 0);
    worker = scripted_start(&(struct scripted_options){.certificate = certificate, .key = key});
    snprintf(url, sizeof url, "https://localhost:%u", scripted_port(worker));
    deploy(&(struct plan){
        .no_sim = true, .gateway_url = url, .steps = "    - type: decode\n"}); /* nobody vouches for it */
    client = fetch("POST", CHAT_PATH, "", CHAT);
    assert_int_equal(client->answer.status, 502);
    assert_int_equal(scripted_count(worker, NULL), 0);
}

static void a_certificate_of_its_own_is_made_when_asked_for(void **state)
{
    struct client *client;

    (void)state;
    deploy(&(struct plan){.server = "  secure_serving: true"});
    assert_contains(process_log(&deployed.coordinator), "self-signed");
    client = client_open_tls(deployed.port, NULL);
    client_say(client, "GET /healthz HTTP/1.1\r\nHost: c\r\n\r\n");
    assert_true(client_read(client, PATIENCE_MS));
    assert_int_equal(client->answer.status, 200);
}

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    make_certificate(1);
    return 0;
}

static int remove_folder(void **state)
{
    char path[128];

    (void)state;
    snprintf(path, sizeof path, "%s/tls.crt", folder);
    unlink(path);
    snprintf(path, sizeof path, "%s/tls.key", folder);
    unlink(path);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(both_listeners_speak_tls),
        TEST(a_tls_client_that_leaves_stops_its_leg_too),
        TEST(a_replaced_certificate_is_served_without_a_restart),
        TEST(an_https_gateway_is_verified),
        TEST(a_certificate_of_its_own_is_made_when_asked_for),
    };

    harness_select();
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
