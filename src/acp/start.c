/* How a command goes.
 *
 *   source here, destination here    a copy by the caller
 *   source here                      a write of LLCL
 *   destination here                 a read, or an atomic with its result
 *   both in memory of this node that this rank can reach: a copy by the caller
 *   neither                          to the rank of the source, where it is of the second kind
 *
 * An atomic whose result goes elsewhere is two operations of the source's rank: its old value waits
 * in the command. A remote end needs a key from the cache. An operation that ends with TUG_ERR_KEY
 * used a key that has ended. It looks the key up and starts again, once.
 */
#include <string.h>

#include "acp/layer.h"

static bool here(acp_ga_t ga) {
    return tug_acp_ga_rank(ga) == tug_acp.rank;
}

/* ---- checks ---- */

static bool can_be(acp_ga_t ga) {
    return tug_acp_ga_rank(ga) < tug_acp.nranks && tug_acp_ga_color(ga) < tug_acp.ncolors;
}

int tug_acp_check(const struct tug_acp_request *request) {
    if (request->kind != TUG_ACP_COPY &&
        (request->kind > TUG_ACP_COMPARE || request->op > TUG_SWAP ||
         (request->bytes != 4 && request->bytes != 8) ||
         (request->src | request->dst) % request->bytes != 0))
        return TUG_ERR_INVALID;
    return can_be(request->dst) && can_be(request->src) ? 0 : TUG_ERR_INVALID;
}

/* ---- LLCL's operations ---- */

/* On any thread. */
static void ended(void *argument, int status) {
    struct tug_acp_command *command = argument;
    if (__builtin_expect(status == TUG_ERR_KEY && command->used != 0, 0) && !command->looked_up) {
        command->stale = command->used;
        tug_acp_hand_over(command);
        return;
    }
    if (status == 0 && command->request.kind != TUG_ACP_COPY && !command->fetched &&
        !here(command->request.dst)) {
        command->fetched = true;
        if (tug_acp_start(command) != TUG_ACP_TAKEN)
            tug_acp_hand_over(command);
        return;
    }
    tug_acp_end(command, status);
}

static enum tug_acp_outcome finish(struct tug_acp_command *command, int status) {
    tug_acp_end(command, status);
    return TUG_ACP_TAKEN;
}

static enum tug_acp_outcome taken(bool yes) {
    return yes ? TUG_ACP_TAKEN : TUG_ACP_FULL;
}

/* False: the key of the GA's registration is not known, or only one that has been refused. */
static bool find_key(struct tug_acp_command *command, acp_ga_t ga, struct tug_key *key) {
    if (tug_acp_cache_find(&tug_acp.cache, tug_acp_ga_rank(ga), tug_acp_ga_number(ga), key) &&
        key->word[0] != command->stale) {
        command->used = key->word[0];
        return true;
    }
    command->missing = tug_acp_ga_base(ga);
    return false;
}

static enum tug_acp_outcome write_there(struct tug_acp_command *command,
                                        tug_registration *registration, size_t offset) {
    const struct tug_acp_request *request = &command->request;
    struct tug_key key;
    if (!find_key(command, request->dst, &key))
        return TUG_ACP_LOOK_UP;
    return taken(tug_try_write_async(
        tug_acp.context,
        &(struct tug_write_params){.dest_proc = (int)tug_acp_ga_rank(request->dst),
                                   .dest_raddr = {&key, tug_acp_offset(request->dst)},
                                   .src_laddr = {registration, offset},
                                   .size_in_bytes = request->bytes,
                                   .on_complete = {ended, command}}));
}

static enum tug_acp_outcome read_here(struct tug_acp_command *command,
                                      const struct tug_acp_pinned *to) {
    const struct tug_acp_request *request = &command->request;
    struct tug_key key;
    if (!find_key(command, request->src, &key))
        return TUG_ACP_LOOK_UP;
    return taken(tug_try_read_async(
        tug_acp.context,
        &(struct tug_read_params){.src_proc = (int)tug_acp_ga_rank(request->src),
                                  .src_raddr = {&key, tug_acp_offset(request->src)},
                                  .dest_laddr = {to->registration, to->offset},
                                  .size_in_bytes = request->bytes,
                                  .on_complete = {ended, command}}));
}

static enum tug_acp_outcome operate(struct tug_acp_command *command, const struct tug_key *key,
                                    struct tug_local_address result) {
    const struct tug_acp_request *request = &command->request;
    int process = (int)tug_acp_ga_rank(request->src);
    const struct tug_remote_address at = {key, tug_acp_offset(request->src)};
    if (request->kind == TUG_ACP_FETCH)
        return taken(tug_try_fetch_and_op_async(
            tug_acp.context, &(struct tug_fetch_and_op_params){.dest_proc = process,
                                                               .dest_raddr = at,
                                                               .result_laddr = result,
                                                               .size_in_bytes = request->bytes,
                                                               .op = request->op,
                                                               .operand = request->operand,
                                                               .on_complete = {ended, command}}));
    return taken(tug_try_compare_and_swap_async(
        tug_acp.context, &(struct tug_compare_and_swap_params){.dest_proc = process,
                                                               .dest_raddr = at,
                                                               .result_laddr = result,
                                                               .size_in_bytes = request->bytes,
                                                               .expected = request->compare,
                                                               .desired = request->operand,
                                                               .on_complete = {ended, command}}));
}

