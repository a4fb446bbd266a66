/* Standing in for a function in the calls of one object, and of no other. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/hook.h"

/* What is called has no effect, so that it may be anything. */
static pid_t no_parent(void) {
    return -7;
}

static int not_this_one;

static void the_callers_calls_go_to_the_replacement(void **state) {
    (void)state;
    struct tug_hook hook = {0};
    pid_t parent = getppid(); /* bound by now, if the linker binds late */
    pid_t (*same)(void) = (pid_t(*)(void))dlsym(RTLD_DEFAULT, "getppid");
    assert_true(tug_hook_set(&hook, &not_this_one, "getppid", (void *)no_parent));
    assert_int_equal(getppid(), -7);
    assert_int_equal(((pid_t(*)(void))hook.original)(), parent);
    assert_int_equal(same(), parent);
    tug_hook_remove(&hook);
    assert_int_equal(getppid(), parent);
    tug_hook_remove(&hook);
    assert_int_equal(getppid(), parent);
    assert_true(tug_hook_set(&hook, &not_this_one, "getppid", (void *)no_parent));
    assert_int_equal(getppid(), -7);
    tug_hook_remove(&hook);
    assert_int_equal(getppid(), parent);
}

static void another_objects_calls_stay(void **state) {
    (void)state;
    struct tug_hook hook = {0};
    uid_t user = getuid();
    /* the slot of the object that cmocka is in, if it has one, is not ours */
    if (tug_hook_set(&hook, (void *)_cmocka_run_group_tests, "malloc", (void *)no_parent)) {
        void *memory = malloc(16);
        tug_hook_remove(&hook);
        assert_non_null(memory);
        free(memory);
    }
    assert_int_equal(getuid(), user);
}

/* How a slot's page is protected is asked once for neighbours: that of another object's slot in
 * between must not stand for them. */
static void slots_of_two_objects_in_turn(void **state) {
    (void)state;
    struct tug_hook first = {0}, other = {0}, second = {0};
    const uid_t user = getuid();
    assert_true(tug_hook_set(&first, &not_this_one, "getppid", (void *)no_parent));
    const bool has_other =
        tug_hook_set(&other, (void *)_cmocka_run_group_tests, "sigaction", (void *)no_parent);
    assert_true(tug_hook_set(&second, &not_this_one, "getuid", (void *)no_parent));
    assert_int_equal(getppid(), -7);
    assert_int_equal((int)getuid(), -7);
    tug_hook_remove(&second);
    if (has_other)
        tug_hook_remove(&other);
    tug_hook_remove(&first);
    assert_int_equal(getuid(), user);
    assert_int_equal(first.protection, second.protection);
}

static void what_is_not_called_is_not_hooked(void **state) {
    (void)state;
    struct tug_hook hook = {0};
    assert_false(tug_hook_set(&hook, &not_this_one, "no_such_function", (void *)no_parent));
    assert_false(tug_hook_set(&hook, NULL, "getppid", (void *)no_parent));
    assert_null(hook.slot);
    tug_hook_remove(&hook);
}

/* Bound late: the slot still leads to the linker when it is taken. */
static void a_first_call_may_come_after(void **state) {
    (void)state;
    struct tug_hook hook = {0};
    assert_true(tug_hook_set(&hook, &not_this_one, "getpgrp", (void *)no_parent));
    assert_int_equal(getpgrp(), -7);
    tug_hook_remove(&hook);
    assert_int_equal(getpgrp(), getpgid(0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_callers_calls_go_to_the_replacement),
        cmocka_unit_test(another_objects_calls_stay),
        cmocka_unit_test(slots_of_two_objects_in_turn),
        cmocka_unit_test(what_is_not_called_is_not_hooked),
        cmocka_unit_test(a_first_call_may_come_after),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
