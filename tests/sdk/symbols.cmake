# libcoordinator.so exports what sdk/abi/symbols.txt lists and nothing else; a plugin exports coord_plugin and nothing else.
#     cmake -D NM=nm -D LIBRARY=FILE -D LIST=FILE -D PLUGINS=FOLDER -P symbols.cmake
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/exported.cmake)
exported(${LIBRARY} made)

file(STRINGS ${LIST} listed)
foreach(name IN LISTS made)
  if(NOT name IN_LIST listed)
    message(NOTICE "exported, not in the list: ${name}")
  endif()
endforeach()
foreach(name IN LISTS listed)
  if(NOT name IN_LIST made)
    message(NOTICE "in the list, not exported: ${name}")
  endif()
endforeach()
if(NOT made STREQUAL "${listed}")
  message(FATAL_ERROR "${LIBRARY} exports other symbols than ${LIST}; once released, they are only added, in a new version node. "
    "To keep the change: ./dev abi update")
endif()

file(GLOB plugins ${PLUGINS}/*.so)
if(NOT plugins)
  message(FATAL_ERROR "no plugin in ${PLUGINS}")
endif()
foreach(plugin IN LISTS plugins)
  check_plugin(${plugin})
endforeach()
