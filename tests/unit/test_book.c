/* Books of regions: what is entered is found by every address in it, whatever else came and went;
 * and by those who read a shown book where it is, in this process and another, while its owner
 * changes it. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "rma/book.h"

static bool refuse_memory, refuse_views;

void *__real_tug_lent_allocate(size_t bytes);
void *__wrap_tug_lent_allocate(size_t bytes);
void *__wrap_tug_lent_allocate(size_t bytes) {
    return refuse_memory ? NULL : __real_tug_lent_allocate(bytes);
}

unsigned char *__real_tug_lent_share(const struct tug_offer *offer);
unsigned char *__wrap_tug_lent_share(const struct tug_offer *offer);
unsigned char *__wrap_tug_lent_share(const struct tug_offer *offer) {
    return refuse_views ? NULL : __real_tug_lent_share(offer);
}

/* All of a region's key says which one it is, and how often it has been entered. */
static struct tug_region region_at(uint64_t base, uint64_t bytes, uint64_t times) {
    struct tug_region region = {.base = base, .bytes = bytes};
    for (int i = 0; i < 6; i++)
        region.key.word[i] = base * 64 + times * 8 + (uint64_t)i;
    return region;
}

static bool is_whole(const struct tug_region *region) {
    const uint64_t first = region->key.word[0];
    bool whole = first / 64 == region->base && first % 8 == 0;
    for (uint64_t i = 0; i < 6; i++)
        whole &= region->key.word[i] == first + i;
    return whole;
}

static uint32_t enter(struct tug_book *book, uint64_t base, uint64_t bytes) {
    const struct tug_region region = region_at(base, bytes, 1);
    return tug_book_enter(book, &region);
}

static enum tug_book_answer ask(struct tug_book *book, uint64_t address) {
    struct tug_region region;
    const enum tug_book_answer answer = tug_book_find(book, address, &region);
    if (answer == TUG_BOOK_HAS)
        assert_true(is_whole(&region) && tug_region_holds(&region, address));
    return answer;
}

#define HAS(book, address) assert_int_equal(ask(book, address), TUG_BOOK_HAS)
#define HAS_NOT(book, address) assert_int_equal(ask(book, address), TUG_BOOK_HAS_NOT)
#define CANNOT_SAY(book, address) assert_int_equal(ask(book, address), TUG_BOOK_CANNOT_SAY)

