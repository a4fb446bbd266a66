# Collectives, persistent and blocking, and their requests.

# The persistent broadcast: every algorithm on nodes of several shapes.
tug_mpi_test(pbcast NODES one emulated WAYS host tug)
tug_mpi_test(pbcast RANKS 1 2 4 WAYS off)
tug_mpi_test(pbcast RANKS 2 NODES tcp WAYS host tug)
tug_mpi_test(pbcast RANKS 3 4 NODES two WAYS tug)
foreach(phases IN ITEMS relay two-phase)
    foreach(pipelines IN ITEMS chain binomial trinary)
        tug_mpi_test(pbcast.${pipelines}.${phases} RANKS 4 NODES two WAYS tug
            ENV TUGBOAT_PIPELINES=${pipelines} TUGBOAT_PHASES=${phases})
    endforeach()
endforeach()
# One rank of a node gives each segment to each other rank.
tug_mpi_test(pbcast.one-engine RANKS 4 NODES one two WAYS tug ENV TUGBOAT_PIPELINES=trinary TUGBOAT_PHASES=one-engine)
foreach(torus IN ITEMS none 2x2x1 1x2x1x2)
    tug_mpi_test(pbcast.trinary.${torus} RANKS 4 NODES emulated WAYS tug
        ENV TUGBOAT_PIPELINES=trinary TUGBOAT_TORUS=${torus})
endforeach()
# The ways on a node: rings of packets (ring), and, where each rank has a core of its own, attaching to one
# another's memory (cores). The output tells which way was taken; the data cannot.
foreach(program IN ITEMS pbcast pcoll pcoll_kept pbcast_memory pbcast_mixed)
    tug_mpi_test(${program}.ring RANKS 2 WAYS tug ENV TUGBOAT_TRANSPORTS=self,mapped,shm,tcp,mpi)
    tug_mpi_test(${program}.cores RANKS 3 4 WAYS tug ENV TUGBOAT_WAIT=polite TUGBOAT_VERBOSE=info
        OPTIONS --tool-before $<TARGET_FILE:many_cores>)
endforeach()
foreach(ranks IN ITEMS 3 4)
    if(TEST mpi.pbcast.cores.tug.n${ranks})
        set_tests_properties(mpi.pbcast.cores.tug.n${ranks} PROPERTIES
            PASS_REGULAR_EXPRESSION "lent to the node, which attaches.*right")
    endif()
endforeach()

# Broadcasts out of every kind of memory.
tug_mpi_test(pbcast_memory WAYS host tug RANKS 2 3)
tug_mpi_test(pbcast_memory RANKS 1 WAYS tug off)
tug_mpi_test(pbcast_trials RANKS 3 4 NODES one two WAYS tug ENV TUGBOAT_WAIT=polite)
# More than two ranks to a core: some take no part in measurements, through whose channel they then broadcast.
tug_mpi_test(pbcast_mixed.crowd RANKS 10 NODES two WAYS tug ENV TUGBOAT_PIPELINES=chain TUGBOAT_PHASES=relay)
tug_mpi_test(pbcast_memory RANKS 4 NODES two WAYS tug)
tug_mpi_test(pbcast_memory.cycles ARGS 10000 RANKS 2 WAYS tug ENV TUGBOAT_VERBOSE=info)
# The output tells which way was taken; the data cannot.
set_tests_properties(mpi.pbcast_memory.cycles.tug.n2 PROPERTIES
    PASS_REGULAR_EXPRESSION "lent to the node.*right")

tug_mpi_test(pbcast_mixed NODES one emulated WAYS host tug)
tug_mpi_test(pbcast_mixed RANKS 1 2 WAYS off)
tug_mpi_test(pbcast_mixed RANKS 2 NODES tcp WAYS host tug)
tug_mpi_test(pbcast_mixed.strict ARGS strict WAYS tug)

tug_mpi_test(pbcast_threads NODES one emulated WAYS host tug)
tug_mpi_test(pbcast_threads RANKS 2 WAYS off)
tug_mpi_test(pbcast_threads RANKS 2 NODES tcp WAYS host tug)

# A broadcast is over before its wait begins. The host alone does not promise that.
tug_mpi_test(pbcast_overlap RANKS 2 NODES one emulated WAYS tug)

