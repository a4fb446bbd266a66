/* Taking windows: creation, the table of handles, error handlers, attributes, end. */
#include "pmpi/window.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/settings.h"
#include "base/stats.h"
#include "engine/engine.h"
#include "host/agreement.h"
#include "host/handles.h"
#include "host/device.h"
#include "host/host.h"
#include "host/polite.h"
#include "node/team.h"
#include "pmpi/blocking.h"
#include "pmpi/circle.h"
#include "pmpi/direct.h"
#include "pmpi/party.h"
#include "pmpi/remote.h"
#include "pmpi/shim.h"

#define HOST_ALIGNMENT 16 /* what MPICH 4.0.2 over UCX addresses rightly */

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct tug_window *oldest, *newest;

/* ---- the table ---- */

#ifndef OPEN_MPI

tug_window_page *_Atomic tug_window_pages[TUG_WINDOW_PAGES];

static bool table_set(struct tug_window *window) {
    uint32_t key = tug_window_key(window->handle);
    tug_window_page *_Atomic *place = &tug_window_pages[key >> TUG_WINDOW_PAGE_BITS];
    tug_window_page *page = atomic_load(place);
    if (page == NULL) {
        tug_window_page *fresh = calloc(1, sizeof(*fresh));
        if (fresh == NULL)
            return false;
        if (atomic_compare_exchange_strong(place, &page, fresh))
            page = fresh;
        else
            free(fresh);
    }
    /* release: pairs with the acquire in tug_window_find */
    atomic_store_explicit(&(*page)[key & ((1u << TUG_WINDOW_PAGE_BITS) - 1)], window,
                          memory_order_release);
    return true;
}

/* The host may have given the handle to a new window of another thread already: only ours goes. */
static void table_clear(struct tug_window *window) {
    uint32_t key = tug_window_key(window->handle);
    tug_window_page *page = atomic_load(&tug_window_pages[key >> TUG_WINDOW_PAGE_BITS]);
    struct tug_window *expected = window;
    atomic_compare_exchange_strong(&(*page)[key & ((1u << TUG_WINDOW_PAGE_BITS) - 1)], &expected,
                                   NULL);
}

#else

struct tug_window_entry tug_window_entries[TUG_WINDOW_ENTRIES];

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;

/* The handle's entry, or the empty one that is to be it; NULL: neither. With the lock. */
static struct tug_window_entry *entry_of(MPI_Win win) {
    uint32_t key = tug_window_key(win);
    for (unsigned looks = 0; looks < TUG_WINDOW_ENTRIES; looks++) {
        struct tug_window_entry *entry = &tug_window_entries[key];
        MPI_Win handle = atomic_load_explicit(&entry->handle, memory_order_relaxed);
        if (handle == win || handle == NULL)
            return entry;
        key = (key + 1) % TUG_WINDOW_ENTRIES;
    }
    return NULL;
}

/* Addresses come back as windows come and go, but a program may see as many different ones as there
 * are entries: then the window stays the host's. */
static bool table_set(struct tug_window *window) {
    pthread_mutex_lock(&table_lock);
    struct tug_window_entry *entry = entry_of(window->handle);
    if (entry != NULL) {
        atomic_store_explicit(&entry->handle, window->handle, memory_order_relaxed);
        /* release: pairs with the acquire in tug_window_find */
        atomic_store_explicit(&entry->window, window, memory_order_release);
    }
    pthread_mutex_unlock(&table_lock);
    return entry != NULL;
}

static void table_clear(struct tug_window *window) {
    pthread_mutex_lock(&table_lock);
    struct tug_window_entry *entry = entry_of(window->handle);
    struct tug_window *expected = window;
    if (entry != NULL)
        atomic_compare_exchange_strong(&entry->window, &expected, NULL);
    pthread_mutex_unlock(&table_lock);
}

#endif

static void list_add(struct tug_window *window) {
    pthread_mutex_lock(&list_lock);
    window->older = newest;
    *(newest != NULL ? &newest->newer : &oldest) = window;
    newest = window;
    pthread_mutex_unlock(&list_lock);
}

