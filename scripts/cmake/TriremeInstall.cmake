# cmake --install: the program, launch scripts, configs (component runtime); headers, libraries, examples and the CMake
# package (component development). cpack: the same as trireme.deb and trireme-dev.deb, and as one archive.
#
#   PREFIX/bin/trireme
#   PREFIX/share/trireme/{launch,configs,examples}     TRIREME_INSTALL_DATADIR is another place for these
#   PREFIX/include/trireme/launch/engine/engine.h     the paths of the repository: #include "launch/engine/engine.h"
#   PREFIX/lib/trireme/*.a, PREFIX/lib/cmake/trireme   find_package(trireme), targets trireme::engine, trireme::data, ...
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(TRIREME_INSTALL_DATADIR "${CMAKE_INSTALL_DATADIR}/trireme" CACHE STRING "Where launch/, configs/ and examples/ are installed, below the prefix")

# The headers of a module and its library.
function(_trireme_install_module module)
  foreach(field folder ARG_PUBLIC_HEADERS)
    get_property(${field} GLOBAL PROPERTY TRIREME_MODULE_${module}_${field})
  endforeach()
  install(TARGETS trireme_${module} EXPORT trireme
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/trireme COMPONENT development
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/trireme)
  set(place ${PROJECT_SOURCE_DIR}/${folder})
  set(patterns ${ARG_PUBLIC_HEADERS})
  get_property(lists_headers GLOBAL PROPERTY TRIREME_FOLDER_${folder}_lists_headers)
  set(headers)
  if(NOT lists_headers)
    file(GLOB_RECURSE headers RELATIVE ${place} ${place}/*.h)
  elseif(patterns)
    list(TRANSFORM patterns PREPEND ${place}/)
    file(GLOB headers RELATIVE ${place} ${patterns})
  endif()
  foreach(header ${headers})
    get_filename_component(below ${header} DIRECTORY)
    install(FILES ${place}/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/trireme/${folder}/${below} COMPONENT development)
  endforeach()
endfunction()

function(trireme_install)
  install(TARGETS trireme RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
  file(GLOB_RECURSE scripts RELATIVE ${PROJECT_SOURCE_DIR}/launch ${PROJECT_SOURCE_DIR}/launch/*.sh ${PROJECT_SOURCE_DIR}/launch/*.sbatch)
  list(FILTER scripts EXCLUDE REGEX "^container/")
  foreach(script ${scripts})
    get_filename_component(below ${script} DIRECTORY)
    install(PROGRAMS launch/${script} DESTINATION ${TRIREME_INSTALL_DATADIR}/launch/${below} COMPONENT runtime)
  endforeach()
  install(DIRECTORY launch/monitoring DESTINATION ${TRIREME_INSTALL_DATADIR}/launch COMPONENT runtime)
  install(DIRECTORY configs/ DESTINATION ${TRIREME_INSTALL_DATADIR}/configs COMPONENT runtime)
  install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime RENAME copyright)
  install(FILES launch/observe/report/uplot/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime RENAME copyright.uPlot)
  install(FILES README.md .github/CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)
  if(TRIREME_SANITIZE)
    return() # These libraries would force a sanitizer on a user's program.
  endif()

  get_property(modules GLOBAL PROPERTY TRIREME_MODULES)
  set(exported)
  foreach(module ${modules})
    get_property(internal GLOBAL PROPERTY TRIREME_MODULE_${module}_ARG_INTERNAL)
    if(NOT internal)
      _trireme_install_module(${module})
      list(APPEND exported ${module})
    endif()
  endforeach()
  if(TRIREME_CUDA)
    # Objects, not an archive: weak references do not pull members from an archive.
    install(TARGETS trireme_cuda trireme_nccl EXPORT trireme OBJECTS DESTINATION ${CMAKE_INSTALL_LIBDIR}/trireme COMPONENT development)
  endif()
  set(package ${CMAKE_INSTALL_LIBDIR}/cmake/trireme)
  install(EXPORT trireme FILE trireme-targets.cmake NAMESPACE trireme:: DESTINATION ${package} COMPONENT development)
  set(trireme_modules ${exported})
  configure_package_config_file(scripts/cmake/trireme-config.cmake.in ${CMAKE_BINARY_DIR}/trireme-config.cmake
    INSTALL_DESTINATION ${package} PATH_VARS TRIREME_INSTALL_DATADIR)
  write_basic_package_version_file(${CMAKE_BINARY_DIR}/trireme-config-version.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${CMAKE_BINARY_DIR}/trireme-config.cmake ${CMAKE_BINARY_DIR}/trireme-config-version.cmake
    scripts/cmake/TriremeDependencies.cmake DESTINATION ${package} COMPONENT development)
  install(DIRECTORY launch/examples DESTINATION ${TRIREME_INSTALL_DATADIR} COMPONENT development OPTIONAL)
endfunction()

# For cpack.
function(trireme_package)
  set(CPACK_PACKAGE_NAME trireme)
  set(CPACK_PACKAGE_VENDOR Trireme)
  set(CPACK_PACKAGE_CONTACT "Trireme maintainers <maintainers@trireme.invalid>")
  set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
  set(CPACK_VERBATIM_VARIABLES ON)
  set(CPACK_COMPONENTS_ALL runtime development)
  set(CPACK_COMPONENTS_GROUPING IGNORE)
  set(CPACK_THREADS 0)
  # CUDA's libraries may belong to no package: only an archive, and the program finds them as the build did.
  set(CPACK_GENERATOR TGZ)
  find_program(DPKG_SHLIBDEPS dpkg-shlibdeps)
  if(DPKG_SHLIBDEPS AND NOT TRIREME_CUDA)
    list(APPEND CPACK_GENERATOR DEB)
  endif()

  set(CPACK_DEB_COMPONENT_INSTALL ON)
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_PACKAGE_SECTION science)
  set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME trireme)
  set(processors ${TRIREME_CPU_ARCH})
  if(processors STREQUAL "native")
    set(processors "the machine it was built on and its like")
  endif()
  set(CPACK_COMPONENT_RUNTIME_DESCRIPTION
    "One YAML file and mpirun train a transformer or a CNN on many ranks.\nFor processors: ${processors}.")
  set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
  # mpirun; programs that launch/ calls.
  set(CPACK_DEBIAN_RUNTIME_PACKAGE_DEPENDS "openmpi-bin, procps")
  set(CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS "openssh-client")
  set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME trireme-dev)
  set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION
    "Headers, static libraries and a CMake package, for programs that train\nwith the engine of Trireme.")
  execute_process(COMMAND bash ${PROJECT_SOURCE_DIR}/scripts/install_deps.sh --list OUTPUT_VARIABLE needs
    OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "\n" ";" needs "${needs}")
  list(FILTER needs EXCLUDE REGEX "gtest|gmock|libcli11") # tests and the command line
  list(JOIN needs ", " needs)
  set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "trireme (= ${PROJECT_VERSION}), g++, cmake (>= ${CMAKE_MINIMUM_REQUIRED_VERSION}), ${needs}")
  include(CPack)
endfunction()
