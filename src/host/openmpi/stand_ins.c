/* The large-count calls that the library makes, for a host that counts in ints.
 *
 * Where data move between processes, a count beyond an int becomes one item of a type that has as
 * many. Packing has no such way out: it fails with MPI_ERR_COUNT, and who asks passes the operation
 * through.
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "host/host.h"
#include "host/openmpi/openmpi.h"

/* ---- counts ---- */

/* `number` items of `type`, number an int. */
struct items {
    int number;
    MPI_Datatype type;
    bool made;
};

/* A large count is whole * CHUNK + rest; MPI is given a type of two blocks. */
#define CHUNK ((MPI_Count)1 << 30)

static int make_type(MPI_Count count, MPI_Datatype type, MPI_Datatype *large) {
    MPI_Datatype chunk = MPI_DATATYPE_NULL, parts[2] = {MPI_DATATYPE_NULL, MPI_DATATYPE_NULL};
    MPI_Aint offsets[2] = {0, 0};
    MPI_Count lb, extent;
    const int ones[2] = {1, 1};
    int error = tug_host.Type_get_extent_c(type, &lb, &extent);
    if (error == MPI_SUCCESS)
        error = tug_host.Type_contiguous((int)CHUNK, type, &chunk);
    if (error == MPI_SUCCESS)
        error = tug_host.Type_contiguous((int)(count / CHUNK), chunk, &parts[0]);
    if (error == MPI_SUCCESS)
        error = tug_host.Type_contiguous((int)(count % CHUNK), type, &parts[1]);
    if (error == MPI_SUCCESS) {
        offsets[1] = (MPI_Aint)(count / CHUNK * CHUNK * extent);
        error = tug_host.Type_create_struct(2, ones, offsets, parts, large);
    }
    if (error == MPI_SUCCESS)
        error = tug_host.Type_commit(large);
    MPI_Datatype *const used[] = {&chunk, &parts[0], &parts[1]};
    for (int i = 0; i < 3; i++)
        if (*used[i] != MPI_DATATYPE_NULL)
            tug_host.Type_free(used[i]);
    return error;
}

static int begin(MPI_Count count, MPI_Datatype type, struct items *items) {
    items->made = count > INT_MAX;
    items->number = items->made ? 1 : (int)count;
    items->type = type;
    return items->made ? make_type(count, type, &items->type) : MPI_SUCCESS;
}

/* The host keeps a type that an operation under way needs. */
static int end(struct items *items, int error) {
    if (items->made)
        tug_host.Type_free(&items->type);
    return error;
}

/* Returns what `call` on the items `is` returns. */
#define WITH_ITEMS(count, of, call)                                                                \
    struct items is;                                                                               \
    int begun = begin(count, of, &is);                                                             \
    return begun == MPI_SUCCESS ? end(&is, call) : begun

/* ---- moving data between processes ---- */

static int stand_in_Isend_c(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest,
                            int tag, MPI_Comm comm, MPI_Request *request) {
    WITH_ITEMS(count, datatype, tug_host.Isend(buf, is.number, is.type, dest, tag, comm, request));
}

static int stand_in_Irecv_c(void *buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
                            MPI_Comm comm, MPI_Request *request) {
    WITH_ITEMS(count, datatype,
               tug_host.Irecv(buf, is.number, is.type, source, tag, comm, request));
}

static int stand_in_Recv_c(void *buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
                           MPI_Comm comm, MPI_Status *status) {
    WITH_ITEMS(count, datatype, tug_host.Recv(buf, is.number, is.type, source, tag, comm, status));
}

static int stand_in_Recv_init_c(void *buf, MPI_Count count, MPI_Datatype datatype, int source,
                                int tag, MPI_Comm comm, MPI_Request *request) {
    WITH_ITEMS(count, datatype,
               tug_host.Recv_init(buf, is.number, is.type, source, tag, comm, request));
}

static int stand_in_Imrecv_c(void *buf, MPI_Count count, MPI_Datatype datatype,
                             MPI_Message *message, MPI_Request *request) {
    WITH_ITEMS(count, datatype, tug_host.Imrecv(buf, is.number, is.type, message, request));
}

