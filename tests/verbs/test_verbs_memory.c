/* What a process keeps of its peers is what `tugboat info --memory` says: measured with 64 of them.
 *
 * One process, of 65 that are all in this one, has a connection to each of the others, and they to
 * it. What the transport allocates and maps while that process's functions are called is counted,
 * and compared with what tug_verbs_footprint() computes for as many. What libibverbs and the
 * device's driver keep for the queues is not in it: the table has estimates for that. */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "fake.h"

enum { PEERS = FAKE_PROCESSES - 1, AREA = 4096 };
_Static_assert(PEERS == 64, "as many as are measured");

/* ---- counting: the linker puts these functions in the place of the C library's (--wrap) ---- */

static size_t kept; /* bytes of process 0 */

static bool counts(void) {
    return fake_acting == &fakes[0];
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void __real_free(void *old);
void *__real_mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset);
int __real_munmap(void *at, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void __wrap_free(void *old);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset);
int __wrap_munmap(void *at, size_t bytes);

static void *count(void *made) {
    if (counts() && made != NULL)
        kept += malloc_usable_size(made);
    return made;
}

static void count_not(void *old) {
    if (counts() && old != NULL)
        kept -= malloc_usable_size(old);
}

void *__wrap_malloc(size_t bytes) {
    return count(__real_malloc(bytes));
}

void *__wrap_calloc(size_t n, size_t bytes) {
    return count(__real_calloc(n, bytes));
}

void *__wrap_realloc(void *old, size_t bytes) {
    count_not(old);
    return count(__real_realloc(old, bytes));
}

void __wrap_free(void *old) {
    count_not(old);
    __real_free(old);
}

void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset) {
    void *made = __real_mmap(at, bytes, protection, flags, file, offset);
    kept += counts() && made != MAP_FAILED ? bytes : 0;
    return made;
}

int __wrap_munmap(void *at, size_t bytes) {
    kept -= counts() ? bytes : 0;
    return __real_munmap(at, bytes);
}

/* ---- 65 processes ---- */

static struct tug_registration *memory[FAKE_PROCESSES];
static unsigned char bytes[FAKE_PROCESSES][AREA];

static void write_to(unsigned from, unsigned to) {
    struct fake_end end;
    fake_post(&fakes[from], fake_operation(&fakes[from], to, TUG_OPERATION_WRITE, memory[to],
                                           from * 8, memory[from], 0, 8, &end));
    assert_true(fake_finish(60));
    assert_int_equal(end.status, 0);
}

static void meet(unsigned peer) {
    fake_add(0, peer);
    memory[peer] = fake_register(&fakes[peer], bytes[peer], AREA);
    write_to(0, peer);
    write_to(peer, 0);
}

/* Within a tenth. */
static void assert_near(const char *what, size_t measured, size_t computed) {
    printf("%s: %zu bytes measured, %zu computed\n", what, measured, computed);
    assert_in_range(measured * 10, computed * 9, computed * 11);
}

static size_t of_peers(const struct tug_verbs_footprint *footprint) {
    return footprint->contacts + footprint->pairs;
}

static void memory_of_peers(void **state) {
    (void)state;
    struct tug_verbs_footprint at_first, half, all;
    fake_carries = true;
    fake_add(0, 0);
    assert_non_null(fakes[0].verbs->messages);
    memory[0] = fake_register(&fakes[0], bytes[0], AREA);
    assert_true(tug_verbs_footprint(FAKE_OPERATIONS, 1, &at_first));
    assert_near("alone", kept, at_first.view + at_first.endpoint + at_first.messages);
    const size_t alone = kept - at_first.messages;
    unsigned peer = 1;
    for (; peer <= PEERS / 2; peer++)
        meet(peer);
    assert_true(tug_verbs_footprint(FAKE_OPERATIONS, PEERS / 2, &half));
    assert_near("32 peers", kept - alone - half.messages, of_peers(&half));
    for (; peer <= PEERS; peer++)
        meet(peer);
    assert_true(tug_verbs_footprint(FAKE_OPERATIONS, PEERS, &all));
    assert_near("64 peers", kept - alone - all.messages, of_peers(&all));
    assert_int_equal(fakes[0].verbs->nsenders, PEERS);
    assert_int_equal(fakes[0].verbs->nservers, PEERS);
    assert_int_equal(all.connected, PEERS);
    assert_int_equal(fakes[0].verbs->messages->nreceives, TUG_VERBS_RECEIVES_MOST);
    for (unsigned i = 0; i <= PEERS; i++)
        fake_deregister(&fakes[i], memory[i]);
    fake_close();
}

/* With few connections, of which each peer has one for a while, most of the peers are forgotten. */
static void memory_of_those_forgotten(void **state) {
    (void)state;
    enum { PAIRS = 4 };
    struct tug_verbs_footprint all;
    kept = 0;
    fake_carries = true;
    tug_settings.verbs_pairs = PAIRS;
    fake_add(0, 0);
    memory[0] = fake_register(&fakes[0], bytes[0], AREA);
    const size_t alone = kept;
    for (unsigned peer = 1; peer <= PEERS; peer++)
        meet(peer);
    assert_true(tug_verbs_footprint(FAKE_OPERATIONS, PEERS, &all));
    assert_int_equal(all.known, TUG_VERBS_KNOWN_MOST(PAIRS));
    const size_t receives =
        (fakes[0].verbs->messages->nreceives / TUG_VERBS_RECEIVES - 1) *
        (sizeof(struct tug_verbs_block) + TUG_VERBS_RECEIVES * TUG_VERBS_MESSAGE_BYTES);
    printf("%zu bytes measured, %zu computed\n", kept - alone - receives, of_peers(&all));
    assert_true(kept - alone - receives <= of_peers(&all) * 11 / 10);
    for (unsigned peer = 1; peer <= PEERS; peer++) {
        write_to(0, peer);
        write_to(peer, 0);
    }
    assert_in_range(fakes[0].verbs->npairs, PAIRS, TUG_VERBS_KNOWN_MOST(PAIRS) + 1);
    tug_settings.verbs_pairs = 1024;
    for (unsigned i = 0; i <= PEERS; i++)
        fake_deregister(&fakes[i], memory[i]);
    fake_close();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(memory_of_peers),
                                       cmocka_unit_test(memory_of_those_forgotten)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
