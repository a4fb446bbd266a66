/*
 * llcl_basic: reads and writes of LLCL, every size class, between all pairs of ranks.
 *
 * Sizes stand around every limit a transport may have: inline data, packets, segments, blocks that
 * travel by themselves. A write that is complete is told of by a message of MPI's, upon which the
 * target looks; every transfer has canaries around it at both ends; sources are spoilt as soon as
 * on_local allows. Then all sizes are under way at once. Memory of both kinds at both ends.
 */
#include "llcl_check.h"

static const size_t sizes[] = {0,     1,     7,      8,        9,
                               23,    24,    25,     64,       1000,
                               4095,  4096,  4097,   8191,     8192,
                               8193,  32767, 32768,  32769,    65535,
                               65536, 65537, 300001, 1u << 20, (1u << 20) + 1};
enum { SIZES = sizeof sizes / sizeof *sizes, BEFORE = 64, BEHIND = 64, SKEW_MOST = 16 };

/* Not the same at both ends, or a byte too many would not be seen. */
enum { FAR_CANARY = 0xa5, NEAR_CANARY = 0x5b };

/* Distances of a transfer's ends from multiples of 64. */
static const size_t skews[][2] = {{0, 0}, {3, 8}, {8, 5}, {1, 1}};
enum { SKEWS = sizeof skews / sizeof *skews, RECORDS = 1 << 15 };

static size_t slot_at[SIZES + 1];
static struct ll_memory remote[LL_KINDS], local[LL_KINDS];
static struct ll_record records[RECORDS];
static size_t nrecords;
static uint64_t phase;

static struct ll_record *record(void) {
    CHECK(nrecords < RECORDS, "more than %d operations", RECORDS);
    return &records[nrecords++];
}

static void lay_out(void) {
    for (int i = 0; i < SIZES; i++)
        slot_at[i + 1] = (slot_at[i] + BEFORE + SKEW_MOST + sizes[i] + BEHIND + 63) / 64 * 64;
}

static size_t place(int i, size_t skew) {
    return slot_at[i] + BEFORE + skew;
}

static void check_around(const struct ll_memory *m, int i, size_t skew, const char *what) {
    size_t from = place(i, skew), to = from + sizes[i];
    uint8_t canary = m == &remote[m->kind] ? FAR_CANARY : NEAR_CANARY;
    ll_all(m->base + slot_at[i], from - slot_at[i], canary, what, __LINE__);
    ll_all(m->base + to, slot_at[i + 1] - to, canary, what, __LINE__);
}

static uint64_t round_of(int i) {
    return phase * 64 + (uint64_t)i;
}

static void reset(tug_context *context) {
    for (int k = 0; k < LL_KINDS; k++) {
        memset(remote[k].base, FAR_CANARY, remote[k].bytes);
        memset(local[k].base, NEAR_CANARY, local[k].bytes);
    }
    phase++;
    ll_barrier(context);
}

/* One of the ways in which the four parameters of a phase may be combined. */
struct pairing {
    const struct ll_memory *remote, *local;
    size_t remote_skew, local_skew;
    int to, from;
};

static struct ll_record *start_write(tug_context *context, const struct pairing *p, int i) {
    unsigned char *source = p->local->base + place(i, p->local_skew);
    struct ll_record *r = record();
    check_fill(source, sizes[i], (uint64_t)check_rank, round_of(i));
    struct tug_write_params w = {p->to,
                                 {&p->remote->keys[p->to], place(i, p->remote_skew)},
                                 {p->local->registration, place(i, p->local_skew)},
                                 sizes[i],
                                 ll_local(r, source, sizes[i]),
                                 ll_complete(r)};
    LL_TRY(context, tug_try_write_async(context, &w));
    return r;
}

static struct ll_record *start_read(tug_context *context, const struct pairing *p, int i) {
    struct ll_record *r = record();
    struct tug_read_params w = {p->to,
                                {&p->remote->keys[p->to], place(i, p->remote_skew)},
                                {p->local->registration, place(i, p->local_skew)},
                                sizes[i],
                                ll_complete(r)};
    LL_TRY(context, tug_try_read_async(context, &w));
    return r;
}

static void check_written(const struct pairing *p, int i) {
    check_same(p->remote->base + place(i, p->remote_skew), sizes[i], (uint64_t)p->from, round_of(i),
               "written", __LINE__);
    check_around(p->remote, i, p->remote_skew, "around what was written");
}

