/*
 * The inside of the test kit. Threads: the test's own; one that accepts for all upstreams; one for each connection to an
 * upstream. What they share is behind `lock`; a message does not change any more once it is in the list of legs, but for `left`.
 */
#ifndef TESTKIT_KIT_H
#define TESTKIT_KIT_H

#include "pipeline/kit_host.h"

#include <coordinator/testkit.h>

#include <pthread.h>

enum { MAX_UPSTREAMS = 16 };

struct text {
    char *data;
    size_t size, room;
};

void kit_text_append(struct text *text, const void *data, size_t size);
void kit_text_format(struct text *text, const char *format, ...) COORD_PRINTF(2, 3);
static inline coord_slice text_slice(const struct text *text) { return (coord_slice){text->data, text->size}; }

/* What the leg number `hold` (of all, from 0) gets instead of its rule: nothing, or the first half of it, and then silence. */
enum hold { HOLD_NONE = 0, HOLD_HEAD, HOLD_MIDDLE };

/* One HTTP/1.1 message as it is read from a connection. */
struct wire {
    int fd;
    struct text in;   /* read and not yet used */
    struct text head; /* with its empty line */
    struct text body;
    struct coord_kit_field *fields;
    coord_kit_message message; /* its slices point into the above */
    bool head_done, broken;    /* broken: the connection ended before the message did */
    bool no_body;              /* an answer to HEAD */
    bool chunked, to_end;
    size_t left; /* of the body or the chunk */
    int chunk;   /* what comes next of a chunked body */
};

/* Reads what is there, for `wait_ms` at most. False: nothing came, or nothing more will. */
bool kit_wire_pump(struct wire *wire, int wait_ms);
void kit_wire_free(struct wire *wire);
/* Sends all of it. False: the other side is gone. */
bool kit_wire_send(int fd, coord_slice bytes);
void kit_wire_fields(struct text *out, const char *const *headers);
bool kit_wire_has_field(const char *const *headers, const char *name);

struct leg {
    struct leg *next;
    struct wire wire;
    bool left; /* the coordinator closed it before the answer's end */
    bool over; /* the answer is out, or cannot be any more */
};

struct rule {
    struct rule *next;
    coord_kit_rule rule;
    uint32_t used;
};

struct connection {
    struct connection *next;
    struct coord_kit *kit;
    pthread_t thread;
    const char *upstream;
    int fd;
};

struct upstream {
    char *name;
    int fd; /* listens */
    uint16_t port;
};

struct coord_kit_client {
    struct coord_kit_client *next;
    struct coord_kit *kit;
    struct wire wire;
};

struct slots {
    struct slots *next;
    char *name;
    size_t set, gone;
};

struct line {
    struct line *next;
    size_t size;
    char text[]; /* with a NUL, without its line feed */
};

struct coord_kit {
    coord_kit_host *host;
    int64_t patience_ns;
    struct text yaml;
    struct upstream upstreams[MAX_UPSTREAMS];
    size_t upstream_count;
    pthread_t acceptor;
    bool accepting;
    int wake[2]; /* a pipe: ends the acceptor */
    struct coord_kit_client *clients;

    pthread_mutex_t lock;
    bool stopping;
    struct rule *rules, **rules_end;
    struct leg *legs, **legs_end;
    struct connection *connections;
    struct text gates; /* names, each with a NUL */
    struct line *lines, **lines_end;
    struct slots *slots;
    char *metrics; /* the page at the start */
    struct text moved;
    size_t leg_count, held_leg;
    enum hold hold;
    void (*slot_told)(void *context, const coord_slot_type *type, void *value,
                      bool set); /* a search wants to know, too */
    void *slot_context;
};

int64_t kit_now(void);
/* As coord_kit_start, for a search that wants to be told of slots, on the reactors' threads. */
coord_kit *kit_start_told(const coord_kit_options *options,
                          void (*slot_told)(void *context, const coord_slot_type *type, void *value, bool set),
                          void *slot_context);
/* The step `kit-writer`. `room` gets the plugins of the options and, when there is a writer, its own; one kit at a time. */
enum { MAX_PLUGINS = 32 };
const coord_plugin_descriptor *const *kit_writer_alone_add(const coord_plugin_descriptor **room,
                                                           const coord_kit_options *options);
const char *kit_writer_alone_yaml(const coord_kit_writer *writer);
/* Opens a listener for `name`, unless there is one. */
struct upstream *kit_upstreams_add(struct coord_kit *kit, const char *name, size_t size);
bool kit_upstreams_start(struct coord_kit *kit);
void kit_upstreams_stop(struct coord_kit *kit);

#endif
