/* Local memory that the program has not registered: slots, and registrations that are kept. */
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/unmap_watch.h"
#include "fixture.h"
#include "transport/verbs/origin.h"

#define KIB 1024u
#define MIB (1024u * 1024u)

static struct tug_registration everything;

static __typeof__(tug_ibv.reg_mr_iova) reg_mr_iova;
static unsigned registered; /* calls of reg_mr_iova */

static struct ibv_mr *count_registrations(struct ibv_pd *pd, void *address, size_t bytes,
                                          uint64_t there, int access) {
    registered++;
    return reg_mr_iova(pd, address, bytes, there, access);
}

/* The first operation makes the slots: that is done, and not counted. */
static void begin(void) {
    if (reg_mr_iova == NULL)
        reg_mr_iova = tug_ibv.reg_mr_iova;
    tug_ibv.reg_mr_iova = count_registrations;
    tug_ibv.reg_mr_iova2 = NULL; /* an older libibverbs: all go by the other */
    everything = (struct tug_registration){.bytes = SIZE_MAX};
    unsigned char warm[64] = {0};
    struct fake_end end;
    fake_post(ORIGIN, fake_operation(ORIGIN, 1, TUG_OPERATION_READ, theirs, 0, &everything,
                                     (uintptr_t)warm, sizeof warm, &end));
    assert_true(fake_finish(60));
    assert_done(&end, 0);
    registered = 0;
}

/* Moves bytes between `here`, memory of ORIGIN, and the byte `offset` of `theirs`, and checks the
 * data at the destination. */
static void move(enum tug_operation_kind kind, unsigned char *here, uint64_t offset, size_t bytes) {
    static unsigned seed;
    struct fake_end end;
    unsigned char *from = kind == TUG_OPERATION_WRITE ? here : theirs_memory + offset;
    unsigned char *to = kind == TUG_OPERATION_WRITE ? theirs_memory + offset : here;
    memset(to, 0, bytes);
    fill(from, bytes, ++seed);
    fake_post(ORIGIN, fake_operation(ORIGIN, 1, kind, theirs, offset, &everything, (uintptr_t)here,
                                     bytes, &end));
    assert_true(fake_finish(60));
    assert_done(&end, 0);
    assert_filled(to, bytes, seed);
    assert_int_equal(ORIGIN->passed, 0);
    assert_int_equal(everything.users, 0);
}

static void write_from(unsigned char *here, size_t bytes) {
    move(TUG_OPERATION_WRITE, here, 3, bytes);
}

static void read_into(unsigned char *here, size_t bytes) {
    move(TUG_OPERATION_READ, here, 17, bytes);
}

static void nothing(uintptr_t first, uintptr_t end) {
    (void)first, (void)end;
}

/* Does the kernel report memory that goes? Where it does not, no registration is used twice. */
static bool is_watched(void) {
    const bool watched = tug_unmap_watch_begin(nothing);
    if (watched)
        tug_unmap_watch_end();
    return watched;
}

void origin_sizes(void **state) {
    (void)state;
    static const size_t sizes[] = {1,    8,    24,   25,    64,    220,     221,
                                   4095, 4096, 4097, 16384, 65537, 1 * MIB, 3 * MIB + 1};
    unsigned char *memory = map_memory(4 * MIB);
    begin();
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        write_from(memory + 5, sizes[i]);
        read_into(memory + 9, sizes[i]);
    }
    munmap(memory, 4 * MIB);
}

/* A read changes no byte outside its destination. */
void origin_around(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 64, 4096, 4097, 65537};
    unsigned char *memory = map_memory(1 * MIB);
    begin();
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        memset(memory, 0xa5, 1 * MIB);
        read_into(memory + 100, sizes[i]);
        for (size_t at = 0; at < 100; at++)
            assert_int_equal(memory[at], 0xa5);
        for (size_t at = 100 + sizes[i]; at < 1 * MIB; at += 7)
            assert_int_equal(memory[at], 0xa5);
    }
    munmap(memory, 1 * MIB);
}

