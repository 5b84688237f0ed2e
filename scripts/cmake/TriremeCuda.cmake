# The CUDA back end: an object library that programs link. Modules do not link it; their references to it are weak.
# Modules name its sources:
#   trireme_cuda_sources(files...)          compiled for the GPU and, for tests, for the host against tests/emulation
#   trireme_cuda_library_sources(files...)  only for the GPU: code for libraries that the emulator lacks
# Targets: trireme_cuda (only with TRIREME_CUDA) and trireme_cuda_emulated (tests, x86-64).
function(trireme_cuda_sources)
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  set_property(GLOBAL APPEND PROPERTY TRIREME_CUDA_SOURCES ${ARGN})
endfunction()

function(trireme_cuda_library_sources)
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  set_property(GLOBAL APPEND PROPERTY TRIREME_CUDA_LIBRARY_SOURCES ${ARGN})
endfunction()

# After all modules.
function(trireme_add_cuda_backend)
  get_property(sources GLOBAL PROPERTY TRIREME_CUDA_SOURCES)
  get_property(library_sources GLOBAL PROPERTY TRIREME_CUDA_LIBRARY_SOURCES)
  add_library(trireme_cuda OBJECT ${sources} ${library_sources})
  target_link_libraries(trireme_cuda
    PUBLIC CUDA::cudart CUDA::cublasLt trireme_nccl $<$<BOOL:${TRIREME_CUDNN}>:${CUDNN_LIBRARY}>
    PRIVATE $<BUILD_INTERFACE:trireme_flags> trireme::ops trireme::comm)
  set_target_properties(trireme_cuda PROPERTIES EXPORT_NAME cuda)
  if(TRIREME_CUDNN)
    target_include_directories(trireme_cuda SYSTEM PRIVATE ${CUDNN_INCLUDE} ${CUDNN_FRONTEND_INCLUDE})
  endif()
  set_target_properties(trireme_cuda PROPERTIES CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON)
  # nvcc's front end does not evaluate fmt's consteval checks.
  target_compile_definitions(trireme_cuda PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:FMT_CONSTEVAL=;FMT_USE_CONSTEXPR=1>")
  target_compile_options(trireme_cuda PRIVATE
    "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;-Xptxas=-v;-Xcompiler=-Wall,-Wextra,-fopenmp-simd>")
endfunction()

# Links a program or a test with the back end if the build has it.
function(trireme_link_cuda target)
  if(TRIREME_CUDA)
    target_link_libraries(${target} PRIVATE trireme_cuda)
  endif()
endfunction()

if(NOT TRIREME_CUDA)
  return()
endif()
# Debian's CMake 3.25.1 does not know nvcc's C++20.
if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 90)
endif()
set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
find_package(CUDAToolkit 13.0 REQUIRED)
include(TriremeNccl)
file(STRINGS ${NCCL_INCLUDE_DIR}/nccl.h NCCL_VERSION REGEX "^#define NCCL_VERSION_CODE [0-9]+$")
string(REGEX MATCH "[0-9]+" NCCL_VERSION "${NCCL_VERSION}")
if(NCCL_VERSION LESS 22800)
  message(FATAL_ERROR "NCCL ${NCCL_VERSION} in ${NCCL_INCLUDE_DIR}: 2.28 or newer is needed; set NCCL_INCLUDE_DIR and NCCL_LIBRARY")
endif()
add_library(trireme_nccl INTERFACE)
set_target_properties(trireme_nccl PROPERTIES EXPORT_NAME nccl)
target_include_directories(trireme_nccl SYSTEM INTERFACE ${NCCL_INCLUDE_DIR})
target_link_libraries(trireme_nccl INTERFACE ${NCCL_LIBRARY})
# Keeps ptxas' report on registers and spills beside each object, for a test.
set(CMAKE_CUDA_COMPILER_LAUNCHER ${PROJECT_SOURCE_DIR}/scripts/cmake/keep_ptxas_log.sh ${CCACHE_PROGRAM})
include(TriremeCudnn)
message(STATUS "  CUDA                : ${CMAKE_CUDA_COMPILER_VERSION} for ${CMAKE_CUDA_ARCHITECTURES}")
