/* Unit test of values.c and what it rests on: declared params, what an operator may write, what a step reads back. */
#include "config/error.h"
#include "config/values.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define ROWS(rows) (sizeof(rows) / sizeof *(rows))
#define TABLE(rows) {rows, ROWS(rows), sizeof(coord_param)}
#define SECOND 1000000000LL

static const char *const modes[] = {"close", "keep", NULL};
static char *environment[] = {"TOKEN=hush-hush", "PORT=81", "URL=nowhere", NULL};

static const coord_param every_type[] = {
    {COORD_PARAM(STRING, "name", "h"), .fallback = "none"},
    {COORD_PARAM(SECRET, "token", "h")},
    {COORD_PARAM(BOOL, "on", "h"), .fallback = "true"},
    {COORD_PARAM(INT, "port", "h"), .fallback = "80", .minimum = 1, .maximum = 65535},
    {COORD_PARAM(NUMBER, "share", "h"), .fallback = "0.5", .minimum = 0, .maximum = 1},
    {COORD_PARAM(DURATION, "timeout", "h"), .fallback = "30s", .minimum = 0, .maximum = 3600 * SECOND},
    {COORD_PARAM(SIZE, "limit", "h"), .fallback = "64KiB", .minimum = 8192, .maximum = 1 << 20},
    {COORD_PARAM(ENUM, "mode", "h"), .fallback = "close", .choices = modes},
    {COORD_PARAM(URL, "address", "h")},
    {COORD_PARAM(STRING_LIST, "names", "h"), .fallback = "[a, b]"},
    {COORD_PARAM(STRING_MAP, "labels", "h")},
};

struct loaded {
    struct arena arena;
    struct complaints complaints;
    struct coord_config configs[2];
    bool good;
};

static struct loaded load(const struct param_table *tables, size_t count, const char *text,
                          const struct values_input *extra)
{
    struct loaded loaded = {0};
    struct values_input input = extra ? *extra : (struct values_input){0};

    input.arena = &loaded.arena;
    input.map = tree_parse_in(&loaded.arena, "f.yaml", coord_slice_of(text), environment, &loaded.complaints);
    assert_non_null(input.map);
    assert_int_equal(loaded.complaints.errors, 0);
    input.tables = tables;
    input.table_count = count;
    input.at = input.map->at;
    if (!input.where)
        input.where = "step render";
    loaded.good = values_load(&input, loaded.configs, &loaded.complaints);
    loaded.configs[0].step_id = (coord_slice)COORD_SLICE("first");
    return loaded;
}

static struct loaded load_every_type(const char *text, const struct values_input *extra)
{
    struct param_table table = TABLE(every_type);

    return load(&table, 1, text, extra);
}

static void forget(struct loaded *loaded)
{
    complaints_release(&loaded->complaints);
    arena_release(&loaded->arena);
}

/* The complaints are exactly `want`. */
static void assert_said(const struct loaded *loaded, const char *want)
{
    coord_slice text = buffer_slice(&loaded->complaints.text);

    if (!coord_slice_is(text, want))
        fail_msg("said: %.*s\nwanted: %s", COORD_FMT(text), want);
}

