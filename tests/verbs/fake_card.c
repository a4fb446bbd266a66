/* The card: the file that its processes map, their entries in it, its lock and its heap, copies
 * between them, and what each has counted. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "fake_ibverbs.h"

#define FILE_BYTES (UINT64_C(512) << 20) /* of which pages that nobody has used take no memory */
#define READY UINT64_C(0x7475676361726433)

struct card *card;
uint32_t card_self;

static pthread_mutex_t joining = PTHREAD_MUTEX_INITIALIZER;
static bool joined;
static bool alone;     /* no other process maps the card */
static uint64_t proof; /* random, of this process; 0: it has not joined */

/* ---- the file ---- */

static bool set_up(void) {
    pthread_mutexattr_t attributes;
    if (card->ready == READY)
        return true;
    if (getrandom(&card->id, sizeof card->id, 0) != (ssize_t)sizeof card->id)
        return false;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&card->lock, &attributes);
    pthread_mutex_init(&card->reports, &attributes);
    pthread_mutexattr_destroy(&attributes);
    card->heap = (sizeof *card + 4095) / 4096 * 4096;
    card->ready = READY;
    return true;
}

/* Signals may come meanwhile. */
static bool lock_file(int file) {
    int error;
    do
        error = flock(file, LOCK_EX);
    while (error != 0 && errno == EINTR);
    return error == 0;
}

/* One process at a time sets it up; one that died meanwhile leaves it to the next. */
static bool map_file(const char *path) {
    const int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || !lock_file(file) || ftruncate(file, (off_t)FILE_BYTES) != 0)
        return false;
    void *memory = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    card = memory != MAP_FAILED ? memory : NULL;
    const bool mapped = card != NULL && set_up();
    (void)flock(file, LOCK_UN); /* the mapping keeps the file open */
    close(file);
    return mapped;
}

static bool map_memory(void) {
    void *memory = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    alone = true;
    card = memory != MAP_FAILED ? memory : NULL;
    return card != NULL && set_up();
}

void card_lock_one(pthread_mutex_t *lock) {
    const int error = pthread_mutex_lock(lock);
    if (error == EOWNERDEAD)
        pthread_mutex_consistent(lock);
    else if (error != 0)
        abort();
}

void card_lock(void) {
    card_lock_one(&card->lock);
}

void card_unlock(void) {
    pthread_mutex_unlock(&card->lock);
}

/* ---- the heap: pieces whose sizes are powers of two ---- */

static unsigned class_of(uint64_t bytes) {
    unsigned class = 6;
    while (UINT64_C(1) << class < bytes)
        class ++;
    return class;
}

uint64_t card_take(uint64_t bytes) {
    const unsigned class = class_of(bytes);
    if (class >= CARD_CLASSES)
        return 0;
    uint64_t at = card->spare[class];
    if (at != 0) {
        memcpy(&card->spare[class], card_at(at), sizeof at); /* the next one */
        return at;
    }
    at = card->heap;
    if (FILE_BYTES - at < UINT64_C(1) << class)
        return 0;
    card->heap += UINT64_C(1) << class;
    return at;
}

void card_give(uint64_t at, uint64_t bytes) {
    const unsigned class = class_of(bytes);
    if (at == 0)
        return;
    memcpy(card_at(at), &card->spare[class], sizeof at);
    card->spare[class] = at;
}

/* ---- processes ---- */

bool card_lives(uint32_t process) {
    const struct card_process *entry = &card->processes[process];
    uint64_t found = 0;
    struct iovec here = {&found, sizeof found};
    struct iovec there = {(void *)(uintptr_t)entry->proof_at, sizeof found};
    if (process == card_self)
        return true;
    return process_vm_readv(entry->pid, &here, 1, &there, 1, 0) == (ssize_t)sizeof found &&
           found == entry->proof;
}

