# Finds NCCL (NCCL_INCLUDE_DIR, NCCL_LIBRARY): beside the toolkit in CUDAToolkit_INCLUDE_DIRS, or as a separate wheel, which
# has no unversioned library. A toolkit of pip wheels is site-packages/nvidia/cu13, with nvidia/nccl beside it.
list(GET CUDAToolkit_INCLUDE_DIRS 0 _include)
get_filename_component(_toolkit ${_include} REALPATH)
get_filename_component(_toolkit ${_toolkit} DIRECTORY)
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ${_toolkit}/../nccl/include)
find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${CUDAToolkit_LIBRARY_DIR} ${_toolkit}/../nccl/lib)
if(NOT NCCL_INCLUDE_DIR OR NOT NCCL_LIBRARY)
  message(FATAL_ERROR "NCCL 2.28 was not found beside the CUDA toolkit (${_toolkit}): install libnccl-dev or pip's nvidia-nccl-cu13, or "
    "set NCCL_INCLUDE_DIR (the folder of nccl.h) and NCCL_LIBRARY (libnccl.so.2)")
endif()