static void a_step_reads_typed_values(void **state)
{
    struct loaded loaded =
        load_every_type("{name: x y, token: t, on: false, port: 8192.0, share: 0.25, timeout: 1m30s, limit: 1MiB,"
                        " mode: keep, address: 'HTTP://Gw/', names: [a, 5, c], labels: {k: v, l: ''}}\n",
                        NULL);
    const coord_config *config = &loaded.configs[0];
    coord_slice text = {0}, key = {0};
    bool on = true;
    int64_t integer = 0;
    uint64_t bytes = 0;
    int32_t choice = -1;
    double number = 0;

    (void)state;
    assert_said(&loaded, "");
    assert_true(loaded.good);
    assert_int_equal(coord_config_string(config, "name", &text), COORD_OK);
    assert_true(coord_slice_is(text, "x y"));
    assert_int_equal(coord_config_string(config, "token", &text), COORD_OK);
    assert_true(coord_slice_is(text, "t"));
    assert_int_equal(coord_config_bool(config, "on", &on), COORD_OK);
    assert_false(on);
    assert_int_equal(coord_config_int(config, "port", &integer), COORD_OK);
    assert_int_equal(integer, 8192);
    assert_int_equal(coord_config_number(config, "port", &number), COORD_OK);
    assert_true(number == 8192.0);
    assert_int_equal(coord_config_number(config, "share", &number), COORD_OK);
    assert_true(number == 0.25);
    assert_int_equal(coord_config_duration(config, "timeout", &integer), COORD_OK);
    assert_int_equal(integer, 90 * SECOND);
    assert_int_equal(coord_config_size(config, "limit", &bytes), COORD_OK);
    assert_int_equal(bytes, 1 << 20);
    assert_int_equal(coord_config_choice(config, "mode", &choice), COORD_OK);
    assert_int_equal(choice, 1);
    assert_int_equal(coord_config_string(config, "mode", &text), COORD_OK);
    assert_true(coord_slice_is(text, "keep"));
    assert_int_equal(coord_config_string(config, "address", &text), COORD_OK);
    assert_true(coord_slice_is(text, "http://gw"));
    assert_int_equal(coord_config_entry(config, "names", 1, &key, &text), COORD_OK);
    assert_true(key.size == 0 && coord_slice_is(text, "5"));
    assert_int_equal(coord_config_entry(config, "names", 3, NULL, &text), COORD_END);
    assert_int_equal(coord_config_entry(config, "labels", 1, &key, &text), COORD_OK);
    assert_true(coord_slice_is(key, "l") && text.size == 0);
    assert_true(coord_slice_is(coord_config_step_id(config), "first"));
    forget(&loaded);
}

static void getters_tell_absent_mistyped_and_undeclared_apart(void **state)
{
    struct loaded loaded = load_every_type("on: false\nname: ~\n", NULL);
    const coord_config *config = &loaded.configs[0];
    coord_slice text = COORD_SLICE("untouched");
    int64_t integer = 7;

    (void)state;
    assert_int_equal(coord_config_string(config, "address", &text), COORD_ABSENT);
    assert_int_equal(coord_config_string(config, "port", &text), COORD_MISTYPED);
    assert_int_equal(coord_config_string(config, "nothing", &text), COORD_INVALID);
    assert_int_equal(coord_config_int(config, "timeout", &integer), COORD_MISTYPED);
    assert_int_equal(coord_config_entry(config, "name", 0, NULL, &text), COORD_MISTYPED);
    assert_int_equal(coord_config_entry(config, "labels", 0, NULL, &text), COORD_ABSENT);
    assert_true(coord_slice_is(text, "untouched") && integer == 7);
    assert_true(coord_config_is_set(config, "on"));
    assert_false(coord_config_is_set(config, "name")); /* null */
    assert_false(coord_config_is_set(config, "port"));
    assert_false(coord_config_is_set(config, "nothing"));
    forget(&loaded);
}

static void defaults_stand_in(void **state)
{
    struct loaded loaded = load_every_type("address: ''\nmode: ''\n", NULL);
    const struct coord_config *config = &loaded.configs[0];

    (void)state;
    assert_true(loaded.good);
    assert_true(coord_slice_is(config_find(config, "name")->text, "none"));
    assert_int_equal(config_find(config, "timeout")->integer, 30 * SECOND);
    assert_int_equal(config_find(config, "timeout")->source, VALUE_DEFAULT);
    assert_int_equal(config_find(config, "names")->count, 2);
    assert_int_equal(config_find(config, "address")->source, VALUE_ABSENT);
    assert_true(coord_slice_is(config_find(config, "mode")->text, "close"));
    assert_int_equal(config_find(config, "labels")->source, VALUE_ABSENT);
    forget(&loaded);
}

