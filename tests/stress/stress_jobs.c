/* Jobs launched and waited for by many threads, made ready by another process.
 *
 * A forked peer finds out from shared memory which jobs wait for a step, permits it and rings the
 * one bell, as ranks of a node do. Threads launch, compute, poll or wait, hand over commands in
 * between, and check that each job went through all its steps and was completed exactly once. Some
 * rounds have jobs without a bell, which must be polled. What only the holder of the baton may
 * touch is plain memory.
 */
#include <sys/mman.h>
#include <sys/wait.h>

#include "stress.h"

#define MAX_THREADS 12
#define JOBS_EACH 4
#define SLOTS (MAX_THREADS * JOBS_EACH)

/* Shared with the peer. */
struct shared {
    struct tug_bell here;  /* rung by the peer */
    struct tug_bell there; /* the peer sleeps on it */
    _Atomic bool over;
    struct slot {
        _Atomic uint32_t wanted;    /* steps asked for */
        _Atomic uint32_t permitted; /* steps allowed so far */
    } __attribute__((aligned(64))) slots[SLOTS];
};

struct job {
    struct tug_job base;
    struct slot *slot;
    uint32_t taken;    /* steps, under the baton */
    uint32_t last;     /* steps after which it is done */
    uint32_t launches; /* under the baton */
    bool out;          /* under the baton */
    _Atomic uint32_t completed;
};

struct worker {
    uint64_t random;
    struct job jobs[JOBS_EACH];
    uint32_t launched[JOBS_EACH];
    uint64_t done;
    pthread_t thread;
} __attribute__((aligned(128)));

static struct shared *shared;
static struct worker workers[MAX_THREADS];
static uint64_t commands_executed; /* under the baton */
static uint64_t deadline_ns;

static bool advance(struct tug_job *base, bool *done) {
    struct job *job = (struct job *)base;
    uint32_t permitted = atomic_load(&job->slot->permitted);
    bool moved = job->taken != permitted;
    if (!job->out) {
        job->out = true;
        job->launches++;
    }
    STRESS_CHECK((int32_t)(job->last - permitted) >= 0, "a job was permitted too much");
    job->taken = permitted;
    *done = permitted == job->last;
    return moved;
}

static void completed(struct tug_job *base) {
    struct job *job = (struct job *)base;
    STRESS_CHECK(job->out, "a job was completed that is not out");
    job->out = false;
    STRESS_CHECK(atomic_load(&job->completed) + 1 == job->launches, "completed twice");
    atomic_fetch_add(&job->completed, 1);
}

struct goal {
    struct job *job;
    uint32_t launched;
};

static bool reached(void *argument) {
    const struct goal *goal = argument;
    return atomic_load(&goal->job->completed) == goal->launched;
}

static void count_command(struct tug_command *command) {
    (void)command;
    commands_executed++;
}

static void hand_over_commands(uint64_t n) {
    for (; n > 0; n--) {
        struct tug_ticket ticket = {0};
        enum tug_entry entry;
        while ((entry = tug_engine_enter(&ticket)) == TUG_ENTRY_FULL)
            tug_engine_poll();
        if (entry == TUG_ENTRY_BATON) {
            commands_executed++;
            tug_engine_leave();
        } else {
            ticket.cell->execute = count_command;
            tug_engine_commit(&ticket);
        }
    }
}

static void launch(struct worker *self, int which) {
    struct job *job = &self->jobs[which];
    uint32_t steps = (uint32_t)(stress_random(&self->random) % 4);
    job->last = atomic_load(&job->slot->wanted) + steps;
    self->launched[which]++;
    atomic_store(&job->slot->wanted, job->last);
    (void)tug_bell_ring(&shared->there, true);
    tug_engine_launch(&job->base);
}

static void finish(struct worker *self, int which) {
    struct goal goal = {&self->jobs[which], self->launched[which]};
    switch (stress_random(&self->random) % 4) {
    case 0: /* compute, then poll as a program with MPI_Test does */
        while (!reached(&goal)) {
            for (int i = 0; i < 200; i++)
                tug_cpu_pause();
            tug_engine_poll();
            sched_yield();
        }
        break;
    case 1: { /* away, then wait */
        struct timespec pause = {0, (long)(stress_random(&self->random) % 100000)};
        nanosleep(&pause, NULL);
    }
    /* fall through */
    default:
        tug_engine_wait(reached, &goal, -1, 0);
    }
    STRESS_CHECK(reached(&goal), "a wait returned early");
    self->done++;
}

