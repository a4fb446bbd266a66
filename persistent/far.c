#include "persistent/far.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/system_page.h"
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

struct tug_far_ring tug_far_ring_to(const struct tug_team *team, uint32_t peer) {
    return (struct tug_far_ring){.far = tug_collectives_of(team)->far, .peer = peer};
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

bool tug_far_allocate(struct tug_team *team, size_t bytes, struct tug_far_memory *memory) {
    const size_t unit = bytes < tug_page_bytes() ? TUG_CACHE_LINE : tug_page_bytes();
    bytes = (bytes + unit - 1) / unit * unit;
    void *block = aligned_alloc(unit, bytes);
    if (block == NULL)
        return false;
    memset(block, 0, bytes);
    memory->owned = true;
    return tug_far_register(team, block, bytes, memory);
}

static void free_memory(const struct tug_far_memory *memory) {
    if (memory->owned)
        free(memory->base);
}

/* With the lock. */
static void reap(struct tug_far *far) {
    for (struct tug_far_kept **at = &far->partings; *at != NULL;) {
        struct tug_far_kept *parting = *at;
        if (tug_mem_deregister(&parting->memory.registration) == TUG_ERR_STATE) {
            at = &parting->next;
            continue;
        }
        *at = parting->next;
        free_memory(&parting->memory);
        free(parting);
    }
}

/* A late end may still be out. What there is no memory to note ends with the context. */
void tug_far_release(struct tug_team *team, struct tug_far_memory *memory) {
    if (memory->registration == NULL) {
        free_memory(memory);
        return;
    }
    struct tug_far *far = tug_collectives_of(team)->far;
    struct tug_far_kept *parting = far->context != NULL ? malloc(sizeof(*parting)) : NULL;
    if (parting == NULL)
        return;
    pthread_mutex_lock(&far->lock);
    *parting = (struct tug_far_kept){far->partings, *memory};
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

static void free_stream(void *stream) {
    free(((struct tug_far_stream *)stream)->offers);
    free(stream);
}

void tug_far_close(struct tug_channel *channel) {
    tdestroy(channel->far, free_stream);
}

static void free_list(struct tug_far_kept *list) {
    for (struct tug_far_kept *next; list != NULL; list = next) {
        next = list->next;
        free_memory(&list->memory);
        free(list);
    }
}

void tug_far_end(struct tug_collectives *own) {
    struct tug_far *far = own->far;
    if (far == NULL)
        return;
    if (far->context != NULL)
        (void)tug_context_free(&far->context);
    free_list(far->blocks);
    free_list(far->partings);
    pthread_mutex_destroy(&far->lock);
    free(far);
    own->far = NULL;
}
