/* Making windows: which lane a new one gets, and which window of the host's. */
#include "rma/create.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/descriptors.h"
#include "base/log.h"
#include "base/settings.h"
#include "base/stats.h"
#include "engine/engine.h"
#include "engine/host_progress.h"
#include "host/agreement.h"
#include "host/wait_group.h"
#include "host/device.h"
#include "host/handles.h"
#include "host/host.h"
#include "host/participants.h"
#include "host/polite.h"
#include "host/report.h"
#include "host/spin.h"
#include "node/arena.h"
#include "node/lent.h"
#include "node/team.h"
#include "rma/direct.h"
#include "rma/private.h"
#include "rma/remote.h"
#include "transport/packets/wire.h"
#include "transport/transport.h"

#define HOST_ALIGNMENT 16 /* what MPICH 4.0.2 over UCX addresses rightly */

static bool takes(int error, MPI_Comm comm) {
    if (error == MPI_SUCCESS && tug_all_take_part(comm) && tug_settings.rma != TUG_RMA_OFF) {
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
    struct tug_team *team; /* of its communicator; NULL: not known */
};

/* Collective, and the last that a creation has to wait for: the ranks leave it as close together as
 * the host's own call. Programs count on that which store into their window's memory after its
 * creation and, without a barrier, into their neighbour's (the static coarrays of gfortran). */
static struct agreement agree(bool misplaced, MPI_Comm comm) {
    struct tug_team *team;
    int64_t any = misplaced;
    if (tug_team_get(comm, &team) != 0) { /* collective the first time on a communicator */
        team = NULL;
        (void)tug_agree(comm, MPI_MAX, &any, 1);
    } else {
        (void)tug_team_agree(team, MPI_MAX, &any, 1);
    }
    return (struct agreement){any != 0, team};
}

static bool is_misplaced(void *base, MPI_Aint size, MPI_Win win) {
    void *at = NULL;
    int flag = 0;
    tug_host.Win_get_attr(win, MPI_WIN_BASE, &at, &flag);
    return flag && size > 0 && at != base;
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

/* ---- networks that only the host speaks ---- */

static struct {
    pthread_once_t once;
    bool alone;
    char reason[160];
} network = {.once = PTHREAD_ONCE_INIT};

/* Sets network.alone and network.reason. alone: this process has a descriptor of an RDMA card open,
 * which the host MPI uses, and neither verbs nor ofi can use a card, since TUGBOAT_TRANSPORTS
 * excludes the row or it finds no device. */
static void look_at_network(void) {
    static const char *const cards[] = {"/dev/infiniband/uverbs", "/dev/hfi1", "/dev/cxi", NULL};
    const unsigned ways = tug_settings.transports;
    char card[64] = "", reason[256] = "verbs is not in TUGBOAT_TRANSPORTS", other[256] = "";
    network.alone = tug_descriptor_of(cards, card, sizeof card) &&
                    (!(ways & TUG_WAY_VERBS) || tug_transport_verbs.missing(reason)) &&
                    (!(ways & TUG_WAY_OFI) || tug_wire_ofi_lacks_card(other));
    if (strstr(card, "cxi") != NULL)
        snprintf(reason, sizeof reason, "%s",
                 ways & TUG_WAY_OFI ? other : "ofi is not in TUGBOAT_TRANSPORTS");
    if (network.alone)
        snprintf(network.reason, sizeof network.reason,
                 "the host does RDMA by %s, and the library does not: %s", card, reason);
}

/* Should the host MPI keep a window of this team? True if a card does the host's puts between nodes
 * while the library would send packets, the team is on several nodes, and neither TUGBOAT_RMA nor
 * the info asks for packets. */
static bool host_alone_has_rdma(const struct tug_team *team, MPI_Info info) {
    if (team->nnodes == 1 || tug_settings.rma != TUG_RMA_AUTO ||
        info_says(info, "tugboat_lane", "packet"))
        return false; /* without a look at each descriptor of the process */
    pthread_once(&network.once, look_at_network);
    return network.alone;
}

/* ---- reasons ---- */

/* As far as this rank knows: what another wants or lacks it is not told. */
static const char *reason_for_native(MPI_Info info, const struct tug_team *team) {
    if (tug_settings.rma == TUG_RMA_NATIVE)
        return "TUGBOAT_RMA=native";
    if (info_says(info, "tugboat_lane", "native"))
        return "asked for by its info";
    if (tug_settings.progress == TUG_PROGRESS_CALLER)
        return "TUGBOAT_PROGRESS=caller leaves nobody to apply packets";
    if (team != NULL && host_alone_has_rdma(team, info))
        return network.reason;
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
    window->reason = reason_for_native(info, NULL);
    tug_engine_attend(1);
    tug_log(TUG_VERBOSE_INFO,
            "window %#" PRIx64 ": the host misplaces memory at %p; displacements are translated",
            tug_handle_bits(*win), base);
    return MPI_SUCCESS;
}

/* Makes the host's window ours, native lane. */
static void adopt_native(MPI_Win win, struct agreement agreed, MPI_Info info) {
    struct tug_window *window = tug_engine_bring_up() ? tug_window_adopt(win) : NULL;
    if (window == NULL)
        return;
    window->reason = reason_for_native(info, agreed.team);
    tug_stat_add(TUG_STAT_NATIVE_WINDOWS, 1);
    tug_log(TUG_VERBOSE_INFO, "window %#" PRIx64 ": native lane: %s", tug_handle_bits(win),
            window->reason);
    tug_engine_attend(1);
}

/* Does this rank want the window in the packet lane? Without the offload thread nobody would apply
 * what comes while the program is inside the host. */
static bool wants_packets(MPI_Info info, const struct tug_team *team) {
    return tug_settings.progress != TUG_PROGRESS_CALLER &&
           !info_says(info, "tugboat_lane", "native") && !host_alone_has_rdma(team, info);
}

/* May CPUs load and store the window's memory? What will be attached is not known yet. If the host
 * cannot work on a device's, it is not: registering it fails then, and so MPI_Win_attach. */
static bool reaches(const void *base, enum tug_remote_memory memory) {
    return memory == TUG_REMOTE_ATTACHED ? !tug_device_is_for_host()
                                         : memory != TUG_REMOTE_GIVEN || !tug_is_device(base);
}

/* What is the same for all windows of the packet lane. */
static void enter_remote(struct tug_window *window, struct tug_remote *remote,
                         struct tug_wait_group *wait_group, enum tug_remote_memory memory,
                         const struct tug_creation *c) {
    struct tug_team *team = remote->team;
    if (wait_group != NULL)
        tug_wait_group_enter(wait_group);
    window->wait_group = wait_group;
    window->remote = remote;
    window->sync = remote->block != NULL ? &remote->sync : NULL;
    window->lane =
        window->sync != NULL && team->nnodes == 1 ? &tug_remote_node_lane : &tug_remote_lane;
    window->reason = reason_for_packets(c->info, memory, team->nnodes);
    window->comm = team->comm;
    keep_geometry(window, remote->base, c->size, c->disp_unit);
    tug_stat_add(TUG_STAT_PACKET_WINDOWS, 1);
    tug_log(TUG_VERBOSE_INFO, "window %#" PRIx64 ": packet lane: %s",
            tug_handle_bits(window->handle), window->reason);
}

/* Of the ranks of one team whose windows have the packet lane. NULL: there are no others to wait
 * for, or no memory. */
static struct tug_wait_group *wait_group_of(const struct tug_team *team, MPI_Comm comm) {
    return team->nnodes > 1 ? tug_wait_group_of(comm, !team->threaded) : NULL;
}

static enum tug_remote_memory memory_of(const struct tug_creation *c) {
    return c->flavor == MPI_WIN_FLAVOR_CREATE    ? TUG_REMOTE_GIVEN
           : c->flavor == MPI_WIN_FLAVOR_DYNAMIC ? TUG_REMOTE_ATTACHED
                                                 : TUG_REMOTE_ALLOCATED;
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

/* Can it have the direct lane at all? The same answer on all ranks. */
static bool may_go_direct(const struct tug_creation *c, const struct tug_team *team) {
    if (team->nnodes > 1 || c->flavor == MPI_WIN_FLAVOR_DYNAMIC)
        return false;
    return c->flavor == MPI_WIN_FLAVOR_CREATE   ? tug_settings.rma == TUG_RMA_AUTO
           : c->flavor == MPI_WIN_FLAVOR_SHARED ? true
                                                : tug_settings.rma != TUG_RMA_PACKET;
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

/* Does the program want its memory aligned to more than a cache line? (The packet lane has it at
 * pages.) */
static bool wants_pages(MPI_Info info) {
    char text[MPI_MAX_INFO_VAL + 1] = "";
    int flag = 0;
    if (info != MPI_INFO_NULL)
        tug_host.Info_get(info, "mpi_minimum_memory_alignment", MPI_MAX_INFO_VAL, text, &flag);
    return flag && strtoll(text, NULL, 10) > 64;
}

/* ---- in the native lane ---- */

/* The host lays out ranks one after another by their sizes, and addresses the result wrongly where
 * one is not aligned: sizes are rounded up, the program sees its own. */
static MPI_Aint rounded(MPI_Aint size) {
    const MPI_Aint line = 64;
    return size > 0 ? (size + line - 1) / line * line : size;
}

static bool is_allocation(const struct tug_creation *c) {
    return c->flavor == MPI_WIN_FLAVOR_ALLOCATE || c->flavor == MPI_WIN_FLAVOR_SHARED;
}

/* Completes a native window of `size` bytes that the host has made. Collective. Returns MPI_SUCCESS
 * or a negative error class, which has not been reported yet. */
static int finish_native(const struct tug_creation *c, MPI_Aint size) {
    bool misplaced = c->flavor == MPI_WIN_FLAVOR_CREATE && is_misplaced(c->base, c->size, *c->win);
    struct agreement agreed = agree(misplaced, c->comm);
    if (agreed.misplaced) {
        int error = heal(c->base, c->size, c->disp_unit, c->info, c->comm, c->win);
        return -error;
    }
    adopt_native(*c->win, agreed, c->info);
    struct tug_window *window = tug_window_find(*c->win);
    if (window != NULL && size != c->size)
        keep_geometry(window, *(void **)c->baseptr, c->size, c->disp_unit);
    return MPI_SUCCESS;
}

static int make_native(const struct tug_creation *c) {
    bool rounds = c->flavor == MPI_WIN_FLAVOR_ALLOCATE && tug_settings.rma != TUG_RMA_OFF &&
                  tug_all_take_part(c->comm);
    MPI_Aint size = rounds ? rounded(c->size) : c->size;
    int error = c->host_call(c, size);
    return takes(error, c->comm) ? finish_native(c, size) : error;
}

/* ---- the host's window ---- */

/* What a team keeps for the windows that are made on its communicator. */
struct maker {
    MPI_Comm self;         /* of this rank alone, with MPI_ERRORS_RETURN */
    struct tug_word *told; /* [nranks] by the ranks, in the last creation */
};

static void maker_end(void *state) {
    struct maker *maker = state;
    if (maker->self != MPI_COMM_NULL)
        tug_host.Comm_free(&maker->self);
    free(maker->told);
    free(maker);
}

/* Local. MPI_COMM_NULL: the host has none. */
static MPI_Comm make_self(const struct tug_team *team) {
    MPI_Comm self = MPI_COMM_NULL;
    MPI_Group all, alone;
    tug_host.Comm_group(team->comm, &all);
    tug_host.Group_incl(all, 1, &team->rank, &alone);
    if (tug_host.Comm_create_group(team->comm, alone, 0, &self) == MPI_SUCCESS)
        tug_host.Comm_set_errhandler(self, MPI_ERRORS_RETURN);
    else
        self = MPI_COMM_NULL;
    tug_host.Group_free(&alone);
    tug_host.Group_free(&all);
    return self;
}

/* A team's, made if need be. Collective; the same answer on all ranks: NULL without memory or a
 * communicator. */
static struct maker *maker_of(struct tug_team *team) {
    struct tug_team_part *part = &team->parts[TUG_PART_CREATION];
    if (part->state != NULL)
        return part->state;
    if (team->nnodes == 1 || team->node_most > 1) /* without, by the host */
        (void)tug_team_prepare_to_meet(team);
    /* one to keep, and one for the window that is to be made */
    const bool has_comms = tug_host_has_comms(team->comm, 2);
    struct maker *maker = malloc(sizeof(*maker));
    if (maker != NULL)
        *maker = (struct maker){.self = has_comms ? make_self(team) : MPI_COMM_NULL,
                                .told = malloc((size_t)team->nranks * sizeof(*maker->told))};
    const bool good = maker != NULL && maker->self != MPI_COMM_NULL && maker->told != NULL;
    if (!tug_team_all_agree(team, good)) {
        if (maker != NULL)
            maker_end(maker);
        return NULL;
    }
    *part = (struct tug_team_part){.state = maker, .end = maker_end};
    return maker;
}

/* The host's window behind one of ours: over next to nothing, of this rank alone. Local. Open MPI
 * 4.1 makes no created or dynamic windows of one rank: there it is an allocated one, and
 * MPI_WIN_CREATE_FLAVOR is answered from window->flavor. */
static bool make_hosts(const struct tug_creation *c, MPI_Comm self, MPI_Win *win) {
    void *unused;
    struct tug_creation own = *c;
    own.comm = self;
    own.alone = true;
    own.base = NULL;
    own.baseptr = &unused;
    own.win = win;
#ifdef OPEN_MPI
    if (c->flavor != MPI_WIN_FLAVOR_SHARED)
        return tug_host.Win_allocate(1, 1, c->info, self, (void *)&unused, win) == MPI_SUCCESS;
#endif
    return c->host_call(&own, is_allocation(c) ? 1 : 0) == MPI_SUCCESS;
}

/* Takes back what make_ours() has made. */
static void drop_ours(struct tug_window *window) {
    if (window == NULL)
        return;
    MPI_Win win = window->handle;
    tug_window_give_back(window);
    tug_host.Win_free(&win);
}

/* A window that has no lane yet. Local. NULL: no memory, or the host makes none. */
static struct tug_window *make_ours(const struct tug_creation *c, const struct tug_team *team,
                                    MPI_Comm self) {
    struct tug_window *window = tug_window_new(team->nranks);
    MPI_Win win;
    if (window == NULL || !make_hosts(c, self, &win)) {
        tug_window_delete(window);
        return NULL;
    }
    if (tug_window_take(window, win))
        return window;
    tug_window_delete(window);
    tug_host.Win_free(&win);
    return NULL;
}

/* ---- together ---- */

/* What each rank brings. */
struct brought {
    union {
        struct tug_direct_part near;
        struct tug_remote_part part; /* if it proposes */
    };
    bool direct;   /* it wants and can have the direct lane, as far as this rank knows */
    bool packets;  /* ... the packet lane */
    bool proposes; /* `part` is its part of a window in the packet lane; begins as `near` does */
    bool pages;    /* its memory is to begin at a page, however small it is */
};

_Static_assert(offsetof(struct tug_direct_part, disp_unit) ==
                   offsetof(struct tug_remote_part, disp_unit),
               "parts begin alike");
_Static_assert(sizeof(struct brought) <= sizeof(struct tug_word), "brought to a meeting");

/* A creation that may end in a lane of ours. */
struct making {
    const struct tug_creation *c;
    struct tug_team *team;
    struct maker *maker;
    struct tug_wait_group *wait_group;
    struct tug_window *window; /* this rank's; NULL: it cannot have one */
    struct tug_remote *remote; /* proposed for it */
    struct brought all;        /* what is true of all ranks */
};

/* What this rank can do before it has heard of the others. */
static struct brought propose(struct making *m) {
    const struct tug_creation *c = m->c;
    const enum tug_remote_memory memory = memory_of(c);
    struct brought mine = {0};
    tug_device_look();
    mine.near = (struct tug_direct_part){.size = c->size, .disp_unit = c->disp_unit};
    const bool reached = reaches(c->base, memory);
    if (c->flavor == MPI_WIN_FLAVOR_CREATE && reached)
        mine.near.offer = tug_offer_of(c->base, (size_t)c->size);
    const bool lends =
        c->flavor != MPI_WIN_FLAVOR_CREATE || c->size == 0 || mine.near.offer.name != 0;
    mine.pages = wants_pages(c->info);
    m->wait_group = wait_group_of(m->team, c->comm);
    mine.direct =
        may_go_direct(c, m->team) && m->team->meeting != NULL && lends && wants_direct(c->info);
    mine.packets = c->flavor != MPI_WIN_FLAVOR_SHARED && wants_packets(c->info, m->team) &&
                   c->size < (MPI_Aint)1 << TUG_REMOTE_OFFSET_BITS && reached &&
                   tug_remote_serves(m->team) && (m->wait_group != NULL || m->team->nnodes == 1);
    if (!mine.direct && !mine.packets)
        return mine;
    m->window = make_ours(c, m->team, m->maker->self);
    if (m->window == NULL)
        return (struct brought){0};
    /* what will probably go by the direct lane is not proposed for the other */
    if (mine.packets && (!mine.direct || (c->flavor == MPI_WIN_FLAVOR_CREATE && c->size == 0)))
        m->remote = tug_remote_propose(m->team, c->base, c->size, c->disp_unit, memory, &mine.part);
    mine.proposes = m->remote != NULL;
    return mine;
}

/* What all ranks have in common. */
static struct brought common_of(const struct tug_word *words, int nranks) {
    struct brought all;
    memcpy(&all, words, sizeof(all));
    for (int r = 1; r < nranks; r++) {
        struct brought theirs;
        memcpy(&theirs, &words[r], sizeof(theirs));
        all.direct &= theirs.direct;
        all.packets &= theirs.packets;
        all.pages |= theirs.pages;
        all.proposes &= theirs.proposes && theirs.part.block == all.part.block;
    }
    all.proposes &= !all.direct;
    return all;
}

/* The ranks exchange what they can do. True: all have proposed the packet lane, and the window is
 * made. The same answer on all ranks. */
static bool consult(struct making *m) {
    tug_engine_keep_quiet();
    const struct brought mine = propose(m);
    struct tug_word word = {0}, *told = m->maker->told;
    memcpy(&word, &mine, sizeof(mine));
    if (tug_team_gather(m->team, &word, told) == MPI_SUCCESS)
        m->all = common_of(told, m->team->nranks);
    if (m->all.proposes) {
        tug_remote_accept(m->remote, told, sizeof(*told));
        enter_remote(m->window, m->remote, m->wait_group, memory_of(m->c), m->c);
    } else if (m->remote != NULL) {
        tug_remote_withdraw(m->remote);
    }
    return m->all.proposes;
}

/* Tries the direct lane. Collective, the same answer on all ranks. */
static bool go_direct(const struct making *m) {
    const struct tug_direct_layout layout = {
        .brought = m->c->flavor == MPI_WIN_FLAVOR_CREATE,
        .contiguous = m->c->flavor == MPI_WIN_FLAVOR_SHARED &&
                      !info_says(m->c->info, "alloc_shared_noncontig", "true"),
        .pages = m->all.pages};
    struct tug_direct *direct =
        tug_direct_create(m->team, layout, m->maker->told, sizeof(*m->maker->told), m->c->base);
    if (direct == NULL)
        return false;
    enter_direct(m->window, direct, m->team,
                 layout.brought ? "its ranks share a node, which can map its memory"
                                : "its ranks share a node and its memory was allocated for them");
    return true;
}

/* Tries the packet lane. Collective, the same answer on all ranks. */
static bool go_remote(const struct making *m) {
    const struct tug_creation *c = m->c;
    const enum tug_remote_memory memory = memory_of(c);
    struct tug_remote *remote = tug_remote_create(m->team, c->base, c->size, c->disp_unit, memory);
    if (remote == NULL)
        return false;
    enter_remote(m->window, remote, m->wait_group, memory, c);
    return true;
}

/* The window has its lane. */
static int succeeded(const struct making *m) {
    struct tug_window *window = m->window;
    window->flavor = m->c->flavor;
    *m->c->win = window->handle;
    if (is_allocation(m->c))
        *(void **)m->c->baseptr = window->base;
    return MPI_SUCCESS;
}

/* Windows that need another meeting: in the direct lane, in the packet lane with memory to be made,
 * or the host's. As finish_native(). */
static int make_together(const struct making *m) {
    if ((m->all.direct && go_direct(m)) || (m->all.packets && go_remote(m)))
        return succeeded(m);
    drop_ours(m->window);
    return make_native(m->c);
}

/* The host alone says what is wrong with it, without the others. */
static bool is_wrong(const struct tug_creation *c) {
    bool wrong = c->win == NULL || c->size < 0 || c->disp_unit <= 0 ||
                 (is_allocation(c) && c->baseptr == NULL) ||
                 (c->info != MPI_INFO_NULL && !tug_info_is_one(c->info));
#ifndef OPEN_MPI
    wrong |= c->flavor == MPI_WIN_FLAVOR_CREATE && c->size > 0 && c->base == NULL;
#endif
    return wrong;
}

/* As finish_native(). */
static int make_window(const struct tug_creation *c) {
    struct making m = {.c = c, .team = team_of(c->comm)};
    if (m.team != NULL && !is_wrong(c) &&
        !(c->flavor == MPI_WIN_FLAVOR_SHARED && m.team->nnodes > 1))
        m.maker = maker_of(m.team);
    if (m.maker != NULL && consult(&m))
        return succeeded(&m);
    static _Thread_local bool meets;
    if (meets) /* an error handler that the host called has thrown or jumped out of the last one */
        tug_spin_meeting_end();
    meets = true;
    tug_spin_meeting_begin(tug_engine_driving);
    const int error = make_together(&m);
    tug_spin_meeting_end();
    meets = false;
    return error;
}

int tug_window_make(const struct tug_creation *c) {
    const int error = make_window(c);
    if (error < 0)
        tug_report_comm(c->comm, -error);
    return error < 0 ? -error : error;
}
