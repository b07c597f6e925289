/* Unit test of lines that leave together: when they do, in which order, in which pieces, and that no end of the process loses one. */
#include "runtime/fiber.h"
#include "telemetry/families.h"
#include "telemetry/gather.h"
#include "telemetry/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROOM = 2 * 1024 * 1024, TIMESTAMP = 24 };

static char read_text[ROOM];
static int saved_stderr, read_fd;

/* Standard error is that end from now on. */
static void redirect(int read_end, int write_end)
{
    saved_stderr = dup(STDERR_FILENO);
    assert_true(saved_stderr >= 0);
    assert_int_equal(dup2(write_end, STDERR_FILENO), STDERR_FILENO);
    close(write_end);
    read_fd = read_end;
    log_configure(COORD_LOG_INFO, LOG_TEXT);
}

/* A socket that keeps what was written at once together. */
static int begin(void **state)
{
    int ends[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    redirect(ends[0], ends[1]);
    log_gather();
    return 0;
}

static int end(void **state)
{
    (void)state;
    log_gather_end();
    log_flush();
    dup2(saved_stderr, STDERR_FILENO);
    close(saved_stderr);
    close(read_fd);
    log_configure(COORD_LOG_INFO, LOG_TEXT);
    return 0;
}

/* What was written at once; NULL: nothing waits. */
static const char *piece(void)
{
    ssize_t size;

    if (poll(&(struct pollfd){.fd = read_fd, .events = POLLIN}, 1, 0) != 1)
        return NULL;
    size = read(read_fd, read_text, sizeof read_text - 1);
    assert_true(size > 0);
    read_text[size] = '\0';
    return read_text;
}

/* The messages of the lines that came, one after the other. */
static void assert_messages(const char *lines, const char *const *messages)
{
    for (; *messages; messages++) {
        assert_non_null(lines);
        assert_memory_equal(lines + TIMESTAMP + strlen(" WARN  "), *messages, strlen(*messages));
        lines = strchr(lines, '\n');
        assert_non_null(lines);
        lines++;
    }
    assert_string_equal(lines, "");
}

static void say(const char *message) { coord_log(NULL, COORD_LOG_INFO, message, NULL, 0); }

static void lines_wait_and_leave_together_in_their_order(void **state)
{
    (void)state;
    say("first");
    say("second");
    assert_null(piece());
    log_send();
    assert_messages(piece(), (const char *const[]){"first", "second", NULL});
    log_send();
    assert_null(piece());
    say("third");
    log_gather_end();
    assert_messages(piece(), (const char *const[]){"third", NULL});
    say("fourth"); /* at once again */
    assert_messages(piece(), (const char *const[]){"fourth", NULL});
}

static void a_warning_leaves_at_once_behind_what_waits(void **state)
{
    static const int32_t levels[] = {COORD_LOG_WARNING, COORD_LOG_ERROR};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        say("before");
        coord_log(NULL, levels[i], "trouble", NULL, 0);
        assert_messages(piece(), (const char *const[]){"before", "trouble", NULL});
    }
}

static void *say_elsewhere(void *message)
{
    say(message);
    return NULL;
}

static void a_line_of_a_thread_that_gathers_none_comes_after_all_before_it(void **state)
{
    pthread_t thread;

    (void)state;
    say("mine");
    assert_int_equal(pthread_create(&thread, NULL, say_elsewhere, "another's"), 0);
    pthread_join(thread, NULL);
    assert_messages(piece(), (const char *const[]){"mine", NULL});
    assert_messages(piece(), (const char *const[]){"another's", NULL});
}

static void flushing_sends_what_waits(void **state)
{
    (void)state;
    say("gathered");
    log_flush();
    assert_messages(piece(), (const char *const[]){"gathered", NULL});
}

static void say_number(int number, size_t padding)
{
    char text[8192];
    coord_field fields[] = {LOG_INT_FIELD("n", number), LOG_TEXT_FIELD("pad", ((coord_slice){text, padding}))};

    assert_true(padding <= sizeof text);
    memset(text, 'p', padding);
    coord_log(NULL, COORD_LOG_INFO, "m", fields, 2);
}

/* The numbers on the lines, each one more than the last; returns the next. */
static int follow(const char *lines, int next)
{
    for (const char *feed; (feed = strchr(lines, '\n')); lines = feed + 1) {
        const char *number = strstr(lines, " n=");

        assert_true(number && number < feed);
        assert_int_equal(atoi(number + 3), next++);
    }
    assert_string_equal(lines, ""); /* whole ones only */
    return next;
}

static void what_leaves_at_once_is_whole_lines_of_at_most_a_pipes_atomic_size(void **state)
{
    enum { LINES = 200 };
    const char *lines;
    int next = 0, pieces = 0;

    (void)state;
    for (int i = 0; i < LINES; i++) {
        say_number(i, i == 70 ? 6000 : i % 7 == 0 ? 900 : 50); /* one does not fit by itself */
        while ((lines = piece()) != NULL) {
            assert_true(strlen(lines) <= PIPE_BUF || next == 70);
            next = follow(lines, next);
            pieces++;
        }
    }
    log_send();
    while ((lines = piece()) != NULL)
        next = follow(lines, next);
    assert_int_equal(next, LINES);
    assert_true(pieces > 5 && pieces < LINES / 4);
}