static void mistakes_are_said_with_place_and_remedy(void **state)
{
    static const struct {
        const char *name, *text, *want;
    } rows[] = {
        {"an unknown param", "params:\n", "f.yaml:1:1: unknown param \"params\" of step render\n"},
        {"and what was meant", "adress: x\n",
         "f.yaml:1:1: unknown param \"adress\" of step render: did you mean \"address\"?\n"},
        {"a param that we do not have yet", "force_stream: true\n",
         "f.yaml:1:1: \"force_stream\" is a param of the Go coordinator that this one does not have yet: see "
         "docs/differences-from-llm-d.md\n"},
        {"no unit", "timeout: 30\n", "f.yaml:1:10: param \"timeout\" of step render: \"30\" has no unit: write 30s\n"},
        {"no unit in quotes", "timeout: '1.5'\n",
         "f.yaml:1:10: param \"timeout\" of step render: \"1.5\" has no unit: write 1.5s\n"},
        {"no duration", "timeout: soon\n",
         "f.yaml:1:10: param \"timeout\" of step render: \"soon\" is no duration: write 30s, 1m30s or 250ms\n"},
        {"a duration below its range", "timeout: -1s\n",
         "f.yaml:1:10: param \"timeout\" of step render: \"-1s\" is too small: the least is 0s\n"},
        {"a duration above its range", "timeout: 2h\n",
         "f.yaml:1:10: param \"timeout\" of step render: \"2h\" is too large: the most is 1h\n"},
        {"a size below its range", "limit: 1KiB\n",
         "f.yaml:1:8: param \"limit\" of step render: \"1KiB\" is too small: the least is 8KiB\n"},
        {"a size above everything", "limit: 10000000000GiB\n",
         "f.yaml:1:8: param \"limit\" of step render: \"10000000000GiB\" is too large: the most is 1MiB\n"},
        {"an integer above its range", "port: 65536\n",
         "f.yaml:1:7: param \"port\" of step render: \"65536\" is too large: the most is 65535\n"},
        {"a fraction", "port: 1.5\n", "f.yaml:1:7: param \"port\" of step render: \"1.5\" is no integer\n"},
        {"a quoted integer", "port: '80'\n",
         "f.yaml:1:7: param \"port\" of step render: \"80\" is a quoted text, but this takes a number: remove the "
         "quotes\n"},
        {"a quoted boolean", "on: \"true\"\n",
         "f.yaml:1:5: param \"on\" of step render: \"true\" is a quoted text, but this takes true or false: remove the "
         "quotes\n"},
        {"a boolean of YAML 1.1", "on: yes\n",
         "f.yaml:1:5: param \"on\" of step render: \"yes\" is no boolean: write true or false\n"},
        {"not a number", "share: nan\n", "f.yaml:1:8: param \"share\" of step render: \"nan\" is no number\n"},
        {"a hexadecimal number", "share: 0x1\n", "f.yaml:1:8: param \"share\" of step render: \"0x1\" is no number\n"},
        {"a number above its range", "share: 1.01\n",
         "f.yaml:1:8: param \"share\" of step render: \"1.01\" is too large: the most is 1\n"},
        {"none of the choices", "mode: x\n",
         "f.yaml:1:7: param \"mode\" of step render: \"x\" is none of close, keep\n"},
        {"nearly one of them", "mode: kep\n",
         "f.yaml:1:7: param \"mode\" of step render: \"kep\" is none of close, keep: did you mean \"keep\"?\n"},
        {"no URL", "address: gw:80\n",
         "f.yaml:1:10: param \"address\" of step render: \"gw:80\" has no scheme: write http:// or https:// in front "
         "of "
         "it\n"},
        {"a list for a text", "name: [a]\n", "f.yaml:1:7: param \"name\" of step render: takes a string, not a list\n"},
        {"a map for an integer", "port: {a: 1}\n",
         "f.yaml:1:7: param \"port\" of step render: takes an int, not a map\n"},
        {"a map for a list", "names: {a: 1}\n",
         "f.yaml:1:8: param \"names\" of step render: takes a list of texts, not a map\n"},
        {"a list in a list", "names: [a, [b]]\n",
         "f.yaml:1:12: param \"names\" of step render: item 2 must be a text, not a list\n"},
        {"nothing in a list", "names: [a, ~]\n",
         "f.yaml:1:12: param \"names\" of step render: item 2 must be a text, not empty\n"},
        {"a text for a map", "labels: x\n", "f.yaml:1:9: param \"labels\" of step render: \"x\" is no map of texts\n"},
        {"a substituted value is not shown", "address: ${URL}\n",
         "f.yaml:1:10: param \"address\" of step render: the value (not shown) has no scheme: write http:// or "
         "https:// "
         "in front of it\n"},
        {"nor in a hint", "timeout: ${PORT}\n",
         "f.yaml:1:10: param \"timeout\" of step render: the value (not shown) has no unit: write it as in 30s\n"},
        {"all at once, in the file's order", "port: x\non: x\nnaem: x\n",
         "f.yaml:1:7: param \"port\" of step render: \"x\" is no integer\n"
         "f.yaml:2:5: param \"on\" of step render: \"x\" is no boolean: write true or false\n"
         "f.yaml:3:1: unknown param \"naem\" of step render: did you mean \"name\"?\n"},
    };

    (void)state;
    for (size_t r = 0; r < ROWS(rows); r++) {
        struct loaded loaded = load_every_type(rows[r].text, NULL);

        print_message("  %s\n", rows[r].name);
        assert_false(loaded.good);
        assert_said(&loaded, rows[r].want);
        forget(&loaded);
    }
}