/* An entry for this process: an unused one, or a dead process's. */
static bool take_entry(void) {
    for (uint32_t i = 0; i < CARD_PROCESSES; i++) {
        struct card_process *entry = &card->processes[i];
        card_self = CARD_PROCESSES; /* nobody yet */
        if (entry->pid != 0 && card_lives(i))
            continue;
        if (entry->pid != 0)
            card_forget(i);
        memset(&entry->counts, 0, sizeof entry->counts);
        entry->proof = proof;
        entry->proof_at = (uint64_t)(uintptr_t)&proof;
        entry->pid = getpid();
        card_self = i;
        return true;
    }
    errno = EAGAIN;
    return false;
}

/* A child begins anew if it opens a device. */
static void forked(void) {
    joined = false;
    proof = 0;
    card_self = CARD_PROCESSES;
}

static void watch_forks(void) {
    (void)pthread_atfork(NULL, NULL, forked);
}

/* Where Yama keeps processes out of each other's memory, it lets those of the card in. */
static bool join(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const char *path = getenv("FAKE_CARD");
    pthread_once(&once, watch_forks);
    if (path != NULL)
        (void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    if (getrandom(&proof, sizeof proof, 0) != (ssize_t)sizeof proof)
        return false;
    if (card == NULL && !(path != NULL ? map_file(path) : map_memory()))
        return false;
    card_lock();
    const bool taken = take_entry();
    card_unlock();
    return taken;
}

bool card_join(void) {
    pthread_mutex_lock(&joining);
    joined = joined || join();
    pthread_mutex_unlock(&joining);
    return joined;
}

/* ---- memory of processes ---- */

/* No more than so many bytes of it. */
static void clip(struct card_memory *memory, uint64_t bytes) {
    memory->bytes = bytes;
    for (uint32_t i = 0; i < memory->n; i++) {
        if (memory->pieces[i].iov_len > bytes)
            memory->pieces[i].iov_len = bytes;
        bytes -= memory->pieces[i].iov_len;
    }
}

static void copy_here(const struct card_memory *to, const struct card_memory *from) {
    uint64_t done = 0, into = 0, outof = 0;
    uint32_t i = 0, j = 0;
    while (done < from->bytes) {
        const struct iovec *sink = &to->pieces[i], *source = &from->pieces[j];
        const uint64_t room = sink->iov_len - into, rest = source->iov_len - outof;
        const uint64_t bytes = room < rest ? room : rest;
        memmove((char *)sink->iov_base + into, (const char *)source->iov_base + outof, bytes);
        done += bytes;
        into = bytes == room ? 0 : into + bytes;
        outof = bytes == rest ? 0 : outof + bytes;
        i += bytes == room;
        j += bytes == rest;
    }
}

/* All pieces of a process's memory, from or to `data`. A card minds no protection of pages. */
static bool force(const struct card_memory *memory, unsigned char *data, bool writes) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", (int)card->processes[memory->process].pid);
    const int file = open(path, (writes ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
    bool good = file >= 0;
    for (uint32_t i = 0; good && i < memory->n; i++) {
        const struct iovec *piece = &memory->pieces[i];
        const off_t at = (off_t)(uintptr_t)piece->iov_base;
        const ssize_t done =
            writes ? pwrite(file, data, piece->iov_len, at) : pread(file, data, piece->iov_len, at);
        good = done == (ssize_t)piece->iov_len;
        data += piece->iov_len;
    }
    if (file >= 0)
        close(file);
    return good;
}

static int copy_by_force(const struct card_memory *to, const struct card_memory *from) {
    unsigned char *data = malloc(from->bytes);
    const bool done = data != NULL && force(from, data, false) && force(to, data, true);
    free(data);
    return done ? 0 : EFAULT;
}

int card_copy(const struct card_memory *to, const struct card_memory *from) {
    struct card_memory into = *to;
    ssize_t done;
    clip(&into, from->bytes);
    if (alone) {
        copy_here(&into, from);
        return 0;
    }
    if (from->process == card_self)
        done = process_vm_writev(card->processes[to->process].pid, from->pieces, from->n,
                                 into.pieces, into.n, 0);
    else if (to->process == card_self)
        done = process_vm_readv(card->processes[from->process].pid, into.pieces, into.n,
                                from->pieces, from->n, 0);
    else
        abort(); /* no request has two ends elsewhere */
    if (done == (ssize_t)from->bytes)
        return 0;
    if (done < 0 && errno == ESRCH)
        return ESRCH;
    if (done < 0 && errno != EFAULT)
        perror("the stand-in for libibverbs cannot reach another process");
    return copy_by_force(&into, from);
}

/* ---- channels: a socket each, to which whoever wakes its owner sends ---- */

static socklen_t name_channel(struct sockaddr_un *name, uint32_t number) {
    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    const int length =
        snprintf(name->sun_path + 1, sizeof name->sun_path - 1, "tugboat-fake-card-%016llx-%u",
                 (unsigned long long)card->id, number);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static int open_socket(void) {
    return socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

int card_channel(uint32_t *number) {
    struct sockaddr_un name;
    const int channel = open_socket();
    card_lock();
    *number = ++card->channels;
    card_unlock();
    const socklen_t bytes = name_channel(&name, *number);
    if (channel < 0 || bind(channel, (struct sockaddr *)&name, bytes) == 0)
        return channel;
    close(channel);
    return -1;
}

/* A channel that is full wakes its owner anyway, and one that is gone wakes nobody. */
void card_wake(const struct card_queue *queue) {
    struct sockaddr_un name;
    const int waker = open_socket();
    const socklen_t bytes = name_channel(&name, queue->channel);
    (void)sendto(waker, &queue->handle, sizeof queue->handle, MSG_NOSIGNAL,
                 (struct sockaddr *)&name, bytes);
    close(waker);
}

/* ---- counts ---- */

void fake_card_counts(struct fake_card_counts *out) {
    memset(out, 0, sizeof *out);
    pthread_mutex_lock(&joining);
    if (joined) {
        card_lock();
        *out = *card_counts(card_self);
        card_unlock();
    }
    pthread_mutex_unlock(&joining);
}

static void print_counts(FILE *file, const struct fake_card_counts *counts) {
    static const char *const names[FAKE_KINDS] = {"send", "write",       "write_with_imm",
                                                  "read", "cmp_and_swp", "fetch_and_add"};
    char line[1024];
    int n = snprintf(line, sizeof line, "card: pid=%d", (int)getpid());
    for (unsigned kind = 0; kind < FAKE_KINDS; kind++)
        n += snprintf(
            line + n, sizeof line - (size_t)n, " %s=%llu,%llu,%llu,%llu", names[kind],
            (unsigned long long)counts->requests[kind], (unsigned long long)counts->in_line[kind],
            (unsigned long long)counts->signalled[kind], (unsigned long long)counts->bytes[kind]);
    snprintf(line + n, sizeof line - (size_t)n,
             " post_send=%llu post_recv=%llu post_srq_recv=%llu completions=%llu reg_mr=%llu "
             "dereg_mr=%llu registered_bytes=%llu\n",
             (unsigned long long)counts->post_sends, (unsigned long long)counts->post_recvs,
             (unsigned long long)counts->post_srq_recvs, (unsigned long long)counts->completions,
             (unsigned long long)counts->registrations, (unsigned long long)counts->deregistrations,
             (unsigned long long)counts->registered_bytes);
    fputs(line, file);
    fflush(file);
}

/* FAKE_CARD_COUNTS: where to, a file or stderr. */
__attribute__((destructor)) static void print_at_the_end(void) {
    const char *where = getenv("FAKE_CARD_COUNTS");
    struct fake_card_counts counts;
    if (!joined || where == NULL)
        return;
    fake_card_counts(&counts);
    FILE *file = strcmp(where, "stderr") == 0 ? stderr : fopen(where, "a");
    if (file != NULL)
        print_counts(file, &counts);
    if (file != NULL && file != stderr)
        fclose(file);
}
