/*
 * What the loader takes and what it refuses, through `coordinator check` and `coordinator serve` as processes: a refusal names
 * file, cause and remedy, and nothing of a plugin that is refused for its note has run.
 */
#include <coordinator/testkit.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <elf.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static char folder[] = "/tmp/coord-loader-XXXXXX";

static const char *path_of(const char *name)
{
    static char path[4][512];
    static unsigned turn;
    char *out = path[turn++ % 4];

    snprintf(out, sizeof path[0], "%s/%s", folder, name);
    return out;
}

static const char *fixture(const char *name)
{
    static char path[4][512];
    static unsigned turn;
    char *out = path[turn++ % 4];

    snprintf(out, sizeof path[0], "%s/%s.so", COORD_TEST_PLUGINS, name);
    return out;
}

static void write_file(const char *path, const void *data, size_t size)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* A copy of a fixture, to be spoilt. */
static size_t read_fixture(const char *name, char *data, size_t room)
{
    FILE *file = fopen(fixture(name), "rb");
    size_t size;

    assert_non_null(file);
    size = fread(data, 1, room, file);
    assert_true(size > sizeof(Elf64_Ehdr) && size < room);
    fclose(file);
    return size;
}

/* ---- The program as a process ---- */

struct process {
    pid_t pid;
    int out;
    size_t size;
    char text[12288];
};

