/* Watched memory: gone() has been called for what is unmapped when the call that unmaps returns. */
#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>

#include "base/system_page.h"
#include "base/unmap_watch.h"

#define BYTES ((size_t)1 << 20)

/* Ranges that have gone, summed up: with tug_unmap_lock. */
static struct {
    unsigned calls;
    uintptr_t first, end; /* around all of them */
} seen;

static void gone(uintptr_t first, uintptr_t end) {
    seen.first = seen.calls == 0 || first < seen.first ? first : seen.first;
    seen.end = seen.calls == 0 || end > seen.end ? end : seen.end;
    seen.calls++;
}

static void forget(void) {
    pthread_mutex_lock(&tug_unmap_lock);
    memset(&seen, 0, sizeof(seen));
    pthread_mutex_unlock(&tug_unmap_lock);
}

/* Is [first, end) within what has been reported? */
static bool has_gone(uintptr_t first, uintptr_t end) {
    pthread_mutex_lock(&tug_unmap_lock);
    const bool has = seen.calls > 0 && seen.first <= first && end <= seen.end;
    pthread_mutex_unlock(&tug_unmap_lock);
    return has;
}

static unsigned calls(void) {
    pthread_mutex_lock(&tug_unmap_lock);
    const unsigned n = seen.calls;
    pthread_mutex_unlock(&tug_unmap_lock);
    return n;
}

static bool sees(void) {
    pthread_mutex_lock(&tug_unmap_lock);
    const bool all = tug_unmap_watch_sees();
    pthread_mutex_unlock(&tug_unmap_lock);
    return all;
}

static int set_up(void **state) {
    (void)state;
    forget();
    if (tug_unmap_watch_begin(gone))
        return 0;
    printf("this kernel or container reports no unmapping: %s\n", strerror(errno));
    exit(77);
}

static int tear_down(void **state) {
    (void)state;
    tug_unmap_watch_end();
    return 0;
}

static uintptr_t map(size_t bytes) {
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(at != MAP_FAILED);
    memset(at, 1, bytes);
    return (uintptr_t)at;
}

static uintptr_t map_watched(void) {
    const uintptr_t at = map(BYTES);
    assert_true(tug_unmap_watch_add(at, at + BYTES));
    assert_true(sees());
    return at;
}

/* ---- what the kernel reports ---- */

static void unmapped(void **state) {
    (void)state;
    const uintptr_t at = map_watched();
    assert_int_equal(munmap((void *)at, BYTES), 0);
    assert_true(has_gone(at, at + BYTES));
    assert_true(sees());
}

static void unmapped_in_part(void **state) {
    (void)state;
    const uintptr_t at = map_watched();
    const size_t page = tug_page_bytes();
    assert_int_equal(munmap((void *)(at + page), page), 0);
    assert_true(has_gone(at + page, at + 2 * page));
    forget();
    assert_int_equal(munmap((void *)at, BYTES), 0);
    assert_true(has_gone(at, at + page));
    assert_true(has_gone(at + 2 * page, at + BYTES));
}

static void dropped(void **state) {
    (void)state;
    const uintptr_t at = map_watched();
    assert_int_equal(madvise((void *)at, BYTES, MADV_DONTNEED), 0);
    assert_true(has_gone(at, at + BYTES));
    munmap((void *)at, BYTES);
}

static void moved(void **state) {
    (void)state;
    const uintptr_t at = map_watched();
    void *there = mremap((void *)at, BYTES, 4 * BYTES, MREMAP_MAYMOVE);
    assert_true(there != MAP_FAILED);
    if ((uintptr_t)there == at) /* it has grown where it was */
        there = mremap(there, 4 * BYTES, 4 * BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, map(4 * BYTES));
    assert_true(there != MAP_FAILED);
    assert_true(has_gone(at, at + BYTES));
    munmap(there, 4 * BYTES);
}

