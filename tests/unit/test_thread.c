/* The offload thread: what it does with nobody calling, that it costs nothing when there is nothing
 * to do, and that stop and fork leave no trace. */
#include <dirent.h>
#include <signal.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine_fixture.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

static int stop(void **state) {
    (void)state;
    tug_engine_stop();
    tug_settings_reset();
    return 0;
}

/* The value after `key:` in a task's status, or -1. */
static long task_status(const char *task, const char *key) {
    char path[300], line[256];
    long value = -1;
    snprintf(path, sizeof(path), "/proc/self/task/%s/status", task);
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        if (strncmp(line, key, strlen(key)) == 0)
            value = strtol(line + strlen(key) + 1, NULL, 10);
    if (file != NULL)
        fclose(file);
    return value;
}

/* The thread id of the engine's thread as a string, by its name; false when there is none. */
static bool find_offload(char task[32]) {
    bool found = false;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (struct dirent *entry; !found && (entry = readdir(tasks)) != NULL;) {
        char path[300], name[32] = "";
        snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = fopen(path, "r");
        if (file == NULL)
            continue;
        found = fgets(name, sizeof(name), file) != NULL && strcmp(name, "tugboat\n") == 0;
        if (found)
            snprintf(task, 32, "%.31s", entry->d_name);
        fclose(file);
    }
    closedir(tasks);
    return found;
}

static void thread_only_where_it_is_wanted(void **state) {
    (void)state;
    char task[32];
    assert_false(find_offload(task));
    start_engine(TUG_PROGRESS_CALLER, 16);
    check_sleep_us(2000);
    assert_false(find_offload(task));
    stop_engine();
    for (int mode = 0; mode < 2; mode++) {
        start_engine(mode == 0 ? TUG_PROGRESS_AUTO : TUG_PROGRESS_THREAD, 16);
        CHECK_SOON(find_offload(task));
        stop_engine();
        CHECK_SOON(!find_offload(task)); /* the kernel lists a joined thread a moment longer */
    }
}

static void attendance_polls_the_host(void **state) {
    (void)state;
    for (int mode = 0; mode < 2; mode++) {
        start_engine(mode == 0 ? TUG_PROGRESS_AUTO : TUG_PROGRESS_THREAD, 16);
        check_sleep_us(30000);
        assert_int_equal(atomic_load(&host_polls), 0);
        tug_engine_attend(1);
        tug_engine_attend(1);
        CHECK_SOON(atomic_load(&host_polls) > 20);
        assert_false(pthread_equal(atomic_load(&host_poller), pthread_self()));
        tug_engine_attend(-1);
        uint64_t seen = atomic_load(&host_polls);
        CHECK_SOON(atomic_load(&host_polls) > seen + 20); /* one window is still open */
        tug_engine_attend(-1);
        check_sleep_us(20000);
        seen = atomic_load(&host_polls);
        check_sleep_us(50000);
        assert_in_range(atomic_load(&host_polls), seen, seen + 1); /* one may have been displaced */
        stop_engine();
    }
}

static void attend_while_a_job_is_out(enum tug_progress how) {
    static struct tug_bell bell;
    static struct step_job job;
    start_engine(how, 16);
    step_job_init(&job, 1, 0, &bell);
    tug_engine_launch(&job.base);
    tug_engine_attend(1);
    CHECK_SOON(atomic_load(&host_polls) > 20);
    check_sleep_us(30000); /* the offload thread has taken the job over by now */
    uint64_t seen = atomic_load(&host_polls);
    CHECK_SOON(atomic_load(&host_polls) > seen + 20);
    tug_engine_attend(-1);
    atomic_store(&job.permitted, 1);
    (void)tug_bell_ring(&bell, true);
    step_job_wait(&job);
}

/* Where it stays awake for the job, too. */
static void attended_also_while_a_job_is_out(void **state) {
    (void)state;
    attend_while_a_job_is_out(TUG_PROGRESS_AUTO);
    stop_engine();
    attend_while_a_job_is_out(TUG_PROGRESS_THREAD);
}

static void attending_starts_while_it_sleeps_on_a_job(void **state) {
    (void)state;
    static struct tug_bell bell;
    static struct step_job job;
    start_engine(TUG_PROGRESS_AUTO, 16);
    step_job_init(&job, 1, 0, &bell);
    tug_engine_launch(&job.base);
    check_sleep_us(50000); /* asleep on the bell, without a timer */
    tug_engine_attend(1);
    CHECK_SOON(atomic_load(&host_polls) > 20);
    tug_engine_attend(-1);
    atomic_store(&job.permitted, 1);
    (void)tug_bell_ring(&bell, true);
    step_job_wait(&job);
}

