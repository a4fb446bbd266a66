/* The memory of a node's ranks: each makes the pages real that it will own, and nobody's pages are
 * left out. The host is played: its shared memory is a memfd that this process maps as each rank of
 * the node in turn. */
#include <sys/mman.h>
#include <unistd.h>

#include "base/system_page.h"
#include "check.h"
#include "host/agreement.h"
#include "host/host.h"
#include "node/arena.h"
#include "node/team.h"

enum { RANKS = 4, MOST = 1 << 22 };

static unsigned char *memory;
static size_t bytes_asked, page_bytes;
static int agreements;
static unsigned char there[MOST / 4096]; /* when the ranks agree: the pages that are real */

static int allocate_shared(MPI_Aint bytes, int unit, MPI_Info info, MPI_Comm comm, void *base,
                           MPI_Win *win) {
    (void)unit, (void)info, (void)comm;
    bytes_asked = (size_t)bytes > bytes_asked ? (size_t)bytes : bytes_asked;
    *(void **)base = memory;
    *win = (MPI_Win)1;
    return MPI_SUCCESS;
}

static int shared_query(MPI_Win win, int rank, MPI_Aint *bytes, int *unit, void *base) {
    (void)win;
    assert_int_equal(rank, 0);
    *bytes = MOST;
    *unit = 1;
    *(void **)base = memory;
    return MPI_SUCCESS;
}

static int win_free(MPI_Win *win) {
    *win = MPI_WIN_NULL;
    return MPI_SUCCESS;
}

static int comm_dup(MPI_Comm comm, MPI_Comm *duplicate) {
    *duplicate = comm;
    return MPI_SUCCESS;
}

static int comm_free(MPI_Comm *comm) {
    *comm = MPI_COMM_NULL;
    return MPI_SUCCESS;
}

bool __wrap_tug_all_agree(MPI_Comm comm, bool mine);
bool __wrap_tug_all_agree(MPI_Comm comm, bool mine) {
    (void)comm;
    agreements++;
    assert_int_equal(mincore(memory, MOST, there), 0);
    return mine;
}

int __wrap_tug_agree(MPI_Comm comm, MPI_Op how, int64_t words[], int n);
int __wrap_tug_agree(MPI_Comm comm, MPI_Op how, int64_t words[], int n) {
    (void)comm, (void)how, (void)words, (void)n;
    return MPI_SUCCESS;
}

static void map_anew(void) {
    const int file = memfd_create("test_arena", MFD_CLOEXEC);
    assert_true(file >= 0);
    assert_int_equal(ftruncate(file, MOST), 0);
    memory = mmap(NULL, MOST, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    assert_true(memory != MAP_FAILED);
    close(file);
}

/* Adds one to each page that the rank has made real when the ranks agree. Returns all pages. */
static size_t take_as(int rank, size_t bytes, unsigned *owners) {
    struct tug_team team = {.node_size = RANKS, .node_most = RANKS, .node_rank = rank};
    unsigned char *taken;
    map_anew();
    bytes_asked = 0;
    agreements = 0;
    assert_int_equal(tug_arena_take(&team, bytes, &taken), 0);
    assert_ptr_equal(taken, memory);
    assert_int_equal(agreements, 2);
    const size_t pages = team.chunks->bytes / page_bytes;
    for (size_t i = 0; i < pages; i++)
        owners[i] += (there[i] & 1) << (8 * rank);
    assert_int_equal(mincore(memory, MOST, there), 0);
    for (size_t i = 0; i < pages; i++) /* and then all are mapped */
        assert_true(there[i] & 1);
    tug_arena_fini(&team);
    munmap(memory, MOST);
    return pages;
}

/* Each page of the first `bytes` is the rank's whose part begins there, or ended before. */
static void check_owners(size_t bytes) {
    static unsigned owners[MOST / 4096];
    memset(owners, 0, sizeof(owners));
    size_t pages = 0;
    for (int rank = 0; rank < RANKS; rank++)
        pages = take_as(rank, bytes, owners);
    size_t each[RANKS] = {0};
    for (size_t i = 0; i < pages; i++) {
        int owner = 0;
        while (owner < RANKS && owners[i] != 1u << (8 * owner))
            owner++;
        assert_true(owner < RANKS); /* one alone has touched it first */
        each[owner]++;
        const size_t part = bytes / RANKS;
        if (part % page_bytes == 0 && i * page_bytes < bytes)
            assert_int_equal(owner, i * page_bytes / part);
    }
    for (int rank = 0; rank < RANKS; rank++)
        assert_in_range(each[rank], pages / RANKS - 1, pages / RANKS + 2);
}

static void each_rank_touches_its_part_first(void **state) {
    (void)state;
    check_owners(3 << 20);
    check_owners(RANKS * 5 * page_bytes);
    check_owners(RANKS * 64);
}

int main(void) {
    (void)tug_host_resolve(); /* else it would be done, over these, later */
    tug_host.Win_allocate_shared = allocate_shared;
    tug_host.Win_shared_query = shared_query;
    tug_host.Win_free = win_free;
    tug_host.Comm_dup = comm_dup;
    tug_host.Comm_free = comm_free;
    page_bytes = tug_page_bytes();
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_rank_touches_its_part_first)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