static void start_program(struct process *process, const char *command, const char *yaml)
{
    char *arguments[] = {(char[]){"coordinator"}, strdup(command), (char[]){"--config"}, strdup(path_of("config.yaml")),
                         NULL};
    posix_spawn_file_actions_t actions;
    int ends[2];

    write_file(path_of("config.yaml"), yaml, strlen(yaml));
    assert_int_equal(pipe(ends), 0);
    *process = (struct process){.out = ends[0]};
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    assert_int_equal(posix_spawn(&process->pid, COORD_PROGRAM, &actions, NULL, arguments, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    free(arguments[1]);
    free(arguments[3]);
}

/* Reads until `text` is there (NULL: to the end). */
static bool read_until(struct process *process, const char *text)
{
    struct pollfd ready = {.fd = process->out, .events = POLLIN};
    ssize_t got;

    while (!text || !strstr(process->text, text)) {
        if (process->size + 1 >= sizeof process->text || poll(&ready, 1, 20000) <= 0)
            return false;
        got = read(process->out, process->text + process->size, sizeof process->text - 1 - process->size);
        if (got <= 0)
            return !text;
        process->size += (size_t)got;
    }
    return true;
}

static int end_program(struct process *process)
{
    int status = 0;

    if (!read_until(process, NULL))
        kill(process->pid, SIGKILL);
    close(process->out);
    assert_int_equal(waitpid(process->pid, &status, 0), process->pid);
    if (!WIFEXITED(status))
        fail_msg("the program was ended by signal %d: %s", WTERMSIG(status), process->text);
    return WEXITSTATUS(status);
}

static const char *yaml_with(const char *files, const char *step)
{
    static char yaml[4096];

    snprintf(yaml, sizeof yaml,
             "server: {listen_addr: \"127.0.0.1:0\", metrics_port: 0}\n"
             "gateway: {address: \"http://127.0.0.1:1\"}\n"
             "plugins: {load: [%s]}\n"
             "pipeline: {steps: [{type: %s}]}\n",
             files, step);
    return yaml;
}

static int check(struct process *process, const char *files, const char *step)
{
    start_program(process, "check", yaml_with(files, step));
    return end_program(process);
}

/* ---- P01 … P05: refused, and nothing of it has run ---- */

static void assert_refused(const char *file, const char *cause, const char *remedy, bool may_run)
{
    struct process process;
    int code;

    unlink(path_of("marker"));
    setenv("VARIANT_MARKER", path_of("marker"), 1);
    code = check(&process, file, "decode");
    unsetenv("VARIANT_MARKER");
    if (code != 2 || !strstr(process.text, file) || !strstr(process.text, cause) || !strstr(process.text, remedy))
        fail_msg("%s: exit %d, expected \"%s\" and \"%s\" in: %s", file, code, cause, remedy, process.text);
    if (!may_run && access(path_of("marker"), F_OK) == 0)
        fail_msg("%s: its constructor has run", file);
}

static void a_file_that_is_no_plugin_is_refused_before_it_runs(void **state)
{
    static const struct {
        const char *name, *cause, *remedy;
    } ROWS[] = {
        {"not-a-plugin", "not a coordinator plugin (it has no .note.coordinator)", "declare it with COORD_PLUGIN"},
        {"note-magic", "magic 12345678, expected 434f5244", "declare it with COORD_PLUGIN"},
        {"major-next", "built for ABI major 2, this core has 1", "rebuild it against this version's SDK"},
        {"major-before", "built for ABI major 0, this core has 1", "rebuild it against this version's SDK"},
        {"minor-next", "needs ABI 1.1, this core has 1.0", "use a newer core"},
        {"descriptor-zero", "its descriptor of 0 bytes is smaller than ABI 1.0 allows", "declare it with COORD_PLUGIN"},
        {"descriptor-short", "its descriptor of 24 bytes is smaller than ABI 1.0 allows",
         "declare it with COORD_PLUGIN"},
        {"missing-symbol", "undefined symbol: coord_of_a_later_version", "rebuild against this version's SDK"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++)
        assert_refused(fixture(ROWS[i].name), ROWS[i].cause, ROWS[i].remedy, false);
}

static void a_file_that_cannot_be_one_is_refused(void **state)
{
    static char elf[8 << 20];
    size_t size = read_fixture("good", elf, sizeof elf);
    Elf64_Ehdr *head = (Elf64_Ehdr *)(void *)elf;

    (void)state;
    write_file(path_of("text.so"), "not an ELF file\n", 16);
    assert_refused(path_of("text.so"), "not an ELF shared object", "built with -shared", false);
    write_file(path_of("empty.so"), "", 0);
    assert_refused(path_of("empty.so"), "not an ELF shared object", "built with -shared", false);
    write_file(path_of("head.so"), elf, 20);
    assert_refused(path_of("head.so"), "not an ELF shared object", "built with -shared", false);
    write_file(path_of("half.so"), elf, sizeof *head);
    assert_refused(path_of("half.so"), "no", "", false);
    head->e_machine = EM_SPARCV9;
    write_file(path_of("machine.so"), elf, size);
    assert_refused(path_of("machine.so"), "built for another machine (64-bit, machine 43)", "build it for this one",
                   false);
    read_fixture("good", elf, sizeof elf);
    head->e_ident[EI_CLASS] = ELFCLASS32;
    write_file(path_of("bits.so"), elf, size);
    assert_refused(path_of("bits.so"), "built for another machine (32-bit", "build it for this one", false);
    read_fixture("good", elf, sizeof elf);
    head->e_ident[EI_DATA] = ELFDATA2MSB;
    write_file(path_of("order.so"), elf, size);
    assert_refused(path_of("order.so"), "built for another machine", "build it for this one", false);
    read_fixture("good", elf, sizeof elf);
    head->e_type = ET_REL;
    write_file(path_of("object.so"), elf, size);
    assert_refused(path_of("object.so"), "not a shared object", "link it with -shared", false);
    assert_refused(COORD_PROGRAM, "no", "", false);
    assert_refused(folder, "is not a regular file", "name the plugin's .so", false);
    assert_refused(path_of("missing.so"), "cannot be opened: No such file or directory", "check plugins.load", false);
    assert_refused("../nowhere/missing.so", "cannot be opened: No such file or directory",
                   "relative paths count from the working directory (here: /", false);
}

/* Where it stands, and no other error that only follows from it. */
static void a_file_that_is_not_loaded_is_named_once_and_with_its_place(void **state)
{
    static const struct {
        const char *name, *yaml, *said;
    } ROWS[] = {
        {"a file",
         "plugins:\n  load:\n    - missing.so\ngateway: {address: 'http://g'}\npipeline: {steps: [{type: decide}]}\n",
         ":3:7: missing.so: cannot be opened: No such file or directory; relative"},
        {"a folder",
         "plugins: {path: [missing]}\ngateway: {address: 'http://g'}\npipeline: {steps: [{type: decide}]}\n",
         ":1:18: plugin folder missing: No such file or directory; correct plugins.path or create it: relative paths "
         "count from the working directory (here: /"},
        {"a text", "plugins: {load: missing.so}\ngateway: {address: 'http://g'}\npipeline: {steps: [{type: decide}]}\n",
         ":1:17: missing.so: "},
    };

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        struct process process;

        start_program(&process, "check", ROWS[i].yaml);
        if (end_program(&process) != 2 || !strstr(process.text, ROWS[i].said) ||
            !strstr(process.text,
                    "step type \"decide\" is not there: is it in the plugin that was not loaded (see above)?") ||
            strstr(process.text, "unknown") || strstr(process.text, "did you mean"))
            fail_msg("%s: %s", ROWS[i].name, process.text);
    }
}

/* As one is that is still being copied. Its note is there, and the dynamic linker would read behind the file's end. */
static void a_file_that_is_cut_short_is_refused(void **state)
{
    static char elf[8 << 20];
    size_t size = read_fixture("good", elf, sizeof elf), end = 0;
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)(const void *)elf;
    const Elf64_Phdr *segments = (const Elf64_Phdr *)(const void *)(elf + head->e_phoff);

    (void)state;
    for (int i = 0; i < head->e_phnum; i++)
        if (segments[i].p_type == PT_LOAD && segments[i].p_offset + segments[i].p_filesz > end)
            end = segments[i].p_offset + segments[i].p_filesz;
    assert_in_range(end, 4097, size);
    for (size_t kept = 4096; kept < end; kept += (end - 4096) / 4 + 1) {
        write_file(path_of("cut.so"), elf, kept);
        assert_refused(path_of("cut.so"), "cut short", "then rename it", false);
    }
    write_file(path_of("cut.so"), elf, end - 1);
    assert_refused(path_of("cut.so"), "cut short", "then rename it", false);
}

static void a_named_pipe_does_not_hold_up_the_start(void **state)
{
    (void)state;
    assert_int_equal(mkfifo(path_of("pipe.so"), 0600), 0);
    assert_refused(path_of("pipe.so"), "is not a regular file", "name the plugin's .so", false);
}

static void a_file_without_permission_is_refused(void **state)
{
    static char elf[8 << 20];

    (void)state;
    if (geteuid() == 0 &&
        (prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE) != 0 || prctl(PR_CAPBSET_DROP, CAP_DAC_READ_SEARCH) != 0)) {
        print_message("SKIP: root that cannot drop its capabilities reads everything\n");
        skip();
    }
    write_file(path_of("mode.so"), elf, read_fixture("good", elf, sizeof elf));
    assert_int_equal(chmod(path_of("mode.so"), 0), 0);
    assert_refused(path_of("mode.so"), "cannot be opened: Permission denied", "the file's mode", false);
}

