/* See imports.h. */
#include "pipeline/imports.h"

#include <fcntl.h>
#include <gelf.h>
#include <unistd.h>

static bool is_any(const char *name, const char *const *symbols)
{
    for (; name && *symbols; symbols++)
        if (strcmp(name, *symbols) == 0)
            return true;
    return false;
}

static enum imports look_through(Elf *elf, Elf_Scn *section, const GElf_Shdr *header, const char *const *symbols)
{
    Elf_Data *data = elf_getdata(section, NULL);
    size_t count = header->sh_entsize > 0 ? header->sh_size / header->sh_entsize : 0;

    if (!data)
        return IMPORTS_UNKNOWN;
    for (size_t i = 0; i < count; i++) {
        GElf_Sym symbol;

        if (gelf_getsym(data, (int)i, &symbol) && symbol.st_shndx == SHN_UNDEF &&
            is_any(elf_strptr(elf, header->sh_link, symbol.st_name), symbols))
            return IMPORTS_SOME;
    }
    return IMPORTS_NONE;
}

static enum imports look_in(Elf *elf, const char *const *symbols)
{
    for (Elf_Scn *section = NULL; elf && (section = elf_nextscn(elf, section));) {
        GElf_Shdr header;

        if (gelf_getshdr(section, &header) && header.sh_type == SHT_DYNSYM)
            return look_through(elf, section, &header, symbols);
    }
    return IMPORTS_UNKNOWN;
}

enum imports imports_any(const char *file, const char *const *symbols)
{
    int fd = *file ? open(file, O_RDONLY | O_CLOEXEC) : -1;
    enum imports found;
    Elf *elf;

    if (fd < 0)
        return IMPORTS_UNKNOWN;
    elf_version(EV_CURRENT);
    elf = elf_begin(fd, ELF_C_READ, NULL);
    found = look_in(elf, symbols);
    if (elf)
        elf_end(elf);
    close(fd);
    return found;
}
