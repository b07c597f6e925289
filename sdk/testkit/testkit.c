/* The kit's start and end, its client, and what the test looks at: see kit.h and <coordinator/testkit.h>. */
#include "kit.h"
#include "memory.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PROBLEM_SIZE = 8192, LITTLE = 4096 };

static char problem[PROBLEM_SIZE];

const char *coord_kit_problem(void) { return problem; }

int64_t kit_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

bool coord_kit_wait(coord_kit *kit, bool (*condition)(void *argument), void *argument)
{
    static const struct timespec pause = {.tv_nsec = COORD_KIT_MS};
    int64_t until = kit_now() + kit->patience_ns;

    while (!condition(argument)) {
        if (kit_now() > until)
            return false;
        nanosleep(&pause, NULL);
    }
    return true;
}

static void complain_late(const coord_kit *kit, const char *what, const char *name)
{
    fprintf(stderr, "testkit: after %lld ms there is no %s%s%s\n", (long long)(kit->patience_ns / COORD_KIT_MS), what,
            name ? " " : "", name ? name : "");
}

/* ---- Starting ---- */

static bool is_name(char at) { return (at >= 'a' && at <= 'z') || (at >= '0' && at <= '9') || at == '-' || at == '.'; }

/* The size of `NAME.kit` at `at`, 0: no such host. */
static size_t kit_host(const char *at)
{
    size_t size = 0;

    while (is_name(at[size]))
        size++;
    return size > 4 && memcmp(at + size - 4, ".kit", 4) == 0 ? size : 0;
}

/* Copies the YAML with the address of an upstream in the place of each `://NAME.kit`. */
static bool place_upstreams(coord_kit *kit, const char *yaml)
{
    for (const char *at = yaml, *mark; *at; at = mark) {
        struct upstream *upstream;
        size_t size;

        mark = strstr(at, "://");
        mark = mark ? mark + 3 : at + strlen(at);
        kit_text_append(&kit->yaml, at, (size_t)(mark - at));
        size = kit_host(mark);
        if (size == 0)
            continue;
        upstream = kit_upstreams_add(kit, mark, size - 4);
        if (!upstream)
            return false;
        kit_text_format(&kit->yaml, "127.0.0.1:%u", upstream->port);
        mark += size;
    }
    return true;
}

static bool has_gateway(const char *yaml) { return strncmp(yaml, "gateway:", 8) == 0 || strstr(yaml, "\ngateway:"); }

static void keep_log_line(coord_kit *kit, coord_slice line)
{
    size_t size = line.size > 0 && line.data[line.size - 1] == '\n' ? line.size - 1 : line.size;
    struct line *kept = calloc(1, sizeof *kept + size + 1);

    if (!kept)
        abort();
    memcpy(kept->text, line.data, size);
    kept->size = size;
    pthread_mutex_lock(&kit->lock);
    *kit->lines_end = kept;
    kit->lines_end = &kept->next;
    pthread_mutex_unlock(&kit->lock);
}

static void keep_log(void *context, coord_slice line)
{
    kit_memory_mute(true);
    keep_log_line(context, line);
    kit_memory_mute(false);
}

/* With the lock held. */
static struct slots *slots_of(coord_kit *kit, const char *name)
{
    struct slots *slots;

    for (slots = kit->slots; slots; slots = slots->next)
        if (strcmp(slots->name, name) == 0)
            return slots;
    slots = calloc(1, sizeof *slots);
    if (!slots || !(slots->name = strdup(name)))
        abort();
    slots->next = kit->slots;
    kit->slots = slots;
    return slots;
}

static void keep_slot(void *context, const coord_slot_type *type, void *value, bool set)
{
    coord_kit *kit = context;
    struct slots *slots;

    kit_memory_mute(true);
    pthread_mutex_lock(&kit->lock);
    slots = slots_of(kit, type->name ? type->name : "");
    slots->set += set;
    slots->gone += !set;
    pthread_mutex_unlock(&kit->lock);
    kit_memory_mute(false);
    if (kit->slot_told)
        kit->slot_told(kit->slot_context, type, value, set);
}

