#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpu_wheels_test.sh: in a CUDA toolkit from pip's wheels, the configuration finds NCCL and cuDNN, and names a missing
# part clearly.
set -eu
cmake_files=$(cd "$(dirname "$0")/../../scripts/cmake" && pwd)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
wheels=$root/site-packages/nvidia
mkdir -p "$wheels"/{cu13,nccl,cudnn}/{include,lib} "$root/site-packages/include"
touch "$wheels/nccl/include/nccl.h" "$wheels/nccl/lib/libnccl.so.2"
touch "$wheels/cudnn/include/cudnn.h" "$wheels/cudnn/lib/libcudnn.so.9"
cat >"$root/configure.cmake" <<END
cmake_minimum_required(VERSION 3.25)
set(CMAKE_FIND_LIBRARY_PREFIXES lib)
set(CMAKE_FIND_LIBRARY_SUFFIXES .so)
set(CMAKE_FIND_USE_CMAKE_SYSTEM_PATH OFF)
set(CMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH OFF)
set(CUDAToolkit_INCLUDE_DIRS $wheels/cu13/include)
set(CUDAToolkit_LIBRARY_DIR $wheels/cu13/lib)
include($cmake_files/TriremeNccl.cmake)
include($cmake_files/TriremeCudnn.cmake)
message(STATUS "nccl: \${NCCL_INCLUDE_DIR} \${NCCL_LIBRARY}")
END

# expect TEXT...: cmake's output, as one line, has all texts.
expect() {
  local output text
  output=$(cmake -P "$root/configure.cmake" 2>&1 | tr -s ' \n' ' ') || true
  for text in "$@"; do
    [[ $output == *"$text"* ]] || {
      printf 'expected: %s\nin: %s\n' "$text" "$output"
      exit 1
    }
  done
}

expect "nvidia/nccl/include" "libnccl.so.2" "CMake Warning" "without cuDNN: own kernels (no cudnn_frontend.h"
touch "$root/site-packages/include/cudnn_frontend.h"
version=$root/site-packages/include/cudnn_frontend_version.h
printf '#define CUDNN_FRONTEND_MAJOR_VERSION 1\n#define CUDNN_FRONTEND_MINOR_VERSION 32\n' >"$version"
expect "cuDNN ($wheels" "frontend 1.32"
rm "$wheels/nccl/include/nccl.h"
expect "CMake Error" "NCCL 2.28 was not found beside the CUDA toolkit"
