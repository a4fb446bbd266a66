/* Making windows: which lane a new one gets. */
#include "rma/create.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/settings.h"
#include "base/stats.h"
#include "engine/engine.h"
#include "host/agreement.h"
#include "host/wait_group.h"
#include "host/device.h"
#include "host/handles.h"
#include "host/host.h"
#include "host/participants.h"
#include "host/polite.h"
#include "node/team.h"
#include "rma/direct.h"
#include "rma/private.h"
#include "rma/remote.h"

#define HOST_ALIGNMENT 16 /* what MPICH 4.0.2 over UCX addresses rightly */

static bool takes(int error, MPI_Comm comm) {
    if (error == MPI_SUCCESS && tug_all_take_part(comm) && tug_settings.rma != TUG_RMA_OFF &&
        tug_engine_bring_up()) {
        tug_device_look();
        return true;
    }
    tug_stat_add(TUG_STAT_WINDOW_PASSED, 1);
    return false;
}

static void keep_geometry(struct tug_window *window, void *base, MPI_Aint size,
                          MPI_Aint disp_unit) {
    window->own_geometry = true;
    window->base = base;
    window->size = size;
    window->disp_unit = disp_unit;
    window->disp_unit_int = (int)disp_unit;
}

/* What all ranks of a new window find out together. */
struct agreement {
    bool misplaced;        /* the host has put some rank's window elsewhere than it was asked to */
    MPI_Aint common_unit;  /* every rank's disp_unit, or 0 */
    struct tug_team *team; /* of its communicator; NULL: not known */
};

/* Collective, and the last that a creation has to wait for: the ranks leave it as close together as
 * the host's own call. Programs count on that which store into their window's memory after its
 * creation and, without a barrier, into their neighbour's (the static coarrays of gfortran). */
static struct agreement agree(bool misplaced, MPI_Aint disp_unit, MPI_Comm comm) {
    struct tug_team *team;
    int64_t most[3] = {misplaced, disp_unit, ~disp_unit};
    if (tug_team_get(comm, &team) != 0) { /* collective the first time on a communicator */
        team = NULL;
        (void)tug_agree(comm, MPI_MAX, most, 3);
    } else {
        (void)tug_team_agree(team, MPI_MAX, most, 3);
    }
    return (struct agreement){most[0] != 0, most[1] == ~most[2] ? most[1] : 0, team};
}

static bool is_misplaced(void *base, MPI_Aint size, MPI_Win win) {
    void *at = NULL;
    int flag = 0;
    tug_host.Win_get_attr(win, MPI_WIN_BASE, &at, &flag);
    return flag && size > 0 && at != base;
}

/* Notes which targets are on this node. */
static void find_neighbours(struct tug_window *window, const struct tug_team *team) {
    window->nranks = team->nranks;
    window->near = calloc(((size_t)team->nranks + 63) / 64, sizeof(uint64_t));
    for (int r = 0; window->near != NULL && r < team->nranks; r++)
        if (team->places.node_of[r] == team->places.node_of[team->rank])
            window->near[r / 64] |= (uint64_t)1 << (r % 64);
}

/* Where every rank's memory begins in a window that starts at aligned addresses and counts bytes.
 */
static struct tug_geometry *gather(void *base, MPI_Aint disp_unit, MPI_Comm comm, int *nranks) {
    tug_host.Comm_size(comm, nranks);
    struct tug_geometry mine = {disp_unit, (MPI_Aint)((uintptr_t)base % HOST_ALIGNMENT)};
    struct tug_geometry *all = malloc((size_t)*nranks * sizeof(*all));
    if (!tug_all_agree(comm, all != NULL)) {
        free(all);
        return NULL;
    }
    TUG_POLITE(Iallgather, &mine, 2, MPI_AINT, all, 2, MPI_AINT, comm);
    return all;
}

static bool info_says(MPI_Info info, const char *key, const char *value) {
    char text[MPI_MAX_INFO_VAL + 1];
    int flag = 0;
    if (info == MPI_INFO_NULL)
        return false;
    tug_host.Info_get(info, key, MPI_MAX_INFO_VAL, text, &flag);
    return flag && strcmp(text, value) == 0;
}

/* As far as this rank knows: what another wants or lacks it is not told. */
static const char *reason_for_native(MPI_Info info) {
    if (tug_settings.rma == TUG_RMA_NATIVE)
        return "TUGBOAT_RMA=native";
    if (info_says(info, "tugboat_lane", "native"))
        return "asked for by its info";
    if (tug_settings.progress == TUG_PROGRESS_CALLER)
        return "TUGBOAT_PROGRESS=caller leaves nobody to apply packets";
    return "not every rank could have another lane, or wanted it";
}