static bool start_host(coord_kit *kit, const coord_kit_options *options)
{
    static const char gateway[] = "\ngateway: {address: \"http://gateway.kit\"}\n";
    const char *yaml = options->yaml ? options->yaml : kit_writer_alone_yaml(options->writer);
    const coord_plugin_descriptor *plugins[MAX_PLUGINS + 1] = {NULL};
    char *none[] = {NULL}, reactors[16];
    const char *flags[] = {
        "server.listen_addr", "127.0.0.1:0", "server.metrics_port", "0", "runtime.reactors", reactors, NULL};
    struct coord_kit_host_options host = {.flags = flags,
                                          .environment =
                                              options->environment ? (char **)(uintptr_t)options->environment : none,
                                          .plugins = kit_writer_alone_add(plugins, options),
                                          .plugin_files = options->plugin_files,
                                          .log = keep_log,
                                          .log_context = kit};

    snprintf(reactors, sizeof reactors, "%u", options->reactors ? options->reactors : 1);
    if (!place_upstreams(kit, yaml) || (!has_gateway(yaml) && !place_upstreams(kit, gateway)) ||
        !kit_upstreams_start(kit)) {
        snprintf(problem, sizeof problem, "testkit: the upstreams do not start");
        return false;
    }
    host.yaml = kit->yaml.data;
    coord_kit_host_watch_slots(keep_slot, kit);
    kit->host = coord_kit_host_start(&host, problem, sizeof problem);
    kit->metrics = kit->host ? coord_kit_host_metrics() : NULL;
    return kit->host != NULL;
}

coord_kit *kit_start_told(const coord_kit_options *given,
                          void (*slot_told)(void *context, const coord_slot_type *type, void *value, bool set),
                          void *slot_context)
{
    coord_kit_options options = {0};
    coord_kit *kit = calloc(1, sizeof *kit);

    if (!kit)
        abort();
    memcpy(&options, given, given->size < sizeof options ? given->size : sizeof options);
    kit->patience_ns = options.patience_ns ? options.patience_ns : INT64_C(10000) * COORD_KIT_MS;
    kit->rules_end = &kit->rules;
    kit->legs_end = &kit->legs;
    kit->lines_end = &kit->lines;
    kit->slot_told = slot_told;
    kit->slot_context = slot_context;
    pthread_mutex_init(&kit->lock, NULL);
    if (start_host(kit, &options))
        return kit;
    coord_kit_stop(kit);
    return NULL;
}

coord_kit *coord_kit_start(const coord_kit_options *options) { return kit_start_told(options, NULL, NULL); }

static void free_clients(coord_kit *kit)
{
    while (kit->clients) {
        coord_kit_client *client = kit->clients;

        kit->clients = client->next;
        kit_wire_free(&client->wire);
        free(client);
    }
}

static void free_kept(coord_kit *kit)
{
    while (kit->rules) {
        struct rule *rule = kit->rules;

        kit->rules = rule->next;
        free(rule);
    }
    while (kit->legs) {
        struct leg *leg = kit->legs;

        kit->legs = leg->next;
        kit_wire_free(&leg->wire);
        free(leg);
    }
    while (kit->lines) {
        struct line *line = kit->lines;

        kit->lines = line->next;
        free(line);
    }
    while (kit->slots) {
        struct slots *slots = kit->slots;

        kit->slots = slots->next;
        free(slots->name);
        free(slots);
    }
}

bool coord_kit_stop(coord_kit *kit)
{
    bool whole = true;

    if (!kit)
        return true;
    for (coord_kit_client *client = kit->clients; client; client = client->next)
        if (client->wire.message.whole || client->wire.broken)
            coord_kit_leave(client);
    if (kit->host)
        whole = coord_kit_host_stop(kit->host);
    coord_kit_host_watch_slots(NULL, NULL);
    kit_upstreams_stop(kit);
    free_clients(kit);
    free_kept(kit);
    pthread_mutex_destroy(&kit->lock);
    free(kit->yaml.data);
    free(kit->gates.data);
    free(kit->metrics);
    free(kit->moved.data);
    free(kit);
    return whole;
}

/* ---- Upstreams, seen from the test ---- */

void coord_kit_on(coord_kit *kit, const coord_kit_rule *rule)
{
    struct rule *entry = calloc(1, sizeof *entry);

    if (!entry)
        abort();
    entry->rule = *rule;
    pthread_mutex_lock(&kit->lock);
    *kit->rules_end = entry;
    kit->rules_end = &entry->next;
    pthread_mutex_unlock(&kit->lock);
}

void coord_kit_open(coord_kit *kit, const char *gate)
{
    pthread_mutex_lock(&kit->lock);
    kit_text_append(&kit->gates, gate, strlen(gate) + 1);
    pthread_mutex_unlock(&kit->lock);
}

struct wanted {
    coord_kit *kit;
    const char *which;
    size_t index, count;
    struct leg *found;
};

static bool find_leg(void *argument)
{
    struct wanted *wanted = argument;

    wanted->count = 0;
    pthread_mutex_lock(&wanted->kit->lock);
    for (struct leg *leg = wanted->kit->legs; leg; leg = leg->next)
        if (!wanted->which || coord_slice_is(leg->wire.message.phase, wanted->which) ||
            strcmp(leg->wire.message.upstream, wanted->which) == 0)
            if (wanted->count++ == wanted->index)
                wanted->found = leg;
    pthread_mutex_unlock(&wanted->kit->lock);
    return wanted->found != NULL;
}

