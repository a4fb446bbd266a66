/*
 * forks: processes that a rank forks, and memory of MPI_Alloc_mem.
 *
 * A child has the memory as it was when it was forked: it sees nothing that its parent or a peer
 * stores later, they see nothing that it stores, and it may free it, also in a handler at its exit,
 * as a child of its own may. In the parent the memory goes on to be in the window that is over it.
 * Threads fork while others allocate and free, and no child waits for a lock that one of those
 * held ("free": not even one that frees; MPICH alone waits for ever there). Children that stay have
 * no connection or file that the library had; nor have programs that are executed.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { SMALL = 100000, MEDIUM = 1 << 20, LARGE = 5 << 20, THREADS = 3, ROUNDS = 20 };

static unsigned char *shared_word; /* of parent and children */
static void *at_exit;
static bool frees_always;

static unsigned char *allocate(size_t bytes, int value) {
    unsigned char *memory;
    MUST(MPI_Alloc_mem((MPI_Aint)bytes, MPI_INFO_NULL, &memory));
    memset(memory, value, bytes);
    return memory;
}

static bool holds(const unsigned char *memory, size_t bytes, int value) {
    for (size_t i = 0; i < bytes; i++)
        if (memory[i] != value)
            return false;
    return true;
}

/* In a child, which ends with the line where something was wrong. */
#define RIGHT(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            _exit(__LINE__ % 255 + 1);                                                             \
    } while (0)

static void assert_child_was_right(pid_t child) {
    int status;
    CHECK(waitpid(child, &status, 0) == child, "no child");
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with %#x", status);
}

static void let(int turn) {
    atomic_store((_Atomic unsigned char *)shared_word, (unsigned char)turn);
}

static void await(int turn) {
    while (atomic_load((_Atomic unsigned char *)shared_word) != turn)
        usleep(1000);
}

/* ---- memory ---- */

static void frees(size_t bytes) {
    unsigned char *memory = allocate(bytes, 1);
    pid_t child = fork();
    if (child == 0) {
        RIGHT(holds(memory, bytes, 1));
        memset(memory, 2, bytes);
        pid_t grandchild = fork();
        if (grandchild == 0) {
            RIGHT(holds(memory, bytes, 2) && MPI_Free_mem(memory) == MPI_SUCCESS);
            _exit(0);
        }
        int status;
        RIGHT(waitpid(grandchild, &status, 0) == grandchild && status == 0);
        RIGHT(holds(memory, bytes, 2) && MPI_Free_mem(memory) == MPI_SUCCESS);
        _exit(0);
    }
    assert_child_was_right(child);
    CHECK(holds(memory, bytes, 1), "a child's freeing changed %zu bytes here", bytes);
    MUST(MPI_Free_mem(memory));
}

/* The first pages have been stored to, those in the middle have not, and some are protected. */
static void snapshot(size_t bytes) {
    unsigned char *memory;
    const size_t part = 16384;
    MUST(MPI_Alloc_mem((MPI_Aint)bytes, MPI_INFO_NULL, &memory));
    memset(memory, 1, part);
    memset(memory + bytes - part, 1, part);
    let(0);
    pid_t child = fork();
    if (child == 0) {
        await(1);
        RIGHT(holds(memory, part, 1) && holds(memory + bytes - part, part, 1));
        memset(memory, 3, bytes);
        let(2);
        await(3);
        RIGHT(holds(memory, bytes, 3));
        _exit(0);
    }
    memset(memory, 2, bytes);
    let(1);
    await(2);
    CHECK(holds(memory, bytes, 2), "what a child stored is here");
    memset(memory, 4, bytes);
    let(3);
    assert_child_was_right(child);
    MUST(MPI_Free_mem(memory));
}

static void protected(size_t bytes) {
    unsigned char *memory = allocate(bytes, 1), *page = memory + 4096 - (uintptr_t)memory % 4096;
    CHECK(mprotect(page, 8192, PROT_NONE) == 0, "mprotect");
    pid_t child = fork();
    if (child == 0) {
        RIGHT(mprotect(page, 8192, PROT_READ | PROT_WRITE) == 0 && holds(memory, bytes, 1));
        _exit(0);
    }
    assert_child_was_right(child);
    CHECK(mprotect(page, 8192, PROT_READ | PROT_WRITE) == 0, "mprotect");
    MUST(MPI_Free_mem(memory));
}

static void free_at_exit(void) {
    if (at_exit != NULL)
        MPI_Free_mem(at_exit);
}

