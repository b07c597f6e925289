/* See render.h. The checks of a generate request, whose client brings the ids itself (docs/api.md). */
#include "render.h"

#include <stdio.h>

static coord_status refuse(coord_request *request, const char *pointer, const char *what)
{
    coord_failure failure = {.size = sizeof failure, .status = 400, .param = pointer};
    char message[256];

    snprintf(message, sizeof message, "%s %s", pointer, what);
    failure.message = message;
    return coord_fail_with(request, &failure);
}

/* Absent, null or an object. */
static coord_status check_object(coord_request *request, coord_document *body, const char *pointer)
{
    int32_t type = coord_document_type(body, pointer);

    if (type == COORD_JSON_ABSENT || type == COORD_JSON_NULL || type == COORD_JSON_OBJECT)
        return COORD_OK;
    return refuse(request, pointer, "must be an object");
}

/* The place of one modality's list: "/features/mm_hashes/image", its name escaped as a pointer asks. */
static bool place_of(char *at, size_t room, const char *list, coord_slice modality)
{
    size_t used = (size_t)snprintf(at, room, "/features/%s/", list);

    for (size_t i = 0; i < modality.size; i++) {
        char c = modality.data[i];

        if (used + 3 > room || c == '\0')
            return false;
        if (c == '~' || c == '/') {
            at[used++] = '~';
            c = c == '~' ? '0' : '1';
        }
        at[used++] = c;
    }
    at[used] = '\0';
    return true;
}

static bool all_strings(coord_document *body, const char *at, bool or_null)
{
    size_t cursor = 0;
    coord_slice item;

    while (coord_document_next(body, at, &cursor, NULL, &item) == COORD_OK)
        if (item.data[0] != '"' && !(or_null && item.data[0] == 'n'))
            return false;
    return true;
}

/* Every placeholder lies inside the token list; the check cannot overflow. Adds up their lengths. */
static coord_status check_placeholders(coord_request *request, coord_document *body, const char *at, uint64_t tokens,
                                       uint64_t *sum)
{
    size_t count = coord_document_count(body, at);

    for (size_t i = 0; i < count; i++) {
        uint64_t offset = 0, length = 0;
        char place[320];

        snprintf(place, sizeof place, "%s/%zu/offset", at, i);
        if (coord_document_get_count(body, place, &offset) != COORD_OK || offset >= tokens)
            return refuse(request, coord_request_copy(request, coord_slice_of(place)).data,
                          "must be an index into token_ids");
        snprintf(place, sizeof place, "%s/%zu/length", at, i);
        if (coord_document_get_count(body, place, &length) != COORD_OK || length > tokens - offset)
            return refuse(request, coord_request_copy(request, coord_slice_of(place)).data,
                          "must be a length that ends inside token_ids");
        *sum += length;
    }
    return COORD_OK;
}

static coord_status check_modality(coord_request *request, coord_document *body, coord_slice modality, uint64_t tokens,
                                   uint64_t *sum)
{
    char hashes[256], placeholders[256], kwargs[256];
    size_t count;

    if (modality.size == 0 || !place_of(hashes, sizeof hashes, "mm_hashes", modality) ||
        !place_of(placeholders, sizeof placeholders, "mm_placeholders", modality) ||
        !place_of(kwargs, sizeof kwargs, "kwargs_data", modality))
        return refuse(request, "/features/mm_hashes", "has a modality without a usable name");
    if (coord_document_type(body, hashes) == COORD_JSON_NULL)
        return COORD_OK;
    count = coord_document_count(body, hashes);
    if (coord_document_type(body, hashes) != COORD_JSON_ARRAY || !all_strings(body, hashes, false))
        return refuse(request, "/features/mm_hashes", "must hold lists of strings");
    if ((count > 0 && coord_document_type(body, placeholders) != COORD_JSON_ARRAY) ||
        coord_document_count(body, placeholders) != count)
        return refuse(request, "/features/mm_placeholders", "must have as many entries as mm_hashes");
    if (coord_document_type(body, kwargs) != COORD_JSON_ABSENT &&
        coord_document_type(body, kwargs) != COORD_JSON_NULL &&
        (coord_document_type(body, kwargs) != COORD_JSON_ARRAY || coord_document_count(body, kwargs) != count ||
         !all_strings(body, kwargs, true)))
        return refuse(request, "/features/kwargs_data",
                      "must have as many entries as mm_hashes, each a string or null");
    return check_placeholders(request, body, placeholders, tokens, sum);
}

/* A list of a modality that mm_hashes does not know belongs to nothing. */
static coord_status check_strangers(coord_request *request, coord_document *body, const char *list)
{
    char at[64], place[256];
    size_t cursor = 0;
    coord_slice modality, value;

    snprintf(at, sizeof at, "/features/%s", list);
    while (coord_document_next(body, at, &cursor, &modality, &value) == COORD_OK)
        if (!place_of(place, sizeof place, "mm_hashes", modality) ||
            coord_document_type(body, place) == COORD_JSON_ABSENT)
            return refuse(request, list[0] == 'k' ? "/features/kwargs_data" : "/features/mm_placeholders",
                          "has a modality that mm_hashes lacks");
    return COORD_OK;
}

static coord_status check_features(const struct render *self, coord_request *request, coord_document *body,
                                   uint64_t tokens)
{
    static const char *const LISTS[] = {"/features/mm_hashes", "/features/mm_placeholders", "/features/kwargs_data"};
    coord_status status = check_object(request, body, "/features");
    size_t cursor = 0;
    coord_slice modality, value;
    uint64_t sum = 0;

    for (size_t i = 0; i < sizeof LISTS / sizeof *LISTS && status == COORD_OK; i++)
        status = check_object(request, body, LISTS[i]);
    while (status == COORD_OK && coord_document_next(body, LISTS[0], &cursor, &modality, &value) == COORD_OK)
        status = check_modality(request, body, modality, tokens, &sum);
    if (status == COORD_OK)
        status = check_strangers(request, body, "mm_placeholders");
    if (status == COORD_OK)
        status = check_strangers(request, body, "kwargs_data");
    if (status == COORD_OK && self->max_placeholder_tokens > 0 && sum > (uint64_t)self->max_placeholder_tokens)
        return coord_fail(request, 400, NULL, "the media of this request take %llu tokens, at most %lld are allowed",
                          (unsigned long long)sum, (long long)self->max_placeholder_tokens);
    return status;
}

coord_status render_generate(const struct render *self, coord_request *request)
{
    coord_document *body = coord_request_body(request);
    coord_slice ids;
    uint64_t count = 0;
    coord_status status;

    if (coord_document_get(body, "/token_ids", &ids) != COORD_OK ||
        coord_request_set_token_ids(request, ids) != COORD_OK ||
        coord_request_token_ids(request, &ids, &count) != COORD_OK || count == 0)
        return refuse(request, "/token_ids", "must be a list of at least one token id");
    status = render_check_length(self, request, count);
    if (status == COORD_OK)
        status = check_object(request, body, "/sampling_params");
    return status == COORD_OK ? check_features(self, request, body, count) : status;
}
