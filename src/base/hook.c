#include "base/hook.h"

#include <dlfcn.h>
#include <elf.h>
#include <inttypes.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if UINTPTR_MAX == UINT64_MAX
#define SYMBOL_OF(info) ELF64_R_SYM(info)
#else
#define SYMBOL_OF(info) ELF32_R_SYM(info)
#endif

/* What is needed of an object's dynamic section. */
struct tables {
    const struct link_map *map;
    const ElfW(Sym) * symbols;
    const char *names;
    struct {
        const ElfW(Rela) * first;
        size_t bytes;
    } relocations[2]; /* of calls that are bound late, and all others */
};

/* glibc has made the addresses in the dynamic section absolute; other linkers leave them. */
static const void *address_in(const struct link_map *map, const ElfW(Dyn) * entry) {
    uintptr_t at = entry->d_un.d_ptr;
    return (const void *)(at < map->l_addr ? map->l_addr + at : at); /* NOLINT: it is an address */
}

static bool read_tables(const struct link_map *map, struct tables *tables) {
    *tables = (struct tables){.map = map};
    for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++)
        switch (entry->d_tag) {
        case DT_SYMTAB:
            tables->symbols = address_in(map, entry);
            break;
        case DT_STRTAB:
            tables->names = address_in(map, entry);
            break;
        case DT_JMPREL:
            tables->relocations[0].first = address_in(map, entry);
            break;
        case DT_PLTRELSZ:
            tables->relocations[0].bytes = entry->d_un.d_val;
            break;
        case DT_RELA:
            tables->relocations[1].first = address_in(map, entry);
            break;
        case DT_RELASZ:
            tables->relocations[1].bytes = entry->d_un.d_val;
            break;
        case DT_REL: /* another form of entries: of 32-bit machines */
            return false;
        default:
            break;
        }
    return tables->symbols != NULL && tables->names != NULL;
}

static void **find_slot(const struct tables *tables, const char *symbol) {
    for (int t = 0; t < 2; t++) {
        const ElfW(Rela) *first = tables->relocations[t].first;
        size_t n = first == NULL ? 0 : tables->relocations[t].bytes / sizeof(*first);
        for (size_t i = 0; i < n; i++) {
            const ElfW(Sym) *named = &tables->symbols[SYMBOL_OF(first[i].r_info)];
            if (SYMBOL_OF(first[i].r_info) != 0 && first[i].r_addend == 0 &&
                strcmp(tables->names + named->st_name, symbol) == 0)
                return (void **)(tables->map->l_addr + first[i].r_offset); /* NOLINT: likewise */
        }
    }
    return NULL;
}

/* How the page is protected now; -1: not known. */
static int protection_of(const void *address) {
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512], mode[5];
    int protection = -1;
    if (maps == NULL)
        return -1;
    while (protection < 0 && fgets(line, sizeof(line), maps) != NULL) {
        uintptr_t begin, end;
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &begin, &end, mode) == 3 &&
            begin <= (uintptr_t)address && (uintptr_t)address < end)
            protection = (mode[0] == 'r' ? PROT_READ : 0) | (mode[1] == 'w' ? PROT_WRITE : 0) |
                         (mode[2] == 'x' ? PROT_EXEC : 0);
    }
    fclose(maps);
    return protection;
}

/* The linker may have made the table read-only when it was through with it. */
static bool write_slot(void **slot, void *value) {
    uintptr_t size = (uintptr_t)sysconf(_SC_PAGESIZE);
    void *page = (void *)((uintptr_t)slot / size * size); /* NOLINT: likewise */
    int protection = protection_of(slot);
    if (protection < 0 ||
        (!(protection & PROT_WRITE) && mprotect(page, size, protection | PROT_WRITE) != 0))
        return false;
    atomic_store((void *_Atomic *)slot, value);
    if (!(protection & PROT_WRITE))
        (void)mprotect(page, size, protection);
    return true;
}

bool tug_hook_place(struct tug_hook *hook, const void *inside, const char *symbol,
                    void *replacement) {
    Dl_info info;
    struct link_map *map;
    struct tables tables;
    if (inside == NULL || dladdr1(inside, &info, (void **)&map, RTLD_DL_LINKMAP) == 0 ||
        !read_tables(map, &tables))
        return false;
    void **slot = find_slot(&tables, symbol);
    if (slot == NULL)
        return false;
    /* bound late, the slot leads to the linker until the first call: the function itself is asked
     * for in the object's own scope */
    void *original = NULL;
    void *object = dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD);
    if (object != NULL) {
        original = dlsym(object, symbol);
        dlclose(object);
    }
    if (original == NULL)
        return false;
    hook->original = original;
    if (!write_slot(slot, replacement))
        return false;
    hook->slot = slot;
    return true;
}

void tug_hook_remove(struct tug_hook *hook) {
    if (hook->slot != NULL)
        (void)write_slot(hook->slot, hook->original);
    hook->slot = NULL;
}