static void a_section_is_named_by_its_keys(void **state)
{
    struct loaded loaded = load_every_type("timeout: 5\nprot: 1\n", &(struct values_input){.where = "server"});

    (void)state;
    assert_said(&loaded, "f.yaml:1:10: server.timeout: \"5\" has no unit: write 5s\n"
                         "f.yaml:2:1: unknown key \"server.prot\": did you mean \"port\"?\n");
    forget(&loaded);
}

static void unknown_keys_may_be_warnings(void **state)
{
    struct loaded loaded = load_every_type("prot: 1\n", &(struct values_input){.allow_unknown = true});

    (void)state;
    assert_true(loaded.good);
    assert_said(&loaded, "f.yaml:1:1: warning: unknown param \"prot\" of step render: did you mean \"port\"?\n");
    forget(&loaded);
}

static void a_required_param_must_be_given(void **state)
{
    static const coord_param rows[] = {{COORD_PARAM(STRING, "must", "h"), .flags = COORD_PARAM_REQUIRED}};
    static const struct {
        const char *name, *text, *want;
    } cases[] = {
        {"given", "must: ''\n", ""},
        {"missing", "{}\n", "f.yaml:1:1: param \"must\" of step render is missing\n"},
        {"null", "must:\n", "f.yaml:1:1: param \"must\" of step render is missing\n"},
    };
    struct param_table table = TABLE(rows);

    (void)state;
    for (size_t r = 0; r < ROWS(cases); r++) {
        struct loaded loaded = load(&table, 1, cases[r].text, NULL);

        print_message("  %s\n", cases[r].name);
        assert_said(&loaded, cases[r].want);
        forget(&loaded);
    }
}

static void a_list_may_be_written_with_commas(void **state)
{
    static const struct {
        const char *name, *text;
        size_t count;
        const char *last;
    } rows[] = {
        {"one", "names: x\n", 1, "x"},           {"several, trimmed", "names: a , b,c \n", 3, "c"},
        {"none", "names: ''\n", 0, ""},          {"an empty one stays", "names: 'a,'\n", 2, ""},
        {"an empty list", "names: []\n", 0, ""}, {"null gives the default", "names: ~\n", 2, "b"},
    };

    (void)state;
    for (size_t r = 0; r < ROWS(rows); r++) {
        struct loaded loaded = load_every_type(rows[r].text, NULL);
        const struct value *value = config_find(&loaded.configs[0], "names");

        print_message("  %s\n", rows[r].name);
        assert_true(loaded.good);
        assert_int_equal(value->count, rows[r].count);
        assert_true(value->count == 0 || coord_slice_is(value->items[value->count - 1], rows[r].last));
        forget(&loaded);
    }
}

static void a_substituted_text_takes_the_type_of_its_key(void **state)
{
    struct loaded loaded = load_every_type("port: \"${PORT}\"\nname: ${TOKEN}\n", NULL);

    (void)state;
    assert_true(loaded.good);
    assert_int_equal(config_find(&loaded.configs[0], "port")->integer, 81);
    assert_true(config_find(&loaded.configs[0], "name")->secret);
    forget(&loaded);
}

