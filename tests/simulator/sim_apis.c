#include "sim_apis.h"

const struct api APIS[API_COUNT] = {
    {CHAT_PATH, CHAT_BODY(""), "/usage/prompt_tokens", "/usage/prompt_tokens_details/cached_tokens", true},
    {COMPLETIONS_PATH, "{\"model\":\"m\",\"prompt\":\"hello there, all of you\"}", "/usage/prompt_tokens",
     "/usage/prompt_tokens_details/cached_tokens", false},
    {RESPONSES_PATH, "{\"model\":\"m\",\"input\":\"hello there\"}", "/usage/input_tokens",
     "/usage/input_tokens_details/cached_tokens", true},
    {MESSAGES_PATH, CHAT_BODY(",\"max_tokens\":20"), NULL, "/usage/cache_read_input_tokens", true},
    {GENERATE_PATH, "{\"model\":\"m\",\"token_ids\":[0,5,6,7],\"sampling_params\":{\"max_tokens\":20}}",
     "/usage/prompt_tokens", "/usage/prompt_tokens_details/cached_tokens", false},
};

int64_t messages_prompt(const char *json, const char *usage)
{
    char pointer[96];
    int64_t sum = 0;
    static const char *const members[] = {"input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"};

    for (size_t i = 0; i < 3; i++) {
        snprintf(pointer, sizeof pointer, "%s/%s", usage, members[i]);
        sum += has_in(json, pointer) ? number_in(json, pointer) : 0;
    }
    return sum;
}

int64_t prompt_of(const struct api *api, const struct client *client)
{
    return api->prompt ? number_of(client, api->prompt) : messages_prompt(client->answer.body.data, "/usage");
}