static void list_remove(struct tug_window *window) {
    pthread_mutex_lock(&list_lock);
    *(window->older != NULL ? &window->older->newer : &oldest) = window->newer;
    *(window->newer != NULL ? &window->newer->older : &newest) = window->older;
    pthread_mutex_unlock(&list_lock);
}

/* ---- error handlers ---- */

static void init_recursive(pthread_mutex_t *lock) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

/* Gives the host's window the program's handler, for a call of the host's that is to report by
 * itself. */
static void lend_handler(struct tug_window *window) {
    pthread_mutex_lock(&window->lock);
    tug_host.Win_set_errhandler(window->handle, window->errhandler);
}

/* The program's handler may have been called, and may have freed the window. */
static void take_handler_back(MPI_Win handle, struct tug_window *window) {
    if (tug_window_find(handle) != window)
        return;
    tug_host.Win_set_errhandler(handle, MPI_ERRORS_RETURN);
    pthread_mutex_unlock(&window->lock);
}

int tug_window_raise(struct tug_window *window, int error) {
    if (window->errhandler == MPI_ERRORS_RETURN)
        return error;
    MPI_Win handle = window->handle;
    lend_handler(window);
    tug_host.Win_call_errhandler(handle, error);
    take_handler_back(handle, window);
    return error;
}

int tug_shim_Win_set_errhandler(MPI_Win win, MPI_Errhandler errhandler) {
    struct tug_window *window = tug_window_find(win);
    if (window == NULL)
        return tug_host.Win_set_errhandler(win, errhandler);
    lend_handler(window);
    int error = tug_host.Win_set_errhandler(win, errhandler);
    if (error == MPI_SUCCESS) {
        MPI_Errhandler old = window->errhandler;
        /* reading it back gives us a reference: the program may free its handle */
        tug_host.Win_get_errhandler(win, &window->errhandler);
        tug_host.Errhandler_free(&old);
    }
    take_handler_back(win, window);
    return error;
}

int tug_shim_Win_get_errhandler(MPI_Win win, MPI_Errhandler *errhandler) {
    struct tug_window *window = tug_window_find(win);
    if (window == NULL)
        return tug_host.Win_get_errhandler(win, errhandler);
    lend_handler(window);
    int error = tug_host.Win_get_errhandler(win, errhandler);
    take_handler_back(win, window);
    return error;
}

int tug_shim_Win_call_errhandler(MPI_Win win, int errorcode) {
    struct tug_window *window = tug_window_find(win);
    if (window == NULL)
        return tug_host.Win_call_errhandler(win, errorcode);
    (void)tug_window_raise(window, errorcode);
    return MPI_SUCCESS;
}

/* ---- taking ---- */

/* Makes a window ours. Without memory for it, it stays the host's alone. */
static struct tug_window *adopt(MPI_Win win) {
    struct tug_window *window = calloc(1, sizeof(*window));
    if (window == NULL)
        return NULL;
    window->handle = win;
    init_recursive(&window->lock);
    tug_host.Win_get_errhandler(win, &window->errhandler);
    if (!table_set(window)) {
        tug_host.Errhandler_free(&window->errhandler);
        pthread_mutex_destroy(&window->lock);
        free(window);
        return NULL;
    }
    tug_host.Win_set_errhandler(win, MPI_ERRORS_RETURN);
    list_add(window);
    tug_stat_add(TUG_STAT_WINDOW_TAKEN, 1);
    return window;
}

/* Nobody calls it by its handle any more: the host's window is gone, or the host's alone. */
static void disown(struct tug_window *window) {
    table_clear(window);
    list_remove(window);
    tug_host.Errhandler_free(&window->errhandler);
    tug_epochs_fini(&window->epochs);
    free(window->place);
    free(window->near);
    free(window);
}

/* The window gets no lane of ours: the host's is as it was before adopt(). NULL: nothing to undo.
 */
static void give_back(struct tug_window *window) {
    if (window == NULL)
        return;
    tug_host.Win_set_errhandler(window->handle, window->errhandler);
    disown(window);
}

