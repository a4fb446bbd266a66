/*
 * llcl_allocated: memory from tug_mem_allocate() and its end.
 *
 * Sizes that differ, none among them; zeros at every birth; what one writes through its mapping the
 * other sees; nothing beyond the last byte although pages go on there; keys that end with the
 * registration and do not come back with its number; an end that is refused everywhere because one
 * process still uses the memory; many births and ends, in any order, without a mapping left behind;
 * and as many at a time as there may be, one more being refused everywhere.
 */
#include "llcl_check.h"

enum { UNIT = 5000, MOST = 3000, ALIVE = 6 };

static tug_context *context;

static size_t size_of(int rank, int i) {
    return (size_t)((rank + i) % check_nranks) * UNIT + (size_t)i % 3;
}

/* One piece of memory, of different sizes, with its keys. */
struct piece {
    tug_registration *registration;
    struct tug_key keys[LL_MAX_RANKS];
    int i;
};

static void all_keys(tug_registration *registration, struct tug_key *keys) {
    MPI_Request request;
    struct tug_key mine;
    tug_mem_key(registration, &mine);
    MUST(MPI_Iallgather(&mine, sizeof mine, MPI_BYTE, keys, sizeof mine, MPI_BYTE, MPI_COMM_WORLD,
                        &request));
    ll_mpi_wait(context, &request);
}

static void make_piece(struct piece *p, int i) {
    p->i = i;
    LL_GOOD(tug_mem_allocate(context, size_of(check_rank, i), &p->registration));
    CHECK(tug_mem_size(p->registration) == size_of(check_rank, i), "the size of a piece");
    ll_all(tug_mem_address(p->registration), size_of(check_rank, i), 0, "new memory", __LINE__);
    all_keys(p->registration, p->keys);
}

static void free_piece(struct piece *p) {
    ll_barrier(context);
    int rc = tug_mem_free(&p->registration);
    CHECK(rc == 0 && p->registration == NULL, "tug_mem_free: %s", tug_strerror(rc));
}

/* Everybody writes all of everybody's in turn, and the owner looks. */
static void use_piece(struct piece *p, struct ll_memory *local) {
    for (int distance = 0; distance < check_nranks; distance++) {
        int to = (check_rank + distance) % check_nranks;
        int from = (check_rank + check_nranks - distance) % check_nranks;
        size_t theirs = size_of(to, p->i), own = size_of(check_rank, p->i);
        uint64_t round = (uint64_t)(p->i * LL_MAX_RANKS + distance);
        check_fill(local->base, theirs, (uint64_t)check_rank, round);
        LL_GOOD(ll_write(context, to, &p->keys[to], 0, local->registration, 0, theirs));
        ll_note(context, to, from);
        check_same(tug_mem_address(p->registration), own, (uint64_t)from, round, "a piece",
                   __LINE__);
        const unsigned char *map = tug_mem_map(context, &p->keys[to]);
        if (map != NULL)
            check_same(map, theirs, (uint64_t)check_rank, round, "a mapped piece", __LINE__);
        CHECK(ll_read(context, to, &p->keys[to], theirs, local->registration, 0, 1) ==
                      TUG_ERR_RANGE &&
                  ll_write(context, to, &p->keys[to], 0, local->registration, 0, theirs + 1) ==
                      TUG_ERR_RANGE,
              "a byte beyond %zu", theirs);
        LL_GOOD(ll_read(context, to, &p->keys[to], theirs, local->registration, 0, 0));
        ll_barrier(context);
    }
}

/* Through the mapping, not the library. */
static void stores(struct piece *p) {
    int right = (check_rank + 1) % check_nranks;
    int left = (check_rank + check_nranks - 1) % check_nranks;
    unsigned char *map = tug_mem_map(context, &p->keys[right]);
    if (map != NULL && size_of(right, p->i) > 0)
        map[size_of(right, p->i) - 1] = (unsigned char)(check_rank + 77);
    ll_note(context, right, left);
    unsigned char *own = tug_mem_address(p->registration);
    /* One of the node is mapped by all of it, or by none. */
    if (map != NULL && size_of(check_rank, p->i) > 0 && getenv("MPIR_CVAR_NOLOCAL") == NULL)
        CHECK(own[size_of(check_rank, p->i) - 1] == left + 77, "what was stored into the mapping");
    ll_barrier(context);
}