static const coord_param parent_rows[] = {
    {COORD_PARAM(STRING, "kv_connector", "h")},
    {COORD_PARAM(BOOL, "use_openai_format", "h"), .fallback = "true"},
    {COORD_PARAM(STRING_LIST, "hosts", "h")},
    {COORD_PARAM(INT, "dp_size", "h"), .fallback = "1", .minimum = 1, .maximum = 100},
};
static const coord_param child_rows[] = {
    {COORD_PARAM(STRING, "kv_connector", "h"), .fallback = "kv-shared-storage", .inherits = "kv_connector"},
    {COORD_PARAM(BOOL, "use_openai_format", "h"), .inherits = "use_openai_format"},
    {COORD_PARAM(STRING_LIST, "hosts", "h"), .inherits = "hosts"},
    {COORD_PARAM(INT, "ranks", "h"), .inherits = "dp_size", .minimum = 1, .maximum = 8},
};

static void params_inherit_from_the_pipeline(void **state)
{
    static const struct {
        const char *name, *parent, *child, *connector;
        enum value_source source;
        const char *said;
    } rows[] = {
        {"neither says", "{}", "{}", "kv-shared-storage", VALUE_DEFAULT, ""},
        {"the pipeline says", "kv_connector: kv-nixl", "{}", "kv-nixl", VALUE_INHERITED, ""},
        {"the step says", "kv_connector: kv-nixl", "kv_connector: mine", "mine", VALUE_FILE, ""},
        {"an empty text says nothing", "kv_connector: ''", "{}", "kv-shared-storage", VALUE_DEFAULT, ""},
        {"null in the step is silent", "kv_connector: kv-nixl", "kv_connector: ~", "kv-nixl", VALUE_INHERITED, ""},
        {"the step's range holds", "dp_size: 9", "{}", "kv-shared-storage", VALUE_DEFAULT,
         "f.yaml:1:10: param \"ranks\" of step render: \"9\" is too large: the most is 8\n"},
    };
    struct param_table parent_table = TABLE(parent_rows), child_table = TABLE(child_rows);

    (void)state;
    for (size_t r = 0; r < ROWS(rows); r++) {
        struct loaded parent = load(&parent_table, 1, rows[r].parent, &(struct values_input){.where = "pipeline"});
        struct loaded child =
            load(&child_table, 1, rows[r].child, &(struct values_input){.parent = &parent.configs[0]});
        const struct value *connector = config_find(&child.configs[0], "kv_connector");
        bool format = false;

        print_message("  %s\n", rows[r].name);
        assert_said(&child, rows[r].said);
        assert_true(coord_slice_is(connector->text, rows[r].connector));
        assert_int_equal(connector->source, rows[r].source);
        assert_int_equal(coord_config_is_set(&child.configs[0], "kv_connector"), rows[r].source == VALUE_FILE);
        assert_int_equal(coord_config_bool(&child.configs[0], "use_openai_format", &format), COORD_OK);
        assert_true(format);
        forget(&child);
        forget(&parent);
    }
}

static void lists_and_secrecy_are_inherited(void **state)
{
    struct param_table parent_table = TABLE(parent_rows), child_table = TABLE(child_rows);
    struct loaded parent = load(&parent_table, 1, "hosts: [a, b]\nkv_connector: ${TOKEN}\n", NULL);
    struct loaded child = load(&child_table, 1, "{}", &(struct values_input){.parent = &parent.configs[0]});

    (void)state;
    assert_true(child.good);
    assert_int_equal(config_find(&child.configs[0], "hosts")->count, 2);
    assert_int_equal(config_find(&child.configs[0], "hosts")->source, VALUE_INHERITED);
    assert_true(config_find(&child.configs[0], "kv_connector")->secret);
    forget(&child);
    forget(&parent);
}

static void what_is_wrong_in_the_pipeline_is_not_missed_in_its_steps(void **state)
{
    static const coord_param rows[] = {
        {COORD_PARAM(INT, "ranks", "h"), .flags = COORD_PARAM_REQUIRED, .inherits = "dp_size", .maximum = 8}};
    struct param_table parent_table = TABLE(parent_rows), child_table = TABLE(rows);
    struct loaded parent = load(&parent_table, 1, "dp_size: x\n", NULL);
    struct loaded child = load(&child_table, 1, "{}", &(struct values_input){.parent = &parent.configs[0]});

    (void)state;
    assert_false(parent.good);
    assert_said(&child, "");
    forget(&child);
    forget(&parent);
}

