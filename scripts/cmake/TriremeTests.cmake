# add_unit_test(name SOURCES ... DEPENDS ...)            one process, no MPI
# add_mpi_test(name RANKS 1 2 4 SOURCES ... DEPENDS ...) one binary run under mpirun at each rank count
# Both take TIMEOUT seconds (default 180) and LABELS. A test that hangs fails; a failing rank ends all of them.
# PROCESSORS counts thirds of a core, as scripts/test.sh does (ctest -j three times the cores): 1 for a test that mostly waits, 2
# for one that computes but waits a third of its time, 3 for one that computes on two cores, 2 for each rank of the MPI tests.
# RUN_SERIAL is for tests that measure time. COST starts long tests first in a build without measured times.

# Tests are compiled more often than they run: this takes half the time of -O3. The code under test keeps -O3.
add_library(trireme_test_flags INTERFACE)
target_compile_options(trireme_test_flags INTERFACE "$<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-Og>")

add_library(trireme_test_main STATIC ${PROJECT_SOURCE_DIR}/tests/support/unit_main.cpp)
target_link_libraries(trireme_test_main PUBLIC GTest::gtest GTest::gmock trireme::base trireme::device PRIVATE trireme_flags)

if(TARGET trireme_comm)
  add_library(trireme_mpi_test_main STATIC ${PROJECT_SOURCE_DIR}/tests/support/mpi_main.cpp)
  target_link_libraries(trireme_mpi_test_main PUBLIC GTest::gtest GTest::gmock trireme::base trireme::comm PRIVATE trireme_flags MPI::MPI_C)
endif()

# Memory that a layer may not read yet is NaN in every pass (runtime/nn/model.h).
# Sanitizers: no leak check under mpirun (the MPI library keeps memory until exit), races inside libraries suppressed.
set(TRIREME_TEST_ENVIRONMENT
  "ASAN_OPTIONS=detect_leaks=0:abort_on_error=0:allocator_may_return_null=1"
  "UBSAN_OPTIONS=print_stacktrace=1"
  "TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/support/tsan.supp:ignore_noninstrumented_modules=1:halt_on_error=1:allocator_may_return_null=1"
  "OMPI_ALLOW_RUN_AS_ROOT=1" "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"
  "OMPI_MCA_rmaps_base_oversubscribe=1" "OMPI_MCA_mpi_yield_when_idle=1" "OMPI_MCA_hwloc_base_binding_policy=none"
  "PRTE_MCA_rmaps_default_mapping_policy=slot:oversubscribe" "PRTE_MCA_hwloc_default_binding_policy=none"  # Open MPI 5
  "OMPI_MCA_reachable=weighted"  # its other component complains of hosts with one interface
  "OMPI_MCA_btl_vader_single_copy_mechanism=none" "OMP_NUM_THREADS=1" "TRIREME_POISON_ACTIVATIONS=1")

# CUDA in add_unit_test and add_mpi_test: the sources also run on a GPU (NAME.cuda, skipped without one) and on an emulated
# one (NAME.emulated).
set(TRIREME_SKIPPED 77)

