/*
 * Fuzz target: any text as the value of a param of each type. The first byte chooses the type; what is accepted must print, and
 * what was printed must be read back as the same value.
 */
#include "config/values.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const choices[] = {"close", "keep", NULL};
static const coord_param rows[] = {
    {COORD_PARAM(STRING, "value", "h")},
    {COORD_PARAM(SECRET, "value", "h")},
    {COORD_PARAM(BOOL, "value", "h")},
    {COORD_PARAM(INT, "value", "h"), .minimum = -100, .maximum = INT64_MAX},
    {COORD_PARAM(NUMBER, "value", "h"), .minimum = -100, .maximum = 1000000},
    {COORD_PARAM(DURATION, "value", "h"), .maximum = INT64_MAX},
    {COORD_PARAM(SIZE, "value", "h"), .maximum = INT64_MAX},
    {COORD_PARAM(ENUM, "value", "h"), .choices = choices},
    {COORD_PARAM(URL, "value", "h")},
    {COORD_PARAM(STRING_LIST, "value", "h")},
    {COORD_PARAM(STRING_MAP, "value", "h")},
};

static void check(bool holds)
{
    if (!holds)
        abort();
}

static struct override given(void *context, const char *name)
{
    (void)name;
    return (struct override){*(coord_slice *)context, true, {.file = "--value"}, VALUE_FLAG};
}

/* Texts of single values, straight. */
static void parse_all(struct arena *arena, coord_slice text)
{
    int64_t integer, again;
    uint64_t bytes;
    coord_slice url, normal;
    const char *reason;

    if (parse_duration(text, &integer)) {
        char *printed = arena_printf(arena, "%lldns", (long long)integer);

        check(printed && parse_duration(coord_slice_of(printed), &again) && again == integer);
    }
    if (parse_integer(text, &integer))
        check(text.size > 0);
    if (parse_size(text, &bytes))
        check(text.data[0] >= '0' && text.data[0] <= '9');
    if (parse_url(arena, text, &url, &reason))
        check(parse_url(arena, url, &normal, &reason) && coord_slice_equal(url, normal));
    else
        check(reason != NULL);
}

/* One value by the table; false when it was refused. */
static bool load(struct arena *arena, const coord_param *row, const struct node *map, coord_slice *override,
                 struct coord_config *config)
{
    struct complaints complaints = {0};
    struct param_table table = {row, 1, sizeof *row};
    struct values_input input = {.arena = arena, .tables = &table, .table_count = 1, .where = "step fuzz", .map = map};
    bool good;

    if (override) {
        input.override = given;
        input.override_context = override;
    }
    good = values_load(&input, config, &complaints);
    check(good == (complaints.errors == 0));
    complaints_release(&complaints);
    return good;
}

/* What value_print wrote is YAML that gives the same value. */
static void read_back(struct arena *arena, const coord_param *row, const struct value *value)
{
    struct buffer text = {0};
    struct complaints complaints = {0};
    struct coord_config config;
    struct node *map;
    const struct value *again;

    check(buffer_append_text(&text, "value: ") && value_print(value, &text));
    map = tree_parse(arena, "printed", buffer_slice(&text), &complaints);
    check(map && load(arena, row, map, NULL, &config));
    again = &config.values[0];
    check(again->source == VALUE_FILE && again->integer == value->integer && again->count == value->count);
    check(row->type != COORD_PARAM_STRING || coord_slice_equal(again->text, value->text));
    complaints_release(&complaints);
    buffer_release(&text);
}

static bool printable(coord_slice text)
{
    for (size_t i = 0; i < text.size; i++) {
        if ((unsigned char)text.data[i] >= 0x7f || text.data[i] == '$' || text.data[i] == 0)
            return false;
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena = {0};
    struct complaints complaints = {0};
    struct coord_config config;
    const coord_param *row;
    coord_slice text;

    if (size == 0)
        return 0;
    row = &rows[data[0] % (sizeof rows / sizeof *rows)];
    text = (coord_slice){(const char *)data + 1, size - 1};
    parse_all(&arena, text);
    if (load(&arena, row, NULL, &text, &config) && config.values[0].source == VALUE_FLAG && !config.values[0].secret &&
        printable(text))
        read_back(&arena, row, &config.values[0]);
    load(&arena, row, tree_parse(&arena, "fuzz", text, &complaints), NULL, &config);
    complaints_release(&complaints);
    arena_release(&arena);
    return 0;
}
