// SPDX-License-Identifier: Apache-2.0
// Private to the CUDA kernels: launches under short names.
#pragma once

#include "runtime/device/cuda/launch.h"

namespace trireme::ops::cuda {

using trireme::cuda::ceil_div;
using trireme::cuda::dynamic_shared;
using trireme::cuda::Grid;
using trireme::cuda::grid_for;
using trireme::cuda::launch;

}  // namespace trireme::ops::cuda