static void a_step_and_its_connector_share_a_map(void **state)
{
    static const coord_param step[] = {{COORD_PARAM(INT, "shared", "h"), .maximum = 9},
                                       {COORD_PARAM(STRING, "mine", "h")}};
    static const coord_param connector[] = {{COORD_PARAM(STRING, "theirs", "h")},
                                            {COORD_PARAM(INT, "shared", "h"), .maximum = 9}};
    struct param_table tables[] = {TABLE(step), TABLE(connector)};
    struct loaded loaded = load(tables, 2, "{shared: 3, mine: a, theirs: b}", NULL);
    int64_t integer = 0;

    (void)state;
    assert_said(&loaded, "");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(coord_config_int(&loaded.configs[i], "shared", &integer), COORD_OK);
        assert_int_equal(integer, 3);
    }
    assert_null(config_find(&loaded.configs[0], "theirs"));
    forget(&loaded);
    loaded = load(tables, 2, "{shared: x, their: b}", NULL);
    assert_said(&loaded, "f.yaml:1:10: param \"shared\" of step render: \"x\" is no integer\n"
                         "f.yaml:1:13: unknown param \"their\" of step render: did you mean \"theirs\"?\n");
    forget(&loaded);
}

static struct override override_port(void *context, const char *name)
{
    struct override override = {
        .given = strcmp(name, "port") == 0, .at.file = "--port", .source = VALUE_FLAG, .text = coord_slice_of(context)};

    return override;
}

static void an_override_beats_the_map(void **state)
{
    static const struct {
        const char *name, *text, *given, *said;
        int64_t want;
    } rows[] = {
        {"it wins", "port: 1\n", "2", "", 2},
        {"the map's mistake is not looked at", "port: x\n", "2", "", 2},
        {"it is checked itself", "port: 1\n", "x", "--port: param \"port\" of step render: \"x\" is no integer\n", 0},
        {"null is a text", "port: 1\n", "null", "--port: param \"port\" of step render: \"null\" is no integer\n", 0},
    };

    (void)state;
    for (size_t r = 0; r < ROWS(rows); r++) {
        char *given = (char *)(uintptr_t)rows[r].given;
        struct loaded loaded =
            load_every_type(rows[r].text, &(struct values_input){.override = override_port, .override_context = given});

        print_message("  %s\n", rows[r].name);
        assert_said(&loaded, rows[r].said);
        assert_int_equal(config_find(&loaded.configs[0], "port")->integer, rows[r].want);
        assert_int_equal(coord_config_is_set(&loaded.configs[0], "port"), rows[r].want != 0);
        forget(&loaded);
    }
}

static void values_print_as_yaml_and_secrets_do_not(void **state)
{
    static const struct {
        const char *text, *key, *want;
    } rows[] = {
        {"name: plain-text/1.5", "name", "plain-text/1.5"},
        {"name: 'two words'", "name", "\"two words\""},
        {"name: ''", "name", "\"\""},
        {"name: 'null'", "name", "\"null\""},
        {"name: \"a\\\"\\\\\\n\"", "name", "\"a\\\"\\\\\\x0A\""},
        {"name: ':8080'", "name", "\":8080\""},
        {"token: t", "token", "[secret]"},
        {"name: x${TOKEN}", "name", "[secret]"},
        {"names: [a, '${TOKEN}']", "names", "[secret]"},
        {"{}", "token", ""},
        {"port: 80.0", "port", "80"},
        {"on: false", "on", "false"},
        {"timeout: 1m30s", "timeout", "1m30s"},
        {"limit: 64KiB", "limit", "64KiB"},
        {"share: 0.25", "share", "0.25"},
        {"share: -0", "share", "-0"},
        {"address: http://gw:80/", "address", "http://gw:80"},
        {"names: [a, 'b c']", "names", "[a, \"b c\"]"},
        {"labels: {k: v, x y: z}", "labels", "{k: v, \"x y\": z}"},
    };

    (void)state;
    for (size_t r = 0; r < ROWS(rows); r++) {
        struct loaded loaded = load_every_type(rows[r].text, NULL);
        struct buffer out = {0};

        print_message("  %s\n", rows[r].text);
        assert_said(&loaded, "");
        assert_true(value_print(config_find(&loaded.configs[0], rows[r].key), &out));
        assert_true(coord_slice_is(buffer_slice(&out), rows[r].want));
        buffer_release(&out);
        forget(&loaded);
    }
}

