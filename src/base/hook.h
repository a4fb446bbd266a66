/*
 * Standing in for a function that another object calls.
 *
 * An object calls a function of another through a slot in its global offset table, which the
 * dynamic linker fills in. The slot of one caller can be given another function: for all other
 * callers nothing changes, and nothing at all does until then. Setting and removing: one thread at
 * a time; calls through the slot may go on meanwhile. The object stays loaded while the hook is
 * used: once found, the slot is remembered, and setting the hook anew is a store.
 */
#ifndef TUG_BASE_HOOK_H
#define TUG_BASE_HOOK_H

#include <stdbool.h>

struct tug_hook {
    void **slot; /* NULL: not found yet */
    void *original;
    int protection; /* of the slot's page, as the linker left it */
    bool is_set;
};

/* From now on the object that contains `inside` calls `replacement` where it calls `symbol`, which
 * is hook->original before the first such call. False: it calls no function of that name, or its
 * table cannot be written. */
bool tug_hook_set(struct tug_hook *hook, const void *inside, const char *symbol, void *replacement);

/* Puts the original back. Not set: does nothing. */
void tug_hook_remove(struct tug_hook *hook);

#endif