static void *work(void *argument) {
    struct worker *self = argument;
    for (uint64_t rounds = 0; stress_goes_on(rounds, deadline_ns); rounds++) {
        int n = 1 + (int)(stress_random(&self->random) % JOBS_EACH);
        for (int i = 0; i < n; i++)
            launch(self, i);
        hand_over_commands(stress_random(&self->random) % 20);
        int first = (int)(stress_random(&self->random) % (unsigned)n);
        for (int i = 0; i < n; i++)
            finish(self, (first + i) % n);
    }
    return NULL;
}

/* The other process: permits steps, some at once and some late, and rings. */
static void be_the_peer(uint64_t random) {
    for (;;) {
        bool any = false;
        uint32_t key = tug_bell_prepare(&shared->there);
        unsigned first = (unsigned)(stress_random(&random) % SLOTS);
        for (unsigned i = 0; i < SLOTS; i++) {
            struct slot *slot = &shared->slots[(first + i) % SLOTS];
            uint32_t permitted = atomic_load(&slot->permitted);
            if (permitted == atomic_load(&slot->wanted))
                continue;
            any = true;
            if (stress_random(&random) % 4 == 0)
                continue;
            atomic_store(&slot->permitted, permitted + 1);
            (void)tug_bell_ring(&shared->here, true);
        }
        if (atomic_load(&shared->over))
            _exit(0);
        if (!any)
            tug_bell_wait(&shared->there, key, 50000000, true);
        else if (stress_random(&random) % 8 == 0)
            usleep((useconds_t)(stress_random(&random) % 300));
    }
}

static uint64_t polls;

static void no_host(void) {
    polls++; /* the offload thread only */
}

static void round_of(unsigned nthreads, bool bell, double seconds) {
    tug_settings.ring_size = 16;
    STRESS_CHECK(tug_engine_start(no_host) == 0, "the engine does not start");
    commands_executed = 0;
    deadline_ns = tug_clock_ns() + (uint64_t)(seconds * 1e9);
    if (nthreads % 2 == 0)
        tug_engine_attend(1);
    for (unsigned i = 0; i < nthreads; i++) {
        struct worker *worker = &workers[i];
        *worker = (struct worker){.random = stress_seed_of(100 + i + 20 * bell)};
        for (unsigned k = 0; k < JOBS_EACH; k++) {
            struct slot *slot = &shared->slots[i * JOBS_EACH + k];
            worker->jobs[k] =
                (struct job){.base = {advance, completed, bell ? &shared->here : NULL, NULL},
                             .slot = slot,
                             .taken = atomic_load(&slot->permitted)};
        }
        STRESS_CHECK(pthread_create(&worker->thread, NULL, work, worker) == 0, "no thread");
    }
    uint64_t done = 0;
    for (unsigned i = 0; i < nthreads; i++) {
        pthread_join(workers[i].thread, NULL);
        done += workers[i].done;
    }
    if (nthreads % 2 == 0)
        tug_engine_attend(-1);
    tug_engine_stop();
    for (unsigned i = 0; i < nthreads; i++)
        for (unsigned k = 0; k < JOBS_EACH; k++) {
            struct job *job = &workers[i].jobs[k];
            STRESS_CHECK(job->launches == workers[i].launched[k] &&
                             atomic_load(&job->completed) == job->launches && !job->out,
                         "thread %u job %u: %u launched, %u seen, %u completed", i, k,
                         workers[i].launched[k], job->launches, atomic_load(&job->completed));
        }
    printf("%2u threads, %s: %8llu jobs, %8llu commands\n", nthreads,
           bell ? "one bell" : "polled  ", (unsigned long long)done,
           (unsigned long long)commands_executed);
}

int main(int argc, char **argv) {
    static const unsigned counts[] = {1, 2, 3, 6, MAX_THREADS};
    const unsigned ncounts = sizeof(counts) / sizeof(counts[0]);
    stress_parse(argc, argv);
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    STRESS_CHECK(shared != MAP_FAILED, "no shared memory");
    pid_t peer = fork();
    STRESS_CHECK(peer >= 0, "no fork");
    if (peer == 0) {
        alarm(550 + (unsigned)stress.seconds); /* not for ever when the parent is killed */
        be_the_peer(stress_seed_of(7));
    }
    stress_watchdog(450 + (unsigned)stress.seconds);
    for (unsigned i = 0; i < ncounts; i++) {
        round_of(counts[i], true, stress.seconds / ncounts / 2);
        round_of(counts[i], false, stress.seconds / ncounts / 2);
    }
    atomic_store(&shared->over, true);
    (void)tug_bell_ring(&shared->there, true);
    int status = -1;
    STRESS_CHECK(waitpid(peer, &status, 0) == peer && status == 0, "the peer ended with %d",
                 status);
    return 0;
}
