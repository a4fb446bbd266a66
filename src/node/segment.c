#include "node/segment.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>

#include "base/log.h"
#include "base/system_page.h"
#include "host/agreement.h"
#include "host/host.h"
#include "host/polite.h"
#include "tugboat/tugboat.h"

#define SPARE ((size_t)256 << 10) /* for the host's own bookkeeping of a window */

#ifndef MADV_POPULATE_WRITE /* Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif

bool tug_shm_missing(char *reason) {
    struct statvfs shm;
    if (statvfs("/dev/shm", &shm) == 0 && shm.f_bavail > 0)
        return false;
    snprintf(reason, 256, "/dev/shm is not there or full");
    return true;
}

bool tug_shm_has_room(size_t bytes, const char *what) {
    struct statvfs shm;
    if (statvfs("/dev/shm", &shm) != 0)
        return true;
    size_t room = (size_t)shm.f_bavail * shm.f_frsize;
    if (room >= bytes + SPARE)
        return true;
    tug_warn_once("/dev/shm has %zu KiB left, %s needs %zu KiB: it goes without shared memory, "
                  "more slowly; make /dev/shm larger (in containers --shm-size, or --ipc=host)",
                  room >> 10, what, (bytes + SPARE) >> 10);
    return false;
}

bool tug_shm_populate(unsigned char *base, size_t bytes, const char *what) {
    unsigned char *start = (unsigned char *)tug_page_down((uintptr_t)base);
    if (bytes == 0 || madvise(start, (size_t)(base + bytes - start), MADV_POPULATE_WRITE) == 0 ||
        errno == EINVAL)
        return true;
    tug_warn_once(
        "shared memory of %zu KiB for %s is not to be had: %s; it goes without, more slowly: look "
        "at /dev/shm and the limits on memory and open files (ulimit -v, -n)",
        bytes >> 10, what, strerror(errno));
    return false;
}

/* MPICH backs shared windows by files in /dev/shm, but for a process alone. */
static bool node_has_room(MPI_Comm node_comm, size_t bytes) {
    unsigned long long mine = bytes, sum = 0;
    int nprocesses = 1;
    tug_host.Comm_size(node_comm, &nprocesses);
    if (TUG_POLITE(Iallreduce, &mine, &sum, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, node_comm) !=
        MPI_SUCCESS)
        return false;
    return nprocesses == 1 || tug_shm_has_room((size_t)sum, "LLCL on this node");
}

/* Each process asks for a page more than it needs, to start at one. */
static size_t asked(size_t bytes) {
    return bytes == 0 ? 0 : tug_page_up(bytes) + tug_page_bytes();
}

static unsigned char *at_page(void *base) {
    return (unsigned char *)tug_page_up((uintptr_t)base);
}

/* Finds the parts of all processes, as mapped here. */
static bool find_parts(struct tug_segment *segment, MPI_Comm node_comm, size_t bytes) {
    int n = 0, unit;
    unsigned long long mine = bytes;
    tug_host.Comm_size(node_comm, &n);
    unsigned long long *sizes = malloc((size_t)n * sizeof(*sizes));
    segment->parts = calloc((size_t)n, sizeof(*segment->parts));
    bool good = tug_all_agree(node_comm, sizes != NULL && segment->parts != NULL) &&
                TUG_POLITE(Iallgather, &mine, 1, MPI_UNSIGNED_LONG_LONG, sizes, 1,
                           MPI_UNSIGNED_LONG_LONG, node_comm) == MPI_SUCCESS;
    for (int i = 0; good && i < n; i++) {
        void *base = NULL;
        MPI_Aint with_page;
        good = tug_host.Win_shared_query(segment->win, i, &with_page, &unit, &base) == MPI_SUCCESS;
        segment->parts[i] = (struct tug_segment_part){at_page(base), sizes[i]};
        if (sizes[i] == 0)
            segment->parts[i].base = NULL;
    }
    free(sizes);
    return good;
}

static bool make(MPI_Comm node_comm, size_t bytes, size_t real, struct tug_segment *segment) {
    void *mine = NULL;
    int rank = 0, n = 1;
    tug_host.Comm_rank(node_comm, &rank);
    tug_host.Comm_size(node_comm, &n);
    if (!tug_host_has_comms(node_comm, 1) ||
        tug_host.Win_allocate_shared((MPI_Aint)asked(bytes), 1, MPI_INFO_NULL, node_comm, &mine,
                                     &segment->win) != MPI_SUCCESS)
        return false;
    if (!find_parts(segment, node_comm, bytes))
        return false;
    struct tug_segment_part *part = &segment->parts[rank];
    if (part->bytes > 0 && n == 1) /* from malloc */
        memset(part->base, 0, real);
    return tug_shm_populate(part->base, real, "LLCL");
}

int tug_segment_reserve(MPI_Comm all, MPI_Comm node_comm, size_t bytes, size_t real,
                        struct tug_segment *segment) {
    *segment = (struct tug_segment){.win = MPI_WIN_NULL};
    if (!tug_all_agree(all, bytes <= PTRDIFF_MAX - 2 * tug_page_bytes() &&
                                node_has_room(node_comm, asked(real))))
        return TUG_ERR_NO_MEMORY;
    if (!tug_all_agree(all, make(node_comm, bytes, real, segment))) {
        tug_segment_free(segment);
        return TUG_ERR_NO_MEMORY;
    }
    return 0;
}

void tug_segment_free(struct tug_segment *segment) {
    free(segment->parts);
    segment->parts = NULL;
    if (segment->win != MPI_WIN_NULL)
        tug_host.Win_free(&segment->win);
    segment->win = MPI_WIN_NULL;
}
