/* Which process is the home of a page: page % nranks, or what a function of the program's says.
 *
 * The function is asked at creation only, so that it may be of any kind: what it has said is kept,
 * and compared between the processes.
 *
 * Threading: the program's thread.
 */
#include <stdlib.h>

#include "gas/array.h"
#include "host/agreement.h"

/* Fills the table. Returns a number that differs, most likely, where a home does; 0: one of them
 * does not exist. */
static uint64_t ask_all(struct tug_array *array, const struct tug_array_params *params,
                        uint64_t *counts) {
    uint64_t mixed = 1;
    for (uint64_t page = 0; page < array->npages_most; page++) {
        const int rank = params->home(page, (int)array->nranks, params->home_context);
        if (rank < 0 || (uint32_t)rank >= array->nranks)
            return 0;
        array->homes[page] = (struct tug_page_home){(uint32_t)rank, counts[rank]++};
        mixed = (mixed ^ ((uint64_t)rank + 1)) * 0x9e3779b97f4a7c15u;
        mixed ^= mixed >> 32;
    }
    return mixed != 0 ? mixed : 1;
}

static bool all_have(struct tug_array *array, uint64_t mixed) {
    int64_t words[] = {(int64_t)mixed, ~(int64_t)mixed};
    return tug_agree(tug_context_comm(array->context), MPI_MAX, words, 2) == MPI_SUCCESS &&
           words[0] == ~words[1] && mixed != 0;
}

int tug_array_find_homes(struct tug_array *array, const struct tug_array_params *params) {
    if (params->home == NULL) {
        if (array->npages_most > array->rank)
            array->nhomed = (array->npages_most - array->rank - 1) / array->nranks + 1;
        return 0;
    }
    uint64_t *counts = calloc(array->nranks, sizeof(*counts));
    array->homes = calloc(array->npages_most, sizeof(*array->homes));
    int status = TUG_ERR_NO_MEMORY;
    if (tug_all_agree(tug_context_comm(array->context), counts != NULL && array->homes != NULL)) {
        status = all_have(array, ask_all(array, params, counts)) ? 0 : TUG_ERR_INVALID;
        array->nhomed = counts[array->rank];
    }
    free(counts);
    return status;
}