/* The host's window is gone. */
static void window_release(struct tug_window *window) {
    if (window->lane != NULL)
        window->lane->release(window);
    else
        tug_engine_attend(-1);
    if (window->circle != NULL)
        tug_circle_leave(window->circle);
    disown(window);
}

static bool takes_windows(int error, MPI_Comm comm) {
    if (error == MPI_SUCCESS && tug_party_takes(comm) && tug_settings.rma != TUG_RMA_OFF &&
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
    if (tug_team_get(comm, &team) != 0) /* collective the first time on a communicator */
        team = NULL;
    uint64_t most[3] = {misplaced, (uint64_t)disp_unit, ~(uint64_t)disp_unit};
    (void)tug_agree(comm, MPI_MAX, most, 3);
    return (struct agreement){most[0] != 0, most[1] == ~most[2] ? (MPI_Aint)most[1] : 0, team};
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
static struct tug_place *gather_places(void *base, MPI_Aint disp_unit, MPI_Comm comm, int *nranks) {
    tug_host.Comm_size(comm, nranks);
    struct tug_place mine = {disp_unit, (MPI_Aint)((uintptr_t)base % HOST_ALIGNMENT)};
    struct tug_place *places = malloc((size_t)*nranks * sizeof(*places));
    if (!tug_all_agree(comm, places != NULL)) {
        free(places);
        return NULL;
    }
    TUG_POLITE(Iallgather, &mine, 2, MPI_AINT, places, 2, MPI_AINT, comm);
    return places;
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
    struct tug_place *places = gather_places(base, disp_unit, comm, &nranks);
    if (places == NULL)
        return MPI_ERR_NO_MEM;
    MPI_Aint shift = (MPI_Aint)((uintptr_t)base % HOST_ALIGNMENT);
    tug_host.Win_free(win);
    int error =
        tug_host.Win_create((char *)base - shift, size > 0 ? size + shift : 0, 1, info, comm, win);
    struct tug_window *window = error == MPI_SUCCESS ? adopt(*win) : NULL;
    if (window == NULL) {
        free(places);
        return error == MPI_SUCCESS ? MPI_ERR_NO_MEM : error;
    }
    keep_geometry(window, base, size, disp_unit);
    window->place = places;
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
    struct tug_window *window = adopt(win);
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
    return memory == TUG_REMOTE_ATTACHED ? !tug_devices
                                         : memory != TUG_REMOTE_GIVEN || !tug_is_device(base);
}

/* Tries the packet lane for a window whose host window is there. Collective, the same answer on all
 * ranks. */
static struct tug_window *go_remote(MPI_Win win, MPI_Comm comm, struct tug_team *team, void *base,
                                    MPI_Aint size, MPI_Aint disp_unit,
                                    enum tug_remote_memory memory, MPI_Info info) {
    struct tug_window *window = adopt(win);
    struct tug_circle *circle = team->nnodes > 1 ? tug_circle_of(comm) : NULL;
    bool willing = window != NULL && wants_packets(info) && reaches(base, memory) &&
                   (circle != NULL || team->nnodes == 1) &&
                   tug_epochs_init(&window->epochs, team->nranks);
    struct tug_remote *remote = tug_remote_create(team, base, size, disp_unit, memory, willing);
    if (remote == NULL) {
        give_back(window);
        return NULL;
    }
    if (circle != NULL)
        tug_circle_enter(circle);
    window->circle = circle;
    window->remote = remote;
    window->lane = &tug_remote_lane;
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
    struct tug_window *window = adopt(win);
    bool willing = window != NULL && wants_direct(info) && reaches(base, TUG_REMOTE_GIVEN) &&
                   tug_epochs_init(&window->epochs, team->nranks);
    struct tug_direct *direct = tug_direct_over(team, base, size, disp_unit, willing);
    if (direct == NULL) {
        give_back(window);
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
    bool good = tug_party_takes(comm) && has_lanes() && tug_team_get(comm, &team) == 0;
    return good ? team : NULL;
}

/* ---- the host's window behind one in a lane of ours ---- */

/* The communicator that the host's window is made on. Open MPI 4.1 has no one-sided communication
 * between nodes but over devices that do it themselves: over TCP it makes no window, and says
 * MPI_ERR_WIN; and so it does for created windows of one rank. The packet lane wants of the host's
 * window no more than the handle, with name, attributes, info and error handler: one of this rank
 * alone will do. The first attempt is on a communicator of ours, so that the program's handler does
 * not see it fail. */
struct attempt {
    MPI_Comm given, on;
    bool alone;
};

static struct attempt attempt_begin(MPI_Comm comm) {
    struct attempt attempt = {.given = comm, .on = comm};
#ifdef OPEN_MPI
    struct tug_team *team = team_of(comm);
    if (team != NULL && (team->nnodes > 1 || team->nranks == 1))
        attempt.on = team->comm;
#endif
    return attempt;
}

/* True: there is another one to make. On all ranks alike. */
static bool attempt_again(struct attempt *attempt, int error) {
    if (error != MPI_ERR_WIN || attempt->on == attempt->given || attempt->alone)
        return false;
    attempt->on = MPI_COMM_SELF;
    return attempt->alone = true;
}

/* Of this rank alone Open MPI makes only windows whose memory it allocates. */
static int make_alone(MPI_Info info, MPI_Win *win) {
    void *unused;
    return tug_host.Win_allocate(1, 1, info, MPI_COMM_SELF, (void *)&unused, win);
}

/* The window has its lane. */
static void attempt_succeeded(const struct attempt *attempt, struct tug_window *window,
                              int flavor) {
    window->alone = attempt->alone;
    window->flavor = flavor;
}

/* The host's window of this rank alone does not serve: there is none. */
static int attempt_failed(const struct attempt *attempt, MPI_Win *win) {
    tug_host.Win_free(win);
    tug_host.Comm_call_errhandler(attempt->given, MPI_ERR_WIN);
    return MPI_ERR_WIN;
}

static int take_created(int error, const struct attempt *attempt, void *base, MPI_Aint size,
                        MPI_Aint disp_unit, MPI_Info info, MPI_Comm comm, MPI_Win *win) {
    struct tug_team *team;
    struct tug_window *window = NULL;
    if (!takes_windows(error, comm))
        return error;
    if (has_lanes() && tug_team_get(comm, &team) == 0) {
        if (!attempt->alone && go_direct_over(*win, team, base, size, disp_unit, info))
            return MPI_SUCCESS;
        window = go_remote(*win, comm, team, base, size, disp_unit, TUG_REMOTE_GIVEN, info);
    }
    if (window != NULL) {
        attempt_succeeded(attempt, window, MPI_WIN_FLAVOR_CREATE);
        return MPI_SUCCESS;
    }
    if (attempt->alone)
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

static int take_dynamic(int error, const struct attempt *attempt, MPI_Info info, MPI_Comm comm,
                        MPI_Win *win) {
    struct tug_team *team;
    struct tug_window *window = NULL;
    if (!takes_windows(error, comm))
        return error;
    if (has_lanes() && tug_team_get(comm, &team) == 0)
        window = go_remote(*win, comm, team, MPI_BOTTOM, 0, 1, TUG_REMOTE_ATTACHED, info);
    if (window != NULL)
        attempt_succeeded(attempt, window, MPI_WIN_FLAVOR_DYNAMIC);
    else if (attempt->alone)
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
    char text[MPI_MAX_INFO_VAL + 1];
    int flag = 0;
    if (info != MPI_INFO_NULL)
        tug_host.Info_get(info, "mpi_minimum_memory_alignment", MPI_MAX_INFO_VAL, text, &flag);
    return flag && strtoll(text, NULL, 10) > 64;
}

/* A call that allocates a window's memory: MPI_Win_allocate or MPI_Win_allocate_shared. */
struct allocation {
    int (*host_call)(const struct allocation *, MPI_Aint size);
    bool shared;
    MPI_Aint size;
    MPI_Aint disp_unit;
    MPI_Info info;
    MPI_Comm comm;
    void *baseptr;
    MPI_Win *win;
};

/* Tries the direct lane for a window whose host window, over next to nothing, is there. Collective,
 * the same answer on all ranks. */
static bool go_direct(const struct allocation *a, struct tug_team *team) {
    if (team->nnodes > 1 || (tug_settings.rma == TUG_RMA_PACKET && !a->shared))
        return false;
    struct tug_window *window = adopt(*a->win);
    bool contiguous = a->shared && !info_says(a->info, "alloc_shared_noncontig", "true");
    bool willing =
        window != NULL && wants_direct(a->info) && tug_epochs_init(&window->epochs, team->nranks);
    struct tug_direct *direct =
        tug_direct_create(team, a->size, a->disp_unit, contiguous, wants_pages(a->info), willing);
    if (direct == NULL) {
        give_back(window);
        return false;
    }
    enter_direct(window, direct, team,
                 "its ranks share a node and its memory was allocated for them");
    *(void **)a->baseptr = window->base;
    return true;
}

static int allocate_native(const struct allocation *a) {
    bool rounds = !a->shared && tug_settings.rma != TUG_RMA_OFF && tug_party_takes(a->comm);
    int error = a->host_call(a, rounds ? rounded(a->size) : a->size);
    if (!takes_windows(error, a->comm))
        return error;
    adopt_native(*a->win, agree(false, a->disp_unit, a->comm), a->info);
    struct tug_window *window = tug_window_find(*a->win);
    if (window != NULL && rounds && rounded(a->size) != a->size)
        keep_geometry(window, *(void **)a->baseptr, a->size, a->disp_unit);
    return MPI_SUCCESS;
}

/* In a lane of ours the program's handle is a window of the host's over one byte at most, made as
 * the program said: the host checks the arguments, and answers for flavour, group and info. */
static int allocate(const struct allocation *a) {
    struct tug_team *team = team_of(a->comm);
    if (team == NULL || (a->shared && team->nnodes > 1))
        return allocate_native(a);
    struct attempt attempt = attempt_begin(a->comm);
    struct allocation handle = *a;
    int error;
    do {
        handle.comm = attempt.on;
        error = attempt.alone ? make_alone(a->info, a->win)
                              : a->host_call(&handle, a->size > 0 ? 1 : a->size);
    } while (attempt_again(&attempt, error));
    if (!takes_windows(error, a->comm))
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
    if (attempt.alone)
        return attempt_failed(&attempt, a->win);
    tug_host.Win_free(a->win);
    return allocate_native(a);
}

/* Makes the host's window: declares `attempt` and its `error`. */
#define MAKE_HOSTS(Name, arguments)                                                                \
    struct attempt attempt;                                                                        \
    int error;                                                                                     \
    tug_blocking_meet(comm);                                                                       \
    attempt = attempt_begin(comm);                                                                 \
    do {                                                                                           \
        comm = attempt.on;                                                                         \
        error = attempt.alone ? make_alone(info, win) : tug_host.Name arguments;                   \
    } while (attempt_again(&attempt, error));                                                      \
    comm = attempt.given;

#define TAKE_Win_create(Name, parameters, arguments)                                               \
    int tug_shim_##Name parameters {                                                               \
        MAKE_HOSTS(Name, arguments)                                                                \
        return take_created(error, &attempt, base, size, disp_unit, info, comm, win);              \
    }
#define TAKE_allocation(Name, is_shared, unit_t, parameters)                                       \
    static int host_##Name(const struct allocation *a, MPI_Aint size) {                            \
        return tug_host.Name(size, (unit_t)a->disp_unit, a->info, a->comm, a->baseptr, a->win);    \
    }                                                                                              \
    int tug_shim_##Name parameters {                                                               \
        tug_blocking_meet(comm);                                                                   \
        return allocate(&(struct allocation){host_##Name, is_shared, size, disp_unit, info, comm,  \
                                             baseptr, win});                                       \
    }
#define TAKE_Win_create_dynamic(Name, parameters, arguments)                                       \
    int tug_shim_##Name parameters {                                                               \
        MAKE_HOSTS(Name, arguments)                                                                \
        return take_dynamic(error, &attempt, info, comm, win);                                     \
    }
