/* Puts and gets in company (engine/notes.h): one that is like the one before it, as many others
 * are. What was found out for that holds for it, but for its place and its epoch.
 *
 * Any thread. Inline, as every put and get of a program comes through here; the first ones, and all
 * that are different, go on to remote_rma.c.
 */
#ifndef TUG_RMA_REMOTE_COMPANY_H
#define TUG_RMA_REMOTE_COMPANY_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/stats.h"
#include "engine/notes.h"
#include "host/device.h"
#include "llcl/llcl.h"
#include "rma/remote.h"
#include "rma/window.h"

/* The words of a company. The last two are the writer's alone: of an operation in it whose data are
 * of a basic type, the same at both sides. */
enum {
    TUG_OF_REMOTE, /* the window's */
    TUG_OF_TARGET,
    TUG_OF_KEY,
    TUG_OF_OFFSET,
    TUG_OF_BYTES, /* of each operation */
    TUG_OF_TYPE,
    TUG_OF_COUNT /* none is like it: TUG_UNLIKE */
};
#define TUG_UNLIKE UINT64_MAX

/* Is an offset in what the key names near enough? Then *distance says where it is. */
static inline bool tug_company_reaches(const struct tug_company *company, uint64_t offset,
                                       uint32_t *distance) {
    const uint64_t from = offset - company->words[TUG_OF_OFFSET];
    *distance = (uint32_t)from;
    return from + ((uint64_t)1 << 31) <= UINT32_MAX;
}

/* One more, for which there is room. */
static inline __attribute__((always_inline)) void tug_remote_join(struct tug_company *company,
                                                                  enum tug_company_kind kind,
                                                                  uint32_t distance,
                                                                  const void *here) {
    tug_burst_add();
    if (kind == TUG_COMPANY_READS) /* where what is read goes */
        tug_company_add(company, kind, distance, &here, sizeof(here));
    else if (__builtin_expect(company->bytes == 8, 1))
        tug_company_add(company, kind, distance, here, 8);
    else
        tug_company_add_any(company, kind, distance, here);
}

/* A put or get on a window. False: it goes the long way, nothing happened. */
static inline __attribute__((always_inline)) bool
tug_remote_join_last(MPI_Win win, enum tug_company_kind kind, const void *here, MPI_Count n,
                     MPI_Datatype type, int rank, MPI_Aint disp, MPI_Count target_n,
                     MPI_Datatype target_type) {
    struct tug_company *company = tug_burst.companies[kind];
    struct tug_window *window;
    if (company == NULL || tug_stats_on || tug_has_devices() ||
        (window = tug_window_find(win)) == NULL || window->remote == NULL || here == NULL)
        return false;
    const struct tug_remote *remote = window->remote;
    const struct tug_remote_target *target = &remote->targets[rank]; /* if it is that one */
    const uint64_t *words = company->words;
    const uint8_t wanted = atomic_load_explicit(&remote->contact_wanted, memory_order_relaxed);
    MPI_Aint offset;
    uint32_t distance;
    if (words[TUG_OF_TARGET] != (uintptr_t)target || type != target_type || n != target_n ||
        words[TUG_OF_TYPE] != (uint64_t)(uintptr_t)type || words[TUG_OF_COUNT] != (uint64_t)n ||
        words[TUG_OF_KEY] != target->key.word[0] || !tug_epochs_allow(&window->epochs, rank) ||
        (wanted != 0 && !tug_remote_has_contact(remote, rank, wanted)) || disp < 0 ||
        __builtin_mul_overflow(disp, target->disp_unit, &offset) ||
        offset > target->size - (MPI_Aint)words[TUG_OF_BYTES] || offset < 0 ||
        !tug_company_reaches(company, (uint64_t)offset, &distance) ||
        !tug_company_has_room(company, kind))
        return false;
    tug_remote_join(company, kind, distance, here);
    return true;
}

#endif
