/* See line.h. Runs of plain ASCII, which is nearly everything, are copied whole; the rest goes character by character. */
#include "telemetry/line.h"

#include "telemetry/utf8.h"

static const char hex_digits[] = "0123456789abcdef";

void line_unsigned(struct line *line, uint64_t value)
{
    char text[20];
    size_t at = sizeof text;

    do
        text[--at] = (char)('0' + value % 10);
    while (value /= 10);
    line_put(line, text + at, sizeof text - at);
}

void line_signed(struct line *line, int64_t value)
{
    if (value < 0)
        line_byte(line, '-');
    line_unsigned(line, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

void line_seconds(struct line *line, int64_t ns)
{
    uint64_t microseconds = ((ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns) + 500) / 1000;
    uint64_t fraction = microseconds % 1000000;
    char digits[7] = ".";
    size_t size = sizeof digits;

    if (ns < 0 && microseconds > 0)
        line_byte(line, '-');
    line_unsigned(line, microseconds / 1000000);
    if (fraction == 0)
        return;
    for (size_t at = sizeof digits; --at > 0; fraction /= 10)
        digits[at] = (char)('0' + fraction % 10);
    while (digits[size - 1] == '0')
        size--;
    line_put(line, digits, size);
}

/* What a plain byte is differs by escape only for the quote and the backslash. */
static const unsigned char special[256] = {
    [0x00] = 1, [0x01] = 1, [0x02] = 1, [0x03] = 1, [0x04] = 1, [0x05] = 1, [0x06] = 1, [0x07] = 1, [0x08] = 1,
    [0x09] = 1, [0x0A] = 1, [0x0B] = 1, [0x0C] = 1, [0x0D] = 1, [0x0E] = 1, [0x0F] = 1, [0x10] = 1, [0x11] = 1,
    [0x12] = 1, [0x13] = 1, [0x14] = 1, [0x15] = 1, [0x16] = 1, [0x17] = 1, [0x18] = 1, [0x19] = 1, [0x1A] = 1,
    [0x1B] = 1, [0x1C] = 1, [0x1D] = 1, [0x1E] = 1, [0x1F] = 1, ['"'] = 1,  ['\\'] = 1, [0x7F] = 1};

static inline bool plain(char byte) { return (unsigned char)byte < 0x80 && !special[(unsigned char)byte]; }

static void put_unicode(struct line *line, uint32_t character)
{
    const char escape[6] = {'\\',
                            'u',
                            hex_digits[character >> 12 & 0xF],
                            hex_digits[character >> 8 & 0xF],
                            hex_digits[character >> 4 & 0xF],
                            hex_digits[character & 0xF]};

    line_put(line, escape, sizeof escape);
}

static void put_ascii(struct line *line, char byte, enum line_escape escape)
{
    static const char named[] = "\"\\\n\r\t", names[] = "\"\\nrt";
    const char *name = byte ? strchr(named, byte) : NULL;

    if ((byte == '"' || byte == '\\') && escape == LINE_BARE) {
        line_byte(line, byte);
    } else if (name) {
        const char pair[2] = {'\\', names[name - named]};

        line_put(line, pair, sizeof pair);
    } else {
        put_unicode(line, (unsigned char)byte);
    }
}

static void put_invalid(struct line *line, char byte, enum line_escape escape)
{
    const char pair[4] = {'\\', 'x', hex_digits[(unsigned char)byte >> 4], hex_digits[byte & 0xF]};

    if (escape == LINE_JSON)
        line_text(line, "\\ufffd");
    else
        line_put(line, pair, sizeof pair);
}

/* C1, U+2028 … U+202E, U+2066 … U+2069: they move the cursor, the line or the reading direction. */
static bool steers(uint32_t character)
{
    return (character >= 0x80 && character < 0xA0) || (character >= 0x2028 && character <= 0x202E) ||
           (character >= 0x2066 && character <= 0x2069);
}

static void put_character(struct line *line, const char *at, size_t size)
{
    const unsigned char *byte = (const unsigned char *)at;
    uint32_t character = 0;

    if (size == 2)
        character = (uint32_t)(byte[0] & 0x1F) << 6 | (byte[1] & 0x3F);
    else if (size == 3)
        character = (uint32_t)(byte[0] & 0x0F) << 12 | (uint32_t)(byte[1] & 0x3F) << 6 | (byte[2] & 0x3F);
    if (steers(character))
        put_unicode(line, character);
    else
        line_put(line, at, size);
}

/* A run that does not fit is cut; ASCII may be cut anywhere. */
static void put_run(struct line *line, const char *run, size_t size)
{
    size_t left = line_left(line);

    line_put(line, run, size < left ? size : left);
    line->full = line->full || size > left;
}

void line_escaped(struct line *line, coord_slice text, enum line_escape escape)
{
    const char *at = text.data, *end = at ? at + text.size : NULL;

    while (at != end && !line->full) {
        const char *run = at;
        size_t size;

        while (end - at >= 8 && line_plain_8(at, ' ', '"'))
            at += 8;
        while (at != end && plain(*at))
            at++;
        if (at != run)
            put_run(line, run, (size_t)(at - run));
        if (at == end)
            break;
        if ((unsigned char)*at < 0x80) {
            put_ascii(line, *at++, escape);
            continue;
        }
        size = utf8_character(at, end);
        if (size > 0)
            put_character(line, at, size);
        else
            put_invalid(line, *at, escape);
        at += size > 0 ? size : 1;
    }
}
