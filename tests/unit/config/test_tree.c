/* Unit test of config/tree.c with its merge and substitution: what a file may look like, and where mistakes are said to be. */
#include "config/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ROWS(rows) (sizeof(rows) / sizeof *(rows))

static char *environment[] = {"HOST=gateway", "EMPTY=", "NESTED=${HOST}", "YAML=[a, b]: {c", "HOSTS=other", NULL};

struct parsed {
    struct arena arena;
    struct complaints complaints;
    struct node *root;
};

static struct parsed parse(coord_slice text)
{
    struct parsed parsed = {0};

    parsed.root = tree_parse_in(&parsed.arena, "f.yaml", text, environment, &parsed.complaints);
    return parsed;
}

static void forget(struct parsed *parsed)
{
    complaints_release(&parsed->complaints);
    arena_release(&parsed->arena);
}

static bool says(const struct parsed *parsed, const char *text)
{
    return parsed->complaints.text.size > 0 &&
           memmem(parsed->complaints.text.data, parsed->complaints.text.size, text, strlen(text));
}

/* The tree as one line, to compare: maps in {}, lists in [], quoted texts in '', merged order as it is. */
static void draw(const struct node *node, struct buffer *out)
{
    if (node->kind == NODE_SCALAR) {
        assert_true(buffer_printf(out, node->plain ? "%.*s" : "'%.*s'", COORD_FMT(node->text)));
        return;
    }
    assert_true(buffer_append_text(out, node->kind == NODE_MAP ? "{" : "["));
    for (size_t i = 0; i < node->count; i++) {
        if (i > 0)
            assert_true(buffer_append_text(out, ","));
        if (node->kind == NODE_MAP)
            assert_true(buffer_printf(out, "%.*s:", COORD_FMT(node->entries[i].key)));
        draw(node->kind == NODE_MAP ? node->entries[i].value : node->items[i], out);
    }
    assert_true(buffer_append_text(out, node->kind == NODE_MAP ? "}" : "]"));
}

