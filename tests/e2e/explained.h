/* Running `coordinator explain`, and looking into what it says: for the tests of it. */
#ifndef E2E_EXPLAINED_H
#define E2E_EXPLAINED_H

#include "harness.h"

#include <json-c/json.h>
#include <unistd.h>

static char folder[] = "/tmp/e2e-explain-XXXXXX";

static inline const char *in_folder(const char *name)
{
    static struct {
        const char *name;
        char path[128];
    } files[] = {{"request.json", ""}, {"answers.yaml", ""}, {"c.yaml", ""}, {"long", ""}};

    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (strcmp(files[i].name, name) == 0) {
            snprintf(files[i].path, sizeof files[i].path, "%s/%s", folder, name);
            return files[i].path;
        }
    fail_msg("no file %s", name);
    return NULL;
}

/* ---- Running it ---- */

struct run {
    int code;
    struct text output; /* standard output, then errors */
    json_object *json;  /* with --json */
};

enum { MAX_ARGUMENTS = 32 };

/* `more`: further arguments, NULL-terminated, or NULL. Ended by run_end. */
static inline struct run explain(const char *config, const char *request, const char *const *more,
                                 const char *const *environment)
{
    const char *arguments[MAX_ARGUMENTS] = {coordinator_program(),    "explain", "--config", config, "--request",
                                            in_folder("request.json")};
    size_t count = 6;
    struct run run = {0};

    file_write(in_folder("request.json"), request);
    for (; more && *more && count < MAX_ARGUMENTS - 1; more++)
        arguments[count++] = *more;
    run.code = run_program(arguments, environment, &run.output);
    run.json = json_tokener_parse(run.output.data ? run.output.data : "");
    return run;
}

static inline void run_end(struct run *run)
{
    json_object_put(run->json);
    text_free(&run->output);
}

#define JSON ((const char *const[]){"--json", NULL})

static inline json_object *member(json_object *object, const char *name)
{
    json_object *found = NULL;

    if (!json_object_object_get_ex(object, name, &found))
        fail_msg("no \"%s\" in %s", name, json_object_to_json_string(object));
    return found;
}

static inline const char *text_of(json_object *object, const char *name)
{
    return json_object_get_string(member(object, name));
}

static inline json_object *step_of(const struct run *run, const char *id)
{
    json_object *steps;

    if (!run->json)
        fail_msg("no JSON: %s", run->output.data);
    steps = member(run->json, "steps");
    for (size_t i = 0; i < json_object_array_length(steps); i++)
        if (strcmp(text_of(json_object_array_get_idx(steps, i), "id"), id) == 0)
            return json_object_array_get_idx(steps, i);
    fail_msg("no step %s in %s", id, run->output.data);
    return NULL;
}

static inline json_object *leg_of(const struct run *run, const char *id, size_t n)
{
    json_object *legs = member(step_of(run, id), "legs");

    if (n >= json_object_array_length(legs))
        fail_msg("step %s sent %zu legs: %s", id, json_object_array_length(legs), run->output.data);
    return json_object_array_get_idx(legs, n);
}

static inline size_t leg_count(const struct run *run, const char *id)
{
    return json_object_array_length(member(step_of(run, id), "legs"));
}

static inline bool spliced(json_object *leg, const char *pointer)
{
    json_object *list = member(leg, "spliced");

    for (size_t i = 0; i < json_object_array_length(list); i++)
        if (strcmp(json_object_get_string(json_object_array_get_idx(list, i)), pointer) == 0)
            return true;
    return false;
}

/* A configuration of its own, in a file. `@` is the folder of test plugins. */
static inline const char *configure(const char *yaml)
{
    struct text text = {0};

    for (const char *at = yaml; *at; at++)
        if (*at == '@')
            text_printf(&text, "%s", test_plugin_folder());
        else
            text_add(&text, at, 1);
    file_write(in_folder("c.yaml"), text.data);
    text_free(&text);
    return in_folder("c.yaml");
}

#define GATEWAY "gateway: {address: \"http://nobody.invalid:81\"}\n"
#define PLUGIN "plugins: {load: [\"@/rehearsed.so\", \"@/misbehaving.so\"]}\n"
#define RENDER "    - {type: render, params: {address: \"http://render.invalid\"}}\n"

static inline int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static inline int remove_files(void **state)
{
    static const char *const names[] = {"request.json", "answers.yaml", "c.yaml"};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(in_folder(names[i]));
    return rmdir(folder);
}

#endif
