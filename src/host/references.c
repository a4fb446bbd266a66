#include "host/references.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "base/object.h"
#include "host/host.h"

/* ---- names ---- */

/* The calls that make what the engine serves. */
static const char *const makers[] = {
#define TUG_CALL_CREATE(Name, parameters, arguments) #Name,
#define TUG_CALL_COLLECTIVE_INIT(KIND, Name, parameters, arguments) #Name,
#define TUG_CALL_PARTITIONED_INIT(Name, parameters, arguments) #Name,
#include "host/calls.def"
};

static const char *const partitioned_makers[] = {"Psend_init", "Precv_init"};
static const char *const handler_makers[] = {"Comm_create_errhandler", "Win_create_errhandler",
                                             "File_create_errhandler", "Session_create_errhandler",
                                             "Errhandler_create"};
static const char *const leavers[] = {
    "__cxa_throw",   "__cxa_rethrow",         "longjmp", "_longjmp", "siglongjmp",
    "__longjmp_chk", "_Unwind_RaiseException"};
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

static bool makes_partitioned(const char *symbol) {
    const char *name = behind_prefix(symbol);
    return name != NULL && is_one_of(name, partitioned_makers, COUNT_OF(partitioned_makers));
}

static bool makes_handlers(const char *symbol) {
    const char *name = behind_prefix(symbol);
    return name != NULL && is_one_of(name, handler_makers, COUNT_OF(handler_makers));
}

static bool throws_or_jumps(const char *symbol) {
    bool found = false;
    for (size_t i = 0; i < COUNT_OF(leavers); i++)
        found |= strcmp(symbol, leavers[i]) == 0;
    return found;
}

static bool starts_mpi(const char *symbol) {
    const char *name = behind_prefix(symbol);
    return name != NULL && is_one_of(name, starters, COUNT_OF(starters));
}

/* ---- objects ---- */

struct findings {
    bool needed;
    bool started; /* by somebody that was seen */
    bool partitioned;
    bool handles, leaves; /* this object */
    bool escapes;         /* some object makes error handlers, and throws or jumps */
};

static bool take_reference(const struct tug_reference *reference, void *argument) {
    struct findings *findings = argument;
    if (reference->symbol->st_shndx == SHN_UNDEF) {
        findings->needed |= tug_reference_needs_engine(reference->name);
        findings->started |= starts_mpi(reference->name);
        findings->partitioned |= makes_partitioned(reference->name);
        findings->handles |= makes_handlers(reference->name);
        findings->leaves |= throws_or_jumps(reference->name);
    }
    return true;
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

static int look_at(struct dl_phdr_info *info, size_t size, void *argument) {
    struct findings *findings = argument;
    struct tug_object object;
    bool named = tug_object_of(info, &object);
    findings->handles = findings->leaves = false;
    (void)size;
    if (holds(info, &tug_host)) {
        /* as an archive in something else: what calls us there leaves no trace */
        const bool archive =
            object.soname == NULL || strncmp(object.soname, "libtugboat.so", 13) != 0;
        findings->needed |= archive;
        findings->partitioned |= archive;
        return 0;
    }
    if (named && !is_hosts(object.soname))
        tug_object_each_reference(&object, take_reference, findings);
    findings->escapes |= findings->handles && findings->leaves;
    return 0;
}

static struct findings find(void) {
    struct findings findings = {0};
    (void)dl_iterate_phdr(look_at, &findings);
    return findings;
}

bool tug_references_need_engine(void) {
    const struct findings findings = find();
    return (findings.needed || !findings.started) && !findings.escapes;
}

bool tug_references_make_partitioned(void) {
    return find().partitioned;
}