function(_trireme_test_binary name)
  cmake_parse_arguments(ARG "" "CUDA" "SOURCES;DEPENDS;MAIN" ${ARGN})
  if(NOT ARG_CUDA OR NOT TARGET trireme_cuda_emulated)
    add_executable(${name} ${ARG_SOURCES})
    trireme_unity(${name})
    target_link_libraries(${name} PRIVATE trireme_flags trireme_test_flags ${ARG_DEPENDS} ${ARG_MAIN})
    set(binaries ${name})
  else()
    add_library(${name}_objects OBJECT ${ARG_SOURCES})
    trireme_unity(${name}_objects)
    target_link_libraries(${name}_objects PRIVATE trireme_test_flags PUBLIC trireme_flags ${ARG_DEPENDS} ${ARG_MAIN})
    set(binaries ${name} ${name}_emulated)
    foreach(binary ${binaries})
      add_executable(${binary})
      target_link_libraries(${binary} PRIVATE ${name}_objects)
    endforeach()
    target_link_libraries(${name}_emulated PRIVATE trireme_cuda_emulated)
  endif()
  if(ARG_CUDA)
    trireme_link_cuda(${name})
  endif()
  set_target_properties(${binaries} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endfunction()

# Registers one run of a test program.
function(_trireme_add_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT;PROCESSORS" "COMMAND;LABELS;ENVIRONMENT" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 180)
  endif()
  add_test(NAME ${name} COMMAND ${ARG_COMMAND} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}"
    ENVIRONMENT "${TRIREME_TEST_ENVIRONMENT};${ARG_ENVIRONMENT}" SKIP_RETURN_CODE ${TRIREME_SKIPPED})
  if(ARG_PROCESSORS)
    set_tests_properties(${name} PROPERTIES PROCESSORS ${ARG_PROCESSORS})
  endif()
endfunction()

function(add_unit_test name)
  cmake_parse_arguments(ARG "CUDA" "TIMEOUT" "SOURCES;DEPENDS;LABELS" ${ARGN})
  _trireme_test_binary(${name} CUDA ${ARG_CUDA} SOURCES ${ARG_SOURCES} DEPENDS ${ARG_DEPENDS} MAIN trireme_test_main)
  _trireme_add_test(${name} COMMAND ${name} TIMEOUT ${ARG_TIMEOUT} LABELS unit ${ARG_LABELS})
  if(ARG_CUDA AND TRIREME_CUDA)
    _trireme_add_test(${name}.cuda COMMAND ${name} TIMEOUT ${ARG_TIMEOUT} LABELS unit cuda ${ARG_LABELS}
      ENVIRONMENT TRIREME_TEST_DEVICE=cuda)
  endif()
  if(TARGET ${name}_emulated)
    _trireme_add_test(${name}.emulated COMMAND ${name}_emulated TIMEOUT 300 LABELS unit emulated ${ARG_LABELS}
      ENVIRONMENT TRIREME_TEST_DEVICE=cuda)
  endif()
endfunction()

function(add_mpi_test name)
  cmake_parse_arguments(ARG "CUDA;TCP" "TIMEOUT" "RANKS;SOURCES;DEPENDS;LABELS" ${ARGN})
  _trireme_test_binary(${name} CUDA ${ARG_CUDA} SOURCES ${ARG_SOURCES} DEPENDS ${ARG_DEPENDS} MAIN trireme_mpi_test_main)
  foreach(ranks ${ARG_RANKS})
    set(launcher ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks})
    math(EXPR processors "2 * ${ranks}")
    _trireme_add_test(${name}.np${ranks} COMMAND ${launcher} $<TARGET_FILE:${name}>
      TIMEOUT ${ARG_TIMEOUT} PROCESSORS ${processors} LABELS mpi ${ARG_LABELS})
    if(ARG_TCP AND ranks GREATER 1)
      _trireme_add_test(${name}.np${ranks}.tcp COMMAND ${PROJECT_SOURCE_DIR}/launch/tcp_run.sh ${ranks} $<TARGET_FILE:${name}>
        TIMEOUT ${ARG_TIMEOUT} PROCESSORS ${processors} LABELS mpi ${ARG_LABELS})
    endif()
    if(ARG_CUDA AND TRIREME_CUDA)
      _trireme_add_test(${name}.np${ranks}.cuda COMMAND ${launcher} $<TARGET_FILE:${name}>
        TIMEOUT ${ARG_TIMEOUT} PROCESSORS ${processors} LABELS mpi cuda ${ARG_LABELS} ENVIRONMENT TRIREME_TEST_DEVICE=cuda)
    endif()
    if(TARGET ${name}_emulated)
      _trireme_add_test(${name}.np${ranks}.emulated COMMAND ${launcher} $<TARGET_FILE:${name}_emulated>
        TIMEOUT 300 PROCESSORS ${processors} LABELS mpi emulated ${ARG_LABELS}
        ENVIRONMENT TRIREME_TEST_DEVICE=cuda TRIREME_EMULATED_STREAMS=threads TRIREME_EMULATED_CONTRACTS=all
          TRIREME_EMULATED_GPUS=${ranks})
    endif()
  endforeach()
endfunction()