/* ---- the kinds ---- */

static struct tug_local_address old_value(struct tug_acp_command *command) {
    return (struct tug_local_address){tug_acp.registration,
                                      (size_t)((char *)&command->old - (char *)tug_acp.memory)};
}

/* The source's own rank does it: the result goes into the command. */
static enum tug_acp_outcome operate_for_another(struct tug_acp_command *command) {
    const struct tug_acp_request *request = &command->request;
    struct tug_local_address old = old_value(command);
    struct tug_acp_pinned at;
    if (command->fetched)
        return write_there(command, old.registration, old.offset);
    int status = tug_acp_pin(request->src, request->bytes, &at);
    if (status != 0)
        return finish(command, status);
    command->used = 0;
    enum tug_acp_outcome outcome = operate(command, &at.key, old);
    tug_acp_unpin(&at);
    return outcome;
}

static enum tug_acp_outcome start_atomic(struct tug_acp_command *command) {
    const struct tug_acp_request *request = &command->request;
    struct tug_acp_pinned result, at;
    struct tug_key key;
    if (!here(request->dst))
        return here(request->src) ? operate_for_another(command) : TUG_ACP_RELAY;
    int status = tug_acp_pin(request->dst, request->bytes, &result);
    if (status != 0)
        return finish(command, status);
    const struct tug_local_address to = {result.registration, result.offset};
    enum tug_acp_outcome outcome = TUG_ACP_LOOK_UP;
    if (!here(request->src)) {
        if (find_key(command, request->src, &key))
            outcome = operate(command, &key, to);
    } else if ((status = tug_acp_pin(request->src, request->bytes, &at)) == 0) {
        command->used = 0;
        outcome = operate(command, &at.key, to);
        tug_acp_unpin(&at);
    }
    tug_acp_unpin(&result);
    return status != 0 ? finish(command, status) : outcome;
}

static enum tug_acp_outcome copy_here(struct tug_acp_command *command) {
    const struct tug_acp_request *request = &command->request;
    struct tug_acp_pinned to, from;
    int status = tug_acp_pin(request->dst, request->bytes, &to);
    if (status != 0)
        return finish(command, status);
    status = tug_acp_pin(request->src, request->bytes, &from);
    if (status == 0) {
        memmove(to.address, from.address, request->bytes);
        tug_acp_unpin(&from);
    }
    tug_acp_unpin(&to);
    return finish(command, status);
}

/* May the GA be in memory that this rank can reach? */
static bool near(acp_ga_t ga) {
    return tug_reach_possible(tug_acp.context, tug_acp_ga_rank(ga));
}

static bool reach(acp_ga_t ga, const struct tug_key *key, uint64_t bytes, struct tug_reach *there) {
    return tug_reach_begin(tug_acp.context, key, tug_acp_ga_rank(ga), tug_acp_offset(ga), bytes,
                           there);
}

/* What is wrong with a request is for the rank of the source to say. */
static enum tug_acp_outcome copy_between(struct tug_acp_command *command) {
    const struct tug_acp_request *request = &command->request;
    struct tug_key from_key, to_key;
    struct tug_reach from, to;
    int status = 0;
    if (command->leave || !near(request->src) || !near(request->dst))
        return TUG_ACP_RELAY;
    if (!find_key(command, request->src, &from_key) || !find_key(command, request->dst, &to_key))
        return TUG_ACP_LOOK_UP;
    if (!reach(request->src, &from_key, request->bytes, &from))
        return TUG_ACP_RELAY;
    bool done = false;
    if (reach(request->dst, &to_key, request->bytes, &to)) {
        done = tug_reach_copy(&to, &from, request->bytes, &status);
        tug_reach_end(&to);
    }
    tug_reach_end(&from);
    command->leave = !done;
    return done ? finish(command, status) : TUG_ACP_RELAY;
}

enum tug_acp_outcome tug_acp_start(struct tug_acp_command *command) {
    const struct tug_acp_request *request = &command->request;
    if (request->kind != TUG_ACP_COPY)
        return start_atomic(command);
    if (!here(request->src)) {
        struct tug_acp_pinned to;
        if (!here(request->dst))
            return copy_between(command);
        int status = tug_acp_pin(request->dst, request->bytes, &to);
        if (status != 0)
            return finish(command, status);
        enum tug_acp_outcome outcome = read_here(command, &to);
        tug_acp_unpin(&to);
        return outcome;
    }
    if (here(request->dst))
        return copy_here(command);
    struct tug_acp_pinned from;
    int status = tug_acp_pin(request->src, request->bytes, &from);
    if (status != 0)
        return finish(command, status);
    enum tug_acp_outcome outcome = write_there(command, from.registration, from.offset);
    tug_acp_unpin(&from);
    return outcome;
}
