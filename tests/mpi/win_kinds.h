/*
 * win_kinds.h: one way to ask for a window of any flavour.
 *
 * The RMA tests run the same checks on windows made by MPI_Win_allocate, MPI_Win_create,
 * MPI_Win_allocate_shared and MPI_Win_create_dynamic: kind_open makes one, kind_disp turns a byte
 * offset into the target displacement that this flavour wants, kind_close frees it all.
 * Memory handed to MPI_Win_create is 64-byte aligned and sizes are multiples of 16: the host MPI's
 * defects with others have a test of their own (win_unaligned).
 */
#ifndef TUG_TESTS_MPI_WIN_KINDS_H
#define TUG_TESTS_MPI_WIN_KINDS_H

#include "check.h"

enum kind { KIND_ALLOCATE, KIND_CREATE, KIND_SHARED, KIND_DYNAMIC, NKINDS };

__attribute__((unused)) static const char *kind_names[NKINDS] = {"allocate", "create", "shared",
                                                                 "dynamic"};

struct kind_win {
    enum kind kind;
    MPI_Win win;
    MPI_Comm comm;
    int rank, nranks;
    int disp_unit;
    char *base; /* this rank's memory */
    size_t size;
    MPI_Aint *addresses; /* dynamic: where each rank's memory is */
};

/* Collective over comm; false where this flavour cannot be had over it (shared, several nodes). */
__attribute__((unused)) static bool kind_open(struct kind_win *w, enum kind kind, MPI_Comm comm,
                                              size_t size, int disp_unit) {
    *w = (struct kind_win){.kind = kind, .comm = comm, .size = size, .disp_unit = disp_unit};
    MUST(MPI_Comm_rank(comm, &w->rank));
    MUST(MPI_Comm_size(comm, &w->nranks));
    if (kind == KIND_SHARED) {
        MPI_Comm node;
        int nlocal;
        MUST(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
        MUST(MPI_Comm_size(node, &nlocal));
        MUST(MPI_Comm_free(&node));
        if (nlocal != w->nranks)
            return false;
        MUST(MPI_Win_allocate_shared((MPI_Aint)size, disp_unit, MPI_INFO_NULL, comm, &w->base,
                                     &w->win));
    } else if (kind == KIND_ALLOCATE) {
        MUST(MPI_Win_allocate((MPI_Aint)size, disp_unit, MPI_INFO_NULL, comm, &w->base, &w->win));
    } else {
        void *memory;
        CHECK(posix_memalign(&memory, 64, size) == 0, "no memory");
        w->base = memory;
    }
    if (kind == KIND_CREATE)
        MUST(MPI_Win_create(w->base, (MPI_Aint)size, disp_unit, MPI_INFO_NULL, comm, &w->win));
    if (kind == KIND_DYNAMIC) {
        MPI_Aint mine;
        w->disp_unit = 1;
        w->addresses = calloc((size_t)w->nranks, sizeof(MPI_Aint));
        MUST(MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &w->win));
        MUST(MPI_Win_attach(w->win, w->base, (MPI_Aint)size));
        MUST(MPI_Get_address(w->base, &mine));
        MUST(MPI_Allgather(&mine, 1, MPI_AINT, w->addresses, 1, MPI_AINT, comm));
    }
    memset(w->base, 0, size);
    check_barrier(comm);
    return true;
}

/* offset is in bytes and a multiple of the window's displacement unit. */
__attribute__((unused)) static MPI_Aint kind_disp(const struct kind_win *w, int target,
                                                  size_t offset) {
    if (w->kind == KIND_DYNAMIC)
        return MPI_Aint_add(w->addresses[target], (MPI_Aint)offset);
    CHECK(offset % (size_t)w->disp_unit == 0, "offset %zu, unit %d", offset, w->disp_unit);
    return (MPI_Aint)(offset / (size_t)w->disp_unit);
}

/* Sets this rank's memory to zero; nobody may be using the window. */
__attribute__((unused)) static void kind_clear(struct kind_win *w) {
    check_barrier(w->comm);
    MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, w->rank, 0, w->win));
    memset(w->base, 0, w->size);
    MUST(MPI_Win_unlock(w->rank, w->win));
    check_barrier(w->comm);
}

__attribute__((unused)) static void kind_close(struct kind_win *w) {
    check_barrier(w->comm);
    if (w->kind == KIND_DYNAMIC)
        MUST(MPI_Win_detach(w->win, w->base));
    MUST(MPI_Win_free(&w->win));
    CHECK(w->win == MPI_WIN_NULL, "MPI_Win_free left a handle");
    if (w->kind == KIND_CREATE || w->kind == KIND_DYNAMIC)
        free(w->base);
    free(w->addresses);
}

#endif
