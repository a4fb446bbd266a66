#include "node/neighbour.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/random.h"
#include "base/settings.h"
#include "node/cma.h"
#include "node/page.h"
#include "node/view.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tug_neighbour *neighbours; /* those with pages of their own */

struct tug_introduction tug_introduce(bool to_others) {
    static uint64_t word; /* 0: not drawn */
    static bool allowed;
    struct tug_introduction mine = {.address = (uint64_t)(uintptr_t)&word};
    pthread_mutex_lock(&lock);
    if (word != 0 || tug_random_draw(&word, sizeof(word)))
        mine.pid = getpid();
    mine.word = word;
    if (to_others && !allowed && (tug_settings.transports & TUG_WAY_CMA)) {
        tug_cma_allow(TUG_CMA_SCOPE);
        allowed = true;
    }
    pthread_mutex_unlock(&lock);
    (void)tug_node_page_own(&mine.page);
    return mine;
}

static pid_t probe(const struct tug_introduction *theirs) {
    const bool found =
        theirs->pid != 0 && tug_cma_probe(theirs->pid, theirs->address, theirs->word);
    return found ? theirs->pid : 0;
}

static bool is_same(const struct tug_offer *one, const struct tug_offer *other) {
    return one->name == other->name && one->offset == other->offset;
}

static bool comes_before(const struct tug_offer *one, const struct tug_offer *other) {
    return one->name != other->name ? one->name < other->name : one->offset < other->offset;
}

void tug_neighbour_use(struct tug_neighbour *neighbour, struct tug_node_memory *memory) {
    neighbour->live = memory->live;
    neighbour->inbox = &memory->inbox;
    neighbour->tray = &memory->tray;
}

/* This process's own page is mapped already. */
static void open_page(struct tug_neighbour *neighbour, const struct tug_offer *offer) {
    struct tug_offer mine = {0};
    struct tug_node_page *own = tug_node_page_own(&mine);
    neighbour->offer = *offer;
    neighbour->opened = own == NULL || !is_same(&mine, offer);
    neighbour->before = neighbour->opened && own != NULL && comes_before(offer, &mine);
    neighbour->page = neighbour->opened ? tug_node_page_open(offer) : own;
    if (neighbour->page != NULL) /* which the memory begins with */
        tug_neighbour_use(neighbour, (struct tug_node_memory *)neighbour->page);
}

static struct tug_neighbour *make(const struct tug_introduction *theirs,
                                  struct tug_node_page *page) {
    struct tug_neighbour *neighbour = calloc(1, sizeof(*neighbour));
    if (neighbour == NULL)
        return NULL;
    neighbour->page = page;
    if (page == NULL)
        open_page(neighbour, &theirs->page);
    if (neighbour->page == NULL) {
        free(neighbour);
        return NULL;
    }
    neighbour->pid = probe(theirs);
    return neighbour;
}

/* The neighbour whose page is that one. With the lock. */
static struct tug_neighbour *find(const struct tug_offer *page) {
    struct tug_neighbour *at = neighbours;
    while (at != NULL && !is_same(&at->offer, page))
        at = at->next;
    return at;
}

struct tug_neighbour *tug_neighbour_meet(const struct tug_introduction *theirs,
                                         struct tug_node_page *page) {
    pthread_mutex_lock(&lock);
    struct tug_neighbour *neighbour = page == NULL ? find(&theirs->page) : NULL;
    if (neighbour == NULL && (neighbour = make(theirs, page)) != NULL && page == NULL) {
        neighbour->next = neighbours;
        neighbours = neighbour;
    }
    if (neighbour != NULL)
        neighbour->users++;
    pthread_mutex_unlock(&lock);
    return neighbour;
}

bool tug_neighbours_try(void (*visit)(const struct tug_neighbour *neighbour, void *d), void *d) {
    if (pthread_mutex_trylock(&lock) != 0)
        return false;
    for (const struct tug_neighbour *at = neighbours; at != NULL; at = at->next)
        visit(at, d);
    pthread_mutex_unlock(&lock);
    return true;
}

void tug_neighbour_leave(struct tug_neighbour *neighbour) {
    pthread_mutex_lock(&lock);
    if (--neighbour->users > 0) {
        pthread_mutex_unlock(&lock);
        return;
    }
    struct tug_neighbour **at = &neighbours;
    while (*at != NULL && *at != neighbour)
        at = &(*at)->next;
    if (*at != NULL)
        *at = neighbour->next;
    tug_views_drop(neighbour);
    if (neighbour->opened)
        tug_node_page_close(&neighbour->offer);
    pthread_mutex_unlock(&lock);
    free(neighbour);
}
