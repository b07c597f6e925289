# The SDK as a step author meets it: installs the build tree to a place of its own and builds and runs the examples against
# it, out of tree, with CMake and with make, by one compiler, without warnings.
#     cmake -D NM=nm -D BUILD=FOLDER -D SOURCE=FOLDER -D WORK=FOLDER -D COMPILER=cc [-D SANITIZE=FLAGS] -P examples.cmake
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/exported.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/installed.cmake)

foreach(example hello-step writer-shout)
  message(NOTICE "${example} by ${COMPILER}")
  set(source ${WORK}/${example})
  set(build ${WORK}/${example}-build)
  file(COPY ${SOURCE}/sdk/examples/${example} DESTINATION ${WORK})
  run(${WORK} ${CMAKE_COMMAND} -S ${source} -B ${build} -DCMAKE_PREFIX_PATH=${WORK}/prefix -DCMAKE_C_COMPILER=${COMPILER}
    -DCMAKE_C_FLAGS=${flags})
  run(${build} ${CMAKE_COMMAND} --build .)
  run(${build} ${CMAKE_CTEST_COMMAND} --output-on-failure --no-tests=error)
  run(${source} ${CMAKE_COMMAND} -E env PKG_CONFIG_PATH=${package} make CC=${COMPILER} "CFLAGS=-O1 ${flags}" check)

  file(GLOB configuration ${source}/*.yaml)
  foreach(folder ${build} ${source})
    file(GLOB plugins ${folder}/*.so)
    if(NOT plugins)
      message(FATAL_ERROR "no plugin in ${folder}")
    endif()
    foreach(plugin IN LISTS plugins)
      check_plugin(${plugin})
    endforeach()
    run(${folder} ${coordinator} check --config ${configuration})
  endforeach()
  run(${WORK} ${CMAKE_COMMAND} -E env COORDINATOR_PLUGIN_PATH= ${coordinator} steps)
endforeach()
file(REMOVE_RECURSE ${WORK})
