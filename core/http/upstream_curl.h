/*
 * The parts of the libcurl transport: upstream_curl.c (one transfer: handle, callbacks, result), upstream_curl_request.c (what
 * is set for it) and upstream_curl_multi.c (all of them: descriptors, the library's timer, what may only happen outside of
 * its callbacks).
 *
 * Owner's code runs inside the library's callbacks, where the library forbids to remove or add transfers: `inside` tells, and
 * a cancelled transfer is doomed then and removed as soon as the library has returned.
 * Thread: [reactor].
 */
#ifndef HTTP_UPSTREAM_CURL_H
#define HTTP_UPSTREAM_CURL_H

#include "http/upstream_private.h"

#include <curl/curl.h>

struct carrier;
struct socket_watch;

struct curl_client {
    struct client *client;
    CURLM *multi;
    struct timer timer;            /* what the library asked for */
    bool kicked;                   /* it asked to be called at once */
    bool dozing;                   /* … once too often: `timer` is ours */
    unsigned futile;               /* such calls on end in which nothing happened */
    unsigned inside;               /* the library is on the stack */
    struct socket_watch **sockets; /* by descriptor; NULL: not ours */
    size_t socket_slots;
    size_t connections;
    unsigned long idle_connections; /* as the upstreams allow */
    unsigned long running;
    struct carrier *doomed;
};

enum carrier_mode { MODE_NONE, MODE_NO_BODY, MODE_HEAD, MODE_SMALL_BODY, MODE_READ_BODY };

/* One configured handle of the library with one attempt at a time. */
struct carrier {
    struct attempt attempt;
    struct curl_client *curl;
    struct carrier *next; /* in the pool, or doomed */
    CURL *easy;
    enum carrier_mode mode;
    bool large_upload;     /* the larger of the two buffer sizes is set */
    bool added;            /* to the multi handle */
    bool opened;           /* a connection was opened for this attempt */
    bool resent;           /* the library wanted to send it again */
    bool receive_held;     /* the library has paused receiving */
    bool upload_held;      /* … and sending */
    bool upload_more;      /* the owner has something again */
    bool upload_broken;    /* the owner gave up */
    size_t piece, offset;  /* next byte of the body */
    int64_t uploaded;      /* of a streamed body */
    struct buffer address; /* "::address:port", as the library knows it */
    struct curl_slist address_list;
    struct buffer method, target;
    struct buffer text; /* of the header fields */
    struct curl_slist *fields;
    size_t field_capacity;
    struct buffer body; /* small and in several pieces */
    char error[CURL_ERROR_SIZE];
};

/* upstream_curl_multi.c */
struct curl_client *curl_client_new(struct client *client);
void curl_client_free(struct curl_client *curl);
bool curl_client_add(struct carrier *carrier);      /* events come from the flush that follows */
void curl_client_remove(struct carrier *carrier);   /* now or right after; carrier_removed is called then */
void curl_client_take_out(struct carrier *carrier); /* now, without that call; never from inside */
void curl_client_flush(struct curl_client *curl);
void curl_client_moved(struct curl_client *curl); /* something happened in the library, or will */
/* Brackets around calls that may run the library's callbacks. */
void curl_client_enter(struct curl_client *curl);
void curl_client_leave(struct curl_client *curl);
void curl_client_allow_idle(struct curl_client *curl, long change);
void curl_client_configure(struct curl_client *curl, CURL *easy, struct carrier *carrier);

/* upstream_curl_request.c; false: memory is short */
bool carrier_set_request(struct carrier *carrier) COORD_MUST_CHECK;
bool carrier_set_address(struct carrier *carrier) COORD_MUST_CHECK;

/* upstream_curl.c */
void carrier_removed(struct carrier *carrier);
void carrier_done(struct carrier *carrier, CURLcode code);

#endif
