/* The host MPI, played: messages with large blocks. They end when the script says so, well or not,
 * and write all of their memory when they do. */
#include <sanitizer/asan_interface.h>

#include "host/agreement.h"
#include "host/host.h"
#include "played.h"

#define TRANSFERS 256

struct tug_host tug_host;
bool transfers_end;

static struct transfer {
    bool used, cancelled, into;
    unsigned char *place;
    size_t bytes;
} transfers[TRANSFERS];
static bool was_cancelled; /* the transfer that ended last */

bool tug_all_agree(MPI_Comm comm, bool mine) {
    (void)comm;
    return mine;
}

static void begin(void *place, MPI_Count count, bool into, MPI_Request *request) {
    int i = 0;
    while (i < TRANSFERS && transfers[i].used)
        i++;
    REQUIRE(i < TRANSFERS);
    transfers[i] =
        (struct transfer){.used = true, .into = into, .place = place, .bytes = (size_t)count};
    *request = (MPI_Request)(i + 1);
    reached.blocks++;
}

static int irecv(void *place, MPI_Count count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
                 MPI_Request *request) {
    (void)type, (void)comm;
    REQUIRE(peer >= 0 && peer < (int)WORLD_RANKS && tag > 0 && count >= 0);
    *request = MPI_REQUEST_NULL; /* an empty block has come */
    if (count > 0)
        begin(place, count, true, request);
    return MPI_SUCCESS;
}

static int isend(const void *place, MPI_Count count, MPI_Datatype type, int peer, int tag,
                 MPI_Comm comm, MPI_Request *request) {
    (void)type, (void)comm;
    REQUIRE(peer >= 0 && peer < (int)WORLD_RANKS && tag > 0 && count >= 0);
    begin((void *)(uintptr_t)place, count, false, request);
    return MPI_SUCCESS;
}

static int cancel(MPI_Request *request) {
    if (*request != MPI_REQUEST_NULL)
        transfers[*request - 1].cancelled = true;
    return MPI_SUCCESS;
}

/* A cancelled transfer may have come to its end before: then it has written its memory, too. */
static int test(MPI_Request *request, int *done, MPI_Status *status) {
    (void)status;
    *done = 1;
    if (*request == MPI_REQUEST_NULL)
        return MPI_SUCCESS;
    struct transfer *transfer = &transfers[*request - 1];
    REQUIRE(transfer->used);
    *done = transfers_end || transfer->cancelled;
    if (!*done)
        return MPI_SUCCESS;
    const bool late = transfer->cancelled && take() % 2 == 1;
    was_cancelled = transfer->cancelled && !late;
    if (transfer->into && (!transfer->cancelled || late))
        memset(transfer->place, CANARY, transfer->bytes);
    if (transfer->bytes > 0)
        REQUIRE(__asan_region_is_poisoned(transfer->place, transfer->bytes) == NULL);
    transfer->used = false;
    *request = MPI_REQUEST_NULL;
    return !transfer->cancelled && take() % 16 == 15 ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static int test_cancelled(const MPI_Status *status, int *flag) {
    (void)status;
    *flag = was_cancelled;
    return MPI_SUCCESS;
}

void host_begin(void) {
    tug_host.Irecv_c = irecv;
    tug_host.Isend_c = isend;
    tug_host.Cancel = cancel;
    tug_host.Test = test;
    tug_host.Test_cancelled = test_cancelled;
}

void host_reset(void) {
    memset(transfers, 0, sizeof(transfers));
    transfers_end = false;
}

void host_check_all_ended(void) {
    for (int i = 0; i < TRANSFERS; i++)
        REQUIRE(!transfers[i].used);
}

void host_check_unused(const unsigned char *memory) {
    for (int i = 0; i < TRANSFERS && memory != NULL; i++)
        REQUIRE(!transfers[i].used || transfers[i].place != memory);
}
