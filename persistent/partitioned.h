/* Partitioned communication (MPI 4): a message whose parts the threads of its sender make ready one
 * by one, from one rank of a node to another.
 *
 * Only two ranks call, so nothing is agreed collectively. For every such request the host makes two
 * of its own on the same communicator and tag, which it matches in the order of the calls: the
 * program's, and a small one behind it, the *greeting*. With the first start the sender's greeting
 * says where its data lie and where its *board* is. Rounds go by the host's request, until the
 * receiver, between two rounds, has said yes on the board: from then on it asks the board which way
 * the sender has chosen for a round. The sender, once it has seen the yes, chooses the direct way
 * for good. A receiver that cannot (another machine, attach refused, data with gaps or in a device,
 * other sums of bytes) never says yes, and nobody waits for it to say no: then the request passes
 * (request.h), and costs a look at the table of handles.
 *
 * Which ranks make greetings rests on what both know alike: the communicator is one of processes
 * that all take part (host/participants.h), and the two are not the same.
 *
 * The board, in lent memory of the sender's:
 *
 *     | yes, gone, direct from, started | read | landed | bells | in which round each is ready |
 *     | landings: the data of the last rounds |
 *
 * Few bytes *land*: MPI_Pready counts, the last one copies all to the round's landing, in pieces,
 * and the receiver copies it out. Such a send is over when all has landed, and may be some rounds
 * ahead; a board outlives its request until it is read. A round whose landing is not free yet is
 * the engine's, which copies when all is ready. More bytes stay where they are: MPI_Pready is a
 * store to the board, the receiver copies out of the sender's memory by cross-memory attach all
 * partitions that are ready and lie side by side, and the send is over when it has all.
 *
 * Threads that make partitions ready do not wait for one another. The receiver copies in
 * MPI_Parrived, in its waits and tests, and by the engine; one thread at a time.
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

/* Behind the host's init of the same call, whose request is *host and becomes ours. On success
 * *host is our handle. An MPI error code otherwise, and *host is gone. */
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
