# Programs of every shape: how they start and end, how they are linked, and what jobs they form.

# Every way to start MPI.
foreach(how IN ITEMS init single funneled serialized multiple plain)
    tug_mpi_test(init.${how} ARGS ${how} RANKS 1 2)
endforeach()
# The host MPI alone crashes in its first collective of a session of one rank.
tug_mpi_test(init.session ARGS session RANKS 2 3 4 NODES one emulated)

# Sessions and the world beside one another. Each letter is a step; sessions.c explains them. Those behind
# a comma are of ranks other than 0.
function(tug_mpi_sessions name steps)
    string(REPLACE "," ";" steps ${steps})
    tug_mpi_test(sessions.${name} ARGS ${steps} ${ARGN})
endfunction()
tug_mpi_sessions(outlive ikacYuZrfZyzA RANKS 2 3)
tug_mpi_sessions(outlive ikacYuZrfZyzA RANKS 2 NODES emulated WAYS tug)
tug_mpi_sessions(outlive ikacYuZrfZyzA RANKS 2 WAYS native packet)
tug_mpi_sessions(outlive_stats ikacYuZrfZyzA RANKS 2 WAYS tug ENV TUGBOAT_STATS=1)
tug_mpi_sessions(surround acYtkuZrwfZzA RANKS 2)
tug_mpi_sessions(within iacYZzAwf RANKS 2)
tug_mpi_sessions(two abpcdYZzAB RANKS 2)
tug_mpi_sessions(threads apcpA RANKS 2)
tug_mpi_sessions(repeat ikacYuZrfZyzA RANKS 2 WAYS tug ENV TUGBOAT_COLLECTIVES=on)
# MPI starts once more after its end.
tug_mpi_sessions(again acYZzAacYZzA RANKS 2)
tug_mpi_sessions(again acYZzAacYZzA RANKS 2 WAYS native packet)
tug_mpi_sessions(again_types acvAacvyAacvyA RANKS 2)
tug_mpi_sessions(again_types acvAacvyAacvyA RANKS 2 WAYS packet)
tug_mpi_sessions(again_world acYZzAtwkurf RANKS 2 NODES one emulated WAYS host tug off)
# Partitioned requests of sessions: alone, before and after the world, and made on one side only.
tug_mpi_sessions(parts_alone acmnqA RANKS 2 NODES one tcp WAYS tug)
tug_mpi_sessions(parts_early acminqA,acimnqA RANKS 2 NODES one tcp WAYS tug)
tug_mpi_sessions(parts_late iacmnfnqA RANKS 2 NODES one tcp WAYS tug)
tug_mpi_sessions(parts_end iacmfnqA,iacfmnqA RANKS 2 NODES one tcp WAYS tug)
# Ranks whose sessions are not alike.
tug_mpi_sessions(mixed iwacwfyA RANKS 2 NODES one emulated WAYS tug)

# Huge pages.
tug_mpi_test(huge_pages RANKS 1 2)

# Children, and memory of MPI_Alloc_mem.
tug_mpi_test(forks RANKS 1 2)
tug_mpi_test(forks RANKS 2 NODES tcp WAYS host tug)
tug_mpi_test(forks.free ARGS free RANKS 2 WAYS tug native packet)

# Processes that fork, abort, exit, crash, or never call MPI_Finalize.
tug_mpi_script(process.fork process.sh 2 FIRST 0 ARGS fork)
tug_mpi_script(process.abort process.sh 2 FIRST 5 ARGS abort)
tug_mpi_script(process.abort process.sh 4 FIRST 5 ARGS abort)
tug_mpi_script(process.exit process.sh 2 FIRST 3 ARGS exit)
tug_mpi_script(process.quick_exit process.sh 2 FIRST 4 ARGS quick_exit)
tug_mpi_script(process.unfinished process.sh 1 FIRST same ARGS unfinished)
tug_mpi_script(process.unfinished process.sh 2 FIRST same ARGS unfinished)
foreach(setting IN ITEMS PROGRESS=auto PROGRESS=thread)
    string(TOLOWER ${setting} case)
    string(REPLACE "=" "_" case ${case})
    set(small_ring ENV TUGBOAT_${setting} TUGBOAT_RING_SIZE=16 TUGBOAT_RMA=native)
    tug_mpi_script(process.abort_busy.${case} process.sh 2 FIRST 5 ARGS abort_busy ${small_ring})
    tug_mpi_script(process.exit_busy.${case} process.sh 2 FIRST 3 ARGS exit_busy ${small_ring})
    tug_mpi_script(process.fork_busy.${case} process.sh 2 FIRST 7 ARGS fork_busy ${small_ring})
