/* See loader.h. The note is read with libelf: a plugin for another major must not run its constructors, nor pull a second
 * core into the process. */
#include "pipeline/loader.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DESCRIPTOR_MINIMUM = offsetof(coord_plugin_descriptor, connectors) + sizeof(void *) };

/* Looks through one note section or segment for ours. */
static bool find_note(Elf_Data *data, coord_plugin_note *note)
{
    GElf_Nhdr header;
    size_t name, description, at = 0;

    while ((at = gelf_getnote(data, at, &header, &name, &description)) > 0)
        if (header.n_type == COORD_NOTE_TYPE && header.n_namesz == sizeof COORD_NOTE_NAME &&
            header.n_descsz >= sizeof *note &&
            memcmp((char *)data->d_buf + name, COORD_NOTE_NAME, sizeof COORD_NOTE_NAME) == 0) {
            memcpy(note, (char *)data->d_buf + description, sizeof *note);
            return true;
        }
    return false;
}

/* Notes are found by segment, so that a stripped file without section headers works too. */
static bool find_note_in(Elf *elf, coord_plugin_note *note)
{
    size_t count = 0;

    if (elf_getphdrnum(elf, &count) != 0)
        return false;
    for (size_t i = 0; i < count; i++) {
        GElf_Phdr segment;
        Elf_Data *data;

        if (!gelf_getphdr(elf, (int)i, &segment) || segment.p_type != PT_NOTE)
            continue;
        data = elf_getdata_rawchunk(elf, (int64_t)segment.p_offset, segment.p_filesz,
                                    segment.p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR);
        if (data && find_note(data, note))
            return true;
    }
    return false;
}

/* Whether all that is to be mapped is there: the dynamic linker would be killed by the rest of a file that is being copied. */
static bool is_whole(Elf *elf, int64_t size)
{
    size_t count = 0;

    if (size < 0 || elf_getphdrnum(elf, &count) != 0)
        return false;
    for (size_t i = 0; i < count; i++) {
        GElf_Phdr segment;
        uint64_t end;

        if (!gelf_getphdr(elf, (int)i, &segment))
            return false;
        if (segment.p_type == PT_LOAD &&
            (__builtin_add_overflow(segment.p_offset, segment.p_filesz, &end) || end > (uint64_t)size))
            return false;
    }
    return true;
}

static int native_class(void) { return sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32; }

static int native_machine(void)
{
#if defined(__x86_64__)
    return EM_X86_64;
#elif defined(__aarch64__)
    return EM_AARCH64;
#else
    return EM_NONE; /* not checked */
#endif
}

static coord_status check_elf(int fd, int64_t size, const char *file, coord_plugin_note *note, struct buffer *reason)
{
    coord_status status = COORD_OK;
    GElf_Ehdr header = {0};
    Elf *elf;

    elf_version(EV_CURRENT);
    elf = elf_begin(fd, ELF_C_READ, NULL);
    if (!elf || elf_kind(elf) != ELF_K_ELF || !gelf_getehdr(elf, &header))
        status =
            registry_refuse(reason, file, "not an ELF shared object; a plugin is built with -shared against the SDK");
    else if (header.e_ident[EI_CLASS] != native_class() ||
             (native_machine() != EM_NONE && header.e_machine != native_machine()))
        status = registry_refuse(reason, file, "built for another machine (%s-bit, machine %u); build it for this one",
                                 header.e_ident[EI_CLASS] == ELFCLASS32 ? "32" : "64", header.e_machine);
    else if (header.e_type != ET_DYN)
        status = registry_refuse(reason, file, "an ELF file, but not a shared object; link it with -shared");
    else if (!is_whole(elf, size))
        status = registry_refuse(reason, file,
                                 "cut short: a part of it is missing; copy it under another name, then rename it");
    else if (!find_note_in(elf, note))
        status = registry_refuse(
            reason, file, "not a coordinator plugin (it has no .note.coordinator); declare it with COORD_PLUGIN(…)");
    if (elf)
        elf_end(elf);
    return status;
}

static coord_status check_note(const coord_plugin_note *note, const char *file, struct buffer *reason)
{
    if (note->magic != COORD_PLUGIN_MAGIC)
        return registry_refuse(reason, file,
                               "not a coordinator plugin (magic %08x, expected %08x); declare it with COORD_PLUGIN(…)",
                               note->magic, COORD_PLUGIN_MAGIC);
    if (note->abi_major != COORD_ABI_MAJOR)
        return registry_refuse(reason, file,
                               "built for ABI major %u, this core has %u; rebuild it against this version's SDK",
                               note->abi_major, COORD_ABI_MAJOR);
    if (note->abi_minor > COORD_ABI_MINOR)
        return registry_refuse(
            reason, file,
            "needs ABI %u.%u, this core has %u.%u; use a newer core or build the plugin against the older SDK",
            note->abi_major, note->abi_minor, COORD_ABI_MAJOR, COORD_ABI_MINOR);
    if (note->descriptor_size < DESCRIPTOR_MINIMUM)
        return registry_refuse(
            reason, file,
            "its descriptor of %u bytes is smaller than ABI 1.0 allows (%d); declare it with COORD_PLUGIN(…)",
            note->descriptor_size, DESCRIPTOR_MINIMUM);
    return COORD_OK;
}

