/*
 * llcl_crowd: all ranks send to one at once.
 *
 * More packets are under way than the inbox of rank 0 has slots, so that senders find it full again
 * and again, and wait for room. Rank 0 looks, and in a second round computes for a while first. All
 * messages come once, with their data.
 */
#include "llcl_check.h"

enum { DATA = 7, MESSAGES = 200, OUT = 16, LARGEST = TUG_AM_MAX_PAYLOAD };

static _Atomic int came[LL_MAX_RANKS];
static _Atomic int all_came;

static size_t size_of(int message) {
    return (size_t)8 + (size_t)message * 997 % (LARGEST - 8);
}

/* Messages may overtake one another: each is known by its number. */
static void on_data(tug_context *c, int source, const void *payload, size_t bytes, void *d) {
    static bool seen[LL_MAX_RANKS][2 * MESSAGES];
    uint64_t number;
    (void)c, (void)d;
    CHECK(source > 0 && source < check_nranks && bytes >= 8, "%zu bytes from rank %d", bytes,
          source);
    memcpy(&number, payload, 8);
    CHECK(number < 2 * MESSAGES && !seen[source][number], "message %llu of rank %d comes twice",
          (unsigned long long)number, source);
    seen[source][number] = true;
    CHECK(bytes == size_of((int)number), "message %llu has %zu bytes", (unsigned long long)number,
          bytes);
    check_same((const unsigned char *)payload + 8, bytes - 8, (uint64_t)source, number, "payload",
               __LINE__);
    atomic_fetch_add(&came[source], 1);
    atomic_fetch_add(&all_came, 1);
}

static void send_all(tug_context *context, int round) {
    static unsigned char sent[OUT][LARGEST];
    struct tug_counter counters[OUT] = {{0}};
    for (int i = 0; i < MESSAGES; i++) {
        const int number = round * MESSAGES + i;
        const uint64_t head = (uint64_t)number;
        unsigned char *to = sent[i % OUT];
        LL_GOOD(tug_counter_wait(context, &counters[i % OUT], (uint64_t)(i / OUT)));
        memcpy(to, &head, 8);
        check_fill(to + 8, size_of(number) - 8, (uint64_t)check_rank, head);
        struct tug_am_params p = {
            0, DATA, to, size_of(number), {NULL, NULL}, {tug_counter_add, &counters[i % OUT]}};
        LL_TRY(context, tug_try_am_async(context, &p));
    }
    for (int i = 0; i < OUT; i++)
        LL_GOOD(tug_counter_wait(context, &counters[i], (MESSAGES + OUT - 1 - i) / OUT));
}

static bool all_are_here(void *d) {
    return atomic_load(&all_came) == *(const int *)d;
}

static void compute(double seconds) {
    for (double end = ll_now() + seconds; ll_now() < end;)
        ;
}

int main(int argc, char **argv) {
    ll_begin(&argc, &argv, "llcl_crowd");
    tug_context *context = ll_open(MPI_COMM_WORLD);
    LL_GOOD(tug_am_register(context, DATA, on_data, NULL));
    ll_barrier(context);
    const double begin = ll_now();
    for (int round = 0; round < 2; round++) {
        if (check_rank > 0) {
            send_all(context, round);
        } else {
            int due = (round + 1) * MESSAGES * (check_nranks - 1);
            if (round == 1)
                compute(0.05);
            tug_wait(context, all_are_here, &due);
        }
        ll_barrier(context);
    }
    for (int r = 1; r < check_nranks && check_rank == 0; r++)
        CHECK(came[r] == 2 * MESSAGES, "%d messages of rank %d", came[r], r);
    if (check_rank == 0)
        printf("%d messages in %.3f s\n", all_came, ll_now() - begin);
    ll_close(&context);
    return check_end();
}