#define ROW_Win_create(...) TAKE_Win_create(Win_create, __VA_ARGS__)
#define ROW_Win_create_c(...) TAKE_Win_create(Win_create_c, __VA_ARGS__)
#define ROW_Win_allocate(p, a) TAKE_allocation(Win_allocate, false, int, p)
#define ROW_Win_allocate_c(p, a) TAKE_allocation(Win_allocate_c, false, MPI_Aint, p)
#define ROW_Win_allocate_shared(p, a) TAKE_allocation(Win_allocate_shared, true, int, p)
#define ROW_Win_allocate_shared_c(p, a) TAKE_allocation(Win_allocate_shared_c, true, MPI_Aint, p)
#define ROW_Win_create_dynamic(...) TAKE_Win_create_dynamic(Win_create_dynamic, __VA_ARGS__)
#define TUG_CALL_CREATE(Name, parameters, arguments) ROW_##Name(parameters, arguments)
#include "host/calls.def"

/* ---- using ---- */

#define TUG_CALL_WINDOW_PLAIN(Name, parameters, arguments)                                         \
    int tug_shim_##Name parameters {                                                               \
        struct tug_window *window = tug_window_find(win);                                          \
        int error = tug_host.Name arguments;                                                       \
        return window == NULL ? error : tug_window_report(window, error);                          \
    }