static void exits(size_t bytes) {
    unsigned char *memory = allocate(bytes, 1);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        at_exit = memory;
        exit(0);
    }
    assert_child_was_right(child);
    CHECK(holds(memory, bytes, 1), "a child's exit changed %zu bytes here", bytes);
    MUST(MPI_Free_mem(memory));
}

/* ---- a window over it ---- */

static void windowed(size_t bytes) {
    unsigned char *memory = allocate(bytes, 1), one = 5;
    const int right = (check_rank + 1) % check_nranks;
    MPI_Win win;
    MUST(MPI_Win_create(memory, (MPI_Aint)bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    let(0);
    pid_t child = fork();
    if (child == 0) {
        await(1);
        RIGHT(holds(memory, bytes, 1));
        memset(memory, 9, bytes);
        _exit(0);
    }
    for (int round = 0; round < 2; round++) { /* beside the child, and after it */
        one += 1;
        MUST(MPI_Win_fence(0, win));
        MUST(MPI_Put(&one, 1, MPI_BYTE, right, 70000 + round, 1, MPI_BYTE, win));
        MUST(MPI_Win_fence(0, win));
        CHECK(memory[70000 + round] == one, "value %d", memory[70000 + round]);
        let(1);
        if (round == 0)
            assert_child_was_right(child);
    }
    memory[70000] = memory[70001] = 1;
    CHECK(holds(memory, bytes, 1), "the window's memory has changed");
    MUST(MPI_Win_free(&win));
    MUST(MPI_Free_mem(memory));
}

/* ---- threads ---- */

static atomic_bool over;

static void *churn(void *argument) {
    (void)argument;
    while (!atomic_load(&over)) {
        unsigned char *memory = allocate(SMALL, 1);
        MUST(MPI_Free_mem(memory));
    }
    return NULL;
}

static void *fork_often(void *argument) {
    unsigned char *memory = allocate(SMALL, 7);
    (void)argument;
    for (int i = 0; i < ROUNDS; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(60);
            RIGHT(holds(memory, SMALL, 7));
            RIGHT(!frees_always || MPI_Free_mem(memory) == MPI_SUCCESS);
            _exit(0);
        }
        assert_child_was_right(child);
        CHECK(holds(memory, SMALL, 7), "changed");
    }
    MUST(MPI_Free_mem(memory));
    return NULL;
}

static void threads(void) {
    pthread_t churners[THREADS], forkers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&churners[i], NULL, churn, NULL) == 0, "no thread");
        CHECK(pthread_create(&forkers[i], NULL, fork_often, NULL) == 0, "no thread");
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(forkers[i], NULL);
    atomic_store(&over, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(churners[i], NULL);
}

/* ---- programs ---- */

static void programs(void) {
    extern char **environ;
    char *const arguments[] = {"true", NULL};
    unsigned char *memory = allocate(MEDIUM, 1);
    pid_t child = fork();
    if (child == 0) {
        execvp("true", arguments);
        _exit(1);
    }
    assert_child_was_right(child);
    CHECK(system("true") == 0, "system");
    CHECK(posix_spawnp(&child, "true", NULL, NULL, arguments, environ) == 0, "posix_spawn");
    assert_child_was_right(child);
    CHECK(holds(memory, MEDIUM, 1), "changed");
    MUST(MPI_Free_mem(memory));
}

/* The library's numbers are the last quarter of those that may be used (or of 4 096). */
static void descriptors(void) {
    const long all = sysconf(_SC_OPEN_MAX), high = (all < 4096 ? all : 4096) / 4 * 3;
    pid_t child = fork();
    if (child == 0) {
        DIR *folder = opendir("/proc/self/fd");
        const struct dirent *entry;
        int inherited = 0;
        RIGHT(folder != NULL);
        while ((entry = readdir(folder)) != NULL)
            inherited += atoi(entry->d_name) >= high;
        RIGHT(inherited == 0);
        _exit(0);
    }
    assert_child_was_right(child);
}

int main(int argc, char **argv) {
    const size_t sizes[] = {SMALL, MEDIUM, LARGE};
    check_begin_threads(&argc, &argv, "forks");
    shared_word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared_word != MAP_FAILED, "mmap");
    atexit(free_at_exit);
    frees_always = argc > 1 && strcmp(argv[1], "free") == 0;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        frees(sizes[i]);
        snapshot(sizes[i]);
        protected(sizes[i]);
        exits(sizes[i]);
        windowed(sizes[i]);
    }
    threads();
    programs();
    descriptors();
    return check_end();
}
