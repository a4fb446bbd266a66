/* Memory of devices: what the program hands over may lie where no CPU can load and store.
 *
 * Whoever can tell, and copy, is the runtime of the device, if there is one in the process: CUDA's,
 * HIP's or Level Zero's library. It is found by its symbols, needs no headers, and is looked for
 * when a window is made, memory registered, or a persistent collective initialised. Windows over
 * such memory and collectives on it are left to the host. Single operations on windows of ours
 * cannot be, since the host's window knows nothing of their memory: what lies in a device is copied
 * to plain memory and back (staged.h), by the runtime and not by the host's MPI_Pack, for a
 * host that was built without devices may still be right on them where its network is. Any thread.
 */
#ifndef TUG_HOST_DEVICE_H
#define TUG_HOST_DEVICE_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

/* A runtime is in the process: it has been found, and stays. Read it by tug_has_devices(). */
extern bool tug_devices;

static inline bool tug_has_devices(void) {
    /* relaxed: who goes on to ask the runtime synchronises there */
    return __atomic_load_n(&tug_devices, __ATOMIC_RELAXED);
}

/* Looks for runtimes, if objects have been loaded since it was last called. */
void tug_device_look(void);

bool tug_device_owns(const void *address);

/* True if the host may work on memory of the devices whose runtimes are here: it says so
 * (MPIX_Query_cuda_support and its like), or cannot say. A program hands no such memory to a host
 * that says no. After MPI_Init. */
bool tug_device_is_for_host(void);

/* True for addresses in a device's memory. Without a runtime one predictable branch. */
static inline bool tug_is_device(const void *address) {
    return __builtin_expect(tug_has_devices(), 0) && tug_device_owns(address);
}

/* True for data that begin in a device's memory: one may be described by its type alone, from
 * MPI_BOTTOM. What of it lies behind its lowest byte is not asked. The type is a valid one. */
bool tug_device_holds(const void *buffer, MPI_Count count, MPI_Datatype type);

/* Copies bytes from or to the memory of a device; they are there when it returns. False: its
 * runtime refuses. */
bool tug_device_copy(void *to, const void *from, size_t bytes);

#endif
