/* `coordinator new-step NAME`: a folder with a plugin that builds, tests and runs, made of the templates. */
#include "cli/load.h"
#include "cli/templates.h"
#include "config/known.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_MAX_SIZE = 64 /* a type is its steps' default id */, PATH_ROOM = 4096 };

static const char stands_for_name[] = "my-step", stands_for_identifier[] = "my_step";

static const char *const kinds[] = {"step", "writer", "kv-connector", "ec-connector", NULL};

/* What is made. */
struct making {
    const char *name;
    const char *kind;
    char identifier[NAME_MAX_SIZE + 1];
    char folder[PATH_ROOM];
};

static bool is_kind(const char *kind)
{
    for (size_t i = 0; kinds[i]; i++)
        if (strcmp(kinds[i], kind) == 0)
            return true;
    return false;
}

static const char *provider_of(const struct registry *registry, const char *name)
{
    coord_slice wanted = coord_slice_of(name);
    const struct step_kind *step = registry_step(registry, wanted);
    const struct connector_kind *kv = registry_connector(registry, COORD_CONNECTOR_KV, wanted);
    const struct connector_kind *ec = registry_connector(registry, COORD_CONNECTOR_EC, wanted);

    return step ? step->plugin->file : kv ? kv->plugin->file : ec ? ec->plugin->file : NULL;
}

/* True when the name can be used; else why not is on standard error. */
static bool name_is_free(const struct arguments *arguments, const char *name)
{
    struct complaints complaints = {0};
    struct registry registry;
    const char *provider, *refusal = known_refusal("step type", coord_slice_of(name));
    bool is_free = load_types(&registry, arguments, false, &complaints);

    fprintf(stderr, "%.*s", COORD_FMT(buffer_slice(&complaints.text)));
    provider = is_free ? provider_of(&registry, name) : NULL;
    if (provider)
        fprintf(stderr, "coordinator: the name \"%s\" is taken: %s brings a type of that name\n", name, provider);
    else if (is_free && refusal)
        fprintf(stderr, "coordinator: \"%s\" %s\n", name, refusal);
    registry_release(&registry);
    complaints_release(&complaints);
    return is_free && !provider && !refusal;
}

static bool name_is_good(const char *name)
{
    if (registry_name_is_valid(name) && strlen(name) <= NAME_MAX_SIZE)
        return true;
    fprintf(
        stderr,
        "coordinator: \"%s\" is no name of a type: it begins with a letter from a to z, then come such letters, digits "
        "and \"-\", at most %d in all\n",
        name, NAME_MAX_SIZE);
    return false;
}

/* Names in C are made of it: one of the SDK's may be among them. */
static bool name_is_ours(const char *name)
{
    if (strcmp(name, "coord") != 0 && strncmp(name, "coord-", strlen("coord-")) != 0)
        return false;
    fprintf(stderr, "coordinator: \"%s\" begins as names of the SDK do: take one without \"coord\"\n", name);
    return true;
}

/* ---- Files ---- */

/* `text` with the names put in. */
static bool fill_in(const struct making *making, coord_slice text, struct buffer *out)
{
    const size_t size = sizeof stands_for_name - 1; /* of both */

    while (text.size > 0) {
        const char *insert = NULL;
        size_t step = 1;

        if (text.size >= size && memcmp(text.data, stands_for_name, size) == 0)
            insert = making->name;
        else if (text.size >= size && memcmp(text.data, stands_for_identifier, size) == 0)
            insert = making->identifier;
        if (insert)
            step = size;
        if (!(insert ? buffer_append_text(out, insert) : buffer_append(out, text.data, 1)))
            return false;
        text.data += step;
        text.size -= step;
    }
    return true;
}

/* A name that would hide the file from whoever reads the templates has lost its dot there. */
static bool path_of(const struct making *making, const struct template_file *file, struct buffer *path)
{
    const char *dot = strcmp(file->name, "gitignore") == 0 ? "." : "";

    return buffer_printf(path, "%s/%s", making->folder, dot) && fill_in(making, coord_slice_of(file->name), path) &&
           buffer_append(path, "", 1);
}

static bool belongs(const struct making *making, const struct template_file *file)
{
    return strcmp(file->folder, "common") == 0 || strcmp(file->folder, making->kind) == 0;
}

static bool write_file(const struct making *making, const struct template_file *file)
{
    struct buffer path = {0}, text = {0};
    FILE *out = NULL;
    bool written = false;

    if (path_of(making, file, &path) && fill_in(making, (coord_slice){(const char *)file->bytes, file->size}, &text) &&
        (out = fopen(path.data, "wxe")))
        written = fwrite(text.data, 1, text.size, out) == text.size;
    if (out && fclose(out) != 0)
        written = false;
    if (!written)
        fprintf(stderr, "coordinator: %s cannot be written: %s\n", path.data ? path.data : making->folder,
                strerror(errno));
    buffer_release(&path);
    buffer_release(&text);
    return written;
}

/* A folder that is not whole does not stay. */
static void remove_files(const struct making *making)
{
    for (const struct template_file *file = template_files; file->folder; file++) {
        struct buffer path = {0};

        if (belongs(making, file) && path_of(making, file, &path))
            unlink(path.data);
        buffer_release(&path);
    }
    rmdir(making->folder);
}

static int make(const struct making *making)
{
    if (mkdir(making->folder, 0777) != 0) {
        int code = errno == EEXIST ? 2 : 1;

        fprintf(stderr, "coordinator: the folder %s cannot be made: %s\n", making->folder,
                errno == EEXIST ? "there is something of that name already" : strerror(errno));
        return code;
    }
    for (const struct template_file *file = template_files; file->folder; file++) {
        if (!belongs(making, file) || write_file(making, file))
            continue;
        remove_files(making);
        return 1;
    }
    printf("%s: a %s that works. What next:\n\n"
           "    cd %s\n"
           "    cmake -B build && cmake --build build && ctest --test-dir build\n"
           "    coordinator check --config %s.yaml\n\n"
           "README.md there says more.\n",
           making->folder, making->kind, making->folder, making->name);
    return 0;
}

int cli_new_step(const struct arguments *arguments)
{
    struct making making = {.kind = arguments->kind ? arguments->kind : kinds[0]};

    if (arguments->rest_count != 1)
        return cli_misused("new-step");
    making.name = arguments->rest[0];
    if (!is_kind(making.kind)) {
        fprintf(stderr, "coordinator: there is no kind \"%s\"; kinds are step, writer, kv-connector, ec-connector\n",
                making.kind);
        return 2;
    }
    if (arguments->dir && !*arguments->dir) { /* a variable that is not set: not the root of all folders */
        fprintf(stderr, "coordinator: --dir names no folder\n");
        return 2;
    }
    if (!name_is_good(making.name) || name_is_ours(making.name) || !name_is_free(arguments, making.name))
        return 2;
    for (size_t i = 0; making.name[i]; i++)
        making.identifier[i] = (char)(making.name[i] == '-' ? '_' : making.name[i]);
    if ((size_t)snprintf(making.folder, sizeof making.folder, "%s%s%s", arguments->dir ? arguments->dir : "",
                         arguments->dir ? "/" : "", making.name) >= sizeof making.folder) {
        fprintf(stderr, "coordinator: the name of the folder is too long\n");
        return 2;
    }
    return make(&making);
}
