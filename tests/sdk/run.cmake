# run(DIRECTORY COMMAND…): stops at the first that fails, with what it said.
function(run directory)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${directory} OUTPUT_VARIABLE said ERROR_VARIABLE said RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${said}\n${result}: ${ARGN}")
  endif()
endfunction()

# cxx_of(COMPILER RESULT): the C++ compiler beside a C compiler.
function(cxx_of compiler result)
  cmake_path(GET compiler FILENAME name)
  string(REGEX REPLACE "clang" "clang++" cxx ${name})
  string(REGEX REPLACE "gcc" "g++" cxx ${cxx})
  string(REGEX REPLACE "^cc$" "c++" cxx ${cxx})
  set(${result} ${cxx} PARENT_SCOPE)
endfunction()
