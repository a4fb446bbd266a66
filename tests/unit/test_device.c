/* Looking for the runtime of a device: one that is there is found in whatever scope it was loaded;
 * where there is none no file is opened, which a network's file system would make dear. */
#include "check.h"

#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/device.h"

/* From now on to open a file ends the process. False: there are no filters here. */
static bool forbid_opening(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static void a_look_in_vain_opens_no_file(void **state) {
    (void)state;
    int status;
    pid_t child = fork();
    if (child == 0) {
        if (!forbid_opening())
            _exit(77);
        tug_device_look();
        _exit(tug_devices);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void one_in_a_scope_of_its_own_is_found(void **state) {
    static char plain[64];
    (void)state;
    void *library = dlopen(STAND_IN, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    void *(*allocate)(size_t);
    *(void **)&allocate = dlsym(library, "stand_in_allocate");
    void *of_device = allocate(64);
    tug_device_look();
    assert_true(tug_devices);
    assert_true(tug_is_device(of_device));
    assert_false(tug_is_device(plain));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_look_in_vain_opens_no_file),
        cmocka_unit_test(one_in_a_scope_of_its_own_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
