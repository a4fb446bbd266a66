#include "persistent/repeat.h"

#include <stddef.h>

#include "base/stats.h"
#include "host/device.h"
#include "host/handles.h"
#include "host/host.h"
#include "host/staged.h"
#include "persistent/collective.h"
#include "persistent/collectives.h"
#include "request/request.h"

static void drop(struct tug_repeat *repeat) {
    if (repeat->request != NULL)
        tug_request_release(repeat->request);
    *repeat = (struct tug_repeat){0};
}

void tug_repeats_drop(struct tug_repeats *repeats) {
    for (int i = 0; i < TUG_REPEATS_KEPT; i++)
        drop(&repeats->kept[i]);
}

/* Bytes of the message; 0 for nothing, and for arguments that are the host's to judge. (NULL is
 * MPI_BOTTOM, for types with addresses of their own.) */
static uint64_t bytes_of(const void *buffer, MPI_Count count, MPI_Datatype type, int root,
                         MPI_Comm comm) {
    MPI_Count size;
    if (count <= 0 || (buffer == NULL && tug_type_is_predefined(type)) || root < 0 ||
        !tug_comm_is_one(comm) || !tug_type_is_one(type) ||
        tug_host.Type_size_c(type, &size) != MPI_SUCCESS || size <= 0)
        return 0;
    return (uint64_t)(size * count);
}

static struct tug_repeat *find(struct tug_repeats *repeats, int root, uint64_t bytes) {
    for (int i = 0; i < TUG_REPEATS_KEPT; i++)
        if (repeats->kept[i].bytes == bytes && repeats->kept[i].root == root)
            return &repeats->kept[i];
    struct tug_repeat *repeat = &repeats->kept[repeats->next++ % TUG_REPEATS_KEPT];
    drop(repeat);
    repeat->bytes = bytes;
    repeat->root = root;
    return repeat;
}

/* Makes the schedule, once for all. On all ranks or none. */
static bool is_made(struct tug_repeat *repeat, const struct tug_data *data, int root,
                    MPI_Comm comm) {
    const struct tug_collective call = {
        .kind = TUG_COLLECTIVE_BCAST,
        .receive = {.buffer = data->address, .count = data->count, .type = data->type},
        .root = root,
        .comm = comm,
        .rebinds = true};
    if (repeat->request == NULL)
        repeat->refused = tug_collective_create(&call, NULL, &repeat->request) != 0;
    return !repeat->refused;
}

static int run(struct tug_request *request, const struct tug_data *data) {
    int error = tug_collective_rebind(request, data->address, data->count, data->type);
    if (error != MPI_SUCCESS)
        return error;
    tug_request_start(request);
    tug_request_wait(request);
    request->active = false;
    return request->error;
}

bool tug_repeat_bcast(void *buffer, MPI_Count count, MPI_Datatype type, int root, MPI_Comm comm,
                      int *error) {
    struct tug_team *team;
    struct tug_staged staged;
    uint64_t bytes = bytes_of(buffer, count, type, root, comm);
    if (bytes == 0 || tug_collectives_team(comm, &team) != 0 || root >= team->nranks)
        return false;
    struct tug_repeat *repeat = find(&tug_collectives_of(team)->repeats, root, bytes);
    if (repeat->refused || repeat->calls++ < TUG_REPEATS_BEFORE)
        return false;
    if (repeat->request == NULL)
        tug_device_look();
    bool reads = team->rank == root;
    *error = tug_stage(&staged, buffer, count, type, reads, team->comm);
    bool made = is_made(repeat, tug_staged_used(&staged), root, comm);
    if (made && *error == MPI_SUCCESS)
        *error = run(repeat->request, tug_staged_used(&staged));
    if (made && *error == MPI_SUCCESS && tug_is_staged(&staged) && !reads)
        *error = tug_staged_deliver(&staged, (size_t)bytes);
    tug_staged_release(&staged);
    if (!made)
        return false;
    tug_stat_add(TUG_STAT_BCAST_TAKEN, 1);
    if (*error != MPI_SUCCESS)
        tug_host.Comm_call_errhandler(comm, *error);
    return true;
}