static void files_become_trees(void **state)
{
    static const struct {
        const char *name, *text, *want;
    } rows[] = {
        {"an empty file is an empty map", "", "{}"},
        {"comments alone are, too", "# nothing\n", "{}"},
        {"and an empty document", "---\n", "{}"},
        {"and null", "~\n", "{}"},
        {"nothing is typed", "a: no\nb: 0x10\nc: 12:30\nd: ~\n", "{a:no,b:0x10,c:12:30,d:~}"},
        {"quoted texts are told apart", "a: 'x'\nb: \"y\"\nc: |\n  z\n", "{a:'x',b:'y',c:'z\n'}"},
        {"a string tag quotes", "a: !!str 5\nb: ! 6\n", "{a:'5',b:'6'}"},
        {"lists", "a: [1, 2, []]\n", "{a:[1,2,[]]}"},
        {"an alias is what its anchor is", "a: &x [1]\nb: *x\n", "{a:[1],b:[1]}"},
        {"a later anchor hides an earlier one", "a: &x 1\nb: &x 2\nc: *x\n", "{a:1,b:2,c:2}"},
        {"an alias as key", "a: &x k\n*x : 2\n", "{a:k,k:2}"},
        {"a merge key adds what is missing, behind", "b: &b {x: 1, y: 2}\nc: {<<: *b, y: 3, z: 4}\n",
         "{b:{x:1,y:2},c:{y:3,z:4,x:1}}"},
        {"of several merged maps the first wins", "a: &a {x: 1}\nb: &b {x: 2, y: 3}\nc: {<<: [*a, *b, *a]}\n",
         "{a:{x:1},b:{x:2,y:3},c:{x:1,y:3}}"},
        {"merging is transitive", "a: &a {x: 1}\nb: &b {<<: *a, y: 2}\nc: {<<: *b}\n",
         "{a:{x:1},b:{y:2,x:1},c:{y:2,x:1}}"},
        {"a quoted << is a key", "a: {'<<': 1}\n", "{a:{<<:1}}"},
        {"a variable", "a: http://${HOST}:80\n", "{a:http://gateway:80}"},
        {"whole names are looked up", "a: ${HOSTS}\n", "{a:other}"},
        {"in quoted texts, too", "a: \"${HOST}\"\n", "{a:'gateway'}"},
        {"a default for what is not set", "a: ${NONE:-x}\n", "{a:x}"},
        {"and for what is empty", "a: ${EMPTY:-x}\n", "{a:x}"},
        {"an empty default", "a: x${NONE:-}y\n", "{a:xy}"},
        {"a variable beats its default", "a: ${HOST:-x}\n", "{a:gateway}"},
        {"an empty variable without a default is empty", "a: x${EMPTY}\n", "{a:x}"},
        {"two dollars are one", "a: $${HOST} $$$$\n", "{a:${HOST} $$}"},
        {"a lone dollar stays", "a: $HOST $ 5$\n", "{a:$HOST $ 5$}"},
        {"not recursive", "a: ${NESTED}\n", "{a:${HOST}}"},
        {"a default is taken as it is", "a: ${NONE:-$${HOST}\n", "{a:$${HOST}"},
        {"never parsed as YAML", "a: ${YAML}\n", "{a:[a, b]: {c}"},
        {"not in keys", "${HOST}: 1\n", "{${HOST}:1}"},
        {"not in comments", "a: 1 # ${NONE}\n", "{a:1}"},
    };

    (void)state;
    for (size_t r = 0; r < ROWS(rows); r++) {
        struct parsed parsed = parse(coord_slice_of(rows[r].text));
        struct buffer drawn = {0};

        print_message("  %s\n", rows[r].name);
        assert_non_null(parsed.root);
        assert_int_equal(parsed.complaints.errors, 0);
        draw(parsed.root, &drawn);
        assert_int_equal(drawn.size, strlen(rows[r].want));
        assert_memory_equal(drawn.data, rows[r].want, drawn.size);
        buffer_release(&drawn);
        forget(&parsed);
    }
}

static void mistakes_are_said_with_their_place(void **state)
{
    static const struct {
        const char *name, *text;
        bool usable; /* a tree comes back beside the complaint */
        const char *want;
    } rows[] = {
        {"a repeated key", "s:\n  t: 1\n  t: 2\n", true, "f.yaml:3:3: duplicate key \"t\" (first at line 2)\n"},
        {"repeated in a flow map", "s: {t: 1, u: 2, t: 3}\n", true, "f.yaml:1:17: duplicate key \"t\""},
        {"two merge keys", "a: &a {x: 1}\nb: {<<: *a, <<: *a}\n", true, "f.yaml:2:13: duplicate key \"<<\""},
        {"a text is merged", "a: {<<: 1}\n", true, "f.yaml:1:9: the merge key"},
        {"a list of texts is merged", "a: {<<: [1]}\n", true, "f.yaml:1:9: the merge key"},
        {"an alias on top", "*x\n", false, "f.yaml:1:1: no anchor \"x\""},
        {"a list on top", "- a\n", false, "f.yaml:1:1: expected keys and values, not a list\n"},
        {"no space behind the colon", "a:1\n", false, "not a text: a space is missing behind the colon\n"},
        {"two documents", "a: 1\n---\nb: 2\n", false, "f.yaml:2:1: a second document"},
        {"an alias without an anchor", "a: *x\n", true, "f.yaml:1:4: no anchor \"x\""},
        {"an anchor inside itself", "a: &x [*x]\n", true, "f.yaml:1:8: anchor \"x\" contains itself"},
        {"a template is a map as key", "a: {{x}}\n", true, "f.yaml:1:5: a key must be a plain text"},
        {"a tag", "a: !!int 5\n", true, "f.yaml:1:4: tags are not used here"},
        {"a tag on a map", "a: !x {}\n", true, "f.yaml:1:4: tags are not used here"},
        {"a NUL", "a: \"x\\0y\"\n", true, "f.yaml:1:4: a NUL character"},
        {"an unset variable", "a: 1\nb: x${NONE}\n", true, "f.yaml:2:4: environment variable NONE is not set"},
        {"an open brace", "a: \"${HOST\"\n", true, "f.yaml:1:4: \"${\" without \"}\""},
        {"no name", "a: ${}\n", true, "f.yaml:1:4: malformed substitution"},
        {"a bad name", "a: ${1X}\n", true, "f.yaml:1:4: malformed substitution"},
        {"shell's other forms", "a: ${HOST-x}\n", true, "f.yaml:1:4: malformed substitution"},
        {"a tab as indentation", "a:\n\tb: 1\n", false, "f.yaml:2:1: found character that cannot start any token"},
        {"and the remedy", "a:\n\tb: 1\n", false, "indent with spaces, not with tabs"},
        {"an unquoted substitution in braces", "a: {b: ${X}}\n", false, ": quote a value with ${…} inside { } or [ ]"},
        {"a brace that stays open", "a: {b: 1\n", false, "f.yaml:2:1: "},
        {"a broken character", "a: 1\nb: \xff\n", false, "f.yaml:2:4: "},
        {"a control character", "a: 1\nb: \x01\n", false, "f.yaml:2:4: "},
    };

    (void)state;
    for (size_t r = 0; r < ROWS(rows); r++) {
        struct parsed parsed = parse(coord_slice_of(rows[r].text));

        print_message("  %s\n", rows[r].name);
        assert_int_equal(parsed.root != NULL, rows[r].usable);
        assert_true(parsed.complaints.errors >= 1);
        if (!says(&parsed, rows[r].want))
            fail_msg("%.*s", COORD_FMT(buffer_slice(&parsed.complaints.text)));
        forget(&parsed);
    }
}

