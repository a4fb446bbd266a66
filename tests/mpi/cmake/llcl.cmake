# LLCL: contexts, operations and messages over every way between two processes.

foreach(program IN ITEMS basic atomic am call errors allocated contexts threads)
    tug_llcl_test(${program} WAYS all RANKS 1 2 4)
    tug_llcl_test(${program} WAYS all RANKS 2 NODES tcp emulated)
    tug_llcl_test(${program} WAYS packets mpi RANKS 2 3)
endforeach()
tug_llcl_test(crowd WAYS all RANKS 12)
tug_llcl_test(crowd WAYS packets CASE caller RANKS 8 ENV TUGBOAT_PROGRESS=caller)
tug_llcl_test(signal WAYS all RANKS 1 2 4)
tug_llcl_test(signal WAYS all RANKS 2 NODES tcp emulated)
tug_llcl_test(signal WAYS packets cma mpi RANKS 1 2 3)
tug_llcl_test(signal WAYS packets mpi CASE few RANKS 2
    ENV TUGBOAT_OPERATIONS=16 TUGBOAT_RING_SIZE=16)
tug_llcl_test(late WAYS all packets mpi RANKS 2)
tug_llcl_test(late WAYS all mpi RANKS 2 NODES tcp)
tug_llcl_test(late WAYS all CASE thread RANKS 2 NODES tcp ENV TUGBOAT_PROGRESS=thread)
tug_llcl_test(late WAYS packets CASE thread RANKS 2 ENV TUGBOAT_PROGRESS=thread)
tug_mpi_script(llcl_late.counted llcl_late.sh 2 FIRST --nodes tcp PROGRAM mpi_llcl_late ARGS 2000 LABELS llcl)
foreach(program IN ITEMS basic errors threads)
    tug_llcl_test(${program} WAYS cma RANKS 2)
    tug_llcl_test(${program} WAYS mpi RANKS 1)
endforeach()
tug_llcl_test(basic WAYS packets mpi CASE caller RANKS 2 ENV TUGBOAT_PROGRESS=caller)
tug_llcl_test(answers WAYS packets mpi CASE caller RANKS 2 ENV TUGBOAT_PROGRESS=caller)
tug_llcl_test(answers WAYS all CASE caller RANKS 2 NODES tcp ENV TUGBOAT_PROGRESS=caller)
tug_llcl_test(native WAYS all packets RANKS 2 ENV TUGBOAT_RMA=native)
tug_llcl_test(native WAYS all RANKS 2 NODES tcp ENV TUGBOAT_RMA=native)
tug_llcl_test(basic WAYS mpi RANKS 2 NODES emulated)
foreach(program IN ITEMS am call errors)
    tug_llcl_test(${program} WAYS packets mpi CASE few RANKS 2
        ENV TUGBOAT_OPERATIONS=16 TUGBOAT_RING_SIZE=16)
endforeach()
tug_llcl_test(basic WAYS all RANKS 2 NODES hosts LABELS hosts)
# Nodes that the host joins by sockets: over sockets of our own (all), and over the host (mpi).
tug_llcl_test(strangers WAYS all RANKS 2 NODES tcp)
tug_llcl_test(own_sockets WAYS all RANKS 2 NODES tcp)
tug_llcl_test(flood WAYS all RANKS 2 NODES tcp)
tug_mpi_script(llcl_proofs proofs.sh 2 FIRST $<TARGET_FILE:tugboat_cmd> PROGRAM mpi_llcl_basic LABELS llcl)
foreach(program IN ITEMS basic am passive)
    tug_llcl_test(${program} WAYS mpi RANKS 2 NODES tcp)
endforeach()
tug_llcl_test(errors WAYS all CASE disabled RANKS 2 ARGS off ENV TUGBOAT=off)

# libfabric, over the provider that it prefers (tcp in software on most machines), and in memory of the node.
foreach(program IN ITEMS basic atomic am call errors allocated contexts threads signal)
    tug_llcl_test(${program} WAYS ofi RANKS 2 3)
    tug_llcl_test(${program} WAYS ofi RANKS 2 NODES tcp)
endforeach()
foreach(program IN ITEMS basic am threads errors signal)
    tug_llcl_test(${program} WAYS ofi CASE shm RANKS 2 ENV FI_PROVIDER=shm)
endforeach()
# Names of that memory differ in length where process numbers do.
if(TARGET tugboat)
    tug_mpi_script(llcl_am.ofi.numbers numbers.sh 2 LABELS llcl
        FIRST --needs $<TARGET_FILE:tugboat_cmd>:ofi ENV FI_PROVIDER=shm TUGBOAT_TRANSPORTS=${tug_llcl_ofi})
