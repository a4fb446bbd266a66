#include "host/references.h"

#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "host/host.h"

/* ---- names ---- */

/* The calls that make what the engine serves. */
static const char *const makers[] = {
#define TUG_CALL_CREATE(Name, parameters, arguments) #Name,
#define TUG_CALL_PERSISTENT(Name, parameters, arguments) #Name,
#define TUG_CALL_COLLECTIVE_INIT(KIND, Name, parameters, arguments) #Name,
#include "host/calls.def"
};

static const char *const starters[] = {"Init", "Init_thread", "Session_init"};

/* What bindings append: nothing in C, underscores and letters in Fortran (mpi_win_create_,
 * mpi_win_allocate_cptr_, mpi_bcast_init_f08ts_). */
static bool ends_a_name(const char *rest) {
    return rest[strspn(rest, "_")] == '\0' || strncasecmp(rest, "_c", 2) == 0 ||
           strncasecmp(rest, "_f08", 4) == 0;
}

static bool is_one_of(const char *name, const char *const names[], size_t n) {
    for (size_t i = 0; i < n; i++) {
        size_t length = strlen(names[i]);
        if (strncasecmp(name, names[i], length) == 0 && ends_a_name(name + length))
            return true;
    }
    return false;
}

/* Behind MPI_, PMPI_, MPIX_ or PMPIX_ in any case, or NULL. */
static const char *behind_prefix(const char *symbol) {
    symbol += *symbol == 'P' || *symbol == 'p';
    if (strncasecmp(symbol, "mpi", 3) != 0)
        return NULL;
    symbol += 3;
    symbol += *symbol == 'X' || *symbol == 'x';
    return *symbol == '_' ? symbol + 1 : NULL;
}

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

bool tug_reference_needs_engine(const char *symbol) {
    const char *name = behind_prefix(symbol);
    if (name != NULL)
        return is_one_of(name, makers, COUNT_OF(makers));
    return strncmp(symbol, "tug_", 4) == 0 || strncmp(symbol, "acp_", 4) == 0;
}

static bool starts_mpi(const char *symbol) {
    const char *name = behind_prefix(symbol);
    return name != NULL && is_one_of(name, starters, COUNT_OF(starters));
}

/* ---- objects ---- */

struct findings {
    bool needed;
    bool started; /* by somebody that was seen */
};

/* What an object's dynamic section says. */
struct dynamic {
    const char *strings;
    const ElfW(Sym) * symbols;
    const char *soname; /* NULL: none */
    struct table {
        const unsigned char *base;
        size_t bytes, step;
    } tables[3]; /* DT_RELA, DT_REL, DT_JMPREL */
};

/* The loader has made most of these into addresses; where it leaves them (the kernel's own object,
 * some machines) they count from the object's base. */
static const void *address_of(const struct dl_phdr_info *object, const ElfW(Dyn) * entry) {
    ElfW(Addr) value = entry->d_un.d_ptr;
    return (const void *)(value < object->dlpi_addr ? value + object->dlpi_addr : value);
}

static void read_dynamic(const struct dl_phdr_info *object, const ElfW(Dyn) * entry,
                         struct dynamic *found) {
    uint64_t soname = 0, jump_type = DT_RELA;
    *found =
        (struct dynamic){.tables = {{.step = sizeof(ElfW(Rela))}, {.step = sizeof(ElfW(Rel))}}};
    for (; entry->d_tag != DT_NULL; entry++) {
        switch (entry->d_tag) {
        case DT_STRTAB:
            found->strings = address_of(object, entry);
            break;
        case DT_SYMTAB:
            found->symbols = address_of(object, entry);
            break;
        case DT_SONAME:
            soname = entry->d_un.d_val;
            break;
        case DT_RELA:
            found->tables[0].base = address_of(object, entry);
            break;
        case DT_RELASZ:
            found->tables[0].bytes = entry->d_un.d_val;
            break;
        case DT_REL:
            found->tables[1].base = address_of(object, entry);
            break;
        case DT_RELSZ:
            found->tables[1].bytes = entry->d_un.d_val;
            break;
        case DT_JMPREL:
            found->tables[2].base = address_of(object, entry);
            break;
        case DT_PLTRELSZ:
            found->tables[2].bytes = entry->d_un.d_val;
            break;
        case DT_PLTREL:
            jump_type = entry->d_un.d_val;
            break;
        default:
            break;
        }
    }
    found->tables[2].step = jump_type == DT_REL ? sizeof(ElfW(Rel)) : sizeof(ElfW(Rela));
    found->soname = soname != 0 && found->strings != NULL ? found->strings + soname : NULL;
}

static void look_through(const struct dynamic *object, const struct table *table,
                         struct findings *findings) {
    for (size_t at = 0; table->base != NULL && at + table->step <= table->bytes;
         at += table->step) { /* both kinds begin alike */
        const ElfW(Rel) *relocation = (const ElfW(Rel) *)(const void *)(table->base + at);
#if __ELF_NATIVE_CLASS == 64
        size_t number = ELF64_R_SYM(relocation->r_info);
#else
        size_t number = ELF32_R_SYM(relocation->r_info);
#endif
        const ElfW(Sym) *symbol = &object->symbols[number];
        if (number == 0 || symbol->st_shndx != SHN_UNDEF)
            continue;
        const char *name = object->strings + symbol->st_name;
        findings->needed |= tug_reference_needs_engine(name);
        findings->started |= starts_mpi(name);
    }
}

/* The host's libraries call everything for the bindings' sake. */
static bool is_hosts(const char *soname) {
    static const char *const names[] = {
        "libmpich.so",  "libmpi.so",    "libmpichfort.so", "libmpifort.so", "libmpichcxx.so",
        "libmpicxx.so", "libfmpich.so", "libmpi_mpifh.so", "libmpi_usempi", "libmpi_cxx.so",
    };
    for (size_t i = 0; soname != NULL && i < COUNT_OF(names); i++)
        if (strncmp(soname, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static bool holds(const struct dl_phdr_info *object, const void *address) {
    for (size_t i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD &&
            (uintptr_t)address - (object->dlpi_addr + segment->p_vaddr) < segment->p_memsz)
            return true;
    }
    return false;
}

static int look_at(struct dl_phdr_info *object, size_t size, void *argument) {
    struct findings *findings = argument;
    struct dynamic dynamic = {0};
    (void)size;
    for (size_t i = 0; i < object->dlpi_phnum; i++)
        if (object->dlpi_phdr[i].p_type == PT_DYNAMIC)
            read_dynamic(object, (const void *)(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr),
                         &dynamic);
    if (holds(object, &tug_host)) {
        /* as an archive in something else: what calls us there leaves no trace */
        findings->needed |=
            dynamic.soname == NULL || strncmp(dynamic.soname, "libtugboat.so", 13) != 0;
        return 0;
    }
    if (dynamic.symbols == NULL || dynamic.strings == NULL || is_hosts(dynamic.soname))
        return 0;
    for (size_t i = 0; i < COUNT_OF(dynamic.tables); i++)
        look_through(&dynamic, &dynamic.tables[i], findings);
    return findings->needed;
}

bool tug_references_need_engine(void) {
    struct findings findings = {false, false};
    (void)dl_iterate_phdr(look_at, &findings);
    return findings.needed || !findings.started;
}