static void idle_means_idle(enum tug_progress progress) {
    char task[32];
    static struct step_job job;
    start_engine(progress, 16);
    tug_engine_attend(1);
    step_job_init(&job, 1, 1, NULL);
    tug_engine_launch(&job.base);
    step_job_wait(&job);
    tug_engine_attend(-1);
    tug_engine_drain();
    CHECK_SOON(find_offload(task));
    bool asleep = false;
    for (int attempt = 0; attempt < 20 && !asleep; attempt++) {
        check_sleep_us(100000); /* what was going on settles, sooner or later */
        long switches = task_status(task, "voluntary_ctxt_switches");
        uint64_t before = check_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
        check_sleep_us(300000);
        uint64_t used = check_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - before;
        assert_true(switches >= 0);
        asleep = task_status(task, "voluntary_ctxt_switches") == switches && /* no timer */
                 (SANITIZED || used < 2000000);
    }
    assert_true(asleep);
    stop_engine();
}

static void idle_costs_no_cpu(void **state) {
    (void)state;
    idle_means_idle(TUG_PROGRESS_AUTO);
    idle_means_idle(TUG_PROGRESS_THREAD);
}

static void a_job_that_cannot_move_costs_little(void **state) {
    (void)state;
    static struct tug_bell bell;
    static struct step_job job;
    start_engine(TUG_PROGRESS_AUTO, 16);
    step_job_init(&job, 1, 0, &bell);
    tug_engine_launch(&job.base);
    check_sleep_us(50000);
    uint64_t before = check_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    uint64_t start = check_clock_ns(CLOCK_MONOTONIC);
    check_sleep_us(200000);
    uint64_t used = check_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - before;
    if (!SANITIZED)
        assert_true(used < (check_clock_ns(CLOCK_MONOTONIC) - start) / 20);
    atomic_store(&job.permitted, 1);
    (void)tug_bell_ring(&bell, true);
    CHECK_SOON(step_job_is_done(&job));
}

