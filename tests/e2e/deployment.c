/* One coordinator and one worker-sim, started and ended together, and what they tell of themselves; see harness.h. */
#include "harness.h"
#include "private.h"

#include <dirent.h>
#include <json-c/json.h>
#include <signal.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_FLAGS = 32, METRIC_LIMIT = 256 };

struct deployment deployed;
const char CHAT[] = "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}";
const char STREAM[] = "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"stream\":true}";

static struct recorded *recorded;
static size_t recorded_count;

static void section(struct text *yaml, const char *name, const char *lines)
{
    if (lines)
        text_printf(yaml, "%s:\n%s\n", name, lines);
}

/* `@` in it stands for the gateway's URL. */
static void add_with_url(struct text *yaml, const char *lines, const char *url)
{
    for (const char *at; (at = strchr(lines, '@')) != NULL; lines = at + 1)
        text_printf(yaml, "%.*s%s", (int)(at - lines), lines, url);
    text_printf(yaml, "%s", lines);
}

static void write_pipeline(struct text *yaml, const struct plan *plan, const char *url)
{
    text_printf(yaml, "gateway:\n  address: \"%s\"\n%s\n", plan->gateway_url ? plan->gateway_url : url,
                plan->gateway ? plan->gateway : "");
    text_printf(yaml, "pipeline:\n  kv_connector: kv-nixl\n%s\n  steps:\n", plan->pipeline ? plan->pipeline : "");
    if (plan->steps)
        add_with_url(yaml, plan->steps, url);
    else
        text_printf(yaml,
                    "    - type: render\n      params: {address: \"%s\"}\n    - type: prefill\n    - type: decode\n",
                    plan->gateway_url ? plan->gateway_url : url);
}

static void write_config(const struct plan *plan)
{
    struct text yaml = {0};
    uint16_t gateway = plan->gateway_port ? plan->gateway_port : deployed.sim_port;
    char url[128];

    snprintf(url, sizeof url, "http://127.0.0.1:%u", gateway);
    text_printf(&yaml, "%s\nserver:\n  listen_addr: \"%s\"\n  metrics_port: %u\n%s\n",
                plan->top ? plan->top : "log_level: 3", plan->listen ? plan->listen : "127.0.0.1:0",
                deployed.metrics_port, plan->server ? plan->server : "");
    section(&yaml, "response", plan->response);
    section(&yaml, "runtime", plan->runtime);
    section(&yaml, "plugins", plan->plugins);
    if (plan->composition)
        add_with_url(&yaml, plan->composition, url);
    else
        write_pipeline(&yaml, plan, url);
    file_write(deployed.config, yaml.data);
    text_free(&yaml);
}

static void start_sim(const struct plan *plan)
{
    const char *arguments[MAX_FLAGS] = {worker_sim_program(), "--port", "0", "--record", deployed.transcript};
    size_t count = 5;
    char log[96];
    const char *said;

    for (const char *const *flag = plan->sim_flags; flag && *flag && count < MAX_FLAGS - 1; flag++)
        arguments[count++] = *flag;
    snprintf(log, sizeof log, "%s/sim.log", deployed.folder);
    process_start(&deployed.sim, log, arguments, NULL);
    UNTIL(strstr(process_log(&deployed.sim), "listening on ") ||
          (process_wait(&deployed.sim, 0) && deployed.sim.ended));
    said = strstr(process_log(&deployed.sim), "listening on 127.0.0.1:");
    if (!said)
        fail_msg("worker-sim does not start: %s", process_log(&deployed.sim));
    deployed.sim_port = (uint16_t)strtoul(said + strlen("listening on 127.0.0.1:"), NULL, 10);
}

static bool started(void)
{
    const char *said = strstr(process_log(&deployed.coordinator), "started");
    const char *port = said ? strstr(said, " port=") : NULL;

    if (process_wait(&deployed.coordinator, 0) && deployed.coordinator.ended)
        fail_msg("the coordinator ended with %d: %s", deployed.coordinator.code, process_log(&deployed.coordinator));
    if (!port || !strchr(port, '\n'))
        return false;
    deployed.port = (uint16_t)strtoul(port + 6, NULL, 10);
    return true;
}

