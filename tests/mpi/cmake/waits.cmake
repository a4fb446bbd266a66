# How ranks wait, what they cost while they do, and who makes progress.

# Polite waits: with windows, and (plain) in a program that makes none.
tug_mpi_test(polite RANKS 2 4 WAYS tug ENV TUGBOAT_WAIT=polite)
tug_mpi_plain_program(polite)
tug_mpi_test(polite.plain PROGRAM mpi_polite_plain RANKS 2 4 WAYS tug ENV TUGBOAT_WAIT=polite)
tug_mpi_test(polite.spins ARGS spins RANKS 2 WAYS host tug)
tug_mpi_test(polite RANKS 3 NODES emulated WAYS tug ENV TUGBOAT_WAIT=polite)

# Polite waits put the host's nonblocking form in place of a blocking collective: on communicators, where (twins) all
# forms are shown right on the host alone, and not on intercommunicators, where MPICH 4.0.2 has them wrong.
tug_mpi_test(blocking_forms RANKS 2 3 4 5 WAYS host tug ARGS 1)
tug_mpi_test(blocking_forms RANKS 2 3 WAYS off ARGS 1)
tug_mpi_test(blocking_forms RANKS 3 NODES emulated WAYS tug ARGS 1)
tug_mpi_test(blocking_forms.polite RANKS 2 4 WAYS tug ARGS 1 ENV TUGBOAT_WAIT=polite)
tug_mpi_test(blocking_forms.twins RANKS 2 3 4 5 WAYS host ARGS twins intra 1)
tug_mpi_test(blocking_forms.twins_between RANKS 4 WAYS either ARGS twins inter 1)

# Ranks that share cores wait politely by themselves.
tug_mpi_script(crowd crowd.sh 2 FIRST $<TARGET_FILE:mpi_polite_plain> PROGRAM mpi_polite TIMEOUT 600)

# Ranks on one core leave it.
tug_mpi_test(spread RANKS 2)
tug_mpi_test(spread.none RANKS 2 WAYS tug ENV TUGBOAT_AFFINITY=none)
tug_mpi_script(spread.leaves taken.sh 2 FIRST spreads 3 --way tug PROGRAM mpi_spread)

# Without an offload thread the calls of the ranks progress all requests, whatever these calls wait for.
tug_mpi_test(outside RANKS 2 3 ENV TUGBOAT_PROGRESS=caller)
tug_mpi_test(outside RANKS 2 NODES emulated WAYS tug ENV TUGBOAT_PROGRESS=caller)
tug_mpi_test(outside.native RANKS 2 WAYS tug ENV TUGBOAT_PROGRESS=caller TUGBOAT_WAIT=native)
tug_mpi_test(outside.session ARGS session RANKS 2 3 ENV TUGBOAT_PROGRESS=caller)

# Who waits in a call of the host's answers the others from there, beside the engine's own thread, several threads and
# windows that come and go.
tug_mpi_test(inside RANKS 2 NODES one tcp)
tug_mpi_test(inside RANKS 4 NODES one tcp WAYS tug)
tug_mpi_test(inside RANKS 4 NODES two WAYS tug ENV UCX_TLS=tcp,self)
tug_mpi_test(inside.threads ARGS threads RANKS 2 NODES one tcp)
tug_mpi_test(inside.threads ARGS threads RANKS 3 NODES one tcp WAYS tug)
# by packets: the other is needed
tug_mpi_script(inside.used taken.sh 2 FIRST inside_rounds 10 --way tug ARGS used ENV TUGBOAT_TRANSPORTS=self,shm)
tug_mpi_script(inside.used.tcp taken.sh 2 FIRST inside_rounds 10 --way tug
    ARGS used ENV MPIR_CVAR_NOLOCAL=1 UCX_TLS=tcp,self)
tug_mpi_script(inside.after.tcp taken.sh 2 FIRST inside_rounds 10 --way tug
    ARGS after used ENV MPIR_CVAR_NOLOCAL=1 UCX_TLS=tcp,self)
# Ranks that are bound to a core each do not share it: one that waits looks, as it does where no rank is bound. Twice as
# many share.
tug_mpi_script(inside.bound taken.sh 2 FIRST inside_rounds 10 --way tug --bind core ARGS used
    ENV TUGBOAT_TRANSPORTS=self,shm)
tug_mpi_test(inside.cores RANKS 2 WAYS host tug OPTIONS --bind core)
tug_mpi_test(inside.cores RANKS 4 WAYS tug OPTIONS --bind core)

# A rank that has used the library and now does something else costs no CPU.
tug_mpi_test(idle RANKS 1 2 4)

# The same with windows on the rows and columns of a grid, and on 64 communicators: one endpoint a process.
# 0.3 %: four ranks asleep for 5 s use 60 ms. Between nodes that are only emulated the host is polled.
tug_mpi_test(endpoint RANKS 4 NODES one emulated tcp WAYS host ARGS grid 100)
foreach(windows IN ITEMS grid many)
    tug_mpi_test(endpoint.${windows} RANKS 4 NODES one tcp WAYS tug ARGS ${windows} 1000 0.3)
    tug_mpi_test(endpoint.${windows} RANKS 4 NODES emulated WAYS tug ARGS ${windows} 100)
    # a bell for those of the node, sockets for the others
    tug_mpi_test(endpoint.${windows} RANKS 4 NODES two WAYS tug ARGS ${windows} 1000 0.3
        ENV UCX_TLS=tcp,self)
endforeach()

# Signals interrupt every wait, from before MPI starts.
foreach(how IN ITEMS interrupt restart)
    tug_mpi_test(storm.${how} RANKS 2 3 ARGS ${how} 1000)
    tug_mpi_test(storm.${how} RANKS 2 NODES tcp WAYS host off ARGS ${how} 1000)
    tug_mpi_test(storm.${how} RANKS 2 3 NODES tcp WAYS tug ARGS ${how} 1000 tcp)
    tug_llcl_test(storm WAYS all CASE ${how} RANKS 2 3 NODES tcp ARGS ${how} 1000 tcp)
endforeach()