static void malformed_declarations_are_refused_with_their_reason(void **state)
{
    static const char *const empty_choice[] = {"a", "", NULL};
    static const char *const no_choice[] = {NULL};
    static const coord_param twice[] = {{COORD_PARAM(STRING, "a", "h")}, {COORD_PARAM(BOOL, "a", "h")}};
    static const struct {
        const char *name;
        coord_param row;
        const char *reason; /* NULL: nothing is wrong */
    } rows[] = {
        {"good", {COORD_PARAM(STRING, "a_1", "h")}, NULL},
        {"an empty default", {COORD_PARAM(STRING, "a", "h"), .fallback = ""}, NULL},
        {"a quoted default", {COORD_PARAM(STRING, "a", "h"), .fallback = "\"\""}, NULL},
        {"a default that YAML would take amiss", {COORD_PARAM(STRING, "a", "h"), .fallback = "*"}, NULL},
        {"no limits", {COORD_PARAM(INT, "a", "h"), .flags = COORD_PARAM_NO_LIMITS}, NULL},
        {"size not set", {.type = COORD_PARAM_STRING, .name = "a", .help = "h"}, "row 0: its size is 0"},
        {"size too large", {.size = 1000, .type = COORD_PARAM_STRING, .name = "a", .help = "h"}, "its size is 1000"},
        {"no name", {.size = sizeof(coord_param), .type = COORD_PARAM_STRING, .help = "h"}, "row 0: the name \"\""},
        {"a name with a capital", {COORD_PARAM(STRING, "aB", "h")}, "the name \"aB\" is not of the form"},
        {"a name with a hyphen", {COORD_PARAM(STRING, "a-b", "h")}, "the name \"a-b\" is not of the form"},
        {"no help", {COORD_PARAM(STRING, "a", NULL)}, "param \"a\": it has no help text"},
        {"type 0", {.size = sizeof(coord_param), .name = "a", .help = "h"}, "param \"a\": its type is unknown"},
        {"type 99", {.size = sizeof(coord_param), .type = 99, .name = "a", .help = "h"}, "its type is unknown"},
        {"an enum without choices", {COORD_PARAM(ENUM, "a", "h")}, "an enum needs choices"},
        {"with none of them", {COORD_PARAM(ENUM, "a", "h"), .choices = no_choice}, "an enum needs choices"},
        {"with an empty one", {COORD_PARAM(ENUM, "a", "h"), .choices = empty_choice}, "none of them empty"},
        {"choices of a text", {COORD_PARAM(STRING, "a", "h"), .choices = modes}, "only an enum has choices"},
        {"a default that is no choice",
         {COORD_PARAM(ENUM, "a", "h"), .choices = modes, .fallback = "kep"},
         "default: a: \"kep\" is none of close, keep: did you mean \"keep\"?"},
        {"limits left out", {COORD_PARAM(INT, "a", "h")}, "COORD_PARAM_NO_LIMITS"},
        {"limits turned round", {COORD_PARAM(INT, "a", "h"), .minimum = 2, .maximum = 1}, "minimum is above maximum"},
        {"a default of the wrong type", {COORD_PARAM(BOOL, "a", "h"), .fallback = "yes"}, "default: a: \"yes\" is no"},
        {"a default out of range",
         {COORD_PARAM(DURATION, "a", "h"), .maximum = SECOND, .fallback = "2s"},
         "default: a: \"2s\" is too large: the most is 1s"},
        {"a default that is no list", {COORD_PARAM(STRING_LIST, "a", "h"), .fallback = "[a"}, "default:"},
        {"a default that is no map", {COORD_PARAM(STRING_MAP, "a", "h"), .fallback = "a"}, "is no map of texts"},
        {"required with a default",
         {COORD_PARAM(STRING, "a", "h"), .flags = COORD_PARAM_REQUIRED, .fallback = "x"},
         "required and has a default"},
        {"inherits no key", {COORD_PARAM(STRING, "a", "h"), .inherits = "A b"}, "what it inherits is no key"},
    };
    struct param_table table = TABLE(twice);
    struct buffer reason = {0};

    (void)state;
    for (size_t r = 0; r < ROWS(rows); r++) {
        struct param_table one = {&rows[r].row, 1, sizeof(coord_param)};
        coord_status status = params_check(&one, &reason);

        print_message("  %s\n", rows[r].name);
        assert_int_equal(status, rows[r].reason ? COORD_INVALID : COORD_OK);
        assert_true(buffer_append(&reason, "", 1));
        if (rows[r].reason && !strstr(reason.data, rows[r].reason))
            fail_msg("reason: %s", reason.data);
        buffer_release(&reason);
    }
    assert_int_equal(params_check(&table, &reason), COORD_INVALID);
    assert_memory_equal(reason.data, "param \"a\" is declared twice", reason.size);
    buffer_release(&reason);
    table.row_size = 16;
    assert_int_equal(params_check(&table, &reason), COORD_INVALID);
    buffer_release(&reason);
    table = (struct param_table){NULL, 2, sizeof(coord_param)};
    assert_int_equal(params_check(&table, &reason), COORD_INVALID);
    buffer_release(&reason);
    table.count = 0;
    assert_int_equal(params_check(&table, &reason), COORD_OK);
    table = (struct param_table)TABLE(every_type);
    assert_int_equal(params_check(&table, &reason), COORD_OK);
}

