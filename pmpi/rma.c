/* One-sided operations on taken windows.
 *
 * Direct lane: done at once by the caller (direct.h). Packet lane: remote.h. Native lane:
 *
 * A thread alone in MPI calls the host directly. Among several, each operation enters the engine
 * once: with the baton it calls the host itself, else it leaves a command and returns; who holds
 * the baton issues it, in order. Operations that return a request wait for their turn, since the
 * request is the host's.
 *
 * A command names the origin buffer and does not copy it: the host may read it until the operation
 * is locally complete (UCX queues a put it cannot send at once), longer than a cell lives, and MPI
 * obliges the program to leave it alone for just as long. Datatypes live until their commands are
 * issued because MPI_Type_free drains first.
 */
#include <limits.h>

#include "base/stats.h"
#include "engine/engine.h"
#include "engine/host_progress.h"
#include "host/device.h"
#include "host/handles.h"
#include "host/host.h"
#include "host/level.h"
#include "pmpi/shim.h"
#include "rma/direct.h"
#include "rma/remote_last.h"
#include "rma/rma.h"
#include "rma/staged.h"
#include "rma/window.h"

_Static_assert(sizeof(struct tug_rma) <= TUG_COMMAND_PAYLOAD, "an operation fits into a command");

static void count_call(enum tug_stat stat, MPI_Count count, MPI_Datatype type) {
    MPI_Count size = 0;
    tug_stat_add(stat, 1);
    if (tug_host.Type_size_c(type, &size) == MPI_SUCCESS && size > 0)
        tug_stat_add(TUG_STAT_BYTES, (uint64_t)(count * size));
}

/* How each family's arguments stand in struct tug_rma: SAVE fills one, the argument list calls from
 * one. */
#define SAVE_TARGET(o)                                                                             \
    (o)->target = target_rank;                                                                     \
    (o)->disp = target_disp
#define SAVE_COUNTED(o)                                                                            \
    (o)->origin_count = origin_count;                                                              \
    (o)->origin_type = origin_datatype;                                                            \
    (o)->target_count = target_count;                                                              \
    (o)->target_type = target_datatype;                                                            \
    SAVE_TARGET(o)
#define TARGET_ARGUMENTS(o, count_t)                                                               \
    (o)->target, (o)->disp, (count_t)(o)->target_count, (o)->target_type

#define SAVE_PUT(o)                                                                                \
    (o)->origin = origin_addr;                                                                     \
    SAVE_COUNTED(o)
#define PUT_ARGUMENTS(o, count_t)                                                                  \
    (o)->origin, (count_t)(o)->origin_count, (o)->origin_type, TARGET_ARGUMENTS(o, count_t)
#define SAVE_GET(o)                                                                                \
    (o)->result = origin_addr;                                                                     \
    SAVE_COUNTED(o)
#define GET_ARGUMENTS(o, count_t)                                                                  \
    (o)->result, (count_t)(o)->origin_count, (o)->origin_type, TARGET_ARGUMENTS(o, count_t)
#define SAVE_ACC(o)                                                                                \
    SAVE_PUT(o);                                                                                   \
    (o)->op = op
#define ACC_ARGUMENTS(o, count_t) PUT_ARGUMENTS(o, count_t), (o)->op
#define SAVE_GETACC(o)                                                                             \
    SAVE_ACC(o);                                                                                   \
    (o)->result = result_addr;                                                                     \
    (o)->result_count = result_count;                                                              \
    (o)->result_type = result_datatype
#define GETACC_ARGUMENTS(o, count_t)                                                               \
    (o)->origin, (count_t)(o)->origin_count, (o)->origin_type, (o)->result,                        \
        (count_t)(o)->result_count, (o)->result_type, TARGET_ARGUMENTS(o, count_t), (o)->op
#define SAVE_FOP(o)                                                                                \
    (o)->origin = origin_addr;                                                                     \
    (o)->result = result_addr;                                                                     \
    (o)->origin_type = datatype;                                                                   \
    (o)->op = op;                                                                                  \
    SAVE_TARGET(o)
#define FOP_ARGUMENTS(o, count_t)                                                                  \
    (o)->origin, (o)->result, (o)->origin_type, (o)->target, (o)->disp, (o)->op
#define SAVE_CAS(o)                                                                                \
    (o)->origin = origin_addr;                                                                     \
    (o)->compare = compare_addr;                                                                   \
    (o)->result = result_addr;                                                                     \
    (o)->origin_type = datatype;                                                                   \
    SAVE_TARGET(o)
#define CAS_ARGUMENTS(o, count_t)                                                                  \
    (o)->origin, (o)->compare, (o)->result, (o)->origin_type, (o)->target, (o)->disp

