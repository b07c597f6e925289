/*
 * worker-sim: a whole deployment of model servers in one program (inference gateway, render tier, encode, prefill and
 * decode workers), strict as real ones are, with KV books, injected faults and a transcript. README.md tells how to use
 * it.
 */
#include "main.h"

#include "conn.h"
#include "loop.h"
#include "record.h"
#include "serve.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

struct options options;

static void allow_many_files(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int main(int argc, char **argv)
{
    options = options_read(argc, argv);
    allow_many_files();
    if (options.record && !record_open(options.record)) {
        fprintf(stderr, "worker-sim: %s: %s\n", options.record, strerror(errno));
        return 2;
    }
    loop_init();
    conn_set_close_idle(options.close_idle);
    for (size_t i = 0; i < options.port_count; i++) {
        int port = conn_listen(options.ports[i]);
        if (port < 0) {
            fprintf(stderr, "worker-sim: port %u: %s\n", options.ports[i], strerror(errno));
            return 2;
        }
        printf("listening on 127.0.0.1:%d\n", port);
        fflush(stdout);
    }
    loop_run();
    conn_close_all();
    loop_run(); /* frees what was closed: the loop stops at once */
    serve_fini();
    record_close();
    loop_fini();
    return 0;
}
