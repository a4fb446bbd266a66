/* Puts and gets of the packet lane: they become LLCL's.
 *
 * Where both sides lie in one piece an operation is one write or read. Otherwise the two datatypes
 * are walked together, and every run that is a run on both sides is one. They work on the program's
 * memory itself.
 */
#include <string.h>

#include "engine/notes.h"
#include "host/datatype.h"
#include "llcl/llcl.h"
#include "rma/remote_company.h"
#include "rma/remote_ways.h"

/* ---- in company ---- */

typedef uint32_t run_in_context(struct tug_context *context, uint32_t peer,
                                const struct tug_key *key, uint64_t offset,
                                const unsigned char *run, uint32_t n, size_t bytes,
                                struct tug_counter *counter);

static inline uint32_t execute_run(const struct tug_company *company, const unsigned char *run,
                                   uint32_t n, struct tug_outstanding *outstanding,
                                   run_in_context *start) {
    const uint64_t *words = company->words;
    const struct tug_remote *remote = (const struct tug_remote *)(uintptr_t)words[TUG_OF_REMOTE];
    const struct tug_remote_target *target =
        (const struct tug_remote_target *)(uintptr_t)words[TUG_OF_TARGET];
    const struct tug_key key = {.word = {[0] = words[TUG_OF_KEY]}};
    struct tug_generation *generation = tug_remote_open_generation(outstanding);
    tug_ways_count_in_hand(generation, (int)n);
    const uint32_t done =
        start(remote->domain->context, (uint32_t)target->process, &key, words[TUG_OF_OFFSET], run,
              n, (size_t)words[TUG_OF_BYTES], &generation->ended);
    if (__builtin_expect(done < n, 0))
        tug_ways_count_in_hand(generation, (int)done - (int)n);
    return done;
}

static struct tug_remote_state *state_of(const struct tug_company *company) {
    return ((const struct tug_remote_target *)(uintptr_t)company->words[TUG_OF_TARGET])->state;
}

static uint32_t execute_puts(const struct tug_company *company, const unsigned char *run,
                             uint32_t n) {
    return execute_run(company, run, n, &state_of(company)->remote, tug_context_write_run);
}

static uint32_t execute_gets(const struct tug_company *company, const unsigned char *run,
                             uint32_t n) {
    return execute_run(company, run, n, &state_of(company)->local, tug_context_read_run);
}

/* Is the company that is open one of operations like this, and is there room? Then it has it. */
static inline bool join_company(const struct tug_ways *ways, enum tug_company_kind kind,
                                uint64_t key, uint64_t offset, const void *here, size_t bytes) {
    struct tug_company *company = tug_burst.companies[kind];
    uint32_t distance;
    if (company == NULL || company->words[TUG_OF_BYTES] != bytes ||
        company->words[TUG_OF_TARGET] != (uintptr_t)ways->target ||
        company->words[TUG_OF_KEY] != key || !tug_company_reaches(company, offset, &distance) ||
        (!tug_company_has_room(company, kind) && !tug_company_go(company, kind)))
        return false;
    tug_remote_join(company, kind, distance, here);
    if (ways->plain != NULL) {
        company->words[TUG_OF_TYPE] = (uint64_t)(uintptr_t)ways->plain->target_type;
        company->words[TUG_OF_COUNT] = (uint64_t)ways->plain->target_count;
    }
    return true;
}

/* The first one of a company, which may wait: one of many, to another rank of the node. Between
 * nodes the packet takes longer than its puts, and notes do. False: there is none for it. */
static bool open_company(const struct tug_ways *ways, enum tug_company_kind kind, uint64_t key,
                         uint64_t offset, const void *here, size_t bytes) {
    if (!ways->target->near || ways->rank == ways->remote->rank || tug_burst_is_single())
        return false;
    if (tug_notebook != NULL) { /* what an earlier burst has left waiting may be like this */
        tug_burst.companies[kind] = &tug_notebook->companies[kind];
        if (join_company(ways, kind, key, offset, here, bytes))
            return true;
    }
    struct tug_company *company = tug_burst.companies[kind] = tug_company_open(
        kind, kind == TUG_COMPANY_READS ? (uint32_t)sizeof(here) : (uint32_t)bytes);
    if (company == NULL)
        return false;
    company->execute = kind == TUG_COMPANY_READS ? execute_gets : execute_puts;
    company->words[TUG_OF_REMOTE] = (uintptr_t)ways->remote;
    company->words[TUG_OF_TARGET] = (uintptr_t)ways->target;
    company->words[TUG_OF_KEY] = key;
    company->words[TUG_OF_OFFSET] = offset;
    company->words[TUG_OF_BYTES] = bytes;
    company->words[TUG_OF_COUNT] = TUG_UNLIKE;
    return join_company(ways, kind, key, offset, here, bytes);
}

