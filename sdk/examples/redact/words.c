/* Words in texts that come in pieces; see words.h. */
#include "words.h"

#include <stdlib.h>

/* A character, and where in its piece it is spelled: `ü` and `\u00fc` are the same letter. */
struct letter {
    struct piece *piece;
    size_t from, to;
    size_t size;
    char bytes[4]; /* UTF-8 */
};

/* ---- Letters of a JSON string ---- */

static unsigned hex_of(const char *digits)
{
    unsigned value = 0;

    for (int i = 0; i < 4; i++) {
        unsigned char c = (unsigned char)digits[i];

        value = value << 4 | (c <= '9' ? c - (unsigned)'0' : (c | 0x20U) - 'a' + 10U);
    }
    return value;
}

static void put_code(struct letter *letter, unsigned code)
{
    static const unsigned char leads[] = {0, 0, 0xc0, 0xe0, 0xf0};

    letter->size = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = letter->size - 1; i > 0; i--, code >>= 6)
        letter->bytes[i] = (char)(0x80U | (code & 0x3fU));
    letter->bytes[0] = (char)(leads[letter->size] | code);
}

/* \uXXXX at `at`, or two of them that make one character; half of such a pair alone is U+FFFD. */
static void read_code(struct letter *letter, const char *text, size_t at)
{
    unsigned code = hex_of(text + at + 2), low;

    letter->to = at + 6;
    if (code >= 0xd800 && code < 0xe000) {
        low = code < 0xdc00 && text[at + 6] == '\\' && text[at + 7] == 'u' ? hex_of(text + at + 8) : 0;
        if (low >= 0xdc00 && low < 0xe000) {
            code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
            letter->to = at + 12;
        } else {
            code = 0xfffd;
        }
    }
    put_code(letter, code);
}

/* The letter at `at` of a valid JSON string, whose closing quote ends every look ahead. */
static struct letter read_letter(struct piece *piece, size_t at)
{
    static const char escapes[] = "bfnrt", meant[] = "\b\f\n\r\t";
    const char *text = piece->json.data, *escape;
    unsigned char c = (unsigned char)text[at];
    struct letter letter = {.piece = piece, .from = at};

    if (c == '\\' && text[at + 1] == 'u') {
        read_code(&letter, text, at);
    } else if (c == '\\') {
        escape = strchr(escapes, text[at + 1]);
        letter.to = at + 2;
        put_code(&letter, (unsigned char)(escape ? meant[escape - escapes] : text[at + 1]));
    } else {
        letter.size = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
        letter.to = at + letter.size;
        memcpy(letter.bytes, text + at, letter.size);
    }
    return letter;
}

static bool append_letters(struct run *run, struct piece *piece)
{
    size_t most = run->count + piece->json.size;
    struct letter *grown = most > run->room ? realloc(run->letters, most * sizeof *grown) : run->letters;

    if (!grown)
        return false;
    run->letters = grown;
    run->room = most > run->room ? most : run->room;
    for (size_t at = 1; at < piece->json.size - 1; at = run->letters[run->count++].to) {
        run->letters[run->count] = read_letter(piece, at);
        piece->undecided++;
    }
    return true;
}

/* ---- Matching ---- */

static char fold(char c, bool ignore_case) { return (char)(ignore_case && c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c); }

enum { NO_MATCH, MAY_MATCH, MATCHES };

/* Whether the word stands at letter `at`: so many letters, `*count`; or may, once more has come. */
static int compare(const struct run *run, size_t at, const char *word, bool ignore_case, size_t *count)
{
    for (*count = 0; *word; (*count)++) {
        const struct letter *letter = &run->letters[at + *count];

        if (at + *count == run->count)
            return MAY_MATCH;
        for (size_t i = 0; i < letter->size; i++, word++)
            if (fold(letter->bytes[i], ignore_case) != fold(*word, ignore_case))
                return NO_MATCH;
    }
    return MATCHES;
}

static bool add_cut(struct piece *piece, struct cut cut)
{
    struct cut *grown = realloc(piece->cuts, (piece->cut_count + 1) * sizeof *grown);

    if (!grown)
        return false;
    piece->cuts = grown;
    piece->cuts[piece->cut_count++] = cut;
    return true;
}

/* Takes out the letters of a match: one cut in each piece that has some of them, the replacement in the first. */
static bool cut_out(const struct letter *letters, size_t count)
{
    for (size_t i = 0, next; i < count; i = next) {
        struct piece *piece = letters[i].piece;

        for (next = i + 1; next < count && letters[next].piece == piece;)
            next++;
        if (!add_cut(piece, (struct cut){letters[i].from, letters[next - 1].to, i == 0}))
            return false;
        piece->undecided -= next - i;
    }
    return true;
}

/* Decides letters from the first on; unless this is the `end`, up to where a word may have begun. */
static bool decide(struct run *run, const struct words *words, bool end)
{
    size_t at = 0;

    while (at < run->count) {
        size_t longest = 0, count;
        bool wait = false;

        for (size_t i = 0; i < words->count; i++) {
            int result = compare(run, at, words->list[i], words->ignore_case, &count);

            if (result == MATCHES && count > longest)
                longest = count;
            wait = wait || (result == MAY_MATCH && !end);
        }
        if (wait)
            break;
        if (longest == 0)
            run->letters[at++].piece->undecided--;
        else if (cut_out(run->letters + at, longest))
            at += longest;
        else
            return false;
    }
    run->count -= at;
    memmove(run->letters, run->letters + at, run->count * sizeof *run->letters);
    return true;
}

bool run_add(struct run *run, struct piece *piece, const struct words *words)
{
    return append_letters(run, piece) && decide(run, words, false);
}

bool run_settle(struct run *run, const struct words *words) { return run->count == 0 || decide(run, words, true); }

void run_free(struct run *run) { free(run->letters); }

/* ---- What is left of a piece ---- */

char *piece_text_new(const struct piece *piece, const struct words *words, size_t *size)
{
    char *text = malloc(piece->json.size + piece->cut_count * words->replacement_size + 1), *to = text;
    size_t at = 0;

    if (!text)
        return NULL;
    for (size_t i = 0; i < piece->cut_count; i++) {
        const struct cut *cut = &piece->cuts[i];

        memcpy(to, piece->json.data + at, cut->from - at);
        to += cut->from - at;
        if (cut->put) {
            memcpy(to, words->replacement, words->replacement_size);
            to += words->replacement_size;
        }
        at = cut->to;
    }
    memcpy(to, piece->json.data + at, piece->json.size - at);
    *size = (size_t)(to - text) + piece->json.size - at;
    return text;
}

void piece_free(struct piece *piece) { free(piece->cuts); }
