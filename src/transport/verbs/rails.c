/* Rails: several ports, the shares of a long read or write that go by them, and what is short and
 * names one.
 *
 * A rail is an endpoint of its own, with a device, queues and pairs of its own, and each context
 * has a view of each of its rails. The first one does everything that has an order, and what is
 * short and names no other. A read or write of TUG_OPERATION_LONG bytes and more is cut into
 * shares, one for each rail that leads to the peer at the moment. A share is an operation itself,
 * with a tag of the context: it is posted, fails, starts again and moves as every operation does.
 * Where a rail has no way to the peer any more, the share goes by the next rail that it has not
 * been at, and behind the last by the next row. The operation ends when all its shares have ended.
 * Threading: the holder. */
#include <string.h>

#include "base/stats.h"
#include "transport/verbs/origin.h"
#include "transport/verbs/private.h"

#define SHARE_LEAST (TUG_OPERATION_LONG / 2)
#define SHARE_UNIT 4096u /* bytes that shares but for the last are a multiple of */

_Static_assert(TUG_RKEYS == 4, "a counter for each rail");

/* Does the rail's device know the local memory, or is there a store that lends some? */
static bool has_local(const struct tug_registration *registration, uint32_t rail) {
    return tug_origin_lends(registration) || tug_verbs_memory_of(registration, rail) != NULL;
}

/* May a share go to the peer by that rail? */
static bool leads(struct tug_verbs_view *view, const struct tug_operation *operation) {
    const struct tug_verbs *verbs = view->verbs;
    if (verbs->device_given_up || operation->rkeys[verbs->rail] == 0 ||
        !has_local(operation->registration, verbs->rail))
        return false;
    struct tug_verbs_contact *contact = tug_verbs_contact_of(view, operation->peer);
    return contact != NULL && !tug_verbs_pair_closed(contact->pair);
}

/* The operation that was cut ends with its last share. */
static void share_ended(void *d, int status) {
    struct tug_operation *operation = d;
    struct tug_verbs_view *view = (struct tug_verbs_view *)(uintptr_t)operation->own;
    if (operation->status == 0)
        operation->status = (int8_t)status;
    if (--operation->left > 0)
        return;
    view->out--;
    tug_endpoint_note(&view->wire);
    tug_fabric_complete(view->wire.fabric, operation);
}

static bool is_share(const struct tug_operation *operation) {
    return operation->on_complete.f == share_ended;
}

/* Posts the share by the first rail, from that one on, which it has not been at and which leads to
 * the peer. `own`: a bit for each rail that it has been at. False: there is none. */
static bool post_share(struct tug_verbs_view *first, struct tug_operation *share, uint32_t from) {
    for (uint32_t i = 0; i < first->nrails; i++) {
        const uint32_t rail = (from + i) % first->nrails;
        struct tug_verbs_view *view = first->rails[rail];
        if ((share->own & 1u << rail) || !leads(view, share))
            continue;
        share->own |= 1u << rail;
        share->rkey = share->rkeys[rail];
        tug_stat_add(TUG_STAT_VERBS_RAIL_1 + (enum tug_stat)rail, share->bytes);
        tug_verbs_post(view, share);
        return true;
    }
    return false;
}

bool tug_verbs_share_goes_on(struct tug_verbs_view *view, struct tug_operation *operation) {
    return is_share(operation) && post_share(view->first_rail, operation, view->verbs->rail + 1);
}

static void begin_share(struct tug_verbs_view *view, struct tug_operation *operation,
                        struct tug_operation *share, uint64_t at, uint64_t bytes) {
    *share = *operation;
    share->on_complete = (struct tug_callback){share_ended, operation};
    share->on_local = (struct tug_callback){NULL, NULL};
    share->offset += at;
    share->address += at;
    share->local += at;
    share->bytes = bytes;
    share->own = 0;
    share->registration->users++;
    view->wire.fabric->out++;
}

/* Tags for so many shares, or for fewer. */
static uint32_t take_tags(struct tug_verbs_view *view, uint32_t wanted, uint32_t tags[TUG_RKEYS]) {
    uint32_t n = 0;
    while (n < wanted && tug_tags_take_in_hand(&view->wire.fabric->tags, &tags[n]))
        n++;
    return n;
}

static bool is_long(const struct tug_operation *operation) {
    return operation->bytes >= TUG_OPERATION_LONG && operation->local != NULL &&
           (operation->kind == TUG_OPERATION_READ || operation->kind == TUG_OPERATION_WRITE);
}

bool tug_verbs_cut(struct tug_verbs_view *view, struct tug_operation *operation) {
    struct tug_operation *operations = view->wire.fabric->operations;
    uint32_t rails[TUG_RKEYS], tags[TUG_RKEYS], n = 0;
    if (view->nrails < 2 || !is_long(operation) || is_share(operation))
        return false;
    for (uint32_t rail = 0; rail < view->nrails; rail++)
        if (leads(view->rails[rail], operation))
            rails[n++] = rail;
    if (n == 0 || (n == 1 && rails[0] == 0))
        return false;
    if (n > operation->bytes / SHARE_LEAST)
        n = (uint32_t)(operation->bytes / SHARE_LEAST);
    n = take_tags(view, n, tags);
    if (n == 0)
        return false;
    const uint64_t each = operation->bytes / n / SHARE_UNIT * SHARE_UNIT;
    for (uint32_t i = 0; i < n; i++)
        begin_share(view, operation, &operations[tags[i]], i * each,
                    i + 1 < n ? each : operation->bytes - i * each);
    view->out++;
    operation->own = (uintptr_t)view;
    operation->left = n;
    for (uint32_t i = 0; i < n; i++)
        if (!post_share(view, &operations[tags[i]], rails[i]))
            tug_fabric_pass_on(view->wire.fabric, &operations[tags[i]], TUG_BY_VERBS);
    return true;
}

void tug_verbs_post_by_port(struct tug_verbs_view *view, struct tug_operation *operation) {
    const uint32_t rail = tug_operation_port(operation);
    const bool here = rail < view->nrails && (operation->local == NULL || operation->bytes == 0 ||
                                              has_local(operation->registration, rail));
    operation->op = 0;
    if (!here) {
        tug_fabric_pass_on(view->wire.fabric, operation, TUG_BY_VERBS);
        return;
    }
    tug_stat_add(TUG_STAT_VERBS_RAIL_1 + (enum tug_stat)rail, operation->bytes);
    tug_verbs_post(view->rails[rail], operation);
}