endif()
tug_llcl_test(basic WAYS ofi RANKS 1)
tug_llcl_test(basic WAYS ofi CASE caller RANKS 2 ENV TUGBOAT_PROGRESS=caller)
tug_llcl_test(threads WAYS ofi CASE few RANKS 2 ARGS 8 ENV TUGBOAT_OPERATIONS=16 TUGBOAT_RING_SIZE=16)
tug_llcl_test(passive WAYS ofi RANKS 2)
tug_llcl_test(passive WAYS ofi CASE thread RANKS 2 ENV TUGBOAT_PROGRESS=thread)
tug_llcl_test(idle WAYS ofi CASE idle RANKS 2 ARGS idle 20)
tug_llcl_test(idle WAYS ofi CASE stop RANKS 2 ARGS stop 100)
tug_llcl_test(memory WAYS ofi RANKS 2 3)
tug_llcl_test(large WAYS ofi RANKS 2 NODES tcp ARGS registered 100)

# Threads: few, many, with and without an offload thread.
foreach(threads IN ITEMS 1 16)
    # 16 threads on two cores take half a second; one run in a hundred takes much longer.
    tug_llcl_test(threads WAYS all packets mpi CASE t${threads} RANKS 2 ARGS ${threads} TIMEOUT 600)
endforeach()
foreach(progress IN ITEMS thread caller)
    tug_llcl_test(threads WAYS packets mpi CASE ${progress} RANKS 2 ARGS 4
        ENV TUGBOAT_PROGRESS=${progress})
endforeach()
# The ring and the table of operations are full most of the time.
tug_llcl_test(threads WAYS packets mpi CASE few RANKS 2 ARGS 8
    ENV TUGBOAT_OPERATIONS=16 TUGBOAT_RING_SIZE=16)
tug_llcl_test(threads WAYS packets CASE few_thread RANKS 2 ARGS 8
    ENV TUGBOAT_OPERATIONS=16 TUGBOAT_RING_SIZE=16 TUGBOAT_PROGRESS=thread)

# User-level threads, which wait by hooks.
tug_llcl_test(suspend WAYS all packets mpi RANKS 1 2)
tug_llcl_test(suspend WAYS all RANKS 2 NODES tcp)
tug_llcl_test(suspend WAYS packets CASE thread RANKS 2 ENV TUGBOAT_PROGRESS=thread)
tug_llcl_test(suspend WAYS packets CASE caller RANKS 1 ENV TUGBOAT_PROGRESS=caller)

# What a try_ call does not do.
tug_llcl_test(contract WAYS all packets RANKS 1 2 3)
tug_llcl_test(contract WAYS all RANKS 2 NODES tcp)

# A target that computes.
tug_llcl_test(passive WAYS all packets mpi RANKS 2)
tug_llcl_test(passive WAYS all RANKS 3)
tug_llcl_test(passive WAYS all RANKS 2 NODES tcp)
tug_llcl_test(passive WAYS packets mpi CASE thread RANKS 2 ENV TUGBOAT_PROGRESS=thread)
tug_llcl_test(flag WAYS packets RANKS 2)
tug_llcl_test(flag WAYS packets CASE compute RANKS 2 ARGS compute)
tug_llcl_test(flag WAYS packets CASE thread RANKS 2 ENV TUGBOAT_PROGRESS=thread)
tug_llcl_test(flag WAYS all CASE compute RANKS 2 NODES tcp ARGS compute)

# CPU of an idle context, and of one whose peers have stopped. The host MPI can wake nobody: the library looks now
# and then.
tug_llcl_test(idle WAYS all packets CASE idle RANKS 2 ARGS idle 20)
tug_llcl_test(idle WAYS mpi CASE idle RANKS 2 ARGS idle 40)
tug_llcl_test(idle WAYS all packets CASE many RANKS 4 ARGS many 3)
tug_llcl_test(idle WAYS all CASE many RANKS 4 NODES two tcp ARGS many 3 ENV UCX_TLS=tcp,self)
tug_llcl_test(idle WAYS packets cma CASE stop RANKS 2 ARGS stop 100)
tug_llcl_test(idle WAYS packets CASE full RANKS 4 ARGS full)
tug_llcl_test(idle WAYS mpi CASE stop RANKS 2 ARGS stop 400)

# Registrations come and go.
tug_llcl_test(memory WAYS packets cma mpi RANKS 2)
tug_llcl_test(memory WAYS packets RANKS 3 ARGS 20000)
tug_llcl_test(memory WAYS packets cma mpi CASE large RANKS 2 ARGS 10000 1)
tug_llcl_test(memory WAYS all RANKS 2 NODES tcp ARGS 5000 2)
# Memory that the others of the node map for themselves.
tug_llcl_test(memory WAYS all CASE lent RANKS 2 3 ENV CHECK_MEMORY=lent)
tug_llcl_test(memory WAYS all CASE lent_large RANKS 3 ARGS 10000 1 ENV CHECK_MEMORY=lent)

