/* Cross-memory attach with a child process: data both ways, what the kernel does not do at once,
 * and what it refuses. The system calls go through a wrapper that can interrupt and shorten them.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/settings.h"
#include "base/system_page.h"
#include "check.h"
#include "node/cma.h"
#include "node/neighbour.h"
#include "tugboat/tugboat.h"

#define PAGES 16
#define WORD UINT64_C(0x1122334455667788)

/* ---- the wrapped calls ---- */

static unsigned interrupts; /* so many calls end with EINTR */
static size_t at_most;      /* no call moves more; 0: as it likes */
static unsigned calls;

static size_t smallest(size_t a, size_t b, size_t c) {
    a = b < a ? b : a;
    return c < a ? c : a;
}

#define WRAP(name)                                                                                 \
    ssize_t __real_##name(pid_t, const struct iovec *, unsigned long, const struct iovec *,        \
                          unsigned long, unsigned long);                                           \
    ssize_t __wrap_##name(pid_t, const struct iovec *, unsigned long, const struct iovec *,        \
                          unsigned long, unsigned long);                                           \
    ssize_t __wrap_##name(pid_t pid, const struct iovec *local, unsigned long nlocal,              \
                          const struct iovec *remote, unsigned long nremote,                       \
                          unsigned long flags) {                                                   \
        struct iovec cut[2] = {*local, *remote};                                                   \
        calls++;                                                                                   \
        if (interrupts > 0) {                                                                      \
            interrupts--;                                                                          \
            errno = EINTR;                                                                         \
            return -1;                                                                             \
        }                                                                                          \
        if (at_most == 0)                                                                          \
            return __real_##name(pid, local, nlocal, remote, nremote, flags);                      \
        cut[0].iov_len = cut[1].iov_len = smallest(at_most, cut[0].iov_len, cut[1].iov_len);       \
        return __real_##name(pid, &cut[0], 1, &cut[1], 1, flags);                                  \
    }

WRAP(process_vm_readv)
WRAP(process_vm_writev)

static unsigned allowed; /* so often was this process opened to others of its user */
static unsigned asked;   /* so often was the system's scope looked at */

int __real_prctl(int option, ...);
int __wrap_prctl(int option, ...);
void __real_tug_cma_allow(const char *scope);
void __wrap_tug_cma_allow(const char *scope);

int __wrap_prctl(int option, ...) {
    unsigned long words[4];
    va_list arguments;
    va_start(arguments, option);
    for (int i = 0; i < 4; i++)
        words[i] = va_arg(arguments, unsigned long);
    va_end(arguments);
    if (option != PR_SET_PTRACER)
        return __real_prctl(option, words[0], words[1], words[2], words[3]);
    assert_true(words[0] == PR_SET_PTRACER_ANY);
    allowed++;
    errno = EINVAL; /* as without Yama */
    return -1;
}

void __wrap_tug_cma_allow(const char *scope) {
    asked += strcmp(scope, "/proc/sys/kernel/yama/ptrace_scope") == 0;
    __real_tug_cma_allow(scope);
}

/* ---- the peer ---- */

/* Memory that is the child's own after the fork, at the same address in both. */
static unsigned char *theirs;
static size_t page_bytes;
static pid_t child;
static int to_child[2], from_child[2];

static unsigned char pattern(size_t i) {
    return (unsigned char)(i * 131 + (i >> 8) * 7 + 3);
}

static struct tug_cma_ask *ask; /* shared with the child */
static unsigned faults;

/* Of a program that protects pages: notes the access, and gives the page back. */
static void on_fault(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    faults++;
    if (mprotect((void *)tug_page_down((uintptr_t)info->si_addr), page_bytes,
                 PROT_READ | PROT_WRITE) != 0)
        _exit(1);
}

static void handle_faults(void) {
    const struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    assert_int_equal(sigaction(SIGSEGV, &action, NULL), 0);
}

/* Fills the memory, then answers each byte by the sum of the memory, until the pipe ends; 1 also by
 * an answer to what it is asked. */
