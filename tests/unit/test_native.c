/* The native transport between two processes that are one: two fabrics, control messages that are
 * carried when the test says so, and a host MPI made of memcpy. Seen: what arrives, who counts
 * what, how much is in flight, and that nothing is fetched that its owner has not allowed. */
#include <mpi.h>

#include "check.h"
#include "host/host.h"
#include "transport/native.h"

#define OPERATIONS 256
#define MIN TUG_NATIVE_MIN

/* ---- the host ---- */

#define GETS 512
static struct get {
    void *to;
    const void *from;
    size_t bytes;
    bool under_way;
} gets[GETS];
static int gets_under_way, gets_most, gets_ever;
static int fail_get_at = -1, fail_test_at = -1; /* the n-th get, from 0 */
static int attached, attach_error;
static int probes;

static int fake_create(MPI_Info info, MPI_Comm comm, MPI_Win *window) {
    (void)info, (void)comm;
    *window = 7;
    return MPI_SUCCESS;
}

static int fake_errhandler(MPI_Win window, MPI_Errhandler handler) {
    (void)window, (void)handler;
    return MPI_SUCCESS;
}

static int fake_lock_all(int assertion, MPI_Win window) {
    (void)assertion, (void)window;
    return MPI_SUCCESS;
}

static int fake_iallreduce(const void *in, void *inout, int count, MPI_Datatype type, MPI_Op op,
                           MPI_Comm comm, MPI_Request *request) {
    (void)in, (void)inout, (void)count, (void)type, (void)op, (void)comm;
    *request = MPI_REQUEST_NULL;
    return MPI_SUCCESS; /* in place, and all agree */
}

static int fake_test(MPI_Request *request, int *flag, MPI_Status *status) {
    (void)request, (void)status;
    *flag = 1;
    return MPI_SUCCESS;
}

static int fake_unlock_all(MPI_Win window) {
    (void)window;
    return MPI_SUCCESS;
}

static int fake_free(MPI_Win *window) {
    *window = MPI_WIN_NULL;
    return MPI_SUCCESS;
}

static int fake_attach(MPI_Win window, void *base, MPI_Aint bytes) {
    (void)window, (void)base, (void)bytes;
    attached += attach_error == MPI_SUCCESS;
    return attach_error;
}

static int fake_detach(MPI_Win window, const void *base) {
    (void)window, (void)base;
    attached--;
    return MPI_SUCCESS;
}

static int fake_rget(void *to, MPI_Count count, MPI_Datatype type, int peer, MPI_Aint from,
                     MPI_Count from_count, MPI_Datatype from_type, MPI_Win window,
                     MPI_Request *request) {
    (void)peer, (void)window;
    assert_true(type == MPI_BYTE && from_type == MPI_BYTE && count == from_count);
    if (gets_ever++ == fail_get_at)
        return MPI_ERR_RMA_RANGE;
    int slot = 0;
    while (gets[slot].under_way)
        slot++;
    gets[slot] = (struct get){to, (const void *)from, (size_t)count, true}; /* NOLINT */
    *request = 1000 + slot;
    if (++gets_under_way > gets_most)
        gets_most = gets_under_way;
    return MPI_SUCCESS;
}

/* Every other one arrives, last first. */
static int fake_testsome(int count, MPI_Request *requests, int *ready, int *indices,
                         MPI_Status *statuses) {
    static int tested;
    int error = MPI_SUCCESS;
    *ready = 0;
    for (int i = count - 1; i >= 0; i -= 2) {
        struct get *get = &gets[requests[i] - 1000];
        const bool fails = tested++ == fail_test_at;
        assert_true(get->under_way);
        if (!fails)
            memcpy(get->to, get->from, get->bytes);
        get->under_way = false;
        gets_under_way--;
        requests[i] = MPI_REQUEST_NULL;
        statuses[*ready].MPI_ERROR = fails ? MPI_ERR_OTHER : MPI_SUCCESS;
        indices[(*ready)++] = i;
        error = fails ? MPI_ERR_IN_STATUS : error;
    }
    if (fail_test_at >= 0 && tested > fail_test_at)
        fail_test_at = -1;
    if (fail_test_at < 0)
        tested = 0;
    return error;
}

