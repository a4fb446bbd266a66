/*
 * growth: what a job's parts cost a rank, to be compared between jobs of different sizes.
 *
 * Rank 0 prints a line of CSV for each part:
 *
 *   ranks,nodes,part,ms,packets,host_messages,net_packets,net_bytes,connections,system_calls,kib
 *
 * ms is the slowest rank's time, the others are means over ranks: packets and messages of the host
 * that the library sent; packets and bytes that left the node; sockets, system calls of all threads
 * (empty where the kernel does not count them) and memory (Pss) that were added. What a part did is
 * checked. The barriers around a part are not in it, but peers may still be in theirs.
 */
#include <acp.h>
#include <dirent.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <tugboat/gas.h>
#include <tugboat/mpix.h>
#include <unistd.h>

#include "check.h"

enum { MS, PACKETS, HOST_MESSAGES, NET_PACKETS, NET_BYTES, CONNECTIONS, CALLS, KIB, FIGURES };
enum { CELLS = 64 };

struct sample {
    double of[FIGURES];
};

static MPI_T_pvar_session session;
static MPI_T_pvar_handle packets, host_messages;
static int calls = -1; /* descriptor of the count of system calls */
static bool leads;     /* the first rank of its node counts what leaves the node */
static int nnodes;
static MPI_Win win;
static int64_t cells[CELLS];

/* ---- what can be counted ---- */

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

/* Of this process and all threads that it will have. */
static void open_calls(void) {
    unsigned long long id = 0;
    FILE *file = fopen("/sys/kernel/tracing/events/raw_syscalls/sys_enter/id", "r");
    if (file == NULL || fscanf(file, "%llu", &id) != 1)
        id = 0;
    if (file != NULL)
        fclose(file);
    struct perf_event_attr event = {
        .type = PERF_TYPE_TRACEPOINT, .size = sizeof event, .config = id, .inherit = 1};
    if (id != 0)
        calls = (int)syscall(SYS_perf_event_open, &event, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static double read_calls(void) {
    uint64_t n = 0;
    return calls >= 0 && read(calls, &n, sizeof n) == sizeof n ? (double)n : 0;
}

static MPI_T_pvar_handle open_counter(const char *name) {
    MPI_T_pvar_handle handle;
    int index, count;
    MUST(MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_COUNTER, &index));
    MUST(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count));
    return handle;
}

static double read_counter(MPI_T_pvar_handle handle) {
    uint64_t value;
    MUST(MPI_T_pvar_read(session, handle, &value));
    return (double)value;
}

static double pss_kib(void) {
    char line[256];
    long kib = 0;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "Pss: %ld kB", &kib) == 1)
            break;
    if (file != NULL)
        fclose(file);
    return (double)kib;
}

static double count_sockets(void) {
    char path[300], to[64];
    int n = 0;
    DIR *descriptors = opendir("/proc/self/fd");
    for (const struct dirent *entry; descriptors && (entry = readdir(descriptors)) != NULL;) {
        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        const ssize_t length = readlink(path, to, sizeof to - 1);
        n += length > 7 && strncmp(to, "socket:", 7) == 0;
    }
    if (descriptors != NULL)
        closedir(descriptors);
    return n;
}

/* All that left by other interfaces than lo. */
static void read_net(struct sample *sample) {
    char line[512];
    FILE *file = leads ? fopen("/proc/self/net/dev", "r") : NULL;
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        unsigned long long bytes, npackets;
        char name[64];
        if (sscanf(line, " %63[^:]: %*u %*u %*u %*u %*u %*u %*u %*u %llu %llu", name, &bytes,
                   &npackets) != 3 ||
            strcmp(name, "lo") == 0)
            continue;
        sample->of[NET_BYTES] += (double)bytes;
        sample->of[NET_PACKETS] += (double)npackets;
    }
    if (file != NULL)
        fclose(file);
}

/* Cheap counts are read next to the part. */
static struct sample look(bool before) {
    struct sample sample = {.of = {[MS] = before ? 0 : now_ms(), [CALLS] = read_calls()}};
    sample.of[PACKETS] = read_counter(packets);
    sample.of[HOST_MESSAGES] = read_counter(host_messages);
    read_net(&sample);
    sample.of[CONNECTIONS] = count_sockets();
    sample.of[KIB] = pss_kib();
    if (before) {
        sample.of[CALLS] = read_calls();
        sample.of[MS] = now_ms();
    }
    return sample;
}

/* ---- parts ---- */

static void print(const char *part, struct sample mine) {
    double sum[FIGURES], most;
    MUST(MPI_Reduce(mine.of, sum, FIGURES, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD));
    MUST(MPI_Reduce(&mine.of[MS], &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD));
    if (check_rank != 0)
        return;
    printf("%d,%d,%s,%.3f", check_nranks, nnodes, part, most);
    for (int i = PACKETS; i < FIGURES; i++)
        if (i == CALLS && calls < 0)
            printf(",");
        else
            printf(",%.1f", sum[i] / check_nranks);
    printf("\n");
    fflush(stdout);
}