/* The job is over, and its memory goes: the thread may still sleep there. */
static void a_bell_goes_on_which_the_thread_sleeps(void **state) {
    (void)state;
    static struct step_job job;
    start_engine(TUG_PROGRESS_AUTO, 16);
    for (int i = 0; i < 10; i++) {
        struct tug_bell *bell =
            mmap(NULL, sizeof(*bell), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(bell, MAP_FAILED);
        step_job_init(&job, 1, 0, bell);
        tug_engine_launch(&job.base);
        check_sleep_us(4000);
        atomic_store(&job.permitted, 1);
        step_job_wait(&job);
        tug_engine_forget_bell(bell);
        munmap(bell, sizeof(*bell));
        check_sleep_us(4000); /* the sleep ends */
    }
}

static void deep_sleep_ends_with_work(void **state) {
    (void)state;
    static struct step_job job;
    start_engine(TUG_PROGRESS_AUTO, 16);
    for (int i = 0; i < 5; i++) {
        check_sleep_us(60000); /* deep */
        step_job_init(&job, 1, 0, NULL);
        tug_engine_launch(&job.base);
        atomic_store(&job.permitted, 1);
        CHECK_SOON(step_job_is_done(&job)); /* nobody else drives */
    }
}

static void nothing(struct tug_command *command) {
    (void)command;
}

static void hand_over(void) {
    struct tug_ticket ticket = {0};
    enum tug_entry entry = tug_engine_enter(&ticket);
    if (entry == TUG_ENTRY_BATON) {
        tug_engine_leave();
    } else if (entry == TUG_ENTRY_TICKET) {
        ticket.cell->execute = nothing;
        tug_engine_commit(&ticket);
    }
}

/* A thread that never waits and only hands over operations advances no job itself. */
static void direct_operations_do_not_starve_a_job(void **state) {
    (void)state;
    static struct step_job job;
    start_engine(TUG_PROGRESS_AUTO, 16);
    step_job_init(&job, 1, 0, NULL);
    tug_engine_launch(&job.base);
    uint64_t start = check_clock_ns(CLOCK_MONOTONIC), now = start;
    while (!step_job_is_done(&job) && now - start < 5000000000u) {
        hand_over();
        now = check_clock_ns(CLOCK_MONOTONIC);
        if (now - start > 20000000)
            atomic_store(&job.permitted, 1);
    }
    assert_true(step_job_is_done(&job));
    assert_true(now - start < 1000000000u);
}

/* A peer's messages, of which a ring of the bell tells. */
struct inbox {
    struct tug_service service;
    struct tug_bell bell;
    _Atomic int news;
    _Atomic int answered;
};

static bool inbox_poll(struct tug_service *service, bool more_comes) {
    struct inbox *inbox = (struct inbox *)service;
    (void)more_comes;
    int news = atomic_exchange(&inbox->news, 0);
    atomic_fetch_add(&inbox->answered, news);
    return news > 0;
}

static void inbox_flush(struct tug_service *service) {
    (void)service;
}

static bool inbox_busy(struct tug_service *service) {
    (void)service;
    return false;
}

static bool inbox_arm(struct tug_service *service) {
    (void)service;
    return true;
}

/* A thread that hands over all the time and never polls is not one who answers the peers. Each
 * message comes when the one before has been answered: left to chance it takes 20-300 ms. */
static void direct_operations_do_not_starve_a_service(void **state) {
    (void)state;
    const int messages = 200;
    static struct inbox inbox;
    inbox = (struct inbox){.service = {.poll = inbox_poll,
                                       .flush = inbox_flush,
                                       .busy = inbox_busy,
                                       .arm = inbox_arm,
                                       .bell = &inbox.bell}};
    start_engine(TUG_PROGRESS_AUTO, 16);
    tug_engine_serve(&inbox.service);
    const uint64_t start = check_clock_ns(CLOCK_MONOTONIC);
    int sent = 0;
    while (atomic_load(&inbox.answered) < messages &&
           check_clock_ns(CLOCK_MONOTONIC) - start < 10000000000u) {
        hand_over();
        if (atomic_load(&inbox.answered) == sent && sent < messages) {
            sent++;
            atomic_store(&inbox.news, 1);
            (void)tug_bell_ring(&inbox.bell, false);
        }
    }
    assert_int_equal(atomic_load(&inbox.answered), messages);
    tug_engine_unserve(&inbox.service);
}

#define HELD_US 200000

/* What comes while a caller has the baton, and does not look: it has been displaced, say. */
static void hold_while_news_wait(void *argument) {
    struct inbox *inbox = argument;
    uint64_t one = 1;
    atomic_store(&inbox->news, 1);
    assert_int_equal(write(inbox->service.descriptor, &one, sizeof(one)), sizeof(one));
    check_sleep_us(HELD_US);
    assert_int_equal(read(inbox->service.descriptor, &one, sizeof(one)), sizeof(one));
}

/* The CPU time of this process's other threads: of the offload thread. */
static uint64_t others_cpu_ns(void) {
    return check_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - check_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* News that only the holder can take do not keep the offload thread awake: it would have the core
 * that the holder needs. */
static void news_for_the_holder_cost_no_cpu(void **state) {
    (void)state;
    static struct inbox inbox;
    inbox = (struct inbox){.service = {.poll = inbox_poll,
                                       .flush = inbox_flush,
                                       .busy = inbox_busy,
                                       .arm = inbox_arm,
                                       .bell = &tug_engine_own_bell}};
    inbox.service.descriptor = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    assert_true(inbox.service.descriptor >= 0);
    start_engine(TUG_PROGRESS_AUTO, 16);
    tug_engine_serve(&inbox.service);
    check_sleep_us(20000);
    uint64_t before = others_cpu_ns(), start = check_clock_ns(CLOCK_MONOTONIC);
    tug_engine_call(hold_while_news_wait, &inbox);
    uint64_t spent = others_cpu_ns() - before, took = check_clock_ns(CLOCK_MONOTONIC) - start;
    CHECK_SOON(atomic_load(&inbox.answered) == 1);
    if (!SANITIZED)
        assert_true(spent < took / 4);
    tug_engine_unserve(&inbox.service);
    close(inbox.service.descriptor);
}

static void stops_with_jobs_out(void **state) {
    (void)state;
    for (int i = 0; i < 200; i++) {
        struct tug_bell bell = {0};
        static struct step_job job;
        start_engine(i % 2 ? TUG_PROGRESS_AUTO : TUG_PROGRESS_THREAD, 16);
        step_job_init(&job, 1, 0, i % 4 < 2 ? &bell : NULL);
        tug_engine_launch(&job.base);
        check_sleep_us(i * 7 % 1000);
        stop_engine();
        assert_int_equal(atomic_load(&job.completed), 0); /* dropped */
    }
}

static void count_one(void *argument) {
    ++*(int *)argument;
}

static void a_fork_child_counts_as_stopped(void **state) {
    (void)state;
    start_engine(TUG_PROGRESS_AUTO, 16);
    tug_engine_attend(1);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int calls = 0;
        tug_engine_forked();
        if (tug_engine_running())
            _exit(1);
        tug_engine_stop(); /* must not wait for the thread that is not there */
        tug_settings.progress = TUG_PROGRESS_CALLER;
        if (tug_engine_start(count_host_poll) != 0 || !tug_engine_running())
            _exit(2);
        tug_engine_call(count_one, &calls);
        tug_engine_stop();
        _exit(calls == 1 ? 0 : 3);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    uint64_t seen = atomic_load(&host_polls);
    CHECK_SOON(atomic_load(&host_polls) > seen + 20); /* the parent's goes on */
    tug_engine_attend(-1);
}

static void affinity_list_is_obeyed(void **state) {
    (void)state;
    char task[32];
    cpu_set_t mine, wanted, got;
    assert_int_equal(sched_getaffinity(0, sizeof(mine), &mine), 0);
    const bool may_be_bound = sched_setaffinity(0, sizeof(mine), &mine) == 0;
    int last = CPU_SETSIZE - 1;
    while (!CPU_ISSET(last, &mine))
        last--;
    CPU_ZERO(&wanted);
    CPU_SET(last, &wanted);
    tug_settings.affinity_mode = TUG_AFFINITY_LIST;
    tug_settings.affinity_cpus = wanted;
    start_engine(TUG_PROGRESS_AUTO, 16);
    CHECK_SOON(find_offload(task));
    assert_int_equal(sched_getaffinity((pid_t)strtol(task, NULL, 10), sizeof(got), &got), 0);
    assert_true(CPU_EQUAL(may_be_bound ? &wanted : &mine, &got));
    assert_int_equal(sched_getaffinity(0, sizeof(got), &got), 0);
    assert_true(CPU_EQUAL(&mine, &got)); /* ours only */
}

static void cpus_that_are_not_there_are_done_without(void **state) {
    (void)state;
    char task[32];
    cpu_set_t mine, got;
    assert_int_equal(sched_getaffinity(0, sizeof(mine), &mine), 0);
    if (CPU_ISSET(CPU_SETSIZE - 1, &mine))
        skip();
    tug_settings.affinity_mode = TUG_AFFINITY_LIST;
    CPU_ZERO(&tug_settings.affinity_cpus);
    CPU_SET(CPU_SETSIZE - 1, &tug_settings.affinity_cpus);
    start_engine(TUG_PROGRESS_AUTO, 16);
    CHECK_SOON(find_offload(task));
    assert_int_equal(sched_getaffinity((pid_t)strtol(task, NULL, 10), sizeof(got), &got), 0);
    assert_true(CPU_EQUAL(&mine, &got));
}

static _Atomic int signals_here;
static pthread_t main_thread;

static void on_signal(int number) {
    (void)number;
    if (pthread_equal(pthread_self(), main_thread))
        atomic_fetch_add(&signals_here, 1);
    else
        atomic_fetch_add(&signals_here, 1000);
}

static void signals_are_the_programs(void **state) {
    (void)state;
    main_thread = pthread_self();
    start_engine(TUG_PROGRESS_AUTO, 16);
    tug_engine_attend(1);
    struct sigaction action = {.sa_handler = on_signal}, old;
    sigset_t block, mask;
    sigaction(SIGUSR1, &action, &old);
    sigemptyset(&block);
    sigaddset(&block, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &block, &mask);
    kill(getpid(), SIGUSR1); /* only a thread that does not block it could take it now */
    check_sleep_us(20000);
    assert_int_equal(atomic_load(&signals_here), 0);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    assert_int_equal(atomic_load(&signals_here), 1);
    sigaction(SIGUSR1, &old, NULL);
    tug_engine_attend(-1);
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, NULL, stop)
    const struct CMUnitTest tests[] = {
        CASE(thread_only_where_it_is_wanted),
        CASE(attendance_polls_the_host),
        CASE(attended_also_while_a_job_is_out),
        CASE(attending_starts_while_it_sleeps_on_a_job),
        CASE(idle_costs_no_cpu),
        CASE(a_job_that_cannot_move_costs_little),
        CASE(a_bell_goes_on_which_the_thread_sleeps),
        CASE(deep_sleep_ends_with_work),
        CASE(direct_operations_do_not_starve_a_job),
        CASE(direct_operations_do_not_starve_a_service),
        CASE(news_for_the_holder_cost_no_cpu),
        CASE(stops_with_jobs_out),
        CASE(a_fork_child_counts_as_stopped),
        CASE(affinity_list_is_obeyed),
        CASE(cpus_that_are_not_there_are_done_without),
        CASE(signals_are_the_programs),
    };
    return cmocka_run_group_tests_name("thread", tests, NULL, NULL);
}