static int fake_iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status) {
    (void)source, (void)tag, (void)comm, (void)status;
    *flag = 0;
    probes++;
    return MPI_SUCCESS;
}

/* ---- the fabric ---- */

static struct process {
    struct tug_fabric fabric;
    void *state;
    uint32_t free_tag;
} processes[2];

static struct sent {
    unsigned char data[TUG_CONTROL_MAX];
    size_t bytes;
    uint32_t from, to;
} messages[4 * OPERATIONS];
static int nsent, nread;
static bool parted; /* each has lost the other */
static int completed, handed_on;
static int last_status;
static const struct tug_registration *target; /* not counted any more by whoever hears of the end */

static const struct tug_transport *const native = &tug_transport_native;

static void packets_post(void *state, struct tug_operation *operation) {
    (void)operation;
    assert_ptr_equal(state, &handed_on);
    handed_on++;
}

static const struct tug_transport packets = {.name = "packets", .post = packets_post};
const struct tug_transport *const tug_transports[] = {[TUG_BY_VERBS] = &packets,
                                                      [TUG_BY_NATIVE] = &tug_transport_native,
                                                      [TUG_BY_PACKETS] = &packets,
                                                      NULL};

int tug_fabric_control(struct tug_fabric *fabric, uint32_t peer, unsigned transport,
                       const void *data, size_t bytes) {
    assert_int_equal(transport, TUG_BY_NATIVE);
    if (parted)
        return TUG_ERR_PEER;
    assert_true(bytes <= TUG_CONTROL_MAX);
    assert_true(nsent - nread < 4 * OPERATIONS);
    struct sent *message = &messages[nsent++ % (4 * OPERATIONS)];
    memcpy(message->data, data, bytes);
    message->bytes = bytes;
    message->from = fabric->rank;
    message->to = peer;
    return 0;
}

void tug_fabric_complete(struct tug_fabric *fabric, struct tug_operation *operation) {
    (void)fabric;
    assert_int_not_equal(operation->kind, TUG_OPERATION_NONE); /* exactly once */
    assert_true(target == NULL || target->serving == 0);
    operation->kind = TUG_OPERATION_NONE;
    last_status = operation->status;
    completed++;
}

static void carry_one(void) {
    const struct sent message = messages[nread++ % (4 * OPERATIONS)];
    native->control(processes[message.to].state, message.from, message.data, message.bytes);
}

static void carry(void) {
    while (nread < nsent)
        carry_one();
}

static void settle(void) {
    for (int round = 0; round < 10000; round++) {
        carry();
        native->poll(processes[0].state);
        native->poll(processes[1].state);
        if (nread == nsent && !native->busy(processes[0].state) &&
            !native->busy(processes[1].state))
            return;
    }
    fail_msg("something is still busy");
}

static int start(void **state) {
    (void)state;
    tug_host.Win_create_dynamic = fake_create;
    tug_host.Win_set_errhandler = fake_errhandler;
    tug_host.Win_lock_all = fake_lock_all;
    tug_host.Iallreduce = fake_iallreduce;
    tug_host.Test = fake_test;
    tug_host.Win_unlock_all = fake_unlock_all;
    tug_host.Win_free = fake_free;
    tug_host.Win_attach = fake_attach;
    tug_host.Win_detach = fake_detach;
    tug_host.Rget_c = fake_rget;
    tug_host.Testsome = fake_testsome;
    tug_host.Iprobe = fake_iprobe;
    gets_most = gets_ever = completed = handed_on = probes = 0;
    nsent = nread = 0;
    parted = false;
    attach_error = MPI_SUCCESS;
    target = NULL;
    fail_get_at = fail_test_at = -1;
    for (uint32_t i = 0; i < 2; i++) {
        struct tug_fabric *fabric = &processes[i].fabric;
        memset(&processes[i], 0, sizeof(processes[i]));
        fabric->rank = i;
        fabric->nranks = 2;
        fabric->noperations = OPERATIONS;
        fabric->operations = aligned_alloc(128, OPERATIONS * sizeof(struct tug_operation));
        memset(fabric->operations, 0, OPERATIONS * sizeof(struct tug_operation));
        assert_int_equal(tug_memory_table_init(&fabric->memory), 0);
        fabric->states[TUG_BY_PACKETS] = &handed_on;
        assert_int_equal(native->open(fabric, &processes[i].state), 0);
        fabric->states[TUG_BY_NATIVE] = processes[i].state;
    }
    return 0;
}

