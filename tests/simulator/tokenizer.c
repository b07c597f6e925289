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
_Static_assert(TOKEN_PIECE + PIECES <= TOKEN_LETTERS, "ids must not meet");

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

/* Pieces by their first two bytes (a piece of one byte: by that byte), longest first. Built once. */
static struct {
    bool built;
    int16_t one[256];
    int16_t first[65536];
    int16_t next[PIECES];
    uint8_t len[PIECES];
} table;

static int16_t *chain(const char *at)
{
    return &table.first[(unsigned)(unsigned char)at[0] << 8 | (unsigned char)at[1]];
}

static void build_table(void)
{
    table.built = true;
    memset(table.one, -1, sizeof table.one);
    memset(table.first, -1, sizeof table.first);
    for (int i = 0; i < PIECES; i++) {
        table.len[i] = (uint8_t)strlen(pieces[i]);
        if (table.len[i] == 1) {
            table.one[(unsigned char)pieces[i][0]] = (int16_t)i;
            continue;
        }
        int16_t *link = chain(pieces[i]);
        while (*link >= 0 && table.len[*link] >= table.len[i])
            link = &table.next[*link];
        table.next[i] = *link;
        *link = (int16_t)i;
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

uint64_t fingerprint(struct text bytes)
{
    uint64_t hash = bytes.len, word;
    for (; bytes.len >= sizeof word; bytes.at += sizeof word, bytes.len -= sizeof word) {
        memcpy(&word, bytes.at, sizeof word);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 32;
    }
    return mix(hash ^ fnv1a(bytes));
}

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

static int longest_piece(struct text text)
{
    if (text.len >= 2)
        for (int i = *chain(text.at); i >= 0; i = table.next[i])
            if (table.len[i] <= text.len && memcmp(pieces[i], text.at, table.len[i]) == 0)
                return i;
    return table.one[(unsigned char)text.at[0]];
}

/* Three small letters, with or without a space before them, have an id of their own. Returns the length, 0 for none. */
static size_t letters(struct text text, uint64_t *id)
{
    size_t space = text.at[0] == ' ';
    if (text.len < space + 3)
        return 0;
    uint64_t number = space;
    for (size_t i = space; i < space + 3; i++) {
        if (text.at[i] < 'a' || text.at[i] > 'z')
            return 0;
        number = number * 26 + (uint64_t)(text.at[i] - 'a');
    }
    *id = TOKEN_LETTERS + number;
    return space + 3;
}

void tokenize(struct token_sink *sink, struct text text)
{
    if (!table.built)
        build_table();
    while (text.len) {
        uint64_t id = TOKEN_BYTE + (uint64_t)(unsigned char)text.at[0];
        size_t used = 1;
        int piece = longest_piece(text);
        if (piece >= 0) {
            id = TOKEN_PIECE + (uint64_t)piece;
            used = table.len[piece];
        }
        if (used < 4) {
            uint64_t other;
            size_t len = letters(text, &other);
            if (len > used) {
                id = other;
                used = len;
            }
        }
        token_add(sink, id);
        text.at += used;
        text.len -= used;
    }
}

struct text tokenizer_word(uint64_t random)
{
    const char *word = words[random & (WORDS - 1)];
    return (struct text){word, strlen(word)};
}
