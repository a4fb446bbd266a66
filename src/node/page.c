#include "node/page.h"

#include <pthread.h>
#include <stddef.h>

#include "engine/engine.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tug_node_page *own;

struct tug_node_page *tug_node_page_own(struct tug_offer *offer) {
    pthread_mutex_lock(&lock);
    if (own == NULL && (own = tug_lent_allocate(sizeof(struct tug_node_memory))) != NULL)
        tug_engine_show_looking(&own->looks_until);
    struct tug_node_page *page = own;
    pthread_mutex_unlock(&lock);
    if (page == NULL)
        return NULL;
    *offer = tug_lent_offer(page, sizeof(struct tug_node_memory));
    return offer->name != 0 ? page : NULL;
}

struct tug_node_page *tug_node_page_open(const struct tug_offer *offer) {
    if (offer->name == 0 || offer->lender == 0 || offer->bytes < sizeof(struct tug_node_memory))
        return NULL;
    return (struct tug_node_page *)tug_lent_share(offer);
}

void tug_node_page_close(const struct tug_offer *offer) {
    tug_lent_unshare(offer);
}
