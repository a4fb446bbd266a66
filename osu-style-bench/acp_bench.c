#include "acp_bench.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

void acp_bench_begin(struct acp_bench *acp, size_t bytes) {
    const size_t least = 65536; /* of what is lent */
    const bool lent = strcmp(acp->memory, "lent") == 0;
    acp->bytes = lent && bytes < least ? least : (bytes + 4095) / 4096 * 4096;
    acp->own = aligned_alloc(4096, acp->bytes);
    if (lent) {
        MPI_Alloc_mem((MPI_Aint)acp->bytes, MPI_INFO_NULL, &acp->block);
    } else if (strcmp(acp->memory, "registered") == 0) {
        acp->block = aligned_alloc(4096, acp->bytes);
    } else if (strcmp(acp->memory, "starter") != 0) {
        bench_usage_error("--memory %s", ACP_BENCH_MEMORY);
    }
    memset(acp->own, 0, acp->bytes);
    if (acp->block != NULL)
        memset(acp->block, 0, acp->bytes);
}

static acp_ga_t register_block(unsigned char *block, size_t bytes) {
    acp_ga_t ga = acp_query_ga(acp_register_memory(block, bytes, 0), block);
    if (ga == ACP_GA_NULL)
        bench_usage_error("acp_register_memory: %s", tug_strerror(ACP_ERRNO));
    return ga;
}

void acp_bench_open(struct acp_bench *acp) {
    if (acp_init(NULL, NULL) != 0)
        bench_usage_error("acp_init: %s", tug_strerror(ACP_ERRNO));
    acp_ga_t mine = acp_query_starter_ga(bench.rank);
    acp->target = acp_query_address(mine);
    if (acp->block != NULL) {
        acp->target = acp->block;
        mine = register_block(acp->block, acp->bytes);
    } else if (acp_query_address(mine + acp->bytes - 1) == NULL) {
        bench_usage_error("the sizes need TUGBOAT_ACP_STARTER=%zuK", acp->bytes / 1024);
    }
    acp->own_ga = register_block(acp->own, acp->bytes);
    MPI_Allgather(&mine, 1, MPI_UINT64_T, acp->targets, 1, MPI_UINT64_T, MPI_COMM_WORLD);
}

void acp_bench_close(void) {
    if (acp_finalize() != 0)
        bench_usage_error("acp_finalize: %s", tug_strerror(ACP_ERRNO));
}
