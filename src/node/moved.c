#include "node/moved.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "base/system_page.h"
#include "node/lent.h"

#define HEAP ((uintptr_t)64 << 20) /* glibc's heaps of threads begin at multiples */
/* The file goes on behind the pages: a realloc() of what stays in it finds zeros there. */
#define TAIL ((uint64_t)1 << 40)

struct tug_moved {
    unsigned char *begin;
    size_t bytes;
    struct tug_own file;
};

/* ---- may it move? ---- */

/* A number behind `name:` in /proc/self/status, or -1. */
static long status_of(const char *name) {
    char line[256];
    long value = -1;
    FILE *status = fopen("/proc/self/status", "re");
    while (status != NULL && value < 0 && fgets(line, sizeof(line), status) != NULL)
        if (strncmp(line, name, strlen(name)) == 0)
            value = strtol(line + strlen(name) + 1, NULL, 10);
    if (status != NULL)
        fclose(status);
    return value;
}

/* Ours, and the one in which UCX gets its own work on. */
static bool is_known_thread(const char *tid) {
    char path[300], name[32] = "";
    snprintf(path, sizeof(path), "/proc/self/task/%s/comm", tid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    bool read = fgets(name, sizeof(name), file) != NULL;
    fclose(file);
    return read && (strcmp(name, "tugboat\n") == 0 || strcmp(name, "async\n") == 0);
}

/* Threads have their creator's name until they are given another: in a program that is called so,
 * all do. */
static bool has_other_threads(void) {
    char own[16];
    int others = 0;
    snprintf(own, sizeof(own), "%d", (int)getpid());
    DIR *tasks = is_known_thread(own) ? NULL : opendir("/proc/self/task");
    if (tasks == NULL)
        return true;
    const struct dirent *entry;
    /* cppcheck-suppress readdirCalled ; the stream is this thread's own */
    while ((entry = readdir(tasks)) != NULL)
        others += entry->d_name[0] != '.' && strtol(entry->d_name, NULL, 10) != gettid() &&
                  !is_known_thread(entry->d_name);
    closedir(tasks);
    return others > 0;
}

/* The word at the beginning of one of glibc's heaps says how long it is, and how much of it may be
 * used: whole pages. What looks like that is taken for one. */
static bool is_in_heap(uintptr_t mapped_from, uintptr_t begin) {
    const uintptr_t at = begin / HEAP * HEAP;
    if (mapped_from > at)
        return false;
    const size_t *info = (const size_t *)at; // NOLINT(performance-no-int-to-ptr)
    const size_t size = info[2], usable = info[3];
    return size > 0 && size <= usable && usable <= HEAP && (size | usable) % tug_page_bytes() == 0;
}

static const char *const not_plain = "it is not plain private memory (VmFlags)";

/* One line of what smaps says of a mapping. NULL: nothing against it. */
static const char *judge(char *line) {
    static const char plain[] = " rd wr mr mw me ac sd ";
    if (strncmp(line, "AnonHugePages:", 14) == 0)
        return strtol(line + 14, NULL, 10) > 0 ? "it has huge pages" : NULL;
    if (strncmp(line, "VmFlags:", 8) != 0)
        return NULL;
    char *rest = NULL;
    for (char *flag = strtok_r(line + 8, " \n", &rest); flag; flag = strtok_r(NULL, " \n", &rest)) {
        char word[8];
        snprintf(word, sizeof(word), " %.2s ", flag);
        if (strstr(plain, word) == NULL)
            return not_plain;
    }
    return NULL;
}

/* The head of what smaps says of a mapping: of which file it is, and what is in it. */
struct mapping {
    uintptr_t from, to;
    char rights[5];
    uint64_t inode;
    char name[16];
};

static bool read_head(const char *line, struct mapping *mapping) {
    mapping->name[0] = '\0';
    return sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %*s %*s %" SCNu64 " %15s", &mapping->from,
                  &mapping->to, mapping->rights, &mapping->inode, mapping->name) >= 4;
}

/* All mappings that the pages lie in, from the lowest up. NULL: nothing against them. */
static const char *judge_mappings(uintptr_t begin, uintptr_t end) {
    char line[512];
    struct mapping mapping = {0};
    uintptr_t seen = begin;
    bool within = false;
    const char *why = NULL;
    FILE *maps = fopen("/proc/self/smaps", "re");
    while (maps != NULL && why == NULL && fgets(line, sizeof(line), maps) != NULL) {
        if (!read_head(line, &mapping)) {
            why = within ? judge(line) : NULL;
            continue;
        }
        within = mapping.from <= seen && mapping.to > seen && seen < end;
        if (!within && seen >= end)
            break;
        if (!within)
            continue;
        if (strcmp(mapping.rights, "rw-p") != 0 || mapping.inode != 0 || mapping.name[0] != '\0')
            why = "it is not mapped memory of its own (a file, shared, a stack, or malloc's heap)";
        else if (seen == begin && is_in_heap(mapping.from, begin))
            why = "it is in a heap of malloc's";
        seen = mapping.to;
    }
    if (maps != NULL)
        fclose(maps);
    return why != NULL ? why : seen >= end ? NULL : "it is not all mapped, or /proc cannot tell";
}

