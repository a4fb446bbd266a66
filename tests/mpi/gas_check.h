/*
 * gas_check.h: what the test programs of global arrays share beside check.h.
 *
 * GOOD is a call that has to succeed, FAILS one that has to end with that error. Any thread.
 */
#ifndef TUG_TESTS_MPI_GAS_CHECK_H
#define TUG_TESTS_MPI_GAS_CHECK_H

#include "check.h"
#include <tugboat/gas.h>

#define GOOD(call)                                                                                 \
    do {                                                                                           \
        int good_rc = (call);                                                                      \
        CHECK(good_rc == 0, "%s: %s", #call, tug_strerror(good_rc));                               \
    } while (0)

#define FAILS(error, call)                                                                         \
    do {                                                                                           \
        int fails_rc = (call);                                                                     \
        CHECK(fails_rc == (error), "%s: %s", #call, tug_strerror(fails_rc));                       \
    } while (0)

#endif