static void one_by_one(tug_context *context, const struct pairing *p) {
    reset(context);
    for (int i = 0; i < SIZES; i++) {
        LL_GOOD(ll_finish(context, start_write(context, p, i)));
        check_around(p->local, i, p->local_skew, "around a source");
        ll_note(context, p->to, p->from);
        check_written(p, i);
    }
    reset(context);
    for (int i = 0; i < SIZES; i++)
        check_fill(p->remote->base + place(i, p->remote_skew), sizes[i], (uint64_t)check_rank,
                   round_of(i));
    ll_barrier(context);
    for (int i = 0; i < SIZES; i++) {
        LL_GOOD(ll_finish(context, start_read(context, p, i)));
        check_same(p->local->base + place(i, p->local_skew), sizes[i], (uint64_t)p->to, round_of(i),
                   "read", __LINE__);
        check_around(p->local, i, p->local_skew, "around what was read");
    }
    ll_barrier(context);
    for (int i = 0; i < SIZES; i++) {
        check_same(p->remote->base + place(i, p->remote_skew), sizes[i], (uint64_t)check_rank,
                   round_of(i), "a source of reads", __LINE__);
        check_around(p->remote, i, p->remote_skew, "around a source of reads");
    }
}

static void all_at_once(tug_context *context, const struct pairing *p) {
    struct ll_record *started[SIZES];
    reset(context);
    for (int i = 0; i < SIZES; i++)
        started[i] = start_write(context, p, i);
    for (int i = SIZES - 1; i >= 0; i--)
        LL_GOOD(ll_finish(context, started[i]));
    ll_note(context, p->to, p->from);
    for (int i = 0; i < SIZES; i++)
        check_written(p, i);
    for (int i = 0; i < SIZES; i++)
        started[i] = start_read(context, p, i);
    for (int i = SIZES - 1; i >= 0; i--) {
        LL_GOOD(ll_finish(context, started[i]));
        check_same(p->local->base + place(i, p->local_skew), sizes[i], (uint64_t)check_rank,
                   round_of(i), "read back", __LINE__);
        check_around(p->local, i, p->local_skew, "around what was read back");
    }
    ll_barrier(context);
}

/* Memory that is mapped is the target's memory. */
static void mapped(tug_context *context) {
    int right = (check_rank + 1) % check_nranks;
    reset(context);
    const unsigned char *map = tug_mem_map(context, &remote[LL_ALLOCATED].keys[right]);
    if (map != NULL)
        ll_all(map, remote[LL_ALLOCATED].bytes, FAR_CANARY, "mapped memory", __LINE__);
    map = tug_mem_map(context, &remote[LL_REGISTERED].keys[right]);
    if (map != NULL)
        ll_all(map, remote[LL_REGISTERED].bytes, FAR_CANARY, "mapped memory", __LINE__);
    ll_barrier(context);
}

static void run(void) {
    tug_context *context = ll_open(MPI_COMM_WORLD);
    CHECK(tug_context_rank(context) == check_rank && tug_context_size(context) == check_nranks,
          "rank and size of a context");
    if (check_rank == 0)
        printf("to the last rank 8 bytes by %s, 1 MiB by %s\n",
               tug_context_transport(context, check_nranks - 1, 8),
               tug_context_transport(context, check_nranks - 1, 1 << 20));
    for (int k = 0; k < LL_KINDS; k++) {
        ll_make(context, &remote[k], (enum ll_kind)k, slot_at[SIZES]);
        ll_make(context, &local[k], (enum ll_kind)k, slot_at[SIZES]);
    }
    mapped(context);
    size_t first = nrecords;
    for (int distance = 0; distance < check_nranks; distance++)
        for (unsigned k = 0; k < LL_KINDS * LL_KINDS; k++) {
            /* Each pair of skews with each pair of kinds at some distance. */
            const size_t *skew = skews[(k + (unsigned)distance) % SKEWS];
            struct pairing p = {&remote[k % LL_KINDS],
                                &local[k / LL_KINDS],
                                skew[0],
                                skew[1],
                                (check_rank + distance) % check_nranks,
                                (check_rank + check_nranks - distance) % check_nranks};
            one_by_one(context, &p);
            all_at_once(context, &p);
        }
    for (int k = 0; k < LL_KINDS; k++) {
        ll_end(context, &remote[k]);
        ll_end(context, &local[k]);
    }
    ll_close(&context);
    ll_once(&records[first], nrecords - first);
}

int main(int argc, char **argv) {
    ll_begin(&argc, &argv, "llcl_basic");
    lay_out();
    run();
    return check_end();
}
