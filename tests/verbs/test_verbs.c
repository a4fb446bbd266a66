/* The verbs transport on a real device (Soft-RoCE will do), between two fabrics of one process.
 *
 * Usage: test_verbs [CASE]; test_verbs -l lists the cases. They look inside the transport where a
 * claim is about the inside: how many chains, which pairs, how full. */
#include "fixture.h"

#define CASE(name) {#name, name, set_up, tear_down, NULL},
static const struct CMUnitTest tests[] = {TUG_VERBS_CASES};

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "-l") == 0) {
        for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
            puts(tests[i].name);
        return 0;
    }
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
