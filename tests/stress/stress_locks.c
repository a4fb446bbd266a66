/* Locks in shared memory, taken by the threads of several processes, more than there are cores.
 *
 * What the locks guard is plain memory: the thread sanitizer sees, in each process, where a lock
 * does not order its holders. Writers change a pair in two steps, which readers must find equal;
 * who must be alone looks that it is; and a writer's ticket must be the number of those who were
 * let in before it, so that nobody is overtaken by or overtakes a writer. Tickets start just below
 * their wrap. Now and then somebody reads all pairs, under all locks at once if that may be. Now
 * and then a holder lingers, so that the others fall asleep. Nobody stops before everybody has had
 * a few turns: a lock that starves one of them never comes to an end.
 */
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "node/locks.h"
#include "stress.h"

#define MAX_WORKERS 16
#define LOCKS 2
#define ENOUGH_TURNS 10

struct worker {
    uint64_t random;
    uint64_t turns[LOCKS]; /* with a ticket */
    uint64_t rounds, at_once, mutex_turns;
    pthread_t thread;
} __attribute__((aligned(128)));

struct shared {
    struct guarded {
        struct tug_rwlock lock;
        uint32_t first;   /* ticket */
        uint64_t pair[2]; /* under the lock: how often it was written */
        _Atomic uint32_t let_in;
        _Atomic int readers, writers; /* that are in now */
    } guarded[LOCKS];
    struct tug_all_lock all; /* of those locks */
    struct tug_mutex mutex;
    uint64_t mutex_turns; /* under the mutex */
    _Atomic uint64_t idled;
    uint64_t deadline_ns;
    _Atomic unsigned waiting_for; /* workers without enough turns */
    unsigned writes_percent, nprocesses;
    struct worker workers[MAX_WORKERS];
};

static struct shared *shared;

static void count_idle(void) {
    atomic_fetch_add_explicit(&shared->idled, 1, memory_order_relaxed);
}

static void linger(uint64_t *random) {
    uint64_t how = stress_random(random) % 1000;
    if (how < 2) { /* the others use up their patience and sleep */
        struct timespec pause = {0, 500000};
        nanosleep(&pause, NULL);
    } else if (how < 50) {
        sched_yield();
    }
}

/* The counts are relaxed: they must not order what only the lock may order. */
static int now(_Atomic int *count, int change) {
    return atomic_fetch_add_explicit(count, change, memory_order_relaxed) + change;
}

static void begin_reading(struct guarded *guarded, void (*idle)(void)) {
    tug_rwlock_lock_shared(&guarded->lock, idle);
    atomic_fetch_add_explicit(&guarded->let_in, 1, memory_order_relaxed);
}

static void look_at_pair(struct guarded *guarded, uint64_t *random) {
    (void)now(&guarded->readers, 1);
    uint64_t left = guarded->pair[0];
    linger(random);
    STRESS_CHECK(guarded->pair[1] == left, "a reader saw half a write");
    STRESS_CHECK(now(&guarded->writers, 0) == 0, "a writer among readers");
    (void)now(&guarded->readers, -1);
}

static void read_pair(struct guarded *guarded, uint64_t *random) {
    begin_reading(guarded, *random & 1 ? count_idle : NULL);
    look_at_pair(guarded, random);
    tug_rwlock_unlock_shared(&guarded->lock);
}

/* Who opened the lock of all may be another process, whose part the thread sanitizer does not see:
 * that the last writers are over is learnt from where they have said so. */
static void meet_writers(void) {
    for (unsigned k = 0; k < LOCKS && shared->nprocesses > 1; k++)
        (void)atomic_load(&shared->guarded[k].lock.writers);
}

/* True: at once, and no lock's tickets have been used. */
static bool read_all_pairs(uint64_t *random) {
    const bool at_once = tug_all_lock_try(&shared->all);
    for (unsigned k = 0; k < LOCKS && !at_once; k++)
        begin_reading(&shared->guarded[k], *random & 1 ? count_idle : NULL);
    if (at_once)
        meet_writers();
    else
        tug_all_lock_open(&shared->all);
    for (unsigned k = 0; k < LOCKS; k++)
        look_at_pair(&shared->guarded[k], random);
    if (at_once)
        tug_all_lock_leave(&shared->all);
    for (unsigned k = 0; k < LOCKS && !at_once; k++)
        tug_rwlock_unlock_shared(&shared->guarded[k].lock);
    return at_once;
}

