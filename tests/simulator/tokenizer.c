/* The tokenizer; see tokenizer.h. */
#include "tokenizer.h"

#include <string.h>

/* clang-format off */
static const char *const pieces[] = {
    "th", "he", "in", "er", "an", "re", "on", "at", "en", "nd", "ti", "es", "or", "te", "of", "ed", "is", "it", "al",
    "ar", "st", "to", "nt", "ng", "se", "ha", "as", "ou", "io", "le", "ve", "co", "me", "de", "hi", "ri", "ro", "ic",
    "ne", "ea", "ra", "ce", "ll", "el", "om", "us", "ur", "la", "ch", "ss", "the", "and", "ing", "ion", "tion", "ent",
    "for", "her", "ter", "hat", "tha", "ere", "ate", "his", "con", "res", "ver", "all", "ons", "nce", "men", "ith",
    "ted", "ers", "pro", "thi", "wit", "are", "ess", "not", "ive", "was", "ect", "rea", "com", "eve", "per", "int",
    "est", "sta", "cti", "ica", "ist", "ear", "ain", "one", "our", "iti", "rat", "ell", " the", " a", " of", " and",
    " to", " in", " is", " that", " it", " for", " was", " on", " are", " as", " with", " his", " they", " at", " be",
    " this", " have", " from", " or", " one", " had", " by", " word", " but", " not", " what", " all", " were", " we",
    " when", " your", " can", " said", " there", " use", " an", " each", " which", " she", " do", " how", " their",
    " if", " will", " up", " other", " about", " out", " many", " then", " them", " these", " so", " some", " her",
    " would", " make", " like", " him", " into", " time", " has", " look", " two", " more", " write", " go", " see",
    " number", " no", " way", " could", " people", " my", " than", " first", " water", " been", " call", " who",
    " its", " now", " find", " long", " down", " day", " did", " get", " come", " made", " may", " part", " token",
    " prompt", " model", " request", " route", " block", " stream", " event", " worker", " cache", " prefill",
    " decode", " render", " step", "user", "assist", "assistant", "system", "role", "content", "type", "text", "tool",
    "function", "name", "object", "string", "null", "true", "false", "hello", "world", "image", "url", "{\"", "\"}",
    "\":\"", "\",\"", "\":", "\":{\"", "\"},{\"", "[{\"", "\"}]", "\": \"", "\", \"", "\\n", "{\"role\":\"user\"",
    "\"content\":\"", "{\"type\":\"text\"", ". ", ", ", "  ", "    ", "\n",
};
enum { PIECES = sizeof pieces / sizeof *pieces };

static const char *const words[] = {
    " the", " worker", " sends", " a", " token", " when", " it", " is", " ready", " and", " then", " another",
    " block", " of", " cache", " moves", " to", " decode", " so", " that", " prefill", " can", " rest", " while",
    " events", " flow", " through", " every", " route", " in", " order", " no", " byte", " lost", " or", " added",
    " until", " stream", " ends", " with", " done", " which", " all", " readers", " await", " here", " we", " count",
    " what", " was", " said", " once", " more", " before", " long", " model", " dreams", " up", " new", " words",
    " for", " us", " now", " again",
};
/* clang-format on */
enum { WORDS = sizeof words / sizeof *words };
_Static_assert(WORDS == 64, "a mask picks the word");

/* Pieces by first byte: chains through `next`, built once. */
static struct {
    bool built;
    int16_t first[256];
    int16_t next[PIECES];
    uint8_t len[PIECES];
} table;

static void build_table(void)
{
    table.built = true;
    memset(table.first, -1, sizeof table.first);
    for (int i = PIECES - 1; i >= 0; i--) {
        unsigned char lead = (unsigned char)pieces[i][0];
        table.len[i] = (uint8_t)strlen(pieces[i]);
        table.next[i] = table.first[lead];
        table.first[lead] = (int16_t)i;
    }
}

uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

uint64_t fnv1a(struct text bytes)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < bytes.len; i++)
        hash = (hash ^ (unsigned char)bytes.at[i]) * 0x100000001b3u;
    return hash;
}

uint64_t fingerprint(struct text bytes) { return mix(fnv1a(bytes)); }

void token_add(struct token_sink *sink, uint64_t id)
{
    if (sink->list) {
        if (sink->count)
            buf_add(sink->list, ",", 1);
        buf_uint(sink->list, id);
    }
    sink->count++;
    sink->print = (sink->print ^ (id + 1)) * 0x9e3779b97f4a7c15u;
    sink->print ^= sink->print >> 29;
}

void tokenize(struct token_sink *sink, struct text text)
{
    if (!table.built)
        build_table();
    while (text.len) {
        unsigned char lead = (unsigned char)text.at[0];
        int best = -1;
        for (int i = table.first[lead]; i >= 0; i = table.next[i])
            if (table.len[i] <= text.len && (best < 0 || table.len[i] > table.len[best]) &&
                memcmp(pieces[i], text.at, table.len[i]) == 0)
                best = i;
        token_add(sink, best < 0 ? TOKEN_BYTE + (uint64_t)lead : TOKEN_PIECE + (uint64_t)best);
        size_t used = best < 0 ? 1 : table.len[best];
        text.at += used;
        text.len -= used;
    }
}

struct text tokenizer_word(uint64_t random)
{
    const char *word = words[random & (WORDS - 1)];
    return (struct text){word, strlen(word)};
}
