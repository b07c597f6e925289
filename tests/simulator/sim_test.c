/* See sim_test.h. */
#include "sim_test.h"

#include <json-c/json.h>
#include <signal.h>

enum { KEPT = 16 };

/* Somewhere to put a text that stays for a few calls. */
static struct text *keep(void)
{
    static struct text kept[KEPT];
    static size_t next;
    struct text *text = &kept[next++ % KEPT];

    text_clear(text);
    return text;
}

/* ---- The program ---- */

void end_sim(void)
{
    if (!deployed.sim.pid)
        return;
    process_signal(&deployed.sim, SIGTERM);
    if (!process_wait(&deployed.sim, PATIENCE_MS))
        fail_msg("worker-sim did not end on SIGTERM");
    assert_no_report(&deployed.sim);
    if (deployed.sim.code != 0)
        fail_msg("worker-sim ended with %d: %s", deployed.sim.code, process_log(&deployed.sim));
    harness_end(NULL);
}

int sim_end(void **state)
{
    end_sim();
    return harness_end(state);
}

/* ---- Questions ---- */

static struct client *vask(const char *path, const char *fields, const char *format, va_list list)
{
    struct text body = {0};
    struct client *client = client_open(deployed.sim_port);

    text_vprintf(&body, format, list);
    client_post(client, path, fields, text_span(&body));
    client_read(client, PATIENCE_MS);
    text_free(&body);
    return client;
}

struct client *ask(const char *path, const char *fields, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    struct client *client = vask(path, fields, format, list);
    va_end(list);
    return client;
}

struct client *ask_well(const char *path, const char *fields, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    struct client *client = vask(path, fields, format, list);
    va_end(list);
    if (client->answer.status != 200 || !client->answer.whole)
        fail_msg("%s: %d %s", path, client->answer.status,
                 client->answer.body.data ? client->answer.body.data : "(nothing)");
    return client;
}

struct client *look(const char *method, const char *path)
{
    return fetch_port(deployed.sim_port, method, path, "", NULL);
}

/* ---- Members ---- */

static struct json_object *parse(const char *json)
{
    enum json_tokener_error error;
    struct json_object *object = json ? json_tokener_parse_verbose(json, &error) : NULL;

    if (!object)
        fail_msg("no JSON: %.300s", json ? json : "(nothing)");
    return object;
}

static struct json_object *member(struct json_object *object, const char *pointer, const char *json)
{
    struct json_object *found = NULL;

    if (json_pointer_get(object, pointer, &found) != 0)
        fail_msg("no %s in %.1500s", pointer, json);
    return found;
}

int64_t number_in(const char *json, const char *pointer)
{
    struct json_object *object = parse(json), *found = member(object, pointer, json);

    if (!json_object_is_type(found, json_type_int))
        fail_msg("%s is no number in %.1500s", pointer, json);
    int64_t number = json_object_get_int64(found);
    json_object_put(object);
    return number;
}

const char *string_in(const char *json, const char *pointer)
{
    struct json_object *object = parse(json), *found = member(object, pointer, json);
    struct text *text = keep();

    if (!json_object_is_type(found, json_type_string))
        fail_msg("%s is no string in %.1500s", pointer, json);
    text_printf(text, "%s", json_object_get_string(found));
    json_object_put(object);
    return text->data;
}

const char *kind_in(const char *json, const char *pointer)
{
    struct json_object *object = parse(json), *found = NULL;
    const char *kind = "absent";

    if (json_pointer_get(object, pointer, &found) == 0)
        kind = json_type_to_name(json_object_get_type(found));
    json_object_put(object);
    return kind;
}

bool has_in(const char *json, const char *pointer) { return strcmp(kind_in(json, pointer), "absent") != 0; }

const char *raw_of(const struct client *client, const char *name)
{
    struct span raw = json_member(text_span(&client->answer.body), name);
    struct text *text = keep();

    text_add(text, raw.data, raw.size);
    return text->data;
}

/* ---- Events ---- */

size_t event_count(const struct client *client) { return text_count(&client->answer.body, "\n\n"); }

const char *event_data(const struct client *client, int n)
{
    const char *at = client->answer.body.data;
    size_t place = n >= 0 ? (size_t)n : event_count(client) - (size_t)-n;
    struct text *text = keep();

    for (size_t i = 0; i < place && at; i++) {
        at = strstr(at, "\n\n");
        at = at ? at + 2 : NULL;
    }
    at = at && *at ? strstr(at, "data: ") : NULL;
    if (!at)
        fail_msg("no event %d in %.1500s", n, client->answer.body.data);
    text_add(text, at + 6, strcspn(at + 6, "\n"));
    return text->data;
}

/* ---- KV ---- */

const char *replaced(const char *text, const char *part, const char *by)
{
    const char *at = strstr(text, part);
    struct text *made = keep();

    if (!at)
        fail_msg("no %s in %.1500s", part, text);
    text_printf(made, "%.*s%s%s", (int)(at - text), text, by, at + strlen(part));
    return made->data;
}

const char *turned(const struct client *prefill)
{
    const char *kv = raw_of(prefill, "kv_transfer_params");

    kv = replaced(kv, "\"do_remote_prefill\":true,", "");
    kv = replaced(kv, "\"do_remote_decode\":false,", "");
    return replaced(kv, "{", "{\"do_remote_decode\":false,\"do_remote_prefill\":true,");
}

const char *with_kv(const char *body, const char *kv)
{
    struct text *made = keep();

    text_printf(made, "%.*s,\"kv_transfer_params\":%s}", (int)strlen(body) - 1, body, kv);
    return made->data;
}
