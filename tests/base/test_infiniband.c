/* What `tugboat selftest` says of InfiniBand, with made-up lists of devices. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "cmd/infiniband.h"

static char with_card[] = "/tmp/tugboat-card-XXXXXX", without_card[] = "/tmp/tugboat-none-XXXXXX";
static char text[512];

static int make_folders(void **state) {
    char device[64];
    (void)state;
    if (mkdtemp(with_card) == NULL || mkdtemp(without_card) == NULL)
        return -1;
    snprintf(device, sizeof device, "%s/mlx5_0", with_card);
    return mkdir(device, 0777);
}

static int remove_folders(void **state) {
    char device[64];
    (void)state;
    snprintf(device, sizeof device, "%s/mlx5_0", with_card);
    return rmdir(device) | rmdir(with_card) | rmdir(without_card);
}

static enum tug_grade judge(const char *devices, bool built, bool allowed, const char *missing) {
    const struct tug_infiniband found = {devices, built, allowed, missing};
    return tug_infiniband_judge(&found, text, sizeof text);
}

#define assert_says(words) assert_non_null(strstr(text, words))

static void a_card_that_is_used_is_good(void **state) {
    (void)state;
    assert_int_equal(judge(with_card, true, true, NULL), GOOD);
    assert_says("uses the device");
}

static void a_machine_without_a_card_is_good(void **state) {
    (void)state;
    assert_int_equal(judge(without_card, true, true, "this machine has no RDMA device"), GOOD);
    assert_says("none (this machine has no RDMA device)");
    assert_int_equal(judge("/no/such/folder", true, true, "no library"), GOOD);
    assert_int_equal(judge(without_card, true, false, "no library"), GOOD);
}

static void a_card_that_is_not_used_is_a_fault(void **state) {
    (void)state;
    assert_int_equal(judge(with_card, true, true, "libibverbs.so.1 cannot be loaded here"), BAD);
    assert_says("mlx5_0 is not used: libibverbs.so.1 cannot be loaded here; install ");
    assert_says("ibv_devinfo");
}

static void a_card_that_the_user_does_not_allow_is_a_note(void **state) {
    (void)state;
    assert_int_equal(judge(with_card, true, false, NULL), NOTE);
    assert_says("mlx5_0 is not used: TUGBOAT_TRANSPORTS");
}

static void a_build_without_the_row_is_never_good(void **state) {
    (void)state;
    assert_int_equal(judge(with_card, false, true, "not in this build"), BAD);
    assert_says("the machine's card is not used");
    assert_says("install libibverbs-dev");
    assert_int_equal(judge(with_card, false, false, "not in this build"), BAD);
    assert_int_equal(judge(without_card, false, true, "not in this build"), NOTE);
    assert_says("install libibverbs-dev");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_card_that_is_used_is_good),
        cmocka_unit_test(a_machine_without_a_card_is_good),
        cmocka_unit_test(a_card_that_is_not_used_is_a_fault),
        cmocka_unit_test(a_card_that_the_user_does_not_allow_is_a_note),
        cmocka_unit_test(a_build_without_the_row_is_never_good),
    };
    return cmocka_run_group_tests(tests, make_folders, remove_folders);
}
