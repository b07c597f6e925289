/* The pid file and the answers beside it: who has it, what a reader finds, what stays behind. */
#include "cli/pid_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <fcntl.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/coord-pid-XXXXXX";
static char path[64], answers[80];

static int setup(void **state)
{
    (void)state;
    memcpy(folder + sizeof folder - 7, "XXXXXX", 6);
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/pid", folder);
    snprintf(answers, sizeof answers, "%s.reload", path);
    return 0;
}

static size_t files_left(void)
{
    DIR *open = opendir(folder);
    size_t count = 0;

    assert_non_null(open);
    for (struct dirent *entry; (entry = readdir(open)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(open);
    return count;
}

static int teardown(void **state)
{
    (void)state;
    unlink(path);
    unlink(answers);
    return rmdir(folder);
}

static void write_file(const char *name, const char *text)
{
    FILE *file = fopen(name, "we");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static long read_process(void)
{
    struct buffer reason = {0};
    long process = pid_file_process(path, &reason);

    buffer_release(&reason);
    return process;
}

static void it_holds_our_number_while_we_have_it(void **state)
{
    struct pid_file file;
    struct buffer reason = {0};
    struct stat facts;

    (void)state;
    assert_true(pid_file_take(&file, path, &reason));
    assert_int_equal(read_process(), getpid());
    assert_int_equal(stat(path, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0644);
    assert_int_equal(files_left(), 1);
    pid_file_drop(&file);
    assert_int_equal(read_process(), 0);
    assert_int_equal(files_left(), 0);
    pid_file_drop(&file); /* nothing any more */
}

static void one_that_is_in_use_is_refused_and_stays_as_it_is(void **state)
{
    struct pid_file first, second;
    struct buffer reason = {0};
    char wanted[160];

    (void)state;
    assert_true(pid_file_take(&first, path, &reason));
    assert_false(pid_file_take(&second, path, &reason));
    snprintf(wanted, sizeof wanted, "--pid-file %s belongs to a coordinator that runs, process %ld", path,
             (long)getpid());
    assert_non_null(strstr(reason.data, wanted));
    assert_int_equal(files_left(), 1);
    pid_file_drop(&second);
    assert_int_equal(read_process(), getpid());
    pid_file_drop(&first);
    buffer_release(&reason);
}

static void one_that_a_dead_process_left_is_taken_over_with_what_lay_beside_it(void **state)
{
    static const char *const left[] = {"999999999\n", "", "nonsense\n", "1\n"};

    (void)state;
    for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
        struct pid_file file;
        struct buffer reason = {0};

        write_file(path, left[i]);
        write_file(answers, "7 applied\n");
        assert_int_equal(read_process(), 0);
        assert_true(pid_file_take(&file, path, &reason));
        assert_int_equal(read_process(), getpid());
        assert_int_equal(files_left(), 1);
        pid_file_drop(&file);
    }
}

/* However often `coordinator reload` looks at a stale file meanwhile. */
static void somebody_who_just_looks_at_a_stale_one_does_not_hold_it(void **state)
{
    int looking[2], status;
    pid_t child;
    char byte;

    (void)state;
    assert_int_equal(pipe(looking), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct buffer reason = {0};

        if (write(looking[1], "l", 1) != 1)
            _exit(1);
        for (int i = 0; i < 3000; i++) {
            pid_file_process(path, &reason);
            buffer_clear(&reason, 4096);
        }
        buffer_release(&reason);
        _exit(0);
    }
    assert_int_equal(read(looking[0], &byte, 1), 1);
    for (int i = 0; i < 100; i++) {
        struct pid_file file;
        struct buffer reason = {0};

        write_file(path, "999999999\n");
        if (!pid_file_take(&file, path, &reason))
            fail_msg("%.*s", COORD_FMT(buffer_slice(&reason)));
        pid_file_drop(&file);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(looking[0]);
    close(looking[1]);
}

/* Takes it at the signal, and keeps it until everybody has tried. */
static int try_to_get_it(const int go[2], const int stay[2])
{
    struct pid_file file;
    struct buffer reason = {0};
    bool taken;
    char byte;

    close(go[1]);
    close(stay[1]);
    taken = read(go[0], &byte, 1) == 0 && pid_file_take(&file, path, &reason);
    buffer_release(&reason);
    return taken && read(stay[0], &byte, 1) == 0;
}

static void of_many_who_want_it_one_gets_it(void **state)
{
    enum { MANY = 8 };
    int go[2], stay[2], status, winners = 0;

    (void)state;
    write_file(path, "999999999\n");
    assert_int_equal(pipe(go), 0);
    assert_int_equal(pipe(stay), 0);
    alarm(60); /* with two winners the last but one would not end */
    for (int i = 0; i < MANY; i++) {
        pid_t child = fork();

        assert_true(child >= 0);
        if (child == 0)
            _exit(try_to_get_it(go, stay));
    }
    close(go[0]);
    close(go[1]);
    for (int i = 0; i < MANY; i++) {
        if (i == MANY - 1)
            close(stay[1]);
        assert_true(wait(&status) > 0);
        winners += WEXITSTATUS(status);
    }
    alarm(0);
    close(stay[0]);
    assert_int_equal(winners, 1);
    assert_int_equal(files_left(), 1);
}

static void one_that_another_has_put_in_its_place_is_not_removed(void **state)
{
    struct pid_file file;
    struct buffer reason = {0};

    (void)state;
    assert_true(pid_file_take(&file, path, &reason));
    unlink(path);
    write_file(path, "of another\n");
    pid_file_drop(&file);
    assert_int_equal(files_left(), 1);
}

/* As a pid_t these would be the process group, every process there is, and process 5. */
static void a_number_that_no_process_can_have_is_none(void **state)
{
    static const char *const numbers[] = {"4294967296\n", "4294967295\n", "4294967301\n", "-5\n", "0\n"};

    (void)state;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct buffer reason = {0};
        struct flock first_byte = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
        FILE *holder;

        write_file(path, numbers[i]);
        holder = fopen(path, "r+e");
        assert_non_null(holder);
        assert_int_equal(fcntl(fileno(holder), F_OFD_SETLK, &first_byte), 0);
        assert_int_equal(pid_file_process(path, &reason), 0);
        assert_true(buffer_append(&reason, "", 1));
        assert_non_null(strstr(reason.data, "is no pid file"));
        fclose(holder);
        buffer_release(&reason);
    }
}

static void what_is_no_regular_file_is_not_replaced(void **state)
{
    struct pid_file file;
    struct buffer reason = {0};
    struct stat facts;

    (void)state;
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_false(pid_file_take(&file, path, &reason));
    assert_true(buffer_append(&reason, "", 1));
    assert_non_null(strstr(reason.data, "it is no regular file"));
    assert_int_equal(stat(path, &facts), 0);
    assert_true(S_ISFIFO(facts.st_mode));
    buffer_release(&reason);
}

/* Whoever opened it to read would wait until somebody writes. */
static void a_pipe_in_the_place_of_answers_holds_up_nobody(void **state)
{
    struct reload_answer got = {0};

    (void)state;
    assert_int_equal(mkfifo(answers, 0600), 0);
    alarm(60);
    reload_answer_read(path, &got);
    alarm(0);
    assert_int_equal(got.state, RELOAD_NONE);
    buffer_release(&got.text);
}

static void answers_come_back_as_they_were_given(void **state)
{
    static const enum reload_state states[] = {RELOAD_BEGUN, RELOAD_APPLIED, RELOAD_REFUSED, RELOAD_FAILED,
                                               RELOAD_ENDING};
    struct reload_answer given = {0}, got = {0};
    struct buffer reason = {0};
    struct pid_file file;

    (void)state;
    assert_true(pid_file_take(&file, path, &reason));
    reload_answer_read(path, &got);
    assert_int_equal(got.state, RELOAD_NONE);
    assert_true(buffer_append_text(&given.text, "f.yaml:1:2: wrong\nand more\n"));
    for (unsigned i = 0; i < sizeof states / sizeof *states; i++) {
        given.number = i + 1;
        given.state = states[i];
        reload_answer_write(&file, &given);
        reload_answer_read(path, &got);
        assert_int_equal(got.number, i + 1);
        assert_int_equal(got.state, states[i]);
        assert_true(coord_slice_equal(buffer_slice(&got.text), buffer_slice(&given.text)));
        assert_int_equal(files_left(), 2);
    }
    pid_file_drop(&file);
    assert_int_equal(files_left(), 0);
    buffer_release(&given.text);
    buffer_release(&got.text);
}

static void what_is_no_answer_is_none(void **state)
{
    static const char *const texts[] = {"", "\n", "applied\n", "1\n", "1 nonsense\n", "1 applied", "x 1 applied\n"};
    struct reload_answer got = {0};

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        write_file(answers, texts[i]);
        reload_answer_read(path, &got);
        assert_int_equal(got.number, 0);
        assert_int_equal(got.state, RELOAD_NONE);
        assert_int_equal(got.text.size, 0);
    }
    buffer_release(&got.text);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(it_holds_our_number_while_we_have_it),
        CASE(one_that_is_in_use_is_refused_and_stays_as_it_is),
        CASE(one_that_a_dead_process_left_is_taken_over_with_what_lay_beside_it),
        CASE(somebody_who_just_looks_at_a_stale_one_does_not_hold_it),
        CASE(of_many_who_want_it_one_gets_it),
        CASE(one_that_another_has_put_in_its_place_is_not_removed),
        CASE(a_number_that_no_process_can_have_is_none),
        CASE(what_is_no_regular_file_is_not_replaced),
        CASE(a_pipe_in_the_place_of_answers_holds_up_nobody),
        CASE(answers_come_back_as_they_were_given),
        CASE(what_is_no_answer_is_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