static void all_mistakes_are_said_at_once(void **state)
{
    struct parsed parsed = parse(coord_slice_of("a: 1\na: 2\nb: *x\nc: ${NONE}\n"));

    (void)state;
    assert_int_equal(parsed.complaints.errors, 3);
    assert_true(says(&parsed, "f.yaml:2:1: ") && says(&parsed, "f.yaml:3:4: ") && says(&parsed, "f.yaml:4:4: "));
    forget(&parsed);
}

static void past_a_hundred_complaints_are_only_counted(void **state)
{
    static const char want[] = "f:1:2: warning: number 99\nthere is more";
    struct complaints complaints = {0};

    (void)state;
    for (int i = 0; i < 1000; i++)
        complain(&complaints, COMPLAINT_WARNING, (struct position){"f", 1, 2}, "number %d", i);
    assert_int_equal(complaints.warnings, 1000);
    assert_non_null(memmem(complaints.text.data, complaints.text.size, want, strlen(want)));
    assert_true(complaints.text.size < 101 * 40);
    complaints_release(&complaints);
}

static void a_complaint_is_one_line_whatever_it_quotes(void **state)
{
    struct complaints complaints = {0};

    (void)state;
    complain(&complaints, COMPLAINT_ERROR, (struct position){.file = "VARIABLE"}, "x\n\x1b[31my%0*d", 5000, 7);
    assert_memory_equal(complaints.text.data, "VARIABLE: x??[31my", 18);
    assert_ptr_equal(memchr(complaints.text.data, '\n', complaints.text.size),
                     complaints.text.data + complaints.text.size - 1);
    complaints_release(&complaints);
}

static void substituted_values_are_flagged_and_never_null(void **state)
{
    struct parsed parsed = parse(coord_slice_of("a: ${EMPTY}\nb: ''\nc:\nd: $$\n"));

    (void)state;
    assert_true(node_get(parsed.root, "a")->substituted);
    assert_false(node_is_null(node_get(parsed.root, "a")));
    assert_false(node_is_null(node_get(parsed.root, "b")));
    assert_true(node_is_null(node_get(parsed.root, "c")));
    assert_false(node_get(parsed.root, "d")->substituted);
    assert_true(node_is_null(node_get(parsed.root, "e")));
    assert_true(node_is_null(NULL));
    assert_null(node_get(node_get(parsed.root, "b"), "x"));
    forget(&parsed);
}

