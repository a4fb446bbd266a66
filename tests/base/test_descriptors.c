/* Descriptors of the library: where their numbers are, what becomes of the program's limit, and
 * what happens to those that the program closes. Each case in a process of its own. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/descriptors.h"

#define SKIPPED 77
#define SOFT 100u /* the last quarter: from 75 on */

#define RIGHT(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            _exit(__LINE__ % 255 + 1);                                                             \
    } while (0)

/* Its status is the number of the line of what was wrong. */
static void alone(void (*body)(void), rlim_t soft, rlim_t hard) {
    int status;
    const pid_t child = fork();
    if (child == 0) {
        const struct rlimit limit = {soft, hard};
        for (int i = 3; i < 4096; i++) /* who started us may have left some */
            close(i);
        if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
            _exit(SKIPPED);
        body();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == SKIPPED)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

static rlim_t soft_limit(void) {
    struct rlimit now;
    RIGHT(getrlimit(RLIMIT_NOFILE, &now) == 0);
    return now.rlim_cur;
}

static bool is_open(int descriptor) {
    return fcntl(descriptor, F_GETFD) >= 0;
}

/* ---- numbers ---- */

static void ours_are_high_body(void) {
    const int low = dup(0);
    RIGHT(tug_descriptor_lift(-1) == -1);
    RIGHT(tug_descriptor_lift(dup(0)) == 75);
    RIGHT(tug_descriptor_lift(dup(0)) == 76);
    RIGHT(tug_descriptor_lift(76) == 76);
    RIGHT(fcntl(75, F_GETFD) == FD_CLOEXEC);
    RIGHT(dup(0) == low + 1); /* the program's are where they would be without */
    RIGHT(soft_limit() == SOFT);
}

static void ours_are_high(void **state) {
    (void)state;
    alone(ours_are_high_body, SOFT, SOFT);
}

static void ours_are_not_too_high_body(void) {
    RIGHT(tug_descriptor_lift(dup(0)) == 3072);
}

static void ours_are_not_too_high(void **state) {
    (void)state;
    alone(ours_are_not_too_high_body, 8192, 8192);
}

/* The program has what it had, and ours have what is above. */
static void more_raise_the_limit_body(void) {
    for (int i = 75; i < 100; i++)
        RIGHT(tug_descriptor_lift(dup(0)) == i);
    RIGHT(soft_limit() == SOFT);
    RIGHT(tug_descriptor_lift(dup(0)) == 100);
    RIGHT(soft_limit() == SOFT + 1024);
    for (int i = 101; i < 1200; i++)
        RIGHT(tug_descriptor_lift(dup(0)) == i);
    RIGHT(soft_limit() == 1200);
    RIGHT(!tug_descriptors_raise());
}

static void more_raise_the_limit(void **state) {
    (void)state;
    alone(more_raise_the_limit_body, SOFT, 1200);
}

static void where_there_are_no_more_they_stay_body(void) {
    const int low = dup(0);
    for (int i = 75; i < 100; i++)
        RIGHT(tug_descriptor_lift(dup(0)) == i);
    RIGHT(tug_descriptor_lift(low) == low);
    RIGHT(is_open(low) && soft_limit() == SOFT);
}

static void where_there_are_no_more_they_stay(void **state) {
    (void)state;
    alone(where_there_are_no_more_they_stay_body, SOFT, SOFT);
}

/* A program that has taken numbers away from itself does not get them back. */
static void a_lower_limit_stays_body(void) {
    const struct rlimit lower = {50, SOFT};
    RIGHT(tug_descriptor_lift(dup(0)) == 75);
    RIGHT(setrlimit(RLIMIT_NOFILE, &lower) == 0);
    const int low = dup(0);
    RIGHT(tug_descriptor_lift(low) == low);
    RIGHT(soft_limit() == 50);
}

static void a_lower_limit_stays(void **state) {
    (void)state;
    alone(a_lower_limit_stays_body, SOFT, SOFT);
}

/* ---- ours ---- */

/* Something of the program's at that number: an empty file. */
static void take_number(int number) {
    char name[] = "/tmp/tugboat-closed-XXXXXX";
    const int file = mkstemp(name);
    RIGHT(file >= 0 && unlink(name) == 0);
    RIGHT(dup2(file, number) == number);
    close(file);
}

static off_t size_of(int file) {
    struct stat status;
    RIGHT(fstat(file, &status) == 0);
    return status.st_size;
}

static void a_bell_rings_body(void) {
    struct tug_own bell = tug_own_keep(tug_descriptor_bell());
    char byte;
    RIGHT(bell.number >= 75 && tug_own_holds(&bell));
    RIGHT(read(bell.number, &byte, 1) < 0);
    for (int i = 0; i < 100000; i++) /* until it is full, and on */
        tug_own_ring(&bell);
    tug_own_silence(&bell);
    RIGHT(read(bell.number, &byte, 1) < 0);
    tug_own_close(&bell);
    RIGHT(bell.number == -1 && !is_open(75) && !tug_own_holds(&bell));
}

static void a_bell_rings(void **state) {
    (void)state;
    alone(a_bell_rings_body, SOFT, SOFT);
}

static void what_was_closed_is_left_alone_body(void) {
    struct tug_own bell = tug_own_keep(tug_descriptor_bell());
    struct tug_own closed = tug_own_keep(tug_descriptor_bell());
    take_number(bell.number);
    close(closed.number);
    RIGHT(!tug_own_holds(&bell) && !tug_own_holds(&closed));
    tug_own_ring(&bell);
    tug_own_silence(&bell);
    RIGHT(size_of(bell.number) == 0);
    const int number = bell.number;
    tug_own_close(&bell);
    tug_own_close(&closed);
    RIGHT(bell.number == -1 && is_open(number));
}

static void what_was_closed_is_left_alone(void **state) {
    (void)state;
    alone(what_was_closed_is_left_alone_body, SOFT, SOFT);
}

/* All epoll sets have the same inode. */
static void a_set_is_known_by_its_member_body(void) {
    struct tug_own member = tug_own_keep(tug_descriptor_bell());
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 7};
    const int set = epoll_create1(0), other = epoll_create1(0);
    RIGHT(epoll_ctl(set, EPOLL_CTL_ADD, member.number, &event) == 0);
    RIGHT(tug_own_set(set, &member, EPOLLIN, 7));
    tug_own_ring(&member);
    RIGHT(tug_own_set(set, &member, EPOLLIN, 7));
    RIGHT(epoll_wait(set, &event, 1, 0) == 1 && event.data.u64 == 7);
    RIGHT(dup2(other, set) == set);
    RIGHT(!tug_own_set(set, &member, EPOLLIN, 7));
    /* the program has its own in a set of its own, at our numbers */
    take_number(member.number);
    int ends[2];
    RIGHT(pipe(ends) == 0 && dup2(ends[0], member.number) == member.number);
    event.data.u64 = 9;
    RIGHT(epoll_ctl(set, EPOLL_CTL_ADD, member.number, &event) == 0);
    RIGHT(!tug_own_set(set, &member, EPOLLIN, 7));
    RIGHT(write(ends[1], "", 1) == 1);
    RIGHT(epoll_wait(set, &event, 1, 0) == 1 && event.data.u64 == 9);
}