static int stand_in_Sendrecv_c(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                               int dest, int sendtag, void *recvbuf, MPI_Count recvcount,
                               MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm,
                               MPI_Status *status) {
    struct items out, in;
    int error = begin(sendcount, sendtype, &out);
    if (error != MPI_SUCCESS)
        return error;
    error = begin(recvcount, recvtype, &in);
    if (error == MPI_SUCCESS)
        error = end(&in, tug_host.Sendrecv(sendbuf, out.number, out.type, dest, sendtag, recvbuf,
                                           in.number, in.type, source, recvtag, comm, status));
    return end(&out, error);
}

static int stand_in_Rget_c(void *origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype,
                           int target_rank, MPI_Aint target_disp, MPI_Count target_count,
                           MPI_Datatype target_datatype, MPI_Win win, MPI_Request *request) {
    struct items here, there;
    int error = begin(origin_count, origin_datatype, &here);
    if (error != MPI_SUCCESS)
        return error;
    error = begin(target_count, target_datatype, &there);
    if (error == MPI_SUCCESS)
        error = end(&there, tug_host.Rget(origin_addr, here.number, here.type, target_rank,
                                          target_disp, there.number, there.type, win, request));
    return end(&here, error);
}

/* ---- within a process ---- */

static int stand_in_Pack_size_c(MPI_Count incount, MPI_Datatype datatype, MPI_Comm comm,
                                MPI_Count *size) {
    int bytes = 0;
    MPI_Count of_one = 0;
    if (incount < 0)
        return MPI_ERR_COUNT;
    int number = incount > INT_MAX ? INT_MAX : (int)incount;
    char nothing = 0;
    /* asked about a type that is not committed, MPI_Pack_size of Open MPI 4.1.4 crashes */
    int error = tug_host.Send(&nothing, number, datatype, MPI_PROC_NULL, 0, comm);
    if (error == MPI_SUCCESS)
        error = tug_host.Pack_size(number, datatype, comm, &bytes);
    if (error == MPI_SUCCESS)
        error = tug_host.Type_size_c(datatype, &of_one);
    *size = incount * of_one;
    if (*size <= INT_MAX && bytes > *size)
        *size = bytes;
    return error;
}

static int stand_in_Pack_c(const void *inbuf, MPI_Count incount, MPI_Datatype datatype,
                           void *outbuf, MPI_Count outsize, MPI_Count *position, MPI_Comm comm) {
    int at = 0;
    MPI_Count room = outsize - *position;
    if (incount > INT_MAX || incount < 0)
        return MPI_ERR_COUNT;
    int error = tug_host.Pack(inbuf, (int)incount, datatype, (char *)outbuf + *position,
                              room > INT_MAX ? INT_MAX : (int)room, &at, comm);
    *position += at;
    return error;
}

static int stand_in_Unpack_c(const void *inbuf, MPI_Count insize, MPI_Count *position, void *outbuf,
                             MPI_Count outcount, MPI_Datatype datatype, MPI_Comm comm) {
    int at = 0;
    MPI_Count room = insize - *position;
    if (outcount > INT_MAX || outcount < 0)
        return MPI_ERR_COUNT;
    int error =
        tug_host.Unpack((const char *)inbuf + *position, room > INT_MAX ? INT_MAX : (int)room, &at,
                        outbuf, (int)outcount, datatype, comm);
    *position += at;
    return error;
}

static int stand_in_Reduce_local_c(const void *inbuf, void *inoutbuf, MPI_Count count,
                                   MPI_Datatype datatype, MPI_Op op) {
    MPI_Count lb, extent;
    int error = tug_host.Type_get_extent_c(datatype, &lb, &extent);
    for (MPI_Count done = 0; done < count && error == MPI_SUCCESS;) {
        int n = count - done > CHUNK ? (int)CHUNK : (int)(count - done);
        error = tug_host.Reduce_local((const char *)inbuf + done * extent,
                                      (char *)inoutbuf + done * extent, n, datatype, op);
        done += n;
    }
    return error;
}

