/*
 * The KV connector `kv-nixl`: decode pulls the KV cache from the prefill worker by NIXL.
 *
 * Prefill gets the six handshake members, its answer's kv_transfer_params reach decode byte for byte but for the two flags,
 * which are set here. Where prefill named no blocks (it did not run, failed, or has no connector) decode is told to compute the prompt
 * itself. With dp_size above 1 both legs are pinned to a data-parallel rank. Sources: the Go coordinator, vLLM 0.32.0 on
 * the wire (tests/data/vllm-0.32), docs/engine.md.
 */
#include "common/place.h"

#include <coordinator/plugin.h>

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>

struct kv_nixl {
    uint64_t dp_size;
};

static const coord_param PARAMS[] = {
    {COORD_PARAM(INT, "dp_size",
                 "Data-parallel ranks of a worker; above 1 each leg is pinned to one by x-data-parallel-rank."),
     .fallback = "1", .inherits = "dp_size", .minimum = 1, .maximum = 65536},
};

static coord_status kv_nixl_create(const coord_config *config, void **state, coord_error *error)
{
    struct kv_nixl *self = calloc(1, sizeof *self);
    unsigned char digest[EVP_MAX_MD_SIZE];
    int64_t size = 1;

    if (!self || coord_config_int(config, "dp_size", &size) != COORD_OK) {
        free(self);
        return coord_error_set(error, "dp_size could not be read");
    }
    self->dp_size = (uint64_t)size;
    if (size > 1 && EVP_Digest("", 0, digest, NULL, EVP_blake2s256(), NULL) != 1) {
        free(self);
        return coord_error_set(error,
                               "dp_size above 1 needs BLAKE2s, which libcrypto does not offer here (FIPS mode?)");
    }
    *state = self;
    return COORD_OK;
}

/* The first eight bytes, big-endian, of BLAKE2s-256 of the request's id, modulo dp_size. */
static uint64_t hashed_rank(const struct kv_nixl *self, coord_slice id)
{
    unsigned char digest[EVP_MAX_MD_SIZE] = {0};
    uint64_t value = 0;

    if (EVP_Digest(id.data, id.size, digest, NULL, EVP_blake2s256(), NULL) != 1)
        return 0;
    for (size_t i = 0; i < 8; i++)
        value = value << 8 | digest[i];
    return value % self->dp_size;
}

static coord_status pin(coord_request *request, coord_call *call, uint64_t rank)
{
    char text[24];

    snprintf(text, sizeof text, "%llu", (unsigned long long)rank);
    if (coord_call_set_header(call, "x-data-parallel-rank", coord_slice_of(text)) != COORD_OK)
        return coord_fail(request, 500, NULL, "memory is short");
    return COORD_OK;
}

static coord_status prepare_prefill(void *state, coord_request *request, coord_document *body, const char *params_at,
                                    coord_call *call)
{
    const struct kv_nixl *self = state;
    static const coord_slice handshake =
        COORD_SLICE("{\"do_remote_decode\":true,\"do_remote_prefill\":false,\"remote_engine_id\":null,"
                    "\"remote_block_ids\":null,\"remote_host\":null,\"remote_port\":null}");
    coord_status status = coord_fail_member(request, coord_document_set(body, params_at, handshake), params_at, NULL);

    if (status != COORD_OK || self->dp_size == 1)
        return status;
    return pin(request, call, hashed_rank(self, coord_request_id(request)));
}

static coord_status read_prefill(void *state, coord_request *request, coord_document *answer, coord_call *call)
{
    coord_slice params;

    (void)state;
    (void)call;
    if (coord_document_type(answer, "/kv_transfer_params") != COORD_JSON_OBJECT ||
        coord_document_count(answer, "/kv_transfer_params") == 0 ||
        coord_document_get(answer, "/kv_transfer_params", &params) != COORD_OK)
        return COORD_OK;
    if (coord_request_set_kv_params(request, params) != COORD_OK)
        return coord_fail(request, 500, NULL, "memory is short");
    return COORD_OK;
}

/* The rank that prefill named, if it is one; else the same hash as for prefill. */
static uint64_t decode_rank(const struct kv_nixl *self, coord_request *request, coord_document *body,
                            const char *params_at)
{
    uint64_t rank = 0;
    char at[PLACE_SIZE];

    if (coord_document_get_count(body, place_of_member(at, params_at, "/remote_dp_rank"), &rank) == COORD_OK &&
        rank < self->dp_size)
        return rank;
    return hashed_rank(self, coord_request_id(request));
}

static coord_status set_flags(coord_document *body, const char *params_at, bool fetches)
{
    char at[PLACE_SIZE];
    coord_status status = coord_document_set(body, place_of_member(at, params_at, "/do_remote_decode"),
                                             (coord_slice)COORD_SLICE("false"));

    if (status != COORD_OK)
        return status;
    return coord_document_set(body, place_of_member(at, params_at, "/do_remote_prefill"),
                              coord_slice_of(fetches ? "true" : "false"));
}

/* A vLLM that is told to fetch and not which blocks dies of it (0.32.0, an assertion of its NIXL scheduler). */
static bool names_blocks(coord_document *body, const char *params_at)
{
    char at[PLACE_SIZE];
    int32_t type = coord_document_type(body, place_of_member(at, params_at, "/remote_block_ids"));

    if (type == COORD_JSON_ARRAY)
        return coord_document_count(body, at) > 0;
    return type != COORD_JSON_ABSENT && type != COORD_JSON_NULL;
}

static coord_status prepare_decode(void *state, coord_request *request, coord_document *body, const char *params_at,
                                   coord_call *call)
{
    /* Nothing was prefilled: decode computes the prompt itself. */
    static const coord_slice compute = COORD_SLICE("{\"do_remote_decode\":false,\"do_remote_prefill\":false}");
    const struct kv_nixl *self = state;
    coord_slice params;
    bool prefilled = coord_request_kv_params(request, &params) == COORD_OK;
    coord_status status = coord_document_set(body, params_at, prefilled ? params : compute);

    if (status == COORD_OK && prefilled)
        status = set_flags(body, params_at, names_blocks(body, params_at));
    if (status == COORD_REPEATED)
        return coord_fail(request, 502, NULL, "prefill's kv_transfer_params hold a flag twice");
    if (status != COORD_OK)
        return coord_fail_member(request, status, params_at, NULL);
    return self->dp_size == 1 ? COORD_OK : pin(request, call, decode_rank(self, request, body, params_at));
}

static const coord_connector_type KV_NIXL = {
    .size = sizeof KV_NIXL,
    .flags = COORD_CONNECTOR_READS_ANSWER,
    .kind = COORD_CONNECTOR_KV,
    .name = "kv-nixl",
    .help = "Decode pulls the KV cache from the prefill worker by NIXL.",
    COORD_STEP_PARAMS(PARAMS),
    .create = kv_nixl_create,
    .destroy = free,
    .prepare_prefill = prepare_prefill,
    .read_prefill = read_prefill,
    .prepare_decode = prepare_decode,
};

COORD_PLUGIN(.name = "kv-nixl", .version = "0.1.0", .licence = "Apache-2.0",
             .connectors = (const coord_connector_type *const[]){&KV_NIXL, NULL})
