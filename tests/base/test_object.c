/* What the dynamic section of a loaded object says, written to by the loader or not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/object.h"

static const char strings[] = "\0itself";
static const ElfW(Sym) symbols[1];

/* An object whose addresses count from `base`, read from program headers with these flags. */
static void check_counted(ElfW(Addr) base, unsigned flags) {
    const ElfW(Dyn) dynamic[] = {{DT_STRTAB, {.d_ptr = (ElfW(Addr))(uintptr_t)strings - base}},
                                 {DT_SYMTAB, {.d_ptr = (ElfW(Addr))(uintptr_t)symbols - base}},
                                 {DT_SONAME, {.d_val = 1}},
                                 {DT_NULL, {0}}};
    const ElfW(Phdr) header = {
        .p_type = PT_DYNAMIC, .p_flags = flags, .p_vaddr = (ElfW(Addr))(uintptr_t)dynamic - base};
    const struct dl_phdr_info info = {.dlpi_addr = base, .dlpi_phdr = &header, .dlpi_phnum = 1};
    struct tug_object object;
    assert_true(tug_object_of(&info, &object));
    assert_ptr_equal(object.strings, strings);
    assert_ptr_equal(object.symbols, symbols);
    assert_string_equal(object.soname, "itself");
}

static void object_not_written(void **state) {
    (void)state;
    check_counted((ElfW(Addr))(uintptr_t)strings & ~(ElfW(Addr))0xfff, PF_R);
    /* made for an address above the one where it is: the kernel's own object is, here and there */
    check_counted(0x00a00000, PF_R);
}

static void object_written(void **state) {
    (void)state;
    check_counted(0, PF_R | PF_W);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(object_not_written),
                                       cmocka_unit_test(object_written)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