static void what_contradicts_the_contract_inside_is_refused(void **state)
{
    static const struct {
        const char *name, *cause, *remedy;
    } ROWS[] = {
        {"contradiction", "its descriptor (ABI 8.0", "use one COORD_PLUGIN"},
        {"no-symbol", "has a note but no symbol coord_plugin", "export it"},
        {"type-zero", "a step type of 0 bytes is smaller than ABI 1.0 allows", "set .size = sizeof(coord_step_type)"},
        {"type-short", "a step type of 48 bytes is smaller", "set .size"},
        {"row-zero", "the param table of \"variant\" is malformed", "COORD_STEP_PARAMS"},
        {"row-short", "the param table of \"variant\" is malformed", "COORD_STEP_PARAMS"},
        {"row-type", "the param table of \"variant\" is malformed", "fix the declaration"},
        {"no-execute", "step type \"variant\" has no execute", "every step needs one"},
        {"bad-type-name", "a step type is called \"Variant_1\"", "names are [a-z][a-z0-9-]*"},
        {"bad-plugin-name", "the plugin is called \"Variant\"", "names are [a-z][a-z0-9-]*"},
        {"twice", "it brings step type \"variant\" twice", "remove one of the two"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++)
        assert_refused(fixture(ROWS[i].name), ROWS[i].cause, ROWS[i].remedy, true);
}

/* ---- What is taken ---- */

static void assert_accepted(const char *file, const char *step)
{
    struct process process;

    if (check(&process, file, step) != 0 || !strstr(process.text, "good: 1 steps"))
        fail_msg("%s: %s", file, process.text);
}

static void larger_structs_of_a_newer_sdk_are_taken_as_far_as_they_are_known(void **state)
{
    static const char *const NAMES[] = {"good", "descriptor-longer", "descriptor-huge", "type-longer", "type-huge"};

    (void)state;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        assert_accepted(fixture(NAMES[i]), "variant");
}

static void a_plugins_name_need_not_be_its_files(void **state)
{
    (void)state;
    assert_accepted(fixture("other-name"), "other");
}

static void the_same_file_twice_counts_once(void **state)
{
    struct process process;
    char files[1200];

    (void)state;
    snprintf(files, sizeof files, "%s, %s/../plugins/good.so", fixture("good"), COORD_TEST_PLUGINS);
    assert_int_equal(check(&process, files, "variant"), 0);
}

static void a_step_type_in_two_files_names_both(void **state)
{
    struct process process;
    char files[1200];

    (void)state;
    snprintf(files, sizeof files, "%s, %s", fixture("good"), fixture("same-type"));
    assert_int_equal(check(&process, files, "variant"), 2);
    assert_non_null(strstr(process.text, "same-type.so: step type \"variant\" is already provided by "));
    assert_non_null(strstr(process.text, "good.so: take one of the two files out of plugins.load, or remove it"));
}

static void names_that_a_plugin_exports_do_not_reach_the_host(void **state)
{
    (void)state;
    assert_accepted(fixture("exports"), "variant");
}

static void another_compiler_and_language_give_the_same_layout(void **state)
{
    (void)state;
    if (access(fixture("other-compiler"), F_OK) == 0)
        assert_accepted(fixture("other-compiler"), "variant");
    if (access(fixture("cplusplus"), F_OK) == 0)
        assert_accepted(fixture("cplusplus"), "cplusplus");
}

static void a_create_that_fails_says_why_and_where(void **state)
{
    struct process process;

    (void)state;
    assert_int_equal(check(&process, fixture("create-fails"), "variant"), 2);
    assert_non_null(strstr(process.text, "config.yaml:4:"));
    assert_non_null(strstr(process.text, "step variant: the moon is not full"));
}

/* ---- Running ---- */

static void the_other_compilers_steps_run(void **state)
{
    static const char *const NAMES[][3] = {{"other-compiler", "variant", "variant none"},
                                           {"cplusplus", "cplusplus", "hello from C++"}};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const char *file = fixture(NAMES[i][0]);
        char yaml[256];
        coord_kit *kit;
        const coord_kit_message *answer;

        if (access(file, F_OK) != 0)
            continue;
        snprintf(yaml, sizeof yaml, "pipeline: {steps: [{type: %s}]}", NAMES[i][1]);
        kit = coord_kit_start(&(coord_kit_options){
            .size = sizeof(coord_kit_options), .yaml = yaml, .plugin_files = (const char *const[]){file, NULL}});
        if (!kit)
            fail_msg("%s", coord_kit_problem());
        answer = coord_kit_post(kit, "/v1/chat/completions", "{}");
        assert_int_equal(answer->status, 418);
        assert_non_null(memmem(answer->body.data, answer->body.size, NAMES[i][2], strlen(NAMES[i][2])));
        assert_true(coord_kit_stop(kit));
    }
}