static void nesting_ends_at_64_levels(void **state)
{
    static const struct {
        const char *name;
        unsigned levels;
        bool usable;
    } rows[] = {{"63 lists in the map", 63, true}, {"64 lists in the map", 64, false}, {"a bomb", 100000, false}};

    (void)state;
    for (size_t r = 0; r < ROWS(rows); r++) {
        struct buffer text = {0};
        struct parsed parsed;

        print_message("  %s\n", rows[r].name);
        assert_true(buffer_append_text(&text, "a: "));
        for (unsigned i = 0; i < rows[r].levels; i++)
            assert_true(buffer_append_text(&text, "["));
        for (unsigned i = 0; i < rows[r].levels; i++)
            assert_true(buffer_append_text(&text, "]"));
        parsed = parse(buffer_slice(&text));
        assert_int_equal(parsed.root != NULL, rows[r].usable);
        assert_true(rows[r].usable || says(&parsed, "nested deeper than 64 levels"));
        buffer_release(&text);
        forget(&parsed);
    }
}

static void aliases_count_as_if_written_out(void **state)
{
    struct buffer text = {0};
    struct parsed parsed;

    (void)state;
    assert_true(buffer_append_text(&text, "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"));
    for (int i = 1; i < 9; i++) {
        assert_true(buffer_printf(&text, "a%d: &a%d [", i, i));
        for (int k = 0; k < 10; k++)
            assert_true(buffer_printf(&text, "%s*a%d", k ? ", " : "", i - 1));
        assert_true(buffer_append_text(&text, "]\n"));
    }
    parsed = parse(buffer_slice(&text));
    assert_null(parsed.root);
    assert_true(says(&parsed, "more than 100,000 nodes"));
    buffer_release(&text);
    forget(&parsed);
}

static void aliases_nest_as_if_written_out(void **state)
{
    struct buffer text = {0};
    struct parsed parsed;

    (void)state;
    assert_true(buffer_append_text(&text, "a0: &a0 [x]\n"));
    for (int i = 1; i < 70; i++)
        assert_true(buffer_printf(&text, "a%d: &a%d [*a%d]\n", i, i, i - 1));
    parsed = parse(buffer_slice(&text));
    assert_null(parsed.root);
    assert_true(says(&parsed, "nested deeper than 64 levels"));
    buffer_release(&text);
    forget(&parsed);
}

static void a_file_above_4_mib_is_refused_before_it_is_read(void **state)
{
    size_t size = (4 << 20) + 1;
    char *text = malloc(size);
    struct parsed parsed;

    (void)state;
    assert_non_null(text);
    memset(text, '#', size);
    parsed = parse((coord_slice){text, size});
    assert_null(parsed.root);
    assert_true(says(&parsed, "f.yaml: larger than 4 MiB"));
    forget(&parsed);
    parsed = parse((coord_slice){text, size - 1});
    assert_non_null(parsed.root);
    forget(&parsed);
    free(text);
}

static void substitution_cannot_bring_in_more_than_4_mib(void **state)
{
    size_t size = 100000;
    char *variable = malloc(size + 3);
    char *large[] = {variable, NULL};
    struct buffer text = {0};
    struct parsed parsed = {0};

    (void)state;
    assert_non_null(variable);
    memset(variable, 'x', size + 2);
    memcpy(variable, "X=", 2);
    variable[size + 2] = 0;
    assert_true(buffer_append_text(&text, "a: \""));
    for (int i = 0; i < 50; i++)
        assert_true(buffer_append_text(&text, "${X}"));
    assert_true(buffer_append_text(&text, "\"\n"));
    parsed.root = tree_parse_in(&parsed.arena, "f.yaml", buffer_slice(&text), large, &parsed.complaints);
    assert_true(says(&parsed, "f.yaml:1:4: substituted values are larger than 4 MiB together"));
    buffer_release(&text);
    free(variable);
    forget(&parsed);
}