static const char *reason_for_packets(MPI_Info info, enum tug_remote_memory memory, int nnodes) {
    if (memory == TUG_REMOTE_GIVEN)
        return "its memory is the program's";
    if (memory == TUG_REMOTE_ATTACHED)
        return "its memory is attached later";
    if (nnodes > 1)
        return "its ranks are on several nodes";
    if (tug_settings.rma == TUG_RMA_PACKET)
        return "TUGBOAT_RMA=packet";
    if (info_says(info, "tugboat_lane", "packet"))
        return "asked for by its info";
    return "not every rank could map the others' memory, or wanted to";
}

/* Creates the window again where the host addresses it rightly. Collective. */
static int heal(void *base, MPI_Aint size, MPI_Aint disp_unit, MPI_Info info, MPI_Comm comm,
                MPI_Win *win) {
    int nranks;
    struct tug_geometry *geometry = gather(base, disp_unit, comm, &nranks);
    if (geometry == NULL)
        return MPI_ERR_NO_MEM;
    MPI_Aint shift = (MPI_Aint)((uintptr_t)base % HOST_ALIGNMENT);
    tug_host.Win_free(win);
    int error =
        tug_host.Win_create((char *)base - shift, size > 0 ? size + shift : 0, 1, info, comm, win);
    struct tug_window *window = error == MPI_SUCCESS ? tug_window_adopt(*win) : NULL;
    if (window == NULL) {
        free(geometry);
        return error == MPI_SUCCESS ? MPI_ERR_NO_MEM : error;
    }
    keep_geometry(window, base, size, disp_unit);
    window->geometry = geometry;
    window->nranks = nranks;
    window->healed = true;
    window->reason = reason_for_native(info);
    tug_engine_attend(1);
    tug_log(TUG_VERBOSE_INFO,
            "window %#" PRIx64 ": the host misplaces memory at %p; displacements are translated",
            tug_handle_bits(*win), base);
    return MPI_SUCCESS;
}

/* Makes the host's window ours, native lane. */
static void adopt_native(MPI_Win win, struct agreement agreed, MPI_Info info) {
    struct tug_window *window = tug_window_adopt(win);
    if (window == NULL)
        return;
    window->reason = reason_for_native(info);
    window->common_unit = agreed.common_unit;
    if (agreed.team != NULL)
        find_neighbours(window, agreed.team);
    tug_stat_add(TUG_STAT_NATIVE_WINDOWS, 1);
    tug_log(TUG_VERBOSE_INFO, "window %#" PRIx64 ": native lane: %s", tug_handle_bits(win),
            window->reason);
    tug_engine_attend(1);
}

/* Does this rank want the window in the packet lane? Without the offload thread nobody would apply
 * what comes while the program is inside the host. */
static bool wants_packets(MPI_Info info) {
    return tug_settings.progress != TUG_PROGRESS_CALLER &&
           !info_says(info, "tugboat_lane", "native");
}

/* May CPUs load and store the window's memory? What will be attached is not known yet. */
static bool reaches(const void *base, enum tug_remote_memory memory) {
    return memory == TUG_REMOTE_ATTACHED ? !tug_has_devices()
                                         : memory != TUG_REMOTE_GIVEN || !tug_is_device(base);
}

/* Tries the packet lane for a window whose host window is there. Collective, the same answer on all
 * ranks. */
static struct tug_window *go_remote(MPI_Win win, MPI_Comm comm, struct tug_team *team, void *base,
                                    MPI_Aint size, MPI_Aint disp_unit,
                                    enum tug_remote_memory memory, MPI_Info info) {
    struct tug_window *window = tug_window_adopt(win);
    struct tug_wait_group *wait_group = team->nnodes > 1 ? tug_wait_group_of(comm) : NULL;
    bool willing = window != NULL && wants_packets(info) && reaches(base, memory) &&
                   (wait_group != NULL || team->nnodes == 1) &&
                   tug_epochs_init(&window->epochs, team->nranks);
    struct tug_remote *remote = tug_remote_create(team, base, size, disp_unit, memory, willing);
    if (remote == NULL) {
        tug_window_give_back(window);
        return NULL;
    }
    if (wait_group != NULL)
        tug_wait_group_enter(wait_group);
    window->wait_group = wait_group;
    window->remote = remote;
    window->sync = remote->block != NULL ? &remote->sync : NULL;
    window->lane =
        window->sync != NULL && team->nnodes == 1 ? &tug_remote_node_lane : &tug_remote_lane;
    window->reason = reason_for_packets(info, memory, team->nnodes);
    window->comm = team->comm;
    keep_geometry(window, remote->base, size, disp_unit);
    tug_stat_add(TUG_STAT_PACKET_WINDOWS, 1);
    tug_log(TUG_VERBOSE_INFO, "window %#" PRIx64 ": packet lane: %s", tug_handle_bits(win),
            window->reason);
    return window;
}

