/*
 * See upstream.h. Upstreams: their URL taken apart, shared by whoever asks for the same, freed after the last leg.
 *
 * An upstream's strings live in one buffer of its own that never grows after upstream_open, so that pointers into it hold.
 */
#include "upstream_private.h"

#include <arpa/inet.h>
#include <assert.h>
#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

/* Keeps a NUL-terminated copy that does not move; NULL when memory is short or the slice is empty. */
static char *keep(struct upstream *upstream, coord_slice text)
{
    char *copy = upstream->text.data + upstream->text.size;

    assert(upstream->text.size + text.size < upstream->text.capacity); /* reserved by keep_strings */
    if (text.size > 0)
        memcpy(copy, text.data, text.size);
    copy[text.size] = 0;
    upstream->text.size += text.size + 1;
    return copy;
}

/* A text put together here. */
static char *keep_printf(struct upstream *upstream, const char *format, ...) __attribute__((format(printf, 2, 3)));
static char *keep_printf(struct upstream *upstream, const char *format, ...)
{
    char *copy = upstream->text.data + upstream->text.size;
    size_t room = upstream->text.capacity - upstream->text.size;
    va_list arguments;
    int size;

    va_start(arguments, format);
    size = vsnprintf(copy, room, format, arguments);
    va_end(arguments);
    assert(size >= 0 && (size_t)size < room); /* reserved by keep_strings */
    upstream->text.size += (size_t)size + 1;
    return copy;
}

static char *keep_path(struct upstream *upstream, coord_slice *path)
{
    char *copy;

    if (path->size == 0)
        return NULL;
    copy = keep(upstream, *path);
    path->data = copy;
    return copy;
}

static bool keep_strings(struct upstream *upstream)
{
    struct upstream_options *options = &upstream->options;
    size_t size = 6 * options->url.size + options->ca_file.size + options->client_cert_file.size +
                  options->client_key_file.size + 128;

    if (!buffer_reserve(&upstream->text, size))
        return false;
    options->url.data = keep(upstream, options->url);
    upstream->ca_file = keep_path(upstream, &options->ca_file);
    upstream->client_cert_file = keep_path(upstream, &options->client_cert_file);
    upstream->client_key_file = keep_path(upstream, &options->client_key_file);
    return true;
}

static bool is_literal(const char *host)
{
    struct in6_addr address;

    return host[0] == '[' || inet_pton(AF_INET, host, &address) == 1;
}

/* Anything that a Host field or an address list could not carry as it is. */
static bool plain_text(coord_slice text)
{
    for (size_t i = 0; i < text.size; i++)
        if ((unsigned char)text.data[i] <= 0x20 || (unsigned char)text.data[i] >= 0x7f)
            return false;
    return text.size > 0;
}

static bool has_part(CURLU *url, CURLUPart part)
{
    char *text = NULL;
    bool there = curl_url_get(url, part, &text, 0) == CURLUE_OK;

    curl_free(text);
    return there;
}

static const char *take_host(struct upstream *upstream, CURLU *url)
{
    char *host = NULL, *port = NULL;
    const char *problem = "out of memory";

    if (curl_url_get(url, CURLUPART_HOST, &host, 0) || curl_url_get(url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT))
        goto out;
    upstream->port = (int)strtol(port, NULL, 10); /* digits up to 65535, by libcurl */
    problem = "the URL's port is 0";
    if (upstream->port <= 0)
        goto out;
    problem = "the URL's host name is too long";
    if (strlen(host) > 253)
        goto out;
    upstream->host = keep(upstream, is_literal(host) ? (coord_slice){NULL, 0} : coord_slice_of(host));
    upstream->host_port = keep_printf(upstream, "%s:%d", host, upstream->port);
    problem = NULL;
out:
    curl_free(host);
    curl_free(port);
    return problem;
}

/* http://[authority][/prefix]: both are kept as they are written. */
static const char *take_authority(struct upstream *upstream)
{
    coord_slice url = upstream->options.url;
    size_t start = upstream->secure ? strlen("https://") : strlen("http://");
    size_t end = start;

    while (end < url.size && url.data[end] != '/')
        end++;
    upstream->authority = (coord_slice){url.data + start, end - start};
    upstream->prefix = (coord_slice){url.data + end, url.size - end};
    while (upstream->prefix.size > 0 && upstream->prefix.data[upstream->prefix.size - 1] == '/')
        upstream->prefix.size--;
    upstream->origin = keep_printf(upstream, "%.*s/", (int)end, url.data);
    return end > start ? NULL : "the URL has no host";
}

