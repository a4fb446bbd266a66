/*
 * rma_request: MPI_Rput, Rget, Raccumulate and Rget_accumulate under every completion call.
 *
 * Each rank works on its own slot at every target. For each of the twelve ways to complete a set
 * of requests the program puts, completes, gets, completes, accumulates, completes, and looks at
 * the data, the handles (null once done) and the indices returned. A completed put or accumulate
 * allows the origin's buffer to be spoiled; a completed get means the data are there.
 */
#include "win_kinds.h"

enum { NREQ = 6, WORDS = 16, SLOT = NREQ * WORDS * 8 };

enum way {
    WAIT,
    TEST,
    WAITALL,
    WAITALL_IGNORE,
    WAITANY,
    WAITSOME,
    TESTALL,
    TESTANY,
    TESTSOME,
    GET_STATUS,
    BACKWARDS,
    NWAYS
};

static void all_by_any(MPI_Request *r, bool test) {
    bool seen[NREQ] = {false};
    for (int left = NREQ; left > 0;) {
        int index = -7, flag = 1;
        MPI_Status status;
        if (test)
            MUST(MPI_Testany(NREQ, r, &index, &flag, &status));
        else
            MUST(MPI_Waitany(NREQ, r, &index, &status));
        if (!flag)
            continue;
        CHECK(index >= 0 && index < NREQ && !seen[index], "index %d", index);
        CHECK(r[index] == MPI_REQUEST_NULL, "request %d is done and not null", index);
        seen[index] = true;
        left--;
    }
    int index = 0, flag = 0;
    MUST(MPI_Testany(NREQ, r, &index, &flag, MPI_STATUS_IGNORE));
    CHECK(flag && index == MPI_UNDEFINED, "all null: flag %d, index %d", flag, index);
}

static void all_by_some(MPI_Request *r, bool test) {
    bool seen[NREQ] = {false};
    for (int left = NREQ; left > 0;) {
        int count = -7, indices[NREQ];
        MPI_Status statuses[NREQ];
        if (test)
            MUST(MPI_Testsome(NREQ, r, &count, indices, statuses));
        else
            MUST(MPI_Waitsome(NREQ, r, &count, indices, statuses));
        CHECK(count >= (test ? 0 : 1) && count <= left, "count %d of %d", count, left);
        for (int i = 0; i < count; i++) {
            int at = indices[i];
            CHECK(at >= 0 && at < NREQ && !seen[at], "index %d", at);
            CHECK(r[at] == MPI_REQUEST_NULL, "request %d is done and not null", at);
            seen[at] = true;
        }
        left -= count;
    }
}

static void one_by_one(MPI_Request *r, enum way way) {
    for (int i = 0; i < NREQ; i++) {
        int flag = 0, at = way == BACKWARDS ? NREQ - 1 - i : i;
        MPI_Status status;
        while (way == TEST && !flag)
            MUST(MPI_Test(&r[at], &flag, &status));
        while (way == GET_STATUS && !flag)
            MUST(MPI_Request_get_status(r[at], &flag, &status));
        if (way == GET_STATUS)
            CHECK(r[at] != MPI_REQUEST_NULL, "MPI_Request_get_status took the request away");
        MUST(MPI_Wait(&r[at], way == WAIT ? &status : MPI_STATUS_IGNORE));
    }
}

static void complete(MPI_Request *r, enum way way) {
    MPI_Status statuses[NREQ];
    int flag = 0;
    switch (way) {
    case WAITALL:
        MUST(MPI_Waitall(NREQ, r, statuses));
        break;
    case WAITALL_IGNORE:
        MUST(MPI_Waitall(NREQ, r, MPI_STATUSES_IGNORE));
        break;
    case TESTALL:
        while (!flag)
            MUST(MPI_Testall(NREQ, r, &flag, statuses));
        break;
    case WAITANY:
    case TESTANY:
        all_by_any(r, way == TESTANY);
        break;
    case WAITSOME:
    case TESTSOME:
        all_by_some(r, way == TESTSOME);
        break;
    default:
        one_by_one(r, way);
    }
    for (int i = 0; i < NREQ; i++)
        CHECK(r[i] == MPI_REQUEST_NULL, "way %d: request %d is not null", (int)way, i);
}

static MPI_Aint place(const struct kind_win *w, int target, int i) {
    return kind_disp(w, target, (size_t)w->rank * SLOT + (size_t)i * WORDS * 8);
}

static void put_get(struct kind_win *w, int target, enum way way) {
    uint64_t out[NREQ][WORDS], in[NREQ][WORDS];
    uint64_t round = 100 * (uint64_t)way + (uint64_t)target;
    MPI_Request r[NREQ];
    check_fill(out, sizeof out, (uint64_t)w->rank, round);
    for (int i = 0; i < NREQ; i++)
        MUST(MPI_Rput(out[i], WORDS, MPI_UINT64_T, target, place(w, target, i), WORDS, MPI_UINT64_T,
                      w->win, &r[i]));
    complete(r, way);
    memset(out, 0xee, sizeof out);
    MUST(MPI_Win_flush(target, w->win));
    memset(in, 0x33, sizeof in);
    for (int i = 0; i < NREQ; i++)
        MUST(MPI_Rget(in[i], WORDS, MPI_UINT64_T, target, place(w, target, i), WORDS, MPI_UINT64_T,
                      w->win, &r[i]));
    complete(r, way);
    check_same(in, sizeof in, (uint64_t)w->rank, round, "rput, rget", __LINE__);
}