static void mapped_over(void **state) {
    (void)state;
    const uintptr_t at = map_watched();
    assert_true(mmap((void *)at, BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                     0) == (void *)at);
    assert_true(has_gone(at, at + BYTES));
    munmap((void *)at, BYTES);
}

/* The allocator of the address sanitizer keeps what is freed. */
#if defined(__SANITIZE_ADDRESS__)
#define KEEPS_FREED true
#elif defined(__has_feature)
#define KEEPS_FREED __has_feature(address_sanitizer)
#else
#define KEEPS_FREED false
#endif

static void freed(void **state) {
    (void)state;
    if (KEEPS_FREED)
        skip();
    unsigned char *block = malloc(8 * BYTES);
    assert_non_null(block);
    memset(block, 1, 8 * BYTES);
    const uintptr_t first = tug_page_up((uintptr_t)block),
                    end = tug_page_down((uintptr_t)block + 8 * BYTES);
    assert_true(tug_unmap_watch_add(first, end));
    free(block);
    assert_true(has_gone(first, end));
}

/* The heap shrinks: from inside the C library, which no hook of a symbol sees. */
static void heap_shrunk(void **state) {
    (void)state;
    const uintptr_t top = (uintptr_t)sbrk((intptr_t)BYTES);
    assert_true(top != UINTPTR_MAX);
    const uintptr_t first = tug_page_up(top), end = tug_page_down(top + BYTES);
    memset((void *)first, 1, end - first);
    assert_true(tug_unmap_watch_add(first, end));
    assert_true(sbrk(-(intptr_t)BYTES) != (void *)-1);
    assert_true(has_gone(first, end));
}

/* ---- what it leaves alone ---- */

static void others_unmapped(void **state) {
    (void)state;
    const uintptr_t at = map_watched(), other = map(BYTES);
    munmap((void *)other, BYTES);
    assert_int_equal(calls(), 0);
    munmap((void *)at, BYTES);
}

/* All accesses go on as before, and those of the kernel. */
static void used(void **state) {
    (void)state;
    const uintptr_t at = map_watched();
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], (void *)at, 4096), 4096);
    assert_int_equal(madvise((void *)at, BYTES, MADV_DONTNEED), 0);
    assert_int_equal(read(ends[0], (void *)at, 4096), 4096);
    assert_int_equal(*(unsigned char *)at, 1);
    assert_int_equal(((unsigned char *)at)[8192], 0);
    assert_int_equal(mprotect((void *)at, BYTES, PROT_NONE), 0);
    close(ends[0]);
    close(ends[1]);
    munmap((void *)at, BYTES);
}

static void segment_refused(void **state) {
    (void)state;
    const int id = shmget(IPC_PRIVATE, BYTES, IPC_CREAT | 0600);
    if (id < 0)
        skip();
    const uintptr_t at = (uintptr_t)shmat(id, NULL, 0);
    shmctl(id, IPC_RMID, NULL);
    assert_true(at != UINTPTR_MAX);
    assert_false(tug_unmap_watch_add(at, at + BYTES));
    shmdt((void *)at);
}

static bool is_file_watched(const char *name) {
    const int file = memfd_create(name, MFD_CLOEXEC);
    assert_true(file >= 0 && ftruncate(file, (off_t)BYTES) == 0);
    void *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    assert_true(at != MAP_FAILED);
    const bool watched = tug_unmap_watch_add((uintptr_t)at, (uintptr_t)at + BYTES);
    munmap(at, BYTES);
    assert_true(!watched || has_gone((uintptr_t)at, (uintptr_t)at + BYTES));
    close(file);
    return watched;
}

/* The owner of a file may cut it, which the kernel does not report. */
static void shared_refused(void **state) {
    (void)state;
    assert_false(is_file_watched("other"));
    printf("the library's own: %swatched\n", is_file_watched("tugboat") ? "" : "not ");
}

