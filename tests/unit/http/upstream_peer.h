/*
 * An upstream that plays by script, for the tests of the HTTP client: a listener on 127.0.0.1 and a thread of its own that runs
 * one script over blocking sockets and logs what comes, to the byte. The test and the script meet in the atomic members only,
 * until peer_join. Mistakes of a test's own (no socket, no thread) fail the test.
 */
#ifndef UPSTREAM_PEER_H
#define UPSTREAM_PEER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* How long anything may take that is bound to happen. */
enum { PATIENCE_MS = 10000 };
static const int64_t MS = 1000000;

int64_t now_ns(void);
/* Whether something can be read, or accepted, within `ms`. */
bool readable(int fd, int ms);
/* A TCP listener, the caller's to close; port 0: any. -1: the address is taken. */
int listen_on(const char *address, int port, int backlog);
int port_of(int fd);
/* `size` letters and a NUL, the same ones each time; the caller frees it. */
char *pattern_new(size_t size);

struct peer;
typedef void script_fn(struct peer *peer);

struct peer {
    pthread_t thread;
    script_fn *script;
    const char *text; /* for the script; borrowed */
    size_t size;
    int listener, fd, port;
    _Atomic int connections;
    _Atomic int stage;      /* where the script is, or what the test tells it */
    _Atomic int64_t eof_ns; /* when the other side was seen to close */
    /* The script's, and the test's after peer_join. */
    char *log; /* what came, all connections one after the other */
    size_t logged;
    size_t request; /* where in the log the last request begins */
    int receives;   /* that it took */
    bool joined;
};

/* For tests. A peer listens from peer_new on, and its script runs from peer_begin on; peer_start is both. */
struct peer *peer_new(script_fn *script);
void peer_begin(struct peer *peer);
/* `text` (or NULL) is borrowed until the script has ended. */
struct peer *peer_start(script_fn *script, const char *text);
/* Waits for the script's end; once is enough, more does no harm. */
void peer_join(struct peer *peer);
/* Joins first. */
void peer_free(struct peer *peer);
/* The same for serve_many, which goes on until stage 1. */
void stop_peer(struct peer *peer);

/* For scripts; false: the connection ended, or nothing came for PATIENCE_MS. */
/* Closes the connection before, if there is one. */
bool peer_accept(struct peer *peer);
/* One read, added to the log. */
bool peer_receive(struct peer *peer);
/* One request, its body by length or chunks. */
bool peer_request(struct peer *peer);
/* Errors are ignored: the other side may have left. */
void peer_send_bytes(struct peer *peer, const char *data, size_t size);
void peer_send(struct peer *peer, const char *text);
/* Ends the connection with a RST. */
void peer_reset(struct peer *peer);
/* Reads until the other side has closed, and sets eof_ns. */
void peer_await_eof(struct peer *peer);
/* Waits until the test has set that stage, or a later one. */
void peer_await_stage(struct peer *peer, int stage);

static const char OK_ANSWER[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
static const char ENDLESS[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n";

/* Scripts. */
/* Answers every request of one connection with OK_ANSWER (a HEAD with a head that declares a length), until it ends. */
void serve_one_connection(struct peer *peer);
/* Serves many connections at once with OK_ANSWER, one request after the other, until stage 1: see stop_peer. */
void serve_many(struct peer *peer);
/* Answers one request with `text`, then closes. */
void answer_and_close(struct peer *peer);
/* Sets stage 1 at the request, answers with `text`, then waits for the end. */
void answer_and_await_eof(struct peer *peer);
/* Answers one request with `text`, waits for stage 1 and resets the connection. */
void reset_after_the_text(struct peer *peer);
/* Reads all of one connection until its end. */
void say_nothing(struct peer *peer);

#endif