static const char *judge_all(const unsigned char *begin, size_t bytes) {
    const uintptr_t from = (uintptr_t)begin, here = (uintptr_t)__builtin_frame_address(0);
    if (here >= from && here < from + bytes)
        return "this call runs on it";
    if (has_other_threads())
        return "the process has other threads";
    if (status_of("VmPin") != 0)
        return "memory of the process is pinned";
    return judge_mappings(from, from + bytes);
}

/* ---- moving ---- */

/* A limit on the size of files would be a signal to the program. */
static bool make_file(struct tug_moved *moved) {
    struct rlimit most;
    const uint64_t size = moved->bytes + TAIL;
    if (getrlimit(RLIMIT_FSIZE, &most) != 0 ||
        (most.rlim_cur != RLIM_INFINITY && size > most.rlim_cur))
        return false;
    moved->file = tug_own_keep(memfd_create("tugboat", MFD_CLOEXEC));
    return moved->file.number >= 0 && ftruncate(moved->file.number, (off_t)size) == 0 &&
           fallocate(moved->file.number, 0, 0, (off_t)moved->bytes) == 0;
}

/* Copies what is at `at` into a mapping, which takes its place. No store of this thread's comes in
 * between: signals are blocked. The system call itself, since the mremap() that UCX 1.13 puts in
 * place of the library's has lost the address that is asked for. */
static bool put_in_place(void *mapping, void *at, size_t bytes) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    memcpy(mapping, at, bytes);
    const bool moved = syscall(SYS_mremap, mapping, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
                               at) == (long)(uintptr_t)at;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!moved)
        munmap(mapping, bytes);
    return moved;
}

static bool move_there(struct tug_moved *moved) {
    if (!make_file(moved))
        return false;
    void *memory =
        mmap(NULL, moved->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, moved->file.number, 0);
    if (memory == MAP_FAILED || !put_in_place(memory, moved->begin, moved->bytes))
        return false;
    madvise(moved->begin, moved->bytes, MADV_DONTFORK); /* a child would write into it */
    return true;
}

struct tug_moved *tug_moved_take(void *address, size_t bytes, struct tug_offer *offer,
                                 const char **why) {
    const uintptr_t distance = (uintptr_t)address % tug_page_bytes();
    struct tug_moved *moved = calloc(1, sizeof(*moved));
    *why = "no memory";
    if (moved == NULL)
        return NULL;
    *moved = (struct tug_moved){.begin = (unsigned char *)address - distance,
                                .bytes = tug_page_up(distance + bytes),
                                .file = TUG_OWN_NONE};
    *why = judge_all(moved->begin, moved->bytes);
    if (*why == NULL && !move_there(moved))
        *why = "there is no file in memory for it";
    if (*why != NULL) {
        tug_own_close(&moved->file);
        free(moved);
        return NULL;
    }
    *offer = (struct tug_offer){.name = moved->file.inode,
                                .lender = (uint64_t)getpid() << 32 | (uint32_t)moved->file.number,
                                .bytes = moved->bytes,
                                .distance = distance};
    return moved;
}

/* ---- and back ---- */

/* The program may have unmapped it too early, and something else be there. */
static bool is_still_there(const struct tug_moved *moved) {
    char line[512];
    struct mapping mapping;
    const uintptr_t begin = (uintptr_t)moved->begin;
    bool there = false;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps != NULL && !there && fgets(line, sizeof(line), maps) != NULL)
        there = read_head(line, &mapping) && mapping.inode == moved->file.inode &&
                mapping.from == begin && mapping.to == begin + moved->bytes;
    if (maps != NULL)
        fclose(maps);
    return there;
}

static bool move_back(const struct tug_moved *moved) {
    const int how = MAP_PRIVATE | MAP_ANONYMOUS;
    // cppcheck-suppress invalidFunctionArg
    void *memory = mmap(NULL, moved->bytes, PROT_READ | PROT_WRITE, how, -1, 0);
    return memory != MAP_FAILED && put_in_place(memory, moved->begin, moved->bytes);
}

/* Without a copy: a page is the process's own from the first store on, and no store gets lost. */
static bool make_private(const struct tug_moved *moved) {
    const int how = MAP_PRIVATE | MAP_FIXED;
    if (!tug_own_holds(&moved->file))
        return false;
    const void *there =
        mmap(moved->begin, moved->bytes, PROT_READ | PROT_WRITE, how, moved->file.number, 0);
    /* cppcheck-suppress memleak ; the program has it */
    return there == moved->begin;
}

/* Nobody needs the file's: others may still have a view of it. */
static void give_pages(const struct tug_moved *moved) {
    if (tug_own_holds(&moved->file))
        (void)fallocate(moved->file.number, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                        (off_t)moved->bytes);
}

void tug_moved_return(struct tug_moved *moved, bool used) {
    if (moved == NULL)
        return;
    /* pinned, or read and written by other processes: the addresses stay what they are */
    const bool stays = used || status_of("VmPin") != 0;
    if (!stays && is_still_there(moved)) {
        if (!has_other_threads() && move_back(moved))
            give_pages(moved);
        else
            (void)make_private(moved);
    }
    tug_own_close(&moved->file);
    free(moved);
}

void tug_moved_range(const struct tug_moved *moved, const void **begin, size_t *bytes) {
    *begin = moved->begin;
    *bytes = moved->bytes;
}
