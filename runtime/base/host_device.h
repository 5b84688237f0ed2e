// SPDX-License-Identifier: Apache-2.0
// Marks what runs on the CPU and inside CUDA kernels alike: element types, random numbers, the
// arithmetic of one element.
#pragma once

#if defined(__CUDACC__)
#define TRIREME_HOST_DEVICE __host__ __device__
#else
#define TRIREME_HOST_DEVICE
#endif
