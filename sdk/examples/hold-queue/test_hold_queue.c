/* The step against the test kit and a Redis server of the test's own, which has redis-server on its PATH. */
#define _DEFAULT_SOURCE
#undef NDEBUG
#include <coordinator/testkit.h>

#include <hiredis/hiredis.h>

#include <arpa/inet.h>
#include <assert.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern const coord_plugin_descriptor coord_plugin; /* of hold_queue.c */

enum { MANY = 40 };

static const char chat[] = "/v1/chat/completions", asked[] = "{\"model\":\"m\",\"messages\":[]}";
static char folder[] = "/tmp/hold-queue-XXXXXX", local[80], remote[32];

/* ---- The server, and one who admits ---- */

static pid_t server;
static redisContext *redis;

static unsigned free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert(fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0);
    assert(getsockname(fd, (struct sockaddr *)&address, &size) == 0);
    close(fd);
    return ntohs(address.sin_port);
}

static void start_server(void)
{
    char path[64], port[8];
    int status;

    snprintf(path, sizeof path, "%s/redis", folder);
    snprintf(local, sizeof local, "unix:%s", path);
    snprintf(port, sizeof port, "%u", free_port());
    snprintf(remote, sizeof remote, "localhost:%s", port);
    server = fork();
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(open("/dev/null", O_WRONLY), 1);
        execlp("redis-server", "redis-server", "--bind", "127.0.0.1", "--port", port, "--unixsocket", path, "--save",
               "", "--dir", folder, (char *)NULL);
        perror("redis-server");
        _exit(127);
    }
    for (int i = 0; (redis = redisConnectUnix(path)) != NULL && redis->err && i < 3000; i++) {
        redisFree(redis);
        assert(waitpid(server, &status, WNOHANG) == 0); /* it has not ended */
        usleep(10000);
    }
    assert(redis && !redis->err);
}

static void stop_server(void)
{
    int status;

    redisFree(redis);
    kill(server, SIGKILL);
    assert(waitpid(server, &status, 0) == server);
}

static long long number(const char *command)
{
    redisReply *reply = redisCommand(redis, command);
    long long value;

    assert(reply && reply->type == REDIS_REPLY_INTEGER);
    value = reply->integer;
    freeReplyObject(reply);
    return value;
}

struct wanted {
    const char *command;
    long long value;
};

static bool is_so(void *argument)
{
    const struct wanted *wanted = argument;

    return number(wanted->command) == wanted->value;
}

static void wait_until(coord_kit *kit, const char *command, long long value)
{
    assert(coord_kit_wait(kit, is_so, &(struct wanted){command, value}));
}

/* Lets the first in the queue in. */
static void admit_one(void)
{
    redisReply *ticket = redisCommand(redis, "LPOP hold");

    assert(ticket && ticket->type == REDIS_REPLY_STRING);
    freeReplyObject(redisCommand(redis, "RPUSH hold:%s go", ticket->str));
    freeReplyObject(ticket);
}

/* ---- The coordinator ---- */

/* NULL: it did not start. */
static coord_kit *try_to_start(const char *where, const char *params)
{
    char yaml[256];

    snprintf(yaml, sizeof yaml, "pipeline: {steps: [{type: hold-queue, params: {redis: \"%s\", %s}}, {type: decode}]}",
             where, params);
    return coord_kit_start(
        &(coord_kit_options){.size = sizeof(coord_kit_options),
                             .yaml = yaml,
                             .plugins = (const coord_plugin_descriptor *const[]){&coord_plugin, NULL}});
}

static coord_kit *start(const char *where, const char *params)
{
    coord_kit *kit = try_to_start(where, params);

    if (!kit)
        fprintf(stderr, "%s", coord_kit_problem());
    assert(kit);
    coord_kit_on(kit, &(coord_kit_rule){.phase = "decode", .body = COORD_SLICE("{}")});
    return kit;
}

static coord_kit_client *begin(coord_kit *kit)
{
    coord_kit_client *client = coord_kit_send(kit, &(coord_kit_request){.target = chat, .body = coord_slice_of(asked)});

    assert(client);
    return client;
}

static void ends_with(coord_kit_client *client, int status)
{
    assert(coord_kit_read(client, COORD_KIT_ALL) && coord_kit_answer(client)->status == status);
}

static void a_request_goes_on_once_it_is_let_in(void)
{
    const char *const where[] = {local, remote};

    for (int i = 0; i < 2; i++) {
        coord_kit *kit = start(where[i], "timeout: 30s");
        coord_kit_client *client = begin(kit);

        wait_until(kit, "LLEN hold", 1);
        assert(coord_kit_leg_count(kit, NULL) == 0);
        admit_one();
        ends_with(client, 200);
        assert(coord_kit_stop(kit));
        assert(number("DBSIZE") == 0);
    }
}

