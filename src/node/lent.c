#include "node/lent.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
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
    const unsigned char *base;
    size_t bytes;
    uint64_t offset;
};

static struct {
    bool made;
    struct tug_own own; /* the program may have closed it */
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
    const struct piece key = {.base = address, .bytes = 1};
    struct piece **found = tfind(&key, &file.pieces, compare);
    return found != NULL ? *found : NULL;
}

static bool file_open(void) {
    file.own = tug_own_keep(memfd_create("tugboat", MFD_CLOEXEC));
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
    if (!(file.made ? tug_own_holds(&file.own) : file_open()) ||
        !file_may_grow_to(file.end + piece->bytes) ||
        ftruncate(file.own.number, (off_t)(file.end + piece->bytes)) != 0)
        return NULL;
    void *memory = mmap(NULL, piece->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.own.number,
                        (off_t)file.end);
    if (memory == MAP_FAILED)
        return NULL;
    piece->base = memory;
    piece->offset = file.end;
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
    bool ours = piece != NULL && piece->base == memory;
    if (ours)
        tdelete(piece, &file.pieces, compare);
    pthread_mutex_unlock(&lock);
    if (!ours)
        return false;
    madvise(memory, piece->bytes, MADV_REMOVE); /* whoever else still has it mapped */
    munmap(memory, piece->bytes);
    free(piece);
    return true;
}

struct tug_offer tug_lent_offer(const void *buffer, size_t bytes) {
    struct tug_offer offer = {0};
    pthread_mutex_lock(&lock);
    const struct piece *piece = find(buffer);
    if (piece != NULL && tug_own_holds(&file.own)) {
        offer = (struct tug_offer){
            .name = file.own.inode,
            .lender = (uint64_t)getpid() << 32 | (uint32_t)file.own.number,
            .offset = piece->offset,
            .bytes = piece->bytes,
            .distance = (uint64_t)((const unsigned char *)buffer - piece->base),
        };
    }
    pthread_mutex_unlock(&lock);
    return offer.name != 0 && bytes <= offer.bytes - offer.distance ? offer : (struct tug_offer){0};
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

/* In /proc of another process space is somebody else under that number: it is the file only if its
 * inode says so; and looking must not hang. */
static int open_file(const struct tug_offer *offer, int how) {
    char path[64];
    struct stat status;
    snprintf(path, sizeof(path), "/proc/%u/fd/%u", (unsigned)(offer->lender >> 32),
             (unsigned)offer->lender);
    int fd = open(path, how | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_ino == offer->name &&
        (uint64_t)status.st_size >= offer->offset + offer->bytes)
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
            view->writes != writes)
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
    struct view *view = open_view(offer, false);
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
