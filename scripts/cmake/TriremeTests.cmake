# add_unit_test(name SOURCES ... DEPENDS ...)            one process, no MPI
# add_mpi_test(name RANKS 1 2 4 SOURCES ... DEPENDS ...) one binary run under mpirun at each rank count
# Both take TIMEOUT seconds (default 60) and LABELS. A test that hangs fails; a failing rank ends all of them.

add_library(trireme_test_main STATIC ${PROJECT_SOURCE_DIR}/tests/support/unit_main.cpp)
target_link_libraries(trireme_test_main PUBLIC GTest::gtest GTest::gmock trireme::base PRIVATE trireme_flags)

if(TARGET trireme_comm)
  add_library(trireme_mpi_test_main STATIC ${PROJECT_SOURCE_DIR}/tests/support/mpi_main.cpp)
  target_link_libraries(trireme_mpi_test_main PUBLIC GTest::gtest GTest::gmock trireme::base trireme::comm PRIVATE trireme_flags MPI::MPI_C)
endif()

# Sanitizers: no leak check under mpirun (the MPI library keeps memory until exit), races inside libraries suppressed.
set(TRIREME_TEST_ENVIRONMENT
  "ASAN_OPTIONS=detect_leaks=0:abort_on_error=0:allocator_may_return_null=1"
  "UBSAN_OPTIONS=print_stacktrace=1"
  "TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/support/tsan.supp:ignore_noninstrumented_modules=1:halt_on_error=1:allocator_may_return_null=1"
  "OMPI_ALLOW_RUN_AS_ROOT=1" "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"
  "OMPI_MCA_rmaps_base_oversubscribe=1" "OMPI_MCA_mpi_yield_when_idle=1" "OMPI_MCA_hwloc_base_binding_policy=none"
  "OMPI_MCA_btl_vader_single_copy_mechanism=none" "OMP_NUM_THREADS=1")

function(_trireme_test_binary name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;MAIN" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE trireme_flags ${ARG_DEPENDS} ${ARG_MAIN})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endfunction()

function(add_unit_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPENDS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  _trireme_test_binary(${name} SOURCES ${ARG_SOURCES} DEPENDS ${ARG_DEPENDS} MAIN trireme_test_main)
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "unit;${ARG_LABELS}"
    ENVIRONMENT "${TRIREME_TEST_ENVIRONMENT}")
endfunction()

function(add_mpi_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "RANKS;SOURCES;DEPENDS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  _trireme_test_binary(${name} SOURCES ${ARG_SOURCES} DEPENDS ${ARG_DEPENDS} MAIN trireme_mpi_test_main)
  foreach(ranks ${ARG_RANKS})
    add_test(NAME ${name}.np${ranks}
      COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} $<TARGET_FILE:${name}>
      WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(${name}.np${ranks} PROPERTIES TIMEOUT ${ARG_TIMEOUT} PROCESSORS ${ranks}
      LABELS "mpi;${ARG_LABELS}" ENVIRONMENT "${TRIREME_TEST_ENVIRONMENT}")
  endforeach()
endfunction()
