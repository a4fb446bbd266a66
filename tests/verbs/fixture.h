/* What the cases of test_verbs share: two processes played by fake.h, with registered memory each.
 *
 * A case is a function of its own in one of the files cases_*.c; cases.h lists them all. Before
 * each case set_up() opens both fakes, and tear_down() closes them after it. */
#ifndef TUG_TEST_VERBS_FIXTURE_H
#define TUG_TEST_VERBS_FIXTURE_H

#include "../unit/check.h"
#include "base/clock.h"
#include "cases.h"
#include "fake.h"

#define ORIGIN (&fakes[0]) /* rank 0 */
#define TARGET (&fakes[1]) /* rank 1 */

/* Memory of both, AREA bytes each, registered: `mine` at ORIGIN, `theirs` at TARGET. */
#define AREA (32u << 20)
extern unsigned char *mine_memory, *theirs_memory;
extern struct tug_registration *mine, *theirs;

int set_up(void **state);
int tear_down(void **state);

/* Maps memory; the test fails if there is none. */
void *map_memory(size_t bytes);

/* Content that depends on a seed. */
void fill(unsigned char *at, size_t bytes, unsigned seed);
void assert_filled(const unsigned char *at, size_t bytes, unsigned seed);

/* Posts an operation of ORIGIN on TARGET's registration `remote`; the local side is in `mine`. */
void post(enum tug_operation_kind kind, struct tug_registration *remote, uint64_t offset,
          uint64_t local_offset, uint64_t bytes, struct fake_end *end);
/* The operation was completed once, with that status. */
void assert_done(const struct fake_end *end, int status);
/* Posts one operation between `mine` and `theirs` and finishes it. */
void run_one(enum tug_operation_kind kind, uint64_t offset, uint64_t local_offset, uint64_t bytes);

/* An atomic operation of either fake on `theirs`, not posted yet. The result goes to `result`
 * unless that is NULL. */
struct tug_operation *make_atomic(struct fake *fake, enum tug_operation_kind kind, uint8_t op,
                                  uint64_t operand, uint64_t compare, uint64_t offset,
                                  struct tug_registration *result, uint64_t result_offset,
                                  struct fake_end *end);
/* Posts n writes of 8 bytes, numbers from `first` on, each 16 bytes behind the last: they cannot be
 * joined. */
void write_apart(unsigned n, unsigned first);
/* Sleeps as the engine does (arm, look once more, wait) until ORIGIN has nothing under way, with no
 * look at TARGET. Returns how often it slept. */
unsigned sleep_until_done(void);
/* The pair loses the queue pair that serves its peer; TARGET that which serves ORIGIN. */
void lose_server_of(struct tug_verbs_pair *pair);
void lose_server(void);
/* Rounds until the fake's servers that have been replaced are gone. */
void drain_servers(const struct fake *fake);

#endif