static coord_status check_file(const char *file, coord_plugin_note *note, struct buffer *reason)
{
    coord_status status;
    struct stat facts;
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a named pipe must not hold up the start */

    if (fd < 0)
        return registry_refuse(reason, file,
                               "cannot be opened: %s; check plugins.load, plugins.path and the file's mode",
                               strerror(errno));
    if (fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode))
        status = registry_refuse(reason, file, "is not a regular file; name the plugin's .so");
    else
        status = check_elf(fd, facts.st_size, file, note, reason);
    close(fd);
    return status == COORD_OK ? check_note(note, file, reason) : status;
}

/* The dynamic linker's words, made into a remedy for the commonest cause. */
static coord_status refuse_dlopen(const char *file, struct buffer *reason)
{
    const char *said = dlerror();

    if (said && strstr(said, "undefined symbol"))
        return registry_refuse(reason, file, "%s; link the library that has it, or rebuild against this version's SDK",
                               said);
    return registry_refuse(reason, file, "%s; install what it needs (ldd shows what is missing)",
                           said ? said : "dlopen failed");
}

static coord_status check_descriptor(const coord_plugin_descriptor *descriptor, const coord_plugin_note *note,
                                     const char *file, struct buffer *reason)
{
    if (descriptor->magic != COORD_PLUGIN_MAGIC || descriptor->size != note->descriptor_size ||
        descriptor->abi_major != note->abi_major || descriptor->abi_minor != note->abi_minor)
        return registry_refuse(
            reason, file,
            "its descriptor (ABI %u.%u, %u bytes) contradicts its note (ABI %u.%u, %u bytes); use one "
            "COORD_PLUGIN(…) and nothing by hand",
            descriptor->abi_major, descriptor->abi_minor, descriptor->size, note->abi_major, note->abi_minor,
            note->descriptor_size);
    return COORD_OK;
}

/* A file whose code was mapped by this process: for its life (RTLD_NODELETE). */
struct mapped {
    struct mapped *next;
    char *path;
    struct stat facts; /* when it was mapped */
    const coord_plugin_descriptor *descriptor;
};
static struct mapped *all_mapped;

static const struct mapped *find_mapped(const char *path)
{
    const struct mapped *mapped = all_mapped;

    while (mapped && strcmp(mapped->path, path) != 0)
        mapped = mapped->next;
    return mapped;
}

static void keep_mapped(const char *path, const coord_plugin_descriptor *descriptor)
{
    struct mapped *mapped = calloc(1, sizeof *mapped);

    if (mapped && stat(path, &mapped->facts) == 0 && (mapped->path = strdup(path))) {
        mapped->descriptor = descriptor;
        mapped->next = all_mapped;
        all_mapped = mapped;
        return;
    }
    free(mapped); /* it is mapped and looked at again the next time */
}

bool loader_file_changed(const char *file)
{
    const struct mapped *mapped = find_mapped(file);
    struct stat now;

    return mapped && stat(file, &now) == 0 &&
           (now.st_dev != mapped->facts.st_dev || now.st_ino != mapped->facts.st_ino ||
            now.st_size != mapped->facts.st_size || now.st_mtim.tv_sec != mapped->facts.st_mtim.tv_sec ||
            now.st_mtim.tv_nsec != mapped->facts.st_mtim.tv_nsec);
}

/* What could not be opened under that name: a relative one may be meant from elsewhere. */
static coord_status refuse_missing(const char *file, struct buffer *reason)
{
    const char *why = strerror(errno);
    char *here = *file == '/' ? NULL : getcwd(NULL, 0);
    coord_status status =
        registry_refuse(reason, file,
                        here ? "cannot be opened: %s; relative paths count from the working directory (here: %s)"
                             : "cannot be opened: %s; check plugins.load and plugins.path",
                        why, here);

    free(here);
    return status;
}

coord_status loader_load(struct registry *registry, const char *file, struct buffer *reason)
{
    char *path = realpath(file, NULL);
    const struct mapped *mapped;
    coord_plugin_note note;
    const coord_plugin_descriptor *descriptor;
    void *handle;
    coord_status status;

    if (!path)
        return refuse_missing(file, reason);
    for (const struct plugin *plugin = registry->plugins; plugin; plugin = plugin->next)
        if (strcmp(plugin->file, path) == 0) {
            free(path);
            return COORD_OK;
        }
    mapped = find_mapped(path);
    if (mapped) {
        status = registry_add(registry, path, mapped->descriptor, reason);
        goto out;
    }
    status = check_file(path, &note, reason);
    if (status != COORD_OK)
        goto out;
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!handle) {
        status = refuse_dlopen(path, reason);
        goto out;
    }
    descriptor = dlsym(handle, "coord_plugin");
    if (!descriptor)
        status = registry_refuse(
            reason, path, "has a note but no symbol coord_plugin; declare it with COORD_PLUGIN(…) and export it");
    else
        status = check_descriptor(descriptor, &note, path, reason);
    if (status == COORD_OK) {
        keep_mapped(path, descriptor);
        status = registry_add(registry, path, descriptor, reason);
    }
    dlclose(handle); /* the code stays mapped: RTLD_NODELETE */
