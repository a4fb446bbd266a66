/* Loaded objects: what the dynamic section of a program or library says of the symbols it refers
 * to.
 *
 * Reads memory that the loader has mapped; changes nothing. Any thread, while the object stays.
 */
#ifndef TUG_BASE_OBJECT_H
#define TUG_BASE_OBJECT_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tug_relocations {
    const unsigned char *first;
    size_t bytes, step;
};

struct tug_object {
    uintptr_t base;
    const char *strings;
    const ElfW(Sym) * symbols;
    const char *soname;                    /* NULL: none */
    struct tug_relocations relocations[3]; /* DT_RELA, DT_REL, DT_JMPREL */
};

/* dynamic: its dynamic section, an array of ElfW(Dyn). False: it names no symbols. */
bool tug_object_read(uintptr_t base, const void *dynamic, struct tug_object *object);

/* One slot of an object that the linker fills with the address of a symbol. */
struct tug_reference {
    const char *name;
    const ElfW(Sym) * symbol;
    void **slot;
    bool plain; /* the address itself is what belongs there */
};

/* Reads an object that dl_iterate_phdr() shows. False: it names no symbols. */
bool tug_object_of(const struct dl_phdr_info *info, struct tug_object *object);

/* Calls visit(reference, d) for each reference until it returns false. */
void tug_object_each_reference(const struct tug_object *object,
                               bool (*visit)(const struct tug_reference *reference, void *d),
                               void *d);

#endif
