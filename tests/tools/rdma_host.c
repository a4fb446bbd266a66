/* Makes a process look as if the host MPI had a card open: a descriptor of /dev/zero is one of
 * the card's, InfiniBand's or that of RDMA_HOST_CARD. Preloaded before the library. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

ssize_t readlinkat(int folder, const char *restrict name, char *restrict path, size_t bytes) {
    static ssize_t (*next)(int, const char *, char *, size_t);
    static const char file[] = "/dev/zero";
    const ssize_t length = sizeof(file) - 1;
    if (next == NULL) {
        void *found = dlsym(RTLD_NEXT, "readlinkat");
        memcpy(&next, &found, sizeof(next));
    }
    const ssize_t n = next(folder, name, path, bytes);
    if (n != length || memcmp(path, file, sizeof(file) - 1) != 0)
        return n;
    const char *named = getenv("RDMA_HOST_CARD");
    const char *card = named != NULL ? named : "/dev/infiniband/uverbs0";
    memcpy(path, card, strlen(card));
    return (ssize_t)strlen(card);
}
