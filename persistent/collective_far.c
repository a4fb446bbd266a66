/* A persistent collective's streams to ranks of other nodes. */
#include <stdlib.h>

#include "persistent/candidates.h"
#include "persistent/collective_private.h"
#include "persistent/far.h"
#include "tugboat/tugboat.h"

/* Its ways, and the agreement of their trial behind them; NULL: that is all. */
static struct tug_interpreter *nth(struct collective *c, uint32_t n) {
    if (n < c->nways)
        return &c->ways[n];
    return n == c->nways && c->tunes ? &c->candidates->agreement.interpreter : NULL;
}

/* Registers what long messages go to and come from. An area that cannot be has none. */
static void register_areas(struct collective *c) {
    c->registered = calloc(c->nareas, sizeof(*c->registered));
    for (uint32_t a = TUG_AREA_INPUT; a < c->nareas && c->registered != NULL; a++) {
        size_t begin = SIZE_MAX, end = 0;
        for (uint32_t i = 0; i < c->nways; i++)
            tug_interpreter_far_range(&c->ways[i], a, &begin, &end);
        if (begin < end)
            (void)tug_far_register(c->team, c->areas[a].base + begin, end - begin,
                                   &c->registered[a]);
    }
    for (uint32_t i = 0; i < c->nways; i++)
        c->ways[i].registered = c->registered;
}

int tug_collective_go_far(struct collective *c, bool rebinds) {
    struct tug_interpreter *way;
    bool ready = true;
    if (!tug_far_prepare(c->team))
        return 0;
    if (!rebinds)
        register_areas(c);
    for (uint32_t i = 0; (way = nth(c, i)) != NULL; i++)
        ready &= tug_interpreter_want_far(way);
    const int error = tug_far_open(c->team, c->channel, ready);
    for (uint32_t i = 0; (way = nth(c, i)) != NULL; i++) {
        if (error)
            tug_interpreter_drop_far(way);
        tug_interpreter_look_for_hosts(way);
    }
    return error == TUG_ERR_NO_MEMORY ? 0 : error; /* by the host's messages */
}

void tug_collective_leave_far(struct collective *c) {
    for (uint32_t a = 0; a < c->nareas && c->registered != NULL; a++)
        tug_far_release(c->team, &c->registered[a]);
    free(c->registered);
}
