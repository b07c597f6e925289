/*
 * The test kit: a whole coordinator inside a test's process, between scripted upstreams and a scripted client.
 *
 *     extern const coord_plugin_descriptor coord_plugin;                   // the step's source is compiled into the test
 *     coord_kit *kit = coord_kit_start(&(coord_kit_options){
 *         .size = sizeof(coord_kit_options),
 *         .yaml = "pipeline: {steps: [{type: hello}, {type: decode}]}",
 *         .plugins = (const coord_plugin_descriptor *const[]){&coord_plugin, NULL}});
 *     coord_kit_on(kit, &(coord_kit_rule){.phase = "decode", .body = COORD_SLICE("{\"ok\":true}")});
 *     const coord_kit_message *answer = coord_kit_post(kit, "/v1/chat/completions", "{\"model\":\"m\"}");
 *     assert(answer->status == 200);
 *     assert(coord_kit_leg(kit, "decode", 0)->body.size == 13);
 *     assert(coord_kit_stop(kit));
 *
 * The steps that come with the coordinator are loaded as well. Upstreams are the hosts of the YAML that end in `.kit`:
 * `http://policy.kit` makes one; the gateway is `http://gateway.kit` unless the YAML has a gateway section. What nobody
 * wrote a rule for is answered 501.
 *
 * Nothing waits for ever: what does not come within `patience` is reported on standard error, and the function says so.
 * Everything that the kit gives out lives until coord_kit_stop. One kit at a time in a process; functions are for one thread,
 * the test's. Needs no test framework. Link coordinator::testkit, or pkg-config coordinator-testkit.
 */
#ifndef COORDINATOR_TESTKIT_H
#define COORDINATOR_TESTKIT_H

#include <coordinator/plugin.h>
#include <coordinator/response.h>

COORD_BEGIN_DECLS

typedef struct coord_kit coord_kit;               /* a coordinator with its upstreams */
typedef struct coord_kit_client coord_kit_client; /* a client with its connection */

enum { COORD_KIT_MS = 1000000 }; /* nanoseconds in a millisecond */

/* ---- The coordinator ---- */

/* A writer alone: what the step `kit-writer`, which the kit brings, wraps around each answer. */
typedef struct coord_kit_writer {
    const coord_writer_type *type;
    void *(*make)(coord_request *request); /* its state, freed by the writer's `free`; NULL: it has none */
} coord_kit_writer;

/* What it is started with. */
typedef struct coord_kit_options {
    uint32_t size;     /* sizeof(coord_kit_options) */
    uint32_t reactors; /* 0: 1 */
    /* As for `coordinator serve`; listeners are the kit's business. NULL: `decode`, after `kit-writer` if there is one. */
    const char *yaml;
    const coord_plugin_descriptor *const *plugins; /* linked into the test; NULL-terminated, or NULL */
    const char *const *plugin_files;               /* .so files; NULL-terminated, or NULL */
    const char *const
        *environment;    /* "NAME=value" for ${NAME}; NULL-terminated, or NULL. The process's own is not looked at */
    int64_t patience_ns; /* of every wait; 0: ten seconds */
    const coord_kit_writer *writer; /* NULL: none */
} coord_kit_options;

/* NULL: it did not start, and coord_kit_problem says why, as the coordinator would print it. */
coord_kit *coord_kit_start(const coord_kit_options *options) COORD_MUST_CHECK;
const char *coord_kit_problem(void);
/* Drains it, as SIGTERM does, and frees everything. False: answers had to be cut (server.shutdown_timeout). NULL is allowed: true. */
bool coord_kit_stop(coord_kit *kit);

/*
 * Lets that much time pass at once for the coordinator: a timeout of a minute is over after this minute, without waiting for it. Scripted
 * delays and the client go by the real clock.
 */
void coord_kit_advance(coord_kit *kit, int64_t ns);

/* ---- What travels: requests that upstreams got, and answers that the client got ---- */

typedef struct coord_kit_field {
    coord_slice name;
    coord_slice value;
} coord_kit_field;