/* In a child: what it says goes to a file. */
static void run_crossing_exception(void)
{
    coord_kit *started =
        coord_kit_start(&(coord_kit_options){.size = sizeof(coord_kit_options),
                                             .yaml = "pipeline: {steps: [{type: cplusplus, params: {words: cross}}]}",
                                             .plugin_files = (const char *const[]){fixture("cplusplus"), NULL}});

    if (started && dup2(open(path_of("said"), O_CREAT | O_WRONLY, 0600), STDERR_FILENO) == STDERR_FILENO)
        coord_kit_post(started, "/v1/chat/completions", "{}");
    _exit(77);
}

static void an_exception_that_crosses_into_the_core_ends_the_process_with_its_words(void **state)
{
    static char said[16384];
    FILE *file;
    int status = 0;
    pid_t child;

    (void)state;
    if (access(fixture("cplusplus"), F_OK) != 0) {
        print_message("SKIP: no C++ compiler was found\n");
        skip();
    }
    child = fork();
    if (child == 0)
        run_crossing_exception();
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(!WIFEXITED(status) || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != 77));
    file = fopen(path_of("said"), "r");
    assert_non_null(file);
    said[fread(said, 1, sizeof said - 1, file)] = '\0';
    fclose(file);
    if (!strstr(said, "it crosses the core") || !strstr(said, "step \"cplusplus\""))
        fail_msg("%s", said);
}