# The same blocking broadcast again and again.
tug_mpi_test(bcast_repeat RANKS 2 3 WAYS host tug)
tug_mpi_test(bcast_repeat.on RANKS 2 4 NODES one emulated WAYS tug
    ENV TUGBOAT_COLLECTIVES=on TUGBOAT_WAIT=polite)
tug_mpi_test(bcast_repeat.on RANKS 3 4 NODES two WAYS tug ENV TUGBOAT_COLLECTIVES=on TUGBOAT_WAIT=polite)

# All that may repeat.
tug_mpi_test(coll_repeat RANKS 1 2 3 WAYS host tug off)
tug_mpi_test(coll_repeat.on ARGS thoroughly RANKS 1 2 3 4 NODES one emulated WAYS tug ENV TUGBOAT_COLLECTIVES=on)
tug_mpi_test(coll_repeat.on ARGS thoroughly RANKS 4 NODES two WAYS tug ENV TUGBOAT_COLLECTIVES=on)
tug_mpi_test(coll_repeat.on ARGS thoroughly RANKS 2 WAYS native packet off ENV TUGBOAT_COLLECTIVES=on)
tug_mpi_test(coll_repeat.on.polite ARGS thoroughly RANKS 2 4 WAYS tug ENV TUGBOAT_COLLECTIVES=on TUGBOAT_WAIT=polite)
tug_mpi_test(coll_repeat.threads ARGS threads thoroughly RANKS 2 3 WAYS tug ENV TUGBOAT_COLLECTIVES=on)

tug_mpi_test(coll_repeat.threads ARGS threads RANKS 2 WAYS host)
tug_mpi_test(coll_repeat.often ARGS often RANKS 2 3 4 NODES one emulated WAYS tug ENV TUGBOAT_THREADS=multiple)
tug_mpi_test(coll_repeat.often ARGS often RANKS 4 NODES two WAYS tug ENV TUGBOAT_THREADS=multiple)

# Messages that others wait for get on during collectives.
tug_mpi_test(coll_progress RANKS 2 4 NODES one emulated WAYS host tug)
tug_mpi_test(coll_progress RANKS 2 WAYS off)
tug_mpi_test(coll_progress.on RANKS 2 4 NODES one emulated WAYS tug ENV TUGBOAT_COLLECTIVES=on)

# All other persistent collectives.
tug_mpi_test(pcoll RANKS 2 3 WAYS host)
tug_mpi_test(pcoll ARGS ours WAYS tug)
tug_mpi_test(pcoll ARGS ours RANKS 2 3 4 NODES emulated WAYS tug)
tug_mpi_test(pcoll.threads ARGS ours threads RANKS 1 2 3 8 WAYS tug)
if(TARGET tugboat)
    tug_mpi_program(mpi_pcoll_kill SOURCES pcoll_kill.c LIBS tugboat)
    tug_mpi_script(pcoll_kill llcl_kill.sh 3 LABELS fault)
endif()
tug_mpi_test(pcoll.cliques ARGS ours threads RANKS 3 4 5 WAYS tug ENV MPIR_CVAR_NUM_CLIQUES=2)

# Runs that the waiting thread gets on, with every call that completes requests.
tug_mpi_test(pcoll_kept RANKS 1 2 3 4 7 WAYS tug)
tug_mpi_test(pcoll_kept.threads ARGS threads RANKS 2 3 WAYS tug)
tug_mpi_test(pcoll_kept.caller RANKS 2 3 WAYS tug ENV TUGBOAT_PROGRESS=caller)
tug_mpi_test(pcoll_kept.thread RANKS 2 3 WAYS tug ENV TUGBOAT_PROGRESS=thread)
tug_mpi_test(pcoll_kept RANKS 4 NODES two WAYS tug)
# Some of their first runs are the host's. The output tells, the data cannot.
tug_mpi_test(pcoll_kept.compared RANKS 2 NODES one emulated WAYS tug ENV TUGBOAT_VERBOSE=info)
set_tests_properties(mpi.pcoll_kept.compared.tug.n2 mpi.pcoll_kept.compared.tug.n2.nodes PROPERTIES
    PASS_REGULAR_EXPRESSION "bytes: the host's takes.*right")