static void nothing_refused(void **state) {
    (void)state;
    const uintptr_t at = map(BYTES);
    munmap((void *)at, BYTES);
    assert_false(tug_unmap_watch_add(at, at + BYTES));
}

static void child_goes_on(void **state) {
    (void)state;
    const uintptr_t at = map_watched();
    const pid_t child = fork();
    if (child == 0) {
        memset((void *)at, 2, BYTES);
        _exit(munmap((void *)at, BYTES) == 0 ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(calls(), 0);
    assert_int_equal(*(unsigned char *)at, 1);
    munmap((void *)at, BYTES);
    assert_true(has_gone(at, at + BYTES));
}

/* ---- the program closes everything ---- */

static void closed(void **state) {
    (void)state;
    const uintptr_t at = map_watched();
    for (int descriptor = 3; descriptor < 4096; descriptor++)
        check_close_carelessly(descriptor);
    assert_false(sees());
    assert_false(tug_unmap_watch_add(at, at + BYTES));
    assert_int_equal(munmap((void *)at, BYTES), 0);
}

/* Only the descriptor by which the thread is stopped: no later munmap() waits for it. */
static void half_closed(void **state) {
    (void)state;
    const uintptr_t at = map_watched();
    char link[64], path[64];
    for (int descriptor = 3; descriptor < 4096; descriptor++) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", descriptor);
        const ssize_t length = readlink(path, link, sizeof(link));
        if (length > 5 && memcmp(link, "pipe:", 5) == 0)
            check_close_carelessly(descriptor);
    }
    CHECK_SOON(!sees());
    assert_int_equal(munmap((void *)at, BYTES), 0);
}

/* ---- threads ---- */

static _Atomic bool ending;
static uintptr_t noted; /* memory that is mapped and watched; 0: none. With the lock */

static void drop_note(uintptr_t first, uintptr_t end) {
    if (first <= noted && noted < end)
        noted = 0;
}

static void *unmap_and_map(void *d) {
    (void)d;
    while (!atomic_load(&ending)) {
        const uintptr_t at = map(65536);
        (void)tug_unmap_watch_add(at, at + 65536);
        pthread_mutex_lock(&tug_unmap_lock);
        noted = at;
        pthread_mutex_unlock(&tug_unmap_lock);
        munmap((void *)at, 65536);
    }
    return NULL;
}

/* Another thread is given the addresses by the kernel as soon as they are free. While the watch
 * sees all, memory that it has been given is not noted as the memory that was there before. */
static void given_anew(void **state) {
    (void)state;
    pthread_t other;
    unsigned same = 0;
    tug_unmap_watch_end();
    assert_true(tug_unmap_watch_begin(drop_note));
    assert_int_equal(pthread_create(&other, NULL, unmap_and_map, NULL), 0);
    for (int i = 0; i < 20000; i++) {
        void *at = mmap(NULL, 65536, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        pthread_mutex_lock(&tug_unmap_lock);
        const bool is_noted = noted == (uintptr_t)at, stale = is_noted && tug_unmap_watch_sees();
        pthread_mutex_unlock(&tug_unmap_lock);
        assert_false(stale);
        same += is_noted;
        munmap(at, 65536);
    }
    atomic_store(&ending, true);
    pthread_join(other, NULL);
    printf("%u times memory had gone of which that had not been reported\n", same);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(unmapped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(unmapped_in_part, set_up, tear_down),
        cmocka_unit_test_setup_teardown(dropped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(moved, set_up, tear_down),
        cmocka_unit_test_setup_teardown(mapped_over, set_up, tear_down),
        cmocka_unit_test_setup_teardown(freed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(heap_shrunk, set_up, tear_down),
        cmocka_unit_test_setup_teardown(others_unmapped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(used, set_up, tear_down),
        cmocka_unit_test_setup_teardown(segment_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(shared_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(child_goes_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(given_anew, set_up, tear_down),
        cmocka_unit_test_setup_teardown(half_closed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(closed, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
