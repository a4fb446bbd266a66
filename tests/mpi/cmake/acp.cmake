# ACP: global addresses, commands and third-party copies.

set(tug_acp_starter TUGBOAT_ACP_STARTER=4M)

# Random commands.
tug_layer_test(acp random WAYS all mpi RANKS 2 ENV ${tug_acp_starter})
tug_layer_test(acp random WAYS packets RANKS 2 3 ENV ${tug_acp_starter})
tug_layer_test(acp random WAYS all RANKS 1 ENV ${tug_acp_starter})
tug_layer_test(acp random WAYS packets CASE groups RANKS 3 ARGS 500 ENV ${tug_acp_starter} TUGBOAT_ACP_KEYS=1)
tug_layer_test(acp random WAYS all CASE groups RANKS 5 NODES emulated ARGS 300 ENV ${tug_acp_starter} TUGBOAT_ACP_KEYS=2)
tug_layer_test(acp random WAYS all CASE many RANKS 6 8 ARGS 300 ENV ${tug_acp_starter})
tug_layer_test(acp random WAYS all RANKS 3 NODES emulated ARGS 2000 ENV ${tug_acp_starter})
tug_layer_test(acp random WAYS all RANKS 4 NODES one two ARGS 1000 ENV ${tug_acp_starter})
tug_layer_test(acp random WAYS all RANKS 2 NODES tcp ARGS 2000 2 ENV ${tug_acp_starter})
tug_layer_test(acp random WAYS all packets CASE threads RANKS 2 ARGS 1000 4 ENV ${tug_acp_starter})
tug_layer_test(acp random WAYS packets mpi CASE large RANKS 2 ARGS 500 1 200000 ENV ${tug_acp_starter})
# The ring and the table of operations are full most of the time.
tug_layer_test(acp random WAYS packets mpi CASE few RANKS 2 ARGS 1000 2
    ENV ${tug_acp_starter} TUGBOAT_OPERATIONS=16 TUGBOAT_RING_SIZE=16)
tug_layer_test(acp random WAYS packets CASE thread RANKS 2 ARGS 1000 2
    ENV ${tug_acp_starter} TUGBOAT_PROGRESS=thread)
tug_layer_test(acp random WAYS packets CASE caller RANKS 2 ARGS 1000 2
    ENV ${tug_acp_starter} TUGBOAT_PROGRESS=caller)

# Registrations come and go while others use their addresses.
tug_layer_test(acp churn WAYS all RANKS 3 ENV TUGBOAT_VERBOSE=quiet)
tug_layer_test(acp churn WAYS packets RANKS 3 ENV TUGBOAT_VERBOSE=quiet)
tug_layer_test(acp churn WAYS mpi RANKS 2 ENV TUGBOAT_VERBOSE=quiet)
# Registered memory that the others of the node map for themselves.
tug_layer_test(acp random WAYS all CASE lent RANKS 2 4 ARGS 2000 2 ENV ${tug_acp_starter} CHECK_MEMORY=lent)
tug_layer_test(acp churn WAYS all CASE lent RANKS 3 5 ENV TUGBOAT_VERBOSE=quiet CHECK_MEMORY=lent)

# As programs of the original ACP are written.
tug_layer_test(acp interface WAYS all packets RANKS 1 3)

# A registration inside another.
tug_layer_test(acp inside WAYS all packets mpi RANKS 3 ENV TUGBOAT_VERBOSE=quiet)
tug_layer_test(acp inside WAYS all CASE lent RANKS 3 ENV TUGBOAT_VERBOSE=quiet CHECK_MEMORY=lent)

# The other processes are stopped: only the engine of the issuer runs.
tug_layer_test(acp stopped WAYS all RANKS 2 3 5)
tug_layer_test(acp stopped WAYS cma RANKS 2 3 5 ARGS known)
tug_layer_test(acp stopped WAYS all CASE lent RANKS 3 ENV CHECK_MEMORY=lent)
tug_layer_test(acp stopped WAYS all CASE starter RANKS 3 ARGS starter)
tug_layer_test(acp stopped WAYS all CASE groups RANKS 3 ARGS starter ENV TUGBOAT_ACP_KEYS=1)

# Commands by way of a third rank.
tug_layer_test(acp relay WAYS all mpi RANKS 3)
tug_layer_test(acp relay WAYS packets RANKS 7 ARGS 1000)
tug_layer_test(acp relay WAYS all CASE lent RANKS 3 ENV CHECK_MEMORY=lent)
# Two issuers have more out than a source has room for, while the destination serves nobody.
tug_layer_test(acp relay WAYS packets CASE slow RANKS 4 ARGS 4000 slow
    ENV TUGBOAT_PROGRESS=caller TUGBOAT_OPERATIONS=16384)

# Errors.
tug_layer_test(acp errors WAYS all packets mpi RANKS 2 ENV TUGBOAT_VERBOSE=quiet)
tug_layer_test(acp errors WAYS packets RANKS 3 ENV TUGBOAT_VERBOSE=quiet)
tug_layer_test(acp errors WAYS all RANKS 1 ENV TUGBOAT_VERBOSE=quiet)
tug_layer_test(acp errors WAYS all packets CASE leave RANKS 2 ARGS leave ENV TUGBOAT_VERBOSE=quiet)
tug_layer_test(acp errors WAYS all CASE disabled RANKS 2 ARGS off ENV TUGBOAT=off TUGBOAT_VERBOSE=quiet)

# The example, which knows neither MPI nor where it runs.
if(TARGET tugboat)
    tug_mpi_bare_program(mpi_acp_row ${PROJECT_SOURCE_DIR}/examples/acp_row.c tugboat)
    tug_mpi_test(acp_row RANKS 1 3 8 WAYS host LABELS acp)
    tug_mpi_test(acp_row RANKS 2 NODES tcp WAYS host LABELS acp)
endif()
