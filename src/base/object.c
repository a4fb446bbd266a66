#include "base/object.h"

#if UINTPTR_MAX == UINT64_MAX
#define SYMBOL_OF(info) ELF64_R_SYM(info)
#else
#define SYMBOL_OF(info) ELF32_R_SYM(info)
#endif

/* glibc has made most of these into addresses; where a loader leaves them (the kernel's own object,
 * which cannot be written and may be made for any address; some machines) they count from the
 * object's base. */
static const void *address_of(const struct tug_object *object, const ElfW(Dyn) * entry, bool left) {
    ElfW(Addr) value = entry->d_un.d_ptr;
    return (const void *)(left || value < object->base ? value + object->base : value); /* NOLINT */
}

/* left: the loader has not written to the dynamic section. */
static bool read_section(uintptr_t base, const void *dynamic, bool left,
                         struct tug_object *object) {
    uint64_t soname = 0, jump_type = DT_RELA;
    *object = (struct tug_object){
        .base = base, .relocations = {{.step = sizeof(ElfW(Rela))}, {.step = sizeof(ElfW(Rel))}}};
    struct tug_relocations *relocations = object->relocations;
    for (const ElfW(Dyn) *entry = dynamic; entry->d_tag != DT_NULL; entry++) {
        switch (entry->d_tag) {
        case DT_STRTAB:
            object->strings = address_of(object, entry, left);
            break;
        case DT_SYMTAB:
            object->symbols = address_of(object, entry, left);
            break;
        case DT_SONAME:
            soname = entry->d_un.d_val;
            break;
        case DT_RELA:
            relocations[0].first = address_of(object, entry, left);
            break;
        case DT_RELASZ:
            relocations[0].bytes = entry->d_un.d_val;
            break;
        case DT_REL:
            relocations[1].first = address_of(object, entry, left);
            break;
        case DT_RELSZ:
            relocations[1].bytes = entry->d_un.d_val;
            break;
        case DT_JMPREL:
            relocations[2].first = address_of(object, entry, left);
            break;
        case DT_PLTRELSZ:
            relocations[2].bytes = entry->d_un.d_val;
            break;
        case DT_PLTREL:
            jump_type = entry->d_un.d_val;
            break;
        default:
            break;
        }
    }
    relocations[2].step = jump_type == DT_REL ? sizeof(ElfW(Rel)) : sizeof(ElfW(Rela));
    object->soname = soname != 0 && object->strings != NULL ? object->strings + soname : NULL;
    return object->strings != NULL && object->symbols != NULL;
}

bool tug_object_read(uintptr_t base, const void *dynamic, struct tug_object *object) {
    return read_section(base, dynamic, false, object);
}

bool tug_object_of(const struct dl_phdr_info *info, struct tug_object *object) {
    *object = (struct tug_object){0};
    for (size_t i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            return read_section(info->dlpi_addr,
                                (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr),
                                (info->dlpi_phdr[i].p_flags & PF_W) == 0, object);
    return false;
}

/* False: visit() has seen enough. */
static bool each_of(const struct tug_object *object, const struct tug_relocations *table,
                    bool (*visit)(const struct tug_reference *reference, void *d), void *d) {
    for (size_t at = 0; table->first != NULL && at + table->step <= table->bytes;
         at += table->step) {
        const ElfW(Rela) *relocation = (const ElfW(Rela) *)(const void *)(table->first + at);
        size_t number = SYMBOL_OF(relocation->r_info); /* both kinds begin alike */
        if (number == 0)
            continue;
        const struct tug_reference reference = {
            .name = object->strings + object->symbols[number].st_name,
            .symbol = &object->symbols[number],
            .slot = (void **)(object->base + relocation->r_offset), /* NOLINT: an address */
            .plain = table->step == sizeof(*relocation) && relocation->r_addend == 0};
        if (!visit(&reference, d))
            return false;
    }
    return true;
}

void tug_object_each_reference(const struct tug_object *object,
                               bool (*visit)(const struct tug_reference *reference, void *d),
                               void *d) {
    for (size_t i = 0; i < sizeof(object->relocations) / sizeof(object->relocations[0]); i++)
        if (!each_of(object, &object->relocations[i], visit, d))
            return;
}