# Collectives of random kinds and shapes. These seeds found runs that were the host's and brought wrong data, errors
# (4, 5, 12), or did not end (8).
tug_mpi_test(pcoll_random ARGS persistent 60 alone RANKS 2 3 4 WAYS host off TIMEOUT 120 ENV CHECK_SEED=12)
tug_mpi_test(pcoll_random ARGS persistent 60 RANKS 2 3 4 WAYS tug TIMEOUT 120 ENV CHECK_SEED=12)
foreach(seed IN ITEMS 4 5)
    tug_mpi_test(pcoll_random.${seed} ARGS persistent 60 RANKS 2 WAYS tug TIMEOUT 120 ENV CHECK_SEED=${seed})
endforeach()
tug_mpi_test(pcoll_random.thread ARGS persistent 60 RANKS 2 WAYS tug TIMEOUT 120
    ENV CHECK_SEED=8 TUGBOAT_PROGRESS=thread)
tug_mpi_test(pcoll_random.threads ARGS persistent 60 threads RANKS 3 WAYS tug TIMEOUT 120 ENV CHECK_SEED=12)
tug_mpi_test(pcoll_random ARGS persistent 40 RANKS 2 NODES tcp WAYS tug TIMEOUT 120 ENV CHECK_SEED=12)
tug_mpi_test(pcoll_random.blocking ARGS blocking 40 RANKS 2 3 4 TIMEOUT 120
    ENV CHECK_SEED=12 TUGBOAT_COLLECTIVES=on)
tug_mpi_test(pcoll_random.blocking.101 ARGS blocking 60 RANKS 3 NODES tcp TIMEOUT 120
    ENV CHECK_SEED=101 TUGBOAT_COLLECTIVES=on)

# Between nodes, by the library's own operations where there is a network, else by the host's messages.
tug_mpi_test(pcoll_far RANKS 2 WAYS host tug off)
tug_mpi_test(pcoll_far RANKS 2 NODES emulated tcp WAYS host tug off)
tug_mpi_test(pcoll_far ARGS counted RANKS 3 4 NODES tcp WAYS tug)
tug_mpi_test(pcoll_far.threads ARGS counted RANKS 3 NODES tcp WAYS tug ENV TUGBOAT_PROGRESS=thread)
tug_mpi_test(pcoll_far.mpi RANKS 3 NODES tcp WAYS tug ENV TUGBOAT_TRANSPORTS=self,mpi)
tug_mpi_test(pcoll_far.caller RANKS 3 NODES tcp WAYS tug ENV TUGBOAT_PROGRESS=caller)
tug_mpi_test(pcoll_far.small RANKS 3 NODES tcp WAYS tug ENV TUGBOAT_RING_SIZE=16 TUGBOAT_OPERATIONS=16)
tug_mpi_test(pcoll_far.segment RANKS 3 NODES tcp WAYS tug ENV TUGBOAT_SEGMENT=4K)
tug_mpi_test(pcoll_far.trinary RANKS 4 NODES tcp WAYS tug ENV TUGBOAT_PIPELINES=trinary TUGBOAT_TORUS=2x2x1)
foreach(program IN ITEMS pcoll_kept pcoll_long coll_progress bcast_repeat coll_repeat)
    tug_mpi_test(${program} RANKS 3 NODES tcp WAYS tug)
endforeach()
tug_mpi_test(pcoll ARGS ours RANKS 2 3 NODES tcp WAYS tug)
tug_mpi_test(pcoll.threads ARGS ours threads RANKS 4 NODES tcp WAYS tug)

# Long blocks, and long and short ones mixed. The output tells which ways were tried, the data cannot.
tug_mpi_test(pcoll_long RANKS 1 2 3 4 WAYS tug ENV TUGBOAT_VERBOSE=info)
set_tests_properties(mpi.pcoll_long.tug.n2 mpi.pcoll_long.tug.n3 mpi.pcoll_long.tug.n4 PROPERTIES
    PASS_REGULAR_EXPRESSION "past the ring takes.*right")
tug_mpi_test(pcoll_long RANKS 2 3 NODES emulated WAYS tug)
tug_mpi_test(pcoll_long RANKS 4 NODES two WAYS tug)
tug_mpi_test(pcoll_long.ring RANKS 2 WAYS tug ENV TUGBOAT_TRANSPORTS=self,mapped,shm,tcp,mpi)
tug_mpi_test(pcoll_long.lent RANKS 2 WAYS tug ENV CHECK_MEMORY=lent)
tug_mpi_test(pcoll_long.cores RANKS 3 4 WAYS tug ENV TUGBOAT_WAIT=polite
    OPTIONS --tool-before $<TARGET_FILE:many_cores>)

