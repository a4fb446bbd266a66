/* llcl_bench.c: contexts, memory and the target's part of the benchmarks of the low-level layer
 * (see llcl_bench.h).
 *
 * Invariant: the target leaves llcl_serve() only when the origin has nothing outstanding, the
 * release itself included: with TUGBOAT_PROGRESS=caller nobody else would answer.
 * Threading: as llcl_bench.h says. The message handlers run on whatever thread drives the target's
 * context, one at a time; what they leave is read when the origin has released the target.
 */
#include "llcl_bench.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096, RELEASE = LLCL_OPS, BYE_TAG = 1 };

extern char **environ;

struct llcl_options llcl_options = {.memory = "mapped", .target_wait = "wait"};

const char *const llcl_op_names[LLCL_OPS] = {"read", "write", "fetch_and_op", "am"};

/* ---- start ---- */

void llcl_start_program(int *argc, char ***argv, const char *about,
                        const struct bench_option options[], int noptions) {
    bench_start(argc, argv, MPI_THREAD_MULTIPLE, about, options, noptions);
    if (bench.nranks != 2)
        bench_usage_error("2 ranks are needed, not %d", bench.nranks);
    if (strcmp(llcl_options.memory, "mapped") != 0 && strcmp(llcl_options.memory, "private") != 0)
        bench_usage_error("--memory is mapped or private, not '%s'", llcl_options.memory);
    if (strcmp(llcl_options.target_wait, "wait") != 0 &&
        strcmp(llcl_options.target_wait, "poll") != 0)
        bench_usage_error("--target is wait or poll, not '%s'", llcl_options.target_wait);
}

static bool add_op(const char *name, size_t length, enum llcl_op ops[LLCL_OPS], int *nops) {
    for (int op = 0; op < LLCL_OPS; op++)
        if (*nops < LLCL_OPS && strlen(llcl_op_names[op]) == length &&
            strncmp(llcl_op_names[op], name, length) == 0) {
            ops[(*nops)++] = (enum llcl_op)op;
            return true;
        }
    return false;
}

int llcl_parse_ops(const char *text, enum llcl_op ops[LLCL_OPS]) {
    int nops = 0;
    for (const char *at = text;; at++) {
        size_t length = strcspn(at, ",");
        if (!add_op(at, length, ops, &nops))
            bench_usage_error("'%s' is not a list of read, write, fetch_and_op, am", text);
        at += length;
        if (*at == '\0')
            return nops;
    }
}

void llcl_header(const char *what) {
    char line[512];
    int used = snprintf(line, sizeof line, "%s; %s memory; rank 1: %s; settings:", what,
                        llcl_options.memory, llcl_options.target_wait);
    bool any = false;
    for (char **entry = environ; *entry != NULL; entry++) {
        if (strncmp(*entry, "TUGBOAT", 7) != 0 || used >= (int)sizeof line)
            continue;
        used += snprintf(line + used, sizeof line - (size_t)used, " %s", *entry);
        any = true;
    }
    if (!any && used < (int)sizeof line)
        snprintf(line + used, sizeof line - (size_t)used, " default");
    bench_header(line);
}