static void stale_keys(struct ll_memory *local) {
    struct piece p, again;
    make_piece(&p, 1);
    struct piece old = p;
    int to = check_rank;
    while (size_of(to, 1) == 0)
        to = (to + 1) % check_nranks;
    free_piece(&p);
    for (int round = 0; round < 2; round++) {
        CHECK(ll_read(context, to, &old.keys[to], 0, local->registration, 0, 1) == TUG_ERR_KEY &&
                  ll_write(context, to, &old.keys[to], 0, local->registration, 0, 1) == TUG_ERR_KEY,
              "the key of memory that has ended, round %d", round);
        CHECK(tug_mem_map(context, &old.keys[to]) == NULL, "ended memory is mapped");
        ll_barrier(context);
        if (round == 0)
            make_piece(&again, 1); /* with the number of the other */
    }
    ll_all(tug_mem_address(again.registration), size_of(check_rank, 1), 0, "memory", __LINE__);
    ll_barrier(context);
    /* One's own end is enough for a key; the memory stays until the context goes. */
    LL_GOOD(tug_mem_deregister(&again.registration));
    ll_barrier(context);
    CHECK(ll_read(context, to, &again.keys[to], 0, local->registration, 0, 1) == TUG_ERR_KEY,
          "the key of memory that was deregistered");
    ll_barrier(context);
    CHECK(tug_mem_free(&local->registration) == TUG_ERR_INVALID, "the end of registered memory");
}

/* Rank 0 reads into its piece what cannot come before the others help. */
static void used_piece(struct ll_memory *local) {
    tug_registration *piece;
    struct ll_record r = {0};
    MPI_Request request;
    int last = check_nranks - 1, rc = 0;
    LL_GOOD(tug_mem_allocate(context, 64, &piece));
    struct tug_read_params p = {last, {&local->keys[last], 0}, {piece, 0}, 64, ll_complete(&r)};
    ll_barrier(context);
    if (check_rank == 0)
        LL_TRY(context, tug_try_read_async(context, &p));
    bool out = check_rank == 0 && atomic_load(&r.completes) == 0;
    rc = tug_mem_free(&piece);
    CHECK(rc == 0 || rc == TUG_ERR_STATE, "tug_mem_free: %s", tug_strerror(rc));
    CHECK(rc != 0 || check_rank != 0 || atomic_load(&r.completes) == 1, "memory in use is freed");
    int codes[LL_MAX_RANKS];
    MUST(MPI_Iallgather(&rc, 1, MPI_INT, codes, 1, MPI_INT, MPI_COMM_WORLD, &request));
    ll_mpi_wait(context, &request);
    for (int i = 0; i < check_nranks; i++)
        CHECK(codes[i] == rc, "tug_mem_free is %d at rank %d and %d here", codes[i], i, rc);
    if (check_rank == 0) {
        LL_GOOD(ll_finish(context, &r));
        printf("an operation %s under way: tug_mem_free: %s\n", out ? "was" : "was not",
               tug_strerror(rc));
    }
    ll_barrier(context);
    if (rc != 0)
        LL_GOOD(tug_mem_free(&piece));
}

static int mappings(void) {
    int n = 0, c;
    FILE *f = fopen("/proc/self/maps", "r");
    while (f != NULL && (c = fgetc(f)) != EOF)
        n += c == '\n';
    if (f != NULL)
        fclose(f);
    return n;
}

static void churn(struct ll_memory *local) {
    struct piece pieces[ALIVE];
    struct check_rng rng = {3}; /* the same choice everywhere */
    int before = 0, rounds = ll_rounds(100, 12);
    for (int i = 0; i < ALIVE; i++)
        make_piece(&pieces[i], i);
    for (int round = 0; round < rounds; round++) {
        struct piece *p = &pieces[check_draw(&rng) % ALIVE];
        use_piece(p, local);
        stores(p);
        free_piece(p);
        make_piece(p, round % 7);
        if (round == rounds / 2)
            before = mappings();
    }
    CHECK(mappings() <= before + 4, "%d mappings became %d", before, mappings());
    for (int i = 0; i < ALIVE; i++)
        free_piece(&pieces[i]);
}

/* Until it is refused, to all or none. */
static void as_many_as_may_be(void) {
    static tug_registration *many[MOST];
    int n = 0, rc = 0, least, most;
    ll_pace(); /* thousands of the host's collectives: how long they take may have changed */
    if (ll_slow)
        return;
    while (n < MOST && (rc = tug_mem_allocate(context, 8, &many[n])) == 0)
        n++;
    CHECK(n == MOST || rc == TUG_ERR_NO_MEMORY, "piece %d: %s", n, tug_strerror(rc));
    MUST(MPI_Allreduce(&n, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
    MUST(MPI_Allreduce(&n, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
    CHECK(least == most && n >= 256, "between %d and %d pieces at a time", least, most);
    while (n-- > 0)
        LL_GOOD(tug_mem_free(&many[n]));
    LL_GOOD(tug_mem_allocate(context, 8, &many[0]));
    LL_GOOD(tug_mem_free(&many[0]));
}

static void run(void) {
    struct ll_memory local;
    context = ll_open(MPI_COMM_WORLD);
    ll_make(context, &local, LL_REGISTERED, LL_MAX_RANKS * UNIT);
    churn(&local);
    stale_keys(&local);
    used_piece(&local);
    as_many_as_may_be();
    ll_end(context, &local);
    ll_close(&context);
}

int main(int argc, char **argv) {
    ll_begin(&argc, &argv, "llcl_allocated");
    run();
    return check_end();
}
