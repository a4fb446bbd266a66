/*
 * rma_room: an operation moves the data that are there, wherever they are described to be.
 *
 * Data must fit where they go, no more: the target of a put or an accumulate, and the origin of a
 * get or the result of a fetch, may be described larger, and what is beyond the data stays as it
 * is. Either side is an array, every other element, pairs with a hole between them (so that data
 * end within an item), or single elements by their addresses, from MPI_BOTTOM. All shapes of the
 * origin with all of the target, for every flavour of window, and with requests.
 * The host MPI writes all that the target describes: with the argument "equal" it is asked for
 * sides of the same length only.
 */
#include "win_kinds.h"

#define L MPI_INT64_T

enum { WORDS = 32, SIZE = 8 * WORDS, SMALL = 3, LARGE = 6 };

enum form { ARRAY, STRIDED, PAIRS, ABSOLUTE, NFORMS };

/* n elements: type and count, and where in the buffer each of them is. */
struct shape {
    MPI_Datatype type;
    int count;
    int n;
    int at[LARGE];
    bool absolute;
};

static int64_t from[WORDS], into[WORDS], is[WORDS], want_from[WORDS], want_into[WORDS];
static int ncases;

/* Pairs come in twos. */
static struct shape shape_of(enum form form, int n, const int64_t *buffer) {
    struct shape s = {.type = L, .count = n, .n = n, .absolute = form == ABSOLUTE};
    MPI_Aint addresses[LARGE];
    MPI_Datatype pair;
    for (int i = 0; i < n; i++)
        s.at[i] = form == ARRAY ? i : form == STRIDED ? 2 * i : form == PAIRS ? i + i / 2 : 3 * i;
    for (int i = 0; i < n; i++)
        MUST(MPI_Get_address(buffer + s.at[i], &addresses[i]));
    if (form == ARRAY)
        return s;
    s.count = 1;
    if (form == STRIDED) {
        MUST(MPI_Type_vector(n, 1, 2, L, &s.type));
    } else if (form == ABSOLUTE) {
        MUST(MPI_Type_create_hindexed_block(n, 1, addresses, L, &s.type));
    } else {
        MUST(MPI_Type_contiguous(2, L, &pair));
        MUST(MPI_Type_create_resized(pair, 0, 24, &s.type));
        MUST(MPI_Type_free(&pair));
        s.count = n / 2;
    }
    MUST(MPI_Type_commit(&s.type));
    return s;
}

static void shape_free(struct shape *s) {
    if (s->type != L)
        MUST(MPI_Type_free(&s->type));
}

#define AT(s, buffer) ((s)->absolute ? MPI_BOTTOM : (void *)(buffer))
#define HERE(s, buffer) AT(s, buffer), (s)->count, (s)->type

enum call { PUT, GET, ACCUMULATE, FETCH, FETCH_ONLY, NCALLS };

static void issue(struct kind_win *w, enum call call, bool with_request, const struct shape *origin,
                  const struct shape *result, const struct shape *target) {
    MPI_Request r = MPI_REQUEST_NULL;
    int right = (w->rank + 1) % w->nranks;
    MPI_Aint disp = kind_disp(w, right, 0);
    MPI_Op op = call == FETCH_ONLY ? MPI_NO_OP : MPI_SUM;
#define TARGET right, disp, target->count, target->type
    switch (call) {
    case PUT:
        MUST(with_request ? MPI_Rput(HERE(origin, from), TARGET, w->win, &r)
                          : MPI_Put(HERE(origin, from), TARGET, w->win));
        break;
    case GET:
        MUST(with_request ? MPI_Rget(HERE(result, into), TARGET, w->win, &r)
                          : MPI_Get(HERE(result, into), TARGET, w->win));
        break;
    case ACCUMULATE:
        MUST(with_request ? MPI_Raccumulate(HERE(origin, from), TARGET, op, w->win, &r)
                          : MPI_Accumulate(HERE(origin, from), TARGET, op, w->win));
        break;
    default:
        MUST(with_request
                 ? MPI_Rget_accumulate(HERE(origin, from), HERE(result, into), TARGET, op, w->win,
                                       &r)
                 : MPI_Get_accumulate(HERE(origin, from), HERE(result, into), TARGET, op, w->win));
    }
    if (r != MPI_REQUEST_NULL)
        check_wait(&r);
}