static void a_set_is_known_by_its_member(void **state) {
    (void)state;
    alone(a_set_is_known_by_its_member_body, SOFT, SOFT);
}

/* Of the kernel's table; 0: /proc cannot tell. */
static long table_length(void) {
    char line[128];
    long length = 0;
    FILE *status = fopen("/proc/self/status", "re");
    while (status != NULL && length == 0 && fgets(line, sizeof(line), status) != NULL)
        (void)sscanf(line, "FDSize: %ld", &length);
    if (status != NULL)
        fclose(status);
    return length;
}

static void prepare(void) {
    tug_descriptors_prepare();
    const long length = table_length();
    if (length == 0)
        _exit(SKIPPED);
    const int lifted = tug_descriptor_lift(open("/", O_PATH));
    RIGHT(lifted >= 2048 / 4 * 3);
    RIGHT(length > lifted);
    RIGHT(table_length() == length);
}

static void the_table_is_long_before_there_are_threads(void **state) {
    (void)state;
    alone(prepare, 2048, 2048);
}

int main(void) {
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(ours_are_high),
        cmocka_unit_test(the_table_is_long_before_there_are_threads),
        cmocka_unit_test(ours_are_not_too_high),
        cmocka_unit_test(more_raise_the_limit),
        cmocka_unit_test(where_there_are_no_more_they_stay),
        cmocka_unit_test(a_lower_limit_stays),
        cmocka_unit_test(a_bell_rings),
        cmocka_unit_test(what_was_closed_is_left_alone),
        cmocka_unit_test(a_set_is_known_by_its_member),
    };
    return cmocka_run_group_tests_name("base/descriptors", cases, NULL, NULL);
}