static bool goes_alike(const struct leg *a, const struct leg *b)
{
    return strcmp(a->wire.message.upstream, b->wire.message.upstream) == 0 &&
           coord_slice_equal(a->wire.message.phase, b->wire.message.phase);
}

/* What has come instead, by the names that can be asked for. The kit is locked. */
static void print_legs(const struct coord_kit *kit)
{
    for (const struct leg *leg = kit->legs, *other; leg; leg = leg->next) {
        size_t count = 0;

        for (other = kit->legs; other != leg && !goes_alike(other, leg);)
            other = other->next;
        if (other != leg)
            continue; /* printed with that one */
        for (; other; other = other->next)
            count += goes_alike(other, leg);
        fprintf(stderr, "%s upstream %s", leg == kit->legs ? ":" : ",", leg->wire.message.upstream);
        if (leg->wire.message.phase.size > 0)
            fprintf(stderr, " phase %.*s", COORD_FMT(leg->wire.message.phase));
        fprintf(stderr, " (%zu)", count);
    }
}

static void complain_no_leg(struct coord_kit *kit, const char *which, size_t index)
{
    pthread_mutex_lock(&kit->lock);
    fprintf(stderr, "testkit: after %lld ms there is no leg %s%snumber %zu; legs so far%s",
            (long long)(kit->patience_ns / COORD_KIT_MS), which ? which : "", which ? " " : "", index,
            kit->legs ? "" : ": none");
    print_legs(kit);
    fprintf(stderr, "\n");
    pthread_mutex_unlock(&kit->lock);
}

const coord_kit_message *coord_kit_leg(coord_kit *kit, const char *which, size_t index)
{
    struct wanted wanted = {.kit = kit, .which = which, .index = index};

    if (coord_kit_wait(kit, find_leg, &wanted))
        return &wanted.found->wire.message;
    complain_no_leg(kit, which, index);
    return NULL;
}

size_t coord_kit_leg_count(coord_kit *kit, const char *which)
{
    struct wanted wanted = {.kit = kit, .which = which, .index = SIZE_MAX};

    find_leg(&wanted);
    return wanted.count;
}

static bool leg_is_over(void *argument)
{
    struct wanted *wanted = argument;
    bool over;

    pthread_mutex_lock(&wanted->kit->lock);
    over = wanted->found->over;
    pthread_mutex_unlock(&wanted->kit->lock);
    return over;
}

bool coord_kit_leg_left(coord_kit *kit, const coord_kit_message *message)
{
    struct wanted wanted = {.kit = kit};

    wanted.found = (struct leg *)(uintptr_t)((const char *)message - offsetof(struct leg, wire.message));
    if (coord_kit_wait(kit, leg_is_over, &wanted))
        return wanted.found->left;
    complain_late(kit, "end of the leg", NULL);
    return false;
}

/* ---- The client ---- */

static int dial(const coord_kit *kit, bool reads_little)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(coord_kit_host_port(kit->host)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), room = LITTLE;

    if (fd < 0)
        return -1;
    if (reads_little)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

coord_kit_client *coord_kit_send(coord_kit *kit, const coord_kit_request *request)
{
    const char *method = request->method ? request->method : "POST";
    coord_kit_client *client = calloc(1, sizeof *client);
    bool chunked = kit_wire_has_field(request->headers, "Transfer-Encoding");
    struct text out = {0};
    bool sent;

    if (!client)
        abort();
    client->kit = kit;
    client->wire.message.size = sizeof client->wire.message;
    client->wire.no_body = strcmp(method, "HEAD") == 0;
    client->wire.fd = dial(kit, request->reads_little);
    client->next = kit->clients;
    kit->clients = client;
    kit_text_append(&out, method, strlen(method));
    kit_text_append(&out, " ", 1);
    kit_text_append(&out, request->target, strlen(request->target));
    kit_text_format(&out, " HTTP/1.1\r\nHost: coordinator.kit\r\n");
    if (!chunked)
        kit_text_format(&out, "Content-Length: %zu\r\n", request->body.size);
    if (!kit_wire_has_field(request->headers, "Content-Type"))
        kit_text_format(&out, "Content-Type: application/json\r\n");
    kit_wire_fields(&out, request->headers);
    kit_text_append(&out, "\r\n", 2);
    if (chunked && request->body.size > 0)
        kit_text_format(&out, "%zx\r\n", request->body.size);
    kit_text_append(&out, request->body.data, request->body.size);
    if (chunked)
        kit_text_format(&out, request->body.size > 0 ? "\r\n0\r\n\r\n" : "0\r\n\r\n");
    sent = client->wire.fd >= 0 && kit_wire_send(client->wire.fd, text_slice(&out));
    free(out.data);
    return sent ? client : NULL;
}

