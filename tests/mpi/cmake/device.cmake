# Memory of a device, as stand-ins for the runtimes of the vendors tell.

tug_mpi_device_tests()
foreach(runtime IN ITEMS cuda hip5 hip6 ze)
    tug_llcl_test(device WAYS all CASE ${runtime} RANKS 1 ARGS $<TARGET_FILE:stand_in_${runtime}>)
endforeach()
tug_mpi_test(device ${tug_device} RANKS 2 3)
tug_mpi_test(device ${tug_device} RANKS 2 WAYS packet native)
tug_mpi_test(device ${tug_device} RANKS 2 NODES emulated WAYS tug)
tug_mpi_test(device.aware PROGRAM mpi_device ARGS $<TARGET_FILE:stand_in_cuda> aware RANKS 2 WAYS tug
    OPTIONS --tool-after $<TARGET_FILE:device_aware>)