static void write_pair(struct guarded *guarded, uint64_t *random) {
    void (*idle)(void) = *random & 1 ? count_idle : NULL;
    tug_rwlock_lock_exclusive(&guarded->lock, idle);
    uint32_t before = atomic_fetch_add_explicit(&guarded->let_in, 1, memory_order_relaxed);
    uint32_t ticket = atomic_load_explicit(&guarded->lock.writers, memory_order_relaxed);
    STRESS_CHECK(ticket - guarded->first == before, "the writer at place %u came after %u others",
                 ticket - guarded->first, before);
    tug_all_lock_close(&shared->all, idle);
    STRESS_CHECK(now(&guarded->writers, 1) == 1, "two writers");
    guarded->pair[0]++;
    linger(random);
    guarded->pair[1]++;
    STRESS_CHECK(now(&guarded->readers, 0) == 0, "a reader beside a writer");
    (void)now(&guarded->writers, -1);
    tug_rwlock_unlock_exclusive(&guarded->lock);
}

static void count_under_mutex(uint64_t *random) {
    tug_mutex_lock(&shared->mutex);
    uint64_t turn = shared->mutex_turns + 1;
    linger(random);
    shared->mutex_turns = turn;
    tug_mutex_unlock(&shared->mutex);
}

static void take_a_turn(struct worker *self, uint64_t what) {
    unsigned which = what % LOCKS;
    if (what / LOCKS % 100 < shared->writes_percent) {
        write_pair(&shared->guarded[which], &self->random);
        self->turns[which]++;
    } else if (what >> 20 & 1) {
        read_pair(&shared->guarded[which], &self->random);
        self->turns[which]++;
    } else if (read_all_pairs(&self->random)) {
        self->at_once++;
    } else {
        for (unsigned k = 0; k < LOCKS; k++)
            self->turns[k]++;
    }
}

static void *work(void *argument) {
    struct worker *self = argument;
    while (tug_clock_ns() < shared->deadline_ns || atomic_load(&shared->waiting_for) > 0) {
        uint64_t what = stress_random(&self->random);
        take_a_turn(self, what);
        if (++self->rounds == ENOUGH_TURNS)
            atomic_fetch_sub(&shared->waiting_for, 1);
        for (uint64_t n = what >> 60; n > 0; n--) {
            count_under_mutex(&self->random);
            self->mutex_turns++;
        }
    }
    return NULL;
}

/* A process: some of the workers. */
__attribute__((noreturn)) static void be_a_process(unsigned first, unsigned nthreads) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (unsigned i = first; i < first + nthreads; i++)
        STRESS_CHECK(pthread_create(&shared->workers[i].thread, NULL, work, &shared->workers[i]) ==
                         0,
                     "no thread");
    for (unsigned i = first; i < first + nthreads; i++)
        pthread_join(shared->workers[i].thread, NULL);
    _exit(0);
}

static void check_the_end(struct guarded *guarded, uint64_t turns) {
    uint32_t end = guarded->first + (uint32_t)turns;
    STRESS_CHECK(atomic_load(&guarded->lock.next) == end &&
                     atomic_load(&guarded->lock.readers) == end &&
                     atomic_load(&guarded->lock.writers) == end,
                 "%llu turns from ticket %u ended at next %u readers %u writers %u",
                 (unsigned long long)turns, guarded->first, atomic_load(&guarded->lock.next),
                 atomic_load(&guarded->lock.readers), atomic_load(&guarded->lock.writers));
}