#include "host/calls.def"

/* In the packet lane the host's window stays empty; it says what is wrong with arguments. */
int tug_shim_Win_attach(MPI_Win win, void *base, MPI_Aint size) {
    struct tug_window *window = tug_window_find(win);
    if (window == NULL)
        return tug_host.Win_attach(win, base, size);
    bool ours = window->remote != NULL && window->remote->attachments != NULL && size >= 0 &&
                (base != NULL || size == 0);
    return tug_window_report(window, ours ? tug_remote_attach(window->remote, base, size)
                                          : tug_host.Win_attach(win, base, size));
}

int tug_shim_Win_detach(MPI_Win win, const void *base) {
    struct tug_window *window = tug_window_find(win);
    if (window == NULL)
        return tug_host.Win_detach(win, base);
    bool ours = window->remote != NULL && window->remote->attachments != NULL;
    return tug_window_report(window, ours ? tug_remote_detach(window->remote, base)
                                          : tug_host.Win_detach(win, base));
}

int tug_shim_Win_get_attr(MPI_Win win, int win_keyval, void *attribute_val, int *flag) {
    struct tug_window *window = tug_window_find(win);
    int error = tug_host.Win_get_attr(win, win_keyval, attribute_val, flag);
    if (window == NULL)
        return error;
    if (error == MPI_SUCCESS && window->alone && win_keyval == MPI_WIN_CREATE_FLAVOR)
        *(void **)attribute_val = &window->flavor;
    if (error == MPI_SUCCESS && window->own_geometry) {
        if (win_keyval == MPI_WIN_BASE)
            *(void **)attribute_val = window->base;
        else if (win_keyval == MPI_WIN_SIZE)
            *(void **)attribute_val = &window->size;
        else if (win_keyval == MPI_WIN_DISP_UNIT)
            *(void **)attribute_val = &window->disp_unit_int;
    }
    return tug_window_report(window, error);
}

