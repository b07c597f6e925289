/* See targets.h. */
#include "targets.h"

#include "process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const target_names[TARGETS] = {"nothing", "nginx", "plain", "coordinator", "curl"};

enum { PATH_AT_MOST = 1024 };

/* One worker process and no log; request bodies stay in memory. `%s`: user line, folder, name, name. */
static const char nginx_head[] =
    "%s"
    "daemon off;\nworker_processes 1;\nworker_rlimit_nofile 45000;\n"
    "error_log %s/nginx.log;\npid %s/%s.pid;\n"
    "events { worker_connections 40000; }\n"
    "http {\n"
    "  access_log off;\n  keepalive_requests 1000000000;\n  keepalive_timeout 1h;\n"
    "  client_body_buffer_size 16m;\n  client_max_body_size 64m;\n"
    "  client_body_temp_path %s/temp;\n  proxy_temp_path %s/temp;\n  fastcgi_temp_path %s/temp;\n"
    "  uwsgi_temp_path %s/temp;\n  scgi_temp_path %s/temp;\n";

/* Answers a POST with a static file: 405 is what nginx says to that, and what is turned into the file. */
static const char nginx_worker[] =
    "  default_type application/json;\n"
    "  open_file_cache max=16 inactive=1h;\n  open_file_cache_valid 1h;\n  sendfile on;\n"
    "  map $http_x_llm_d_epp_profile $leg { default decode; prefill prefill; }\n"
    "  server {\n"
    "    listen 127.0.0.1:%u backlog=4096;\n    root %s;\n"
    "    location / { error_page 405 =200 /$leg.json; return 405; }\n"
    "    location ~ /render$ { error_page 405 =200 /render.json; return 405; }\n"
    "    location ~ [.]json$ { }\n"
    "  }\n}\n";

static const char nginx_proxy[] =
    "  upstream worker { server 127.0.0.1:%u; keepalive 12000; keepalive_requests 1000000000; "
    "keepalive_timeout 1h; }\n"
    "  server {\n"
    "    listen 127.0.0.1:%u backlog=4096;\n"
    "    location / {\n"
    "      proxy_pass http://worker;\n      proxy_http_version 1.1;\n"
    "      proxy_set_header Connection \"\";\n      proxy_buffering off;\n"
    "    }\n  }\n}\n";

/* `%s`: transport. */
static const char tuned_yaml[] = "server:\n"
                                 "  listen_addr: 127.0.0.1:%u\n"
                                 "  metrics_port: 0\n"
                                 "  max_connections: 20000\n"
                                 "gateway:\n"
                                 "  address: http://127.0.0.1:%u\n"
                                 "  transport: %s\n"
                                 "  max_idle_conns_per_host: 20000\n"
                                 "runtime:\n"
                                 "  reactors: %d\n";

static const char default_yaml[] = "server:\n"
                                   "  listen_addr: 127.0.0.1:%u\n"
                                   "  metrics_port: %u\n"
                                   "gateway:\n"
                                   "  address: http://127.0.0.1:%u\n"
                                   "  transport: %s\n";

static const char pipeline_yaml[] = "pipeline:\n"
                                    "  kv_connector: kv-nixl\n"
                                    "  steps:\n";

static FILE *create(const char *path)
{
    FILE *file = fopen(path, "w");

    if (!file)
        perror(path);
    return file;
}

static FILE *create_nginx(const struct places *places, const char *name, char path[PATH_AT_MOST])
{
    const char *out = places->out;
    FILE *file;

    snprintf(path, PATH_AT_MOST, "%s/%s.conf", out, name);
    file = create(path);
    if (file)
        fprintf(file, nginx_head, geteuid() == 0 ? "user root;\n" : "", out, out, name, out, out, out, out, out);
    return file;
}

static pid_t start_nginx(const struct places *places, char *configuration)
{
    char log[PATH_AT_MOST];
    char *argv[] = {"nginx", "-p", (char *)places->out, "-e", log, "-c", configuration, NULL};

    snprintf(log, sizeof log, "%s/nginx.log", places->out);
    return process_start(argv, log);
}

static pid_t start_file_worker(const struct places *places, const char *answers, uint16_t port)
{
    char path[PATH_AT_MOST];
    FILE *file = create_nginx(places, "nginx-worker", path);

    if (!file)
        return 0;
    fprintf(file, nginx_worker, port, answers);
    fclose(file);
    return start_nginx(places, path);
}