static int end(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        native->close(processes[i].state);
        tug_memory_table_fini(&processes[i].fabric.memory);
        free(processes[i].fabric.operations);
    }
    assert_int_equal(gets_under_way, 0);
    assert_int_equal(attached, 0);
    return 0;
}

static void enter(int process, struct tug_registration *registration, void *base, size_t bytes) {
    *registration = (struct tug_registration){.base = base, .bytes = bytes};
    assert_int_equal(native->register_memory(processes[process].state, registration), 0);
    assert_int_equal(tug_memory_add(&processes[process].fabric.memory, registration), 0);
}

static void leave(int process, struct tug_registration *registration) {
    assert_int_equal(registration->serving, 0);
    tug_memory_remove(&processes[process].fabric.memory, registration);
    native->deregister_memory(processes[process].state, registration);
}

/* An operation of process 0 on process 1, not posted yet. */
static struct tug_operation *prepare(enum tug_operation_kind kind, struct tug_registration *local,
                                     size_t local_offset, uint64_t key, uint64_t offset,
                                     size_t bytes) {
    struct tug_fabric *fabric = &processes[0].fabric;
    struct tug_operation *operation = &fabric->operations[processes[0].free_tag++ % OPERATIONS];
    assert_int_equal(operation->kind, TUG_OPERATION_NONE);
    memset(operation, 0, sizeof(*operation));
    operation->kind = (uint8_t)kind;
    operation->peer = 1;
    operation->key = key;
    operation->offset = offset;
    operation->local = local->base + local_offset;
    operation->registration = local;
    local->users++;
    operation->bytes = bytes;
    return operation;
}

static void post(struct tug_operation *operation) {
    assert_true(native->takes(processes[0].state, operation));
    native->post(processes[0].state, operation);
}

/* What two processes own: registered at both. */
struct pair {
    unsigned char *memory[2];
    struct tug_registration registration[2];
    size_t bytes;
};

static struct pair make_pair(size_t bytes) {
    struct pair pair = {.bytes = bytes};
    for (int i = 0; i < 2; i++) {
        pair.memory[i] = malloc(bytes);
        for (size_t at = 0; at < bytes; at++)
            pair.memory[i][at] = (unsigned char)(at * 31 + at / 251 + (size_t)i * 101);
    }
    return pair;
}

static void enter_pair(struct pair *pair) {
    for (int i = 0; i < 2; i++)
        enter(i, &pair->registration[i], pair->memory[i], pair->bytes);
}

static void leave_pair(struct pair *pair) {
    for (int i = 0; i < 2; i++) {
        leave(i, &pair->registration[i]);
        free(pair->memory[i]);
    }
}

/* ---- the cases ---- */

static void moves_one(enum tug_operation_kind kind, size_t bytes) {
    struct pair pair = make_pair(bytes + 64);
    enter_pair(&pair);
    const int from = kind == TUG_OPERATION_READ, to = !from;
    unsigned char *expected = malloc(bytes + 64);
    memcpy(expected, pair.memory[to], bytes + 64);
    const size_t at[2] = {16, 33}; /* where the block is, at 0 and at 1 */
    memcpy(expected + at[to], pair.memory[from] + at[from], bytes);
    const int before = completed;
    post(prepare(kind, &pair.registration[0], at[0], pair.registration[1].id, at[1], bytes));
    assert_int_equal(completed, before);
    assert_true(native->busy(processes[0].state));
    assert_false(native->arm(processes[0].state));
    settle();
    assert_int_equal(completed, before + 1);
    assert_int_equal(last_status, 0);
    assert_memory_equal(pair.memory[to], expected, bytes + 64);
    assert_true(native->arm(processes[0].state));
    assert_true(native->arm(processes[1].state));
    free(expected);
    leave_pair(&pair);
}

static void moves_blocks_of_any_size(void **state) {
    (void)state;
    const size_t sizes[] = {MIN, MIN + 1, 4 * MIN - 1, 4 * MIN, 4 * MIN + 1, (1 << 20) + 13};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        moves_one(TUG_OPERATION_READ, sizes[i]);
        moves_one(TUG_OPERATION_WRITE, sizes[i]);
    }
}

