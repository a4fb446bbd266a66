/* The packet transport among peers that say anything. The input is a script: operations are posted,
 * packets of all kinds come in, right and wrong ones, wires are full and trailers go or do not.
 *
 * Whatever comes,
 *  - what the transport sends is good packets with numbers in order;
 *  - an operation is completed once, and its local memory, which is freed then, is not touched
 *    afterwards (the address sanitizer looks);
 *  - requests write registered memory only;
 *  - a peer that refuses ends all that was left for it.
 *
 * receiver/ plays what the transport talks to; played.h says which part does what. */
#include <stdarg.h>
#include <sys/mman.h>

#include "base/log.h"
#include "host/agreement.h"
#include "node/segment.h"
#include "receiver/played.h"

#define PAGE 32768u
#define GUARD 65536u

/* One is larger than a part of a READ, and than a packet of the smaller wire. */
static const uint32_t sizes_of_memory[WORLD_REGISTRATIONS] = {8, 100, 20000, 64};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerInitialize(int *argc, char ***argv);

struct tug_fabric fabric;
struct peer peers[WORLD_RANKS];
struct reached reached;

const struct tug_stream *stream_to(uint32_t peer) {
    const struct tug_packets *packets = fabric.packets;
    return packets->streams[peer];
}

/* ---- the rest of the library, as far as the transport calls it ---- */

struct tug_settings tug_settings;

void tug_log(enum tug_verbose level, const char *format, ...) {
    char line[1000];
    va_list arguments;
    (void)level;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments); /* the arguments fit */
    va_end(arguments);
}

bool tug_all_agree(MPI_Comm comm, bool mine) {
    (void)comm;
    return mine;
}

int tug_agree(MPI_Comm comm, MPI_Op how, int64_t words[], int n) {
    (void)comm, (void)how, (void)words, (void)n;
    return MPI_SUCCESS;
}

/* ---- registered memory ---- */

static struct tug_registration registrations[WORLD_REGISTRATIONS];
static unsigned char *pages[WORLD_REGISTRATIONS]; /* PAGE bytes each, then closed ones */
static unsigned char canaries[PAGE];

/* Each registration ends where closed memory begins, and has canaries before it. */
static void map_registrations(void) {
    memset(canaries, CANARY, PAGE);
    for (uint32_t i = 0; i < WORLD_REGISTRATIONS; i++) {
        pages[i] = mmap(NULL, (size_t)PAGE + GUARD, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        REQUIRE(pages[i] != MAP_FAILED);
        REQUIRE(mprotect(pages[i] + PAGE, GUARD, PROT_NONE) == 0);
        memset(pages[i], CANARY, PAGE);
        registrations[i].bytes = sizes_of_memory[i];
        registrations[i].base = pages[i] + PAGE - sizes_of_memory[i];
    }
}

static void add_registrations(void) {
    REQUIRE(tug_memory_table_init(&fabric.memory) == 0);
    for (uint32_t i = 0; i < WORLD_REGISTRATIONS; i++) {
        registrations[i].serving = 0;
        REQUIRE(tug_memory_add(&fabric.memory, &registrations[i]) == 0);
    }
    tug_memory_remove(&fabric.memory, &registrations[WORLD_REGISTRATIONS - 1]);
}

/* Nothing was written but registered memory; the last registration had ended before. */
static void check_canaries(void) {
    for (uint32_t i = 0; i < WORLD_REGISTRATIONS; i++) {
        const bool ended = i == WORLD_REGISTRATIONS - 1;
        REQUIRE(registrations[i].serving == 0);
        REQUIRE(memcmp(pages[i], canaries, ended ? PAGE : PAGE - sizes_of_memory[i]) == 0);
    }
}

/* ---- a run ---- */

static void begin_world(void) {
    static struct tug_wire card = {.row = &tug_transport_verbs};
    static uint32_t node_ranks[NODE] = {0, 1, 2};
    memset((void *)peers, 0, sizeof(peers));
    wires_full = false;
    tug_settings.aggregate = true;
    fabric = (struct tug_fabric){.rank = ME,
                                 .nranks = WORLD_RANKS,
                                 .node_size = NODE,
                                 .node_ranks = node_ranks,
                                 .id = WORLD_CONTEXT,
                                 .ways = TUG_WAY_SHM | TUG_WAY_MPI};
    above_reset(&fabric);
    REQUIRE(tug_tags_init(&fabric.tags, OPERATIONS) == 0);
    add_registrations();
    REQUIRE(tug_fabric_open(&fabric) == 0);
    fabric.states[TUG_BY_VERBS] = &card;
}

static void check_nothing_left(void) {
    REQUIRE(!tug_packets_busy(fabric.packets));
    for (uint32_t tag = 0; tag < OPERATIONS; tag++)
        REQUIRE(!live[tag].out);
    for (uint32_t peer = 0; peer < WORLD_RANKS; peer++)
        REQUIRE(peers[peer].uncounted == 0);
    REQUIRE(fabric.out == 0 && fabric.resting == 0);
}

/* Every peer refuses: nothing may be left. */
static void end_world(void) {
    script_skip();
    wires_full = false;
    for (uint32_t peer = 0; peer < WORLD_RANKS; peer++)
        receive_refusal(peer);
    for (int i = 0; i < 4; i++)
        (void)tug_packets_poll(fabric.packets);
    check_nothing_left();
    fabric.states[TUG_BY_VERBS] = NULL;
    tug_fabric_close(&fabric);
    check_canaries();
    tug_memory_table_fini(&fabric.memory);
    tug_tags_fini(&fabric.tags);
}

static void change_conditions(unsigned how) {
    wires_full = how & 1 && how & 2;
    tug_settings.aggregate = (how & 24) != 0;
    atomic_store(&fabric.flush_wanted, (how & 32) != 0);
    atomic_store(&fabric.awaiting, (how & 128) != 0);
    if (how & 64)
        tug_packets_ask(fabric.packets);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    script_begin(data, bytes);
    begin_world();
    while (!script_is_over()) {
        const unsigned what = take() % 16;
        if (what < 5)
            post();
        else if (what == 5)
            post_counting();
        else if (what < 12)
            receive();
        else if (what < 14)
            (void)tug_packets_poll(fabric.packets);
        else if (what == 14)
            tug_packets_flush(fabric.packets);
        else
            change_conditions(take());
    }
    end_world();
    return 0;
}

/* ---- the target ---- */

/* Tells run.sh whether the run was worth its time. */
static void report(void) {
    const int kinds = __builtin_popcountl(reached.kinds);
    /* all kinds of record but CONTROL, which needs another transport to send it */
    const bool enough = kinds == TUG_RECORD_KINDS - 2 && reached.completed > reached.failed &&
                        reached.messages > 0 && reached.refused > 0 && reached.trailers > 0 &&
                        reached.placed > 0 && reached.read > 0;
    fprintf(stderr,
            "reached: %lu packets came, %lu were sent, %lu were refused, %lu operations ended, "
            "%lu of them failed, %lu messages, %lu and %lu trailers, %lu long reads, %d "
            "kinds were sent: %s\n",
            reached.packets, reached.sent, reached.refused, reached.completed, reached.failed,
            reached.messages, reached.trailers, reached.placed, reached.read, kinds,
            enough ? "enough" : "too little");
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    map_registrations();
    atexit(report);
    return 0;
}