endforeach()
tug_mpi_script(process.crash process.sh 2 FIRST failure ARGS crash)
# Two spinning ranks of the host alone on one core take minutes.
tug_mpi_test(process.onecore ARGS onecore RANKS 1 WAYS host tug)
tug_mpi_test(process.onecore ARGS onecore RANKS 2 3 WAYS tug)
tug_mpi_script(process.crowded process.sh 4 FIRST 0 ARGS work)

# Ranks that reach the end of MPI at different times. The host alone hangs in most of these.
tug_mpi_test(farewell.messages ARGS messages RANKS 2 4 NODES tcp WAYS tug)
foreach(how IN ITEMS window session late)
    tug_mpi_test(farewell.${how} ARGS ${how} RANKS 4 NODES tcp WAYS tug)
endforeach()
tug_mpi_test(farewell.native ARGS window RANKS 4 NODES tcp WAYS native)
tug_mpi_test(farewell.window ARGS window RANKS 3 NODES emulated WAYS host tug)

# Delete callbacks of MPI_COMM_SELF.
tug_mpi_test(at_finalize RANKS 1 2 3)
tug_mpi_test(at_finalize RANKS 2 WAYS native packet)
tug_mpi_test(at_finalize RANKS 2 NODES emulated WAYS tug)
tug_mpi_test(at_finalize.polite RANKS 2 WAYS tug ENV TUGBOAT_WAIT=polite)

# Programs that close file descriptors which they have not opened.
tug_mpi_test(closed RANKS 1 2 3 WAYS host tug native off)
tug_mpi_test(closed RANKS 2 4 NODES emulated WAYS host tug native)
tug_mpi_test(closed.early ARGS early RANKS 2 3 NODES one emulated tcp WAYS host tug)

# Programs that are not linked with MPI and open it, or a plugin that uses it.
tug_mpi_dlopened()
tug_mpi_test(dlopen.mpi PROGRAM mpi_dlopened RANKS 1 2 ARGS mpi libmpich.so.12)
tug_mpi_test(dlopen.plugin PROGRAM mpi_dlopened RANKS 1 2 ARGS plugin $<TARGET_FILE:mpi_plugin>)

# The thread level. A program that makes no window has the level that it asks for. A program that opens a
# plugin that makes windows has them in our lanes if it opens it before MPI starts, and the host's otherwise.
tug_mpi_program(mpi_levels SOURCES levels.c LIBS ${CMAKE_DL_LIBS})
tug_mpi_plugin(mpi_levels_plugin levels_plugin.c)
set(plugin $<TARGET_FILE:mpi_levels_plugin>)
foreach(level IN ITEMS 0 1 2 3)
    tug_mpi_test(levels.plain${level} RANKS 1 WAYS tug off ARGS plain ${level})
endforeach()
tug_mpi_test(levels.plain RANKS 2 WAYS host ARGS plain 0)
tug_mpi_test(levels.polite RANKS 2 WAYS tug ARGS plain 0 ENV TUGBOAT_WAIT=polite)
tug_mpi_test(levels.multiple RANKS 2 WAYS tug ARGS plain 1 ENV TUGBOAT_THREADS=multiple HOST_LEVEL=3)
tug_mpi_test(levels.early RANKS 2 WAYS tug ARGS early 0 ${plugin} direct ENV HOST_LEVEL=3)
tug_mpi_test(levels.late RANKS 2 WAYS host tug off ARGS late 0 ${plugin} none)
tug_mpi_test(levels.late_multiple RANKS 2 WAYS tug ARGS late 0 ${plugin} direct
    ENV TUGBOAT_THREADS=multiple HOST_LEVEL=3)
# Some ranks open the plugin early, some late: all of them have the host's windows.
tug_mpi_test(levels.some_late RANKS 2 WAYS tug ENV HOST_LEVEL=3
    ARGS early 0 ${plugin} none : -n 1 env HOST_LEVEL=0 $<TARGET_FILE:mpi_levels> late 0 ${plugin} none)