/* Each family in the lanes of ours. */
#define IN_LANE(window, name) ((window)->direct != NULL ? tug_direct_##name : tug_remote_##name)
#define LANE_PUT(window) IN_LANE(window, put)
#define LANE_GET(window) IN_LANE(window, get)
#define LANE_ACC(window) IN_LANE(window, accumulate)
#define LANE_GETACC(window) IN_LANE(window, get_accumulate)
#define LANE_FOP(window) IN_LANE(window, fetch_and_op)
#define LANE_CAS(window) IN_LANE(window, compare_and_swap)

/* True if an operation that a lane has begun is complete by that, and has no request yet. */
static inline bool is_over(const struct tug_rma *o) {
    return o->window->direct != NULL || o->target == MPI_PROC_NULL;
}

/* Open MPI executes an operation even outside of an epoch: the call names no rank that is there. */
static inline int host_rank(const struct tug_window *window, int target_rank) {
    const int rank = tug_window_host_rank(window, target_rank);
#ifdef OPEN_MPI
    return rank == 0 ? INT_MAX : rank;
#else
    return rank;
#endif
}

/* An operation in a lane of ours. What it refuses, the host gets to see on its own window, whose
 * answer is an error. */
#define DO_IN_LANE(Name, FAMILY, arguments, its_request, wants_request, operation_of_lane)         \
    struct tug_rma operation, *ours = &operation;                                                  \
    ours->window = window;                                                                         \
    ours->request = (its_request);                                                                 \
    SAVE_##FAMILY(ours);                                                                           \
    int done = (wants_request) && ours->request == NULL ? MPI_ERR_ARG : operation_of_lane;         \
    if (TUG_UNLIKELY(done == TUG_RMA_REFUSED)) {                                                   \
        target_rank = host_rank(window, target_rank);                                              \
        done = tug_host.Name arguments;                                                            \
    } else if (done == MPI_SUCCESS && ours->request != NULL && is_over(ours)) {                    \
        done = tug_rma_complete_request(ours);                                                     \
    }                                                                                              \
    return tug_window_report(window, done)

