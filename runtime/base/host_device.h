// SPDX-License-Identifier: Apache-2.0
// Marks functions that kernels call too; nothing outside CUDA sources.
#pragma once

#if defined(__CUDACC__)
#define TRIREME_HOST_DEVICE __host__ __device__
#else
#define TRIREME_HOST_DEVICE
#endif
