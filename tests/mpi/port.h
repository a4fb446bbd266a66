/* port.h: the port at which a context listens, and programs that connect to it. */
#ifndef TUG_TESTS_MPI_PORT_H
#define TUG_TESTS_MPI_PORT_H

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "llcl_check.h"

enum { PORTS = 64 };

/* The listening internet sockets of this process. */
static inline int port_list(struct sockaddr_storage address[PORTS]) {
    int n = 0;
    DIR *directory = opendir("/proc/self/fd");
    CHECK(directory != NULL, "no /proc/self/fd");
    memset(address, 0, PORTS * sizeof *address);
    for (struct dirent *entry; n < PORTS && (entry = readdir(directory)) != NULL;) {
        int fd = atoi(entry->d_name), listens = 0;
        socklen_t size = sizeof listens, bytes = sizeof address[n];
        if (entry->d_name[0] != '.' &&
            getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens &&
            getsockname(fd, (struct sockaddr *)&address[n], &bytes) == 0 &&
            (address[n].ss_family == AF_INET || address[n].ss_family == AF_INET6))
            n++;
    }
    closedir(directory);
    return n;
}

static inline bool port_is_among(const struct sockaddr_storage *one,
                                 const struct sockaddr_storage *all, int n) {
    while (n > 0 && memcmp(one, &all[n - 1], sizeof *one) != 0)
        n--;
    return n > 0;
}

/* A context of all ranks, and where it listens. NULL: the ranks are not joined by tcp, which has
 * been said. Collective; the host has had to do with the others. */
static inline tug_context *port_open(struct sockaddr_storage *port) {
    static struct sockaddr_storage before[PORTS], after[PORTS];
    const int nbefore = port_list(before);
    tug_context *context = ll_open(MPI_COMM_WORLD);
    const int nafter = port_list(after);
    if (check_nranks < 2 || strcmp(tug_context_transport(context, !check_rank, 8), "tcp") != 0) {
        printf("skipped: the ranks are not joined by tcp\n");
        return NULL;
    }
    int ours = -1;
    for (int i = 0; i < nafter; i++)
        if (!port_is_among(&after[i], before, nbefore))
            ours = i;
    CHECK(ours >= 0, "no new port among %d", nafter);
    *port = after[ours];
    return context;
}

#endif
