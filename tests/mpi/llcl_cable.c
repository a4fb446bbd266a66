/*
 * llcl_cable: what was acknowledged is there, whatever the network does meanwhile.
 *
 * Each rank writes to the next one, reads that again, adds to a word of it and sends it messages
 * until a file is there, or for a second. Operations may fail: a cable may be out for longer than a
 * card tries. But
 *   - a slot holds what was acknowledged last, or what later writes that failed have brought;
 *   - as many additions and messages have happened as were acknowledged, and not more than were
 *     started.
 * One write to a slot is out at a time, since no order is promised.
 * Argument: the file.
 */
#include <unistd.h>

#include "llcl_check.h"

enum { SLOTS = 16, SLOT_BYTES = 2048, WORDS = SLOT_BYTES / 8, AT_ONCE = 8, HANDLER = 5 };

/* What this rank has done to the next one. */
struct done {
    _Atomic uint64_t acknowledged[SLOTS],
        started[SLOTS];                /* writes, by the number that they bring */
    _Atomic uint64_t added, additions; /* acknowledged, and started */
    _Atomic uint64_t handled, messages;
};

static tug_context *context;
static struct ll_memory memory, staging; /* slots, and behind them the word */
static struct done done;
static struct slot {
    _Atomic bool out;
    bool written; /* the last was a write */
} slots[SLOTS];
static _Atomic int nout; /* additions and messages */
static _Atomic uint64_t came, failed, failed_additions;
static int to;

static void on_message(tug_context *c, int source, const void *payload, size_t bytes, void *d) {
    (void)c, (void)source, (void)payload, (void)bytes, (void)d;
    came++;
}

static void between(const char *what, uint64_t is, uint64_t least, uint64_t most) {
    CHECK(is >= least && is <= most, "%s: %llu, not from %llu to %llu", what,
          (unsigned long long)is, (unsigned long long)least, (unsigned long long)most);
}

/* What a slot may hold: what was acknowledged, or what came of later writes. */
static void check_slot(const unsigned char *at, uint64_t acknowledged, uint64_t started) {
    for (int i = 0; i < WORDS; i++)
        between("a word of a slot", ((const uint64_t *)at)[i], acknowledged, started);
}

static void written(void *d, int status) {
    struct slot *slot = d;
    const size_t i = (size_t)(slot - slots);
    if (status == 0)
        done.acknowledged[i] = done.started[i];
    else
        failed++;
    slot->out = false;
}

static void read_again(void *d, int status) {
    struct slot *slot = d;
    const size_t i = (size_t)(slot - slots);
    if (status == 0)
        check_slot(staging.base + i * SLOT_BYTES, done.acknowledged[i], done.started[i]);
    else
        failed++;
    slot->out = false;
}

static void counted(void *d, int status) {
    if (status == 0)
        (*(_Atomic uint64_t *)d)++;
    else
        *(d == &done.added ? &failed_additions : &failed) += 1;
    nout--;
}

/* It is written and read in turn. */
static void use_slot(size_t i) {
    struct slot *slot = &slots[i];
    const size_t at = i * SLOT_BYTES;
    const struct tug_remote_address there = {&memory.keys[to], at};
    const struct tug_local_address here = {staging.registration, at};
    const struct tug_write_params write = {to,         there,        here,
                                           SLOT_BYTES, {NULL, NULL}, {written, slot}};
    const struct tug_read_params read = {to, there, here, SLOT_BYTES, {read_again, slot}};
    uint64_t *words = (uint64_t *)(staging.base + at);
    if (slot->out)
        return;
    slot->out = true;
    slot->written = !slot->written;
    if (!slot->written) {
        LL_TRY(context, tug_try_read_async(context, &read));
        return;
    }
    done.started[i]++;
    for (int k = 0; k < WORDS; k++)
        words[k] = done.started[i];
    LL_TRY(context, tug_try_write_async(context, &write));
}

static void add_and_tell(void) {
    static const uint64_t payload = 1;
    const struct tug_fetch_and_op_params add = {to,
                                                {&memory.keys[to], SLOTS * SLOT_BYTES},
                                                {NULL, 0},
                                                8,
                                                TUG_ADD,
                                                1,
                                                {counted, &done.added}};
    const struct tug_am_params tell = {
        to, HANDLER, &payload, sizeof payload, {NULL, NULL}, {counted, &done.handled}};
    if (nout > AT_ONCE)
        return;
    nout += 2;
    done.additions++;
    LL_TRY(context, tug_try_fetch_and_op_async(context, &add));
    done.messages++;
    LL_TRY(context, tug_try_am_async(context, &tell));
}

static bool all_ended(void *d) {
    (void)d;
    for (int slot = 0; slot < SLOTS; slot++)
        if (slots[slot].out)
            return false;
    return nout == 0;
}

/* What the rank before this one has done here. */
static void check_here(const struct done *theirs) {
    for (size_t i = 0; i < SLOTS; i++)
        check_slot(memory.base + i * SLOT_BYTES, theirs->acknowledged[i], theirs->started[i]);
    between("additions", *(const uint64_t *)(memory.base + SLOTS * SLOT_BYTES), theirs->added,
            theirs->additions);
    between("messages", came, theirs->handled, theirs->messages);
}

int main(int argc, char **argv) {
    struct done theirs;
    uint64_t before = 0;
    ll_begin(&argc, &argv, "llcl_cable");
    const int from = (check_rank + check_nranks - 1) % check_nranks;
    to = (check_rank + 1) % check_nranks;
    context = ll_open(MPI_COMM_WORLD);
    LL_GOOD(tug_am_register(context, HANDLER, on_message, NULL));
    ll_make(context, &memory, LL_ALLOCATED, SLOTS * SLOT_BYTES + 8);
    ll_make(context, &staging, LL_ALLOCATED, SLOTS * SLOT_BYTES);
    ll_barrier(context);
    for (const double end = ll_now() + 1; argc > 1 ? access(argv[1], F_OK) != 0 : ll_now() < end;) {
        for (size_t slot = 0; slot < SLOTS; slot++)
            use_slot(slot);
        add_and_tell();
        tug_progress(context);
        if (failed + failed_additions > before)
            usleep(1000); /* a peer that is lost fails everything at once */
        before = failed + failed_additions;
    }
    tug_wait(context, all_ended, NULL);
    ll_barrier(context);
    MUST(MPI_Sendrecv(&done, sizeof done, MPI_BYTE, to, 1, &theirs, sizeof theirs, MPI_BYTE, from,
                      1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    check_here(&theirs);
    CHECK(done.added > 0 && done.handled > 0 && done.acknowledged[0] > 0, "nothing went");
    printf("rank %d: %llu additions, %llu failed; %llu writes to a slot; %llu other operations "
           "failed\n",
           check_rank, (unsigned long long)done.additions, (unsigned long long)failed_additions,
           (unsigned long long)done.started[0], (unsigned long long)failed);
    ll_barrier(context);
    ll_end(context, &staging);
    ll_end(context, &memory);
    ll_close(&context);
    return check_end();
}
