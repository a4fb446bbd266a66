/* Partitioned communication (MPI 4): a message whose parts the threads of its sender make ready one
 * by one, from one rank of a node to another.
 *
 * Only two ranks call, so nothing is agreed collectively. For every such request the host makes two
 * of its own on the same communicator and tag, which it matches in the order of the calls: the
 * program's, and a small one behind it, the *greeting*. With the first start the sender's greeting
 * says where its data lie and where its *board* is. Rounds go by the host's request, under our
 * handle, until the receiver, between two rounds, has said yes on the board: from then on it asks
 * the board which way the sender has chosen for a round. The sender, once it has seen the yes,
 * chooses the direct way for good: the receiver copies the data out of its memory, by cross-memory
 * attach. A receiver that cannot (another machine, attach refused, data with gaps or in a device,
 * other sums of bytes, few bytes) never says yes, and nobody waits for it to say no.
 *
 * Which ranks make greetings rests on what both know alike: the communicator is one of processes
 * that all take part (host/participants.h), and the two are not the same.
 *
 * The board, in lent memory of the sender's:
 *
 *     | yes | read | direct from | started | bells | the sender's partitions: in which round ready
 * |
 *
 * MPI_Pready is a store to the board, by any number of threads with no lock between them. The
 * receiver takes all partitions that are ready and lie side by side by one copy: in MPI_Parrived,
 * in its waits and tests, and by the engine. One thread copies at a time. A send is over when the
 * receiver has copied all of it.
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

/* The host's request, for errors of calls that cannot be done. */
MPI_Request tug_partitioned_host(const struct tug_partitioned *partitioned);

/* May the partition be made ready, or asked for? */
bool tug_partitioned_has(const struct tug_partitioned *partitioned, bool sends, int partition);

/* Of an active send. Any number of threads. MPI_SUCCESS or the host's error. */
int tug_partitioned_ready(struct tug_partitioned *partitioned, int partition);

/* Of a receive. Any number of threads. MPI_SUCCESS or the host's error. */
int tug_partitioned_arrived(struct tug_partitioned *partitioned, int partition, int *flag);

#endif
#endif
