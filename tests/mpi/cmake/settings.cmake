# Settings, statistics and tools.

# Collectives that repeat are tried: soon with TUGBOAT_COLLECTIVES=on, otherwise when they have repeated often.
tug_mpi_script(coll_repeat.taken taken.sh 2 FIRST collective 300 --way tug ARGS thoroughly
    ENV TUGBOAT_COLLECTIVES=on)
tug_mpi_script(coll_repeat.taken.auto taken.sh 2 FIRST collective 300 --way tug ARGS often PROGRAM mpi_coll_repeat)
# Values that are no good: the job says so.
tug_mpi_script(settings.bad settings.sh 2 PROGRAM mpi_init TIMEOUT 600)
# tug_mpi_with(NAME=VALUE program...): each program under TUGBOAT_NAME=VALUE, as mpi.settings.name.value.program.
function(tug_mpi_with setting)
    string(TOLOWER settings.${setting} case)
    string(REPLACE "=" "." case ${case})
    foreach(program IN LISTS ARGN)
        tug_mpi_test(${case}.${program} PROGRAM mpi_${program} ENV TUGBOAT_${setting} RANKS 2 WAYS native)
    endforeach()
endfunction()
# Where the offload thread makes the calls, operations are queued and errors come later.
tug_mpi_with(PROGRESS=thread rma_threads pbcast pbcast_mixed rma_basic rma_request rma_accumulate
    rma_large_count window_free win_unaligned)
tug_mpi_with(PROGRESS=caller rma_threads pbcast_threads pbcast_mixed)
tug_mpi_with(PROGRESS=auto rma_threads)
tug_mpi_with(RING_SIZE=16 rma_threads rma_basic pbcast_threads)
tug_mpi_with(SPIN_US=0 rma_threads pbcast_mixed)
tug_mpi_with(AFFINITY=none rma_threads)
tug_mpi_with(SEGMENT=4K pbcast)
tug_mpi_test(settings.thread_small_ring.rma_threads PROGRAM mpi_rma_threads RANKS 1 3 WAYS native
    ENV TUGBOAT_PROGRESS=thread TUGBOAT_RING_SIZE=16 TUGBOAT_SPIN_US=0)

# Statistics.
tug_mpi_script(stats stats.sh 2 FIRST ${CMAKE_COMMAND} --way tug PROGRAM mpi_process ARGS work)

# The variables that MPI's tool interface shows.
tug_mpi_test(tool_variables ARGS host RANKS 1 2 WAYS host off ENV TUGBOAT_SPIN_US=7)
tug_mpi_test(tool_variables ARGS tug RANKS 1 2 WAYS tug packet ENV TUGBOAT_SPIN_US=7)

# Tools that count calls and are preloaded beside the library.
tug_mpi_test(counted RANKS 2)
if(TARGET tugboat)
    tug_mpi_script(tools tools.sh 2 FIRST $<TARGET_FILE:counting_tool> PROGRAM mpi_counted)
    tug_mpi_script(eztrace eztrace.sh 2 PROGRAM mpi_counted TIMEOUT 600)
endif()
