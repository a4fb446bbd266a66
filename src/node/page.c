#include "node/page.h"

#include <pthread.h>
#include <stddef.h>

#include "engine/service.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tug_node_page *_Atomic own; /* set once */

struct tug_node_page *tug_node_page_made(void) {
    /* acquire: the page is zeroed by who has made it */
    return atomic_load_explicit(&own, memory_order_acquire);
}

/* With the lock. */
static struct tug_node_page *make(void) {
    struct tug_node_page *page = tug_lent_allocate(sizeof(struct tug_node_memory));
    if (page != NULL)
        tug_engine_show_looking(&page->looks_until);
    atomic_store_explicit(&own, page, memory_order_release);
    return page;
}

struct tug_node_page *tug_node_page_own(struct tug_offer *offer) {
    pthread_mutex_lock(&lock);
    struct tug_node_page *page = tug_node_page_made();
    if (page == NULL)
        page = make();
    pthread_mutex_unlock(&lock);
    if (page == NULL)
        return NULL;
    *offer = tug_lent_offer(page, sizeof(struct tug_node_memory));
    return offer->name != 0 ? page : NULL;
}

struct tug_node_page *tug_node_page_open(const struct tug_offer *offer) {
    if (offer->name == 0 || offer->lender == 0 ||
        !tug_lent_holds(offer, sizeof(struct tug_node_memory)))
        return NULL;
    return (struct tug_node_page *)tug_lent_share(offer);
}

void tug_node_page_close(const struct tug_offer *offer) {
    tug_lent_unshare(offer);
}
