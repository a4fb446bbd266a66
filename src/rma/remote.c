#include "rma/remote.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/settings.h"
#include "base/system_page.h"
#include "engine/engine.h"
#include "engine/host_progress.h"
#include "host/agreement.h"
#include "host/host.h"
#include "host/polite.h"
#include "llcl/llcl.h"
#include "node/arena.h"
#include "node/team.h"
#include "rma/remote_card.h"
#include "rma/remote_card_lock.h"
#include "rma/remote_owed.h"
#include "rma/window.h"

/* ---- domains ---- */

/* The domain that a team's windows use, kept by the team. */
struct team_domain {
    struct tug_domain *domain;
    struct tug_team *team;
    int *process_of; /* [nranks of the team] ranks in the domain */
};

static struct tug_domain *domains; /* oldest last */
static pthread_mutex_t domains_lock = PTHREAD_MUTEX_INITIALIZER;

static void domain_end(struct tug_domain *domain) {
    pthread_mutex_lock(&domains_lock);
    struct tug_domain **at = &domains;
    while (*at != domain)
        at = &(*at)->next;
    *at = domain->next;
    pthread_mutex_unlock(&domains_lock);
    tug_card_locks_close(domain);
    (void)tug_context_free(&domain->context);
    free(domain);
}

/* The team goes, and with it its own domain: nobody else holds it. Collective. */
static void team_domain_end(void *pointer) {
    struct team_domain *of_team = pointer;
    struct tug_domain *domain = of_team->domain;
    if (domain->team == of_team->team)
        domain_end(domain);
    else
        tug_team_drop(domain->team);
    free(of_team->process_of);
    free(of_team);
}

/* Where the team's ranks are in the domain. False if they are not all there. */
static bool find_processes(const struct tug_domain *domain, const struct tug_team *team,
                           int *process_of) {
    MPI_Group mine, its;
    bool all = true;
    int *ranks = malloc((size_t)team->nranks * sizeof(*ranks));
    if (ranks == NULL)
        return false;
    for (int r = 0; r < team->nranks; r++)
        ranks[r] = r;
    tug_host.Comm_group(team->comm, &mine);
    tug_host.Comm_group(domain->team->comm, &its);
    tug_host.Group_translate_ranks(mine, team->nranks, ranks, its, process_of);
    tug_host.Group_free(&mine);
    tug_host.Group_free(&its);
    for (int r = 0; r < team->nranks; r++)
        all &= process_of[r] >= 0 && process_of[r] < domain->team->nranks;
    free(ranks);
    return all;
}

/* The oldest domain that has all ranks of the team, and where they are in it; or NULL. */
static struct tug_domain *find_domain(const struct tug_team *team, int *process_of) {
    struct tug_domain *found = NULL;
    pthread_mutex_lock(&domains_lock);
    for (struct tug_domain *domain = domains; domain != NULL; domain = domain->next)
        if (domain->team->nranks >= team->nranks && find_processes(domain, team, process_of))
            found = domain;
    if (found != NULL) /* the domain that was tried last may be another */
        (void)find_processes(found, team, process_of);
    pthread_mutex_unlock(&domains_lock);
    return found;
}

/* True on all ranks if all have found the same. */
static bool agree_on(const struct tug_domain *domain, MPI_Comm comm) {
    uint64_t id = domain == NULL ? 0 : tug_context_id(domain->context);
    int64_t votes[2] = {(int64_t)id, ~(int64_t)id};
    return tug_agree(comm, MPI_MAX, votes, 2) == MPI_SUCCESS && votes[0] == ~votes[1] && id != 0;
}

/* A domain of the team's own. */
static struct tug_domain *domain_make(struct tug_team *team) {
    struct tug_domain *domain = calloc(1, sizeof(*domain));
    if (!tug_all_agree(team->comm, domain != NULL)) {
        free(domain);
        return NULL;
    }
    int status = tug_context_create_on(team, &domain->context);
    if (status != 0) {
        tug_log(TUG_VERBOSE_INFO, "no packet lane: %s", tug_strerror(status));
        free(domain);
        return NULL;
    }
    tug_context_set_internal(domain->context);
    domain->everything = tug_context_everything(domain->context);
    domain->team = team;
    domain->cards = tug_context_open_to_cards(domain->context);
    tug_remote_serve(domain);
    tug_card_locks_open(domain);
    pthread_mutex_lock(&domains_lock);
    domain->next = domains;
    domains = domain;
    pthread_mutex_unlock(&domains_lock);
    return domain;
}