static void takes_what_it_should(void **state) {
    (void)state;
    struct pair pair = make_pair(2 * MIN);
    struct tug_registration small;
    enter_pair(&pair);
    enter(0, &small, &completed, sizeof completed);
    const uint64_t key = pair.registration[1].id;
    struct tug_operation *operation =
        prepare(TUG_OPERATION_READ, &pair.registration[0], 0, key, 0, MIN);
    assert_true(native->takes(processes[0].state, operation));
    operation->bytes = MIN - 1;
    assert_false(native->takes(processes[0].state, operation));
    operation->bytes = MIN;
    operation->kind = TUG_OPERATION_AM;
    assert_false(native->takes(processes[0].state, operation));
    operation->kind = TUG_OPERATION_FETCH;
    assert_false(native->takes(processes[0].state, operation));
    operation->kind = TUG_OPERATION_WRITE;
    assert_true(native->takes(processes[0].state, operation));
    operation->local = NULL; /* a question */
    assert_true(native->takes(processes[0].state, operation));
    operation->kind = TUG_OPERATION_NONE;
    assert_true(native->reaches(processes[0].state, 1));
    assert_false(native->reaches(processes[0].state, 2));
    assert_int_equal(attached, 2); /* too small for a block: not attached */
    leave(0, &small);
    leave_pair(&pair);
}

static void many_at_once_are_bounded(void **state) {
    (void)state;
    struct pair pair = make_pair(8 * MIN);
    enter_pair(&pair);
    unsigned char *expected = malloc(pair.bytes);
    memcpy(expected, pair.memory[1], pair.bytes);
    for (int i = 0; i < 200; i++) {
        /* writes go to the upper half, reads come from the lower one and change nothing there */
        const bool reads = i % 2 == 0;
        const size_t offset = (reads ? 0 : 4 * MIN) + (size_t)(i % 3) * MIN;
        post(prepare(reads ? TUG_OPERATION_READ : TUG_OPERATION_WRITE, &pair.registration[0],
                     offset, pair.registration[1].id, offset, MIN));
        if (!reads)
            memcpy(expected + offset, pair.memory[0] + offset, MIN);
    }
    assert_int_equal(nsent - nread, 64); /* the others are told of later */
    settle();
    assert_int_equal(completed, 200);
    assert_int_equal(last_status, 0);
    assert_true(gets_most <= 256); /* 128 of each process */
    assert_memory_equal(pair.memory[1], expected, pair.bytes);
    free(expected);
    leave_pair(&pair);
}

static void what_is_not_there_is_not_fetched(void **state) {
    (void)state;
    struct pair pair = make_pair(2 * MIN);
    enter_pair(&pair);
    struct tug_registration ended;
    unsigned char *other = malloc(MIN);
    enter(1, &ended, other, MIN);
    const uint64_t ended_key = ended.id;
    leave(1, &ended);
    const struct {
        uint64_t key, offset;
        int status;
    } wrong[] = {{ended_key, 0, TUG_ERR_KEY},
                 {pair.registration[1].id, MIN + 1, TUG_ERR_RANGE},
                 {pair.registration[1].id, UINT64_MAX, TUG_ERR_RANGE}};
    for (int i = 0; i < 6; i++) {
        last_status = 0;
        post(prepare(i % 2 ? TUG_OPERATION_READ : TUG_OPERATION_WRITE, &pair.registration[0], 0,
                     wrong[i / 2].key, wrong[i / 2].offset, MIN));
        settle();
        assert_int_equal(completed, i + 1);
        assert_int_equal(last_status, wrong[i / 2].status);
    }
    assert_int_equal(gets_ever, 0);
    free(other);
    leave_pair(&pair);
}

