/* fork() and verbs: libibverbs is prepared before the first device is opened, once; where it cannot
 * be, a fork is warned of while a device is open. With fake_ibverbs.c in the place of libibverbs.
 * Usage: test_fork [fails] */
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../unit/check.h"
#include "base/settings.h"
#include "transport/verbs/private.h"
#include "transport/verbs/verbs.h"

static bool fails;

/* What is written to standard error while this process forks. */
static const char *fork_says(void) {
    static char said[512];
    int ends[2], before = dup(STDERR_FILENO), status;
    assert_int_equal(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    const pid_t child = fork();
    if (child == 0)
        _exit(0);
    dup2(before, STDERR_FILENO);
    close(before);
    close(ends[1]);
    ssize_t got = read(ends[0], said, sizeof said - 1);
    said[got > 0 ? got : 0] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return said;
}

static void prepared_before_opening(void **state) {
    (void)state;
    char reason[256] = "";
    struct tug_verbs_device device;
    struct tug_verbs_place place;
    tug_verbs_place_here(&place, 0);
    if (tug_transport_verbs.missing(reason))
        fail_msg("%s", reason);
    assert_string_equal(fork_says(), ""); /* nothing is open */
    assert_true(tug_verbs_device_open(&device, &place, reason));
    void *library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(library);
    const char *(*calls)(void);
    *(void **)&calls = dlsym(library, "fake_calls");
    assert_string_equal(calls(), "fork_init open_device ");
    assert_string_equal(getenv("RDMAV_HUGEPAGES_SAFE"), "1"); /* before fork_init */
    const char *said = fork_says();
    assert_true((strstr(said, "ibv_fork_init") != NULL) == fails);
    assert_string_equal(fork_says(), ""); /* once */
    tug_verbs_device_close(&device);
    dlclose(library);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(prepared_before_opening)};
    (void)argv;
    fails = argc > 1;
    if (fails)
        setenv("FAKE_FORK_ERROR", "22", 1);
    if (tug_settings_load(NULL, 0) != 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
