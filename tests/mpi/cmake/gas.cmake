# Relocatable global arrays over mapped memory, packets of both kinds, emulated nodes and TCP.

tug_layer_test(gas basic WAYS all RANKS 1 2 3 4 5)
tug_layer_test(gas basic WAYS packets RANKS 2)
tug_layer_test(gas basic WAYS mpi RANKS 3)
tug_layer_test(gas basic WAYS all RANKS 3 NODES emulated)
tug_layer_test(gas basic WAYS all RANKS 2 NODES tcp)

# Threads of all ranks use pages at random.
tug_layer_test(gas stress WAYS all RANKS 4)
tug_layer_test(gas stress WAYS packets mpi RANKS 2 ARGS 4 3000)
tug_layer_test(gas stress WAYS all RANKS 2 NODES tcp ARGS 4 3000)

# Everybody takes pages with very few operations: no circle of ranks that wait for one another.
tug_layer_test(gas stress WAYS packets mpi CASE few RANKS 2 ARGS 8 200 5000
    ENV TUGBOAT_OPERATIONS=16 TUGBOAT_RING_SIZE=16)
# No offload thread: a rank that is ready waits for the others in MPI_Test, and serves them there.
tug_layer_test(gas stress WAYS all CASE caller RANKS 4 ARGS 4 3000 ENV TUGBOAT_PROGRESS=caller)
tug_layer_test(gas stress WAYS packets mpi CASE caller RANKS 2 ARGS 4 1000 ENV TUGBOAT_PROGRESS=caller)
tug_layer_test(gas stress WAYS all CASE caller RANKS 2 NODES tcp ARGS 4 1000 ENV TUGBOAT_PROGRESS=caller)

# Everybody wants the same page.
tug_layer_test(gas storm WAYS all RANKS 2 4)
tug_layer_test(gas storm WAYS all CASE short RANKS 8 ARGS 10)
tug_layer_test(gas storm WAYS all packets CASE caller RANKS 2 ENV TUGBOAT_PROGRESS=caller)
tug_layer_test(gas storm WAYS mpi RANKS 2)
tug_layer_test(gas storm WAYS all RANKS 2 NODES tcp)

# Turns: who waits for a page has it before its owner has it again.
tug_layer_test(gas turns WAYS all RANKS 3 5 ARGS near ENV TUGBOAT_PROGRESS=caller)
tug_layer_test(gas turns WAYS packets mpi RANKS 3 ARGS far ENV TUGBOAT_PROGRESS=caller)

# Errors.
tug_layer_test(gas errors WAYS all RANKS 1 2 3)
tug_layer_test(gas errors WAYS packets RANKS 2)

# Large pages move while they are used.
tug_layer_test(gas moves WAYS all packets mpi RANKS 3 ARGS 700)
tug_layer_test(gas moves WAYS all packets CASE large RANKS 3 ARGS 1000 2097152)
tug_layer_test(gas moves WAYS all RANKS 2 NODES tcp ARGS 700)
# ... and their size is no power of two
tug_layer_test(gas moves WAYS all packets CASE odd RANKS 3 ARGS 300 10008)

# Pages at the end come and go.
tug_layer_test(gas grow WAYS all packets RANKS 1 2 3)
tug_layer_test(gas grow WAYS mpi RANKS 3)
tug_layer_test(gas grow WAYS all RANKS 3 NODES emulated)
tug_layer_test(gas grow WAYS all RANKS 2 NODES tcp)

# Pages follow their users, where memory is not mapped.
tug_layer_test(gas follow WAYS packets RANKS 2 4)
tug_layer_test(gas follow WAYS mpi RANKS 2 3)
tug_layer_test(gas follow WAYS packets CASE setting RANKS 2 ARGS setting ENV TUGBOAT_ARRAY_MOVES=on)
tug_layer_test(gas follow WAYS all RANKS 2 3 NODES tcp)
# ... and nothing is lost while threads of all ranks use them
tug_layer_test(gas stress WAYS packets mpi CASE follow RANKS 3 ARGS 4 2000 ENV TUGBOAT_ARRAY_MOVES=on)
tug_layer_test(gas moves WAYS packets CASE follow RANKS 3 ARGS 500 ENV TUGBOAT_ARRAY_MOVES=on)

# The example.
if(TARGET tugboat)
    tug_mpi_bare_program(mpi_gas_sweep ${PROJECT_SOURCE_DIR}/examples/gas_sweep.c tugboat HostMPI::C)
    tug_mpi_test(gas_sweep RANKS 2 NODES emulated WAYS host LABELS gas)
endif()

# The other processes are stopped: only the engine of the issuer runs.
tug_layer_test(gas stopped WAYS all RANKS 2 3 5)