/* Can a put to memory that is not mapped wait for others? */
static inline bool may_wait(const struct tug_ways *ways, enum tug_shortcut shortcut, size_t bytes) {
    return bytes - 1 < TUG_COPIED_MOST && ways->bundle == NULL &&
           !(shortcut == TUG_SHORTCUT_SINGLE && tug_burst_is_single() &&
             (tug_burst.awaited || !tug_peer_serves(ways->context, (uint32_t)ways->process)));
}

/* A short get of many, from a target next to this rank that looks, goes with others. False: another
 * way. */
static inline bool accompany_get(const struct tug_ways *ways, uint64_t key, size_t offset,
                                 const void *here, size_t bytes) {
    return bytes - 1 < TUG_READ_TOGETHER_MOST && ways->bundle == NULL &&
           (join_company(ways, TUG_COMPANY_READS, key, offset, here, bytes) ||
            (!tug_burst_is_single() && tug_peer_serves(ways->context, (uint32_t)ways->process) &&
             open_company(ways, TUG_COMPANY_READS, key, offset, here, bytes)));
}

/* ---- put and get ---- */

/* The most common put, one of many: noted. */
struct noted_put {
    tug_context *context;
    const struct tug_remote_target *target;
    uint64_t offset;
    uint32_t bytes;
    unsigned char data[TUG_COPIED_MOST];
};
_Static_assert(sizeof(struct noted_put) <= TUG_NOTE_PAYLOAD, "it fits a note");

static bool execute_put(const struct tug_note *note) {
    const struct noted_put *put = (const struct noted_put *)note->payload.bytes;
    const struct tug_remote_target *target = put->target;
    struct tug_generation *generation = tug_remote_open_generation(&target->state->remote);
    tug_ways_count_in_hand(generation, 1);
    return tug_context_write_noted(put->context, (uint32_t)target->process, &target->key,
                                   put->offset, put->data, put->bytes, &generation->ended) ||
           tug_ways_count_in_hand(generation, -1);
}

/* False: it has not been noted. */
static inline bool note_put(const struct tug_ways *ways, size_t offset, const void *here,
                            size_t bytes) {
    if (!may_wait(ways, (enum tug_shortcut)ways->target->shortcut, bytes))
        return false;
    const uint64_t key = ways->target->key.word[0];
    if (join_company(ways, TUG_COMPANY_WRITES, key, offset, here, bytes) ||
        open_company(ways, TUG_COMPANY_WRITES, key, offset, here, bytes))
        return true; /* others than those in the company that waits */
    struct tug_note *note = tug_note_begin(TUG_NOTE_ANY);
    if (note == NULL)
        return false;
    struct noted_put *put = (struct noted_put *)note->payload.bytes;
    note->execute = execute_put;
    put->context = ways->context;
    put->target = ways->target;
    put->offset = offset;
    put->bytes = (uint32_t)bytes;
    if (__builtin_expect(bytes == 8, 1))
        memcpy(put->data, here, 8);
    else
        memcpy(put->data, here, bytes);
    tug_note_end();
    tug_burst_add();
    return true;
}

/* Moves bytes that lie together on both sides. */
static inline void move_bytes(const struct tug_ways *ways, bool into_target,
                              const struct tug_key *key, size_t offset, char *here, size_t bytes) {
    const struct tug_remote_address there = {key, offset};
    const struct tug_local_address local = {ways->remote->domain->everything,
                                            (size_t)(uintptr_t)here};
    if (bytes >= TUG_ORDERED_BELOW)
        atomic_store_explicit(&ways->state->overtaken, true, memory_order_relaxed);
    if (into_target) {
        const struct tug_write_params write = {.dest_proc = ways->process,
                                               .dest_raddr = there,
                                               .src_laddr = local,
                                               .size_in_bytes = bytes,
                                               .on_local = tug_ways_next_reading(ways, bytes),
                                               .on_complete =
                                                   tug_ways_next_of(&ways->state->remote)};
        TUG_REMOTE_TRY(ways->context, tug_try_write_async(ways->context, &write));
    } else {
        const struct tug_read_params read = {.src_proc = ways->process,
                                             .src_raddr = there,
                                             .dest_laddr = local,
                                             .size_in_bytes = bytes,
                                             .on_complete = tug_ways_next_part(ways, true)};
        TUG_REMOTE_TRY(ways->context, tug_try_read_async(ways->context, &read));
    }
}

