#include "rma/spare.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "host/host.h"
#include "host/spin.h"
#include "node/team.h"

#define KEPT_MOST 8      /* by a team */
#define KEPT_MOST_ALL 32 /* by all teams: each has the id of a communicator */
static _Atomic int kept; /* by all, with places that are reserved */

struct tug_spares {
    struct tug_shelf shelf;
    struct tug_team *team;
    uint64_t order; /* random, alike on all ranks of the team */
    uint32_t last_id;
    struct tug_spares *older, *newer;
    struct tug_word *room;
};

/* Of the list of all; not held around calls of the host that are collective. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tug_spares *newest;

static void host_free(struct tug_spare *spare) {
    tug_spin_meeting_begin(tug_engine_driving);
    tug_host.Win_free(&spare->win);
    tug_spin_meeting_end();
    free(spare);
}

/* False: no room. */
static bool append(struct tug_kind *kind, const char *text) {
    const size_t bytes = strlen(text) + 1;
    if (bytes > sizeof(kind->says) - kind->nbytes)
        return false;
    memcpy(kind->says + kind->nbytes, text, bytes);
    kind->nbytes += (uint32_t)bytes;
    return true;
}

void tug_kind_of(int flavor, MPI_Info info, struct tug_kind *kind) {
    char key[MPI_MAX_INFO_KEY + 1], value[MPI_MAX_INFO_VAL + 1];
    int n = 0, flag;
    kind->flavor = flavor;
    kind->nbytes = 0;
    kind->long_info = false;
    if (info != MPI_INFO_NULL)
        tug_host.Info_get_nkeys(info, &n);
    for (int i = 0; i < n && !kind->long_info; i++) {
        tug_host.Info_get_nthkey(info, i, key);
        tug_host.Info_get(info, key, MPI_MAX_INFO_VAL, value, &flag);
        kind->long_info = !flag || !append(kind, key) || !append(kind, value);
    }
}

static bool is_of_kind(const struct tug_shelved *shelved, void *argument) {
    const struct tug_kind *one = &((const struct tug_spare *)shelved)->kind, *other = argument;
    return one->flavor == other->flavor && one->nbytes == other->nbytes &&
           memcmp(one->says, other->says, one->nbytes) == 0;
}

/* The team goes: collective, and no thread uses it. */
static void end(void *state) {
    struct tug_spares *spares = state;
    struct tug_shelved *spare;
    while ((spare = tug_shelf_borrow(&spares->shelf, NULL, NULL)) != NULL) {
        kept--;
        host_free((struct tug_spare *)spare);
    }
    pthread_mutex_lock(&lock);
    *(spares->newer != NULL ? &spares->newer->older : &newest) = spares->older;
    if (spares->older != NULL)
        spares->older->newer = spares->newer;
    pthread_mutex_unlock(&lock);
    free(spares->room);
    free(spares);
}

struct tug_spares *tug_spares_of(struct tug_team *team) {
    struct tug_team_part *part = &team->parts[TUG_PART_SPARES];
    if (part->state != NULL)
        return part->state;
    if (team->nnodes == 1 || team->node_most > 1) /* without, by the host */
        (void)tug_team_prepare_to_meet(team);
    const bool meets = team->nnodes == 1 && team->meeting != NULL;
    struct tug_word *room = meets ? NULL : malloc((size_t)team->nranks * sizeof(*room));
    struct tug_spares *spares = calloc(1, sizeof(*spares));
    if (!tug_team_all_agree(team, spares != NULL && (meets || room != NULL))) {
        free(room);
        free(spares);
        return NULL;
    }
    spares->shelf = (struct tug_shelf)TUG_SHELF(KEPT_MOST);
    spares->team = team;
    spares->room = room;
    spares->order = tug_team_draw(team);
    pthread_mutex_lock(&lock);
    spares->older = newest;
    if (newest != NULL)
        newest->newer = spares;
    newest = spares;
    pthread_mutex_unlock(&lock);
    *part = (struct tug_team_part){.state = spares, .end = end};
    return spares;
}

struct tug_word *tug_spares_room(struct tug_spares *spares) {
    return spares->room;
}

uint32_t tug_spares_draw(struct tug_spares *spares) {
    return ++spares->last_id;
}

/* In Open MPI's Fortran an attribute is set without our knowledge. */
static bool sees_attributes(void) {
#ifdef OPEN_MPI
    return false;
#else
    static _Atomic int sees = -1;
    if (sees < 0)
        sees = tug_host_find("MPII_Win_set_attr") != NULL;
    return sees;
#endif
}

struct tug_spare *tug_spare_make(MPI_Win win, const struct tug_kind *kind, uint32_t id) {
    const bool keeps = sees_attributes() && !kind->long_info;
    struct tug_spare *spare = keeps ? malloc(sizeof(*spare)) : NULL;
    if (spare == NULL)
        return NULL;
    *spare = (struct tug_spare){.shelved.id = id, .win = win, .kind = *kind};
    return spare;
}

struct tug_spare *tug_spare_borrow(struct tug_spares *spares, const struct tug_kind *kind) {
    if (kind->long_info)
        return NULL;
    return (struct tug_spare *)tug_shelf_borrow(&spares->shelf, is_of_kind, (void *)kind);
}

bool tug_spares_reserve(struct tug_spares *spares) {
    if (kept++ < KEPT_MOST_ALL && tug_team_keeps(spares->team) && tug_shelf_reserve(&spares->shelf))
        return true;
    kept--;
    return false;
}

void tug_spares_waive(struct tug_spares *spares) {
    kept--;
    tug_shelf_waive(&spares->shelf);
}

void tug_spare_put(struct tug_spares *spares, struct tug_spare *spare) {
    tug_shelf_put(&spares->shelf, &spare->shelved);
}

/* The first one of all teams, or NULL. */
static struct tug_spare *take_first(void) {
    struct tug_spares *from = NULL;
    pthread_mutex_lock(&lock);
    for (struct tug_spares *spares = newest; spares != NULL; spares = spares->older)
        if (spares->shelf.first != NULL && (from == NULL || spares->order < from->order))
            from = spares;
    struct tug_shelved *first = from != NULL ? tug_shelf_borrow(&from->shelf, NULL, NULL) : NULL;
    pthread_mutex_unlock(&lock);
    return (struct tug_spare *)first;
}

/* In an order that is the same everywhere: ranks wait for one another in each, and threads may have
 * made windows of several communicators in different orders. */
void tug_spares_end(void) {
    for (struct tug_spare *spare = take_first(); spare != NULL; spare = take_first())
        host_free(spare);
}
