# What runs under the sanitizers with ranks: short runs of programs that are linked with the library. The
# host MPI is not compiled with it, and is not looked into.

set(tug_tsan_options
    ignore_noninstrumented_modules=1:suppressions=${CMAKE_CURRENT_SOURCE_DIR}/races.supp)
function(tug_sanitized_test layer name)
    tug_layer_test(${layer} ${name} WAYS all packets ${ARGN} LABELS sanitized
        ENV TUGBOAT_VERBOSE=quiet TUGBOAT_ACP_STARTER=4M TSAN_OPTIONS=${tug_tsan_options})
endfunction()

if(TUGBOAT_SANITIZE STREQUAL "thread")
    tug_sanitized_test(acp churn RANKS 3)
    tug_sanitized_test(acp relay RANKS 3 ARGS 1000)
    tug_sanitized_test(acp random RANKS 2 ARGS 500 4)
    tug_sanitized_test(acp errors RANKS 2)
    tug_sanitized_test(gas basic RANKS 2)
    tug_sanitized_test(gas moves RANKS 3 ARGS 1500)
    tug_sanitized_test(gas storm RANKS 2)
    tug_sanitized_test(gas stress RANKS 2 ARGS 4 500)
endif()

# Partitioned requests of many threads, within a node and between two. What the host does not free is not looked for.
foreach(name IN ITEMS partitioned part_mixed)
    tug_mpi_test(${name} LIBS tugboat RANKS 2 NODES one tcp WAYS host LABELS sanitized
        ENV TUGBOAT_VERBOSE=quiet TSAN_OPTIONS=${tug_tsan_options} ASAN_OPTIONS=detect_leaks=0)
endforeach()
