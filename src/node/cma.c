/* Cross-memory attach, by process_vm_readv() and process_vm_writev().
 *
 * A call moves at most 0x7ffff000 bytes and stops at the first page that is not there: the loops
 * go on until all has moved or the kernel says why not.
 */
#include "node/cma.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/copy.h"
#include "base/descriptors.h"
#include "base/system_page.h"
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

static int move_pieces(cma_call call, pid_t pid, struct tug_cma_pieces *here,
                       struct tug_cma_pieces *there) {
    const int kept_errno = errno;
    int status = 0;
    while (here->n > 0 && status == 0) {
        const ssize_t moved = call(pid, here->at, here->n, there->at, there->n, 0);
        if (moved > 0) {
            skip(here, (size_t)moved);
            skip(there, (size_t)moved);
        } else if (moved == 0 || errno != EINTR) {
            status = moved == 0 ? TUG_ERR_RANGE : error_of(errno);
        }
    }
    errno = kept_errno;
    return status;
}

/* ---- peers that are known ----
 *
 * A number may be another process's once the peer has ended. So a probe that succeeds leaves where
 * the peer's word is, and a transfer looks whether it is still there: once in every tick of the
 * clock, within which no number is given out again (the kernel goes round all of them first).
 * A peer is at one of PLACES places from its number on; without one it is not looked for. */

#define KNOWN 4096
#define PLACES 8

struct known {
    _Atomic pid_t pid; /* 0: free. Written last */
    _Atomic uint64_t address, word;
    _Atomic uint64_t tick; /* in which it was there */
};

static struct known known[KNOWN];
static pthread_mutex_t knowing = PTHREAD_MUTEX_INITIALIZER;

static struct known *place_of(pid_t pid, pid_t holds) {
    for (unsigned i = 0; i < PLACES; i++) {
        struct known *place = &known[((unsigned)pid + i) % KNOWN];
        /* acquire: pairs with the release in remember(), or address and word were not there yet */
        if (atomic_load_explicit(&place->pid, memory_order_acquire) == holds)
            return place;
    }
    return NULL;
}

static void remember(pid_t pid, uint64_t address, uint64_t word) {
    pthread_mutex_lock(&knowing);
    struct known *place = place_of(pid, pid);
    if (place == NULL)
        place = place_of(pid, 0);
    if (place != NULL) {
        atomic_store(&place->address, address);
        atomic_store(&place->word, word);
        atomic_store(&place->tick, tug_own_tick());
        /* release: pairs with place_of() */
        atomic_store_explicit(&place->pid, pid, memory_order_release);
    }
    pthread_mutex_unlock(&knowing);
}

static int read_word(pid_t pid, uint64_t address, uint64_t *word) {
    struct iovec local = {word, sizeof(*word)};
    struct iovec remote = {(void *)(uintptr_t)address, sizeof(*word)};
    return move_pieces(process_vm_readv, pid, &(struct tug_cma_pieces){&local, 1},
                       &(struct tug_cma_pieces){&remote, 1});
}

/* 0 also of a process that no probe has found. */
static int find_again(pid_t pid) {
    struct known *place = place_of(pid, pid);
    const uint64_t tick = tug_own_tick();
    uint64_t word = 0;
    if (place == NULL || atomic_load_explicit(&place->tick, memory_order_relaxed) == tick)
        return 0;
    const int status = read_word(pid, atomic_load(&place->address), &word);
    if (status == TUG_ERR_SYSTEM)
        return status;
    if (status != 0 || word != atomic_load(&place->word))
        return TUG_ERR_PEER;
    atomic_store_explicit(&place->tick, tick, memory_order_relaxed);
    return 0;
}

static int transfer_pieces(cma_call call, pid_t pid, struct tug_cma_pieces *here,
                           struct tug_cma_pieces *there) {
    const int status = find_again(pid);
    return status != 0 ? status : move_pieces(call, pid, here, there);
}

static int transfer(cma_call call, pid_t pid, unsigned char *here, uint64_t there, size_t bytes) {
    int status = 0;
    for (size_t done = 0; done < bytes && status == 0; done += TUG_CMA_BYTES_MOST) {
        const size_t part = bytes - done < TUG_CMA_BYTES_MOST ? bytes - done : TUG_CMA_BYTES_MOST;
        struct iovec local = {here + done, part};
        struct iovec remote = {(void *)(uintptr_t)(there + done), part};
        status = transfer_pieces(call, pid, &(struct tug_cma_pieces){&local, 1},
                                 &(struct tug_cma_pieces){&remote, 1});
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
        status = transfer_pieces(process_vm_readv, pid, &(struct tug_cma_pieces){local, 2},
                                 &(struct tug_cma_pieces){&remote, 1});
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
        tug_copy_is_slow())
        return tug_cma_read_beside(pid, to, from, bytes);
    return transfer(process_vm_readv, pid, to, from, bytes);
}