static const char *parse_url(struct upstream *upstream)
{
    coord_slice text = upstream->options.url;
    CURLU *url;
    const char *problem = "not an http:// or https:// URL";

    upstream->secure = text.size > 8 && strncasecmp(text.data, "https://", 8) == 0;
    if (!plain_text(text) || (!upstream->secure && (text.size <= 7 || strncasecmp(text.data, "http://", 7) != 0)))
        return problem;
    url = curl_url();
    if (!url)
        return "out of memory";
    problem = "not a valid URL";
    if (curl_url_set(url, CURLUPART_URL, text.data, 0))
        goto out;
    problem = "the URL must not hold credentials";
    if (has_part(url, CURLUPART_USER) || has_part(url, CURLUPART_PASSWORD))
        goto out;
    problem = "the URL must not have a query or fragment";
    if (memchr(text.data, '?', text.size) || memchr(text.data, '#', text.size))
        goto out;
    problem = take_host(upstream, url);
    if (!problem)
        problem = take_authority(upstream);
out:
    curl_url_cleanup(url);
    return problem;
}

static const char *check_files(struct client *client, const struct upstream *upstream)
{
    const char *const files[] = {upstream->ca_file, upstream->client_cert_file, upstream->client_key_file};

    for (size_t i = 0; i < sizeof files / sizeof *files && !client->stand_in; i++) {
        if (!files[i] || access(files[i], R_OK) == 0)
            continue;
        snprintf(client->reason, sizeof client->reason, "cannot read %s: %s", files[i], strerror(errno));
        return client->reason;
    }
    return NULL;
}

static const char *choose_transport(struct upstream *upstream)
{
    enum upstream_transport wanted = upstream->options.transport;

    if (upstream->secure && wanted == UPSTREAM_DIRECT)
        return "the direct transport speaks no TLS: an https URL needs libcurl";
    upstream->chosen = upstream->secure || wanted == UPSTREAM_CURL ? &curl_transport : &direct_transport;
    upstream->transport = upstream->client->stand_in ? &stand_in_transport : upstream->chosen;
    if (upstream->client->stand_in)
        upstream->host[0] = '\0'; /* no lookup */
    return NULL;
}

static bool same_options(const struct upstream_options *a, const struct upstream_options *b)
{
    return a->transport == b->transport && coord_slice_equal(a->url, b->url) &&
           a->max_idle_connections == b->max_idle_connections && a->idle_age_ns == b->idle_age_ns &&
           a->connect_timeout_ns == b->connect_timeout_ns && coord_slice_equal(a->ca_file, b->ca_file) &&
           coord_slice_equal(a->client_cert_file, b->client_cert_file) &&
           coord_slice_equal(a->client_key_file, b->client_key_file) &&
           a->insecure_skip_verify == b->insecure_skip_verify;
}

static struct upstream *shared_upstream(struct client *client, const struct upstream_options *options)
{
    for (struct upstream *upstream = client->upstreams; upstream; upstream = upstream->next)
        if (same_options(&upstream->options, options))
            return upstream;
    return NULL;
}

struct upstream *upstream_open(struct client *client, const struct upstream_options *options, const char **reason)
{
    struct upstream *upstream = shared_upstream(client, options);

    if (upstream) {
        upstream->references++;
        return upstream;
    }
    *reason = "out of memory";
    upstream = calloc(1, sizeof *upstream);
    if (!upstream)
        return NULL;
    upstream->client = client;
    upstream->options = *options;
    upstream->references = 1;
    if (!keep_strings(upstream))
        goto failed;
    *reason = parse_url(upstream);
    if (!*reason)
        *reason = check_files(client, upstream);
    if (!*reason)
        *reason = choose_transport(upstream);
    if (*reason)
        goto failed;
    *reason = "out of memory";
    upstream->next = client->upstreams;
    client->upstreams = upstream;
    if (upstream->transport->open_upstream(upstream)) {
        *reason = NULL;
        return upstream;
    }
    client->upstreams = upstream->next;
failed:
    buffer_release(&upstream->text);
    free(upstream);
    return NULL;
}

void upstream_free(struct upstream *upstream)
{
    struct upstream **link = &upstream->client->upstreams;

    assert(upstream->attempts == 0);
    while (*link != upstream)
        link = &(*link)->next;
    *link = upstream->next;
    upstream->transport->close_upstream(upstream);
    buffer_release(&upstream->text);
    free(upstream);
}

void upstream_close(struct upstream *upstream)
{
    if (!upstream)
        return;
    assert(upstream->references > 0);
    upstream->references--;
    if (upstream->references == 0 && upstream->attempts == 0)
        upstream_free(upstream);
}

coord_slice upstream_prefix(const struct upstream *upstream) { return upstream->prefix; }

coord_slice upstream_authority(const struct upstream *upstream) { return upstream->authority; }
