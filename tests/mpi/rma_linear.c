/*
 * rma_linear: could single atomic operations have happened one after another, in an order that fits
 * what everybody saw and when?
 *
 * Threads of all ranks work on a few words with MPI_Fetch_and_op (SUM, BXOR, REPLACE, NO_OP), the
 * single-element MPI_Get_accumulate, and MPI_Compare_and_swap, and note for each operation when it
 * began, when the flush behind it had returned, and what it fetched. Operands are chosen such that
 * no value comes twice. So the operations that changed a word must form one chain: each fetched
 * what its predecessor left, no two had the same predecessor, the last one left what is there at
 * the end. Whoever only read has seen a value of the chain. And in the order of the chain no
 * operation comes before one that had ended when it began (clocks of one machine are one clock):
 * that is linearizability. Swaps that fail must have had to: the value fetched was not the one
 * expected. Argument: number of threads (3).
 */
#include "win_kinds.h"
#include <pthread.h>
#include <time.h>

enum { MAX_THREADS = 8, NWORDS = 4, MOST_OPS = 1 << 13 };

/* One operation on a word; what it fetched and what it left behind. */
struct event {
    int64_t begin_ns, end_ns;
    uint64_t was, is;
    int32_t word, place; /* its place in the chain */
};

struct worker {
    struct kind_win *w;
    int id, nsteps;
    struct check_rng rng;
    uint64_t seen[NWORDS]; /* what this thread last knew of each */
    struct event *events;
};

static int nthreads = 3;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static uint64_t draw(struct worker *me, uint64_t below) {
    return check_draw(&me->rng) % below;
}

/* Words 0 and 1 are of 64 bits, 2 and 3 of 32, which are exchanged and swapped only. */
static bool is_wide(int word) {
    return word < 2;
}

static size_t word_offset(int word) {
    return is_wide(word) ? 8 * (size_t)word : 16 + 4 * (size_t)(word - 2);
}

/* Half of the words lie at the first rank, half at the last. */
static int word_target(const struct kind_win *w, int word) {
    return word % 2 ? w->nranks - 1 : 0;
}

/* A value that nobody else writes and that is not 0. */
static uint64_t draw_value(struct worker *me, int word, int step) {
    uint64_t who = (uint64_t)(me->w->rank * MAX_THREADS + me->id);
    uint64_t unique = (who * (uint64_t)me->nsteps + (uint64_t)step + 1) << 4 | draw(me, 16);
    return is_wide(word) ? check_word(who, (uint64_t)step, 77) | 1 : (uint32_t)unique;
}

static uint64_t narrow(int word, const uint64_t *wide, const uint32_t *thin) {
    return is_wide(word) ? *wide : *thin;
}

/* Compare-and-swap; sometimes with an expectation that is surely wrong. */
static void do_swap(struct worker *me, int word, uint64_t value, struct event *e) {
    int target = word_target(me->w, word);
    MPI_Aint disp = kind_disp(me->w, target, word_offset(word));
    uint64_t expected = draw(me, 8) ? me->seen[word] : 3, was = ~(uint64_t)0;
    uint32_t value32 = (uint32_t)value, expected32 = (uint32_t)expected, was32 = ~0u;
    if (is_wide(word))
        MUST(MPI_Compare_and_swap(&value, &expected, &was, MPI_UINT64_T, target, disp, me->w->win));
    else
        MUST(MPI_Compare_and_swap(&value32, &expected32, &was32, MPI_UINT32_T, target, disp,
                                  me->w->win));
    MUST(MPI_Win_flush(target, me->w->win));
    e->was = narrow(word, &was, &was32);
    e->is = e->was == expected ? value : e->was;
}

