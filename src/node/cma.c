/* Cross-memory attach, by process_vm_readv() and process_vm_writev().
 *
 * A call moves at most 0x7ffff000 bytes and stops at the first page that is not there: the loop
 * goes on until all has moved or the kernel says why not.
 */
#include "node/cma.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tugboat/tugboat.h"

#define CALL_MOST ((size_t)1 << 30)

typedef ssize_t (*cma_call)(pid_t pid, const struct iovec *local, unsigned long nlocal,
                            const struct iovec *remote, unsigned long nremote, unsigned long flags);

static int error_of(int error) {
    switch (error) {
    case EFAULT:
        return TUG_ERR_RANGE;
    case ESRCH:
        return TUG_ERR_PEER;
    default:
        return TUG_ERR_SYSTEM;
    }
}

static int transfer(cma_call call, pid_t pid, unsigned char *here, uint64_t there, size_t bytes) {
    const int kept_errno = errno;
    int status = 0;
    while (bytes > 0) {
        const size_t part = bytes < CALL_MOST ? bytes : CALL_MOST;
        const struct iovec local = {here, part};
        const struct iovec remote = {(void *)(uintptr_t)there, part};
        const ssize_t moved = call(pid, &local, 1, &remote, 1, 0);
        if (moved > 0) {
            here += moved;
            there += (size_t)moved;
            bytes -= (size_t)moved;
        } else if (moved == 0 || errno != EINTR) {
            status = moved == 0 ? TUG_ERR_RANGE : error_of(errno);
            break;
        }
    }
    errno = kept_errno;
    return status;
}

int tug_cma_read(pid_t pid, void *to, uint64_t from, size_t bytes) {
    return transfer(process_vm_readv, pid, to, from, bytes);
}

int tug_cma_write(pid_t pid, const void *from, uint64_t to, size_t bytes) {
    /* process_vm_writev() only reads what its first vector names. */
    return transfer(process_vm_writev, pid, (unsigned char *)(uintptr_t)from, to, bytes);
}

bool tug_cma_probe(pid_t pid, uint64_t address, uint64_t expected) {
    uint64_t word = ~expected;
    return tug_cma_read(pid, &word, address, sizeof(word)) == 0 && word == expected;
}

bool tug_cma_missing(char *reason) {
    const int kept_errno = errno;
    const uint64_t word = 0x7475672d636d6121;
    uint64_t copy = 0;
    const struct iovec local = {&copy, sizeof(copy)};
    const struct iovec remote = {(void *)(uintptr_t)&word, sizeof(word)};
    const ssize_t moved = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
    const int error = errno;
    errno = kept_errno;
    if (moved == (ssize_t)sizeof(copy) && copy == word)
        return false;
    if (moved >= 0)
        snprintf(reason, 256, "process_vm_readv() of own memory read something else");
    else if (error == ENOSYS)
        snprintf(reason, 256, "the kernel has no process_vm_readv()");
    else
        snprintf(reason, 256, "process_vm_readv() is refused here: %s", strerror(error));
    return true;
}