static void be_the_peer(void) {
    char byte = 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    handle_faults();
    for (size_t i = 0; i < PAGES * page_bytes; i++)
        theirs[i] = pattern(i);
    memcpy(theirs + 2 * page_bytes, &(uint64_t){WORD}, 8);
    munmap(theirs + (PAGES - 1) * page_bytes, page_bytes);
    mprotect(theirs + (PAGES - 2) * page_bytes, page_bytes, PROT_READ);
    while (write(from_child[1], &byte, 1) == 1 && read(to_child[0], &byte, 1) == 1) {
        uint64_t sum = 0;
        if (byte == 1 && (!tug_cma_answer(ask) || faults == 0))
            break;
        for (size_t i = 0; i < (PAGES - 1) * page_bytes; i++)
            sum = sum * 31 + theirs[i];
        byte = 0;
        if (write(from_child[1], &sum, sizeof(sum)) != sizeof(sum))
            break;
    }
    _exit(0);
}

static int start_peer(void **state) {
    char byte;
    (void)state;
    interrupts = 0;
    at_most = 0;
    calls = 0;
    page_bytes = tug_page_bytes();
    theirs =
        mmap(NULL, PAGES * page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ask = mmap(NULL, sizeof(*ask), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (theirs == MAP_FAILED || ask == MAP_FAILED || pipe(to_child) != 0 || pipe(from_child) != 0)
        return -1;
    child = fork();
    if (child < 0)
        return -1;
    if (child == 0) {
        close(to_child[1]);
        close(from_child[0]);
        be_the_peer();
    }
    close(to_child[0]);
    close(from_child[1]);
    return read(from_child[0], &byte, 1) == 1 ? 0 : -1;
}

static int stop_peer(void **state) {
    (void)state;
    if (child > 0) {
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    close(to_child[1]);
    close(from_child[0]);
    munmap(theirs, PAGES * page_bytes);
    munmap(ask, sizeof(*ask));
    return 0;
}

static uint64_t address(size_t offset) {
    return (uint64_t)(uintptr_t)(theirs + offset);
}

/* What is in the peer's memory, as it sees it itself. */
static uint64_t peer_sum_after(char byte) {
    uint64_t sum = 0;
    assert_int_equal(write(to_child[1], &byte, 1), 1);
    assert_int_equal(read(from_child[0], &sum, sizeof(sum)), sizeof(sum));
    assert_int_equal(read(from_child[0], &byte, 1), 1);
    return sum;
}

static uint64_t peer_sum(void) {
    return peer_sum_after(0);
}

/* ---- cases ---- */

static void the_machine_has_it_or_says_why(void **state) {
    char reason[256] = "nothing";
    (void)state;
    errno = 4711;
    assert_false(tug_cma_missing(reason)); /* main() has asked already */
    assert_string_equal(reason, "nothing");
    assert_int_equal(errno, 4711);
}

static void read_by(int (*read_theirs)(pid_t, void *, uint64_t, size_t), size_t bytes) {
    unsigned char *copy = malloc(bytes + 2);
    for (size_t shift = 0; shift < 3; shift++) {
        memset(copy, 0x5a, bytes + 2);
        const size_t from = 3 * page_bytes + shift;
        assert_int_equal(read_theirs(child, copy + 1, address(from), bytes), 0);
        for (size_t i = 0; i < bytes; i++)
            assert_int_equal(copy[1 + i], pattern(from + i));
        assert_int_equal(copy[0], 0x5a);
        assert_int_equal(copy[bytes + 1], 0x5a);
    }
    free(copy);
}

static void reads_what_the_peer_wrote(void **state) {
    static const size_t lengths[] = {1, 32, 33, 40, 2049};
    (void)state;
    read_by(tug_cma_read, 5 * page_bytes + 13);
    read_by(tug_cma_read_beside, 5 * page_bytes + 13);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
        read_by(tug_cma_read_beside, lengths[i]);
}

static void writes_what_the_peer_reads(void **state) {
    const size_t bytes = 5 * page_bytes + 13, at = page_bytes + 5;
    const size_t all = (PAGES - 1) * page_bytes;
    unsigned char *data = malloc(all);
    uint64_t sum = 0;
    (void)state;
    for (size_t i = 0; i < all; i++)
        data[i] = pattern(i);
    memcpy(data + 2 * page_bytes, &(uint64_t){WORD}, 8);
    for (size_t i = 0; i < bytes; i++)
        data[at + i] = (unsigned char)(i ^ 0x77);
    for (size_t i = 0; i < all; i++)
        sum = sum * 31 + data[i];
    assert_int_not_equal(peer_sum(), sum);
    assert_int_equal(tug_cma_write(child, data + at, address(at), bytes), 0);
    assert_int_equal(peer_sum(), sum); /* those bytes and no others */
    free(data);
}

static void nothing_to_move_is_no_call(void **state) {
    (void)state;
    assert_int_equal(tug_cma_read(child, NULL, 0, 0), 0);
    assert_int_equal(tug_cma_write(child, NULL, 0, 0), 0);
    assert_int_equal(calls, 0);
}

static void goes_on_after_interrupts_and_short_moves(void **state) {
    const size_t bytes = 2 * page_bytes;
    unsigned char *copy = malloc(bytes);
    (void)state;
    interrupts = 3;
    at_most = 1000;
    errno = 4711;
    assert_int_equal(tug_cma_read(child, copy, address(page_bytes * 3), bytes), 0);
    assert_int_equal(errno, 4711);
    assert_int_equal(calls, 3 + (bytes + 999) / 1000);
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(copy[i], pattern(page_bytes * 3 + i));
    const uint64_t before = peer_sum();
    interrupts = 1;
    assert_int_equal(tug_cma_write(child, copy, address(page_bytes * 3), bytes), 0);
    assert_int_equal(peer_sum(), before); /* the same bytes, at the same place */
    free(copy);
}

/* From a page that is open on, over one that is protected: what has moved stays. */
static void the_peer_is_asked_for_what_it_protects(void **state) {
    const size_t at = (PAGES - 3) * page_bytes + 100, bytes = 2 * page_bytes - 200;
    unsigned char *data = malloc(bytes);
    size_t moved = 0;
    (void)state;
    memset(data, 0x5a, bytes);
    assert_int_equal(tug_cma_move(child, true, data, address(at), bytes, &moved, ask),
                     TUG_ERR_FULL);
    assert_int_equal(moved, page_bytes - 100);
    assert_int_equal(ask->at, address(at) + moved);
    assert_int_equal(ask->bytes, bytes - moved);
    const unsigned before = calls;
    assert_int_equal(tug_cma_move(child, true, data, address(at), bytes, &moved, ask),
                     TUG_ERR_FULL); /* it has not answered */
    assert_int_equal(calls, before);
    (void)peer_sum_after(1);
    assert_int_equal(tug_cma_move(child, true, data, address(at), bytes, &moved, ask), 0);
    assert_false(tug_cma_answer(ask)); /* nobody asks any more */
    memset(data, 0, bytes);
    moved = 0;
    assert_int_equal(tug_cma_move(child, false, data, address(at), bytes, &moved, ask), 0);
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(data[i], 0x5a);
    free(data);
}

static void a_move_accesses_its_own_protected_pages(void **state) {
    const size_t bytes = 3 * page_bytes;
    unsigned char *own =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct sigaction old;
    size_t moved = 0;
    (void)state;
    assert_ptr_not_equal(own, MAP_FAILED);
    assert_int_equal(sigaction(SIGSEGV, NULL, &old), 0);
    handle_faults();
    faults = 0;
    mprotect(own, bytes, PROT_READ);
    assert_int_equal(tug_cma_move(child, false, own, address(3 * page_bytes), bytes, &moved, ask),
                     0);
    assert_int_equal(faults, 3);
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(own[i], pattern(3 * page_bytes + i));
    mprotect(own + page_bytes, page_bytes, PROT_NONE);
    moved = 0;
    assert_int_equal(tug_cma_move(child, true, own, address(3 * page_bytes), bytes, &moved, ask),
                     0);
    assert_int_equal(faults, 4);
    assert_int_equal(atomic_load(&ask->asks), 0);
    sigaction(SIGSEGV, &old, NULL);
    munmap(own, bytes);
}

static void nobody_is_asked_for_what_is_not_mapped(void **state) {
    unsigned char byte;
    size_t moved = 0;
    (void)state;
    assert_int_equal(
        tug_cma_move(child, false, &byte, address((PAGES - 1) * page_bytes), 1, &moved, ask),
        TUG_ERR_RANGE);
    assert_int_equal(atomic_load(&ask->asks), 0);
}

static void memory_that_is_not_there_is_a_range_error(void **state) {
    const size_t gone = (PAGES - 1) * page_bytes, readable = (PAGES - 2) * page_bytes;
    unsigned char *copy = malloc(2 * page_bytes);
    unsigned char *closed = mmap(NULL, page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    (void)state;
    assert_ptr_not_equal(closed, MAP_FAILED);
    errno = 4711;
    assert_int_equal(tug_cma_read(child, copy, address(gone), 1), TUG_ERR_RANGE);
    assert_int_equal(tug_cma_read(child, copy, 0, 8), TUG_ERR_RANGE);
    assert_int_equal(tug_cma_read(child, copy, UINT64_MAX - 3, 8), TUG_ERR_RANGE);
    assert_int_equal(tug_cma_write(child, copy, address(gone), 1), TUG_ERR_RANGE);
    assert_int_equal(tug_cma_write(child, copy, address(readable), 1), TUG_ERR_RANGE);
    assert_int_equal(tug_cma_read(child, copy, address(readable), page_bytes), 0);
    /* on this side */
    assert_int_equal(tug_cma_read(child, closed, address(0), 8), TUG_ERR_RANGE);
    assert_int_equal(tug_cma_write(child, closed, address(0), 8), TUG_ERR_RANGE);
    /* the first page is there, the second is not */
    assert_int_equal(tug_cma_read(child, copy, address(readable), 2 * page_bytes), TUG_ERR_RANGE);
    for (size_t i = 0; i < page_bytes; i++)
        assert_int_equal(copy[i], pattern(readable + i));
    assert_int_equal(errno, 4711);
    munmap(closed, page_bytes);
    free(copy);
}

static void a_dead_peer_is_a_peer_error(void **state) {
    uint64_t word = 1;
    siginfo_t info;
    (void)state;
    kill(child, SIGKILL);
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(tug_cma_read(child, &word, address(0), 8), TUG_ERR_PEER); /* not buried yet */
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(tug_cma_read(child, &word, address(0), 8), TUG_ERR_PEER);
    assert_int_equal(tug_cma_write(child, &word, address(0), 8), TUG_ERR_PEER);
    assert_false(tug_cma_probe(child, address(2 * page_bytes), WORD));
    child = 0;
}

static void the_probe_wants_the_word(void **state) {
    (void)state;
    assert_true(tug_cma_probe(child, address(2 * page_bytes), WORD));
    assert_false(tug_cma_probe(child, address(2 * page_bytes), WORD ^ 1));
    assert_false(tug_cma_probe(child, address(2 * page_bytes + 1), WORD));
    assert_false(tug_cma_probe(child, address((PAGES - 1) * page_bytes), WORD));
    /* this process has something else there */
    assert_false(tug_cma_probe(getpid(), address(2 * page_bytes), WORD));
}

/* A file that says so in the place of the system's; NULL: there is none. */
static unsigned allowed_by(const char *scope) {
    char path[] = "/tmp/test_cma.XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    if (scope == NULL)
        unlink(path);
    else
        assert_int_equal(write(file, scope, strlen(scope)), strlen(scope));
    close(file);
    allowed = 0;
    errno = 4711;
    tug_cma_allow(path);
    assert_int_equal(errno, 4711);
    if (scope != NULL)
        unlink(path);
    return allowed;
}

static void opens_itself_only_where_yama_asks_for_it(void **state) {
    (void)state;
    assert_int_equal(allowed_by("1\n"), 1);
    assert_int_equal(allowed_by("0\n"), 0);
    assert_int_equal(allowed_by("2\n"), 0);
    assert_int_equal(allowed_by("3\n"), 0);
    assert_int_equal(allowed_by(""), 0);
    assert_int_equal(allowed_by(NULL), 0);
}

/* Once, if there are others who may attach. */
static void a_rank_with_others_asks_yama(void **state) {
    (void)state;
    tug_settings.transports = TUG_WAY_CMA | TUG_WAY_SHM;
    (void)tug_introduce(false);
    assert_int_equal(asked, 0);
    tug_settings.transports = TUG_WAY_SHM;
    (void)tug_introduce(true);
    assert_int_equal(asked, 0);
    tug_settings.transports = TUG_WAY_CMA | TUG_WAY_SHM;
    (void)tug_introduce(true);
    (void)tug_introduce(true);
    assert_int_equal(asked, 1);
}

/* Runs it in a process of its own: 0 is good. */
static int in_a_process(int (*function)(void)) {
    int status = -1;
    const pid_t pid = fork();
    if (pid == 0)
        _exit(function());
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
        return -1;
    return WEXITSTATUS(status);
}

static int another_user_tries(void) {
    uint64_t word = 0;
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
        return 77;
    if (tug_cma_read(child, &word, address(0), 8) != TUG_ERR_SYSTEM)
        return 1;
    if (tug_cma_write(child, &word, address(0), 8) != TUG_ERR_SYSTEM)
        return 2;
    return tug_cma_probe(child, address(2 * page_bytes), WORD) ? 3 : 0;
}

static void a_refusal_is_a_system_error(void **state) {
    (void)state;
    if (geteuid() != 0)
        skip(); /* one's own processes can be read, and there is no other user to be */
    const int status = in_a_process(another_user_tries);
    if (status == 77)
        skip();
    assert_int_equal(status, 0);
}

static int forbid_readv(uint32_t answer) {
    const struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, answer),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {4, (struct sock_filter *)(uintptr_t)filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static int missing_by(uint32_t error, const char *word) {
    char reason[256] = "";
    if (forbid_readv(SECCOMP_RET_ERRNO | error) != 0)
        return 77;
    if (!tug_cma_missing(reason))
        return 1;
    return strstr(reason, word) != NULL && strchr(reason, '\n') == NULL ? 0 : 2;
}

static int seccomp_says_eperm(void) {
    return missing_by(EPERM, "refused here: Operation not permitted");
}

static int seccomp_says_enosys(void) {
    return missing_by(ENOSYS, "the kernel has no");
}

/* A filter that swallows the call and says that nothing was moved. */
static int seccomp_says_nothing(void) {
    return missing_by(0, "something else");
}

static void a_filter_makes_it_missing(void **state) {
    int (*const filters[])(void) = {seccomp_says_eperm, seccomp_says_enosys, seccomp_says_nothing};
    (void)state;
    for (int i = 0; i < 3; i++) {
        const int status = in_a_process(filters[i]);
        if (status == 77)
            skip(); /* no filters in this kernel */
        assert_int_equal(status, 0);
    }
}

/* Memory of `repeats` times the same two MiB and a page of its own behind. */
static unsigned char *map_repeated(size_t repeats, unsigned char byte) {
    const size_t block = (size_t)2 << 20;
    const int file = memfd_create("cma", 0);
    if (file < 0 || ftruncate(file, (off_t)(block + page_bytes)) != 0)
        return NULL;
    unsigned char *memory = mmap(NULL, repeats * block + page_bytes, PROT_NONE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    for (size_t i = 0; i <= repeats; i++) {
        const off_t from = i < repeats ? 0 : (off_t)block;
        if (mmap(memory + i * block, i < repeats ? block : page_bytes, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_FIXED, file, from) == MAP_FAILED)
            return NULL;
    }
    close(file);
    memset(memory, byte, block);
    memset(memory + repeats * block, byte + 1, page_bytes);
    return memory;
}

/* One call of the kernel moves at most 0x7ffff000 bytes. */
static void more_than_two_gibibytes(void **state) {
    const size_t repeats = 1024, block = (size_t)2 << 20, all = repeats * block;
    unsigned char *from = map_repeated(repeats, 0x11), *to = map_repeated(repeats, 0x22);
    (void)state;
    assert_non_null(from);
    assert_non_null(to);
    to[all + 5] = 0x99;
    assert_int_equal(tug_cma_read(getpid(), to, (uint64_t)(uintptr_t)from, all + 5), 0);
    assert_memory_equal(to, from, block);
    assert_memory_equal(to + all, from + all, 5);
    assert_int_equal(to[all + 5], 0x99);
    munmap(from, all + page_bytes);
    munmap(to, all + page_bytes);
}

/* As many bytes on both sides, in other pieces; some calls stop in the middle of one. */
static void pieces_differ_on_the_two_sides(void **state) {
    (void)state;
    unsigned char from[96], back[96];
    for (size_t i = 0; i < sizeof(from); i++)
        from[i] = (unsigned char)(7 * i + 3);
    for (at_most = 0; at_most < 20; at_most += 19) {
        interrupts = 1;
        struct iovec here[] = {{from, 10}, {from + 10, 50}, {from + 60, 36}};
        struct iovec there[] = {{theirs + 100, 33}, {theirs + 300, 1}, {theirs + page_bytes, 62}};
        assert_int_equal(tug_cma_write_pieces(child, &(struct tug_cma_pieces){here, 3},
                                              &(struct tug_cma_pieces){there, 3}),
                         0);
        struct iovec all = {back, sizeof(back)};
        struct iovec again[] = {{theirs + 100, 33}, {theirs + 300, 1}, {theirs + page_bytes, 62}};
        memset(back, 0, sizeof(back));
        assert_int_equal(tug_cma_read_pieces(child, &(struct tug_cma_pieces){&all, 1},
                                             &(struct tug_cma_pieces){again, 3}),
                         0);
        assert_memory_equal(from, back, sizeof(from));
    }
    at_most = 0;
    struct iovec here = {from, 4}, nowhere = {NULL, 4};
    assert_int_equal(tug_cma_write_pieces(child, &(struct tug_cma_pieces){&here, 1},
                                          &(struct tug_cma_pieces){&nowhere, 1}),
                     TUG_ERR_RANGE);
}

/* The number of a peer that was found may be another process's later, as one whose word is another
 * stands for here. A process that never was found is not looked for. */
static void a_number_that_is_anothers(void **state) {
    uint64_t other = WORD + 1, seen = 0;
    (void)state;
    struct iovec here = {&other, 8}, there = {theirs + 2 * page_bytes, 8};
    assert_true(tug_cma_probe(child, address(2 * page_bytes), WORD));
    assert_int_equal(tug_cma_write(child, &other, address(0), 8), 0);
    assert_int_equal(__real_process_vm_writev(child, &here, 1, &there, 1, 0), 8);
    check_sleep_us(30000); /* more than a tick of the clock */
    other = 0;
    assert_int_equal(tug_cma_write(child, &other, address(0), 8), TUG_ERR_PEER);
    assert_int_equal(tug_cma_read(child, &seen, address(0), 8), TUG_ERR_PEER);
    here.iov_base = &seen;
    there.iov_base = theirs;
    assert_int_equal(__real_process_vm_readv(child, &here, 1, &there, 1, 0), 8);
    assert_int_equal(seen, WORD + 1);
    assert_true(tug_cma_probe(child, address(2 * page_bytes), WORD + 1)); /* known anew */
    assert_int_equal(tug_cma_write(child, &other, address(0), 8), 0);
}

#define WITH_PEER(case) cmocka_unit_test_setup_teardown(case, start_peer, stop_peer)

int main(void) {
    char reason[256];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_machine_has_it_or_says_why),
        WITH_PEER(reads_what_the_peer_wrote),
        WITH_PEER(writes_what_the_peer_reads),
        WITH_PEER(nothing_to_move_is_no_call),
        WITH_PEER(goes_on_after_interrupts_and_short_moves),
        WITH_PEER(pieces_differ_on_the_two_sides),
        WITH_PEER(the_peer_is_asked_for_what_it_protects),
        WITH_PEER(a_move_accesses_its_own_protected_pages),
        WITH_PEER(nobody_is_asked_for_what_is_not_mapped),
        WITH_PEER(memory_that_is_not_there_is_a_range_error),
        WITH_PEER(a_dead_peer_is_a_peer_error),
        cmocka_unit_test(opens_itself_only_where_yama_asks_for_it),
        cmocka_unit_test(a_rank_with_others_asks_yama),
        WITH_PEER(the_probe_wants_the_word),
        WITH_PEER(a_number_that_is_anothers),
        WITH_PEER(a_refusal_is_a_system_error),
        WITH_PEER(a_filter_makes_it_missing),
        cmocka_unit_test(more_than_two_gibibytes),
    };
    if (tug_cma_missing(reason)) {
        printf("skipped: %s\n", reason);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