/* More reads at once than there are slots. */
void origin_many(void **state) {
    (void)state;
    enum { N = 700, BYTES = 100 };
    static struct fake_end ends[N];
    unsigned char *memory = map_memory(1 * MIB);
    begin();
    for (int round = 0; round < 3; round++) {
        memset(memory, 0, 1 * MIB);
        fill(theirs_memory, N * BYTES, 90u + (unsigned)round);
        for (unsigned i = 0; i < N; i++)
            fake_post(ORIGIN,
                      fake_operation(ORIGIN, 1, TUG_OPERATION_READ, theirs, i * BYTES, &everything,
                                     (uintptr_t)memory + i * BYTES, BYTES, &ends[i]));
        assert_true(fake_finish(60));
        for (unsigned i = 0; i < N; i++)
            assert_done(&ends[i], 0);
        assert_filled(memory, N * BYTES, 90u + (unsigned)round);
        assert_int_equal(everything.users, 0);
    }
    munmap(memory, 1 * MIB);
}

/* Memory is registered once. A later operation inside it uses that registration. An operation of up
 * to TUG_ORIGIN_SLOT bytes registers nothing. */
void origin_kept(void **state) {
    (void)state;
    unsigned char *memory = map_memory(4 * MIB);
    begin();
    write_from(memory, 4096);
    assert_int_equal(registered, 0);
    for (int i = 0; i < 3; i++) {
        write_from(memory, 2 * MIB);
        read_into(memory + 5000, 1 * MIB);
    }
    assert_int_equal(registered, is_watched() ? 1 : 6);
    munmap(memory, 4 * MIB);
}

/* A registration that overlaps others takes their place. */
void origin_overlapping(void **state) {
    (void)state;
    unsigned char *memory = map_memory(4 * MIB);
    begin();
    write_from(memory, 512 * KIB);
    write_from(memory + 1 * MIB, 512 * KIB);
    write_from(memory + 256 * KIB, 1 * MIB);
    const unsigned so_far = registered;
    write_from(memory, 1536 * KIB);
    read_into(memory, 1536 * KIB);
    if (is_watched()) {
        assert_int_equal(so_far, 3);
        assert_int_equal(registered, 3);
    }
    munmap(memory, 4 * MIB);
}

/* After munmap(), new memory at the same addresses is registered anew, and a read arrives in the
 * new memory. */
void origin_gone(void **state) {
    (void)state;
    unsigned char *memory = map_memory(1 * MIB);
    begin();
    for (int i = 0; i < 20; i++) {
        read_into(memory, 1 * MIB);
        write_from(memory, 1 * MIB);
        assert_int_equal(registered, is_watched() ? i + 1 : 2 * (i + 1));
        assert_int_equal(munmap(memory, 1 * MIB), 0);
        assert_true(mmap(memory, 1 * MIB, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == memory);
    }
    munmap(memory, 1 * MIB);
}

/* An operation finds the right data after free() and malloc(), and after madvise() has dropped
 * pages.
 */
void origin_freed(void **state) {
    (void)state;
    begin();
    for (int i = 0; i < 20; i++) {
        unsigned char *block = malloc(2 * MIB);
        assert_non_null(block);
        write_from(block, 2 * MIB - 1);
        read_into(block, 2 * MIB - 1);
        free(block);
    }
    unsigned char *memory = map_memory(1 * MIB);
    for (int i = 0; i < 20; i++) {
        read_into(memory, 1 * MIB);
        assert_int_equal(madvise(memory, 1 * MIB, MADV_DONTNEED), 0);
    }
    munmap(memory, 1 * MIB);
}

/* The program unmaps the memory of an operation that has been posted. The operation ends well, and
 * the next one uses the new memory. */
void origin_gone_under_way(void **state) {
    (void)state;
    unsigned char *memory = map_memory(1 * MIB);
    struct fake_end end;
    begin();
    memset(memory, 7, 1 * MIB);
    fake_post(ORIGIN, fake_operation(ORIGIN, 1, TUG_OPERATION_WRITE, theirs, 0, &everything,
                                     (uintptr_t)memory, 1 * MIB, &end));
    assert_true(mmap(memory, 1 * MIB, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == memory);
    assert_true(fake_finish(60));
    assert_done(&end, 0);
    write_from(memory, 1 * MIB);
    munmap(memory, 1 * MIB);
}

/* Registrations that are kept stay below half the limit of locked memory: the least recently used
 * ones end. A larger operation is registered for itself alone. */
void origin_bounded(void **state) {
    struct rlimit before, little = {8 * MIB, 8 * MIB};
    unsigned char *memory = map_memory(16 * MIB);
    assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &before), 0);
    little.rlim_max = before.rlim_max;
    tear_down(state);
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &little), 0);
    set_up(state);
    begin();
    for (int i = 0; i < 16; i++) /* four of them have room */
        write_from(memory + (size_t)i * MIB, 1 * MIB - 8192);
    assert_int_equal(registered, 16);
    write_from(memory + 15 * MIB, 1 * MIB - 8192);
    assert_int_equal(registered, is_watched() ? 16 : 17);
    write_from(memory, 1 * MIB - 8192);
    assert_int_equal(registered, is_watched() ? 17 : 18);
    write_from(memory, 12 * MIB); /* each time anew */
    write_from(memory, 12 * MIB);
    assert_int_equal(registered, is_watched() ? 19 : 20);
    setrlimit(RLIMIT_MEMLOCK, &before);
    munmap(memory, 16 * MIB);
}

