/*
 * llcl_copies: long copies of memory in reach go to the engine.
 *
 * The call that starts a read or a write of many MiB takes a small part of the time until it is
 * complete, and all data come; memory that overlaps is copied as memmove() does; memory whose copy
 * is under way cannot be deregistered.
 */
#include "llcl_check.h"

enum { BYTES = 24 << 20, ROUNDS = 5 };

static tug_context *context;
static tug_registration *remote, *local;
static unsigned char *mine;
static struct tug_key keys[LL_MAX_RANKS];

static unsigned char expected(size_t i, unsigned seed) {
    return (unsigned char)(i * 2654435761u >> 13 ^ seed);
}

static void fill(unsigned char *at, unsigned seed) {
    for (size_t i = 0; i < BYTES; i++)
        at[i] = expected(i, seed);
}

static void look(const unsigned char *at, size_t bytes, size_t from, unsigned seed) {
    size_t i = 0;
    while (i < bytes && at[i] == expected(from + i, seed))
        i++;
    CHECK(i == bytes, "byte %zu of %zu is wrong", i, bytes);
}

static bool try_copy(bool reads, int peer, size_t there, size_t here, size_t bytes,
                     struct tug_counter *counter) {
    const struct tug_callback counted = {tug_counter_add, counter};
    const struct tug_remote_address far = {&keys[peer], there};
    const struct tug_local_address near = {local, here};
    return reads ? tug_try_read_async(context, &(struct tug_read_params){.src_proc = peer,
                                                                         .src_raddr = far,
                                                                         .dest_laddr = near,
                                                                         .size_in_bytes = bytes,
                                                                         .on_complete = counted})
                 : tug_try_write_async(context, &(struct tug_write_params){.dest_proc = peer,
                                                                           .dest_raddr = far,
                                                                           .src_laddr = near,
                                                                           .size_in_bytes = bytes,
                                                                           .on_complete = counted});
}

static double cpu_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds of this thread inside the call, without those of whoever took its core; and until the
 * end. */
static void copy(bool reads, int peer, double *inside, double *whole) {
    struct tug_counter counter = {0};
    const double begin = ll_now(), cpu_begin = cpu_now();
    CHECK(try_copy(reads, peer, 0, 0, BYTES, &counter), "there is no room");
    *inside = cpu_now() - cpu_begin;
    int rc = tug_counter_wait(context, &counter, 1);
    *whole = ll_now() - begin;
    CHECK(rc == 0, "it failed: %s", tug_strerror(rc));
}

static void test_caller_is_free(int peer) {
    unsigned char *buffer = tug_mem_address(local);
    for (int reads = 0; reads < 2; reads++) {
        double least = 1e9, inside, whole;
        for (int round = 0; round < ROUNDS; round++) {
            fill(buffer, reads ? 99 : (unsigned)round);
            copy(reads, peer, &inside, &whole);
            least = inside / whole < least ? inside / whole : least;
            if (reads)
                look(buffer, BYTES, 0, ROUNDS - 1);
        }
        CHECK(least < 0.25, "the caller copies by itself: %.2f of the time is in the call", least);
    }
}

/* From this process's memory to the same memory, higher or lower by less than a copy is long. */
static void test_overlap(void) {
    const size_t shift = 100001, bytes = BYTES - 2 * shift;
    for (int up = 0; up < 2; up++) {
        const size_t from = up ? 0 : shift, to = up ? shift : 0;
        struct tug_counter counter = {0};
        tug_registration *over;
        int rc = tug_mem_register(context, mine, BYTES, &over);
        CHECK(rc == 0, "tug_mem_register: %s", tug_strerror(rc));
        fill(mine, 7);
        const struct tug_read_params read = {.src_proc = check_rank,
                                             .src_raddr = {&keys[check_rank], from},
                                             .dest_laddr = {over, to},
                                             .size_in_bytes = bytes,
                                             .on_complete = {tug_counter_add, &counter}};
        CHECK(tug_try_read_async(context, &read), "there is no room");
        const bool over_already = tug_counter_value(&counter) == 1;
        tug_registration *handle = over;
        rc = tug_mem_deregister(&handle);
        CHECK(rc == TUG_ERR_STATE || over_already || tug_counter_value(&counter) == 1,
              "memory is deregistered while it is copied");
        (void)tug_counter_wait(context, &counter, 1);
        look(mine + to, bytes, from, 7);
        while (handle != NULL && tug_mem_deregister(&handle) == TUG_ERR_STATE)
            tug_progress(context);
    }
}

int main(int argc, char **argv) {
    check_begin_threads(&argc, &argv, "llcl_copies");
    const bool allocated = argc < 2 || strcmp(argv[1], "allocated") == 0;
    context = ll_open(MPI_COMM_WORLD);
    unsigned char *memory = malloc(BYTES), *buffer = malloc(BYTES);
    int rc = allocated ? tug_mem_allocate(context, BYTES, &remote)
                       : tug_mem_register(context, memory, BYTES, &remote);
    CHECK(rc == 0, "memory: %s", tug_strerror(rc));
    rc = tug_mem_register(context, buffer, BYTES, &local);
    CHECK(rc == 0, "tug_mem_register: %s", tug_strerror(rc));
    mine = tug_mem_address(remote);
    struct tug_key key;
    tug_mem_key(remote, &key);
    MUST(MPI_Allgather(&key, sizeof key, MPI_BYTE, keys, sizeof key, MPI_BYTE, MPI_COMM_WORLD));
    ll_barrier(context);
    if (check_rank == 0)
        test_caller_is_free(check_nranks - 1);
    ll_barrier(context);
    if (check_rank == 0)
        test_overlap();
    ll_barrier(context);
    ll_close(&context);
    free(memory);
    free(buffer);
    return check_end();
}
