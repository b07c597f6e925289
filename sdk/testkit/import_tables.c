/* See import_tables.h. Every place that was changed is noted with what it held. */
#include "import_tables.h"

#include <elf.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
enum { RELOC_CALL = R_X86_64_JUMP_SLOT, RELOC_ADDRESS = R_X86_64_GLOB_DAT, RELOC_DATA = R_X86_64_64 };
#elif defined(__aarch64__)
enum { RELOC_CALL = R_AARCH64_JUMP_SLOT, RELOC_ADDRESS = R_AARCH64_GLOB_DAT, RELOC_DATA = R_AARCH64_ABS64 };
#else
enum { RELOC_CALL = -1, RELOC_ADDRESS = -1, RELOC_DATA = -1 };
#endif

enum { MAX_PATCHES = 512 };

/* Places that have been changed, and what they held. */
static struct patch {
    void **place, *held;
} patches[MAX_PATCHES];
static size_t patch_count;

/* What one object says of its imports, and what is wanted of them. */
struct tables {
    const ElfW(Rela) * calls, *others;
    size_t call_size, other_size;
    const ElfW(Sym) * symbols;
    const char *names;
    const struct import *imports;
    size_t import_count;
};

static void *found_in(const struct tables *tables, const char *name)
{
    void *found = NULL;

    for (size_t i = 0; i < tables->import_count; i++)
        if (strcmp(tables->imports[i].name, name) == 0)
            memcpy(&found, &tables->imports[i].ours, sizeof found);
    return found;
}

static bool make_writable(void **place)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = (uintptr_t)place & ~(page - 1), to = ((uintptr_t)(place + 1) + page - 1) & ~(page - 1);

    return mprotect((void *)from, to - from, PROT_READ | PROT_WRITE) == 0;
}

static void patch(void **place, void *with)
{
    if (patch_count == MAX_PATCHES || !make_writable(place))
        return;
    patches[patch_count++] = (struct patch){place, *place};
    *place = with;
}

static void patch_table(const struct dl_phdr_info *object, const struct tables *tables, const ElfW(Rela) * table,
                        size_t size)
{
    for (size_t i = 0; table && i < size / sizeof *table; i++) {
        int type = (int)ELF64_R_TYPE(table[i].r_info);
        const ElfW(Sym) *symbol = &tables->symbols[ELF64_R_SYM(table[i].r_info)];
        void *with;

        if (type != RELOC_CALL && type != RELOC_ADDRESS && type != RELOC_DATA)
            continue;
        with = found_in(tables, tables->names + symbol->st_name);
        if (with)
            patch((void **)(object->dlpi_addr + table[i].r_offset), with);
    }
}

bool kit_import_tables_known(void) { return RELOC_CALL >= 0; }

void kit_import_tables_change(const struct dl_phdr_info *object, const struct import *imports, size_t count)
{
    struct tables tables = {.imports = imports, .import_count = count};
    const ElfW(Dyn) *entry = NULL;

    for (size_t i = 0; i < object->dlpi_phnum; i++)
        if (object->dlpi_phdr[i].p_type == PT_DYNAMIC)
            entry = (const ElfW(Dyn) *)(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr);
    for (; entry && entry->d_tag != DT_NULL; entry++)
        switch (entry->d_tag) {
        case DT_JMPREL:
            tables.calls = (const ElfW(Rela) *)entry->d_un.d_ptr;
            break;
        case DT_PLTRELSZ:
            tables.call_size = entry->d_un.d_val;
            break;
        case DT_RELA:
            tables.others = (const ElfW(Rela) *)entry->d_un.d_ptr;
            break;
        case DT_RELASZ:
            tables.other_size = entry->d_un.d_val;
            break;
        case DT_SYMTAB:
            tables.symbols = (const ElfW(Sym) *)entry->d_un.d_ptr;
            break;
        case DT_STRTAB:
            tables.names = (const char *)entry->d_un.d_ptr;
            break;
        default:
            break;
        }
    if (!tables.symbols || !tables.names)
        return;
    patch_table(object, &tables, tables.calls, tables.call_size);
    patch_table(object, &tables, tables.others, tables.other_size);
}

bool kit_import_tables_changed(void) { return patch_count > 0; }

void kit_import_tables_restore(void)
{
    while (patch_count > 0) {
        patch_count--;
        *patches[patch_count].place = patches[patch_count].held;
    }
}
