# trireme_module(name SOURCES ... DEPENDS ... [PRIVATE_DEPENDS ...] [PUBLIC_HEADERS ... | INTERNAL] [QUICK_COMPILE])
#   One static library per module, with an alias trireme::name. DEPENDS are modules or libraries that the module's headers
#   need; PRIVATE_DEPENDS are the libraries that only its sources see. The build
#   fails if a file includes a header of a module outside these and their transitive DEPENDS.
#   PUBLIC_HEADERS are installed, and other modules may include them (* within a folder); default: all of the folder.
#   INTERNAL: nothing is installed.
#   QUICK_COMPILE: for a module that computes nothing of a step.
#
# trireme_check_modules(), after all modules: the target trireme_modules, which runs CheckModules.cmake before any module is compiled.
function(trireme_module name)
  cmake_parse_arguments(ARG "INTERNAL;QUICK_COMPILE" "" "SOURCES;DEPENDS;PRIVATE_DEPENDS;PUBLIC_HEADERS" ${ARGN})
  add_library(trireme_${name} STATIC ${ARG_SOURCES})
  add_library(trireme::${name} ALIAS trireme_${name})
  target_link_libraries(trireme_${name} PUBLIC ${ARG_DEPENDS} PRIVATE $<BUILD_INTERFACE:trireme_flags>
    $<$<BOOL:${ARG_QUICK_COMPILE}>:$<BUILD_INTERFACE:trireme_quick_compile>> ${ARG_PRIVATE_DEPENDS})
  target_include_directories(trireme_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
  target_compile_features(trireme_${name} PUBLIC cxx_std_20)
  set_target_properties(trireme_${name} PROPERTIES EXPORT_NAME ${name})
  trireme_unity(trireme_${name} ARITHMETIC _cpu\\.cpp$)
  trireme_harden(trireme_${name} ${name})

  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  set_property(GLOBAL APPEND PROPERTY TRIREME_MODULES ${name})
  if(ARG_PUBLIC_HEADERS)
    set_property(GLOBAL PROPERTY TRIREME_FOLDER_${folder}_lists_headers ON)
  endif()
  foreach(field folder ARG_SOURCES ARG_DEPENDS ARG_PRIVATE_DEPENDS ARG_PUBLIC_HEADERS ARG_INTERNAL)
    set_property(GLOBAL PROPERTY TRIREME_MODULE_${name}_${field} "${${field}}")
  endforeach()
endfunction()

# After all modules.
function(trireme_check_modules)
  get_property(modules GLOBAL PROPERTY TRIREME_MODULES)
  set(fields folder ARG_DEPENDS ARG_PRIVATE_DEPENDS ARG_SOURCES ARG_PUBLIC_HEADERS)
  set(table)
  foreach(module ${modules})
    set(row ${module})
    foreach(field ${fields})
      get_property(value GLOBAL PROPERTY TRIREME_MODULE_${module}_${field})
      list(JOIN value "," value)
      string(APPEND row "|${value}")
    endforeach()
    string(APPEND table "${row}\n")
    get_property(folder GLOBAL PROPERTY TRIREME_MODULE_${module}_folder)
    list(APPEND patterns ${PROJECT_SOURCE_DIR}/${folder}/*.h ${PROJECT_SOURCE_DIR}/${folder}/*.cuh
      ${PROJECT_SOURCE_DIR}/${folder}/*.cpp ${PROJECT_SOURCE_DIR}/${folder}/*.cu)
  endforeach()
  set(modules_file ${CMAKE_BINARY_DIR}/modules.txt)
  file(CONFIGURE OUTPUT ${modules_file} CONTENT "${table}" @ONLY)

  list(REMOVE_DUPLICATES patterns)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS ${patterns})
  set(script ${PROJECT_SOURCE_DIR}/scripts/cmake/CheckModules.cmake)
  add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/modules.checked
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DMODULES=${modules_file} -P ${script}
    COMMAND ${CMAKE_COMMAND} -E touch ${CMAKE_BINARY_DIR}/modules.checked
    DEPENDS ${files} ${modules_file} ${script}
    COMMENT "Checking what modules include" VERBATIM)
  add_custom_target(trireme_modules DEPENDS ${CMAKE_BINARY_DIR}/modules.checked)
  foreach(module ${modules})
    add_dependencies(trireme_${module} trireme_modules)
  endforeach()
endfunction()
