/* The search for writers that break at a split or hold bytes at the end: see <coordinator/testkit.h>. */
#include "memory.h"
#include "trial.h"

#include <stdio.h>
#include <stdlib.h>

enum { SHOWN = 32 };

struct split {
    coord_kit *kit;
    const struct trial *trial;
    coord_kit_rule rule; /* the answer, without its body */
    coord_slice body;
    coord_slice wanted;
    coord_kit_piece
        *pieces; /* as many as the body has bytes, and two more: an upstream may look at them until the kit's end */
};

/* Sends the answer in these pieces; {NULL, 0} when the client got no answer. */
static coord_slice ask(struct split *split, const coord_kit_piece *pieces, size_t count, bool *whole)
{
    const coord_kit_message *answer;
    char id[TRIAL_ID];
    coord_kit_client *client;

    pthread_mutex_lock(&split->kit->lock);
    split->kit->rules->rule.pieces = pieces;
    split->kit->rules->rule.piece_count = count;
    pthread_mutex_unlock(&split->kit->lock);
    client = kit_trial_send(split->kit, split->trial, id);
    if (!client)
        return (coord_slice){0};
    *whole = coord_kit_read(client, COORD_KIT_ALL);
    answer = coord_kit_answer(client);
    coord_kit_leave(client);
    return answer->body;
}

static size_t common(coord_slice a, coord_slice b)
{
    size_t at = 0;

    while (at < a.size && at < b.size && a.data[at] == b.data[at])
        at++;
    return at;
}

/* The bytes around a difference, with what cannot be printed as a dot. */
static void show(coord_slice bytes, size_t at, char out[SHOWN + 1])
{
    size_t size = 0;

    for (; size < SHOWN && at + size < bytes.size; size++)
        out[size] = bytes.data[at + size] >= ' ' && bytes.data[at + size] < 127 ? bytes.data[at + size] : '.';
    out[size] = '\0';
}

/* Whose writers they may be: `step "shout" of plugin FILE`. */
static const char *writers_of(const struct split *split)
{
    static char names[1200];
    struct coord_kit_running step;
    size_t size = 0;

    if (split->trial->options.writer)
        return split->trial->options.writer->type->name;
    names[0] = '\0';
    for (size_t i = 0; coord_kit_host_step(split->kit->host, i, &step); i++)
        if (kit_memory_is_ours(&split->trial->options, &step) && size < sizeof names)
            size += (size_t)snprintf(names + size, sizeof names - size, "%sstep \"%s\" of plugin %s",
                                     size > 0 ? " or " : "", step.step, step.plugin);
    return size > 0 ? names : "a step of the pipeline";
}

static const char *describe(const struct split *split, coord_slice got, coord_slice wanted, bool whole, const char *how)
{
    char is[SHOWN + 1], should[SHOWN + 1];
    size_t at = common(got, wanted);

    if (whole && at == got.size)
        return kit_trial_fault(
            "the writer of %s holds bytes at the end of an answer that comes %s: the client misses the last "
            "%zu of %zu bytes. Pass on in `end` what the writer still keeps",
            writers_of(split), how, wanted.size - got.size, wanted.size);
    if (!whole)
        return kit_trial_fault(
            "an answer that comes %s does not reach its end at the client, who has %zu of %zu bytes of it", how,
            got.size, wanted.size);
    show(got, at, is);
    show(wanted, at, should);
    return kit_trial_fault(
        "the writer of %s breaks when an answer comes %s: from byte %zu on, the client gets \"%s\" instead of "
        "\"%s\". Keep what is not whole yet until the rest of it comes",
        writers_of(split), how, at, is, should);
}

static const char *check(struct split *split, const coord_kit_piece *pieces, size_t count, coord_slice wanted,
                         const char *how)
{
    bool whole = false;
    coord_slice got = ask(split, pieces, count, &whole);

    return whole && coord_slice_equal(got, wanted) ? NULL : describe(split, got, wanted, whole, how);
}

static const char *check_whole(struct split *split)
{
    bool whole = false;

    split->pieces[0] = (coord_kit_piece){.bytes = split->body};
    if (split->wanted.data)
        return check(split, split->pieces, 1, split->wanted, "in one piece");
    split->wanted = ask(split, split->pieces, 1, &whole);
    return whole ? NULL : kit_trial_does_not_work("the answer in one piece does not come to its end");
}

static const char *check_halves(struct split *split, size_t at)
{
    char how[64];

    split->pieces[0] = (coord_kit_piece){.bytes = {split->body.data, at}};
    split->pieces[1] =
        (coord_kit_piece){.bytes = {split->body.data + at, split->body.size - at}, .delay_ns = COORD_KIT_MS};
    snprintf(how, sizeof how, "in two pieces, split at byte %zu", at);
    return check(split, split->pieces, 2, split->wanted, how);
}

static const char *check_bytes(struct split *split)
{
    for (size_t i = 0; i < split->body.size; i++)
        split->pieces[i] = (coord_kit_piece){.bytes = {split->body.data + i, 1}, .delay_ns = COORD_KIT_MS / 4};
    return check(split, split->pieces, split->body.size, split->wanted, "byte by byte");
}

static size_t line_ends(coord_slice bytes)
{
    size_t count = 0;

    while (count < bytes.size && strchr("\r\n", bytes.data[bytes.size - 1 - count]))
        count++;
    return count;
}

/* Without 1, 2, … of the line ends behind it: the client's has to lack as many. */
static const char *check_unterminated(struct split *split)
{
    size_t ends = line_ends(split->body), wanted_ends = line_ends(split->wanted);
    const char *fault = NULL;

    for (size_t less = 1; less <= ends && less <= wanted_ends && !fault; less++) {
        coord_slice wanted = {split->wanted.data, split->wanted.size - less};
        char how[80];

        snprintf(how, sizeof how, "without the last %zu of the line ends behind it", less);
        split->pieces[0] = (coord_kit_piece){.bytes = {split->body.data, split->body.size - less}};
        fault = check(split, split->pieces, 1, wanted, how);
    }
    return fault;
}

static const char *find_split(struct split *split)
{
    const char *fault = check_whole(split);

    for (size_t at = 1; at < split->body.size && !fault; at++)
        fault = check_halves(split, at);
    if (!fault)
        fault = check_bytes(split);
    return fault ? fault : check_unterminated(split);
}

const char *coord_kit_find_split(const coord_kit_trial *given, const coord_kit_rule *answer, coord_slice wanted)
{
    struct trial trial = kit_trial_of(given);
    struct split split = {.trial = &trial, .rule = *answer, .body = answer->body, .wanted = wanted};
    const char *fault;

    split.rule.body = (coord_slice){0};
    split.pieces = calloc(answer->body.size + 2, sizeof *split.pieces);
    if (!split.pieces)
        abort();
    split.kit = kit_trial_start(&trial, &split.rule);
    fault = split.kit ? find_split(&split) : kit_trial_does_not_work("it does not start");
    coord_kit_stop(split.kit);
    free(split.pieces);
    return fault;
}