static void counts_what_is_under_way(void **state) {
    (void)state;
    struct pair pair = make_pair(MIN);
    enter_pair(&pair);
    const struct tug_registration *theirs = target = &pair.registration[1];
    post(prepare(TUG_OPERATION_READ, &pair.registration[0], 0, theirs->id, 0, MIN));
    carry(); /* asked and granted */
    assert_int_equal(theirs->serving, 1);
    assert_true(native->busy(processes[1].state));
    assert_false(native->arm(processes[1].state));
    native->poll(processes[1].state);
    assert_int_equal(probes, 1); /* the peer's get needs our host */
    settle();
    assert_int_equal(theirs->serving, 0);
    post(prepare(TUG_OPERATION_WRITE, &pair.registration[0], 0, theirs->id, 0, MIN));
    carry();
    assert_int_equal(theirs->serving, 1);
    probes = 0;
    native->poll(processes[0].state);
    assert_int_equal(probes, 1);
    settle();
    assert_int_equal(theirs->serving, 0);
    probes = 0;
    native->poll(processes[0].state);
    native->poll(processes[1].state);
    assert_int_equal(probes, 0);
    leave_pair(&pair);
}

/* The second of two equal answers is nobody's. */
static void an_answer_counts_once(void **state) {
    (void)state;
    struct pair pair = make_pair(2 * MIN);
    enter_pair(&pair);
    for (int i = 0; i < 2; i++) {
        post(prepare(i == 0 ? TUG_OPERATION_READ : TUG_OPERATION_WRITE, &pair.registration[0], 0,
                     pair.registration[1].id, 0, 2 * MIN));
        carry_one();
        while (nread == nsent)
            native->poll(processes[1].state);
        messages[nsent] = messages[nread];
        nsent++;
        settle();
        assert_int_equal(completed, i + 1);
        assert_int_equal(gets_ever, 2 * (i + 1));
    }
    leave_pair(&pair);
}

static void memory_is_attached_once(void **state) {
    (void)state;
    unsigned char *memory = malloc(16 * MIN);
    struct tug_registration outer, inner, across, within, apart;
    enter(1, &outer, memory, 8 * MIN);
    enter(1, &inner, memory + 2 * MIN, 2 * MIN);
    assert_int_equal(attached, 1);
    assert_non_null(inner.of_transport[TUG_BY_NATIVE]);
    enter(1, &across, memory + 7 * MIN, 2 * MIN); /* over the end: not possible */
    assert_null(across.of_transport[TUG_BY_NATIVE]);
    enter(1, &apart, memory + 9 * MIN, 2 * MIN);
    assert_non_null(apart.of_transport[TUG_BY_NATIVE]);
    assert_int_equal(attached, 2);
    leave(1, &outer); /* still attached for the inner one; but what is outside that may be gone */
    assert_int_equal(attached, 2);
    enter(1, &within, memory + 4 * MIN, 2 * MIN);
    assert_null(within.of_transport[TUG_BY_NATIVE]);
    leave(1, &inner);
    assert_int_equal(attached, 1);
    leave(1, &within);
    enter(1, &within, memory + 4 * MIN, 2 * MIN);
    assert_non_null(within.of_transport[TUG_BY_NATIVE]);
    leave(1, &within);
    leave(1, &across);
    leave(1, &apart);
    assert_int_equal(attached, 0);
    free(memory);
}

static void what_is_not_attached_goes_by_packets(void **state) {
    (void)state;
    struct pair pair = make_pair(MIN);
    attach_error = MPI_ERR_RMA_ATTACH;
    enter_pair(&pair);
    struct tug_operation *operation =
        prepare(TUG_OPERATION_WRITE, &pair.registration[0], 0, pair.registration[1].id, 0, MIN);
    assert_false(native->takes(processes[0].state, operation));
    operation->kind = TUG_OPERATION_READ;
    post(operation);
    settle();
    assert_int_equal(handed_on, 1);
    assert_int_equal(completed, 0);
    assert_int_equal(gets_ever, 0);
    leave_pair(&pair);
}

static void failures_of_the_host_are_told(void **state) {
    (void)state;
    struct pair pair = make_pair(10 * MIN);
    enter_pair(&pair);
    for (int i = 0; i < 8; i++) {
        gets_ever = 0;
        *(i < 4 ? &fail_get_at : &fail_test_at) = i % 4 < 2 ? 0 : 6; /* the first, a later one */
        last_status = 0;
        post(prepare(i % 2 ? TUG_OPERATION_READ : TUG_OPERATION_WRITE, &pair.registration[0], 0,
                     pair.registration[1].id, 0, 10 * MIN));
        settle();
        fail_get_at = fail_test_at = -1;
        assert_int_equal(completed, i + 1);
        assert_int_equal(last_status, TUG_ERR_MPI);
        assert_int_equal(pair.registration[1].serving, 0);
    }
    leave_pair(&pair);
    moves_one(TUG_OPERATION_READ, 3 * MIN); /* and it goes on */
}

