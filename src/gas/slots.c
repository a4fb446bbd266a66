/* The memory of pages: slots of the pool.
 *
 * A slot takes memory when a page comes for the first time, and is asked for then, so that memory
 * which is not there is an error code and no signal. The slot that was free for the shortest time
 * is the next to be used: a process takes as much as it has ever had pages.
 *
 * Threading: the holder of the baton; open: the program's thread.
 */
#include <sys/mman.h>

#include "base/system_page.h"
#include "gas/array.h"
#include "node/segment.h"

void tug_slots_open(struct tug_array *array, size_t taken) {
    for (size_t slot = array->nslots; slot > taken; slot--)
        tug_slot_give(array, (uint32_t)(slot - 1));
}

bool tug_slot_take(struct tug_array *array, uint64_t page, uint32_t *slot) {
    if (array->nfree == 0)
        return false;
    const uint32_t last = array->free_slots[array->nfree - 1];
    if (!array->real[last] &&
        !tug_shm_populate(tug_slot_address(array, last), array->page_bytes, "a page of an array"))
        return false;
    array->real[last] = 1;
    array->slot_pages[last] = page;
    array->nfree--;
    *slot = last;
    return true;
}

void tug_slot_give(struct tug_array *array, uint32_t slot) {
    array->slot_pages[slot] = TUG_NO_PAGE;
    array->free_slots[array->nfree++] = slot;
}

/* The whole pages of the system inside. Others may lie in the neighbour, too. */
static void trim(struct tug_array *array, uint32_t slot) {
    const uintptr_t start = (uintptr_t)tug_slot_address(array, slot);
    const uintptr_t begin = tug_page_up(start);
    const uintptr_t end = tug_page_down(start + array->page_bytes);
    if (array->real[slot] && begin < end &&
        /* memory of a process alone on its node is no file */
        (madvise((void *)begin, end - begin, MADV_REMOVE) == 0 ||
         madvise((void *)begin, end - begin, MADV_DONTNEED) == 0))
        array->real[slot] = 0;
}

void tug_slots_trim(struct tug_array *array) {
    for (size_t i = 0; i < array->nfree; i++)
        if (tug_pool_is_loose(array, array->free_slots[i]))
            trim(array, array->free_slots[i]);
}

void tug_slots_count(const struct tug_array *array, uint32_t used[TUG_POOL_PARTS]) {
    const size_t part = array->part_slots;
    for (size_t i = 0; i < array->nparts; i++)
        used[i] = (uint32_t)(i + 1 < array->nparts ? part : array->nslots - i * part);
    for (size_t i = 0; i < array->nfree; i++)
        used[array->free_slots[i] / part]--;
}