static void many_wait_at_a_time_on_one_reactor(void)
{
    coord_kit *kit = start(local, "timeout: 30s");
    coord_kit_client *clients[MANY];

    for (int i = 0; i < MANY; i++)
        clients[i] = begin(kit);
    wait_until(kit, "LLEN hold", MANY);
    for (int i = 0; i < MANY; i++)
        admit_one();
    for (int i = 0; i < MANY; i++)
        ends_with(clients[i], 200);
    assert(coord_kit_stop(kit));
    assert(number("DBSIZE") == 0);
}

static void one_that_is_not_let_in_is_refused_and_leaves_nothing_behind(void)
{
    static const struct {
        const char *params, *type;
        int status;
    } rows[] = {{"timeout: 50ms", "rate_limit_error", 429}, {"timeout: 50ms, status: 503", "server_error", 503}};

    for (int i = 0; i < 2; i++) {
        coord_kit *kit = start(local, rows[i].params);
        const coord_kit_message *answer = coord_kit_post(kit, chat, asked);
        char wanted[64];

        assert(answer && answer->status == rows[i].status && coord_kit_header_is(answer, "retry-after", "5"));
        snprintf(wanted, sizeof wanted, "\"type\":\"%s\"", rows[i].type);
        assert(strstr(answer->body.data, wanted));
        wait_until(kit, "LLEN hold", 0);
        assert(coord_kit_leg_count(kit, NULL) == 0);
        assert(coord_kit_stop(kit));
        assert(number("DBSIZE") == 0);
    }
}

static void a_client_that_leaves_ends_the_wait(void)
{
    coord_kit *kit = start(local, "timeout: 1h");
    coord_kit_client *client = begin(kit);

    wait_until(kit, "LLEN hold", 1);
    coord_kit_leave(client);
    wait_until(kit, "LLEN hold", 0);
    assert(coord_kit_stop(kit));
    assert(number("DBSIZE") == 0);
}

static void without_redis_a_request_is_refused_or_let_in(void)
{
    coord_kit *kit = start("unix:/nowhere/redis", "on_failure: closed");

    ends_with(begin(kit), 503);
    assert(coord_kit_stop(kit));
    kit = start("127.0.0.1:1", "on_failure: open");
    ends_with(begin(kit), 200);
    assert(coord_kit_logged(kit, "cannot be reached, let in"));
    assert(coord_kit_stop(kit));
}

static void a_wrong_password_is_a_failure_and_is_not_told(void)
{
    coord_kit *kit = start(local, "password: \"hush hush\"");

    freeReplyObject(redisCommand(redis, "CONFIG SET requirepass other"));
    ends_with(begin(kit), 503);
    for (size_t i = 0; coord_kit_log_line(kit, i).data; i++)
        assert(!strstr(coord_kit_log_line(kit, i).data, "hush"));
    assert(coord_kit_stop(kit));
    freeReplyObject(redisCommand(redis, "CONFIG SET requirepass %s", ""));
}

static void a_server_that_dies_ends_the_wait(void)
{
    coord_kit *kit = start(local, "timeout: 1h");
    coord_kit_client *client = begin(kit);

    wait_until(kit, "LLEN hold", 1);
    stop_server();
    ends_with(client, 503);
    assert(coord_kit_stop(kit));
}

static void an_address_that_is_none_is_told_at_the_start(void)
{
    static const char *const addresses[] = {"127.0.0.1:nonsense", "127.0.0.1:6379x", "127.0.0.1"};

    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
        assert(!try_to_start(addresses[i], "timeout: 1s"));
        assert(strstr(coord_kit_problem(), "redis"));
    }
}

int main(void)
{
    char path[64];

    assert(mkdtemp(folder));
    start_server();
    a_request_goes_on_once_it_is_let_in();
    many_wait_at_a_time_on_one_reactor();
    one_that_is_not_let_in_is_refused_and_leaves_nothing_behind();
    a_client_that_leaves_ends_the_wait();
    without_redis_a_request_is_refused_or_let_in();
    a_wrong_password_is_a_failure_and_is_not_told();
    a_server_that_dies_ends_the_wait();
    an_address_that_is_none_is_told_at_the_start();
    snprintf(path, sizeof path, "%s/redis", folder);
    unlink(path);
    rmdir(folder);
    printf("hold-queue: 8 tests passed\n");
    return 0;
}