static pid_t start_own_worker(const struct fleet_plan *plan, uint16_t port)
{
    char port_text[16], interval_text[32], log[PATH_AT_MOST];
    char *argv[] = {(char *)plan->places->worker, "--port",        port_text,     "--answers",
                    (char *)plan->answers,        "--interval-us", interval_text, NULL};

    snprintf(port_text, sizeof port_text, "%u", port);
    snprintf(interval_text, sizeof interval_text, "%lld", plan->interval_us ? (long long)plan->interval_us : 1);
    snprintf(log, sizeof log, "%s/worker.log", plan->places->out);
    return process_start(argv, log);
}

static pid_t start_proxy(const struct places *places, uint16_t worker_port, uint16_t port)
{
    char path[PATH_AT_MOST];
    FILE *file = create_nginx(places, "nginx-proxy", path);

    if (!file)
        return 0;
    fprintf(file, nginx_proxy, worker_port, port);
    fclose(file);
    return start_nginx(places, path);
}

/* Writes `steps` with the worker's port wherever it says %u. */
static void write_steps(FILE *file, const char *steps, uint16_t worker_port)
{
    for (const char *at = steps, *mark; *at; at = mark + 2) {
        mark = strstr(at, "%u");
        if (!mark) {
            fputs(at, file);
            return;
        }
        fprintf(file, "%.*s%u", (int)(mark - at), at, worker_port);
    }
}

static void write_coordinator(FILE *file, const struct fleet_plan *plan, const struct fleet *fleet)
{
    const char *transport = plan->target == CURL ? "curl" : "direct";

    if (plan->as_default)
        fprintf(file, default_yaml, fleet->port, process_free_port(), fleet->worker_port, transport);
    else
        fprintf(file, tuned_yaml, fleet->port, fleet->worker_port, transport, plan->reactors > 0 ? plan->reactors : 1);
    fputs(pipeline_yaml, file);
    write_steps(file, plan->steps, fleet->worker_port);
}

static pid_t start_coordinator(const struct fleet_plan *plan, const struct fleet *fleet)
{
    const char *name = target_names[plan->target], *out = plan->places->out;
    char path[PATH_AT_MOST], log[PATH_AT_MOST];
    char *argv[] = {(char *)plan->places->coordinator, "serve", "--config", path, NULL};
    FILE *file;

    snprintf(path, sizeof path, "%s/%s.yaml", out, name);
    snprintf(log, sizeof log, "%s/%s.log", out, name);
    file = create(path);
    if (!file)
        return 0;
    write_coordinator(file, plan, fleet);
    fclose(file);
    setenv("COORDINATOR_PLUGIN_PATH", plan->places->plugins, 1);
    return process_start(argv, log);
}

static bool came_up(const char *what, const struct places *places, pid_t pid, uint16_t port, const char *path)
{
    if (process_ready(pid, port, path))
        return true;
    fprintf(stderr, "bench: %s did not come up, see the logs in %s\n", what, places->out);
    return false;
}

bool fleet_start_worker(struct fleet *fleet, const struct fleet_plan *plan)
{
    *fleet = (struct fleet){.worker_port = process_free_port()};
    fleet->port = plan->target == NOTHING ? fleet->worker_port : process_free_port();
    if (plan->interval_us || plan->reads_bodies)
        fleet->worker = start_own_worker(plan, fleet->worker_port);
    else
        fleet->worker = start_file_worker(plan->places, plan->answers, fleet->worker_port);
    return came_up("the worker", plan->places, fleet->worker, fleet->worker_port, NULL);
}

bool fleet_start_target(struct fleet *fleet, const struct fleet_plan *plan)
{
    if (plan->target == NGINX)
        fleet->target = start_proxy(plan->places, fleet->worker_port, fleet->port);
    else if (plan->target != NOTHING)
        fleet->target = start_coordinator(plan, fleet);
    return plan->target == NOTHING || fleet->target > 0;
}

bool fleet_start(struct fleet *fleet, const struct fleet_plan *plan)
{
    if (!fleet_start_worker(fleet, plan) || !fleet_start_target(fleet, plan))
        return false;
    if (plan->target == NOTHING)
        return true;
    return came_up(target_names[plan->target], plan->places, fleet->target, fleet->port,
                   plan->target == NGINX ? NULL : "/readyz");
}

void fleet_stop(struct fleet *fleet)
{
    process_stop(fleet->target);
    process_stop(fleet->worker);
    *fleet = (struct fleet){0};
}
