/* The verbs transport on a real device (Soft-RoCE will do), between two fabrics of one process.
 *
 * Usage: test_verbs [CASE]; test_verbs -l lists the cases; test_verbs stand-in runs those which do
 * not take long on a device that does all at once (fake_ibverbs.c). They look inside the transport
 * where a claim is about the inside: how many chains, which pairs, how full. */
#include "fixture.h"

#define CASE(name) {#name, name, set_up, tear_down, NULL},
#define STAND_IN(name) CASE(name)
static const struct CMUnitTest tests[] = {TUG_VERBS_CASES TUG_STAND_IN_CASES};
#undef STAND_IN

/* They wait for a time limit or measure time. */
static bool takes_long(const char *name) {
    static const char *const those[] = {"error_peer_silent", "sleep_wakes", "sleep_costs_nothing"};
    for (size_t i = 0; i < sizeof those / sizeof those[0]; i++)
        if (strcmp(name, those[i]) == 0)
            return true;
    return false;
}

static int run_short(void) {
    struct CMUnitTest chosen[sizeof tests / sizeof tests[0]];
    size_t n = 0;
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
        if (!takes_long(tests[i].name))
            chosen[n++] = tests[i];
    return _cmocka_run_group_tests("stand-in", chosen, n, NULL, NULL);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "-l") == 0) {
        for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
            puts(tests[i].name);
        return 0;
    }
    if (argc > 1 && strcmp(argv[1], "stand-in") == 0)
        return run_short();
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