/* What every body begins with: not ours? the host's at once. */
#define BEGIN(Name, STAT, FAMILY, count, type, arguments, its_request, wants_request)              \
    struct tug_window *window = tug_window_find(win);                                              \
    if (TUG_UNLIKELY(window == NULL)) {                                                            \
        tug_stat_add(TUG_STAT_##STAT##_PASSED, 1);                                                 \
        return tug_host.Name arguments;                                                            \
    }                                                                                              \
    if (TUG_UNLIKELY(tug_stats_on))                                                                \
        count_call(TUG_STAT_##STAT##_TAKEN, count, type);                                          \
    if (window->lane != NULL) {                                                                    \
        if (TUG_UNLIKELY(tug_has_devices())) {                                                     \
            DO_IN_LANE(Name, FAMILY, arguments, its_request, wants_request,                        \
                       tug_staged_operation(ours, TUG_RMA_##FAMILY, LANE_##FAMILY(window)));       \
        }                                                                                          \
        DO_IN_LANE(Name, FAMILY, arguments, its_request, wants_request,                            \
                   LANE_##FAMILY(window)(ours));                                                   \
    }                                                                                              \
    if (TUG_UNLIKELY(window->healed))                                                              \
        target_disp = tug_window_translate(window, target_rank, target_disp);                      \
    if (!tug_level.concurrent) {                                                                   \
        tug_engine_host_called();                                                                  \
        return tug_window_report(window, tug_host.Name arguments);                                 \
    }                                                                                              \
    (void)0

/* Puts and gets like the one before take the short way; the others a call more. */
#define IS_LIKE_LAST(writes)                                                                       \
    tug_remote_join_last(win, writes, origin_addr, origin_count, origin_datatype, target_rank,     \
                         target_disp, target_count, target_datatype)
#define JOINS_LAST_PUT IS_LIKE_LAST(true)
#define JOINS_LAST_GET IS_LIKE_LAST(false)
#define JOINS_LAST_ACC false
#define JOINS_LAST_GETACC false
#define JOINS_LAST_FOP false
#define JOINS_LAST_CAS false

/* An operation that may be issued later. */
#define OPERATION(Name, STAT, FAMILY, count_t, count, type, parameters, arguments)                 \
    static void execute_##Name(struct tug_command *command) {                                      \
        struct tug_rma *o = (struct tug_rma *)command->payload.bytes;                              \
        tug_window_defer(o->window,                                                                \
                         tug_host.Name(FAMILY##_ARGUMENTS(o, count_t), o->window->handle));        \
    }                                                                                              \
    static __attribute__((noinline)) int begin_##Name parameters {                                 \
        BEGIN(Name, STAT, FAMILY, count, type, arguments, NULL, false);                            \
        struct tug_ticket ticket;                                                                  \
        if (tug_engine_enter_helping(&ticket) == TUG_ENTRY_BATON) {                                \
            int error = tug_host.Name arguments;                                                   \
            tug_engine_leave();                                                                    \
            return tug_window_report(window, error);                                               \
        }                                                                                          \
        struct tug_rma *o = (struct tug_rma *)ticket.cell->payload.bytes;                          \
        o->window = window;                                                                        \
        SAVE_##FAMILY(o);                                                                          \
        ticket.cell->execute = execute_##Name;                                                     \
        tug_engine_commit(&ticket);                                                                \
        return MPI_SUCCESS;                                                                        \
    }                                                                                              \
    int tug_shim_##Name parameters {                                                               \
        return JOINS_LAST_##FAMILY ? MPI_SUCCESS : begin_##Name arguments;                         \
    }

/* An operation that returns a request: issued in its turn, by whoever drives. */
#define REQUEST_OPERATION(Name, FAMILY, count_t, parameters, arguments)                            \
    static void run_##Name(void *argument) {                                                       \
        struct tug_rma *o = argument;                                                              \
        o->error = tug_host.Name(FAMILY##_ARGUMENTS(o, count_t), o->window->handle, o->request);   \
    }                                                                                              \
    int tug_shim_##Name parameters {                                                               \
        BEGIN(Name, RMA_REQUEST, FAMILY, origin_count, origin_datatype, arguments, request, true); \
        struct tug_rma operation;                                                                  \
        struct tug_rma *o = &operation;                                                            \
        o->window = window;                                                                        \
        o->request = request;                                                                      \
        SAVE_##FAMILY(o);                                                                          \
        tug_engine_call(run_##Name, o);                                                            \
        return tug_window_report(window, o->error);                                                \
    }

/* Rows name their own families; the twins differ in the type of the counts. */
#define COUNT_OF(count_t, Name, STAT, FAMILY, parameters, arguments)                               \
    OPERATION(Name, STAT, FAMILY, count_t, origin_count, origin_datatype, parameters, arguments)
#define ROW_Put(...) COUNT_OF(int, Put, PUT, PUT, __VA_ARGS__)
#define ROW_Put_c(...) COUNT_OF(MPI_Count, Put_c, PUT, PUT, __VA_ARGS__)
#define ROW_Get(...) COUNT_OF(int, Get, GET, GET, __VA_ARGS__)
#define ROW_Get_c(...) COUNT_OF(MPI_Count, Get_c, GET, GET, __VA_ARGS__)
#define ROW_Accumulate(...) COUNT_OF(int, Accumulate, ACCUMULATE, ACC, __VA_ARGS__)
#define ROW_Accumulate_c(...) COUNT_OF(MPI_Count, Accumulate_c, ACCUMULATE, ACC, __VA_ARGS__)
#define ROW_Get_accumulate(...) COUNT_OF(int, Get_accumulate, GET_ACCUMULATE, GETACC, __VA_ARGS__)
#define ROW_Get_accumulate_c(...)                                                                  \
    COUNT_OF(MPI_Count, Get_accumulate_c, GET_ACCUMULATE, GETACC, __VA_ARGS__)
#define ROW_Fetch_and_op(...)                                                                      \
    OPERATION(Fetch_and_op, FETCH_AND_OP, FOP, int, 1, datatype, __VA_ARGS__)
#define ROW_Compare_and_swap(...)                                                                  \
    OPERATION(Compare_and_swap, COMPARE_AND_SWAP, CAS, int, 1, datatype, __VA_ARGS__)
#define ROW_Rput(...) REQUEST_OPERATION(Rput, PUT, int, __VA_ARGS__)
#define ROW_Rput_c(...) REQUEST_OPERATION(Rput_c, PUT, MPI_Count, __VA_ARGS__)
#define ROW_Rget(...) REQUEST_OPERATION(Rget, GET, int, __VA_ARGS__)
#define ROW_Rget_c(...) REQUEST_OPERATION(Rget_c, GET, MPI_Count, __VA_ARGS__)
#define ROW_Raccumulate(...) REQUEST_OPERATION(Raccumulate, ACC, int, __VA_ARGS__)
#define ROW_Raccumulate_c(...) REQUEST_OPERATION(Raccumulate_c, ACC, MPI_Count, __VA_ARGS__)
#define ROW_Rget_accumulate(...) REQUEST_OPERATION(Rget_accumulate, GETACC, int, __VA_ARGS__)
#define ROW_Rget_accumulate_c(...)                                                                 \
    REQUEST_OPERATION(Rget_accumulate_c, GETACC, MPI_Count, __VA_ARGS__)

#define TUG_CALL_RMA(Name, parameters, arguments) ROW_##Name(parameters, arguments)
#include "host/calls.def"
