/* Puts and gets of the packet lane: they become LLCL's.
 *
 * Where both sides lie in one piece an operation is one write or read. Otherwise the two datatypes
 * are walked together, and every run that is a run on both sides is one. They work on the program's
 * memory itself.
 */
#include "host/datatype.h"
#include "llcl/llcl.h"
#include "rma/remote_last.h"
#include "rma/remote_owed.h"
#include "rma/remote_ways.h"

/* ---- put and get ---- */

/* What LLCL is told of an operation on bytes that lie together on both sides. */
static inline struct tug_transfer transfer_of(const struct tug_ways *ways,
                                              const struct tug_key *key, size_t offset, char *here,
                                              size_t bytes, enum tug_shortcut shortcut) {
    struct tug_transfer transfer = {.peer = &ways->state->peer,
                                    .key = key,
                                    .offset = offset,
                                    .here = here,
                                    .bytes = bytes,
                                    .shortcut = shortcut,
                                    .form = {0, 0, TUG_NO_FORM}};
    if (ways->plain != NULL)
        tug_remote_form(transfer.form, ways->remote, ways->rank, ways->plain->target_type,
                        ways->plain->target_count);
    return transfer;
}

/* Moves bytes that lie together on both sides. */
static inline void move_bytes(const struct tug_ways *ways, bool into_target,
                              const struct tug_key *key, size_t offset, char *here, size_t bytes,
                              enum tug_shortcut shortcut) {
    struct tug_transfer transfer = transfer_of(ways, key, offset, here, bytes, shortcut);
    struct tug_callback then;
    if (__builtin_expect(ways->bundle != NULL, 0)) {
        then = tug_ways_next_of_request(ways);
        transfer.then = &then;
    }
    if (bytes >= TUG_ORDERED_BELOW)
        atomic_store_explicit(&ways->state->overtaken, true, memory_order_relaxed);
    if (into_target)
        tug_peer_write(&transfer);
    else
        tug_peer_read(&transfer);
}

static enum tug_shortcut shortcut_to(const struct tug_ways *ways, const struct tug_key *key) {
    return tug_context_shortcut(ways->context, (uint32_t)ways->target->process, key);
}

/* The same, region by region. */
static int move_attached(const struct tug_ways *ways, bool into_target, uint64_t address,
                         char *here, size_t bytes) {
    struct tug_region region;
    while (bytes > 0) {
        int error = tug_remote_find(ways->remote, ways->rank, address, &region);
        if (error != MPI_SUCCESS)
            return error;
        size_t offset = address - region.base, now = region.bytes - offset;
        now = now < bytes ? now : bytes;
        move_bytes(ways, into_target, &region.key, offset, here, now,
                   shortcut_to(ways, &region.key));
        address += now;
        here += now;
        bytes -= now;
    }
    return MPI_SUCCESS;
}

static inline int move_run(const struct tug_ways *ways, bool into_target, MPI_Aint offset,
                           char *here, size_t bytes) {
    if (__builtin_expect(ways->remote->attachments != NULL, 0))
        return move_attached(ways, into_target, (uint64_t)(ways->offset + offset), here, bytes);
    size_t from_base = (size_t)(ways->offset + offset);
    move_bytes(ways, into_target, &ways->target->key, from_base, here, bytes,
               (enum tug_shortcut)ways->target->shortcut);
    return MPI_SUCCESS;
}

static int move_scattered(const struct tug_ways *ways, bool into_target,
                          const struct tug_data *here, const struct tug_data *there) {
    struct tug_run mine, its;
    if (!tug_run_begin(&mine, here, TUG_WALK_BYTES) || !tug_run_begin(&its, there, TUG_WALK_BYTES))
        return MPI_ERR_NO_MEM;
    while (tug_run_refill(&mine) && tug_run_refill(&its)) {
        size_t bytes = mine.left < its.left ? mine.left : its.left;
        int error = move_run(ways, into_target, its.at,
                             (char *)tug_run_address(here->address, mine.at), bytes);
        if (error != MPI_SUCCESS)
            return error;
        tug_run_consume(&mine, bytes, 1);
        tug_run_consume(&its, bytes, 1);
    }
    return MPI_SUCCESS;
}