static void measure(const char *name, void (*part)(void)) {
    check_barrier(MPI_COMM_WORLD);
    const struct sample before = look(true);
    part();
    struct sample after = look(false);
    for (int i = 0; i < FIGURES; i++)
        after.of[i] -= before.of[i];
    check_barrier(MPI_COMM_WORLD);
    print(name, after);
}

static void nothing(void) {}

static void create(void) {
    MUST(MPI_Win_create(cells, sizeof cells, sizeof *cells, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
}

static void free_window(void) {
    MUST(MPI_Win_free(&win));
}

static void fence(void) {
    MUST(MPI_Win_fence(0, win));
}

/* Touches one peer. */
static void flush(void) {
    const int64_t value = check_rank + 1;
    MUST(MPI_Win_lock_all(0, win));
    MUST(MPI_Put(&value, 1, MPI_INT64_T, (check_rank + 1) % check_nranks, 0, 1, MPI_INT64_T, win));
    MUST(MPI_Win_flush_all(win));
    MUST(MPI_Win_unlock_all(win));
}

static MPI_Request request;
static int64_t sent;

static void broadcast_init(void) {
    MUST(MPIX_Bcast_init(&sent, 1, MPI_INT64_T, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
}

static void broadcast(void) {
    sent = check_rank == 0 ? 4711 : 0;
    MUST(MPI_Start(&request));
    MUST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(sent == 4711, "the broadcast brought %lld", (long long)sent);
}

static tug_array *array;

static void create_array(void) {
    const struct tug_array_params params = {.size_in_bytes = 4096 * (size_t)check_nranks,
                                            .page_bytes = 4096};
    const int status = tug_array_create(MPI_COMM_WORLD, &params, &array);
    CHECK(status == 0, "tug_array_create: %s", tug_strerror(status));
}

/* Of the next rank's page. */
static void get_from_array(void) {
    int64_t got = 1;
    const size_t index = 4096 * (size_t)((check_rank + 1) % check_nranks);
    const int status = tug_array_get(array, index, &got, sizeof got);
    CHECK(status == 0 && got == 0, "tug_array_get: %s", tug_strerror(status));
}

static void free_array(void) {
    CHECK(tug_array_free(&array) == 0, "tug_array_free");
}

static void start_acp(void) {
    CHECK(acp_init(NULL, NULL) == 0, "acp_init: %s", tug_strerror(ACP_ERRNO));
}

int main(int argc, char **argv) {
    int provided, node_rank;
    MPI_Comm node;
    open_calls();
    struct sample start = {.of = {[MS] = now_ms(), [CALLS] = read_calls(), [KIB] = pss_kib()}};
    MUST(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    const double ready = now_ms();
    MUST(MPI_Comm_rank(MPI_COMM_WORLD, &check_rank));
    MUST(MPI_Comm_size(MPI_COMM_WORLD, &check_nranks));
    MUST(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    MUST(MPI_T_pvar_session_create(&session));
    packets = open_counter("tugboat_packets");
    host_messages = open_counter("tugboat_host_messages");
    struct sample begun = {.of = {[MS] = ready - start.of[MS],
                                  [CALLS] = read_calls() - start.of[CALLS],
                                  [CONNECTIONS] = count_sockets(),
                                  [KIB] = pss_kib() - start.of[KIB]}};
    MUST(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
    MUST(MPI_Comm_rank(node, &node_rank));
    leads = node_rank == 0;
    const int one = leads;
    MUST(MPI_Allreduce(&one, &nnodes, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    MUST(MPI_Comm_free(&node));
    print("init", begun);
    measure("nothing", nothing);
    measure("window_first", create);
    measure("fence_first", fence);
    measure("fence", fence);
    measure("flush_first", flush);
    measure("flush", flush);
    CHECK(cells[0] == (check_rank + check_nranks - 1) % check_nranks + 1, "put: %lld",
          (long long)cells[0]);
    measure("window_free", free_window);
    measure("window", create);
    measure("array", create_array);
    measure("array_get", get_from_array);
    measure("array_free", free_array);
    measure("acp_start", start_acp);
    measure("broadcast_init", broadcast_init);
    measure("broadcast_first", broadcast);
    measure("broadcast", broadcast);
    CHECK(acp_finalize() == 0, "acp_finalize: %s", tug_strerror(ACP_ERRNO));
    MUST(MPI_Request_free(&request));
    free_window();
    const double leaves = now_ms();
    MUST(MPI_Finalize());
    if (check_rank == 0)
        printf("%d,%d,finalize,%.3f,,,,,,,\n", check_nranks, nnodes, now_ms() - leaves);
    return 0;
}
