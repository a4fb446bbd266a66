/* Makes a process look as if the host MPI had a card open: a descriptor of /dev/zero is one of
 * the card's. Preloaded before the library. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define CARD "/dev/infiniband/uverbs0"

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
    memcpy(path, CARD, sizeof(CARD) - 1);
    return sizeof(CARD) - 1;
}