/* In memory of this process and its children. */
static struct tug_book_room *make_room(void) {
    struct tug_book_room *room =
        mmap(NULL, sizeof(*room), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(room, MAP_FAILED);
    return room;
}

static void free_room(struct tug_book_room *room) {
    munmap(room, sizeof(*room));
}

static void it_is_found_by_every_address(void **state) {
    (void)state;
    struct tug_book book = {0};
    struct tug_region region;
    HAS_NOT(&book, 0);
    assert_int_equal(tug_book_take_out(&book, 64), TUG_BOOK_NOWHERE);
    assert_false(tug_book_overlaps(&book, 0, UINT64_MAX));
    const uint32_t middle = enter(&book, 200, 50), low = enter(&book, 100, 100);
    const uint32_t high = enter(&book, 300, 1);
    HAS_NOT(&book, 99);
    HAS(&book, 100);
    HAS(&book, 199);
    HAS(&book, 200);
    HAS(&book, 249);
    HAS_NOT(&book, 250);
    HAS(&book, 300);
    HAS_NOT(&book, 301);
    assert_int_equal(tug_book_slot(&book, 210, &region), middle);
    assert_int_equal(region.base, 200);
    assert_int_equal(tug_book_slot(&book, 199, &region), low);
    assert_int_equal(tug_book_slot(&book, 300, &region), high);
    assert_int_equal(tug_book_slot(&book, 299, &region), TUG_BOOK_NOWHERE);
    assert_true(tug_book_overlaps(&book, 0, 101) && tug_book_overlaps(&book, 249, 3));
    assert_true(tug_book_overlaps(&book, 290, 100) && tug_book_overlaps(&book, 0, 1000));
    assert_false(tug_book_overlaps(&book, 250, 50) || tug_book_overlaps(&book, 0, 100));
    assert_false(tug_book_overlaps(&book, 100, 0));
    assert_int_equal(tug_book_take_out(&book, 201), TUG_BOOK_NOWHERE);
    assert_int_equal(tug_book_take_out(&book, 200), middle);
    HAS_NOT(&book, 200);
    assert_int_equal(enter(&book, 210, 10), middle); /* its slot is free again */
    tug_book_strike_out(&book, 150, 65);
    HAS_NOT(&book, 100);
    HAS_NOT(&book, 215);
    HAS(&book, 300);
    tug_book_close(&book);
}

static void one_of_no_bytes_is_in_nobodys_way(void **state) {
    (void)state;
    struct tug_book book = {0};
    const uint32_t empty = enter(&book, 100, 0);
    HAS_NOT(&book, 100);
    const uint32_t other = enter(&book, 100, 50), within = enter(&book, 120, 0);
    HAS(&book, 100);
    HAS(&book, 130);
    HAS_NOT(&book, 150);
    assert_int_equal(tug_book_take_out(&book, 100), empty);
    HAS(&book, 110);
    assert_int_equal(tug_book_take_out(&book, 120), within);
    assert_int_equal(tug_book_take_out(&book, 100), other);
    HAS_NOT(&book, 110);
    tug_book_close(&book);
}

/* By a list that says which of them are in. */
static void many_come_and_go(void **state) {
    (void)state;
    enum { MANY = 3000, CHANGES = 30000 };
    static uint32_t slots[MANY];
    uint64_t random = 20261124;
    struct tug_book_room *room = make_room();
    struct tug_book own = {.room = room}, theirs = {.room = room}, apart = {0};
    memset(slots, 0xff, sizeof(slots));
    for (int change = 0; change < CHANGES; change++) {
        const uint64_t i = check_draw(&random) % MANY, base = 1000 + 64 * i;
        if (slots[i] == TUG_BOOK_NOWHERE) {
            slots[i] = enter(&own, base, 40);
            assert_int_equal(enter(&apart, base, 40), slots[i]);
        } else {
            assert_int_equal(tug_book_take_out(&own, base), slots[i]);
            assert_int_equal(tug_book_take_out(&apart, base), slots[i]);
            slots[i] = TUG_BOOK_NOWHERE;
        }
        const uint64_t at = check_draw(&random) % MANY, address = 1000 + 64 * at;
        const enum tug_book_answer is_in =
            slots[at] == TUG_BOOK_NOWHERE ? TUG_BOOK_HAS_NOT : TUG_BOOK_HAS;
        assert_int_equal(ask(&theirs, address + 39), is_in);
        assert_int_equal(ask(&apart, address), is_in);
        HAS_NOT(&theirs, address + 40);
    }
    tug_book_close(&theirs);
    tug_book_close(&own);
    tug_book_close(&apart);
    free_room(room);
}

/* ---- what can be amiss ---- */

static void one_who_cannot_read_it_says_so(void **state) {
    (void)state;
    for (int how = 0; how < 2; how++) {
        struct tug_book_room *room = make_room();
        struct tug_book own = {.room = room}, theirs = {.room = room};
        for (uint64_t i = 0; i < TUG_BOOK_FIRST; i++)
            (void)enter(&own, 1000 * i, 1000);
        HAS(&theirs, 1000 * TUG_BOOK_FIRST - 1);
        refuse_memory = how == 0;
        refuse_views = how == 1;
        (void)enter(&own, 1000 * TUG_BOOK_FIRST, 1000);
        CANNOT_SAY(&theirs, 500);
        CANNOT_SAY(&theirs, 1000 * TUG_BOOK_FIRST);
        HAS(&own, 500);
        HAS(&own, 1000 * TUG_BOOK_FIRST);
        refuse_memory = refuse_views = false;
        for (uint64_t i = 1; i <= 8 * TUG_BOOK_FIRST; i++) /* a page more */
            (void)enter(&own, 1000 * (TUG_BOOK_FIRST + i), 1000);
        HAS(&theirs, 500);
        HAS(&theirs, 9000 * TUG_BOOK_FIRST);
        tug_book_close(&theirs);
        tug_book_close(&own);
        free_room(room);
    }
}

static void nobody_waits_for_one_who_is_stopped_in_a_change(void **state) {
    (void)state;
    struct tug_book_room *room = make_room();
    struct tug_book own = {.room = room}, theirs = {.room = room};
    (void)enter(&own, 1000, 1000);
    tug_seqlock_begin(&room->head.lock);
    CANNOT_SAY(&theirs, 1000);
    tug_seqlock_end(&room->head.lock);
    HAS(&theirs, 1000);
    tug_book_close(&theirs);
    tug_book_close(&own);
    free_room(room);
}

/* ---- at the same time ---- */

/* Every second region stays. Those between them come and go, a page's worth and more at once. */
enum { READERS = 3, REGIONS = 300, ROUNDS = 400 };

struct busy {
    struct tug_book_room room;
    _Atomic uint64_t entered; /* regions that stay, in the order of their numbers */
    _Atomic uint64_t answers[3];
    _Atomic bool over, wrong;
};

static uint64_t base_of(uint64_t i) {
    return 4096 + 128 * i;
}

static bool read_one(struct busy *busy, struct tug_book *book, uint64_t i, uint64_t entered) {
    struct tug_region region;
    const enum tug_book_answer answer = tug_book_find(book, base_of(i) + 99, &region);
    atomic_fetch_add_explicit(&busy->answers[answer], 1, memory_order_relaxed);
    if (answer == TUG_BOOK_HAS)
        return is_whole(&region) && region.base == base_of(i) && region.bytes == 100;
    return answer == TUG_BOOK_CANNOT_SAY || i % 2 == 1 || i / 2 >= entered;
}

static void read_all(struct busy *busy, struct tug_book *book, uint64_t seed) {
    uint64_t random = seed * 7919 + 1;
    while (!atomic_load(&busy->over)) {
        const uint64_t entered = atomic_load(&busy->entered);
        if (!read_one(busy, book, check_draw(&random) % REGIONS, entered))
            atomic_store(&busy->wrong, true);
    }
}

static struct busy *busy;
static struct tug_book shared; /* by the threads of one process */

static void *reader(void *argument) {
    read_all(busy, &shared, (uint64_t)(uintptr_t)argument);
    return NULL;
}

static void change(struct tug_book *book, uint64_t i, uint64_t times) {
    const struct tug_region region = region_at(base_of(i), 100, times % 8);
    if (tug_book_take_out(book, region.base) == TUG_BOOK_NOWHERE)
        assert_true(tug_book_enter(book, &region) != TUG_BOOK_NOWHERE);
}

static void write_all(struct tug_book *book) {
    uint64_t random = 99;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        if (round < REGIONS / 2) {
            (void)enter(book, base_of(2 * round), 100);
            atomic_store(&busy->entered, round + 1);
        }
        for (int i = 0; i < 50; i++)
            change(book, 1 + 2 * (check_draw(&random) % (REGIONS / 2)), round);
        sched_yield();
    }
}