/* A write may have its data in memory that the program can only read. */
void origin_read_only(void **state) {
    (void)state;
    unsigned char *memory = map_memory(1 * MIB);
    struct fake_end end;
    begin();
    fill(memory, 1 * MIB, 99);
    assert_int_equal(mprotect(memory, 1 * MIB, PROT_READ), 0);
    fake_post(ORIGIN, fake_operation(ORIGIN, 1, TUG_OPERATION_WRITE, theirs, 0, &everything,
                                     (uintptr_t)memory, 1 * MIB, &end));
    assert_true(fake_finish(60));
    assert_done(&end, 0);
    assert_filled(theirs_memory, 1 * MIB, 99);
    munmap(memory, 1 * MIB);
}

static struct ibv_mr *refuse(struct ibv_pd *pd, void *address, size_t bytes, uint64_t there,
                             int access) {
    (void)pd, (void)address, (void)bytes, (void)there, (void)access;
    errno = ENOMEM;
    return NULL;
}

/* The device refuses a registration: the operation goes to the next transport with its local memory
 * unchanged. */
void origin_refused(void **state) {
    (void)state;
    unsigned char *memory = map_memory(1 * MIB);
    struct fake_end end;
    begin();
    tug_ibv.reg_mr_iova = refuse;
    struct tug_operation *operation = fake_operation(ORIGIN, 1, TUG_OPERATION_WRITE, theirs, 0,
                                                     &everything, (uintptr_t)memory, 1 * MIB, &end);
    fake_post(ORIGIN, operation);
    assert_int_equal(ORIGIN->passed, 1);
    assert_done(&end, 0);
    assert_ptr_equal(operation->local, memory);
    ORIGIN->passed = 0;
    write_from(memory, 4096); /* its data go by a slot, which is registered already */
    tug_ibv.reg_mr_iova = count_registrations;
    write_from(memory, 1 * MIB);
    munmap(memory, 1 * MIB);
}

static int fork_is_enabled(void) {
    return 1;
}

/* Where the child of a fork would lose registered pages, none of the program's are registered. */
void origin_of_parent(void **state) {
    unsigned char *memory = map_memory(1 * MIB);
    struct fake_end end;
    int (*const is_fork_initialized)(void) = tug_ibv.is_fork_initialized;
    tear_down(state);
    tug_ibv.is_fork_initialized = fork_is_enabled;
    set_up(state);
    begin();
    write_from(memory, 4096);
    fake_post(ORIGIN, fake_operation(ORIGIN, 1, TUG_OPERATION_WRITE, theirs, 0, &everything,
                                     (uintptr_t)memory, 1 * MIB, &end));
    assert_true(fake_finish(60));
    assert_int_equal(ORIGIN->passed, 1);
    assert_int_equal(registered, 0);
    ORIGIN->passed = 0;
    tug_ibv.is_fork_initialized = is_fork_initialized;
    munmap(memory, 1 * MIB);
}

/* TARGET has lost its queue pair when an operation with a slot or with registered pages is posted:
 * the operation starts again. */
void origin_restarts(void **state) {
    (void)state;
    unsigned char *memory = map_memory(1 * MIB);
    begin();
    read_into(memory, 1 * MIB);
    lose_server();
    write_from(memory, 100);
    lose_server();
    read_into(memory, 4096);
    lose_server();
    write_from(memory, 1 * MIB);
    munmap(memory, 1 * MIB);
}
