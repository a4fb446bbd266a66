/* Lent memory: pieces of a lender's file seen from another process, for as long as they live and
 * after, and all that can be amiss. There is one file a process: every test has a process of its
 * own, but the last. */
#include <sys/stat.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "node/lent.h"
#include "node/page.h"

#define BYTES ((size_t)100000)

/* Bytes of files like ours that are mapped: as pieces (w), as views (r). */
static size_t count_mapped(char how) {
    FILE *file = fopen("/proc/self/maps", "re");
    assert_non_null(file);
    char line[512], mode[8];
    size_t begin, end, bytes = 0;
    while (fgets(line, sizeof(line), file) != NULL)
        if (strstr(line, "memfd:tugboat") != NULL &&
            sscanf(line, "%zx-%zx %7s", &begin, &end, mode) == 3)
            bytes += (mode[1] == 'w' ? 'w' : 'r') == how ? end - begin : 0;
    fclose(file);
    return bytes;
}

static unsigned count_descriptors(void) {
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    unsigned n = 0;
    while (readdir(folder) != NULL)
        n++;
    closedir(folder);
    return n;
}

/* Two processes take turns by bytes through pipes. */
struct pair {
    int to_child[2], to_parent[2];
    pid_t child;
};

static void give_turn(int fd) {
    assert_int_equal(write(fd, "", 1), 1);
}

static void take_turn(int fd) {
    char byte;
    assert_int_equal(read(fd, &byte, 1), 1);
}

static bool is_child(struct pair *pair) {
    assert_int_equal(pipe(pair->to_child), 0);
    assert_int_equal(pipe(pair->to_parent), 0);
    pair->child = fork();
    if (pair->child != 0) { /* who ends early is noticed */
        close(pair->to_child[0]);
        close(pair->to_parent[1]);
    }
    return pair->child == 0;
}

