# Installs the build tree BUILD to WORK/prefix, an empty place, for what is built against it out of tree. Sets `coordinator`, the
# program, `package`, the folder of the pkg-config files, and `flags` for the compiler (with SANITIZE): warnings are errors.
set(flags "-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror ${SANITIZE}")

# run(DIRECTORY COMMAND…): stops at the first that fails, with what it said.
function(run directory)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${directory} OUTPUT_VARIABLE said ERROR_VARIABLE said RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${said}\n${result}: ${ARGN}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
run(${WORK} ${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
file(GLOB_RECURSE package ${WORK}/prefix/*/coordinator-testkit.pc)
cmake_path(GET package PARENT_PATH package)
set(coordinator ${WORK}/prefix/bin/coordinator)