/* What the right neighbour's memory, which held its number and the place, and `into` become. */
static void expect(enum call call, const struct shape *origin, const struct shape *result,
                   const struct shape *target, int64_t theirs[WORDS]) {
    for (int i = 0; i < target->n; i++)
        if (call == GET || call == FETCH || call == FETCH_ONLY)
            want_into[result->at[i]] = theirs[target->at[i]];
    for (int i = 0; i < origin->n; i++)
        if (call == PUT)
            theirs[target->at[i]] = from[origin->at[i]];
        else if (call == ACCUMULATE || call == FETCH)
            theirs[target->at[i]] += from[origin->at[i]];
}

static void fill(int64_t *words, int rank, int base) {
    for (int i = 0; i < WORDS; i++)
        words[i] = 1000000 * (rank + 1) + base + i;
}

static void run_case(struct kind_win *w, enum call call, bool with_request,
                     const struct shape *origin, const struct shape *result,
                     const struct shape *target) {
    int left = (w->rank + w->nranks - 1) % w->nranks, right = (w->rank + 1) % w->nranks;
    int64_t theirs[WORDS], *mine = (int64_t *)(void *)w->base;
    MUST(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, w->rank, 0, w->win));
    fill(mine, w->rank, 0);
    MUST(MPI_Win_unlock(w->rank, w->win));
    fill(from, w->rank, 5000);
    fill(into, w->rank, 9000);
    memcpy(want_from, from, sizeof from);
    memcpy(want_into, into, sizeof into);
    fill(theirs, right, 0);
    expect(call, origin, result, target, theirs);
    check_barrier(w->comm);
    MUST(MPI_Win_lock(MPI_LOCK_SHARED, right, 0, w->win));
    issue(w, call, with_request, origin, result, target);
    MUST(MPI_Win_unlock(right, w->win));
    CHECK(memcmp(from, want_from, sizeof from) == 0, "the origin has changed");
    for (int i = 0; i < WORDS; i++)
        CHECK(into[i] == want_into[i], "result %d: %ld, not %ld", i, (long)into[i],
              (long)want_into[i]);
    MPI_Request r;
    MUST(MPI_Irecv(is, WORDS, L, left, 1, w->comm, &r));
    MUST(MPI_Send(theirs, WORDS, L, right, 1, w->comm));
    check_wait(&r);
    check_barrier(w->comm);
    MUST(MPI_Win_lock(MPI_LOCK_SHARED, w->rank, 0, w->win));
    for (int i = 0; i < WORDS; i++)
        CHECK(mine[i] == is[i], "target %d: %ld, not %ld", i, (long)mine[i], (long)is[i]);
    MUST(MPI_Win_unlock(w->rank, w->win));
    ncases++;
}

/* Every form of one side of the call with every form of the other. */
static void run_forms(struct kind_win *w, enum call call, bool with_request, int norigin,
                      int nresult, int ntarget) {
    for (int form = 0; form < NFORMS; form++)
        for (int other = 0; other < NFORMS - 1; other++) {
            if ((form == PAIRS && (norigin % 2 || nresult % 2)) || (other == PAIRS && ntarget % 2))
                continue;
            struct shape origin = shape_of((enum form)form, norigin, from);
            struct shape result = shape_of((enum form)form, nresult, into);
            struct shape target = shape_of((enum form)other, ntarget, NULL);
            run_case(w, call, with_request, &origin, &result, &target);
            shape_free(&origin);
            shape_free(&result);
            shape_free(&target);
        }
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "rma_room");
    bool equal = argc > 1 && strcmp(argv[1], "equal") == 0;
    for (int kind = 0; kind < NKINDS; kind++) {
        struct kind_win w;
        if (!kind_open(&w, (enum kind)kind, MPI_COMM_WORLD, SIZE, 8))
            continue;
        for (int call = 0; call < NCALLS; call++) {
            bool request = (call + kind) % 2;
            run_forms(&w, (enum call)call, request, LARGE, LARGE, LARGE);
            if (equal)
                continue;
            run_forms(&w, (enum call)call, request, call == GET ? LARGE : SMALL, LARGE,
                      call == GET || call == FETCH_ONLY ? SMALL : LARGE);
        }
        kind_close(&w);
    }
    if (check_rank == 0)
        printf("%d cases\n", ncases);
    return check_end();
}
