# Installs the build tree BUILD to WORK/prefix, an empty place, for what is built against it out of tree. Sets `coordinator`, the
# program, `package`, the folder of the pkg-config files, and `flags` for the compiler (with SANITIZE): warnings are errors.
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)
set(flags "-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror ${SANITIZE}")

file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
run(${WORK} ${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
file(GLOB_RECURSE package ${WORK}/prefix/*/coordinator-testkit.pc)
cmake_path(GET package PARENT_PATH package)
set(coordinator ${WORK}/prefix/bin/coordinator)