static void accumulate(struct kind_win *w, int target, enum way way) {
    uint64_t add[NREQ][WORDS], was[NREQ][WORDS], now[NREQ][WORDS];
    uint64_t round = 100 * (uint64_t)way + (uint64_t)target;
    MPI_Request r[NREQ];
    for (int i = 0; i < NREQ * WORDS; i++)
        add[i / WORDS][i % WORDS] = (uint64_t)i;
    for (int i = 0; i < NREQ; i++)
        MUST(MPI_Raccumulate(add[i], WORDS, MPI_UINT64_T, target, place(w, target, i), WORDS,
                             MPI_UINT64_T, MPI_SUM, w->win, &r[i]));
    complete(r, way);
    memset(add, 0xee, sizeof add);
    /* No flush between: accumulates to one place keep their order. */
    for (int i = 0; i < NREQ; i++)
        MUST(MPI_Rget_accumulate(add[i], WORDS, MPI_UINT64_T, was[i], WORDS, MPI_UINT64_T, target,
                                 place(w, target, i), WORDS, MPI_UINT64_T, MPI_REPLACE, w->win,
                                 &r[i]));
    complete(r, way);
    for (int i = 0; i < NREQ * WORDS; i++) {
        uint64_t expect = check_word((uint64_t)w->rank, round, (uint64_t)i) + (uint64_t)i;
        CHECK(was[i / WORDS][i % WORDS] == expect, "way %d, word %d: old value", (int)way, i);
    }
    for (int i = 0; i < NREQ; i++)
        MUST(MPI_Rget_accumulate(NULL, 0, MPI_UINT64_T, now[i], WORDS, MPI_UINT64_T, target,
                                 place(w, target, i), WORDS, MPI_UINT64_T, MPI_NO_OP, w->win,
                                 &r[i]));
    complete(r, way);
    for (int i = 0; i < NREQ * WORDS; i++)
        CHECK(now[i / WORDS][i % WORDS] == 0xeeeeeeeeeeeeeeeeu, "way %d, word %d: replaced value",
              (int)way, i);
}

/* A request on MPI_PROC_NULL or of nothing is complete or completes, and moves nothing. */
static void nothing(struct kind_win *w, int target) {
    uint64_t x = 5, res = 6;
    MPI_Request r[4];
    MPI_Status statuses[4];
    MUST(MPI_Rput(&x, 1, MPI_UINT64_T, MPI_PROC_NULL, 0, 1, MPI_UINT64_T, w->win, &r[0]));
    MUST(MPI_Rget(&x, 1, MPI_UINT64_T, MPI_PROC_NULL, 0, 1, MPI_UINT64_T, w->win, &r[1]));
    MUST(MPI_Raccumulate(&x, 0, MPI_UINT64_T, target, place(w, target, 0), 0, MPI_UINT64_T, MPI_SUM,
                         w->win, &r[2]));
    MUST(MPI_Rget_accumulate(&x, 0, MPI_UINT64_T, &res, 0, MPI_UINT64_T, target,
                             place(w, target, 0), 0, MPI_UINT64_T, MPI_SUM, w->win, &r[3]));
    MUST(MPI_Waitall(4, r, statuses));
    CHECK(x == 5 && res == 6, "nothing was to be moved");
}

/* Hundreds of requests at once. */
static void many(struct kind_win *w, int target) {
    enum { MANY = 400 };
    static uint64_t out[MANY];
    static MPI_Request r[MANY];
    uint64_t got[NREQ * WORDS];
    for (int i = 0; i < MANY; i++) {
        out[i] = check_word((uint64_t)w->rank, 999, (uint64_t)i);
        MUST(MPI_Rput(&out[i], 1, MPI_UINT64_T, target,
                      place(w, target, 0) + (i % (NREQ * WORDS)) * 8 / w->disp_unit, 1,
                      MPI_UINT64_T, w->win, &r[i]));
        if (i % (NREQ * WORDS) == NREQ * WORDS - 1)
            MUST(MPI_Win_flush(target, w->win));
    }
    MUST(MPI_Waitall(MANY, r, MPI_STATUSES_IGNORE));
    MUST(MPI_Win_flush(target, w->win));
    MUST(MPI_Get(got, NREQ * WORDS, MPI_UINT64_T, target, place(w, target, 0), NREQ * WORDS,
                 MPI_UINT64_T, w->win));
    MUST(MPI_Win_flush(target, w->win));
    for (int i = MANY - NREQ * WORDS; i < MANY; i++)
        CHECK(got[i % (NREQ * WORDS)] == out[i], "put %d is not there", i);
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "rma_request");
    for (int kind = 0; kind < NKINDS; kind++) {
        struct kind_win w;
        if (!kind_open(&w, (enum kind)kind, MPI_COMM_WORLD, (size_t)check_nranks * SLOT,
                       kind == KIND_CREATE ? 8 : 1))
            continue;
        MUST(MPI_Win_lock_all(0, w.win));
        for (int t = 0; t < check_nranks; t++) {
            int target = (check_rank + t) % check_nranks;
            for (int way = 0; way < NWAYS; way++) {
                put_get(&w, target, (enum way)way);
                accumulate(&w, target, (enum way)way);
            }
            nothing(&w, target);
            many(&w, target);
        }
        MUST(MPI_Win_unlock_all(w.win));
        kind_close(&w);
    }
    return check_end();
}