/* Collective, the same answer everywhere: NULL if there is none. */
static struct team_domain *domain_of(struct tug_team *team) {
    struct tug_team_part *part = &team->parts[TUG_PART_WINDOWS];
    if (part->state != NULL)
        return part->state;
    struct team_domain *of_team = calloc(1, sizeof(*of_team));
    int *process_of = malloc((size_t)team->nranks * sizeof(*process_of));
    struct tug_domain *domain = NULL;
    if (!tug_all_agree(team->comm, of_team != NULL && process_of != NULL))
        goto fail;
    domain = find_domain(team, process_of);
    if (agree_on(domain, team->comm)) {
        tug_team_hold(domain->team);
    } else {
        domain = domain_make(team);
        for (int r = 0; r < team->nranks; r++)
            process_of[r] = r;
    }
    if (domain == NULL)
        goto fail;
    *of_team = (struct team_domain){domain, team, process_of};
    *part = (struct tug_team_part){.state = of_team, .end = team_domain_end};
    return of_team;
fail:
    free(of_team);
    free(process_of);
    return NULL;
}

/* A number for it that no other window has; TUG_REMOTE_WINDOWS: there is none. Nobody else knows
 * it, and so no message names it yet. Release: pairs with the acquire of handlers. */
static uint32_t claim_number(struct tug_domain *domain, struct tug_remote *remote) {
    uint32_t i = 0;
    for (; i < TUG_REMOTE_WINDOWS; i++) {
        struct tug_remote *none = NULL;
        if (atomic_load(&domain->windows[i]) == NULL &&
            atomic_compare_exchange_strong(&domain->windows[i], &none, remote))
            break;
    }
    return i;
}

/* ---- memory ---- */

union part {
    struct tug_remote_part part;
    struct tug_word word;
};

_Static_assert(sizeof(union part) == sizeof(struct tug_word), "ranks bring it to a meeting");

/* LLCL allocates for all processes of a context together, and a node's map it all. What is for some
 * of them, or has nobody to map it, is allocated by each, without a meeting; and so it is where
 * threads may make windows of two communicators of the same ranks at once: they would meet. */
static bool is_allocated_together(const struct tug_team *team, const struct tug_domain *domain,
                                  enum tug_remote_memory memory) {
    return memory == TUG_REMOTE_ALLOCATED && team->node_most > 1 &&
           (team == domain->team || (team->nranks == domain->team->nranks && !team->threaded));
}

/* Zeroed, at a page. NULL without memory. */
static void *bring_memory(struct tug_remote *remote, MPI_Aint size) {
    remote->brought = calloc(1, (size_t)size + tug_page_bytes());
    return remote->brought != NULL ? (void *)tug_page_up((uintptr_t)remote->brought) : NULL;
}

/* Collective if it allocates. */
static bool have_memory(struct tug_remote *remote, void *base, MPI_Aint size,
                        enum tug_remote_memory memory) {
    tug_context *context = remote->domain->context;
    int status;
    if (memory == TUG_REMOTE_ATTACHED) {
        remote->attachments = tug_attachments_make();
        return remote->attachments != NULL;
    }
    if (memory == TUG_REMOTE_ALLOCATED && !remote->allocated) {
        base = bring_memory(remote, size);
        if (base == NULL)
            return false;
    }
    if (remote->allocated)
        status = tug_mem_allocate(context, (size_t)size, &remote->memory);
    else
        status = tug_mem_register(context, size > 0 ? base : NULL, (size_t)size, &remote->memory);
    if (status != 0) {
        tug_log(TUG_VERBOSE_INFO, "no packet lane for a window of %lld bytes: %s", (long long)size,
                tug_strerror(status));
        return false;
    }
    remote->base = remote->allocated ? tug_mem_address(remote->memory) : base;
    remote->size = size;
    return true;
}

void tug_remote_deregister(struct tug_remote *remote, tug_registration **registration) {
    while (*registration != NULL && tug_mem_deregister(registration) == TUG_ERR_STATE)
        tug_progress(remote->domain->context); /* another's large transfer is at its very end */
}

/* Collective if it was allocated. */
static void give_memory(struct tug_remote *remote) {
    if (remote->memory != NULL && remote->allocated)
        (void)tug_mem_free(&remote->memory);
    tug_remote_deregister(remote, &remote->memory);
    tug_attachments_free(remote);
    free(remote->brought);
    if (remote->block != NULL) {
        tug_node_sync_end(&remote->sync);
        tug_block_give(remote->team, remote->block);
    }
}

/* Do ranks share a node, and memory for what epochs wait for? */
static bool wants_block(const struct tug_team *team) {
    return (team->nnodes == 1 || team->node_most > 1) && team->meeting != NULL;
}

/* What epochs wait for, and behind it, in dynamic windows, the books. */
static size_t block_bytes(const struct tug_team *team, bool dynamic) {
    const size_t n = (size_t)team->node_most;
    return tug_node_sync_bytes(team->node_most) + (dynamic ? n * sizeof(struct tug_book_room) : 0);
}