static bool wants_direct(MPI_Info info) {
    return !info_says(info, "tugboat_lane", "native") && !info_says(info, "tugboat_lane", "packet");
}

static void enter_direct(struct tug_window *window, struct tug_direct *direct,
                         struct tug_team *team, const char *reason) {
    const struct tug_direct_target *own = &direct->targets[direct->rank];
    window->direct = direct;
    window->sync = &direct->sync;
    window->lane = &tug_direct_lane;
    window->reason = reason;
    window->comm = team->comm;
    keep_geometry(window, own->base, own->size, own->disp_unit);
    tug_stat_add(TUG_STAT_DIRECT_WINDOWS, 1);
    tug_log(TUG_VERBOSE_INFO, "window %#" PRIx64 ": direct lane: %s",
            tug_handle_bits(window->handle), reason);
}

/* Tries the direct lane for a window over memory that the program brings. Collective, the same
 * answer on all ranks. */
static bool go_direct_over(MPI_Win win, struct tug_team *team, void *base, MPI_Aint size,
                           MPI_Aint disp_unit, MPI_Info info) {
    if (team->nnodes > 1 || tug_settings.rma != TUG_RMA_AUTO)
        return false;
    struct tug_window *window = tug_window_adopt(win);
    bool willing = window != NULL && wants_direct(info) && reaches(base, TUG_REMOTE_GIVEN) &&
                   tug_epochs_init(&window->epochs, team->nranks);
    bool in_place =
        tug_settings.share_in_place || info_says(info, "tugboat_share_in_place", "true");
    struct tug_direct *direct = tug_direct_over(team, base, size, disp_unit, in_place, willing);
    if (direct == NULL) {
        tug_window_give_back(window);
        return false;
    }
    enter_direct(window, direct, team, "its ranks share a node, which can map its memory");
    return true;
}

static bool has_lanes(void) {
    return tug_settings.rma == TUG_RMA_AUTO || tug_settings.rma == TUG_RMA_PACKET;
}

/* The team of a communicator that lanes of ours may serve, or NULL. The handle has not been
 * checked: what is plainly none is left to the host. */
static struct tug_team *team_of(MPI_Comm comm) {
    struct tug_team *team;
    bool good = tug_all_take_part(comm) && has_lanes() && tug_team_get(comm, &team) == 0;
    return good ? team : NULL;
}

/* ---- the host's window behind one in a lane of ours ---- */

struct tug_attempt tug_attempt_begin(MPI_Comm comm) {
    struct tug_attempt attempt = {.given = comm, .on = comm};
#ifdef OPEN_MPI
    struct tug_team *team = team_of(comm);
    if (team != NULL && (team->nnodes > 1 || team->nranks == 1))
        attempt.on = team->comm;
#endif
    return attempt;
}

bool tug_attempt_again(struct tug_attempt *attempt, int error) {
    if (error != MPI_ERR_WIN || attempt->on == attempt->given || attempt->on_self)
        return false;
    attempt->on = MPI_COMM_SELF;
    return attempt->on_self = true;
}

int tug_attempt_self(MPI_Info info, MPI_Win *win) {
    void *unused;
    return tug_host.Win_allocate(1, 1, info, MPI_COMM_SELF, (void *)&unused, win);
}

/* The window has its lane. */
static void attempt_succeeded(const struct tug_attempt *attempt, struct tug_window *window,
                              int flavor) {
    window->on_self = attempt->on_self;
    window->flavor = flavor;
}

/* No lane of ours can be had, and a host window on MPI_COMM_SELF does not serve the program. */
static int attempt_failed(const struct tug_attempt *attempt, MPI_Win *win) {
    tug_host.Win_free(win);
    tug_host.Comm_call_errhandler(attempt->given, MPI_ERR_WIN);
    return MPI_ERR_WIN;
}

int tug_window_take_created(int error, const struct tug_attempt *attempt, void *base, MPI_Aint size,
                            MPI_Aint disp_unit, MPI_Info info, MPI_Comm comm, MPI_Win *win) {
    struct tug_team *team;
    struct tug_window *window = NULL;
    if (!takes(error, comm))
        return error;
    if (has_lanes() && tug_team_get(comm, &team) == 0) {
        if (!attempt->on_self && go_direct_over(*win, team, base, size, disp_unit, info))
            return MPI_SUCCESS;
        window = go_remote(*win, comm, team, base, size, disp_unit, TUG_REMOTE_GIVEN, info);
    }
    if (window != NULL) {
        attempt_succeeded(attempt, window, MPI_WIN_FLAVOR_CREATE);
        return MPI_SUCCESS;
    }
    if (attempt->on_self)
        return attempt_failed(attempt, win);
    struct agreement agreed = agree(is_misplaced(base, size, *win), disp_unit, comm);
    if (!agreed.misplaced) {
        adopt_native(*win, agreed, info);
        return MPI_SUCCESS;
    }
    error = heal(base, size, disp_unit, info, comm, win);
    if (error != MPI_SUCCESS)
        tug_host.Comm_call_errhandler(comm, error);
    return error;
}

