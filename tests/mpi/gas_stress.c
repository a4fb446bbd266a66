/*
 * gas_stress: many threads of all ranks get, put, take and add at random.
 *
 * Every word has one thread that writes it, and carries a number that grows and a checksum. A
 * thread finds in its own words what it put last: no put is lost. In others' words it finds numbers
 * that do not fall, with the right sums: no get is torn, sees memory of another page, or is late.
 * Records of eight words are put and got whole by their writers. Pages are taken at random all the
 * time; in the end all words are what their writers say, and the common counters what was added.
 * Arguments: threads (4), operations of each (automatic), percent of operations that take pages
 * (1).
 */
#include "gas_check.h"
#include <pthread.h>
#include <stdatomic.h>

enum {
    RECORD = 8,
    PAGE_WORDS = 128,
    PAGES = 64,
    WORDS = PAGE_WORDS * PAGES,
    RECORDS = WORDS / RECORD
};
enum { COUNTERS = 16, THREADS_MOST = 64 };

static tug_array *array;
static int nthreads = 4, takes = 100;
static unsigned long long noperations;
static unsigned long long numbers[WORDS]; /* of own words */
static _Atomic unsigned long long added;

struct thread {
    int id;
    struct check_rng rng;
    uint32_t seen[WORDS];
    unsigned long long puts, gets, owns;
};

static uint32_t sum_of(uint32_t number, size_t word) {
    return (uint32_t)(check_word(7, number, word) >> 16);
}

static uint64_t word_of(uint32_t number, size_t word) {
    return number == 0 ? 0 : (uint64_t)number << 32 | sum_of(number, word);
}

static void look_at(struct thread *thread, size_t word, uint64_t value) {
    uint32_t number = (uint32_t)(value >> 32);
    CHECK(value == word_of(number, word), "word %zu is torn: %016llx", word,
          (unsigned long long)value);
    CHECK(number >= thread->seen[word], "word %zu: %u after %u", word, number, thread->seen[word]);
    thread->seen[word] = number;
}

static int writer_of(size_t record) {
    return (int)(record % (size_t)(check_nranks * nthreads));
}

static void do_record(struct thread *thread, size_t record) {
    const size_t first = record * RECORD;
    uint64_t words[RECORD];
    if (writer_of(record) != thread->id) {
        size_t word = first + check_draw(&thread->rng) % RECORD;
        GOOD(tug_array_get(array, word * 8, words, 8));
        look_at(thread, word, words[0]);
        thread->gets++;
        return;
    }
    size_t n = check_draw(&thread->rng) % 2 ? 1 : RECORD;
    size_t word = first + (n == 1 ? check_draw(&thread->rng) % RECORD : 0);
    GOOD(tug_array_get(array, word * 8, words, n * 8));
    for (size_t i = 0; i < n; i++) {
        uint64_t want = word_of((uint32_t)numbers[word + i], word + i);
        CHECK(words[i] == want, "word %zu is %016llx, not %016llx: a put is lost", word + i,
              (unsigned long long)words[i], (unsigned long long)want);
        words[i] = word_of((uint32_t)++numbers[word + i], word + i);
    }
    GOOD(tug_array_put(array, word * 8, words, n * 8));
    thread->puts++;
}

static void *work(void *argument) {
    struct thread *thread = argument;
    for (unsigned long long i = 0; i < noperations; i++) {
        uint64_t draw = check_draw(&thread->rng);
        if (draw % 10000 < (uint64_t)takes) {
            size_t page = draw / 10000 % PAGES, n = draw / 1000000 % 3 + 1;
            GOOD(tug_array_own(array, page * PAGE_WORDS * 8,
                               (page + n < PAGES ? n : 1) * PAGE_WORDS * 8));
            thread->owns++;
        } else if (draw % 10000 >= 9900) {
            GOOD(tug_array_fetch_and_op(array, (WORDS + draw / 10000 % COUNTERS) * 8, 8, TUG_ADD, 1,
                                        NULL));
            atomic_fetch_add(&added, 1);
        } else {
            do_record(thread, draw / 10000 % RECORDS);
        }
    }
    return NULL;
}

static void run_threads(struct thread *threads) {
    pthread_t handles[THREADS_MOST];
    for (int i = 0; i < nthreads; i++) {
        threads[i].id = check_rank * nthreads + i;
        threads[i].rng.state = (uint64_t)threads[i].id << 40;
        CHECK(pthread_create(&handles[i], NULL, work, &threads[i]) == 0, "no thread");
    }
    for (int i = 0; i < nthreads; i++)
        pthread_join(handles[i], NULL);
}

static void compare_all(void) {
    static unsigned long long all[WORDS];
    static uint64_t words[WORDS + COUNTERS];
    unsigned long long sum = 0, mine = atomic_load(&added), total;
    MPI_Request request;
    check_barrier(MPI_COMM_WORLD);
    MUST(MPI_Iallreduce(numbers, all, WORDS, MPI_UNSIGNED_LONG_LONG, MPI_MAX, MPI_COMM_WORLD,
                        &request));
    check_wait(&request);
    MUST(MPI_Iallreduce(&mine, &total, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD,
                        &request));
    check_wait(&request);
    GOOD(tug_array_get(array, 0, words, sizeof words));
    for (size_t i = 0; i < WORDS; i++)
        CHECK(words[i] == word_of((uint32_t)all[i], i), "in the end word %zu is %016llx, not %llu",
              i, (unsigned long long)words[i], all[i]);
    for (size_t i = 0; i < COUNTERS; i++)
        sum += words[WORDS + i];
    CHECK(sum == total, "%llu added, %llu there", total, sum);
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "gas_stress");
    nthreads = argc > 1 ? atoi(argv[1]) : 4;
    noperations = argc > 2 ? strtoull(argv[2], NULL, 0) : 20000;
    takes = argc > 3 ? atoi(argv[3]) : 100;
    CHECK(nthreads > 0 && nthreads <= THREADS_MOST, "threads");
    struct tug_array_params params = {.size_in_bytes = (WORDS + COUNTERS) * 8,
                                      .page_bytes = PAGE_WORDS * 8,
                                      .placement = TUG_PLACE_CYCLIC,
                                      .pages_most = PAGES + 1,
                                      .places = 24};
    GOOD(tug_array_create(MPI_COMM_WORLD, &params, &array));
    struct thread *threads = calloc((size_t)nthreads, sizeof *threads);
    double start = MPI_Wtime();
    run_threads(threads);
    if (check_rank == 0)
        printf("%d threads, %llu operations each, %.2f s; of the first: %llu puts, %llu gets, "
               "%llu owns\n",
               nthreads, noperations, MPI_Wtime() - start, threads[0].puts, threads[0].gets,
               threads[0].owns);
    compare_all();
    free(threads);
    GOOD(tug_array_free(&array));
    return check_end();
}