static void use_block(struct tug_remote *remote, struct tug_chunk *block) {
    struct tug_team *team = remote->team;
    remote->block = block;
    tug_node_sync_begin(&remote->sync, block->base, team->node_size, team->node_rank);
    for (int r = 0; r < remote->nranks; r++)
        remote->targets[r].near = team->places.node_of[r] == team->places.node_of[team->rank];
    remote->lock = &tug_remote_control(remote, remote->rank)->lock;
    if (remote->attachments == NULL)
        return;
    remote->rooms = (struct tug_book_room *)(block->base + block_bytes(team, false));
    tug_attachments_show(remote->attachments, &remote->rooms[team->node_rank]);
}

/* Where ranks share a node: memory for what epochs wait for. Without it messages do. Others use it
 * when they have heard of this rank's memory. Collective; false, on all ranks, if some rank is not
 * ready. */
static bool take_block(struct tug_team *team, struct tug_remote *remote, bool dynamic, bool ready) {
    if (!wants_block(team))
        return tug_team_all_agree(team, ready);
    struct tug_chunk *block = tug_block_take(team, block_bytes(team, dynamic), &ready);
    if (block == NULL)
        return ready;
    use_block(remote, block);
    return true;
}

static struct tug_remote_part part_of(const struct tug_remote *remote, MPI_Aint disp_unit) {
    struct tug_remote_part part = {
        .size = remote->size,
        .disp_unit = disp_unit,
        .number = remote->number,
        .block = remote->block != NULL ? (uint32_t)remote->block->shelved.id : 0};
    if (remote->memory != NULL)
        tug_mem_key(remote->memory, &part.key);
    return part;
}

static void know(struct tug_remote *remote, int rank, const struct tug_remote_part *part) {
    struct tug_remote_target *target = &remote->targets[rank];
    target->key = part->key;
    target->size = part->size;
    target->disp_unit = part->disp_unit;
    target->number = (uint16_t)part->number;
    target->shortcut =
        remote->attachments == NULL
            ? tug_context_shortcut(remote->domain->context, (uint32_t)target->process, &target->key)
            : TUG_SHORTCUT_ANY;
}

/* Tells the others where this rank's memory is; all: room for what they tell. The last that a
 * creation waits for, see agree() in create.c. */
static void exchange(struct tug_remote *remote, MPI_Aint disp_unit, union part *all) {
    const union part mine = {.part = part_of(remote, disp_unit)};
    (void)tug_team_gather(remote->team, &mine.word, &all->word);
    for (int r = 0; r < remote->nranks; r++)
        know(remote, r, &all[r].part);
}

/* ---- creation and end ---- */

size_t tug_remote_footprint(uint64_t nranks, uint64_t active) {
    return sizeof(struct tug_window) + sizeof(struct tug_remote) + sizeof(struct tug_registration) +
           sizeof(struct tug_chunk) +
           nranks * (sizeof(struct tug_remote_target) + sizeof(uint8_t)) + /* access */
           active * sizeof(struct tug_remote_state);
}

/* Nobody uses it. */
static void end(struct tug_remote *remote) {
    struct tug_remote_state *state = remote != NULL ? atomic_load(&remote->used) : NULL;
    while (state != NULL) {
        struct tug_remote_state *next = state->next;
        for (int i = 0; remote->attachments != NULL && i < TUG_BOOKS; i++)
            tug_book_close(&state->books[i]);
        tug_peer_end(&state->peer);
        tug_owed_forget(state);
        free(state->entry.records);
        free(state);
        state = next;
    }
    free(remote);
}

static struct tug_remote *make(const struct team_domain *of_team) {
    struct tug_team *team = of_team->team;
    size_t n = (size_t)team->nranks;
    const size_t line = _Alignof(struct tug_remote);
    const size_t bytes = sizeof(struct tug_remote) + n * sizeof(struct tug_remote_target);
    struct tug_remote *remote = aligned_alloc(line, (bytes + line - 1) / line * line);
    if (remote == NULL)
        return NULL;
    memset(remote, 0, bytes);
    static _Atomic uint32_t made;
    remote->team = team;
    remote->serial = atomic_fetch_add_explicit(&made, 1, memory_order_relaxed);
    remote->domain = of_team->domain;
    remote->nranks = team->nranks;
    remote->rank = team->rank;
    remote->lock = &remote->own_lock;
    remote->ordered = tug_context_ordered(remote->domain->context);
    for (int r = 0; r < team->nranks; r++)
        remote->targets[r].process = of_team->process_of[r];
    remote->number = claim_number(remote->domain, remote);
    return remote;
}

/* Takes back what creation has done on this rank: no other has sent anything to the window.
 * Collective where memory was allocated. */