/* What makes a shipped file serve here: its own variables and these. */
static const char *const *environment_for(const struct plan *plan)
{
    static char gateway[64], metrics[64];
    static const char *made[MAX_FLAGS];
    size_t count = 0;

    if (!plan->config)
        return plan->environment;
    snprintf(metrics, sizeof metrics, "COORDINATOR_SERVER_METRICS_PORT=%u", deployed.metrics_port);
    snprintf(gateway, sizeof gateway, "COORDINATOR_GATEWAY_ADDRESS=http://127.0.0.1:%u", deployed.sim_port);
    made[count++] = "COORDINATOR_SERVER_LISTEN_ADDR=127.0.0.1:0";
    made[count++] = "COORDINATOR_LOG_LEVEL=3";
    made[count++] = metrics;
    if (!plan->no_sim)
        made[count++] = gateway;
    for (const char *const *more = plan->environment; more && *more && count < MAX_FLAGS - 1; more++)
        made[count++] = *more;
    made[count] = NULL;
    return made;
}

static void start_coordinator(const struct plan *plan)
{
    const char *arguments[MAX_FLAGS] = {coordinator_program(), "serve", "--config",
                                        plan->stdin_config ? "-"
                                        : plan->config     ? plan->config
                                                           : deployed.config};
    size_t count = 4;
    char log[96], pid_file[96];

    for (const char *const *flag = plan->flags; flag && *flag && count < MAX_FLAGS - 1; flag++)
        arguments[count++] = *flag;
    if (plan->pid_file && count < MAX_FLAGS - 2) {
        snprintf(pid_file, sizeof pid_file, "%s/pid", deployed.folder);
        arguments[count++] = "--pid-file";
        arguments[count++] = pid_file;
    }
    snprintf(log, sizeof log, "%s/coordinator.log", deployed.folder);
    process_start_with(&deployed.coordinator, plan->stdin_config ? deployed.config : NULL, log, arguments,
                       environment_for(plan));
    if (!plan->not_ready)
        UNTIL(started());
}

static void make_folder(void)
{
    deployed = (struct deployment){0};
    snprintf(deployed.folder, sizeof deployed.folder, "/tmp/e2e-XXXXXX");
    assert_non_null(mkdtemp(deployed.folder));
    snprintf(deployed.config, sizeof deployed.config, "%s/coordinator.yaml", deployed.folder);
    snprintf(deployed.transcript, sizeof deployed.transcript, "%s/requests.jsonl", deployed.folder);
}

void deploy_sim(const char *const *flags)
{
    make_folder();
    start_sim(&(struct plan){.sim_flags = flags});
}

void deploy(const struct plan *plan)
{
    make_folder();
    if (!plan->no_sim)
        start_sim(plan);
    deployed.metrics_port = plan->no_metrics ? 0 : free_port();
    if (!plan->config)
        write_config(plan);
    start_coordinator(plan);
}

void start_again(const struct plan *plan)
{
    char log[128];

    snprintf(log, sizeof log, "%s/coordinator.log", deployed.folder);
    assert_int_equal(unlink(log), 0);
    start_coordinator(plan);
}

void reconfigure(const struct plan *plan) { write_config(plan); }

size_t settled_descriptors(void)
{
    int64_t since = now_ms(), deadline = now_ms() + PATIENCE_MS;
    size_t count = process_descriptors(&deployed.coordinator);

    while (now_ms() - since < 100 && now_ms() < deadline) {
        size_t now = process_descriptors(&deployed.coordinator);

        if (now != count)
            since = now_ms();
        count = now;
        pause_ms(2);
    }
    return count;
}

void assert_no_report(const struct process *process)
{
    const char *log = process_log(process), *at = strstr(log, "Sanitizer");

    if (!at)
        at = strstr(log, "runtime error:");
    if (at)
        fail_msg("a sanitizer's report: %.6000s", at - (at - log > 200 ? 200 : at - log));
}