static bool is_there(const struct wire *wire, size_t body_size)
{
    return wire->message.whole || (wire->head_done && body_size != COORD_KIT_ALL && wire->body.size >= body_size);
}

bool coord_kit_read(coord_kit_client *client, size_t body_size)
{
    struct wire *wire = &client->wire;
    int64_t until = kit_now() + client->kit->patience_ns;

    while (!is_there(wire, body_size)) {
        if (wire->broken || wire->fd < 0)
            return false;
        if (!kit_wire_pump(wire, 10) && kit_now() > until) {
            complain_late(client->kit, wire->head_done ? "more of the answer" : "answer", NULL);
            return false;
        }
    }
    return body_size == COORD_KIT_ALL || wire->body.size >= body_size;
}

const coord_kit_message *coord_kit_answer(const coord_kit_client *client) { return &client->wire.message; }

void coord_kit_leave(coord_kit_client *client)
{
    if (client->wire.fd >= 0)
        close(client->wire.fd);
    client->wire.fd = -1;
}

const coord_kit_message *coord_kit_ask(coord_kit *kit, const coord_kit_request *request)
{
    coord_kit_client *client = coord_kit_send(kit, request);

    if (!client)
        return NULL;
    coord_kit_read(client, COORD_KIT_ALL);
    coord_kit_leave(client);
    return client->wire.head_done ? &client->wire.message : NULL;
}

const coord_kit_message *coord_kit_post(coord_kit *kit, const char *target, const char *body)
{
    return coord_kit_ask(kit, &(coord_kit_request){.target = target, .body = coord_slice_of(body)});
}

/* ---- What else came out ---- */

void coord_kit_advance(coord_kit *kit, int64_t ns) { coord_kit_host_advance(kit->host, ns); }

size_t coord_kit_slots_set(coord_kit *kit, const char *name)
{
    size_t count;

    pthread_mutex_lock(&kit->lock);
    count = slots_of(kit, name)->set;
    pthread_mutex_unlock(&kit->lock);
    return count;
}

size_t coord_kit_slots_gone(coord_kit *kit, const char *name)
{
    size_t count;

    pthread_mutex_lock(&kit->lock);
    count = slots_of(kit, name)->gone;
    pthread_mutex_unlock(&kit->lock);
    return count;
}

double coord_kit_metric(const char *name, const coord_slice *labels) { return coord_kit_host_metric(name, labels); }

static bool has_line(const char *page, const char *line, size_t size)
{
    for (const char *at = page; at && *at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL)
        if (strncmp(at, line, size) == 0 && (at[size] == '\n' || at[size] == '\0'))
            return true;
    return false;
}

static bool is_bucket(const char *line)
{
    static const char ending[] = "_bucket";
    size_t name = strcspn(line, "{ \n"), size = sizeof ending - 1;

    return name > size && memcmp(line + name - size, ending, size) == 0;
}

const char *coord_kit_moved(coord_kit *kit)
{
    char *now = coord_kit_host_metrics();

    kit->moved.size = 0;
    kit_text_append(&kit->moved, "", 0);
    for (const char *at = now, *end; at && *at; at = end + 1) {
        end = strchr(at, '\n');
        if (!end)
            break;
        if (*at != '#' && strncmp(at, "process_", 8) != 0 && !is_bucket(at) &&
            !has_line(kit->metrics, at, (size_t)(end - at)))
            kit_text_append(&kit->moved, at, (size_t)(end - at) + 1);
    }
    free(now);
    return kit->moved.data;
}

struct sought {
    coord_kit *kit;
    const char *text;
};

static bool log_holds(void *argument)
{
    const struct sought *sought = argument;
    const struct line *line;

    pthread_mutex_lock(&sought->kit->lock);
    for (line = sought->kit->lines; line && !strstr(line->text, sought->text);)
        line = line->next;
    pthread_mutex_unlock(&sought->kit->lock);
    return line != NULL;
}

bool coord_kit_logged(coord_kit *kit, const char *text)
{
    struct sought sought = {kit, text};

    if (coord_kit_wait(kit, log_holds, &sought))
        return true;
    complain_late(kit, "log line with", text);
    return false;
}

coord_slice coord_kit_log_line(coord_kit *kit, size_t index)
{
    const struct line *line;

    pthread_mutex_lock(&kit->lock);
    for (line = kit->lines; line && index > 0; index--)
        line = line->next;
    pthread_mutex_unlock(&kit->lock);
    return line ? (coord_slice){line->text, line->size} : (coord_slice){0};
}
