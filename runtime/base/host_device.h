// SPDX-License-Identifier: Apache-2.0
// Marks functions that run on the CPU and in CUDA kernels: element types, random numbers, the
// arithmetic of one element.
#pragma once

#if defined(__CUDACC__)
#define TRIREME_HOST_DEVICE __host__ __device__
#else
#define TRIREME_HOST_DEVICE
#endif