int tug_cma_write(pid_t pid, const void *from, uint64_t to, size_t bytes) {
    /* process_vm_writev() only reads what its first vector names. */
    return transfer(process_vm_writev, pid, (unsigned char *)(uintptr_t)from, to, bytes);
}

int tug_cma_read_pieces(pid_t pid, struct tug_cma_pieces *here, struct tug_cma_pieces *there) {
    return transfer_pieces(process_vm_readv, pid, here, there);
}

int tug_cma_write_pieces(pid_t pid, struct tug_cma_pieces *here, struct tug_cma_pieces *there) {
    return transfer_pieces(process_vm_writev, pid, here, there);
}

/* As tug_cma_move(); TUG_ERR_RANGE: the peer's byte at there + *moved is out of reach. */
static int move_rest(pid_t pid, bool writes, unsigned char *here, uint64_t there, size_t bytes,
                     size_t *moved) {
    int status = *moved > 0 ? TUG_ERR_RANGE
                 : writes   ? tug_cma_write(pid, here, there, bytes)
                            : tug_cma_read(pid, here, there, bytes);
    for (size_t before = bytes; status == TUG_ERR_RANGE && *moved != before;) {
        before = *moved;
        struct iovec mine = {here + before, bytes - before};
        struct iovec its = {(void *)(uintptr_t)(there + before), bytes - before};
        tug_page_access(here + before, !writes);
        status =
            transfer_pieces(writes ? process_vm_writev : process_vm_readv, pid,
                            &(struct tug_cma_pieces){&mine, 1}, &(struct tug_cma_pieces){&its, 1});
        *moved = status == 0 ? bytes : bytes - mine.iov_len;
    }
    return status;
}

/* Of a request to the owner. More would be protected again before they are copied, where a thread
 * of the program protects them all the time. */
#define ASKED_BYTES ((size_t)65536)

int tug_cma_move(pid_t pid, bool writes, void *here, uint64_t there, size_t bytes, size_t *moved,
                 struct tug_cma_ask *ask) {
    /* acquire: pairs with the release in tug_cma_answer(); seq_cst: the look before a sleep */
    if (atomic_load(&ask->asks) != 0)
        return TUG_ERR_FULL;
    const int status = move_rest(pid, writes, here, there, bytes, moved);
    if (status != TUG_ERR_RANGE || !tug_cma_is_mapped(pid, there + *moved, 1))
        return status;
    ask->at = there + *moved;
    ask->bytes = bytes - *moved < ASKED_BYTES ? bytes - *moved : ASKED_BYTES;
    /* release: both before the word; seq_cst: before the look at the owner's bell */
    atomic_store(&ask->asks, writes ? TUG_CMA_ASKS_WRITE : TUG_CMA_ASKS_READ);
    return TUG_ERR_FULL;
}

bool tug_cma_answer(struct tug_cma_ask *ask) {
    const uint32_t asks = atomic_load(&ask->asks); /* as in tug_cma_move() */
    if (asks == 0)
        return false;
    tug_pages_access(ask->at, ask->bytes, asks == TUG_CMA_ASKS_WRITE);
    atomic_store(&ask->asks, 0); /* seq_cst: before the look at the asker's bell */
    return true;
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

bool tug_cma_is_mapped(pid_t pid, uint64_t address, uint64_t bytes) {
    const uint64_t end = address + bytes;
    const int kept_errno = errno;
    char name[32], line[512];
    uint64_t first, behind;
    snprintf(name, sizeof(name), "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(name, "re");
    while (maps != NULL && address < end && fgets(line, sizeof(line), maps) != NULL)
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &first, &behind) == 2 && first <= address &&
            address < behind)
            address = behind; /* in order of addresses */
    if (maps != NULL)
        fclose(maps);
    errno = kept_errno;
    return address >= end;
}

bool tug_cma_probe(pid_t pid, uint64_t address, uint64_t expected) {
    uint64_t word = ~expected;
    if (read_word(pid, address, &word) != 0 || word != expected)
        return false;
    remember(pid, address, expected);
    return true;
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