static void do_fetch(struct worker *me, int word, uint64_t value, struct event *e) {
    int target = word_target(me->w, word), kind = (int)draw(me, is_wide(word) ? 4 : 2);
    MPI_Op op = kind == 0 ? MPI_NO_OP : kind == 1 ? MPI_REPLACE : kind == 2 ? MPI_SUM : MPI_BXOR;
    MPI_Datatype type = is_wide(word) ? MPI_UINT64_T : MPI_UINT32_T;
    MPI_Aint disp = kind_disp(me->w, target, word_offset(word));
    uint64_t was = ~(uint64_t)0;
    uint32_t was32 = ~0u, value32 = (uint32_t)value;
    const void *from = is_wide(word) ? (void *)&value : &value32;
    void *to = is_wide(word) ? (void *)&was : &was32;
    if (draw(me, 2))
        MUST(MPI_Fetch_and_op(from, to, type, target, disp, op, me->w->win));
    else
        MUST(MPI_Get_accumulate(from, 1, type, to, 1, type, target, disp, 1, type, op, me->w->win));
    MUST(MPI_Win_flush(target, me->w->win));
    e->was = narrow(word, &was, &was32);
    e->is = kind == 0 ? e->was : kind == 1 ? value : kind == 2 ? e->was + value : e->was ^ value;
}

static void *work(void *arg) {
    struct worker *me = arg;
    for (int i = 0; i < me->nsteps; i++) {
        struct event *e = &me->events[i];
        e->word = (int32_t)draw(me, NWORDS);
        uint64_t value = draw_value(me, e->word, i);
        e->begin_ns = now_ns();
        if (draw(me, 2))
            do_swap(me, e->word, value, e);
        else
            do_fetch(me, e->word, value, e);
        e->end_ns = now_ns();
        me->seen[e->word] = e->is;
    }
    return NULL;
}

/* ---- the history ---- */

static int by_word_then_was(const void *a, const void *b) {
    const struct event *x = a, *y = b;
    if (x->word != y->word)
        return x->word < y->word ? -1 : 1;
    bool changes = x->was != x->is, other = y->was != y->is;
    if (x->was != y->was)
        return x->was < y->was ? -1 : 1;
    return (int)other - (int)changes; /* who changed it comes first */
}

static int by_begin(const void *a, const void *b) {
    const struct event *x = a, *y = b;
    return x->begin_ns < y->begin_ns ? -1 : x->begin_ns > y->begin_ns;
}

static int by_end(const void *a, const void *b) {
    const struct event *x = a, *y = b;
    return x->end_ns < y->end_ns ? -1 : x->end_ns > y->end_ns;
}