static void round_of(unsigned nprocesses, unsigned nthreads, unsigned writes_percent,
                     double seconds) {
    unsigned nworkers = nprocesses * nthreads;
    memset(shared, 0, sizeof(*shared));
    shared->writes_percent = writes_percent;
    shared->nprocesses = nprocesses;
    shared->waiting_for = nworkers;
    for (unsigned k = 0; k < LOCKS; k++) {
        struct guarded *guarded = &shared->guarded[k];
        uint32_t first = -(uint32_t)(stress_seed_of(nworkers + k) % 1000);
        *guarded = (struct guarded){.lock = {.next = first, .readers = first, .writers = first},
                                    .first = first};
    }
    for (unsigned i = 0; i < nworkers; i++)
        shared->workers[i].random = stress_seed_of(1000 * writes_percent + 100 * nprocesses + i);
    shared->deadline_ns = tug_clock_ns() + (uint64_t)(seconds * 1e9);
    fflush(stdout);
    for (unsigned i = 0; i < nprocesses; i++) {
        pid_t child = fork();
        STRESS_CHECK(child >= 0, "no fork");
        if (child == 0)
            be_a_process(i * nthreads, nthreads);
    }
    for (unsigned i = 0; i < nprocesses; i++) {
        int status = -1;
        STRESS_CHECK(wait(&status) > 0 && status == 0, "a process ended with %x", status);
    }
    uint64_t turns[LOCKS] = {0}, mutex_turns = 0, at_once = 0, least = UINT64_MAX, most = 0;
    for (unsigned i = 0; i < nworkers; i++) {
        const struct worker *worker = &shared->workers[i];
        least = worker->rounds < least ? worker->rounds : least;
        most = worker->rounds > most ? worker->rounds : most;
        at_once += worker->at_once;
        for (unsigned k = 0; k < LOCKS; k++)
            turns[k] += worker->turns[k];
        mutex_turns += worker->mutex_turns;
    }
    for (unsigned k = 0; k < LOCKS; k++)
        check_the_end(&shared->guarded[k], turns[k]);
    STRESS_CHECK(atomic_load(&shared->all.word) <= TUG_ALL_CLOSED, "all locks are still held");
    STRESS_CHECK(shared->mutex_turns == mutex_turns, "%llu turns with the mutex, %llu counted",
                 (unsigned long long)mutex_turns, (unsigned long long)shared->mutex_turns);
    printf("%u processes of %2u threads, %3u%% writes: %8llu turns (a worker %llu to %llu), "
           "%8llu at once, %8llu with the mutex, idle %llu times\n",
           nprocesses, nthreads, writes_percent, (unsigned long long)(turns[0] + turns[1]),
           (unsigned long long)least, (unsigned long long)most, (unsigned long long)at_once,
           (unsigned long long)mutex_turns, (unsigned long long)atomic_load(&shared->idled));
}

static void on_alarm(int number) {
    (void)number;
    for (unsigned k = 0; k < LOCKS; k++) {
        struct guarded *guarded = &shared->guarded[k];
        fprintf(stderr, "lock %u: next %u readers %u writers %u bell %x; %d and %d are in\n", k,
                atomic_load(&guarded->lock.next), atomic_load(&guarded->lock.readers),
                atomic_load(&guarded->lock.writers), atomic_load(&guarded->lock.bell.word),
                atomic_load(&guarded->readers), atomic_load(&guarded->writers));
    }
    stress_fail("nothing moves; all %x bell %x, mutex %u", atomic_load(&shared->all.word),
                atomic_load(&shared->all.bell.word), atomic_load(&shared->mutex.word));
}

int main(int argc, char **argv) {
    static const struct {
        unsigned processes, threads, writes_percent;
    } rounds[] = {{1, 2, 50}, {1, 8, 10}, {1, 16, 50}, {2, 1, 50},
                  {8, 1, 10}, {4, 4, 30}, {4, 4, 100}, {4, 4, 0}};
    const unsigned nrounds = sizeof(rounds) / sizeof(rounds[0]);
    stress_parse(argc, argv);
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    STRESS_CHECK(shared != MAP_FAILED, "no shared memory");
    signal(SIGALRM, on_alarm);
    alarm(450 + (unsigned)stress.seconds);
    for (unsigned i = 0; i < nrounds; i++)
        round_of(rounds[i].processes, rounds[i].threads, rounds[i].writes_percent,
                 stress.seconds / nrounds);
    return 0;
}
