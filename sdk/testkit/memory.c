/* See memory.h. One table of blocks behind a lock; the wrappers are the only ones who write to it. */
#include "memory.h"

#include "import_tables.h"
#include "kit.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { BUCKETS = 4096 };

struct block {
    struct block *next;
    void *memory;
    size_t size, number;
    const void *caller;
    struct coord_kit_running who;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *blocks[BUCKETS];
static size_t taken;
static const coord_kit_options *ours;
/* Shared with the processes in which an allocation fails. */
static struct failing {
    unsigned long in; /* so many allocations on; 0: none does */
    bool failed;
    struct coord_kit_running who;
    const void *caller;
} *failing;
static const void *library; /* where the coordinator's is loaded */
static _Thread_local unsigned muted;

void kit_memory_mute(bool on) { muted += on ? 1U : -1U; }

/* ---- Whose ---- */

static bool is_listed(const char *const *files, const char *file)
{
    char a[PATH_MAX], b[PATH_MAX];

    for (; files && *files; files++)
        if (strcmp(*files, file) == 0 || (realpath(*files, a) && realpath(file, b) && strcmp(a, b) == 0))
            return true;
    return false;
}

bool kit_memory_is_ours(const coord_kit_options *options, const struct coord_kit_running *who)
{
    if (strchr(who->plugin, '/'))
        return is_listed(options->plugin_files, who->plugin);
    for (const coord_plugin_descriptor *const *plugin = options->plugins; plugin && *plugin; plugin++)
        if (strcmp((*plugin)->name, who->plugin) == 0)
            return true;
    return options->writer && strcmp(who->plugin, "kit-writer") == 0;
}

static bool asks_for_a_step(struct coord_kit_running *who)
{
    bool yes;

    if (muted > 0)
        return false;
    kit_memory_mute(true);
    yes = coord_kit_host_running(who) && kit_memory_is_ours(ours, who);
    kit_memory_mute(false);
    return yes;
}

/* Where the plugin files are. */
static struct region {
    uintptr_t from, to;
    const char *file;
} regions[MAX_PLUGINS];
static size_t region_count;

/* A thread of the plugin's own asks: nobody is noted for it. */
static bool asks_for_a_thread(const void *caller, struct coord_kit_running *who)
{
    for (size_t i = 0; muted == 0 && i < region_count; i++)
        if ((uintptr_t)caller >= regions[i].from && (uintptr_t)caller < regions[i].to) {
            *who = (struct coord_kit_running){.step = "a thread of its own"};
            strncpy(who->plugin, regions[i].file, sizeof who->plugin - 1);
            return true;
        }
    return false;
}

/* The library's own code asks on behalf of a step: that may fail, and is never kept for it. */
static bool is_librarys(const void *caller)
{
    Dl_info asking;

    return dladdr(caller, &asking) && asking.dli_fbase == library;
}

/* ---- The table ---- */

static struct block **bucket_of(const void *memory) { return &blocks[((uintptr_t)memory >> 4) % BUCKETS]; }

static void *note(void *memory, size_t size, const void *caller)
{
    struct coord_kit_running who;
    struct block *block;

    if (!memory || !(asks_for_a_step(&who) ? !is_librarys(caller) : asks_for_a_thread(caller, &who)))
        return memory;
    block = mmap(NULL, sizeof *block, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); /* no allocator's */
    if (block == MAP_FAILED)
        abort();
    pthread_mutex_lock(&lock);
    *block = (struct block){*bucket_of(memory), memory, size, taken++, caller, who};
    *bucket_of(memory) = block;
    pthread_mutex_unlock(&lock);
    return memory;
}

/* Before it is freed: afterwards another thread may get it. */
static void forget(const void *memory)
{
    struct block *block = NULL;

    if (!memory)
        return;
    pthread_mutex_lock(&lock);
    for (struct block **link = bucket_of(memory); *link; link = &(*link)->next)
        if ((*link)->memory == memory) {
            block = *link;
            *link = block->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    if (block)
        munmap(block, sizeof *block);
}

struct memory_total kit_memory_kept(bool for_requests)
{
    struct memory_total total = {0};
    size_t oldest = SIZE_MAX;

    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < BUCKETS; i++)
        for (const struct block *block = blocks[i]; block; block = block->next) {
            if ((block->who.request[0] != '\0') != for_requests)
                continue;
            total.blocks++;
            total.bytes += block->size;
            if (block->number < oldest) {
                oldest = block->number;
                total.first = block->who;
                total.caller = block->caller;
            }
        }
    pthread_mutex_unlock(&lock);
    return total;
}

bool kit_memory_holds(const void *memory, struct coord_kit_running *who)
{
    const struct block *block;

    pthread_mutex_lock(&lock);
    for (block = *bucket_of(memory); block && block->memory != memory;)
        block = block->next;
    if (block)
        *who = block->who;
    pthread_mutex_unlock(&lock);
    return block != NULL;
}

/* ---- Failing ---- */

void kit_memory_fail(unsigned long n)
{
    pthread_mutex_lock(&lock);
    failing->in = n;
    failing->failed = n == 0 && failing->failed;
    pthread_mutex_unlock(&lock);
}

bool kit_memory_failed(struct coord_kit_running *who, const void **caller)
{
    bool failed;

    pthread_mutex_lock(&lock);
    failed = failing->failed;
    *who = failing->who;
    *caller = failing->caller;
    pthread_mutex_unlock(&lock);
    return failed;
}

static bool fails(const void *caller)
{
    struct coord_kit_running who;
    bool now = false;

    if (!asks_for_a_step(&who))
        return false;
    pthread_mutex_lock(&lock);
    if (failing->in > 0 && --failing->in == 0) {
        now = failing->failed = true;
        failing->who = who;
        failing->caller = caller;
    }
    pthread_mutex_unlock(&lock);
    if (now)
        errno = ENOMEM;
    return now;
}

/* Of the coordinator's own allocators. */
static bool refuses(void) { return fails(NULL); }

/* ---- The wrappers ---- */

#define CALLER __builtin_return_address(0)

/* The functions themselves: by their names, this program would come here again. */
static struct {
    void *(*malloc)(size_t size);
    void *(*calloc)(size_t count, size_t size);
    void *(*realloc)(void *memory, size_t size);
    void (*free)(void *memory);
    char *(*strdup)(const char *text);
    char *(*strndup)(const char *text, size_t size);
    int (*vasprintf)(char **out, const char *format, va_list arguments);
    void *(*aligned_alloc)(size_t alignment, size_t size);
    int (*posix_memalign)(void **out, size_t alignment, size_t size);
} real;

static void *our_malloc(size_t size) { return fails(CALLER) ? NULL : note(real.malloc(size), size, CALLER); }

static void *our_calloc(size_t count, size_t size)
{
    return fails(CALLER) ? NULL : note(real.calloc(count, size), count * size, CALLER);
}

static void *resize(void *memory, size_t size, const void *caller)
{
    void *resized;

    if (fails(caller))
        return NULL;
    resized = real.realloc(memory, size);
    if (resized || size == 0)
        forget(memory);
    return note(resized, size, caller);
}

static void *our_realloc(void *memory, size_t size) { return resize(memory, size, CALLER); }

static void *our_reallocarray(void *memory, size_t count, size_t size)
{
    return size > 0 && count > SIZE_MAX / size ? NULL : resize(memory, count * size, CALLER);
}

static void our_free(void *memory)
{
    forget(memory);
    real.free(memory);
}

static char *our_strdup(const char *text)
{
    return fails(CALLER) ? NULL : note(real.strdup(text), strlen(text) + 1, CALLER);
}

static char *our_strndup(const char *text, size_t size)
{
    return fails(CALLER) ? NULL : note(real.strndup(text, size), strnlen(text, size) + 1, CALLER);
}

static int print(char **out, const char *format, va_list arguments, const void *caller)
{
    int size = fails(caller) ? -1 : real.vasprintf(out, format, arguments);

    if (size >= 0)
        note(*out, (size_t)size + 1, caller);
    return size;
}

static int our_vasprintf(char **out, const char *format, va_list arguments)
{
    return print(out, format, arguments, CALLER);
}

static int our_asprintf(char **out, const char *format, ...)
{
    va_list arguments;
    int size;

    va_start(arguments, format);
    size = print(out, format, arguments, CALLER);
    va_end(arguments);
    return size;
}

/* As the C library calls them in builds with _FORTIFY_SOURCE. */
static int our_vasprintf_checked(char **out, int flag, const char *format, va_list arguments)
{
    (void)flag;
    return print(out, format, arguments, CALLER);
}

static int our_asprintf_checked(char **out, int flag, const char *format, ...)
{
    va_list arguments;
    int size;

    (void)flag;
    va_start(arguments, format);
    size = print(out, format, arguments, CALLER);
    va_end(arguments);
    return size;
}

static void *our_aligned_alloc(size_t alignment, size_t size)
{
    return fails(CALLER) ? NULL : note(real.aligned_alloc(alignment, size), size, CALLER);
}

static int our_posix_memalign(void **out, size_t alignment, size_t size)
{
    int error = fails(CALLER) ? ENOMEM : real.posix_memalign(out, alignment, size);

    if (error == 0)
        note(*out, size, CALLER);
    return error;
}

/* C++'s new cannot say that it failed but by an exception, so it does not. */
static void *our_new(size_t size)
{
    void *memory = real.malloc(size ? size : 1);

    if (!memory)
        abort();
    return note(memory, size, CALLER);
}

static void our_delete(void *memory) { our_free(memory); }

static void our_sized_delete(void *memory, size_t size)
{
    (void)size;
    our_free(memory);
}

static const struct import WRAPPERS[] = {
    {"malloc", (any_function *)our_malloc},
    {"calloc", (any_function *)our_calloc},
    {"realloc", (any_function *)our_realloc},
    {"reallocarray", (any_function *)our_reallocarray},
    {"free", (any_function *)our_free},
    {"strdup", (any_function *)our_strdup},
    {"__strdup", (any_function *)our_strdup},
    {"strndup", (any_function *)our_strndup},
    {"__strndup", (any_function *)our_strndup},
    {"asprintf", (any_function *)our_asprintf},
    {"vasprintf", (any_function *)our_vasprintf},
    {"__asprintf_chk", (any_function *)our_asprintf_checked},
    {"__vasprintf_chk", (any_function *)our_vasprintf_checked},
    {"aligned_alloc", (any_function *)our_aligned_alloc},
    {"posix_memalign", (any_function *)our_posix_memalign},
    {"_Znwm", (any_function *)our_new},
    {"_Znam", (any_function *)our_new},
    {"_ZdlPv", (any_function *)our_delete},
    {"_ZdaPv", (any_function *)our_delete},
    {"_ZdlPvm", (any_function *)our_sized_delete},
    {"_ZdaPvm", (any_function *)our_sized_delete},
};

/* ---- The wrappers come and go ---- */

static void note_region(const struct dl_phdr_info *object)
{
    struct region *region = &regions[region_count];

    if (region_count == MAX_PLUGINS)
        return;
    *region = (struct region){UINTPTR_MAX, 0, object->dlpi_name};
    for (size_t i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        uintptr_t from = object->dlpi_addr + part->p_vaddr;

        if (part->p_type != PT_LOAD)
            continue;
        region->from = from < region->from ? from : region->from;
        region->to = from + part->p_memsz > region->to ? from + part->p_memsz : region->to;
    }
    region_count++;
}

static int look_at(struct dl_phdr_info *object, size_t size, void *unused)
{
    bool plugin = is_listed(ours->plugin_files, object->dlpi_name);

    (void)size;
    (void)unused;
    if (plugin)
        note_region(object);
    if (plugin || object->dlpi_name[0] == '\0' || strstr(object->dlpi_name, "/libcoordinator.so"))
        kit_import_tables_change(object, WRAPPERS, sizeof WRAPPERS / sizeof *WRAPPERS);
    return 0;
}

static bool find_real(void *place, const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);