/* ---- asking ---- */

static int stand_in_Get_count_c(const MPI_Status *status, MPI_Datatype datatype, MPI_Count *count) {
    int number = MPI_UNDEFINED;
    if (datatype == MPI_BYTE)
        return tug_host.Get_elements_x(status, datatype, count);
    int error = tug_host.Get_count(status, datatype, &number);
    *count = number;
    return error;
}

static int stand_in_Type_get_envelope_c(MPI_Datatype datatype, MPI_Count *num_integers,
                                        MPI_Count *num_addresses, MPI_Count *num_large_counts,
                                        MPI_Count *num_datatypes, int *combiner) {
    int integers = 0, addresses = 0, types = 0;
    int error = tug_host.Type_get_envelope(datatype, &integers, &addresses, &types, combiner);
    *num_integers = integers;
    *num_addresses = addresses;
    *num_large_counts = 0;
    *num_datatypes = types;
    return error;
}

static int stand_in_Type_get_contents_c(MPI_Datatype datatype, MPI_Count max_integers,
                                        MPI_Count max_addresses, MPI_Count max_large_counts,
                                        MPI_Count max_datatypes, int array_of_integers[],
                                        MPI_Aint array_of_addresses[],
                                        MPI_Count array_of_large_counts[],
                                        MPI_Datatype array_of_datatypes[]) {
    (void)max_large_counts, (void)array_of_large_counts;
    return tug_host.Type_get_contents(datatype, (int)max_integers, (int)max_addresses,
                                      (int)max_datatypes, array_of_integers, array_of_addresses,
                                      array_of_datatypes);
}

/* ---- by name ---- */

#define STAND_INS(X)                                                                               \
    X(Get_count_c)                                                                                 \
    X(Imrecv_c)                                                                                    \
    X(Irecv_c)                                                                                     \
    X(Isend_c)                                                                                     \
    X(Pack_c)                                                                                      \
    X(Pack_size_c)                                                                                 \
    X(Recv_c)                                                                                      \
    X(Recv_init_c)                                                                                 \
    X(Reduce_local_c)                                                                              \
    X(Rget_c)                                                                                      \
    X(Sendrecv_c)                                                                                  \
    X(Type_get_contents_c)                                                                         \
    X(Type_get_envelope_c)                                                                         \
    X(Unpack_c)

static void *stand_in(const char *name) {
#define STAND_IN(Name)                                                                             \
    if (strcmp(name, #Name) == 0) {                                                                \
        static __typeof__(tug_host.Name) const address = stand_in_##Name;                          \
        return *(void *const *)&address;                                                           \
    }
    STAND_INS(STAND_IN)
    return NULL;
}

/* Of sessions, which Open MPI 4.1 has not. */
static int absent(void) {
    return MPI_ERR_UNSUPPORTED_OPERATION;
}

/* Persistent collectives are an extension in 4.1; types have had 64-bit sizes since MPI 3. */
void *tug_openmpi_find(void *library, const char *name) {
    static const char *const renamed[][2] = {
        {"Type_get_extent_c", "PMPI_Type_get_extent_x"},
        {"Type_get_true_extent_c", "PMPI_Type_get_true_extent_x"},
        {"Type_size_c", "PMPI_Type_size_x"}};
    int (*const fails)(void) = absent;
    char symbol[64];
    for (size_t i = 0; i < sizeof(renamed) / sizeof(renamed[0]); i++)
        if (strcmp(name, renamed[i][0]) == 0)
            return dlsym(library, renamed[i][1]);
    snprintf(symbol, sizeof(symbol), "PMPIX_%s", name);
    void *address = dlsym(library, symbol);
    if (address == NULL && strncmp(name, "Session_", 8) == 0)
        return *(void *const *)&fails;
    return address != NULL ? address : stand_in(name);
}

bool tug_openmpi_may_lack(const char *name) {
    size_t length = strlen(name);
    return length > 2 && strcmp(name + length - 2, "_c") == 0;
}
