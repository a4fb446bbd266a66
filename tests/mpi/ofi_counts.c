/*
 * ofi_counts: operations of windows are the provider's RMA, one request each, and no packets.
 *
 * Rank 0 operates on the window of rank 1, which only waits in MPI_Barrier; 2 ranks on 2 nodes, ofi
 * alone, with TUGBOAT_OFI_RMA=on. For put, get, fetch_and_op and accumulate of a sum: 1 and 16
 * operations in an epoch that ends with a flush, in created and allocated windows, and data of 8
 * bytes to 1 MiB. Rank 1 checks the data after a message that follows the flush. The numbers of
 * atomics are printed only: they are the provider's if it has all kinds.
 */
#include "win_kinds.h"

enum { MOST = 1 << 20, PIECES = 16, EPOCHS = 4 };

static struct kind_win w;
static char *buffer;
static MPI_T_pvar_session session;
static MPI_T_pvar_handle requests, packets;
static bool counts;

/* Where the host MPI is alone, or the library is off, nothing is counted. */
static void handle_of(const char *name, MPI_T_pvar_handle *handle) {
    int index, n;
    const char *way = getenv("TUGBOAT");
    counts = (way == NULL || strcmp(way, "off") != 0) &&
             MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_COUNTER, &index) == MPI_SUCCESS;
    if (counts)
        MUST(MPI_T_pvar_handle_alloc(session, index, NULL, handle, &n));
}

static uint64_t value_of(MPI_T_pvar_handle handle) {
    uint64_t value = 0;
    if (counts)
        MUST(MPI_T_pvar_read(session, handle, &value));
    return value;
}

/* From one operation's memory to the next: not adjacent. */
static size_t step_of(size_t bytes) {
    return bytes + 64;
}

enum operation { PUT, GET, FETCH, ADD, NOPERATIONS };
static const char *const names[NOPERATIONS] = {"put", "get", "fetch_and_op", "accumulate"};

static void operate(enum operation operation, size_t bytes, int i) {
    static int64_t one = 1, found[PIECES];
    char *mine = buffer + (size_t)i * step_of(bytes);
    const MPI_Aint disp = kind_disp(&w, 1, (size_t)i * step_of(bytes));
    if (operation == PUT)
        MUST(MPI_Put(mine, (int)bytes, MPI_BYTE, 1, disp, (int)bytes, MPI_BYTE, w.win));
    else if (operation == GET)
        MUST(MPI_Get(mine, (int)bytes, MPI_BYTE, 1, disp, (int)bytes, MPI_BYTE, w.win));
    else if (operation == FETCH)
        MUST(MPI_Fetch_and_op(&one, &found[i], MPI_INT64_T, 1, disp, MPI_SUM, w.win));
    else
        MUST(MPI_Accumulate(&one, 1, MPI_INT64_T, 1, disp, 1, MPI_INT64_T, MPI_SUM, w.win));
}

static void check_pieces(const char *memory, enum operation operation, size_t bytes, int n,
                         uint64_t round) {
    for (int i = 0; i < n; i++) {
        int64_t word;
        const char *piece = memory + (size_t)i * step_of(bytes);
        memcpy(&word, piece, sizeof word);
        if (operation <= GET)
            check_same(piece, bytes, (uint64_t)i, round, names[operation], __LINE__);
        else
            CHECK(word == (int64_t)round, "%s: word %d is %lld, not %lld", names[operation], i,
                  (long long)word, (long long)round);
    }
}

static void row(enum operation operation, size_t bytes, int n) {
    uint64_t least_requests = UINT64_MAX, least_packets = UINT64_MAX;
    memset(w.base, 0, w.size);
    check_barrier(MPI_COMM_WORLD);
    MUST(MPI_Win_lock_all(0, w.win));
    for (uint64_t round = 1; round <= EPOCHS; round++) {
        char *from = operation == PUT ? buffer : w.base;
        for (int i = 0; operation <= GET && w.rank == (operation == GET) && i < n; i++)
            check_fill(from + (size_t)i * step_of(bytes), bytes, (uint64_t)i, round);
        MUST(MPI_Win_sync(w.win));
        check_barrier(MPI_COMM_WORLD);
        if (w.rank == 0) {
            const uint64_t requests_before = value_of(requests), packets_before = value_of(packets);
            for (int i = 0; i < n; i++)
                operate(operation, bytes, i);
            MUST(MPI_Win_flush(1, w.win));
            const uint64_t nrequests = value_of(requests) - requests_before,
                           npackets = value_of(packets) - packets_before;
            least_requests = nrequests < least_requests ? nrequests : least_requests;
            least_packets = npackets < least_packets ? npackets : least_packets;
        }
        check_barrier(MPI_COMM_WORLD);
        MUST(MPI_Win_sync(w.win));
        if (w.rank == 1 && operation != GET)
            check_pieces(w.base, operation, bytes, n, round);
        if (w.rank == 0 && operation == GET)
            check_pieces(buffer, operation, bytes, n, round);
    }
    MUST(MPI_Win_unlock_all(w.win));
    if (w.rank != 0)
        return;
    printf("%-12s %7zu bytes, %2d, %-8s: %llu requests, %llu packets\n", names[operation], bytes, n,
           kind_names[w.kind], (unsigned long long)least_requests,
           (unsigned long long)least_packets);
    CHECK(!counts || operation > GET || (least_requests == (uint64_t)n && least_packets == 0),
          "%s of %zu bytes: not one request each", names[operation], bytes);
}

int main(int argc, char **argv) {
    static const size_t sizes[] = {8, 200, 4096, MOST};
    int provided;
    check_begin(&argc, &argv, "ofi_counts");
    CHECK(check_nranks == 2, "2 ranks");
    MUST(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    MUST(MPI_T_pvar_session_create(&session));
    handle_of("tugboat_ofi_requests", &requests);
    handle_of("tugboat_packets", &packets);
    buffer = calloc(PIECES, step_of(MOST));
    CHECK(buffer != NULL, "no memory");
    for (int kind = KIND_ALLOCATE; kind <= KIND_CREATE; kind++) {
        CHECK(kind_open(&w, (enum kind)kind, MPI_COMM_WORLD, PIECES * step_of(MOST), 1),
              "no window");
        for (int operation = PUT; operation < NOPERATIONS; operation++)
            for (size_t i = 0; i < (operation <= GET ? sizeof sizes / sizeof sizes[0] : 1); i++)
                for (int n = 1; n <= PIECES; n *= PIECES)
                    row((enum operation)operation, sizes[i], n);
        kind_close(&w);
    }
    free(buffer);
    MUST(MPI_T_pvar_session_free(&session));
    MUST(MPI_T_finalize());
    return check_end();
}
