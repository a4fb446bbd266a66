# What every C target of the project is compiled with, as the interface target tugboat_options.

add_library(tugboat_options INTERFACE)

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)

# The library runs inside programs that measure it: keep assertions, they are cheap by design.
foreach(language IN ITEMS C CXX)
  set(CMAKE_${language}_FLAGS_RELWITHDEBINFO "-O2 -g")
endforeach()

target_compile_definitions(tugboat_options INTERFACE $<$<COMPILE_LANGUAGE:C>:_GNU_SOURCE>)
target_compile_options(tugboat_options INTERFACE
  $<$<COMPILE_LANGUAGE:C,CXX>:-Wall -Wextra -Wshadow>
  $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes -Wmissing-prototypes>)
if(TUGBOAT_WERROR)
  target_compile_options(tugboat_options INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-Werror>)
endif()

if(TUGBOAT_SANITIZE)
  add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=${TUGBOAT_SANITIZE}>
                      $<$<COMPILE_LANGUAGE:C,CXX>:-fno-omit-frame-pointer>)
  add_link_options(-fsanitize=${TUGBOAT_SANITIZE})
  if(TUGBOAT_SANITIZE MATCHES "undefined")
    add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-fno-sanitize-recover=undefined>)
  endif()
endif()