/* First of the sorted events that fetched this value, or NULL. */
static struct event *find(struct event *events, int n, uint64_t was) {
    int low = 0, high = n;
    while (low < high) {
        int middle = (low + high) / 2;
        if (events[middle].was < was)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && events[low].was == was ? &events[low] : NULL;
}

/* Gives every event of a word its place: a change stands at an odd one, readers of what it left
 * share the even one behind it. Returns the number of changes. */
static int chain(struct event *events, int n, int word, uint64_t last) {
    int nchanges = 0, placed = 0, changes = 0;
    uint64_t value = 0;
    for (int i = 0; i < n; i++)
        nchanges += events[i].was != events[i].is;
    for (;;) {
        struct event *e = find(events, n, value), *next = NULL;
        for (; e && e < events + n && e->was == value; e++, placed++) {
            bool change = e->was != e->is;
            CHECK(!change || !next, "word %d: two operations changed the value %llx", word,
                  (unsigned long long)value);
            e->place = change ? 2 * changes + 1 : 2 * changes;
            if (change)
                next = e;
        }
        if (!next)
            break;
        value = next->is;
        CHECK(++changes <= nchanges, "word %d: a value came twice", word);
    }
    CHECK(value == last, "word %d: the chain of %d changes ends at %llx, the word is %llx", word,
          changes, (unsigned long long)value, (unsigned long long)last);
    CHECK(placed == n && changes == nchanges,
          "word %d: %d of %d operations (%d of %d changes) are outside of the chain", word,
          n - placed, n, nchanges - changes, nchanges);
    return changes;
}

/* No event stands before one that had ended when it began. */
static void check_times(struct event *events, int n, int word) {
    struct event *ended = malloc(sizeof *ended * (size_t)n);
    int highest = 0, k = 0;
    memcpy(ended, events, sizeof *ended * (size_t)n);
    qsort(ended, (size_t)n, sizeof *ended, by_end);
    qsort(events, (size_t)n, sizeof *events, by_begin);
    for (int i = 0; i < n; i++) {
        for (; ended[k].end_ns < events[i].begin_ns; k++)
            highest = ended[k].place > highest ? ended[k].place : highest;
        CHECK(events[i].place >= highest + (highest % 2),
              "word %d: an operation at place %d began after one at place %d had ended", word,
              events[i].place, highest);
    }
    free(ended);
}

static void check_history(struct event *events, int n, const uint64_t *last) {
    int first = 0, changes = 0;
    qsort(events, (size_t)n, sizeof *events, by_word_then_was);
    for (int word = 0; word < NWORDS; word++) {
        int end = first;
        while (end < n && events[end].word == word)
            end++;
        changes += chain(events + first, end - first, word, last[word]);
        check_times(events + first, end - first, word);
        first = end;
    }
    printf("  %d operations, %d changes\n", n, changes);
    CHECK(changes > 0, "nothing has changed");
}

static void run(struct kind_win *w, int nsteps) {
    static struct event mine[MOST_OPS], all[MOST_OPS];
    static uint64_t runs;
    pthread_t threads[MAX_THREADS];
    struct worker workers[MAX_THREADS];
    int each = nthreads * nsteps;
    CHECK(each * w->nranks <= MOST_OPS, "too many operations");
    runs++;
    for (int i = 0; i < nthreads; i++) {
        uint64_t who = (uint64_t)(w->rank * MAX_THREADS + i);
        workers[i] = (struct worker){.w = w,
                                     .id = i,
                                     .nsteps = nsteps,
                                     .rng = {(runs << 40) + (who << 20)},
                                     .events = mine + i * nsteps};
    }
    check_barrier(w->comm);
    for (int i = 0; i < nthreads; i++)
        CHECK(pthread_create(&threads[i], NULL, work, &workers[i]) == 0, "no thread");
    for (int i = 0; i < nthreads; i++)
        pthread_join(threads[i], NULL);
    check_barrier(w->comm);
    MUST(MPI_Gather(mine, each * (int)sizeof *mine, MPI_BYTE, all, each * (int)sizeof *mine,
                    MPI_BYTE, 0, w->comm));
    if (w->rank == 0) {
        uint64_t last[NWORDS];
        for (int word = 0; word < NWORDS; word++) {
            int target = word_target(w, word);
            uint64_t wide = 0;
            uint32_t thin = 0;
            MUST(MPI_Get(is_wide(word) ? (void *)&wide : &thin, is_wide(word) ? 8 : 4, MPI_BYTE,
                         target, kind_disp(w, target, word_offset(word)), is_wide(word) ? 8 : 4,
                         MPI_BYTE, w->win));
            MUST(MPI_Win_flush(target, w->win));
            last[word] = narrow(word, &wide, &thin);
        }
        check_history(all, each * w->nranks, last);
    }
    check_barrier(w->comm);
}

int main(int argc, char **argv) {
    check_begin_threads(&argc, &argv, "rma_linear");
    if (argc > 1)
        nthreads = atoi(argv[1]);
    CHECK(nthreads >= 1 && nthreads <= MAX_THREADS, "1 to %d threads", MAX_THREADS);
    for (int kind = 0; kind < NKINDS; kind++) {
        struct kind_win w;
        if (!kind_open(&w, (enum kind)kind, MPI_COMM_WORLD, 64, 4))
            continue;
        for (int round = 0; round < check_rounds(4, 1); round++) {
            kind_clear(&w);
            MUST(MPI_Win_lock_all(0, w.win));
            run(&w, check_rounds(600, 25));
            MUST(MPI_Win_unlock_all(w.win));
        }
        kind_close(&w);
        if (check_rank == 0)
            printf("%s\n", kind_names[kind]);
    }
    return check_end();
}
