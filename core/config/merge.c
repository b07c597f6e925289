/* See merge.h. Sorting finds equal keys in n log n; among equal ones the earliest candidate wins. */
#include "config/merge.h"

#include <stdlib.h>

struct candidate {
    const struct entry *entry;
    size_t order; /* as gathered: own entries, then merged ones */
    bool own;
};

struct candidates {
    struct candidate *items;
    size_t count;
};

static int key_order(const void *left, const void *right)
{
    const struct candidate *a = left, *b = right;
    size_t size = a->entry->key.size < b->entry->key.size ? a->entry->key.size : b->entry->key.size;
    int order = size ? memcmp(a->entry->key.data, b->entry->key.data, size) : 0;

    if (order == 0 && a->entry->key.size != b->entry->key.size)
        order = a->entry->key.size < b->entry->key.size ? -1 : 1;
    if (order == 0)
        order = a->order < b->order ? -1 : 1;
    return order;
}

static int gathered_order(const void *left, const void *right)
{
    const struct candidate *a = left, *b = right;

    return a->order < b->order ? -1 : 1;
}

static void gather(struct candidates *to, const struct entry *entry, bool own)
{
    to->items[to->count] = (struct candidate){.entry = entry, .order = to->count, .own = own};
    to->count++;
}

static void gather_map(struct candidates *to, const struct node *map)
{
    for (size_t i = 0; i < map->count; i++)
        gather(to, &map->entries[i], false);
}

/* How many entries a merge value brings; complains about one that is neither a map nor a list of maps. */
static size_t merged_count(const struct node *value, struct complaints *complaints)
{
    size_t count = value->kind == NODE_MAP ? value->count : 0;
    bool good = value->kind != NODE_SCALAR || value->broken;

    for (size_t i = 0; value->kind == NODE_LIST && i < value->count; i++) {
        if (value->items[i]->kind == NODE_MAP)
            count += value->items[i]->count;
        else if (!value->items[i]->broken)
            good = false;
    }
    if (!good)
        complain(complaints, COMPLAINT_ERROR, value->at, "the merge key \"<<\" takes a map or a list of maps");
    return count;
}

static void gather_merged(struct candidates *to, const struct node *value)
{
    if (value->kind == NODE_MAP)
        gather_map(to, value);
    for (size_t i = 0; value->kind == NODE_LIST && i < value->count; i++) {
        if (value->items[i]->kind == NODE_MAP)
            gather_map(to, value->items[i]);
    }
}

/* Says for each candidate, by its order, which candidate its key goes to. Leaves the candidates in the order of gathering. */
static void winners_find(struct candidates *all, size_t *winners)
{
    const struct candidate *winner = NULL;

    qsort(all->items, all->count, sizeof *all->items, key_order);
    for (size_t i = 0; i < all->count; i++) {
        if (!winner || !coord_slice_equal(winner->entry->key, all->items[i].entry->key))
            winner = &all->items[i];
        winners[all->items[i].order] = winner->order;
    }
    qsort(all->items, all->count, sizeof *all->items, gathered_order);
}

static void refuse_repeated(const struct entry *entry, const struct entry *first, struct complaints *complaints)
{
    complain(complaints, COMPLAINT_ERROR, entry->at, "duplicate key \"%.*s\" (first at line %u)",
             entry->key.size < 80 ? (int)entry->key.size : 80, entry->key.data, first->at.line);
}

static size_t count_all(const struct pending *pending, size_t count, struct complaints *complaints)
{
    size_t total = 0;
    const struct entry *first_merge = NULL;

    for (size_t i = 0; i < count; i++) {
        if (pending[i].merge && first_merge)
            refuse_repeated(&pending[i].entry, first_merge, complaints);
        if (pending[i].merge && !first_merge)
            first_merge = &pending[i].entry;
        total += pending[i].merge ? merged_count(pending[i].entry.value, complaints) : 1;
    }
    return total;
}

bool map_finish(struct arena *arena, struct node *map, const struct pending *pending, size_t count,
                struct complaints *complaints)
{
    size_t total = count_all(pending, count, complaints);
    struct candidates all = {0};
    size_t *winners = NULL;
    bool done = false;

    map->count = 0;
    if (total == 0)
        return true;
    all.items = calloc(total, sizeof *all.items);
    winners = calloc(total, sizeof *winners);
    map->entries = arena_alloc(arena, total * sizeof *map->entries);
    if (!all.items || !winners || !map->entries)
        goto out;
    for (size_t i = 0; i < count; i++) {
        if (!pending[i].merge)
            gather(&all, &pending[i].entry, true);
    }
    for (size_t i = 0; i < count; i++) {
        if (pending[i].merge)
            gather_merged(&all, pending[i].entry.value);
    }
    winners_find(&all, winners);
    for (size_t i = 0; i < all.count; i++) {
        if (winners[i] == i)
            map->entries[map->count++] = *all.items[i].entry;
        else if (all.items[i].own)
            refuse_repeated(all.items[i].entry, all.items[winners[i]].entry, complaints);
    }
    done = true;
out:
    free(winners);
    free(all.items);
    return done;
}
