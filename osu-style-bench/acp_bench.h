/* What the benchmarks of ACP have in common: memory of three kinds, and ACP opened on it.
 *
 * Rank 0 has `own`, registered; every rank has `target`, of the kind that --memory names: starter
 * memory, registered where malloc put it, or lent (registered, from MPI_Alloc_mem: the node's other
 * ranks can map it). Everything is collective, and ends the program with a line where it fails.
 */
#ifndef OSU_STYLE_BENCH_ACP_BENCH_H
#define OSU_STYLE_BENCH_ACP_BENCH_H

#include <acp.h>
#include <stddef.h>

enum { ACP_BENCH_RANKS = 16 };

struct acp_bench {
    const char *memory; /* --memory */
    size_t bytes;       /* of each memory */
    unsigned char *own, *target;
    acp_ga_t own_ga, targets[ACP_BENCH_RANKS];
    unsigned char *block; /* target, unless it is starter memory */
};

#define ACP_BENCH_MEMORY "of the targets: starter, registered or lent"

/* Memory of `bytes`, once, after bench_start(). */
void acp_bench_begin(struct acp_bench *acp, size_t bytes);

/* acp_init() and acp_finalize(), as often as wanted. */
void acp_bench_open(struct acp_bench *acp);
void acp_bench_close(void);

#endif