# Operations of more than 2 GiB.
tug_llcl_test(large WAYS all RANKS 2 ARGS allocated TIMEOUT 600)
tug_llcl_test(large WAYS cma mpi RANKS 2 ARGS registered TIMEOUT 600)
tug_llcl_test(large WAYS all RANKS 2 NODES tcp ARGS registered 100)

# Long copies, which the engine makes.
tug_llcl_test(copies WAYS all RANKS 1 2 ARGS allocated)
tug_llcl_test(copies WAYS all CASE registered RANKS 2 ARGS registered)

# A peer that is killed.
if(TARGET tugboat)
    tug_mpi_program(mpi_llcl_kill SOURCES llcl_kill.c LIBS tugboat)
    tug_mpi_script(llcl_kill.all llcl_kill.sh 2 LABELS "llcl;fault")
    foreach(way IN ITEMS packets mpi)
        tug_mpi_script(llcl_kill.${way} llcl_kill.sh 2 ENV TUGBOAT_TRANSPORTS=${tug_llcl_${way}}
            LABELS "llcl;fault")
    endforeach()
    tug_mpi_script(llcl_kill.ofi llcl_kill.sh 2 FIRST --nodes tcp --needs $<TARGET_FILE:tugboat_cmd>:ofi
        ENV TUGBOAT_TRANSPORTS=${tug_llcl_ofi} LABELS "llcl;fault")
    tug_mpi_script(llcl_kill.tcp llcl_kill.sh 2 FIRST --nodes tcp LABELS "llcl;fault")
endif()

# What was acknowledged while a cable was out (tests/verbs).
if(TARGET tugboat)
    tug_mpi_program(mpi_llcl_cable SOURCES llcl_cable.c LIBS tugboat)
endif()

# One that would have sent a signal.
tug_llcl_test(lost WAYS all RANKS 2 NODES tcp LABELS fault)
tug_llcl_test(lost WAYS all CASE forked RANKS 2 NODES tcp ARGS forked LABELS fault)
foreach(case IN ITEMS all all.forked)
    if(TEST mpi.llcl_lost.${case}.host.n2.tcp)
        set_tests_properties(mpi.llcl_lost.${case}.host.n2.tcp PROPERTIES PASS_REGULAR_EXPRESSION "right")
    endif()
endforeach()

# A context, a window and an array take as much memory as `tugboat info --memory` says.
if(TARGET tugboat)
    tug_mpi_program(mpi_llcl_footprint SOURCES llcl_footprint.c LIBS tugboat)
    function(tug_footprint_test way ranks contexts)
        cmake_parse_arguments(T "" "CASE" "ENV" ${ARGN})
        set(allowed self,shm)
        if(way STREQUAL "mpi")
            set(allowed mpi)
        endif()
        tug_mpi_script(llcl_footprint.${way}${T_CASE} footprint.sh ${ranks} LABELS llcl TIMEOUT 600
            FIRST $<TARGET_FILE:tugboat_cmd> ${contexts} ${way} ENV TUGBOAT_TRANSPORTS=${allowed} ${T_ENV})
    endfunction()
    foreach(way IN ITEMS mpi shm)
        tug_footprint_test(${way} 2 9)
        tug_footprint_test(${way} 4 7)
        tug_footprint_test(${way} 2 5 CASE .many ENV TUGBOAT_OPERATIONS=65536)
    endforeach()
    tug_footprint_test(shm.few 64 3 ENV TUGBOAT_OPERATIONS=64)
    if(NOT TUGBOAT_SANITIZE)
        tug_mpi_program(mpi_footprint SOURCES footprint.c LIBS tugboat)
        foreach(what IN ITEMS window array)
            tug_mpi_script(footprint.${what} footprint.sh 16 TIMEOUT 120 FIRST $<TARGET_FILE:tugboat_cmd> ${what} shm
                --tool-before $<TARGET_FILE:scarce> ENV TUGBOAT_TRANSPORTS=self,shm TUGBOAT_OPERATIONS=64)
        endforeach()
    endif()
endif()

# A rank's engine does not start: nobody waits.
if(TARGET tugboat)
    tug_mpi_program(mpi_engine_refused SOURCES engine_refused.c LIBS tugboat ${CMAKE_DL_LIBS})
    tug_mpi_test(engine_refused RANKS 3 WAYS host LABELS llcl)
    tug_mpi_test(engine_refused RANKS 3 NODES two WAYS host LABELS llcl)
endif()

# For `./dev cluster --growth`, and for tests/hosts/fatal.sh. Then the messages of errors that end jobs.
if(TARGET tugboat)
    tug_mpi_program(mpi_growth SOURCES growth.c LIBS tugboat)
    tug_mpi_fatal_told()
endif()
