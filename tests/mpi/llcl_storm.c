/*
 * llcl_storm: contexts while signals interrupt every wait, as storm.c. The third argument is the
 * transport that leads to the other ranks.
 */
#include "storm.h"

#include "llcl_check.h"

enum { ROUNDS = 20, BYTES = 100000 };

int main(int argc, char **argv) {
    struct ll_memory far, near;
    storm_begin(argc, argv);
    ll_begin(&argc, &argv, "llcl_storm");
    tug_context *context = ll_open(MPI_COMM_WORLD);
    const int next = (check_rank + 1) % check_nranks;
    const int before = (check_rank + check_nranks - 1) % check_nranks;
    const char *name = tug_context_transport(context, next, 8);
    CHECK(argc > 3 && strcmp(name, argv[3]) == 0, "the transport is %s", name);
    ll_make(context, &far, LL_ALLOCATED, BYTES);
    ll_make(context, &near, LL_REGISTERED, BYTES);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        check_fill(near.base, BYTES, (uint64_t)check_rank, round);
        LL_GOOD(ll_write(context, next, &far.keys[next], 0, near.registration, 0, BYTES));
        ll_barrier(context);
        check_same(far.base, BYTES, (uint64_t)before, round, __FILE__, __LINE__);
        memset(near.base, 0, BYTES);
        LL_GOOD(ll_read(context, next, &far.keys[next], 0, near.registration, 0, BYTES));
        check_same(near.base, BYTES, (uint64_t)check_rank, round, __FILE__, __LINE__);
        ll_barrier(context);
    }
    ll_end(context, &near);
    ll_end(context, &far);
    ll_close(&context);
    return storm_end();
}
