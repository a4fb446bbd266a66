#include "node/lent.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "base/system_page.h"

#define VIEWS_KEPT 8

#ifndef MADV_POPULATE_READ /* Linux 5.14 */
#define MADV_POPULATE_READ 22
#endif

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- the lender's ---- */

struct piece {
    unsigned char *base;
    size_t bytes;
    uint64_t offset;
    bool inherited;      /* copied at a fork: plain memory of this process, which is not offered */
    unsigned char *copy; /* during a fork: what the child gets; MAP_FAILED: it cannot be had */
};

static struct {
    bool made;
    struct tug_own own; /* the program may have closed it */
    pid_t owner;        /* the process that has made it */
    uint64_t end;
    void *pieces; /* a tree */
} file;

/* Pieces do not overlap: what does is the same. */
static int compare(const void *left, const void *right) {
    const struct piece *a = left, *b = right;
    const uintptr_t at = (uintptr_t)a->base, other = (uintptr_t)b->base;
    if (at + a->bytes <= other)
        return -1;
    return at >= other + b->bytes;
}

static struct piece *find(const void *address) {
    const struct piece key = {.base = (unsigned char *)(uintptr_t)address, .bytes = 1};
    struct piece **found = tfind(&key, &file.pieces, compare);
    return found != NULL ? *found : NULL;
}

/* ---- forks ----
 *
 * The thread that forks copies each piece before the fork, with the lock held. In the child the
 * copy takes the piece's address; the parent unmaps it. So the child has the memory as it was, and
 * neither sees what the other stores later. */

/* Copies the pages that exist. From the file, since the program may have protected the memory. */
static void fill_copy(const struct piece *piece) {
    const int fd = file.own.number;
    const off_t begin = (off_t)piece->offset, end = begin + (off_t)piece->bytes;
    off_t at = begin;
    while ((at = lseek(fd, at, SEEK_DATA)) >= 0 && at < end) {
        const off_t hole = lseek(fd, at, SEEK_HOLE), stop = hole < end ? hole : end;
        ssize_t copied = 1;
        for (; at < stop && copied > 0; at += copied)
            copied = pread(fd, piece->copy + (at - begin), (size_t)(stop - at), at);
        if (copied <= 0)
            return;
    }
}