static struct tug_remote *unmake(struct tug_remote *remote, union part *all) {
    if (remote != NULL && remote->number < TUG_REMOTE_WINDOWS)
        atomic_store(&remote->domain->windows[remote->number], NULL);
    if (remote != NULL)
        give_memory(remote);
    free(all);
    end(remote);
    return NULL;
}

/* Is a window of this domain better off than the host's? On a node without inboxes (no shared
 * memory, or the user's word) the host is faster. */
static bool is_worth_it(const struct tug_team *team, const struct tug_domain *domain) {
    return team->nnodes > 1 || tug_context_has_inboxes(domain->context) ||
           tug_settings.rma == TUG_RMA_PACKET;
}

bool tug_remote_serves(const struct tug_team *team) {
    const struct team_domain *of_team = team->parts[TUG_PART_WINDOWS].state;
    return of_team == NULL || is_worth_it(team, of_team->domain);
}

/* Others may send to it when they have heard of it. Release, once more: handlers see what has been
 * made of it. */
static void announce(struct tug_remote *remote) {
    tug_card_locks_begin(remote);
    atomic_store_explicit(&remote->domain->windows[remote->number], remote, memory_order_release);
}

/* It is a window. */
static void begin(struct tug_remote *remote) {
    tug_card_begin(remote);
    if (remote->block == NULL && remote->team->node_most > 1)
        remote->ordered = false; /* data follow a node's packets, and answers are read late */
    tug_team_hold(remote->team);
}

struct tug_remote *tug_remote_create(struct tug_team *team, void *base, MPI_Aint size,
                                     MPI_Aint disp_unit, enum tug_remote_memory memory) {
    tug_engine_keep_quiet();
    struct team_domain *of_team = domain_of(team);
    if (of_team == NULL)
        return NULL;
    struct tug_domain *domain = of_team->domain;
    const bool allocates = is_allocated_together(team, domain, memory);
    struct tug_remote *remote = make(of_team);
    union part *all = malloc((size_t)team->nranks * sizeof(*all));
    bool ready = remote != NULL && all != NULL && remote->number < TUG_REMOTE_WINDOWS &&
                 is_worth_it(team, domain);
    if (allocates && !tug_team_all_agree(team, ready)) /* all ranks do, or none */
        return unmake(remote, all);
    if (ready) {
        remote->allocated = allocates;
        ready = have_memory(remote, base, size, memory);
    }
    if (!take_block(team, remote, memory == TUG_REMOTE_ATTACHED, ready))
        return unmake(remote, all);
    announce(remote);
    tug_engine_keep_quiet();
    exchange(remote, disp_unit, all);
    free(all);
    begin(remote);
    return remote;
}

static void forget(void *argument) {
    struct tug_remote *remote = argument;
    atomic_store(&remote->domain->windows[remote->number], NULL);
}

struct tug_remote *tug_remote_propose(struct tug_team *team, void *base, MPI_Aint size,
                                      MPI_Aint disp_unit, enum tug_remote_memory memory,
                                      struct tug_remote_part *mine) {
    const struct team_domain *of_team = team->parts[TUG_PART_WINDOWS].state;
    struct tug_chunk *block = NULL;
    if (of_team == NULL || is_allocated_together(team, of_team->domain, memory))
        return NULL;
    struct tug_remote *remote = make(of_team);
    if (remote == NULL || remote->number >= TUG_REMOTE_WINDOWS ||
        !have_memory(remote, base, size, memory))
        return unmake(remote, NULL);
    if (wants_block(team)) {
        block = tug_block_pick(team, block_bytes(team, memory == TUG_REMOTE_ATTACHED));
        if (block == NULL)
            return unmake(remote, NULL);
        use_block(remote, block);
    }
    announce(remote);
    *mine = part_of(remote, disp_unit);
    return remote;
}

void tug_remote_accept(struct tug_remote *remote, const void *parts, size_t stride) {
    if (remote->block != NULL)
        tug_block_begin(remote->block);
    for (int r = 0; r < remote->nranks; r++)
        know(remote, r,
             (const struct tug_remote_part *)((const unsigned char *)parts + (size_t)r * stride));
    begin(remote);
}

void tug_remote_withdraw(struct tug_remote *remote) {
    if (remote->block != NULL)
        tug_block_put_back(remote->team, remote->block);
    remote->block = NULL;
    (void)unmake(remote, NULL);
}

void tug_remote_release(struct tug_window *window) {
    struct tug_remote *remote = window->remote;
    /* by the holder: no handler is in it any more, nor will be */
    tug_engine_call(forget, remote);
    tug_card_locks_end(remote);
    give_memory(remote);
    tug_team_drop(remote->team);
    end(remote);
}