static int begin_pipe(void **state)
{
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    redirect(ends[0], ends[1]);
    log_gather();
    return 0;
}

/* Reads whole lines until that many have come; returns them. */
static const char *read_lines(int count)
{
    size_t size = 0;

    for (int lines = 0; lines < count;) {
        ssize_t got;

        assert_int_equal(poll(&(struct pollfd){.fd = read_fd, .events = POLLIN}, 1, 10000), 1);
        assert_true(size + 65536 < sizeof read_text);
        got = read(read_fd, read_text + size, 65536);
        assert_true(got > 0);
        for (size_t i = size; i < size + (size_t)got; i++)
            lines += read_text[i] == '\n';
        size += (size_t)got;
    }
    read_text[size] = '\0';
    return read_text;
}

static void what_nobody_reads_is_kept_in_order_and_dropped_line_by_line(void **state)
{
    enum { LINES = 10000 };
    uint64_t dropped = log_dropped();
    const char *lines;
    int last = -1;

    (void)state;
    assert_true(families_declare());
    for (int i = 0; i < LINES; i++)
        say_number(i, 200);
    log_send();
    dropped = log_dropped() - dropped;
    assert_true(dropped > 0 && dropped < LINES);
    lines = read_lines(LINES - (int)dropped);
    for (const char *feed; (feed = strchr(lines, '\n')); lines = feed + 1) {
        assert_true(atoi(strstr(lines, " n=") + 3) > last);
        last = atoi(strstr(lines, " n=") + 3);
    }
}

enum { THREADS = 4, EACH = 2000 };

static void *gather_some(void *argument)
{
    int which = *(int *)argument;

    log_gather();
    for (int i = 0; i < EACH; i++) {
        coord_logf(NULL, COORD_LOG_INFO, "thread %d line %d.", which, i);
        if (i % 5 == 0)
            log_send();
    }
    log_gather_end();
    return NULL;
}

static void *flush_often(void *unused)
{
    (void)unused;
    for (int i = 0; i < 100; i++)
        log_flush();
    return NULL;
}

static void lines_of_threads_that_gather_do_not_mix_and_keep_their_order(void **state)
{
    int which[THREADS], next[THREADS] = {0};
    pthread_t threads[THREADS], beside;
    const char *line;

    (void)state;
    for (int i = 0; i < THREADS; i++) {
        which[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, gather_some, &which[i]), 0);
    }
    assert_int_equal(pthread_create(&beside, NULL, flush_often, NULL), 0);
    line = read_lines(THREADS * EACH);
    pthread_join(beside, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS * EACH; i++) {
        int thread, number, size = 0;

        assert_int_equal(sscanf(line + TIMESTAMP, " INFO  thread %d line %d.%n", &thread, &number, &size), 2);
        assert_true(size > 0 && line[TIMESTAMP + size] == '\n');
        assert_in_range(thread, 0, THREADS - 1);
        assert_int_equal(number, next[thread]++);
        line += TIMESTAMP + size + 1;
    }
}

/* ---- A thread that gathers none, beside one that sends at this moment ---- */

enum { TURNS = 5000 };

static atomic_int said, answered;

/* Sees it at once where both run at a time, and does not keep the other from running where one does. */
static void wait_for(atomic_int *counter, int value)
{
    for (int looks = 0; atomic_load(counter) < value; looks++)
        if (looks > 1000)
            sched_yield();
}

/* The sending begins a little later each time. */
static void *say_and_send(void *unused)
{
    (void)unused;
    log_gather();
    for (int i = 1; i <= TURNS; i++) {
        coord_logf(NULL, COORD_LOG_INFO, "n=%d", 2 * i);
        atomic_store(&said, i);
        for (volatile int wait = 0; wait < i % 1500; wait++)
            ;
        log_send();
        wait_for(&answered, i);
    }
    log_gather_end();
    return NULL;
}

static void *answer(void *unused)
{
    (void)unused;
    for (int i = 1; i <= TURNS; i++) {
        wait_for(&said, i);
        coord_logf(NULL, COORD_LOG_INFO, "n=%d", 2 * i + 1);
        atomic_store(&answered, i);
    }
    return NULL;
}

static void a_line_comes_after_those_before_it_that_are_just_being_sent(void **state)
{
    pthread_t first, second;
    ssize_t size;

    (void)state;
    atomic_store(&said, 0);
    atomic_store(&answered, 0);
    assert_int_equal(pthread_create(&first, NULL, say_and_send, NULL), 0);
    assert_int_equal(pthread_create(&second, NULL, answer, NULL), 0);
    pthread_join(first, NULL);
    pthread_join(second, NULL);
    size = pread(read_fd, read_text, sizeof read_text - 1, 0);
    assert_true(size > 0);
    read_text[size] = '\0';
    assert_int_equal(follow(read_text, 2), 2 * TURNS + 2);
}