    memcpy(place, &found, sizeof found);
    return found != NULL;
}

static bool find_all(void)
{
    Dl_info info;
    void *function;

    if (!find_real(&function, "coord_kit_host_port") || !dladdr(function, &info))
        return false;
    library = info.dli_fbase;
    return find_real(&real.malloc, "malloc") && find_real(&real.calloc, "calloc") &&
           find_real(&real.realloc, "realloc") && find_real(&real.free, "free") && find_real(&real.strdup, "strdup") &&
           find_real(&real.strndup, "strndup") && find_real(&real.vasprintf, "vasprintf") &&
           find_real(&real.aligned_alloc, "aligned_alloc") && find_real(&real.posix_memalign, "posix_memalign");
}

bool kit_memory_watch(const coord_kit_options *options)
{
    if (!kit_import_tables_known() || !find_all())
        return false;
    failing = mmap(NULL, sizeof *failing, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (failing == MAP_FAILED)
        return false;
    ours = options;
    /* Before their types are read: those may name `free`. The coordinator says what is wrong with one that does not load. */
    for (const char *const *file = options->plugin_files; file && *file; file++)
        (void)dlopen(*file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    dl_iterate_phdr(look_at, NULL);
    coord_kit_host_refuse(refuses);
    return kit_import_tables_changed();
}

void kit_memory_unwatch(void)
{
    coord_kit_host_refuse(NULL);
    kit_import_tables_restore();
    if (failing && failing != MAP_FAILED)
        munmap(failing, sizeof *failing);
    failing = NULL;
    taken = 0;
    region_count = 0;
    for (size_t i = 0; i < BUCKETS; i++)
        while (blocks[i]) {
            struct block *block = blocks[i];

            blocks[i] = block->next;
            munmap(block, sizeof *block);
        }
}

const char *kit_memory_place(const void *caller)
{
    static char place[1200];
    Dl_info info;

    if (!caller)
        snprintf(place, sizeof place, "a function of the coordinator's");
    else if (!dladdr(caller, &info))
        snprintf(place, sizeof place, "unknown code");
    else if (info.dli_sname)
        snprintf(place, sizeof place, "%s of %s", info.dli_sname, info.dli_fname);
    else
        snprintf(place, sizeof place, "%s+0x%zx", info.dli_fname,
                 (size_t)((const char *)caller - (const char *)info.dli_fbase));
    return place;
}
