/* Cross-memory attach, by process_vm_readv() and process_vm_writev().
 *
 * A call moves at most 0x7ffff000 bytes and stops at the first page that is not there: the loops
 * go on until all has moved or the kernel says why not.
 */
#include "node/cma.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/copy.h"
#include "tugboat/tugboat.h"

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

/* So many bytes of these have moved. */
static void skip(struct tug_cma_pieces *pieces, size_t moved) {
    for (; moved > 0 && moved >= pieces->at->iov_len; pieces->at++, pieces->n--)
        moved -= pieces->at->iov_len;
    if (moved > 0)
        *pieces->at =
            (struct iovec){(char *)pieces->at->iov_base + moved, pieces->at->iov_len - moved};
}

static int transfer_pieces(cma_call call, pid_t pid, struct tug_cma_pieces here,
                           struct tug_cma_pieces there) {
    const int kept_errno = errno;
    int status = 0;
    while (here.n > 0) {
        const ssize_t moved = call(pid, here.at, here.n, there.at, there.n, 0);
        if (moved > 0) {
            skip(&here, (size_t)moved);
            skip(&there, (size_t)moved);
        } else if (moved == 0 || errno != EINTR) {
            status = moved == 0 ? TUG_ERR_RANGE : error_of(errno);
            break;
        }
    }
    errno = kept_errno;
    return status;
}

static int transfer(cma_call call, pid_t pid, unsigned char *here, uint64_t there, size_t bytes) {
    int status = 0;
    for (size_t done = 0; done < bytes && status == 0; done += TUG_CMA_BYTES_MOST) {
        const size_t part = bytes - done < TUG_CMA_BYTES_MOST ? bytes - done : TUG_CMA_BYTES_MOST;
        struct iovec local = {here + done, part};
        struct iovec remote = {(void *)(uintptr_t)(there + done), part};
        status = transfer_pieces(call, pid, (struct tug_cma_pieces){&local, 1},
                                 (struct tug_cma_pieces){&remote, 1});
    }
    return status;
}

int tug_cma_read_beside(pid_t pid, void *to, uint64_t from, size_t bytes) {
    enum { BLOCK = 131072 }; /* stays in the cache until it moves */
    unsigned char last[TUG_COPY_NEAR], *at = to;
    int status = 0;
    while (bytes > sizeof(last) && status == 0) {
        const size_t part = bytes < BLOCK ? bytes : BLOCK, moves = part - sizeof(last);
        struct iovec local[] = {{at + sizeof(last), moves}, {last, sizeof(last)}};
        struct iovec remote = {(void *)(uintptr_t)from, part};
        status = transfer_pieces(process_vm_readv, pid, (struct tug_cma_pieces){local, 2},
                                 (struct tug_cma_pieces){&remote, 1});
        if (status == 0) {
            tug_copy_pieces(at, at + sizeof(last), moves);
            memcpy(at + moves, last, sizeof(last));
        }
        at += part;
        from += part;
        bytes -= part;
    }
    return status != 0 ? status : transfer(process_vm_readv, pid, at, from, bytes);
}

int tug_cma_read(pid_t pid, void *to, uint64_t from, size_t bytes) {
    if (bytes > TUG_COPY_PIECE && tug_copy_is_near(to, (const void *)(uintptr_t)from) &&
        tug_copy_kernel_is_slow())
        return tug_cma_read_beside(pid, to, from, bytes);
    return transfer(process_vm_readv, pid, to, from, bytes);
}

int tug_cma_write(pid_t pid, const void *from, uint64_t to, size_t bytes) {
    /* process_vm_writev() only reads what its first vector names. */
    return transfer(process_vm_writev, pid, (unsigned char *)(uintptr_t)from, to, bytes);
}

int tug_cma_read_pieces(pid_t pid, struct tug_cma_pieces here, struct tug_cma_pieces there) {
    return transfer_pieces(process_vm_readv, pid, here, there);
}

int tug_cma_write_pieces(pid_t pid, struct tug_cma_pieces here, struct tug_cma_pieces there) {
    return transfer_pieces(process_vm_writev, pid, here, there);
}

void tug_cma_allow(const char *scope) {
    const int kept_errno = errno;
    const int file = open(scope, O_RDONLY | O_CLOEXEC);
    char digit = 0;
    if (file >= 0) {
        if (read(file, &digit, 1) == 1 && digit == '1')
            (void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
        close(file);
    }
    errno = kept_errno;
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
