# How everything of ours is compiled. Targets link `coord_flags`; plugins and tests too.
add_library(coord_flags INTERFACE)
target_compile_options(coord_flags INTERFACE
  $<$<COMPILE_LANGUAGE:C>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla
  -Wno-missing-field-initializers -fno-strict-aliasing -fstack-clash-protection -Wframe-larger-than=16384
  -fno-omit-frame-pointer>)
target_compile_definitions(coord_flags INTERFACE _GNU_SOURCE)
if(COORD_WERROR)
  target_compile_options(coord_flags INTERFACE $<$<COMPILE_LANGUAGE:C>:-Werror>)
endif()

# Asserts stay in release builds: they are for our own mistakes.
string(REPLACE "-DNDEBUG" "" CMAKE_C_FLAGS_RELEASE "${CMAKE_C_FLAGS_RELEASE}")
string(REPLACE "-O3" "-O2" CMAKE_C_FLAGS_RELEASE "${CMAKE_C_FLAGS_RELEASE}")

if(COORD_SANITIZE)
  add_compile_options(-fsanitize=${COORD_SANITIZE} -fno-sanitize-recover=all -g)
  add_link_options(-fsanitize=${COORD_SANITIZE})
else()
  add_link_options(-Wl,-z,defs)
  target_compile_options(coord_flags INTERFACE $<$<CONFIG:Release>:-g -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2>)
endif()
add_link_options(-Wl,-z,relro -Wl,-z,now)
if(COORD_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link) # the core too must tell the fuzzer which branches it took
endif()
if(COORD_COVERAGE)
  add_compile_options(--coverage -O0)
  add_link_options(--coverage)
endif()
