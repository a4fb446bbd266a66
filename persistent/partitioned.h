/* Partitioned communication (MPI 4): a message whose parts the threads of its sender make ready one
 * by one, from one rank to another.
 *
 * Only two ranks call, so nothing is agreed collectively. For every such request the host makes two
 * of its own on the same communicator and tag, which it matches in the order of the calls: the
 * program's, and a small one behind it, the *greeting*. With the first start the sender's greeting
 * tells the receiver how to find it. The first round goes by the host's request, and later ones
 * without it if the receiver can: it cannot where data have gaps or are in a device, where the sums
 * of bytes differ, or where it does not reach the sender. Then the request passes (request.h), and
 * costs a look at the table of handles.
 *
 * Which ranks make greetings rests on what both know alike: the communicator is one of the world's
 * processes that all take part (host/participants.h), and the two are not the same. Nobody makes
 * any if a process has opened a session before the ranks agreed on that in MPI_Init: a communicator
 * of it could be used by one rank before, and by the other after that. Nor if the engine of a rank
 * has not started by then, which it is to where something that is loaded calls for such requests.
 * One that is to start later and does not cannot be told of: there the call is an error. So does
 * which way they have without the host: memory that both share (partitioned_near.c), or, between
 * nodes, writes with a signal (partitioned_far.c).
 *
 * Threads that make partitions ready do not wait for one another. The receiver takes what has come
 * in MPI_Parrived, in its waits and tests, and by the engine; one thread at a time.
 */
#ifndef TUG_PERSISTENT_PARTITIONED_H
#define TUG_PERSISTENT_PARTITIONED_H

#include <mpi.h>
#include <stdbool.h>

#include "request/request.h"

#if MPI_VERSION >= 4

/* One side as the program describes it. */
struct tug_partitioned_call {
    bool sends;
    void *buffer;
    int partitions;
    MPI_Count count;
    MPI_Datatype type;
    int peer, tag;
    MPI_Comm comm;
};

/* Must this call be ours, and that of the peer? Local. */
bool tug_partitioned_takes(const struct tug_partitioned_call *call);

/* Before the first of them, for those between nodes: makes the context that all of this process's
 * have. Without it they are the host's. Collective over the communicator, of all of the world that
 * take part; the same result on all. */
void tug_partitioned_prepare(MPI_Comm comm);

/* MPI ends, sessions and all: no more are made between nodes. Not before: that the world has ended
 * here says nothing about the peer, which may not know either. */
void tug_partitioned_finalize(void);

/* Behind the host's init of the same call, whose request is *host and becomes ours. On success
 * *host is our handle. An MPI error code otherwise, and *host is gone: MPI_ERR_NO_MEM if the engine
 * does not start, too, as the peer counts on this side. */
int tug_partitioned_create(const struct tug_partitioned_call *call, MPI_Request *host);

/* NULL: the request is another. */
struct tug_partitioned;
struct tug_partitioned *tug_partitioned_of(struct tug_request *request);

/* Is its present round done here, and not by the host's request? */
bool tug_partitioned_is_ours(const struct tug_partitioned *partitioned, bool sends);

bool tug_partitioned_receives(const struct tug_partitioned *partitioned);
bool tug_partitioned_has(const struct tug_partitioned *partitioned, int partition);

/* Of a send whose round is ours. Any number of threads. MPI_SUCCESS, or the error that the caller
 * is to report: a partition that there is not, or that is ready already. */
int tug_partitioned_ready(struct tug_partitioned *partitioned, int low, int high);
int tug_partitioned_ready_list(struct tug_partitioned *partitioned, int length, const int list[]);

/* Of a receive that does not pass, which has the partition. Any number of threads. MPI_SUCCESS, or
 * the host's error, which it has reported. */
int tug_partitioned_arrived(struct tug_partitioned *partitioned, int partition, int *flag);

#endif
#endif