static void rows_of_a_newer_abi_are_read_by_their_stride(void **state)
{
    struct {
        coord_param param;
        void *newer;
    } rows[2] = {{{COORD_PARAM(STRING, "a", "h")}, NULL}, {{COORD_PARAM(INT, "b", "h"), .maximum = 9}, NULL}};
    struct param_table table = {&rows[0].param, 2, sizeof rows[0]};
    struct buffer reason = {0};
    struct loaded loaded;

    (void)state;
    rows[0].param.size = rows[1].param.size = sizeof rows[0];
    assert_int_equal(params_check(&table, &reason), COORD_OK);
    loaded = load(&table, 1, "{a: x, b: 3}", NULL);
    assert_true(loaded.good);
    assert_int_equal(config_find(&loaded.configs[0], "b")->integer, 3);
    forget(&loaded);
}

static void the_first_error_message_stays(void **state)
{
    struct coord_error error = {0};

    (void)state;
    assert_true(coord_slice_is(error_message(&error, "no reason"), "no reason"));
    assert_int_equal(coord_error_set(&error, "no %s", "luck"), COORD_FAIL);
    assert_int_equal(coord_error_set(&error, "later"), COORD_FAIL);
    assert_int_equal(coord_error_set(NULL, "nobody listens"), COORD_FAIL);
    assert_true(coord_slice_is(error_message(&error, "no reason"), "no luck"));
    error_release(&error);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_reads_typed_values),
        cmocka_unit_test(getters_tell_absent_mistyped_and_undeclared_apart),
        cmocka_unit_test(defaults_stand_in),
        cmocka_unit_test(mistakes_are_said_with_place_and_remedy),
        cmocka_unit_test(a_section_is_named_by_its_keys),
        cmocka_unit_test(unknown_keys_may_be_warnings),
        cmocka_unit_test(a_required_param_must_be_given),
        cmocka_unit_test(a_list_may_be_written_with_commas),
        cmocka_unit_test(a_substituted_text_takes_the_type_of_its_key),
        cmocka_unit_test(params_inherit_from_the_pipeline),
        cmocka_unit_test(lists_and_secrecy_are_inherited),
        cmocka_unit_test(what_is_wrong_in_the_pipeline_is_not_missed_in_its_steps),
        cmocka_unit_test(a_step_and_its_connector_share_a_map),
        cmocka_unit_test(an_override_beats_the_map),
        cmocka_unit_test(values_print_as_yaml_and_secrets_do_not),
        cmocka_unit_test(malformed_declarations_are_refused_with_their_reason),
        cmocka_unit_test(rows_of_a_newer_abi_are_read_by_their_stride),
        cmocka_unit_test(the_first_error_message_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