static void many_keys_take_no_quadratic_time(void **state)
{
    struct buffer text = {0};
    struct parsed parsed;

    (void)state;
    for (int i = 0; i < 45000; i++)
        assert_true(buffer_printf(&text, "k%d: 1\n", i));
    parsed = parse(buffer_slice(&text));
    assert_non_null(parsed.root);
    assert_int_equal(parsed.root->count, 45000);
    buffer_release(&text);
    forget(&parsed);
}

static void files_are_read_and_named_in_messages(void **state)
{
    char path[] = "/tmp/test_tree_XXXXXX";
    int fd = mkstemp(path);
    struct parsed parsed = {0};
    struct buffer want = {0};

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "a: 1\na: 2\n", 10), 10);
    close(fd);
    parsed.root = tree_load(&parsed.arena, path, &parsed.complaints);
    assert_non_null(parsed.root);
    assert_true(buffer_printf(&want, "%s:2:1: duplicate", path) && buffer_append(&want, "", 1));
    assert_true(says(&parsed, want.data));
    buffer_release(&want);
    forget(&parsed);
    unlink(path);

    parsed = (struct parsed){0};
    parsed.root = tree_load(&parsed.arena, path, &parsed.complaints);
    assert_null(parsed.root);
    assert_true(says(&parsed, ": cannot be read: No such file or directory\n"));
    forget(&parsed);
    parsed = (struct parsed){0};
    assert_null(tree_load(&parsed.arena, "/tmp", &parsed.complaints));
    assert_true(says(&parsed, "/tmp: cannot be read: "));
    forget(&parsed);
}

static void the_nearest_name_is_found_by_edit_distance(void **state)
{
    static const char *const names[] = {"server", "read_timeout", "write_timeout", "decode", "encode", "id", "tracing"};
    static const struct {
        const char *name, *word, *want;
    } rows[] = {
        {"a letter missing", "servr", "server"},
        {"a letter too many", "serverr", "server"},
        {"two letters swapped", "decoed", "decode"},
        {"another style", "readTimeout", "read_timeout"},
        {"upper case", "TRACING", "tracing"},
        {"the nearer of two", "encodd", "encode"},
        {"nothing near", "banana", NULL},
        {"a short word that shares nothing", "x", NULL},
        {"a short word with a slip", "di", "id"},
        {"empty", "", NULL},
    };

    (void)state;
    for (size_t r = 0; r < ROWS(rows); r++) {
        const char *got = nearest_name(coord_slice_of(rows[r].word), names, ROWS(names));

        print_message("  %s\n", rows[r].name);
        assert_int_equal(got != NULL, rows[r].want != NULL);
        if (got)
            assert_string_equal(got, rows[r].want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_become_trees),
        cmocka_unit_test(mistakes_are_said_with_their_place),
        cmocka_unit_test(all_mistakes_are_said_at_once),
        cmocka_unit_test(past_a_hundred_complaints_are_only_counted),
        cmocka_unit_test(a_complaint_is_one_line_whatever_it_quotes),
        cmocka_unit_test(substituted_values_are_flagged_and_never_null),
        cmocka_unit_test(nesting_ends_at_64_levels),
        cmocka_unit_test(aliases_count_as_if_written_out),
        cmocka_unit_test(aliases_nest_as_if_written_out),
        cmocka_unit_test(a_file_above_4_mib_is_refused_before_it_is_read),
        cmocka_unit_test(substitution_cannot_bring_in_more_than_4_mib),
        cmocka_unit_test(many_keys_take_no_quadratic_time),
        cmocka_unit_test(files_are_read_and_named_in_messages),
        cmocka_unit_test(the_nearest_name_is_found_by_edit_distance),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