void undeploy(void)
{
    if (!deployed.coordinator.pid)
        return;
    if (!deployed.coordinator.ended) {
        process_wait(&deployed.coordinator, 0);
        if (!deployed.coordinator.ended)
            process_signal(&deployed.coordinator, SIGTERM);
        if (!process_wait(&deployed.coordinator, PATIENCE_MS)) {
            process_signal(&deployed.coordinator, SIGABRT);
            process_wait(&deployed.coordinator, PATIENCE_MS);
            fail_msg("the coordinator did not end after SIGTERM: %s", process_log(&deployed.coordinator));
        }
    }
    assert_no_report(&deployed.coordinator);
    if (!deployed.unclean && deployed.coordinator.code != 0)
        fail_msg("the coordinator ended with %d: …%s", deployed.coordinator.code,
                 process_log(&deployed.coordinator) + (strlen(process_log(&deployed.coordinator)) > 1500
                                                           ? strlen(process_log(&deployed.coordinator)) - 1500
                                                           : 0));
    deployed.coordinator.pid = 0;
}

static void end_process(struct process *process)
{
    if (process->pid && !process->ended) {
        kill(process->pid, SIGKILL);
        process_wait(process, PATIENCE_MS);
    }
    process->pid = 0;
}

static void remove_folder(void)
{
    DIR *folder = *deployed.folder && !getenv("E2E_KEEP") ? opendir(deployed.folder) : NULL;
    char path[400];

    if (!folder)
        return;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", deployed.folder, entry->d_name);
        unlink(path);
    }
    closedir(folder);
    rmdir(deployed.folder);
}

static void forget_transcript(void)
{
    for (size_t i = 0; i < recorded_count; i++) {
        free(recorded[i].target);
        free(recorded[i].headers);
        text_free(&recorded[i].body);
    }
    free(recorded);
    recorded = NULL;
    recorded_count = 0;
}

int harness_end(void **state)
{
    char *problem = NULL;

    (void)state;
    clients_end(); /* first: a drain waits for them */
    scripted_release();
    if (deployed.coordinator.pid && !deployed.coordinator.ended) {
        kill(deployed.coordinator.pid, SIGTERM);
        if (!process_wait(&deployed.coordinator, PATIENCE_MS))
            problem = "the coordinator did not end after SIGTERM";
    }
    if (deployed.coordinator.pid && !problem) {
        const char *log = process_log(&deployed.coordinator);

        if (!deployed.reports && (strstr(log, "Sanitizer") || strstr(log, "runtime error:")))
            problem = "a sanitizer's report";
        else if (!deployed.unclean && deployed.coordinator.ended && deployed.coordinator.code != 0)
            problem = "the coordinator's exit status is not 0";
    }
    if (problem)
        print_error("%s (exit %d). Log:\n%.20000s\n", problem, deployed.coordinator.code,
                    process_log(&deployed.coordinator));
    end_process(&deployed.coordinator);
    end_process(&deployed.sim);
    scripted_end();
    forget_transcript();
    remove_folder();
    deployed = (struct deployment){0};
    return problem ? -1 : 0;
}

/* ---- Metrics and books ---- */

void metrics_read(struct text *page)
{
    struct client *client = fetch_port(deployed.metrics_port, "GET", "/metrics", "", NULL);

    assert_int_equal(client->answer.status, 200);
    text_clear(page);
    text_add(page, client->answer.body.data, client->answer.body.size);
    client_close(client);
}

double metric(const char *series)
{
    struct text page = {0};
    char start[METRIC_LIMIT];
    const char *at;
    double value = -1;

    snprintf(start, sizeof start, "\nllm_d_coordinator_%s ", series);
    metrics_read(&page);
    at = strstr(page.data, start);
    if (at)
        value = strtod(at + strlen(start), NULL);
    text_free(&page);
    return value;
}

double metric_sum(const char *family)
{
    struct text page = {0};
    char start[METRIC_LIMIT];
    double sum = 0;

    snprintf(start, sizeof start, "\nllm_d_coordinator_%s", family);
    metrics_read(&page);
    for (const char *at = page.data; (at = strstr(at, start)) != NULL; at++) {
        const char *value = at + strlen(start);

        if (*value == '{')
            value = strstr(value, "} ");
        else if (*value != ' ')
            continue;
        if (value)
            sum += strtod(*value == '}' ? value + 2 : value + 1, NULL);
    }
    text_free(&page);
    return sum;
}

