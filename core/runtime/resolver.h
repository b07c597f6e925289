/*
 * Names to addresses by c-ares, per reactor, never blocking: one cancellable, cached lookup a name.
 *
 * Addresses given as literals are answered at once. Answers are cached for their TTL (at least 1 s, at most 60 s), failures
 * for 1 s. Waiters for the same name share one lookup; the last one that cancels cancels it. When a lookup fails while an
 * expired answer is still known (at most 10 minutes old), that one is given, unless the name servers say that there is no
 * such host or address (RFC 8767). /etc/hosts comes before the name servers, and NSS is never asked.
 * Thread: [reactor].
 */
#ifndef RUNTIME_RESOLVER_H
#define RUNTIME_RESOLVER_H

#include "runtime/reactor.h"

#include <netinet/in.h>
#include <sys/socket.h>

struct resolver;

enum { RESOLVER_MAX_ADDRESSES = 16 };

struct resolved {
    size_t count;                                              /* 0: it failed, `reason` says why */
    struct sockaddr_storage addresses[RESOLVER_MAX_ADDRESSES]; /* port 0 */
    const char *reason;  /* static; "no such host", "no answer from the name servers", … */
    uint64_t generation; /* differs whenever the addresses of this name changed */
};

struct lookup;
typedef void lookup_done_fn(struct lookup *lookup,
                            const struct resolved *answer); /* `answer` is borrowed during the call */
struct lookup {
    lookup_done_fn *done;
    struct lookup *next;
    void *entry; /* the resolver's; NULL when not waiting */
};

/* `servers`: "127.0.0.1:5353,…" instead of the system's, or NULL. NULL result: memory or c-ares failed. */
struct resolver *resolver_new(struct reactor *reactor, const char *servers);
void resolver_free(struct resolver *resolver); /* waiters are dropped without a call */

/*
 * True and `*answer` filled when it is known now (a literal, cached); else false and `lookup->done` is called later, never from inside.
 */
bool resolver_start(struct resolver *resolver, coord_slice host, struct lookup *lookup, struct resolved *answer)
    __attribute__((warn_unused_result));
void resolver_cancel(struct resolver *resolver, struct lookup *lookup);

#endif