out:
    free(path);
    return status;
}

static int ends_in_so(const struct dirent *entry)
{
    size_t size = strlen(entry->d_name);

    return size > 3 && strcmp(entry->d_name + size - 3, ".so") == 0;
}

static void load_file(struct registry *registry, const char *file, struct position at, struct complaints *complaints)
{
    struct buffer reason = {.limit = 4096};

    if (loader_load(registry, file, &reason) != COORD_OK)
        complain(complaints, COMPLAINT_ERROR, at, "%.*s", COORD_FMT(buffer_slice(&reason)));
    buffer_release(&reason);
}

static void refuse_folder(const char *folder, struct position at, struct complaints *complaints)
{
    const char *why = strerror(errno);
    char *here = *folder == '/' ? NULL : getcwd(NULL, 0);

    complain(complaints, COMPLAINT_ERROR, at, "plugin folder %s: %s; correct plugins.path or create it%s%s%s", folder,
             why, here ? ": relative paths count from the working directory (here: " : "", here ? here : "",
             here ? ")" : "");
    free(here);
}

/* A folder that the operator named must exist; the default one may be missing. */
static void load_folder(struct registry *registry, const char *folder, bool must_exist, struct position at,
                        struct complaints *complaints)
{
    struct dirent **names = NULL;
    int count = scandir(folder, &names, ends_in_so, alphasort);

    if (count < 0 && (must_exist || errno != ENOENT))
        refuse_folder(folder, at, complaints);
    for (int i = 0; i < count; i++) {
        struct buffer file = {0};

        if (buffer_printf(&file, "%s/%s", folder, names[i]->d_name))
            load_file(registry, file.data, at, complaints);
        else
            complain(complaints, COMPLAINT_ERROR, at, "%s/%s: memory is short", folder, names[i]->d_name);
        buffer_release(&file);
        free(names[i]);
    }
    free(names);
}

static void load_search_path(struct registry *registry, const char *search, struct complaints *complaints)
{
    static const struct position at = {"COORDINATOR_PLUGIN_PATH", 0, 0};
    char *copy = strdup(search), *rest = copy;

    for (char *folder; copy && (folder = strsep(&rest, ":"));)
        if (*folder)
            load_folder(registry, folder, true, at, complaints);
    free(copy);
}

/* Beside this library: LIBDIR/coordinator/plugins when installed, ../plugins in a build tree. */
static void load_default_folder(struct registry *registry, struct position at, struct complaints *complaints)
{
    static const char *const places[] = {"coordinator/plugins", "../plugins"};
    Dl_info where;
    const char *slash;

    if (!dladdr((void *)(uintptr_t)loader_load_all, &where) || !(slash = strrchr(where.dli_fname, '/')))
        return;
    for (size_t i = 0; i < sizeof places / sizeof *places && !registry->plugins; i++) {
        struct buffer folder = {0};

        if (buffer_printf(&folder, "%.*s/%s", (int)(slash - where.dli_fname), where.dli_fname, places[i]))
            load_folder(registry, folder.data, false, at, complaints);
        buffer_release(&folder);
    }
}

/* Where entry `index` of that key of `plugins` stands. */
static struct position place_of(const struct settings *settings, const char *key, size_t index)
{
    const struct node *node = node_get(node_get(settings->root, "plugins"), key);

    if (!node)
        return (struct position){.file = "plugins"};
    return node->kind == NODE_LIST && index < node->count ? node->items[index]->at : node->at;
}

bool loader_load_all(struct registry *registry, const struct settings *settings, const char *search,
                     struct complaints *complaints)
{
    unsigned before = complaints->errors;

    if (search && *search)
        load_search_path(registry, search, complaints);
    for (size_t i = 0; i < settings->plugins.path_count; i++)
        load_folder(registry, settings->plugins.path[i].data, true, place_of(settings, "path", i), complaints);
    if (settings->plugins.path_count == 0 && !(search && *search))
        load_default_folder(registry, (struct position){.file = "plugins"}, complaints);
    for (size_t i = 0; i < settings->plugins.load_count; i++)
        load_file(registry, settings->plugins.load[i].data, place_of(settings, "load", i), complaints);
    registry->incomplete = complaints->errors > before;
    return !registry->incomplete;
}
