# Windows and LLCL over libfabric with operations by RMA, by the provider that libfabric prefers here (tcp in
# software on most machines). Without TUGBOAT_OFI_RMA its packets are tested in llcl.cmake. Programs that use keys
# of memory that has ended are left out: such a provider answers these by ending the connection.

set(tug_ofi_rma TUGBOAT_TRANSPORTS=ofi TUGBOAT_OFI_RMA=on)
if(TARGET tugboat)
    set(tug_ofi_needs OPTIONS --needs $<TARGET_FILE:tugboat_cmd>:ofi)
endif()
tug_mpi_test(ofi_counts RANKS 2 NODES tcp WAYS host packet off ENV ${tug_ofi_rma} ${tug_ofi_needs})
foreach(program IN ITEMS rma_accumulate rma_atomic rma_basic rma_derived rma_dynamic rma_errors rma_fence
        rma_flush_threads rma_lock_storm rma_mixed rma_overlap rma_pscw rma_request rma_room rma_threads rma_types
        win_unaligned)
    tug_mpi_test(${program}.ofi PROGRAM mpi_${program} RANKS 2 3 NODES emulated WAYS packet
        ENV ${tug_ofi_rma} CHECK_FEW=1 ${tug_ofi_needs})
endforeach()
foreach(program IN ITEMS basic atomic am call contexts threads passive)
    tug_llcl_test(${program} WAYS ofi CASE rma RANKS 2 3 ENV TUGBOAT_OFI_RMA=on)
endforeach()
tug_llcl_test(threads WAYS ofi CASE rma_few RANKS 2 ARGS 8
    ENV TUGBOAT_OFI_RMA=on TUGBOAT_OPERATIONS=16 TUGBOAT_RING_SIZE=16)
tug_llcl_test(large WAYS ofi CASE rma RANKS 2 NODES tcp ARGS registered 100 ENV TUGBOAT_OFI_RMA=on)
if(TARGET mpi_llcl_kill)
    tug_mpi_script(llcl_kill.ofi.rma llcl_kill.sh 2 FIRST --nodes tcp --needs $<TARGET_FILE:tugboat_cmd>:ofi
        PROGRAM mpi_llcl_kill ENV ${tug_ofi_rma} LABELS "llcl;fault")
endif()