/* One of them, as it came. */
typedef struct coord_kit_message {
    uint32_t size;
    int32_t status;             /* of an answer; 0: no head has come */
    const char *upstream;       /* of a request: the host without `.kit` */
    coord_slice method, target; /* of a request */
    coord_slice phase;          /* of a request: the field x-llm-d-epp-profile; empty: none */
    coord_slice head;           /* start line and fields as they came */
    const coord_kit_field *fields;
    size_t field_count;
    coord_slice body; /* without the framing of its transfer */
    bool whole;       /* it came to its end, as its framing tells */
} coord_kit_message;

/* The first field of that name (case does not matter): COORD_OK or COORD_ABSENT. */
coord_status coord_kit_header(const coord_kit_message *message, const char *name, coord_slice *value);
/* True when the field is there once, with exactly that value. */
bool coord_kit_header_is(const coord_kit_message *message, const char *name, const char *value);

/* ---- Upstreams ---- */

/* A piece of an answer: what it waits for, then its bytes. */
typedef struct coord_kit_piece {
    coord_slice bytes;
    int64_t delay_ns; /* first this long */
    const char *gate; /* then until coord_kit_open of that name; NULL: no gate */
} coord_kit_piece;

enum {
    COORD_KIT_WHOLE = 0,  /* the answer ends as it should */
    COORD_KIT_CUT = 1,    /* the connection is closed in the middle */
    COORD_KIT_SILENT = 2, /* nothing more comes, and the connection stays */
};
enum { COORD_KIT_NO_HEAD = -1 }; /* a status: cut or silent before any byte of an answer */

/* Which requests (what is NULL matches all), and what they get. Zeroed: any request gets an empty 200. */
typedef struct coord_kit_rule {
    const char *upstream;          /* "gateway", "policy" */
    const char *phase;             /* "prefill"; "": requests without one */
    const char *path;              /* the target up to its query */
    const char *header;            /* it has this field … */
    const char *value;             /* … with this value */
    uint32_t times;                /* for so many requests, then the rule is over; 0: for all */
    int32_t status;                /* 0: 200 */
    const char *const *headers;    /* name, value, …, NULL; Content-Type is application/json unless it is here */
    coord_slice body;              /* sent with its Content-Length … */
    const coord_kit_piece *pieces; /* … or a chunked stream of pieces */
    size_t piece_count;
    int64_t delay_ns; /* before the head */
    const char *gate; /* likewise */
    int32_t ending;   /* COORD_KIT_… */
    bool close;       /* no Content-Length and no chunks: the end of the connection ends the answer */
} coord_kit_rule;

/* Adds a rule; the first added that matches decides. What it points to stays until coord_kit_stop. */
void coord_kit_on(coord_kit *kit, const coord_kit_rule *rule);
/* Opens a gate, for good. */
void coord_kit_open(coord_kit *kit, const char *gate);

/*
 * The request number `index` (from 0, as they came) that upstreams got whole; of those with the phase or to the upstream
 * `which`, NULL: of all. An upstream is named by its host, not as its call is. Waits for it; NULL: it did not come.
 */
const coord_kit_message *coord_kit_leg(coord_kit *kit, const char *which, size_t index);
/* How many have come so far. */
size_t coord_kit_leg_count(coord_kit *kit, const char *which);
/* Waits until the coordinator has closed that request's connection before the answer's end. False: it did not. */
bool coord_kit_leg_left(coord_kit *kit, const coord_kit_message *leg);

/* ---- The client ---- */

typedef struct coord_kit_request {
    const char *method; /* NULL: POST */
    const char *target; /* with query */
    const char *const *
        headers; /* name, value, …, NULL, beside Host, Content-Length and, unless it is here, Content-Type: application/json */
    coord_slice body;  /* in one chunk, and without Content-Length, where `headers` has Transfer-Encoding */
    bool reads_little; /* takes so little that the coordinator soon sees a slow client */
} coord_kit_request;

/* Sends it on a connection of its own. NULL: that failed. */
coord_kit_client *coord_kit_send(coord_kit *kit, const coord_kit_request *request);
/*
 * Reads until the answer's head and at least `body_size` bytes of its body are there (COORD_KIT_ALL: until its end). False:
 * they did not come in time, or the answer ended before, or, for COORD_KIT_ALL, it was cut.
 */