tug_mpi_test(pcoll_extents RANKS 2 3 WAYS tug)
tug_mpi_test(pcoll_other NODES one emulated WAYS host tug)
tug_mpi_test(pcoll_other RANKS 2 WAYS off)
tug_mpi_test(pcoll_other RANKS 2 NODES tcp WAYS host tug)

# Neighbours on grids with periods of one and two. The host alone mixes up the blocks.
tug_mpi_test(neighbours RANKS 1 2 3 4 WAYS tug)
tug_mpi_test(neighbours RANKS 2 WAYS either)
tug_mpi_test(neighbours RANKS 2 4 NODES emulated WAYS tug)
tug_mpi_test(neighbours.cores ARGS persistent RANKS 3 4 WAYS tug OPTIONS --tool-before $<TARGET_FILE:many_cores>)
tug_mpi_test(neighbours.polite RANKS 2 4 WAYS tug ENV TUGBOAT_WAIT=polite)

# Blocking collectives.
tug_mpi_test(blocking RANKS 2 3 WAYS host)
tug_mpi_test(blocking RANKS 2 WAYS tug native)
tug_mpi_test(blocking RANKS 2 3 NODES emulated WAYS tug packet)
tug_mpi_test(blocking RANKS 2 NODES tcp WAYS tug)
tug_mpi_test(blocking.threads ARGS threads RANKS 2 3 NODES emulated WAYS host tug)
# Ranks that outnumber the cores, or that a setting tells so.
tug_mpi_test(blocking.polite RANKS 2 3 WAYS tug ENV TUGBOAT_WAIT=polite)
tug_mpi_test(blocking.polite RANKS 3 NODES emulated WAYS tug packet ENV TUGBOAT_WAIT=polite)
tug_mpi_test(blocking.wait RANKS 3 WAYS tug ENV TUGBOAT_WAIT=native)
tug_mpi_test(blocking.threads.polite ARGS threads RANKS 2 3 WAYS tug ENV TUGBOAT_WAIT=polite)

# Buffers at MPI_BOTTOM.
tug_mpi_test(bottom RANKS 2 WAYS host tug)
tug_mpi_test(bottom.polite RANKS 1 2 4 WAYS tug ENV TUGBOAT_WAIT=polite)

# Reductions with functions of the program.
tug_mpi_test(own_functions RANKS 2 WAYS host tug native off)
tug_mpi_test(own_functions RANKS 3 NODES emulated WAYS tug ENV TUGBOAT_TRANSPORTS=self,mpi)
tug_mpi_test(own_functions.thread RANKS 3 NODES emulated WAYS tug
    ENV TUGBOAT_TRANSPORTS=self,mpi TUGBOAT_PROGRESS=thread)
tug_mpi_test(own_functions.threads ARGS multiple RANKS 2 3 WAYS tug)

# Calls that look at requests and complete none; more started requests than any table holds.
tug_mpi_test(request_looks RANKS 1 2 3 WAYS host tug)
tug_mpi_test(request_looks.many ARGS many RANKS 2 WAYS host tug)
target_link_libraries(mpi_request_looks PRIVATE ${CMAKE_DL_LIBS})

# Arrays of requests of every kind, completed by every call.
tug_mpi_test(request_arrays RANKS 2 3 WAYS host tug off)
tug_mpi_test(request_arrays.threads ARGS threads RANKS 2 3 WAYS host tug off)
tug_mpi_test(request_arrays.mine ARGS mine RANKS 2 3 NODES one emulated WAYS tug)
tug_mpi_test(request_arrays.mine_threads ARGS mine threads RANKS 2 3 WAYS tug)
tug_mpi_test(request_arrays.polite ARGS mine threads RANKS 2 WAYS tug ENV TUGBOAT_WAIT=polite)
tug_mpi_test(request_arrays.thread ARGS mine RANKS 2 WAYS tug ENV TUGBOAT_PROGRESS=thread)
tug_mpi_test(request_arrays.caller ARGS mine RANKS 2 3 WAYS tug ENV TUGBOAT_PROGRESS=caller)
target_link_libraries(mpi_request_arrays PRIVATE ${CMAKE_DL_LIBS})

