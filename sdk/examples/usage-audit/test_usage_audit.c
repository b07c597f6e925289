/* The step against the test kit: the lines that a file gets, and what happens when it takes none. */
#define _POSIX_C_SOURCE 200809L
#undef NDEBUG
#include <coordinator/testkit.h>

#include <assert.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

extern const coord_plugin_descriptor coord_plugin; /* of usage_audit.c */

static const char chat[] = "/v1/chat/completions";
static const char asked[] = "{\"model\":\"m\",\"messages\":[]}";
static char folder[] = "/tmp/usage-audit-XXXXXX", file[64];

static coord_kit *start_on(uint32_t reactors, const char *path, const char *queue)
{
    char variable[96], yaml[256];
    coord_kit *kit;

    snprintf(variable, sizeof variable, "AUDIT=%s", path);
    snprintf(yaml, sizeof yaml,
             "pipeline: {steps: [{type: usage-audit, params: {file: \"${AUDIT}\", queue: %s}}, {type: decode}]}",
             queue);
    kit =
        coord_kit_start(&(coord_kit_options){.size = sizeof(coord_kit_options),
                                             .reactors = reactors,
                                             .yaml = yaml,
                                             .environment = (const char *const[]){variable, NULL},
                                             .plugins = (const coord_plugin_descriptor *const[]){&coord_plugin, NULL}});
    if (!kit)
        fprintf(stderr, "%s", coord_kit_problem());
    assert(kit);
    return kit;
}

static coord_kit *start(const char *path, const char *queue) { return start_on(1, path, queue); }

static double lost(const char *reason)
{
    return coord_kit_metric("usage_audit_lost_total", (const coord_slice[]){coord_slice_of(reason)});
}

static const char *whole_file(void)
{
    static char text[4096];
    FILE *in = fopen(file, "r");

    assert(in);
    text[fread(text, 1, sizeof text - 1, in)] = '\0';
    fclose(in);
    return text;
}

/* The file's text, its times replaced by T; it is emptied. */
static const char *take_file(void)
{
    static char text[4096], line[1024];
    FILE *in = fopen(file, "r");
    size_t size = 0;

    assert(in);
    for (text[0] = '\0'; fgets(line, sizeof line, in);) {
        char *rest = strchr(line, ',');

        assert(strncmp(line, "{\"time\":1", 9) == 0 && rest);
        size += (size_t)snprintf(text + size, sizeof text - size, "{\"time\":T%s", rest);
    }
    fclose(in);
    assert(truncate(file, 0) == 0);
    return text;
}

static void every_request_is_a_line(void)
{
    static const char *const id[] = {"x-request-id", "r1", NULL};
    static const char *const event_stream[] = {"Content-Type", "text/event-stream", NULL};
    static const coord_kit_piece pieces[] = {
        {.bytes = COORD_SLICE("data: {\"choices\":[{}]}\n\n")},
        {.bytes = COORD_SLICE("data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2,"
                              "\"prompt_tokens_details\":{\"cached_tokens\":1}}}\n\ndata: [DONE]\n\n")}};
    coord_kit *kit = start(file, "10");
    const coord_kit_message *answer;

    coord_kit_on(kit, &(coord_kit_rule){.times = 1, .headers = event_stream, .pieces = pieces, .piece_count = 2});
    answer = coord_kit_ask(kit, &(coord_kit_request){.target = chat, .headers = id, .body = coord_slice_of(asked)});
    assert(answer && answer->whole && answer->body.size == pieces[0].bytes.size + pieces[1].bytes.size);
    coord_kit_on(kit, &(coord_kit_rule){.times = 1, .status = 500});
    coord_kit_ask(kit, &(coord_kit_request){.target = chat, .headers = id, .body = coord_slice_of(asked)});
    coord_kit_on(kit, &(coord_kit_rule){.status = COORD_KIT_NO_HEAD, .ending = COORD_KIT_CUT});
    coord_kit_ask(kit, &(coord_kit_request){.target = chat, .headers = id, .body = coord_slice_of(asked)});
    assert(coord_kit_stop(kit)); /* nothing is waited for: stopping writes what is left */
    assert(strcmp(take_file(),
                  "{\"time\":T,\"request\":\"r1\",\"api\":\"chat_completions\",\"model\":\"m\",\"prompt_tokens\":3,"
                  "\"output_tokens\":2,\"cached_tokens\":1}\n"
                  "{\"time\":T,\"request\":\"r1\",\"api\":\"chat_completions\",\"model\":\"m\"}\n"
                  "{\"time\":T,\"request\":\"r1\",\"api\":\"chat_completions\",\"model\":\"m\"}\n") == 0);
}

static void many_at_a_time_are_whole_lines(void)
{
    enum { MANY = 200 };
    static coord_kit_client *clients[MANY];
    char line[1024];
    size_t lines = 0;
    coord_kit *kit = start_on(2, file, "1000");
    FILE *in;

    coord_kit_on(kit, &(coord_kit_rule){.body = COORD_SLICE("{\"usage\":{\"prompt_tokens\":3}}")});
    for (int i = 0; i < MANY; i++)
        clients[i] = coord_kit_send(kit, &(coord_kit_request){.target = chat, .body = coord_slice_of(asked)});
    for (int i = 0; i < MANY; i++)
        assert(clients[i] && coord_kit_read(clients[i], COORD_KIT_ALL));
    assert(coord_kit_stop(kit));
    in = fopen(file, "r");
    assert(in);
    for (; fgets(line, sizeof line, in); lines++)
        assert(strncmp(line, "{\"time\":1", 9) == 0 && strstr(line, "\"model\":\"m\",\"prompt_tokens\":3}\n"));
    fclose(in);
    assert(lines == MANY && truncate(file, 0) == 0);
}