static void make_copy(const void *node, VISIT visit, int depth) {
    struct piece *piece = *(struct piece *const *)node;
    (void)depth;
    if ((visit != postorder && visit != leaf) || piece->inherited)
        return;
    piece->copy = mmap(NULL, piece->bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (piece->copy == MAP_FAILED)
        return;
    if (tug_own_holds(&file.own))
        fill_copy(piece);
    else
        memcpy(piece->copy, piece->base, piece->bytes);
}

static void drop_copy(const void *node, VISIT visit, int depth) {
    struct piece *piece = *(struct piece *const *)node;
    (void)depth;
    if ((visit == postorder || visit == leaf) && !piece->inherited && piece->copy != MAP_FAILED)
        munmap(piece->copy, piece->bytes);
}

/* Without a copy the child must not have the piece: it ends if it touches it. */
static void take_copy(const void *node, VISIT visit, int depth) {
    struct piece *piece = *(struct piece *const *)node;
    (void)depth;
    if ((visit != postorder && visit != leaf) || piece->inherited)
        return;
    piece->inherited = true;
    /* UCX (1.13) replaces mremap() by a function that loses the new address: hence the system call
     */
    if (piece->copy == MAP_FAILED || syscall(SYS_mremap, piece->copy, piece->bytes, piece->bytes,
                                             MREMAP_MAYMOVE | MREMAP_FIXED, piece->base) == -1)
        mprotect(piece->base, piece->bytes, PROT_NONE);
}

static void before_fork(void) {
    pthread_mutex_lock(&lock);
    twalk(file.pieces, make_copy);
}

static void after_fork(void) {
    twalk(file.pieces, drop_copy);
    pthread_mutex_unlock(&lock);
}

/* The file stays the parent's: its descriptor is closed (descriptors.c). */
static void child_of_fork(void) {
    twalk(file.pieces, take_copy);
    file.made = false;
    file.end = 0;
    pthread_mutex_unlock(&lock);
}

static bool file_open(void) {
    static bool hooked;
    hooked = hooked || pthread_atfork(before_fork, after_fork, child_of_fork) == 0;
    if (!hooked)
        return false;
    file.own = tug_own_keep(memfd_create("tugboat", MFD_CLOEXEC));
    file.owner = getpid();
    file.made = file.own.number >= 0;
    return file.made;
}

/* A limit on the size of files would be a signal to the program. */
static bool file_may_grow_to(uint64_t end) {
    struct rlimit most;
    return getrlimit(RLIMIT_FSIZE, &most) == 0 &&
           (most.rlim_cur == RLIM_INFINITY || end <= most.rlim_cur);
}

static void *map_piece(struct piece *piece) {
    if (!(file.made ? file.owner == getpid() && tug_own_holds(&file.own) : file_open()) ||
        !file_may_grow_to(file.end + piece->bytes) ||
        ftruncate(file.own.number, (off_t)(file.end + piece->bytes)) != 0)
        return NULL;
    void *memory = mmap(NULL, piece->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.own.number,
                        (off_t)file.end);
    if (memory == MAP_FAILED)
        return NULL;
    *piece = (struct piece){.base = memory, .bytes = piece->bytes, .offset = file.end};
    if (tsearch(piece, &file.pieces, compare) == NULL) {
        munmap(memory, piece->bytes);
        return NULL;
    }
    file.end += piece->bytes;
    return memory;
}

void *tug_lent_allocate(size_t bytes) {
    struct piece *piece = malloc(sizeof(*piece));
    if (piece == NULL || bytes > PTRDIFF_MAX - tug_page_bytes()) {
        free(piece);
        return NULL;
    }
    piece->bytes = tug_page_up(bytes);
    pthread_mutex_lock(&lock);
    void *memory = map_piece(piece);
    pthread_mutex_unlock(&lock);
    if (memory == NULL)
        free(piece);
    return memory;
}

bool tug_lent_free(void *memory) {
    pthread_mutex_lock(&lock);
    struct piece *piece = find(memory);
    const pid_t owner = file.owner;
    bool ours = piece != NULL && piece->base == memory;
    if (ours)
        tdelete(piece, &file.pieces, compare);
    pthread_mutex_unlock(&lock);
    if (!ours)
        return false;
    /* Frees the pages even while peers have them mapped. A child that was made without the handlers
     * above (_Fork(), clone()) has the parent's piece. */
    if (!piece->inherited && getpid() == owner)
        madvise(memory, piece->bytes, MADV_REMOVE);
    munmap(memory, piece->bytes);
    free(piece);
    return true;
}

struct tug_offer tug_lent_offer(const void *buffer, size_t bytes) {
    struct tug_offer offer = {0};
    pthread_mutex_lock(&lock);
    const struct piece *piece = find(buffer);
    if (piece != NULL && !piece->inherited && tug_own_holds(&file.own)) {
        offer = (struct tug_offer){
            .name = file.own.inode,
            .lender = (uint64_t)getpid() << 32 | (uint32_t)file.own.number,
            .offset = piece->offset,
            .bytes = piece->bytes,
            .distance = (uint64_t)((const unsigned char *)buffer - piece->base),
        };
    }
    pthread_mutex_unlock(&lock);
    return offer.name != 0 && tug_lent_holds(&offer, bytes) ? offer : (struct tug_offer){0};
}

/* ---- the others' ---- */

struct view {
    struct view *next;
    struct tug_offer of;
    bool writes; /* it may be written to */
    unsigned char *base;
    unsigned users;
};

static struct view *views; /* the one used last first */

/* In another process space that number is another process's: it is the file only if device (that of
 * all nameless files in memory) and inode say so. Nothing else is opened. */
static bool is_offered(const struct stat *status, const struct tug_offer *offer) {
    return S_ISREG(status->st_mode) && status->st_dev == file.own.device &&
           status->st_ino == offer->name && offer->offset <= (uint64_t)status->st_size &&
           offer->bytes <= (uint64_t)status->st_size - offer->offset;
}

static int open_file(const struct tug_offer *offer, int how) {
    char path[64];
    struct stat status;
    if (!file.made && !file_open())
        return -1;
    snprintf(path, sizeof(path), "/proc/%u/fd/%u", (unsigned)(offer->lender >> 32),
             (unsigned)offer->lender);
    if (stat(path, &status) != 0 || !is_offered(&status, offer))
        return -1;
    int fd = open(path, how | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    if (fstat(fd, &status) == 0 && is_offered(&status, offer))
        return fd;
    close(fd);
    return -1;
}

static unsigned char *map_offer(const struct tug_offer *offer, int how, int rights) {
    int fd = open_file(offer, how);
    if (fd < 0)
        return NULL;
    void *base = mmap(NULL, offer->bytes, rights, MAP_SHARED, fd, (off_t)offer->offset);
    close(fd);
    if (base == MAP_FAILED)
        return NULL;
    return base;
}

static struct view *make_view(const struct tug_offer *offer, bool writes) {
    struct view *view = malloc(sizeof(*view));
    unsigned char *base = NULL;
    if (view != NULL)
        base = map_offer(offer, writes ? O_RDWR : O_RDONLY,
                         writes ? PROT_READ | PROT_WRITE : PROT_READ);
    if (base == NULL) {
        free(view);
        return NULL;
    }
    *view = (struct view){.of = *offer, .writes = writes, .base = base};
    return view;
}

/* Takes the view out of the list, or returns NULL. */
static struct view *take_view(const struct tug_offer *offer, bool writes) {
    for (struct view **at = &views; *at != NULL; at = &(*at)->next) {
        struct view *view = *at;
        if (view->of.name != offer->name || view->of.offset != offer->offset ||
            view->of.bytes != offer->bytes || view->writes != writes)
            continue;
        *at = view->next;
        return view;
    }
    return NULL;
}

static void put_view(struct view *view) {
    view->next = views;
    views = view;
}

/* Of those that nobody wants only the newest stay. */
static void drop_views(void) {
    unsigned unwanted = 0;
    for (struct view **at = &views; *at != NULL;) {
        struct view *view = *at;
        unwanted += view->users == 0;
        if (view->users > 0 || unwanted <= VIEWS_KEPT) {
            at = &view->next;
            continue;
        }
        *at = view->next;
        munmap(view->base, view->of.bytes);
        free(view);
    }
}

/* NULL: it cannot be had. */
static struct view *open_view(const struct tug_offer *offer, bool writes) {
    pthread_mutex_lock(&lock);
    struct view *view = take_view(offer, writes);
    if (view == NULL)
        view = make_view(offer, writes);
    if (view != NULL) {
        view->users++;
        put_view(view);
    }
    pthread_mutex_unlock(&lock);
    return view;
}

static void close_view(const struct tug_offer *offer, bool writes) {
    pthread_mutex_lock(&lock);
    struct view *view = take_view(offer, writes);
    view->users--;
    put_view(view);
    drop_views();
    pthread_mutex_unlock(&lock);
}

unsigned char *tug_lent_open(const struct tug_offer *offer, size_t bytes) {
    struct view *view = tug_lent_holds(offer, bytes) ? open_view(offer, false) : NULL;
    if (view == NULL)
        return NULL;
    /* the first run should not be the one that finds the pages */
    uint64_t within = offer->distance % tug_page_bytes();
    madvise(view->base + offer->distance - within, bytes + within, MADV_POPULATE_READ);
    return view->base + offer->distance;
}

void tug_lent_close(const struct tug_offer *offer) {
    if (offer->lender != 0)
        close_view(offer, false);
}

unsigned char *tug_lent_share(const struct tug_offer *offer) {
    const struct view *view = open_view(offer, true);
    return view != NULL ? view->base + offer->distance : NULL;
}

void tug_lent_unshare(const struct tug_offer *offer) {
    close_view(offer, true);
}