static void nonsense_is_refused(void **state) {
    (void)state;
    struct pair pair = make_pair(MIN);
    enter_pair(&pair);
    /* an operation that is out, but not for the native transport, and one that has been asked for
     */
    struct tug_operation *foreign =
        prepare(TUG_OPERATION_READ, &pair.registration[0], 0, pair.registration[1].id, 0, MIN);
    post(prepare(TUG_OPERATION_READ, &pair.registration[0], 0, pair.registration[1].id, 0, MIN));
    nread = nsent; /* the question is lost */
    uint32_t seed = 12345;
    for (int i = 0; i < 200000; i++) {
        uint64_t words[8];
        for (int w = 0; w < 8; w++) {
            seed = seed * 1664525 + 1013904223;
            words[w] = (uint64_t)(seed >> 16) % 300;
        }
        const uint32_t head[2] = {(seed >> 9) % 8, (seed >> 17) % 3 == 0 ? 1 : (seed >> 13) % 300};
        memcpy(words, head, 8);
        words[5] = (uint64_t)(int64_t)(words[5] < 250 ? 0 : 1 - (int64_t)words[5] % 4);
        if (head[0] == 5 && words[2] % 2 == 0)
            words[1] = pair.registration[0].id; /* of which nothing is under way */
        if (head[0] == 2 && head[1] == 1)       /* this one is due */
            continue;
        const size_t bytes = i % 4 == 0 ? seed % 64 : 48;
        native->control(processes[0].state, 1, words, bytes);
        nread = nsent;
    }
    assert_int_equal(completed, 0);
    assert_int_equal(handed_on, 0);
    assert_int_equal(foreign->kind, TUG_OPERATION_READ);
    assert_int_equal(pair.registration[0].serving, 0);
    native->poll(processes[0].state);
    assert_int_equal(gets_ever, 0);
    leave_pair(&pair);
}

/* Each loses the other when so many messages have been carried, and so many polls made. */
static void part_after(struct pair *pair, int steps) {
    enum { READS = 40, WRITES = 40, ALL = READS + WRITES };
    completed = gets_most = 0;
    parted = false;
    for (int i = 0; i < ALL; i++)
        post(prepare(i % 2 ? TUG_OPERATION_READ : TUG_OPERATION_WRITE, &pair->registration[0],
                     (size_t)i * MIN, pair->registration[1].id, (size_t)i * MIN, MIN));
    for (int step = 0; step < steps; step++) {
        if (nread < nsent && step % 3 != 0)
            carry_one();
        else
            native->poll(processes[step % 2].state);
    }
    parted = true;
    nread = nsent;
    for (int i = 0; i < 2; i++)
        native->lost(processes[i].state, (uint32_t)!i);
    const int before = gets_ever;
    settle();
    assert_int_equal(gets_ever, before); /* nothing more is asked for */
    assert_int_equal(completed, ALL);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pair->registration[i].serving, 0);
    post(prepare(TUG_OPERATION_READ, &pair->registration[0], 0, pair->registration[1].id, 0, MIN));
    assert_int_equal(completed, ALL + 1);
    assert_int_equal(last_status, TUG_ERR_PEER);
}

static void nothing_is_kept_of_a_lost_peer(void **state) {
    (void)state;
    struct pair pair = make_pair(80 * MIN);
    enter_pair(&pair);
    for (int steps = 0; steps < 400; steps += steps < 20 ? 1 : 13)
        part_after(&pair, steps);
    leave_pair(&pair);
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, start, end)
    const struct CMUnitTest cases[] = {
        CASE(moves_blocks_of_any_size),       CASE(takes_what_it_should),
        CASE(many_at_once_are_bounded),       CASE(what_is_not_there_is_not_fetched),
        CASE(counts_what_is_under_way),       CASE(an_answer_counts_once),
        CASE(memory_is_attached_once),        CASE(what_is_not_attached_goes_by_packets),
        CASE(failures_of_the_host_are_told),  CASE(nonsense_is_refused),
        CASE(nothing_is_kept_of_a_lost_peer),
    };
    return cmocka_run_group_tests_name("transport/native", cases, NULL, NULL);
}