static void two_steps_of_one_file_have_state_of_their_own(void **state)
{
    coord_kit *kit = coord_kit_start(&(coord_kit_options){
        .size = sizeof(coord_kit_options),
        .yaml = "pipeline: {steps: [{type: variant, id: a, when: {stream: true}, params: {text: next}}, "
                "{type: variant, id: b, params: {text: b's own}}]}",
        .plugin_files = (const char *const[]){fixture("good"), NULL}});
    const coord_kit_message *answer;

    (void)state;
    if (!kit)
        fail_msg("%s", coord_kit_problem());
    answer = coord_kit_post(kit, "/v1/chat/completions", "{\"stream\":true}");
    assert_int_equal(answer->status, 418);
    assert_non_null(memmem(answer->body.data, answer->body.size, "variant b's own", 15));
    assert_true(coord_kit_stop(kit));
}

static void what_a_plugin_leaves_behind_does_not_spoil_the_end(void **state)
{
    struct process process;

    (void)state;
    start_program(&process, "serve", yaml_with(fixture("leaves-thread"), "leaves-thread"));
    assert_true(read_until(&process, "started"));
    assert_int_equal(kill(process.pid, SIGTERM), 0);
    assert_int_equal(end_program(&process), 0);
}

static void a_plugin_that_does_not_load_keeps_the_service_from_starting(void **state)
{
    struct process process;

    (void)state;
    start_program(&process, "serve", yaml_with(fixture("major-next"), "decode"));
    assert_int_equal(end_program(&process), 1);
    assert_non_null(strstr(process.text, "built for ABI major 2"));
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    static const char *const NAMES[] = {"config.yaml", "marker",  "text.so",    "empty.so", "head.so",
                                        "half.so",     "cut.so",  "machine.so", "bits.so",  "order.so",
                                        "object.so",   "pipe.so", "said",       "mode.so"};

    (void)state;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        unlink(path_of(NAMES[i]));
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_that_is_no_plugin_is_refused_before_it_runs),
        cmocka_unit_test(a_file_that_cannot_be_one_is_refused),
        cmocka_unit_test(a_file_that_is_not_loaded_is_named_once_and_with_its_place),
        cmocka_unit_test(a_file_that_is_cut_short_is_refused),
        cmocka_unit_test(a_named_pipe_does_not_hold_up_the_start),
        cmocka_unit_test(what_contradicts_the_contract_inside_is_refused),
        cmocka_unit_test(larger_structs_of_a_newer_sdk_are_taken_as_far_as_they_are_known),
        cmocka_unit_test(a_plugins_name_need_not_be_its_files),
        cmocka_unit_test(the_same_file_twice_counts_once),
        cmocka_unit_test(a_step_type_in_two_files_names_both),
        cmocka_unit_test(names_that_a_plugin_exports_do_not_reach_the_host),
        cmocka_unit_test(another_compiler_and_language_give_the_same_layout),
        cmocka_unit_test(a_create_that_fails_says_why_and_where),
        cmocka_unit_test(the_other_compilers_steps_run),
        cmocka_unit_test(an_exception_that_crosses_into_the_core_ends_the_process_with_its_words),
        cmocka_unit_test(two_steps_of_one_file_have_state_of_their_own),
        cmocka_unit_test(what_a_plugin_leaves_behind_does_not_spoil_the_end),
        cmocka_unit_test(a_plugin_that_does_not_load_keeps_the_service_from_starting),
        cmocka_unit_test(
            a_file_without_permission_is_refused), /* last: programs that are started later are less privileged */
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