# Jobs of two programs: one makes windows, and so does a plugin that both open later.
tug_mpi_program(mpi_mpmd SOURCES mpmd.c LIBS ${CMAKE_DL_LIBS})
tug_mpi_plain_program(mpmd LIBS ${CMAKE_DL_LIBS})
set(works $<TARGET_FILE:mpi_mpmd>)
set(plain $<TARGET_FILE:mpi_mpmd_plain>)
tug_mpi_test(mpmd RANKS 1 2 ARGS ${plugin} : -n 1 ${plain} ${plugin})
tug_mpi_test(mpmd RANKS 2 WAYS packet native ARGS ${plugin} : -n 1 ${plain} ${plugin})
tug_mpi_test(mpmd RANKS 2 NODES emulated WAYS tug ARGS ${plugin} : -n 1 ${plain} ${plugin})
tug_mpi_test(mpmd.plain_first PROGRAM mpi_mpmd_plain RANKS 1 WAYS tug
    ARGS ${plugin} : -n 2 ${works} ${plugin})
tug_mpi_test(mpmd.polite RANKS 1 WAYS tug ENV TUGBOAT_WAIT=polite ARGS ${plugin} : -n 1 ${plain} ${plugin})
tug_mpi_test(mpmd.caller RANKS 2 WAYS tug ENV TUGBOAT_PROGRESS=caller
    ARGS ${plugin} : -n 1 ${plain} ${plugin})
tug_mpi_test(mpmd.off RANKS 2 WAYS tug ENV TUGBOAT_STATS=1
    ARGS ${plugin} : -n 1 env TUGBOAT=off ${plain} ${plugin})
# Settings that only one of them has.
tug_mpi_test(mpmd.stats RANKS 1 WAYS tug ARGS : -n 1 env TUGBOAT_STATS=1 ${plain})
foreach(setting IN ITEMS RMA=off RMA=native COLLECTIVES=off COLLECTIVES=on PROGRESS=caller WAIT=native)
    string(TOLOWER mpmd.${setting} case)
    string(REPLACE "=" "." case ${case})
    tug_mpi_test(${case} PROGRAM mpi_init RANKS 1 WAYS tug
        ARGS init : -n 1 env TUGBOAT_${setting} $<TARGET_FILE:mpi_init> init)
endforeach()

# tug_mpi_linked(KIND LIBRARY): programs that are linked with the library ahead of MPI. Nothing is preloaded,
# and yet the library does the work (stats.sh checks that).
function(tug_mpi_linked kind library)
    if(NOT TARGET ${library})
        return()
    endif()
    foreach(program IN ITEMS rma_basic pbcast_mixed rma_threads process init)
        tug_mpi_program(mpi_${program}_${kind} SOURCES ${program}.c LIBS ${library})
    endforeach()
    tug_mpi_test(${kind}.rma_basic PROGRAM mpi_rma_basic_${kind} RANKS 2 3 WAYS host)
    tug_mpi_test(${kind}.rma_threads PROGRAM mpi_rma_threads_${kind} RANKS 2 WAYS host)
    tug_mpi_test(${kind}.pbcast_mixed PROGRAM mpi_pbcast_mixed_${kind} ARGS strict RANKS 1 2
        WAYS host)
    tug_mpi_test(${kind}.init PROGRAM mpi_init_${kind} ARGS multiple RANKS 1 2 WAYS host)
    tug_mpi_test(${kind}.off PROGRAM mpi_process_${kind} ARGS work RANKS 2 WAYS host
        ENV TUGBOAT=off)
    tug_mpi_script(${kind}.stats stats.sh 2 FIRST ${CMAKE_COMMAND} --way host
        PROGRAM mpi_process_${kind} ARGS work)
endfunction()
tug_mpi_linked(static tugboat_static)
tug_mpi_linked(linked tugboat)

# A program that calls only functions which the library has too: its linker leaves MPI out.
tug_mpi_test(linked_alone LIBS tugboat RANKS 2 WAYS host)
target_link_options(mpi_linked_alone PRIVATE LINKER:--as-needed)

# A job of which some ranks lack the library. (Open MPI's launcher may crash at a job of two programs.)
tug_mpi_script(partly partly.sh 2 PROGRAM mpi_process ARGS fork)

# What the library costs a process that never calls MPI.
if(TARGET tugboat)
    add_test(NAME mpi.inert
        COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/inert.sh $<TARGET_FILE:tugboat>)
    set_tests_properties(mpi.inert PROPERTIES TIMEOUT 300 LABELS mpi RUN_SERIAL TRUE)
endif()