/* Moves bytes that lie together on both sides, into the target, if the call copies them. False: it
 * does not, and they go another way. */
static bool put_copied(const struct tug_ways *ways, char *here, size_t bytes, int *error) {
    const struct tug_key *key = &ways->target->key;
    size_t offset = (size_t)ways->offset;
    struct tug_region region;
    *error = MPI_SUCCESS;
    if (bytes <= TUG_COPIED_MOST) {
        *error = move_run(ways, true, 0, here, bytes);
        return true;
    }
    if (ways->remote->attachments != NULL) {
        *error = tug_remote_find(ways->remote, ways->rank, offset, &region);
        if (*error != MPI_SUCCESS || region.bytes - (offset - region.base) < bytes)
            return *error != MPI_SUCCESS;
        offset -= region.base;
        key = &region.key;
    }
    const struct tug_transfer write =
        transfer_of(ways, key, offset, here, bytes, shortcut_to(ways, key));
    return write.shortcut != TUG_SHORTCUT_ANY && tug_peer_write_alone(&write);
}

static inline int transfer(const struct tug_rma *o, const void *here, bool into_target) {
    struct tug_data origin, data;
    struct tug_ways ways;
    if (!tug_operand_describe(&origin, here, o->origin_count, o->origin_type, o) ||
        !tug_operand_describe(&data, NULL, o->target_count, o->target_type, o))
        return TUG_RMA_REFUSED;
    if (tug_operand_is_nowhere(&origin))
        return MPI_ERR_BUFFER;
    TUG_RETURN_IF_NOBODY(o);
    int error = tug_ways_find(o, &data, &ways);
    if (__builtin_expect(error != MPI_SUCCESS, 0))
        return error;
    if (!into_target && ways.remote->attachments == NULL && tug_ways_is_plain(o, here))
        ways.plain = o;
    const size_t bytes = into_target ? origin.bytes : data.bytes;
    if (__builtin_expect(bytes > (into_target ? data.bytes : origin.bytes), 0))
        return MPI_ERR_TRUNCATE;
    /* a put whose bytes the call copies needs its buffer no more: its request is complete. What
     * goes wrong with it the next flush says. */
    if (into_target && o->request != NULL && bytes > 0 && origin.contiguous && data.contiguous &&
        put_copied(&ways, origin.address, bytes, &error)) {
        tug_context_pass(ways.context);
        return error != MPI_SUCCESS ? error : tug_rma_complete_request(o);
    }
    error = tug_ways_begin_request(o, &ways);
    if (error != MPI_SUCCESS)
        return error;
    if (__builtin_expect(origin.contiguous && data.contiguous, 1)) {
        ways.one_part = bytes > 0 && ways.remote->attachments == NULL;
        if (bytes > 0)
            error = move_run(&ways, into_target, 0, origin.address, bytes);
    } else {
        error = move_scattered(&ways, into_target, &origin, &data);
    }
    return tug_ways_end_request(&ways, error);
}

int tug_remote_put(const struct tug_rma *o) {
    struct tug_ways ways;
    if (tug_owed_joins(o, TUG_OWED_PUT, false))
        return MPI_SUCCESS;
    if (!tug_ways_is_plain(o, o->origin) || o->origin_count < 1 ||
        o->origin_count > TUG_COPIED_MOST)
        return transfer(o, o->origin, true);
    size_t bytes = (size_t)o->origin_count * tug_type_basic_size(o->target_type);
    int error = tug_ways_find_plain(o, bytes, &ways);
    if (__builtin_expect(error != MPI_SUCCESS, 0))
        return error;
    ways.plain = ways.remote->attachments == NULL ? o : NULL;
    return move_run(&ways, true, 0, (char *)(uintptr_t)o->origin, bytes);
}

int tug_remote_get(const struct tug_rma *o) {
    if (tug_owed_joins(o, TUG_OWED_GET, false))
        return MPI_SUCCESS;
    return transfer(o, o->result, false);
}
