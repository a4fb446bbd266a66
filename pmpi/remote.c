#include "pmpi/remote.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "engine/engine.h"
#include "host/host.h"
#include "llcl/context.h"
#include "persistent/team.h"
#include "pmpi/window.h"

/* ---- what a communicator's windows share ---- */

static void domain_free(void *pointer) {
    struct tug_domain *domain = pointer;
    if (domain->context != NULL)
        (void)tug_context_free(&domain->context);
    free(domain);
}

/* Collective, the same answer everywhere: NULL if it cannot be had. */
static struct tug_domain *domain_of(struct tug_team *team) {
    if (team->domain != NULL)
        return team->domain;
    struct tug_domain *domain = calloc(1, sizeof(*domain));
    if (!tug_all_agree(team->comm, domain != NULL)) {
        free(domain);
        return NULL;
    }
    int status = tug_context_create(team->comm, TUG_DRIVE_ENGINE, &domain->context);
    if (status != 0) {
        tug_log(TUG_VERBOSE_INFO, "no packet lane: %s", tug_strerror(status));
        free(domain);
        return NULL;
    }
    domain->context->internal = true;
    tug_remote_serve(domain);
    team->domain = domain;
    team->domain_free = domain_free;
    return domain;
}

/* The same on all ranks: creation and end of windows are collective. */
static uint32_t free_number(const struct tug_domain *domain) {
    uint32_t i = 0;
    while (i < TUG_REMOTE_WINDOWS && atomic_load(&domain->windows[i]) != NULL)
        i++;
    return i;
}

/* ---- memory ---- */

struct part {
    struct tug_key key;
    MPI_Aint size;
    MPI_Aint disp_unit;
};

/* Collective if it allocates. */
static bool have_memory(struct tug_remote *remote, void *base, MPI_Aint size, bool allocate) {
    tug_context *context = remote->domain->context;
    int status;
    if (allocate)
        status = tug_mem_allocate(context, (size_t)size, &remote->memory);
    else
        status = tug_mem_register(context, size > 0 ? base : NULL, (size_t)size, &remote->memory);
    if (status != 0) {
        tug_log(TUG_VERBOSE_INFO, "no packet lane for a window of %lld bytes: %s", (long long)size,
                tug_strerror(status));
        return false;
    }
    remote->base = allocate ? tug_mem_address(remote->memory) : base;
    remote->size = size;
    return true;
}

/* Collective if it was allocated. */
static void give_memory(struct tug_remote *remote) {
    if (remote->memory == NULL)
        return;
    if (remote->allocated) {
        (void)tug_mem_free(&remote->memory);
        return;
    }
    while (tug_mem_deregister(&remote->memory) == TUG_ERR_STATE)
        tug_progress(remote->domain->context); /* another's large transfer is at its very end */
}

/* Tells the others where this rank's memory is. The last that a creation waits for, see agree() in
 * window.c. False without memory. */
static bool exchange(struct tug_remote *remote, MPI_Aint disp_unit, MPI_Comm comm) {
    struct part mine = {.size = remote->size, .disp_unit = disp_unit};
    struct part *all = malloc((size_t)remote->nranks * sizeof(*all));
    if (!tug_all_agree(comm, all != NULL)) {
        free(all);
        return false;
    }
    tug_mem_key(remote->memory, &mine.key);
    tug_host.Allgather(&mine, sizeof(mine), MPI_BYTE, all, sizeof(mine), MPI_BYTE, comm);
    for (int r = 0; r < remote->nranks; r++) {
        remote->targets[r].key = all[r].key;
        remote->targets[r].size = all[r].size;
        remote->targets[r].disp_unit = all[r].disp_unit;
        remote->targets[r].seat.next = -1;
    }
    free(all);
    return true;
}

/* ---- creation and end ---- */

static struct tug_remote *make(struct tug_team *team, struct tug_domain *domain) {
    size_t n = (size_t)team->nranks;
    struct tug_remote *remote = calloc(1, sizeof(*remote) + n * sizeof(remote->targets[0]));
    if (remote == NULL)
        return NULL;
    remote->team = team;
    remote->domain = domain;
    remote->nranks = team->nranks;
    remote->rank = team->rank;
    remote->lock_first = remote->lock_last = -1;
    remote->number = free_number(domain);
    return remote;
}

struct tug_remote *tug_remote_create(struct tug_team *team, void *base, MPI_Aint size,
                                     MPI_Aint disp_unit, bool allocate, bool willing) {
    tug_engine_keep_quiet();
    struct tug_domain *domain = domain_of(team);
    if (domain == NULL)
        return NULL;
    struct tug_remote *remote = make(team, domain);
    willing = willing && remote != NULL && remote->number < TUG_REMOTE_WINDOWS &&
              size < (MPI_Aint)1 << TUG_REMOTE_PLACE_BITS;
    if (!tug_all_agree(team->comm, willing)) {
        free(remote);
        return NULL;
    }
    remote->allocated = allocate;
    bool have = have_memory(remote, base, size, allocate);
    if (!tug_all_agree(team->comm, have)) {
        give_memory(remote);
        free(remote);
        return NULL;
    }
    /* release: handlers look it up */
    atomic_store_explicit(&domain->windows[remote->number], remote, memory_order_release);
    tug_engine_keep_quiet();
    if (!exchange(remote, disp_unit, team->comm)) {
        atomic_store(&domain->windows[remote->number], NULL);
        give_memory(remote);
        free(remote);
        return NULL;
    }
    tug_team_hold(team);
    return remote;
}

static void forget(void *argument) {
    struct tug_remote *remote = argument;
    atomic_store(&remote->domain->windows[remote->number], NULL);
}

void tug_remote_release(struct tug_window *window) {
    struct tug_remote *remote = window->remote;
    /* by the holder: no handler is in it any more */
    tug_context_call(remote->domain->context, forget, remote);
    give_memory(remote);
    tug_team_drop(remote->team);
    free(remote->exposed);
    free(remote->started);
    free(remote);
}
