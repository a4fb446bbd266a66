#include "base/hook.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/object.h"
#include "base/system_page.h"

/* The slot of a symbol. */
struct wanted {
    const char *symbol;
    void **slot; /* NULL: not found yet */
};

static bool is_other(const struct tug_reference *reference, void *argument) {
    struct wanted *wanted = argument;
    if (reference->plain && strcmp(reference->name, wanted->symbol) == 0)
        wanted->slot = reference->slot;
    return wanted->slot == NULL;
}

/* Neighbouring pages that are protected alike. */
struct area {
    uintptr_t begin, end;
    int protection; /* -1: not known */
};

/* The area around the address, as the kernel tells. */
static struct area area_of(const void *address) {
    struct area area = {.protection = -1};
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512], mode[5];
    if (maps == NULL)
        return area;
    while (area.protection < 0 && fgets(line, sizeof(line), maps) != NULL)
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &area.begin, &area.end, mode) == 3 &&
            area.begin <= (uintptr_t)address && (uintptr_t)address < area.end)
            area.protection = (mode[0] == 'r' ? PROT_READ : 0) | (mode[1] == 'w' ? PROT_WRITE : 0) |
                              (mode[2] == 'x' ? PROT_EXEC : 0);
    fclose(maps);
    return area;
}

/* How the slot's page is protected now; -1: not known. To ask takes 0.2 to 0.3 ms in a program with
 * many libraries, and an object's slots lie together: the answer is kept for the next slot of the
 * same object. (A process has a few objects with hooks, which are not unloaded.) */
static int protection_of(void **slot, const struct link_map *map) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static const struct link_map *object;
    static struct area last = {.protection = -1};
    pthread_mutex_lock(&lock);
    if (map != object || (uintptr_t)slot < last.begin || (uintptr_t)slot >= last.end) {
        last = area_of(slot);
        object = last.protection >= 0 ? map : NULL;
    }
    const int protection = last.protection;
    pthread_mutex_unlock(&lock);
    return protection;
}

/* The linker may have made the table read-only when it was through with it. */
static bool write_slot(const struct tug_hook *hook, void *value) {
    const size_t size = tug_page_bytes();
    void *page = (void *)tug_page_down((uintptr_t)hook->slot); /* NOLINT: likewise */
    bool opens = !(hook->protection & PROT_WRITE);
    if (opens && mprotect(page, size, hook->protection | PROT_WRITE) != 0)
        return false;
    atomic_store((void *_Atomic *)hook->slot, value);
    if (opens)
        (void)mprotect(page, size, hook->protection);
    return true;
}

/* The slot by which the object that contains `inside` calls `symbol`, and that object. NULL: none.
 */
static void **find_slot(const void *inside, const char *symbol, struct link_map **map) {
    Dl_info info;
    struct tug_object self;
    struct wanted wanted = {symbol, NULL};
    if (inside != NULL && dladdr1(inside, &info, (void **)map, RTLD_DL_LINKMAP) != 0 &&
        tug_object_read((*map)->l_addr, (*map)->l_ld, &self))
        tug_object_each_reference(&self, is_other, &wanted);
    return wanted.slot;
}

static bool find(struct tug_hook *hook, const void *inside, const char *symbol) {
    struct link_map *map;
    void **slot = find_slot(inside, symbol, &map);
    if (slot == NULL)
        return false;
    /* bound late, the slot leads to the linker until the first call: the function itself is asked
     * for in the object's own scope */
    void *object = dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD);
    if (object != NULL) {
        hook->original = dlsym(object, symbol);
        dlclose(object);
    }
    hook->protection = protection_of(slot, map);
    if (hook->original == NULL || hook->protection < 0)
        return false;
    hook->slot = slot;
    return true;
}

bool tug_hook_set(struct tug_hook *hook, const void *inside, const char *symbol,
                  void *replacement) {
    if (hook->slot == NULL && !find(hook, inside, symbol))
        return false;
    return hook->is_set = write_slot(hook, replacement);
}

void tug_hook_remove(struct tug_hook *hook) {
    if (hook->is_set)
        (void)write_slot(hook, hook->original);
    hook->is_set = false;
}
