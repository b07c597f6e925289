/* Token ids of a request: kept as the JSON text that render (or the client) gave, counted, and shared by the legs (decision 32). */
#include "json/members.h"
#include "pipeline/call.h"
#include "pipeline/request.h"

enum { COPIED_BELOW = 1024 }; /* bytes of ids */

/* The text of the client's body or of a leg's answer that the ids stand in; NULL: they stand elsewhere. */
static struct json_text *text_around(const struct coord_request *request, coord_slice ids)
{
    struct json_text *text = request->body ? document_text_around(request->body, ids) : NULL;

    for (const struct coord_call *call = request->calls; call && !text; call = call->next_of_request)
        text = call->answer ? document_text_around(call->answer, ids) : NULL;
    return text;
}

/* Many ids that are most of the text they came in keep that text alive; others are copied, so that it need not live as long as they. */
static struct json_text *keep(const struct coord_request *request, coord_slice ids)
{
    struct json_text *text = ids.size < COPIED_BELOW ? NULL : text_around(request, ids);

    return text && ids.size >= text->bytes.size / 2 ? json_text_part_new(text, ids) : json_text_piece_new(ids);
}

coord_status coord_request_set_token_ids(coord_request *request, coord_slice json)
{
    struct token_text *kept;
    uint64_t count;

    if (!json_count_ids(json, &count))
        return COORD_INVALID;
    while (json.data[json.size - 1] != ']')
        json.size--;
    kept = arena_alloc(&request->arena, sizeof *kept);
    if (!kept)
        return COORD_NO_MEMORY;
    *kept = (struct token_text){request->token_texts, keep(request, json)};
    if (!kept->text)
        return COORD_NO_MEMORY;
    request->token_texts = kept;
    request->token_text = kept->text;
    request->token_ids = kept->text->bytes;
    request->token_count = count;
    request->has_token_ids = true;
    return COORD_OK;
}

coord_status coord_request_token_ids(const coord_request *request, coord_slice *json, uint64_t *count)
{
    if (!request->has_token_ids)
        return COORD_ABSENT;
    *json = request->token_ids;
    *count = request->token_count;
    return COORD_OK;
}

coord_status coord_request_put_token_ids(coord_request *request, coord_document *document, const char *pointer)
{
    return request->has_token_ids ? document_set_flat(document, pointer, request->token_text) : COORD_STATE;
}

void request_release_tokens(struct coord_request *request)
{
    for (; request->token_texts; request->token_texts = request->token_texts->next)
        json_text_unref(request->token_texts->text);
}