static void answers_do_not_wait_for_the_file_and_what_it_has_no_room_for_is_counted(void)
{
    enum { ASKED = 400, WIDE = 3000 };
    char pipe[80], body[WIDE + 64], taken[4096];
    double before = lost("queue_full");
    coord_kit *kit;
    int reader;

    /* A pipe that nobody reads from takes 64 KiB; then the writing thread is stuck, as by a disk that hangs. */
    snprintf(pipe, sizeof pipe, "%s/pipe", folder);
    assert(mkfifo(pipe, 0600) == 0);
    reader = open(pipe, O_RDONLY | O_NONBLOCK);
    assert(reader >= 0);
    snprintf(body, sizeof body, "{\"model\":\"%0*d\",\"messages\":[]}", WIDE, 1);
    kit = start(pipe, "5");
    coord_kit_on(kit, &(coord_kit_rule){.body = COORD_SLICE("{\"usage\":{\"prompt_tokens\":3}}")});
    for (size_t i = 0; i < ASKED && lost("queue_full") == before; i++) {
        const coord_kit_message *answer = coord_kit_post(kit, chat, body);

        assert(answer && answer->status == 200);
    }
    assert(lost("queue_full") > before);
    while (read(reader, taken, sizeof taken) > 0) /* then the pipe has room for all that is queued */
        ;
    assert(coord_kit_stop(kit));
    close(reader);
    unlink(pipe);
}

static void a_write_that_fails_is_counted(void)
{
    double before = lost("write_failed");
    coord_kit *kit = start("/dev/full", "10");

    coord_kit_on(kit, &(coord_kit_rule){.body = COORD_SLICE("{}")});
    assert(coord_kit_post(kit, chat, asked)->status == 200);
    assert(coord_kit_stop(kit));
    assert(lost("write_failed") == before + 1);
}

static void what_a_full_disk_took_of_a_line_spoils_no_other(void)
{
    struct rlimit before, full;
    double had = lost("write_failed");
    coord_kit *kit = start(file, "10");
    const char *text;

    coord_kit_on(kit, &(coord_kit_rule){.body = COORD_SLICE("{}")});
    assert(signal(SIGXFSZ, SIG_IGN) != SIG_ERR && getrlimit(RLIMIT_FSIZE, &before) == 0);
    full = before;
    full.rlim_cur = 20; /* so much of a line fits */
    assert(setrlimit(RLIMIT_FSIZE, &full) == 0);
    assert(coord_kit_post(kit, chat, asked)->status == 200);
    for (int i = 0; i < 10000 && lost("write_failed") == had; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    assert(setrlimit(RLIMIT_FSIZE, &before) == 0);
    assert(coord_kit_post(kit, chat, asked)->status == 200);
    assert(coord_kit_stop(kit));
    assert(lost("write_failed") == had + 1);
    text = whole_file();
    assert(strlen(text) > 21 && strncmp(text + 20, "\n{\"time\":1", 10) == 0);
    assert(truncate(file, 0) == 0);
}

/* Nobody reads what the pipe is full of: the process ends all the same. */
static void a_pipe_that_is_full_does_not_hold_up_the_end(void)
{
    char pipe[80], body[4096];
    double had = lost("write_failed");
    coord_kit *kit;
    int reader;

    snprintf(pipe, sizeof pipe, "%s/pipe", folder);
    assert(mkfifo(pipe, 0600) == 0);
    reader = open(pipe, O_RDONLY | O_NONBLOCK);
    assert(reader >= 0);
    snprintf(body, sizeof body, "{\"model\":\"%0*d\",\"messages\":[]}", 3000, 1);
    kit = start(pipe, "100");
    coord_kit_on(kit, &(coord_kit_rule){.body = COORD_SLICE("{}")});
    for (int i = 0; i < 40; i++)
        assert(coord_kit_post(kit, chat, body)->status == 200);
    assert(coord_kit_stop(kit));
    assert(lost("write_failed") > had);
    close(reader);
    unlink(pipe);
}

static void a_file_that_cannot_be_opened_is_told_at_the_start(void)
{
    static const char yaml[] =
        "pipeline: {steps: [{type: usage-audit, params: {file: /nowhere/usage.jsonl}}, {type: decode}]}";

    assert(!coord_kit_start(
        &(coord_kit_options){.size = sizeof(coord_kit_options),
                             .yaml = yaml,
                             .plugins = (const coord_plugin_descriptor *const[]){&coord_plugin, NULL}}));
    assert(strstr(coord_kit_problem(), "cannot open /nowhere/usage.jsonl: No such file"));
}

int main(void)
{
    assert(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/usage.jsonl", folder);
    every_request_is_a_line();
    many_at_a_time_are_whole_lines();
    answers_do_not_wait_for_the_file_and_what_it_has_no_room_for_is_counted();
    a_write_that_fails_is_counted();
    what_a_full_disk_took_of_a_line_spoils_no_other();
    a_pipe_that_is_full_does_not_hold_up_the_end();
    a_file_that_cannot_be_opened_is_told_at_the_start();
    unlink(file);
    rmdir(folder);
    printf("usage-audit: 7 tests passed\n");
    return 0;
}