# A /dev/shm that is too small for the library, by much and by little.
tug_mpi_script(shm_small.none shm_small.sh 2 FIRST 14m yes PROGRAM mpi_pbcast LABELS fault)
tug_mpi_script(shm_small.some shm_small.sh 2 FIRST 18m no PROGRAM mpi_pbcast LABELS fault)

# Partitioned communication.
# without it the calls pass through
tug_mpi_test(partitioned.off RANKS 2 WAYS tug ENV TUGBOAT_PARTITIONED=off)
tug_mpi_test(partitioned RANKS 2 4 WAYS host tug off)
tug_mpi_test(partitioned RANKS 2 4 NODES emulated tcp WAYS tug)
tug_mpi_test(partitioned RANKS 2 NODES emulated tcp WAYS host off)
tug_mpi_test(partitioned.thread RANKS 2 WAYS tug ENV TUGBOAT_PROGRESS=thread)
tug_mpi_test(partitioned.caller RANKS 2 4 WAYS tug ENV TUGBOAT_PROGRESS=caller)
tug_mpi_test(partitioned.polite RANKS 2 WAYS tug ENV TUGBOAT_WAIT=polite)
# no way to other nodes but the host's messages
tug_mpi_test(partitioned.mpi RANKS 2 NODES tcp WAYS tug ENV TUGBOAT_TRANSPORTS=self,mpi)
# the engine of a rank does not start
tug_mpi_test(part_refused RANKS 3 WAYS host tug)
tug_mpi_test(part_refused RANKS 3 NODES two WAYS tug)
target_link_libraries(mpi_part_refused PRIVATE ${CMAKE_DL_LIBS})
tug_mpi_test(part_errors RANKS 2 WAYS host tug off)
tug_mpi_test(part_errors RANKS 2 NODES emulated tcp WAYS tug)
tug_mpi_test(part_errors.mine ARGS mine RANKS 2 NODES one tcp WAYS tug)
tug_mpi_test(part_mixed RANKS 2 4 WAYS host tug off)
tug_mpi_test(part_mixed.mine ARGS mine RANKS 2 NODES one emulated tcp WAYS tug)
tug_mpi_test(part_mixed.mine ARGS mine RANKS 4 NODES tcp WAYS tug)
tug_mpi_test(part_mixed.thread ARGS mine RANKS 2 NODES one tcp WAYS tug ENV TUGBOAT_PROGRESS=thread)
tug_mpi_test(part_mixed.caller ARGS mine RANKS 2 NODES one tcp WAYS tug ENV TUGBOAT_PROGRESS=caller)
# Protected pages. UCX ends the job where attach or a socket meets one.
tug_mpi_test(pcoll_protected RANKS 2 WAYS host off ENV UCX_TLS=posix,sysv,self)
tug_mpi_test(pcoll_protected.mine ARGS mine RANKS 2 4 WAYS tug ENV UCX_TLS=posix,sysv,self)
tug_mpi_test(pcoll_protected.cores ARGS mine RANKS 4 WAYS tug ENV UCX_TLS=posix,sysv,self TUGBOAT_WAIT=polite
    OPTIONS --tool-before $<TARGET_FILE:many_cores>)
# MPI_Test is right about what MPI_Parrived has told of.
tug_mpi_test(part_tests RANKS 2 NODES one tcp TIMEOUT 120)
tug_mpi_test(part_tests.thread RANKS 2 NODES one tcp WAYS tug TIMEOUT 120 ENV TUGBOAT_PROGRESS=thread)
tug_mpi_test(part_tests.caller RANKS 2 NODES one tcp WAYS tug TIMEOUT 120 ENV TUGBOAT_PROGRESS=caller)
# ranks that differ: it is the host's on both
set(mixed $<TARGET_FILE:mpi_part_mixed>)
tug_mpi_test(part_mixed.other RANKS 1 WAYS tug ARGS apart : -n 1 -env TUGBOAT_PARTITIONED off ${mixed} apart)
tug_mpi_test(part_mixed.off RANKS 1 WAYS tug ARGS apart : -n 1 -env TUGBOAT off ${mixed} apart)