void llcl_must(int status, const char *what) {
    if (status == 0)
        return;
    fprintf(stderr, "%s: rank %d: %s: %s\n", bench.name, bench.rank, what, tug_strerror(status));
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* ---- sides ---- */

static void take_message(tug_context *context, int source, const void *payload, size_t bytes,
                         void *d) {
    (void)context;
    (void)source;
    struct llcl_sink *sink = d;
    uint64_t word = 0;
    sink->messages++;
    if (bytes < sizeof word)
        return;
    memcpy(&word, payload, sizeof word);
    sink->first_words += word;
    memcpy(&word, (const unsigned char *)payload + bytes - sizeof word, sizeof word);
    sink->last_words += word;
}

static void take_release(tug_context *context, int source, const void *payload, size_t bytes,
                         void *d) {
    (void)context;
    (void)source;
    (void)payload;
    (void)bytes;
    tug_counter_add(d, 0);
}

static void *new_pages(size_t bytes) {
    void *pages = aligned_alloc(PAGE, (bytes + PAGE - 1) / PAGE * PAGE);
    if (pages == NULL)
        llcl_must(TUG_ERR_NO_MEMORY, "memory");
    memset(pages, 0, bytes);
    return pages;
}

void llcl_sides_set(struct llcl_side sides[2], size_t remote_bytes, size_t local_bytes) {
    for (int i = 0; i < 2; i++)
        sides[i] = (struct llcl_side){
            .locked = i == 1, .remote_bytes = remote_bytes, .local_bytes = local_bytes};
}

void llcl_side_open(struct llcl_side *side) {
    *side = (struct llcl_side){.locked = side->locked,
                               .remote_bytes = side->remote_bytes,
                               .local_bytes = side->local_bytes};
    pthread_mutex_init(&side->lock, NULL);
    llcl_must(tug_context_create(MPI_COMM_WORLD, &side->context), "tug_context_create");
    if (strcmp(llcl_options.memory, "mapped") == 0) {
        llcl_must(tug_mem_allocate(side->context, side->remote_bytes, &side->remote),
                  "tug_mem_allocate");
    } else {
        side->malloced = new_pages(side->remote_bytes);
        llcl_must(
            tug_mem_register(side->context, side->malloced, side->remote_bytes, &side->remote),
            "tug_mem_register");
    }
    side->memory = tug_mem_address(side->remote);
    side->buffer = new_pages(side->local_bytes);
    llcl_must(tug_mem_register(side->context, side->buffer, side->local_bytes, &side->local),
              "tug_mem_register");
    llcl_must(tug_am_register(side->context, LLCL_AM, take_message, &side->sink),
              "tug_am_register");
    llcl_must(tug_am_register(side->context, RELEASE, take_release, &side->releases),
              "tug_am_register");
    struct tug_key key;
    tug_mem_key(side->remote, &key);
    MPI_Sendrecv(&key, sizeof key, MPI_BYTE, 1 - bench.rank, 0, &side->key, sizeof side->key,
                 MPI_BYTE, 1 - bench.rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

void llcl_side_close(struct llcl_side *side) {
    bench_sync();
    llcl_must(tug_mem_deregister(&side->local), "tug_mem_deregister");
    llcl_must(tug_mem_deregister(&side->remote), "tug_mem_deregister");
    llcl_must(tug_context_free(&side->context), "tug_context_free");
    pthread_mutex_destroy(&side->lock);
    free(side->buffer);
    free(side->malloced);
}

void llcl_side_way(const struct llcl_side *side, enum llcl_op op, size_t bytes,
                   char way[LLCL_WAY]) {
    bool mapped = op != LLCL_AM && tug_mem_map(side->context, &side->key) != NULL;
    snprintf(way, LLCL_WAY, "%s",
             mapped ? "mapped" : tug_context_transport(side->context, LLCL_TARGET, bytes));
}

bool llcl_op_has_size(enum llcl_op op, size_t bytes) {
    if (op == LLCL_FETCH)
        return bytes == 4 || bytes == 8;
    return op != LLCL_AM || bytes <= TUG_AM_MAX_LONG;
}

/* ---- the host ---- */

void llcl_find_host(struct llcl_host *host) {
    const struct {
        const char *name;
        void *function;
    } calls[] = {
        {"PMPI_Put", &host->put},
        {"PMPI_Get", &host->get},
        {"PMPI_Win_allocate", &host->allocate},
        {"PMPI_Win_create", &host->create},
        {"PMPI_Win_free", &host->free},
        {"PMPI_Win_lock_all", &host->lock_all},
        {"PMPI_Win_unlock_all", &host->unlock_all},
        {"PMPI_Win_flush", &host->flush},
        {"PMPI_Win_sync", &host->sync},
    };
    void *library = dlopen("libmpich.so.12", RTLD_LAZY | RTLD_NOLOAD);
    if (library == NULL)
        library = dlopen("libmpi.so.12", RTLD_LAZY | RTLD_NOLOAD);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        void *found = library != NULL ? dlsym(library, calls[i].name) : NULL;
        if (found == NULL)
            llcl_must(TUG_ERR_NO_MPI, calls[i].name);
        memcpy(calls[i].function, &found, sizeof found);
    }
}

/* ---- samples ---- */

void llcl_progress(struct llcl_side *side) {
    if (side->locked)
        pthread_mutex_lock(&side->lock);
    tug_progress(side->context);
    if (side->locked)
        pthread_mutex_unlock(&side->lock);
}

static void poll_counter(struct llcl_side *side, const struct tug_counter *counter,
                         uint64_t target) {
    for (unsigned i = 1; tug_counter_value(counter) < target; i++) {
        llcl_progress(side);
        if (i % 64 == 0)
            sched_yield();
    }
}

void llcl_wait(struct llcl_side *side, struct tug_counter *counter, uint64_t target) {
    if (side->locked)
        poll_counter(side, counter, target);
    int status = tug_counter_wait(side->context, counter, target);
    if (__builtin_expect(status != 0, 0))
        llcl_must(status, "an operation failed");
}

uint64_t llcl_serve(struct llcl_side *side) {
    uint64_t word = 0;
    int bye = 0;
    MPI_Request request;
    MPI_Irecv(&word, 1, MPI_UINT64_T, LLCL_ORIGIN, BYE_TAG, MPI_COMM_WORLD, &request);
    side->nreleases++;
    if (strcmp(llcl_options.target_wait, "poll") == 0)
        poll_counter(side, &side->releases, side->nreleases);
    else
        llcl_wait(side, &side->releases, side->nreleases);
    while (!bye) {
        llcl_progress(side);
        MPI_Test(&request, &bye, MPI_STATUS_IGNORE);
        sched_yield();
    }
    return word;
}

void llcl_release(struct llcl_side *side, uint64_t word) {
    struct tug_counter released = {0};
    const struct tug_am_params params = {
        .dest_proc = LLCL_TARGET, .handler = RELEASE, .on_complete = {tug_counter_add, &released}};
    while (!tug_try_am_async(side->context, &params))
        llcl_progress(side);
    llcl_wait(side, &released, 1);
    MPI_Send(&word, 1, MPI_UINT64_T, LLCL_TARGET, BYE_TAG, MPI_COMM_WORLD);
}