#define COORD_KIT_ALL SIZE_MAX
bool coord_kit_read(coord_kit_client *client, size_t body_size);
/* What has been read so far; the same object each time. */
const coord_kit_message *coord_kit_answer(const coord_kit_client *client);
/* Leaves, as a client that is closed. */
void coord_kit_leave(coord_kit_client *client);

/* Sends and reads to the end. NULL when nothing was answered at all; look at `whole`. */
const coord_kit_message *coord_kit_ask(coord_kit *kit, const coord_kit_request *request);
/* The same for a POST of a JSON text. */
const coord_kit_message *coord_kit_post(coord_kit *kit, const char *target, const char *body);

/* ---- What else came out ---- */

/* A counter, a gauge, or a histogram's count, now; 0 if it has not moved. Of the process: take differences when kits follow one another. */
double coord_kit_metric(const char *name, const coord_slice *labels);
/*
 * The lines of the metrics page that are other ones than when the kit started, without those of the process and without the
 * buckets of histograms, whose sum and count are there; until the next call.
 */
const char *coord_kit_moved(coord_kit *kit);
/* How many slots of that name (coord_slot_type.name) steps have set, and how many of them are gone again, so far in this kit. */
size_t coord_kit_slots_set(coord_kit *kit, const char *name);
size_t coord_kit_slots_gone(coord_kit *kit, const char *name);
/* Waits until a log line holds `text`. False: none did. */
bool coord_kit_logged(coord_kit *kit, const char *text);
/* Line `index` of the log; {NULL, 0} past the last. */
coord_slice coord_kit_log_line(coord_kit *kit, size_t index);
/* Waits until `condition(argument)` holds, asking each millisecond. False: it did not. */
bool coord_kit_wait(coord_kit *kit, bool (*condition)(void *argument), void *argument);

/* ---- Looking for faults ---- */

/*
 * A trial: a coordinator, its upstreams, and one request that is asked as often as the search wants. Each search starts kits of its
 * own, so no kit may be running. It returns NULL, or what is wrong, where and what to do about it, until the next search; the text goes to
 * standard error as well:
 *
 *     assert(!coord_kit_find_fault(&trial));
 */
typedef struct coord_kit_trial {
    uint32_t size; /* sizeof(coord_kit_trial) */
    uint32_t rule_count;
    const coord_kit_options *options;
    const coord_kit_rule *rules; /* with answers as a healthy upstream gives them; NULL: an empty 200 for all */
    const coord_kit_request *request;
} coord_kit_trial;

/*
 * Memory that a step of ours (linked in, or of `plugin_files`) took and did not give back when its request or its instance had ended, or of
 * which it has more after each request. Seen is what its own code takes with malloc, strdup, new and the like, not what other libraries take for it.
 */
const char *coord_kit_find_leak(const coord_kit_trial *trial);
/* A slot with such memory and without destructor. */
const char *coord_kit_find_slot(const coord_kit_trial *trial);
/* A step that sleeps in the system (usleep, read, a lock, …) while it has its reactor: which step, in which call. */
const char *coord_kit_find_blocking(const coord_kit_trial *trial);
/*
 * A step that goes on when the client leaves: it does so before the answer of each leg, in the middle of it, and when the step has
 * begun. A tenth of the patience has to be enough for a step to end.
 */
const char *coord_kit_find_uncancelled(const coord_kit_trial *trial);
/*
 * A step that does not bear it when memory is short: each allocation that is made in its name, its own or by a function of the coordinator
 * that it calls, fails once, while the step is made or serves the request. Each time in a process of its own.
 */
const char *coord_kit_find_short_memory(const coord_kit_trial *trial);
/* The five above, one after another. */
const char *coord_kit_find_fault(const coord_kit_trial *trial);

/*
 * A writer that breaks where an answer is split, or holds bytes at its end. `answer` is a rule with a body (tried before the trial's): it is
 * sent whole, then in two pieces split at each byte, byte by byte, and without the line ends behind it, as workers that leave the last
 * blank line out. The client's body has to be `wanted` each time; {NULL, 0}: what it was when the answer was sent whole.
 */
const char *coord_kit_find_split(const coord_kit_trial *trial, const coord_kit_rule *answer, coord_slice wanted);

COORD_END_DECLS
#endif