int tug_window_take_dynamic(int error, const struct tug_attempt *attempt, MPI_Info info,
                            MPI_Comm comm, MPI_Win *win) {
    struct tug_team *team;
    struct tug_window *window = NULL;
    if (!takes(error, comm))
        return error;
    if (has_lanes() && tug_team_get(comm, &team) == 0)
        window = go_remote(*win, comm, team, MPI_BOTTOM, 0, 1, TUG_REMOTE_ATTACHED, info);
    if (window != NULL)
        attempt_succeeded(attempt, window, MPI_WIN_FLAVOR_DYNAMIC);
    else if (attempt->on_self)
        return attempt_failed(attempt, win);
    else
        adopt_native(*win, agree(false, 1, comm), info);
    return MPI_SUCCESS;
}

/* The host lays out ranks one after another by their sizes, and addresses the result wrongly where
 * one is not aligned: sizes are rounded up, the program sees its own. */
static MPI_Aint rounded(MPI_Aint size) {
    const MPI_Aint line = 64;
    return size > 0 ? (size + line - 1) / line * line : size;
}

/* Does the program want its memory aligned to more than a cache line? (The packet lane has it at
 * pages.) */
static bool wants_pages(MPI_Info info) {
    char text[MPI_MAX_INFO_VAL + 1] = "";
    int flag = 0;
    if (info != MPI_INFO_NULL)
        tug_host.Info_get(info, "mpi_minimum_memory_alignment", MPI_MAX_INFO_VAL, text, &flag);
    return flag && strtoll(text, NULL, 10) > 64;
}

/* Tries the direct lane for a window whose host window, over next to nothing, is there. Collective,
 * the same answer on all ranks. */
static bool go_direct(const struct tug_allocation *a, struct tug_team *team) {
    if (team->nnodes > 1 || (tug_settings.rma == TUG_RMA_PACKET && !a->shared))
        return false;
    struct tug_window *window = tug_window_adopt(*a->win);
    bool contiguous = a->shared && !info_says(a->info, "alloc_shared_noncontig", "true");
    bool willing =
        window != NULL && wants_direct(a->info) && tug_epochs_init(&window->epochs, team->nranks);
    struct tug_direct *direct =
        tug_direct_create(team, a->size, a->disp_unit, contiguous, wants_pages(a->info), willing);
    if (direct == NULL) {
        tug_window_give_back(window);
        return false;
    }
    enter_direct(window, direct, team,
                 "its ranks share a node and its memory was allocated for them");
    *(void **)a->baseptr = window->base;
    return true;
}

static int allocate_native(const struct tug_allocation *a) {
    bool rounds = !a->shared && tug_settings.rma != TUG_RMA_OFF && tug_all_take_part(a->comm);
    int error = a->host_call(a, rounds ? rounded(a->size) : a->size);
    if (!takes(error, a->comm))
        return error;
    adopt_native(*a->win, agree(false, a->disp_unit, a->comm), a->info);
    struct tug_window *window = tug_window_find(*a->win);
    if (window != NULL && rounds && rounded(a->size) != a->size)
        keep_geometry(window, *(void **)a->baseptr, a->size, a->disp_unit);
    return MPI_SUCCESS;
}

/* In a lane of ours the program's handle is a window of the host's over one byte at most, made as
 * the program said: the host checks the arguments, and answers for flavour, group and info. */
int tug_window_allocate(const struct tug_allocation *a) {
    struct tug_team *team = team_of(a->comm);
    if (team == NULL || (a->shared && team->nnodes > 1))
        return allocate_native(a);
    struct tug_attempt attempt = tug_attempt_begin(a->comm);
    struct tug_allocation handle = *a;
    int error;
    do {
        handle.comm = attempt.on;
        error = attempt.on_self ? tug_attempt_self(a->info, a->win)
                                : a->host_call(&handle, a->size > 0 ? 1 : a->size);
    } while (tug_attempt_again(&attempt, error));
    if (!takes(error, a->comm))
        return error;
    if (go_direct(a, team))
        return MPI_SUCCESS;
    struct tug_window *window = a->shared ? NULL
                                          : go_remote(*a->win, a->comm, team, NULL, a->size,
                                                      a->disp_unit, TUG_REMOTE_ALLOCATED, a->info);
    if (window != NULL) {
        attempt_succeeded(&attempt, window, MPI_WIN_FLAVOR_ALLOCATE);
        *(void **)a->baseptr = window->base;
        return MPI_SUCCESS;
    }
    if (attempt.on_self)
        return attempt_failed(&attempt, a->win);
    tug_host.Win_free(a->win);
    return allocate_native(a);
}