int tug_shim_Win_get_group(MPI_Win win, MPI_Group *group) {
    struct tug_window *window = tug_window_find(win);
    int error = window != NULL && window->alone && group != NULL
                    ? tug_host.Comm_group(window->comm, group)
                    : tug_host.Win_get_group(win, group);
    return window == NULL ? error : tug_window_report(window, error);
}

int tug_shim_Win_get_info(MPI_Win win, MPI_Info *info_used) {
    struct tug_window *window = tug_window_find(win);
    int error = tug_host.Win_get_info(win, info_used);
    if (window == NULL)
        return error;
    if (error == MPI_SUCCESS) {
        tug_host.Info_set(*info_used, "tugboat_lane",
                          window->lane != NULL ? window->lane->name : "native");
        tug_host.Info_set(*info_used, "tugboat_lane_reason", window->reason);
    }
    return tug_window_report(window, error);
}

/* The host, which knows nothing of the memory in a lane of ours, has allowed the question. */
static void query_direct(const struct tug_direct *direct, int rank, MPI_Aint *size,
                         MPI_Aint *disp_unit, void *baseptr) {
    if (rank == MPI_PROC_NULL) { /* the first rank that has any */
        for (rank = 0; rank < direct->nranks && direct->targets[rank].size == 0;)
            rank++;
        rank = rank < direct->nranks ? rank : direct->rank;
    }
    *size = direct->targets[rank].size;
    *disp_unit = direct->targets[rank].disp_unit;
    *(void **)baseptr = direct->targets[rank].base;
}

