# Writes the commit that is being built into OUTPUT; touches it only when it changed.
execute_process(COMMAND git describe --always --dirty --abbrev=10
  WORKING_DIRECTORY "${SOURCE_DIR}" OUTPUT_VARIABLE commit ERROR_QUIET
  OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  set(commit "unknown")
endif()
file(CONFIGURE OUTPUT "${OUTPUT}" CONTENT "#define BENCH_COMMIT \"${commit}\"\n")