/* A short put to a region of a target next to this rank goes with others. False: another way. */
static inline bool accompany_attached(const struct tug_ways *ways, const struct tug_key *key,
                                      size_t offset, const void *here, size_t bytes) {
    return join_company(ways, TUG_COMPANY_WRITES, key->word[0], offset, here, bytes) ||
           (may_wait(ways, TUG_SHORTCUT_SINGLE, bytes) &&
            open_company(ways, TUG_COMPANY_WRITES, key->word[0], offset, here, bytes));
}

/* Moves them by themselves, if the target is next to this rank and looks; of a put nothing is left
 * here. One of many goes with the others if it is short. False: they go another way. */
static inline bool move_alone(const struct tug_ways *ways, bool into_target,
                              const struct tug_key *key, size_t offset, char *here, size_t bytes) {
    const uint32_t process = (uint32_t)ways->process;
    if (!ways->target->near || ways->rank == ways->remote->rank || bytes > TUG_ALONE_MOST ||
        (into_target && bytes < TUG_ALONE_LEAST && !(tug_burst_is_single() && tug_burst.awaited)) ||
        !tug_peer_serves(ways->context, process))
        return false;
    if (into_target && tug_burst.companies[TUG_COMPANY_READS] != NULL)
        tug_reads_settle(); /* it does not overtake them */
    const struct tug_callback then =
        into_target ? tug_ways_next_of(&ways->state->remote) : tug_ways_next_part(ways, true);
    if (!(into_target
              ? tug_context_write_alone(ways->context, process, key, offset, here, bytes, then)
              : tug_context_read_alone(ways->context, process, key, offset, here, bytes, then))) {
        then.f(then.d, 0); /* it was counted */
        return false;
    }
    tug_burst_add();
    return true;
}

/* Gathers them next to a target that computes. False: they go another way. */
static inline bool gather_run(const struct tug_ways *ways, bool into_target,
                              const struct tug_key *key, size_t offset, char *here, size_t bytes) {
    return bytes < TUG_CMA_LEAST && ways->bundle == NULL &&
           tug_remote_may_gather(ways->remote, ways->target, ways->state) &&
           tug_remote_gather(ways->remote, ways->state, key, offset, here, bytes, into_target);
}

/* Does this rank load and store there? */
static bool is_mapped(const struct tug_ways *ways, const struct tug_key *key) {
    return tug_context_shortcut(ways->context, (uint32_t)ways->process, key) == TUG_SHORTCUT_ANY;
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
        if (!gather_run(ways, into_target, &region.key, offset, here, now) &&
            (is_mapped(ways, &region.key) ||
             (!(!into_target && accompany_get(ways, region.key.word[0], offset, here, now)) &&
              !move_alone(ways, into_target, &region.key, offset, here, now) &&
              !(into_target && accompany_attached(ways, &region.key, offset, here, now)))))
            move_bytes(ways, into_target, &region.key, offset, here, now);
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
    const struct tug_key *key = &ways->target->key;
    if (ways->target->shortcut != TUG_SHORTCUT_ANY &&
        (gather_run(ways, into_target, key, from_base, here, bytes) ||
         (!into_target && accompany_get(ways, key->word[0], from_base, here, bytes)) ||
         move_alone(ways, into_target, key, from_base, here, bytes) ||
         (into_target && note_put(ways, from_base, here, bytes))))
        return MPI_SUCCESS;
    move_bytes(ways, into_target, key, from_base, here, bytes);
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
    return !is_mapped(ways, key) && move_alone(ways, true, key, offset, here, bytes);
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
        if (bytes > 0)
            error = move_run(&ways, into_target, 0, origin.address, bytes);
    } else {
        error = move_scattered(&ways, into_target, &origin, &data);
    }
    return tug_ways_end_request(&ways, error);
}

int tug_remote_put(const struct tug_rma *o) {
    struct tug_ways ways;
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
    return transfer(o, o->result, false);
}
