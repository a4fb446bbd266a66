#include "persistent/far.h"

#include <stdlib.h>

#include "engine/engine.h"
#include "host/agreement.h"
#include "llcl/llcl.h"
#include "node/team.h"
#include "persistent/channel.h"
#include "persistent/collectives.h"
#include "persistent/far_private.h"
#include "tugboat/tugboat.h"

/* ---- the context ---- */

static void context_ends(void *d) {
    ((struct tug_far *)d)->context = NULL;
}

static struct tug_far *make(struct tug_team *team) {
    struct tug_far *far = calloc(1, sizeof(*far));
    if (!tug_all_agree(team->comm, far != NULL) ||
        tug_context_create_on(team, &far->context) != 0) {
        free(far);
        return NULL;
    }
    if (!tug_context_has_network(far->context)) {
        (void)tug_context_free(&far->context);
        free(far);
        return NULL;
    }
    pthread_mutex_init(&far->lock, NULL);
    tug_context_set_with_jobs(far->context);
    tug_context_set_end(far->context, context_ends, far);
    return far;
}

bool tug_far_prepare(struct tug_team *team) {
    struct tug_collectives *own = tug_collectives_of(team);
    if (!own->far_sought && team->nnodes > 1)
        own->far = make(team);
    own->far_sought = true;
    return own->far != NULL;
}

struct tug_bell *tug_far_bell(const struct tug_team *team) {
    return tug_context_bell(tug_collectives_of(team)->far->context);
}

static void look(void *context) {
    tug_context_look(context);
}

tug_context *tug_far_context(const struct tug_team *team) {
    return tug_collectives_of(team)->far->context;
}

struct tug_counter *tug_far_ended(const struct tug_team *team) {
    return &tug_collectives_of(team)->far->ended;
}

void tug_far_look(const struct tug_team *team) {
    tug_engine_call(look, tug_collectives_of(team)->far->context);
}

/* ---- memory of requests ---- */

bool tug_far_register(struct tug_team *team, void *base, size_t bytes,
                      struct tug_far_memory *memory) {
    memory->base = base;
    return tug_mem_register(tug_collectives_of(team)->far->context, base, bytes,
                            &memory->registration) == 0;
}

static void let_part(struct tug_far_parting *parting) {
    if (parting->memory.owned)
        free(parting->memory.base);
    free(parting);
}

/* With the lock. */
static void reap(struct tug_far *far) {
    for (struct tug_far_parting **at = &far->partings; *at != NULL;) {
        struct tug_far_parting *parting = *at;
        if (tug_mem_deregister(&parting->memory.registration) == TUG_ERR_STATE) {
            at = &parting->next;
            continue;
        }
        *at = parting->next;
        let_part(parting);
    }
}

/* A late end may still be out. What there is no memory to note ends with the context. */
void tug_far_release(struct tug_team *team, struct tug_far_memory *memory) {
    struct tug_far *far = tug_collectives_of(team)->far;
    struct tug_far_parting *parting = NULL;
    if (memory->registration != NULL && far->context != NULL)
        parting = malloc(sizeof(*parting));
    if (parting == NULL)
        return;
    pthread_mutex_lock(&far->lock);
    *parting = (struct tug_far_parting){far->partings, *memory};
    far->partings = parting;
    if (!tug_engine_driving())
        reap(far);
    pthread_mutex_unlock(&far->lock);
    memory->registration = NULL;
}

void tug_far_reap(struct tug_far *far) {
    pthread_mutex_lock(&far->lock);
    reap(far);
    pthread_mutex_unlock(&far->lock);
}

/* ---- the end ---- */

void tug_far_close(struct tug_channel *channel) {
    for (uint32_t i = 0; i < channel->nfar; i++) {
        free(channel->far[i]->offers);
        free(channel->far[i]);
    }
    free((void *)channel->far);
}

void tug_far_end(struct tug_collectives *own) {
    struct tug_far *far = own->far;
    if (far == NULL)
        return;
    if (far->context != NULL)
        (void)tug_context_free(&far->context);
    for (struct tug_far_block *block = far->blocks, *next; block != NULL; block = next) {
        next = block->next;
        free(block->memory);
        free(block);
    }
    for (struct tug_far_parting *parting = far->partings, *next; parting != NULL; parting = next) {
        next = parting->next;
        let_part(parting);
    }
    pthread_mutex_destroy(&far->lock);
    free(far);
    own->far = NULL;
}
