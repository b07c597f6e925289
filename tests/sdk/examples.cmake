# The SDK as a step author meets it: installs the build tree to a place of its own and builds and tests the examples against
# it, out of tree, with CMake and with make, by one compiler, without warnings. Then each is run as an operator would.
#     cmake -D NM=nm -D BUILD=FOLDER -D SOURCE=FOLDER -D WORK=FOLDER -D COMPILER=cc -D END_TO_END=PROGRAM [-D SANITIZE=FLAGS] [-D ALONE=yes] -P examples.cmake
# The examples are one build here, since ten would take ten times as long; with ALONE each is also configured by itself.
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/exported.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/installed.cmake)
cxx_of(${COMPILER} CXX)

# What the examples in Rust and with Redis want; ./dev test installs it. The system's cargo goes with the system's rustc.
find_program(CARGO cargo PATHS /usr/bin NO_DEFAULT_PATH)
find_program(CARGO cargo REQUIRED)
cmake_path(GET CARGO PARENT_PATH folder)
find_program(RUSTC rustc PATHS ${folder} NO_DEFAULT_PATH)
find_program(RUSTC rustc REQUIRED)
find_program(REDIS_SERVER redis-server REQUIRED)
execute_process(COMMAND pkg-config --exists hiredis RESULT_VARIABLE lacking)
if(lacking)
  message(FATAL_ERROR "hiredis is not installed")
endif()

file(GLOB_RECURSE decode ${WORK}/prefix/*/decode.so)
cmake_path(GET decode PARENT_PATH plugins)
set(environment ${CMAKE_COMMAND} -E env PKG_CONFIG_PATH=${package} RUSTC=${RUSTC} "RUSTFLAGS=-D warnings")

file(COPY ${SOURCE}/sdk/examples DESTINATION ${WORK})
set(examples ${WORK}/examples)
set(build ${WORK}/build)
run(${WORK} ${environment} ${CMAKE_COMMAND} -S ${examples} -B ${build} -DCMAKE_PREFIX_PATH=${WORK}/prefix -DCARGO=${CARGO}
  -DCMAKE_C_COMPILER=${COMPILER} -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_C_FLAGS=${flags} -DCMAKE_CXX_FLAGS=${flags})
run(${build} ${environment} ${CMAKE_COMMAND} --build . --parallel 2)
run(${build} ${environment} ${CMAKE_CTEST_COMMAND} --output-on-failure --no-tests=error)

file(GLOB sources RELATIVE ${examples} ${examples}/*/CMakeLists.txt)
foreach(source IN LISTS sources)
  cmake_path(GET source PARENT_PATH example)
  message(NOTICE "${example} by ${COMPILER}")
  run(${examples}/${example} ${environment} make -j2 CC=${COMPILER} CXX=${CXX} CARGO=${CARGO} "CFLAGS=-O1 ${flags}" "CXXFLAGS=-O1 ${flags}" check)
  if(ALONE)
    run(${WORK} ${environment} ${CMAKE_COMMAND} -S ${examples}/${example} -B ${WORK}/alone/${example} -DCMAKE_PREFIX_PATH=${WORK}/prefix)
  endif()
  file(GLOB configuration ${examples}/${example}/*.yaml)
  foreach(folder ${build}/${example} ${examples}/${example})
    file(GLOB made ${folder}/*.so)
    if(NOT made)
      message(FATAL_ERROR "no plugin in ${folder}")
    endif()
    foreach(plugin IN LISTS made)
      check_plugin(${plugin})
    endforeach()
    run(${folder} ${coordinator} check --config ${configuration})
  endforeach()
endforeach()
run(${WORK} ${CMAKE_COMMAND} -E env COORDINATOR_PLUGIN_PATH= ${coordinator} steps)

run(${WORK} ${CMAKE_COMMAND} -E env EXAMPLES=${examples} COORDINATOR_BIN=${coordinator} COORDINATOR_PLUGIN_PATH=${plugins} REDIS_SERVER=${REDIS_SERVER}
  ${END_TO_END})
file(REMOVE_RECURSE ${WORK})
