/*
 * Fuzz target: any bytes as a configuration file. Whatever comes back is walked and printed; a tree without complaints must
 * load the same twice.
 */
#include "config/settings.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

static size_t walk(const struct node *node)
{
    size_t count = 1;

    check(node->at.file && node->at.line > 0 && node->at.column > 0);
    if (node->kind == NODE_SCALAR)
        check(node->broken || node->text.data[node->text.size] == 0);
    for (size_t i = 0; i < node->count; i++)
        count += walk(node->kind == NODE_MAP ? node->entries[i].value : node->items[i]);
    return count;
}

static void print(const struct settings *settings, struct buffer *out)
{
    for (size_t i = 0; i < settings_section_count(); i++) {
        for (size_t k = 0; k < settings->sections[i].count; k++)
            check(value_print(&settings->sections[i].values[k], out));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char *environment[] = {"A=b", "EMPTY=", "COORDINATOR_SERVER_READ_TIMEOUT=7s", NULL};
    struct settings_input input = {.path = "fuzz.yaml", .environment = environment};
    coord_slice text = {(const char *)data, size};
    struct arena arena = {0};
    struct complaints complaints = {0}, again = {0};
    struct buffer first = {0}, second = {0};
    struct node *root = tree_parse_in(&arena, "fuzz.yaml", text, environment, &complaints);
    struct settings *settings;

    check(root || complaints.errors > 0);
    check(!root || walk(root) <= 100000);
    complaints_release(&complaints);
    settings = settings_parse(&arena, text, &input, &complaints);
    if (settings) {
        print(settings, &first);
        settings = settings_parse(&arena, text, &input, &again);
        check(settings && again.errors == complaints.errors);
        print(settings, &second);
        check(coord_slice_equal(buffer_slice(&first), buffer_slice(&second)));
    }
    buffer_release(&first);
    buffer_release(&second);
    complaints_release(&complaints);
    complaints_release(&again);
    arena_release(&arena);
    return 0;
}
