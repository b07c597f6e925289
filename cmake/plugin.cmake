# coord_add_plugin(NAME SOURCES…): a plugin of ours. It gets the public headers and nothing of the core.
function(coord_add_plugin name)
  add_library(plugin_${name} MODULE ${ARGN})
  target_link_libraries(plugin_${name} PRIVATE coordinator coord_flags)
  set_target_properties(plugin_${name} PROPERTIES PREFIX "" OUTPUT_NAME ${name} LIBRARY_OUTPUT_DIRECTORY ${COORD_PLUGIN_OUTPUT}
    INSTALL_RPATH "$ORIGIN/../..")
  install(TARGETS plugin_${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/coordinator/plugins)
endfunction()