static void a_reading_is_of_one_change(void **state) {
    (void)state;
    pthread_t threads[READERS];
    int status = -1;
    busy = mmap(NULL, sizeof(*busy), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(busy, MAP_FAILED);
    struct tug_book own = {.room = &busy->room}, theirs = {.room = &busy->room};
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        read_all(busy, &theirs, 77);
        _exit(0);
    }
    shared.room = &busy->room;
    for (uintptr_t i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, reader, (void *)i), 0);
    write_all(&own);
    atomic_store(&busy->over, true);
    for (int i = 0; i < READERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_false(atomic_load(&busy->wrong));
    assert_true(atomic_load(&busy->answers[TUG_BOOK_HAS]) > 0);
    assert_true(atomic_load(&busy->answers[TUG_BOOK_HAS_NOT]) > 0);
    for (uint64_t i = 0; i < REGIONS; i += 2)
        HAS(&shared, base_of(i));
    tug_book_close(&shared);
    tug_book_close(&own);
    munmap(busy, sizeof(*busy));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_found_by_every_address),
        cmocka_unit_test(one_of_no_bytes_is_in_nobodys_way),
        cmocka_unit_test(many_come_and_go),
        cmocka_unit_test(one_who_cannot_read_it_says_so),
        cmocka_unit_test(nobody_waits_for_one_who_is_stopped_in_a_change),
        cmocka_unit_test(a_reading_is_of_one_change),
    };
    return cmocka_run_group_tests_name("book", tests, NULL, NULL);
}
