/*
 * What every end-to-end test uses: real processes of the coordinator and of worker-sim, a client on a raw socket, a worker
 * whose every byte is scripted, and what can be seen from outside: metrics, log, transcript, descriptors, memory.
 *
 * A function that cannot do its work fails the test (cmocka), so that tests read straight down. Nothing sleeps for luck: it
 * waits on a condition with a deadline. Processes and folders of a test are the harness's: `harness_end` is the teardown of
 * every test. Tests run on the main thread; the scripted worker has threads of its own, in which nothing may be asserted.
 */
#ifndef E2E_HARNESS_H
#define E2E_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

enum {
    PATIENCE_MS = 15000, /* for what has no bound of its own */
    MAX_ARRIVALS = 1 << 14,
};

/* ---- Time (time.c) ---- */

int64_t now_ms(void);
void pause_ms(int64_t ms); /* where the passing of time is what is tested */
/* True when the programs under test carry a sanitizer: SANITIZED=1, or built so. */
bool sanitized(void);
/* The bound for "at once": 100 ms, a second under sanitizers. */
int64_t promptly_ms(void);

/* Waits until the condition holds; fails the test after `ms`. */
#define UNTIL_WITHIN(condition, ms)                                                                                    \
    do {                                                                                                               \
        int64_t until_deadline = now_ms() + (ms);                                                                      \
        while (!(condition)) {                                                                                         \
            if (now_ms() > until_deadline)                                                                             \
                fail_msg("not within %lld ms: %s", (long long)(ms), #condition);                                       \
            pause_ms(1);                                                                                               \
        }                                                                                                              \
    } while (0)
#define UNTIL(condition) UNTIL_WITHIN(condition, PATIENCE_MS)

/* ---- Bytes (text.c) ---- */

/* A growing run of bytes, always with a NUL behind. Zero-initialised is empty. */
struct text {
    char *data;
    size_t size, room;
};
void text_add(struct text *text, const void *data, size_t size);
void text_printf(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_vprintf(struct text *text, const char *format, va_list list);
void text_clear(struct text *text);
void text_free(struct text *text);
/* The raw text of a top-level member of a JSON object, by a reader of its own; size 0 when it is not there. Borrowed. */
struct span {
    const char *data;
    size_t size;
};
struct span json_member(struct span object, const char *name);
struct span span_of(const char *text);
struct span text_span(const struct text *text);
bool span_is(struct span span, const char *text);
bool span_equal(struct span a, struct span b);
bool text_contains(const struct text *text, const char *part);
size_t text_count(const struct text *text, const char *part);
#define assert_same_bytes(a, b) harness_assert_same((a), (b), #a " = " #b, __FILE__, __LINE__)
void harness_assert_same(struct span got, struct span wanted, const char *what, const char *file, int line);
#define assert_contains(text, part)                                                                                    \
    do {                                                                                                               \
        if (!strstr((text), (part)))                                                                                   \
            fail_msg("no \"%s\" in: %.2000s", (part), (text));                                                         \
    } while (0)
#define assert_lacks(text, part)                                                                                       \
    do {                                                                                                               \
        if (strstr((text), (part)))                                                                                    \
            fail_msg("\"%s\" in: %.2000s", (part), (text));                                                            \
    } while (0)
bool file_read(const char *path, struct text *text);
void file_write(const char *path, const char *data);

/* ---- Processes (process.c) ---- */

struct process {
    pid_t pid; /* 0: none */
    bool ended;
    int code;      /* exit status, or 128 + signal */
    char log[128]; /* file that its standard output and error go to */
};
/* `environment`: NULL-terminated NAME=value pairs on top of ours, or NULL. */
void process_start(struct process *process, const char *log, const char *const *arguments,
                   const char *const *environment);
/* The same with a file as its standard input. */
void process_start_with(struct process *process, const char *input, const char *log, const char *const *arguments,
                        const char *const *environment);
/* True when it ended within that time. */
bool process_wait(struct process *process, int64_t ms);
void process_signal(struct process *process, int signal);
size_t process_descriptors(const struct process *process);
/* The coordinator's, once their number has been the same for a while. */
size_t settled_descriptors(void);
size_t process_rss_kib(const struct process *process);
size_t process_peak_kib(const struct process *process); /* the most that was ever resident */
int64_t process_cpu_ms(const struct process *process);
/* The log so far; valid until the next call. */
const char *process_log(const struct process *process);
/* Runs to its end: exit status, output in `output`. */
int run_program(const char *const *arguments, const char *const *environment, struct text *output);
const char *coordinator_program(void);
const char *worker_sim_program(void);
const char *plugin_folder(void);
const char *test_plugin_folder(void);
uint16_t free_port(void);

/* ---- A deployment (deployment.c) ---- */

struct plan {
    /* A file that somebody else wrote, instead of all that is said up to `listen`. Its listeners, log level and, unless
       there is no worker-sim, its gateway's address are set from the environment. */
    const char *config;
    /* Lines of YAML below their section, indented by two; NULL: none. */
    const char *server, *gateway, *pipeline, *response, *runtime, *plugins, *top;
    const char *composition;  /* whole lines instead of the sections gateway and pipeline, `@` is worker-sim's URL */
    const char *steps;        /* whole lines below `steps:`, `@` is the gateway's URL; NULL: render, prefill, decode */
    uint16_t gateway_port;    /* 0: worker-sim's */
    const char *gateway_url;  /* instead */
    const char *listen;       /* address; NULL: 127.0.0.1:0 */
    const char *const *flags; /* of the coordinator */
    const char *const *environment;
    const char *const *sim_flags;
    bool no_sim;
    bool no_metrics;
    bool pid_file;     /* `pid` in the folder */
    bool stdin_config; /* the configuration goes in by standard input */
    bool not_ready;    /* do not wait for it */
};
struct deployment {
    char folder[64];
    char config[96];
    char transcript[96];
    struct process coordinator, sim;
    uint16_t port, metrics_port, sim_port;
    bool reports; /* a sanitizer's report is expected */
    bool unclean; /* the test made the coordinator end in its own way: no exit status is demanded */
};
/* The one of this test. Writes YAML, starts both, waits until /readyz says 200. */
extern struct deployment deployed;
void deploy(const struct plan *plan);
/* Writes the running one's configuration anew, by another plan; its ports stay unless the plan has others. */
void reconfigure(const struct plan *plan);
/* The coordinator, which has ended, with the configuration as it is. */
void start_again(const struct plan *plan);
/* Only worker-sim, with these flags (NULL-terminated, or NULL). */
void deploy_sim(const char *const *flags);
/* Ends the coordinator with SIGTERM: it must exit 0 without a sanitizer's report. For tests that go on afterwards. */
void undeploy(void);
/* Teardown of a test: undeploys, kills what is left, removes the folder, stops scripted workers and closes clients. */
int harness_end(void **state);
/* Runs the tests; E2E_ONLY=PATTERN (with * and ?) picks some. */
#define harness_run(tests) (harness_select(), cmocka_run_group_tests((tests), NULL, NULL))
void harness_select(void);
#define TEST(name) cmocka_unit_test_teardown(name, harness_end)
/* Fails when a log has a sanitizer's report. */
void assert_no_report(const struct process *process);

/* The coordinator's page; freed by the caller. */
void metrics_read(struct text *page);
/* The value of one series, e.g. `request_total{model_name="m"}` without the common prefix; -1: not there. */
double metric(const char *series);
/* All series of a family added up. */
double metric_sum(const char *family);
/* A member of worker-sim's books, dotted for a nested one: `requests.decode`. */
int64_t sim_count(const char *member);
void sim_reset(void);

/* A request in worker-sim's transcript. */
struct recorded {
    char phase[16];
    char *target;
    char *headers; /* `Name: value` lines */
    struct text body;
};
/* Reads it anew; `*list` is the harness's until the test ends. The number of requests. */
size_t transcript_read(struct recorded **list);
/* The n-th request of a phase, NULL: fewer. Passed-through ones are marked `decode`, too. Valid until the next look at the transcript. */
const struct recorded *transcript_find(const char *phase, size_t n);
/* The first request for a target. */
const struct recorded *transcript_target(const char *target);
/* A field's value (first one) in `Name: value` lines; NULL. `copies` (may be NULL): how many. Valid until the next call. */
const char *header_in(const char *lines, const char *name, size_t *copies);

/* ---- A client (client.c) ---- */

struct arrival {
    int64_t at_ms;
    size_t size;
};
struct answer {
    int status;
    char *head; /* status line and fields, NUL-terminated */
    struct text body;
    bool chunked;
    int64_t length; /* -1: none */
    bool whole;     /* ended as its framing says */
    bool closed;    /* the connection was closed after or within it */
    bool reset;
    int64_t head_ms, end_ms;
    struct arrival *arrivals; /* of body bytes */
    size_t arrival_count;
};
struct client {
    int fd;
    void *tls;
    struct text in; /* received, not yet taken */
    bool ended, reset;
    struct answer answer; /* the last one read */
    struct client *next;
};
/* Opened clients are closed by harness_end. */
struct client *client_open(uint16_t port);
struct client *client_open_small(uint16_t port, int receive_buffer);
/* Handshakes too; any certificate is taken. `fingerprint` (may be NULL): 64 hex digits of the server's. */
struct client *client_open_tls(uint16_t port, char fingerprint[65]);
/* False: the peer closed or took nothing for PATIENCE. */
bool client_send(struct client *client, const void *data, size_t size);
void client_say(struct client *client, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Sends what fits now; the bytes taken. */
size_t client_try_send(struct client *client, const void *data, size_t size);
/* Reads the head; false when the connection ended first or time is over. Body bytes already there stay in `in`. */
bool client_read_head(struct client *client, int64_t ms);
/* Reads the rest of the body, until `wanted` bytes of it are there (SIZE_MAX: all). True: so many, or whole. */
bool client_read_body(struct client *client, size_t wanted, int64_t ms);
/* Head and body. True: whole. 100-continue is skipped. */
bool client_read(struct client *client, int64_t ms);
/* For the next answer: it has no body (HEAD). */
void client_expect_no_body(struct client *client);
/* True when the connection was closed by the peer within that time; what comes before it is dropped. */
bool client_wait_closed(struct client *client, int64_t ms);
void client_close(struct client *client); /* FIN */
void client_reset(struct client *client); /* RST */
void client_half_close(struct client *client);
/* Value of a response field. As header_in. */
const char *answer_header(const struct client *client, const char *name);

/* A whole POST of JSON. */
void client_post(struct client *client, const char *target, const char *extra_fields, struct span body);
/* One request on a connection of its own; the client stays open until the test ends. */
struct client *fetch(const char *method, const char *target, const char *fields, const char *body);
struct client *fetch_port(uint16_t port, const char *method, const char *target, const char *fields, const char *body);

extern const char CHAT[], STREAM[]; /* bodies */
#define CHAT_PATH "/v1/chat/completions"

/* ---- A scripted worker (scripted.c) ---- */

/* A request that it got. */
struct received {
    struct received *next;
    unsigned connection;
    char phase[24]; /* render prefill decode other */
    char *method, *target, *head;
    struct text body;
    bool whole;
    int64_t at_ms;
    int64_t closed_ms; /* when the peer closed while the script looked; 0 */
};
struct scripted;
/* One exchange, in a thread of its connection. */
struct stage {
    struct scripted *worker;
    struct received *request;
    void *context;
    int fd;
    void *tls;
    bool hang_up; /* close the connection after the script */
    bool bad;     /* the peer is gone */
};
typedef void script(struct stage *stage);
struct scripted_options {
    script *render, *prefill, *decode, *other; /* NULL: a good answer */
    void *context;
    bool before_body;              /* scripts run as soon as the head is there; stage_read_body reads the body */
    const char *certificate, *key; /* files: serve TLS */
    int backlog;                   /* 0: plenty */
    bool no_accept;
};
struct scripted *scripted_start(const struct scripted_options *options);
uint16_t scripted_port(const struct scripted *worker);
/* The n-th request of the phase (NULL: any) so far, or NULL. Its texts do not change once it is there. */
const struct received *scripted_find(struct scripted *worker, const char *phase, size_t n);
size_t scripted_count(struct scripted *worker, const char *phase);
int64_t scripted_closed_ms(struct scripted *worker, const struct received *request);
size_t scripted_open(struct scripted *worker);
/* Lets scripts that wait at stage_wait_gate go on. */
void scripted_open_gate(struct scripted *worker);

void stage_send(struct stage *stage, const void *data, size_t size);
void stage_say(struct stage *stage, const char *format, ...) __attribute__((format(printf, 2, 3)));
void stage_chunk(struct stage *stage, const char *data, size_t size);
void stage_last_chunk(struct stage *stage);
void stage_stream_head(struct stage *stage); /* 200, event stream, chunked */
void stage_json(struct stage *stage, int status, const char *fields, const char *body);
/* Looks at the connection until the peer closes it (true) or `ms` are over. */
bool stage_wait_closed(struct stage *stage, int64_t ms);
bool stage_wait_gate(struct stage *stage, int64_t ms);
void stage_reset(struct stage *stage); /* RST now */
bool stage_read_body(struct stage *stage, size_t wanted);
/* Answers as without a script. */
void stage_default(struct stage *stage);
extern const char KV_PARAMS[]; /* what the default prefill hands out */

#endif