/* A file, which every thread writes to by itself. */
static int begin_file(void **state)
{
    FILE *file = tmpfile();
    int fd = file ? dup(fileno(file)) : -1;

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_APPEND), 0);
    fclose(file);
    redirect(dup(fd), fd);
    return 0;
}

/* ---- Ends of the process ---- */

static const char *program;
static pthread_barrier_t gathered;

static void *gather_and_wait(void *unused)
{
    (void)unused;
    log_gather();
    say("of a reactor that waits");
    pthread_barrier_wait(&gathered);
    while (pause() != 0)
        ;
    return NULL;
}

/* A child's copies of the lines are not its own, and nobody sends what it would gather. */
static void end_child(const char *how)
{
    if (strstr(how, "abort"))
        abort();
    if (strstr(how, "warn"))
        coord_log(NULL, COORD_LOG_WARNING, "of a child", NULL, 0);
    if (strstr(how, "say")) {
        say("of a child");
        _exit(0);
    }
    exit(0);
}

/* The program that is started again: one thread has gathered and waits, this one ends the process. */
static int run_to_the_end(const char *how)
{
    pthread_t thread;

    log_set_sink(NULL, NULL);
    log_configure(COORD_LOG_INFO, LOG_TEXT);
    fiber_crash_install();
    pthread_barrier_init(&gathered, NULL, 2);
    if (pthread_create(&thread, NULL, gather_and_wait, NULL) != 0)
        return 7;
    pthread_barrier_wait(&gathered);
    log_gather();
    say("of the one that ends");
    if (strcmp(how, "exit") == 0)
        exit(0);
    if (strcmp(how, "abort") == 0)
        abort();
    if (strcmp(how, "a line that cannot be read") == 0)
        return gather_keep((coord_slice){(const char *)PIPE_BUF, 100}, false);
    if (strncmp(how, "fork", 4) == 0 && fork() == 0)
        end_child(how);
    wait(NULL);
    return 0;
}

static int times(const char *text, const char *part)
{
    int found = 0;

    for (; (text = strstr(text, part)) != NULL; text += strlen(part))
        found++;
    return found;
}

static void however_the_process_ends_what_waits_is_written_once(void **state)
{
    static const struct {
        const char *how;
        const char *crashes; /* by a signal */
        int of_child;
    } rows[] = {{"exit", NULL, 0},
                {"return", NULL, 0},
                {"fork", NULL, 0},
                {"fork, abort", NULL, 0},
                {"fork, say", NULL, 1},
                {"fork, warn", NULL, 1},
                {"abort", "crashed with SIGABRT", 0},
                {"a line that cannot be read", "crashed with SIGSEGV", 0}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t size = 0;
        int ends[2], status;
        pid_t child;
        ssize_t got;

        print_message("  %s\n", rows[i].how);
        assert_int_equal(pipe(ends), 0);
        child = fork();
        if (child == 0) {
            dup2(ends[1], STDERR_FILENO);
            close(ends[0]);
            close(ends[1]);
            execl(program, program, rows[i].how, (char *)NULL);
            _exit(9);
        }
        assert_true(child > 0);
        close(ends[1]);
        while ((got = read(ends[0], read_text + size, sizeof read_text - size - 1)) > 0)
            size += (size_t)got;
        read_text[size] = '\0';
        close(ends[0]);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(rows[i].crashes || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
        assert_int_equal(times(read_text, "of a reactor that waits\n"), 1);
        assert_int_equal(times(read_text, "of the one that ends\n"), 1);
        assert_int_equal(times(read_text, "of a child\n"), rows[i].of_child);
        if (rows[i].crashes)
            assert_true(strstr(read_text, "of the one that ends") < strstr(read_text, rows[i].crashes));
    }
}

#define GATHER_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
#define PIPE_TEST(name) cmocka_unit_test_setup_teardown(name, begin_pipe, end)

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        GATHER_TEST(lines_wait_and_leave_together_in_their_order),
        GATHER_TEST(a_warning_leaves_at_once_behind_what_waits),
        GATHER_TEST(a_line_of_a_thread_that_gathers_none_comes_after_all_before_it),
        GATHER_TEST(flushing_sends_what_waits),
        GATHER_TEST(what_leaves_at_once_is_whole_lines_of_at_most_a_pipes_atomic_size),
        PIPE_TEST(what_nobody_reads_is_kept_in_order_and_dropped_line_by_line),
        PIPE_TEST(lines_of_threads_that_gather_do_not_mix_and_keep_their_order),
        cmocka_unit_test_setup_teardown(a_line_comes_after_those_before_it_that_are_just_being_sent, begin_file, end),
        cmocka_unit_test(however_the_process_ends_what_waits_is_written_once),
    };

    if (count > 1)
        return run_to_the_end(arguments[1]);
    program = arguments[0];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