int64_t sim_count(const char *member)
{
    struct client *client = fetch_port(deployed.sim_port, "GET", "/sim/stats", "", NULL);
    struct json_object *books = json_tokener_parse(client->answer.body.data), *at = books;
    char path[128], *rest = path, *name;
    int64_t value;

    assert_non_null(books);
    snprintf(path, sizeof path, "%s", member);
    while ((name = strsep(&rest, ".")) != NULL)
        if (!json_object_object_get_ex(at, name, &at))
            fail_msg("worker-sim's books have no %s: %s", member, client->answer.body.data);
    value = json_object_get_int64(at);
    json_object_put(books);
    client_close(client);
    return value;
}

void sim_reset(void)
{
    client_close(fetch_port(deployed.sim_port, "POST", "/sim/reset", "Content-Length: 0\r\n", NULL));
}

/* The recorder writes one character a byte, those above 0x7e as \u00XX: back to bytes. */
static void add_bytes(struct text *to, const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];

        if (c >= 0xc2 && c <= 0xc3 && i + 1 < size)
            c = (unsigned char)((c & 3) << 6 | ((unsigned char)text[++i] & 0x3f));
        text_add(to, &c, 1);
    }
}

static void read_recorded(const char *line, size_t size, struct recorded *to)
{
    struct json_tokener *tokener = json_tokener_new();
    struct json_object *object = json_tokener_parse_ex(tokener, line, (int)size), *value;
    struct text headers = {0};

    assert_non_null(object);
    assert_true(json_object_object_get_ex(object, "phase", &value));
    snprintf(to->phase, sizeof to->phase, "%s", json_object_get_string(value));
    assert_true(json_object_object_get_ex(object, "target", &value));
    to->target = strdup(json_object_get_string(value));
    assert_true(json_object_object_get_ex(object, "headers", &value));
    text_clear(&headers);
    for (size_t i = 0; i < json_object_array_length(value); i++) {
        struct json_object *pair = json_object_array_get_idx(value, i);

        text_printf(&headers, "%s: %s\r\n", json_object_get_string(json_object_array_get_idx(pair, 0)),
                    json_object_get_string(json_object_array_get_idx(pair, 1)));
    }
    to->headers = headers.data;
    assert_true(json_object_object_get_ex(object, "body", &value));
    text_clear(&to->body);
    add_bytes(&to->body, json_object_get_string(value), (size_t)json_object_get_string_len(value));
    json_object_put(object);
    json_tokener_free(tokener);
}

size_t transcript_read(struct recorded **list)
{
    struct text text = {0};
    const char *end;

    forget_transcript();
    file_read(deployed.transcript, &text);
    for (const char *at = text.data; (end = strchr(at, '\n')) != NULL; at = end + 1) {
        recorded = realloc(recorded, (recorded_count + 1) * sizeof *recorded);
        recorded[recorded_count] = (struct recorded){0};
        read_recorded(at, (size_t)(end - at), &recorded[recorded_count++]);
    }
    text_free(&text);
    *list = recorded;
    return recorded_count;
}

const struct recorded *transcript_find(const char *phase, size_t n)
{
    struct recorded *list;
    size_t count = transcript_read(&list);

    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].phase, phase) == 0 && n-- == 0)
            return &list[i];
    return NULL;
}

const struct recorded *transcript_target(const char *target)
{
    struct recorded *list;
    size_t count = transcript_read(&list);

    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].target, target) == 0)
            return &list[i];
    return NULL;
}

const char *header_in(const char *lines, const char *name, size_t *copies)
{
    static char value[16384];
    size_t size = strlen(name), count = 0;

    for (const char *at = lines; at && *at;) {
        const char *end = strstr(at, "\r\n");

        if (strncasecmp(at, name, size) == 0 && at[size] == ':' && count++ == 0) {
            const char *from = at + size + 1;

            while (*from == ' ')
                from++;
            snprintf(value, sizeof value, "%.*s", (int)((end ? end : from + strlen(from)) - from), from);
        }
        at = end ? end + 2 : NULL;
    }
    if (copies)
        *copies = count;
    return count ? value : NULL;
}
