/*
 * gas_moves: large pages move while they are put and got as a whole.
 *
 * Copies of a page take long enough here to meet the steps of a move. Every page has one thread
 * that puts all of it, with a number that grows, and then says so in a word of another page. Other
 * threads read the word first: the page that they get then has that number or higher ones in all
 * its words, and none of another page. Pages go to ranks drawn at random, into the few slots there
 * are, so that what is freed is used again at once. Every thread gets on once at least, however
 * long that takes. Arguments: milliseconds (1000), bytes of a page (65536).
 */
#include "gas_check.h"
#include <pthread.h>

enum { PAGES_EACH = 2, MOST_PAGES = 256 };

static tug_array *array;
static size_t page_bytes, page_words, npages;
static double end;
static unsigned long long nputs, ngets, nmoves;

static uint64_t word_of(size_t page, uint64_t number, size_t word) {
    return number << 32 | (check_word(page, number, word) & UINT32_MAX);
}

/* Is some part of the word, [from, to) of its bytes, that of a put since `least`? */
static bool has_part(size_t page, uint64_t least, size_t k, uint64_t word, int from, int to) {
    const uint64_t mask = (to < 8 ? (uint64_t)1 << 8 * to : 0) - ((uint64_t)1 << 8 * from);
    for (uint64_t number = least; number < least + 4096; number++)
        if (((word ^ word_of(page, number, k)) & mask) == 0)
            return true;
    return false;
}

/* Is it the word of a put since `least`, or bytes of two that followed each other closely? Gets and
 * puts of whole pages at the same time may mix, and over a network they do so within a word. A copy
 * by the kernel (rep movsb) may stop within a word and go on when the process has a core again:
 * then the second put is any later one. */
static bool is_of_puts(size_t page, uint64_t least, size_t k, uint64_t word) {
    if (word >> 32 >= least && word == word_of(page, word >> 32, k))
        return true;
    for (int split = 1; split < 8; split++)
        if (has_part(page, least, k, word, 0, split) && has_part(page, least, k, word, split, 8))
            return true;
    for (uint64_t first = least; first < least + 4096; first++)
        for (uint64_t next = first + 1; next < first + 4; next++) {
            uint64_t of_first = word ^ word_of(page, first, k),
                     of_next = word ^ word_of(page, next, k);
            int nright = 0;
            for (int shift = 0; shift < 64; shift += 8)
                nright += (of_first >> shift & 0xff) == 0 || (of_next >> shift & 0xff) == 0;
            if (nright == 8)
                return true;
        }
    return false;
}

static size_t done_index(size_t page) { /* in the page behind the others */
    return npages * page_bytes + page * 8;
}

static void *put_pages(void *argument) {
    uint64_t *words = malloc(page_bytes), *there = malloc(page_bytes), number = 0;
    (void)argument;
    while (MPI_Wtime() < end || nputs == 0) {
        number++;
        for (size_t i = 0; i < PAGES_EACH; i++) {
            size_t page = (size_t)check_rank * PAGES_EACH + i;
            for (size_t k = 0; k < page_words; k++)
                words[k] = word_of(page, number, k);
            GOOD(tug_array_put(array, page * page_bytes, words, page_bytes));
            GOOD(tug_array_put(array, done_index(page), &number, 8));
            GOOD(tug_array_get(array, page * page_bytes, there, page_bytes));
            CHECK(memcmp(words, there, page_bytes) == 0, "page %zu: put %llu is lost", page,
                  (unsigned long long)number);
            nputs++;
        }
    }
    free(words);
    free(there);
    return NULL;
}

static void *get_pages(void *argument) {
    uint64_t *words = malloc(page_bytes), least;
    struct check_rng rng = {(uint64_t)check_rank << 32};
    (void)argument;
    while (MPI_Wtime() < end || ngets == 0) {
        size_t page = check_draw(&rng) % npages;
        GOOD(tug_array_get(array, done_index(page), &least, 8));
        GOOD(tug_array_get(array, page * page_bytes, words, page_bytes));
        for (size_t k = check_draw(&rng) % 61; k < page_words && least > 0; k += 61)
            CHECK(is_of_puts(page, least, k, words[k]),
                  "word %zu of page %zu: %016llx, and %llu was complete", k, page,
                  (unsigned long long)words[k], (unsigned long long)least);
        ngets++;
    }
    free(words);
    return NULL;
}

static void *move_pages(void *argument) {
    struct check_rng rng = {(uint64_t)check_rank << 32 | 1u << 31};
    (void)argument;
    while (MPI_Wtime() < end || nmoves == 0) {
        size_t page = check_draw(&rng) % npages;
        if (check_draw(&rng) % 2)
            GOOD(tug_array_own(array, page * page_bytes, 1));
        else
            GOOD(tug_array_move(array, page, (int)(check_draw(&rng) % (uint64_t)check_nranks)));
        nmoves++;
    }
    return NULL;
}

int main(int argc, char **argv) {
    static void *(*const work[])(void *) = {put_pages, get_pages, move_pages};
    pthread_t threads[3];
    check_begin_threads(&argc, &argv, "gas_moves");
    const double seconds = (argc > 1 ? atoi(argv[1]) : 1000) / 1000.0;
    page_bytes = argc > 2 ? strtoull(argv[2], NULL, 0) : 65536;
    page_words = page_bytes / 8;
    npages = (size_t)check_nranks * PAGES_EACH;
    CHECK(npages <= MOST_PAGES, "ranks");
    struct tug_array_params params = {.size_in_bytes = (npages + 1) * page_bytes,
                                      .page_bytes = page_bytes,
                                      .pages_most = npages + 1,
                                      .places = 4};
    GOOD(tug_array_create(MPI_COMM_WORLD, &params, &array));
    end = MPI_Wtime() + seconds;
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, work[i], NULL) == 0, "no thread");
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    if (check_rank == 0)
        printf("rank 0: %llu puts, %llu gets, %llu moves\n", nputs, ngets, nmoves);
    GOOD(tug_array_free(&array));
    return check_end();
}