/* Until MPI 4.1 only windows of MPI_Win_allocate_shared are asked for, which are never in the
 * packet lane. There the memory of others is not to be loaded from or stored to: it counts as none.
 */
static void query_packet(const struct tug_window *window, int rank, MPI_Aint *size,
                         MPI_Aint *disp_unit, void *baseptr) {
    const struct tug_remote *remote = window->remote;
    const bool own = rank == MPI_PROC_NULL || rank == remote->rank;
    *size = own ? window->size : 0;
    *disp_unit = remote->targets[own ? remote->rank : rank].disp_unit;
    *(void **)baseptr = own ? window->base : NULL;
}

#define SHARED_QUERY(Name, unit_t)                                                                 \
    int tug_shim_##Name(MPI_Win win, int rank, MPI_Aint *size, unit_t *disp_unit, void *baseptr) { \
        struct tug_window *window = tug_window_find(win);                                          \
        MPI_Aint unit;                                                                             \
        int error = tug_host.Name(win, rank, size, disp_unit, baseptr);                            \
        if (window == NULL)                                                                        \
            return error;                                                                          \
        if (error == MPI_SUCCESS && window->lane != NULL) {                                        \
            if (window->direct != NULL)                                                            \
                query_direct(window->direct, rank, size, &unit, baseptr);                          \
            else                                                                                   \
                query_packet(window, rank, size, &unit, baseptr);                                  \
            *disp_unit = (unit_t)unit;                                                             \
        }                                                                                          \
        return tug_window_report(window, error);                                                   \
    }
SHARED_QUERY(Win_shared_query, int)
SHARED_QUERY(Win_shared_query_c, MPI_Aint)

/* All ranks have come to the window's end, where those that wait serve those still at work, and
 * nothing of this rank's is under way; messages of the meeting itself were. */
static int meet_in(struct tug_window *window) {
    int error = window->lane->fence(window);
    int last = window->lane->flush_all(window, false);
    return error == MPI_SUCCESS ? last : error;
}

int tug_shim_Win_free(MPI_Win *win) {
    struct tug_window *window = win == NULL ? NULL : tug_window_find(*win);
    if (window == NULL)
        return tug_host.Win_free(win);
    if (window->lane != NULL && tug_epochs_busy(&window->epochs))
        return tug_window_raise(window, MPI_ERR_RMA_SYNC);
    tug_engine_drain();
    int last = window->lane != NULL ? meet_in(window) : MPI_SUCCESS;
    int deferred = tug_window_settle(window, last);
    /* from here on the program's handler again: the host may report an open epoch */
    tug_host.Win_set_errhandler(*win, window->errhandler);
    int error = tug_host.Win_free(win);
    if (error != MPI_SUCCESS) {
        tug_host.Win_set_errhandler(window->handle, MPI_ERRORS_RETURN);
        return error;
    }
    window_release(window);
    return deferred;
}

void tug_window_free_left_over(void) {
    for (struct tug_window *window = oldest, *next; window != NULL; window = next) {
        MPI_Win handle = window->handle;
        next = window->newer;
        tug_engine_drain();
        if (window->lane != NULL && tug_epochs_busy(&window->epochs))
            continue;
        if (window->lane != NULL)
            (void)window->lane->flush_all(window, false);
        if (tug_host.Win_free(&handle) == MPI_SUCCESS) /* an open epoch: it stays */
            window_release(window);
    }
}