/* The child ends with the number of what was wrong. */
static void assert_child_was_right(const struct pair *pair) {
    int status;
    assert_int_equal(waitpid(pair->child, &status, 0), pair->child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

#define RIGHT(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            _exit(__LINE__ % 255 + 1);                                                             \
    } while (0)

static void alone(void (*body)(void)) {
    pid_t child = fork();
    if (child == 0) {
        body();
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* ---- the lender ---- */

static void pieces_body(void) {
    unsigned char *a = tug_lent_allocate(BYTES), *b = tug_lent_allocate(2 * BYTES);
    RIGHT(a != NULL && b != NULL && (uintptr_t)a % 4096 == 0);
    for (size_t i = 0; i < 2 * BYTES; i++)
        RIGHT(b[i] == 0);
    memset(a, 1, BYTES);
    memset(b, 2, 2 * BYTES);
    RIGHT(a[0] == 1 && a[BYTES - 1] == 1);
    struct tug_offer whole = tug_lent_offer(b, 2 * BYTES), part = tug_lent_offer(b + 5000, 10);
    RIGHT(whole.name != 0 && whole.distance == 0 && whole.bytes >= 2 * BYTES);
    RIGHT(part.name == whole.name && part.offset == whole.offset && part.distance == 5000);
    RIGHT(tug_lent_offer(a, BYTES).offset != whole.offset);
    RIGHT(tug_lent_offer(b, whole.bytes + 1).name == 0);
    RIGHT(tug_lent_offer(b + 5000, whole.bytes - 4999).name == 0);
    RIGHT(tug_lent_offer(&whole, 1).name == 0);
    RIGHT(!tug_lent_free(b + 4096) && !tug_lent_free(&whole) && !tug_lent_free(NULL));
    RIGHT(tug_lent_free(b) && !tug_lent_free(b));
    RIGHT(tug_lent_offer(b, 1).name == 0);
    unsigned char *c = tug_lent_allocate(2 * BYTES);
    for (size_t i = 0; i < 2 * BYTES; i++)
        RIGHT(c[i] == 0);
    RIGHT(a[0] == 1 && tug_lent_free(c) && tug_lent_free(a));
}

static void pieces(void **state) {
    (void)state;
    alone(pieces_body);
}

static void limited_body(void) {
    struct rlimit none = {0, RLIM_INFINITY};
    RIGHT(setrlimit(RLIMIT_FSIZE, &none) == 0);
    RIGHT(tug_lent_allocate(BYTES) == NULL);
    none.rlim_cur = RLIM_INFINITY;
    RIGHT(setrlimit(RLIMIT_FSIZE, &none) == 0);
    struct rlimit files = {3, 3};
    RIGHT(tug_lent_allocate(SIZE_MAX) == NULL && tug_lent_allocate((size_t)1 << 62) == NULL);
    RIGHT(tug_lent_allocate(BYTES) != NULL);
    RIGHT(setrlimit(RLIMIT_NOFILE, &files) == 0);
    RIGHT(tug_lent_allocate(BYTES) != NULL); /* the file is there */
}

static void no_file_body(void) {
    struct rlimit files = {0, 0};
    RIGHT(setrlimit(RLIMIT_NOFILE, &files) == 0);
    RIGHT(tug_lent_allocate(BYTES) == NULL);
}

static void limited(void **state) {
    (void)state;
    alone(limited_body);
    alone(no_file_body);
}

/* The program closes what is not its own, and gets the number for a file of its own. */
static void closed_body(void) {
    unsigned char *memory = tug_lent_allocate(BYTES);
    int fd = (int)(uint32_t)tug_lent_offer(memory, 1).lender;
    char text[16] = "the program's", again[16];
    RIGHT(close(fd) == 0);
    RIGHT(tug_lent_offer(memory, 1).name == 0 && tug_lent_allocate(BYTES) == NULL);
    RIGHT(dup2(memfd_create("mine", 0), fd) == fd);
    RIGHT(write(fd, text, sizeof(text)) == sizeof(text));
    RIGHT(tug_lent_offer(memory, 1).name == 0 && tug_lent_allocate(BYTES) == NULL);
    memset(memory, 7, BYTES);
    RIGHT(tug_lent_free(memory));
    RIGHT(pread(fd, again, sizeof(again), 0) == sizeof(again) && strcmp(text, again) == 0);
    RIGHT(lseek(fd, 0, SEEK_END) == sizeof(text));
}

static void closed(void **state) {
    (void)state;
    alone(closed_body);
}

/* ---- the others ---- */

static void borrower(const struct pair *pair) {
    struct tug_offer offer;
    take_turn(pair->to_child[0]);
    RIGHT(read(pair->to_child[0], &offer, sizeof(offer)) == sizeof(offer));
    const unsigned char *seen = tug_lent_open(&offer, BYTES - 5000);
    RIGHT(seen != NULL && seen[0] == 1 && seen[BYTES - 5001] == 1);
    give_turn(pair->to_parent[1]);
    take_turn(pair->to_child[0]);
    RIGHT(seen[0] == 2); /* the same memory */
    struct tug_offer wrong = offer;
    wrong.name++;
    RIGHT(tug_lent_open(&wrong, 1) == NULL);
    wrong = offer;
    wrong.lender ^= 64;
    wrong.offset += 4096; /* or a view would be found */
    RIGHT(tug_lent_open(&wrong, 1) == NULL);
    wrong = offer;
    wrong.offset += (uint64_t)1 << 40;
    RIGHT(tug_lent_open(&wrong, 1) == NULL);
    give_turn(pair->to_parent[1]);
    take_turn(pair->to_child[0]);
    for (size_t i = 0; i < BYTES - 5000; i++) /* given back: nobody's data, and no signal */
        RIGHT(seen[i] == 0);
    tug_lent_close(&offer);
    _exit(0);
}

static void seen_by_another(void **state) {
    (void)state;
    struct pair pair;
    if (is_child(&pair))
        borrower(&pair);
    unsigned char *memory = tug_lent_allocate(BYTES);
    memset(memory, 1, BYTES);
    struct tug_offer offer = tug_lent_offer(memory + 5000, BYTES - 5000);
    give_turn(pair.to_child[1]);
    assert_int_equal(write(pair.to_child[1], &offer, sizeof(offer)), sizeof(offer));
    take_turn(pair.to_parent[0]);
    memset(memory, 2, BYTES);
    give_turn(pair.to_child[1]);
    take_turn(pair.to_parent[0]);
    assert_true(tug_lent_free(memory));
    memory = tug_lent_allocate(BYTES); /* may come to lie where the last did */
    memset(memory, 3, BYTES);
    give_turn(pair.to_child[1]);
    assert_child_was_right(&pair);
    assert_true(tug_lent_free(memory));
}

/* A view serves all who want it, and some stay; nothing grows. */
static void views_body(void) {
    enum { PIECES = 40, KEPT = 8 };
    unsigned char *memory[PIECES];
    struct tug_offer offers[PIECES];
    for (int i = 0; i < PIECES; i++) {
        memory[i] = tug_lent_allocate(BYTES);
        memory[i][0] = (unsigned char)i;
        offers[i] = tug_lent_offer(memory[i], BYTES);
    }
    unsigned char *first = tug_lent_open(&offers[0], BYTES);
    RIGHT(first != NULL && first != memory[0]);
    RIGHT(tug_lent_open(&offers[0], BYTES) == first);
    const size_t each = offers[0].bytes;
    unsigned descriptors = count_descriptors();
    for (int round = 0; round < 300; round++)
        for (int i = 0; i < PIECES; i++) {
            unsigned char *seen = tug_lent_open(&offers[i], BYTES);
            RIGHT(seen != NULL && seen[0] == i);
            tug_lent_close(&offers[i]);
        }
    RIGHT(count_descriptors() == descriptors);
    RIGHT(count_mapped('r') == (1 + KEPT) * each);
    tug_lent_close(&offers[0]);
    RIGHT(first[0] == 0 && tug_lent_open(&offers[0], BYTES) == first);
    for (int i = 1; i < PIECES; i++)
        RIGHT(tug_lent_open(&offers[i], BYTES) != NULL);
    RIGHT(count_mapped('r') == PIECES * each && count_mapped('w') == PIECES * each);
    tug_lent_close(&offers[0]);
    for (int i = 0; i < PIECES; i++)
        tug_lent_close(&offers[i]);
    RIGHT(count_mapped('r') == KEPT * each);
}

static void views(void **state) {
    (void)state;
    alone(views_body);
}

/* Of a piece that is shared there is one mapping, and it is not the one for reading. */
static void shared_body(void) {
    unsigned char *memory = tug_lent_allocate(BYTES);
    struct tug_offer offer = tug_lent_offer(memory, BYTES);
    const unsigned char *seen = tug_lent_open(&offer, BYTES);
    unsigned char *shared = tug_lent_share(&offer);
    RIGHT(seen != NULL && shared != NULL && shared != memory && shared != seen);
    RIGHT(tug_lent_share(&offer) == shared && count_mapped('w') == 2 * offer.bytes);
    shared[7] = 9;
    RIGHT(memory[7] == 9 && seen[7] == 9);
    tug_lent_unshare(&offer);
    tug_lent_unshare(&offer);
    tug_lent_close(&offer);
    RIGHT(tug_lent_share(&offer) == shared);
    struct tug_offer wrong = offer;
    wrong.name++;
    RIGHT(tug_lent_share(&wrong) == NULL);
}

static void shared(void **state) {
    (void)state;
    alone(shared_body);
}

/* Offers whose bytes do not lie where they say. */
static void unsound_body(void) {
    const unsigned char *memory = tug_lent_allocate(BYTES);
    const struct tug_offer offer = tug_lent_offer(memory, BYTES);
    struct tug_offer lie = offer, page;
    const unsigned char *seen = tug_lent_open(&offer, BYTES);
    RIGHT(seen != NULL && tug_lent_allocate(BYTES) != NULL); /* the file goes on */
    lie.distance = lie.bytes - BYTES + 1;
    RIGHT(tug_lent_open(&lie, BYTES) == NULL);
    lie.distance = UINT64_MAX;
    RIGHT(tug_lent_open(&lie, BYTES) == NULL);
    lie = offer;
    lie.bytes *= 2;
    RIGHT(tug_lent_open(&lie, lie.bytes) != seen);
    lie.bytes = UINT64_MAX;
    RIGHT(tug_lent_open(&lie, BYTES) == NULL);
    RIGHT(tug_node_page_own(&page) != NULL);
    page.distance = page.bytes - 64;
    RIGHT(tug_node_page_open(&page) == NULL);
}

static void unsound(void **state) {
    (void)state;
    alone(unsound_body);
}

/* A file of another file system with the inode that was offered. */
static void another_device_body(void) {
    char name[] = "/dev/shm/tugboat-lent-XXXXXX";
    struct stat status;
    const int fd = mkstemp(name);
    if (fd < 0)
        return;
    RIGHT(unlink(name) == 0 && ftruncate(fd, BYTES) == 0 && fstat(fd, &status) == 0);
    const struct tug_offer offer = {
        .name = status.st_ino, .lender = (uint64_t)getpid() << 32 | (uint32_t)fd, .bytes = BYTES};
    RIGHT(tug_lent_open(&offer, BYTES) == NULL && tug_lent_share(&offer) == NULL);
}

static void another_device(void **state) {
    (void)state;
    alone(another_device_body);
}

/* What a child does to the memory is its own affair, also one that was made behind the library's
 * back. */
static void inherited_body(void) {
    int status;
    unsigned char *memory = tug_lent_allocate(BYTES);
    for (int handled = 0; handled < 2; handled++) {
        memset(memory, 1, BYTES);
        const pid_t child = handled ? fork() : (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        if (child == 0) {
            RIGHT(memory[0] == 1 && memory[BYTES - 1] == 1);
            if (handled) {
                RIGHT(tug_lent_offer(memory, 1).name == 0 && count_mapped('w') == 0);
                memory[0] = 2;
            }
            RIGHT(tug_lent_free(memory) && (tug_lent_allocate(BYTES) != NULL) == handled);
            _exit(0);
        }
        RIGHT(waitpid(child, &status, 0) == child && status == 0);
        for (size_t i = 0; i < BYTES; i++)
            RIGHT(memory[i] == 1);
    }
    /* no room for a copy: the child ends if it touches the memory */
    const struct rlimit none = {1 << 20, RLIM_INFINITY};
    RIGHT(setrlimit(RLIMIT_AS, &none) == 0);
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL); /* cmocka has a handler */
        _exit(memory[0]);
    }
    RIGHT(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && memory[0] == 1);
}

static void inherited(void **state) {
    (void)state;
    alone(inherited_body);
}

/* Memory given back is the system's again, however often. */
static void given_back_body(void) {
    unsigned descriptors = 0;
    for (int i = 0; i < 10000; i++) {
        unsigned char *memory = tug_lent_allocate((size_t)1 << 20);
        RIGHT(memory != NULL);
        memory[i % (1 << 20)] = 1;
        RIGHT(tug_lent_free(memory));
        if (i == 0)
            descriptors = count_descriptors();
    }
    RIGHT(count_descriptors() == descriptors && count_mapped('w') == 0);
    struct stat status;
    char path[64];
    unsigned char *memory = tug_lent_allocate(BYTES);
    snprintf(path, sizeof(path), "/proc/self/fd/%u",
             (unsigned)(uint32_t)tug_lent_offer(memory, 1).lender);
    memory[0] = 1;
    RIGHT(stat(path, &status) == 0 && status.st_blocks * 512 <= 4096);
}

static void given_back(void **state) {
    (void)state;
    alone(given_back_body);
}

/* The other waits for the bell in this process's page, which it can ring too. */
static void ringer(const struct pair *pair) {
    struct tug_offer offer, none = {0};
    take_turn(pair->to_child[0]);
    RIGHT(read(pair->to_child[0], &offer, sizeof(offer)) == sizeof(offer));
    struct tug_node_page *page = tug_node_page_open(&offer);
    RIGHT(page != NULL && tug_node_page_open(&none) == NULL);
    while (!tug_bell_ring(&page->bell, true)) /* until somebody is about to sleep */
        usleep(1000);
    tug_node_page_close(&offer);
    _exit(0);
}

static void pages(void **state) {
    (void)state;
    struct pair pair;
    if (is_child(&pair))
        ringer(&pair);
    struct tug_offer offer, again;
    struct tug_node_page *page = tug_node_page_own(&offer);
    assert_non_null(page);
    assert_ptr_equal(tug_node_page_own(&again), page);
    assert_memory_equal(&offer, &again, sizeof(offer));
    give_turn(pair.to_child[1]);
    assert_int_equal(write(pair.to_child[1], &offer, sizeof(offer)), sizeof(offer));
    uint32_t key = tug_bell_prepare(&page->bell);
    tug_bell_wait(&page->bell, key, -1, true);
    assert_int_not_equal(atomic_load(&page->bell.word), key);
    assert_child_was_right(&pair);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces),  cmocka_unit_test(limited),    cmocka_unit_test(closed),
        cmocka_unit_test(views),   cmocka_unit_test(given_back), cmocka_unit_test(seen_by_another),
        cmocka_unit_test(shared),  cmocka_unit_test(inherited),  cmocka_unit_test(another_device),
        cmocka_unit_test(unsound), cmocka_unit_test(pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
